"""What its switches cost it, by this machine's own measurement."""

from __future__ import annotations

import math

from ...core.result import Result
from ..seen import Seen
from .base import LEAST_MS, PAGES, Finding

SWITCHES_SHARE = 0.1  # of its CPU time


def price(seen: Seen, switch: Result | None) -> list[Finding]:
    rate = float((seen.threads["voluntary_per_s"] + seen.threads["involuntary_per_s"]).sum())
    if switch is None or not seen.running:
        return []
    rows = switch.summary()
    row = rows[(rows["mechanism"] == "pipe") & (rows["placement"] == "same_cpu")].iloc[0]
    low, middle, high = (
        rate * float(row[name]) / 1e6 for name in ("net_lo_ns", "net_per_switch_ns", "net_hi_ns")
    )
    if middle < LEAST_MS or not middle >= SWITCHES_SHARE * seen.running:
        return []
    return [
        Finding(
            "switches",
            f"Switching itself costs it {middle / seen.running:.0%} of its CPU time.",
            middle,
            math.nan,
            f"{rate:,.0f} switches a second at {float(row['net_per_switch_ns']):,.0f} ns each, measured on "
            f"this machine on {switch.recorded_at[:10]}: {low:,.0f} to {high:,.0f} ms of every second, cold "
            "caches not counted.",
            "A switch for each piece of work is right where the pieces are long.",
            "More work for each wake-up: batches, larger buffers, fewer threads.",
            PAGES["switch"],
            False,
        )
    ]
