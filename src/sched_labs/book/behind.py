"""Measuring behind a book that is being read: chapter after chapter, each put into the pages when it is done.

`Behind` is the reader's side: it starts `python -m sched_labs.book behind` and knows how that stands.  The
measuring is a process of its own, so that no thread of the server stands between a measurement and its CPU.
The pipe to it says whether the reader runs something, and its end says that the server has gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ..core import jsontext
from ..core.errors import SchedLabError
from .chapters import Chapter, Checkout
from .measure import Failure, about
from .progress import Terminal

_STOP_LIMIT_S = 60  # a cell is interrupted, then its kernel ended
_TELL_EVERY_S = 1.0
BUSY, FREE = b"b", b"f"


class Board(Terminal):
    """A terminal whose passing line is told to the pages too, with how every chapter stands.

    What the pages are told is a JSON object: `chapters`, a list of {name, title, state, made, said}; `line`,
    where the chapter is that is being measured; `ended`.  A state is waiting, measuring, writing, measured or
    failed; `made` is when the chapter ran of which the pages are, as the pages themselves say it.
    """

    def __init__(self, file: Path, book: Checkout, parts: Sequence[Chapter], due: Sequence[Chapter]) -> None:
        super().__init__()
        self._seen, self.live = self.live, True  # the pages are always there to be told
        self._file, self._book, self._told_s = file, book, 0.0
        self._lock = threading.Lock()
        self.waits = ""  # for what
        self._told: dict[str, Any] = {"chapters": [], "line": "", "ended": False}
        for part in parts:
            one = {"name": part.short, "title": part.title, "made": None, "said": ""}
            self._told["chapters"].append(one)
            self.stands(part, state="waiting" if part in due else "measured")

    def show(self, text: str) -> None:
        """Tell the pages, and redraw the line where there is a terminal."""
        text = self.waits or text
        if time.monotonic() - self._told_s >= _TELL_EVERY_S:
            self.tell(line=text.strip())
        if self._seen:
            super().show(text)

    def stands(self, part: Chapter, state: str, said: str = "") -> None:
        """Say how a chapter stands."""
        one = next(one for one in self._told["chapters"] if one["name"] == part.short)
        one |= {"state": state, "said": said}
        if state in ("waiting", "measured"):  # its pages are of the chapter as it ran last
            one["made"] = about(self._book, part).get("measured_at")
        self.tell(line="")

    def tell(self, **news: Any) -> None:
        """Write down what the pages are told."""
        with self._lock:
            self._told_s = time.monotonic()
            self._told |= news
            # Not by core.store, which waits for the disk: this is written while something is measured.
            partial = self._file.with_suffix(".partial")
            with contextlib.suppress(OSError):  # a full disk: the pages hear the next time, and nothing stops
                partial.write_text(json.dumps(self._told), encoding="utf-8")
                partial.replace(self._file)


class Reader:
    """What the server says of the reader, on the standard input: that something runs, that all is over."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._free, self._gone = threading.Event(), False
        self._free.set()
        threading.Thread(target=self._listen, daemon=True).start()

    def let_pass(self) -> None:
        """Wait while a cell of the reader's runs.  Raises SchedLabError when the server has gone."""
        if not self._free.is_set():
            self._board.waits = "waiting: something of yours runs"
            self._free.wait()
            self._board.waits = ""
        if self._gone:
            raise SchedLabError("The book is not served any more.")

    def _listen(self) -> None:
        while word := os.read(0, 1):
            (self._free.clear if word == BUSY else self._free.set)()
        self._gone = True
        self._free.set()
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does: cells are interrupted, and clean up


def run(
    due: Sequence[Chapter],
    board: Board,
    measured: Callable[[Chapter, Callable[[], None]], Failure | None],
    written: Callable[[], bool],
) -> bool:
    """Measure chapters one after the other, and write each into the pages; whether all ran to their ends.

    One that fails keeps the pages that it has, and says so.

    measured  measures a chapter, and calls what it is given before each cell
    written   makes the pages anew; whether every claim's check ran to its end
    """
    # Started by a script in the background it would ignore what ends it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    reader, whole = Reader(board), True
    for part in due:
        board.stands(part, state="measuring")
        failure = measured(part, reader.let_pass)
        if failure:
            whole = False
            board.stands(part, state="failed", said=f"cell {failure.cell}: {failure.error.splitlines()[0]}")
            continue
        board.stands(part, state="writing")
        whole = written() and whole
        board.stands(part, state="measured")
    board.tell(ended=True)
    board.say("All chapters are measured." if whole else "Something failed: it stands above.")
    return whole


class Behind:
    """The process that measures, while the `with` lasts.

    words   the command line of it, after `python -m sched_labs.book`
    file    where it tells how the chapters stand
    """

    def __init__(self, words: Sequence[str], file: Path) -> None:
        self._words, self._file = words, file
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = False

    def __enter__(self) -> Behind:
        self._file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sched_labs.book", *self._words],
            stdin=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C is the server's: what follows from it comes through the pipe, and once.
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process and self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._file.unlink(missing_ok=True)

    def reader_runs(self, busy: bool) -> None:
        """Say whether a cell of the reader's runs: the next cell of the chapter waits for it."""
        if busy != self._busy and self._process and self._process.stdin:
            self._busy = busy
            with contextlib.suppress(BrokenPipeError):  # it has ended
                self._process.stdin.write(BUSY if busy else FREE)

    def standing(self) -> dict[str, Any]:
        """How the chapters stand, as `Board` tells it."""
        try:
            told = jsontext.parse(self._file.read_bytes())
        except (OSError, ValueError):
            told = {"chapters": [], "line": "", "ended": False}  # it has just been started
        over = self._process is not None and self._process.poll() is not None
        if over and not told["ended"]:
            told |= {"ended": True, "line": "The measuring has stopped; the terminal says why."}
        return told
