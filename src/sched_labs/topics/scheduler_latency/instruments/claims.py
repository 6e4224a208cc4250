"""What people say about instruments, judged on a run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, ONE_VM, CannotTell, Claim, Verdict, ns
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import above


def _seen_by_schedstat(table: pd.DataFrame, condition: str) -> tuple[float, float, str]:
    """Schedstat's mean wait by BPF's: least, most, and a sentence."""
    rows = table[table["condition"] == condition].set_index("instrument")
    if not {"bpf", "schedstat"} <= set(rows.index):
        raise CannotTell("This run lacks BPF or schedstat.")
    theirs: Any = rows.loc["schedstat"]
    ours: Any = rows.loc["bpf"]
    reason = (
        f"schedstat says {ns(theirs.mean_ns)} a wait (interval {ns(theirs.mean_lo_ns)} to "
        f"{ns(theirs.mean_hi_ns)}), BPF {ns(ours.mean_ns)} ({ns(ours.mean_lo_ns)} to {ns(ours.mean_hi_ns)})."
    )
    if not ours.mean_lo_ns > 0:
        raise CannotTell(f"The interval bounds nothing: {reason}")
    return float(theirs.mean_lo_ns / ours.mean_hi_ns), float(theirs.mean_hi_ns / ours.mean_lo_ns), reason


def _only_bpf(table: pd.DataFrame) -> Verdict:
    """Statistic: mean wait by schedstat over BPF's, by interval.  Control: the same waits.  Design:
    threads that queue behind hogs.  Opponent: a histogram takes more than a mean.
    """
    least, most, reason = _seen_by_schedstat(table, "queue")
    if least >= 0.75 and most <= 1.33:
        return Verdict(FAILS, f"of waits in a queue {reason}")
    if most < 0.75 or least > 1.33:
        return Verdict(HOLDS, f"of waits in a queue {reason}")
    raise CannotTell(f"The intervals are too wide: {reason}")


def _misses_short_waits(table: pd.DataFrame) -> Verdict:
    """Statistic: part of BPF's mean that schedstat lacks.  Control: the same waits.  Design: an idle CPU:
    the run queue's clock is not updated before the switch.  Opponent: BPF begins at sched_wakeup, and
    misses the message itself.
    """
    least, most, reason = _seen_by_schedstat(table, "idle")
    return above(1 - most, 1 - least, 0.5, reason)


CLAIMS = [
    Claim("002-118", "Scheduler latency can be measured with eBPF only.", COURSE, "instruments.compared",
          _only_bpf),
    Claim("L47", "The kernel's own run delay (schedstat) misses most of a wake-up on an idle CPU.", ONE_VM,
          "instruments.compared", _misses_short_waits),
]  # fmt: skip
