"""What a dashboard would have shown of a service under a quota, beside what its requests felt."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sched_labs.core.errors import ResultError
from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, provenance
from sched_labs.draw.panels import SHARE, TIME, Panel, dots, in_words

PANELS = (
    Panel("CPU time, of one CPU (docker stats)", "cpu_share", SHARE),
    Panel("Throttled time in each second", "throttled_ns_per_s", TIME, least=1e6),
    Panel("Throttled periods, of all periods", "throttled_periods_share", SHARE),
    Panel("Requests longer than 99 % without a limit", "delayed_share", SHARE),
)


def counters(result: Drawable) -> pd.DataFrame:
    """One row per condition of service.latency with a quota and an idle neighbour.

    condition               in words
    limit, demand_percent   as in the run's summary
    periods, throttled_periods, throttled_s   what cAdvisor calls container_cpu_cfs_periods_total,
                            container_cpu_cfs_throttled_periods_total and
                            container_cpu_cfs_throttled_seconds_total; all trials together
    cpu_share               CPU time in each second, of one CPU
    throttled_ns_per_s      throttled time in each second, summed over CPUs: beyond a second where several are
                            held back
    throttled_periods_share what dashboards call throttling
    delayed_share           requests that took longer than 99 % do without a limit at the highest demand;
                            missing without those
    p99_ns                  of the requests

    Raises ResultError for a run without a limit.
    """
    keys = ["limit", "demand_percent", "neighbour"]
    table = result.summary()
    blocks = result.tables["blocks"]
    table = table[table["limit"].str.startswith("quota") & (table["neighbour"] == "idle")]
    if table.empty:
        raise ResultError("No limit was set in this run.", "Show a run of a machine with control groups.")
    unlimited = bool(((blocks["limit"] == "none") & (blocks["neighbour"] == "idle")).any())
    seconds = (blocks.groupby(keys)["throttled_ns"].sum() / 1e9).rename("throttled_s").reset_index()
    table = table.merge(seconds, on=keys, how="left")
    return pd.DataFrame(
        {
            "condition": table["limit"] + table["demand_percent"].map(", demand {:g} %".format),
            **{name: table[name] for name in ("limit", "demand_percent", "periods", "throttled_periods")},
            "throttled_s": table["throttled_s"],
            "cpu_share": table["cpu_percent"] / 100,
            "throttled_ns_per_s": table["throttled_ns_per_s"],
            "throttled_periods_share": table["throttled_percent"] / 100,
            "delayed_share": table["beyond_percent"] / 100 if unlimited else np.nan,
            "p99_ns": table["p99_ns"],
        }
    )


def dashboard(result: Drawable) -> Figure:
    """Draw a dashboard's three gauges and the share of the requests that the limit delayed."""
    table = counters(result)
    roles = dict.fromkeys(table["condition"], style.THROTTLED)
    drawing = dots(table, PANELS, key="condition", names={}, roles=roles)
    return Figure(
        drawing,
        alt=f"Dot plots. {in_words(table, PANELS, 'condition', {})}",
        caption=_caption(table[table["limit"] == table["limit"].iloc[0]].iloc[-1]),
        data=table,
        provenance=provenance(result, None),
        title="What a dashboard shows of a service under a quota",
    )


def _caption(row: pd.Series) -> str:
    shares = ("cpu", "throttled_periods", "delayed")
    cpu, periods, delayed = (axes.number_text(100 * row[f"{name}_share"], 2) for name in shares)
    return (
        f"Under {row['condition']}, the same run shows {cpu} % of a CPU in use, {periods} % of the periods "
        f"throttled, {axes.time_text(row['throttled_ns_per_s'], 2)} of throttled time in each second, and "
        f"{delayed} % of the requests took longer than 99 of 100 do without a limit at the highest demand."
    )
