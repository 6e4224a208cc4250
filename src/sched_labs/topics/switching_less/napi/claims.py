"""What people say about packets and whom they cost, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, count, holds_or_fails, one_row, tail_ratio, within

from .experiment import TOLD_NS

LATER = 2.0  # times: more than what a switch to one more thread adds
THREADS = {"thread": "an ordinary thread", "fifo": "a SCHED_FIFO thread"}


def _row(table: pd.DataFrame, way: str, *, hog: bool = True) -> pd.Series:
    beside = "beside a hog" if hog else "without a hog"
    return one_row(table, f"packets received in the way {way!r}, {beside}", way=way, hog=hog)


def _charged(row: pd.Series) -> str:
    if math.isnan(row.hog_hi_ns_per_packet):
        return f"at least {ns(row.hog_lo_ns_per_packet)} for each packet"
    shown = "no CPU time that this run shows" if row.hog_lo_ns_per_packet <= 0 else ns(row.hog_ns_per_packet)
    return f"{shown} for each packet (interval {between(row, 'hog', 'ns_per_packet')})"


def _need_a_charge(row: pd.Series, received: str) -> None:
    """CannotTell where the hog was charged less than nothing: then the blocks differ by something else."""
    if math.isnan(row.hog_lo_ns_per_packet):
        raise CannotTell(
            "What a piece of the hog's work takes without packets is not known: it got none done, or shared "
            "a core with the sender."
        )
    if math.isnan(row.hog_hi_ns_per_packet):
        raise CannotTell(
            "The hog's work took less CPU time with packets received in the sender's call, none of them on "
            "the hog's CPU, than without packets: what it was charged has no upper limit in this run."
        )
    if row.hog_hi_ns_per_packet < -TOLD_NS:
        raise CannotTell(
            f"The hog's work took less CPU time with packets received {received} than without packets "
            f"(interval {between(row, 'hog', 'ns_per_packet')} for each): what made it so may hide a charge."
        )


def _only_its_own(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time that a hog is charged for each packet and does no work with, by interval.  Control:
    the same start of the hog without packets.  Design: a program that only computes, on the CPU that is
    interrupted.  Opponent: a kernel that keeps interrupts apart (IRQ_TIME_ACCOUNTING) charges nobody; a hog
    that uses memory would also lose what it had in its caches.
    """
    row = _row(table, "interrupt")
    if not row.hog_lo_ns_per_packet > TOLD_NS:  # what is surely charged needs no upper limit
        _need_a_charge(row, "by interrupt")
    reason = (
        f"for another program's packets one without packets was charged {_charged(row)}. "
        f"Up to {ns(TOLD_NS)} counts as none."
    )
    most = float("inf") if math.isnan(row.hog_hi_ns_per_packet) else row.hog_hi_ns_per_packet
    return within(row.hog_lo_ns_per_packet, most, -float("inf"), TOLD_NS, reason)


def _paid_by_itself(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time that a hog is charged for each packet and does no work with, by interval.  Control:
    softirqs by interrupt, on the same CPU.  Design: the kernel's thread on the hog's CPU.  Opponent: where a
    softirq charges nobody either there is nothing to mend.
    """
    row, interrupt = _row(table, "thread"), _row(table, "interrupt")
    if math.isnan(row.hog_hi_ns_per_packet):
        _need_a_charge(row, "by a thread")
    if not interrupt.hog_lo_ns_per_packet > TOLD_NS:
        free = -TOLD_NS <= interrupt.hog_hi_ns_per_packet <= TOLD_NS
        why = "Nor does it pay by interrupt" if free else "Whether it pays by interrupt is open"
        raise CannotTell(f"{why}: {_charged(interrupt)}.")
    _need_a_charge(row, "by a thread")
    most = interrupt.hog_lo_ns_per_packet / 2
    reason = (
        f"the hog was charged {_charged(row)} where a thread received it, {_charged(interrupt)} by "
        f"interrupt; the thread used {ns(row.thread_ns_per_packet)} of its own. Up to {ns(most)}, half of "
        "what is sure by interrupt, counts as none."
    )
    return within(row.hog_lo_ns_per_packet, row.hog_hi_ns_per_packet, -float("inf"), most, reason)


def _tail(table: pd.DataFrame, way: str) -> tuple[float, float, str]:
    """How many times the p99 by interrupt that of a way is, beside a hog: least, most, and in words."""
    row, interrupt = _row(table, way), _row(table, "interrupt")
    if math.isnan(interrupt.p99_ns):
        raise CannotTell("By interrupt a trial lost so many packets that it has no p99.")
    reason = (
        f"beside a hog p99 was {ns(row.p99_ns)} ({between(row, 'p99', 'ns')}) with {THREADS[way]}, and "
        f"{ns(interrupt.p99_ns)} ({between(interrupt, 'p99', 'ns')}) by interrupt."
    )
    if row.received_share < 0.99:
        reason = f"beside a hog {1 - row.received_share:.0%} of the packets were lost with {THREADS[way]}."
        return float("inf"), float("inf"), reason
    if math.isnan(row.p99_ns):
        raise CannotTell("A trial lost so many packets that it has no p99.")
    return *tail_ratio(row, interrupt), reason


def _times(least: float, most: float) -> str:
    return f"{count(least)} to {count(most)} times"


def _steadier(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 from sending to receiving, by interval; packets that are lost count as the latest.
    Control: softirqs by interrupt, beside the same hog.  Design: a real-time receiver, which waits for no
    hog itself.  Opponent: on CPUs that have nothing else to do the thread need not wait.
    """
    least, most, reason = _tail(table, "thread")
    unclear = f"The intervals overlap ({_times(least, most)}):"
    return holds_or_fails(most < 1, least > 1, reason, unclear)


def _priority_mends_it(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 from sending to receiving, by interval.  Control: softirqs by interrupt, beside the same
    hog.  Design: the kernel's thread above the receiver.  Opponent: where an ordinary thread is as quick as
    an interrupt there was nothing to mend.
    """
    ordinary, at_most, _ = _tail(table, "thread")
    if ordinary < LATER:
        why = "There was nothing to mend" if at_most < LATER else "Whether there was anything to mend is open"
        raise CannotTell(
            f"{why}: beside a hog p99 with an ordinary thread is {_times(ordinary, at_most)} that by "
            f"interrupt, the limit is {LATER:g}."
        )
    least, most, reason = _tail(table, "fifo")
    reason += f" Less than {LATER:g} times as long counts as the same."
    unclear = f"The interval spans twice ({_times(least, most)}):"
    return holds_or_fails(most < LATER, least > LATER, reason, unclear)


KIND = "napi.threaded"
BELIEF = "a common belief"
CLAIMS = [
    Claim("napi-own", "A program that has no packets is charged no CPU time for packets.", BELIEF, KIND,
          _only_its_own),
    Claim("napi-pays", "Received by a thread of the kernel, packets are paid for by that thread, and by no "
          "program that computes beside it.", BELIEF, KIND, _paid_by_itself),
    Claim("napi-steadier", "Threaded NAPI makes the tail of packets' latency shorter on a busy CPU.", BELIEF,
          KIND, _steadier),
    Claim("napi-fifo", "A real-time priority gives the kernel's thread the latency that softirqs had.",
          BELIEF, KIND, _priority_mends_it),
]  # fmt: skip
