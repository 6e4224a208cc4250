"""A number with all that defends it: its interval, how it was measured, and the baseline that it is not.

Every chapter ends with a few of these, computed from the reader's own run.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import pandas as pd

from ..core.errors import ParameterError
from ..core.result import ENOUGH, Result
from ..core.stats import Interval, seen
from ..draw.axes import number_text, size_text, time_text
from .base import ends_once

_WIDTH = 68
_KEEP = "\u00a0"  # a number stays on the line of its unit
_UNITS = {"ns": time_text, "B": size_text}


def defend(
    result: Result,
    what: str,
    value: Sequence[float] | pd.Series,
    *,
    unit: str = "ns",
    measured: str,
    instead: str = "",
    baseline: float | None = None,
    floor: float | None = None,
) -> None:
    """Print what a reader can say about one number of `result`, and what defends it.

    what      what it is, as the beginning of a sentence: "A hand-over on one CPU costs"
    value     the number and the two ends of its 95 % interval, or the number alone; of too few trials for
              such an interval the sentence says so
    unit      "ns" and "B" are written in the unit that suits; any other as it is
    measured  how
    instead   what it is not, and the baseline that shows it
    baseline  that baseline as a number, of one that was measured its upper end: where the interval reaches
              down to it, it "may be" that
    floor     by how much the same condition differs from itself: within it, it "may be" noise

    Raises ParameterError where value is neither one number nor three, or a floor stands beside one alone.
    """
    if len(value) not in (1, 3):
        raise ParameterError(
            f"{len(value)} numbers are no value with its interval.", "Give one number, or three."
        )
    if floor is not None and len(value) == 1:
        raise ParameterError("A number alone is not held against noise.", "Give its interval, too.")

    def text(number: float) -> str:
        written = _UNITS[unit](number) if unit in _UNITS else f"{number_text(number)} {unit}"
        return written.replace(" ", _KEEP)

    middle, *ends = (float(number) for number in value)
    if not math.isfinite(middle):
        _say(f"{what}: this run has no number for it; its notes may say why.")
        return
    interval = f" [{ends_once(f'{text(ends[0])} to {text(ends[1])}')}]" if ends else ""
    lines = [f"{what} {text(middle)}{interval}.", f"Measured: {measured}."]
    if ends and (trials := result.few_trials) > 1:
        lines.append(
            f"The brackets hold at most the range of {trials} trials; a 95 % interval takes {ENOUGH}."
        )
    if instead:
        clear = baseline is None or min([middle, *ends]) > baseline
        lines.append(f"It {'is not' if clear else 'may be'} {instead}.")
    if floor is not None:
        clear = seen(Interval(middle, *ends), floor)
        noise = (
            f"the noise floor, the same against itself, is {text(floor)}"
            if math.isfinite(floor)
            else "there were too few trials to tell"
        )
        lines.append(f"It {'is not' if clear else 'may be'} noise: {noise}.")
    if result.flags:
        lines.append("This run is flagged: read its notes before you quote the number.")
    _say(*lines)


def _say(first: str, *others: str) -> None:
    print(textwrap.fill(first, _WIDTH, subsequent_indent="  "))
    for line in others:
        print(textwrap.fill(line, _WIDTH, initial_indent="  ", subsequent_indent="    "))
    print()
