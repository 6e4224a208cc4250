"""What people say about numa, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import WEB_COURSE, CannotTell, Claim, Verdict, size
from sched_labs.claims.helpers import between, holds_or_fails
from sched_labs.core.words import number_text

NODES = "numa.chase"


def _remote(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[~table.local.astype(bool) & table.slowdown_ratio.notna()]
    if rows.empty:
        raise CannotTell("This run had one memory node only.")
    most, cache = rows.working_set_bytes.max(), rows.largest_cache_bytes.max()
    if most < 2 * cache:
        raise CannotTell(
            f"The largest set, {size(float(most))}, is smaller than two of the largest cache, "
            f"{size(float(cache))}: its loads need not all reach memory."
        )
    return rows.sort_values("working_set_bytes", kind="stable", ignore_index=True)


def _decides(rows: pd.DataFrame, inside: pd.Series, outside: pd.Series) -> pd.DataFrame:
    """Of each working set the pair of nodes that decides: outside the limits before one that spans them."""
    order = (~outside).astype(int) + inside.astype(int)
    return rows.loc[order.sort_values(kind="stable").index].drop_duplicates("working_set_bytes").sort_index()


def _slower(rows: pd.DataFrame) -> str:
    return "a load from another node takes " + ", ".join(
        f"{row.slowdown_ratio:.2f} times as long with {size(float(row.working_set_bytes))} "
        f"(interval {between(row, 'slowdown', 'ratio', number_text)})"
        for _, row in rows.iterrows()
    )


def _eight_percent(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of load times, by interval.  Control: the local node.  Design: small sets, which
    caches hold, and large ones.  Opponent: one number for both is what it says.
    """
    rows = _remote(table)
    outside = (rows.slowdown_hi_ratio < 1.04) | (rows.slowdown_lo_ratio > 1.12)
    inside = (rows.slowdown_lo_ratio >= 1.04) & (rows.slowdown_hi_ratio <= 1.12)
    reason = f"{_slower(_decides(rows, inside, outside))}."
    return holds_or_fails(inside.all(), outside.any(), reason, "An interval spans 4% or 12%:")


def _as_the_firmware_says(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of load times of the largest set.  Control: the firmware's table.  Design: random
    loads, one at a time, of a set of two caches or more.  Opponent: the table says latency of an idle
    machine; a load that misses the TLB reads a page table as well, near for either node, and so the ratio is
    lower than that of the memories alone.
    """
    rows = _remote(table)
    rows = rows[(rows.working_set_bytes == rows.working_set_bytes.max()) & rows.firmware_distance.notna()]
    if rows.empty:
        raise CannotTell("The firmware tells no distances.")
    said = rows.firmware_distance / 10
    outside = (rows.slowdown_hi_ratio < 0.9 * said) | (rows.slowdown_lo_ratio > 1.1 * said)
    inside = (rows.slowdown_lo_ratio >= 0.9 * said) & (rows.slowdown_hi_ratio <= 1.1 * said)
    shown = _decides(rows, inside, outside)
    reason = f"{_slower(shown)}; the firmware says {said[shown.index[0]]:.2g} times."
    return holds_or_fails(
        inside.all(),
        outside.any(),
        reason,
        "An interval spans a tenth less or a tenth more:",
    )


CLAIMS = [
    Claim("000-119", "Remote memory costs a program 8% of its CPU.", WEB_COURSE, NODES, _eight_percent),
    Claim("numa-distance", "The firmware's distances are ratios of memory latency.",
          "how numactl's table of distances is often read", NODES, _as_the_firmware_says),
]  # fmt: skip
