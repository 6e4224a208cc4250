"""Two sides in turns, until what they are compared by is known well enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from ..core import stats

FEWEST, MOST = 6, 15  # turns; an interval of 95 % needs six


@dataclass(frozen=True)
class Compared:
    """What several turns say of one measure: its median with its 95 % interval, and the limits it has.

    A measure is mostly a ratio of the two sides of a turn.  It is rounded to three places before it is
    judged: what is printed is what was tested.
    """

    median: float
    low: float
    high: float
    turns: int
    at_least: float = -inf
    at_most: float = inf

    @property
    def holds(self) -> bool | None:
        """Whether it is within its limits; None where the interval leaves that open."""
        if self.at_least <= self.low and self.high <= self.at_most:
            return True
        return False if self.high < self.at_least or self.low > self.at_most else None

    def __str__(self) -> str:
        """As a number: 0.382 (0.351 to 0.4 in 6 turns)."""
        return f"{self.median:g} ({self.low:g} to {self.high:g} in {self.turns} turns)"

    @property
    def percent(self) -> str:
        """As a percentage: 38.2 % (35.1 to 40.0 % in 6 turns)."""
        median, low, high = (f"{100 * value:.1f}" for value in (self.median, self.low, self.high))
        return f"{median} % ({low} to {high} % in {self.turns} turns)"


def summed_up(values: Sequence[float], *, at_least: float = -inf, at_most: float = inf) -> Compared:
    """One measure of several turns."""
    median, low, high = (round(value, 3) for value in stats.sign_interval(values))
    return Compared(median, low, high, len(values), at_least, at_most)


def compare(
    turn: Callable[[int], Mapping[str, float]],
    *,
    at_least: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
) -> dict[str, Compared]:
    """Take turns until each measure is clearly within its limits or clearly not, at most MOST of them.

    turn   runs both sides, one right after the other, and gives measures by name.  It gets the turn's number,
           so that the sides can go first in turns.
    """
    low, high = at_least or {}, at_most or {}
    measured: dict[str, list[float]] = {name: [] for name in (*low, *high)}
    while True:
        number = len(next(iter(measured.values())))
        for name, value in turn(number).items():
            measured[name].append(value)
        found = {
            name: summed_up(values, at_least=low.get(name, -inf), at_most=high.get(name, inf))
            for name, values in measured.items()
        }
        settled = all(one.holds is not None for one in found.values())
        if number + 1 >= (FEWEST if settled else MOST):
            return found
