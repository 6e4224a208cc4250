"""What the reader sees on the terminal while the chapters run.

Experiments append one JSON object per line to the file named by SCHED_LABS_PROGRESS:
`{"experiment": str, "done": int, "total": int, "label": str}`. A follower reads what arrives and redraws one
line on a terminal, or prints a line now and then where the output is a log.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

VARIABLE = "SCHED_LABS_PROGRESS"
_BAR = 20
_LOG_EVERY_S = 10.0
_LOOK_EVERY_S = 0.2


class Terminal:
    """Lines that stay, and at most one line below them that is redrawn."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.live = self.stream.isatty()
        self._passing = False

    def say(self, text: str = "") -> None:
        """Print a line that stays."""
        self._wipe()
        print(text, file=self.stream, flush=True)

    def show(self, text: str) -> None:
        """Redraw the passing line; call it only where `live` is true."""
        width = shutil.get_terminal_size().columns - 1
        self.stream.write("\r\x1b[K" + text[:width])
        self.stream.flush()
        self._passing = True

    def _wipe(self) -> None:
        if self._passing:
            self.stream.write("\r\x1b[K")
            self._passing = False


class Follower:
    """Shows where one chapter is: the cell that runs, and the experiment inside it. A context manager."""

    def __init__(self, terminal: Terminal, file: Path, cells: int) -> None:
        self.terminal = terminal
        self.cells = cells
        self.file = file
        self._cell = 0
        self._record: dict[str, Any] = {}
        self._position = 0
        self._started = time.monotonic()
        self._logged = self._started
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="book-progress", daemon=True)

    def __enter__(self) -> Follower:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("", encoding="utf-8")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def cell(self, number: int) -> None:
        """Say that code cell `number` (from 1) has begun."""
        self._cell, self._record = number, {}

    @property
    def seconds(self) -> float:
        """Time since the chapter began."""
        return time.monotonic() - self._started

    def line(self) -> str:
        """Return one line about where the chapter is now."""
        where = f"  cell {self._cell} of {self.cells}"
        if not self._record:
            return f"{where}  {self.seconds:.0f} s"
        done, total = int(self._record.get("done", 0)), max(1, int(self._record.get("total", 1)))
        filled = min(_BAR, _BAR * done // total)
        bar = "█" * filled + "░" * (_BAR - filled)
        words = [
            str(self._record.get("experiment", "")),
            bar,
            f"{done}/{total}",
            str(self._record.get("label", "")),
        ]
        return f"{where}  {'  '.join(word for word in words if word)}  {self.seconds:.0f} s"

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self._read()
            if self.terminal.live:
                self.terminal.show(self.line())
            elif time.monotonic() - self._logged >= _LOG_EVERY_S:
                self._logged = time.monotonic()
                self.terminal.say(self.line())

    def _read(self) -> None:
        with self.file.open(encoding="utf-8") as lines:
            lines.seek(self._position)
            while (line := lines.readline()).endswith("\n"):  # a line without an end is still being written
                self._position = lines.tell()
                try:
                    record = json.loads(line)
                except ValueError:
                    continue  # progress is a courtesy: a torn line is not worth stopping a measurement for
                if isinstance(record, dict):
                    self._record = record
