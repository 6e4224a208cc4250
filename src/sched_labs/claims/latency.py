"""Claims about the wait between runnable and running."""

from __future__ import annotations

import math

import pandas as pd

from ..experiments.policies import FEWEST_FOR_TAIL, LOADS
from ..experiments.wakeplace import SLOW_NS
from .base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns, yes

IDLE_PERCENT = 60  # the woken workers themselves use some of the other CPUs
BUSY_PERCENT = 85  # hogs have a CPU from when a block starts until it ends, not before and after
COURSE = "a web course on scheduler latency (002), no reference given"


def _row(table: pd.DataFrame, what: str, **wanted: object) -> pd.Series:
    """The one row with these values.  CannotTell, naming `what`, where the run has none."""
    found = table
    for column, value in wanted.items():
        found = found[found[column] == value]
    if found.empty:
        raise CannotTell(f"This run did not measure {what}.")
    return found.iloc[0]


def _times(above: pd.Series, below: pd.Series) -> tuple[float, float]:
    """How many times as long the tail of one is as that of the other: the ends of the interval."""
    ends = [row[end] for row in (above, below) for end in ("p99_lo_ns", "p99_hi_ns")]
    if not all(math.isfinite(end) and end > 0 for end in ends):
        raise CannotTell("One trial says nothing about how trials vary.")
    return ends[0] / ends[3], ends[1] / ends[2]


def _within(low: float, high: float, least: float, most: float, reason: str) -> Verdict:
    """Whether an interval lies inside or outside limits.  CannotTell where it spans one, or there is none."""
    if math.isnan(low) or math.isnan(high):
        raise CannotTell("This run saw too few waits for it.")
    if low >= least and high <= most:
        return Verdict(HOLDS, reason)
    if high < least or low > most:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a limit: {reason}")


def _had_the_cpus(cell: pd.Series) -> None:
    """CannotTell where other programs had more than a tenth of the CPUs meanwhile."""
    if cell.used_percent < 90:
        raise CannotTell(f"Other programs had {100 - cell.used_percent:.0f} % of those CPUs.")


# ---- regimes ----------------------------------------------------------------------------------------------


def _yield_wakes(table: pd.DataFrame) -> Verdict:
    cells = table[(table["mode"] == "yield") & (table["switched_share"] > 0.5)]
    cells = cells[cells["wakeups_per_slice"].notna()]
    if cells.empty:
        raise CannotTell("This run has no probe that tells wake-ups from other waits, or nobody yielded.")
    share = float(cells["wakeups_per_slice"].median())
    reason = f"{share:.1%} of the turns after a sched_yield began with a wake-up."
    if 0.1 <= share <= 0.9:
        raise CannotTell(reason)
    return yes(share > 0.9, reason)


def _matched_yielders_wait(table: pd.DataFrame) -> Verdict:
    cell = _row(table, "yielding workers, one for each CPU", mode="yield", placement="spread",
                regime="matched")  # fmt: skip
    _had_the_cpus(cell)
    reason = f"{cell.switched_share:.1%} of the sched_yield calls led to a switch."
    if 0.1 <= cell.switched_share <= 0.5:
        raise CannotTell(f"{reason} Other programs were running too.")
    return yes(cell.switched_share > 0.5, reason)


def _yielders_16_to_31_us(table: pd.DataFrame) -> Verdict:
    cell = _row(table, "four yielding workers for each CPU", mode="yield", placement="spread",
                regime="oversubscribed")  # fmt: skip
    reason = f"half of them waited {ns(cell.p50_ns)}, interval {ns(cell.p50_lo_ns)} to {ns(cell.p50_hi_ns)}."
    return _within(cell.p50_lo_ns, cell.p50_hi_ns, 16_000, 31_000, reason)


def _yield_like_sleep(table: pd.DataFrame) -> Verdict:
    where = {"placement": "spread", "regime": "matched"}
    yielding = _row(table, "yielding workers, one for each CPU", mode="yield", **where)
    sleeping = _row(table, "sleeping workers, one for each CPU", mode="sleep", **where)
    _had_the_cpus(yielding)
    waits = sleeping.waits / sleeping.rounds
    reason = (
        f"with one worker for each CPU there was a wait in {yielding.switched_share:.0%} of the rounds of "
        f"those that yield, {waits:.2f} a round for those that sleep."
    )
    if waits < 0.5 or 0.1 <= yielding.switched_share <= 0.5:
        raise CannotTell(reason)
    return yes(yielding.switched_share > 0.5, reason)


def _idle_wake_2_to_7_us(table: pd.DataFrame) -> Verdict:
    cell = _row(table, "sleeping workers on a machine with idle CPUs", mode="sleep", placement="spread",
                regime="light")  # fmt: skip
    reason = f"half of them waited {ns(cell.p50_ns)}, interval {ns(cell.p50_lo_ns)} to {ns(cell.p50_hi_ns)}."
    return _within(cell.p50_lo_ns, cell.p50_hi_ns, 2_000, 7_000, reason)


def _only_ebpf(table: pd.DataFrame) -> Verdict:
    cell = _row(table, "sleeping workers crowded on one CPU", mode="sleep", placement="pinned",
                regime="oversubscribed")  # fmt: skip
    if math.isnan(cell.schedstat_mean_ns) or math.isnan(cell.mean_ns):
        raise CannotTell("This kernel keeps no run delay, or nobody waited.")
    ratio = cell.schedstat_mean_ns / cell.mean_ns
    who = "BPF" if cell.instrument == "bpf" else "the workers' own clocks"
    reason = f"the mean wait is {ns(cell.schedstat_mean_ns)} by schedstat, {ns(cell.mean_ns)} by {who}."
    if 0.8 <= ratio <= 1.25:
        return Verdict(FAILS, reason)
    if ratio < 0.5 or ratio > 2:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"They differ, but not by a factor of two: {reason}")


def _schedstat_sees_short_waits(table: pd.DataFrame) -> Verdict:
    cell = _row(table, "sleeping workers on a machine with idle CPUs", mode="sleep", placement="spread",
                regime="light")  # fmt: skip
    if cell.instrument != "bpf" or math.isnan(cell.schedstat_mean_ns):
        raise CannotTell("This needs the probe and the kernel's run delay on the same waits.")
    if cell.mean_ns > 2 * cell.p50_ns:
        raise CannotTell(
            f"The waits were not all short: half took at most {ns(cell.p50_ns)}, their mean is "
            f"{ns(cell.mean_ns)}."
        )
    seen = cell.schedstat_mean_ns / cell.mean_ns
    reason = f"of a mean wait of {ns(cell.mean_ns)} schedstat saw {ns(cell.schedstat_mean_ns)} ({seen:.0%})."
    if 0.5 <= seen < 0.8:
        raise CannotTell(reason)
    return yes(seen >= 0.8, reason)


def _pinned_tens_of_ms(table: pd.DataFrame) -> Verdict:
    cell = _row(table, "yielding workers crowded on one CPU", mode="yield", placement="pinned",
                regime="oversubscribed")  # fmt: skip
    if math.isnan(cell.p99_ns):
        raise CannotTell("This run saw too few waits for it.")
    reason = (
        f"99 % of the waits of {cell.workers} yielding workers on one CPU ended within {ns(cell.p99_ns)}."
    )
    if 5e6 < cell.p99_ns < 1e7:
        raise CannotTell(reason)
    return yes(cell.p99_ns >= 1e7, reason)


# ---- slices -----------------------------------------------------------------------------------------------


def _own(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of hogs with the kernel's own slice."""
    alone = table["wished_slice_ns"].isna() & table["moved_slice_ns"].isna()
    found = table[alone].sort_values("hogs")
    if len(found) < 2:
        raise CannotTell("This run did not measure two numbers of hogs.")
    for _, cell in found.iterrows():
        _had_the_cpus(cell)
    return found


def _among(table: pd.DataFrame, hogs: int) -> pd.Series:
    return _row(_own(table), f"{hogs} hogs", hogs=hogs)


def _slices_shrink(table: pd.DataFrame) -> Verdict:
    own = _own(table)
    few, many = own.iloc[0], own.iloc[-1]
    reason = (
        f"a stint lasts {ns(few.stint_p50_ns)} among {int(few.hogs)} hogs, {ns(many.stint_p50_ns)} among "
        f"{int(many.hogs)}."
    )
    if many.stint_hi_ns < 0.8 * few.stint_lo_ns:
        return Verdict(HOLDS, reason)
    if many.stint_lo_ns > 0.8 * few.stint_hi_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _a_turn_is_a_slice(table: pd.DataFrame) -> Verdict:
    few = _own(table).iloc[0]
    if math.isnan(few.slice_ns):
        raise CannotTell("This kernel does not tell its slice.")
    reason = f"the kernel's slice is {ns(few.slice_ns)}, a turn takes {ns(few.stint_p50_ns)}"
    if not math.isnan(few.tick_ns):
        reason += f", and its tick comes every {ns(few.tick_ns)}"
    return _within(few.stint_lo_ns, few.stint_hi_ns, 0.8 * few.slice_ns, 1.25 * few.slice_ns, f"{reason}.")


def _queue_times_slice(table: pd.DataFrame) -> Verdict:
    own = _own(table)
    longest = (own["gap_p90_ns"] / ((own["hogs"] - 1) * own["stint_p50_ns"])).max()
    reason = f"nine of ten waits ended within {longest:.2f} × (N - 1) stints, for every N."
    if 1.5 < longest <= 2:
        raise CannotTell(reason)
    return yes(longest <= 1.5, reason)


def _waits_one_slice(table: pd.DataFrame) -> Verdict:
    many = _own(table).iloc[-1]
    reason = f"among {int(many.hogs)} hogs a wait is {many.gaps_per_stint:.1f} stints long."
    if not math.isfinite(many.gap_hi_ns):
        raise CannotTell(f"One trial says nothing about how trials vary: {reason}")
    ends = many.gap_lo_ns / many.stint_hi_ns, many.gap_hi_ns / many.stint_lo_ns
    return _within(*ends, 0, 1.25, reason)


def _six_wait_800_ms(table: pd.DataFrame) -> Verdict:
    cell = _among(table, 6)
    reason = (
        f"among 6 hogs half of the waits took {ns(cell.gap_p50_ns)} or less, "
        f"all at most {ns(cell.gap_max_ns)}."
    )
    return _within(cell.gap_lo_ns, cell.gap_hi_ns, 400e6, math.inf, reason)


def _four_wait_4_5_ms(table: pd.DataFrame) -> Verdict:
    cell = _among(table, 4)
    reason = f"among 4 hogs a stint lasts {ns(cell.stint_p50_ns)} and a wait {ns(cell.gap_p50_ns)}."
    return _within(cell.gap_lo_ns, cell.gap_hi_ns, 3.6e6, 5.4e6, reason)


def _knobs_change_little(table: pd.DataFrame) -> Verdict:
    moved = table.dropna(subset=["moved_slice_ns"])
    if moved.empty:
        raise CannotTell("The kernel's slice could not be moved here.")
    longer = moved.iloc[-1]
    plain = _among(table, int(longer.hogs))
    _had_the_cpus(longer)
    reason = (
        f"with the kernel's slice set to {ns(longer.moved_slice_ns)}, {int(longer.hogs)} hogs waited "
        f"{ns(longer.gap_p50_ns)} for a turn, {ns(plain.gap_p50_ns)} before."
    )
    if not (math.isfinite(longer.gap_hi_ns) and math.isfinite(plain.gap_hi_ns)):
        raise CannotTell(f"One trial says nothing about how trials vary: {reason}")
    ends = longer.gap_lo_ns / plain.gap_hi_ns, longer.gap_hi_ns / plain.gap_lo_ns
    return _within(*ends, 0.6, 1.4, reason)


def _own_slice(table: pd.DataFrame) -> Verdict:
    wished = table.dropna(subset=["wished_slice_ns"]).sort_values("wished_slice_ns")
    if wished.empty:
        raise CannotTell("This kernel grants no slices of one's own.")
    longest = wished.iloc[-1]
    plain = _among(table, int(longest.hogs))
    reason = (
        f"{int(longest.hogs)} hogs that asked for {ns(longest.wished_slice_ns)} ran "
        f"{ns(longest.stint_p50_ns)} at a time, {ns(plain.stint_p50_ns)} without asking."
    )
    if longest.stint_lo_ns > plain.stint_hi_ns:
        return Verdict(HOLDS, reason)
    if longest.stint_hi_ns <= 1.1 * plain.stint_p50_ns:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


# ---- policies ---------------------------------------------------------------------------------------------


def _worker(table: pd.DataFrame, policy: str, load: str) -> pd.Series:
    cell = _row(table, f"a {load} worker under {policy}", policy=policy, load=load)
    _had_the_cpus(cell)
    return cell


def _fifo_at_once(table: pd.DataFrame) -> Verdict:
    cell = _worker(table, "FIFO", "light")
    reason = f"under FIFO half of the wake-ups ran within {ns(cell.p50_ns)}, 99 % within {ns(cell.p99_ns)}."
    if cell.p99_hi_ns < 1e6:
        return Verdict(HOLDS, reason)
    if cell.p50_lo_ns > 1e6:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The tail is wide: {reason} Interrupts, a hypervisor or other real-time threads?")


def _fifo_below_10_us(table: pd.DataFrame) -> Verdict:
    cell = _worker(table, "FIFO", "light")
    reason = f"under FIFO half of the wake-ups ran within {ns(cell.p50_ns)}, 99 % within {ns(cell.p99_ns)}."
    return _within(cell.p50_lo_ns, cell.p99_hi_ns, 0, 1e4, reason) if cell.p50_lo_ns <= 1e4 else Verdict(
        FAILS, reason
    )  # fmt: skip


def _slack_matters_not(table: pd.DataFrame) -> Verdict:
    plain, slacked = _worker(table, "OTHER", "light"), _worker(table, "OTHER, slack 50 µs", "light")
    reason = (
        f"half of the wake-ups ran within {ns(plain.p50_ns)} with a slack of 1 ns, within "
        f"{ns(slacked.p50_ns)} with the default of 50 µs."
    )
    if slacked.p50_lo_ns > plain.p50_hi_ns + 20_000:
        return Verdict(FAILS, reason)
    if slacked.p50_hi_ns < plain.p50_lo_ns + 20_000:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _enough_wakes(cell: pd.Series) -> None:
    """CannotTell where a trial had fewer than a hundred wake-ups."""
    if cell.wakes_per_trial < FEWEST_FOR_TAIL:
        raise CannotTell(f"{cell.wakes_per_trial} wake-ups in a trial have no one in a hundred.")


def _three_times_at_most(table: pd.DataFrame) -> Verdict:
    plain, fifo = _worker(table, "OTHER", "heavy"), _worker(table, "FIFO", "heavy")
    _enough_wakes(plain)
    least, most = _times(plain, fifo)
    reason = (
        f"one in a hundred is {ns(plain.p99_ns)} late or more under OTHER, {ns(fifo.p99_ns)} under FIFO: "
        f"{plain.p99_ns / fifo.p99_ns:.0f} times (interval {least:.0f} to {most:.0f})."
    )
    return _within(least, most, 0, 3, reason)


def _no_fair_setting_helps(table: pd.DataFrame) -> Verdict:
    plain = _worker(table, "OTHER", "heavy")
    _enough_wakes(plain)
    others = table[(table["load"] == "heavy") & table["policy"].isin(["nice -10", "slice 0.1 ms"])]
    if others.empty:
        raise CannotTell("This run could set neither a better nice value nor a slice of its own.")
    best = others.sort_values("p99_ns").iloc[0]
    reason = (
        f"one in a hundred is {ns(plain.p99_ns)} late or more under OTHER, {ns(best.p99_ns)} with "
        f"{best.policy}."
    )
    if best.p99_hi_ns < 0.7 * plain.p99_lo_ns:
        return Verdict(FAILS, reason)
    if best.p99_lo_ns > 0.7 * plain.p99_hi_ns:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _heavy_loses_cpu(table: pd.DataFrame) -> Verdict:
    cell = _worker(table, "OTHER", "heavy")
    asked = 100 * LOADS["heavy"]
    reason = f"it asked for {asked:.0f} % of the CPU beside hogs and got {cell.worker_cpu_percent:.1f} %"
    # The work may take longer here than when it was timed: better is what it takes where nobody delays it.
    fifo = table[(table["policy"] == "FIFO") & (table["load"] == "heavy")]
    if len(fifo):
        asked = float(fifo["worker_cpu_percent"].iloc[0])
        reason += f"; under FIFO, where it waits for nobody, it used {asked:.1f} %"
    if 0.7 * asked <= cell.worker_cpu_percent < 0.85 * asked:
        raise CannotTell(f"{reason}.")
    return yes(cell.worker_cpu_percent < 0.7 * asked, f"{reason}.")


def _sleeper_fails_the_test(table: pd.DataFrame) -> Verdict:
    cell = _worker(table, "OTHER", "light")
    reason = f"half of a light worker's wake-ups ran within {ns(cell.p50_ns)} beside hogs."
    if cell.p50_hi_ns < 1e5:
        return Verdict(FAILS, reason)
    if cell.p50_lo_ns > 1e6:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"Between at once and a slice: {reason}")


def _same_throughput(table: pd.DataFrame) -> Verdict:
    plain, fifo = _worker(table, "OTHER", "heavy"), _worker(table, "FIFO", "heavy")
    reason = (
        f"the worker used {plain.worker_cpu_percent:.1f} % of the CPU under OTHER, "
        f"{fifo.worker_cpu_percent:.1f} % under FIFO; the hogs had the rest."
    )
    apart = abs(plain.worker_cpu_percent - fifo.worker_cpu_percent)
    if 4 < apart < 8:
        raise CannotTell(reason)
    return yes(apart <= 4, reason)


def _pair(table: pd.DataFrame, pair: str) -> tuple[pd.Series, str]:
    cell = _row(table, f"a hog {pair}", pair=pair)
    _had_the_cpus(cell)
    reason = (
        f"{pair}: the second hog got {cell.second_percent:.1f} % (interval {cell.second_lo_percent:.1f} to "
        f"{cell.second_hi_percent:.1f})"
    )
    return cell, reason


def _nice_5_is_25(table: pd.DataFrame) -> Verdict:
    cell, reason = _pair(table, "OTHER beside nice +5")
    return _within(cell.second_lo_percent, cell.second_hi_percent, 22, 28, f"{reason}.")


def _fifo_until_it_blocks(table: pd.DataFrame) -> Verdict:
    cell, reason = _pair(table, "FIFO beside OTHER")
    return _within(cell.second_lo_percent, cell.second_hi_percent, 0, 0.5, f"{reason}.")


def _fifo_hangs(table: pd.DataFrame) -> Verdict:
    cell, reason = _pair(table, "FIFO beside OTHER")
    reason += f", and a watchdog ended it {ns(cell.watchdog_late_ns)} after its time."
    if cell.second_lo_percent > 0.5 and cell.watchdog_late_ns < 1e9:
        return Verdict(FAILS, reason)
    if cell.second_hi_percent < 0.5:
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _five_percent_left(table: pd.DataFrame) -> Verdict:
    cell, reason = _pair(table, "FIFO beside OTHER")
    reason += f"; its longest wait was {ns(cell.longest_gap_ns)}."
    return _within(cell.second_lo_percent, cell.second_hi_percent, 3, 7, reason)


def _edge(table: pd.DataFrame) -> tuple[pd.Series, str]:
    row = table.iloc[0]
    if row.refused_by is None or pd.isna(row.refused_by):
        raise CannotTell(f"The kernel granted {row.granted_percent:.1f} % per CPU and had not refused yet.")
    return row, (
        f"{row.granted_percent:.1f} % of each CPU was granted, {row.step_percent:.1f} % more refused with "
        f"{row.refused_by}."
    )


def _no_oversubscription(table: pd.DataFrame) -> Verdict:
    row, reason = _edge(table)
    return yes(row.granted_percent <= 100 and row.refused_by == "EBUSY", reason)


def _edge_at_95(table: pd.DataFrame) -> Verdict:
    row, reason = _edge(table)
    if math.isnan(row.limit_percent):
        raise CannotTell("This kernel does not tell its limit.")
    reason += f" The limit is set to {row.limit_percent:.0f} %."
    return yes(row.granted_percent <= row.limit_percent < row.granted_percent + row.step_percent, reason)


# ---- placement, ticks, omission ---------------------------------------------------------------------------


def _woken(table: pd.DataFrame, condition: str) -> pd.Series:
    cell = _row(table, f"wake-ups with {condition}", condition=condition)
    if cell.others_idle_percent < IDLE_PERCENT:
        raise CannotTell(f"The other CPUs were idle for {cell.others_idle_percent:.0f} % of the time only.")
    return cell


def _waits_beside_idle(table: pd.DataFrame) -> Verdict:
    cell = _woken(table, "idle CPUs")
    reason = (
        f"with idle CPUs half of the wake-ups ran within {ns(cell.p50_ns)}, 99 % within {ns(cell.p99_ns)}."
    )
    if cell.p99_hi_ns < 1e6:
        return Verdict(FAILS, reason)
    if cell.p50_lo_ns > 1e6:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"{reason} The CPUs may not have been idle: other programs run, too.")


def _eleven_ms_beside_idle(table: pd.DataFrame) -> Verdict:
    cell = _woken(table, "idle CPUs")
    reason = f"with idle CPUs one wake-up in a hundred took {ns(cell.p99_ns)} or more."
    return _within(cell.p99_lo_ns, cell.p99_hi_ns, 5e6, math.inf, reason)


def _affinity_dominates(table: pd.DataFrame) -> Verdict:
    cell = _woken(table, "idle CPUs")
    reason = (
        f"with idle CPUs {cell.on_waker_percent:.1f} % of the woken threads were put on the waker's busy one "
        f"(interval {cell.on_waker_lo_percent:.1f} to {cell.on_waker_hi_percent:.1f})."
    )
    if cell.on_waker_hi_percent < 10:
        return Verdict(FAILS, reason)
    if cell.on_waker_lo_percent > 50:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"{reason} Other programs may have filled the idle CPUs.")


def _migration_cost_helps(table: pd.DataFrame) -> Verdict:
    plain, cheap = _woken(table, "idle CPUs"), _woken(table, "low migration cost")
    least, most = _times(cheap, plain)
    reason = (
        f"one wake-up in a hundred took {ns(plain.p99_ns)} or more, {ns(cheap.p99_ns)} with a hundredth of "
        f"the migration cost; {plain.on_waker_percent:.1f} and {cheap.on_waker_percent:.1f} % ran on the "
        "waker's CPU."
    )
    if most < 0.7:
        return Verdict(HOLDS, reason)
    if least > 0.7:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals allow either: {reason}")


def _slow(cell: pd.Series) -> str:
    if not math.isfinite(cell.slow_hi_percent):
        raise CannotTell("One trial says nothing about how trials vary.")
    return f"{cell.slow_percent:.1f} % (interval {cell.slow_lo_percent:.1f} to {cell.slow_hi_percent:.1f})"


def _idle_cpu_means_no_wait(table: pd.DataFrame) -> Verdict:
    """Long waits of threads that must stay on a busy CPU, against those that the machine makes by itself."""
    bound, noise = _woken(table, "bound to the waker"), _woken(table, "bound to an idle CPU")
    reason = (
        f"with the other CPUs idle for {bound.others_idle_percent:.0f} % of the time, {_slow(bound)} of the "
        f"wake-ups of threads that may use one busy CPU only took more than {ns(SLOW_NS)}; on an idle CPU "
        f"{_slow(noise)}."
    )
    if bound.slow_lo_percent > noise.slow_hi_percent:
        return Verdict(FAILS, reason)
    if bound.slow_hi_percent == 0 and bound.p99_hi_ns < 1e5:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"These may be other programs', or the hypervisor's: {reason}")


def _long_waits_are_misplaced(table: pd.DataFrame) -> Verdict:
    """Whether waits are long where no CPU is idle on which the thread could have been placed instead."""
    free, crowded = _woken(table, "idle CPUs"), _row(table, "busy CPUs", condition="every CPU busy")
    if crowded.others_idle_percent > 100 - BUSY_PERCENT:
        raise CannotTell(f"Not every CPU was busy: the others idled {crowded.others_idle_percent:.0f} %.")
    reason = (
        f"{_slow(crowded)} of the wake-ups took more than {ns(SLOW_NS)} where every CPU was busy, "
        f"{_slow(free)} where a CPU was idle to go to."
    )
    if crowded.slow_lo_percent > free.slow_hi_percent:
        return Verdict(FAILS, reason)
    if free.slow_lo_percent > crowded.slow_hi_percent:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _tick(table: pd.DataFrame) -> pd.Series:
    row = table.iloc[0]
    if row.lost_percent > 10:
        raise CannotTell(f"Other programs had the CPU for {row.lost_percent:.0f} % of the time.")
    if math.isnan(row.period_ns):
        raise CannotTell(f"The gaps share no period: the best comb is {row.strength:.0%} full.")
    return row


def _tick_at_1000_hz(table: pd.DataFrame) -> Verdict:
    row = _tick(table)
    reason = f"the gaps come every {ns(row.period_ns)}: {1e9 / row.period_ns:.0f} times a second."
    return _within(row.period_lo_ns, row.period_hi_ns, 0.95e6, 1.05e6, reason)


def _tick_is_one_over_hz(table: pd.DataFrame) -> Verdict:
    row = _tick(table)
    if math.isnan(row.tick_ns):
        raise CannotTell("This machine does not tell its tick.")
    reason = f"the gaps come every {ns(row.period_ns)}, and 1/HZ is {ns(row.tick_ns)}."
    return _within(row.period_lo_ns, row.period_hi_ns, 0.98 * row.tick_ns, 1.02 * row.tick_ns, reason)


def _tick_takes_80_us(table: pd.DataFrame) -> Verdict:
    row = _tick(table)
    reason = f"half of the gaps that keep to the tick take {ns(row.in_phase_p50_ns)} or less."
    if 40e3 <= row.in_phase_p50_ns < 60e3:
        raise CannotTell(reason)
    return yes(60e3 <= row.in_phase_p50_ns <= 120e3, reason)


def _irq_entry_sees_ticks(table: pd.DataFrame) -> Verdict:
    row = table.iloc[0]
    if math.isnan(row.timer_interrupts):
        raise CannotTell("The kernel does not tell this CPU's interrupts here.")
    reason = (
        f"the CPU's own timer interrupted it {row.timer_interrupts:.0f} times, devices "
        f"{row.device_interrupts:.0f} times, and irq_handler_entry sees the latter."
    )
    if row.timer_interrupts < 20:
        raise CannotTell(f"Too few interrupts: {reason}")
    share = row.device_interrupts / (row.timer_interrupts + row.device_interrupts)
    if 0.25 <= share <= 0.75:
        raise CannotTell(reason)
    return yes(share > 0.75, reason)


def _clients(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    return _row(table, "a closed client", client="closed"), _row(table, "an open client", client="open")


def _clients_agree(table: pd.DataFrame) -> Verdict:
    closed, open_ = _clients(table)
    least, most = _times(open_, closed)
    reason = (
        f"of the same stall the client that waits reports a p99 of {ns(closed.p99_ns)}, the one that keeps "
        f"to its schedule {ns(open_.p99_ns)}."
    )
    return _within(least, most, 0, 2, reason)


def _misses_the_run_delay(table: pd.DataFrame) -> Verdict:
    closed, open_ = _clients(table)
    if math.isnan(open_.run_delay_ns):
        raise CannotTell("This kernel keeps no run delay for threads.")
    missed = open_.waited_ns - closed.waited_ns
    reason = (
        f"the client that waits missed {ns(missed)} of waiting; the server's own run-queue latency was "
        f"{ns(open_.run_delay_ns)} in sum."
    )
    if missed > 5 * open_.run_delay_ns or open_.run_delay_ns > 5 * abs(missed):
        return Verdict(FAILS, reason)
    if 0.8 <= missed / open_.run_delay_ns <= 1.25:
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


CLAIMS = [
    Claim("002-021", "A sched_yield causes a wake-up and a reschedule.", COURSE, "regimes.sweep",
          _yield_wakes),
    Claim("002-028", "With one yielding worker for each CPU, the workers wait for one another.", COURSE,
          "regimes.sweep", _matched_yielders_wait),
    Claim("002-029", "With four yielding workers for each CPU, the typical wait is 16 to 31 µs.", COURSE,
          "regimes.sweep", _yielders_16_to_31_us),
    Claim("002-034", "A thread that yields waits the way a thread that is woken waits.", COURSE,
          "regimes.sweep", _yield_like_sleep),
    Claim("002-027", "With idle CPUs a woken thread runs after 2 to 7 µs.", COURSE, "regimes.sweep",
          _idle_wake_2_to_7_us),
    Claim("002-038", "Yielding workers crowded on one CPU have tails of tens of milliseconds.", COURSE,
          "regimes.sweep", _pinned_tens_of_ms),
    Claim("002-037", "How long threads wait can be seen with a tracer only.", COURSE, "regimes.sweep",
          _only_ebpf),
    Claim("L47-light", "The run delay in schedstat sees short wake-up waits as well as a probe does.",
          "how schedstat is often used", "regimes.sweep", _schedstat_sees_short_waits),
    Claim("L11", "The more threads share a CPU, the shorter each one's turn becomes.",
          "descriptions of CFS with a target latency", "slices.sweep", _slices_shrink),
    Claim("002-006", "On a full CPU a wait is bounded by the length of the queue times the slice.", COURSE,
          "slices.sweep", _queue_times_slice),
    Claim("002-016", "A runnable thread waits for one slice at most.", COURSE, "slices.sweep",
          _waits_one_slice),
    Claim("002-030", "Four threads on one CPU wait 4.5 ms for their turn.", COURSE, "slices.sweep",
          _four_wait_4_5_ms),
    Claim("002-057", "With six threads for each CPU, a thread waits 800 ms.", COURSE, "slices.sweep",
          _six_wait_800_ms),
    Claim("base-slice", "A turn lasts as long as the slice that the kernel is set to.",
          "what the name base_slice_ns suggests", "slices.sweep", _a_turn_is_a_slice),
    Claim("002-126", "A thread that asks for a longer slice is left alone for longer.",
          "sched(7) and the EEVDF documentation", "slices.sweep", _own_slice),
    Claim("002-052", "The scheduler's knobs change waits by 20 to 40 % at most.", COURSE, "slices.sweep",
          _knobs_change_little),
    Claim("002-043", "A SCHED_FIFO thread runs at once when it wakes, whatever normal threads do.", COURSE,
          "policies.sweep", _fifo_at_once),
    Claim("002-114", "SCHED_FIFO brings every wake-up below 10 µs.", COURSE, "policies.sweep",
          _fifo_below_10_us),
    Claim("002-044", "FIFO and OTHER can be compared without a look at the timer slack.",
          "done in a web course (002)", "policies.sweep", _slack_matters_not),
    Claim("002-050", "Another policy improves p99 by a factor of two or three at most.", COURSE,
          "policies.sweep", _three_times_at_most),
    Claim("002-053", "No setting of the fair scheduler shortens the tail much.", COURSE, "policies.sweep",
          _no_fair_setting_helps),
    Claim("002-059", "The fair scheduler takes CPU time away from threads that use much of it.", COURSE,
          "policies.sweep", _heavy_loses_cpu),
    Claim("002-082", "A thread that wakes beside hogs fails the preemption test, and so it waits.", COURSE,
          "policies.sweep", _sleeper_fails_the_test),
    Claim("002-124", "FIFO changes who runs when, not how much gets done.", COURSE, "policies.sweep",
          _same_throughput),
    Claim("002-040", "Five nice levels leave a quarter of the CPU: about 10 % for each.", "sched(7)",
          "policies.hog", _nice_5_is_25),
    Claim("002-042", "A SCHED_FIFO thread runs until it blocks or a higher priority arrives.", COURSE,
          "policies.hog", _fifo_until_it_blocks),
    Claim("002-045", "A SCHED_FIFO thread in an endless loop hangs the machine.", COURSE, "policies.hog",
          _fifo_hangs),
    Claim("L31", "Beside a real-time hog the kernel keeps about 5 % of the CPU for everybody else.",
          "sched(7): 950 ms of every second", "policies.hog", _five_percent_left),
    Claim("002-049", "SCHED_DEADLINE cannot be oversubscribed.", COURSE, "policies.admission",
          _no_oversubscription),
    Claim("L41", "Deadline threads may reserve what rt_runtime_us leaves them, and no less.",
          "sched(7) and the SCHED_DEADLINE documentation", "policies.admission", _edge_at_95),
    Claim("002-018", "A woken thread waits although no other CPU is busy.", COURSE, "wakeplace.sweep",
          _waits_beside_idle),
    Claim("002-002", "Workers wait up to 11 ms while there are idle CPUs.", COURSE, "wakeplace.sweep",
          _eleven_ms_beside_idle),
    Claim("002-007", "On a partly loaded machine, wake-up affinity puts threads on the waker's busy CPU.",
          COURSE, "wakeplace.sweep", _affinity_dominates),
    Claim("L30", "A lower sched_migration_cost_ns shortens the tail of wake-ups.", COURSE, "wakeplace.sweep",
          _migration_cost_helps),
    Claim("002-056", "A long wait for a CPU means that the thread was placed wrongly: another CPU was idle.",
          COURSE, "wakeplace.sweep", _long_waits_are_misplaced),
    Claim("002-123-mask", "While some CPU is idle, nobody waits for one.",
          "a common belief, refuted in (002)", "wakeplace.sweep", _idle_cpu_means_no_wait),
    Claim("002-065", "The tick comes a thousand times a second.", COURSE, "ticks.gaps", _tick_at_1000_hz),
    Claim("L26", "What interrupts a lonely thread regularly comes every 1/HZ.",
          "the kernel's configuration, CONFIG_HZ", "ticks.gaps", _tick_is_one_over_hz),
    Claim("002-067", "A tick takes about 80 µs.", COURSE, "ticks.gaps", _tick_takes_80_us),
    Claim("002-069", "The tracepoint irq_handler_entry shows the tick.", COURSE, "ticks.gaps",
          _irq_entry_sees_ticks),
    Claim("L46", "A client that waits for its answers sees the tail that users see.",
          "how many load generators work", "omission.compared", _clients_agree),
    Claim("002-116", "A measurement inside the application misses exactly the scheduler latency.", COURSE,
          "omission.compared", _misses_the_run_delay),
]  # fmt: skip
