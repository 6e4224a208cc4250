"""An incident started as a reader starts it, apart from every other one, and looked at as a reader does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import troubles
from conftest import apart
from waiting import wait_until

from sched_labs.core import store
from sched_labs.incidents import desk, story
from sched_labs.limits import cgroups
from sched_labs.limits.cgroups import Group
from sched_labs.workloads.launch import MARKER, owner_mark

STARTED_S = 60  # the healthy run may have to be made three times


class Room:
    """One running incident: `process` is the terminal in which it was started."""

    def __init__(self, process: subprocess.Popen[str], environment: dict[str, str]) -> None:
        self.process, self.environment = process, environment
        self.mark = owner_mark(process.pid)
        self.told = ""

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`sched-labs incident WORDS` in a second terminal."""
        return subprocess.run(
            [sys.executable, "-m", "sched_labs", "incident", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.say("status", "--json").stdout)
        return found

    def wait_for_alarm(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.told += line
            if "alarm has gone off" in line:
                return
        pytest.fail(f"it did not start:\n{self.told}")

    def marked(self) -> list[int]:
        """The processes that belong to it, its watchdog among them."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and f"{MARKER}={self.mark}".encode() in (
                    entry / "environ"
                ).read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found


@contextlib.contextmanager
def started(folder: Path, patch: pytest.MonkeyPatch, *words: str, by: tuple[str, ...] = ()) -> Iterator[Room]:
    """`sched-labs incident start WORDS`, from its alarm on; it is ended as Ctrl-C ends it.

    by   a program that starts it, instead of this one
    What this process asks of the desk is answered from that incident, too.
    """
    environment = {**os.environ, **apart(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    workloads = store.cache_folder() / "workloads"  # compiled already
    (folder / "cache" / "sched-labs").mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        workloads.mkdir(parents=True, exist_ok=True)
        (folder / "cache" / "sched-labs" / "workloads").symlink_to(workloads)
    patch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    patch.setenv("XDG_DATA_HOME", environment["XDG_DATA_HOME"])
    with (
        _apart(words) as group,
        subprocess.Popen(
            [*by, sys.executable, "-u", "-m", "sched_labs", "incident", "start", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        if group:
            group.add(process.pid)
        room = Room(process, environment)
        try:
            room.wait_for_alarm()
            room.mark = desk.running().owner
            yield room
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
    assert nothing_left(room)


def _apart(words: tuple[str, ...]) -> contextlib.AbstractContextManager[Group | None]:
    """A group of much weight, so that what else this machine does hardly counts, where one can be made.

    None for a variant that needs a real-time policy: on some machines no group of ours may have one.
    """
    variants = story.plan(words[0], 0).story.variants
    realtime = any(one.cause in words and "priority" in one.needs for one in variants)
    able = cgroups.possible()[0] and not realtime
    return troubles.apart() if able else contextlib.nullcontext()


def nothing_left(room: Room) -> bool:
    """Whether neither a process nor the folder of it is left, within a while."""
    return wait_until(lambda: not room.marked() and not desk.place().exists())


def settle(seconds: float = 7) -> None:
    """Until what the dashboard shows is of now alone."""
    time.sleep(seconds)
