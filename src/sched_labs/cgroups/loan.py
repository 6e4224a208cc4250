"""A group of this user's own, lent by the privileged helper where no other can be had."""

from __future__ import annotations

import atexit
import os
from typing import Any

from ..errors import PlacementError, ProbeError
from ..machine.seen import Seen
from .folders import parent_for, steered


class Loan:
    """A group of this user's own, lent by the privileged helper where no other can be had; until the end."""

    _channel: Any = None
    _asked_by: int | None = None

    @classmethod
    def take(cls) -> None:
        """Ask for it, once in each program, if it is needed.  What cannot be lent is told by who needs it."""
        from ..probes.channel import Channel  # which needs what only runs with a helper need

        if os.getuid() == 0 or (cls._asked_by == os.getpid() and not (cls._channel and cls._channel.ended)):
            return
        try:
            parent_for(steered(Seen(), "cpu"), ("cpu",))
            return
        except PlacementError:
            pass
        cls._asked_by, cls._channel = os.getpid(), None
        try:
            request = {
                "probe": "groups", "version": 3, "scope": "processes", "pids": [os.getpid()],
                "duration_s": 3600, "interval_s": 60,
            }  # fmt: skip
            cls._channel = Channel(request)
        except ProbeError:
            return  # not installed, or not for this user: then there is none
        atexit.register(cls._channel.close)
