"""What people say about interference, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.base import CannotTell, Claim, Verdict
from sched_labs.claims.helpers import holds_or_fails
from sched_labs.core.words import number_text

Taken = tuple[float, float, float]  # of each second, in ms: in the middle, least, most


def _interference(table: pd.DataFrame, nice: int, *parts: str) -> Taken:
    """What these parts took of each second beside a sender of packets, in ms: in the middle, least, most."""
    rows = table[(table["neighbour"] == "packets") & (table["nice"] == nice)]
    if rows.empty:
        raise CannotTell(f"This run has no sender of packets beside a program with nice {nice}.")
    if not rows["attributed"].all():
        raise CannotTell("Without the BPF probe nobody knows what had the CPU meanwhile.")
    return _sum(rows, *parts)


def _sum(rows: pd.DataFrame, *parts: str) -> Taken:
    found = rows[rows["part"].isin(parts)][["ms_per_s", "ms_per_s_lo", "ms_per_s_hi"]].sum()
    return float(found["ms_per_s"]), float(found["ms_per_s_lo"]), float(found["ms_per_s_hi"])


def _beyond(taken: Taken, table: pd.DataFrame, nice: int, *parts: str) -> Taken:
    """What of `taken` is not there with nobody beside the program: the tick and the like are."""
    alone = table[(table["neighbour"] == "nobody") & (table["nice"] == nice)]
    middle, least, most = _sum(alone, *parts)
    return taken[0] - middle, taken[1] - most, taken[2] - least


def _each(taken: Taken, row: pd.Series) -> Taken:
    """What one softirq took, in µs; the ends are the widest that both intervals allow."""
    ends = [1e3 * ms / row[f"softirqs_{end}_per_s"] for ms in taken[1:] for end in ("lo", "hi")]
    return 1e3 * taken[0] / row.softirqs_per_s, min(ends), max(ends)


def _less(table: pd.DataFrame) -> str:
    return "less what there is with nobody, " if (table["neighbour"] == "nobody").any() else ""


def _between(least: float, most: float) -> str:
    return f"{number_text(least, 2)} to {number_text(most, 2)}"


def _packets_by_kworkers(table: pd.DataFrame) -> Verdict:
    """Statistic: ms of each second, interrupts against kernel threads.  Control: nobody beside it.
    Design: loopback, whose softirq runs in the sender's system call.  Opponent: threaded NAPI and
    PREEMPT_RT move it into threads.
    """
    own, others = ("interrupt", "over_it"), ("kernel_thread",)
    interrupts, least, most = _beyond(_interference(table, 0, *own), table, 0, *own)
    threads, fewest, highest = _beyond(_interference(table, 0, *others), table, 0, *others)
    reason = (
        f"{_less(table)}beside a sender of packets softirqs and interrupts took "
        f"{number_text(interrupts, 2)} ms of each second with nice 0 (interval {_between(least, most)}), "
        f"kernel threads {number_text(threads, 2)} ms ({_between(fewest, highest)})."
    )
    return holds_or_fails(fewest > most, least > highest, reason, "The intervals overlap:")


def _nice_keeps_softirqs_away(table: pd.DataFrame) -> Verdict:
    """Statistic: time for each softirq, nice -10 against 0.  Control: what interrupts it with no neighbour.
    Design: the sender shares the CPU, so that a better nice value leaves it less time to send: fewer packets
    are no finding, hence "each".  Opponent: threaded NAPI and PREEMPT_RT make them threads, which a nice
    value reaches.
    """
    plain, least, most = _interference(table, 0, "interrupt", "over_it")
    better, low, high = _interference(table, -10, "interrupt", "over_it")
    reason = (
        f"interruptions took {number_text(plain, 2)} ms of each second with nice 0 (interval "
        f"{_between(least, most)}), {number_text(better, 2)} ms with nice -10 ({_between(low, high)})"
    )
    if most < 1:
        raise CannotTell(f"There was hardly any of it: {reason}.")
    counts = table[table["neighbour"] == "packets"]
    before, after = (counts[counts["nice"] == nice].iloc[0] for nice in (0, -10))
    if not (before.softirqs_lo_per_s > 0 and after.softirqs_lo_per_s > 0):
        raise CannotTell(f"The softirqs were not counted, or in one trial: {reason}.")
    plain, least, most = _each(_beyond((plain, least, most), table, 0, "interrupt", "over_it"), before)
    better, low, high = _each(_beyond((better, low, high), table, -10, "interrupt", "over_it"), after)
    reason += (
        f", for {before.softirqs_per_s:,.0f} and {after.softirqs_per_s:,.0f} softirqs a second: "
        f"{_less(table)}{number_text(plain, 2)} ({_between(least, most)}) and {number_text(better, 2)} µs "
        f"each ({_between(low, high)})."
    )
    return holds_or_fails(
        high < 0.5 * least, low > 0.5 * max(0.0, most), reason, "The intervals allow either:"
    )


CLAIMS = [
    Claim("L27", "What the kernel does for network packets is done by kernel threads (kworkers).",
          COURSE, "interference.neighbours", _packets_by_kworkers),
    Claim("002-062", "A better nice value at least halves what the kernel's work for each packet takes from "
          "a program.", COURSE, "interference.neighbours", _nice_keeps_softirqs_away),
]  # fmt: skip
