"""What its switches cost it, by this machine's own measurements: the switch itself, and caches to warm up.

A switch costs what a byte through a pipe between two threads on one CPU has left when the calls are taken off
(context_switch.matrix).  Then the thread finds its first-level cache used by another: that costs what
warmup.sweep measured for two threads that each walk at random through as much as fits there.  Who touches
more pays more, and who touches less, or has its CPU back from the idle thread, pays less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...core.result import Result
from ..seen import Seen
from .base import LEAST_MS, PAGES, Finding

SWITCHES_SHARE = 0.1  # of its CPU time
L1D_BYTES = 32 << 10  # where a machine does not tell
_MEASURE = {"direct": "sched-labs run context_switch.matrix", "warmup": "sched-labs run warmup.sweep"}


@dataclass(frozen=True)
class Costs:
    """This machine's runs, as far as the reader has made them."""

    direct: Result | None = None
    warmup: Result | None = None


@dataclass(frozen=True)
class Price:
    """ms of every second (an interval of 95 % around the middle), and a sentence that says of what."""

    middle: float
    low: float
    high: float
    text: str


def estimate(seen: Seen, costs: Costs) -> Price | None:
    """The price of the window's switches; None where the cost of a switch was never measured here."""
    rate = float((seen.threads["voluntary_per_s"] + seen.threads["involuntary_per_s"]).sum())
    if costs.direct is None:
        return None
    rows = costs.direct.summary()
    pipes = rows[(rows["mechanism"] == "pipe") & (rows["placement"] == "same_cpu")]
    if pipes.empty:  # a run of something else than switches on one CPU
        return None
    row = pipes.iloc[0]
    direct = [float(row[name]) for name in ("net_per_switch_ns", "net_lo_ns", "net_hi_ns")]
    warm, said = _warm(costs.warmup)
    middle, low, high = (rate * (a + b) / 1e6 for a, b in zip(direct, warm, strict=True))
    share = f", {middle / seen.running:.1%} of its CPU time" if seen.running else ""
    return Price(
        middle,
        low,
        high,
        f"{rate:,.0f} switches a second at {direct[0]:,.0f} ns each (measured on this machine on "
        f"{costs.direct.recorded_at[:10]}), {said}: {middle:,.1f} ms of every second, {low:,.1f} to "
        f"{high:,.1f}{share}.",
    )


def _warm(run: Result | None) -> tuple[list[float], str]:
    """ns for each switch (middle, low, high), and what is said of them."""
    nothing = [0.0, 0.0, 0.0]
    if run is None:
        return nothing, f"caches that have to be warmed up not counted (`{_MEASURE['warmup']}` measures that)"
    rows = run.summary()
    room = int(run.machine.get("l1d_bytes") or L1D_BYTES)
    alike = rows[(rows["access"] == "random") & (rows["working_set_bytes"] == rows["partner_bytes"])]
    fits: pd.DataFrame = alike[alike["working_set_bytes"] <= room]
    if fits.empty:
        return nothing, "and the run of the warm-up has no working set that fits the first-level cache"
    row: Any = fits.sort_values("working_set_bytes").iloc[-1]
    size = f"{int(row['working_set_bytes']) >> 10} KiB"
    if not row["seen"]:
        return nothing, f"and no warm-up of {size} that stands clear of the noise ({run.recorded_at[:10]})"
    return (
        [max(0.0, float(row[name])) for name in ("extra_ns", "extra_lo_ns", "extra_hi_ns")],
        f"and {float(row['extra_ns']):,.0f} ns to warm up {size} ({run.recorded_at[:10]})",
    )


def unknown() -> str:
    """What is said where nothing was measured."""
    return f"What a switch costs on this machine is not measured yet: `{_MEASURE['direct']}`."


def price(seen: Seen, costs: Costs) -> list[Finding]:
    found = estimate(seen, costs)
    if found is None or found.middle < LEAST_MS or not found.middle >= SWITCHES_SHARE * seen.running > 0:
        return []
    return [
        Finding(
            "switches",
            f"Switching itself costs it {found.middle / seen.running:.0%} of its CPU time.",
            found.middle,
            math.nan,
            found.text,
            "A switch for each piece of work is right where the pieces are long.",
            "More work for each wake-up: batches, larger buffers, fewer threads.",
            PAGES["switch"],
            False,
        )
    ]
