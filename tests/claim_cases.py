"""Claims judged on CONSTRUCTED summaries: what the tests of every claims module share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from sched_labs.claims import FAILS, HOLDS, UNKNOWN, Claim, all_claims
from sched_labs.testing import constructed

# claim's id, outcome, rows of the constructed summary, what the reason must say
Case = tuple[str, str, list[dict[str, Any]], str]


def judged(claim: Claim, case: Case) -> None:
    """Fails unless the claim is judged on the case's rows as the case says."""
    _, outcome, rows, said = case
    verdict = claim.check(constructed(claim.kind, pd.DataFrame(rows)))
    assert (verdict.outcome, said in verdict.reason) == (outcome, True), verdict


def without_a_case(claims: Iterable[Claim], cases: Sequence[Case]) -> set[tuple[str, str]]:
    """The (claim, outcome) that no case covers."""
    seen = {(name, outcome) for name, outcome, _, _ in cases}
    return {(claim.id, outcome) for claim in claims for outcome in (HOLDS, FAILS, UNKNOWN)} - seen


# Claims that the matrix of the first chapter judges and the chapter on pinning tells of.
ON_ONE_CPU = ("000-097-turn", "004-022", "004-024")


def of(*names: str, but: Sequence[str] = ()) -> list[Claim]:
    """The claims that these experiments judge, and those with these ids; without some."""
    return [
        claim
        for claim in all_claims()
        if (claim.kind.partition(".")[0] in names or claim.id in names) and claim.id not in but
    ]
