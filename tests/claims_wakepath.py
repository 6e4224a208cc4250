"""Claims about a wake-up taken apart: each judged on CONSTRUCTED summaries for every outcome it can have."""

from __future__ import annotations

import math
from typing import Any

from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN


def woken(
    situation: str,
    us: float,
    *,
    half: float = 0.05,
    waker_us: float = 2,
    queue: float = 20,
    idled: float = 90,
    sooner_us: tuple[float, float, float] = (math.nan,) * 3,
) -> dict[str, Any]:
    """One row of the summary, with intervals of a part around each number."""
    row: dict[str, Any] = {"situation": situation, "running_at_ns": 1000 * us}
    row |= {"polled_percent": 0.0, "halted_percent": 0.0}
    row["polled_percent" if situation == "poll" else "halted_percent"] = idled
    row |= dict(
        zip(("sooner_ns", "sooner_lo_ns", "sooner_hi_ns"), (1000 * us for us in sooner_us), strict=True)
    )
    for stem, value in (
        ("p50{}_ns", 1000 * us),
        ("waker_p50{}_ns", 1000 * waker_us),
        ("queue{}_percent", queue),
    ):
        for end, sign in (("", 0), ("_lo", -1), ("_hi", 1)):
            row[stem.format(end)] = value * (1 + sign * half)
    return row


def once(situation: str, us: float) -> dict[str, Any]:
    """A row of a single trial."""
    return woken(situation, us, half=math.inf)


def kept_busy(us: float, *sooner_us: float) -> dict[str, Any]:
    """A row of the CPU with a SCHED_IDLE thread: so much sooner than the idle one (median, low, high)."""
    return woken("spinner", us, sooner_us=sooner_us)  # type: ignore[arg-type]


CASES: list[Case] = [
    ("idle-soonest", HOLDS, [woken("idle", 4), kept_busy(9, -5, -6, -4)], "interval −6 µs to −4 µs"),
    ("idle-soonest", FAILS, [woken("idle", 17), kept_busy(9, 8, 7, 9)], "interval 7 µs to 9 µs"),
    ("idle-soonest", UNKNOWN, [woken("idle", 9), kept_busy(8, 1, -1, 3)], "spans zero"),
    ("idle-soonest", UNKNOWN, [woken("spinner", 9)], "did not measure"),
    ("idle-soonest", UNKNOWN, [once("idle", 17), once("spinner", 9)], "One trial"),
    ("idle-soonest", UNKNOWN, [woken("idle", 17, idled=30), woken("spinner", 9)], "idle for 30 %"),
    (
        "idle-exit",
        HOLDS,
        [woken("idle", 17), woken("poll", 4)],
        "17 µs on the idle CPU, 4 µs where it polled",
    ),
    ("idle-exit", FAILS, [woken("idle", 5), woken("poll", 4)], "12 to 28 % less"),
    ("idle-exit", UNKNOWN, [woken("idle", 8), woken("poll", 4)], "spans 0.5"),
    ("idle-exit", UNKNOWN, [woken("idle", 8), woken("poll", 4, idled=20)], "idle for 20 %"),
    (
        "idle-exit",
        UNKNOWN,
        [woken("idle", 4) | {"polled_percent": 86.0}, woken("poll", 4)],
        "polled by itself for 86 %",
    ),
    ("wake-histogram", HOLDS, [woken("idle", 17, queue=80)], "length a run-queue histogram has 80 %"),
    ("wake-histogram", FAILS, [woken("idle", 17)], "interval 19 to 21"),
    ("wake-histogram", UNKNOWN, [woken("idle", 17, queue=50)], "spans 50"),
    ("wake-histogram", UNKNOWN, [woken("idle", 17, queue=math.nan)], "were not seen (BPF)"),
    ("waker-pays", HOLDS, [woken("idle", 17), woken("poll", 4)], "0.9 to 1.1 times"),
    (
        "waker-pays",
        FAILS,
        [woken("idle", 17, waker_us=5), woken("poll", 4)],
        "5 µs where the other CPU was idle",
    ),
    ("waker-pays", UNKNOWN, [woken("idle", 17, waker_us=2.5), woken("poll", 4)], "spans 1.25 times"),
    (
        "waker-pays",
        UNKNOWN,
        [woken("idle", 17) | {"polled_percent": 86.0}, woken("poll", 4)],
        "polled by itself for 86 %",
    ),
]
