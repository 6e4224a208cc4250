"""A table as a person reads it in a terminal: 12.0 ms where the data has 11,990,567.4 ns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .words import MINUS, number_text, size_text

if TYPE_CHECKING:
    import pandas as pd

_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}  # as a column's name has them
_WRITTEN = {"ns": "ns", "us": "µs", "ms": "ms", "s": "s"}
_UNITS = (*_TIMES, "bytes")


def table_text(table: pd.DataFrame) -> str:
    """The table in plain text, numbers in their cells with the unit that their column's name has.

    A heading loses that unit; one that would then be the same as another's says what it is instead.
    """
    import pandas as pd

    columns: dict[str, list[str]] = {}
    for name in table.columns:
        head, unit = heading(str(name))
        if unit and (head in table.columns or head in columns):
            head = f"{head}_{'size' if unit == 'bytes' else 'time'}"
        columns[head] = [cell(value, unit) for value in table[name]]
    return pd.DataFrame(columns).to_string(index=False)


def heading(name: str) -> tuple[str, str | None]:
    """`p50_ns` is ("p50", "ns"); the word after `per` is no unit of the number: `calls_per_s` has none."""
    parts = name.split("_")
    for place, part in enumerate(parts):
        if part in _UNITS and parts[place - 1 : place] != ["per"]:
            return "_".join(parts[:place] + parts[place + 1 :]) or name, part
    return name, None


def cell(value: Any, unit: str | None = None) -> str:
    """A value of this unit (as a column's name has it) in one that reads well; "-" without a value."""
    if value is None or value != value:
        return "-"
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        return str(value)
    if unit == "bytes":
        return size_text(float(value))
    if unit:
        return _time(float(value) * _TIMES[unit])
    return f"{value:,}" if hasattr(value, "__index__") else number_text(float(value), 4)


def _time(ns: float) -> str:
    """Three digits, also where the last is a zero: in a column, 12 ms is less exact than 12.0 ms."""
    if not ns or not math.isfinite(ns):
        return number_text(ns)
    unit = next((unit for unit, one in _TIMES.items() if abs(ns) < 999.5 * one), "s")
    size = abs(ns) / _TIMES[unit]
    places = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{MINUS if ns < 0 else ''}{size:,.{places}f} {_WRITTEN[unit]}"
