"""What the turns of a watch say: who had each CPU when, how long its threads waited, and for whom.

A watch with timeline=True has the tables `turns` (probes.timeline.Timeline.turns) and `longest`, its worst
waits.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from ..core.errors import ParameterError, ResultError
from ..core.result import Result
from ..core.words import time_text

NOT_KEPT = "not kept"


def turns(result: Result) -> pd.DataFrame:
    """The table `turns`.  Raises ResultError where the watch kept none."""
    if "turns" not in result.tables:
        raise ResultError(
            "This watch kept no timeline.", "Watch with --timeline; it takes the privileged helper."
        )
    return result.tables["turns"]


def own(result: Result) -> set[int]:
    """Its threads, those too that lived too shortly for a row of their own: of others no wait is known."""
    table = turns(result)
    return {*result.data["tid"], *table["tid"][table["ready_ns"].notna()]}


def spans(result: Result) -> pd.DataFrame:
    """cpu, tid, name, begin_ns, end_ns, known: who had each CPU from when until when.

    `known` is False where something in the span was not kept: only its beginning is certain.
    """
    return spans_of(turns(result))


def spans_of(table: pd.DataFrame) -> pd.DataFrame:
    """The same of a table of turns."""
    found = []
    for _, rows in table.groupby("cpu", sort=True):
        after = rows[["at_ns", "follows"]].shift(-1)
        part = rows[["cpu", "tid", "name"]].assign(
            begin_ns=rows["at_ns"], end_ns=after["at_ns"], known=after["follows"].fillna(False).astype(bool)
        )
        found.append(part.iloc[:-1])
    table = pd.concat(found, ignore_index=True)
    return table.astype({"begin_ns": "int64", "end_ns": "int64"})


def rivals(table: pd.DataFrame) -> Counter[int]:
    """ns of all the waits that were kept, by the thread that had the CPU that the waiting one then ran on."""
    found: Counter[int] = Counter()
    waits = table[table["ready_ns"].notna()]
    for cpu, rows in spans_of(table).groupby("cpu"):
        begins, ends, known = (rows[name].to_numpy() for name in ("begin_ns", "end_ns", "known"))
        tids = rows["tid"].to_numpy()
        mine = waits[waits["cpu"] == cpu]
        for ready, at in zip(mine["ready_ns"].astype("int64"), mine["at_ns"], strict=True):
            first = max(0, int(np.searchsorted(begins, ready, side="right")) - 1)
            for number in range(first, int(np.searchsorted(begins, at))):
                ns = min(ends[number], at) - max(begins[number], ready)
                if known[number] and ns > 0:
                    found[int(tids[number])] += int(ns)
    return found


def longest(result: Result, rank: int = 1) -> dict[str, Any]:
    """The row of `longest` with this rank, from 1 on.  Raises ParameterError where there are fewer."""
    turns(result)
    rows = result.records("longest")
    if not 1 <= rank <= len(rows):
        raise ParameterError(f"There are {len(rows)} longest waits, and no number {rank!r}.")
    return rows[rank - 1]


def meanwhile(result: Result, wait: dict[str, Any], among: pd.DataFrame | None = None) -> Counter[str]:
    """ns of a wait, by what had the CPU that the thread then ran on; NOT_KEPT for what is not known."""
    table = spans(result) if among is None else among
    begin, end = wait["ready_ns"], wait["at_ns"]
    rows = table[(table["cpu"] == wait["cpu"]) & (table["begin_ns"] < end) & (table["end_ns"] > begin)]
    found: Counter[str] = Counter()
    lasted = rows["end_ns"].clip(upper=end) - rows["begin_ns"].clip(lower=begin)
    for tid, name, known, ns in zip(rows["tid"], rows["name"], rows["known"], lasted, strict=True):
        which = f"{name} ({tid})" if name == wait["name"] else name  # its own kind, or another program
        found[which if known else NOT_KEPT] += int(ns)
    if rest := end - begin - found.total():
        found[NOT_KEPT] += int(rest)
    return found


def told(result: Result, wait: dict[str, Any], among: pd.DataFrame | None = None) -> str:
    """A wait in a sentence: who, how long, and what had the CPU meanwhile."""
    parts = meanwhile(result, wait, among)
    first = parts.most_common(3)
    rest = parts.total() - sum(ns for _, ns in first)
    had = ", ".join(f"{name} {time_text(ns)}" for name, ns in first)
    had += f", {len(parts) - len(first)} more {time_text(rest)}" if rest else ""
    woken = waker(result, wait)
    by = f", woken while {woken} ran," if woken else ""
    return (
        f"{wait['name']} ({wait['tid']}){by} waited {time_text(wait['waited_ns'])} and then had CPU "
        f"{wait['cpu']}. That CPU meanwhile: {had}."
    )


def waker(result: Result, wait: dict[str, Any]) -> str | None:
    """Who ran where it was woken: that thread woke it, or an interrupt did meanwhile.  None: nobody did."""
    table = turns(result)
    row = table[(table["at_ns"] == wait["at_ns"]) & (table["tid"] == wait["tid"])].iloc[0]
    if pd.isna(row["waking_ns"]):
        return None
    if row["waker_tid"] == 0:
        return "nothing (an interrupt)"
    names = table[table["tid"] == row["waker_tid"]]["name"]
    return (
        str(names.iloc[0]) if len(names) else f"thread {row['waker_tid']}" if row["waker_tid"] > 0 else None
    )
