"""What people say about threads, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns, size
from sched_labs.claims.helpers import between, holds_or_fails, one_row, some

THREAD_COST_ARTICLE = "an article on the costs of threads"
KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def _default_stacks(table: pd.DataFrame) -> pd.Series:
    found = some(table[table.stack_bytes == 8 * MIB], "This run did not measure stacks of 8 MiB.")
    return found.iloc[0]


def _between(row: pd.Series, what: str) -> str:
    return between(row, what, "bytes_per_thread", size)


def _eighty(table: pd.DataFrame) -> Verdict:
    """Statistic: bytes a thread, by interval, within a tenth.  Control: the process before.  Design:
    stacks of 8 MiB, untouched.  Opponent: a thread that works touches more.
    """
    one = _default_stacks(table)
    reason = (
        f"Each thread: {size(one.vm_bytes_per_thread)} of addresses, "
        f"{size(one.rss_bytes_per_thread)} resident; "
        f"10,000 of them are {one.vm_bytes_per_thread * 10_000 / GIB:.0f} GiB and "
        f"{one.rss_bytes_per_thread * 10_000 / MIB:.0f} MiB; judged within a tenth."
    )
    right = [one.vm_lo_bytes_per_thread >= 7.2 * MIB, one.vm_hi_bytes_per_thread <= 8.8 * MIB,
             one.rss_lo_bytes_per_thread >= 7.2 * KIB, one.rss_hi_bytes_per_thread <= 8.8 * KIB]  # fmt: skip
    wrong = [one.vm_hi_bytes_per_thread < 7.2 * MIB, one.vm_lo_bytes_per_thread > 8.8 * MIB,
             one.rss_hi_bytes_per_thread < 7.2 * KIB, one.rss_lo_bytes_per_thread > 8.8 * KIB]  # fmt: skip
    return holds_or_fails(
        all(right),
        any(wrong),
        reason,
        f"The intervals span a tenth around 8 MiB ({_between(one, 'vm')}) or 8 KiB ({_between(one, 'rss')}):",
    )


def _resident_is_all(table: pd.DataFrame) -> Verdict:
    """Statistic: kernel stack against resident memory a thread.  Control: the process before.
    Design: stacks of 8 MiB, untouched.  Opponent: page tables come on top.
    """
    one = _default_stacks(table)
    kernel = one.kernel_stack_bytes_per_thread
    reason = (
        f"With stacks of {size(one.stack_bytes)}, resident {size(one.rss_bytes_per_thread)} a thread, and "
        f"{size(kernel)} of kernel stack."
    )
    if one.kernel_stack_lo_bytes_per_thread > 0.5 * one.rss_hi_bytes_per_thread:
        return Verdict(FAILS, reason)
    if one.kernel_stack_hi_bytes_per_thread < 0.1 * one.rss_lo_bytes_per_thread:
        return Verdict(HOLDS, reason)
    raise CannotTell(
        f"The kernel's stack ({_between(one, 'kernel_stack')}) is neither surely more than half of the "
        f"resident part ({_between(one, 'rss')}) nor surely less than a tenth: {reason}"
    )


def _touch_commits(table: pd.DataFrame) -> Verdict:
    """Statistic: address space and resident memory, after each step.  Control: what was asked for.
    Design: one large block, above the mmap threshold.  Opponent: small blocks may come from memory that
    is there.
    """
    steps = table.set_index("step")
    if not {1, 9} <= set(steps.index):
        raise CannotTell("This run did not touch all of its memory.")
    (_, at_once), (_, last) = steps.loc[[1, 9]].iterrows()
    asked = at_once.asked_bytes
    reason = (
        f"malloc() of {size(asked)}: address space +{size(at_once.vm_bytes)} at once, resident "
        f"+{size(at_once.rss_bytes)}; after touching all of it resident +{size(last.rss_bytes)}."
    )
    if at_once.vm_bytes < asked:
        raise CannotTell(f"malloc() had this memory already. {reason}")
    if at_once.rss_hi_bytes < 0.1 * asked and last.rss_lo_bytes > 0.9 * asked:
        return Verdict(HOLDS, reason)
    if at_once.rss_lo_bytes > 0.5 * asked or last.rss_hi_bytes < 0.5 * asked:
        return Verdict(FAILS, reason)
    raise CannotTell(
        f"{reason} The intervals of the resident part, {size(at_once.rss_lo_bytes)} to "
        f"{size(at_once.rss_hi_bytes)} and {between(last, 'rss', 'bytes', size)}, are on no "
        "clear side of a tenth, half and nine tenths of it."
    )


def _ten_us(table: pd.DataFrame) -> Verdict:
    """Statistic: time to start and end one, within a factor of two.  Control: a process.  Design: one
    after the other on one CPU.  Opponent: the source speaks of creating alone, which takes less; in
    parallel, or from a pool, it is another number.
    """
    one = one_row(table, what="thread")
    reason = (
        f"{ns(one.ns_each)} to start one and see it end (interval {ns(one.ns_lo_each)} to "
        f"{ns(one.ns_hi_each)}); judged as 10 µs within a factor of two."
    )
    if one.ns_lo_each >= 5_000 and one.ns_hi_each <= 20_000:
        return Verdict(HOLDS, reason)
    if one.ns_hi_each < 5_000 or one.ns_lo_each > 20_000:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval reaches past the factor of two: {reason}")


def _thirty_two_thousand(table: pd.DataFrame) -> Verdict:
    """Statistic: the first limit that binds.  Control: what could be started, where it was hit.  Design:
    this user's limits.  Opponent: a distribution sets them otherwise; memory may be enough
    for more.
    """
    one = table.iloc[0]
    reason = (
        f"The first limit here is {one.binding_limit}, after about {one.binding_threads:,.0f} more threads"
    )
    if one.started_threads == one.started_threads:  # not missing: the limit was hit
        count, reason = one.started_threads, f"{reason}; {one.started_threads:,.0f} could be started."
        return Verdict(HOLDS if 28_000 <= count <= 33_000 else FAILS, reason)
    if one.binding_threads < 25_000 and one.binding_limit.startswith("memory"):
        raise CannotTell(f"{reason}, and a thread may take less.")
    if not 25_000 <= one.binding_threads <= 40_000:
        return Verdict(FAILS, f"{reason}.")
    raise CannotTell(f"{reason}; that fits, and no limit was hit in this run.")


CLAIMS = [
    Claim("003-018", "Ten thousand threads take 80 GiB of address space and 80 MiB of resident memory.",
          THREAD_COST_ARTICLE, "threads.memory", _eighty),
    Claim("RES", "What top shows as resident memory is what the threads cost.",
          "read out of a figure in an article on the costs of threads", "threads.memory", _resident_is_all),
    Claim("003-020", "malloc() changes the address space at once, resident memory only when it is touched.",
          THREAD_COST_ARTICLE, "threads.touch", _touch_commits),
    Claim("003-026", "To create a thread and see it end takes about 10 µs.",
          f"of creating alone, {THREAD_COST_ARTICLE}", "threads.creation", _ten_us),
    Claim("003-022", "A 64-bit machine lets you create about 32,000 threads.", THREAD_COST_ARTICLE,
          "threads.creation", _thirty_two_thousand),
]  # fmt: skip
