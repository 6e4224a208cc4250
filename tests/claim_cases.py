"""Claims judged on CONSTRUCTED summaries: what the tests of every claims module share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from sched_labs.claims import FAILS, HOLDS, UNKNOWN, Claim
from sched_labs.result import Result

# claim's id, outcome, rows of the constructed summary, what the reason must say
Case = tuple[str, str, list[dict[str, Any]], str]


class Constructed(Result):
    """A result whose summary was made up; nothing in it was measured."""

    table = pd.DataFrame()

    def summary(self) -> pd.DataFrame:
        return self.table.copy()


def constructed(kind: str, table: pd.DataFrame) -> Constructed:
    result = Constructed(kind=kind, data=pd.DataFrame(), machine={}, parameters={})
    result.table = table
    return result


def judged(claim: Claim, case: Case) -> None:
    """Fails unless the claim is judged on the case's rows as the case says."""
    _, outcome, rows, said = case
    verdict = claim.check(constructed(claim.kind, pd.DataFrame(rows)))
    assert (verdict.outcome, said in verdict.reason) == (outcome, True), verdict


def without_a_case(claims: Iterable[Claim], cases: Sequence[Case]) -> set[tuple[str, str]]:
    """The (claim, outcome) that no case covers."""
    seen = {(name, outcome) for name, outcome, _, _ in cases}
    return {(claim.id, outcome) for claim in claims for outcome in (HOLDS, FAILS, UNKNOWN)} - seen
