"""What people say about context switch, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import (
    FAILS,
    HOLDS,
    ONE_VM,
    SWITCH_LIST,
    UNKNOWN,
    WEB_COURSE,
    CannotTell,
    Claim,
    Verdict,
    ns,
    yes,
)
from sched_labs.claims.helpers import between, holds_or_fails
from sched_labs.core.words import number_text


def _cell(table: pd.DataFrame, mechanism: str, between: str, place: str) -> pd.Series:
    """One cell of the matrix whose counted switches can be trusted."""
    found = table[(table.mechanism == mechanism) & (table.between == between) & (table.placement == place)]
    where = f"{mechanism} between {between}, {place.replace('_', ' ')}"
    if found.empty:
        raise CannotTell(f"This run did not measure {where}.")
    cell = found.iloc[0]
    if cell.flagged:
        raise CannotTell(
            f"{where}: the kernel counted {cell.switches_per_round_trip:.2f} switches a round trip, not "
            f"{cell.expected_switches_per_round_trip:.0f}."
        )
    return cell


def _spread(values: pd.Series, form: str) -> str:
    """One number where all print alike, else the least and the most."""
    low, high = format(values.min(), form), format(values.max(), form)
    return low if low == high else f"{low} to {high}"


def _direct_1_to_5_us(table: pd.DataFrame) -> Verdict:
    """Statistic: what a hand-over by pipe and one by sched_yield add to their calls, of several starts.
    Control: yielding blocks and wakes nobody, so that it is the nearest to a switch alone.
    Design: both on one CPU, divided by counted switches.
    Opponent: a hand-over is more than its switch; where the two disagree, the sentence is too vague to judge.
    """
    cells = [_cell(table, mechanism, "threads", "same_cpu") for mechanism in ("pipe", "yield")]
    reason = "between threads on one CPU " + "; ".join(
        f"{ns(cell.net_per_switch_ns)} {words}, interval {between(cell, 'net', 'ns')}"
        for cell, words in zip(cells, ("by pipe, with block and wake", "by sched_yield"), strict=True)
    )
    inside = [cell.net_lo_ns >= 1000 and cell.net_hi_ns <= 5000 for cell in cells]
    outside = [cell.net_hi_ns < 1000 or cell.net_lo_ns > 5000 for cell in cells]
    if all(inside):
        return Verdict(HOLDS, f"{reason}.")
    if all(outside):
        return Verdict(FAILS, f"{reason}.")
    if any(inside) and any(outside):
        raise CannotTell(f"It depends on what is called the switch: {reason}.")
    raise CannotTell(f"An interval spans a limit: {reason}.")


def _other_cpu_dearer(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of two net costs, by their intervals.  Control: the same hand-over on one CPU.
    Design: pinned, the far CPU idle, so that its way out of idle is in it.  Opponent: on hardware that
    polls while idle it is quicker.
    """
    near, far = _cell(table, "pipe", "threads", "same_cpu"), _cell(table, "pipe", "threads", "other_cpu")
    if not near.net_lo_ns > 0:
        raise CannotTell(
            f"On one CPU a switch costs {ns(near.net_per_switch_ns)}, but its interval starts at "
            f"{ns(near.net_lo_ns)}: it bounds no ratio."
        )
    ratio = far.net_per_switch_ns / near.net_per_switch_ns
    least, most = far.net_lo_ns / near.net_hi_ns, far.net_hi_ns / near.net_lo_ns
    reason = (
        f"by pipe between threads {ns(far.net_per_switch_ns)} to another CPU against "
        f"{ns(near.net_per_switch_ns)} on one: {ratio:.1f} times (interval {least:.1f} to {most:.1f})."
    )
    return holds_or_fails(least >= 3, most < 3, reason, "The interval spans three times:")


def _two_switches(table: pd.DataFrame) -> Verdict:
    """Statistic: counted switches a round trip, each cell within 2 %.  Control: the kernel counts, nothing
    is assumed.  Design: one CPU, where the second thread may find the mutex taken.  Opponent: across
    CPUs a condition variable may make two.
    """
    near = table[(table.placement == "same_cpu") & table.mechanism.isin(["pipe", "condvar"])]
    if set(near.mechanism) != {"pipe", "condvar"}:
        raise CannotTell("This run did not measure pipe and condition variable on one CPU.")
    pipe, condvar = (
        # Rounded as the table rounds, for a half goes another way in a format.
        _spread(near[near.mechanism == name].switches_per_round_trip.round(2), ".2f")
        for name in ("pipe", "condvar")
    )
    reason = f"counted a round trip on one CPU: pipe {pipe}, condition variable {condvar}."
    return yes(bool((abs(near.switches_per_round_trip / 2 - 1) <= 0.02).all()), reason)


def _threads_cheaper(table: pd.DataFrame) -> Verdict:
    """Statistic: net cost a switch, by interval, for three mechanisms.  Control: processes and threads in
    turns on one CPU.  Design: the turn is a byte, so that caches are not in it.  Opponent: an address
    space also costs later, in translations.
    """
    found = []
    for mechanism in ("pipe", "eventfd", "futex"):
        thread = _cell(table, mechanism, "threads", "same_cpu")
        process = _cell(table, mechanism, "processes", "same_cpu")
        apart = thread.net_hi_ns < process.net_lo_ns, process.net_hi_ns < thread.net_lo_ns
        cheaper = f"{mechanism} {1 - thread.net_per_switch_ns / process.net_per_switch_ns:+z.0%}"
        both = (
            f"{mechanism} (threads {between(thread, 'net', 'ns')}, processes {between(process, 'net', 'ns')})"
        )
        found.append((apart, cheaper, both))
    reason = "on one CPU threads cheaper than processes by: " + ", ".join(text for _, text, _ in found) + "."
    if any(above for (_, above), _, _ in found):
        return Verdict(FAILS, reason)
    overlapping = [both for (below, _), _, both in found if not below]
    if not overlapping:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap for {', '.join(overlapping)}; {reason}")


def _yield_like_blocking(table: pd.DataFrame) -> Verdict:
    """Statistic: share of voluntary switches, the largest by sched_yield.  Control: the pipe's share.
    Design: two sides on one CPU, else nothing switches.  Opponent: the kernel's words, not a price, are
    compared.
    """
    yielding = table[(table.mechanism == "yield") & (table.placement == "same_cpu")]
    piping = table[(table.mechanism == "pipe") & (table.placement == "same_cpu")]
    if yielding.empty or piping.empty or not (yielding.switches_per_round_trip > 0.1).any():
        raise CannotTell("This run has no switches by sched_yield on one CPU.")
    a, b = (_spread(rows.voluntary_share, ".0%") for rows in (yielding, piping))
    return yes(
        yielding.voluntary_share.max() > 0.1,
        f"voluntary on one CPU: {a} of the switches by sched_yield, {b} of those by pipe.",
    )


def _yield_across(table: pd.DataFrame) -> Verdict:
    """Statistic: counted switches a round trip, median.  Control: on one CPU the same loop switches.
    Design: a CPU for each, so that nobody is in the queue.  Opponent: the program divides by four, which
    two yields cannot make anywhere; two are all that there can be, and a third program may make one
    switch; hence 98 % of two.
    """
    threads = table[table.between == "threads"]
    apart = threads[(threads.mechanism == "yield") & (threads.placement == "other_cpu")]
    if apart.empty:
        raise CannotTell("This run did not measure sched_yield between threads across CPUs.")
    counted = apart.switches_per_round_trip.iloc[0]
    return yes(
        counted >= 1.96,
        f"the kernel counted {counted:.2f} switches a round trip, in which each thread yields once.",
    )


MATRIX = "context_switch.matrix"


def _hand_overs(table: pd.DataFrame, place: str) -> pd.DataFrame:
    rows = table[(table.placement == place) & (table.mechanism != "yield")]
    if rows.empty:
        raise CannotTell(f"This run did not measure the placement {place.replace('_', ' ')}.")
    return rows.set_index(["mechanism", "between"])


def _pinned_stays(table: pd.DataFrame) -> Verdict:
    """Statistic: migrations in 1,000 round trips.  Control: free sides.  Design: every pinned placement.
    Opponent: a pin makes it true.
    """
    pinned = table[table.placement != "unpinned"]
    free = table[table.placement == "unpinned"]
    if pinned.empty or free.empty:
        raise CannotTell("This run does not have both: sides that are pinned, and sides that are free.")
    moves = float(pinned.migrations_per_1000.max())
    unpinned = float(free.migrations_per_1000.max())
    reason = (
        f"at most {number_text(moves)} moves in 1,000 round trips when pinned, "
        f"at most {number_text(unpinned)} when free."
    )
    held = moves < 0.1
    return yes(held, f"{reason} That is what a pin is for, and no result of it." if held else reason)


def _saves_half(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of round trips, free against one CPU, by interval.  Control: the same hand-over.
    Design: each mechanism by itself.  Opponent: what it saves is the wake-up of an idle CPU.
    """
    one, free = _hand_overs(table, "same_cpu"), _hand_overs(table, "unpinned")
    both = one.add_suffix("_one").join(free.add_suffix("_free"), how="inner")
    both = both[both.index.get_level_values("mechanism").isin(["futex", "pipe"])]
    if both.empty:
        raise CannotTell("This run measured neither pipe nor futex in both placements.")
    saved = 1 - both.round_trip_ns_one / both.round_trip_ns_free
    low = 1 - both.round_trip_hi_ns_one / both.round_trip_lo_ns_free
    high = 1 - both.round_trip_lo_ns_one / both.round_trip_hi_ns_free
    told = pd.DataFrame({"saved": saved, "low": low, "high": high}).reset_index()
    reason = "of a free round trip, system calls included, a pin to one CPU saves " + ", ".join(
        f"{row.saved:z.1%} ({row.low:z.1%} to {row.high:z.1%}: {row.mechanism}, {row.between})"
        for row in told.itertuples(index=False)
    )
    for outside, word in ((low > 0.66, "more"), (high < 0.45, "less")):
        if outside.any():
            return Verdict(FAILS, f"{reason}: {word} in {outside.sum()} of {len(told)}.")
    return Verdict(HOLDS if ((low >= 0.45) & (high <= 0.66)).all() else UNKNOWN, f"{reason}.")


TRAVEL_NS = 10_000  # some tens of cache lines that travel between sockets take less in a round trip


def _by_warm_caches(table: pd.DataFrame) -> Verdict:
    """Statistic: round trips of all mechanisms on one CPU and on two.  Control: pinned to two CPUs no side
    moves, so that its working set stays warm; where that is as quick, free sides have to be slower, and to
    move in one round trip of ten.  Design: the turn is a word, and there is nothing else to keep warm.
    Opponent: what both sides write, the kernel's own lines too, still travels: two CPUs have to take more
    than that explains, TRAVEL_NS.
    """
    one, two = _hand_overs(table, "same_cpu"), _hand_overs(table, "other_cpu")
    both = one.add_suffix("_one").join(two.add_suffix("_two"), how="inner")
    if both.empty:
        raise CannotTell("This run has no mechanism in both placements.")
    if (both.migrations_per_1000_two > 0).any():
        raise CannotTell("A side that was pinned moved all the same.")
    times = both.round_trip_ns_two / both.round_trip_ns_one
    sides = " or of ".join(both.index.unique("between"))
    reason = (
        f"pinned to a CPU each, where no side ever moves, a round trip with wake-ups, of {sides}, takes "
        f"{_spread(times, '.3g')} times as long as on one CPU."
    )
    if (both.round_trip_lo_ns_two > 1.5 * both.round_trip_hi_ns_one).all():
        more = (both.round_trip_lo_ns_two - both.round_trip_hi_ns_one).min()
        if more > TRAVEL_NS:
            return Verdict(FAILS, reason)
        raise CannotTell(f"As little as {ns(more)} more may be cache lines that travel: {reason}")
    if not (both.round_trip_hi_ns_two < 1.5 * both.round_trip_lo_ns_one).all():
        least = (both.round_trip_lo_ns_two / both.round_trip_hi_ns_one).min()
        most = (both.round_trip_hi_ns_two / both.round_trip_lo_ns_one).max()
        raise CannotTell(f"The intervals, {least:.3g} to {most:.3g} times, span half as long again: {reason}")
    free = one.add_suffix("_one").join(_hand_overs(table, "unpinned").add_suffix("_free"), how="inner")
    slower = free.round_trip_lo_ns_free / free.round_trip_hi_ns_one
    if free.empty or not (slower > 1.5).all():
        least = f" ({slower.min():.3g} times as long, or more)" if len(slower) else ""
        raise CannotTell(f"Free sides are not clearly slower than on one CPU{least}, either: {reason}")
    if (moves := free.migrations_per_1000_free.min()) < 100:
        raise CannotTell(
            f"Free sides are slower, but made {number_text(moves)} moves in 1,000 round trips: {reason}"
        )
    return Verdict(HOLDS, reason)


CLAIMS = [
    Claim("000-007", "A switch costs between 1 and 5 µs directly.", WEB_COURSE, "context_switch.matrix",
          _direct_1_to_5_us),
    Claim("003-009", "A hand-over to another CPU takes at least three times as long as one on the same CPU.",
          f"{ONE_VM}: its table has 'several times'", "context_switch.matrix", _other_cpu_dearer),
    Claim("003-007", "Ping-pong by pipe or by condition variable makes exactly two switches a round trip.",
          "assumed by benchmarks that divide by two", "context_switch.matrix",
          _two_switches),
    Claim("004-025", "Switching between threads is cheaper than switching between processes.",
          "a collection of switch benchmarks", "context_switch.matrix", _threads_cheaper),
    Claim("000-059", "sched_yield switches the way a blocking read does.", WEB_COURSE,
          "context_switch.matrix", _yield_like_blocking),
    Claim("004-015", "Two threads that call sched_yield on different CPUs measure a thread switch.",
          f"timetctxsw2 in tsuna/contextswitch, as quoted in {SWITCH_LIST}", MATRIX, _yield_across),
    Claim("000-097-turn", "A pinned thread shows next to no migrations.", WEB_COURSE, MATRIX, _pinned_stays),
    Claim("004-022", "Affinity to one CPU saves 45 to 66% of a switch.", SWITCH_LIST, MATRIX, _saves_half),
    Claim("004-024", "Threads on one CPU pass a turn more quickly because their caches stay warm.",
          SWITCH_LIST, MATRIX, _by_warm_caches),
]  # fmt: skip
