"""A group for one `with`: made, set as asked, and taken away at its end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from ...core.errors import ParameterError, PlacementError
from .folders import find_homes, make, remove
from .group import PERIOD_US, Group, check_limit
from .leftovers import Guard, clear
from .loan import Loan


def possible() -> tuple[bool, str]:
    """(True, "") where this user can make a group with a quota now, else (False, why not)."""
    try:
        with group("possible"):
            return True, ""
    except PlacementError as error:
        return False, str(error)


def can_burst() -> bool:
    """Whether a group can save quota up for later periods.  Raises PlacementError where none can be made."""
    with group("possible") as found:
        return found.can_burst


@contextlib.contextmanager
def group(
    name: str,
    *,
    quota_us: int | None = None,
    period_us: int = PERIOD_US,
    burst_us: int = 0,
    weight: int | None = None,
    cpus: Sequence[int] | None = None,
    inside: Group | None = None,
) -> Iterator[Group]:
    """Make a group for one `with`; processes that are still in it at the end go back to where we are.

    name     letters, digits and hyphens
    weight   in v2's scale; None leaves the kernel's 100
    cpus     the CPUs that it may run on; on v1 that makes a second group, in the cpuset hierarchy
    inside   the group that it is made in, whose limits hold for it too; on v2 that one can hold no processes

    Raises ParameterError for a limit that no kernel takes, and PlacementError, naming the file, for a group
    that exists, a read-only mount, a controller that is not there, and everything that the kernel refuses.
    """
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise ParameterError(f"A group cannot be called {name!r}.", "Use letters, digits and hyphens.")
    check_limit(quota_us, period_us, burst_us)
    Guard.watch()
    Loan.take()
    clear()
    homes = find_homes()  # before anybody puts this very process into the group
    made: list[str] = []
    try:
        found = make(name, inside, cpus is not None, made)
        if quota_us is not None or period_us != PERIOD_US:
            found.limit(quota_us, period_us, burst_us)
        if weight is not None:
            found.weigh(weight)
        if cpus is not None:
            found.confine(cpus)
        yield found
    finally:
        for folder in reversed(made):
            remove(folder, homes)
