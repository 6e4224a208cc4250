"""What a CPU does while it has nothing to do: what it has done, and two settings that keep it awake.

    with idling.awake():                  # no CPU of this machine halts: they poll
        ...
    with idling.polled_first(1_000_000):  # in a virtual machine: they poll for up to 1 ms before they halt
        ...

Both act on the whole machine, need root and cpuidle (the kernel's choice of idle states), and end with the
`with`, or with this process.  Read in 7.2: `cpuidle_idle_call()` in kernel/sched/idle.c asks a
governor; where no latency is allowed at all, every governor answers with state 0, which is POLL on x86
(drivers/cpuidle/poll_state.c).  Without cpuidle a CPU halts whatever is allowed, unless the kernel was
started with idle=poll.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import PlacementError
from ..machine import files
from . import knobs

_CPU = "/sys/devices/system/cpu"
_ALLOWED = "/dev/cpu_dma_latency"
_HALTPOLL = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
POLL = "POLL"  # the name of the idle state that polls, in every driver that has one


def spent_us(cpu: int) -> dict[str, int]:
    """How long a CPU has been in each of its idle states since boot; empty where the kernel does not tell."""
    folder = f"{_CPU}/cpu{cpu}/cpuidle"
    told = {files.read(f"{folder}/{s}/name"): files.number(f"{folder}/{s}/time") for s in files.names(folder)}
    return {name: us for name, us in told.items() if name and us is not None}


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """No CPU halts meanwhile.  PlacementError, which says why, where this user or machine cannot have it."""
    if files.read(f"{_CPU}/cpu0/cpuidle/state0/name") != POLL:
        raise PlacementError("Idle CPUs cannot be made to poll: cpuidle has no state for it.", lacking=True)
    try:
        descriptor = os.open(_ALLOWED, os.O_WRONLY)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise PlacementError(f"Idle CPUs cannot be made to poll: {_ALLOWED}: {why}.", lacking=True) from error
    try:
        os.write(descriptor, struct.pack("i", 0))  # as long as it is open, no latency is allowed
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def polled_first(ns: int) -> Iterator[None]:
    """Idle CPUs of this virtual machine poll for up to so long before they halt (1 to 10,000,000 ns).

    How long each does it learns from how long it was idle, so it takes some idle times of that length.
    PlacementError, which says why, where this user or machine cannot have that.
    """
    if files.read(f"{_CPU}/cpuidle/current_governor") != "haltpoll":
        raise PlacementError(
            "Idle CPUs cannot be made to poll before they halt: the idle governor is not haltpoll.",
            lacking=True,
        )
    with knobs.written(Path(_HALTPOLL), ns):
        yield
