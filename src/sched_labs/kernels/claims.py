"""Claims whose truth depends on the kernel, each judged on every kernel of the gallery and on this machine.

Per kernel there is the recorded run of the sleeper among hogs, and what the kernel told of itself.

Most of these ask for a fact that the kernel tells of itself: nothing is sampled, so there is no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import pandas as pd

from .. import machine
from ..claims.base import _CLASS, FAILS, HOLDS, UNKNOWN, CannotTell, Verdict, html_table
from ..claims.sources import linked
from ..core.result import Result
from ..draw.axes import clock, number_text, time_text
from ..machine.seen import series
from ..topics.other_kernels.sleeper.waits import waits
from . import gallery

THIS = "this machine"
WAKEUP_ARTICLE = "an article on wake-up latency, quoted in a web course on scheduler latency"
LEAST_HAD = 0.95  # of their CPU: with less, a quota or another program made the sleeper wait as well
SETTLE_NS = 100_000_000  # in sleeper.c the hogs run so long before the first wake-up


@dataclass(frozen=True)
class Evidence:
    """What is known of one kernel: what it told of itself, its run, and the run of CFS to compare it with.

    Both runs are of sleeper.among_hogs; only runs on the same clock are compared.
    `sources` says where each fact was read; `quota` and `yields` are the kernel's rows of
    `gallery.throttling()` and `gallery.yields()`, where there are any.
    """

    facts: Mapping[str, Any]
    sleeper: Result
    cfs: Result | None
    sources: Mapping[str, str] = field(default_factory=dict)
    quota: Mapping[Any, Any] | None = None
    yields: Mapping[Any, Any] | None = None

    def fact(self, key: str) -> Any:
        value = self.facts.get(key)
        if value is None:
            raise CannotTell(f"This kernel does not tell its {key.partition('.')[2]}.")
        return value

    @property
    def eevdf(self) -> bool:
        name = self.fact("kernel.scheduler")
        if name not in ("CFS", "EEVDF"):  # a sched_ext scheduler, which is neither
            raise CannotTell(f"Here {name} picks among ordinary threads.")
        return bool(name == "EEVDF")


@dataclass(frozen=True)
class KernelClaim:
    """A sentence, where it was said, and the check on one kernel."""

    id: str
    text: str
    source: str
    test: Callable[[Evidence], Verdict]

    def check(self, evidence: Evidence) -> Verdict:
        try:
            return self.test(evidence)
        except CannotTell as reason:
            return Verdict(UNKNOWN, str(reason))


def _verdict(true: bool, reason: str) -> Verdict:
    return Verdict(HOLDS if true else FAILS, reason)


def _time(ns: float, result: Result) -> str:
    with clock(result.timing):
        return time_text(ns)


def _need_their_cpu(run: Result, reason: str) -> None:
    """CannotTell where a wait need not have been for the hogs."""
    told, last = run.parameters | run.facts, run.data.iloc[-1]
    due_ns = SETTLE_NS + 1000 * last["wake_index"] * last["period_us"]
    elapsed_ns = due_ns + last["late_ns"] + 1000 * last["work_us"]
    had = (told["sleeper_cpu_ns"] + sum(told["hog_cpu_ns"])) / elapsed_ns
    if had < LEAST_HAD:
        raise CannotTell(
            f"Sleeper and hogs had {had:.0%} of their CPU, and may have waited for others: {reason}"
        )


def _must_wait(known: Evidence) -> Verdict:
    """Statistic: share of wake-ups that came late, and of those that waited of themselves, against half.
    Control: the same program on CFS.  Design: a sleeper that asks for less than its share, in virtual time.
    Opponent: one that is due while the sleeper is at its work is late and has not waited, so that both shares
    have to be on one side; and what it meets depends on the phase of the hogs' turns: near half says nothing.
    """
    row, own = known.sleeper.summary().iloc[0], waits(known.sleeper)
    late, waited = row["made_wait_percent"] / 100, float((own > row["waited_ns"]).mean())
    limit = _time(row["waited_ns"], known.sleeper)
    reason = (
        f"{late:.0%} of {len(own)} wake-ups came more than {limit} late, {waited:.0%} waited so long of "
        "themselves."
    )
    # Deterministic or not, these are samples of the moments at which a wake-up can meet the others' slices.
    spread = [1.96 * (share * (1 - share) / len(own)) ** 0.5 for share in (late, waited)]
    most, least = late + spread[0], waited - spread[1]
    if least <= 0.5 <= most:
        raise CannotTell(f"Half lies between the two shares, or too close to one: {reason}")
    if least > 0.5:
        _need_their_cpu(known.sleeper, reason)
    return _verdict(least > 0.5, reason)


def _slice_ns(known: Evidence) -> float:
    """What a turn among the sleeper and its hogs should be: as the kernel tells it, or by CFS's rule."""
    if known.eevdf:
        return float(known.fact("kernel.slice_ns"))
    threads = known.sleeper.parameters["hogs"] + 1
    least = float(known.fact("tunable.min_granularity_ns"))
    return max(least, float(known.fact("tunable.latency_ns")) / threads)


def _within_a_slice(known: Evidence) -> Verdict:
    """Statistic: the longest wait of all, for the sentence says at most.  Control: the kernel's own slice.
    Design: three hogs of equal weight.  Opponent: a few may have met an interrupt; hence p99 beside it.
    """
    own, slice_ns = waits(known.sleeper), _slice_ns(known)
    p99, longest = _p99(own), float(own.max())
    told = [_time(ns, known.sleeper) for ns in (p99, longest, slice_ns)]
    reason = f"99 % waited at most {told[0]}, all at most {told[1]}; a slice is {told[2]}."
    # A few may have met somebody else: an interrupt, or another program.
    if p99 <= slice_ns < longest:
        raise CannotTell(f"Only a few waited longer: {reason}")
    if longest > slice_ns:
        _need_their_cpu(known.sleeper, reason)
    return _verdict(longest <= slice_ns, reason)


def _p99(own: pd.Series[float]) -> float:
    return float(own.quantile(0.99, interpolation="higher"))


def _cuts_the_tail(known: Evidence) -> Verdict:
    """Statistic: ratio of the waits' p99.  Control: CFS on the same clock.  Design: this sleeper, no others.
    Opponent: a program that was late under CFS may gain; the sentence names none.
    """
    if not known.eevdf:
        raise CannotTell("This is CFS.")
    if known.cfs is None:
        raise CannotTell("No run of CFS on the same clock.")
    before, after = (_p99(waits(run)) for run in (known.cfs, known.sleeper))
    ratio, other = number_text(after / before), known.cfs.parameters["kernel"]
    reason = f"For the waits of this sleeper it is {ratio} times that of CFS on {other}."
    return _verdict(after <= 0.7 * before, reason)


def _old_knobs(known: Evidence) -> Verdict:
    """Statistic: whether both files are there.  Control: the CFS kernels, where the survey finds both.
    Design: the survey looks in both places that they ever had.
    Opponent: a closed debugfs hides them; but 6.6 removed them from kernel/sched/debug.c.
    """
    if not known.eevdf:
        raise CannotTell("This is CFS.")
    there = [
        name
        for name in ("latency_ns", "min_granularity_ns")
        if known.facts.get(f"tunable.{name}") is not None
    ]
    if not there and known.facts.get("kernel.debugfs") is not True:
        # Where nobody may look, the kernel's history tells: 6.6 brought EEVDF and took both out.
        return Verdict(FAILS, "Neither is in /proc/sys/kernel, and EEVDF came without them.")
    return _verdict(len(there) == 2, f"It has {' and '.join(there) or 'neither'}.")


def _slice_is_tick(known: Evidence) -> Verdict:
    """Statistic: the nominal slice of a thread among the sleeper and its hogs, within 5 % of a tick.
    Control: kernels of another HZ or slice.  Design: guests of one CPU, where slices are shortest.
    Opponent: without HRTICK a tick ends the turn, which may last 1/HZ or more; the slice does not.
    """
    slice_ns, tick_ns = _slice_ns(known), 1e9 / known.fact("kernel.hz")
    return _verdict(
        abs(slice_ns / tick_ns - 1) < 0.05, f"a slice is {slice_ns:,.0f} ns, a tick {tick_ns:,.0f} ns."
    )


def _features(known: Evidence) -> set[str]:
    """The switches of the scheduler that are on."""
    return {word for word in str(known.fact("tunable.features")).split() if not word.startswith("NO_")}


def _head_start(known: Evidence) -> Verdict:
    """Statistic: which of place_entity()'s switches are on.  Control: CFS and EEVDF side by side.
    Design: no switch of EEVDF gives a head start: it places a thread by its lag or, without PLACE_LAG, at the
    average.  Opponent: "up to" is a bound; that CFS gave a long sleeper all of it is not shown by this.
    """
    if known.eevdf:
        return Verdict(FAILS, "EEVDF places it by its lag, and gives no head start.")
    if "GENTLE_FAIR_SLEEPERS" in _features(known):
        return Verdict(HOLDS, "GENTLE_FAIR_SLEEPERS is on.")
    return Verdict(FAILS, "GENTLE_FAIR_SLEEPERS is off: the head start is up to the whole of it.")


def _wakeup_granularity(known: Evidence) -> Verdict:
    """Statistic: whether the kernel has the limit.  Control: CFS and EEVDF side by side.
    Design: the rule was read in 6.1 (wakeup_preempt_entity()), and in 6.12 there is none (pick_eevdf()).
    Opponent: CFS scaled the limit by the woken thread's weight, and always let it in ahead of SCHED_IDLE.
    """
    limit = known.facts.get("tunable.wakeup_granularity_ns")
    if limit is None and not known.eevdf:
        raise CannotTell("This kernel does not tell its wakeup_granularity_ns.")
    if limit is None:
        return Verdict(FAILS, "EEVDF has no such limit.")
    return Verdict(HOLDS, f"The limit is {limit:,} ns.")


def _is_cfs(known: Evidence) -> Verdict:
    """Statistic: the scheduler's name, by its features or fields.  Control: kernels from both sides of 6.6.
    Design: what the kernel shows comes before what its release says.
    Opponent: kernel/sched/fair.c calls itself CFS to this day (7.3); judged is who picks, not a name.
    """
    return _verdict(not known.eevdf, f"It has {known.fact('kernel.scheduler')}.")


def _since_6_6(known: Evidence) -> Verdict:
    """Statistic: which of the two, against the release.  Control: kernels from both sides.
    Design: a kernel of which the release alone is known would agree with itself, and is not judged.
    Opponent: a distribution may take EEVDF back to an older release; then this fails there.
    """
    release = str(known.fact("kernel.release"))
    version = series(release)
    if version is None:
        raise CannotTell(f"Its release, {release}, is no number.")
    if known.sources.get("kernel.scheduler") == "kernel release only":
        raise CannotTell("Nothing but its release tells which scheduler this kernel has.")
    told = "Linux {}.{}".format(*version)
    return _verdict(known.eevdf == (version >= (6, 6)), f"{told} has {known.fact('kernel.scheduler')}.")


def _defaults(known: Evidence) -> Verdict:
    """Statistic: the three values, exactly.  Control: the values of the other kernels.
    Design: the guests have one CPU, where the kernel's factor (get_update_sysctl_factor()) is 1.
    Opponent: the sentence means the values before that factor, so that the reason names the number of CPUs.
    """
    said = {"latency_ns": 6_000_000, "min_granularity_ns": 750_000, "wakeup_granularity_ns": 1_000_000}
    told = {name: known.facts.get(f"tunable.{name}") for name in said}
    if not any(told.values()):
        if not known.eevdf:
            raise CannotTell("This kernel does not tell them.")
        return Verdict(FAILS, "EEVDF has none of the three.")
    cpus = known.fact("cpu.count")
    values = ", ".join(f"{value:,}" for value in told.values() if value)
    scaled = "" if cpus == 1 else "; with more than one CPU they are multiplied"
    return _verdict(told == said, f"{values} ns on {cpus} CPU{'s' * (cpus > 1)}{scaled}.")


def _rt_defaults(known: Evidence) -> Verdict:
    """Statistic: the four values, exactly.  Control: the values of the other kernels.
    Design: freshly booted guests, in which nobody has set them.
    Opponent: on a machine in use an administrator may have; the sentence says "are", not "are by default".
    """
    said = {
        "rr_timeslice_ms": 100,
        "rt_period_us": 1_000_000,
        "rt_runtime_us": 950_000,
        "cfs_bandwidth_slice_us": 5_000,
    }
    other = {name: value for name in said if (value := known.fact(f"tunable.{name}")) != said[name]}
    listed = ", ".join(f"{name} is {value:,}" for name, value in other.items())
    return _verdict(not other, f"Here {listed}." if other else "So they are set.")


def _burst_sysctl(known: Evidence) -> Verdict:
    """Statistic: whether the file is there.  Control: kernels before and after 5.14, which brought bursts.
    Design: every file of /proc/sys/kernel that begins with sched_ is listed, so that none is overlooked.
    Opponent: a vendor's kernel may have it; that one is not in the gallery.
    """
    return _sysctls(known, ("cfs_bw_burst_enabled",))


def _sysctls(known: Evidence, names: tuple[str, ...]) -> Verdict:
    there = {name: known.sources.get(f"tunable.{name}", "") for name in names}
    there = {name: place for name, place in there.items() if known.facts.get(f"tunable.{name}") is not None}
    sysctls = [name for name, place in there.items() if place.startswith("/proc/sys/")]
    elsewhere = [place for place in there.values() if not place.startswith("/proc/sys/")]
    if len(sysctls) == len(names):
        return Verdict(HOLDS, f"It has {', '.join(sysctls)} there.")
    said = f"Only {' and '.join(sysctls)}." if sysctls else "Not there."
    return Verdict(FAILS, said + (f" Instead: {elsewhere[0]}." if elsewhere else ""))


def _fair_sysctls(known: Evidence) -> Verdict:
    """Statistic: whether all three are below /proc/sys.  Control: 5.10, before they moved (5.13).
    Design: files in debugfs do not count, for sysctl does not show them.
    Opponent: up to 5.12 they needed CONFIG_SCHED_DEBUG, so that an older kernel may lack them, too.
    """
    return _sysctls(known, ("latency_ns", "min_granularity_ns", "wakeup_granularity_ns"))


def _migration_sysctl(known: Evidence) -> Verdict:
    """Statistic: whether the file is there.  Control: 5.10, before it moved (5.13).
    Design: where it went is named with the verdict.  Opponent: the knob itself is still there, in debugfs.
    """
    return _sysctls(known, ("migration_cost_ns",))


def _child_first(known: Evidence) -> Verdict:
    """Statistic: whether both files are below /proc/sys.  Control: 5.10, which has both.
    Design: half of the sentence is not enough; the reason says which half.
    Opponent: the first is still read by 6.1 (task_fork_fair()); 6.12 has neither.
    """
    return _sysctls(known, ("child_runs_first", "nr_migrate"))


def _rt_runtime(known: Evidence) -> Verdict:
    """Statistic: the settings of both protections.  Control: kernels before 6.12, which brought the server.
    Design: no real-time thread runs for this; what one may have is measured by policies.hog.
    Opponent: RLIMIT_RTTIME would end the loop, too, where somebody has set it; nobody has by default.
    """
    server = known.facts.get("tunable.fair_server_runtime_ns")
    if server:
        period = known.fact("tunable.fair_server_period_ns")
        return Verdict(FAILS, f"Here a fair server keeps {server / period:.0%} of each CPU for the others.")
    if server == 0:
        raise CannotTell("The fair server is switched off here.")
    if known.eevdf and known.facts.get("kernel.debugfs") is not True:
        raise CannotTell("The kernel's list of servers (debugfs) is closed.")
    runtime, period = known.fact("tunable.rt_runtime_us"), known.fact("tunable.rt_period_us")
    if not 0 <= runtime < period:
        return Verdict(FAILS, f"Here nothing does: it is {runtime:,}, and there is no fair server.")
    return Verdict(HOLDS, f"There is no fair server; real-time threads may have {runtime / period:.0%}.")


_OVER = "what this group, which had none, used in a period was not counted"


def _no_burst(known: Evidence) -> Verdict:
    """Statistic: whether cpu.stat of the group counts bursts.  Control: 5.10, before they came (5.14).
    Design: the group was given none, so that this says what can be, not what was.
    Opponent: a CPU overruns its slice until the next tick, on every kernel; the group pays that back later.
    """
    if known.quota is None:
        raise CannotTell("No quota was set on this kernel for this table.")
    if known.quota["burst_counted"]:
        return Verdict(FAILS, f"cpu.stat counts bursts, which a group can be given; {_OVER}.")
    raise CannotTell(f"cpu.stat knows no bursts; {_OVER}.")


def _throttles_all(known: Evidence) -> Verdict:
    """Statistic: the latest wake-up in the group.  Control: the rest of the period.  Design: a hog uses the
    group's quota up, and the light thread next to nothing.  Opponent: the sentence says may, so one is
    enough.
    """
    if known.quota is None:
        raise CannotTell("No quota was set on this kernel for this table.")
    runtime, period = (1000 * int(word) for word in str(known.quota["quota"]).split())
    late = known.quota["late_max_virtual_ns"]
    rest = period - runtime
    return _verdict(late > rest / 2, f"It was late by up to {late:,.0f} virtual ns; the rest is {rest:,}.")


def _sched_debug(known: Evidence) -> Verdict:
    """Statistic: where the file is.  Control: 5.10, before it moved (5.13).
    Design: both places are looked at; one that is looked for and not seen has no value.
    Opponent: the same lines are in debugfs now, for root; the file of /proc anybody could see.
    """
    if known.facts.get("kernel.sched_debug", "") is None:
        return Verdict(FAILS, "Not there.")
    path = str(known.fact("kernel.sched_debug"))
    return _verdict(path.startswith("/proc/"), f"It is {path}.")


def _yield_switches(known: Evidence) -> Verdict:
    """Statistic: counted switches a call.  Control: the kernel's own count.  Design: two threads, one CPU.
    Opponent: other kernels keep other books on who yielded, and the gallery shows them.
    """
    if known.yields is None:
        raise CannotTell("Nobody yielded on this kernel for this table.")
    switches = float(known.yields["switches_per_yield"])
    return _verdict(abs(switches - 1) <= 0.05, f"{switches:.2f} switches per call.")


CLAIMS = [
    KernelClaim("000-109", "The fair scheduler is CFS.", "a web course on context switches", _is_cfs),
    KernelClaim("002-082", "A light sleeper that wakes among hogs mostly has to wait.", WAKEUP_ARTICLE,
                _must_wait),
    KernelClaim("002-016", "A thread that wakes waits for one time slice at most.", WAKEUP_ARTICLE,
                _within_a_slice),
    KernelClaim("002-081", "A thread that wakes gets a head start of up to half the target latency.",
                WAKEUP_ARTICLE, _head_start),
    KernelClaim("002-017", "Only who is behind by the wake-up granularity preempts when it wakes.",
                WAKEUP_ARTICLE, _wakeup_granularity),
    KernelClaim("002-103", "EEVDF cuts the 99th percentile of wake-up latency by 30 % or more.",
                WAKEUP_ARTICLE, _cuts_the_tail),
    KernelClaim("002-105", "sched_latency_ns and sched_min_granularity_ns still exist under EEVDF.",
                WAKEUP_ARTICLE, _old_knobs),
    KernelClaim("004-005", "A time slice is 1/HZ.", "a collection of switch benchmarks",
                _slice_is_tick),
    KernelClaim("002-111", "sysctl shows CFS's tunables: sched_latency_ns and the two granularities.",
                WAKEUP_ARTICLE, _fair_sysctls),
    KernelClaim("002-009", "The migration cost is set in /proc/sys/kernel/sched_migration_cost_ns.",
                WAKEUP_ARTICLE, _migration_sysctl),
    KernelClaim("004-012", "sched_child_runs_first and sched_nr_migrate are sysctls.",
                "a collection of switch benchmarks", _child_first),
    KernelClaim("002-045", "All that holds back an endless SCHED_FIFO loop is sched_rt_runtime_us.",
                "the usual advice on real-time policies", _rt_runtime),
    KernelClaim("000-099", "How many threads are on each run queue is in /proc/sched_debug.",
                "a web course on context switches", _sched_debug),
    KernelClaim("000-055", "Two threads that yield on one CPU make one switch with every call.",
                "a web course on context switches", _yield_switches),
    KernelClaim("002-102", "A kernel before 6.6 has CFS, and one from 6.6 on has EEVDF.", WAKEUP_ARTICLE,
                _since_6_6),
    KernelClaim("002-051", "sched_latency_ns is 6 ms, and the two granularities are 0.75 and 1 ms.",
                WAKEUP_ARTICLE, _defaults),
    KernelClaim("004-041", "The settings are: sched_rr_timeslice_ms 100, sched_rt_runtime_us 950,000 of a "
                "sched_rt_period_us of 1,000,000, sched_cfs_bandwidth_slice_us 5,000.",
                "a collection of switch benchmarks", _rt_defaults),
    KernelClaim("004-011", "Bursts are switched on with sched_cfs_bw_burst_enabled.",
                "a collection of switch benchmarks", _burst_sysctl),
    KernelClaim("002-096", "In no period can a group use more than its quota.", WAKEUP_ARTICLE,
                _no_burst),
    KernelClaim("002-092", "At a group's quota even a light thread may wait for most of a period's rest.",
                WAKEUP_ARTICLE, _throttles_all),
]  # fmt: skip


class KernelJudgement:
    """A verdict for each claim on each kernel.  Shows itself as a table with a column per kernel."""

    def __init__(self, verdicts: dict[str, list[tuple[KernelClaim, Verdict]]]) -> None:
        self.verdicts = verdicts

    def table(self) -> pd.DataFrame:
        """claim, source, id, kernel, outcome, reason: one row per claim and kernel."""
        return pd.DataFrame(
            [
                {"claim": c.text, "source": c.source, "id": c.id, "kernel": kernel}
                | {"outcome": verdict.outcome, "reason": verdict.reason}
                for kernel, judged in self.verdicts.items()
                for c, verdict in judged
            ],
            columns=["claim", "source", "id", "kernel", "outcome", "reason"],
        )

    def __repr__(self) -> str:
        return self.table().to_string()

    def _repr_html_(self) -> str:
        rows = []
        for place, (claim, _) in enumerate(next(iter(self.verdicts.values()), [])):
            cells = ""
            for judged in self.verdicts.values():
                verdict = judged[place][1]
                cells += (
                    f'<td><span class="verdict {_CLASS[verdict.outcome]}">{verdict.outcome}</span>'
                    f"<br><small>{escape(verdict.reason)}</small></td>"
                )
            rows.append(
                f'<tr><th scope="row">{escape(claim.text)}<br><small>{linked(claim.source)}</small></th>'
                f"{cells}</tr>"
            )
        return html_table(("People say", *self.verdicts), "".join(rows))


def _evidence(told: Mapping[str, Any], run: Result, cfs: Result | None, **rows: Any) -> Evidence:
    values = {key: fact["value"] for key, fact in told.items()}
    return Evidence(values, run, cfs, {key: fact.get("source", "") for key, fact in told.items()}, **rows)


def per_kernel(here: Result | None = None) -> KernelJudgement:
    """Judge the claims on each recorded kernel and, where a run of it is given, on this machine."""
    runs = {str(run.parameters["kernel"]): run for run in gallery.sleepers()}
    told = {answer["kernel"]: answer["value"]["facts"] for answer in gallery.answers("survey")}
    cfs = [run for name, run in runs.items() if told[name]["kernel.scheduler"]["value"] == "CFS"]
    quotas, yields = (
        {row["kernel"]: row for row in table.to_dict("records")}
        for table in (gallery.throttling(), gallery.yields())
    )
    found = {
        name: _evidence(
            told[name], run, cfs[-1] if cfs else None, quota=quotas.get(name), yields=yields.get(name)
        )
        for name, run in runs.items()
    }
    if here is not None:
        found[THIS] = _evidence(machine.survey().to_json()["facts"], here, None)
    return KernelJudgement({name: [(c, c.check(known)) for c in CLAIMS] for name, known in found.items()})
