"""What people say about priorities and locks, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import count, holds_or_fails, one_row

LONGER = 1.5  # times: more than the switches that a hand-over takes, and less than a hog's turn
COUNTS = f"Less than {LONGER:g} times as long counts as no longer."


def _times(one: pd.Series, other: pd.Series, quantity: str = "p90") -> tuple[float, float]:
    """How many times as long the first is as the second: the ends of the interval."""
    ends = [row[f"{quantity}_{end}_ns"] for row in (one, other) for end in ("lo", "hi")]
    if not all(0 < end < float("inf") for end in ends):
        raise CannotTell("One trial says nothing about how trials vary.")
    return ends[0] / ends[3], ends[1] / ends[2]


def _row(table: pd.DataFrame, situation: str, lock: str) -> pd.Series:
    real_time = "" if situation == "ordinary" else "a real-time thread that waits for "
    return one_row(table, f"{real_time}the lock ({situation}, {lock})", situation=situation, lock=lock)


def _either(least: float, most: float, than: str = "") -> str:
    return f"The intervals allow either, {count(least)} to {count(most)} times as long{than}:"


def _as_long(least: float, most: float, reason: str) -> Verdict:
    """Holds where the waits are not LONGER times as long."""
    said = reason if least > LONGER else f"{reason} {COUNTS}"
    return holds_or_fails(most < LONGER, least > LONGER, said, _either(least, most))


def _waits_for_nobody(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits, by interval.  Control: the same lock without a hog.  Design: a holder with
    a nice value, beside a hog that never touches the lock.  Opponent: the time for which the lock is held is
    in both; other programs on the CPU are in the wait and not in the hogs' part of it: where that is less
    than half, the hogs need not be to blame.
    """
    row, alone = _row(table, "nice", "mutex"), _row(table, "no hog", "mutex")
    least, most = _times(row, alone)
    reason = (
        f"one wait in ten took {ns(row.p90_ns)} or more for a nice holder beside a hog, {ns(alone.p90_ns)} "
        f"without a hog; for {row.hogs_percent:.0f} % of all that waiting hogs had the CPU."
    )
    if least > LONGER and row.hogs_percent < 50:
        raise CannotTell(f"Hogs had the CPU for less than half of that waiting: {reason}")
    return _as_long(least, most, reason)


def _nice_harms_nobody(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits, by interval.  Control: the same hog and a holder of nice 0.  Design: the
    same work with the lock.  Opponent: where they share no lock it is true.
    """
    row, plain = _row(table, "nice", "mutex"), _row(table, "hog", "mutex")
    least, most = _times(row, plain)
    reason = (
        f"one wait in ten took {ns(row.p90_ns)} or more for a nice holder, {ns(plain.p90_ns)} for one as "
        "nice as the hog."
    )
    return _as_long(least, most, reason)


def _inheritance_bounds(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits, by interval.  Control: an ordinary mutex without a hog.  Design: the hog
    and the nice value that make the wait long without it.  Opponent: a run in which an ordinary mutex is as
    quick shows nothing, and counts as no answer.
    """
    row, alone = _row(table, "nice", "inherit"), _row(table, "no hog", "mutex")
    without = _row(table, "nice", "mutex")
    least, most = _times(without, alone)
    if least < LONGER:
        why = "There was no inversion" if most < LONGER else "Whether there was an inversion is open"
        said = f"({count(least)} to {count(most)} times as long as without a hog)"
        raise CannotTell(f"{why}: without inheritance, p90 was {ns(without.p90_ns)} {said}.")
    least, most = _times(row, alone)
    reason = (
        f"one wait in ten took {ns(row.p90_ns)} or more with inheritance, for a nice holder beside a hog, "
        f"{ns(alone.p90_ns)} under an ordinary mutex without a hog, where a wait is the rest of the hold and "
        "a hand-over."
    )
    return _as_long(least, most, reason)


def _inherits_weight(table: pd.DataFrame) -> Verdict:
    """Statistic: p90 of the waits of an ordinary thread, by interval.  Control: an ordinary mutex.  Design: a
    nice holder, whose waiter has nice 0.  Opponent: the waiter's own turn is in both; where no hog delays the
    holder, a better nice value would change nothing.
    """
    row, plain = _row(table, "ordinary", "inherit"), _row(table, "ordinary", "mutex")
    if plain.hogs_percent < 50:
        raise CannotTell(
            f"Under an ordinary mutex hogs had the CPU for {plain.hogs_percent:.0f} % of that waiting only: "
            "too little was there to be saved."
        )
    least, most = _times(plain, row)
    reason = (
        f"one wait in ten of an ordinary thread took {ns(row.p90_ns)} or more with inheritance, "
        f"{ns(plain.p90_ns)} with an ordinary mutex."
    )
    if not least > LONGER:
        reason += f" {COUNTS}"
    return holds_or_fails(least > LONGER, most < LONGER, reason, _either(least, most, " without it"))


def _dear_without_a_waiter(table: pd.DataFrame) -> Verdict:
    """Statistic: time to take and release a lock, by interval.  Control: an ordinary mutex.  Design: a
    thousand times, before anybody else wants it.  Opponent: raising the holder by hand is dear each time.
    """
    situation = "no hog" if (table.situation == "no hog").any() else "ordinary"
    row, plain = _row(table, situation, "inherit"), _row(table, situation, "mutex")
    least, most = _times(row, plain, "lock")
    reason = f"{ns(row.lock_ns)} with inheritance, {ns(plain.lock_ns)} with an ordinary mutex ({situation})."
    unclear = f"The interval, {count(least)} to {count(most)} times, spans twice:"
    return holds_or_fails(least > 2, most < 2, reason, unclear)


WAITS = "inversion.waits"
CLAIMS = [
    Claim("fifo-first", "A hog without a real-time priority keeps no SCHED_FIFO thread waiting.",
          "read out of sched(7)", WAITS, _waits_for_nobody),
    Claim("nice-holder", "A nice value for a background thread slows nobody down but that thread.",
          "a common belief", WAITS, _nice_harms_nobody),
    Claim("inherit-bounds", "With priority inheritance a thread waits for a lock no longer than it is held.",
          "Sha, Rajkumar and Lehoczky, 1990", WAITS, _inheritance_bounds),
    Claim("inherit-weight", "Priority inheritance passes on a better nice value, too.", "a common belief",
          WAITS, _inherits_weight),
    Claim("inherit-dear", "A mutex with priority inheritance takes more than twice as long even when nobody "
          "waits.", "a common belief", WAITS, _dear_without_a_waiter),
]  # fmt: skip
