"""Pictures of results: one module per kind of picture, every one takes a Result.

    figures.draw(result)                                   # by the result's kind
    figures.draw(result, recorded=other, predictions=[figures.Prediction(2, "µs")])
    figures.compare(mine, yours)                           # several runs of one experiment on one axis
    figures.warmup.frame(result)                           # the numbers that the figure shows

A new kind of picture is a module with a `frame(result)` whose docstring lists its columns, and a function
under `@draws("the.kind")`, imported here.
"""

from __future__ import annotations

from . import (
    arithmetic,
    axes,
    bandwidth,
    batching,
    bursts,
    causes,
    classify,
    connections,
    convoy,
    crowd,
    flame,
    fpu,
    herd,
    histogram,
    hops,
    instruments,
    interpreter,
    isolation,
    loops,
    matrix,
    observer,
    omission,
    policies,
    recovery,
    reference,
    regimes,
    ring,
    service,
    sleeper,
    slices,
    style,
    switchgraph,
    threads,
    throttle,
    ticks,
    timers,
    tlb,
    wakeplace,
    warmup,
    yielding,
)
from .base import Drawable, Figure, Prediction, draw, draws
from .compare import compare
from .reference import ladder

__all__ = [
    "Drawable",
    "Figure",
    "Prediction",
    "arithmetic",
    "axes",
    "bandwidth",
    "batching",
    "bursts",
    "causes",
    "classify",
    "compare",
    "connections",
    "convoy",
    "crowd",
    "draw",
    "draws",
    "flame",
    "fpu",
    "herd",
    "histogram",
    "hops",
    "instruments",
    "interpreter",
    "isolation",
    "ladder",
    "loops",
    "matrix",
    "observer",
    "omission",
    "policies",
    "recovery",
    "reference",
    "regimes",
    "ring",
    "service",
    "sleeper",
    "slices",
    "style",
    "switchgraph",
    "threads",
    "throttle",
    "ticks",
    "timers",
    "tlb",
    "wakeplace",
    "warmup",
    "yielding",
]
