"""Is the bandwidth model fast enough to sit under a slider, and does it say what is measured?

Speed: one minute of 16 threads, in under 50 ms.  Every block runs each case once, so that a busy machine
slows all of them; a line says the median.  A loop of a million additions runs in the same blocks: where that
takes longer, the machine is slower or busier.

Accuracy: the chapter's own run of a service, on this machine.  Throttled periods within 5 percentage points,
and the second mode within one bar of the histogram; only a machine with nothing else to do can show that.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from sched_labs import service
from sched_labs.limits import bandwidth, cgroups

BLOCKS = 15
TARGET_S, TARGET_POINTS, TARGET_BARS = 0.050, 5, 1
QUOTA_US, PERIOD_US, THREADS, WORK_US = 400_000, 100_000, 16, 5_000
FULL_PER_S = QUOTA_US / PERIOD_US / WORK_US * 1e6  # the rate at which the requests need all of the quota


def minute(load: float | None) -> Callable[[], object]:
    """One minute at a load of the quota, or of threads that never sleep (None)."""
    requests: dict[str, Any] = (
        {} if load is None else {"arrivals_per_s": load * FULL_PER_S, "work_us": WORK_US}
    )
    return lambda: bandwidth.simulate(
        QUOTA_US, PERIOD_US, threads=THREADS, cpus=THREADS, duration_s=60, **requests
    )


def additions() -> object:
    total = 0
    for _ in range(1_000_000):
        total += 1
    return total


def main() -> int:
    cases = {"never asleep": minute(None)} | {
        f"{load:.0%} of the quota": minute(load) for load in (0.5, 0.8, 1.2)
    }
    cases["(a million additions)"] = additions
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(BLOCKS):
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            times[name].append(time.perf_counter() - start)
    missed = False
    for name, values in times.items():
        median = statistics.median(values)
        judged = not name.startswith("(")
        missed |= judged and median >= TARGET_S
        target = f"target < {TARGET_S * 1e3:.0f} ms" if judged else ""
        print(f"{name:>24}  {median * 1e3:5.1f} ms  best {min(values) * 1e3:5.1f} ms  {target}")
    return int(accuracy() or missed)


def accuracy() -> bool:
    """Measure the service under its quotas and print how far the model is off; whether it is too far."""
    able, why = cgroups.possible()
    if not able:
        print(f"(no accuracy: {why})")
        return False
    limits = ["none", "quota", "quota + burst"]
    result = service.latency(profile="quick", limits=limits, neighbours=["idle"], save=False)
    seen = [block["boundary_ns"] is not None for block in result.parameters["blocks"] if block["periods"]]
    print(f"The begin of the periods was seen in {sum(seen)} of {len(seen)} runs of the server.")
    missed = False
    for row in service.model_error(result).itertuples():
        missed |= abs(row.off_by_points) > TARGET_POINTS or abs(row.off_by_bars) > TARGET_BARS
        one_sided = math.isnan(row.second_mode_ns) != math.isnan(row.model_second_mode_ns)
        bars = f"{row.off_by_bars:+.0f} bars" if math.isfinite(row.off_by_bars) else "no second mode"
        print(
            f"{row.limit:>14}, demand {row.demand_percent:2.0f} %  {row.off_by_points:+5.1f} points  "
            f"{'a second mode on one side only' if one_sided else bars}  "
            f"targets: {TARGET_POINTS} points, {TARGET_BARS} bar"
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
