"""A privileged program of ours in the hands of somebody who means it no good.

As root it is started as sudo starts it, for another user; else as this user can start it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sched_labs.probes import channel

NOBODY = 65534


class Helper:
    """A running program, and both ends of its pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.unread = b""

    @property
    def status(self) -> str:
        return Path(f"/proc/{self.process.pid}/status").read_text()

    def send(self, line: str | dict[str, Any]) -> None:
        """One line to the program, which may have gone."""
        assert self.process.stdin
        text = line if isinstance(line, str) else json.dumps(line)
        with suppress(BrokenPipeError):
            self.process.stdin.write(text.encode() + b"\n")

    def read(self, seconds: float = 60) -> dict[str, Any]:
        """The next record.  A helper that says nothing in time is a failure."""
        assert self.process.stdout
        end = time.monotonic() + seconds
        while b"\n" not in self.unread:
            assert select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0], "silence"
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            assert more, "it ended without a word"
            self.unread += more
        line, _, self.unread = self.unread.partition(b"\n")
        return dict(json.loads(line))

    def rest(self) -> list[dict[str, Any]]:
        """All that it still says until it ends."""
        assert self.process.stdout
        while more := os.read(self.process.stdout.fileno(), 1 << 16):
            self.unread += more
        return [json.loads(line) for line in self.unread.splitlines()]

    def until(self, holds: Callable[[], bool], what: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"not so within {seconds} s: {what}"
            time.sleep(0.01)

    @staticmethod
    def first_of(several: Sequence[Helper], seconds: float = 60) -> Helper:
        """Whichever speaks first."""
        pipes = {one.process.stdout: one for one in several}
        ready, _, _ = select.select(list(pipes), [], [], seconds)
        return pipes[ready[0]]

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            self.process.wait(90)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                self.process.kill()
            self.process.wait()


@contextmanager
def helper(
    request: dict[str, Any] | None = None,
    *,
    program: str = channel.PROBE,
    uid: int = NOBODY,
    live: bool = False,
    **options: Any,
) -> Iterator[Helper]:
    """Without privilege, except for root, or where it is `live`."""
    direct = [channel.PYTHON, "-I", str(channel.OURS / program)]
    environment = {"SUDO_UID": str(uid), "SUDO_GID": str(uid)} if os.geteuid() == 0 else {}
    running = Helper(
        subprocess.Popen(
            channel.helper_command(program) if live and os.geteuid() != 0 else direct,
            bufsize=0,
            env=environment,
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options},
        )
    )
    try:
        if request is not None:
            running.send({"version": channel.VERSION, **request})
        yield running
    finally:
        running.close()
