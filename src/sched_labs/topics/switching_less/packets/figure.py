"""What a packet costs its sender over loopback, and how many packets come with one softirq."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, TIME, Panel, dot_figure

KIND = "packets.udp"
WORDS = {
    "paced": "now and then",
    "single": "one at a call",
    "mmsg": "many at a call",
    "segments": "one large piece",
}
PANELS = [
    Panel("CPU time of the sender for each packet", "sender_ns_per_packet", TIME, "sender_lo_ns_per_packet",
          "sender_hi_ns_per_packet"),
    Panel("Packets for each softirq", "packets_per_softirq", NUMBER, "packets_lo_per_softirq",
          "packets_hi_per_softirq"),
    Panel("CPU time of the sender for each softirq", "ns_per_softirq", TIME, "ns_lo_per_softirq",
          "ns_hi_per_softirq"),
]  # fmt: skip
_COLUMNS = (
    *("way", "size_bytes", "sender_ns_per_packet", "sender_lo_ns_per_packet", "sender_hi_ns_per_packet"),
    *("packets_per_softirq", "packets_lo_per_softirq", "packets_hi_per_softirq"),
    *("ns_per_softirq", "ns_lo_per_softirq", "ns_hi_per_softirq"),
)


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per way of sending and size.

    - case: way and size in one word, such as single_64
    - way, size_bytes, and as in the summary, each with _lo_ and _hi_: sender_ns_per_packet,
      packets_per_softirq, ns_per_softirq

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these packets")
    table.insert(0, "case", table["way"] + "_" + table["size_bytes"].astype(str))
    return table


@draws(KIND, short_times=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw cost and packets per softirq by way and size; predictions are times."""
    table = frame(result)
    panels = [panel for panel in PANELS if table[panel.column].notna().any()]
    names = {
        str(case): f"{WORDS.get(str(way), str(way))}, {int(size):,} bytes"
        for case, way, size in zip(table["case"], table["way"], table["size_bytes"], strict=True)
    }
    return dot_figure(
        table,
        panels,
        key="case",
        names=names,
        roles=dict.fromkeys(names, style.SYSTEM),
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        alt="Rows of dots on logarithmic axes, by way of sending and size.",
        caption=_caption(table),
        title="What a packet and a softirq cost",
    )


def _caption(table: pd.DataFrame) -> str:
    """The smallest size, one by one and in large pieces."""
    small = table[table["size_bytes"] == table["size_bytes"].min()].set_index("way")
    if not {"single", "segments"} <= set(small.index):
        return "This machine cannot send large pieces, so there is nothing to compare single packets with."
    one, large = small.loc["single"], small.loc["segments"]
    said = (
        f"A packet of {int(one.size_bytes):,} bytes costs its sender "
        f"{axes.time_text(one.sender_ns_per_packet)} one at a call, and "
        f"{axes.time_text(large.sender_ns_per_packet)} in one large piece"
    )
    if pd.isna(one.ns_per_softirq) or pd.isna(large.ns_per_softirq):
        return f"{said}."
    return (
        f"{said}; its CPU time divided by softirqs is {axes.time_text(one.ns_per_softirq)} and "
        f"{axes.time_text(large.ns_per_softirq)}: no constant."
        if large.ns_lo_per_softirq > one.ns_hi_per_softirq
        else f"{said}."
    )
