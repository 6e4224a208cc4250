"""Every instruction of one hand-over between two threads, as a real kernel executes it under QEMU.

QEMU is told in the middle of a ping-pong to execute instruction by instruction and to log each one's
address; a second guest with the same kernel (without address randomisation) tells the functions that these
addresses lie in.
"""

from __future__ import annotations

import bisect
import re
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest import mock

from ... import kernels
from ...core.errors import ProbeError
from ...kernels import qemu

KERNEL = "6.12"
_ADDRESS = re.compile(r"\[[0-9a-f]+/([0-9a-f]+)/")
_JOBS = "sched_labs.kernels.jobs.trace"
_LOGGED_S = 1.0


def switch() -> tuple[dict[str, Any], str]:
    """One hand-over by pipe on one CPU, from user code to user code.

    {"threads": [[step, function, instructions], ...], "processes": ...} in the order of execution.  The
    steps: enter (into the kernel and out of it), write, wake, choose (who is next), space (the address
    space), swap (stacks and registers), state (vector registers, thread-local storage), finish, read.
    """
    found, kernel = {}, ""
    for between in ("threads", "processes"):
        calls, kernel = _hand_over(between)
        found[between] = _steps(calls)
    return found, kernel


def _hand_over(between: str) -> tuple[list[list[Any]], str]:
    words = ["--by", "pipe", "--between", between, "--round-trips", "40", "--trials", "5000"]
    with tempfile.TemporaryDirectory() as folder:
        monitor, log = f"{folder}/monitor", f"{folder}/log"

        def listen() -> None:
            _tell(monitor, "stop", "singlestep on", "log exec,nochain", "cont")
            time.sleep(_LOGGED_S)
            _tell(monitor, "stop", "log none", "singlestep off", "cont")

        begun: list[float] = []

        def follow(text: str, share: float | None) -> None:
            begun.append(time.monotonic())
            if text.endswith(
                "is up"
            ):  # Python and the workload start in less than half of the time of a boot
                threading.Timer(0.5 * (begun[-1] - begun[-2]), listen).start()

        plain = qemu.command
        watched = ["-monitor", f"unix:{monitor},server,nowait", "-D", log]
        with mock.patch.object(qemu, "command", lambda *given: plain(*given) + watched):
            answer = kernels.run(
                KERNEL,
                f"{_JOBS}:record",
                {"workload": "pingpong", "words": words, "events": []},
                timing="deterministic",
                native=["pingpong"],
                modules=[_JOBS],
                progress=follow,
            )
        addresses = [int(match, 16) for match in _ADDRESS.findall(Path(log).read_text())]
    names = _functions(addresses)
    calls = [[name, len(list(group))] for name, group in groupby(names)]
    return _most_usual(calls), f"Linux {answer.kernel.upstream} (Debian)"


def _tell(monitor: str, *words: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(monitor)
        for word in words:
            time.sleep(0.1)
            line.sendall(word.encode() + b"\n")
        time.sleep(0.1)


def _functions(addresses: Sequence[int]) -> list[str]:
    kernel = sorted({address for address in addresses if address >> 63})
    answer = kernels.run(
        KERNEL, f"{_JOBS}:functions", {"addresses": kernel}, append="nokaslr", modules=[_JOBS]
    )
    starts, names = zip(*sorted((start, name) for name, start in answer.value.items()), strict=True)
    return [names[bisect.bisect_right(starts, a) - 1] if a >> 63 else "user" for a in addresses]


def _most_usual(calls: list[list[Any]]) -> list[list[Any]]:
    """The commonest hand-over: from the program's last step before a switch to its first one after it."""
    swaps = [n for n, (name, _) in enumerate(calls) if name == "__switch_to_asm"]
    user = [n for n, (name, _) in enumerate(calls) if name == "user"]
    found: dict[tuple[tuple[str, int], ...], int] = {}
    for swap in swaps:
        before, after = bisect.bisect(user, swap) - 1, bisect.bisect(user, swap)
        if before < 0 or after == len(user):
            continue
        kernel = tuple((str(name), int(n)) for name, n in calls[user[before] + 1 : user[after]])
        # Handed over by a write that wakes the partner, without a tick in between.
        if any(name == "try_to_wake_up" for name, _ in kernel) and not any(
            "timer" in name for name, _ in kernel
        ):
            found[kernel] = found.get(kernel, 0) + 1
    if not found:
        raise ProbeError("No hand-over was logged.", "Log for longer.")
    best = max(found, key=lambda each: found[each])
    return [[name, n] for name, n in best]


_ENTERING = re.compile(
    "entry_|do_syscall_64|x64_sys_call|syscall_|arch_exit_to_user|fpregs_|switch_fpu_return|restore_fpregs"
)
_SPACE = re.compile("switch_mm|switch_ldt|cr4_update|invalidate_user_asid|load_new_mm")


def _steps(calls: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The step that each stretch of a function belongs to, by where it stands in the hand-over."""
    names = [name for name, _ in calls]
    wake = names.index("__wake_up_sync_key"), len(names) - 1 - names[::-1].index("__wake_up_sync_key")
    swap = names.index("__switch_to_asm")
    choose = max(n for n in range(swap) if names[n] == "schedule")
    finish = names.index("finish_task_switch.isra.0")
    back = names.index("schedule", finish)  # where the partner had given way
    leave = max(n for n, name in enumerate(names) if name == "ksys_read")
    rows = []
    for n, (name, instructions) in enumerate(calls):
        if n > leave or (n < choose and _ENTERING.match(name)):
            step = "enter"
        elif n < choose:
            # The kernel wakes with the queue's lock held, and some of it once more on the way back.
            step = "wake" if wake[0] <= n <= wake[1] else "write"
        elif n < swap:
            step = "space" if _SPACE.match(name) else "choose"
        elif n == swap:
            step = "swap"
        elif n < finish:
            step = "state"
        else:
            step = "finish" if n <= back else "read"
        rows.append([step, name.partition(".")[0], instructions])
    return rows
