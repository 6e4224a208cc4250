"""Constructed curves with known caches, then the curve of this machine."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sched_labs import machine
from sched_labs.experiments import warmup
from sched_labs.labs import Judge

KIB = 1024
MACHINES = 6
# Where the caches of a constructed machine may end, and the time of a step in each level and in memory, ns.
NEAR, MIDDLE, FAR = (32, 48, 64), (512, 1024, 2048), (16_384, 32_768)
SIZES = [4 * KIB << half // 2 if half % 2 == 0 else 6 * KIB << half // 2 for half in range(31)]


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


def close(found: list[int], caches: list[int]) -> bool:
    return len(found) == len(caches) and all(0.5 <= a / b <= 2 for a, b in zip(found, caches, strict=True))


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "cache_sizes")
    right = 0
    for number in range(MACHINES):
        levels = (NEAR, MIDDLE, FAR)[: 2 + number % 2]
        caches = [int(judge.rng.choice(level)) * KIB for level in levels]
        found = answer(constructed(judge.rng, caches))
        judge.need(
            isinstance(found, list) and all(isinstance(size, int | float) for size in found),
            f"cache_sizes must return a list of numbers, not {found!r}.",
        )
        right += close(sorted(found), caches)
    judge.expect(
        right >= MACHINES - 1,
        good=f"the caches of {right} of {MACHINES} constructed machines were found.",
        missing=f"the caches of only {right} of {MACHINES} constructed machines were found. "
        "Draw one of your misses: which bend is a cache, and which is noise?",
    )
    sizes = [size for size in SIZES if size <= 12 * 1024 * KIB]
    sweep = warmup.sweep(working_sets_bytes=sizes, access=["random"], trials=3, save=False, progress=False)
    table = sweep.summary().drop_duplicates("working_set_bytes").sort_values("working_set_bytes")
    curve = table[["working_set_bytes", "alone_ns_per_line"]].reset_index(drop=True)
    curve.columns = ["working_set_bytes", "ns_per_line"]
    found = sorted(answer(curve))
    survey = machine.survey()
    told = [c for c in survey.caches(survey.cpus_allowed[-1]) if c.kind != "Instruction"]
    within = [c.size_bytes for c in told if 2 * c.size_bytes <= curve.working_set_bytes.max()]
    if not within:
        judge.remark(f"This machine does not say what caches it has; you found {found} bytes.")
        return
    hit = [any(0.5 <= size / cache <= 2 for size in found) for cache in within]
    judge.expect(
        any(hit),
        good=f"on this machine {sum(hit)} of the {len(hit)} caches inside the curve were found.",
        missing="on this machine's own curve none of its caches was found.",
    )
