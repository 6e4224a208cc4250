"""A scheduler of the reader's on the kernel that runs here, and the kernel's own again when the time is up.

The scheduler rules over every ordinary thread of the machine, and a wrong one may give none of them a CPU.
So a parent keeps watch under SCHED_FIFO, a class above sched_ext, in which no such scheduler has a say.
Whatever becomes of the child that loads it, at the end the parent asks for the kernel's own scheduler by
SysRq-S (sysrq_handle_sched_ext_reset() in kernel/sched/ext.c), if that does not rule already.
The kernel's watchdog, which ends a scheduler that leaves a thread waiting for a second, is the second line.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import signal
import time
from pathlib import Path
from typing import Any

from ..core.errors import SchedLabError
from ..kernels.jobs import scheduler as job

STATE = Path("/sys/kernel/sched_ext/state")
_SYSRQ = Path("/proc/sysrq-trigger")
_PATIENCE_S = 5.0


def check() -> None:
    """SchedLabError where a scheduler cannot be tried on this kernel, or not by this user, or not now."""
    if not STATE.exists():
        raise SchedLabError(
            f"This kernel, {platform.release()}, takes no scheduler from a user: it has no sched_ext.",
            "Leave the option out: a guest has it.  (It is CONFIG_SCHED_CLASS_EXT, from Linux 6.12 on.)",
            lacking=True,
        )
    if os.geteuid():
        raise SchedLabError(
            "Only root may change the scheduler of a running kernel.",
            "Leave the option out, and it runs in a guest without root; or start the command with sudo.",
            lacking=True,
        )
    if not _SYSRQ.exists():
        raise SchedLabError(
            "This kernel has no SysRq, by which a scheduler could be ended for certain.",
            "Leave the option out: it runs in a guest.",
            lacking=True,
        )
    if (state := STATE.read_text().strip()) != "disabled":
        raise SchedLabError(
            f"This kernel has a scheduler of a user's already (sched_ext: {state}).", "End that one first."
        )


def guarded(
    arguments: list[str], timeout_s: float, library: str = job.LIBRARY, loaded: str = job.OBJECT
) -> dict[str, Any]:
    """What kernels.jobs.scheduler.trial returns on this kernel, or {"late": True} when the time was up.

    Raises what `check` raises, and a SchedLabError where the kernel's own scheduler does not come back.
    """
    check()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _load(arguments, library, loaded, writing)
    os.close(writing)
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        told = _read(reading, time.monotonic() + timeout_s)
    finally:
        os.kill(child, signal.SIGKILL)
        hand_back()
        os.waitpid(child, 0)
        os.sched_setscheduler(0, policy, priority)
        os.close(reading)
    if told is None:
        return {"late": True}
    found: dict[str, Any] = json.loads(told or b'{"error": "the program that loads schedulers broke"}')
    if "error" in found:
        raise SchedLabError(f"The scheduler could not be tried here: {found['error']}.")
    return found


def hand_back() -> None:
    """The kernel's own scheduler again.  SchedLabError if it does not come."""
    end = time.monotonic() + _PATIENCE_S
    asked = False
    while (state := STATE.read_text().strip()) != "disabled":
        if state != "disabling" and not asked:
            _SYSRQ.write_text("S")
            asked = True
        if time.monotonic() > end:
            raise SchedLabError(
                f"The kernel's own scheduler has not come back (sched_ext: {state}).",
                "echo S | sudo tee /proc/sysrq-trigger, or restart the machine.",
            )
        time.sleep(0.01)


def _load(arguments: list[str], library: str, loaded: str, writing: int) -> None:
    """In the child: loads it, runs the workload, writes what was found, and never returns."""
    try:
        job.LIBRARY, job.OBJECT = library, loaded  # in this process alone
        earlier = len(job._kernel_said())  # a guest's log begins with us, this one does not
        try:
            found = job.trial(arguments)
            for said in ("kernel", "refused"):
                old = job._kernel_said()[:earlier]
                found[said] = [line for line in found.get(said, []) if line not in old]
        except Exception as error:
            found = {"error": str(error)}
        with os.fdopen(writing, "w") as pipe:
            json.dump(found, pipe)
    finally:
        with contextlib.suppress(OSError):
            os._exit(0)


def _read(reading: int, until: float) -> bytes | None:
    """All that the child writes; None when it is not done in time."""
    told = b""
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(reading, 1 << 16)
        if not piece:
            return told
        told += piece
    return None
