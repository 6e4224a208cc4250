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
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]}-{c[1].split()[0]}-{i}" for i, c in enumerate(CASES)])
def test_a_constructed_summary_is_judged(case: Case) -> None:
    judged(CLAIM[case[0]], case)


def test_every_claim_has_a_case_for_every_outcome() -> None:
    assert without_a_case(latency.CLAIMS, CASES) == set()
