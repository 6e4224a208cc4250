"""Claims about the direct cost of a switch, judged on the ping-pong matrix."""

from __future__ import annotations

import pandas as pd

from .base import FAILS, HOLDS, ONE_VM, WEB_COURSE, CannotTell, Claim, Verdict, ns, yes


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


def _direct_1_to_5_us(table: pd.DataFrame) -> Verdict:
    cell = _cell(table, "pipe", "threads", "same_cpu")
    reason = f"{ns(cell.net_per_switch_ns)} a switch, interval {ns(cell.net_lo_ns)} to {ns(cell.net_hi_ns)}."
    if cell.net_lo_ns >= 1000 and cell.net_hi_ns <= 5000:
        return Verdict(HOLDS, reason)
    if cell.net_hi_ns < 1000 or cell.net_lo_ns > 5000:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _other_cpu_dearer(table: pd.DataFrame) -> Verdict:
    near, far = _cell(table, "pipe", "threads", "same_cpu"), _cell(table, "pipe", "threads", "other_cpu")
    if not near.net_lo_ns > 0:
        raise CannotTell(
            f"On one CPU a switch costs {ns(near.net_per_switch_ns)}, but its interval starts at "
            f"{ns(near.net_lo_ns)}: it bounds no ratio."
        )
    ratio = far.net_per_switch_ns / near.net_per_switch_ns
    least, most = far.net_lo_ns / near.net_hi_ns, far.net_hi_ns / near.net_lo_ns
    reason = (
        f"{ns(far.net_per_switch_ns)} to the other CPU against {ns(near.net_per_switch_ns)} on one: "
        f"{ratio:.1f} times (interval {least:.1f} to {most:.1f})."
    )
    if least >= 3:
        return Verdict(HOLDS, reason)
    if most < 3:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans three times: {reason}")


def _two_switches(table: pd.DataFrame) -> Verdict:
    near = table[(table.placement == "same_cpu") & table.mechanism.isin(["pipe", "condvar"])]
    if set(near.mechanism) != {"pipe", "condvar"}:
        raise CannotTell("This run did not measure pipe and condition variable on one CPU.")
    counts = near.groupby("mechanism").switches_per_round_trip.median()
    reason = f"counted a round trip: pipe {counts['pipe']:.2f}, condition variable {counts['condvar']:.2f}."
    return yes(bool((abs(near.switches_per_round_trip / 2 - 1) <= 0.02).all()), reason)


def _threads_cheaper(table: pd.DataFrame) -> Verdict:
    found = []
    for mechanism in ("pipe", "eventfd", "futex"):
        thread = _cell(table, mechanism, "threads", "same_cpu")
        process = _cell(table, mechanism, "processes", "same_cpu")
        apart = thread.net_hi_ns < process.net_lo_ns, process.net_hi_ns < thread.net_lo_ns
        found.append((apart, f"{mechanism} {1 - thread.net_per_switch_ns / process.net_per_switch_ns:+.0%}"))
    reason = "threads cheaper than processes by: " + ", ".join(text for _, text in found) + "."
    if all(below for (below, _), _ in found):
        return Verdict(HOLDS, reason)
    if any(above for (_, above), _ in found):
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap for at least one mechanism; {reason}")


def _yield_like_blocking(table: pd.DataFrame) -> Verdict:
    yielding = table[(table.mechanism == "yield") & (table.placement == "same_cpu")]
    piping = table[(table.mechanism == "pipe") & (table.placement == "same_cpu")]
    if yielding.empty or piping.empty or not (yielding.switches_per_round_trip > 0.1).any():
        raise CannotTell("This run has no switches by sched_yield on one CPU.")
    a, b = yielding.voluntary_share.median(), piping.voluntary_share.median()
    return yes(a > 0.1, f"voluntary: {a:.0%} of the switches by sched_yield, {b:.0%} of those by pipe.")


def _yield_across(table: pd.DataFrame) -> Verdict:
    apart = table[(table.mechanism == "yield") & (table.placement == "other_cpu")]
    if apart.empty:
        raise CannotTell("This run did not measure sched_yield across CPUs.")
    counted = apart.switches_per_round_trip.median()
    return yes(
        counted >= 1.96, f"The kernel counted {counted:.2f} switches a round trip where 2 are assumed."
    )


def _yields(table: pd.DataFrame, condition: str, policy: str = "other") -> pd.Series:
    """One policy's yielders on one CPU, their two counts in agreement."""
    found = table[(table.policy == policy) & (table.placement == "same_cpu") & (table.condition == condition)]
    if found.empty:
        raise CannotTell(
            f"This run did not let threads of SCHED_{policy.upper()} yield {condition} on one CPU."
        )
    row = found.iloc[0]
    if not row.counts_agree:
        raise CannotTell("getrusage and /proc counted different numbers of switches.")
    return row


def _one_switch_per_yield(table: pd.DataFrame) -> Verdict:
    row = _yields(table, "together")
    reason = (
        f"{row.switches_per_yield:.3f} switches per call "
        f"(interval {row.switches_lo_per_yield:.3f} to {row.switches_hi_per_yield:.3f})."
    )
    if row.switches_lo_per_yield >= 0.95 and row.switches_hi_per_yield <= 1.05:
        return Verdict(HOLDS, reason)
    if row.switches_hi_per_yield < 0.95 or row.switches_lo_per_yield > 1.05:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _yield_always_switches(table: pd.DataFrame) -> Verdict:
    row = _yields(table, "alone")
    reason = (
        f"alone on its CPU a thread makes {row.switches_per_yield:.3f} switches per call "
        f"(interval {row.switches_lo_per_yield:.3f} to {row.switches_hi_per_yield:.3f})."
    )
    if row.switches_lo_per_yield >= 0.95:
        return Verdict(HOLDS, reason)
    if row.switches_hi_per_yield < 0.95:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _involuntary_is_preempted(table: pd.DataFrame) -> Verdict:
    row = _yields(table, "together")
    if not row.switches_lo_per_yield > 0.1:
        raise CannotTell("The two yielders hardly switched.")
    reason = (
        f"two threads that give way by themselves show {row.involuntary_per_yield:.3f} involuntary and "
        f"{row.voluntary_per_yield:.3f} voluntary switches per call."
    )
    return yes(row.involuntary_per_yield < 50 * row.voluntary_per_yield, reason)


def _fifo_until_it_blocks(table: pd.DataFrame) -> Verdict:
    row = _yields(table, "together", "fifo")
    reason = (
        f"two threads of one priority that never block make {row.switches_per_yield:.3f} switches per call."
    )
    if row.switches_lo_per_yield > 0.5:
        return Verdict(FAILS, reason)
    if row.switches_hi_per_yield < 0.1:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"Neither clearly many nor clearly none: {reason}")


def _crowds(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The smallest crowd and the largest."""
    found = table.sort_values("threads")
    if len(found) < 2 or found.iloc[-1].threads < 8 * found.iloc[0].threads:
        raise CannotTell("Two crowds are needed, one eight times as large as the other.")
    return found.iloc[0], found.iloc[-1]


def _crowd_reason(few: pd.Series, many: pd.Series) -> str:
    return (
        f"{ns(few.switch_ns)} with {few.threads:.0f} ready threads (interval {ns(few.switch_lo_ns)} to "
        f"{ns(few.switch_hi_ns)}), {ns(many.switch_ns)} with {many.threads:.0f} ({ns(many.switch_lo_ns)} to "
        f"{ns(many.switch_hi_ns)})."
    )


def _dearer_in_a_crowd(table: pd.DataFrame) -> Verdict:
    few, many = _crowds(table)
    reason = _crowd_reason(few, many)
    if many.switch_lo_ns > few.switch_hi_ns + few.floor_ns:
        return Verdict(HOLDS, reason)
    if many.switch_hi_ns < few.switch_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals do not stand clear of each other and of the noise: {reason}")


def _dearer_in_proportion(table: pd.DataFrame) -> Verdict:
    few, many = _crowds(table)
    reason = _crowd_reason(few, many)
    # "In proportion" is taken as at least half of it.
    half = 0.5 * many.threads / few.threads
    if many.switch_lo_ns >= half * few.switch_hi_ns:
        return Verdict(HOLDS, reason)
    if many.switch_hi_ns < half * few.switch_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span half the proportion: {reason}")


CLAIMS = [
    Claim("000-007", "A switch costs between 1 and 5 µs directly.", WEB_COURSE, "context_switch.matrix",
          _direct_1_to_5_us),
    Claim("003-009", "A hand-over to another CPU takes at least three times as long as one on the same CPU.",
          ONE_VM, "context_switch.matrix", _other_cpu_dearer),
    Claim("003-007", "Ping-pong by pipe or by condition variable makes exactly two switches a round trip.",
          "assumed by benchmarks that divide by two", "context_switch.matrix",
          _two_switches),
    Claim("004-025", "Switching between threads is cheaper than switching between processes.",
          "a collection of switch benchmarks (004)", "context_switch.matrix", _threads_cheaper),
    Claim("000-059", "sched_yield switches the way a blocking read does.", WEB_COURSE,
          "context_switch.matrix", _yield_like_blocking),
    Claim("004-015", "Two threads that call sched_yield on different CPUs measure a thread switch.",
          "timetctxsw2 in tsuna/contextswitch, as quoted in (004)", "context_switch.matrix", _yield_across),
    Claim("000-055", "Two threads that yield on one CPU make one switch with every call.", WEB_COURSE,
          "yielding.semantics", _one_switch_per_yield),
    Claim("yield-alone", "sched_yield forces a switch.", "what benchmarks that count calls assume",
          "yielding.semantics", _yield_always_switches),
    Claim("000-115", "Fifty times more involuntary than voluntary switches prove that threads are preempted.",
          WEB_COURSE, "yielding.semantics", _involuntary_is_preempted),
    Claim("fifo-yield", "A SCHED_FIFO thread keeps its CPU until it blocks or a higher priority arrives.",
          "a web course on scheduler latency (002), no reference given", "yielding.semantics",
          _fifo_until_it_blocks),
    Claim("000-015", "A switch takes longer the more threads are ready to run.", WEB_COURSE, "crowd.switch",
          _dearer_in_a_crowd),
    Claim("crowd", "With a hundred times as many ready threads a switch takes a hundred times as long.",
          "true of schedulers that walk a list of all threads", "crowd.switch", _dearer_in_proportion),
]  # fmt: skip
