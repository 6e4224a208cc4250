"""How long a thread waits that wakes in the middle of another one's turn, by the moment at which it wakes.

Both axes are in turns of the thread that has the CPU, so that virtual time and a machine's may stand side by
side: a panel has no unit of time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from sched_labs.core.errors import ParameterError
from sched_labs.draw import style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    also_in_legend,
    canvas,
    columns,
    draws,
    each,
    listed,
)
from sched_labs.draw.panels import check_predictions
from sched_labs.topics.other_kernels.eevdf.experiment import NOTHING

KIND = "eevdf.phases"
HEADS = {"equal": "equal slices", "short": "a shorter slice", "owed": "owed CPU time"}
_COLUMNS = ("off", "situation", "phase_ns", "late_ns")


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per feature that was off, situation and moment.

    off, situation   as in the summary
    phase_percent    when the thread woke: how much of the other one's turn was over
    waited_percent   how long it waited for the CPU, in hundredths of a whole turn; the median of the trials

    Raises ResultError when nothing was measured.
    """
    data = columns(result.data, _COLUMNS, "This run")
    per_ns = 100 / (1000 * result.parameters["turn_us"])
    data = data.assign(phase_percent=per_ns * data.phase_ns, waited_percent=per_ns * data.late_ns)
    grouped = data.groupby(["off", "situation", "phase_percent"], sort=False)["waited_percent"]
    return grouped.median().reset_index()


@draws(KIND, own_clocks=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A column for each situation, a row for each feature that was off."""
    check_predictions([], predictions)
    table = frame(result)
    parts = {HEADS.get(name, name): table[table.situation == name] for name in table.situation.unique()}
    pale = None
    if recorded is not None:
        behind = frame(recorded)
        pale = {HEADS.get(name, name): behind[behind.situation == name] for name in table.situation.unique()}
    handles = also_in_legend(recorded, ())
    means = result.summary().assign(head=[HEADS.get(n, n) for n in result.summary().situation])
    return Figure(
        _grid(parts, pale, handles),
        alt=_alt(means),
        caption=_caption(means),
        data=table,
        also=(means,),
        title="How long a thread waits that wakes in the middle of another one's turn",
    )


def by_kernel(results: Sequence[Drawable], situation: str, offs: Sequence[str] | None = None) -> Figure:
    """One situation on several kernels: a column for each of these runs, a row for each feature in `offs`.

    Raises ParameterError where none of them has that situation.
    """
    named = {f"Linux {_kernel(one)}": one for one in results if situation in set(one.data.situation)}
    tables = {name: frame(one) for name, one in named.items()}
    tables = {name: table[table.situation == situation] for name, table in tables.items()}
    if not tables:
        raise ParameterError(f"No run has the situation {situation!r}.", f"There are: {', '.join(HEADS)}.")
    means = pd.concat([one.summary().assign(head=name) for name, one in named.items()])
    means = means[means.situation == situation]
    if offs is not None:
        means = means[means.off.isin(offs)]
        tables = {name: table[table.off.isin(offs)] for name, table in tables.items()}
    data = pd.concat([table.assign(kernel=name) for name, table in tables.items()], ignore_index=True)
    packages = [str(one.machine.get("kernel_package") or "").partition(" ")[2] for one in results]
    emulator = str(results[0].machine.get("emulator") or "QEMU").partition(" (")[0]
    many = "kernels" if len(packages) > 1 else "kernel"
    return Figure(
        _grid(tables, None, []),
        KIND,
        alt=_alt(means, "nothing turned off"),  # not as it is: guests have HRTICK on
        caption=_caption(means),
        data=data,
        also=(means,),
        provenance=f"Deterministic under {emulator}, on one CPU: Debian {many} {listed(packages)}.",
        title=f"How long a waking thread waits with {HEADS[situation]}, by kernel",
    )


def _kernel(result: Drawable) -> str:
    release = re.match(r"\d+\.\d+", str(result.machine.get("kernel") or ""))
    return release[0] if release else "unknown"


def _grid(
    parts: dict[str, pd.DataFrame], pale: dict[str, pd.DataFrame] | None, handles: list[Line2D]
) -> Drawing:
    """Panels: a column for each part, a row for each feature; what is left of the turn as a line."""
    offs = list(dict.fromkeys(off for table in parts.values() for off in table.off))
    shown = [*parts.values(), *([] if pale is None else pale.values())]
    most = max(112.0, 1.05 * max(table.waited_percent.max() for table in shown if len(table)))
    handles = [
        Line2D([], [], color=style.colour(style.WAKEUP), marker="o", markersize=4, label="how long it waits"),
        Line2D([], [], color=style.colour(style.NEUTRAL), linewidth=1.2, label="what was left of the turn"),
        *handles,
    ]
    with style.drawing():
        drawing = canvas(86 + max(150, 80 * len(offs)) + 20 * (len(handles) - 1))
        grid = drawing.subplots(len(offs), len(parts), squeeze=False, sharex=True, sharey=True)
        for row, off in zip(grid, offs, strict=True):
            for place, (ax, (head, table)) in enumerate(zip(row, parts.items(), strict=True)):
                if off == offs[0]:
                    ax.set_title(head)
                if pale is not None:
                    _line(ax, pale[head][pale[head].off == off], style.RECORDED)
                _line(ax, table[table.off == off], style.WAKEUP)
                ax.plot([0, 100], [100, 0], color=style.colour(style.NEUTRAL), linewidth=1.2, zorder=1.8)
                ax.set_xlim(0, 100)
                ax.set_ylim(0, most)
                ax.set_xticks([0, 50, 100], ["0", "50", "100 %"])
                ax.set_yticks([0, 100], ["0", "100 %"])
                if place == 0 and off != offs[0]:
                    ax.set_title(_row(off), fontweight="normal", fontsize=style.SMALL, pad=3)
        drawing.supxlabel("when it woke: how much of the other one's turn was over", size=style.TEXT)
        drawing.supylabel("wait, of a turn", size=style.TEXT)
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return drawing


def _line(ax: Axes, rows: pd.DataFrame, role: str) -> None:
    ax.plot(rows.phase_percent, rows.waited_percent, color=style.colour(role), marker="o", markersize=3.5,
            linewidth=1.6, clip_on=False, zorder=2.2 if role == style.RECORDED else 3)  # fmt: skip


def _row(off: str) -> str:
    return f"without {off}"


def _caption(means: pd.DataFrame) -> str:
    as_it_is = means[means.off == NOTHING]
    said = listed([f"{row.waited_percent:.0f} % ({row.head})" for row in each(as_it_is)])
    which = "In the first row, averaged" if len(as_it_is) < len(means) else "Averaged"
    return (
        f"{which} over all moments of the turn, the thread that wakes waits {said} of a turn. "
        "The dots are medians over trials; a single wake-up may move these averages."
    )


def _alt(means: pd.DataFrame, first: str = "as it is") -> str:
    """`first` says how the kernel was in the row in which nothing was turned off."""
    told = ["Panels with the wait against the moment of waking, both in hundredths of a turn."]
    for head, rows in means.groupby("head", sort=False):
        names = [first if off == NOTHING else _row(off) for off in rows.off]
        said = ", ".join(
            f"{name} {waited:.0f} %" for name, waited in zip(names, rows.waited_percent, strict=True)
        )
        told.append(f"{head}, on average: {said}.")
    return " ".join(told)
