"""What people say about reference, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, SWITCH_LIST, UNKNOWN, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, holds_or_fails, some

ARTICLE = "an article on the costs of threads, measured on a Haswell i7-4771"
KIND = "reference.costs"


def _rung(table: pd.DataFrame, rung: str, what: str) -> pd.Series:
    found = some(table[table.rung == rung], f"This run did not measure {what}.")
    return found.iloc[0]


def _said(row: pd.Series) -> str:
    return f"{ns(row.cost_ns)}, interval {ns(row.cost_lo_ns)} to {ns(row.cost_hi_ns)}"


def _at_most(row: pd.Series, limit_ns: float, text: str) -> Verdict:
    return holds_or_fails(
        row.cost_hi_ns <= limit_ns, row.cost_lo_ns > limit_ns, text, f"The interval spans {ns(limit_ns)}:"
    )


def _system_call(table: pd.DataFrame) -> Verdict:
    """Statistic: time of getppid, by interval.  Control: an empty loop, taken off.  Design: the cheapest
    call, in a loop.  Opponent: with page-table isolation it is several times as much.
    """
    row = _rung(table, "system_call", "a system call")
    return _at_most(row, 100, f"getppid, which does little: {_said(row)}.")


def _function_call(table: pd.DataFrame) -> Verdict:
    """Statistic: time a call, by interval, up to five ns.  Control: an empty loop, taken off.  Design: in
    a loop, which overlaps calls.  Opponent: inlined it costs nothing.
    """
    row = _rung(table, "call", "a function call")
    return _at_most(row, 5, f"{_said(row)}. Up to 5 ns counts as a few.")


def _copies(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The warm and the cold one."""
    return _rung(table, "memcpy_warm", "a warm copy"), _rung(table, "memcpy_cold", "a cold copy")


def _warm_and_cold(warm: str, cold: str, text: str, unclear: str) -> Verdict:
    """What neither source says is how warm its memory was: decided only where both copies agree."""
    if UNKNOWN not in (warm, cold) and warm != cold:
        raise CannotTell(f"It depends on how warm the memory is: {text}")
    if UNKNOWN in (warm, cold):
        raise CannotTell(f"{unclear}: {text}")
    return Verdict(warm, text)


def _copy_3200(table: pd.DataFrame) -> Verdict:
    """Statistic: time of a copy, by interval, within a quarter.  Control: warm memory and cold.  Design:
    64 KiB from memory that was or was not used.  Opponent: where the two disagree, or it lies between
    them, the sentence is too vague.
    """
    low, high = 0.75 * 3200, 1.25 * 3200

    def outcome(row: pd.Series) -> str:
        if row.cost_lo_ns >= low and row.cost_hi_ns <= high:
            return HOLDS
        return FAILS if row.cost_hi_ns < low or row.cost_lo_ns > high else UNKNOWN

    warm, cold = _copies(table)
    text = f"warm: {_said(warm)}; cold: {_said(cold)}."
    if warm.cost_hi_ns < low and cold.cost_lo_ns > high:
        raise CannotTell(f"It depends on how warm the memory is, for 3.2 µs lies in between: {text}")
    unclear = f"An interval spans {ns(low)} or {ns(high)}, a quarter less or more than 3.2 µs"
    return _warm_and_cold(outcome(warm), outcome(cold), text, unclear)


def _switch_below_copy(table: pd.DataFrame) -> Verdict:
    """Statistic: a switch with its system calls against a copy, by interval.  Control: warm memory and
    cold.  Design: on one CPU.  Opponent: where the two copies disagree the sentence is too vague.
    """
    switch = _rung(table, "switch", "a switch")
    calls = switch.calls_ns

    def outcome(copy: pd.Series) -> str:
        if switch.cost_hi_ns + calls < copy.cost_lo_ns:
            return HOLDS
        return FAILS if switch.cost_lo_ns + calls > copy.cost_hi_ns else UNKNOWN

    warm, cold = _copies(table)
    text = (
        f"a switch {ns(switch.cost_ns + calls)} with its system calls, a warm copy {ns(warm.cost_ns)}, "
        f"a cold one {ns(cold.cost_ns)}."
    )
    ends = [switch[f"cost_{end}_ns"] + calls for end in ("lo", "hi")]
    unclear = (
        f"The intervals overlap, a switch {ns(ends[0])} to {ns(ends[1])}, "
        f"warm {between(warm, 'cost', 'ns')}, cold {between(cold, 'cost', 'ns')}"
    )
    return _warm_and_cold(outcome(warm), outcome(cold), text, unclear)


def _clock_is_a_call(table: pd.DataFrame) -> Verdict:
    """Statistic: time a call, by interval.  Control: the cheapest system call.  Design: in a loop, where
    calls overlap.  Opponent: a clock source that needs the kernel makes it true, and so does a slow one.
    """
    clock, call = _rung(table, "clock", "the clock"), _rung(table, "system_call", "a system call")
    text = f"the clock {ns(clock.cost_ns)}, getppid {ns(call.cost_ns)}."
    if clock.cost_lo_ns >= call.cost_hi_ns:
        return Verdict(HOLDS, text)
    if clock.cost_hi_ns < call.cost_lo_ns:
        return Verdict(FAILS, text)
    ends = f"{between(clock, 'cost', 'ns')} and {between(call, 'cost', 'ns')}"
    raise CannotTell(f"The intervals overlap, {ends}: {text}")


CLAIMS = [
    Claim("004-026", "A system call takes 100 ns or less.", SWITCH_LIST, KIND, _system_call),
    Claim("004-027", "A function call takes a few nanoseconds at most.", SWITCH_LIST, KIND, _function_call),
    Claim("003-011", "Copying 64 KiB takes about 3.2 µs.", ARTICLE, KIND,
          _copy_3200),
    Claim("003-012", "A context switch is faster than copying 64 KiB.", ARTICLE,
          KIND, _switch_below_copy),
    Claim("clock", "Reading the clock takes as long as a system call.", "a common belief",
          KIND, _clock_is_a_call),
]  # fmt: skip
