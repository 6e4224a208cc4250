"""What sched_yield does: switches per call, voluntary and involuntary, by who else is there."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from sched_labs.draw import axes, style
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Predictions,
    canvas,
    columns,
    draws,
    each,
    interval_in_legend,
    recorded_name,
    times_ns,
)
from sched_labs.topics.context_switch.context_switch.figure import PLACES

KIND = "yielding.semantics"
_COLUMNS = (
    "placement", "policy", "condition", "switches_per_yield", "switches_lo_per_yield",
    "switches_hi_per_yield", "voluntary_per_yield", "involuntary_per_yield", "yield_ns", "counts_agree",
)  # fmt: skip
_POLICIES = ("other", "batch", "fifo")
_CONDITIONS = {"alone": "one yields", "together": "two yield"}
_ROW, _HEAD = 17.0, 42.0


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per placement, policy and condition, in its order.

    - placement: "same_cpu", "other_cpu" or "unpinned"
    - policy: "other", "batch" or "fifo"
    - condition: "alone" (one thread yields) or "together" (two do)
    - switches_per_yield, switches_lo_per_yield, switches_hi_per_yield: the kernel's count, median and 95 %
      interval
    - voluntary_per_yield, involuntary_per_yield: its two kinds
    - yield_ns: how long one call takes one thread
    - counts_agree: whether getrusage and /proc counted the same

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of this run of sched_yield")
    rank = {
        word: number
        for words in (PLACES, _POLICIES, _CONDITIONS)
        for number, word in enumerate(words)  # no word stands in two of them
    }
    by = ["placement", "policy", "condition"]
    return table.sort_values(by, key=lambda words: words.map(rank), ignore_index=True)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw a bar of switches per call for each case, one panel per placement.

    A recorded run is a pale tick on each row.  A prediction is a time and has no axis here: it is refused.
    """
    times_ns(predictions)
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    places = list(dict.fromkeys(table["placement"]))
    with style.drawing():
        heights = [_HEAD + _ROW * len(table[table["placement"] == place]) for place in places]
        drawing = canvas(sum(heights) + 96 + 18 * (recorded is not None))
        panels = drawing.subplots(
            len(places), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        most = max(1.0, float(table["switches_per_yield"].max()))
        for ax, place in zip(panels, places, strict=True):
            ax.set_xlim(0, 1.04 * most)
            _panel(ax, table[table["placement"] == place], pale)
            ax.set_title(PLACES.get(place, place))
        panels[-1].set_xlabel("switches per call of sched_yield")
        drawing.legend(handles=_handles(table, recorded), loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Switches per call of sched_yield",
    )


def _panel(ax: Axes, rows: pd.DataFrame, pale: pd.DataFrame | None) -> None:
    voluntary, involuntary = style.colour(style.WAKEUP), style.colour(style.PREEMPTED)
    names = []
    for y, row in enumerate(each(rows)):
        ax.barh(y, row.voluntary_per_yield, height=0.66, color=voluntary)
        ax.barh(y, row.involuntary_per_yield, left=row.voluntary_per_yield, height=0.66, color=involuntary)
        ax.plot(
            [row.switches_lo_per_yield, row.switches_hi_per_yield],
            [y, y],
            color=style.colour(style.INK),
            linewidth=1.4,
        )
        same = None if pale is None else _same(pale, row)
        if same is not None:
            ax.plot(
                same, y, "|", color=style.colour(style.RECORDED), markersize=13, markeredgewidth=3, zorder=4
            )
        axes.right_of(ax, y, f"{row.switches_per_yield:.2f}, {axes.time_text(row.yield_ns, 2)} a call", 8)
        names.append(f"{row.policy.upper()}, {_CONDITIONS.get(row.condition, row.condition)}")
    axes.rows(ax, names)
    ax.spines["left"].set_visible(False)


def _same(pale: pd.DataFrame, row: object) -> float | None:
    match = pale
    for name in ("placement", "policy", "condition"):
        match = match[match[name] == getattr(row, name)]
    return None if match.empty else float(match["switches_per_yield"].iloc[0])


def _handles(table: pd.DataFrame, recorded: Drawable | None) -> list[Any]:
    kinds = (("involuntary", style.PREEMPTED), ("voluntary", style.WAKEUP))
    handles: list[Any] = [
        Patch(color=style.colour(colour), label=f"counted as {kind}")
        for kind, colour in kinds
        if (table[f"{kind}_per_yield"] >= 0.005).any()  # a smaller part of a bar cannot be seen
    ]
    handles += interval_in_legend(style.INK, table["switches_hi_per_yield"])
    if recorded is not None:
        handles.append(Patch(color=style.colour(style.RECORDED), label=recorded_name(recorded)))
    return handles


def _caption(table: pd.DataFrame) -> str:
    two = table["condition"] == "together"
    near = table[two & (table["placement"] == "same_cpu")]
    free = table[~two | (table["placement"] == "other_cpu")]
    chosen = table[two & (table["placement"] == "unpinned")]
    parts = []
    if not near.empty:
        counted = max(float(near["switches_per_yield"].sum()), 1e-9)
        share = float(near["voluntary_per_yield"].sum()) / counted
        parts.append(
            f"two threads that yield on one CPU make {_amount(near)} switches per call, {share:.0%} of them "
            "counted as voluntary"
        )
    if not free.empty:
        parts.append(f"with nobody else on its CPU, a thread makes {_amount(free)}")
    if not chosen.empty:
        parts.append(f"two that the scheduler places make {_by_start(chosen) or _amount(chosen)}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _by_start(rows: pd.DataFrame) -> str:
    """What it was from start to start, where starts differ as two placements do; else an empty text."""
    low, high = rows["switches_lo_per_yield"].min(), rows["switches_hi_per_yield"].max()
    return f"{low:.2f} to {high:.2f}, by policy or from start to start" if high - low > 0.5 else ""


def _amount(rows: pd.DataFrame) -> str:
    counted = rows["switches_per_yield"]
    low, high = f"{counted.min():.2f}", f"{counted.max():.2f}"
    return low if low == high else f"{low} to {high}"


def _alt(table: pd.DataFrame) -> str:
    parts = ["Bar chart of switches per call of sched_yield."]
    for place, rows in table.groupby("placement", sort=False):
        said = []
        for condition, cases in rows.groupby("condition", sort=False):
            counts = ", ".join(f"{row.policy.upper()} {row.switches_per_yield:.2f}" for row in each(cases))
            said.append(f"{_CONDITIONS.get(str(condition), condition)}, {counts}")
        where = PLACES.get(str(place), str(place))
        parts.append(f"{where[:1].upper()}{where[1:]}: {'; '.join(said)}.")
    return " ".join(parts)
