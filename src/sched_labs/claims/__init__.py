"""What people say about the scheduler, each sentence judged on the reader's own run.

    from sched_labs import judge
    judge(result)                     # every claim about this kind of result
    judge(result, "000-007")          # the claims named

One module per topic; a claim is added to its module's CLAIMS, a module to MODULES.
"""

from __future__ import annotations

from ..errors import ParameterError
from ..result import Result
from . import (
    attribution,
    context_switch,
    fpu,
    ipc,
    latency,
    loops,
    packets,
    pinning,
    pool,
    reference,
    ring,
    switching,
    throttling,
    tlb,
    warmup,
)
from .base import FAILS, HOLDS, UNKNOWN, BrokenCheck, CannotTell, Claim, Judgement, Verdict

MODULES = (
    throttling,
    attribution,
    context_switch,
    warmup,
    latency,
    reference,
    tlb,
    fpu,
    ring,
    loops,
    switching,
    pool,
    pinning,
    ipc,
    packets,
)
CLAIMS = [claim for module in MODULES for claim in module.CLAIMS]

__all__ = [
    "CLAIMS",
    "FAILS",
    "HOLDS",
    "UNKNOWN",
    "BrokenCheck",
    "CannotTell",
    "Claim",
    "Judgement",
    "Verdict",
    "judge",
]


def judge(result: Result, *claim_ids: str) -> Judgement:
    """Judge the claims about this kind of result, or those named.

    Raises ParameterError for a claim that there is not, or that is about another kind of result, and
    BrokenCheck for one whose check goes wrong.
    """
    known = {claim.id: claim for claim in CLAIMS}
    if unknown := [name for name in claim_ids if name not in known]:
        raise ParameterError(f"There is no claim {unknown[0]!r}.", f"There are: {', '.join(known)}.")
    chosen = [known[name] for name in claim_ids] or [claim for claim in CLAIMS if claim.kind == result.kind]
    table = result.summary() if chosen else None
    return Judgement([(claim, claim.check(result, table)) for claim in chosen])
