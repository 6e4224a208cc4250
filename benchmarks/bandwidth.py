"""Is the bandwidth model fast enough to sit under a slider?  One minute of 16 threads, in under 50 ms.

Every block runs each case once, so that a busy machine slows all of them; a line says the median.  A loop of
a million additions runs in the same blocks: where that takes longer, the machine is slower or busier.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from sched_labs import bandwidth

BLOCKS = 15
TARGET_S = 0.050
QUOTA_US, PERIOD_US, THREADS, WORK_US = 400_000, 100_000, 16, 5_000
FULL_PER_S = QUOTA_US / PERIOD_US / WORK_US * 1e6  # the rate at which the requests need all of the quota


def minute(load: float | None) -> Callable[[], object]:
    """One minute at a load of the quota, or of threads that never sleep (None)."""
    requests = {} if load is None else {"arrivals_per_s": load * FULL_PER_S, "work_us": WORK_US}
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
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
