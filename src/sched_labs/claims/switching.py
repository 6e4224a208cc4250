"""Claims about switching less: locks, coroutines, event loops, batches, timers and threads."""

from __future__ import annotations

import pandas as pd

from .. import switches
from ..figures.axes import number_text
from .base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, size

QUEUE_ARTICLE = "an article on a slow blocking queue (001)"
COROUTINE_ARTICLE = "an article on a web service with coroutines (004)"
THREAD_COST_ARTICLE = "an article on the costs of threads (003)"
FEW = 0.1  # switches for each item: nothing that happens at every item


def _row(table: pd.DataFrame, column: str, name: str) -> pd.Series:
    """The row that a column names.  CannotTell where this run did not measure it."""
    found = table[table[column] == name]
    if found.empty:
        raise CannotTell(f"This run did not measure {name!r}.")
    return found.iloc[0]


def _count(value: float) -> str:
    return number_text(value, 2) if value < 100 else f"{value:,.0f}"


# ---- locks ----


def _switches_of(lock: pd.Series) -> str:
    return f"{lock.lock} {_count(lock.switches_per_item)} switches an item"


def _race_makes_switches(table: pd.DataFrame) -> Verdict:
    fifo, mutex = _row(table, "lock", "fifo"), _row(table, "lock", "mutex")
    reason = f"With as many producers: {_switches_of(fifo)}, {_switches_of(mutex)}."
    if fifo.switches_lo_per_item < FEW:
        raise CannotTell(f"There was no convoy in this run. {reason}")
    if mutex.switches_hi_per_item < FEW:
        return Verdict(FAILS, reason)
    if mutex.switches_lo_per_item > fifo.switches_lo_per_item / 2:
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _release_switches(table: pd.DataFrame) -> Verdict:
    locks = table[table["lock"].isin(["fifo", "mutex", "adaptive"])]
    if locks.empty:
        raise CannotTell("This run measured no lock that blocks.")
    reason = f"{', '.join(_switches_of(lock) for _, lock in locks.iterrows())}."
    if (locks.switches_hi_per_item < FEW).any():
        return Verdict(FAILS, reason)
    if (locks.switches_lo_per_item >= 0.5).all():
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _one_switch_an_item(table: pd.DataFrame) -> Verdict:
    fifo = _row(table, "lock", "fifo")
    reason = (
        f"{_switches_of(fifo)} (interval {_count(fifo.switches_lo_per_item)} to "
        f"{_count(fifo.switches_hi_per_item)})."
    )
    if fifo.switches_lo_per_item >= 0.5 and fifo.switches_hi_per_item <= 2:
        return Verdict(HOLDS, reason)
    if fifo.switches_hi_per_item < 0.5 or fifo.switches_lo_per_item > 2:
        return Verdict(FAILS, reason)
    raise CannotTell(reason)


def _times_slower(slow: pd.Series, fast: pd.Series) -> tuple[float, float, str]:
    least, most = slow.ns_lo_per_item / fast.ns_hi_per_item, slow.ns_hi_per_item / fast.ns_lo_per_item
    text = (
        f"{slow.lock} {ns(slow.ns_per_item)} an item, {fast.lock} {ns(fast.ns_per_item)}: "
        f"{slow.ns_per_item / fast.ns_per_item:.1f} times (interval {least:.1f} to {most:.1f})"
    )
    return least, most, text


def _attempts_help(table: pd.DataFrame) -> Verdict:
    least, most, text = _times_slower(_row(table, "lock", "fifo"), _row(table, "lock", "try"))
    if least > 10:
        return Verdict(HOLDS, f"{text}.")
    if most < 10:
        return Verdict(FAILS, f"{text}.")
    raise CannotTell(f"The interval spans ten times: {text}.")


def _attempts_needed(table: pd.DataFrame) -> Verdict:
    least, most, text = _times_slower(_row(table, "lock", "fifo"), _row(table, "lock", "mutex"))
    if least > 2:
        return Verdict(FAILS, f"The default mutex never spins: {text}.")
    if most < 2:
        return Verdict(HOLDS, f"The default mutex never spins, and is no cure: {text}.")
    raise CannotTell(f"The interval spans twice: {text}.")


def _attempts_unfair(table: pd.DataFrame) -> Verdict:
    fifo, trying = _row(table, "lock", "fifo"), _row(table, "lock", "try")
    reason = f"Items in a row: fifo {_count(fifo.items_per_turn)}, try {_count(trying.items_per_turn)}."
    if trying.items_lo_per_turn > fifo.items_hi_per_turn:
        return Verdict(HOLDS, reason)
    if trying.items_hi_per_turn < fifo.items_lo_per_turn:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap. {reason}")


def _voluntary_is_fine(table: pd.DataFrame) -> Verdict:
    fifo, mutex = _row(table, "lock", "fifo"), _row(table, "lock", "mutex")
    least, most, text = _times_slower(fifo, mutex)
    if not fifo.switches_lo_per_item > FEW:
        raise CannotTell(f"There was no convoy in this run: {_switches_of(fifo)}.")
    reason = f"{fifo.voluntary_share:.0%} of the convoy's switches are voluntary; {text}."
    if fifo.voluntary_share > 0.5 and least > 2:
        return Verdict(FAILS, reason)
    if fifo.voluntary_share < 0.5 or most < 1.5:
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _fewer_is_faster(table: pd.DataFrame) -> Verdict:
    ours = table[table["lock"].isin(["fifo", "try", "mutex", "adaptive", "spin"])]
    if len(ours) < 2:
        raise CannotTell("This run measured fewer than two locks.")
    fewest = ours.sort_values("switches_per_item").iloc[0]
    others = ours[ours["lock"] != fewest["lock"]]
    quickest = others.sort_values("ns_per_item").iloc[0]
    reason = (
        f"{_switches_of(fewest)} and {ns(fewest.ns_per_item)}; {_switches_of(quickest)} and "
        f"{ns(quickest.ns_per_item)}."
    )
    if fewest.switches_hi_per_item >= quickest.switches_lo_per_item:
        raise CannotTell(f"Their switches do not differ by more than their intervals. {reason}")
    if quickest.ns_hi_per_item < fewest.ns_lo_per_item:
        return Verdict(FAILS, reason)
    if quickest.ns_lo_per_item > fewest.ns_hi_per_item:
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals overlap. {reason}")


def _busy_waiting_burns(table: pd.DataFrame) -> Verdict:
    spin, mutex = _row(table, "lock", "spin"), _row(table, "lock", "mutex")
    reason = f"CPU time an item: spin {ns(spin.cpu_ns_per_item)}, mutex {ns(mutex.cpu_ns_per_item)}."
    if spin.cpu_lo_ns_per_item > mutex.cpu_hi_ns_per_item:
        return Verdict(HOLDS, reason)
    if spin.cpu_hi_ns_per_item < mutex.cpu_lo_ns_per_item:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap. {reason}")


# ---- processes by their switches ----


def _ratio_tells(table: pd.DataFrame) -> Verdict:
    wrong = []
    for _, one in table.iterrows():
        if one.truth == switches.POOL:
            continue  # another claim's subject
        voluntary, involuntary = one.voluntary_per_s, one.involuntary_per_s
        guess = switches.IO_BOUND if voluntary > 10 * involuntary else switches.BOTH
        guess = switches.CONTENDED if involuntary > 10 * voluntary else guess
        if guess != one.truth:
            wrong.append(f"{one.process} looks {guess} and is {one.truth}")
    if len(table) < 4:
        raise CannotTell("This run watched too few processes.")
    return Verdict(
        FAILS if wrong else HOLDS,
        f"By the ratio alone: {'; '.join(wrong) if wrong else f'all {len(table)} processes as they are'}.",
    )


def _leader_is_enough(table: pd.DataFrame) -> Verdict:
    many = table[(table.threads > 1) & (table.voluntary_per_s + table.involuntary_per_s > 10)]
    if many.empty:
        raise CannotTell("This run watched no process of several threads that switch.")
    leaders = many.leader_voluntary_per_s + many.leader_involuntary_per_s
    share = leaders / (many.voluntary_per_s + many.involuntary_per_s)
    least = many.assign(share=share).sort_values("share").iloc[0]
    part = f"{least.share:.0%} of the switches of its {least.threads} threads"
    reason = f"The leader of {least.process} makes {part}."
    return Verdict(FAILS if share.min() < 0.25 else HOLDS, reason)


# ---- hops ----

NAMES_OF_HOPS = {
    "go_1": "a Go channel",
    "stack": "a stack switch",
    "greenlet": "greenlet",
    "asyncio": "asyncio",
}


def _like_a_call(table: pd.DataFrame) -> Verdict:
    ways = table[table["by"].isin(NAMES_OF_HOPS)]
    if ways.empty:
        raise CannotTell("This run measured no coroutine.")
    said = ", ".join(f"{NAMES_OF_HOPS[str(way.by)]} {_short(way.ns_per_hop)}" for _, way in ways.iterrows())
    if (ways.ns_lo_per_hop > 10).any():
        return Verdict(FAILS, f"{said}.")
    if (ways.ns_hi_per_hop <= 10).all():
        return Verdict(HOLDS, f"{said}.")
    raise CannotTell(f"The intervals span 10 ns: {said}.")


def _short(value: float) -> str:
    return ns(value) if value >= 100 else f"{number_text(value, 2)} ns"


def _kernel_count(table: pd.DataFrame, by: str) -> tuple[float, float, str]:
    way = _row(table, "by", by)
    text = f"{by}: {_count(way.kernel_switches_per_hop)} kernel switches a hop"
    return way.kernel_switches_lo_per_hop, way.kernel_switches_hi_per_hop, text


def _kernel_sees(table: pd.DataFrame, by: str) -> Verdict:
    least, most, text = _kernel_count(table, by)
    if least >= FEW:
        return Verdict(HOLDS, f"{text}.")
    if most < FEW:
        return Verdict(FAILS, f"{text}.")
    raise CannotTell(f"The interval spans {FEW}: {text}.")


def _goroutines_avoid_it(table: pd.DataFrame) -> Verdict:
    least, most, text = _kernel_count(table, "go_1")
    if most < FEW:
        return Verdict(HOLDS, f"{text}.")
    if least >= FEW:
        return Verdict(FAILS, f"{text}.")
    raise CannotTell(f"The interval spans {FEW}: {text}.")


def _channels_and_pipes(table: pd.DataFrame) -> Verdict:
    channel, pipe = _row(table, "by", "go_1"), _row(table, "by", "pipe")
    least, most = pipe.ns_lo_per_hop / channel.ns_hi_per_hop, pipe.ns_hi_per_hop / channel.ns_lo_per_hop
    text = (
        f"pipe {ns(pipe.ns_per_hop)}, channel {_short(channel.ns_per_hop)}: "
        f"{pipe.ns_per_hop / channel.ns_per_hop:.1f} times (interval {least:.1f} to {most:.1f})"
    )
    if least >= 7:
        return Verdict(HOLDS, f"{text}.")
    if most < 7:
        return Verdict(FAILS, f"{text}.")
    raise CannotTell(f"The interval spans seven times: {text}.")


# ---- threads in memory ----

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def _default_stacks(table: pd.DataFrame) -> pd.Series:
    found = table[table.stack_bytes == 8 * MIB]
    if found.empty:
        raise CannotTell("This run did not measure stacks of 8 MiB.")
    return found.iloc[0]


def _eighty(table: pd.DataFrame) -> Verdict:
    one = _default_stacks(table)
    reason = (
        f"Each thread: {size(one.vm_bytes_per_thread)} of addresses, "
        f"{size(one.rss_bytes_per_thread)} resident; "
        f"10,000 of them are {one.vm_bytes_per_thread * 10_000 / GIB:.0f} GiB and "
        f"{one.rss_bytes_per_thread * 10_000 / MIB:.0f} MiB."
    )
    right = [one.vm_lo_bytes_per_thread >= 7.2 * MIB, one.vm_hi_bytes_per_thread <= 8.8 * MIB,
             one.rss_lo_bytes_per_thread >= 7.2 * KIB, one.rss_hi_bytes_per_thread <= 8.8 * KIB]  # fmt: skip
    wrong = [one.vm_hi_bytes_per_thread < 7.2 * MIB, one.vm_lo_bytes_per_thread > 8.8 * MIB,
             one.rss_hi_bytes_per_thread < 7.2 * KIB, one.rss_lo_bytes_per_thread > 8.8 * KIB]  # fmt: skip
    if all(right):
        return Verdict(HOLDS, reason)
    if any(wrong):
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals span a tenth around 8 MiB and 8 KiB. {reason}")


def _resident_is_all(table: pd.DataFrame) -> Verdict:
    one = _default_stacks(table)
    kernel = one.kernel_stack_bytes_per_thread
    reason = (
        f"Resident {size(one.rss_bytes_per_thread)} a thread, and beside it {size(kernel)} of kernel stack; "
        f"the machine lost {size(one.lost_bytes_per_thread)}."
    )
    if one.kernel_stack_lo_bytes_per_thread > 0.5 * one.rss_hi_bytes_per_thread:
        return Verdict(FAILS, reason)
    if one.kernel_stack_hi_bytes_per_thread < 0.1 * one.rss_lo_bytes_per_thread:
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _threads_use_cpu(table: pd.DataFrame) -> Verdict:
    one = table.sort_values("threads").iloc[-1]
    reason = f"{int(one.threads):,} sleeping threads used {one.cpu_share:.2%} of one CPU."
    if one.threads < 100:
        raise CannotTell(f"Too few threads to tell: {reason}")
    if one.cpu_share < 0.02:
        return Verdict(FAILS, reason)
    if one.cpu_share > 0.5:
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _touch_commits(table: pd.DataFrame) -> Verdict:
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
    raise CannotTell(reason)


def _ten_us(table: pd.DataFrame) -> Verdict:
    one = _row(table, "what", "thread")
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
    one = table.iloc[0]
    reason = f"The first limit here is {one.binding_limit}, after {one.binding_threads:,.0f} more threads"
    if one.started_threads == one.started_threads:  # not missing: the limit was hit
        count, reason = one.started_threads, f"{reason}; {one.started_threads:,.0f} could be started."
        return Verdict(HOLDS if 28_000 <= count <= 33_000 else FAILS, reason)
    if not 25_000 <= one.binding_threads <= 40_000:
        return Verdict(FAILS, f"{reason}.")
    raise CannotTell(f"{reason}; that fits, and no limit was hit in this run.")


# ---- batches, herds, timers ----


def _batches(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    ordered = table.sort_values("batch_events")
    if len(ordered) < 2:
        raise CannotTell("This run measured one batch size only.")
    small = ordered.iloc[0]
    if small.wakeups_hi_per_event < 0.5 / small.batch_events:
        raise CannotTell(
            "The worker was late for most events, and so had them in batches of its own: "
            f"{_count(small.wakeups_per_event)} wake-ups an event, with batches of "
            f"{int(small.batch_events)}."
        )
    return small, ordered.iloc[-1]


def _wakes_divided(table: pd.DataFrame) -> Verdict:
    small, large = _batches(table)
    wanted = large.batch_events / small.batch_events
    least = small.wakeups_lo_per_event / large.wakeups_hi_per_event
    most = small.wakeups_hi_per_event / large.wakeups_lo_per_event
    before, after = small.wakeups_per_event, large.wakeups_per_event
    reason = (
        f"{int(wanted):,} times the batch, wake-ups for each event from {_count(before)} to {_count(after)}: "
        f"{before / after:,.0f} times fewer (interval {least:,.0f} to {most:,.0f})."
    )
    if least >= wanted / 2 and most <= wanted * 2:
        return Verdict(HOLDS, reason)
    if most < wanted / 2 or least > wanted * 2:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The interval spans a factor of two around {int(wanted):,}: {reason}")


def _switching_dwarfs_work(table: pd.DataFrame) -> Verdict:
    small, large = _batches(table)
    work, beyond = large.cpu_ns_per_event, small.cpu_ns_per_event - large.cpu_ns_per_event
    reason = (
        f"Beyond the work of {ns(work)}, {ns(beyond)} of CPU time an event in batches of "
        f"{int(small.batch_events):,}, on a CPU that may have gone idle before each (judged as dwarfing the "
        "work where it is more than that)."
    )
    if not 8_000 <= work <= 12_500:
        raise CannotTell(f"This run's work was not about 10 µs an event. {reason}")
    if small.cpu_ns_lo_per_event > 2 * large.cpu_ns_hi_per_event:
        return Verdict(HOLDS, reason)
    if small.cpu_ns_hi_per_event < 2 * large.cpu_ns_lo_per_event:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals reach across. {reason}")


def _woken(table: pd.DataFrame, by: str) -> tuple[pd.Series, str]:
    way = _row(table, "by", by)
    return way, f"{by}: {_count(way.switches_per_event)} switches an event among {way.threads} threads."


def _flag_wakes_one(table: pd.DataFrame) -> Verdict:
    way, reason = _woken(table, "exclusive")
    if way.threads < 3:
        raise CannotTell(f"Too few threads to tell: {reason}")
    if way.switches_hi_per_event <= 2:
        return Verdict(HOLDS, reason)
    if way.switches_lo_per_event > 2:
        return Verdict(FAILS, reason)
    raise CannotTell(reason)


def _flag_helps_connections(table: pd.DataFrame) -> Verdict:
    way, reason = _woken(table, "own")
    if way.threads < 3:
        raise CannotTell(f"Too few threads to tell: {reason}")
    if way.switches_hi_per_event <= 2:
        return Verdict(FAILS, f"Without the flag, {reason}")
    if way.switches_lo_per_event > 2:
        return Verdict(HOLDS, f"Without the flag, {reason}")
    raise CannotTell(reason)


def _wake_at_the_tick(table: pd.DataFrame) -> Verdict:
    own = _row(table, "by", "own")
    reason = (
        f"{own.threads} threads with times of their own woke a quiet CPU {own.bursts_per_event:.2f} times an "
        f"event, half of them within {ns(own.late_p50_ns)} of their time."
    )
    if own.bursts_lo_per_event > 0.5:
        return Verdict(FAILS, reason)
    if own.bursts_hi_per_event < 2 / own.threads:
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _together_is_cheaper(table: pd.DataFrame) -> Verdict:
    own, one = _row(table, "by", "own"), _row(table, "by", "one")
    reason = f"CPU time an event: own times {ns(own.cpu_ns_per_event)}, one timer {ns(one.cpu_ns_per_event)}."
    if one.cpu_ns_hi_per_event < own.cpu_ns_lo_per_event:
        return Verdict(HOLDS, reason)
    if one.cpu_ns_lo_per_event > own.cpu_ns_hi_per_event:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap. {reason}")


# ---- connections ----


def _at(row: pd.Series) -> str:
    return f"{int(row.connections):,} connections, {int(row.rate_per_s):,} requests/s"


def _loop_pays_nothing(table: pd.DataFrame) -> Verdict:
    loop = table[table["by"] == "loop"]
    if loop.empty:
        raise CannotTell("This run did not measure the event loop.")
    most = loop.sort_values("switches_per_request").iloc[-1]
    reason = f"At most {most.switches_per_request:.2f} switches a request ({_at(most)})."
    if (loop.switches_lo_per_request > 0.5).any():
        return Verdict(FAILS, reason)
    if (loop.switches_hi_per_request < FEW).all():
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _one_wake_a_message(table: pd.DataFrame) -> Verdict:
    loop = table[table["by"] == "loop"]
    if loop.empty:
        raise CannotTell("This run did not measure the event loop.")
    least = loop.sort_values("switches_per_request").iloc[0]
    reason = (
        f"{least.switches_per_request:.2f} switches a request and {least.requests_per_wait:.1f} requests for "
        f"each epoll_wait() at {_at(least)}."
    )
    if least.switches_hi_per_request < 0.5:
        return Verdict(FAILS, reason)
    if (loop.switches_lo_per_request >= 0.8).all():
        return Verdict(HOLDS, reason)
    raise CannotTell(reason)


def _hundred_to_one(table: pd.DataFrame) -> Verdict:
    loop = table[(table["by"] == "loop") & table["voluntary_share"].notna()]
    if loop.empty:
        raise CannotTell("This run counted no switches of the event loop.")
    least = loop.sort_values("voluntary_share").iloc[0]
    reason = f"At the least, {least.voluntary_share:.1%} of the loop's switches are voluntary ({_at(least)})."
    if (loop.voluntary_lo_share >= 0.99).all():
        return Verdict(HOLDS, reason)
    if (loop.voluntary_hi_share < 0.99).any():
        return Verdict(FAILS, reason)
    raise CannotTell(reason)


def _loop_is_cheaper(table: pd.DataFrame) -> Verdict:
    pairs = table[table["by"] == "loop"].merge(
        table[table["by"] == "threads"], on=["connections", "rate_per_s"], suffixes=("_loop", "_threads")
    )
    if pairs.empty:
        raise CannotTell("This run measured no point both ways.")
    pairs = pairs.sort_values("cpu_ns_per_request_loop")
    said = "; ".join(
        f"{ns(one.cpu_ns_per_request_loop)} and {ns(one.cpu_ns_per_request_threads)} at {_at(one)}"
        for _, one in pairs.iloc[[0, -1]].iterrows()
    )
    reason = f"CPU time a request, loop and threads: {said}."
    if (pairs.cpu_ns_hi_per_request_loop < pairs.cpu_ns_lo_per_request_threads).all():
        return Verdict(HOLDS, reason)
    if (pairs.cpu_ns_lo_per_request_loop > pairs.cpu_ns_hi_per_request_threads).any():
        return Verdict(FAILS, reason)
    raise CannotTell(f"The intervals overlap somewhere. {reason}")


LOCKS = "convoy.locks"
HOPS = "hops.compared"
PROCESSES = "classify.processes"
CLAIMS = [
    Claim("001-007", "A queue with a fair lock takes about one context switch for every item.", QUEUE_ARTICLE,
          LOCKS, _one_switch_an_item),
    Claim("001-013", "The switches come from many threads racing for one lock: one wins, the others are "
          "suspended.", QUEUE_ARTICLE, LOCKS, _race_makes_switches),
    Claim("001-016", "Ten attempts before blocking make the queue more than ten times as fast.",
          QUEUE_ARTICLE, LOCKS, _attempts_help),
    Claim("001-015", "What cures it is to spin a little before going to sleep.", QUEUE_ARTICLE, LOCKS,
          _attempts_needed),
    Claim("001-017", "Trying first gives up fairness.", QUEUE_ARTICLE, LOCKS, _attempts_unfair),
    Claim("001-019", "Busy waiting uses more CPU time than sleeping does.", QUEUE_ARTICLE, LOCKS,
          _busy_waiting_burns),
    Claim("001-020", "Fewer context switches make a program faster.", QUEUE_ARTICLE, LOCKS, _fewer_is_faster),
    Claim("000-128", "Releasing a lock involves a context switch to its next holder.", WEB_COURSE, LOCKS,
          _release_switches),
    Claim("000-106", "Voluntary switches are fine; the involuntary ones are dangerous.", WEB_COURSE, LOCKS,
          _voluntary_is_fine),
    Claim("000-105", "Many voluntary switches and few others mean I/O-bound, the reverse CPU-bound and "
          "preempted, both high means both.", WEB_COURSE, PROCESSES, _ratio_tells),
    Claim("000-104", "pidstat -w shows how often a process is switched.", WEB_COURSE, PROCESSES,
          _leader_is_enough),
    Claim("004-039", "Switching between coroutines is like a function call, a few nanoseconds.",
          COROUTINE_ARTICLE, HOPS, _like_a_call),
    Claim("000-066", "Switching between goroutines shows up in the kernel's switch rate.", WEB_COURSE, HOPS,
          lambda table: _kernel_sees(table, "go_1")),
    Claim("003-015", "Goroutines hand over without a switch in the kernel.", THREAD_COST_ARTICLE, HOPS,
          _goroutines_avoid_it),
    Claim("003-014", "Go's channels hand over at least seven times as fast as pipes.", THREAD_COST_ARTICLE,
          HOPS, _channels_and_pipes),
    Claim("000-136", "await asyncio.sleep(0) makes a switch in the kernel.", WEB_COURSE, HOPS,
          lambda table: _kernel_sees(table, "asyncio")),
    Claim("003-018", "Ten thousand threads take 80 GiB of address space and 80 MiB of resident memory.",
          THREAD_COST_ARTICLE, "threads.memory", _eighty),
    Claim("RES", "What top shows as resident memory is what the threads cost.",
          "read out of the figure above (003)", "threads.memory", _resident_is_all),
    Claim("000-095", "Ten thousand threads use more CPU than the requests that they serve.", WEB_COURSE,
          "threads.memory", _threads_use_cpu),
    Claim("003-020", "malloc() changes the address space at once, resident memory only when it is touched.",
          THREAD_COST_ARTICLE, "threads.touch", _touch_commits),
    Claim("003-026", "To create a thread takes about 10 µs.", THREAD_COST_ARTICLE,
          "threads.creation", _ten_us),
    Claim("003-022", "A 64-bit machine lets you create about 32,000 threads.", THREAD_COST_ARTICLE,
          "threads.creation", _thirty_two_thousand),
    Claim("000-092", "A batch of a thousand events makes a thousand times fewer wake-ups.", WEB_COURSE,
          "batching.sweep", _wakes_divided),
    Claim("000-091", "At 10,000 wake-ups a second and 10 µs of work for each, switching dwarfs the work.",
          WEB_COURSE, "batching.sweep", _switching_dwarfs_work),
    Claim("exclusive", "With EPOLLEXCLUSIVE one event wakes one of those who wait for it.",
          "read out of epoll_ctl(2), which says 'one or more'", "herd.wakeups", _flag_wakes_one),
    Claim("000-086", "EPOLLEXCLUSIVE saves threads that each wait for their own connections from needless "
          "wake-ups.", WEB_COURSE, "herd.wakeups", _flag_helps_connections),
    Claim("000-063", "Timer-driven threads all wake at the tick.", WEB_COURSE, "timers.aligned",
          _wake_at_the_tick),
    Claim("aligned", "One timer for all jobs costs less CPU time than a timer for each.",
          "advice in many places", "timers.aligned", _together_is_cheaper),
    Claim("000-089", "An event loop pays no switches.", WEB_COURSE, "connections.sweep", _loop_pays_nothing),
    Claim("000-084", "The kernel wakes an event loop once for every message.", WEB_COURSE,
          "connections.sweep", _one_wake_a_message),
    Claim("000-098", "An event loop makes a hundred voluntary switches for each involuntary one.", WEB_COURSE,
          "connections.sweep", _hundred_to_one),
    Claim("loop", "An event loop needs less CPU time for a request than a thread for each connection.",
          "advice in many places", "connections.sweep", _loop_is_cheaper),
]  # fmt: skip
