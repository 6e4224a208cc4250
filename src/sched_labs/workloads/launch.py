"""Start a workload, hold it at its barrier, read its records, and end it whatever happens.

The protocol is the one that `src/lab.h` describes: lines of text out, `go` in.  Four things end a workload:
its own end, its deadline (an alarm in the program), the end of its standard input (so a killed notebook
kernel takes it along), and `Workload.end()`, which kills its process group.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from ..core.errors import ThreadLimitError, WorkloadError
from .build import path

MARKER = "SCHED_LABS_RUN"  # in the environment of every workload, so that `sched-labs clean` can find orphans
_NO_THREAD = 11  # LAB_NO_THREAD in lab.h
_GRACE_S = 5.0  # how long past its own deadline a workload may take before it is killed from here


def owner_mark(pid: int | None = None) -> str:
    """`pid:start time in ticks` of a process: names it even after its pid is used again."""
    pid = pid or os.getpid()
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        after_name = file.read().rpartition(")")[2].split()
    return f"{pid}:{after_name[19]}"


@dataclass(frozen=True)
class Record:
    """One line of a workload: what it is, and its values (integers where they are integers)."""

    kind: str
    values: dict[str, int | str]

    def __getitem__(self, key: str) -> int:
        value = self.values.get(key)
        if not isinstance(value, int):
            raise WorkloadError(f"The workload wrote {key}={value!r} where a number was due.")
        return value

    def text(self, key: str) -> str:
        return str(self.values[key])


def parse(line: str) -> Record:
    """`block trial=0 condition=alone` -> Record.  Raises WorkloadError for a line of another form."""
    kind, *pairs = line.split()
    values: dict[str, int | str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise WorkloadError(f"A workload wrote a line that is no record: {line[:200]!r}.")
        try:
            values[key] = int(text)
        except ValueError:
            values[key] = text
    return Record(kind, values)


class Workload:
    """A running workload.  Use it as a context manager: leaving it ends the program, whatever it does."""

    def __init__(self, name: str, arguments: Sequence[str], deadline_s: float) -> None:
        self.name = name
        self.tids: list[int] = []
        binary = path(name)  # compiled if need be, which is not the workload's time
        self._deadline = time.monotonic() + deadline_s + _GRACE_S
        self._deadline_s = deadline_s
        self._buffer = b""
        self._done = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        try:
            self._process = subprocess.Popen(
                [str(binary), *arguments, "--deadline", str(max(1, round(deadline_s)))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # Not a session of its own: each session is a task group (autogroup), and between two groups
                # nice values and the number of threads count for nothing.
                process_group=0,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", MARKER: owner_mark()},
            )
        except OSError as error:
            self._errors.close()
            raise WorkloadError(f"The workload {name} does not start: {error.strerror}.") from error
        assert self._process.stdin and self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        try:
            for line in self._lines():
                ready = line.split()
                if ready[0] != "ready":
                    raise WorkloadError(f"The workload {name} said {line[:200]!r} before it was ready.")
                self.tids = [int(word.partition("=")[2]) for word in ready[1:]]
                break
            else:
                raise self._failure()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """The process that was started; it leads the process group of the whole workload."""
        return self._process.pid

    def __enter__(self) -> Workload:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def go(self) -> None:
        """Lift the barrier."""
        assert self._process.stdin
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def records(self) -> Iterator[Record]:
        """The records, as they arrive, until the workload says `done`.

        Raises WorkloadError when it ends without that: it died, was killed, or passed its deadline.
        """
        for line in self._lines():
            if line == "done":
                self._done = True
                return
            yield parse(line)
        raise self._failure()

    def run(self) -> list[Record]:
        """`go()`, then all records."""
        self.go()
        return list(self.records())

    def end(self) -> None:
        """End the workload and every process of it.  Harmless when it has ended already."""
        if self._process.poll() is None and self._done:
            # It has said all it had to say and is about to exit by itself.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._errors.close()

    def _lines(self) -> Iterator[str]:
        assert self._process.stdout
        while True:
            while (end := self._buffer.find(b"\n")) >= 0:
                line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
                if line.strip():
                    yield line.decode(errors="replace").strip()
            left = self._deadline - time.monotonic()
            if left <= 0 or not self._selector.select(timeout=left):
                os.killpg(self._process.pid, signal.SIGKILL)
                raise WorkloadError(
                    f"The workload {self.name} hung past its deadline of {self._deadline_s:.0f} s "
                    "and was killed.",
                    "Measure fewer points, or close what else keeps this machine busy.",
                )
            piece = os.read(self._process.stdout.fileno(), 1 << 20)
            if not piece:
                return
            self._buffer += piece

    def _failure(self) -> WorkloadError:
        try:
            status = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return WorkloadError(f"The workload {self.name} closed its output and went on running.")
        self._errors.seek(0)
        said = self._errors.read(2000).decode(errors="replace").strip()
        if status == -signal.SIGALRM:
            return WorkloadError(
                f"The workload {self.name} did not finish within its deadline of {self._deadline_s:.0f} s.",
                "Measure fewer points, or close what else keeps this machine busy.",
            )
        if status == _NO_THREAD:
            return ThreadLimitError(
                f"The workload {self.name} may not start as many threads: {said}", "Ask for fewer."
            )
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return WorkloadError(
            f"The workload {self.name} {how}" + (f": {said}" if said else " and said nothing.")
        )


def start(name: str, arguments: Sequence[str] = (), *, deadline_s: float = 60.0) -> Workload:
    """Start a workload and wait until it stands at its barrier.

    Its threads are then in `.tids`, in the order the program documents, and may be placed and watched.
    Raises WorkloadError when it cannot be built or started, and ParameterError for an unknown name.
    """
    return Workload(name, arguments, deadline_s)
