"""All threads together, and how long a stint on the CPU lasts."""

import pandas as pd


def diagnose(threads: pd.DataFrame) -> str:
    """One of the sheet's words."""
    voluntary = threads.voluntary_per_s.sum()
    involuntary = threads.involuntary_per_s.sum()
    switches = voluntary + involuntary
    leader = threads[threads.leader].voluntary_per_s.sum()
    if len(threads) > 2 and leader < 0.05 * voluntary:
        return "pool with an idle leader"
    stint_ns = 1e9 * threads.cpu_share.sum() / max(switches, 1e-9)
    if involuntary > voluntary and stint_ns < 100_000:
        return "yielding"  # nobody is taken off a CPU as often as that
    if voluntary < 0.02 * switches:
        return "CPU-contended"
    # Many short stints are an exchange with somebody else, however they end.
    if involuntary > 0.1 * switches and stint_ns > 500_000:
        return "I/O-bound and CPU-contended"
    return "I/O-bound"
