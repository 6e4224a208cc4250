"""Are the numbers in a sentence numbers of the data?  For texts that stand in for a picture."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# A column's unit is in its name: what its values are worth in the unit that sentences are compared in.
UNITS = {
    "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "percent": 0.01, "%": 0.01, "share": 1.0,
    "ratio": 1.0, "B": 1.0, "bytes": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3, "hz": 1.0,
    "million": 1e6,
}  # fmt: skip
_NUMBER = re.compile(
    r"(?<![\w.])([−-]?\d[\d,]*(?:\.\d+)?)(?:[ \u00a0]?(ns|µs|ms|s|B|KiB|MiB|GiB|%|million)(?!\w))?"
)
# Which of the waits a quantile speaks of, or how sure an interval is, is no number of the data.
_LEVELS = {50.0, 90.0, 95.0, 99.0, 99.9}


def made_up(
    text: str, frames: Iterable[pd.DataFrame], facts: Mapping[str, Any], described: str = ""
) -> Iterator[str]:
    """The numbers of a text, as they are written there, that no frame and no fact holds.

    frames     columns of numbers with their units in their names, and of words
    facts      numbers with a meaning of their own: the machine's, the parameters
    described  what the columns are said to be: limits of the method stand there as they are written here

    A number stands for all that are rounded to it, and for sums of a column over all rows or over those with
    the same word.
    """
    frames = list(frames)
    values = np.unique(np.concatenate([*map(_numbers, frames), np.array([*_flat(facts)], dtype=float)]))
    words = {word for frame in frames for word in _words(frame)}
    for match in _NUMBER.finditer(text):
        written, unit = match[1].rstrip(","), match[2]
        value, half = _rounded(written)
        if (unit == "%" and value in _LEVELS) or written.lstrip("−-") in words or match[0] in described:
            continue
        scales = (UNITS[unit],) if unit else (1.0, 0.01, 1e3, 1e6, 1e9)
        if not any(_holds(values, value * scale, half * scale) for scale in scales):
            yield match[0].strip()


def unit_of(column: str) -> float | None:
    """What a value of a column is worth in the unit of sentences, or None where its name has no unit."""
    top = re.sub(r"_?(?<![a-z0-9])per_.*$", "", column)  # ns_per_packet is a time, ms_per_s too
    for part in reversed(top.split("_")):
        if part in UNITS:
            return UNITS[part]
    return None


def _rounded(written: str) -> tuple[float, float]:
    """A number as it is written, and half of what its last digit is worth: of three digits at the most."""
    digits = written.replace(",", "").replace("−", "-")
    value = float(digits)
    last = 10.0 ** -len(digits.partition(".")[2])
    return value, 0.51 * max(last, 10.0 ** (math.floor(math.log10(abs(value) or 1.0)) - 2))


def _holds(values: NDArray[np.float64], value: float, half: float) -> bool:
    first = int(np.searchsorted(values, value - half))
    return first < len(values) and bool(values[first] <= value + half)


def _numbers(frame: pd.DataFrame) -> NDArray[np.float64]:
    found = [np.array([float(len(frame))])]
    groups = [name for name in frame.columns if _is_words(frame[name])]
    for name in frame.columns:
        column = frame[name]
        if _is_words(column) or pd.api.types.is_bool_dtype(column):
            continue
        scale = unit_of(name) or 1.0
        sums = [[column.sum()], *(column.groupby(frame[word]).sum() for word in groups)]
        found += [np.asarray(values, dtype=float) * scale for values in (column, *sums)]
    every = np.concatenate(found)
    return every[np.isfinite(every)]


def _is_words(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column)


def _words(frame: pd.DataFrame) -> Iterator[str]:
    for name in frame.columns:
        if _is_words(frame[name]):
            for word in frame[name].dropna().unique():
                yield from re.findall(r"\d[\d,]*(?:\.\d+)?", str(word))


def _flat(fact: Any) -> Iterator[float]:
    if isinstance(fact, Mapping):
        for value in fact.values():
            yield from _flat(value)
    elif isinstance(fact, list | tuple):
        yield float(len(fact))
        for value in fact:
            yield from _flat(value)
    elif isinstance(fact, int | float) and not isinstance(fact, bool) and math.isfinite(fact):
        yield float(fact)
