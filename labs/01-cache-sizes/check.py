"""Constructed curves with known caches, then the curve of this machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine
from sched_labs.labs import Judge
from sched_labs.topics.context_switch.warmup import experiment as warmup

KIB, MIB = 1 << 10, 1 << 20
MACHINES, MISSES = 12, 2
CURVES = 3  # of this machine: another program may bend one, and a miss is one of all of them
# A real curve begins to climb before its set is as large as the cache: stack and code are there as well, and
# the pages of the set compete for the same places, as they lie at random in physical memory.
EARLIEST, LATEST = 1 / 3, 2  # times a cache of this machine
# A level of a constructed machine comes from a range so wide that no one size is near all that it holds.
# It is several times the level before, as in real machines: else two climbs are one.
RANGES = ((8 * KIB, 128 * KIB), (256 * KIB, 4 * MIB), (8 * MIB, 48 * MIB))
APART = 8
SIZES = [step << place for place in range(11, 27) for step in (2, 3)]  # 4 KiB, 6 KiB, 8 KiB, ... 192 MiB
MEASURED = [size for size in SIZES if size <= 12 * MIB]
CLIMB = 1.4  # a step through twice a cache takes so much longer than one through half of it, or it is hidden
LEVEL = (
    1.15  # and one through half of it at most so much longer than one through a quarter, or others share it
)


def drawn(rng: np.random.Generator) -> list[int]:
    """The caches of a machine: two levels or three."""
    while True:
        low, high = np.log(RANGES).T
        caches = [int(size) for size in np.exp(rng.uniform(low, high))]
        if all(large >= APART * small for small, large in pairwise(caches)):
            return caches[: rng.integers(2, 4)]


def constructed(rng: np.random.Generator, caches: list[int]) -> pd.DataFrame:
    """A curve as random walks give it: of a set larger than a cache, the part that fits still hits."""
    times = np.cumprod([rng.uniform(0.7, 2), *rng.uniform(3, 5, len(caches))])
    ns = []
    for size in SIZES:
        left, mean = 1.0, 0.0
        for cache, time in zip(caches, times, strict=False):
            held = min(1.0, cache / size)
            mean += max(0.0, held - (1 - left)) * time
            left = min(left, 1 - held)
        ns.append((mean + left * times[-1]) * rng.normal(1, 0.02))
    return pd.DataFrame({"working_set_bytes": SIZES, "ns_per_line": ns})


def close(found: list[float], caches: list[int]) -> bool:
    return len(found) == len(caches) and all(0.5 <= a / b <= 2 for a, b in zip(found, caches, strict=True))


def shown(curve: pd.DataFrame, caches: list[int]) -> list[int]:
    """The caches at whose ends this curve climbs, and not before.

    Where a cache is shared with a neighbour, another hardware thread of its core or another guest, this
    program has a part of it, and its curve climbs at the end of that part.
    """
    sizes, ns = np.log(curve.working_set_bytes), np.log(curve.ns_per_line)

    def grows(smaller: float, larger: float) -> float:
        return float(np.exp(np.diff(np.interp(np.log([smaller, larger]), sizes, ns))[0]))

    return [
        cache
        for cache in caches
        if grows(cache / 2, 2 * cache) >= CLIMB and grows(cache / 4, cache / 2) <= LEVEL
    ]


def asked(judge: Judge, answer: Callable[..., Any], curve: pd.DataFrame) -> list[float]:
    found = answer(curve)
    judge.need(
        isinstance(found, list) and all(isinstance(size, Real) for size in found),
        f"cache_sizes must return a list of numbers, not {found!r}.",
    )
    return sorted(float(size) for size in found)


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "cache_sizes")
    on_constructed_machines(judge, answer)
    on_this_machine(judge, answer)


def on_constructed_machines(judge: Judge, answer: Callable[..., Any]) -> None:
    right = 0
    for _ in range(MACHINES):
        caches = drawn(judge.rng)
        right += close(asked(judge, answer, constructed(judge.rng, caches)), caches)
    judge.expect(
        right >= MACHINES - MISSES,
        good=f"the caches of {right} of {MACHINES} constructed machines were found.",
        missing=f"the caches of only {right} of {MACHINES} constructed machines were found. "
        "Draw one of your misses: which bend is a cache, and which is noise?",
    )


def measured() -> pd.DataFrame:
    """The curve of this machine, as an answer is given it."""
    sweep = warmup.sweep(working_sets_bytes=MEASURED, access=["random"], trials=3, save=False, progress=False)
    table = sweep.summary().drop_duplicates("working_set_bytes")
    table = table.sort_values("working_set_bytes", ignore_index=True)
    return table[["working_set_bytes", "alone_ns_per_line"]].set_axis(
        ["working_set_bytes", "ns_per_line"], axis=1
    )


def on_this_machine(judge: Judge, answer: Callable[..., Any]) -> None:
    survey = machine.survey()
    told = [c for c in survey.caches(survey.cpus_allowed[-1]) if c.kind != "instruction"]
    within = [c.size_bytes for c in told if 2 * c.size_bytes <= max(MEASURED)]
    visible = set(within)  # on every curve so far
    for _ in range(CURVES):
        curve = measured()
        found = asked(judge, answer, curve)
        if not within:
            judge.remark(f"This machine does not say what caches it has; you found {sizes_of(found)}.")
            return
        hit = [size for size in within if any(EARLIEST <= one / size <= LATEST for one in found)]
        if hit:
            break
        visible &= set(shown(curve, within))
    judge.expect(
        True if hit else False if visible else None,
        good=f"on this machine {sizes_of(hit)} was found; it says that it has {sizes_of(within)}.",
        missing=f"on {CURVES} curves of this machine none of its caches was found, on the last only "
        f"{sizes_of(found)}.",
        unclear=f"none of its caches, {sizes_of(within)}, shows on each of the {CURVES} curves that were "
        "measured now: one does not climb there, or begins to long before, as where another program holds "
        "a part of the cache.",
    )


def sizes_of(some: list[float] | list[int]) -> str:
    """Sizes as one reads them: 48 KiB and 2 MiB."""
    words = [f"{size / MIB:.3g} MiB" if size >= MIB else f"{size / KIB:.3g} KiB" for size in some]
    return " and ".join(words) or "nothing"
