"""Claims about where threads run: each judged on CONSTRUCTED summaries for every outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN

Row = dict[str, Any]
KIB, MIB = 1 << 10, 1 << 20


def spread(name: str, value: float, half: float) -> Row:
    """Median and interval under the names of a summary; half is a share of the median."""
    stem, unit = name.rsplit("_", 1)
    return {
        name: value,
        f"{stem}_lo_{unit}": value - abs(value) * half,
        f"{stem}_hi_{unit}": value + abs(value) * half,
    }


def move(
    far: str = "same_cache",
    kib: int = 64,
    *,
    ratio: float = 8.0,
    warmup: float = 10_000,
    stay: float = 4_000,
    cost: float = 500_000,
    wait: float = 20_000,
    half: float = 0.1,
    flagged: bool = False,
    touch: str = "writes",
) -> Row:
    return (
        {"touch": touch, "distance": far, "working_set_bytes": kib * KIB, "stay_ns": stay, "floor_ns": 100.0}
        | {"wait_ns": wait, "flagged": flagged}
        | spread("resume_ratio", ratio, half)
        | spread("warmup_ns", warmup, half)
        | spread("cost_ns", cost, half)
    )


SAME = move("same_cpu")
MOVE_CASES: list[Case] = [
    ("000-116", HOLDS, [SAME, move(), move("other_node", ratio=30)], "8 times (interval 7.2 to 8.8)"),
    ("000-116", FAILS, [move(ratio=20, kib=16), move(ratio=8)], "20 times (interval 18 to 22) with 16 KiB"),
    ("000-116", FAILS, [move(), move("smt_sibling", ratio=8)], "the sibling, said 2: 8"),
    ("000-116", UNKNOWN, [move(ratio=15, half=0.3)], "half or twice what is said: to another"),
    # The set that decides is quoted, and not the two that lie around it.
    (
        "000-116",
        UNKNOWN,
        [move(ratio=5, kib=16, half=0.02), move(ratio=9, half=0.9), move(ratio=15, kib=256, half=0.02)],
        "said 8: 9 times (interval 0.9 to 17.1) with 64 KiB.",
    ),
    ("000-116", UNKNOWN, [SAME], "moved nothing"),
    ("000-116", UNKNOWN, [move("other_cpu")], "does not tell how far apart"),
    ("000-116", UNKNOWN, [move(ratio=400, wait=2e6)], "waited 2 ms for the CPU"),
    ("000-116", UNKNOWN, [move(flagged=True)], "not moved as often"),
    ("000-116", UNKNOWN, [move(touch="reads")], "moved nothing"),
    ("000-087-move", HOLDS, [move()], "64 KiB takes 10 µs more after a move"),
    ("000-087-move", FAILS, [move(warmup=100), move(warmup=-200)], "takes 100 ns more"),
    ("000-087-move", UNKNOWN, [move(warmup=400, half=0.3)], "Neither clearly cold nor clearly warm"),
    ("000-087-move", UNKNOWN, [move(warmup=10_000, half=1.0)], "Neither"),
    ("000-087-move", UNKNOWN, [move("smt_sibling")], "the same caches"),
    ("migration-cost", HOLDS, [move(warmup=5e5), move(kib=1024, warmup=6e5)], "KiB and 600 µs (interval"),
    ("migration-cost", FAILS, [move(warmup=50_000), move(kib=4096, warmup=600_000)], "cost 50 µs (interval"),
    ("migration-cost", FAILS, [move(warmup=5e6)], "cost 5 ms"),
    ("migration-cost", UNKNOWN, [move(warmup=260_000)], "half or twice what is said: to another core"),
    (
        "migration-cost",
        UNKNOWN,
        [move(warmup=3e5, kib=16, half=0.1), move(warmup=65e4, half=0.7), move(warmup=8e5, kib=256, half=0)],
        "cost 650 µs (interval 195 µs to 1.1 ms) with 64 KiB.",
    ),
    ("migration-cost", UNKNOWN, [move(warmup=5e6, wait=4e6)], "waited 4 ms for the CPU."),
    ("migration-cost", UNKNOWN, [move("smt_sibling", warmup=900)], "the sibling only"),
    ("migration-cost", HOLDS, [move("smt_sibling", warmup=900), move("other_cache", warmup=5e5)], "cost 500"),
]  # fmt: skip


def hand_over(place: str, trip: float, by: str = "pipe", *, moves: float = 0.0, half: float = 0.05) -> Row:
    return {
        "mechanism": by, "between": "threads", "placement": place, "round_trip_ns": trip,
        "round_trip_lo_ns": trip * (1 - half), "round_trip_hi_ns": trip * (1 + half),
        "migrations_per_1000": moves,
    }  # fmt: skip


ONE = hand_over("same_cpu", 5000)
FUTEX = (("same_cpu", 5000), ("unpinned", 9_200))
TURN_CASES: list[Case] = [
    ("000-097-turn", HOLDS, [ONE, hand_over("unpinned", 6000, moves=12)], "12 when free. That is what a pin"),
    ("000-097-turn", FAILS, [hand_over("other_cpu", 1, moves=3), hand_over("unpinned", 1)], "at most 3"),
    ("000-097-turn", UNKNOWN, [ONE], "does not have both"),
    ("004-022", HOLDS, [ONE, hand_over("unpinned", 11_000)], "saves 54.5% (49.8% to 58.9%: pipe, threads)"),
    ("004-022", FAILS, [ONE, hand_over("unpinned", 5000)], "(-10.5% to 9.5%: pipe, threads): less in"),
    ("004-022", FAILS, [ONE, hand_over("unpinned", 50_000)], "90.0% (88.9% to 91.0%: pipe, threads): more"),
    (
        "004-022",
        FAILS,
        [ONE, hand_over("unpinned", 50_000), *(hand_over(*at, "futex") for at in FUTEX)],
        "45.7% (39.9% to 50.8%: futex, threads): more in 1 of 2.",
    ),
    ("004-022", UNKNOWN, [ONE, hand_over("unpinned", 9_200)], "saves 45.7%"),
    ("004-022", UNKNOWN, [ONE], "did not measure the placement unpinned"),
    ("004-022", UNKNOWN, [hand_over(place, 1, "eventfd") for place in ("same_cpu", "unpinned")], "neither"),
    ("004-024", HOLDS, [ONE, hand_over("other_cpu", 6000), hand_over("unpinned", 9000, moves=900)], "1.2"),
    ("004-024", UNKNOWN, [ONE, hand_over("other_cpu", 6000), hand_over("unpinned", 9000)], "made 0 moves in"),
    ("004-024", UNKNOWN, [ONE, hand_over("other_cpu", 6000), hand_over("unpinned", 6000)], "not clearly"),
    ("004-024", UNKNOWN, [ONE, hand_over("other_cpu", 6000)], "the placement unpinned"),
    ("004-024", FAILS, [ONE, hand_over("other_cpu", 60_000)], "with wake-ups, of threads, takes 12 times"),
    ("004-024", UNKNOWN, [ONE, hand_over("other_cpu", 12_000)], "As little as 6.15 µs more may be cache"),
    ("004-024", UNKNOWN, [ONE, hand_over("other_cpu", 7500)], "The intervals, 1.36 to 1.66 times, span half"),
    ("004-024", UNKNOWN, [ONE, hand_over("other_cpu", 60_000, moves=1)], "moved all the same"),
    ("004-024", UNKNOWN, [ONE], "the placement other cpu"),
    ("004-024", UNKNOWN, [ONE, hand_over("other_cpu", 60_000, "futex")], "no mechanism in both"),
]  # fmt: skip


def pair(speed: float, name: str = "alu_alu", place: str = "siblings", half: float = 0.01) -> Row:
    work = name.partition("_")[0]
    return {"pair": name, "placement": place, "work": work, "switches_per_s": 1.0} | spread(
        "speed_share", speed, half
    )


CORES = pair(1.0, place="cores")
PAIR_CASES: list[Case] = [
    ("000-001", HOLDS, [CORES, pair(0.99)], "99% (alu in alu and alu, interval 98% to 100%)"),
    ("000-001", FAILS, [CORES, pair(0.6)], "60% (alu in alu and alu, interval"),
    ("000-001", UNKNOWN, [CORES, pair(0.95)], "spans 95%"),
    ("000-001", UNKNOWN, [CORES], "no two CPUs that are threads"),
    ("000-001", UNKNOWN, [pair(0.6, "memory_memory")], "only compute"),
    ("004-004", HOLDS, [pair(1.0, half=0.005), pair(0.99, "memory_memory", half=0.005)], "100% (alu"),
    ("004-004", FAILS, [pair(1.0), pair(0.7, "memory_memory")], "70% (memory"),
    ("004-004", UNKNOWN, [pair(0.95)], "and none surely less than 90%: of its speed alone"),
    ("004-004", UNKNOWN, [CORES], "no two CPUs"),
    ("smt-share", HOLDS, [pair(0.55), pair(0.6, "memory_memory")], "55% (alu"),
    ("smt-share", FAILS, [pair(0.55), pair(0.95, "memory_memory")], "95% (memory"),
    ("smt-share", UNKNOWN, [pair(0.65)], "65% (alu in alu and alu, interval 64% to 66%)"),
    ("smt-share", UNKNOWN, [CORES], "no two CPUs"),
]  # fmt: skip


def node(
    ratio: float,
    mib: float = 64,
    distance: float = 20,
    *,
    local: bool = False,
    half: float = 0.01,
    cache_mib: float = 32,
) -> Row:
    return (
        {"working_set_bytes": int(mib * MIB), "local": local, "firmware_distance": distance}
        | {"largest_cache_bytes": cache_mib * MIB}
        | spread("slowdown_ratio", ratio, half)
    )


LOCAL = node(np.nan, distance=10, local=True)
NODE_CASES: list[Case] = [
    ("000-119", HOLDS, [LOCAL, node(1.08, 0.5), node(1.08)], "with 512 KiB (interval 1.07 to 1.09), 1.08"),
    ("000-119", FAILS, [LOCAL, node(1.0, 0.5), node(1.7)], "with 512 KiB (interval 0.99 to 1.01), 1.70"),
    ("000-119", UNKNOWN, [LOCAL, node(1.12)], "spans 4% or 12%: a load from another node takes 1.12"),
    ("000-119", UNKNOWN, [LOCAL, node(1.0, 0.5), node(1.7, cache_mib=33)], "of the largest cache, 33"),
    ("000-119", UNKNOWN, [LOCAL], "one memory node"),
    ("numa-distance", HOLDS, [LOCAL, node(1.0, 0.5), node(2.0)], "the firmware says 2 times"),
    ("numa-distance", FAILS, [LOCAL, node(1.4)], "(interval 1.39 to 1.41); the firmware says 2 times"),
    ("numa-distance", FAILS, [LOCAL, node(2), node(1.4, distance=30)], "takes 1.40 times"),
    ("numa-distance", FAILS, [LOCAL, node(2), node(1.4, distance=30)], "the firmware says 3 times"),
    ("numa-distance", HOLDS, [LOCAL, node(2.0, cache_mib=np.nan)], "the firmware says 2 times"),
    ("numa-distance", UNKNOWN, [LOCAL, node(2.0, 63)], "The largest set, 63 MiB, is smaller than two"),
    ("numa-distance", UNKNOWN, [LOCAL, node(1.8)], "a tenth less or a tenth more: a load"),
    ("numa-distance", UNKNOWN, [LOCAL, node(1.8, distance=np.nan)], "tells no distances"),
    ("numa-distance", UNKNOWN, [LOCAL], "one memory node"),
]  # fmt: skip


def resident(
    rate: float, kind: str = "timer", *, condition: str = "cpuset", tick_free: bool = False, half: float = 0.1
) -> Row:
    name = {
        "timer": "LOC Local timer interrupts",
        "call": "RES Rescheduling interrupts",
        "anybody": "whoever took the CPU",
    }.get(kind, kind)
    return {"condition": condition, "kind": kind, "name": name, "tick_free": tick_free} | spread(
        "per_s", rate, half
    )


TAKEN = resident(5, "anybody")
RESIDENT_CASES: list[Case] = [
    ("002-101", HOLDS, [TAKEN, resident(250)], "its own the CPU still had 250 Local timer"),
    ("002-101", HOLDS, [resident(0), resident(9, condition="partition")], "an isolated partition"),
    ("002-101", FAILS, [TAKEN, resident(0), resident(0, "softirq")], "0 Local timer"),
    ("002-101", UNKNOWN, [resident(1, half=1.0)], "In some trial each of them was absent"),
    ("002-101", UNKNOWN, [resident(250, condition="pinned")], "could not make a cpuset"),
    ("002-101", FAILS, [resident(9, "call"), resident(0, "kernel_thread")], "still had 0 switches of"),
    ("002-101", UNKNOWN, [TAKEN, resident(9, "call")], "or none is told here"),
    ("000-078", HOLDS, [resident(0, tick_free=True), resident(0.1, "call", tick_free=True)], "0.1 Resched"),
    ("000-078", FAILS, [resident(0, tick_free=True), resident(40, "call", tick_free=True)], "40 Resched"),
    ("000-078", UNKNOWN, [resident(1, tick_free=True, half=0.8)], "interrupts (interval 0.2 to 1.8)"),
    ("000-078", UNKNOWN, [resident(0)], "was not booted"),
    ("000-078", UNKNOWN, [resident(5, "softirq", tick_free=True)], "none is told"),
]  # fmt: skip


def crowd(
    situation: str, first_ms: float = 60, spread_ms: float = 80, half: float = 0.1, **also: float
) -> Row:
    """One row of `balance.spread`, with intervals of so large a part of each time around it."""
    row: Row = {
        "situation": situation,
        "hogs": 8,
        "cpus": 2,
        "trials": 6,
        "moves_per_s": 10.0,
        "others_percent": 2.0,
    }
    for stem, value in (("first", 1e6 * first_ms), ("spread", 1e6 * spread_ms)):
        row |= {f"{stem}_ns": value, f"{stem}_lo_ns": value * (1 - half), f"{stem}_hi_ns": value * (1 + half)}
    return row | {"stayed_percent": 0.0, "crowded_percent": 0.0} | also


def odd(short_lead: float, lead: float, half: float = 3) -> Row:
    """The row of one hog too many, with its leads in percent."""
    row = crowd("odd")
    for stem, value in (("short_lead", short_lead), ("lead", lead)):
        for end, number in zip(("", "_lo", "_hi"), (value, value - half, value + half), strict=True):
            row[f"{stem}{end}_percent"] = number
    return row


CROWD_CASES: list[Case] = [
    ("balance-at-once", HOLDS, [crowd("short", 0.1)], "after 100 µs (interval 90 µs to 110 µs)."),
    ("balance-at-once", FAILS, [crowd("short")], "on another CPU after 60 ms"),
    ("balance-at-once", FAILS, [crowd("short", 300, stayed_percent=100)], "in 100 % of the starts not"),
    ("balance-at-once", UNKNOWN, [crowd("short", 1)], "spans 1 ms"),
    ("balance-at-once", UNKNOWN, [crowd("short", trials=1)], "One trial"),
    ("balance-at-once", UNKNOWN, [crowd("short", others_percent=40)], "Others than hogs had"),
    ("balance-going-idle", HOLDS, [crowd("goes idle", 0.2)], "after 200 µs"),
    ("balance-going-idle", FAILS, [crowd("goes idle", 9)], "after 9 ms"),
    ("balance-going-idle", UNKNOWN, [crowd("goes idle", 1)], "spans 1 ms"),
    ("balance-forgets", HOLDS, [crowd("short", 40), crowd("long", 42)], "after 42 ms"),
    ("balance-forgets", FAILS, [crowd("short", 40), crowd("long", 300)], "after 300 ms"),
    ("balance-forgets", FAILS, [crowd("short", 52), crowd("long", 8)], "after 8 ms"),
    ("balance-forgets", UNKNOWN, [crowd("short", 52, stayed_percent=20), crowd("long", 8)], "allow either"),
    ("balance-forgets", UNKNOWN, [crowd("short", 58, half=0.7), crowd("long", 10, half=0.9)], "allow either"),
    ("balance-forgets", UNKNOWN, [crowd("short"), crowd("long", stayed_percent=20)], "allow either"),
    ("balance-forgets", UNKNOWN, [crowd("short", 40), crowd("long", 60, half=0.5)], "allow either"),
    ("balance-forgets", FAILS, [crowd("short", 1.05, half=0.05), crowd("long", 1.7)], "after 1.7 ms"),
    ("balance-naps", HOLDS, [crowd("naps", 1, 3, cpus=8)], "spread 3 ms after"),
    ("balance-naps", FAILS, [crowd("naps", 1, 200, crowded_percent=40, cpus=8)], "in 40 % of the starts"),
    ("balance-naps", UNKNOWN, [crowd("naps", 1, 10, cpus=8)], "spans 10 ms"),
    ("balance-naps", UNKNOWN, [crowd("naps", 1, 3)], "8 hogs on 2 CPUs: only 1 of them can find"),
    ("balance-naps", UNKNOWN, [crowd("naps", 1, 3, cpus=4)], "8 hogs on 4 CPUs: only 3 of them can find"),
    ("balance-equal", HOLDS, [odd(5, 5)], "had 5 % of the lead"),
    ("balance-equal", FAILS, [odd(60, 5)], "had 60 % of the lead"),
    ("balance-equal", UNKNOWN, [odd(11, 5)], "spans 10 %"),
    ("balance-winner", HOLDS, [odd(100, 95)], "had 95 % of the lead"),
    ("balance-winner", FAILS, [odd(60, 10)], "gives (interval 7 to 13)"),
    ("balance-winner", UNKNOWN, [odd(60, 49)], "spans 50"),
    ("balance-isolated", HOLDS, [crowd("short"), crowd("isolated")], "no hog left, in 0 % they were"),
    (
        "balance-isolated",
        FAILS,
        [crowd("short"), crowd("isolated", 300, stayed_percent=100, crowded_percent=100)],
        "in 100 % of 6 starts",
    ),
    ("balance-isolated", UNKNOWN, [crowd("short"), crowd("isolated", crowded_percent=100)], "Some left"),
    ("balance-isolated", UNKNOWN, [crowd("short", stayed_percent=50), crowd("isolated")], "Outside"),
]  # fmt: skip
CASES = MOVE_CASES + TURN_CASES + PAIR_CASES + NODE_CASES + RESIDENT_CASES + CROWD_CASES
