"""The claims of the chapter on the latency ladder: each judged on CONSTRUCTED summaries for every outcome."""

from __future__ import annotations

from typing import Any

import pytest
from claim_cases import Case, judged, without_a_case

from sched_labs import claims
from sched_labs.claims import FAILS, HOLDS, UNKNOWN

OURS = [*claims.reference.CLAIMS]
CLAIM = {claim.id: claim for claim in OURS}


def rung(name: str, cost: float, half: float = 0.0, calls: float = float("nan")) -> dict[str, Any]:
    return {
        "rung": name,
        "cost_ns": cost,
        "cost_lo_ns": cost - half,
        "cost_hi_ns": cost + half,
        "calls_ns": calls,
    }


REFERENCE: list[Case] = [
    ("004-026", HOLDS, [rung("system_call", 60, 5)], "60 ns, interval 55 ns to 65 ns"),
    ("004-026", FAILS, [rung("system_call", 260, 5)], "260 ns"),
    ("004-026", UNKNOWN, [rung("system_call", 100, 5)], "spans 100 ns"),
    ("004-026", UNKNOWN, [rung("call", 1)], "did not measure a system call"),
    ("004-027", HOLDS, [rung("call", 1.4, 0.1)], "1.4 ns, interval 1.3 to 1.5 ns"),
    ("004-027", FAILS, [rung("call", 9, 1)], "9 ns"),
    ("004-027", UNKNOWN, [rung("call", 5, 1)], "spans 5 ns"),
    ("003-011", HOLDS, [rung("memcpy_warm", 3050, 100)], "3.05 µs"),
    ("003-011", FAILS, [rung("memcpy_warm", 700, 50)], "700 ns"),
    ("003-011", FAILS, [rung("memcpy_warm", 9000, 50)], "9 µs"),
    ("003-011", UNKNOWN, [rung("memcpy_warm", 2400, 50)], "spans a quarter"),
    ("003-012", HOLDS, [rung("switch", 1000, 10, 200), rung("memcpy_warm", 3000, 10)], "1.2 µs with its"),
    ("003-012", FAILS, [rung("switch", 2000, 10, 700), rung("memcpy_warm", 690, 10)], "a warm copy 690 ns"),
    ("003-012", UNKNOWN, [rung("switch", 2000, 90, 700), rung("memcpy_warm", 2700, 10)], "overlap"),
    ("003-012", UNKNOWN, [rung("memcpy_warm", 2700, 10)], "did not measure a switch"),
    ("clock", HOLDS, [rung("clock", 400, 10), rung("system_call", 150, 10)], "the clock 400 ns, getppid 150"),
    ("clock", FAILS, [rung("clock", 24, 1), rung("system_call", 150, 10)], "the clock 24 ns"),
    ("clock", UNKNOWN, [rung("clock", 145, 10), rung("system_call", 150, 10)], "overlap"),
]

CASES = [*REFERENCE]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}")
def test_each_claim_on_constructed_summaries(case: Case) -> None:
    judged(CLAIM[case[0]], case)


def test_every_claim_has_a_case_for_every_outcome() -> None:
    assert without_a_case(OURS, CASES) == set()
