"""What people say about the scheduler, each sentence judged on the reader's own run.

A verdict is one of three: *holds here*, *does not hold here*, *cannot tell here*; always with the reason, in
numbers of this run.  The sentences are the literature's, not ours: many are wrong somewhere, and that is why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

import pandas as pd

from .errors import ParameterError
from .result import Result

HOLDS, FAILS, UNKNOWN = "holds here", "does not hold here", "cannot tell here"
_CLASS = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "unknown"}

WEB_COURSE = "a web course on context switches (000), no reference given"
ONE_VM = "what one cloud virtual machine showed (its table has 'several times')"


@dataclass(frozen=True)
class Verdict:
    """How a claim fares on one run."""

    outcome: str
    reason: str


class CannotTell(Exception):
    """Raised by a check that lacks what it needs; its text is the reason."""


@dataclass(frozen=True)
class Claim:
    """A sentence, where it was said, the kind of result that can test it, and the check on its summary.

    The check uses intervals, so that noise ends in *cannot tell here*; a run that is flagged for what went on
    around it is judged all the same, and the verdict says that it is flagged.
    """

    id: str
    text: str
    source: str
    kind: str
    test: Callable[[pd.DataFrame], Verdict]

    def check(self, result: Result) -> Verdict:
        """Judge the claim on a run.  Raises ParameterError for a result of another kind."""
        if result.kind != self.kind:
            raise ParameterError(
                f"The claim {self.id} is about {self.kind}, not {result.kind}.",
                "Give it a result of that kind.",
            )
        try:
            verdict = self.test(result.summary())
            return Verdict(
                verdict.outcome, verdict.reason + (" (This run is flagged.)" if result.flags else "")
            )
        except CannotTell as reason:
            return Verdict(UNKNOWN, str(reason))


def _ns(value: float) -> str:
    """1234 -> "1.2 µs"."""
    for unit, size in (("ms", 1e6), ("µs", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} ns"


def _kib(size: float) -> str:
    return f"{size / 1048576:.3g} MiB" if size >= 1048576 else f"{size / 1024:.3g} KiB"


def _yes(true: bool, reason: str) -> Verdict:
    return Verdict(HOLDS if true else FAILS, reason)


# ---- ping-pong --------------------------------------------------------------------------------------------


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
    reason = (
        f"{_ns(cell.net_per_switch_ns)} a switch, interval {_ns(cell.net_lo_ns)} to {_ns(cell.net_hi_ns)}."
    )
    if cell.net_lo_ns >= 1000 and cell.net_hi_ns <= 5000:
        return Verdict(HOLDS, reason)
    if cell.net_hi_ns < 1000 or cell.net_lo_ns > 5000:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _other_cpu_dearer(table: pd.DataFrame) -> Verdict:
    near, far = _cell(table, "pipe", "threads", "same_cpu"), _cell(table, "pipe", "threads", "other_cpu")
    if not near.net_lo_ns > 0:
        raise CannotTell(
            f"On one CPU a switch costs {_ns(near.net_per_switch_ns)}, but its interval starts at "
            f"{_ns(near.net_lo_ns)}: it bounds no ratio."
        )
    ratio = far.net_per_switch_ns / near.net_per_switch_ns
    least, most = far.net_lo_ns / near.net_hi_ns, far.net_hi_ns / near.net_lo_ns
    reason = (
        f"{_ns(far.net_per_switch_ns)} to the other CPU against {_ns(near.net_per_switch_ns)} on one: "
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
    return _yes(bool((abs(near.switches_per_round_trip / 2 - 1) <= 0.02).all()), reason)


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
    return _yes(a > 0.1, f"voluntary: {a:.0%} of the switches by sched_yield, {b:.0%} of those by pipe.")


def _yield_across(table: pd.DataFrame) -> Verdict:
    apart = table[(table.mechanism == "yield") & (table.placement == "other_cpu")]
    if apart.empty:
        raise CannotTell("This run did not measure sched_yield across CPUs.")
    counted = apart.switches_per_round_trip.median()
    return _yes(
        counted >= 1.96, f"The kernel counted {counted:.2f} switches a round trip where 2 are assumed."
    )


# ---- warm-up ----------------------------------------------------------------------------------------------


def _seen(table: pd.DataFrame, access: str = "random") -> pd.DataFrame:
    found = table[(table.access == access) & table.seen & (table.extra_ns > 0)]
    if found.empty:
        raise CannotTell(f"No warm-up stands clear of the noise floor with {access} access.")
    return found


def _peak(table: pd.DataFrame) -> pd.Series:
    """The row with the largest warm-up."""
    return table.sort_values("extra_ns").iloc[-1]


def _constant(table: pd.DataFrame) -> Verdict:
    found = _seen(table)
    if len(found) < 2:
        raise CannotTell("Two working sets with a warm-up that can be seen are needed.")
    least, most = found.sort_values("extra_ns").iloc[0], _peak(found)
    reason = (
        f"{_ns(least.extra_ns)} at {_kib(least.working_set_bytes)}, "
        f"{_ns(most.extra_ns)} at {_kib(most.working_set_bytes)}."
    )
    # "The same" is taken as within a factor of two.
    if most.extra_hi_ns <= 2 * least.extra_lo_ns:
        return Verdict(HOLDS, reason)
    if most.extra_lo_ns > 2 * least.extra_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span a factor of two: {reason}")


def _ten_to_hundred(table: pd.DataFrame) -> Verdict:
    whole = table[table.access == "random"]
    if whole.empty or not (whole.direct_ns > 0).all():
        raise CannotTell("This run has no random walk with a direct cost beside it.")
    ratio = (whole.extra_ns.clip(lower=0) / whole.direct_ns).where(whole.seen, 0.0)
    inside = ratio.between(10, 100)
    # What stayed unseen is below 10 times only where 10 times would have been seen.
    hidden = ~whole.seen & (whole[["extra_hi_ns", "floor_ns"]].max(axis=1) >= 10 * whole.direct_ns)
    reason = (
        f"from {ratio.min():.2g} to {ratio.max():.2g} times; between 10 and 100 at {inside.sum()} of "
        f"{len(whole)} working sets."
    )
    low, high = whole.extra_lo_ns / whole.direct_ns, whole.extra_hi_ns / whole.direct_ns
    if inside.all() and (low >= 10).all() and (high <= 100).all():
        return Verdict(HOLDS, reason)
    outside = ~hidden & (~whole.seen | (high < 10) | (low > 100))
    if outside.any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"The noise hides what would decide: {reason}")


def _sequential_shows_it(table: pd.DataFrame) -> Verdict:
    both = _seen(table).merge(
        table[table.access == "sequential"],
        on=["working_set_bytes", "partner_bytes"],
        suffixes=("", "_sequential"),
    )
    if both.empty:
        raise CannotTell("This run did not walk the same working sets in both orders.")
    peak = _peak(both)
    reason = (
        f"at {_kib(peak.working_set_bytes)}: {_ns(peak.extra_ns)} in random order, "
        f"{_ns(peak.extra_ns_sequential)} in sequential order."
    )
    if peak.extra_lo_ns_sequential >= 0.5 * peak.extra_hi_ns:
        return Verdict(HOLDS, reason)
    if peak.extra_hi_ns_sequential < 0.5 * peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span one half: {reason}")


def _grows_for_ever(table: pd.DataFrame) -> Verdict:
    found = table[table.access == "random"].sort_values("working_set_bytes")
    if len(found) < 3:
        raise CannotTell("Three working sets are needed to see a bend.")
    peak, last = _peak(found), found.iloc[-1]
    if peak.working_set_bytes == last.working_set_bytes:
        raise CannotTell(
            f"The largest set measured, {_kib(last.working_set_bytes)}, still has the largest warm-up."
        )
    reason = (
        f"{_ns(peak.extra_ns)} at {_kib(peak.working_set_bytes)}, {_ns(last.extra_ns)} at "
        f"{_kib(last.working_set_bytes)}" + ("." if last.seen else ", inside the noise floor.")
    )
    if last.extra_hi_ns < peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _kernel_evicts(table: pd.DataFrame) -> Verdict:
    found = _seen(table)
    peak = _peak(found)
    if pd.isna(peak.kernel_extra_ns):
        raise CannotTell("This run has no switches to a partner that touches nothing.")
    reason = (
        f"at {_kib(peak.working_set_bytes)} a switch to an idle partner adds {_ns(peak.kernel_extra_ns)}, "
        f"one to a busy partner {_ns(peak.extra_ns)}."
    )
    if peak.kernel_extra_ns >= 0.5 * peak.extra_hi_ns:
        return Verdict(HOLDS, reason)
    if peak.kernel_extra_ns < 0.5 * peak.extra_lo_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval does not tell them apart: {reason}")


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
    Claim("000-005", "Every switch costs the same in cold caches, whatever the working set.", WEB_COURSE,
          "warmup.sweep", _constant),
    Claim("000-008", "The indirect cost is 10 to 100 times the direct cost.", WEB_COURSE, "warmup.sweep",
          _ten_to_hundred),
    Claim("lat_ctx", "Summing an array in order shows what a switch does to the cache (at least half of it).",
          "the method of lmbench's lat_ctx", "warmup.sweep", _sequential_shows_it),
    Claim("larger", "The larger the working set, the more a switch costs.",
          "what the left half of the curve suggests", "warmup.sweep",
          _grows_for_ever),
    Claim("000-028", "After a switch nothing of the thread's data is left in its near cache.", WEB_COURSE,
          "warmup.sweep", _kernel_evicts),
]  # fmt: skip


class Judgement:
    """Claims with their verdicts on one run.  Shows itself as a table."""

    def __init__(self, verdicts: list[tuple[Claim, Verdict]]) -> None:
        self._verdicts = verdicts

    def __iter__(self) -> Iterator[tuple[Claim, Verdict]]:
        return iter(self._verdicts)

    def table(self) -> pd.DataFrame:
        """claim, outcome, reason, source, id: one row per claim."""
        return pd.DataFrame(
            [
                {"claim": c.text, "outcome": v.outcome, "reason": v.reason, "source": c.source, "id": c.id}
                for c, v in self
            ],
            columns=["claim", "outcome", "reason", "source", "id"],
        )

    def __repr__(self) -> str:
        return "\n".join(f"{v.outcome:>19}  {c.text}  {v.reason}" for c, v in self)

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td>{escape(c.text)}<span class="source">{escape(c.source)}</span></td>'
            f'<td><span class="verdict {_CLASS[v.outcome]}">{v.outcome}</span></td>'
            f"<td>{escape(v.reason)}</td></tr>"
            for c, v in self
        )
        return (
            '<table class="sl-claims"><thead><tr><th scope="col">People say</th><th scope="col">This run</th>'
            f'<th scope="col">Because</th></tr></thead><tbody>{rows}</tbody></table>'
        )


def judge(result: Result, *claim_ids: str) -> Judgement:
    """Judge the claims about this kind of result, or those named.

    Raises ParameterError for a claim that there is not, or that is about another kind of result.
    """
    known = {claim.id: claim for claim in CLAIMS}
    if unknown := [name for name in claim_ids if name not in known]:
        raise ParameterError(f"There is no claim {unknown[0]!r}.", f"There are: {', '.join(known)}.")
    chosen = [known[name] for name in claim_ids] or [claim for claim in CLAIMS if claim.kind == result.kind]
    return Judgement([(claim, claim.check(result)) for claim in chosen])
