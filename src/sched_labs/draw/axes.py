"""Axes in plain units (1 µs, 64 KiB; never bare exponents), and marks whose labels do not collide.

Times are a machine's, unless a figure is drawn under the clock of a guest: see `clock`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ..core import words
from ..core.words import count_text, number_text, size_text
from . import style

NATIVE, EMULATED, VIRTUAL = "native", "vm-emulated", "deterministic"
EMULATED_FLOOR_NS = 1e6  # an emulated machine says nothing about shorter times
TOO_SHORT = "under 1 ms"
_clock: ContextVar[str] = ContextVar("clock", default=NATIVE)


@contextmanager
def clock(timing: str) -> Iterator[None]:
    """How the times that are written inside passed, as a Result's `timing` says.

    In `deterministic` runs they are counts of virtual ns and never a machine's units; in `vm-emulated` ones
    there is nothing below a millisecond to tell apart.
    """
    before = _clock.set(timing)
    try:
        yield
    finally:
        _clock.reset(before)


def time_text(ns: float, digits: int = 3) -> str:
    """Nanoseconds in plain words: 1,780 is "1.78 µs", or "1,780 virtual ns" under the clock of such a run."""
    if not math.isfinite(ns):
        return number_text(ns)
    if _clock.get() == VIRTUAL:
        return f"{count_text(ns)} virtual ns"
    if _clock.get() == EMULATED and 0 < abs(ns) < EMULATED_FLOOR_NS:
        return TOO_SHORT
    return words.time_text(ns, digits)


def range_text(low_ns: float, high_ns: float) -> str:
    """Two times as a range, the unit written once where both share it: "1.7 to 1.9 µs"."""
    low, high = time_text(low_ns), time_text(high_ns)
    if low == high:
        return low
    if low.partition(" ")[2] == high.partition(" ")[2]:
        low = low.partition(" ")[0]
    return f"{low} to {high}"


# From few to many: what is between two powers of ten, and from how many of them on it would be too much.
_BETWEEN: tuple[tuple[float, ...], ...] = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7))
_ROOM = (3.2, 2.2, 0.6)


def _round_values(low: float, high: float, fewer: int = 0) -> list[float]:
    """Round values from low to high: powers of ten, with more between them where there is room.

    fewer   so many steps coarser, down to every second, third, ... power
    """
    span = math.log10(high / low)
    fineness = sum(span < room for room in _ROOM) - fewer
    steps, every = _BETWEEN[max(fineness, 0)], 1 + max(-fineness, 0)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0**e for e in range(first, last + 1) if e % every == 0 for step in steps]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


class Layout(ConstrainedLayoutEngine):
    """matplotlib's constrained layout, and then what depends on how much room that left."""

    def __init__(self, h_pad: float | None = None) -> None:
        super().__init__(h_pad=h_pad)
        self.thinned: list[Axes] = []

    def execute(self, fig: Any) -> None:
        """Lay out, and thin the labels of the axes that asked for it."""
        super().execute(fig)
        for ax in self.thinned:
            _thin(ax)


def thin(ax: Axes) -> None:
    """Fewer labels on a logarithmic horizontal axis of round values, until none touches the next one.

    How much room they have is known once the layout made room for the rows' names, so that this waits for it.
    """
    layout = ax.figure.get_layout_engine()
    assert isinstance(layout, Layout)
    layout.thinned.append(ax)


def _thin(ax: Axes) -> None:
    low, high = ax.get_xlim()
    text = ax.xaxis.get_major_formatter()
    for fewer in range(1, len(_BETWEEN)):
        boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
        if not any(one.padded(6).overlaps(after) for one, after in itertools.pairwise(boxes)):
            return
        _label(ax, "x", _round_values(low, high, fewer), text)


def _axis(ax: Axes, which: str) -> Any:
    return ax.xaxis if which == "x" else ax.yaxis


def log_time(ax: Axes, which: str, low_ns: float, high_ns: float) -> None:
    """A logarithmic time axis in ns from low to high (both > 0), labelled in ns, µs, ms and s."""
    set_scale, set_limits = (ax.set_xscale, ax.set_xlim) if which == "x" else (ax.set_yscale, ax.set_ylim)
    set_scale("log")
    set_limits(low_ns, high_ns)
    _label_times(ax, which, _round_values(low_ns, high_ns))


def symlog_time(ax: Axes, low_ns: float, high_ns: float, linear_ns: float) -> None:
    """A vertical time axis for differences: logarithmic outside ±linear_ns (a power of ten), linear
    through zero inside it."""
    ax.set_yscale("symlog", linthresh=linear_ns, linscale=0.7)
    ax.set_ylim(low_ns, high_ns)
    decades = [10.0**e for e in range(round(math.log10(linear_ns)), 19)]
    ticks = [0.0, *(t for t in decades if t <= high_ns), *(-t for t in decades if -t >= low_ns)]
    _label_times(ax, "y", sorted(ticks))


def log_size(ax: Axes, low_bytes: float, high_bytes: float) -> None:
    """A logarithmic horizontal axis of sizes, ticks at powers of two, labelled in B, KiB, MiB and GiB."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(low_bytes, high_bytes)
    first, last = math.ceil(math.log2(low_bytes) - 1e-9), math.floor(math.log2(high_bytes) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 6))
    every = next(step for step in (1, 2, 4, 5, 10, 20, 64) if step >= every)
    ticks = [2.0**e for e in range(first, last + 1) if e % every == 0]
    _label(ax, "x", ticks, size_text)


def _label_times(ax: Axes, which: str, ticks: list[float]) -> None:
    """Virtual time has its unit once, at the axis's end; an emulator's has no ticks under a millisecond."""
    if _clock.get() == VIRTUAL:
        decades = [tick for tick in ticks if tick == 0 or math.log10(abs(tick)) % 1 < 1e-6]
        _label(ax, which, decades if len(decades) > 1 else ticks, count_text)
        _axis(ax, which).get_major_formatter().set_offset_string("virtual time, ns")
    elif _clock.get() == EMULATED:
        _label(ax, which, [tick for tick in ticks if tick == 0 or abs(tick) >= EMULATED_FLOOR_NS], time_text)
    else:
        _label(ax, which, ticks, time_text)


def _label(ax: Axes, which: str, ticks: list[float], text: Any) -> None:
    axis = _axis(ax, which)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def caches(machine: Mapping[str, Any]) -> dict[str, float]:
    """The data caches in a result's machine, smallest first: {"L1d 32 KiB": 32768}.  Empty if unknown."""
    found: dict[str, float] = {}
    for key, name in (("l1d_bytes", "L1d"), ("l2_bytes", "L2"), ("l3_bytes", "L3")):
        size = machine.get(key)
        if isinstance(size, int | float) and not isinstance(size, bool) and math.isfinite(size) and size > 0:
            found[f"{name} {size_text(size)}"] = float(size)
    return found


def mark_x(ax: Axes, marks: Mapping[str, float] | Iterable[tuple[str, float]], *, rows: int = 4) -> int:
    """Thin vertical lines with labels along the top, inside the axes; returns how many label rows were used.

    Marks outside the limits are left out.  A label that would touch another moves down a row; one that would
    leave the axes turns to the left of its line.  Call it when the limits and the layout are settled.
    """
    renderer = ax.figure._get_renderer()  # type: ignore[union-attr]
    left, right = sorted(ax.get_xlim())
    frame = ax.get_window_extent(renderer)
    taken: list[Any] = []
    used = 0
    for name, x in sorted(dict(marks).items(), key=lambda mark: mark[1]):
        if not left <= x <= right:
            continue
        label = _mark_label(ax, name, x)
        box = label.get_window_extent(renderer)
        if box.x1 > frame.x1:
            label.set_horizontalalignment("right")
            label.set_position((-4, label.get_position()[1]))
            box = label.get_window_extent(renderer)
        row = 0
        line = box.height + 4
        while row < rows - 1 and any(other.overlaps(box.translated(0, -line * row)) for other in taken):
            row += 1
        label.set_position((label.get_position()[0], -4 - line * row))
        taken.append(label.get_window_extent(renderer).padded(1.5))
        # The line ends at its label, so that it does not run through those above.
        top = 1 - line * row / frame.height
        ax.axvline(x, ymax=top, color=style.colour(style.NEUTRAL), linewidth=1.0, zorder=1.5)
        used = max(used, row + 1)
    return used


def _mark_label(ax: Axes, name: str, x: float) -> Text:
    return ax.annotate(
        name,
        xy=(x, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(4, -4),
        textcoords="offset points",
        ha="left",
        va="top",
        fontsize=style.SMALL,
        color=style.colour(style.NEUTRAL),
        bbox={"facecolor": style.colour(style.PAPER), "edgecolor": "none", "pad": 0.5},
        annotation_clip=False,
    )


def rows(ax: Axes, names: Sequence[str]) -> None:
    """Rows from above down, one for each name, with neither ticks nor a grid between them."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")


def across(ax: Axes, y: float, ends: Sequence[float]) -> None:
    """The interval at the end of a bar, over whatever colours it crosses; nothing where it is unknown."""
    if all(math.isfinite(end) for end in ends):
        for width, name in ((4.6, style.PAPER), (2.0, style.INK)):
            ax.plot(ends, [y, y], color=style.colour(name), linewidth=width, zorder=3)


def note(ax: Axes, text: str, at: tuple[Any, Any], offset: tuple[float, float], **look: Any) -> None:
    """Write a small text so many points away from a place in the data."""
    ax.annotate(text, at, xytext=offset, textcoords="offset points", fontsize=style.SMALL, **look)


def beside(ax: Axes, y: float, text: str, offset: float, weight: str = "normal") -> None:
    """Write an entry of a column to the right of the axes, at a height of its data.

    offset: from the axes' right edge to the text's, in points: a share of the width would move when the
    layout makes room.
    """
    _outside(ax, y, text, offset, ha="right", va="center", weight=weight)


def right_of(ax: Axes, y: float, text: str, gap: float) -> None:
    """Write a value to the right of the axes, at a height of its data and `gap` points away."""
    _outside(ax, y, text, gap, ha="left", va="center_baseline")


def _outside(ax: Axes, y: float, text: str, offset: float, **look: Any) -> None:
    note(ax, text, (1, y), (offset, 0), xycoords=("axes fraction", "data"), annotation_clip=False, **look)
