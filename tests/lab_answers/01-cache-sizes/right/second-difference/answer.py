"""Where the curve bends upwards most: the second difference of the logarithm."""

import numpy as np
import pandas as pd


def cache_sizes(curve: pd.DataFrame) -> list[int]:
    sizes = curve.working_set_bytes.to_numpy(dtype=float)
    ns = np.log(curve.ns_per_line.rolling(3, center=True, min_periods=1).median().to_numpy())
    slope = np.gradient(ns, np.log2(sizes))
    bend = np.gradient(slope, np.log2(sizes))
    found: list[int] = []
    # From the sharpest bend down; what lies within a factor of five of one that was taken is the same cache.
    for place in np.argsort(-bend):
        rises = slope[place : place + 4].max() > 0.25
        if (
            bend[place] > 0.12
            and rises
            and all(max(size, sizes[place]) > 5 * min(size, sizes[place]) for size in found)
        ):
            found.append(int(sizes[place]))
    return sorted(found)
