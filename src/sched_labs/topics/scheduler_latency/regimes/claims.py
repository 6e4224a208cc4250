"""What people say about regimes, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.base import CannotTell, Claim, Verdict, ns, yes
from sched_labs.claims.helpers import holds_or_fails, one_row, within


def _had_the_cpus(cell: pd.Series) -> None:
    """CannotTell where the workers left more than a tenth of their CPUs.

    Other programs need not have had it: while two workers share a CPU, another one may idle.
    """
    if cell.used_percent < 90:
        raise CannotTell(
            f"{cell.workers} yielding workers, {cell.placement}, used {cell.used_percent:.0f} % of their "
            "CPUs: other programs had the rest, or it was idle while workers shared a CPU."
        )


def _yield_wakes(table: pd.DataFrame) -> Verdict:
    """Statistic: the probe's wake-ups for each of the kernel's time slices.  Control: sleeping workers have
    one each.  Design: cells in which yielding really switches, their median.  Opponent: a few belong to
    the start of a block.
    """
    cells = table[(table["mode"] == "yield") & (table["switched_share"] > 0.5)]
    cells = cells[cells["wakeups_per_slice"].notna()]
    if cells.empty:
        raise CannotTell("This run has no probe that tells wake-ups from other waits, or nobody yielded.")
    share = float(cells["wakeups_per_slice"].median())
    reason = (
        f"{share:.1%} of the turns began with a wake-up, in the median of the rows in which most calls of "
        "sched_yield led to a switch."
    )
    if 0.1 <= share <= 0.9:
        raise CannotTell(f"Neither nearly all nor next to none: {reason}")
    return yes(share > 0.9, reason)


def _matched_yielders_wait(table: pd.DataFrame) -> Verdict:
    """Statistic: share of calls that led to a switch.  Control: used time says that the workers had the
    CPUs.  Design: a worker for each CPU, free to move.  Opponent: two on one CPU for a moment is the
    balancer's doing.
    """
    cell = one_row(table, "yielding workers, one for each CPU", mode="yield", placement="spread",
                regime="matched")  # fmt: skip
    _had_the_cpus(cell)
    reason = f"{cell.switched_share:.1%} of the sched_yield calls led to a switch."
    if 0.1 <= cell.switched_share <= 0.5:
        raise CannotTell(f"No more than half, but a tenth or more: {reason}")
    return yes(cell.switched_share > 0.5, reason)


def _yielders_16_to_31_us(table: pd.DataFrame) -> Verdict:
    """Statistic: median wait, by interval.  Control: used time.  Design: bursts of 50 µs, four workers a
    CPU.  Opponent: another burst makes another number.
    """
    cell = one_row(table, "four yielding workers for each CPU", mode="yield", placement="spread",
                regime="oversubscribed")  # fmt: skip
    _had_the_cpus(cell)
    reason = (
        f"half of the waits took at most {ns(cell.p50_ns)}, interval {ns(cell.p50_lo_ns)} to "
        f"{ns(cell.p50_hi_ns)}."
    )
    return within(cell.p50_lo_ns, cell.p50_hi_ns, 16_000, 31_000, reason)


def _yield_like_sleep(table: pd.DataFrame) -> Verdict:
    """Statistic: waits a round, yielding against sleeping.  Control: sleeping workers wait once a round.
    Design: a worker for each CPU.  Opponent: in a crowd the two queues are alike.
    """
    where = {"placement": "spread", "regime": "matched"}
    yielding = one_row(table, "yielding workers, one for each CPU", mode="yield", **where)
    sleeping = one_row(table, "sleeping workers, one for each CPU", mode="sleep", **where)
    _had_the_cpus(yielding)
    waits = sleeping.waits / sleeping.rounds
    reason = (
        f"with one worker for each CPU {yielding.switched_share:.1%} of the rounds of those that "
        f"yield ended with a wait, and there were {waits:.2f} waits a round for those that sleep."
    )
    if waits < 0.5 or 0.1 <= yielding.switched_share <= 0.5:
        raise CannotTell(f"One of the two waits now and then only: {reason}")
    return yes(yielding.switched_share > 0.5, reason)


def _only_ebpf(table: pd.DataFrame) -> Verdict:
    """Statistic: mean wait by schedstat over that by the probe or clocks.  Control: the two look at the
    same waits.  Design: crowded on one CPU, where threads queue.  Opponent: short waits are another
    question (L47), and where no tracer looked, the workers' own clocks saw the wait.
    """
    cell = one_row(table, "sleeping workers crowded on one CPU", mode="sleep", placement="pinned",
                regime="oversubscribed")  # fmt: skip
    if math.isnan(cell.schedstat_mean_ns) or math.isnan(cell.mean_ns):
        raise CannotTell("This kernel keeps no run delay, or nobody waited.")
    ratio = cell.schedstat_mean_ns / cell.mean_ns
    who = "BPF" if cell.instrument == "bpf" else "the workers' own clocks"
    reason = (
        f"of {cell.workers} sleeping workers on one CPU the mean wait is "
        f"{ns(cell.schedstat_mean_ns)} by schedstat, {ns(cell.mean_ns)} by {who}."
    )
    apart = ratio < 0.5 or ratio > 2
    if apart and cell.instrument != "bpf":
        raise CannotTell(f"No tracer looked at these waits: {reason}")
    return holds_or_fails(apart, 0.8 <= ratio <= 1.25, reason, "They differ, but not by a factor of two:")


def _schedstat_sees_short_waits(table: pd.DataFrame) -> Verdict:
    """Statistic: share of the probe's mean that schedstat has.  Control: the probe, from sched_wakeup.
    Design: timers on idle CPUs: the run queue's clock is not updated in between.  Opponent: both begin
    at the queue, and miss the message to another CPU.
    """
    cell = one_row(table, "sleeping workers in the light regime", mode="sleep", placement="spread",
                regime="light")  # fmt: skip
    if cell.instrument != "bpf" or math.isnan(cell.schedstat_mean_ns):
        raise CannotTell("This needs the probe and the kernel's run delay on the same waits.")
    if cell.mean_ns > 2 * cell.p50_ns:
        raise CannotTell(
            f"The waits were not all short: half took at most {ns(cell.p50_ns)}, their mean is "
            f"{ns(cell.mean_ns)}."
        )
    seen = cell.schedstat_mean_ns / cell.mean_ns
    reason = (
        f"of workers that sleep, spread, in the light regime the mean wait is {ns(cell.mean_ns)}; "
        f"schedstat saw {ns(cell.schedstat_mean_ns)} ({seen:.0%})."
    )
    if 0.5 <= seen < 0.8:
        raise CannotTell(f"They differ, but not by a factor of two: {reason}")
    return yes(seen >= 0.8, reason)


def _pinned_tens_of_ms(table: pd.DataFrame) -> Verdict:
    """Statistic: p99, median over blocks.  Control: used time, for a long tail.  Design: crowded on one CPU,
    where nobody sleeps.  Opponent: a longer burst makes a longer tail.
    """
    cell = one_row(table, "yielding workers crowded on one CPU", mode="yield", placement="pinned",
                regime="oversubscribed")  # fmt: skip
    if math.isnan(cell.p99_ns):
        raise CannotTell("This run saw too few waits for it.")
    reason = (
        f"99 % of the waits of {cell.workers} yielding workers on one CPU ended within {ns(cell.p99_ns)}, "
        "in the median of the trials."
    )
    if 5e6 < cell.p99_ns < 1e7:
        raise CannotTell(f"Above 5 ms, but below ten: {reason}")
    if cell.p99_ns >= 1e7:
        _had_the_cpus(cell)
    return yes(cell.p99_ns >= 1e7, reason)


CLAIMS = [
    Claim("002-021", "A sched_yield causes a wake-up and a reschedule.", COURSE, "regimes.sweep",
          _yield_wakes),
    Claim("002-028", "With one yielding worker for each CPU, the workers wait for one another.", COURSE,
          "regimes.sweep", _matched_yielders_wait),
    Claim("002-029", "With four yielding workers for each CPU, the typical wait is 16 to 31 µs.", COURSE,
          "regimes.sweep", _yielders_16_to_31_us),
    Claim("002-034", "A thread that yields waits the way a thread that is woken waits.", COURSE,
          "regimes.sweep", _yield_like_sleep),
    Claim("002-038", "Yielding workers crowded on one CPU have tails of tens of milliseconds.", COURSE,
          "regimes.sweep", _pinned_tens_of_ms),
    Claim("002-037", "How long threads wait can be seen with a tracer only.", COURSE, "regimes.sweep",
          _only_ebpf),
    Claim("L47-light", "The run delay in schedstat sees short wake-up waits as well as a probe does.",
          "how schedstat is often used", "regimes.sweep", _schedstat_sees_short_waits),
]  # fmt: skip
