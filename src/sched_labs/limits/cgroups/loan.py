"""A group of this user's own, lent by the privileged helper where no other can be had."""

from __future__ import annotations

import atexit
import os
from typing import Any

from ...core.errors import PlacementError, ProbeError
from ...machine.seen import Seen
from .folders import parent_for, steered


class Loan:
    """A group of this user's own, lent by the privileged helper where no other can be had; until the end."""

    _channel: Any = None
    _asked_by: int | None = None
    _refused = ""

    @classmethod
    def take(cls) -> None:
        """Ask for it, once in each program, if it is needed.  Raises PlacementError where none can be had."""
        from ...probes.channel import LEND, Channel  # which needs what only runs with a helper need

        if os.getuid() == 0:
            return
        try:
            parent_for(steered(Seen(), "cpu"), ("cpu",))
            return
        except PlacementError as error:
            missing = error
        if cls._asked_by != os.getpid() or (cls._channel and cls._channel.ended):
            cls._asked_by, cls._channel, cls._refused = os.getpid(), None, ""
            try:
                cls._channel = Channel({"pid": os.getpid(), "duration_s": 3600}, LEND)
                atexit.register(cls._channel.close)
            except ProbeError as error:
                cls._refused = error.what
        if cls._refused:
            what = f"{missing.what} And none is lent: {cls._refused}"
            raise PlacementError(what, missing.remedy, lacking=missing.lacking)
