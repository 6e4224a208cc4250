"""Claims about pinning a pool: each judged on CONSTRUCTED summaries for every outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN

Row = dict[str, Any]


def case(
    owner: str = "thread",
    intruder: str = "none",
    placement: str = "pinned",
    *,
    ratio: float = np.nan,
    p99: float = 200e3,
    switches: float = 1.0,
    cpu: float = 50e3,
    moves: float = 0.0,
    kernel: float = 0.0,
    queue: float = 1,
    stall: float = 100e3,
    half: float = 0.02,
    saved: float = np.nan,
    move: float = np.nan,
) -> Row:
    row: Row = {"owner": owner, "intruder": intruder, "placement": placement, "moves_per_request": moves,
                "kernel_moves_per_request": kernel, "queue_requests": queue, "waiting_threads": 2,
                "stall_ns": stall, "floor_ns_per_request": 1e3, "move_ns": move,
                "foreseen_ns_per_request": move * moves, "saved_ns_per_request": saved,
                "saved_lo_ns_per_request": saved - 5e3, "saved_hi_ns_per_request": saved + 5e3}  # fmt: skip
    for name, value in (("ratio{}_p99", ratio), ("p99{}_ns", p99), ("switches{}_per_request", switches),
                        ("cpu{}_ns_per_request", cpu)):  # fmt: skip
        for part, factor in (("", 1), ("_lo", 1 - half), ("_hi", 1 + half)):
            row[name.format(part)] = factor * value
    return row


def ratios(thread: float, request: float, long: float | None = None) -> list[Row]:
    rows = [case(owner, intruder, ratio=ratio) for owner, ratio in (("thread", thread), ("request", request))
            for intruder in ("none", "short", "long")]  # fmt: skip
    return [case("thread", "long", ratio=long) if long and row["owner"] == "thread" and
            row["intruder"] == "long" else row for row in rows]  # fmt: skip


MOVED = case(placement="free", cpu=200e3, moves=0.2, kernel=0.3, stall=0, move=40e3)
BESIDE = case(intruder="short", saved=10e3)


def beside(move: float) -> Row:
    """Free workers beside short pieces, of 100 µs."""
    return case(intruder="short", placement="free", cpu=200e3, moves=0.2, move=move)


CASES: list[Case] = [
    ("000-074", HOLDS, ratios(0.5, 2), "thread's data, beside nobody: 0.50 (0.49 to 0.51)"),
    ("000-074", FAILS, ratios(0.5, 2, long=10), "trial: thread's data, beside long pieces: 10"),
    ("000-074", FAILS, ratios(1, 0.5), "request's data, beside nobody: 0.5"),
    ("000-074", UNKNOWN, ratios(0.5, 1), "Not every difference is surely a factor of 1.25: p99"),
    ("000-074", UNKNOWN, ratios(1.2, 0.9), "surely a factor of 1.25"),
    ("000-074", UNKNOWN, ratios(0.5, 2)[1:], "did not measure the thread's data"),
    ("000-087", HOLDS, [case(saved=10e3), MOVED], "pinned 50 µs, free 200 µs with 0.2 moves"),
    ("000-087", HOLDS, [case(saved=10e3), MOVED], "all requests. A pin saved, paired by trial, 10 µs (5"),
    ("000-087", UNKNOWN, [case(saved=10e3), case(placement="free", moves=0.2)], "half of the saving is not"),
    ("000-087", UNKNOWN, [case(saved=50e3), MOVED], "half of the saving is not"),
    # The moves explain half of the least that was saved, and not of all that may have been.
    ("000-087", UNKNOWN, [case(saved=14e3), MOVED], "half of the saving is not"),
    # A request that was moved may have waited for a piece of the intruder before.
    ("000-087", UNKNOWN, [BESIDE, beside(120e3)], "one whole piece of the intruder that is 4 µs a request"),
    ("000-087", UNKNOWN, [BESIDE, beside(40e3)], "less one whole piece of the intruder that is nothing. A"),
    ("000-087", HOLDS, [BESIDE, beside(140e3)], "that is 8 µs a request over all requests. A pin"),
    ("000-087", FAILS, [case(cpu=300e3, saved=-10e3), MOVED], "A pin cost 10 µs (5 µs to 15 µs)"),
    ("000-087", UNKNOWN, [case(saved=4e3), MOVED], "clear of the noise"),
    ("000-087", UNKNOWN, [case(saved=10e3) | {"floor_ns_per_request": 20e3}, MOVED], "clear of the noise"),
    ("000-087", UNKNOWN, [case(), MOVED], "No trial has both"),
    ("000-087", UNKNOWN, [case(), case(placement="free")], "hardly moved either"),
    ("000-087", UNKNOWN, [case()], "no free workers"),
    ("000-097", HOLDS, [case(), MOVED], "in which a move there and back is two. That is what a pin is for"),
    ("000-097", FAILS, [case(kernel=0.1), MOVED], "at most 0.1 moves"),
    ("000-097", UNKNOWN, [case(kernel=0.005), MOVED], "at most 0.005"),
    ("000-097", UNKNOWN, [case(kernel=np.nan), MOVED], "does not tell"),
    ("000-010", HOLDS, [case(switches=0.5), MOVED], "0.50 switches a request pinned, 1.00 free"),
    ("000-010", FAILS, [case(), MOVED], "1.00 switches a request pinned, 1.00 free"),
    ("000-010", FAILS, [case(switches=0.95), MOVED], "there. Less than a tenth fewer counts as none"),
    ("000-010", UNKNOWN, [case(half=0.3), MOVED], "0.70 to 1.30 and 0.98 to 1.02, are too"),
    ("000-010", UNKNOWN, [case()], "did not measure"),
    ("000-072", UNKNOWN, [case(intruder="long")], "than there are threads. Requests in the longest"),
    ("000-072", FAILS, [case(intruder="long", queue=9)], "for one worker: 9, median over trials;"),
    ("000-072", UNKNOWN, [case(intruder="long", queue=2)], "for one worker: 2, median over trials;"),
    ("000-072", UNKNOWN, [case()], "did not measure"),
    ("000-077", HOLDS, [case(), case(intruder="short", p99=5e6)], "p99 200 µs without and 5 ms with them"),
    ("000-077", FAILS, [case(), case(intruder="short", p99=300e3)], "From 0.8 ms to 4.2 ms are 3.4"),
    ("000-077", UNKNOWN, [case(), case(intruder="short", p99=3.6e6)], "allow 3.32 ms to 3.48 ms more"),
    ("000-077", UNKNOWN, [case(), case(intruder="short", stall=1e6)], "took 1 ms"),
]  # fmt: skip
