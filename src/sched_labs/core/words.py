"""Numbers as a person reads them: 1.78 µs, 64 KiB, 12,345; never an exponent."""

from __future__ import annotations

import math

_TIMES = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
_SIZES = tuple((name, 1024.0**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB")))
MINUS = "\N{MINUS SIGN}"


def number_text(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, no exponent, no trailing zeros, commas between thousands.

    Digits in front of the decimal point are all kept: 12,345 stays 12,345.
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{abs(value):,.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{MINUS}{text}" if value < 0 and text != "0" else text


def count_text(value: float) -> str:
    """A count with three significant digits: 12,345 is "12,300", 3,804,000 is "3.8 million"."""
    if abs(value) >= 999_500:
        return f"{number_text(value / 1e6)} million"
    digits = 10 ** max(0, math.floor(math.log10(max(abs(value), 1))) - 2)
    return number_text(round(value / digits) * digits, 9)


def time_text(ns: float, digits: int = 3) -> str:
    """Nanoseconds in plain words: 1,780 is "1.78 µs"."""
    return _in_unit(ns, _TIMES, digits)


def size_text(size_bytes: float, digits: int = 3) -> str:
    """Bytes in plain words: 65,536 is "64 KiB"."""
    return _in_unit(size_bytes, _SIZES, digits)


def _in_unit(value: float, units: tuple[tuple[str, float], ...], digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return number_text(value)
    name, scale = units[0]
    # A value that would be rounded to a whole one of the next unit is written in that unit.
    limit = units[1][1] / units[0][1] * (1 - 0.5 * 10.0**-digits)
    for unit in units:
        name, scale = unit
        if abs(value) / scale < limit:
            break
    return f"{number_text(value / scale, digits)} {name}"
