"""How late a light sleeper gets the CPU: one panel for each kernel, with a logarithmic time axis.

Virtual time and real time never share an axis: panels of the one and of the other are labelled apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sched_labs.core.errors import ParameterError
from sched_labs.draw import axes, style
from sched_labs.draw.axes import EMULATED, EMULATED_FLOOR_NS, VIRTUAL
from sched_labs.draw.base import (
    Drawable,
    Figure,
    Prediction,
    Predictions,
    canvas,
    columns,
    dashed,
    draws,
    listed,
    machine_name,
    mark,
    times_ns,
)

KIND = "sleeper.among_hogs"
MOST = 8
_STEP = 0.25  # width of a bar in doublings


def frame(*results: Drawable) -> pd.DataFrame:
    """What the figure shows, one row per run and bar.

    - panel: which panel, from 0, in the order of the results
    - run, kernel, scheduler, timing: what it shows, and how its time passed
    - low_ns, high_ns: the bar; virtual ns where timing is "deterministic".  In an emulated machine everything
      under a millisecond is one bar, from 0.
    - wakes, share_percent: the wake-ups that were this late, and their part of all of the run

    Raises ResultError for a run without wake-ups.
    """
    late = [columns(result.data, ["late_ns"], "This run of a sleeper")["late_ns"] for result in results]
    low = min(max(float(values.min()), 1.0) for values in late)
    high = max(float(values.max()) for values in late)
    first, last = math.floor(math.log2(low) / _STEP), math.floor(math.log2(high) / _STEP) + 1
    edges = 2.0 ** (_STEP * np.arange(first, last + 1))
    parts = []
    for panel, (result, values) in enumerate(zip(results, late, strict=True)):
        cut = edges
        if _timing(result) == EMULATED:
            cut = np.array([0.0, EMULATED_FLOOR_NS, *edges[edges > EMULATED_FLOOR_NS]])
        counts, _ = np.histogram(np.maximum(values, cut[0]), bins=cut)
        parts.append(
            pd.DataFrame(
                {
                    "panel": panel,
                    "run": _name(result),
                    "kernel": _kernel(result),
                    "scheduler": str(result.machine.get("scheduler") or "unknown"),
                    "timing": _timing(result),
                    "low_ns": cut[:-1],
                    "high_ns": cut[1:],
                    "wakes": counts,
                    "share_percent": 100 * counts / len(values),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


@draws(KIND, own_clocks=True)
def draw(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """One run; a recorded one in a panel above it."""
    if recorded is None:
        return gallery([result], predictions=predictions)
    return gallery([recorded, result], predictions=predictions, recorded=recorded)


def gallery(
    results: Sequence[Drawable],
    *,
    predictions: Sequence[Prediction | dict[str, Any]] = (),
    title: str = "How late a light sleeper gets the CPU among hogs",
    recorded: Drawable | None = None,
) -> Figure:
    """Draw one panel per run in the order given, those in virtual time first.

    Predictions are times of a machine: they are drawn into the panels in real time.  The one that is
    `recorded` is named after its machine, and the others that are no guests' after this one.
    Raises ParameterError for no run, too many, or results of another kind, and ResultError for one without
    wake-ups.
    """
    wrong = [result.kind for result in results if result.kind != KIND]
    if not 1 <= len(results) <= MOST or wrong:
        raise ParameterError(
            f"This figure cannot show {wrong[0] if wrong else len(results)}.",
            f"Give 1 to {MOST} results of {KIND}.",
        )
    ordered = sorted(results, key=lambda result: _timing(result) != VIRTUAL)
    given = [p if isinstance(p, Prediction) else Prediction(p["value"], p["unit"]) for p in predictions]
    marks = times_ns(given)
    names = [_name(result, recorded) for result in ordered]
    table = frame(*ordered)
    table["run"] = table["panel"].map(dict(enumerate(names)))
    virtual = sum(_timing(result) == VIRTUAL for result in ordered)
    with style.drawing():
        drawing = canvas(96 * len(ordered) + 62 * ((virtual > 0) + (virtual < len(ordered))))
        panels = drawing.subplots(len(ordered), 1, squeeze=False)[:, 0]
        shown = table[table["low_ns"] > 0]
        # In an emulated machine all may be in the one bar from 0 that is too short to tell.
        low = (EMULATED_FLOOR_NS / 2 if shown.empty else shown["low_ns"].min()) / 1.3
        high = max([table["high_ns"].max(), *(ns for _, ns in marks)]) * 1.5
        for place, (result, panel) in enumerate(zip(ordered, panels, strict=True)):
            timing = _timing(result)
            _panel(panel, names[place], result, table[table["panel"] == place], low, high)
            last = place in (virtual - 1, len(ordered) - 1)
            if last:
                panel.set_xlabel(_label(timing))
            else:
                panel.tick_params(labelbottom=False)
            if timing != VIRTUAL:
                for text, ns in marks:
                    panel.axvline(ns, label=text, **dashed())
                if marks:
                    panel.legend(loc="upper left")
        drawing.supylabel("share of wake-ups", size=style.TEXT)
    return Figure(
        drawing,
        KIND,
        alt=_alt(ordered, names, marks),
        caption=_caption(ordered, recorded),
        provenance=_provenance(ordered),
        data=table,
        title=title,
    )


def late_text(ns: float, timing: str) -> str:
    """A lateness in words that fit its clock: virtual ns are counted, and never read as a machine's time."""
    with axes.clock(timing):
        return axes.time_text(ns)


def _panel(panel: Axes, name: str, result: Drawable, rows: pd.DataFrame, low: float, high: float) -> None:
    timing = _timing(result)
    panel.set_xscale("log")
    panel.set_xlim(low, high)
    decades = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    panel.xaxis.set_major_locator(FixedLocator([10.0**e for e in decades]))
    panel.xaxis.set_minor_locator(NullLocator())
    text = axes.count_text if timing == VIRTUAL else axes.time_text
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    panel.set_ylim(0, 100)
    panel.yaxis.set_major_locator(FixedLocator([0, 50, 100]))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
    left = np.maximum(rows["low_ns"].to_numpy(float), low)
    panel.bar(
        left,
        rows["share_percent"].to_numpy(float),
        width=rows["high_ns"].to_numpy(float) - left,
        align="edge",
        color=style.colour(style.WAKEUP),
        edgecolor=style.colour(style.PAPER),
        linewidth=0.6,
        zorder=2,
    )
    summary = result.summary().iloc[0]
    p99 = float(summary["p99_ns"])
    # A tail of some percent is a hair on this scale; the line shows where it ends.
    if timing != EMULATED or p99 >= EMULATED_FLOOR_NS:
        panel.axvline(p99, color=style.colour(style.NEUTRAL), linewidth=1.4, zorder=1.8)
    panel.set_title(name)
    panel.set_title(
        f"99 % within {late_text(p99, timing)}", loc="right", fontweight="normal", fontsize=style.SMALL
    )


def _label(timing: str) -> str:
    if timing == VIRTUAL:
        return "how late it ran: virtual time, in virtual ns (one instruction each)"
    if timing == EMULATED:
        return "how late it ran: emulated time (nothing under 1 ms)"
    return "how late it ran: time of this machine" if timing == "native" else "how late it ran: time"


def _timing(result: Drawable) -> str:
    return str(getattr(result, "timing", "native"))


def _kernel(result: Drawable) -> str:
    release = re.match(r"\d+\.\d+", str(result.machine.get("kernel") or ""))
    return release[0] if release else "unknown"


def _name(result: Drawable, recorded: Drawable | None = None) -> str:
    if result is recorded:
        return f"recorded: {machine_name(result.machine)}"
    scheduler = result.machine.get("scheduler")
    words = [f"Linux {_kernel(result)}", str(scheduler or "")]
    words += {"native": ["this machine"], EMULATED: ["emulated"], "vm-kvm": ["KVM"]}.get(_timing(result), [])
    return " · ".join(word for word in words if word)


def _caption(results: Sequence[Drawable], recorded: Drawable | None) -> str:
    """How many wake-ups were made to wait for others, kernel by kernel."""
    parts = []
    for result in results:
        share = float(result.summary()["made_wait_percent"].iloc[0])
        where = "this machine" if _timing(result) == "native" else _kernel(result)
        where = "the recorded machine" if result is recorded else where
        parts.append(f"{axes.number_text(share, 2)} % on {where}")
    limits = {late_text(float(r.summary()["waited_ns"].iloc[0]), _timing(r)): None for r in results}
    text = f"Wake-ups more than {' or '.join(limits)} late: {listed(parts)}."
    timings = {_timing(result) for result in results}
    if EMULATED in timings:
        text += " In an emulated machine only times from a millisecond up mean anything."
    return text


def _alt(results: Sequence[Drawable], names: Sequence[str], marks: Sequence[tuple[str, float]]) -> str:
    several = len({_timing(result) == VIRTUAL for result in results}) > 1
    axis = "logarithmic time axes" if several else "the same logarithmic time axis"
    parts = [f"{len(results)} histograms with {axis}: how late a sleeper got the CPU."]
    for name, result in zip(names, results, strict=True):
        row, timing = result.summary().iloc[0], _timing(result)
        parts.append(
            f"{name}: half within {late_text(row['p50_ns'], timing)}, 99 % within "
            f"{late_text(row['p99_ns'], timing)}, all within {late_text(row['max_ns'], timing)}."
        )
    parts += [f"Dashed, {text}." for text, _ in marks]
    return " ".join(parts)


def _provenance(results: Sequence[Drawable]) -> str:
    packages = [
        str(result.machine.get("kernel_package") or "").partition(" ")[2]
        for result in results
        if _timing(result) == VIRTUAL
    ]
    parts = []
    if packages:
        emulator = next(result for result in results if _timing(result) == VIRTUAL).machine.get("emulator")
        emulator = str(emulator or "QEMU").partition(" (")[0]
        parts.append(f"Deterministic under {emulator}, on one CPU: Debian kernels {listed(packages)}.")
    for result in results:
        if _timing(result) != VIRTUAL:
            flags = f" {mark(result)}: {' '.join(result.flags[:2])}" if result.flags else ""
            parts.append(f"{result.provenance_line()}.{flags}")
    return " ".join(parts)
