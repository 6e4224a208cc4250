"""What goes wrong with a scheduler, in its author's terms."""

from __future__ import annotations

from ..core.errors import SchedLabError


class SchedulerError(SchedLabError):
    """A scheduler that does not compile, that the kernel refuses, or that it took the machine back from."""
