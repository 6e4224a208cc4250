"""What people say about nested, judged on a run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sched_labs.claims.base import FAILS, CannotTell, Claim, Verdict
from sched_labs.topics.cgroup_throttling import OTHERS

BELIEF = "a common belief"
NESTED = "nested.groups"


def _both_counts(row: Any) -> str:
    """What both groups of a row counted, in words."""
    inside = f"the one inside, with {'no' if row.condition == 'no_own_limit' else 'a'} limit of its own,"
    own = row.own_throttled_percent
    counted = "no periods at all" if pd.isna(own) else f"{own:.0f} %"
    around = f"the group around was throttled in {row.outer_throttled_percent:.0f} % of its periods"
    return f"{around}, and {inside} counted {counted}"


def _in_its_own_counters(table: pd.DataFrame) -> Verdict:
    """Statistic: throttled periods of the inner group.  Control: the outer group's own count.  Design: two
    hogs under a limit around both.  Opponent: with a limit of its own a group counts what that holds back,
    so that no run shows that it is true.
    """
    inside = table[table.condition.isin(["sibling", "no_own_limit"])]
    inside = inside[inside.outer_throttled_percent >= 50]
    if inside.empty:
        raise CannotTell("The group around was not held back in half of its periods beside a busy sibling.")
    own = inside.own_throttled_percent
    reason = "; ".join(map(_both_counts, inside.itertuples())) + "."
    if (own.isna() | (own < 10)).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"Its own limit may have held it back: {reason}")


def _its_own_limit(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time, by interval, against its own limit.  Control: alone it gets that, and beside the
    sibling the group around is held back, so that no other program keeps it from it.  Design: a busy sibling
    under one outer limit.  Opponent: where the outer limit has room for both, or the sibling is kept from its
    part, it looks true, so that no run shows that it is.
    """
    by = table.set_index("condition")
    if not {"alone", "sibling"} <= set(by.index):
        raise CannotTell("This run did not measure a group alone and beside a busy sibling.")
    alone, sibling = by.loc["alone"], by.loc["sibling"]
    limit = alone.own_limit_percent
    reason = (
        f"under its own limit of {limit:.0f} % the group had {alone.cpu_percent:.0f} % of a CPU alone, and "
        f"{sibling.cpu_percent:.0f} % (interval {sibling.cpu_lo_percent:.0f} to "
        f"{sibling.cpu_hi_percent:.0f}) beside its sibling."
    )
    if not alone.cpu_percent >= 0.9 * limit:
        raise CannotTell(f"{OTHERS} {reason}")
    if sibling.cpu_hi_percent < 0.9 * limit:
        if sibling.outer_throttled_percent < 50:
            raise CannotTell(f"The group around was held back in less than half of its periods: {reason}")
        return Verdict(FAILS, reason)
    if sibling.cpu_lo_percent >= 0.9 * limit:
        raise CannotTell(f"The limit around may have room for both, or the sibling had less: {reason}")
    raise CannotTell(f"The interval spans nine tenths of it: {reason}")


CLAIMS = [
    Claim("own-counters", "A container that is throttled counts it in its own cpu.stat.", BELIEF, NESTED,
          _in_its_own_counters),
    Claim("own-limit", "A group may use all of its own limit, whoever else is in its pod.", BELIEF, NESTED,
          _its_own_limit),
]  # fmt: skip
