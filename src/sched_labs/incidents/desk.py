"""The running incident as every terminal sees it: a folder, a state, and a lock that says whether it runs.

The state holds no cause: whoever judges draws it anew from the name and the seed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import jsontext, store
from ..core.errors import BusyError, ResultError, SchedLabError
from ..limits.cgroups import Group
from ..workloads.launch import owner_mark
from .story import NEEDS, Plan, names, plan

_WAIT_S = 15.0


def place() -> Path:
    """Where an incident lives while it runs."""
    return store.cache_folder() / "incident"


def _lock() -> Path:
    return store.cache_folder() / "incident.lock"


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Be the one incident of this user.  Raises BusyError when another one runs."""
    try:
        _lock().parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(_lock(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ResultError(
            f"Cannot write {_lock()}: {error.strerror}.", "Name a folder of yours in XDG_CACHE_HOME."
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BusyError(
                "An incident is running already, and goes on.", "Look at it: sched-labs incident status."
            ) from error
        yield
    finally:
        os.close(handle)


def _runs() -> bool:
    try:
        handle = os.open(_lock(), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Running:
    """The incident that runs: its plan (never printed), its folder, and what is known of it.

    owner   the process that runs it, by `owner_mark`
    """

    plan: Plan
    folder: Path
    state: dict[str, Any]

    @property
    def owner(self) -> str:
        return str(self.state["owner"])

    @property
    def pids(self) -> dict[str, int]:
        return {role: int(pid) for role, pid in self.state["pids"].items()}

    @property
    def names(self) -> dict[str, str]:
        return dict(self.plan.names)

    @property
    def group(self) -> Group | None:
        found = self.state.get("group")
        return Group(found[0], found[1]) if found else None


def write(state: dict[str, Any]) -> None:
    store.write_text(place() / "state.json", json.dumps(state, indent=1) + "\n")


def _is_whole(state: dict[str, Any]) -> bool:
    pids, group = state["pids"], state["group"]
    return (
        state["name"] in names()
        and type(state["seed"]) is int
        and set(state["without"]) <= set(NEEDS)
        and re.fullmatch(r"\d+:\d+", state["owner"]) is not None
        and isinstance(pids, dict)
        and all(type(pid) is int for pid in pids.values())
        and (group is None or (isinstance(group, list) and len(group) == 2))
    )


def running() -> Running:
    """The incident that runs.  Raises SchedLabError where none does, or it is still being set up."""
    if not _runs():
        raise SchedLabError("No incident is running.", "Start one: sched-labs incident start.")
    try:
        state = jsontext.parse((place() / "state.json").read_bytes())
        if not _is_whole(state):
            raise ValueError("it is no state that `write` was given")
        made = plan(
            state["name"], state["seed"], without=tuple(state["without"]), cause=state["cause"] or None
        )
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise SchedLabError(
            "The incident is being set up, or just ends.", "Try again in ten seconds."
        ) from error
    return Running(made, place(), state)


def _tell(owner: str) -> None:
    """SIGTERM for the process that runs the incident, and for no other that has its number by now."""
    pid = int(owner.partition(":")[0])
    with contextlib.suppress(OSError, OverflowError):  # it has ended
        who = os.pidfd_open(pid)
        try:
            # Began when the incident's did, and is there now: so it was there when it was opened.
            if owner_mark(pid) == owner:
                signal.pidfd_send_signal(who, signal.SIGTERM)
        finally:
            os.close(who)


def stop() -> None:
    """End the running incident, and wait until nothing is left of it."""
    found = running()
    _tell(found.owner)
    end = time.monotonic() + _WAIT_S
    while _runs() or place().exists():
        if time.monotonic() > end:
            raise SchedLabError(
                f"The incident does not end (process {found.owner.partition(':')[0]}).",
                "Run `sched-labs clean --all`.",
            )
        time.sleep(0.05)
