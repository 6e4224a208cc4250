"""What people say about the scheduler, each sentence judged on the reader's own run.

    from sched_labs import judge
    judge(result)                     # every claim about this kind of result
    judge(result, "000-007")          # the claims named

The claims of an experiment stand beside it, in the CLAIMS of its `claims.py`.
"""

from __future__ import annotations

from ..core import registry
from ..core.errors import ParameterError
from ..core.result import Result
from .base import FAILS, HOLDS, UNKNOWN, BrokenCheck, CannotTell, Claim, Judgement, Verdict

__all__ = [
    "FAILS", "HOLDS", "UNKNOWN", "BrokenCheck", "CannotTell", "Claim", "Judgement", "Verdict", "all_claims",
    "judge",
]  # fmt: skip


def all_claims() -> list[Claim]:
    """Every claim that an experiment can judge."""
    return registry.claims()


def judge(result: Result, *claim_ids: str) -> Judgement:
    """Judge the claims about this kind of result, or those named.

    Raises ParameterError for a claim that there is not, or that is about another kind of result, and
    BrokenCheck for one whose check goes wrong.
    """
    chosen = registry.claims_about(result.kind)
    if claim_ids:
        known = {claim.id: claim for claim in all_claims()}
        if unknown := [name for name in claim_ids if name not in known]:
            raise ParameterError(f"There is no claim {unknown[0]!r}.", f"There are: {', '.join(known)}.")
        chosen = [known[name] for name in claim_ids]
    table = result.summary() if chosen else None
    elsewhere = result.machine_line() if result.stands_in else ""
    return Judgement([(claim, claim.check(result, table)) for claim in chosen], elsewhere)
