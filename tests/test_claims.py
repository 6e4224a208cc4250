"""Claims: each judged on CONSTRUCTED summaries for every outcome it can have, and all on live runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import claims_attribution
import claims_ladder
import claims_latency
import claims_pinning
import claims_pool
import claims_switching
import claims_throttling
import claims_wakepath
import numpy as np
import pandas as pd
import pytest
import test_eevdf
import test_ipc
import test_napi
import test_packets
from claim_cases import Case, constructed

from sched_labs import claims
from sched_labs.claims import FAILS, HOLDS, UNKNOWN, Claim, Verdict, all_claims, judge, sources
from sched_labs.core import registry
from sched_labs.core.errors import ParameterError
from sched_labs.kernels import claims as claims_kernels
from sched_labs.topics.context_switch.context_switch import experiment as context_switch

KIB, MIB = 1 << 10, 1 << 20
CLAIM = {claim.id: claim for claim in all_claims()}


def cell(
    mechanism: str = "pipe",
    between: str = "threads",
    placement: str = "same_cpu",
    *,
    net: tuple[float, float, float] = (2000, 1900, 2100),
    switches: float = 2.0,
    voluntary: float = 1.0,
) -> dict[str, Any]:
    """One row of a matrix: net is (median, low, high) in ns."""
    return {
        "mechanism": mechanism,
        "between": between,
        "placement": placement,
        "switches_per_round_trip": switches,
        "expected_switches_per_round_trip": 2.0,
        "voluntary_share": voluntary,
        "net_per_switch_ns": net[0],
        "net_lo_ns": net[1],
        "net_hi_ns": net[2],
        "flagged": abs(switches / 2 - 1) > 0.02,
    }


def turns(**same: Any) -> list[dict[str, Any]]:
    """By pipe and by sched_yield, alike."""
    return [cell(mechanism, **same) for mechanism in ("pipe", "yield")]


def far(*net: float) -> dict[str, Any]:
    return cell(placement="other_cpu", net=(net[0], net[1], net[2]))


def pairs(*costs: tuple[float, float], half: float = 10) -> list[dict[str, Any]]:
    """(threads, processes) of pipe, eventfd and futex, each with an interval of +- half."""
    return [
        cell(mechanism, between, net=(ns, ns - half, ns + half))
        for mechanism, both in zip(("pipe", "eventfd", "futex"), costs, strict=True)
        for between, ns in zip(("threads", "processes"), both, strict=True)
    ]


def point(
    size: int,
    extra: float,
    half: float = 100,
    *,
    access: str = "random",
    seen: bool = True,
    direct: float = 1000,
    kernel: float = 50,
    floor: float = 50,
    partner: int = 4 * MIB,
    line: float = 4.0,
    spread: float = 0.01,
    past: bool = False,
) -> dict[str, Any]:
    """One row of a sweep: a warm-up of extra +- half ns at a working set of size bytes.

    A line of it takes `line` ns alone, give or take the share `spread`.
    """
    return {
        "access": access,
        "working_set_bytes": size,
        "partner_bytes": partner,
        "alone_ns": line * size / 64,
        "alone_lo_ns": (1 - spread) * line * size / 64,
        "alone_hi_ns": (1 + spread) * line * size / 64,
        "alone_ns_per_line": line,
        "past_last_level": past,
        "direct_lo_ns": 0.9 * direct,
        "direct_hi_ns": 1.1 * direct,
        "extra_ns": extra,
        "extra_lo_ns": extra - half,
        "extra_hi_ns": extra + half,
        "floor_ns": floor,
        "seen": seen,
        "kernel_extra_ns": kernel,
        "direct_ns": direct,
    }


def row_of(extra: float, half: float) -> dict[str, Any]:
    return point(64 * KIB, extra, half, access="sequential")


def back(
    size: int, when: float = 100_000, *, left: float = 0.0, seen: bool = True, recovered: bool = True
) -> dict[str, Any]:
    """One row of a recovery curve: back to normal after when +- 10 % ns; left +- 0.05 of the extra."""
    return {
        "working_set_bytes": size,
        "lines": size // 64,
        "seen": seen,
        "recovered": recovered,
        "recovered_ns": when,
        "recovered_lo_ns": 0.9 * when,
        "recovered_hi_ns": 1.1 * when,
        "left_at_10k_ratio": left,
        "left_at_10k_lo_ratio": left - 0.05,
        "left_at_10k_hi_ratio": left + 0.05,
    }


def yields(
    condition: str = "together",
    switches: float = 1.0,
    half: float = 0.01,
    *,
    voluntary: float = 0.0,
    policy: str = "other",
    agree: bool = True,
) -> dict[str, Any]:
    """One row of a run of sched_yield on one CPU: `switches` +- half per call, a share of them voluntary."""
    return {
        "policy": policy,
        "placement": "same_cpu",
        "condition": condition,
        "switches_per_yield": switches,
        "switches_lo_per_yield": switches - half,
        "switches_hi_per_yield": switches + half,
        "voluntary_per_yield": voluntary * switches,
        "involuntary_per_yield": (1 - voluntary) * switches,
        "counts_agree": agree,
    }


def spaced(
    extra: float,
    half: float = 100,
    *,
    burst: int = 1,
    rounds: float = 1.0,
    floor: float = 50,
    seen: bool = True,
) -> dict[str, Any]:
    """One pattern of hand-overs: a warm-up of extra +- half ns for each."""
    return {
        "burst": burst,
        "rounds": rounds,
        "spacing_ns": 15_000 * rounds,
        "extra_ns": extra,
        "extra_lo_ns": extra - half,
        "extra_hi_ns": extra + half,
        "floor_ns": floor,
        "seen": seen,
    }


def script(
    size: int = 16 * KIB,
    tax: float = 11.0,
    half: float = 1.0,
    *,
    ratio: float = 2.3,
    speedup: float = 1.0,
    spread: float = 0.1,
    place: str = "pinned",
    floor: float = 0.1,
) -> dict[str, Any]:
    """One row of a run of the Python script: a tax of +- half ns, a ratio and a speed-up of +- spread."""
    return {
        "placement": place,
        "buffer_bytes": size,
        "tax_ns": tax,
        "tax_lo_ns": tax - half,
        "tax_hi_ns": tax + half,
        "floor_ns": floor,
        "ratio": ratio,
        "ratio_lo": ratio - spread,
        "ratio_hi": ratio + spread,
        "speedup": speedup,
        "speedup_lo": speedup - spread,
        "speedup_hi": speedup + spread,
    }


def crowd(threads: int, cost: float, half: float = 50) -> dict[str, Any]:
    """One crowd: a switch takes cost +- half ns."""
    low, high = cost - half, cost + half
    names = ("threads", "switch_ns", "switch_lo_ns", "switch_hi_ns", "floor_ns")
    return dict(zip(names, (threads, cost, low, high, 20.0), strict=True))


CASES: list[Case] = [
    # claim, outcome, rows of the constructed summary, what the reason must say
    ("000-007", HOLDS, turns(), "2 µs by pipe, with block and wake, interval 1.9 µs to 2.1 µs"),
    ("000-007", FAILS, turns(net=(500, 400, 600)), "500 ns by pipe, with block and wake, interval 400 ns to"),
    ("000-007", FAILS, turns(net=(9000, 8000, 9900)), "9 µs by sched_yield"),
    ("000-007", UNKNOWN, turns(net=(1000, 900, 1100)), "spans a limit"),
    ("000-007", UNKNOWN, turns(net=(2000, -np.inf, np.inf)), "spans a limit"),
    ("000-007", UNKNOWN, [cell(), cell("yield", net=(700, 600, 800))], "what is called the switch: "),
    ("000-007", UNKNOWN, [cell(), cell("yield", net=(990, 900, 1100))], "An interval spans a limit"),
    ("000-007", UNKNOWN, turns(switches=1.5), "1.50 switches a round trip, not 2"),
    ("000-007", UNKNOWN, [cell("futex")], "did not measure pipe between threads, same cpu"),
    ("003-009", HOLDS, [cell(), far(20000, 19000, 21000)], "10.0 times (interval 9.0 to 11.1)"),
    ("003-009", FAILS, [cell(), far(4000, 3900, 4100)], "2.0 times"),
    ("003-009", UNKNOWN, [cell(), far(6000, 5000, 7000)], "spans three times"),
    ("003-009", UNKNOWN, [cell()], "did not measure pipe between threads, other cpu"),
    # An interval that reaches zero bounds no ratio.
    ("003-009", UNKNOWN, [cell(net=(500, -100, 900)), far(6000, 5000, 7000)], "−100 ns"),
    ("003-009", UNKNOWN, [cell(net=(500, 0, 900)), far(6000, 5000, 7000)], "0 ns"),
    ("003-009", UNKNOWN, [cell(net=(2000, -np.inf, np.inf)), far(9000, -np.inf, np.inf)], "2 µs"),
    ("003-007", HOLDS, [cell(), cell("condvar")], "pipe 2.00, condition variable 2.00"),
    ("003-007", FAILS, [cell(), cell("condvar", switches=4.26)], "condition variable 4.26"),
    (
        "003-007",
        FAILS,
        [cell(), cell("condvar"), cell("condvar", "processes", switches=4.26)],
        "pipe 2.00, condition variable 2.00 to 4.26",
    ),
    ("003-007", UNKNOWN, [cell()], "did not measure"),
    ("004-025", HOLDS, pairs((900, 1000), (800, 1000), (500, 1000)), "pipe +10%, eventfd +20%, futex +50%"),
    ("004-025", FAILS, pairs((900, 1000), (1200, 1000), (500, 1000)), "eventfd -20%"),
    ("004-025", UNKNOWN, pairs((900, 1000), (995, 1000), (500, 1000)), "overlap for eventfd ("),
    ("004-025", UNKNOWN, pairs((900, 1000), (1001, 1000), (500, 1000)), "eventfd +0%"),
    ("004-025", UNKNOWN, [cell(), cell(between="processes", switches=3.0)], "3.00 switches"),
    ("000-059", HOLDS, [cell("yield", voluntary=0.9), cell()], "90% of the switches by sched_yield, 100%"),
    ("000-059", FAILS, [cell("yield", voluntary=0.02), cell()], "2% of the switches by sched_yield"),
    ("000-059", UNKNOWN, [cell("yield", switches=0.0), cell()], "no switches by sched_yield"),
    ("000-059", UNKNOWN, [cell()], "no switches by sched_yield"),
    ("004-015", HOLDS, [cell("yield", placement="other_cpu")], "2.00 switches a round trip, in which each"),
    ("004-015", FAILS, [cell("yield", placement="other_cpu", switches=0.01)], "0.01 switches"),
    # Of threads, whatever processes do.
    (
        "004-015",
        FAILS,
        [cell("yield", name, "other_cpu", switches=n) for name, n in (("threads", 0.01), ("processes", 4.0))],
        "0.01 switches",
    ),
    ("004-015", UNKNOWN, [cell("yield")], "did not measure sched_yield between threads across CPUs"),
    ("000-005", HOLDS, [point(4 * KIB, 900), point(MIB, 1100)], "900 ns at 4 KiB, 1.1 µs at 1 MiB"),
    ("000-005", FAILS, [point(4 * KIB, 400), point(256 * KIB, 29300)], "400 ns at 4 KiB, 29.3 µs at 256 KiB"),
    # The partner is one and the same: another one's warm-up is no other working set's.
    (
        "000-005",
        FAILS,
        [point(4 * KIB, 100, half=10, partner=MIB), point(4 * KIB, 3500), point(256 * KIB, 250_000)],
        "after a partner of 4 MiB: 3.5 µs at 4 KiB, 250 µs at 256 KiB",
    ),
    # What grows in proportion is within a factor of two as well where one set is twice the other.
    ("000-005", UNKNOWN, [point(16 * KIB, 9000), point(32 * KIB, 17_000)], "eight times as large"),
    # The noise hides the smallest set's, and may hide a tenth of the largest.
    (
        "000-005",
        FAILS,
        [point(4 * KIB, 40, seen=False), point(64 * KIB, 20_000), point(MIB, 35_000)],
        "40 ns (not clear of the noise) at 4 KiB, 35 µs at 1 MiB",
    ),
    ("000-005", UNKNOWN, [point(4 * KIB, 400, partner=MIB), point(4 * KIB, 4e4)], "Two working sets"),
    ("000-005", UNKNOWN, [point(4 * KIB, 400)], "Two working sets"),
    ("000-005", UNKNOWN, [point(4 * KIB, 40, seen=False)], "noise floor with random access"),
    ("000-008", HOLDS, [point(64 * KIB, 20000), point(MIB, 90000)], "from 20 to 90 times"),
    ("000-008", FAILS, [point(4 * KIB, 400), point(MIB, 20000)], "at 1 of 2 combinations of working set and"),
    (
        "000-008",
        FAILS,
        [point(4 * KIB, 10, seen=False), point(MIB, 20000)],
        "20 times where it stands clear of the noise; seen between 10 and 100 at 1 of 2",
    ),
    (
        "000-008",
        FAILS,
        [point(4 * KIB, 400), point(MIB, 20000), point(2 * MIB, 90000, direct=-5)],
        "at 1 of 2 combinations",
    ),
    ("000-008", UNKNOWN, [point(MIB, 20000), point(2 * MIB, 90000, direct=-5)], "The noise hides what would"),
    ("000-008", UNKNOWN, [point(4 * KIB, 20000, direct=np.nan)], "direct cost"),
    ("000-008", UNKNOWN, [point(4 * KIB, 20000, direct=-5)], "direct cost"),
    ("000-008", UNKNOWN, [point(4 * KIB, 20000, access="sequential")], "no random walk"),
    # Not seen because this run could not have seen it: that is no zero.
    ("000-008", UNKNOWN, [point(MIB, 20000, half=40000, floor=50000, seen=False)], "at 0 of 1 combinations"),
    ("000-008", UNKNOWN, [point(MIB, 20000, half=np.inf, floor=np.inf, seen=False)], "at 0 of 1"),
    ("lat_ctx", HOLDS, [point(64 * KIB, 1000), row_of(900, 50)], "at 64 KiB: 1 µs in random order, 900 ns"),
    ("lat_ctx", FAILS, [point(64 * KIB, 29000), row_of(750, 50)], "29 µs in random order, 750 ns"),
    ("lat_ctx", FAILS, [point(64 * KIB, 29000), row_of(75, 50) | {"seen": False}], "order, not clear of"),
    (
        "lat_ctx",
        UNKNOWN,
        [point(64 * KIB, 1000), row_of(900, 50) | {"floor_ns": 950, "seen": False}],
        "or the noise span one half",
    ),
    ("lat_ctx", UNKNOWN, [point(64 * KIB, 1000)], "same working sets in both orders"),
    ("lat_ctx", UNKNOWN, [row_of(900, 50)], "noise floor"),
    # Both orders were walked, after the partner that touches most.
    (
        "lat_ctx",
        UNKNOWN,
        [point(64 * KIB, 900, partner=MIB), point(64 * KIB, 900, seen=False), row_of(900, 50)],
        "after a partner of 4 MiB",
    ),
    # An interval from nothing to more than half shows neither.
    ("lat_ctx", UNKNOWN, [point(64 * KIB, 29000), row_of(3000, 20000)], "29 µs in random order, 3 µs"),
    ("larger", FAILS, [point(KIB * s, e) for s, e in ((64, 900), (512, 9000), (4096, 900))], "9 µs at 512"),
    (
        "larger",
        FAILS,
        [point(64 * KIB, 900), point(512 * KIB, 9000), point(4 * MIB, 10, seen=False)],
        "10 ns at 4 MiB (at most 110 ns, with the noise)",
    ),
    ("larger", UNKNOWN, [point(KIB * s, e) for s, e in ((64, 90), (512, 900), (4096, 9000))], "still has"),
    ("larger", UNKNOWN, [point(KIB * s, e) for s, e in ((64, 90), (512, 950), (4096, 900))], "overlap"),
    (
        "larger",
        UNKNOWN,
        [point(64 * KIB, 900), point(512 * KIB, 9000), point(4 * MIB, 5000, floor=9000, seen=False)],
        "may hide as much: at random 9 µs at 512 KiB (at least 8.9 µs), 5 µs at 4 MiB (at most 9 µs, with",
    ),
    # One larger set that clearly costs less is enough, whatever the noise hides of the largest.
    (
        "larger",
        FAILS,
        [*(point(KIB * s, e) for s, e in ((64, 900), (512, 9000), (4096, 900))), point(64 * MIB, 1, 1e6)],
        "9 µs at 512 KiB (at least 8.9 µs), 900 ns at 4 MiB (at most 1 µs).",
    ),
    ("larger", UNKNOWN, [point(64 * KIB, 900), point(MIB, 90)], "Three working sets"),
    ("000-028", HOLDS, [point(16 * KIB, 1000, kernel=900)], "idle partner adds 900 ns, one to a busy"),
    ("000-028", FAILS, [point(16 * KIB, 29000, kernel=90)], "idle partner adds 90 ns"),
    ("000-028", FAILS, [point(16 * KIB, 29000, kernel=-400)], "idle partner adds −400 ns"),
    ("000-028", UNKNOWN, [point(2 * MIB, 29000, kernel=20000)], "No set that fits a near cache"),
    ("000-028", UNKNOWN, [point(16 * KIB, 1000, half=900, kernel=510)], "spans one half"),
    # The noise may hide as much as the busy partner adds, and an idle one's part of that shows nothing.
    ("000-028", UNKNOWN, [point(16 * KIB, 1000, kernel=90, floor=800)], "noise, 800 ns, spans one half"),
    ("000-028", UNKNOWN, [point(16 * KIB, 1000, kernel=600, floor=800)], "noise, 800 ns, spans one half"),
    ("000-025", FAILS, [back(MIB, left=0.04)], "1 MiB: around the 10,000th access 4% of the extra"),
    ("000-025", FAILS, [back(MIB, left=1.0), back(4 * MIB, left=0.0)], "4 MiB"),
    ("000-025", UNKNOWN, [back(16 * KIB, left=0.0)], "No set of 10,000 lines"),
    ("000-025", UNKNOWN, [back(MIB, left=0.04) | {"lines": MIB // 128}], "No set of 10,000 lines"),
    ("000-025", FAILS, [back(MIB, left=0.53)], "of the first block is left (interval 48% to 58%)"),
    ("000-025", HOLDS, [back(MIB, left=0.96)], "of the first block is left (interval 91% to 101%)"),
    ("000-025", UNKNOWN, [back(MIB, left=0.88)], "spans 90%"),
    (
        "000-025",
        UNKNOWN,
        [back(MIB, left=0.96), back(4 * MIB, left=0.97) | {"left_at_10k_lo_ratio": 0.5}],
        "spans 90%: 4 MiB",
    ),
    ("000-025", UNKNOWN, [back(MIB, left=np.nan)], "its 10,000th access from its first"),
    ("000-025", UNKNOWN, [back(MIB, left=0.0, seen=False)], "10,000 lines or more that was slowed down"),
    ("000-040", HOLDS, [back(256 * KIB, 300_000)], "256 KiB after 300 µs"),
    ("000-040", HOLDS, [back(64 * KIB, 90_000), back(256 * KIB, 300_000)], "256 KiB after 300 µs"),
    ("000-040", FAILS, [back(16 * KIB, 14_000), back(256 * KIB, 300_000)], "16 KiB after 14 µs"),
    ("000-040", FAILS, [back(16 * KIB, 14_000)], "16 KiB after 14 µs"),
    ("000-040", FAILS, [back(8 * MIB, 20_000_000)], "8 MiB after 20 ms"),
    ("000-040", FAILS, [back(16 * KIB, 14_000), back(MIB, recovered=False)], "16 KiB after 14 µs"),
    ("000-040", UNKNOWN, [back(64 * KIB, 90_000), back(MIB, recovered=False)], "1 MiB was slowed down, and"),
    ("000-040", UNKNOWN, [back(16 * KIB, np.nan, recovered=False), back(MIB, 90_000)], "16 KiB was slowed"),
    ("000-040", FAILS, [back(64 * KIB, 90_000), back(MIB, 3e6, recovered=False)], "1 MiB had not recovered"),
    ("000-040", UNKNOWN, [back(64 * KIB, 52_000)], "spans a limit"),
    ("000-040", UNKNOWN, [back(64 * KIB, 52_000), back(256 * KIB, 300_000)], "limit: 64 KiB after"),
    ("000-040", UNKNOWN, [back(64 * KIB, 300_000, recovered=False)], "slowed down was seen to recover"),
    ("000-055", HOLDS, [yields()], "1.00 switches per call (interval 0.99 to 1.01)"),
    ("000-055", FAILS, [yields(switches=0.5)], "0.50 switches per call"),
    ("000-055", UNKNOWN, [yields(half=0.2)], "spans a limit"),
    ("000-055", UNKNOWN, [yields(agree=False)], "different numbers of switches"),
    ("000-055", UNKNOWN, [yields(policy="fifo")], "SCHED_OTHER yield together on one CPU"),
    ("yield-alone", FAILS, [yields("alone", 0.001)], "makes 0.00 switches per call"),
    ("yield-alone", HOLDS, [yields("alone", 1.0)], "makes 1.00 switches per call"),
    ("yield-alone", UNKNOWN, [yields("alone", 0.9, half=0.2)], "spans a limit"),
    ("000-115", FAILS, [yields()], "1.000 involuntary and 0.000 voluntary"),
    ("000-115", UNKNOWN, [yields(voluntary=0.5)], "not fifty times as many: two threads that"),
    ("000-115", UNKNOWN, [yields(switches=0.01)], "hardly switched"),
    ("000-115", UNKNOWN, [yields(half=0.95)], "may have hardly switched: 0.050 to 1.950"),
    ("fifo-yield", FAILS, [yields(policy="fifo")], "make 1.00 switches per call"),
    ("fifo-yield", HOLDS, [yields(policy="fifo", switches=0.0)], "make 0.00 switches"),
    ("fifo-yield", UNKNOWN, [yields(policy="fifo", switches=0.4)], "(interval 0.39 to 0.41)"),
    ("fifo-yield", UNKNOWN, [yields()], "SCHED_FIFO yield together"),
    ("000-060", HOLDS, [spaced(31_000), spaced(3_900, burst=100)], "warm-up a switch evenly spaced, 3.9 µs"),
    ("000-060", FAILS, [spaced(31_000), spaced(31_000, burst=100)], "31 µs in bursts of 100"),
    ("000-060", UNKNOWN, [spaced(31_000, 9000), spaced(23_000, 9000, burst=100)], "overlap"),
    (
        "000-060",
        HOLDS,
        [spaced(31_000), spaced(100, 300, burst=100, floor=5000, seen=False)],
        "100 ns in bursts of 100, not clear of the noise",
    ),
    ("000-060", UNKNOWN, [spaced(31_000), spaced(3_900, burst=100, floor=40_000, seen=False)], "overlap"),
    (
        "000-060",
        UNKNOWN,
        [spaced(31_000), spaced(33_000, burst=100, floor=40_000, seen=False)],
        "overlap or lie in the noise",
    ),
    ("000-060", UNKNOWN, [spaced(31_000)], "no bursts"),
    ("000-060", UNKNOWN, [spaced(31, seen=False), spaced(20, burst=10)], "noise floor"),
    # Walks that are quicker after a switch have no warm-up that a burst could save.
    ("000-060", UNKNOWN, [spaced(-900), spaced(900, burst=10)], "noise floor"),
    (
        "000-061",
        FAILS,
        [spaced(2_000, rounds=0.1), spaced(31_000)],
        "after 1.5 µs of its own work a switch costs the thread 2 µs of warm-up, after 15 µs 31 µs",
    ),
    ("000-061", HOLDS, [spaced(30_000, rounds=0.1), spaced(31_000)], "30 µs"),
    ("000-061", UNKNOWN, [spaced(16_000, 9000, rounds=0.1), spaced(31_000)], "factor of two"),
    (
        "000-061",
        FAILS,
        [spaced(40, rounds=0.1, seen=False), spaced(30_000), spaced(31_000, rounds=16)],
        "40 ns of warm-up (not clear of the noise), after 240 µs 31 µs",
    ),
    # It may fall again past the spacing that costs most.
    (
        "000-061",
        FAILS,
        [spaced(30_000, rounds=0.1), spaced(31_000), spaced(9_000, rounds=16)],
        "after 240 µs of its own work a switch costs the thread 9 µs of warm-up, after 15 µs 31 µs",
    ),
    (
        "000-061",
        UNKNOWN,
        [spaced(30_000, rounds=0.1), spaced(31_000), spaced(9_000, rounds=16, floor=40_000, seen=False)],
        "The intervals, 8.9 µs to 40 µs and 30.9 µs to 31.1 µs, span a factor of two",
    ),
    ("000-061", UNKNOWN, [spaced(16_000)], "Two spacings"),
    ("spacing", FAILS, [spaced(31_000), spaced(32_000, rounds=16)], "31 µs after 1 round of the set, 32 µs"),
    ("spacing", HOLDS, [spaced(2_000, rounds=0.25), spaced(64_000, rounds=16)], "64 µs after 16"),
    ("spacing", UNKNOWN, [spaced(2_000, rounds=0.25), spaced(16_000, 9000, rounds=16)], "do not decide"),
    ("spacing", UNKNOWN, [spaced(2_000, rounds=0.25), spaced(16_000)], "below and above one round"),
    # It may fall again beyond the last spacing that is seen.
    (
        "spacing",
        UNKNOWN,
        [spaced(2_000), spaced(64_000, rounds=4), spaced(9_000, rounds=16, floor=20_000, seen=False)],
        "hides what it is after 16 rounds: 2 µs after 1 round",
    ),
    # It still grows, if more slowly than a square root.
    ("spacing", UNKNOWN, [spaced(31_000), spaced(70_000, rounds=16)], "less than 2 times as much counts as"),
    ("000-037", HOLDS, [point(256 * KIB, 240_000)], "240 µs (240 µs at both ends) at random after a"),
    ("000-037", HOLDS, [point(256 * KIB, e, partner=p) for p, e in ((MIB, 500), (MIB * 4, 2.4e5))], "4 MiB"),
    ("000-037", FAILS, [point(256 * KIB, 9_000)], "9 µs"),
    # A partner that touches less displaced more of the set here.
    (
        "000-037",
        UNKNOWN,
        [point(256 * KIB, 164_000, partner=MIB), point(256 * KIB, 91_000)],
        "on the partner: 164 µs (164 µs at both ends) after one of 1 MiB, 91 µs (",
    ),
    ("000-037", UNKNOWN, [point(256 * KIB, 240_000, seen=False)], "noise floor, 50 ns: 240 µs ("),
    ("000-037", UNKNOWN, [point(256 * KIB, 120_000)], "spans a limit"),
    ("000-037", UNKNOWN, [point(MIB, 120_000)], "256 KiB"),
    ("000-054", FAILS, [point(16 * KIB, 0, line=1.1), point(2 * MIB, 0, line=12)], "16 KiB and 12 ns in 2"),
    # A floor above the walks themselves hides no difference of thirty times.
    (
        "000-054",
        FAILS,
        [point(16 * KIB, 0, line=1.2, floor=300), point(2 * MIB, 0, line=38, spread=0.6, floor=4e6)],
        "1.2 ns in 16 KiB and 38 ns in 2 MiB",
    ),
    ("000-054", HOLDS, [point(16 * KIB, 0, line=1.1, floor=1), point(2 * MIB, 0, line=1.1)], "1.1 ns in 2"),
    ("000-054", UNKNOWN, [point(16 * KIB, 0, line=1.1), point(2 * MIB, 0, line=1.9)], "1.09 to 1.11 ns and"),
    ("000-054", UNKNOWN, [point(16 * KIB, 0), point(2 * MIB, 0, line=12, spread=np.inf)], "do not decide"),
    ("000-054", UNKNOWN, [point(16 * KIB, 0)], "both 16 KiB and 2 MiB"),
    ("000-057", FAILS, [point(MIB, 2e6), point(64 * MIB, 1e5, line=100, past=True)], "+0% after a switch"),
    ("000-057", HOLDS, [point(MIB, 2e4), point(64 * MIB, 2e8, line=100, past=True)], "+191% after a"),
    ("000-057", UNKNOWN, [point(MIB, 2e4), point(64 * MIB, 1e7, half=1e9, past=True)], "overlap"),
    (
        "000-057",
        UNKNOWN,
        [point(MIB, 2e4), point(64 * MIB, 2e8, line=100, floor=3e8, seen=False, past=True)],
        "overlap or lie in the noise",
    ),
    ("000-057", UNKNOWN, [point(MIB, 2e4)], "no set past the last-level cache"),
    ("000-057", UNKNOWN, [point(MIB, 2, seen=False), point(64 * MIB, 1e5, past=True)], "noise floor"),
    ("000-009", HOLDS, [point(4 * KIB, 400), point(MIB, 2e6)], "2,000 times the direct cost, at random with"),
    ("000-009", FAILS, [point(4 * KIB, 400), point(MIB, 3000)], "the largest seen is 3 times"),
    ("000-009", UNKNOWN, [point(MIB, 7500, half=2000)], "from 5 to 11 times, span 7.5"),
    ("000-009", UNKNOWN, [point(MIB, 7500, direct=-5)], "direct cost beside it"),
    # The rest of the grid is not the curve.
    ("larger", UNKNOWN, [*(point(KIB * s, 9e4, partner=MIB) for s in (4, 8)), point(MIB, 90)], "Three"),
    ("000-056", FAILS, [script(), script(64 * MIB, 10.5)], "16 KiB (interval 10.0 to 12.0) and 10.5"),
    ("000-056", HOLDS, [script(tax=3), script(64 * MIB, 30)], "30.0 ns with 64 MiB"),
    ("000-056", UNKNOWN, [script(tax=11, half=6), script(64 * MIB, 20)], "span one half"),
    ("000-056", UNKNOWN, [script(floor=20), script(64 * MIB, 10.5)], "The noise hides 20.0 and 0.1 ns."),
    ("000-056", UNKNOWN, [script(tax=3), script(64 * MIB, 30, floor=40)], "hides 0.1 and 40.0 ns."),
    ("000-056", UNKNOWN, [script()], "two sizes of buffer"),
    ("000-056", UNKNOWN, [script(2 * MIB), script(64 * MIB, 10.5)], "2 MiB, not 16 KiB"),
    ("000-051", FAILS, [script(), script(64 * MIB, 30)], "and 30.0 ns with 64 MiB"),
    ("000-051", HOLDS, [script(tax=0.1, half=0.1), script(64 * MIB, 30)], "0.1 ns with 16 KiB"),
    ("000-051", FAILS, [script(), script(2 * MIB, 30), script(64 * MIB, 5)], "and 30.0 ns with 2 MiB"),
    ("000-051", UNKNOWN, [script(tax=0.1, half=0.1), script(64 * MIB, 30, floor=40)], "span a tenth"),
    ("000-051", UNKNOWN, [script(2 * MIB), script(64 * MIB, 30)], "2 MiB, not 16 KiB"),
    ("000-051", UNKNOWN, [script(tax=2, half=3), script(64 * MIB, 20)], "span a tenth"),
    ("000-051", UNKNOWN, [script(floor=20), script(64 * MIB, 30)], "or the noise span a tenth"),
    ("000-049", FAILS, [script(), script(64 * MIB)], "2.30 times as long"),
    ("000-049", HOLDS, [script(), script(64 * MIB, ratio=2.96)], "2.96 times as long"),
    ("000-049", FAILS, [script(), script(64 * MIB, ratio=6)], "6.00 times as long"),
    ("000-049", UNKNOWN, [script(), script(64 * MIB, ratio=2.7)], "spans 2.7"),
    ("000-058", FAILS, [script(place="unpinned")], "1.00 times the steps of one"),
    ("000-058", HOLDS, [script(place="unpinned", speedup=1.9)], "1.90 times the steps of one"),
    ("000-058", UNKNOWN, [script(place="unpinned", speedup=1.5)], "spans 1.5"),
    ("000-058", UNKNOWN, [script()], "without its pin"),
    ("000-015", HOLDS, [crowd(2, 1000), crowd(512, 1500)], "1 µs with 2 ready threads (interval 950 ns to"),
    ("000-015", FAILS, [crowd(2, 1000), crowd(512, 800)], "800 ns with 512 (750 ns to 850 ns)"),
    ("000-015", UNKNOWN, [crowd(2, 1000), crowd(512, 1110)], "of the noise, 20 ns: 1 µs"),
    ("000-015", UNKNOWN, [crowd(2, 1000), crowd(512, 890)], "of the noise, 20 ns: 1 µs"),
    ("000-015", FAILS, [crowd(2, 1000), crowd(128, 3000), crowd(512, 2000)], "3 µs with 128 ready threads"),
    ("000-015", UNKNOWN, [crowd(2, 1000), crowd(8, 1500)], "Two crowds are needed"),
    ("crowd", FAILS, [crowd(2, 1000), crowd(512, 1500)], "1.5 µs with 512"),
    ("crowd", HOLDS, [crowd(2, 1000), crowd(512, 256_000)], "256 µs with 512"),
    ("crowd", UNKNOWN, [crowd(2, 1000), crowd(512, 128_000)], "half the proportion"),
    ("crowd", UNKNOWN, [crowd(2, 1000)], "Two crowds are needed"),
    ("000-005", UNKNOWN, [point(4 * KIB, 400, half=399), point(MIB, 29300, half=29000)], "factor of two"),
    ("000-008", UNKNOWN, [point(MIB, 11000, half=10900)], "would decide, with intervals from"),
    ("000-028", UNKNOWN, [point(2 * MIB, 29000, kernel=20000)], "No set that fits a near cache"),
    ("000-028", UNKNOWN, [point(16 * KIB, 1000, kernel=np.nan)], "touches nothing"),
    ("000-028", UNKNOWN, [point(2 * MIB, 29000, kernel=20000)], "No set that fits a near cache"),
    ("000-028", UNKNOWN, [point(16 * KIB, 1000, seen=False)], "noise floor"),
]  # fmt: skip


# The first chapters' are above; every later module of claims has a module of cases of its own.
LATER = (claims_attribution, claims_ladder, claims_latency, claims_pinning, claims_pool, claims_switching,
         claims_throttling, claims_wakepath, test_eevdf, test_ipc, test_napi, test_packets)  # fmt: skip
ALL_CASES: list[Case] = [*CASES, *(case for module in LATER for case in module.CASES)]
CANNOT_BE = {
    ("larger", HOLDS),  # a largest set with the largest warm-up may still bend beyond it
    ("000-081", HOLDS),  # the run chooses its rate for a loss: the two together can refute the sentence only
    ("000-134", HOLDS),  # as well
    ("000-115", HOLDS),  # yielders prove nothing of preemption: they refute, or are not so many
    ("000-139", HOLDS),  # nothing else runs here: that a count stands out then proves nothing
    ("000-086", HOLDS),  # a source of one waiter wakes no other thread: there is nothing to save
    ("000-091", HOLDS),  # a CPU that goes idle before each event costs more as well
    ("000-072", HOLDS),  # a worker has one request at a time: a short queue is no proof of one in the kernel
    ("002-059", FAILS),  # the worker asks for less than its share, of which nothing has to be taken
    ("002-039", HOLDS),  # other programs on the other CPUs look the same
    ("002-092", HOLDS),  # as well
    ("gives-way-gets-less", HOLDS),  # others that need the CPUs look the same
    ("slower-cpu", HOLDS),  # where every request meets a throttled group, it waits: that is no slower CPU
    ("000-102", HOLDS),  # a service that needs all of its quota looks the same
    ("002-093", FAILS),  # others that had the CPU without a limit leave few requests beyond what is usual
    ("000-103", HOLDS),  # as well: they make the difference look smaller
    ("002-097", FAILS),  # a weight takes no CPU time from a service: others may have had the CPU
    ("000-130", FAILS),  # as well
    ("own-cpu-quota", FAILS),  # a service that needs all of its CPU for a period looks the same
    ("gomaxprocs-throttled", HOLDS),  # others that leave it less than its quota look the same
    ("gomaxprocs-work", FAILS),  # others take more from few threads than from many
    ("own-limit", HOLDS),  # room for both in the limit around, or a sibling that had less, looks the same
    ("002-096", HOLDS),  # a service that needs all of its quota has nothing to save
    ("002-123", HOLDS),  # it is judged only where periods were throttled, so that some request waited
    ("002-115", FAILS),  # others that had the CPU without a limit look the same
    ("own-counters", HOLDS),  # a group counts what its own limit holds back, whatever the one around it does
    ("percent-tells", HOLDS),  # one pair that agrees says nothing of another
    ("002-070", HOLDS),  # an intruder whose group weighs little looks kept off
    ("002-124", HOLDS),  # what the hogs got done is not counted, so that equal shares can never prove it
    ("002-053", HOLDS),  # two settings are tried, and there are more
    ("002-045", HOLDS),  # the hog never has a machine's only CPU: no machine hangs, whatever the hog is left
}


@pytest.mark.parametrize(
    "case", ALL_CASES, ids=[f"{c[0]}-{c[1].split()[0]}-{i}" for i, c in enumerate(ALL_CASES)]
)
def test_a_constructed_summary_is_judged(case: Case) -> None:
    name, outcome, rows, said = case
    verdict = CLAIM[name].check(constructed(CLAIM[name].kind, pd.DataFrame(rows)))
    assert (verdict.outcome, said in verdict.reason) == (outcome, True), verdict


def test_every_claim_has_a_case_for_every_outcome_it_can_have() -> None:
    seen = {(name, outcome) for name, outcome, _, _ in ALL_CASES}
    assert {(name, outcome) for name in CLAIM for outcome in (HOLDS, FAILS, UNKNOWN)} - seen == CANNOT_BE


def test_ids_are_unique_and_every_claim_has_a_known_kind() -> None:
    assert len({claim.id for claim in all_claims()}) == len(all_claims())
    assert {claim.kind for claim in all_claims()} <= set(registry.names())


@pytest.mark.parametrize(("claim", "cells"), [("000-007", 2), ("003-009", 2), ("004-025", 6)])
def test_one_flagged_cell_is_enough_not_to_tell(claim: str, cells: int) -> None:
    sound = [*pairs((900, 1000), (800, 1000), (500, 1000)), far(20000, 19000, 21000)]
    sound.append(cell("yield", net=(700, 600, 800)))
    assert CLAIM[claim].check(constructed(context_switch.matrix.name, pd.DataFrame(sound))).outcome != UNKNOWN
    outcomes = []
    for number, row in enumerate(sound):
        doubted = [*sound]
        doubted[number] = row | {"flagged": True, "switches_per_round_trip": 2.31}
        verdict = CLAIM[claim].check(constructed(context_switch.matrix.name, pd.DataFrame(doubted)))
        assert (verdict.outcome == UNKNOWN) == ("2.31" in verdict.reason)
        outcomes.append(verdict.outcome)
    assert outcomes.count(UNKNOWN) == cells  # each cell that the claim is about, and no other
    every = [row | {"flagged": True} for row in sound]
    assert CLAIM[claim].check(constructed(context_switch.matrix.name, pd.DataFrame(every))).outcome == UNKNOWN


def test_claims_have_ids_of_their_own_sources_and_kinds_that_exist() -> None:
    assert {claim.kind for claim in all_claims()} <= set(registry.names())
    assert all(claim.id and claim.text.endswith(".") and claim.source for claim in all_claims())


def test_another_kind_and_an_unknown_claim_are_refused() -> None:
    sweep = constructed("warmup.sweep", pd.DataFrame([point(4 * KIB, 400)]))
    with pytest.raises(ParameterError, match=r"000-007 is about context_switch\.matrix, not warmup\.sweep"):
        CLAIM["000-007"].check(sweep)
    with pytest.raises(ParameterError, match="000-007"):
        judge(sweep, "000-005", "000-007")
    with pytest.raises(ParameterError, match=r"no claim '999-999'.\n.*000-005"):
        judge(sweep, "999-999")


def test_all_claims_of_the_kind_are_judged_or_those_named_in_order() -> None:
    sweep = constructed("warmup.sweep", pd.DataFrame([point(4 * KIB, 400)]))
    assert [claim.id for claim, _ in judge(sweep)] == [c.id for c in all_claims() if c.kind == "warmup.sweep"]
    assert [claim.id for claim, _ in judge(sweep, "000-028", "000-005")] == ["000-028", "000-005"]
    assert list(judge(constructed("runqlat.histogram", pd.DataFrame()))) == []
    table = judge(sweep).table()
    assert list(table.columns) == ["claim", "outcome", "reason", "source", "id"]
    assert list(judge(constructed("x", pd.DataFrame())).table().columns) == list(table.columns)


def test_a_page_shows_what_people_say_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Claim("x", "<b>A & B</b>", "<i>src</i>", "odd", lambda _: Verdict(FAILS, "1 < 2 <script>"))
    monkeypatch.setattr("sched_labs.core.registry.claims_about", lambda kind: [odd])
    said = judge(constructed("odd", pd.DataFrame()))
    html = said._repr_html_()
    assert (
        "&lt;b&gt;A &amp; B&lt;/b&gt;" in html
        and "&lt;i&gt;src" in html
        and "1 &lt; 2 &lt;script&gt;" in html
    )
    assert not re.search(r"<(b|i|script)>", html)
    assert 'class="verdict fails">does not hold here<' in html and html.count("<tr>") == 2
    assert "does not hold here  <b>A & B</b>  1 < 2" in repr(said)


def test_the_verdicts_that_are_folded_away_are_counted() -> None:
    claim = Claim("x", "So it is.", "a book", "odd", lambda _: Verdict(HOLDS, ""))
    said = [*[FAILS] * 5, HOLDS, *[UNKNOWN] * 2]
    html = claims.base.Judgement([(claim, Verdict(outcome, "")) for outcome in said])._repr_html_()
    assert "<summary>6 more: 3 do not hold here, 1 holds here, 2 cannot be told here</summary>" in html


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0"), (999.4, "999 ns"), (1234, "1.23 µs"), (-2500, "−2.5 µs"), (31_400_000, "31.4 ms"),
        (999_400, "999 µs"), (999_600, "1 ms"), (999_600_000, "1 s"),
    ],
)  # fmt: skip
def test_durations_are_written_with_three_digits(ns: float, text: str) -> None:
    assert claims.base.ns(ns) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("every 4 ms (interval 4 ms to 4 ms).", "every 4 ms (interval 4 ms at both ends)."),
        ("27 % (interval 27 to 27 %)", "27 % (interval 27 % at both ends)"),
        ("1.3 times, interval 1.30 to 1.30.", "1.3 times, interval 1.30 at both ends."),
        ("27\u00a0ms to 27\u00a0ms", "27\u00a0ms at both ends"),
        ("(1.3 to 1.35)", "(1.3 to 1.35)"),
        ("(13 to 3)", "(13 to 3)"),
        ("(4 ms to 4 µs)", "(4 ms to 4 µs)"),
        ("from 2 to 2 switches.", "from 2 to 2 switches."),
    ],
)
def test_ends_that_are_written_alike_are_written_once(text: str, said: str) -> None:
    assert claims.base.ends_once(text) == said
    claim = Claim("x", "So it is.", "a book", "odd", lambda _: Verdict(HOLDS, text))
    assert said in claim.check(constructed("odd", pd.DataFrame())).reason


def quotes(table: pd.DataFrame) -> set[str]:
    """Every number of a summary in the forms in which a reason may quote it."""
    values = table.select_dtypes("number").to_numpy(dtype=float).ravel()
    forms: tuple[Callable[[float], str], ...] = (
        claims.base.ns,
        "{:.2f} switches".format,
        "pipe {:.2f}".format,
        "{:.0%} of".format,
    )
    return {form(value) for value in values[np.isfinite(values)] for form in forms}


@pytest.mark.parametrize("kind", ["context_switch.matrix", "warmup.sweep"])
def test_a_live_run_is_judged_in_its_own_numbers(kind: str, tiny: Callable[[str], Any]) -> None:
    run = tiny(kind)
    table, said = run.summary(), judge(run)
    assert len(list(said)) == sum(claim.kind == run.kind for claim in all_claims())
    known = quotes(table)
    for claim, verdict in said:
        assert verdict.outcome in (HOLDS, FAILS, UNKNOWN)
        if verdict.outcome == UNKNOWN and re.match(r"[^\d]*$|This run (did not|has no) ", verdict.reason):
            assert verdict.reason.endswith(".")
        elif claim.id == "000-008":
            pairs_of_sets = ((table.access == "random") & (table.direct_lo_ns > 0)).sum()
            assert f"of {pairs_of_sets} combinations" in verdict.reason
        elif claim.id == "004-025":
            assert re.search(
                r"pipe [+-]\d+%, eventfd [+-]\d+%, futex [+-]\d+%|switches a round", verdict.reason
            )
        elif claim.id in ("000-097-turn", "004-022", "004-024"):  # quotients of what the table has
            assert re.search(r"\d(%| moves in 1,000 round trips| times as long)", verdict.reason)
        elif claim.id == "000-009":
            assert re.match(
                r"(The intervals and the noise, .* span .*: )?the largest seen is \S+ times the direct cost",
                verdict.reason,
            )
        elif claim.id == "larger":
            assert any(claims.base.size(walked) in verdict.reason for walked in table.working_set_bytes)
        else:
            assert any(quote in verdict.reason for quote in known), (claim.id, verdict)
    again = judge(run, *[claim.id for claim, _ in said])
    assert again.table().equals(said.table())


def test_a_source_leads_to_the_bibliography() -> None:
    page = (Path(__file__).parents[1] / "book" / "bibliography.md").read_text(encoding="utf-8")
    assert all(f'<span id="{anchor}">' in page for anchor in sources.TEXTS.values())
    for claim in all_claims():
        assert not re.search(r"\(00\d\)|no reference", claim.source), claim.id
    assert sources.linked("<a web course on context switches>") == (
        '&lt;<a href="../book/bibliography.html#switch-course">a web course on context switches</a>&gt;'
    )


def test_every_check_answers_the_four_questions() -> None:
    asked = ("Statistic:", "Control:", "Design:", "Opponent:")
    for claim in (*all_claims(), *claims_kernels.CLAIMS):
        check = getattr(claim.test, "func", claim.test)
        assert all(word in (check.__doc__ or "") for word in asked), claim.id


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("p99 was 2.18 ms (1.18 ms to 3.61 ms).", True),
        ("every 4 ms (4 ms to 4 ms).", True),
        ("27 % (interval 20 to 27).", True),
        ("a pin saves −20% (-30.0% to -10.0%: pipe).", True),
        ("cpu.stat calls it throttled_time.", False),
        ("From 0.8 ms to 4.2 ms are 3.4 ms more.", False),
        ("counts only from 12 to 45 threads.", False),
        ("of 3 runtimes 2 go by it, and 1 to be sure.", False),
    ],
)
def test_a_reason_without_an_interval_tells_nothing_of_ranges(text: str, spans: bool) -> None:
    claim = Claim("x", "So it is.", "a book", "odd", lambda _: Verdict(HOLDS, text))
    few = constructed("odd", pd.DataFrame())
    few.parameters["trials"] = 3
    assert ("at most their range" in claim.check(few).reason) == spans
