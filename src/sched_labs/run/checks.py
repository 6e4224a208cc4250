"""What experiments check of their parameters before they begin: ParameterError says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import machine
from ..core.errors import ParameterError


def words(name: str, chosen: Any, known: Iterable[str]) -> None:
    """A list of one or more of these words.  One word alone is none: its letters would be looked up."""
    known = list(known)
    odd = [] if isinstance(chosen, str) else [word for word in chosen if word not in known]
    if isinstance(chosen, str) or not chosen or odd:
        wrong = odd[0] if odd else chosen
        raise ParameterError(f"{name} does not take {wrong!r}.", f"Give a list of: {', '.join(known)}.")


def whole(name: str, value: Any, least: int, most: int) -> None:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ParameterError(f"{name} must be a whole number from {least:,} to {most:,}, not {value!r}.")


def seconds(name: str, value: Any, least: float, most: float) -> None:
    """A time from `least` to `most`, in seconds."""
    if not isinstance(value, int | float) or not least <= value <= most:
        raise ParameterError(f"{name} must lie between {least:g} and {most:g} s, not at {value!r}.")


def cpu(number: Any) -> None:
    """A CPU that this process may use."""
    allowed = machine.survey().cpus_allowed
    if number not in allowed:
        raise ParameterError(
            f"CPU {number} may not be used by this process.", f"It may use: {', '.join(map(str, allowed))}."
        )
