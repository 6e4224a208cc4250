"""Claims about scheduler latency: each judged on CONSTRUCTED summaries for every outcome it can have."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest
from claim_cases import Case, judged, without_a_case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN, latency

CLAIM = {claim.id: claim for claim in latency.CLAIMS}


def regime(
    mode: str, place: str, name: str, half: tuple[float, float, float] = (nan, nan, nan), **more: Any
) -> dict[str, Any]:
    """One row of a sweep of regimes: half is (median, low, high) in ns."""
    return {
        "mode": mode,
        "placement": place,
        "regime": name,
        "workers": 8,
        "instrument": "bpf",
        "waits": 1000,
        "rounds": 1000,
        "p50_ns": half[0],
        "p50_lo_ns": half[1],
        "p50_hi_ns": half[2],
        "p99_ns": nan,
        "switched_share": nan,
        "timeslices": 1000.0,
        "schedstat_mean_ns": nan,
        "mean_ns": nan,
        "wakeups_per_slice": nan,
    } | more


def crowd(**more: Any) -> list[dict[str, Any]]:
    return [regime("yield", "pinned", "oversubscribed", switched_share=1.0, **more)]


def matched(share: float) -> dict[str, Any]:
    return regime("yield", "spread", "matched", switched_share=share)


def means(place: str, name: str, schedstat: float, mean: float, **more: Any) -> list[dict[str, Any]]:
    return [regime("sleep", place, name, schedstat_mean_ns=schedstat, mean_ns=mean, **more)]


def light(*half: float) -> list[dict[str, Any]]:
    return [regime("sleep", "spread", "light", (half[0], half[1], half[2]))]


def four(*half: float) -> list[dict[str, Any]]:
    return [regime("yield", "spread", "oversubscribed", (half[0], half[1], half[2]))]


def hogs(
    number: int, stint: float, gap: float, half: float = 0.01, *, wish: float = nan, own: float = 1.4e6
) -> dict[str, Any]:
    """One row of a sweep of slices: medians in ns with intervals of +- half of themselves."""
    return {
        "hogs": number,
        "wished_slice_ns": wish,
        "stint_p50_ns": stint,
        "stint_lo_ns": stint * (1 - half),
        "stint_hi_ns": stint * (1 + half),
        "gap_p50_ns": gap,
        "gap_lo_ns": gap * (1 - half),
        "gap_hi_ns": gap * (1 + half),
        "gap_p90_ns": gap * 1.1,
        "gap_max_ns": gap * 2,
        "gaps_per_stint": gap / stint,
        "slice_ns": own,
        "tick_ns": 4e6,
    }


def wishing(wish: float, stint: float, half: float = 0.01) -> list[dict[str, Any]]:
    plain = [hogs(2, 4e6, 4e6, half), hogs(4, 4e6, 12e6, half)]
    return [*plain, hogs(4, stint, 3 * stint, half, wish=wish)]


CASES: list[Case] = [
    ("002-021", HOLDS, crowd(wakeups_per_slice=0.99), "99.0% of the turns"),
    ("002-021", FAILS, crowd(wakeups_per_slice=0.004), "0.4% of the turns"),
    ("002-021", UNKNOWN, crowd(wakeups_per_slice=0.4), "40.0%"),
    ("002-021", UNKNOWN, crowd(), "no probe"),
    ("002-028", HOLDS, [matched(0.9)], "90.0% of the sched_yield calls"),
    ("002-028", FAILS, [matched(0.001)], "0.1% of the sched_yield calls"),
    ("002-028", UNKNOWN, [matched(0.3)], "Other programs"),
    ("002-028", UNKNOWN, crowd(), "did not measure yielding workers, one for each CPU"),
    ("002-029", HOLDS, four(20_000, 18_000, 25_000), "waited 20 µs"),
    ("002-029", FAILS, four(157_000, 107_000, 160_000), "waited 157 µs"),
    ("002-029", FAILS, four(9_000, 8_000, 10_000), "waited 9 µs"),
    ("002-029", UNKNOWN, four(30_000, 18_000, 45_000), "spans"),
    ("002-029", UNKNOWN, four(nan, nan, nan), "too few"),
    ("002-034", HOLDS, [matched(0.9), regime("sleep", "spread", "matched")], "90%"),
    ("002-034", FAILS, [matched(0.0), regime("sleep", "spread", "matched")], "0% of the rounds"),
    ("002-034", UNKNOWN, [matched(0.0), regime("sleep", "spread", "matched", waits=100)], "0.10 a round"),
    ("002-034", UNKNOWN, [matched(0.3), regime("sleep", "spread", "matched")], "30%"),
    ("002-027", HOLDS, light(5_000, 4_000, 6_000), "waited 5 µs"),
    ("002-027", FAILS, light(21_000, 20_000, 22_000), "waited 21 µs"),
    ("002-027", UNKNOWN, light(7_000, 6_000, 8_000), "spans"),
    ("002-038", HOLDS, crowd(p99_ns=2e7), "within 20 ms"),
    ("002-038", FAILS, crowd(p99_ns=1e6), "within 1 ms"),
    ("002-038", UNKNOWN, crowd(p99_ns=7e6), "within 7 ms"),
    ("002-038", UNKNOWN, crowd(), "too few"),
    ("002-118", FAILS, means("pinned", "oversubscribed", 517e3, 515e3), "517 µs by schedstat, 515 µs by BPF"),
    ("002-118", HOLDS, means("pinned", "oversubscribed", 10e3, 515e3), "10 µs by schedstat"),
    ("002-118", UNKNOWN, means("pinned", "oversubscribed", 300e3, 515e3), "factor of two"),
    ("002-118", UNKNOWN, means("pinned", "oversubscribed", nan, 515e3), "no run delay"),
    ("L47", HOLDS, means("spread", "light", 20e3, 21e3), "saw 20 µs"),
    ("L47", FAILS, means("spread", "light", 400, 21800), "saw 400 ns (2%)"),
    ("L47", UNKNOWN, means("spread", "light", 14e3, 21e3), "67%"),
    ("L47", UNKNOWN, means("spread", "light", 20e3, 21e3, instrument="self_timed"), "needs the probe"),
    ("L11", HOLDS, [hogs(2, 12e6, 12e6), hogs(8, 3e6, 21e6)], "12 ms among 2 hogs, 3 ms among 8"),
    ("L11", FAILS, [hogs(2, 4e6, 4e6), hogs(16, 4e6, 60e6)], "4 ms among 2 hogs, 4 ms among 16"),
    ("L11", UNKNOWN, [hogs(2, 4e6, 4e6, 0.5), hogs(16, 3e6, 60e6, 0.5)], "overlap"),
    ("L11", UNKNOWN, [hogs(2, 4e6, 4e6)], "two numbers of hogs"),
    ("002-006", HOLDS, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 28e6)], "1.10 × (N - 1) stints"),
    ("002-006", FAILS, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 80e6)], "3.14 × (N - 1)"),
    ("002-006", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 45e6)], "1.77 ×"),
    ("002-016", HOLDS, [hogs(2, 4e6, 4e6), hogs(3, 4e6, 4e6)], "a wait is 1.0 stints long"),
    ("002-016", FAILS, [hogs(2, 4e6, 4e6), hogs(16, 4e6, 60e6)], "a wait is 15.0 stints long"),
    ("002-016", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(3, 4e6, 6e6, 0.4)], "spans a limit"),
    ("002-030", HOLDS, [hogs(2, 1.5e6, 1.5e6), hogs(4, 1.5e6, 4.5e6)], "a wait 4.5 ms"),
    ("002-030", FAILS, [hogs(2, 4e6, 4e6), hogs(4, 4e6, 12e6)], "a wait 12 ms"),
    ("002-030", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(4, 2e6, 6e6, 0.3)], "spans"),
    ("002-057", HOLDS, [hogs(2, 4e6, 4e6), hogs(6, 160e6, 800e6)], "800 ms or less"),
    ("002-057", FAILS, [hogs(2, 4e6, 4e6), hogs(6, 4e6, 20e6)], "20 ms or less"),
    ("002-057", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(6, 80e6, 400e6, 0.3)], "spans"),
    ("002-057", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 28e6)], "did not measure 6 hogs"),
    ("base-slice", HOLDS, [hogs(2, 1.4e6, 1.4e6), hogs(4, 1.4e6, 4e6)], "a turn takes 1.4 ms"),
    ("base-slice", FAILS, [hogs(2, 4e6, 4e6), hogs(4, 4e6, 12e6)], "tick comes every 4 ms"),
    ("base-slice", UNKNOWN, [hogs(2, 1.7e6, 2e6, 0.3), hogs(4, 2e6, 6e6)], "spans"),
    ("base-slice", UNKNOWN, [hogs(2, 4e6, 4e6, own=nan), hogs(4, 4e6, 12e6)], "does not tell its slice"),
    ("002-126", HOLDS, wishing(20e6, 20e6), "asked for 20 ms ran 20 ms at a time, 4 ms without asking"),
    ("002-126", FAILS, wishing(20e6, 4e6), "ran 4 ms at a time"),
    ("002-126", UNKNOWN, wishing(20e6, 4.2e6, 0.1), "overlap"),
    ("002-126", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(4, 4e6, 12e6)], "grants no slices"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]}-{c[1].split()[0]}-{i}" for i, c in enumerate(CASES)])
def test_a_constructed_summary_is_judged(case: Case) -> None:
    judged(CLAIM[case[0]], case)


def test_every_claim_has_a_case_for_every_outcome() -> None:
    assert without_a_case(latency.CLAIMS, CASES) == set()
