"""Climbs of the curve, on a logarithmic scale: a cache ends where a climb begins."""

import numpy as np
import pandas as pd

STEP = 1.3  # a climb makes a line this much slower within one doubling, or noise explains it


def cache_sizes(curve: pd.DataFrame) -> list[int]:
    """Sizes in bytes, smallest first.  curve: working_set_bytes, ns_per_line; smallest set first."""
    sizes = curve.working_set_bytes.to_numpy(dtype=float)
    # A median of three takes out single outliers, and leaves a climb where it is.
    ns = curve.ns_per_line.rolling(3, center=True, min_periods=2).median().to_numpy()
    growth = np.diff(np.log(ns)) / np.diff(np.log2(sizes))
    climbing = growth > np.log(STEP)
    found = []
    for place in range(len(growth)):
        if climbing[place] and not climbing[max(0, place - 1) : place].any():
            found.append(int(sizes[place]))
    # A cache is many times the one before: two climbs within a factor of five are one climb with a dent.
    kept: list[int] = []
    for size in found:
        if not kept or size > 5 * kept[-1]:
            kept.append(size)
    return kept
