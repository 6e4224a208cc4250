"""The best stairs with one, two or three steps: a level each, and a ramp of two doublings between them."""

from itertools import combinations, pairwise

import numpy as np
import pandas as pd

RAMP = np.log(4)


def cache_sizes(curve: pd.DataFrame) -> list[int]:
    sizes = np.log(curve.working_set_bytes.to_numpy(dtype=float))
    ns = np.log(curve.ns_per_line.to_numpy(dtype=float))
    best, found = np.inf, ()
    for steps in (1, 2, 3):
        for ends in combinations(sizes[2:-3], steps):
            if any(b - a < np.log(5) for a, b in pairwise(ends)):
                continue
            # How far the curve has come up each ramp; the heights are fitted.
            ramps = np.column_stack(
                [np.ones_like(sizes), *(np.clip((sizes - end) / RAMP, 0, 1) for end in ends)]
            )
            heights, *_ = np.linalg.lstsq(ramps, ns, rcond=None)
            left = ns - ramps @ heights
            cost = len(ns) * np.log(left @ left) + 3 * steps * np.log(len(ns))
            if cost < best and (heights[1:] > 0.3).all():
                best, found = cost, ends
    return [int(np.exp(end)) for end in found]
