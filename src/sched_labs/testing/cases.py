"""Claims judged on constructed summaries: every outcome that a check can have, without waiting for a machine
that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ..claims import FAILS, HOLDS, UNKNOWN, BrokenCheck, Claim
from ..core.result import Result


class Case(NamedTuple):
    """A made-up summary, and how a claim fares on it.

    claim    the claim's id
    outcome  HOLDS, FAILS or UNKNOWN
    rows     of the summary: what the check looks at, column by column
    said     a part of the reason that the verdict must give
    """

    claim: str
    outcome: str
    rows: list[dict[str, Any]]
    said: str


class Constructed(Result):
    """A result whose summary was made up; nothing in it was measured."""

    table = pd.DataFrame()

    def summary(self) -> pd.DataFrame:
        return self.table.copy()


def constructed(kind: str, table: pd.DataFrame) -> Constructed:
    """A result of this kind with this summary."""
    result = Constructed(kind=kind, data=pd.DataFrame(), machine={}, parameters={})
    result.table = table
    return result


def misjudged(claims: Sequence[Claim], cases: Sequence[Case]) -> Iterator[str]:
    """What is wrong: cases that come out otherwise, outcomes without a case, cases of no claim."""
    known = {claim.id: claim for claim in claims}
    for case in cases:
        if case.claim not in known:
            yield f"A case is about {case.claim}, which is no claim about this kind."
            continue
        claim = known[case.claim]
        try:
            verdict = claim.check(constructed(claim.kind, pd.DataFrame(case.rows)))
        except BrokenCheck as error:
            yield str(error.what)
            continue
        if verdict.outcome != case.outcome or case.said not in verdict.reason:
            yield (
                f"{claim.id}: the case should be {case.outcome!r} with {case.said!r}, "
                f"and is {verdict.outcome!r} with {verdict.reason!r}."
            )
    seen = {(case.claim, case.outcome) for case in cases}
    for claim in claims:
        for outcome in (HOLDS, FAILS, UNKNOWN):
            if (claim.id, outcome) not in seen:
                yield f"{claim.id}: no case ends in {outcome!r}."
