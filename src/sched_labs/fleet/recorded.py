"""A fleet that ships with the book: guests that differ in their kernel only, each recorded in virtual time.

Nobody owns fourteen machines that differ in one thing; an emulator has them.  Each ran a real-time thread
against long system calls (`gallery.long_calls()`), one instruction a nanosecond.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pandas as pd

from ..kernels import gallery
from .tables import Fleet, of

KIND = "long_system_call"
BY = "kernel code preempted"
PROVENANCE = (
    "Guests of QEMU, one CPU, virtual time: one instruction is a nanosecond, and no machine has these times. "
    "Recorded once each; the book ships their files, with the packages of their kernels."
)
_QUANTILES = {"lateness, p50": 0.5, "lateness, p99": 0.99}


def guests() -> Fleet:
    """The recorded guests as a fleet.  Raises ResultError where a recording cannot be read."""
    facts = {answer["kernel"]: answer["value"]["facts"] for answer in gallery.answers("survey")}
    table = gallery.long_calls()
    rows = []
    for answer, preemption in zip(gallery.answers(KIND), table["preemption"], strict=True):
        known = facts.get(answer["kernel"], {})
        late = pd.Series(answer["value"]["late_ns"])
        rows.append(
            (
                hashlib.sha256(f"{answer['kernel']} {answer['append']}".encode()).hexdigest()[:16],
                datetime(2026, 1, 1, tzinfo=UTC),  # one round: its date is never shown
                {
                    "kind": KIND,
                    "timing": "deterministic",
                    "facts": {
                        "kernel": f"{answer['kernel'].removesuffix('-rt')}.0",
                        "preemption": str(preemption),
                        "scheduler": (known.get("kernel.scheduler") or {}).get("value"),
                    },
                    "numbers": [
                        [name, "late_ns", float(late.quantile(share)), None, None]
                        for name, share in _QUANTILES.items()
                    ],
                    "claims": {},
                },
            )
        )
    return of(rows, [], {})
