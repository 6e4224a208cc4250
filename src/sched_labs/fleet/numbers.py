"""The numbers of a result: every quantity of its summary that has an interval, named by its row.

A summary has columns that name its rows (a mechanism, a working set) and quantities with their intervals
(`stem_unit`, `stem_lo_unit`, `stem_hi_unit`, as core/stats.py writes them).  A kind whose summary has no
interval gives its times, and says nothing about how far a machine agrees with itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from ..core.result import Result
from ..core.tables import heading

MOST = 400  # of one result
LONGEST_NAME = 160


def of(result: Result) -> list[list[Any]]:
    """[name, column, value, low, high] for each number; low and high are None without an interval.

    The name says the row, then the quantity without its unit, "pipe, threads, same cpu: net per switch"; the
    column has the unit.  Values that are not finite are left out.
    """
    table = result.summary()
    columns = dict(_with_interval(table)) or {
        str(name): ("", "") for name in table.columns if str(name).endswith(("_ns", "ms_per_s"))
    }
    keys = _keys(table, list(columns), [end for ends in columns.values() for end in ends])
    found: list[list[Any]] = []
    for row in table.to_dict("records"):
        said = ", ".join(_said(name, row[name]) for name in keys)
        for name, (low, high) in columns.items():
            ends = [_finite(row.get(end)) for end in (low, high)]
            value = _finite(row[name])
            if value is not None:
                quantity = heading(name)[0].replace("_", " ")
                label = f"{said}: {quantity}" if said else quantity
                found.append(
                    [label[:LONGEST_NAME], name, value, *(ends if None not in ends else (None, None))]
                )
    return found[:MOST]


def _with_interval(table: pd.DataFrame) -> Iterator[tuple[str, tuple[str, str]]]:
    """(quantity, (its low end, its high end)), by columns."""
    names = [str(name) for name in table.columns]
    for low in names:
        parts = low.split("_")
        if "lo" not in parts:
            continue
        place = parts.index("lo")
        high = "_".join([*parts[:place], "hi", *parts[place + 1 :]])
        stem, unit = "_".join(parts[:place]), "_".join(parts[place + 1 :])
        exact = f"{stem}_{unit}".removesuffix("_")
        fitting = [one for one in names if one.startswith(f"{stem}_") and one.endswith(unit)]
        fitting = [one for one in fitting if one not in (low, high)]
        # An interval may have the first word of its quantity only: net_lo_ns is that of net_per_switch_ns.
        quantity = (
            exact if exact in names else next(iter(sorted(fitting, key=lambda one: "p50" not in one)), "")
        )
        if quantity and high in names:
            yield quantity, (low, high)


def _keys(table: pd.DataFrame, quantities: list[str], ends: list[str]) -> list[str]:
    """The columns that name a row: its words, and as many whole numbers as it takes to tell rows apart."""
    first = min((list(table.columns).index(name) for name in quantities), default=len(table.columns))
    words = [
        str(name)
        for name in table.columns[: first + 1]
        if table[name].dtype == object or str(table[name].dtype) in ("str", "string")
    ]
    whole = [
        str(name)
        for name in table.columns
        if pd.api.types.is_integer_dtype(table[name]) and name not in (*quantities, *ends, "trials", "waits")
    ]
    while whole and (table.duplicated(words).any() if words else len(table) > 1):
        words.append(whole.pop(0))
    return words


def _said(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value.replace("_", " ")
    return f"{heading(name)[0].replace('_', ' ')} {value:,}"


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and abs(number) < 1e15 else None
