"""What the bandwidth model computes: when run queues stand throttled, and what requests make of it.

    figures.bandwidth.timeline(run)                      # throttled intervals, CPU by CPU
    figures.bandwidth.latency(run, measured_us=mine)     # the model's histogram over a measured one
    figures.bandwidth.grid(bandwidth.grid(...))          # tails over loads and numbers of threads

These take a `limits.bandwidth.Simulation` or its table: nothing in them was measured, and each says so,
except for the latencies that a caller lays under the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from ..core.errors import ParameterError, ResultError
from ..limits.bandwidth import Simulation
from . import axes, style
from .base import Figure, canvas, columns, each, highest, listed

US = 1e3  # ns
_STEP = 0.25  # width of a bar in doublings
_MOST_ROWS = 16


def _provenance(run: Simulation) -> str:
    p = run.parameters
    text = (
        f"Computed by the bandwidth model, not measured · quota {axes.time_text(p['quota_us'] * US)} in "
        f"{axes.time_text(p['period_us'] * US)} · {p['threads']} threads on {p['cpus']} CPUs · slice "
        f"{axes.time_text(p['slice_us'] * US)}"
    )
    if p["burst_us"]:
        text += f" · burst {axes.time_text(p['burst_us'] * US)}"
    if p["work_us"] is not None:
        text += f" · requests of {axes.time_text(p['work_us'] * US)}"
    return f"{text} · {p['duration_s']:g} s simulated"


def timeline_frame(run: Simulation, periods: int = 5) -> pd.DataFrame:
    """What the timeline shows: cpu, start_ns, end_ns of each throttled interval in the first periods."""
    end = periods * run.parameters["period_us"]
    spans = run.intervals[run.intervals["start_us"] < end]
    return pd.DataFrame(
        {
            "cpu": spans["cpu"],
            "start_ns": spans["start_us"] * US,
            "end_ns": spans["end_us"].clip(upper=end) * US,
        }
    ).reset_index(drop=True)


def timeline(run: Simulation, *, periods: int = 5) -> Figure:
    """Draw when each CPU's run queue stood throttled, period by period.

    Raises ParameterError for fewer than one period or more than were simulated.
    """
    length = run.parameters["period_us"]
    if not 1 <= periods <= run.parameters["duration_s"] * 1e6 / length:
        raise ParameterError(
            f"{periods!r} periods cannot be drawn.", "Give 1 up to as many as were simulated."
        )
    table = timeline_frame(run, periods)
    cpus = min(run.parameters["threads"], run.parameters["cpus"])
    rows = min(cpus, _MOST_ROWS)
    with style.drawing():
        drawing = canvas(150 + 16 * rows)
        ax = drawing.add_subplot()
        throttled, running = style.colour(style.THROTTLED), style.colour(style.FLOOR)
        ax.barh(range(rows), periods * length * US, height=0.62, color=running, zorder=1.8)
        shown = table[table["cpu"] < rows]
        ax.barh(
            shown["cpu"], shown["end_ns"] - shown["start_ns"], left=shown["start_ns"], height=0.62,
            color=throttled, zorder=2,
        )  # fmt: skip
        ax.set_xlim(0, periods * length * US)
        ax.set_xticks([k * length * US for k in range(periods + 1)])
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axes.time_text(value)))
        ax.set_ylim(rows - 0.4, -0.6)
        ax.set_yticks(range(rows), [f"CPU {cpu}" for cpu in range(rows)])
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("time, a mark at every refill")
        handles = [Patch(color=running, label="may run"), Patch(color=throttled, label="throttled")]
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
    return Figure(
        drawing,
        "bandwidth.timeline",
        alt=_timeline_alt(table, rows, cpus, periods),
        caption=_timeline_caption(run, table),
        provenance=_provenance(run),
        data=table,
        title="When run queues stand throttled",
    )


def _timeline_caption(run: Simulation, table: pd.DataFrame) -> str:
    if table.empty:
        return "The quota is never used up: no run queue is throttled."
    longest = run.intervals["length_us"].max() * US
    return (
        f"{run.nr_throttled:,} of {run.nr_periods:,} periods end with a throttled run queue; the longest "
        f"stall is {axes.time_text(longest)}, with a period of "
        f"{axes.time_text(run.parameters['period_us'] * US)}."
    )


def _timeline_alt(table: pd.DataFrame, rows: int, cpus: int, periods: int) -> str:
    text = f"Timeline of {rows} CPUs over {periods} periods."
    if rows < cpus:
        text += f" {cpus - rows} more CPUs are not drawn."
    if table.empty:
        return f"{text} No interval is throttled."
    first = table.iloc[0]
    return (
        f"{text} {len(table)} throttled intervals; the first, on CPU {first['cpu']:.0f}, lasts from "
        f"{axes.time_text(first['start_ns'])} to {axes.time_text(first['end_ns'])}."
    )


def latency_frame(run: Simulation, measured_us: ArrayLike | None = None) -> pd.DataFrame:
    """What the histogram shows, one row per bar and source, shortest first.

    - source: "model", or "measured" where latencies in µs were given
    - low_ns, high_ns: the bar, a quarter of a doubling wide; both sources share the edges
    - held_back: whether these requests met a throttled run queue (the model's only; False for measured ones)
    - requests: how many
    - share_percent: the same as a part of all requests of the source

    Raises ResultError when the model completed no request or a measured latency is not above 0.
    """
    if not run.completions:
        raise ResultError("No request was completed.", "Simulate requests, for longer.")
    sources = {("model", held): run.latency_us[run.held_back == held] for held in (False, True)}
    if measured_us is not None:
        measured = np.asarray(measured_us, dtype=float).ravel()
        if not measured.size or not (measured > 0).all():
            raise ResultError("These are no measured latencies.", "Give times in µs, all above 0.")
        sources["measured", False] = measured
    everything = np.concatenate(list(sources.values()))
    first = np.floor(np.log2(everything.min()) / _STEP + 1e-9)
    last = np.floor(np.log2(everything.max()) / _STEP + 1e-9) + 1
    edges = 2.0 ** (_STEP * np.arange(first, last + 1))
    parts = []
    for (source, held), values in sources.items():
        bars = np.floor(np.log2(values) / _STEP + 1e-9) - first
        part = pd.DataFrame({"source": source, "low_ns": edges[:-1] * US, "high_ns": edges[1:] * US})
        part["held_back"] = held
        part["requests"] = np.bincount(bars.astype(int), minlength=len(part))
        of = run.completions if source == "model" else values.size
        part["share_percent"] = 100 * part["requests"] / of
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def latency(run: Simulation, *, measured_us: ArrayLike | None = None) -> Figure:
    """Draw the model's request latencies, those held back by the limit apart; over measured ones, as a line.

    Raises ResultError as `latency_frame` does.
    """
    table = latency_frame(run, measured_us)
    with style.drawing():
        drawing = canvas(360)
        ax = drawing.add_subplot()
        axes.log_time(ax, "x", table["low_ns"].min(), table["high_ns"].max() * 1.15)
        ax.set_xlabel("from arrival to completion of a request")
        bars = _by_source(table) if measured_us is not None else _by_fate(table)
        handles = _bars(ax, bars)
        if measured_us is not None:
            handles += [_outline(ax, table)]
        # Logarithmic, because the second mode is a few per cent of the first.
        ax.set_yscale("log")
        ax.set_ylim(0.5 * table.loc[table["requests"] > 0, "share_percent"].min(), 200)
        ax.yaxis.set_major_locator(FixedLocator([10.0**e for e in range(-4, 3)]))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{axes.number_text(value)} %"))
        ax.set_ylabel("share of all requests")
        ax.grid(visible=False, axis="x")
        drawing.legend(handles=handles, loc="outside upper left", ncols=2)
        drawing.draw_without_rendering()
        axes.mark_x(ax, {"p99": run.quantile_us(0.99) * US})
    return Figure(
        drawing,
        "bandwidth.latency",
        alt=_latency_alt(run, table),
        caption=_latency_caption(run, measured_us),
        provenance=_provenance(run)
        + ("" if measured_us is None else " · the measured latencies are the caller's"),
        data=table,
        title="Request latency under a CPU limit",
    )


def _by_fate(table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    return [
        ("never held back", style.ALONE, table[~table["held_back"]]),
        ("held back by the limit", style.THROTTLED, table[table["held_back"]]),
    ]


def _by_source(table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    return [("measured", style.THROTTLED, table[table["source"] == "measured"])]


def _bars(ax: Axes, parts: list[tuple[str, str, pd.DataFrame]]) -> list[Any]:
    """Bars of each part, side by side within their bin: on a logarithmic axis they cannot be stacked."""
    handles: list[Any] = []
    for place, (name, colour, rows) in enumerate(parts):
        low, high = rows["low_ns"].to_numpy(float), rows["high_ns"].to_numpy(float)
        left = low * (high / low) ** (place / len(parts))
        right = low * (high / low) ** ((place + 1) / len(parts))
        share = rows["share_percent"].to_numpy(float)
        if share.sum() > 0:
            ax.bar(left, share, width=right - left, align="edge", zorder=2, color=style.colour(colour))
            text = f"{name} ({axes.number_text(share.sum(), 2)} %)" if len(parts) > 1 else name
            handles.append(Patch(color=style.colour(colour), label=text))
    return handles


def _outline(ax: Axes, table: pd.DataFrame) -> Any:
    model = table[table["source"] == "model"].groupby(["low_ns", "high_ns"], as_index=False)
    sums = model["share_percent"].sum()
    edges = [*sums["low_ns"], sums["high_ns"].iloc[-1]]
    look: dict[str, Any] = {"color": style.colour(style.INK), "linewidth": 2.0, "zorder": 2.6}
    return ax.stairs(sums["share_percent"], edges, label="computed by the model", **look)


def _latency_caption(run: Simulation, measured_us: ArrayLike | None) -> str:
    held = 100 * run.held_back.mean()
    text = (
        f"In the model {axes.number_text(held, 2)} % of {run.completions:,} requests are held back by the "
        f"limit; half take at most {axes.time_text(run.quantile_us(0.5) * US)}, one in a hundred more than "
        f"{axes.time_text(run.quantile_us(0.99) * US)}"
    )
    if measured_us is not None:
        half, tail = np.quantile(np.asarray(measured_us, dtype=float), (0.5, 0.99)) * US
        text += f"; measured: {axes.time_text(half)} and {axes.time_text(tail)}"
    return f"{text}."


def _latency_alt(run: Simulation, table: pd.DataFrame) -> str:
    parts = ["Histogram of request latencies on a logarithmic time axis."]
    for (source, held), rows in table.groupby(["source", "held_back"], sort=True):
        if not rows["requests"].sum():
            continue
        top = highest(rows, "requests")
        fate = " held back by the limit" if held else (" never held back" if source == "model" else "")
        parts.append(
            f"{str(source).capitalize()}: {rows['requests'].sum():,} requests{fate}, most often "
            f"{axes.range_text(top['low_ns'], top['high_ns'])}."
        )
    return " ".join([*parts, f"{run.in_flight:,} requests were not completed."])


def grid(table: pd.DataFrame) -> Figure:
    """Draw the tail (99 of 100 requests) over the load, a curve for each number of threads.

    `table` comes from `sched_labs.limits.bandwidth.grid`.  Raises ResultError when it does not.
    """
    rows = columns(table, ("load", "threads", "throttled_share", "p50_us", "p99_us"), "This grid")
    rows = rows.assign(p99_ns=rows["p99_us"] * US)
    counts = sorted(rows["threads"].unique())
    with style.drawing():
        drawing = canvas(360)
        ax = drawing.add_subplot()
        axes.log_time(ax, "y", rows["p99_ns"].min() / 1.5, rows["p99_ns"].max() * 1.5)
        colour = style.colour(style.THROTTLED)
        handles: list[Any] = []
        for place, count in enumerate(counts):
            of = rows[rows["threads"] == count].sort_values("load")
            faint = 0.35 + 0.65 * (place + 1) / len(counts)
            handles += ax.plot(
                100 * of["load"], of["p99_ns"], color=colour, alpha=faint, marker="osD^v*"[place % 6],
                label=f"{count} thread{'s' if count > 1 else ''}",
            )  # fmt: skip
        ax.set_xlabel("CPU time that the requests need, as a share of the quota")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        ax.set_ylabel("99 of 100 requests take at most")
        drawing.legend(handles=handles, loc="outside upper left", ncols=min(4, len(counts)))
    return Figure(
        drawing,
        "bandwidth.grid",
        alt="Line plot, logarithmic time axis: "
        + " ".join(
            f"{row.threads} threads at {100 * row.load:.0f} %: {axes.time_text(row.p99_ns)};"
            for row in each(rows)
        ),
        caption=_grid_caption(rows),
        provenance="Computed by the bandwidth model, not measured.",
        data=rows,
        title="The tail under a CPU limit, by load and threads",
    )


def _grid_caption(rows: pd.DataFrame) -> str:
    """Where each number of threads first meets the limit."""
    parts = []
    for count, of in rows.sort_values("load").groupby("threads"):
        met = of[of["throttled_share"] > 0.01]
        word = f"{count} thread{'s' if int(str(count)) > 1 else ''}"
        parts.append(
            f"{word} from {100 * met['load'].iloc[0]:.0f} %" if len(met) else f"{word} at no load shown"
        )
    return f"More than one period in a hundred is throttled: {listed(parts)} of the quota."
