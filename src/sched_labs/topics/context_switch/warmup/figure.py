"""What a switch costs a program that uses its caches: direct cost and warm-up against the working set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

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
    provenance,
    recorded_name,
)

KIND = "warmup.sweep"
_COLUMNS = (
    "access", "working_set_bytes", "partner_bytes", "alone_ns", "extra_ns", "extra_lo_ns", "extra_hi_ns",
    "floor_ns", "seen", "direct_ns", "direct_lo_ns", "direct_hi_ns",
)  # fmt: skip
_BELOW = "v"  # the marker of a value that the axis does not reach


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
    - extra_over_direct: the warm-up in units of the direct cost, where that stands above zero

    Raises ResultError when the result holds no pass after a switch.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this warm-up sweep")
    table = table[table["partner_bytes"] > 0]
    largest = table.groupby(["access", "working_set_bytes"])["partner_bytes"].transform("max")
    table = columns(
        table[table["partner_bytes"] == largest], _COLUMNS, "The part of this sweep with a partner"
    )
    table["extra_over_direct"] = table["extra_ns"] / table["direct_ns"].where(table["direct_lo_ns"] > 0)
    return table.sort_values(["access", "working_set_bytes"], ignore_index=True)


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """A panel for each access pattern: warm-up and direct cost of a switch against the working set."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    names = list(table["access"].unique())
    low, high = _limits(table, pale, predictions)
    handles = _handles(table, low, recorded, predictions)
    with style.drawing():
        drawing = canvas(60 + 190 * len(names) + 20 * math.ceil(len(handles) / 2))
        drawing.set_layout_engine("constrained", h_pad=7 / 72)
        stack = list(drawing.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0])
        for ax, access in zip(stack, names, strict=True):
            rows = table[table["access"] == access]
            axes.log_time(ax, "y", low, high)
            axes.log_size(ax, *_sizes(table, pale, predictions))
            _panel(ax, rows, None if pale is None else pale[pale["access"] == access], predictions)
            ax.set_title(_message(rows))
        stack[-1].set_xlabel(_sizes_label(table))
        drawing.supylabel("cost of one switch", size=style.TEXT)
        if handles:
            drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        drawing.draw_without_rendering()
        left, right = stack[0].get_xlim()
        marks = {name: x for name, x in axes.caches(result.machine).items() if left <= x <= right}
        axes.mark_x(stack[0], marks)
        for ax, access in zip(stack, names, strict=True):
            _name(ax, table[table["access"] == access])
    return Figure(
        drawing,
        alt=_alt(table, marks),
        caption=_caption(table),
        data=table,
        title="Cost of a context switch against the working set",
    )


def _limits(table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> tuple[float, float]:
    """From below what is seen and what a switch costs to the longest, with room for the names of the caches.

    What is below stands at the axis's lower edge: it lies in the noise, or a pass took less than alone.
    """
    guessed = [made.ns for made in predictions if made.ns is not None]
    seen = table.loc[table["seen"].astype(bool), "extra_ns"]
    least = [float(ns) for ns in (*seen, *table["direct_ns"], *guessed) if math.isfinite(ns) and ns > 0]
    low = min(least, default=1e3) / 3
    shown = table if pale is None else pd.concat([table, pale], ignore_index=True)
    most = shown[["extra_ns", "extra_hi_ns", "direct_ns", "direct_hi_ns"]].to_numpy(dtype=float).ravel()
    return low, 6 * max(*most[np.isfinite(most)], *guessed, 10 * low)


def _sizes(table: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> tuple[float, float]:
    shown = table if pale is None else pd.concat([table, pale], ignore_index=True)
    sizes = [*shown["working_set_bytes"], *(p.size_bytes for p in predictions if p.size_bytes is not None)]
    return min(sizes) / 1.5, max(sizes) * 1.5


def _message(rows: pd.DataFrame) -> str:
    """What a panel says."""
    access = str(rows["access"].iloc[0])
    top = _top(rows, access)
    if top is None:
        return f"{access.capitalize()} access: no warm-up stands clear of the noise"
    most, size = axes.time_text(top["extra_ns"]), axes.size_text(top["working_set_bytes"])
    return f"{access.capitalize()} access: up to {most} ({size})"


def _panel(ax: Axes, rows: pd.DataFrame, pale: pd.DataFrame | None, predictions: Predictions) -> None:
    _floor(ax, rows)
    _direct(ax, rows)
    if pale is not None:
        _curve(ax, pale, style.RECORDED)
    _curve(ax, rows, style.WARMUP)
    for made in predictions:
        if made.ns is not None:
            ax.axhline(made.ns, **dashed())
        elif made.size_bytes is not None:
            ax.axvline(made.size_bytes, **dashed())


def _curve(ax: Axes, rows: pd.DataFrame, name: str) -> None:
    """Points, hollow where no difference was seen; a line joins those that say something."""
    own, colour, (low, _) = name == style.WARMUP, style.colour(name), ax.get_ylim()
    x, values = rows["working_set_bytes"].to_numpy(float), rows["extra_ns"].to_numpy(float)
    seen = rows["seen"].to_numpy(bool)
    ax.plot(x, np.where(seen & (values >= low), values, np.nan), color=colour, linewidth=2.6 if own else 1.6,
            zorder=3 if own else 2.4)  # fmt: skip
    if own:
        known = rows[np.isfinite(rows["extra_lo_ns"]) & (rows["extra_hi_ns"] < np.inf)]
        for row in each(known[known["extra_hi_ns"] > low]):
            ends = (max(row.extra_lo_ns, low), row.extra_hi_ns)
            ax.vlines(row.working_set_bytes, *ends, color=colour, alpha=1.0 if row.seen else 0.4,
                      linewidth=1.6, zorder=3.2)  # fmt: skip
    for clear, inside in itertools.product((True, False), repeat=2):
        part = (seen == clear) & ((values >= low) == inside)
        if not part.any():
            continue  # the layout would make room for marks that are nowhere
        ax.plot(x[part], values[part].clip(low), linestyle="none", marker="o" if inside else _BELOW,
                color=colour, markerfacecolor=colour if clear else style.colour(style.PAPER), clip_on=False,
                markersize=7.5 if own else 5, markeredgewidth=1.8 if own else 1.2,
                zorder=3.4 if own else 2.5)  # fmt: skip


def _direct(ax: Axes, rows: pd.DataFrame) -> None:
    rows = rows[np.isfinite(rows["direct_ns"])]
    if rows.empty:
        return
    # A level across the axes when there is one value, a line over the sizes when each size has its own.
    one = rows["direct_ns"].nunique() == 1
    x = np.array(ax.get_xlim()) if one else rows["working_set_bytes"].to_numpy(float)
    middle, low, high = (
        rows[name].to_numpy(float)[[0, 0]] if one else rows[name].to_numpy(float)
        for name in ("direct_ns", "direct_lo_ns", "direct_hi_ns")
    )
    colour = style.colour(style.DIRECT)
    if np.isfinite(low).all() and np.isfinite(high).all():
        low = low.clip(ax.get_ylim()[0])
        ax.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0, zorder=2)
    ax.plot(x, middle, color=colour, zorder=2.8)


def _sizes_label(table: pd.DataFrame) -> str:
    partners = table["partner_bytes"].unique()
    if len(partners) > 1:
        return "working set"
    return f"working set (its partner touches {axes.size_text(partners[0])})"


def _floor(ax: Axes, rows: pd.DataFrame) -> None:
    rows = rows[np.isfinite(rows["floor_ns"])]
    if rows.empty:
        return
    x, y = rows["working_set_bytes"].to_numpy(float), rows["floor_ns"].to_numpy(float)
    # Half a step beyond the outer points, so that a single size has a band too.
    x, y = np.concatenate([[x[0] / 1.3], x, [x[-1] * 1.3]]), np.concatenate([[y[0]], y, [y[-1]]])
    low = ax.get_ylim()[0]
    ax.fill_between(x, low, y.clip(low), color=style.colour(style.FLOOR), linewidth=0, zorder=0.6)


def _handles(
    table: pd.DataFrame, low: float, recorded: Drawable | None, predictions: Predictions
) -> list[Any]:
    neutral, paper = style.colour(style.NEUTRAL), style.colour(style.PAPER)
    mark: dict[str, Any] = {"linestyle": "none", "color": neutral, "markerfacecolor": paper}
    handles: list[Any] = []
    if np.isfinite(table["floor_ns"]).any():
        handles.append(Patch(color=style.colour(style.FLOOR), label="noise floor"))
    if not table["seen"].all():
        handles.append(
            Line2D([], [], marker="o", markeredgewidth=1.8, label="hollow: no difference seen", **mark)
        )
    if (table["extra_ns"] < low).any():
        handles.append(Line2D([], [], marker=_BELOW, markeredgewidth=1.8, label="below the axis", **mark))
    handles += interval_in_legend(style.WARMUP, table["extra_hi_ns"], upright=True)
    if recorded is not None:
        look: dict[str, Any] = {
            "color": style.colour(style.RECORDED),
            "linewidth": 1.6,
            "marker": "o",
            "markersize": 5,
        }
        handles.append(Line2D([], [], label=recorded_name(recorded), **look))
    for made in predictions:
        if made.ns is None and made.size_bytes is None:
            raise ParameterError(
                f"A prediction in {made.unit!r} has no axis on this figure.", "Give a time or a size."
            )
        said = axes.size_text(made.size_bytes or 0) if made.ns is None else axes.time_text(made.ns)
        handles.append(Line2D([], [], label=f"{made.label}: {said}", **dashed()))
    return handles


def _name(ax: Axes, rows: pd.DataFrame) -> None:
    """Say what the two lines are, and how they differ where they differ most: an arrow between them."""
    top = _top(rows, str(rows["access"].iloc[0]))
    if top is not None and top["extra_over_direct"] >= 2:
        x, high, low = (float(top[name]) for name in ("working_set_bytes", "extra_ns", "direct_ns"))
        look = {"arrowstyle": "<->", "color": style.colour(style.INK), "linewidth": 1.3}
        ax.annotate("", (x, high), xytext=(x, low), arrowprops={**look, "shrinkA": 2, "shrinkB": 7}, zorder=4)
        parts = [
            (low ** (1 - part) * high**part, side) for part in (0.5, 0.35, 0.65, 0.8, 0.2) for side in (7, -7)
        ]
        times = f"{axes.number_text(top['extra_over_direct'], 2)} times"
        _write(ax, times, [(x, y, side, 0) for y, side in parts], weight="bold")
    lines = {"warm-up": rows[rows["seen"].astype(bool)].set_index("working_set_bytes")["extra_ns"],
             "the switch itself": rows.set_index("working_set_bytes")["direct_ns"].dropna()}  # fmt: skip
    for name, line in lines.items():
        known = [(float(str(x)), float(y)) for x, y in line.items() if y > ax.get_ylim()[0]]
        if known:
            ways = itertools.product((9, -9, 22, -22, 36, 50), (0, -9, 9))
            _write(ax, name, [(*at, right, up) for up, right in ways for at in known])


def _write(ax: Axes, text: str, spots: Sequence[tuple[float, float, float, float]], **look: Any) -> None:
    """Write a text at that of these spots where the fewest lines, marks and words are behind it.

    spots: places in the data, and how many points the text stands to the right of them and above
    """
    renderer = ax.figure._get_renderer()  # type: ignore[union-attr]
    drawn = np.concatenate(
        [
            line.get_transform().transform_path(line.get_path()).interpolated(1 if alone else 40).vertices
            for line in ax.get_lines()
            if (alone := line.get_linestyle() == "None") or len(line.get_xdata()) > 1  # type: ignore[arg-type]
        ]
    )
    written = (*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels())
    words = [word.get_window_extent(renderer) for word in written if word.get_text()]
    label = ax.annotate(
        text, (1, 1), xytext=(0, 0), textcoords="offset points", fontsize=style.SMALL, zorder=5, **look
    )
    frame = ax.get_window_extent(renderer)

    def put(x: float, y: float, right: float, up: float) -> Any:
        label.xy = (x, y)
        label.set_position((right, up))
        label.set_horizontalalignment("left" if right > 0 else "right" if right else "center")
        label.set_verticalalignment("bottom" if up > 0 else "top" if up else "center")
        return label.get_window_extent(renderer)

    def covered(spot: tuple[float, float, float, float]) -> int:
        box = put(*spot)
        inside = frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1)
        crowded = sum(box.padded(3).overlaps(word) for word in words)
        return int(box.padded(3).count_contains(drawn)) + 10_000 * (crowded + (not inside))

    put(*min(spots, key=covered))


def _top(table: pd.DataFrame, access: str) -> pd.Series | None:
    """The largest warm-up that is seen."""
    rows = table[(table["access"] == access) & table["seen"].astype(bool) & (table["extra_ns"] > 0)]
    return None if rows.empty else highest(rows, "extra_ns")


def _caption(table: pd.DataFrame) -> str:
    names = [str(name) for name in table["access"].unique()]
    tops = {name: top for name in names if (top := _top(table, name)) is not None}
    if not tops:
        direct = table.loc[table["direct_lo_ns"] > 0, "direct_ns"].median()
        return "After the largest partner no warm-up stands clear of the noise" + (
            f"; the switch itself costs {axes.time_text(direct)}." if direct > 0 else "."
        )
    name, top = max(tops.items(), key=lambda item: float(item[1]["extra_ns"]))
    size, times = top["working_set_bytes"], top["extra_over_direct"]
    sentence = (
        f"With {axes.size_text(size)} of {name} access, warming up after a switch costs "
        f"{axes.time_text(top['extra_ns'])} (interval {axes.time_text(top['extra_lo_ns'])} to "
        f"{axes.time_text(top['extra_hi_ns'])})"
    )
    if times > 0:
        itself = f"the switch itself at this size ({axes.time_text(top['direct_ns'])})"
        sentence += f", {axes.number_text(times, 2)} times {itself}"
    for other in names:
        row = table[(table["access"] == other) & (table["working_set_bytes"] == size)]
        if other == name or row.empty:
            continue
        extra = float(row["extra_ns"].iloc[0])
        value = axes.time_text(extra) if extra > 0 else f"a pass takes {axes.time_text(-extra)} less"
        if not bool(row["seen"].iloc[0]):
            value = "nothing that stands clear of the noise"
        sentence += f"; at the same size with {other} access, {value}"
    return f"{sentence}."


def _alt(table: pd.DataFrame, marks: Collection[str]) -> str:
    sizes = table["working_set_bytes"]
    parts = [
        "Line plots with logarithmic axes, one for each access pattern: time that one switch costs against "
        f"the working set, from {axes.size_text(sizes.min())} to {axes.size_text(sizes.max())}."
    ]
    direct = table.loc[table["direct_lo_ns"] > 0, "direct_ns"]
    if not direct.empty:
        parts.append(f"The direct cost is {axes.range_text(direct.min(), direct.max())}.")
    for access, rows in table.groupby("access", sort=True):
        values = ", ".join(
            f"{axes.size_text(row.working_set_bytes)} {axes.time_text(row.extra_ns)}"
            f"{'' if row.seen else ' (no difference seen)'}"
            for row in each(rows)
        )
        parts.append(f"Warm-up with {access} access: {values}.")
    if marks:
        parts.append(f"Caches: {', '.join(marks)}.")
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
        ax.set_title("µs more for a walk at random (·: no warm-up seen)")
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
        return "No warm-up stands clear of the noise in any field."
    least, *_, most = each(seen.sort_values("extra_ns").iloc[[0, -1]])

    def said(row: Any) -> str:
        set_size, partner = axes.size_text(row.working_set_bytes), axes.size_text(row.partner_bytes)
        return f"{axes.time_text(row.extra_ns)} with {set_size} and a partner of {partner}"

    if len(seen) == 1:
        other = "that of no other field stands clear of the noise"
        return f"Warming up after one switch costs {said(most)}; {other}."
    return (
        f"Where a field's warm-up after one switch stands clear of the noise, it costs from {said(least)} to "
        f"{said(most)}."
    )


def _grid_alt(table: pd.DataFrame) -> str:
    sizes = table["working_set_bytes"]
    parts = [
        f"Grid of the warm-up after a switch, where one is seen, by working set, from "
        f"{axes.size_text(sizes.min())} to {axes.size_text(sizes.max())}, and by what the partner touched."
    ]
    for partner, rows in table.groupby("partner_bytes", sort=True):
        said = ", ".join(
            f"{axes.size_text(row.working_set_bytes)} {axes.time_text(row.extra_ns)}"
            for row in each(rows[rows["seen"].astype(bool) & (rows["extra_ns"] > 0)])
        )
        parts.append(f"Partner of {axes.size_text(float(str(partner)))}: {said or 'none seen'}.")
    return " ".join(parts)
