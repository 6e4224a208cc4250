"""What people say about packets, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, LATENCY_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import between, count, some
from sched_labs.core.words import number_text

KIND = "packets.udp"
SERVICE_ARTICLE = "an article on a web service with coroutines, quoted in a collection of switch benchmarks"
AT_ONCE = ("single", "mmsg", "segments")
MOST_PACKETS = 100  # for a softirq; with more a thread received them, and next to no softirqs were counted
WORDS = {"paced": "now and then", "single": "one at a call", "mmsg": "many at a call",
         "segments": "one large piece"}  # fmt: skip


def _smallest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the smallest packets."""
    return table[table["size_bytes"] == table["size_bytes"].min()]


def _size(table: pd.DataFrame) -> str:
    return f"packets of {table['size_bytes'].min():,} bytes"


def _need_softirqs(rows: pd.DataFrame) -> None:
    if not (rows["packets_per_softirq"] <= MOST_PACKETS).all():  # missing where a trial has no softirq
        raise CannotTell("Next to no softirqs were counted: a thread of the kernel received the packets.")


def _way(table: pd.DataFrame, way: str) -> pd.Series:
    """The smallest packets sent in one way.  CannotTell where this run has none."""
    small = _smallest(table)
    found = some(small[small["way"] == way], f"This run did not measure {way!r}.")
    return found.iloc[0]


def _one_price(table: pd.DataFrame) -> Verdict:
    """Statistic: sender's CPU time a softirq, by interval; to fail, what /proc/stat calls softirq of the
    dearest, for system calls are in it, and those of a large piece copy more.  Control: ways to send the same
    packets.  Design: some softirqs have several packets.  Opponent: the receiver's part is not in it.
    """
    small = _smallest(table)
    small = small[small["way"].isin(AT_ONCE)]
    if len(small) < 2 or small["ns_per_softirq"].isna().any():
        raise CannotTell("This machine does not tell how many softirqs it ran, or ran none.")
    _need_softirqs(small)
    if (small["charged_share"] < 1 - small["softirq_share"] / 2).any():
        raise CannotTell(
            f"The sender was charged {small['charged_share'].min():.0%} of the time in which it had its CPU: "
            "softirqs may be left out."
        )
    cheap = small.sort_values("ns_per_softirq").iloc[0]
    dear = small.sort_values("ns_per_softirq").iloc[-1]
    reason = (
        f"The sender's CPU time for {_size(small)}, system calls included, divided by softirqs: "
        f"{ns(cheap['ns_per_softirq'])}, {WORDS[cheap['way']]}, and {ns(dear['ns_per_softirq'])}, "
        f"{WORDS[dear['way']]} ({dear['packets_per_softirq']:.1f} packets for each softirq, and "
        f"at ticks /proc/stat calls {number_text(100 * dear['softirq_share'], 2)} % of its CPU's busy "
        "time softirq)."
    )
    if dear["ns_lo_per_softirq"] > 2 * cheap["ns_hi_per_softirq"]:
        if not dear["softirq_share"] * dear["ns_lo_per_softirq"] > 2 * cheap["ns_hi_per_softirq"]:
            raise CannotTell(f"The difference may be that of the system calls: {reason}")
        return Verdict(FAILS, reason)
    if dear["ns_hi_per_softirq"] < 1.5 * cheap["ns_lo_per_softirq"]:
        if small["packets_per_softirq"].max() < 2:
            raise CannotTell(f"No softirq had several packets, so each had the same to do. {reason}")
        return Verdict(HOLDS, reason)
    ends = [between(row, "ns", "per_softirq") for row in (cheap, dear)]
    raise CannotTell(f"The limits are 1.5 and 2 times, and the intervals {' and '.join(ends)}: {reason}")


def _rare_is_cheap(table: pd.DataFrame) -> Verdict:
    """Statistic: sender's CPU time a packet, by interval.  Control: the same packets as fast as they go.
    Design: paced by a timer.  Opponent: a paced sender also pays for sleeping.
    """
    paced, single = _way(table, "paced"), _way(table, "single")
    reason = (
        f"{_size(table)} cost the sender {ns(paced['sender_ns_per_packet'])} for each of "
        f"{paced['packets_per_s']:,.0f} a second, "
        f"{ns(single['sender_ns_per_packet'])} for each of {single['packets_per_s']:,.0f}. "
        "A sleep of the sender is in the price of the rare ones."
    )
    if single["packets_per_s"] < 1.5 * paced["packets_per_s"]:
        raise CannotTell(f"The rates hardly differ: {reason}")
    if paced["sender_hi_ns_per_packet"] < single["sender_lo_ns_per_packet"]:
        return Verdict(HOLDS, reason)
    if paced["sender_lo_ns_per_packet"] > single["sender_hi_ns_per_packet"]:
        return Verdict(FAILS, reason)
    ends = [between(row, "sender", "ns_per_packet") for row in (paced, single)]
    raise CannotTell(f"The intervals {' and '.join(ends)} overlap: {reason}")


def _wakes_ksoftirqd(table: pd.DataFrame) -> Verdict:
    """Statistic: switches of ksoftirqd for each softirq.  Control: both counted.  Design: loopback, where
    the sender runs it.  Opponent: a flood from a device hands more over.
    """
    busy = table[table["way"].isin(AT_ONCE)]
    if busy.empty or busy["ksoftirqd_per_softirq"].isna().any():
        raise CannotTell("ksoftirqd is not seen from here, or softirqs are not counted.")
    _need_softirqs(busy)
    most, least = busy["ksoftirqd_per_softirq"].max(), busy["ksoftirqd_per_softirq"].min()
    times = number_text(most, 2)
    reason = (
        f"where packets were sent without a pause, ksoftirqd was switched {times} times for each softirq "
        "that received them (median of the trials, in the way and size with the most)."
    )
    if most < 0.1:
        return Verdict(FAILS, reason)
    if least > 0.5:
        return Verdict(HOLDS, f"{reason} With the fewest it was {number_text(least, 2)} times.")
    raise CannotTell(
        f"The limits are 0.1 for the most and 0.5 for the fewest, which is {number_text(least, 2)}: {reason}"
    )


def _by_a_worker(table: pd.DataFrame) -> Verdict:
    """Statistic: packets for each softirq, by interval.  Control: switches of ksoftirqd, a thread that would
    be counted as softirqs as well.  Design: loopback.  Opponent: threaded NAPI is a thread.
    """
    row = _way(table, "single")
    if pd.isna(row["packets_per_softirq"]):
        raise CannotTell("This machine does not tell how many softirqs it ran, or ran none.")
    reason = (
        f"One at a call over loopback, {_size(table)}: a softirq (NET_RX) for each "
        f"{row['packets_per_softirq']:.2f} packets."
    )
    if row["packets_hi_per_softirq"] < 2:
        if not row["ksoftirqd_per_softirq"] < 0.1:
            raise CannotTell(f"It may have been ksoftirqd, a thread, that did the softirqs. {reason}")
        times = number_text(row["ksoftirqd_per_softirq"], 2)
        return Verdict(
            FAILS, f"A softirq received them, with {times} switches to ksoftirqd for each softirq. {reason}"
        )
    if row["packets_lo_per_softirq"] > MOST_PACKETS:
        return Verdict(HOLDS, reason)
    ends = between(row, "packets", "per_softirq", count)
    raise CannotTell(
        f"Less than 2 are a softirq's, more than {MOST_PACKETS} a thread's (interval {ends}): {reason}"
    )


CLAIMS = [
    Claim("004-030",
          "Divide softirq time by the number of interrupts, and you have what an interrupt costs.",
          SERVICE_ARTICLE, KIND, _one_price),
    Claim("004-031",
          "The fewer packets come, the less each of them costs: 5.7 µs at 21,000 a second, 2 µs at 11,000.",
          SERVICE_ARTICLE, KIND, _rare_is_cheap),
    Claim("004-001", "Softirqs are done by ksoftirqd, so each of them is a kind of process switch.",
          SERVICE_ARTICLE, KIND, _wakes_ksoftirqd),
    Claim("002-005", "When a packet arrives, a worker thread of the kernel hands it over to the program.",
          LATENCY_COURSE, KIND, _by_a_worker),
]  # fmt: skip
