"""A quantity of several trials as three columns of a summary: its median and its 95 % interval."""

from __future__ import annotations

import pandas as pd

from .. import stats


def spread(stem: str, unit: str, values: pd.Series) -> dict[str, float]:
    """{stem_unit, stem_lo_unit, stem_hi_unit}; values has one number per trial."""
    middle, low, high = stats.median_interval(values)
    return {f"{stem}_{unit}": middle, f"{stem}_lo_{unit}": low, f"{stem}_hi_{unit}": high}
