"""Claims about what keeps a thread waiting for a CPU, and about the instruments that tell."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..figures.axes import number_text
from .base import FAILS, HOLDS, ONE_VM, WEB_COURSE, CannotTell, Claim, Verdict, ns

KIND = "attribution.waits"
COURSE = "a web course on scheduler latency (002), no reference given"
FEWEST_WAITS = 30


def _of(table: pd.DataFrame, condition: str) -> pd.DataFrame:
    """The rows of a condition whose waits are attributed, by occupant."""
    rows = table[table["condition"] == condition]
    if rows.empty:
        raise CannotTell(f"This run has no condition {condition.replace('_', ' ')!r}.")
    if not rows["attributed"].all():
        raise CannotTell("Without the BPF probe nobody knows what had the CPU meanwhile.")
    if rows["waits"].iloc[0] < FEWEST_WAITS:
        raise CannotTell(f"{int(rows['waits'].iloc[0])} waits are too few.")
    return rows.set_index("occupied_by")


def _half(low: float, high: float, reason: str) -> Verdict:
    """Holds above a half, fails below it."""
    if low > 0.5:
        return Verdict(HOLDS, reason)
    if high < 0.5:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a half: {reason}")


def _threads_in_the_way(table: pd.DataFrame) -> Verdict:
    rows = _of(table, "alone")
    other = rows.loc[["idle", "interrupt"]]
    # The two parts share their trials, so the sum of their intervals is wider than the interval of their sum.
    low, high = (
        1 - min(1.0, other["share_hi"].to_numpy(float).sum()),
        1 - max(0.0, other["share_lo"].to_numpy(float).sum()),
    )
    reason = (
        f"alone on its CPU the program waited {ns(rows['wait_mean_ns'].iloc[0])} on average, "
        f"{rows['share']['idle']:.0%} of it while the CPU was idle and {rows['share']['interrupt']:.0%} "
        "during interrupts."
    )
    return _half(low, high, reason)


def _kernel_workers(table: pd.DataFrame) -> Verdict:
    row: Any = _of(table, "rival").loc["kernel_thread"]
    reason = (
        f"kernel threads had the CPU during {row.share:.1%} of the waiting time "
        f"(interval {row.share_lo:.1%} to {row.share_hi:.1%})."
    )
    return _half(float(row.share_lo), float(row.share_hi), reason)


def _observer(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    rows = table[table["observer"] == name]
    if rows.empty:
        raise CannotTell(f"This run has no {name}.")
    return rows.iloc[0]


def _below_one_percent(table: pd.DataFrame) -> Verdict:
    row = _observer(table, "runqlat")
    reason = (
        f"runqlat made a switch take {row['ratio']:.2f} times as long (interval {row['ratio_lo']:.2f} to "
        f"{row['ratio_hi']:.2f}) for a program that only switches."
    )
    if row["ratio_hi"] < 1.01:
        return Verdict(HOLDS, reason)
    if row["ratio_lo"] > 1.01:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans 1 %: {reason}")


def _recording_is_dearer(table: pd.DataFrame) -> Verdict:
    perf, count = _observer(table, "perf"), _observer(table, "runqlat")
    reason = (
        f"perf sched record adds {ns(perf['added_ns'])} to a switch (interval {ns(perf['added_lo_ns'])} to "
        f"{ns(perf['added_hi_ns'])}), runqlat {ns(count['added_ns'])} (interval "
        f"{ns(count['added_lo_ns'])} to {ns(count['added_hi_ns'])})."
    )
    if perf["added_lo_ns"] > count["added_hi_ns"]:
        return Verdict(HOLDS, reason)
    if perf["added_hi_ns"] < count["added_lo_ns"]:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _slower(row: pd.Series) -> str:
    if row["slower_lo_percent"] <= 0:
        return "not measurably slower"
    return f"{row['slower_percent']:.1f} % slower"


def _cost_is_the_tools_alone(table: pd.DataFrame) -> Verdict:
    rows = table[table["observer"] == "runqlat"].sort_values("switches_per_s")
    if len(rows) < 2:
        raise CannotTell("This run has runqlat at fewer than two rates.")
    seldom, often = rows.iloc[0], rows.iloc[-1]
    if often["switches_per_s"] < 5 * seldom["switches_per_s"]:
        raise CannotTell("The rates of this run are too much alike.")
    reason = (
        f"runqlat made two threads {_slower(seldom)} at {seldom['switches_per_s']:,.0f} switches a second "
        f"(interval {seldom['slower_lo_percent']:.1f} to {seldom['slower_hi_percent']:.1f} %), "
        f"{_slower(often)} at {often['switches_per_s']:,.0f} ({often['slower_lo_percent']:.1f} to "
        f"{often['slower_hi_percent']:.1f} %)."
    )
    if often["slower_lo_percent"] > seldom["slower_hi_percent"]:
        return Verdict(FAILS, reason)
    if often["slower_hi_percent"] <= max(1.0, seldom["slower_hi_percent"]):
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _seen_by_schedstat(table: pd.DataFrame, condition: str) -> tuple[float, float, str]:
    """Schedstat's mean wait by BPF's: least, most, and a sentence."""
    rows = table[table["condition"] == condition].set_index("instrument")
    if not {"bpf", "schedstat"} <= set(rows.index):
        raise CannotTell("This run lacks BPF or schedstat.")
    theirs: Any = rows.loc["schedstat"]
    ours: Any = rows.loc["bpf"]
    reason = (
        f"schedstat says {ns(theirs.mean_ns)} a wait (interval {ns(theirs.mean_lo_ns)} to "
        f"{ns(theirs.mean_hi_ns)}), BPF {ns(ours.mean_ns)} ({ns(ours.mean_lo_ns)} to {ns(ours.mean_hi_ns)})."
    )
    if not ours.mean_lo_ns > 0:
        raise CannotTell(f"The interval bounds nothing: {reason}")
    return float(theirs.mean_lo_ns / ours.mean_hi_ns), float(theirs.mean_hi_ns / ours.mean_lo_ns), reason


def _only_bpf(table: pd.DataFrame) -> Verdict:
    least, most, reason = _seen_by_schedstat(table, "queue")
    if least >= 0.75 and most <= 1.33:
        return Verdict(FAILS, f"of waits in a queue {reason}")
    if most < 0.75 or least > 1.33:
        return Verdict(HOLDS, f"of waits in a queue {reason}")
    raise CannotTell(f"The intervals are too wide: {reason}")


def _misses_short_waits(table: pd.DataFrame) -> Verdict:
    least, most, reason = _seen_by_schedstat(table, "idle")
    return _half(1 - most, 1 - least, reason)


def _never_switched_out(table: pd.DataFrame) -> Verdict:
    hogs = table[table["thread"].str.startswith("hog")]
    left, preempted = int(hogs["left"].sum()), int(hogs["preempted"].sum())
    if hogs.empty:
        raise CannotTell("This run had no thread that never sleeps.")
    reason = (
        f"threads that never sleep left their CPU {left} times, {preempted} times although they could go on."
    )
    if 0 < left < 10:
        raise CannotTell(f"Too few: {reason}")
    return Verdict(FAILS if left else HOLDS, reason)


def _state_2_is_runnable(table: pd.DataFrame) -> Verdict:
    hogs = table[table["role"].isin(["hog", "rival"])]
    runnable, deep = (
        float(hogs.loc[hogs["state"] == state, "off_cpu_ns"].sum())
        for state in ("runnable", "uninterruptible")
    )
    parent = table[(table["role"] == "parent") & (table["state"] == "uninterruptible")]["off_cpu_ns"].sum()
    reason = (
        f"two threads that only waited for a CPU did so for {runnable / 1e9:.2f} s in state 0 and for "
        f"{deep / 1e9:.2f} s in state 2, in which another waited {parent / 1e9:.2f} s for a process."
    )
    if max(runnable, deep) < 1e6:
        raise CannotTell(f"They hardly waited: {reason}")
    share = deep / (runnable + deep)
    return _half(share, share, reason)


def _interference(table: pd.DataFrame, nice: int, *parts: str) -> tuple[float, float, float]:
    """What these parts took of each second beside a sender of packets, in ms: in the middle, least, most."""
    rows = table[(table["neighbour"] == "packets") & (table["nice"] == nice)]
    if rows.empty:
        raise CannotTell(f"This run has no sender of packets beside a program with nice {nice}.")
    if not rows["attributed"].all():
        raise CannotTell("Without the BPF probe nobody knows what had the CPU meanwhile.")
    found = rows[rows["part"].isin(parts)][["ms_per_s", "ms_per_s_lo", "ms_per_s_hi"]].sum()
    return float(found["ms_per_s"]), float(found["ms_per_s_lo"]), float(found["ms_per_s_hi"])


def _between(least: float, most: float) -> str:
    return f"{number_text(least, 2)} to {number_text(most, 2)}"


def _packets_by_kworkers(table: pd.DataFrame) -> Verdict:
    interrupts, least, most = _interference(table, 0, "interrupt", "over_it")
    threads, fewest, highest = _interference(table, 0, "kernel_thread")
    reason = (
        f"beside a sender of packets softirqs and interrupts took {number_text(interrupts, 2)} ms of each "
        f"second (interval {_between(least, most)}), kernel threads {number_text(threads, 2)} ms "
        f"({_between(fewest, highest)})."
    )
    if least > highest:
        return Verdict(FAILS, reason)
    if fewest > most:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap: {reason}")


def _nice_keeps_softirqs_away(table: pd.DataFrame) -> Verdict:
    plain, least, most = _interference(table, 0, "interrupt", "over_it")
    better, low, high = _interference(table, -10, "interrupt", "over_it")
    reason = (
        f"softirqs and interrupts took {number_text(plain, 2)} ms of each second with nice 0 (interval "
        f"{_between(least, most)}), {number_text(better, 2)} ms with nice -10 ({_between(low, high)})."
    )
    if most < 1:
        raise CannotTell(f"There was hardly any of it: {reason}")
    if low > 0.5 * most:
        return Verdict(FAILS, reason)
    if high < 0.5 * least:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals allow either: {reason}")


CLAIMS = [
    Claim("002-020", "Scheduler latency is time during which other threads have the CPU.", COURSE, KIND,
          _threads_in_the_way),
    Claim("002-061", "Kernel threads of the same priority are what a loaded program waits for.", COURSE, KIND,
          _kernel_workers),
    Claim("002-036", "runqlat costs less than one per cent.", COURSE, "observer.cost", _below_one_percent),
    Claim("000-108", "Recording every switch with perf sched costs more than counting waits in the kernel.",
          WEB_COURSE, "observer.cost", _recording_is_dearer),
    Claim("L27", "What the kernel does for network packets is done by kernel threads (kworkers).",
          COURSE, "interference.neighbours", _packets_by_kworkers),
    Claim("002-062", "A better nice value keeps the kernel's work for packets away from a program.", COURSE,
          "interference.neighbours", _nice_keeps_softirqs_away),
    Claim("L24", "What runqlat costs is so and so many per cent, whatever the program does.",
          "how the cost of tracing is often told", "observer.rates", _cost_is_the_tools_alone),
    Claim("L21", "A thread that never sleeps is never switched out.", "a common belief", "switchgraph.window",
          _never_switched_out),
    Claim("L23", "offcputime --state 2 selects the threads that wait for a CPU.", COURSE,
          "offcpu.stacks", _state_2_is_runnable),
    Claim("002-118", "Scheduler latency can be measured with eBPF only.", COURSE, "instruments.compared",
          _only_bpf),
    Claim("L47", "The kernel's own run delay (schedstat) misses most of a wake-up on an idle CPU.", ONE_VM,
          "instruments.compared", _misses_short_waits),
]  # fmt: skip
