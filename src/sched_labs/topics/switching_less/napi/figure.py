"""Whom a packet's CPU time is charged to, and how long packets take beside a hog: a row for each way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

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
    interval_in_legend,
    listed,
    times_ns,
)

from .experiment import TOLD_NS

KIND = "napi.threaded"
NAMES = {
    "call": "softirq in the\nsender's call",
    "interrupt": "softirq by interrupt",
    "thread": "thread of the kernel",
    "fifo": "the same, SCHED_FIFO",
}
WORDS = {way: name.replace("\n", " ") for way, name in NAMES.items()}
# The two threads of the program are both its own: one of them is hatched.
_HATCHED = {"facecolor": style.colour(style.OWN), "hatch": "////", "edgecolor": style.colour(style.PAPER)}
WHO: dict[str, tuple[str, dict[str, Any]]] = {
    "sender": ("the sender", {"color": style.colour(style.OWN)}),
    "receiver": ("the receiver", _HATCHED),
    "thread": ("the kernel's thread", {"color": style.colour(style.SYSTEM)}),
    "hog": ("a hog that has no packets", {"color": style.colour(style.RIVAL)}),
    "nobody": ("nobody: interrupts kept apart", {"color": style.colour(style.NEUTRAL)}),
}
_BESIDE, _ALONE = ("beside a hog", style.WAKEUP), ("without", style.ALONE)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per way of receiving, beside a hog.

    - way, p99_ns, p99_lo_ns, p99_hi_ns: as in the summary
    - alone_p99_ns: the same without a hog
    - sender_ns_per_packet, receiver_ns_per_packet, thread_ns_per_packet, hog_ns_per_packet,
      nobody_ns_per_packet: as in the summary; the last two are 0 where no more than TOLD_NS is sure, and the
      hog's is missing where the summary has no upper limit

    Raises ResultError when nothing was measured.
    """
    charged = [f"{who}_ns_per_packet" for who in WHO]
    least = [f"{who}_lo_ns_per_packet" for who in ("hog", "nobody")]
    quantiles = ["p99_ns", "p99_lo_ns", "p99_hi_ns"]
    wanted = ("way", "hog", *quantiles, *charged, *least, "hog_hi_ns_per_packet")
    table = columns(result.summary(), wanted, "The summary of these packets").copy()
    for low in least:
        table.loc[~(table[low] > TOLD_NS), low.replace("_lo", "")] = 0
    table.loc[table.hog_hi_ns_per_packet.isna(), "hog_ns_per_packet"] = math.nan
    alone = table[~table.hog].set_index("way").p99_ns.rename("alone_p99_ns")
    return (
        table[table.hog]
        .drop(columns=["hog", *least, "hog_hi_ns_per_packet"])
        .join(alone, on="way")
        .reset_index(drop=True)
    )


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Above whom the CPU time is charged to, below the p99; predictions are times of the p99."""
    table = frame(result)
    pale = None if recorded is None else frame(recorded)
    marks = times_ns(predictions)
    names = [NAMES[str(way)] for way in table.way]
    tick: dict[str, Any] = {"marker": "|", "markersize": 22, "markeredgewidth": 3, "linestyle": "none"}
    with style.drawing():
        drawing = canvas(290 + 76 * len(table) + 20 * (len(marks) + (recorded is not None)))
        drawing.set_layout_engine(axes.Layout(h_pad=9 / 72))
        paid, late = drawing.subplots(2, 1)
        for y, row in enumerate(each(table)):
            before = None if pale is None else pale[pale.way == row.way]
            left = 0.0
            for who, (_, look) in WHO.items():
                width = np.nan_to_num(getattr(row, f"{who}_ns_per_packet"))
                paid.barh(y, width, left=left, height=0.6, linewidth=0, **look)
                left += width
            least = "" if row.hog_ns_per_packet >= 0 else "at least "
            axes.right_of(paid, y, least + axes.time_text(left, 2), 8)
            if before is not None:
                paid.plot(_charged(before), [y] * len(before), color=style.colour(style.RECORDED), **tick)
                late.plot(before.p99_ns, [y] * len(before), color=style.colour(style.RECORDED), **tick)
            late.plot(row.alone_p99_ns, y, "o", color=style.colour(_ALONE[1]), markerfacecolor="none")
            late.hlines(y, row.p99_lo_ns, row.p99_hi_ns, color=style.colour(_BESIDE[1]))
            late.plot(row.p99_ns, y, "o", color=style.colour(_BESIDE[1]))
            said = "too many lost" if math.isnan(row.p99_ns) else axes.time_text(row.p99_ns)
            axes.right_of(late, y, said, 10)
        paid.set_xlim(0, 1.1 * max(part.max() for part in (_charged(one) for one in (table, pale)
                                                           if one is not None)))  # fmt: skip
        paid.xaxis.set_major_locator(MaxNLocator(4))
        paid.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        paid.set_title("CPU time for each packet, beside a hog")
        ends = [table.p99_lo_ns, table.p99_hi_ns, table.alone_p99_ns, pd.Series([ns for _, ns in marks])]
        ends += [] if pale is None else [pale.p99_ns]
        known = pd.concat([one.astype(float) for one in ends]).dropna()
        known = known if len(known) else pd.Series([1e4, 1e6])  # all were lost: an empty axis
        axes.log_time(late, "x", known.min() / 1.5, known.max() * 1.5)
        late.set_title("99 of 100 packets take at most")
        for _, ns in marks:
            late.axvline(ns, **dashed())
        for ax in (paid, late):
            axes.rows(ax, names)
            ax.spines["left"].set_visible(False)
        handles: list[Any] = [
            Patch(label=words, linewidth=0, **look)
            for who, (words, look) in WHO.items()
            if (table[f"{who}_ns_per_packet"] > 0).any()
        ]
        handles += [
            Line2D([], [], label=f"p99 {words}", marker="o", linestyle="none", color=style.colour(role),
                   markerfacecolor=face)
            for (words, role), face in ((_BESIDE, style.colour(_BESIDE[1])), (_ALONE, "none"))
        ]  # fmt: skip
        handles += interval_in_legend(_BESIDE[1], table.p99_hi_ns)
        handles += also_in_legend(recorded, (), **{**tick, "markersize": 14})
        handles += [Line2D([], [], label=text, **dashed()) for text, _ in marks]
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        axes.thin(late)
    return Figure(
        drawing,
        alt=_alt(table),
        caption=_caption(table),
        data=table,
        title="Whom a packet is charged to, and how long it takes",
    )


def _charged(table: pd.DataFrame) -> pd.Series[float]:
    return table[[f"{who}_ns_per_packet" for who in WHO]].sum(axis=1)


def _plain(way: object) -> str:
    return NAMES[str(way)].replace("\n", " ")


def _late(ns: float) -> str:
    return "unknown, for many are lost" if math.isnan(ns) else axes.time_text(ns)


def _caption(table: pd.DataFrame) -> str:
    said = listed([f"{_late(row.p99_ns)} ({_plain(row.way)})" for row in each(table)])
    text = f"Beside a hog, one packet in a hundred takes at least {said}"
    if table.hog_ns_per_packet.isna().any():
        return f"{text}; what CPU time packets cost the hog at most is not told by this run."
    charged = table.hog_ns_per_packet[table.way == "interrupt"].sum()
    if not charged:
        return f"{text}."
    return f"{text}; received by interrupt, each costs the hog {axes.time_text(charged)} of its CPU time."


def _alt(table: pd.DataFrame) -> str:
    parts = ["Stacked bars of CPU time charged for a packet, and dots of p99 on a logarithmic time axis."]
    for row in each(table):
        charged = "; ".join(
            f"{words} {axes.time_text(getattr(row, f'{who}_ns_per_packet'))}"
            for who, (words, _) in WHO.items()
            if getattr(row, f"{who}_ns_per_packet") > 0
        )
        parts.append(
            f"{_plain(row.way)}: {charged}; p99 {_late(row.p99_ns)} beside a hog, "
            f"{_late(row.alone_p99_ns)} without."
        )
    return " ".join(parts)
