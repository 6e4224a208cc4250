"""The claims about what keeps threads waiting, each judged on constructed runs."""

from __future__ import annotations

import math
from typing import Any

from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN
from sched_labs.probes.waits import OCCUPANTS


def rows(
    condition: str,
    shares: dict[str, float],
    *,
    half_width: float = 0.05,
    waits: int = 1000,
    attributed: bool = True,
) -> list[dict[str, Any]]:
    return [
        {
            "condition": condition,
            "occupied_by": name,
            "share": shares.get(name, 0.0),
            "share_lo": max(0.0, shares.get(name, 0.0) - half_width),
            "share_hi": min(1.0, shares.get(name, 0.0) + half_width),
            "part_ns": 1,
            "waits": waits,
            "wait_mean_ns": 4e6,
            "attributed": attributed,
        }
        for name in OCCUPANTS
    ]


def observers(**seen: tuple[float, float, float]) -> list[dict[str, Any]]:
    """{observer: (low, middle, high) of what it adds to a switch of 1000 ns}."""
    return [
        {
            "observer": name,
            "added_ns": middle,
            "added_lo_ns": low,
            "added_hi_ns": high,
            "ratio": 1 + middle / 1000,
            "ratio_lo": 1 + low / 1000,
            "ratio_hi": 1 + high / 1000,
        }
        for name, (low, middle, high) in seen.items()
    ]


def seen(condition: str, bpf: float, schedstat: float, half_width: float = 0.03) -> list[dict[str, Any]]:
    return [
        {
            "condition": condition,
            "instrument": name,
            "mean_ns": mean,
            "mean_lo_ns": mean * (1 - half_width),
            "mean_hi_ns": mean * (1 + half_width),
        }
        for name, mean in (("bpf", bpf), ("schedstat", schedstat))
    ]


def switched(**hogs: tuple[int, int]) -> list[dict[str, Any]]:
    """{thread: (times it left its CPU, how often of these it could go on)}."""
    return [
        {
            "thread": name.replace("_", " "),
            "left": left,
            "preempted": could,
            "slept": left - could,
            "came": left,
        }
        for name, (left, could) in hogs.items()
    ]


def off_cpu(runnable_ns: int, uninterruptible_ns: int) -> list[dict[str, Any]]:
    """How long a hog was off its CPU in each state, beside a parent that waits for its child."""
    return [
        {"role": "hog", "state": "runnable", "times": 9, "off_cpu_ns": runnable_ns},
        {"role": "hog", "state": "uninterruptible", "times": 9, "off_cpu_ns": uninterruptible_ns},
        {"role": "parent", "state": "uninterruptible", "times": 9, "off_cpu_ns": 10**9},
    ]


ENDS = ("", "_lo", "_hi")


def beside_packets(
    nice: int,
    interrupts: float,
    threads: float,
    *,
    half_width: float = 0.1,
    attributed: bool = True,
    softirqs: float = 1e5,
    counted: tuple[float, float, float] = (0, 0, 0),
    neighbour: str = "packets",
) -> list[dict[str, Any]]:
    """What softirqs and kernel threads took, in ms of each second, and how many softirqs there were.

    counted   by what part the count, and the ends of its interval, differ from softirqs
    """
    return [
        {
            "neighbour": neighbour,
            "nice": nice,
            "part": part,
            "ms_per_s": ms,
            "ms_per_s_lo": ms * (1 - half_width),
            "ms_per_s_hi": ms * (1 + half_width),
            **{f"softirqs{end}_per_s": softirqs * (1 + by) for end, by in zip(ENDS, counted, strict=True)},
            "attributed": attributed,
        }
        for part, ms in (("interrupt", interrupts), ("over_it", 1.0), ("kernel_thread", threads))
    ]


def at_rates(
    seldom: tuple[float, float], often: tuple[float, float], rate: float = 1e5
) -> list[dict[str, Any]]:
    """How much slower runqlat made two threads, in per cent (low, high), at two rates."""
    return [
        {
            "observer": "runqlat",
            "switches_per_s": switches,
            "slower_percent": sum(ends) / 2,
            "slower_lo_percent": ends[0],
            "slower_hi_percent": ends[1],
        }
        for switches, ends in ((1e3, seldom), (rate, often))
    ]


CASES: list[Case] = [
    (
        "L24",
        FAILS,
        at_rates((-1.1, 0.5), (15, 25)),
        "not measurably slower at 1,000 switches a second (interval −1.1",
    ),
    ("L24", FAILS, at_rates((0.02, 0.06), (15, 25)), "0.04 % slower at 1,000"),
    ("L24", HOLDS, at_rates((-0.5, 0.5), (0.1, 0.9)), "0.5 % slower at 100,000"),
    ("L24", FAILS, at_rates((5, 6), (1, 2)), "5.5 % slower at 1,000"),
    ("L24", UNKNOWN, at_rates((-3, 6), (2, 25)), "overlap"),
    # A wide interval at the lower rate hides a cost of its own, and shows none alike.
    ("L24", UNKNOWN, at_rates((-13, 15), (10, 14)), "12 % slower at 100,000"),
    # No tool makes threads faster: what else differed by 5 to 8 % may be a cost of 4 %, and not one of 20 %.
    ("L24", UNKNOWN, at_rates((-7.65, -4.96), (0.633, 8.16)), "No tool makes threads faster"),
    ("L24", FAILS, at_rates((-7.65, -4.96), (15, 25)), "20 % slower at 100,000"),
    ("L24", UNKNOWN, at_rates((0, 1), (15, 25), 3e3), "too much alike"),
    ("L24", UNKNOWN, at_rates((0, 1), (15, 25))[:1], "fewer than two rates"),
    ("L27", FAILS, beside_packets(0, 60, 0.3), "took 61 ms"),
    (
        "L27",
        FAILS,
        beside_packets(0, 98.6, 0.3),
        "took 100 ms of each second with nice 0 (interval 90 to 110)",
    ),
    ("L27", HOLDS, beside_packets(0, 1, 40), "kernel threads 40 ms"),
    ("L27", UNKNOWN, beside_packets(0, 10, 10), "overlap"),
    # The tick comes with nobody beside it, too.
    (
        "L27",
        UNKNOWN,
        beside_packets(0, 6, 0.3) + beside_packets(0, 6, 0.3, neighbour="nobody"),
        "less what there is with nobody, beside a sender",
    ),
    ("L27", UNKNOWN, beside_packets(0, 60, 0.3, attributed=False), "Without the BPF probe"),
    ("L27", UNKNOWN, beside_packets(-10, 60, 0.3), "no sender of packets beside a program with nice 0"),
    ("002-062", FAILS, beside_packets(0, 60, 0) + beside_packets(-10, 58, 0), "59 ms with nice -10"),
    ("002-062", HOLDS, beside_packets(0, 60, 0) + beside_packets(-10, 6, 0), "7 ms with nice -10"),
    # Fewer packets are the sender's smaller share of the CPU, and no packet costs less for it.
    (
        "002-062",
        FAILS,
        beside_packets(0, 90, 0) + beside_packets(-10, 36, 0, softirqs=4e4),
        "and 0.93 µs each (0.83 to 1)",
    ),
    # What interrupts a program with nobody beside it is no work for packets.
    (
        "002-062",
        HOLDS,
        beside_packets(0, 60, 0, half_width=0.01)
        + beside_packets(-10, 51, 0, half_width=0.01)
        + beside_packets(0, 50, 0, neighbour="nobody", half_width=0.01)
        + beside_packets(-10, 50, 0, neighbour="nobody", half_width=0.01),
        "0.1 (0.089 to 0.11) and 0.01 µs each",
    ),
    ("002-062", UNKNOWN, beside_packets(0, 60, 0) + beside_packets(-10, 6, 0, softirqs=math.nan), "counted"),
    (
        "002-062",
        UNKNOWN,
        beside_packets(0, 90, 0) + beside_packets(-10, 36, 0, softirqs=4e4, counted=(0, -0.5, 1)),
        "and 0.93 µs each (0.42 to 2)",
    ),
    (
        "002-062",
        UNKNOWN,
        beside_packets(0, 60, 0) + beside_packets(-10, 30, 0, half_width=0.5),
        "0.61 (0.55 to 0.67) and 0.31 µs each (0.15 to 0.47)",
    ),
    # Less than with nobody beside the program is noise, and no part of it is kept away or not.
    (
        "002-062",
        UNKNOWN,
        beside_packets(0, 12, 0, half_width=0.01)
        + beside_packets(-10, 20, 0, half_width=0.01)
        + beside_packets(0, 21, 0, neighbour="nobody", half_width=0.01)
        + beside_packets(-10, 20, 0, neighbour="nobody", half_width=0.01),
        "The intervals allow either",
    ),
    ("002-062", UNKNOWN, beside_packets(0, -0.5, 0) + beside_packets(-10, 58, 0), "hardly any"),
    ("002-062", UNKNOWN, beside_packets(0, 60, 0), "nice -10"),
    ("L21", FAILS, switched(ping=(9000, 10), hog_1=(200, 200), hog_2=(100, 99)), "300 times, 299 times"),
    ("L21", HOLDS, switched(ping=(9000, 10), hog_1=(0, 0)), "0 times"),
    ("L21", UNKNOWN, switched(hog_1=(3, 3)), "Too few"),
    ("L21", UNKNOWN, switched(ping=(9000, 10)), "no thread that never sleeps"),
    ("L23", FAILS, off_cpu(10**9, 0), "1.00 s in state 0 and for 0.00 s"),
    ("L23", HOLDS, off_cpu(0, 5 * 10**8), "0.00 s in state 0 and for 0.50 s"),
    ("L23", UNKNOWN, off_cpu(1000, 0), "hardly waited"),
    ("002-118", FAILS, seen("queue", 8e6, 7.9e6), "schedstat says 7.9 ms"),
    ("002-118", HOLDS, seen("queue", 8e6, 2e6), "schedstat says 2 ms"),
    ("002-118", UNKNOWN, seen("queue", 8e6, 7.9e6, 0.5), "too wide"),
    ("002-118", UNKNOWN, seen("idle", 8e6, 7.9e6), "lacks BPF"),
    ("L47", HOLDS, seen("idle", 13e3, 1.9e3), "schedstat says 1.9 µs"),
    ("L47", FAILS, seen("idle", 13e3, 12e3), "schedstat says 12 µs"),
    ("L47", UNKNOWN, seen("idle", 13e3, 6.5e3), "spans 0.5"),
    ("L47", UNKNOWN, seen("idle", 13e3, 6.5e3, 1.0), "bounds nothing"),
    ("002-036", FAILS, observers(runqlat=(250, 300, 350)), "1.30 times as long"),
    ("002-036", HOLDS, observers(runqlat=(-2, 3, 8)), "1.00 times as long"),
    ("002-036", UNKNOWN, observers(runqlat=(-50, 30, 90)), "spans 1 %"),
    ("002-036", UNKNOWN, observers(ours=(100, 110, 120)), "no runqlat"),
    ("000-108", HOLDS, observers(runqlat=(250, 300, 350), perf=(1500, 2000, 2500)), "2 µs"),
    ("000-108", FAILS, observers(runqlat=(250, 300, 350), perf=(100, 150, 200)), "150 ns"),
    ("000-108", UNKNOWN, observers(runqlat=(250, 300, 350), perf=(100, 400, 900)), "overlap"),
    ("000-108", UNKNOWN, observers(runqlat=(250, 300, 350)), "no perf"),
    ("002-020", FAILS, rows("alone", {"idle": 0.6, "interrupt": 0.3}), "idle during 60.0% of the program's"),
    ("002-020", FAILS, rows("alone", {"idle": 0.5054, "interrupt": 0.2994}), "which leaves 19.6% to others"),
    ("002-020", HOLDS, rows("alone", {"other_task": 0.9, "idle": 0.1}), "idle during 10.0% of"),
    ("002-020", UNKNOWN, rows("alone", {"idle": 0.3, "interrupt": 0.2}), "spans 50:"),
    # A used-up quota is no thread that has the CPU.
    ("002-020", UNKNOWN, rows("alone", {"throttled": 0.7, "idle": 0.1}), "leaves out a used-up quota"),
    ("002-020", UNKNOWN, rows("alone", {"idle": 0.9}, waits=5), "too few"),
    ("002-020", UNKNOWN, rows("rival", {"idle": 0.9}), "no condition 'alone'"),
    ("002-020", UNKNOWN, rows("alone", {"unattributed": 1.0}, attributed=False), "Without the BPF probe"),
    ("002-061", FAILS, rows("rival", {"kernel_thread": 0.01, "other_task": 0.6}), "during 1 %"),
    ("002-061", HOLDS, rows("rival", {"kernel_thread": 0.8}), "during 80 %"),
    ("002-061", UNKNOWN, rows("rival", {"kernel_thread": 0.5}), "spans 50:"),
]
