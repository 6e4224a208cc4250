"""Where threads were off the CPU: a flame graph of their kernel stacks, coloured by state.

Gregg's off-CPU flame graph (Systems Performance, 2nd edition, chapter 5), upside down: width is time off the
CPU, each row below is a function that the one above it called.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch, Rectangle
from matplotlib.textpath import TextPath

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_drawn,
    canvas,
    columns,
    draws,
    each,
    in_the_recorded_run,
    listed,
    provenance,
)
from sched_labs.draw.panels import check_predictions

KIND = "offcpu.stacks"
_COLUMNS = ("role", "state", "stack", "times", "off_cpu_ns")
_LOOKS = {
    "runnable": ("it lost its CPU and waited for one", style.PREEMPTED),
    "woken": ("it had been woken and waited for a CPU", style.WAKEUP),
    "interruptible": ("asleep until it was woken", style.NEUTRAL),
    "uninterruptible": ("asleep, and no ordinary signal wakes it", style.SYSTEM),
    "other": ("ended or stopped", style.ALONE),
}
_ROW = 24.0  # points
_AIR = 8.0  # points beside a name
_THIN = 0.002  # of the width; thinner boxes cannot be seen


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per box, from the left and from the top.

    - depth: 0 for the thread, 1 for its state, from 2 on functions of the kernel from the outermost in
    - name: the thread, the state or the function
    - state: the state that the box's time was spent in ("" for a thread)
    - left_share, right_share: the box's place between 0 and 1; its width is its part of all time off the CPU
    - off_cpu_ns: that time

    Raises ResultError when no thread was off the CPU.
    """
    data = columns(result.data, _COLUMNS, "This run of threads off the CPU")
    data = columns(data[data["off_cpu_ns"] > 0], _COLUMNS, "This run of threads that were never off the CPU")
    total = float(data["off_cpu_ns"].sum())
    boxes: list[tuple[int, str, str, float, float, int]] = []
    order = {role: at for at, role in enumerate(dict.fromkeys(data["role"]))}
    states = list(_LOOKS)
    paths = sorted(
        (
            order[row.role],
            states.index(row.state),
            (row.role, row.state, *row.stack.split(";")),
            row.off_cpu_ns,
        )
        for row in each(data)
    )
    open_boxes: list[tuple[str, float, int]] = []  # name, left, ns so far, by depth
    at = 0.0

    def close(depth: int) -> None:
        while len(open_boxes) > depth:
            name, left, ns = open_boxes.pop()
            state = "" if not open_boxes else (open_boxes[1][0] if len(open_boxes) > 1 else name)
            boxes.append((len(open_boxes), name, state, left, at, ns))

    for _, _, path, ns in paths:
        same = 0
        while same < min(len(path), len(open_boxes)) and open_boxes[same][0] == path[same]:
            same += 1
        close(same)
        open_boxes += [(name, at, 0) for name in path[same:]]
        open_boxes[:] = [(name, left, so_far + int(ns)) for name, left, so_far in open_boxes]
        at += ns / total
    close(0)
    table = pd.DataFrame(boxes, columns=["depth", "name", "state", "left_share", "right_share", "off_cpu_ns"])
    return table.sort_values(["depth", "left_share"], ignore_index=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the flame graph.  A recorded one is told in words, because its functions are its own kernel's."""
    check_predictions([], predictions)
    table = frame(result)
    rows = int(table["depth"].max()) + 1
    with style.drawing():
        drawing = canvas(_ROW * rows + 100)
        ax = drawing.add_subplot()
        ax.set_xlim(0, 1)
        ax.set_ylim(rows, 0)
        ax.set_axis_off()
        drawn = table.loc[table["right_share"] - table["left_share"] >= _THIN, "state"]
        shown = [state for state in _LOOKS if (drawn == state).any()]
        handles = [Patch(color=style.colour(_LOOKS[state][1]), label=_LOOKS[state][0]) for state in shown]
        drawing.legend(handles=handles, loc="outside upper left")
        drawing.draw_without_rendering()
        width = ax.get_window_extent().width / drawing.dpi * 72
        _boxes(ax, table, width)
    said = "" if recorded is None else _caption(frame(recorded))
    return Figure(
        drawing,
        KIND,
        alt=_alt(table) + also_drawn(None, predictions),
        caption=_caption(table) + in_the_recorded_run(said, _caption(table)),
        provenance=provenance(result, recorded, drawn=False),
        data=table,
        title="Where threads were off the CPU",
    )


def _boxes(ax: Axes, table: pd.DataFrame, width: float) -> None:
    size = style.SMALL
    for row in each(table[table["right_share"] - table["left_share"] >= _THIN]):
        colour = style.colour(_LOOKS[row.state][1] if row.state else style.FLOOR)
        ax.add_patch(
            Rectangle(
                (row.left_share, row.depth + 0.03),
                row.right_share - row.left_share,
                0.94,
                facecolor=colour,
                edgecolor=style.colour(style.PAPER),
                linewidth=0.8,
            )
        )
        font = FontProperties(size=size, weight="normal" if row.state else "bold")
        if text := _fitting(row.name, font, (row.right_share - row.left_share) * width - _AIR):
            ax.text(
                (row.left_share + row.right_share) / 2,
                row.depth + 0.52,
                text,
                ha="center",
                va="center",
                fontproperties=font,
                color=style.colour(style.PAPER if row.state else style.INK),
            )


def _fitting(name: str, font: FontProperties, width: float) -> str:
    """As much of a name as fits into so many points; nothing where that is less than three letters of it."""
    for letters in range(len(name), 2, -1):
        text = name if letters == len(name) else f"{name[:letters]}…"
        if TextPath((0, 0), text, prop=font).vertices[:, 0].max() <= width:
            return text
    return ""


def _share(table: pd.DataFrame) -> dict[str, float]:
    states = table[table["depth"] == 1].groupby("state")["off_cpu_ns"].sum()
    return {state: float(states.get(state, 0) / states.sum()) for state in _LOOKS}


def _inside(table: pd.DataFrame, thread: Any) -> pd.DataFrame:
    """The boxes below a thread's."""
    return table[table["left_share"].between(thread.left_share - 1e-9, thread.right_share - 1e-9)]


def _caption(table: pd.DataFrame) -> str:
    share = _share(table)
    waiting, waited_ns, asleep_ns, woken_ns = [], 0.0, 0.0, 0.0
    for thread in each(table[table["depth"] == 0]):
        states = _inside(table[table["depth"] == 1], thread).groupby("state")["off_cpu_ns"].sum()
        if states.get("runnable", 0) > states.sum() / 2:
            waiting.append(f"the {thread.name}")
            waited_ns += states.reindex(["runnable", "woken"]).sum()
        else:
            asleep_ns, woken_ns = asleep_ns + states.sum(), woken_ns + states.get("woken", 0)
    waits = share["runnable"] + share["woken"]
    said = f"{100 * waits:.0f} % of the time off the CPU was spent waiting for one"
    if waiting:
        most = waited_ns > waits * table.loc[table["depth"] == 1, "off_cpu_ns"].sum() / 2
        said += f", {'most' if most else 'a part'} of it by {listed(waiting)}"
    if not asleep_ns:
        return f"{said}."
    who = "the others spent" if waiting else "they spent"
    return f"{said}; {who} {100 * woken_ns / asleep_ns:.0f} % of theirs so, after they had been woken."


def _alt(table: pd.DataFrame) -> str:
    parts = ["A flame graph of kernel stacks; width is time off the CPU."]
    for thread in each(table[table["depth"] == 0]):
        inside = _inside(table, thread)
        states = inside[inside["depth"] == 1].sort_values("off_cpu_ns", ascending=False)
        told = ", ".join(f"{row.name} {axes.time_text(row.off_cpu_ns)}" for row in each(states))
        deepest = inside[inside["depth"] > 1].sort_values(["off_cpu_ns", "depth"], ascending=False)
        where = ""
        if not deepest.empty:
            widest = deepest[deepest["off_cpu_ns"] >= 0.5 * states["off_cpu_ns"].iloc[0]]
            names = list(dict.fromkeys(widest.sort_values("depth")["name"]))
            where = f", mostly in {' > '.join(names)}" if names else ""
        parts.append(f"The {thread.name}: {told}{where}.")
    return " ".join(parts)
