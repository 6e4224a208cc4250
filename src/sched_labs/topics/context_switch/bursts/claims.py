"""What people say about bursts, judged on a run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import at_most, each_at_most, ends


def _peak(table: pd.DataFrame) -> pd.Series:
    """The row with the largest warm-up."""
    return table.sort_values("extra_ns").iloc[-1]


def _of_a_round(table: pd.DataFrame) -> pd.DataFrame:
    """The patterns that walk the set once for each hand-over: they differ in their bursts only."""
    found = table[(table.rounds - 1).abs() < 0.01].sort_values("burst")
    if len(found) < 2 or found.iloc[0].burst != 1:
        raise CannotTell("This run has no bursts beside evenly spaced switches.")
    if not (found.iloc[0].seen and found.iloc[0].extra_ns > 0):
        raise CannotTell("The warm-up of evenly spaced switches does not stand clear of the noise floor.")
    return found


def _bursts_are_cheaper(table: pd.DataFrame) -> Verdict:
    """Statistic: warm-up for each switch, by interval and floor.  Control: evenly spaced switches of the same
    number.  Design: order alone differs; the first hand-over of a burst makes the set cold.  Opponent:
    the direct cost of the hand-overs is not in it.
    """
    found = _of_a_round(table)
    single, burst = found.iloc[0], found.iloc[-1]
    reason = (
        f"with one walk of the set for each switch, {ns(single.extra_ns)} of warm-up a switch evenly spaced, "
        f"{ns(burst.extra_ns)} in bursts of {burst.burst:.0f}"
    )
    reason += "." if burst.seen else ", not clear of the noise."
    if at_most(burst, "extra", "ns") < single.extra_lo_ns:
        return Verdict(HOLDS, reason)
    if burst.seen and burst.extra_lo_ns > 0.9 * single.extra_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(
        f"The intervals, {ends(single)} and {ends(burst)}, overlap or lie in the noise: {reason}"
    )


def _spaced(table: pd.DataFrame) -> pd.DataFrame:
    """Evenly spaced switches whose warm-up can be seen, the closest first."""
    found = table[(table.burst == 1) & table.seen & (table.extra_ns > 0)].sort_values("spacing_ns")
    if len(found) < 2:
        raise CannotTell("Two spacings with a warm-up that can be seen are needed.")
    return found


def _even_costs_the_same_after_any_work(table: pd.DataFrame) -> Verdict:
    """Statistic: warm-up for each switch, within a factor of two; what is unseen may be the floor.  Control:
    the same thread after more work, or less.  Design: the partner's work is alike; only the victim's differs.
    Opponent: time on the axis is the victim's own work, not a rate; and where a cache protects a set that
    was walked often, it may be the widest spacing that costs least.
    """
    # spacing_ns is the thread's own work; the partner's comes between, so that it tells no rate.
    peak = _peak(_spaced(table))
    others = table[table.burst == 1].drop(peak.name)
    most = each_at_most(others)
    # "As much" is taken as within a factor of two.
    refuted = most.min() < 0.5 * peak.extra_lo_ns
    # The spacing that decides: one that refutes the sentence, else the one that is nearest to refuting it.
    nearest = most if refuted else others.extra_lo_ns.where(others.seen, -np.inf)
    least = others.assign(nearest=nearest).sort_values("nearest").iloc[0]
    hidden = "" if least.seen else " (not clear of the noise)"
    reason = (
        f"after {ns(least.spacing_ns)} of its own work a switch costs the thread {ns(least.extra_ns)} of "
        f"warm-up{hidden}, after {ns(peak.spacing_ns)} {ns(peak.extra_ns)}."
    )
    if refuted:
        return Verdict(FAILS, reason)
    if least.seen and least.extra_lo_ns >= 0.5 * peak.extra_hi_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals, {ends(least)} and {ends(peak)}, span a factor of two: {reason}")


def _rounds(count: float) -> str:
    return "1 round" if count == 1 else f"{count:.3g} rounds"


def _spacing_without_end(table: pd.DataFrame) -> Verdict:
    """Statistic: growth of the warm-up against that of the work.  Control: a spacing below one round of
    the set.  Design: past one round there is hardly more to lose.  Opponent: the square root is a
    generous meaning of endless; what grows more slowly, but clearly, leaves it open, and so does noise over
    the widest spacing.
    """
    found = _spaced(table)
    last, before = found.iloc[-1], found[found.rounds <= 1]
    if before.empty or last.rounds <= 1:
        raise CannotTell("Spacings below and above one round of the set are needed.")
    refilled = before.iloc[-1]
    endless = (last.rounds / refilled.rounds) ** 0.5
    # Up to a factor of two counts as no growth.
    ended = min(2, endless)
    reason = (
        f"{ns(refilled.extra_ns)} after {_rounds(refilled.rounds)} of the set, {ns(last.extra_ns)} after "
        f"{_rounds(last.rounds)}; less than {ended:.2g} times as much counts as an end of the growth, more "
        f"than {endless:.2g} times (the square root of the rounds' ratio) as endless."
    )
    if last.extra_lo_ns > endless * refilled.extra_hi_ns:
        widest = table[table.burst == 1].rounds.max()
        if last.rounds < widest:
            raise CannotTell(f"The noise hides what it is after {_rounds(widest)}: {reason}")
        return Verdict(HOLDS, reason)
    if last.extra_hi_ns < ended * refilled.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals, {ends(refilled)} and {ends(last)}, do not decide: {reason}")


CLAIMS = [
    Claim("000-060", "Switches that follow each other at once cost less each than evenly spaced ones.",
          WEB_COURSE, "bursts.spacing", _bursts_are_cheaper),
    Claim("000-061", "Evenly spaced switches cost the same each, however long the thread runs in between.",
          WEB_COURSE, "bursts.spacing", _even_costs_the_same_after_any_work),
    Claim("spacing", "The longer a thread runs between two switches, the more each costs, without end.",
          "what the first half of the curve suggests", "bursts.spacing", _spacing_without_end),
]  # fmt: skip
