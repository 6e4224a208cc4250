"""The clocks: the tick as it can be seen to tick, and what a look at the clock costs."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator

from . import files
from .facts import NOT_LOOKED, Fact, look
from .seen import Seen

# Python names neither; the numbers are Linux's (include/uapi/linux/time.h).
_MONOTONIC_COARSE = 6

_SOURCE = "/sys/devices/system/clocksource/clocksource0"


@look({"kernel.hz": "tick (HZ), measured", "kernel.hz_told": "tick (HZ) as the kernel tells it"})
def look_tick(seen: Seen) -> Iterator[Fact]:
    told = _told_hz(seen)
    if not seen.live:
        yield Fact("kernel.hz", None, "Hz", "", NOT_LOOKED)
    else:
        yield measured_hz(told.value if isinstance(told.value, int) else None)
    yield told


def _told_hz(seen: Seen) -> Fact:
    key = "kernel.hz_told"
    if seen.live:
        resolution = time.clock_getres(_MONOTONIC_COARSE)
        if resolution > 0:
            return Fact(key, round(1 / resolution), "Hz", "clock_getres(CLOCK_MONOTONIC_COARSE)")
    built = seen.config.get("HZ", "")
    if built.isdigit():
        return Fact(key, int(built), "Hz", seen.config_path or "")
    return Fact(key, None, "Hz", "", "neither a clock nor a configuration tells it")


def measured_hz(told: int | None, steps: int = 10, longest_s: float = 0.12) -> Fact:
    """Watch the coarse clock, which the tick moves on, until it has made `steps` steps; 1/step is HZ.

    The coarse clock moves by whole ticks, so that a tick which reaches us late does not bend the answer; the
    least step is one tick, also where we often lose the CPU and see several ticks at once. We spin meanwhile:
    an idle CPU would stop its tick. Where we never see a single tick there is no answer.
    """
    now = time.monotonic_ns
    coarse_steps: list[int] = []
    seen_at: list[int] = []
    end = now() + int(longest_s * 1e9)
    last = time.clock_gettime_ns(_MONOTONIC_COARSE)
    while len(coarse_steps) <= steps:
        coarse = time.clock_gettime_ns(_MONOTONIC_COARSE)
        if coarse != last:
            coarse_steps.append(coarse - last)
            seen_at.append(now())
            last = coarse
        elif now() > end:
            break
    source = "steps of CLOCK_MONOTONIC_COARSE"
    if len(coarse_steps) < 4:
        return Fact(
            "kernel.hz", None, "Hz", source, f"only {len(coarse_steps)} steps in {longest_s * 1e3:g} ms"
        )
    step_ns = min(coarse_steps)
    spacing_ns = statistics.median(b - a for a, b in itertools.pairwise(seen_at))
    hz = round(1e9 / step_ns)
    if told and (ticks := round(step_ns * told / 1e9)) > 1 and abs(step_ns * told / 1e9 - ticks) < 0.02:
        # Whole ticks of the length that the clock itself claims: somebody else had the CPU in between.
        why = f"no single tick was seen, {ticks} at once at the least: the machine is too busy"
        return Fact("kernel.hz", None, "Hz", source, why)
    remark = f"{len(coarse_steps)} steps of {step_ns / 1e6:.3f} ms, one seen every {spacing_ns / 1e6:.3f} ms"
    if told and abs(hz - told) > 0.02 * told:
        remark += f"; the kernel tells {told} Hz"
    return Fact("kernel.hz", hz, "Hz", source, remark)


@look(
    {
        "clock.source": "clock source",
        "clock.sources": "clock sources to choose from",
        "clock.read_ns": "cost of reading the counter behind the clock",
        "clock.read_python_ns": "cost of reading the clock from Python",
        "clock.high_resolution": "high-resolution timers",
    }
)
def look_clock(seen: Seen) -> Iterator[Fact]:
    source, why = files.look(f"{_SOURCE}/current_clocksource")
    yield Fact("clock.source", source, "", f"{_SOURCE}/current_clocksource", why)
    choice, why = files.look(f"{_SOURCE}/available_clocksource")
    yield Fact(
        "clock.sources", choice.split() if choice else None, "", f"{_SOURCE}/available_clocksource", why
    )
    if not seen.live:
        yield Fact("clock.read_ns", None, "ns", "", NOT_LOOKED)
        yield Fact("clock.read_python_ns", None, "ns", "", NOT_LOOKED)
        yield Fact("clock.high_resolution", None, "", "", NOT_LOOKED)
        return
    whole_ns, counter_ns = read_costs()
    yield Fact(
        "clock.read_ns",
        round(max(counter_ns, 0.0), 1),
        "ns",
        "CLOCK_MONOTONIC less CLOCK_MONOTONIC_COARSE, median of pairs of batches",
        "reading the counter only; a C program pays this and a few ns for the call",
    )
    remark = "an upper bound: most of it is the interpreter"
    yield Fact(
        "clock.read_python_ns",
        round(whole_ns, 1),
        "ns",
        "time.clock_gettime_ns, least of many batches",
        remark,
    )
    resolution_ns = time.clock_getres(time.CLOCK_MONOTONIC) * 1e9
    remark = f"clock_getres says {resolution_ns:g} ns"
    yield Fact("clock.high_resolution", resolution_ns < 1000, "", "clock_getres(CLOCK_MONOTONIC)", remark)


def read_costs(batches: int = 25, reads: int = 300) -> tuple[float, float]:
    """(cost of CLOCK_MONOTONIC, what of it reads the counter) in ns per read through Python.

    The coarse clock pays the same for interpreter and call, but reads no hardware counter, so that the
    difference is the counter's (where both are system calls, it still is). Batches alternate. Of the whole
    cost the least counts: whatever disturbs a batch only ever adds. Of the differences the median of pairs
    counts: one disturbed batch, or a CPU that changes its frequency between two, bends none but its own.
    """
    costs = []
    read = time.clock_gettime_ns
    for _ in range(batches):
        pair = []
        for clock in (time.CLOCK_MONOTONIC, _MONOTONIC_COARSE):
            begin = time.perf_counter_ns()
            for _ in range(reads):
                read(clock)
            pair.append((time.perf_counter_ns() - begin) / reads)
        costs.append(pair)
    return min(fine for fine, _ in costs), statistics.median(fine - coarse for fine, coarse in costs)


def counts_a_tick(label: str, what: str) -> bool:
    """Whether a row of /proc/interrupts, by its label and description, counts the CPUs' own timers.

    x86 has them in the row LOC, and a guest of Hyper-V in HVS; elsewhere they are devices by name, arch_timer
    on Arm, and in a guest of Xen -virq with timer0 and so on.
    """
    names = ("arch_timer", "riscv-timer", "-virq timer")
    return label in ("LOC", "HVS") or any(name in what for name in names)
