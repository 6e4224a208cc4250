"""The gallery's long system calls as a figure: how late a real-time thread ran, by preemption model."""

from __future__ import annotations

import pandas as pd
from matplotlib.lines import Line2D

from ..draw import axes, style
from ..draw.base import Figure, canvas, each, listed
from . import gallery


def frame() -> pd.DataFrame:
    """What the figure shows, one row per kernel and preemption model, the latest first.

    kernel, preemption, late_p50_virtual_ns, late_p99_virtual_ns, late_max_virtual_ns: as `gallery.long_calls`
    """
    table = gallery.long_calls()
    return table.sort_values("late_max_virtual_ns", ascending=False, kind="stable").reset_index(drop=True)


def long_calls() -> Figure:
    """A row per kernel and model: from half of the wake-ups (mark) to the latest (tick), in virtual time."""
    table = frame()
    colour = style.colour(style.WAKEUP)
    with style.drawing(), axes.clock(axes.VIRTUAL):
        drawing = canvas(24 * len(table) + 110)
        ax = drawing.add_subplot()
        low, high = table["late_p50_virtual_ns"].min(), table["late_max_virtual_ns"].max()
        axes.log_time(ax, "x", low / 1.5, high * 1.5)
        ax.xaxis.get_major_formatter().set_offset_string("")  # type: ignore[attr-defined]
        axes.rows(ax, [f"{row.kernel} · {row.preemption}" for row in each(table)])
        for y, row in enumerate(each(table)):
            ends = row.late_p50_virtual_ns, row.late_max_virtual_ns
            ax.plot(ends, [y, y], color=colour, linewidth=2.4)
            ax.plot(ends[0], y, marker="o", color=colour)
            ax.plot(ends[1], y, marker="|", markersize=11, markeredgewidth=2, color=colour)
        ax.set_xlabel("how late it ran, in virtual ns (one instruction each)")
        drawing.legend(
            handles=[
                Line2D(
                    [],
                    [],
                    color=colour,
                    marker="o",
                    label="half of its wake-ups (mark) to the latest (line's end)",
                )
            ],
            loc="outside upper left",
        )
        figure = Figure(
            drawing,
            "long_system_call",
            alt=_alt(table),
            caption=_caption(table),
            provenance=_provenance(table),
            data=table,
            title="How late a real-time thread runs beside long system calls",
        )
    figure.timing = axes.VIRTUAL
    return figure


def _caption(table: pd.DataFrame) -> str:
    worst, best = (
        f"{axes.time_text(row['late_max_virtual_ns'])} on {row['kernel']} ({row['preemption']})"
        for row in (table.iloc[0], table.iloc[-1])
    )
    return f"Beside long system calls a real-time thread is late at worst by {worst}, and by {best}."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Lines on a logarithmic axis of virtual time, by kernel and preemption model."]
    parts += [
        f"{row.kernel}, {row.preemption}: half within {axes.time_text(row.late_p50_virtual_ns)}, all within "
        f"{axes.time_text(row.late_max_virtual_ns)}."
        for row in each(table)
    ]
    return " ".join(parts)


def _provenance(table: pd.DataFrame) -> str:
    qemu = gallery.answers("long_system_call")[0]["key"]["qemu"].partition(" (")[0]
    kernels = listed(list(dict.fromkeys(table["kernel"])))
    return f"Deterministic under QEMU {qemu}, on one CPU: Linux {kernels}."
