"""Claims about switching less: each judged on CONSTRUCTED summaries for every outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN
from sched_labs.probes import status as switches

Row = dict[str, Any]


def around(value: float, half: float) -> tuple[float, float, float]:
    """(median, low, high); half is a share of the median."""
    return value, value * (1 - half), value * (1 + half)


def lock(
    name: str,
    time: float = 100,
    switches: float = 1e-4,
    *,
    turn: float = 10,
    cpu: float = 100,
    voluntary: float = 1.0,
    half: float = 0.1,
) -> Row:
    row: Row = {"lock": name, "voluntary_share": voluntary}
    for stem, value in (
        ("ns{}_per_item", time),
        ("switches{}_per_item", switches),
        ("items{}_per_turn", turn),
        ("cpu{}_ns_per_item", cpu),
    ):
        for part, number in zip(("", "_lo", "_hi"), around(value, half), strict=True):
            row[stem.format(part)] = number
    return row


FIFO = lock("fifo", 3000, 1.0, turn=1)
LOCK_CASES: list[Case] = [
    ("001-007", HOLDS, [FIFO], "1 (first come, first served), interval 0.9 to 1.1"),
    ("001-007", FAILS, [lock("fifo", switches=0.001)], "0.001 (first come"),
    ("001-007", FAILS, [lock("fifo", switches=4.0)], "4 (first come"),
    ("001-007", UNKNOWN, [lock("fifo", switches=1.0, half=0.9)], "interval 0.1 to 1.9"),
    ("001-007", UNKNOWN, [lock("mutex")], "did not measure the lock 'first come"),
    ("001-013", HOLDS, [FIFO, lock("mutex", switches=0.9)], "0.9 (default mutex)"),
    ("001-013", FAILS, [FIFO, lock("mutex")], "0.0001 (default mutex)"),
    ("001-013", UNKNOWN, [lock("fifo", switches=1.0, half=0.95), lock("mutex")], "in this run, 0.05 to 1.9"),
    ("001-013", UNKNOWN, [FIFO, lock("mutex", switches=0.3)], "0.9 to 1.1 and 0.27 to 0.33, allow either"),
    ("001-013", UNKNOWN, [FIFO, lock("mutex", switches=0.55)], "0.9 to 1.1 and 0.5 to 0.61, allow either"),
    ("001-016", HOLDS, [FIFO, lock("try")], "a ratio of 30.0 (interval 24.5 to 36.7)"),
    ("001-016", FAILS, [FIFO, lock("try", 1000)], "a ratio of 3.0"),
    ("001-016", UNKNOWN, [FIFO, lock("try", 300)], "spans ten times"),
    ("001-015", HOLDS, [FIFO, lock("mutex", 2900), lock("try")], "and is no cure: 3 µs an item (first come"),
    ("001-015", FAILS, [FIFO, lock("mutex")], "never spins: 3 µs an item (first come"),
    ("001-015", UNKNOWN, [FIFO, lock("mutex", 1500)], "spans twice"),
    ("001-015", UNKNOWN, [FIFO, lock("mutex", 2900), lock("try", 2900)], "No clear cure, neither"),
    ("001-017", HOLDS, [FIFO, lock("try", turn=300)], "served), 300 (ten attempts first)"),
    ("001-017", FAILS, [FIFO, lock("try", turn=0.5)], "0.5 (ten attempts first)"),
    ("001-017", UNKNOWN, [FIFO, lock("try", turn=1.1)], "overlap, 0.9 to 1.1 and 0.99 to 1.2:"),
    ("001-019", HOLDS, [lock("spin", cpu=900), lock("mutex"), lock("fifo")], "900 ns (spinlock), 100 ns"),
    ("001-019", FAILS, [lock("spin", cpu=50), lock("mutex"), lock("fifo")], "50 ns (spinlock)"),
    ("001-019", FAILS, [lock("spin", cpu=900), lock("mutex"), lock("fifo", cpu=5000)],
     "spin: first come, first served. Less: default mutex."),
    ("001-019", UNKNOWN, [lock("spin", cpu=105), lock("mutex"), lock("fifo")], "94.5 ns to 116 ns, 90"),
    ("001-019", UNKNOWN, [lock("spin", cpu=np.nan), lock("mutex"), lock("fifo")], "overlap"),
    ("001-019", UNKNOWN, [lock("spin", cpu=900), lock("mutex")], "did not measure the lock"),
    ("001-020", HOLDS, [lock("spin", 50, 1e-6), lock("mutex")], "0.000001 and 50 ns (spinlock)"),
    ("001-020", FAILS, [lock("spin", 500, 1e-6), lock("mutex")], "0.0001 and 100 ns (default mutex)"),
    ("001-020", FAILS, [lock("try", 50, 1e-6), lock("spin", 500, 1e-5), lock("mutex")], "0.00001 and 500 ns"),
    ("001-020", UNKNOWN, [lock("spin", 105, 1e-6), lock("mutex")], "overlap: 94.5 ns to 116 ns and 90"),
    ("001-020", UNKNOWN, [lock("spin", 500, 1e-4), lock("mutex")], "overlap: 0.00009 to 0.00011 and"),
    ("001-020", UNKNOWN, [lock("try", 50, 1e-6), lock("spin", 500, 9.5e-5), lock("mutex")], "their switches"),
    ("001-020", UNKNOWN, [FIFO, lock("spin", 500, 9e-5, half=0.9), lock("mutex")], "their switches"),
    ("001-020", UNKNOWN, [lock("spin")], "fewer than two"),
    ("000-128", HOLDS, [FIFO, lock("mutex", switches=0.9)], "served), 0.9 (default mutex)"),
    ("000-128", FAILS, [FIFO, lock("mutex")], "0.0001 (default mutex)"),
    ("000-128", UNKNOWN, [FIFO, lock("mutex", switches=0.3)], "0.9 to 1.1, 0.27 to 0.33, allow either"),
    ("000-128", UNKNOWN, [lock("spin")], "no lock that blocks"),
    ("000-106", HOLDS, [lock("fifo", 3000, 1.0, voluntary=0.05), lock("mutex")], "5% of the convoy's"),
    ("000-106", FAILS, [lock("fifo", 100, 1.0, voluntary=0.05), lock("mutex")], "5% of the convoy's"),
    ("000-106", UNKNOWN, [lock("fifo", 3000, 1.0, voluntary=0.2), lock("mutex")], "many of either kind: 20%"),
    ("000-106", HOLDS, [lock("fifo", 100, 1.0), lock("mutex")], "a ratio of 1.0"),
    ("000-106", FAILS, [FIFO, lock("mutex")], "100% of the convoy's switches are voluntary"),
    ("000-106", UNKNOWN, [lock("fifo", 180, 1.0), lock("mutex")], "neither clearly below 1.5"),
    ("000-106", UNKNOWN, [lock("fifo"), lock("mutex")], "not sure that there was a convoy"),
]  # fmt: skip


def process(letter: str, truth: str, voluntary: float, involuntary: float, **more: float) -> Row:
    leader = more.get("leader", 1.0)
    return {
        "process": letter,
        "truth": truth,
        "threads": more.get("threads", 1),
        "voluntary_per_s": voluntary,
        "involuntary_per_s": involuntary,
        "leader_voluntary_per_s": leader * voluntary,
        "leader_involuntary_per_s": leader * involuntary,
    }


USUAL = [
    process("A", "I/O-bound", 500, 3),
    process("B", "CPU-contended", 0, 300),
    process("C", switches.BOTH, 40, 200),
]
YIELDER = process("D", "yielding", 0, 90_000)
PROCESS_CASES: list[Case] = [
    ("000-105", HOLDS, [*USUAL, process("E", "I/O-bound", 900, 1)], "all 4 processes as they are"),
    ("000-105", HOLDS, [*USUAL, process("E", "I/O-bound", 900, 1), process("D", switches.POOL, 90, 0)],
     "all 4 processes as they are"),
    ("000-105", FAILS, [*USUAL, YIELDER], "D looks CPU-contended and is yielding"),
    ("000-105", UNKNOWN, USUAL, "too few"),
    ("000-104", HOLDS, [process("E", "I/O-bound", 900, 1, threads=2, leader=0.95)], "leader of E makes 95%"),
    ("000-104", FAILS, [process("E", "I/O-bound", 900, 1, threads=2, leader=0.5)], "leader of E makes 50%"),
    ("000-104", FAILS, [process("E", "pool", 900, 1, threads=5, leader=0.0)], "leader of E makes 0%"),
    ("000-104", UNKNOWN, USUAL, "no process of several threads"),
]  # fmt: skip


def hop(by: str, time: float, kernel: float = 0.0, half: float = 0.1) -> Row:
    row: Row = {"by": by}
    for stem, value in (("ns{}_per_hop", time), ("kernel_switches{}_per_hop", kernel)):
        for part, number in zip(("", "_lo", "_hi"), around(value, half), strict=True):
            row[stem.format(part)] = number
    return row


HOP_CASES: list[Case] = [
    ("004-039", HOLDS, [hop("stack", 3), hop("pipe", 3000, 1)], "a stack switch 3 ns"),
    ("004-039", HOLDS, [hop("stack", 1.79)], "a stack switch 1.79 ns"),
    ("004-039", FAILS, [hop("stack", 3), hop("asyncio", 2000)],
     "asyncio 2 µs; like a call: a stack switch 3 ns."),
    ("004-039", UNKNOWN, [hop("stack", 10)], "span 10 ns"),
    ("004-039", UNKNOWN, [hop("pipe", 3000, 1)], "no coroutine"),
    ("000-066", HOLDS, [hop("go_1", 150, 1)], "in the kernel for each hop: 1 (a Go channel on 1 P)"),
    ("000-066", FAILS, [hop("go_1", 150, 0.001)], "0.001 (a Go channel on 1 P)"),
    ("000-066", UNKNOWN, [hop("go_1", 150, 0.1)], "spans 0.1"),
    ("000-066", UNKNOWN, [hop("stack", 3)], "did not measure a Go channel on 1 P"),
    ("003-015", HOLDS, [hop("go_1", 150, 0.001)], "0.001 (a Go channel on 1 P)"),
    ("003-015", FAILS, [hop("go_1", 150, 1)], "1 (a Go channel on 1 P)"),
    ("003-015", UNKNOWN, [hop("go_1", 150, 0.1)], "spans 0.1"),
    ("003-014", HOLDS, [hop("go_1", 150), hop("pipe", 3000)], "20.00 times (interval 16.36 to 24.44)"),
    ("003-014", FAILS, [hop("go_1", 1500), hop("pipe", 3000)], "2.00 times"),
    ("003-014", UNKNOWN, [hop("go_1", 430), hop("pipe", 3000)], "spans seven times"),
    ("000-136", HOLDS, [hop("asyncio", 2000, 1)], "1 (asyncio)"),
    ("000-136", FAILS, [hop("asyncio", 2000, 0.0004)], "0.0004 (asyncio)"),
    ("000-136", UNKNOWN, [hop("asyncio", 2000, 0.1)], "spans 0.1"),
]  # fmt: skip


KIB, MIB = 1 << 10, 1 << 20


def memory(
    vm: float = 8 * MIB,
    rss: float = 8 * KIB,
    kernel: float = 16 * KIB,
    *,
    stack: int = 8 * MIB,
    cpu: float = 0.001,
    threads: int = 2000,
    half: float = 0.01,
) -> Row:
    row: Row = {"stack_bytes": stack, "threads": threads, "cpu_share": cpu}
    for name, value in (("vm", vm), ("rss", rss), ("kernel_stack", kernel), ("lost", 30 * KIB)):
        for part, number in zip(("", "lo_", "hi_"), around(value, half), strict=True):
            row[f"{name}_{part}bytes_per_thread"] = number
    return row


def step(number: int, vm: float, rss: float, half: float = 0.01) -> Row:
    row: Row = {"step": number, "vm_bytes": vm * MIB, "asked_bytes": 400 * MIB}
    for part, value in zip(("rss_bytes", "rss_lo_bytes", "rss_hi_bytes"), around(rss, half), strict=True):
        row[part] = value * MIB
    return row


def started(
    time: float, bound: int = 32_600, hit: float = np.nan, half: float = 0.1, limit: str = "pid_max"
) -> Row:
    row: Row = {
        "what": "thread",
        "binding_limit": limit,
        "binding_threads": bound,
        "started_threads": hit,
    }
    for part, value in zip(("ns_each", "ns_lo_each", "ns_hi_each"), around(time, half), strict=True):
        row[part] = value
    return row


SMALL = memory(stack=64 * KIB)
THREAD_CASES: list[Case] = [
    ("003-018", HOLDS, [memory(), SMALL], "10,000 of them are 78 GiB and 78 MiB"),
    ("003-018", FAILS, [memory(vm=2 * MIB)], "2 MiB of addresses"),
    ("003-018", FAILS, [memory(rss=2 * MIB)], "2 MiB resident"),
    ("003-018", UNKNOWN, [memory(half=0.2)], "span a tenth"),
    ("003-018", UNKNOWN, [SMALL], "stacks of 8 MiB"),
    ("RES", HOLDS, [memory(kernel=0.5 * KIB)], "With stacks of 8 MiB, resident 8 KiB a thread"),
    ("RES", FAILS, [memory()], "and 16 KiB of kernel stack."),
    ("RES", UNKNOWN, [memory(kernel=3 * KIB)], "3 KiB"),
    ("RES", UNKNOWN, [SMALL], "stacks of 8 MiB"),
    ("003-020", HOLDS, [step(1, 400, 0.1), step(9, 400, 400)], "+400 MiB at once, resident +102 KiB"),
    ("003-020", FAILS, [step(1, 400, 400), step(9, 400, 400)], "resident +400 MiB"),
    ("003-020", UNKNOWN, [step(1, 400, 100), step(9, 400, 400)], "resident +100 MiB"),
    ("003-020", UNKNOWN, [step(1, 0, 0), step(9, 0, 400)], "had this memory already"),
    ("003-020", UNKNOWN, [step(1, 400, 0)], "did not touch all"),
    ("003-026", HOLDS, [started(10_000)], "10 µs to start one and see it end (interval 9 µs to 11 µs)"),
    ("003-026", FAILS, [started(90_000)], "90 µs to start one"),
    ("003-026", FAILS, [started(2_000)], "2 µs to start one"),
    ("003-026", UNKNOWN, [started(19_500)], "reaches past the factor of two"),
    ("003-022", HOLDS, [started(1, hit=32_348)], "32,348 could be started"),
    ("003-022", FAILS, [started(1, hit=9_000)], "9,000 could be started"),
    ("003-022", FAILS, [started(1, 4_000_000)], "pid_max, after about 4,000,000 more threads"),
    ("003-022", UNKNOWN, [started(1)], "that fits, and no limit was hit"),
    ("003-022", UNKNOWN, [started(1, 19_660, limit="memory, at 64 KiB a thread")], "may take less"),
]  # fmt: skip


def batch(
    events: int, wakeups: float, cpu: float = 5000, half: float = 0.1, period_ns: float = 100_000
) -> Row:
    row: Row = {"batch_events": events, "period_ns": period_ns}
    for stem, value in (("wakeups{}_per_event", wakeups), ("cpu_ns{}_per_event", cpu)):
        for part, number in zip(("", "_lo", "_hi"), around(value, half), strict=True):
            row[stem.format(part)] = number
    return row


def herd(by: str, switches: float, threads: int = 8, half: float = 0.1) -> Row:
    row: Row = {"by": by, "threads": threads}
    for part, number in zip(("", "_lo", "_hi"), around(switches, half), strict=True):
        row[f"switches{part}_per_event"] = number
    return row


def timer(
    by: str,
    bursts: float = 1.0,
    cpu: float = 5000,
    half: float = 0.1,
    late_ns: float = 20_000,
    period_ns: float = 1e7,
) -> Row:
    row: Row = {"by": by, "threads": 16, "period_ns": period_ns}
    for stem, value in (
        ("bursts{}_per_event", bursts),
        ("cpu_ns{}_per_event", cpu),
        ("late_p50{}_ns", late_ns),
    ):
        for part, number in zip(("", "_lo", "_hi"), around(value, half), strict=True):
            row[stem.format(part)] = number
    return row


EACH = [timer("own"), timer("together", cpu=2000)]
LARGE = batch(1000, 0.001, 10_000)


def dealt(way: str, busiest: float = 50, p99_ms: float = 1, empty: float = 0, switches: float = 1.0) -> Row:
    """One row of `dispatch.ways`, with intervals of a tenth around each number."""
    row: Row = {"way": way, "workers": 4, "busiest_percent": busiest}
    for stem, value in (
        ("busiest{}_percent", busiest),
        ("p99{}_ns", 1e6 * p99_ms),
        ("empty{}_per_request", empty),
        ("switches{}_per_request", switches),
    ):
        for part, number in zip(("", "_lo", "_hi"), around(value, 0.1), strict=True):
            row[stem.format(part)] = number
    return row


DEALT_CASES = [
    (
        "exclusive-even",
        HOLDS,
        [dealt("exclusive", 27), dealt("reuseport")],
        "the busiest of 4 workers had 27 %",
    ),
    (
        "exclusive-even",
        FAILS,
        [dealt("exclusive", 60), dealt("reuseport")],
        "the busiest of 4 workers had 60 %",
    ),
    ("exclusive-even", UNKNOWN, [dealt("exclusive", 37), dealt("reuseport")], "had 37 %"),
    ("exclusive-even", UNKNOWN, [dealt("exclusive", 65) | {"workers": 2}, dealt("reuseport")], "to 64.3 %"),
    ("exclusive-even", UNKNOWN, [dealt("exclusive") | {"workers": 1}, dealt("reuseport")], "one worker only"),
    (
        "reuseport-even",
        HOLDS,
        [dealt("exclusive"), dealt("reuseport", 27)],
        "the busiest of 4 workers had 27 %",
    ),
    (
        "reuseport-even",
        FAILS,
        [dealt("exclusive"), dealt("reuseport", 60)],
        "the busiest of 4 workers had 60 %",
    ),
    ("reuseport-even", UNKNOWN, [dealt("reuseport", 27)], "did not measure"),
    ("even-quick", HOLDS, [dealt("reuseport", 27), dealt("exclusive", p99_ms=5)], "took 1 ms or more"),
    ("even-quick", FAILS, [dealt("reuseport", 27, 5), dealt("exclusive")], "took 5 ms or more"),
    ("even-quick", UNKNOWN, [dealt("reuseport", 27), dealt("exclusive")], "either (0.82 to 1.2 times"),
    ("even-quick", UNKNOWN, [dealt("reuseport", p99_ms=5), dealt("exclusive")], "and 45 to 55): one"),
    ("shared-one", HOLDS, [dealt("shared"), dealt("reuseport")], "each request: 1 from one epoll"),
    (
        "shared-one",
        FAILS,
        [dealt("shared", switches=3), dealt("reuseport")],
        "each request: 3 from one epoll",
    ),
    ("shared-one", UNKNOWN, [dealt("shared", switches=1.5), dealt("reuseport")], "(1.4 to 1.7 and 0.9 to"),
    ("shared-one", UNKNOWN, [dealt("shared") | {"workers": 1}, dealt("reuseport")], "one worker only"),
]


def waited(situation: str, lock: str, p90_ms: float = 0.2, lock_ns: float = 20, half: float = 0.1) -> Row:
    """One row of `inversion.waits`, with intervals of a tenth around each number."""
    row: Row = {"situation": situation, "lock": lock, "hogs_percent": 90.0}
    for stem, value in (("p90{}_ns", 1e6 * p90_ms), ("lock{}_ns", lock_ns)):
        for part, number in zip(("", "_lo", "_hi"), around(value, half), strict=True):
            row[stem.format(part)] = number
    return row


CONTROL = waited("no hog", "mutex")
WAITED_CASES: list[Case] = [
    ("fifo-first", HOLDS, [CONTROL, waited("nice", "mutex")], "took 200 µs or more for a nice holder"),
    ("fifo-first", FAILS, [CONTROL, waited("nice", "mutex", 9)],
     "took 9 ms or more for a nice holder beside a hog, 200 µs without a hog"),
    ("fifo-first", UNKNOWN, [CONTROL, waited("nice", "mutex", 9) | {"hogs_percent": 9.0}], "less than half"),
    ("fifo-first", UNKNOWN, [CONTROL, waited("nice", "mutex", 0.3)], "allow either, 1.2 to 1.8 times"),
    ("fifo-first", UNKNOWN, [waited("ordinary", "mutex")], "did not measure a real-time thread"),
    ("fifo-first", UNKNOWN, [CONTROL, waited("nice", "mutex", half=np.inf)], "One trial says nothing"),
    ("nice-holder", HOLDS, [waited("hog", "mutex", 3), waited("nice", "mutex", 3)], "took 3 ms or more"),
    ("nice-holder", FAILS, [waited("hog", "mutex", 3), waited("nice", "mutex", 20)], "took 20 ms or more"),
    ("nice-holder", UNKNOWN, [waited("hog", "mutex", 3), waited("nice", "mutex", 4.5)], "allow either"),
    ("inherit-bounds", HOLDS, [CONTROL, waited("nice", "mutex", 9), waited("nice", "inherit")],
     "took 200 µs or more with inheritance"),
    ("inherit-bounds", FAILS, [CONTROL, waited("nice", "mutex", 9), waited("nice", "inherit", 9)],
     "took 9 ms or more with inheritance, for a nice holder beside a hog, 200 µs under"),
    ("inherit-bounds", UNKNOWN, [CONTROL, waited("nice", "mutex", 9), waited("nice", "inherit", 0.3)],
     "allow either"),
    ("inherit-bounds", UNKNOWN, [CONTROL, waited("nice", "mutex"), waited("nice", "inherit")],
     "There was no inversion"),
    ("inherit-bounds", UNKNOWN, [CONTROL, waited("nice", "mutex", 9, half=0.99), waited("nice", "inherit")],
     "Whether there was an inversion is open"),
    ("inherit-weight", HOLDS, [waited("ordinary", "mutex", 9), waited("ordinary", "inherit", 1)],
     "took 1 ms or more with inheritance"),
    ("inherit-weight", FAILS, [waited("ordinary", "mutex", 9), waited("ordinary", "inherit", 9)],
     "took 9 ms or more with inheritance"),
    ("inherit-weight", UNKNOWN, [waited("ordinary", "mutex", 9), waited("ordinary", "inherit", 6)],
     "allow either"),
    ("inherit-weight", UNKNOWN,
     [waited("ordinary", "mutex") | {"hogs_percent": 9.0}, waited("ordinary", "inherit")],
     "had the CPU for 9 % of that waiting only"),
    ("inherit-dear", HOLDS, [CONTROL, waited("no hog", "inherit", lock_ns=900)], "900 ns with inheritance"),
    ("inherit-dear", FAILS, [CONTROL, waited("no hog", "inherit", lock_ns=22)],
     "22 ns with inheritance, 20 ns with an ordinary mutex (no hog)."),
    ("inherit-dear", UNKNOWN, [CONTROL, waited("no hog", "inherit", lock_ns=40)], "spans twice"),
]  # fmt: skip


def stopped(
    situation: str,
    p90_ms: float = 4,
    half: float = 0.1,
    throttled: float = 100,
    lost: float = 1,
    needed: float = 80,
) -> Row:
    """One row of `holder.waits`, with an interval of a tenth around its number."""
    row: Row = {"situation": situation, "stopped_percent": lost, "throttled_percent": throttled}
    row["needed_percent"] = needed
    for part, number in zip(("", "_lo", "_hi"), around(1e6 * p90_ms, half), strict=True):
        row[f"p90{part}_ns"] = number
    return row


LIMITED = [stopped("mutex"), stopped("mutex, quota", 90, lost=85)]
MENDED = [stopped("mutex"), stopped("mutex, quota", 4)]
OPEN = [stopped("mutex"), stopped("mutex, quota", 12)]
QUOTA_CASES: list[Case] = [
    ("quota-others", HOLDS, MENDED, "took 4 ms or more with a quota on the holder, 4 ms without"),
    ("quota-others", FAILS, LIMITED, "took 90 ms or more with a quota on the holder, 4 ms without"),
    ("quota-others", UNKNOWN, OPEN, "allow either (2.45 to 3.67 times)"),
    ("quota-others", UNKNOWN, [stopped("mutex"), stopped("mutex, quota", 90, np.inf)], "One trial says"),
    ("quota-others", UNKNOWN, [stopped("mutex"), stopped("mutex, quota", throttled=0)], "never throttled"),
    ("quota-others", UNKNOWN, [stopped("mutex")], "did not measure"),
    ("quota-file", HOLDS, [stopped("file"), stopped("file, quota", 6)], "took 6 ms or more"),
    ("quota-file", FAILS, [stopped("file"), stopped("file, quota", 90, lost=85)], "took 90 ms or more"),
    # A write() that needs more CPU time under a quota keeps its lock for longer, and not for want of a CPU.
    ("quota-file", UNKNOWN, [stopped("file"), stopped("file, quota", 20, lost=0)], "for want of a CPU"),
    ("quota-file", UNKNOWN, [stopped("file"), stopped("file, quota", 12)], "allow either"),
    ("quota-file", UNKNOWN, [stopped("file"), stopped("file, quota", lost=60)], "one wait in ten was long"),
    ("quota-file", UNKNOWN, LIMITED, "did not measure"),
    ("quota-priority", HOLDS, [*LIMITED, stopped("inherit, quota", 90)], "Only a wait 3 times as"),
    ("quota-priority", FAILS, [*LIMITED, stopped("inherit, quota")], "took 4 ms or more with inheritance"),
    ("quota-priority", UNKNOWN, [*LIMITED, stopped("inherit, quota", 30)], "allow either"),
    ("quota-priority", UNKNOWN, [*MENDED, stopped("inherit, quota")], "There was nothing to mend"),
    ("quota-priority", UNKNOWN, [*OPEN, stopped("inherit, quota")], "to mend is open (2.45 to 3.67 times)"),
    ("quota-burst", HOLDS, [*LIMITED, stopped("mutex, quota + burst")], "took 4 ms or more with a burst"),
    ("quota-burst", FAILS, [*LIMITED, stopped("mutex, quota + burst", 90)], "took 90 ms or more with a"),
    ("quota-burst", UNKNOWN, [*LIMITED, stopped("mutex, quota + burst", 90, needed=104)], "up to 104 % of"),
    ("quota-burst", UNKNOWN, [*LIMITED, stopped("mutex, quota + burst", 12)], "allow either"),
    ("quota-burst", UNKNOWN, [*MENDED, stopped("mutex, quota + burst")], "There was nothing to mend"),
    ("quota-burst", UNKNOWN, [*OPEN, stopped("mutex, quota + burst")], "anything to mend is open"),
]  # fmt: skip
WAKING_CASES: list[Case] = [
    ("000-092", HOLDS, [batch(1, 1), batch(1000, 0.001)], "1,000 times fewer (interval 818 to 1,222)"),
    ("000-092", HOLDS, [batch(1, 0.988), batch(1000, 0.001)], "from 0.988 to 0.001: 988 times fewer"),
    ("000-092", FAILS, [batch(1, 1), batch(1000, 0.01)], "100 times fewer"),
    ("000-092", UNKNOWN, [batch(1, 1), batch(1000, 0.002)], "factor of two"),
    ("000-092", UNKNOWN, [batch(1, 0.1), batch(1000, 0.001)], "The worker was late for most events"),
    ("000-092", UNKNOWN, [batch(1, 1), batch(1000, 0)], "nothing woke the worker"),
    ("000-092", UNKNOWN, [batch(1, 1)], "one batch size only"),
    ("000-091", UNKNOWN, [batch(1, 1, 30_000), LARGE], "not surely by switching alone: 30 µs of CPU time"),
    ("000-091", FAILS, [batch(1, 1, 13_000), LARGE], "13 µs of CPU time an event in batches of 1, on a CPU"),
    ("000-091", UNKNOWN, [batch(1, 1, 20_000), LARGE], "1,000 (interval of the difference 7 µs to 13 µs)"),
    ("000-091", UNKNOWN, [batch(1, 1, 20_000), LARGE], "reach across (the work's is 9 µs to 11 µs)"),
    ("000-091", UNKNOWN, [batch(1, 1, 20_000), batch(1000, 0.001)], "was not about 10 µs"),
    ("000-091", UNKNOWN, [batch(1, 1, 30_000, period_ns=1e6), LARGE], "were 1,000 wake-ups a second, not"),
    ("exclusive", HOLDS, [herd("exclusive", 1.1)], "with the flag: 1.1. Up to two count as one"),
    ("exclusive", FAILS, [herd("exclusive", 8)], "with the flag: 8"),
    ("exclusive", UNKNOWN, [herd("exclusive", 2)], "two switches (1.8 to 2.2): Switches"),
    ("exclusive", UNKNOWN, [herd("exclusive", 1, threads=2)], "Too few"),
    ("000-086", UNKNOWN, [herd("own", 8)], "up to two (7.2 to 8.8), and with one waiter"),
    ("000-086", FAILS, [herd("own", 1)], "a source of its own: 1"),
    ("000-086", UNKNOWN, [herd("own", 2)], "(1.8 to 2.2), and with one waiter for each source more"),
    ("000-086", UNKNOWN, [herd("own", 1, threads=1)], "Too few"),
    ("000-063", HOLDS, [timer("own", 0.07)], "after 0.1 ms of quiet 0.07 times an event"),
    ("000-063", UNKNOWN, [timer("own", 0.01, late_ns=5e7)], "a tick of 10 ms explains (45 ms to 55 ms)"),
    ("000-063", UNKNOWN, [timer("own", 0.07, period_ns=1e6)], "lie 62.5 µs apart, too close to tell: 16"),
    ("000-063", FAILS, [timer("own", 0.96)], "an event, and served half of the events within 20 µs"),
    ("000-063", UNKNOWN, [timer("own", 0.63, late_ns=500_000)], "of a tick of 1 ms (450 µs to 550 µs)"),
    ("000-063", UNKNOWN, [timer("own", 0.3)], "one for all (0.27 to 0.33): 16 threads"),
    ("aligned", HOLDS, [*EACH, timer("one", cpu=1000)], "and 2 µs at the same times, one timer 1 µs"),
    ("aligned", FAILS, [*EACH, timer("one", cpu=9000)], "one timer 9 µs"),
    ("aligned", UNKNOWN, [*EACH, timer("one", cpu=2000)], "1.8 µs to 2.2 µs at the same times. CPU"),
    ("aligned", UNKNOWN, [timer("own"), timer("one", cpu=1000)], "did not measure 'together'"),
]  # fmt: skip


def server(
    by: str,
    switches: float,
    cpu: float = 5000,
    *,
    rate: int = 2000,
    half: float = 0.1,
    voluntary: float = 1,
    connections: int = 100,
) -> Row:
    row: Row = {"by": by, "connections": connections, "rate_per_s": rate, "requests_per_wait": 1 / switches}
    for part, number in zip(("", "_lo", "_hi"), around(voluntary, half / 100), strict=True):
        row[f"voluntary{part}_share"] = number
    for stem, value in (("switches{}_per_request", switches), ("cpu_ns{}_per_request", cpu)):
        for part, number in zip(("", "_lo", "_hi"), around(value, half), strict=True):
            row[stem.format(part)] = number
    return row


def crowd(loop: float, threads: float) -> list[Row]:
    return [server(by, 1, cpu, connections=10_000) for by, cpu in (("loop", loop), ("threads", threads))]


BUSY = server("loop", 0.2, rate=50_000)
CONNECTION_CASES: list[Case] = [
    ("000-089", HOLDS, [server("loop", 0.01)], "up to 0.01 switches a request (100 connections, 2,000"),
    ("000-089", FAILS, [server("loop", 1), BUSY], "up to 1.00 switches a request"),
    ("000-089", UNKNOWN, [BUSY], "none is clearly above 0.5: up to 0.20"),
    ("000-089", UNKNOWN, [server("threads", 2)], "did not measure the event loop"),
    ("000-084", HOLDS, [server("loop", 1, 30_000, rate=20_000)], "1.00 wake-ups a request at 100"),
    ("000-084", UNKNOWN, [server("loop", 1)], "not under load: it used 1% of its CPU at the most. 1.00"),
    ("000-084", FAILS, [server("loop", 1), BUSY], "0.20 wake-ups a request at 100 connections"),
    ("000-084", FAILS, [server("loop", 0.7)], "0.70 wake-ups"),
    ("000-084", FAILS, [server("loop", 1, voluntary=0.6)], "0.60 wake-ups"),
    ("000-084", UNKNOWN, [server("loop", 0.8)], "requests/s), spans 0.8, and none"),
    ("000-084", UNKNOWN, [server("loop", 0.9, half=0.05), server("loop", 1, half=0.4)], "0.60 to 1.41 (100"),
    ("000-084", UNKNOWN, [server("threads", 2)], "did not measure the event loop"),
    ("000-098", HOLDS, [server("loop", 1), BUSY], "At the least, 100.0% of the loop's switches"),
    ("000-098", FAILS, [server("loop", 1), server("loop", 0.2, voluntary=0.9)], "At the least, 90.0%"),
    ("000-098", UNKNOWN, [server("loop", 1, voluntary=0.99)], "from 98.90% on (100 connections, 2,000"),
    ("000-098", UNKNOWN, [server("threads", 2)], "no switches of the event loop"),
    ("000-095", HOLDS, crowd(5000, 19_000), "19 µs a request, 5 µs by one thread at 10,000 connections"),
    ("000-095", FAILS, crowd(5000, 6000), "6 µs a request"),
    ("000-095", UNKNOWN, crowd(5000, 10_000), "as much (1.6 to 2.4 times)"),
    ("000-095", UNKNOWN, [server("loop", 1), server("threads", 2)], "no point with 10,000"),
    ("loop", HOLDS, [server("loop", 1), server("threads", 2, 9000)], "5 µs (4.5 µs to 5.5 µs) and 9 µs"),
    ("loop", FAILS, [server("loop", 1, 9000), server("threads", 2)], "9.9 µs) and 5 µs (4.5 µs"),
    ("loop", UNKNOWN, [server("loop", 1), server("threads", 2)], "at points where they do: 5 µs (4.5 µs to"),
    ("loop", UNKNOWN, [BUSY, server("threads", 2)], "no point both ways"),
]  # fmt: skip

CASES = [
    *LOCK_CASES,
    *PROCESS_CASES,
    *HOP_CASES,
    *THREAD_CASES,
    *WAKING_CASES,
    *DEALT_CASES,
    *WAITED_CASES,
    *QUOTA_CASES,
    *CONNECTION_CASES,
]
