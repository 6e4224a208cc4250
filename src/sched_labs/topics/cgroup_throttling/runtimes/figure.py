"""The same program under the same quota, by how many CPUs its runtime counts."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws, each, listed
from sched_labs.draw.panels import SHARE, TIME, Panel, dot_figure

KIND = "runtimes.quota"
PANELS = (
    Panel("99 of 100 are served within (p99)", "p99_ns", TIME, "p99_lo_ns", "p99_hi_ns"),
    Panel("Throttled periods, of all periods", "throttled_share", SHARE),
    Panel("Background work, of the quota", "background_share", SHARE, "background_lo_share",
          "background_hi_share"),
)  # fmt: skip
_FOR = {"host": "a CPU each", "quota": "the quota's"}
_COUNTED = {
    "host": "with as many threads or processes as CPUs",
    "quota": "with as many as the quota is worth",
}
_PERCENTS = ("throttled", "background", "background_lo", "background_hi")


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per runtime and setting.

    - program: both in words, with the number of threads
    - runtime, setting, threads, p99_ns, p99_lo_ns, p99_hi_ns: as in the summary
    - throttled_share: of the periods
    - background_share, background_lo_share, background_hi_share: work, of the CPU time that the quota allows

    Raises ResultError when nothing was measured.
    """
    needed = ("runtime", "setting", "threads", "p99_ns", "p99_lo_ns", "p99_hi_ns")
    percents = [f"{name}_percent" for name in _PERCENTS]
    table = columns(result.summary(), (*needed, *percents), "The summary of these runtimes")
    worth = result.parameters["quota_us"] / result.parameters["period_us"]
    shares = {
        f"{name}_share": table[f"{name}_percent"] / 100 / (1 if name == "throttled" else worth)
        for name in _PERCENTS
    }
    words = [
        f"{row.runtime}, {_threads(row.threads, row.runtime)}: {_FOR[row.setting]}" for row in each(table)
    ]
    return table.drop(columns=percents).assign(program=words, **shares)


def _threads(count: int, runtime: str) -> str:
    """Python has processes in the place of threads."""
    one, more = ("process", "processes") if runtime == "Python" else ("thread", "threads")
    return f"{count} {one if count == 1 else more}"


@draws(KIND)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw p99, throttled periods and the work done, a row per runtime and number of threads."""
    table = frame(result)
    colours = {"host": style.THROTTLED, "quota": style.OWN}
    return dot_figure(
        table,
        PANELS,
        key="program",
        names={},
        roles=dict(zip(table.program, table.setting.map(colours), strict=True)),
        pale=frame,
        recorded=recorded,
        predictions=predictions,
        caption=_caption(table),
        title="A program under a quota, by how many CPUs its runtime counts",
        alt="Dot plots.",
    )


def _caption(table: pd.DataFrame) -> str:
    said = [
        f"{words} {listed([f'{axes.time_text(row.p99_ns)} ({row.runtime})' for row in each(rows)])}"
        for setting, words in _COUNTED.items()
        if len(rows := table[table.setting == setting])
    ]
    return f"One request in a hundred takes at least: {'; '.join(said)}."
