"""Waking in the middle of somebody's turn, with one feature of the scheduler after the other turned off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...steer import placement
from ...topics.other_kernels.eevdf.experiment import NOTHING, SITUATIONS, wakes

FEATURES = Path("/sys/kernel/debug/sched/features")
PRECISE = "HRTICK"  # ends a slice when it is over, not at the next tick: on in all kernels alike


def pieces(
    off: Sequence[str], *, turn_us: int = 6000, short_us: int = 1500, phases: int = 12, trials: int = 1
) -> dict[str, Any]:
    """The experiment with no feature turned off, and then with each of these off and all others as before.

    HRTICK is on but where it is the one that is off.

    Returns had, the switches as the kernel shows them as built; without, the features that it does not have;
    and wakes, the columns of the experiment's data by name.
    The guest ends with the job.
    """
    had = FEATURES.read_text().split()
    known = {switch.removeprefix("NO_") for switch in had}
    FEATURES.write_text(PRECISE)
    cpu = placement.quiet_cpu()
    rows = []
    for feature in (NOTHING, *(name for name in off if name in known)):
        if feature != NOTHING:
            FEATURES.write_text(f"NO_{feature}")
        for trial in range(trials):
            for name in SITUATIONS:
                found = wakes(name, cpu, turn_us=turn_us, short_us=short_us, phases=phases)
                rows += [{"off": feature, "situation": name, "trial": trial} | row for row in found]
        if feature != NOTHING:
            FEATURES.write_text(feature)
    by_name = {name: [row[name] for row in rows] for name in rows[0]}
    return {"had": had, "without": [name for name in off if name not in known], "wakes": by_name}
