"""Panels that several figures are made of: rows of dots, and lines over a sweep, on axes in plain units."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from ..core.errors import ParameterError
from . import axes, style
from .base import Drawable, Figure, Prediction, also_in_legend, canvas, dashed, each, interval_in_legend

TIME, SIZE, NUMBER, SHARE = "time", "size", "number", "share"
_TEXT: dict[str, Callable[[float], str]] = {
    TIME: axes.time_text,
    SIZE: axes.size_text,
    NUMBER: lambda value: axes.number_text(value, 2),
    SHARE: lambda value: f"{axes.number_text(100 * value, 2)} %",
}
_ROW, _HEAD = 21.0, 46.0


@dataclass(frozen=True)
class Panel:
    """One quantity: its column, its interval's columns (or none), what it is, and from where it is drawn.

    quantity   time (ns), size (bytes), number, or share (of 1, linear)
    least      smaller values, zero among them, stand at the edge, hollow; for logarithmic panels
    guessed    whether the chapter asks for a prediction of it: others of the same unit show none
    linear     rows of dots on an axis from zero, where nothing and one are what is to be told apart
    """

    title: str
    column: str
    quantity: str
    low: str | None = None
    high: str | None = None
    least: float | None = None
    guessed: bool = True
    linear: bool = False

    def text(self, value: float) -> str:
        """A value of this quantity in words."""
        return "unknown" if math.isnan(value) else _TEXT[self.quantity](value)


@dataclass(frozen=True)
class Series:
    """One line of a sweep: which rows, its name in the legend, its colour's meaning and its marker."""

    rows: pd.DataFrame
    label: str
    role: str
    marker: str = "o"


def dot_figure(
    table: pd.DataFrame,
    panels: Sequence[Panel],
    *,
    key: str,
    names: Mapping[str, str],
    roles: Mapping[str, str],
    pale: Callable[[Drawable], pd.DataFrame],
    recorded: Drawable | None,
    predictions: Sequence[Prediction],
    caption: str,
    title: str,
    alt: str = "Dot plots on logarithmic axes.",
) -> Figure:
    """`dots` of a run as its whole figure.

    pale     makes the rows of the recorded run
    alt      what precedes the rows in words

    Raises ParameterError for a prediction that no panel has an axis for.
    """
    check_predictions(panels, predictions)
    before = None if recorded is None else pale(recorded)
    if before is not None and not before[key].isin(table[key]).any():
        before = recorded = None  # it has no row of this run
    drawing = dots(
        table,
        panels,
        key=key,
        names=names,
        roles=roles,
        pale=before,
        recorded=recorded,
        predictions=predictions,
    )
    words = f"{alt} {in_words(table, panels, key, names)}"
    return Figure(drawing, alt=words, caption=caption, data=table, title=title, pale=before is not None)


def dots(
    table: pd.DataFrame,
    panels: Sequence[Panel],
    *,
    key: str,
    names: Mapping[str, str],
    roles: Mapping[str, str],
    pale: pd.DataFrame | None = None,
    recorded: Drawable | None = None,
    predictions: Sequence[Prediction] = (),
) -> Drawing:
    """A panel below the other, in each a row per row of the table: a dot, its interval, its value in words.

    key      the column that names the rows; names and roles give their words and colours by it
    pale     the rows of a recorded run, drawn behind
    """
    count = len(table)
    handles = interval_in_legend(style.INK, _ends([table], panels))
    handles += _handles(recorded, predictions)
    with style.drawing():
        drawing = canvas((_HEAD + _ROW * count) * len(panels) + 24 + 20 * len(handles))
        for ax, panel in zip(_stack(drawing, len(panels)), panels, strict=True):
            marks = _marks(panel, predictions)
            limits = _scale(
                ax, "x", panel, [table, *([] if pale is None else [pale])], marks, linear=panel.linear
            )
            for y, row in enumerate(each(table)):
                name = str(getattr(row, key))
                before = None if pale is None else pale[pale[key] == name]
                if before is not None and not before.empty:
                    _dot(ax, panel, before.iloc[0], y, style.RECORDED, limits)
                _dot(ax, panel, table.iloc[y], y, roles.get(name, style.DIRECT), limits, say=True)
            for value in marks:
                ax.axvline(value, **dashed())
            ax.set_ylim(count - 0.4, -0.6)
            ax.set_yticks(range(count), [names.get(str(name), str(name)) for name in table[key]])
            ax.tick_params(axis="y", length=0, pad=9)
            ax.grid(visible=False, axis="y")
            ax.spines["left"].set_visible(False)
            ax.set_title(panel.title, loc="left", x=0.0)
        if handles:
            drawing.legend(handles=handles, loc="outside upper left", ncols=1)
        for ax, panel in zip(drawing.axes, panels, strict=True):
            if panel.quantity in (TIME, NUMBER) and not panel.linear:
                axes.thin(ax)
    return drawing


def lines(
    series: Sequence[Series],
    panels: Sequence[Panel],
    *,
    x: Panel,
    height: float = 190,
    recorded: Drawable | None = None,
    predictions: Sequence[Prediction] = (),
    linear: bool = False,
) -> Drawing:
    """A panel below the other over one sweep (the panel x), a line per series with its intervals as bars.

    linear   both axes start at zero, for quantities that add up
    """
    handles = [
        Line2D([], [], label=one.label, color=style.colour(one.role), marker=one.marker) for one in series
    ]
    handles += interval_in_legend(style.INK, _ends([one.rows for one in series], panels), upright=True)
    handles += _handles(recorded, predictions)
    with style.drawing():
        drawing = canvas(height * len(panels) + 30 + 20 * math.ceil(len(handles) / 2))
        stack = _stack(drawing, len(panels))
        for ax, panel in zip(stack, panels, strict=True):
            frames = [one.rows for one in series]
            marks = _marks(panel, predictions)
            across = _scale(ax, "x", x, frames, [], linear=linear)
            limits = _scale(ax, "y", panel, frames, marks, linear=linear)
            for one in series:
                rows = one.rows.sort_values(x.column)
                rows = rows[rows[panel.column].notna()]
                values = rows[panel.column].clip(lower=limits[0])
                where = rows[x.column].clip(lower=across[0])
                ax.plot(where, values, marker=one.marker, color=style.colour(one.role), clip_on=False)
                if panel.low and panel.high:
                    low = rows[panel.low].clip(*limits)
                    ax.vlines(where, low, rows[panel.high].clip(*limits), color=style.colour(one.role))
            for value in marks:
                ax.axhline(value, **dashed())
            ax.set_title(panel.title, loc="left", x=0.0)
            if ax is not stack[-1]:
                ax.tick_params(labelbottom=False)
        stack[-1].set_xlabel(x.title)
        drawing.legend(handles=handles, loc="outside upper left", ncols=1 if len(handles) < 3 else 2)
    return drawing


def _stack(drawing: Drawing, count: int) -> list[Axes]:
    drawing.set_layout_engine(axes.Layout(h_pad=7 / 72))
    return list(drawing.subplots(count, 1, squeeze=False)[:, 0])


def _ends(frames: Sequence[pd.DataFrame], panels: Sequence[Panel]) -> list[float]:
    """Where the intervals of all values end."""
    columns = [panel.high for panel in panels if panel.low and panel.high]
    return [float(end) for frame in frames for column in columns for end in frame[column]]


def _marks(panel: Panel, predictions: Sequence[Prediction]) -> list[float]:
    """The predictions that this panel has an axis for."""
    return [
        value
        for made in predictions
        if panel.guessed and (value := {TIME: made.ns, SIZE: made.size_bytes}.get(panel.quantity)) is not None
    ]


def check_predictions(panels: Iterable[Panel], predictions: Sequence[Prediction]) -> None:
    """ParameterError for a prediction that no panel has an axis for."""
    panels = list(panels)
    for made in predictions:
        if not any(_marks(panel, [made]) for panel in panels):
            raise ParameterError(
                f"A prediction in {made.unit!r} has no axis on this figure.", "Draw it without that one."
            )


def _scale(
    ax: Axes,
    which: str,
    panel: Panel,
    frames: Sequence[pd.DataFrame],
    marks: Sequence[float],
    *,
    linear: bool = False,
) -> tuple[float, float]:
    """Give the axis its limits and labels; returns the limits."""
    set_limits = ax.set_xlim if which == "x" else ax.set_ylim
    axis = ax.xaxis if which == "x" else ax.yaxis
    values = [float(value) for frame in frames for value in frame[panel.column]]
    values += [*marks]
    for column in (panel.low, panel.high):
        values += [float(value) for frame in frames for value in (frame[column] if column else ())]
    usual = [value for value in values if math.isfinite(value)]
    if panel.quantity == SHARE:
        high = 1.04 * max([*usual, 1.0])  # a short run may use more than its share
        set_limits(0, high)
        axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        return 0.0, high
    if linear:
        high = 1.08 * max([*usual, 1.0])
        set_limits(0, high)
        axis.set_major_formatter(lambda value, _: panel.text(value) if value >= 0 else "")
        if panel.quantity == SIZE:
            step = 2.0 ** math.floor(math.log2(high / 3))
            axis.set_ticks([step * i for i in range(int(high / step) + 1)])
        return 0.0, high
    floor = panel.least or 0.0
    positive = [value for value in usual if value > max(floor, 0.0)] or [1.0]
    low = panel.least or min(positive) / 1.6
    high = max(max(positive) * 1.6, low * 8)
    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    set_limits(low, high)
    ticks = _binary_values(low, high) if panel.quantity == SIZE else axes._round_values(low, high)
    axes._label(ax, which, ticks, panel.text)
    return low, high


def _binary_values(low: float, high: float) -> list[float]:
    """Powers of two from low to high, some five of them."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    every = max(1, math.ceil((last - first + 1) / 6))
    return [2.0**exponent for exponent in range(first, last + 1) if exponent % every == 0]


def _dot(
    ax: Axes, panel: Panel, row: Any, y: int, role: str, limits: tuple[float, float], *, say: bool = False
) -> None:
    value = float(row[panel.column])
    pale = role == style.RECORDED
    if say:
        axes.right_of(ax, y, panel.text(value) if math.isfinite(value) else "not measured", 10)
    if not math.isfinite(value):
        return
    colour, depth = style.colour(role), 2.2 if pale else 3.5
    if panel.low and panel.high and not pale:
        ends = [min(max(float(row[name]), limits[0]), limits[1]) for name in (panel.low, panel.high)]
        if all(math.isfinite(end) for end in ends):
            ax.plot(ends, [y, y], color=colour, zorder=3)
    inside = value >= limits[0]
    ax.plot(
        max(value, limits[0]),
        y,
        "o",
        color=colour,
        markersize=9 if pale else 7.5,
        markerfacecolor=colour if inside else style.colour(style.PAPER),
        zorder=depth,
        clip_on=False,
    )


def _handles(recorded: Drawable | None, predictions: Sequence[Prediction]) -> list[Line2D]:
    handles = also_in_legend(recorded, (), linestyle="none", marker="o", markersize=9)
    for made in predictions:
        size = made.size_bytes
        value = axes.time_text(made.ns or 0) if size is None else axes.size_text(size)
        handles.append(Line2D([], [], label=f"{made.label}: {value}", **dashed()))
    return handles


def in_words(table: pd.DataFrame, panels: Sequence[Panel], key: str, names: Mapping[str, str]) -> str:
    """The rows of a figure as sentences, for its alternative text."""
    said = []
    for panel in panels:
        values = [
            f"{names.get(str(row[key]), str(row[key]))} {panel.text(float(row[panel.column]))}"
            for _, row in table.iterrows()
        ]
        said.append(f"{panel.title}: {'; '.join(values)}.")
    return " ".join(said)
