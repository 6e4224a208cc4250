"""What people say about pool, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns
from sched_labs.claims.helpers import holds_or_fails
from sched_labs.core.words import number_text

from .experiment import INTRUDERS, WHO

KIND = "pool.pinned"
RARE = 0.001
OFTEN = 0.01
RAISED_NS = 3.4e6  # from 800 µs to 4.2 ms
SHORTEST_LONG_NS = 200_000.0  # a piece of 62 µs is no longer than a few of them
SAME = 0.9
FELT = 1.25  # p99 of a few trials: a smaller factor than this is no finding


def _row(table: pd.DataFrame, owner: str, intruder: str, placement: str) -> pd.Series:
    """One case.  CannotTell where this run did not measure it."""
    found = table[
        (table["owner"] == owner) & (table["intruder"] == intruder) & (table["placement"] == placement)
    ]
    if found.empty:
        raise CannotTell(f"This run did not measure the {owner}'s data, {placement}, beside {WHO[intruder]}.")
    return found.iloc[0]


def _by_owner(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99, pinned over free, by interval.  Control: free in turns, and nobody beside
    it.  Design: six cases, all of which the sentence covers.  Opponent: a factor below 1.25 of few
    trials is no finding.
    """
    said, right, wrong = [], [], []  # by case
    for owner in ("thread", "request"):
        for intruder in INTRUDERS:
            row = _row(table, owner, intruder, "pinned")
            ratio, low, high = row["ratio_p99"], row["ratio_lo_p99"], row["ratio_hi_p99"]
            helps, hurts = high < 1 / FELT, low > FELT
            right.append(helps if owner == "thread" else hurts)
            wrong.append(hurts if owner == "thread" else helps)
            said.append(f"{owner}'s data, beside {WHO[intruder]}: {ratio:.2f} ({low:.2f} to {high:.2f})")
    # Those that decide: against the sentence, else open, else all.
    deciding = wrong if any(wrong) else [all(right) or not surely for surely in right]
    shown = [words for words, decides in zip(said, deciding, strict=True) if decides]
    reason = f"p99 pinned over free, paired by trial: {'; '.join(shown)}."
    return holds_or_fails(
        all(right), any(wrong), reason, f"Not every difference is surely a factor of {FELT}:"
    )


def _keeps_warm(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time a request, free minus pinned, by interval.  Control: equal trials give the floor,
    and the requests after a move tell what the moves themselves cost.  Design: only where free workers moved.
    Opponent: free workers that met on one CPU may stay there and push each other's data out without a move;
    hence the moves have to explain half of all that may have been saved.  A request that is moved may have
    waited for a piece of the intruder before, which is no CPU time; hence without one.
    """
    free = table[(table["owner"] == "thread") & (table["placement"] == "free")]
    if free.empty:
        raise CannotTell("This run measured no free workers with data of their own.")
    most = free.sort_values("moves_per_request").iloc[-1]
    pinned = _row(table, "thread", str(most["intruder"]), "pinned")
    reason = (
        f"CPU time a request with the thread's data, beside {WHO[most['intruder']]}: pinned "
        f"{ns(pinned['cpu_ns_per_request'])}, free {ns(most['cpu_ns_per_request'])} with "
        f"{number_text(most['moves_per_request'], 2)} moves a request."
    )
    if most["moves_per_request"] < OFTEN:
        raise CannotTell(f"Free workers hardly moved either. {reason}")
    saved, low, high = (pinned[f"saved{part}_ns_per_request"] for part in ("", "_lo", "_hi"))
    if pd.isna(saved):
        raise CannotTell(f"No trial has both. {reason}")
    floor = pinned["floor_ns_per_request"]
    foreseen = max(0.0, most["move_ns"] - most["stall_ns"]) * most["moves_per_request"]
    if most["move_ns"] > 0:
        less = " less one whole piece of the intruder" if most["stall_ns"] > 0 else ""
        spread = f"{ns(foreseen)} a request over all requests" if foreseen else "nothing"
        reason += (
            f" After a move a request took {ns(most['move_ns'])} longer, waits included;"
            f"{less} that is {spread}."
        )
    if high < -floor:
        return Verdict(FAILS, f"{reason} A pin cost {ns(-saved)} ({ns(-high)} to {ns(-low)}).")
    if not low > floor:  # or where no floor is known
        raise CannotTell(
            f"The difference, paired by trial {ns(saved)} ({ns(low)} to {ns(high)}), does not stand clear of "
            f"the noise, {ns(floor) if pd.notna(floor) else 'which is not known'}. {reason}"
        )
    reason += f" A pin saved, paired by trial, {ns(saved)} ({ns(low)} to {ns(high)})."
    if pd.isna(most["move_ns"]) or foreseen < high / 2:
        raise CannotTell(f"That moves explain half of the saving is not seen. {reason}")
    return Verdict(HOLDS, reason)


def _no_moves(table: pd.DataFrame) -> Verdict:
    """Statistic: moves a request, as the kernel counted them.  Control: free workers.  Design: pinned for
    the whole run.  Opponent: a pin is what makes it true, not a result of it.
    """
    pinned = table[table["placement"] == "pinned"]
    if pinned.empty or pinned["kernel_moves_per_request"].isna().any():
        raise CannotTell("The kernel does not tell how often it moved a thread.")
    most = float(pinned["kernel_moves_per_request"].max())
    free = table.loc[table["placement"] == "free", "kernel_moves_per_request"].max()
    reason = (
        f"at most {number_text(most, 2)} moves a request pinned and up to {number_text(free, 2)} free, by "
        "the kernel's count, in which a move there and back is two."
    )
    if most < RARE:
        reason += " That is what a pin is for, and no result of it."
    return holds_or_fails(most < RARE, most > OFTEN, reason, f"Neither below {RARE} nor above {OFTEN}:")


def _switches_less(table: pd.DataFrame) -> Verdict:
    """Statistic: switches a request, by interval.  Control: free workers, nobody beside them.  Design: the
    same requests.  Opponent: a tenth is the least that counts as less often.
    """
    pinned, free = _row(table, "thread", "none", "pinned"), _row(table, "thread", "none", "free")
    reason = (
        f"{pinned['switches_per_request']:.2f} switches a request pinned, {free['switches_per_request']:.2f} "
        "free, where the data are the thread's, with nobody else there. Less than a tenth fewer counts as "
        "none."
    )
    if pinned["switches_hi_per_request"] < SAME * free["switches_lo_per_request"]:
        return Verdict(HOLDS, reason)
    if pinned["switches_lo_per_request"] > SAME * free["switches_hi_per_request"]:
        return Verdict(FAILS, reason)
    pin, let = (
        f"{row['switches_lo_per_request']:.2f} to {row['switches_hi_per_request']:.2f}"
        for row in (pinned, free)
    )
    raise CannotTell(f"The intervals, {pin} and {let}, are too wide to tell a tenth. {reason}")


def _on_the_run_queue(table: pd.DataFrame) -> Verdict:
    """Statistic: the longest queue in the program, median over trials.  Control: as many threads as
    could be on a run queue.  Design: one worker's CPU is taken away.  Opponent: a pool with a thread for
    each request queues in the kernel; where no more wait than there are threads, it is open.
    """
    row = _row(table, "thread", "long", "pinned")
    queue, threads = row["queue_requests"], int(row["waiting_threads"])
    reason = (
        f"Requests in the longest queue for one worker: {queue:.0f}, median over trials; "
        f"workers of the pool: {threads}."
    )
    if queue > threads:
        return Verdict(FAILS, f"They waited in the program. {reason}")
    raise CannotTell(f"No more requests waited than there are threads. {reason}")


def _short_pieces(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 with and without the pieces, by interval.  Control: nobody beside it.  Design: more
    and longer pieces than the sentence has, which favours it.  Opponent: one piece in an unlucky place
    is rarer than p99.
    """
    quiet, short = _row(table, "thread", "none", "pinned"), _row(table, "thread", "short", "pinned")
    if short["stall_ns"] > SHORTEST_LONG_NS:
        raise CannotTell(f"The short pieces of this run took {ns(short['stall_ns'])}.")
    reason = (
        f"Pieces of {ns(short['stall_ns'])}, and far more than ten a second: p99 {ns(quiet['p99_ns'])} "
        f"without and {ns(short['p99_ns'])} with them, pinned, where the data are the thread's. From "
        "0.8 ms to 4.2 ms are 3.4 ms more."
    )
    least, most = short["p99_lo_ns"] - quiet["p99_hi_ns"], short["p99_hi_ns"] - quiet["p99_lo_ns"]
    unclear = f"The intervals allow {ns(least)} to {ns(most)} more."
    return holds_or_fails(least > RAISED_NS, most < RAISED_NS, reason, unclear)


CLAIMS = [
    Claim(
        "000-074",
        "Pinning helps where the hot data belong to the thread, and hurts where they belong to the request.",
        WEB_COURSE,
        KIND,
        _by_owner,
    ),
    Claim("000-087", "Pinning keeps caches warm, because the thread does not move.", WEB_COURSE, KIND,
          _keeps_warm),
    Claim("000-097", "Pinned threads show next to no migrations.", WEB_COURSE, KIND, _no_moves),
    Claim("000-010", "Pin the threads, and they will switch less often.", WEB_COURSE, KIND, _switches_less),
    Claim("000-072",
          "While a pinned worker's CPU stands still, the kernel queues its requests on that CPU's run queue.",
          WEB_COURSE, KIND, _on_the_run_queue),
    Claim("000-077",
          "A CPU that is taken away for 62 µs ten times a second raises p99 from 0.8 ms to 4.2 ms.",
          WEB_COURSE, KIND, _short_pieces),
]  # fmt: skip
