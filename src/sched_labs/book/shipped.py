"""A chapter made of the runs that ship with the book: to be read while this machine measures its own.

Its kernel calls `use()` when it starts; the kernel of chapters that measure, `keep_summaries()`.  Both call
`begin()` before each chapter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..core.errors import SchedLabError
from ..core.result import Result, recorded
from ..run import kept
from ..run.base import Experiment

PROFILE = "recorded"
START = "import sched_labs.book.shipped as _shipped; _shipped.{}()"
_summary = Result.summary


def use() -> None:
    """From now on an experiment returns the run that ships with it, marked as one that was not measured here.

    It measures nothing then, whatever its parameters.  One without such a run says that it has none.
    """
    Experiment.__call__ = _shipped  # type: ignore[method-assign]
    keep_summaries()


def begin(around: Mapping[str, str]) -> None:
    """Begin a chapter, with these variables: whatever the kernel ran before, its first run is its first."""
    os.environ.update(around)
    kept._asked.clear()


def keep_summaries() -> None:
    """From now on a result summarises its data once: a chapter asks it ten times."""
    Result.summary = _kept_summary  # type: ignore[method-assign]


def _kept_summary(self: Result) -> pd.DataFrame:
    kept = self.__dict__.get("_kept_summary")
    if kept is None or kept[0] is not self.data:
        kept = self.__dict__["_kept_summary"] = (self.data, _summary(self))
    return kept[1].copy()


def _shipped(self: Experiment, **given: Any) -> Result:
    run = recorded(self.name)
    if run is None:
        raise SchedLabError(
            f"No run of {self.name} ships with the book.", "Measure it: make book", lacking=True
        )
    return run.standing_in(SchedLabError("It has not been measured here yet."))
