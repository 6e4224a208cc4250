"""Which machine changed over the weeks, in what, and when: drift and steps, with dates.

A series is one number of one machine, a value for each round.  It is held against every step that it could
have and against a straight line; the best of them counts.  So many series are looked at that something fits
by chance, so the best fit of all series is taken for rounds in another order, again and again, as `compare`
deals traits anew (Westfall and Young, 1993).  What is no larger than the machine's own interval is no change.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .compare import LEVEL
from .tables import Fleet

FEWEST = 8  # rounds: fewer have too few orders
EDGE = 2  # rounds on either side of a step
_WORK = 4e9  # multiplications: with more series the rounds are shuffled less often


def changes(fleet: Fleet, *, seed: int = 0) -> pd.DataFrame:
    """machine, kind, name, column, what (step, drift), before, after, since (a step's date), facts, p.

    before and after are medians on both sides of a step, or of the first and the last quarter of a drift;
    facts says what else changed on the machine at a step.  p is corrected for all series.
    """
    names = ["machine", "kind", "name", "column"]
    columns = [*names, "what", "before", "after", "since", "p"]
    table = fleet.numbers
    counts = table.groupby(names, observed=True)["value"].transform("size")
    table = table.assign(count=counts, width=table["high"] - table["low"])[counts >= FEWEST]
    rows: list[dict[str, Any]] = []
    lengths = sorted(set(table["count"]))
    for count in lengths:
        same = table[table["count"] == count].sort_values([*names, "round"])
        values = same["value"].to_numpy().reshape(-1, count)
        best, p = fitted(values, least=math.ceil(2 * len(lengths) / LEVEL), seed=seed)
        width = np.nan_to_num(np.nanmedian(same["width"].fillna(0).to_numpy().reshape(-1, count), axis=1))
        for place in np.flatnonzero(p * len(lengths) <= LEVEL):
            part = same.iloc[place * count : (place + 1) * count]
            change = _change(part, int(best[place]), count)
            if abs(change["after"] - change["before"]) > width[place]:
                rows.append({**part.iloc[0][names], **change, "p": float(p[place]) * len(lengths)})
    found = pd.DataFrame(rows, columns=columns).sort_values("p", kind="stable").reset_index(drop=True)
    found["facts"] = [_also(fleet.facts, row) for row in found.to_dict("records")]
    return found


def fitted(
    values: NDArray[np.float64], *, least: int = 99, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(what fits best, p) of each row: the last value before a step, or -1 for a straight line.

    The rounds are shuffled `least` times or more: p is no smaller than one in so many.
    """
    count = values.shape[1]
    cuts = np.arange(EDGE - 1, count - EDGE)
    shapes = np.hstack([np.arange(count)[:, None] > cuts, np.arange(count)[:, None]]).astype(np.float32)
    shapes -= shapes.mean(axis=0)
    shapes /= np.sqrt((shapes**2).sum(axis=0))
    centred = (values - values.mean(axis=1, keepdims=True)).astype(np.float32)
    size = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    centred = np.divide(centred, size, out=np.zeros_like(centred), where=size > 0)
    fits = np.abs(centred @ shapes)
    generator = np.random.default_rng(seed)
    times = max(least, int(min(_WORK / (centred.size * shapes.shape[1]), 999)))
    largest = np.sort([np.abs(centred @ shapes[generator.permutation(count)]).max() for _ in range(times)])
    above = np.searchsorted(largest, fits.max(axis=1) - 1e-6, side="left")
    best = fits.argmax(axis=1)
    return np.where(best < len(cuts), cuts[np.minimum(best, len(cuts) - 1)], -1), (times - above + 1) / (
        times + 1
    )


def _change(part: pd.DataFrame, last: int, count: int) -> dict[str, Any]:
    """A step behind that value, or a drift (-1), of one series in the order of its rounds."""
    values = part["value"].to_numpy()
    cut = last + 1 if last >= 0 else max(2, count // 4)
    after = values[cut:] if last >= 0 else values[-cut:]
    return {
        "what": "step" if last >= 0 else "drift",
        "before": float(np.median(values[:cut])),
        "after": float(np.median(after)),
        "since": part["round"].iloc[cut] if last >= 0 else None,
    }


def _also(facts: pd.DataFrame, row: Any) -> str:
    """What else changed on the machine between the rounds of a step."""
    if row["what"] != "step":
        return ""
    own = facts[facts["machine"] == row["machine"]].sort_values("round")
    before, after = own[own["round"] < row["since"]], own[own["round"] >= row["since"]]
    if before.empty or after.empty:
        return ""
    old, new = before.iloc[-1], after.iloc[0]
    words = [
        f"{key} {old[key]} → {new[key]}"
        for key in own.columns
        if key not in ("machine", "round") and old[key] != new[key]
    ]
    return "; ".join(words)
