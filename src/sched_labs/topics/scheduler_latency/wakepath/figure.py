"""Where the time of a wake-up goes: a stacked bar for each situation, from the waker's call on."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_in_legend,
    canvas,
    columns,
    dashed,
    draws,
    each,
    listed,
    times_ns,
)

from .experiment import not_idled

KIND = "wakepath.parts"
NAMES = {
    "near": "same CPU",
    "poll": "another CPU,\nwhich polls",
    "haltpoll": "another CPU, which\npolls, then halts",
    "spinner": "another CPU, busy with\na thread that gives way",
    "idle": "another CPU, idle",
}
PARTS = {
    "call_ns": ("the waker enters the kernel", style.ALONE),
    "message_ns": ("until the sleeper's CPU acts: chosen, told, awake", style.WAKEUP),
    "switch_ns": ("until that CPU has switched to it", style.DIRECT),
    "back_ns": ("back into the program", style.OWN),
}
WHOLE = ("not taken apart", style.NEUTRAL)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per situation: situation, p50_ns, waker_p50_ns, and the parts of the
    wake-ups of middling length, which add up to whole_ns:

    - call_ns: from the waker's system call to sched_waking
    - message_ns: to the interrupt of the sleeper's CPU; where there is none, to sched_wakeup
    - switch_ns: to sched_switch
    - back_ns: until the sleeper runs

    polled_percent and halted_percent are what the sleeper's CPU did, missing where the kernel does not tell.

    The parts are missing without the BPF probe.  Raises ResultError when nothing was measured.
    """
    wanted = (
        "situation", "p50_ns", "waker_p50_ns", "waking_at_ns", "interrupt_at_ns", "wakeup_at_ns",
        "switch_at_ns", "running_at_ns", "polled_percent", "halted_percent",
    )  # fmt: skip
    table = columns(result.summary(), wanted, "The summary of these wake-ups")
    acts = table.interrupt_at_ns.fillna(table.wakeup_at_ns)
    ends = [0 * table.running_at_ns, table.waking_at_ns, acts, table.switch_at_ns, table.running_at_ns]
    for part, begin, end in zip(PARTS, ends, ends[1:], strict=False):
        table[part] = end - begin
    table = table.rename(columns={"running_at_ns": "whole_ns"})
    order = [name for name in NAMES if name in set(table.situation)]
    return table.set_index("situation").loc[order].reset_index()[
        ["situation", "p50_ns", "waker_p50_ns", *PARTS, "whole_ns", "polled_percent", "halted_percent"]
    ]  # fmt: skip


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A bar for each situation; the end of a recorded run's bar is a pale tick.

    A bar has the parts of wake-ups of middling length; the number beside it is the median of all.
    """
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    marks = times_ns(predictions)
    known = table.message_ns.notna().any()
    pale_look: dict[str, Any] = {"marker": "|", "markersize": 22, "markeredgewidth": 3, "linestyle": "none"}
    with style.drawing():
        drawing = canvas(165 + 46 * len(table) + 20 * (len(marks) + (recorded is not None)))
        ax = drawing.add_subplot()
        for y, row in enumerate(each(table)):
            left = 0.0
            for part, (_, meaning) in PARTS.items():
                width = getattr(row, part)
                if not math.isnan(width):
                    ax.barh(y, width, left=left, height=0.6, color=style.colour(meaning), linewidth=0)
                    left += width
            if not left:
                ax.barh(y, row.whole_ns, height=0.6, color=style.colour(WHOLE[1]), linewidth=0)
            axes.right_of(ax, y, axes.time_text(row.p50_ns, 2), 8)
            if pale is not None:
                same = pale[pale.situation == row.situation]
                ax.plot(same.whole_ns, [y] * len(same), color=style.colour(style.RECORDED), **pale_look)
        for _, ns in marks:
            ax.axvline(ns, **dashed())
        ends = [
            table.whole_ns.max(),
            *(ns for _, ns in marks),
            *([] if pale is None else [pale.whole_ns.max()]),
        ]
        ax.set_xlim(0, 1.04 * max(ends))
        axes.rows(ax, [NAMES[str(name)] for name in table.situation])
        ax.spines["left"].set_visible(False)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        ax.set_xlabel("since the waker's system call")
        shown = PARTS.values() if known else [WHOLE]
        handles: list[Any] = [Patch(color=style.colour(meaning), label=words) for words, meaning in shown]
        handles += also_in_legend(recorded, (), **{**pale_look, "markersize": 14})
        handles += [Line2D([], [], label=text, **dashed()) for text, _ in marks]
        drawing.legend(handles=handles, loc="outside upper left", ncols=1)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Where the time of a wake-up goes",
    )


def _plain(name: object) -> str:
    return NAMES[str(name)].replace("\n", " ")


def _caption(table: pd.DataFrame) -> str:
    last = table.iloc[-1]
    told = listed([f"{axes.time_text(row.p50_ns, 2)} ({_plain(row.situation)})" for row in each(table)])
    text = f"From the waker's call until the sleeper runs, in the median: {told}."
    if len(table) > 1 and last.message_ns == last.message_ns:
        before = 100 * (last.call_ns + last.message_ns) / last.whole_ns
        text += f" Of the last bar, {before:.0f} % pass before the sleeper's CPU acts."
    for row in each(table):
        if why := not_idled(row):
            text += f" Not so idle ({_plain(row.situation)}): {why[0].lower()}{why[1:]}"
    return text


def _alt(table: pd.DataFrame) -> str:
    names = "; ".join(words for words, _ in PARTS.values())
    parts = [
        "Stacked bars on a time axis: the median of the wake-ups, and of those of middling length the parts "
        f"({names})."
    ]
    for row in each(table):
        values = [getattr(row, part) for part in PARTS]
        said = ", ".join(axes.time_text(ns) for ns in values if ns == ns) or WHOLE[0]
        parts.append(f"{_plain(row.situation)}, {axes.time_text(row.p50_ns)}: {said}.")
    return " ".join(parts)
