"""`python victim.py WHEN TELL HEAR LOCK WORDS...`: the command line, which halts at one moment of a run.

There it writes a line to the descriptor TELL and reads from HEAR what to do before it goes on: nothing, or a
JSON list with the name of a function of the shim and its arguments, or with "no descriptors".
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sched_labs import cli
from sched_labs.core import lock
from sched_labs.limits.cgroups import making
from sched_labs.probes import channel
from sched_labs.run.base import Run
from sched_labs.workloads.launch import Workload

# When: whose call it is, and whether it is before that or after it.
MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "before the lock": (Run, "begin", False),
    "holding it": (Run, "begin", True),
    "workload ready": (Workload, "__init__", True),
    "measuring": (Workload, "go", True),
    "group made": (making, "make", True),
    "helper ready": (channel.Channel, "__init__", True),
    "window open": (channel.Window, "start", True),
    "saving": (os, "fsync", False),
}


def main(when: str, tell: int, hear: int, place: str, words: list[str]) -> int:
    lock._PLACES = (Path(place),)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script in the background has it ignored
    owner, name, after = MOMENTS[when]
    real, halted = getattr(owner, name), []

    def halt() -> None:
        if not halted:
            halted.append(True)
            os.write(tell, b"there\n")
            told = os.read(hear, 1000)
            function, *arguments = json.loads(told or b'[""]')
            if function == "no descriptors":
                used = len(list(Path("/proc/self/fd").iterdir()))
                resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
            elif function:
                getattr(ctypes.CDLL(None), function)(
                    *(one.encode() if isinstance(one, str) else ctypes.c_long(one) for one in arguments)
                )

    def halting(*arguments: Any, **named: Any) -> Any:
        if not after:
            halt()
        found = real(*arguments, **named)
        if after:
            halt()
        return found

    setattr(owner, name, _as(real, halting))
    return cli.main(words)


def _as(real: Callable[..., Any], wrapped: Callable[..., Any]) -> Callable[..., Any]:
    wrapped.__name__ = getattr(real, "__name__", "wrapped")
    return wrapped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]))
