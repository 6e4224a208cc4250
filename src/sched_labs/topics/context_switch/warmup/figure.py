"""What a switch costs a program that uses its caches: direct cost and warm-up against the working set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from sched_labs.core.errors import ParameterError, ResultError
from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    each,
    highest,
    interval_in_legend,
    machine_name,
    provenance,
)

KIND = "warmup.sweep"
_COLUMNS = (
    "access", "working_set_bytes", "partner_bytes", "alone_ns", "extra_ns", "extra_lo_ns", "extra_hi_ns",
    "floor_ns", "seen", "direct_ns", "direct_lo_ns", "direct_hi_ns",
)  # fmt: skip
# Both kinds of access are warm-up and keep its colour; the marker and the weight tell them apart.
_MARKERS = {"random": "o", "sequential": "s"}
_WIDTHS = {"random": 2.6, "sequential": 1.5}


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per access pattern and working set, smallest first.

    - access: "random" or "sequential"
    - working_set_bytes: what the measured thread touches in a pass
    - partner_bytes: what the other thread touches in between; the largest that was measured at this size
    - alone_ns: one pass with nobody in between, median of the trials
    - extra_ns, extra_lo_ns, extra_hi_ns: how much longer a pass takes after a switch (the warm-up), median
      and 95 % interval; may be negative
    - floor_ns: the noise floor, A against A; infinite when there were too few trials to know it
    - seen: whether all of the extra's interval lies beyond the floor
    - direct_ns, direct_lo_ns, direct_hi_ns: one switch with a partner that touches nothing
    - extra_over_direct: the warm-up in units of the direct cost

    Raises ResultError when the result holds no pass after a switch.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this warm-up sweep")
    table = table[table["partner_bytes"] > 0]
    largest = table.groupby(["access", "working_set_bytes"])["partner_bytes"].transform("max")
    table = columns(
        table[table["partner_bytes"] == largest], _COLUMNS, "The part of this sweep with a partner"
    )
    table["extra_over_direct"] = table["extra_ns"] / table["direct_ns"]
    return table.sort_values(["access", "working_set_bytes"], ignore_index=True)


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw warm-up and direct cost per switch against the working set, caches marked."""
    table = frame(result)
    pale = None if recorded is None else _same_access(frame(recorded), table)
    with style.drawing():
        drawing = canvas(410)
        ax = drawing.add_subplot()
        _axes(ax, table, pale, predictions)
        handles = [*_curves(ax, table), *_direct(ax, table), *_floor(ax, table)]
        if pale is not None and recorded is not None:
            handles += _recorded(ax, pale, machine_name(recorded.machine))
        handles += _predictions(ax, predictions)
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        ax.set_xlabel(_sizes_label(table))
        ax.set_ylabel("cost of one switch")
        _peak(ax, table)
        drawing.draw_without_rendering()
        axes.mark_x(ax, axes.caches(result.machine))
    return Figure(
        drawing,
        alt=_alt(result, table),
        caption=_caption(table),
        data=table,
        title="Cost of a context switch against the working set",
    )


def _same_access(pale: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    return pale[pale["access"].isin(table["access"].unique())].reset_index(drop=True)


def _axes(ax: Axes, table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> None:
    shown = table if pale is None else pd.concat([table, pale], ignore_index=True)
    values = shown[["extra_ns", "extra_lo_ns", "extra_hi_ns", "direct_ns", "direct_lo_ns", "direct_hi_ns"]]
    finite = values.to_numpy(dtype=float).ravel()
    finite = finite[np.isfinite(finite)]
    times = [p.ns for p in predictions if p.ns is not None]
    high = max([*finite, *times, 1.0])
    # An interval that reaches far below zero belongs to a point in the noise; the axis follows the medians.
    medians = shown["extra_ns"].to_numpy(dtype=float)
    low = min([*medians[np.isfinite(medians)], 0.0])
    linear = linear_ns(table)
    # Room at the top for the names of the caches.
    axes.symlog_time(ax, bottom_ns(low, linear), max(high, linear) * 5, linear)
    sizes = [*shown["working_set_bytes"], *(p.size_bytes for p in predictions if p.size_bytes is not None)]
    axes.log_size(ax, min(sizes) / 1.5, max(sizes) * 1.5)
    ax.axhline(0, color=style.colour(style.NEUTRAL), linewidth=1.0, zorder=1.6)


def bottom_ns(lowest_ns: float, linear: float) -> float:
    """Where the axis ends below zero: just below it, or below the lowest median where one is negative."""
    return min(-linear, lowest_ns * 1.6) if lowest_ns < 0 else -0.4 * linear


def linear_ns(table: pd.DataFrame) -> float:
    """Where the logarithmic axis turns linear to pass through zero: the power of ten nearest to the noise.

    At least 100 ns, because nobody plans a program around less, and below the direct cost.
    """
    floors = table["floor_ns"].to_numpy(dtype=float)
    floors = floors[np.isfinite(floors) & (floors > 0)]
    direct = table["direct_ns"].to_numpy(dtype=float)
    direct = direct[np.isfinite(direct) & (direct > 0)]
    noise = round(math.log10(np.median(floors))) if floors.size else 2
    most = math.floor(math.log10(np.median(direct))) if direct.size else 9
    return 10.0 ** max(2, min(noise, most))


def _curves(ax: Axes, table: pd.DataFrame) -> list[Any]:
    handles = []
    colour, paper = style.colour(style.WARMUP), style.colour(style.PAPER)
    for access, rows in table.groupby("access", sort=True):
        x, y = rows["working_set_bytes"].to_numpy(float), rows["extra_ns"].to_numpy(float)
        marker, width = _MARKERS.get(str(access), "D"), _WIDTHS.get(str(access), 1.5)
        _join(ax, x, y, rows["seen"].to_numpy(bool), color=colour, linewidth=width, zorder=3)
        for seen in (True, False):
            part = rows[rows["seen"].astype(bool) == seen]
            known = part[np.isfinite(part["extra_lo_ns"]) & np.isfinite(part["extra_hi_ns"])]
            ax.vlines(
                known["working_set_bytes"],
                known["extra_lo_ns"],
                known["extra_hi_ns"],
                color=colour,
                alpha=1.0 if seen else 0.4,
                linewidth=1.6,
                zorder=3.2,
            )
            ax.plot(
                part["working_set_bytes"].to_numpy(float),
                part["extra_ns"].to_numpy(float),
                linestyle="none",
                marker=marker,
                color=colour,
                markerfacecolor=colour if seen else paper,
                markeredgewidth=1.8,
                zorder=3.4,
                label="seen" if seen else "no difference seen",
            )
        filled = bool(rows["seen"].any())
        handles += ax.plot(
            [],
            [],
            color=colour,
            linewidth=width,
            marker=marker,
            markerfacecolor=colour if filled else paper,
            markeredgewidth=1.8,
            label=f"warm-up, {access} access",
        )
    return handles + interval_in_legend(style.WARMUP, table["extra_hi_ns"], upright=True)


def _join(ax: Axes, x: Any, y: Any, seen: Any, **look: Any) -> None:
    """The line through the points, faint where it leads to a point that says nothing."""
    strong = seen[:-1] & seen[1:]
    for start, clear in enumerate(strong):
        if start and strong[start - 1] == clear:
            continue
        stop = start
        while stop < strong.size and strong[stop] == clear:
            stop += 1
        ax.plot(x[start : stop + 1], y[start : stop + 1], alpha=1.0 if clear else 0.4, **look)


def _direct(ax: Axes, table: pd.DataFrame) -> list[Any]:
    rows = table[(table["access"] == table["access"].iloc[0]) & np.isfinite(table["direct_ns"])]
    if rows.empty:
        return []
    # A level across the axes when there is one value, a line over the sizes when each size has its own.
    one = rows["direct_ns"].nunique() == 1
    x = np.array(ax.get_xlim()) if one else rows["working_set_bytes"].to_numpy(float)
    middle, low, high = (
        rows[name].to_numpy(float)[[0, 0]] if one else rows[name].to_numpy(float)
        for name in ("direct_ns", "direct_lo_ns", "direct_hi_ns")
    )
    colour = style.colour(style.DIRECT)
    if np.isfinite(low).all() and np.isfinite(high).all():
        ax.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0, zorder=2)
    return ax.plot(x, middle, color=colour, zorder=2.8, label="direct cost of a switch")


def _sizes_label(table: pd.DataFrame) -> str:
    partners = table["partner_bytes"].unique()
    if len(partners) > 1:
        return "working set"
    return f"working set (its partner touches {axes.size_text(partners[0])})"


def _floor(ax: Axes, table: pd.DataFrame) -> list[Any]:
    """The noise floor of each access pattern, that of sequential access darker on top of the other."""
    handles: list[Any] = []
    looks = {"random": {"color": style.colour(style.FLOOR)}}
    darker = {"color": style.colour(style.NEUTRAL), "alpha": 0.14}
    for access, rows in table.groupby("access", sort=True):
        rows = rows[np.isfinite(rows["floor_ns"])]
        if rows.empty:
            continue
        x, y = rows["working_set_bytes"].to_numpy(float), rows["floor_ns"].to_numpy(float)
        # Half a step beyond the outer points, so that a single size has a band too.
        x = np.concatenate([[x[0] / 1.3], x, [x[-1] * 1.3]])
        y = np.concatenate([[y[0]], y, [y[-1]]])
        look = looks.get(str(access), darker)
        handles.append(
            ax.fill_between(x, -y, y, linewidth=0, zorder=0.6, label=f"noise floor, {access}", **look)
        )
    if not table["seen"].all():
        neutral = style.colour(style.NEUTRAL)
        handles += ax.plot(
            [],
            [],
            linestyle="none",
            marker="o",
            color=neutral,
            markerfacecolor=style.colour(style.PAPER),
            markeredgewidth=1.8,
            label="hollow: no difference seen",
        )
    return handles


def _recorded(ax: Axes, pale: pd.DataFrame, name: str) -> list[Any]:
    colour = style.colour(style.RECORDED)
    for access, rows in pale.groupby("access", sort=True):
        x, y = rows["working_set_bytes"].to_numpy(float), rows["extra_ns"].to_numpy(float)
        _join(ax, x, y, rows["seen"].to_numpy(bool), color=colour, linewidth=1.6, zorder=2.4)
        marker = _MARKERS.get(str(access), "D")
        ax.plot(x, y, linestyle="none", marker=marker, color=colour, markersize=5, zorder=2.4)
    return ax.plot([], [], color=colour, linewidth=1.6, marker="o", markersize=5, label=f"recorded: {name}")


def _predictions(ax: Axes, predictions: Predictions) -> list[Any]:
    handles = []
    for made in predictions:
        if made.ns is not None:
            text = f"{made.label}: {axes.time_text(made.ns)}"
            handles.append(ax.axhline(made.ns, label=text, **dashed()))
        elif made.size_bytes is not None:
            text = f"{made.label}: {axes.size_text(made.size_bytes)}"
            handles.append(ax.axvline(made.size_bytes, label=text, **dashed()))
        else:
            raise ParameterError(
                f"A prediction in {made.unit!r} has no axis on this figure.", "Give a time or a size."
            )
    return handles


def _peak(ax: Axes, table: pd.DataFrame) -> None:
    """The two costs side by side where they differ most: an arrow from the direct cost to the warm-up."""
    tops = [top for name in table["access"].unique() if (top := _top(table, str(name))) is not None]
    top = max(tops, key=lambda row: float(row["extra_ns"]), default=None)
    if top is None or not top["direct_ns"] > 0 or top["extra_over_direct"] < 2:
        return
    x, high, low = (float(top[name]) for name in ("working_set_bytes", "extra_ns", "direct_ns"))
    ink = style.colour(style.INK)
    ax.annotate(
        "",
        (x, high),
        xytext=(x, low),
        arrowprops={"arrowstyle": "<->", "color": ink, "linewidth": 1.3, "shrinkA": 2, "shrinkB": 7},
        zorder=4,
    )
    _beside(ax, f"{axes.number_text(high / low, 2)} times", x, low, high)


def _beside(ax: Axes, text: str, x: float, low: float, high: float) -> None:
    """Write a text next to the arrow at x, where the fewest lines and marks pass behind it."""
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    renderer = ax.figure._get_renderer()  # type: ignore[union-attr]
    lines = [line.get_path() for line in ax.get_lines() if len(line.get_xdata()) > 1]  # type: ignore[arg-type]
    drawn = np.concatenate([ax.transData.transform(path.interpolated(40).vertices) for path in lines])
    label = ax.annotate(
        text, (x, high), xytext=(0, 0), textcoords="offset points", va="center", weight="bold", zorder=5
    )
    inside = ax.get_window_extent(renderer).contains

    def put(part: float, right: bool) -> Any:
        label.xy = (x, low ** (1 - part) * high**part)
        label.set_horizontalalignment("left" if right else "right")
        label.set_position((7 if right else -7, 0))
        return label.get_window_extent(renderer)

    def covered(place: tuple[float, bool]) -> int:
        box = put(*place)
        outside = not (inside(box.x0, box.y0) and inside(box.x1, box.y1))
        return int(box.padded(3).count_contains(drawn)) + 10_000 * outside

    put(*min(((part, right) for part in (0.5, 0.35, 0.65, 0.8, 0.2) for right in (True, False)), key=covered))


def _top(table: pd.DataFrame, access: str) -> pd.Series | None:
    """The largest warm-up that is seen."""
    rows = table[(table["access"] == access) & table["seen"].astype(bool) & (table["extra_ns"] > 0)]
    return None if rows.empty else highest(rows, "extra_ns")


def _caption(table: pd.DataFrame) -> str:
    names = [str(name) for name in table["access"].unique()]
    tops = {name: top for name in names if (top := _top(table, name)) is not None}
    if not tops:
        direct = table["direct_ns"].median()
        return "No warm-up cost stands clear of the noise at any working set" + (
            f"; the switch itself costs {axes.time_text(direct)}." if direct > 0 else "."
        )
    name, top = max(tops.items(), key=lambda item: float(item[1]["extra_ns"]))
    size, direct = top["working_set_bytes"], top["direct_ns"]
    sentence = (
        f"With {axes.size_text(size)} of {name} access, warming up after a switch costs "
        f"{axes.time_text(top['extra_ns'])} (interval {axes.time_text(top['extra_lo_ns'])} to "
        f"{axes.time_text(top['extra_hi_ns'])})"
    )
    if direct > 0:
        times = axes.number_text(top["extra_over_direct"], 2)
        sentence += f", {times} times the switch itself ({axes.time_text(direct)})"
    for other in names:
        row = table[(table["access"] == other) & (table["working_set_bytes"] == size)]
        if other == name or row.empty:
            continue
        extra = float(row["extra_ns"].iloc[0])
        value = axes.time_text(extra) if extra > 0 else f"a pass takes {axes.time_text(-extra)} less"
        if not bool(row["seen"].iloc[0]):
            value = "nothing that stands clear of the noise"
        sentence += f"; with {other} access, {value}"
    return f"{sentence}."


def _alt(result: Drawable, table: pd.DataFrame) -> str:
    sizes = table["working_set_bytes"]
    parts = [
        "Line plot with logarithmic axes: time that one switch costs against the working set, "
        f"from {axes.size_text(sizes.min())} to {axes.size_text(sizes.max())}."
    ]
    direct = table["direct_ns"].dropna()
    if not direct.empty:
        parts.append(f"The direct cost is {axes.range_text(direct.min(), direct.max())}.")
    for access, rows in table.groupby("access", sort=True):
        values = ", ".join(
            f"{axes.size_text(row.working_set_bytes)} {axes.time_text(row.extra_ns)}"
            f"{'' if row.seen else ' (no difference seen)'}"
            for row in each(rows)
        )
        parts.append(f"Warm-up with {access} access: {values}.")
    known = axes.caches(result.machine)
    if known:
        parts.append(f"Caches of this machine: {', '.join(known)}.")
    return " ".join(parts)


def grid_frame(result: Drawable) -> pd.DataFrame:
    """What the grid shows, one row per partner and working set with random access, smallest first.

    - partner_bytes: what the other thread touches in between
    - working_set_bytes: what the measured thread touches in a pass
    - extra_ns: how much longer a pass takes after a switch
    - seen: whether all of the extra's interval lies beyond the floor

    Raises ResultError when fewer than two partners were measured.
    """
    names = ("access", "partner_bytes", "working_set_bytes", "extra_ns", "seen")
    table = columns(result.summary(), names, "The summary of this warm-up sweep")
    table = table[(table["access"] == "random") & (table["partner_bytes"] > 0)].drop(columns="access")
    if table["partner_bytes"].nunique() < 2:
        raise ResultError(
            "This sweep has one partner only: there is no grid to draw.",
            "Run it in the quick profile, or give grid_partners_bytes.",
        )
    # Only sets that met every partner.
    complete = table.groupby("working_set_bytes")["partner_bytes"].transform("nunique")
    table = table[complete == table["partner_bytes"].nunique()]
    return table.sort_values(["partner_bytes", "working_set_bytes"], ignore_index=True)


def grid(result: Drawable) -> Figure:
    """Draw victim against partner: the darker a field, the more a switch cost the victim.

    Raises ResultError for a sweep with fewer than two partners.
    """
    table = grid_frame(result)
    victims, partners = sorted(set(table["working_set_bytes"])), sorted(set(table["partner_bytes"]))
    seen = table[table["seen"].astype(bool) & (table["extra_ns"] > 0)]
    low, high = (seen["extra_ns"].min(), seen["extra_ns"].max()) if len(seen) else (1.0, 10.0)
    span = math.log(high / low) or 1.0
    with style.drawing():
        drawing = canvas(90 + 34 * len(partners))
        ax = drawing.add_subplot()
        for row in each(table):
            x, y = victims.index(row.working_set_bytes), partners.index(row.partner_bytes)
            clear = bool(row.seen) and row.extra_ns > 0
            share = math.log(row.extra_ns / low) / span if clear else 0.0
            ax.add_patch(
                Rectangle(
                    (x - 0.5, y - 0.5), 1, 1, linewidth=0, zorder=1,
                    facecolor=style.colour(style.WARMUP if clear else style.FLOOR),
                    alpha=0.12 + 0.6 * share if clear else 1.0,
                )
            )  # fmt: skip
            text = axes.number_text(row.extra_ns / 1000, 2) if clear else "·"
            ax.text(x, y, text, ha="center", va="center", fontsize=style.SMALL, zorder=2)
        ax.set_xlim(-0.5, len(victims) - 0.5)
        ax.set_ylim(-0.5, len(partners) - 0.5)
        ax.set_xticks(range(len(victims)), [axes.size_text(size).replace(" ", "\n") for size in victims])
        ax.set_yticks(range(len(partners)), [axes.size_text(size) for size in partners])
        ax.tick_params(length=0)
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_xlabel("working set of the thread")
        ax.set_ylabel("touched in between")
        ax.set_title("µs more for a walk after the switch (·: no difference seen)")
    return Figure(
        drawing,
        KIND,
        alt=_grid_alt(table),
        caption=_grid_caption(table),
        provenance=provenance(result, None),
        data=table,
        title="Warm-up by working set and by what was touched in between",
    )


def _grid_caption(table: pd.DataFrame) -> str:
    seen = table[table["seen"].astype(bool) & (table["extra_ns"] > 0)]
    if seen.empty:
        return "No field stands clear of the noise."
    least, *_, most = each(seen.sort_values("extra_ns").iloc[[0, -1]])

    def said(row: Any) -> str:
        set_size, partner = axes.size_text(row.working_set_bytes), axes.size_text(row.partner_bytes)
        return f"{axes.time_text(row.extra_ns)} with {set_size} and a partner of {partner}"

    return f"One switch costs from {said(least)} to {said(most)}: it depends on both sets."


def _grid_alt(table: pd.DataFrame) -> str:
    parts = ["Grid of the warm-up after a switch, by working set and by what the partner touched."]
    for partner, rows in table.groupby("partner_bytes", sort=True):
        said = ", ".join(
            f"{axes.size_text(row.working_set_bytes)} "
            f"{axes.time_text(row.extra_ns) if row.seen else 'no difference seen'}"
            for row in each(rows)
        )
        parts.append(f"Partner of {axes.size_text(float(str(partner)))}: {said}.")
    return " ".join(parts)
