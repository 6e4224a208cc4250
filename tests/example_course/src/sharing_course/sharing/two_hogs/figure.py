"""What a nicer thread gets of a CPU that it shares."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import NUMBER, SHARE, Panel, Series, check_predictions, lines

KIND = "two_hogs.shares"
PANEL = Panel("Part of the CPU time of both", "share", SHARE, "share_lo", "share_hi")
_COLUMNS = ("nice", "share_percent", "share_lo_percent", "share_hi_percent", "weights_percent")


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per nice value.

    - nice: of the second thread
    - share, share_lo, share_hi: what it got of the CPU time of both, median and 95 % interval
    - weights_share: what it gets where each step of nice counts 1.25 times

    Raises ResultError when nothing was measured.
    """
    table = columns(result.summary(), _COLUMNS, "The summary of these shares")
    shares = table.drop(columns="nice").div(100)
    shares.columns = ["share", "share_lo", "share_hi", "weights_share"]
    return table[["nice"]].join(shares)


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the measured part and the one by weights; predictions are shares."""
    check_predictions([PANEL], predictions)
    table = frame(result)
    expected = table.assign(
        share=table.weights_share, share_lo=table.weights_share, share_hi=table.weights_share
    )
    series = [
        Series(expected, "by weights", style.NEUTRAL, "s"),
        Series(table, "this machine", style.DIRECT),
    ]
    if recorded is not None:
        series.insert(0, Series(frame(recorded), "recorded", style.RECORDED))
    nice = Panel("nice value of the second thread", "nice", NUMBER)
    drawing = lines(series, [PANEL], x=nice, predictions=predictions, linear=True)
    said = "; ".join(
        f"nice {row.nice:.0f}: {PANEL.text(row.share)}, by weights {PANEL.text(row.weights_share)}"
        for _, row in table.iterrows()
    )
    last = table.iloc[-1]
    return Figure(
        drawing,
        alt=f"Lines over the nice value: {said}.",
        caption=f"Beside a thread at nice 0, one at nice {last.nice:.0f} gets "
        f"{axes.number_text(100 * last.share, 2)} % of the CPU time of both.",
        data=table,
        title="What a nicer thread gets of a shared CPU",
    )
