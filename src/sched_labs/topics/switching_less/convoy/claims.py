"""What people say about convoy, judged on a run."""

from __future__ import annotations

from itertools import combinations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, count, holds_or_fails, one_row

from .experiment import NAMES

QUEUE_ARTICLE = "an article on a slow blocking queue"
FEW = 0.1  # switches for each item: nothing that happens at every item
_WORDS = NAMES | {"try": "ten attempts first"}  # with no row above it that is the same


def _row(table: pd.DataFrame, lock: str) -> pd.Series:
    return one_row(table, f"the lock {_WORDS[lock]!r}", lock=lock)


def _switches_of(lock: pd.Series) -> str:
    return f"{count(lock.switches_per_item)} ({_WORDS[lock.lock]})"


def _interval(lock: pd.Series) -> str:
    return between(lock, "switches", "per_item", count)


def _race_makes_switches(table: pd.DataFrame) -> Verdict:
    """Statistic: switches an item under both locks, by interval.  Control: a lock under which as many
    threads race.  Design: a convoy, where there is one.  Opponent: losers of a race that sleep would
    make it true.
    """
    fifo, mutex = _row(table, "fifo"), _row(table, "mutex")
    reason = f"Switches for each item, with as many producers: {_switches_of(fifo)}, {_switches_of(mutex)}."
    if fifo.switches_lo_per_item < FEW:
        raise CannotTell(f"It is not sure that there was a convoy in this run, {_interval(fifo)}: {reason}")
    return holds_or_fails(
        mutex.switches_lo_per_item > fifo.switches_hi_per_item / 2,
        mutex.switches_hi_per_item < FEW,
        reason,
        f"The intervals, {_interval(fifo)} and {_interval(mutex)}, allow either:",
    )


def _release_switches(table: pd.DataFrame) -> Verdict:
    """Statistic: switches an item of each lock that blocks.  Control: three kinds of lock.  Design: a
    holder that lost its CPU at first.  Opponent: a lock that hands over to the next makes it true.
    """
    locks = table[table["lock"].isin(["fifo", "mutex", "adaptive"])]
    if locks.empty:
        raise CannotTell("This run measured no lock that blocks.")
    reason = f"Switches for each item: {', '.join(_switches_of(lock) for _, lock in locks.iterrows())}."
    ends = ", ".join(_interval(lock) for _, lock in locks.iterrows())
    return holds_or_fails(
        (locks.switches_lo_per_item >= 0.5).all(),
        (locks.switches_hi_per_item < FEW).any(),
        reason,
        f"The intervals, {ends}, allow either:",
    )


def _one_switch_an_item(table: pd.DataFrame) -> Verdict:
    """Statistic: switches an item, by interval, within a factor of two.  Control: the kernel counts them.
    Design: sixteen producers behind a lock in order of arrival.  Opponent: a barging lock makes none.
    """
    fifo = _row(table, "fifo")
    reason = (
        f"Switches for each item: {_switches_of(fifo)}, interval {_interval(fifo)}; "
        "judged as one within a factor of two."
    )
    if fifo.switches_lo_per_item >= 0.5 and fifo.switches_hi_per_item <= 2:
        return Verdict(HOLDS, reason)
    if fifo.switches_hi_per_item < 0.5 or fifo.switches_lo_per_item > 2:
        return Verdict(FAILS, reason)
    raise CannotTell(reason)


def _times_slower(slow: pd.Series, fast: pd.Series) -> tuple[float, float, str]:
    least, most = slow.ns_lo_per_item / fast.ns_hi_per_item, slow.ns_hi_per_item / fast.ns_lo_per_item
    text = (
        f"{ns(slow.ns_per_item)} an item ({_WORDS[slow.lock]}) and {ns(fast.ns_per_item)} "
        f"({_WORDS[fast.lock]}), a ratio of {slow.ns_per_item / fast.ns_per_item:.1f} (interval "
        f"{least:.1f} to {most:.1f})"
    )
    return least, most, text


def _attempts_help(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of times an item, by interval.  Control: the fair lock without attempts.  Design:
    sixteen producers.  Opponent: what helps may be the barging, not the spin.
    """
    least, most, text = _times_slower(_row(table, "fifo"), _row(table, "try"))
    return holds_or_fails(least > 10, most < 10, f"{text}.", "The interval spans ten times:")


def _attempts_needed(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of times, the default mutex, which never spins.  Control: the fair lock, without
    attempts and with them.  Design: sixteen producers.  Opponent: spinning helps elsewhere, where the lock
    is free soon.
    """
    fifo = _row(table, "fifo")
    least, most, text = _times_slower(fifo, _row(table, "mutex"))
    if least > 2:
        return Verdict(FAILS, f"The default mutex never spins: {text}.")
    if most < 2:
        tried_least, _, tried = _times_slower(fifo, _row(table, "try"))
        if tried_least > 2:
            return Verdict(HOLDS, f"The default mutex never spins, and is no cure: {text}; {tried}.")
        raise CannotTell(
            f"No clear cure, neither the default mutex, which never spins, nor ten attempts: {text}; {tried}."
        )
    raise CannotTell(f"The interval spans twice: {text}.")


def _attempts_unfair(table: pd.DataFrame) -> Verdict:
    """Statistic: items in a row, by interval.  Control: the fair lock.  Design: sixteen producers.
    Opponent: fairness over a second is another measure.
    """
    fifo, trying = _row(table, "fifo"), _row(table, "try")
    reason = (
        f"Items in a row: {count(fifo.items_per_turn)} ({_WORDS['fifo']}), {count(trying.items_per_turn)} "
        f"({_WORDS['try']})."
    )
    if trying.items_lo_per_turn > fifo.items_hi_per_turn:
        return Verdict(HOLDS, reason)
    if trying.items_hi_per_turn < fifo.items_lo_per_turn:
        return Verdict(FAILS, reason)
    ends = " and ".join(between(row, "items", "per_turn", count) for row in (fifo, trying))
    raise CannotTell(f"The intervals overlap, {ends}: {reason}")


def _voluntary_is_fine(table: pd.DataFrame) -> Verdict:
    """Statistic: share of voluntary switches, and the time they cost.  Control: the default mutex.
    Design: a convoy, where there is one.  Opponent: where a thread waits for a disk it is true; where there
    are many of either kind, the time is not told apart.
    """
    fifo, mutex = _row(table, "fifo"), _row(table, "mutex")
    least, most, text = _times_slower(fifo, mutex)
    if not fifo.switches_lo_per_item > FEW:
        said = f"Switches for each item: {_switches_of(fifo)}."
        raise CannotTell(f"It is not sure that there was a convoy in this run, {_interval(fifo)}: {said}")
    reason = f"{fifo.voluntary_share:.0%} of the convoy's switches are voluntary; {text}."
    voluntary = fifo.voluntary_share > 0.5
    if 0.1 < fifo.voluntary_share <= 0.5:
        raise CannotTell(f"There are many of either kind: {reason}")
    return holds_or_fails(
        most < 1.5 if voluntary else least > 2,
        least > 2 if voluntary else most < 1.5,
        reason,
        "The ratio is neither clearly below 1.5 nor clearly above 2:",
    )


def _fewer_is_faster(table: pd.DataFrame) -> Verdict:
    """Statistic: switches and time an item, by interval.  Control: five locks.  Design: each two whose
    switches are apart; where the lock with fewer is the slower one, it fails.  Opponent: between two locks
    of one kind it may hold; and a slower lock with fewer switches in the median lets it not hold for all.
    """
    ours = table[table["lock"].isin(["fifo", "try", "mutex", "adaptive", "spin"])]
    if len(ours) < 2:
        raise CannotTell("This run measured fewer than two locks.")
    locks = [row for _, row in ours.sort_values("switches_per_item").iterrows()]
    pairs = [
        (fewer, more)
        for fewer, more in combinations(locks, 2)
        if fewer.switches_hi_per_item < more.switches_lo_per_item
    ]
    if not pairs:
        ends = f"{_interval(locks[0])} and {_interval(locks[-1])}"
        raise CannotTell(f"Even the intervals of the fewest and the most switches overlap: {ends}.")
    contrary = [
        (fewer, more) for fewer, more in combinations(locks, 2) if fewer.ns_per_item > more.ns_per_item
    ]
    slower = [(fewer, more) for fewer, more in pairs if fewer.ns_lo_per_item > more.ns_hi_per_item]
    undecided = [(fewer, more) for fewer, more in pairs if not fewer.ns_hi_per_item < more.ns_lo_per_item]
    chosen = slower or contrary or undecided or pairs
    fewer, more = max(chosen, key=lambda pair: pair[0].ns_per_item / pair[1].ns_per_item)
    reason = (
        f"Switches and time for each item: {count(fewer.switches_per_item)} and {ns(fewer.ns_per_item)} "
        f"({_WORDS[fewer['lock']]}), {count(more.switches_per_item)} and {ns(more.ns_per_item)} "
        f"({_WORDS[more['lock']]})."
    )
    if slower:
        return Verdict(FAILS, reason)
    if fewer.switches_hi_per_item >= more.switches_lo_per_item:
        ends = f"{_interval(fewer)} and {_interval(more)}"
        raise CannotTell(f"{reason} The intervals of their switches overlap: {ends}.")
    if not contrary and not undecided:
        return Verdict(HOLDS, reason)
    ends = f"{between(fewer, 'ns', 'per_item')} and {between(more, 'ns', 'per_item')}"
    raise CannotTell(f"{reason} The intervals of their times overlap: {ends}.")


def _busy_waiting_burns(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time an item of the lock that never sleeps, and of two that do.
    Control: the default mutex sleeps seldom, the fair lock at nearly every item: the sentence is about both.
    Design: sixteen producers for few CPUs, where spinning is at its worst.
    Opponent: a spinlock wastes what a sleeper would leave to others; to sleep and to be woken is work as
    well.
    """
    spin, *sleeping = (_row(table, name) for name in ("spin", "mutex", "fifo"))
    reason = "CPU time an item: " + ", ".join(
        f"{ns(row.cpu_ns_per_item)} ({_WORDS[row.lock]})" for row in (spin, *sleeping)
    )
    reason += "."
    if all(spin.cpu_lo_ns_per_item > row.cpu_hi_ns_per_item for row in sleeping):
        return Verdict(HOLDS, reason)
    dearer = [_WORDS[row.lock] for row in sleeping if spin.cpu_hi_ns_per_item < row.cpu_lo_ns_per_item]
    if dearer:
        cheaper = [_WORDS[row.lock] for row in sleeping if spin.cpu_lo_ns_per_item > row.cpu_hi_ns_per_item]
        less = f" Less: {', '.join(cheaper)}." if cheaper else ""
        return Verdict(FAILS, f"{reason} More than it took to spin: {', '.join(dearer)}.{less}")
    ends = ", ".join(between(row, "cpu", "ns_per_item") for row in (spin, *sleeping))
    raise CannotTell(f"The intervals overlap, {ends}: {reason}")


LOCKS = "convoy.locks"
CLAIMS = [
    Claim("001-007", "A queue with a fair lock takes about one context switch for every item.", QUEUE_ARTICLE,
          LOCKS, _one_switch_an_item),
    Claim("001-013", "The switches come from many threads racing for one lock: one wins, the others are "
          "suspended.", QUEUE_ARTICLE, LOCKS, _race_makes_switches),
    Claim("001-016", "Ten attempts before blocking make the queue more than ten times as fast.",
          QUEUE_ARTICLE, LOCKS, _attempts_help),
    Claim("001-015", "What cures it is to spin a little before going to sleep.", QUEUE_ARTICLE, LOCKS,
          _attempts_needed),
    Claim("001-017", "Trying first gives up fairness.", QUEUE_ARTICLE, LOCKS, _attempts_unfair),
    Claim("001-019", "Busy waiting uses more CPU time than sleeping does.", QUEUE_ARTICLE, LOCKS,
          _busy_waiting_burns),
    Claim("001-020", "Fewer context switches make a program faster.", QUEUE_ARTICLE, LOCKS, _fewer_is_faster),
    Claim("000-128", "Releasing a lock involves a context switch to its next holder.", WEB_COURSE, LOCKS,
          _release_switches),
    Claim("000-106", "Voluntary switches are fine; the involuntary ones are dangerous.", WEB_COURSE, LOCKS,
          _voluntary_is_fine),
]  # fmt: skip
