"""What people say about ring, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns, size, yes
from sched_labs.claims.helpers import at_most, ends, some

KIND = "ring.sweep"
TOLERANCE = 0.02
# A second ring that changes the number by less than this may be said not to matter.
HARDLY = 1.2


def _crowded(table: pd.DataFrame) -> Verdict:
    """Statistic: time a hop, one ring against two, by interval and floor.  Control: one ring.
    Design: 64 KiB, as the source measured it.  Opponent: on idle CPUs two rings need not share one.
    """
    part = table[(table.access == "sequential") & (table.size_bytes == 64 * 1024)]
    both = part[part.rings == 1].merge(part[part.rings == 2], on="processes", suffixes=("", "_crowded"))
    if both.empty:
        raise CannotTell("This run has no second ring at 64 KiB.")
    row = both.iloc[0]
    if not row.net_lo_ns > 0:
        raise CannotTell(f"One ring's interval starts at {ns(row.net_lo_ns)}: it bounds no ratio.")
    text = (
        f"a hop beyond its work, of {row.processes} processes with 64 KiB: {ns(row.net_ns)} with one ring, "
        f"{ns(row.net_ns_crowded)} with two: "
        f"{row.net_ns_crowded / row.net_ns:.1f} times."
    )
    if row.seen and at_most(row, "net", "ns", "_crowded") <= HARDLY * row.net_lo_ns:
        return Verdict(HOLDS, text)
    if row.net_lo_ns_crowded > HARDLY * at_most(row, "net", "ns"):
        return Verdict(FAILS, text)
    both_ends = f"{ends(row, 'net')} and {ends(row, 'net', '_crowded')}"
    raise CannotTell(f"The intervals, {both_ends}, span {HARDLY} times: {text}")


def _one_switch_a_hop(table: pd.DataFrame) -> Verdict:
    """Statistic: counted switches a hop, every size.  Control: the kernel's count.  Design: one ring on
    one CPU, with memory to touch.  Opponent: without memory a hop may be shorter than a wake-up.
    """
    rows = table[(table.rings == 1) & (table.access == "sequential") & (table.size_bytes > 0)]
    if rows.empty:
        raise CannotTell("This run has no ring whose processes sum their memory.")
    counts = rows.switches_per_hop
    low, high = f"{counts.min():.2f}", f"{counts.max():.2f}"
    counted = f"{low} switches at every size" if low == high else f"between {low} and {high} switches"
    return yes(
        bool((abs(counts - 1) <= TOLERANCE).all()), f"counted a hop, with memory, in order: {counted}."
    )


def _sum_shows_it(table: pd.DataFrame) -> Verdict:
    """Statistic: what memory adds to a hop, summed in order against walked at random.  Control: a ring of as
    many processes without memory, whose switches are in every hop.  Design: the size with the largest loss.
    Opponent: a prefetcher differs by processor.
    """
    one = table[table.rings == 1]
    part, bare = one[one.size_bytes > 0], one[one.size_bytes == 0].drop_duplicates("processes")
    both = (
        part[part.access == "random"]
        .merge(part[part.access == "sequential"], on=["processes", "size_bytes"], suffixes=("", "_sum"))
        .merge(bare, on="processes", suffixes=("", "_bare"))
    )
    both = some(
        both[both.net_lo_ns - both.net_hi_ns_bare > both.floor_ns],
        "This run has no random walk, beside a sum, that costs clearly more than a hop without memory.",
    )
    row = both.sort_values("net_ns").iloc[-1]
    text = (
        f"{row.processes} processes with {size(row.size_bytes)}: {ns(row.net_ns - row.net_ns_bare)} more "
        f"than without memory in random order, {ns(row.net_ns_sum - row.net_ns_bare)} as a sum."
    )
    walk_lo, walk_hi = row.net_lo_ns - row.net_hi_ns_bare, row.net_hi_ns - row.net_lo_ns_bare
    sum_lo = row.net_lo_ns_sum - row.net_hi_ns_bare
    sum_hi = max(row.net_hi_ns_sum - row.net_lo_ns_bare, row.floor_ns_sum)
    if sum_lo >= max(0.5 * walk_hi, row.floor_ns_sum):
        return Verdict(HOLDS, text)
    if sum_hi < 0.5 * walk_lo:
        return Verdict(FAILS, text)
    both_ends = f"{ns(walk_lo)} to {ns(walk_hi)} and {ns(sum_lo)} to {ns(sum_hi)}"
    raise CannotTell(f"The intervals, {both_ends}, or the noise span one half: {text}")


CLAIMS = [
    Claim("004-032", "What lat_ctx reports is a switch's cost, also when two rings share the CPU (-P 2).",
          "a reading of lat_ctx's numbers, in a collection of switch benchmarks", KIND, _crowded),
    Claim("lat_ctx-hop", "One hop of lat_ctx's ring is one context switch.", "assumed by lmbench's lat_ctx",
          KIND, _one_switch_a_hop),
    Claim("lat_ctx-sum", "lat_ctx's sum shows what a switch does to the processes' caches (at least half).",
          "the method of lmbench's lat_ctx", KIND, _sum_shows_it),
]  # fmt: skip
