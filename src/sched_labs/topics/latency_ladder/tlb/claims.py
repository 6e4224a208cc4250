"""What people say about tlb, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import at_most, between, ends, some

KIND = "tlb.switches"
REFILL_NS = 30_000 / 3.2  # 30,000 cycles at 3.2 GHz, as the source has it


def _flushed(table: pd.DataFrame) -> pd.Series:
    """The number of pages where a ring of eight processes shows its loss of translations best."""
    rows = some(
        table[(table.condition == "processes_8") & table.space_seen & (table.space_ns > 0)],
        "Eight address spaces show no loss either: the processor keeps them apart, or noise hides it.",
    )
    return rows.sort_values("space_lo_ns").iloc[-1]


def _at(table: pd.DataFrame, pages: int, condition: str) -> pd.Series:
    found = table[(table.pages == pages) & (table.condition == condition)]
    if found.empty:
        raise CannotTell(f"This run did not walk {pages} pages after a switch to a {condition}.")
    return found.iloc[0]


def _half_of(part: pd.Series, whole: pd.Series, stem: str, text: str) -> Verdict:
    """Flushed means: at least half of what is lost to eight processes; what is unseen may be the floor."""
    if part[f"{stem}_lo_ns"] >= max(0.5 * whole[f"{stem}_hi_ns"], part.floor_ns):
        return Verdict(HOLDS, text)
    if at_most(part, stem, "ns") < 0.5 * whole[f"{stem}_lo_ns"]:
        return Verdict(FAILS, text)
    both_ends = f"{ends(part, stem)} and {between(whole, stem, 'ns')}"
    raise CannotTell(f"The intervals, {both_ends}, or the noise span one half: {text}")


def _cost(row: pd.Series, stem: str) -> str:
    """What is lost in words: nothing, where its interval does not stand clear of the noise."""
    return ns(row[f"{stem}_ns"]) if row[f"{stem}_lo_ns"] > row.floor_ns else "nothing that can be seen"


def _each_switch(table: pd.DataFrame) -> Verdict:
    """Statistic: loss after a switch to a thread, or the noise, against half of the largest.
    Control: a ring of eight processes.  Design: where that shows no loss nothing is told.
    Opponent: a thread has the same translations, which the sentence forgets.
    """
    whole = _flushed(table)
    thread = _at(table, whole.pages, "thread")
    text = (
        f"{whole.pages} pages: a switch to a thread adds {_cost(thread, 'extra')} to the walk, "
        f"a ring of eight processes {ns(whole.extra_ns)}."
    )
    return _half_of(thread, whole, "extra", text)


def _other_process(table: pd.DataFrame) -> Verdict:
    """Statistic: loss to one other address space, or the noise, against half of the largest.
    Control: a switch to a thread, taken off.  Design: where eight address spaces show no loss nothing is
    told.  Opponent: without tags it is true.
    """
    whole = _flushed(table)
    return _one_flushes(_at(table, whole.pages, "process"), whole)


def _one_flushes(process: pd.Series, whole: pd.Series) -> Verdict:
    text = (
        f"{whole.pages} pages: the address space of one other process costs {_cost(process, 'space')}, "
        f"those of seven {ns(whole.space_ns)}."
    )
    return _half_of(process, whole, "space", text)


def _refill(table: pd.DataFrame) -> Verdict:
    """Statistic: what a switch to another process adds that one to a thread does not, at its largest, or
    the noise.  Control: a ring of eight processes, which shows whether anything is flushed here at all.
    Design: where the processor keeps address spaces apart, nothing is refilled, and nothing can be told.
    Opponent: a larger set than the run walked would need more refills; the page says how many pages it took.
    """
    whole = _flushed(table)
    rows = table[(table.condition == "process") & table.space_ns.notna()]
    if rows.empty:
        raise CannotTell("This run has no switch to another process.")
    there = _at(table, whole.pages, "process")
    if _one_flushes(there, whole).outcome == FAILS:
        raise CannotTell(
            f"One other process did not flush the data TLB: at {whole.pages} pages it costs "
            f"{_cost(there, 'space')}, seven cost {ns(whole.space_ns)}."
        )
    above = rows[rows.space_seen & (rows.space_lo_ns >= REFILL_NS)]
    if not above.empty:
        return Verdict(HOLDS, _measured(above.sort_values("space_lo_ns").iloc[-1]))
    most = rows[["space_hi_ns", "floor_ns"]].max(axis=1)
    text = _measured(rows.iloc[int(most.argmax())])
    if most.max() < REFILL_NS:
        return Verdict(FAILS, text)
    raise CannotTell(f"The interval or the noise spans {ns(REFILL_NS)}: {text}")


def _measured(row: pd.Series) -> str:
    return (
        f"{ns(row.space_ns)} (at {row.pages} pages, interval {between(row, 'space', 'ns')}), "
        f"noise floor {ns(row.floor_ns)}."
    )


CLAIMS = [
    Claim("000-006", "Every switch leaves a freshly flushed TLB behind.", WEB_COURSE, KIND, _each_switch),
    Claim("000-031", "A switch to another process flushes the data TLB.", WEB_COURSE, KIND, _other_process),
    Claim("000-022", "Refilling the TLB after a switch to another process costs 30,000 cycles (9.4 µs at "
          "3.2 GHz).", WEB_COURSE, KIND, _refill),
]  # fmt: skip
