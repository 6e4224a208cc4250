"""How pictures are made: axes, colours, panels, and what every figure has.

    draw.draw(result)                                   # by the result's kind; result.plot() is the same
    draw.draw(result, recorded=other, predictions=[draw.Prediction(2, "µs")])
    draw.compare(mine, yours)                           # several runs of one experiment on one axis

The figure of an experiment stands beside it, in `figure.py`: a `frame(result)` whose docstring lists its
columns, and a function under `@draws("the.kind")`.
"""

from __future__ import annotations

from . import arithmetic, axes, bandwidth, style, topology
from .base import Drawable, Figure, Prediction, draw, draws
from .compare import compare

__all__ = [
    "Drawable", "Figure", "Prediction", "arithmetic", "axes", "bandwidth", "compare", "draw", "draws",
    "style", "topology",
]  # fmt: skip
