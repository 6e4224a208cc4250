"""Where on a drawn figure a value lies, so that a page without a kernel can mark a guess in it.

A figure that takes predictions draws each as a dashed line.  Drawn with a trial prediction, it shows which
of its axes are of that kind; their scales are then told as a table of places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from . import style
from .base import Figure

_PLACES = 33


def rulers(figure: Figure, tried: Figure, trial: float) -> list[dict[str, Any]]:
    """The axes of `figure` on which `tried`, which is the same with a prediction of `trial`, has its line.

    For each: `along` ("x" or "y"), `box` (left, top, right, bottom of its panel) and `places`, a list of
    [value in the unit of `trial`, place].

    Places are shares of the figure's width or height from its top left.
    """
    drawing = figure.mpl
    if not figure.laid_out:
        figure.svg()
    found: list[dict[str, Any]] = []
    for ax, other in zip(drawing.axes, tried.mpl.axes, strict=False):
        for along, value in _lines(other):
            places = _places(ax, along, trial / value)
            left, bottom, right, top = ax.get_window_extent().extents / np.tile(drawing.bbox.size, 2)
            box = [round(float(part), 4) for part in (left, 1 - top, right, 1 - bottom)]
            one = {"along": along, "box": box, "places": places}
            if one not in found:
                found.append(one)
    return found


def _lines(ax: Axes) -> Iterator[tuple[str, float]]:
    colour = style.colour(style.PREDICTED)
    for line in ax.lines:
        if line.get_color() != colour or not line.is_dashed():
            continue
        xs, ys = (np.asarray(data, dtype=float) for data in (line.get_xdata(), line.get_ydata()))
        for along, same, other in (("x", xs, ys), ("y", ys, xs)):
            if len(same) > 1 and (same == same[0]).all() and not (other == other[0]).all() and same[0]:
                yield along, float(same[0])


def _places(ax: Axes, along: str, unit: float) -> list[list[float]]:
    size = ax.get_window_extent()
    ends = (size.x0, size.x1) if along == "x" else (size.y0, size.y1)
    at = np.linspace(*ends, _PLACES)
    points = np.column_stack([at, at])
    values = ax.transData.inverted().transform(points)[:, 0 if along == "x" else 1] * unit
    shares = at / (ax.figure.bbox.width if along == "x" else ax.figure.bbox.height)
    if along == "y":
        shares = 1 - shares
    rows = [
        [float(f"{value:.6g}"), round(float(share), 5)] for value, share in zip(values, shares, strict=True)
    ]
    return sorted(rows)
