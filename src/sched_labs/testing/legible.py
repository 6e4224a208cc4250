"""Can a figure be read?  Where its texts stand, how large they are, and what its words must not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from matplotlib.text import Text

from ..draw import style
from ..draw.base import Figure

SMALLEST = 9 * style.WIDTH / 358  # 9 pixels on a phone, 26 where a figure fills a projector of 1,024
_TOUCH = 1.5  # points that two boxes may share: letters have air around them


def unreadable(figure: Figure) -> Iterator[str]:
    """What is wrong with a figure as a picture and with its words: a sentence each."""
    placed = boxes(figure)
    width, height = figure.mpl.get_size_inches() * 72
    for text, box, size in placed:
        if size < SMALLEST:
            yield f"{text!r} has {size:g} points; on a phone {SMALLEST:.3g} can be read."
        if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > width + 0.5 or box.y1 > height + 0.5:
            yield f"{text!r} leaves the figure."
        if re.search(r"\^|mathdefault|\de[+-]?\d", text):
            yield f"{text!r} is a number with an exponent; axes.py labels in plain units."
    for (one, first, _), (other, second, _) in combinations(placed, 2):
        if first.padded(-_TOUCH).overlaps(second.padded(-_TOUCH)):
            yield f"{one!r} covers {other!r}."
    for name, words in (("caption", figure.caption), ("alternative text", figure.alt)):
        if not words.endswith("."):
            yield f"Its {name} is no sentence: {words!r}."
        if unknown := re.search(r"\b(nan|inf|None)\b", words):
            yield f"Its {name} says {unknown[0]!r}."
    if not figure.provenance:
        yield "It does not say where its numbers come from."
    if figure.data.empty:
        yield "It comes without the frame that was drawn."


def boxes(figure: Figure) -> list[tuple[str, Any, float]]:
    """Every text that a figure shows, with the rectangle that it takes and its size, in points."""
    with style.drawing():
        figure.mpl.draw_without_rendering()
        renderer = figure.mpl._get_renderer()  # type: ignore[attr-defined]
        outside = set(_outside(figure))
        texts = [
            text
            for text in figure.mpl.findobj(Text)
            if text not in outside and text.get_visible() and text.get_text().strip()
        ]
        return [
            (text.get_text(), text.get_window_extent(renderer), float(text.get_fontsize())) for text in texts
        ]


def _outside(figure: Figure) -> Iterator[Text]:
    """Labels of ticks beyond the ends of their axis: matplotlib keeps them, and draws none."""
    for ax in figure.mpl.axes:
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim()))):
            shown = ax.axison and axis.get_visible()
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not shown or not tick.get_visible() or not low <= tick.get_loc() <= high:
                    yield from (tick.label1, tick.label2)
