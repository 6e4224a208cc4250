"""What people say about smt, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, SWITCH_LIST, UNKNOWN, WEB_COURSE, CannotTell, Claim, Verdict
from sched_labs.claims.helpers import holds_or_fails, some
from sched_labs.core.words import number_text

PAIRS = "smt.sharing"


def _siblings(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[table.placement == "siblings"]
    if rows.empty:
        raise CannotTell(
            "This run had no two CPUs that are threads of one core, as far as the machine tells."
        )
    return rows


def _speeds(rows: pd.DataFrame) -> str:
    said = ", ".join(
        f"{row.speed_share:.0%} ({row.work} in {row.pair.replace('_', ' and ')}, interval "
        f"{number_text(100 * row.speed_lo_share, 2)}% to {number_text(100 * row.speed_hi_share, 2)}%)"
        for _, row in rows.iterrows()
    )
    return f"of its speed alone a thread keeps {said} beside one on the same core."


def _sibling_is_a_core(table: pd.DataFrame) -> Verdict:
    """Statistic: speed of two that compute, over that alone.  Control: the thread alone on the core.
    Design: the pair that shares most.  Opponent: a pair that waits for memory shares less.
    """
    rows = _siblings(table)
    rows = some(rows[rows.pair == "alu_alu"], "This run has no pair of two threads that only compute.")
    row = rows.iloc[0]
    return holds_or_fails(
        row.speed_lo_share >= 0.95, row.speed_hi_share < 0.95, _speeds(rows), "The interval spans 95%:"
    )


def _negligible(table: pd.DataFrame) -> Verdict:
    """Statistic: speed over that alone, by interval.  Control: the switches, which are few.  Design:
    arithmetic and memory, alike and mixed.  Opponent: two per cent is what negligible is taken to mean.
    """
    rows = _siblings(table)
    reason = f"{_speeds(rows)} {number_text(rows.switches_per_s.max())} switches a second at most."
    return holds_or_fails(
        (rows.speed_lo_share >= 0.98).all(),
        (rows.speed_hi_share < 0.9).any(),
        reason,
        "Not all surely keep 98%, and none surely less than 90%:",
    )


def _half_to_two_thirds(table: pd.DataFrame) -> Verdict:
    """Statistic: speed over that alone, of every pair, by interval.  Control: the thread alone on the
    core.  Design: arithmetic and memory, alike and mixed.  Opponent: any pair can be found that breaks
    a rule of thumb.
    """
    rows = _siblings(table)
    if ((rows.speed_hi_share < 0.5) | (rows.speed_lo_share > 0.65)).any():
        return Verdict(FAILS, _speeds(rows))
    inside = (rows.speed_lo_share >= 0.5) & (rows.speed_hi_share <= 0.65)
    return Verdict(HOLDS if inside.all() else UNKNOWN, _speeds(rows))


CLAIMS = [
    Claim("000-001", "Every CPU that a machine shows is worth a core.", WEB_COURSE, PAIRS,
          _sibling_is_a_core),
    Claim("004-004", "What two hyperthreads cost each other is negligible.", SWITCH_LIST, PAIRS, _negligible),
    Claim("smt-share", "Each of two hyperthreads gets 50 to 65% of a whole core's speed.",
          "a common rule of thumb", PAIRS, _half_to_two_thirds),
]  # fmt: skip
