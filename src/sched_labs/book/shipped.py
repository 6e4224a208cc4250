"""A chapter made of the runs that ship with the book: to be read while this machine measures its own.

The kernel that makes such a chapter calls `use()` before its first cell.
"""

from __future__ import annotations

from typing import Any

from ..core.errors import SchedLabError
from ..core.result import Result, recorded
from ..run.base import Experiment

PROFILE = "recorded"
START = "import sched_labs.book.shipped as _shipped; _shipped.use()"


def use() -> None:
    """From now on an experiment returns the run that ships with it, marked as one that was not measured here.

    It measures nothing then, whatever its parameters.  One without such a run says that it has none.
    """
    Experiment.__call__ = _shipped  # type: ignore[method-assign]


def _shipped(self: Experiment, **given: Any) -> Result:
    run = recorded(self.name)
    if run is None:
        raise SchedLabError(
            f"No run of {self.name} ships with the book.", "Measure it: make book", lacking=True
        )
    return run.standing_in(SchedLabError("It has not been measured here yet."))
