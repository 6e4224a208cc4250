"""What people say about who may interrupt whom under EEVDF, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict
from sched_labs.claims.helpers import above, between, holds_or_fails, one_row, within
from sched_labs.topics.other_kernels.eevdf.experiment import NOTHING

AT_ONCE_PERCENT = 50  # of the moments of a turn: most of them, or few
REST = (0.8, 1.25)  # times what was left of the slice: counts as what was left


def _row(table: pd.DataFrame, situation: str, off: str = NOTHING) -> pd.Series:
    what = f"a kernel without {off}" if off != NOTHING else f"the situation {situation}"
    row = one_row(table, what, off=off, situation=situation)
    if not math.isfinite(row.waited_hi_percent):
        raise CannotTell("One trial says nothing about how trials vary.")
    return row


def _at_once(row: pd.Series) -> tuple[float, float]:
    return row.at_once_lo_percent, row.at_once_hi_percent


def _waited(row: pd.Series) -> tuple[float, float]:
    return row.waited_lo_percent, row.waited_hi_percent


def _interval(row: pd.Series, stem: str) -> str:
    return f"(interval {between(row, stem, 'percent', lambda value: f'{value:.0f}')} %)"


def _whoever_wakes(table: pd.DataFrame) -> Verdict:
    """Statistic: share of wake-ups that came at once, by interval; to hold, the wait over what was left of
    the slice, too, for who comes later than at once need not have waited for its end.
    Control: equal slices, nothing owed.  Design: a shorter slice, and CPU time that is owed.  Opponent: an
    interrupt, or another program, ends a turn, too, and that is in all three alike.
    """
    rows = {name: _row(table, name) for name in ("equal", "short", "owed")}
    ends = [_at_once(row) for row in rows.values()]
    reason = (
        f"{rows['short'].at_once_percent:.0f} % of the wake-ups with a shorter slice came at once, "
        f"{rows['owed'].at_once_percent:.0f} % of those that were owed CPU time, "
        f"{rows['equal'].at_once_percent:.0f} % of the others."
    )
    waited = all(high < AT_ONCE_PERCENT for _, high in ends)
    broken = any(low > AT_ONCE_PERCENT for low, _ in ends)
    most = max(high for _, high in ends)
    rest = min(row.rest_lo_ratio for row in rows.values())
    unclear = f"An interval spans {AT_ONCE_PERCENT} %, up to {most:.0f} %:"
    if waited:
        unclear = f"The wait may be as short as {rest:.2f} times what was left of the slice:"
    return holds_or_fails(waited and rest >= REST[0], broken, reason, unclear)


def _rest_of_the_turn(table: pd.DataFrame) -> Verdict:
    """Statistic: the wait over what was left of the turn, median by interval.  Control: the slice that was
    set.  Design: every moment of the turn.  Opponent: where slices end at a tick only, a turn is longer.
    """
    row, (least, most) = _row(table, "equal"), REST
    reason = (
        f"half of the wake-ups with equal slices waited {row.rest_ratio:.2f} times what was left of the "
        f"slice (interval {row.rest_lo_ratio:.2f} to {row.rest_hi_ratio:.2f}), or longer. "
        f"{least:g} to {most:g} times counts as what was left. "
        "Without HRTICK a slice ends at the tick after it."
    )
    return within(row.rest_lo_ratio, row.rest_hi_ratio, least, most, reason)


def _short_comes_first(table: pd.DataFrame) -> Verdict:
    """Statistic: share of wake-ups that came at once, by interval.  Control: the same with equal slices.
    Design: two threads, one of which computes.  Opponent: a kernel that lets anybody in at once would show
    the same, so equal slices have to wait.
    """
    row, control = _row(table, "short"), _row(table, "equal")
    if control.at_once_hi_percent > AT_ONCE_PERCENT:
        raise CannotTell(
            f"With equal slices {control.at_once_percent:.0f} % came at once, too "
            f"{_interval(control, 'at_once')}."
        )
    reason = (
        f"{row.at_once_percent:.0f} % came at once {_interval(row, 'at_once')}, "
        f"{control.at_once_percent:.0f} % with equal slices. "
        f"More than {AT_ONCE_PERCENT} % counts as at once."
    )
    return above(*_at_once(row), AT_ONCE_PERCENT, reason)


def _sleep_forgets(table: pd.DataFrame) -> Verdict:
    """Statistic: the average wait, by interval.  Control: the same slices and a thread that is owed nothing.
    Design: it sleeps before it has had what it was owed; where both come at once the waits tell nothing.
    Opponent: who slept for very long is owed less, which these moments do not show.
    """
    row, control = _row(table, "owed"), _row(table, "equal")
    reason = (
        f"a thread that was owed CPU time waited {row.waited_percent:.0f} % of a turn, one that was not "
        f"{control.waited_percent:.0f} %."
    )
    (low, high), (least, most) = _waited(row), _waited(control)
    if low > 0.5 * most and row.at_once_hi_percent > AT_ONCE_PERCENT:
        raise CannotTell(f"Whether it has to wait at all is open: {reason}")
    unclear = (
        f"Half as long is the limit, and the intervals, {low:.0f} to {high:.0f} % and {least:.0f} to "
        f"{most:.0f} %, allow either:"
    )
    return holds_or_fails(low > 0.5 * most, high < 0.5 * least, reason, unclear)


def _delaying_is_bookkeeping(table: pd.DataFrame) -> Verdict:
    """Statistic: the average wait, by interval.  Control: the feature on.  Design: one feature off, all
    others alike; one thread that waits longer is enough, and with both slices none may.  Opponent: at other
    slices or loads it may be otherwise.
    """
    told, longer, shorter = [], [], []
    for situation, slices in (("short", "a shorter slice"), ("equal", "an equal slice")):
        off, on = _row(table, situation, "DELAY_DEQUEUE"), _row(table, situation)
        told.append(
            f"a thread with {slices} waits {off.waited_percent:.0f} % of a turn without it "
            f"{_interval(off, 'waited')}, {on.waited_percent:.0f} % with it {_interval(on, 'waited')}"
        )
        longer.append(off.waited_lo_percent > on.waited_hi_percent)
        shorter.append(off.waited_hi_percent < on.waited_lo_percent)
    reason = f"{told[longer.index(True)] if any(longer) else '; '.join(told)}."
    return holds_or_fails(all(shorter), any(longer), reason, "Intervals overlap:")


PHASES = "eevdf.phases"
CLAIMS = [
    Claim("turn-whoever", "A running thread keeps the CPU until its slice is up, whoever wakes.",
          "read out of the comment on RUN_TO_PARITY in kernel/sched/features.h", PHASES, _whoever_wakes,
          decided=True),
    Claim("turn-rest", "Who wakes without a privilege waits for what is left of the running thread's slice.",
          "read out of kernel/sched/fair.c", PHASES, _rest_of_the_turn, decided=True),
    Claim("turn-short", "A thread with a shorter slice gets the CPU as soon as it wakes.",
          "read out of the comment on PREEMPT_SHORT in kernel/sched/features.h", PHASES, _short_comes_first,
          decided=True),
    Claim("turn-sleep", "Who sleeps loses what it was owed of the CPU.", "a common belief", PHASES,
          _sleep_forgets, decided=True),
    Claim("turn-delay", "DELAY_DEQUEUE is bookkeeping: without it, no thread waits longer.",
          "a common belief", PHASES, _delaying_is_bookkeeping, decided=True),
]  # fmt: skip
