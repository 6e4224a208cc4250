"""One experiment for a whole room: a full window with the figure as it grows, driven by single keys.

A small server on 127.0.0.1 shows one page and takes six commands, under an address that nobody can guess.
The experiment itself runs in a process of its own (`sched-labs run`), which a key can stop at any moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from html import escape
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from ..core import registry, result
from ..core.errors import SchedLabError
from ..run import scratch
from . import board, bounded, card

PAGE = Path(__file__).with_name("demo.html")
# What "next" goes through; an experiment without an entry has one regime, its defaults.
REGIMES: dict[str, list[dict[str, Any]]] = {
    "runqlat.histogram": [{"workers": 2}, {"workers": 4}, {"workers": 8}],
    "sleeper.among_hogs": [{"hogs": 1}, {"hogs": 3}, {"hogs": 7}],
    "context_switch.matrix": [{"between": ["threads"]}, {"between": ["processes"]}],
    "warmup.sweep": [{"access": ["random"]}, {"access": ["sequential"]}],
}

# How a run ends that was not broken: by itself, or by a key (the second one while Python was still starting).
_STOPPED = (0, 130, -signal.SIGINT)
# `sched-labs` with Ctrl-C as ever: a demo in the background of a script ignores it, and so would its runs.
_RUN = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from sched_labs.cli import main; sys.exit(main())"
)


class Stage:
    """What is on the screen: the regime, the run that is under way, and the newest figure."""

    def __init__(self, name: str, folder: Path, cards: Path | None = None, handle: int | None = None) -> None:
        self.name = registry.find(name).name
        self.cards = cards
        self.held = () if handle is None else (handle,)  # a run holds the folder that it writes to
        self.regimes = REGIMES.get(self.name, [{}])
        self.regime = 0
        self.view = "live"  # or "recorded", "class"
        self.child: subprocess.Popen[bytes] | None = None
        self.error = ""
        self._json, self._draft = folder / "result.json", folder / "draft.svg"
        self._progress, self._said = folder / "progress", folder / "said"
        self._drawn: tuple[Any, str] = (None, "")
        self._lock = threading.Lock()

    def do(self, action: str) -> None:
        """start, stop, next, class, recorded, reset.  Raises SchedLabError for anything else."""
        with self._lock:
            self.error = ""
            if action == "start":
                self._start()
            elif action == "stop":
                self._stop()  # what was measured so far stays
            elif action == "next":
                self._stop()
                self.regime = (self.regime + 1) % len(self.regimes)
                self._start()
            elif action in ("class", "recorded"):
                self.view = "live" if self.view == action else action
            elif action == "reset":
                self._stop()
                self.regime, self.view = 0, "live"
                self._forget()
            else:
                raise SchedLabError(f"There is no action {action!r}.")

    def end(self) -> None:
        """Stop what runs.  An interrupted run takes its own things away; only one that hangs is killed."""
        with self._lock:
            self._stop()

    def state(self) -> dict[str, Any]:
        """For the page: title, regime, running, label, done, total, view, figure (HTML), error."""
        running = self.child is not None and self.child.poll() is None
        if self.child is not None and not running and self.child.returncode not in _STOPPED:
            self.error = self._said.read_text(errors="replace").strip()[-400:] or "The experiment failed."
        told: dict[str, Any] = {}
        with contextlib.suppress(OSError, IndexError, ValueError):
            told = json.loads(self._progress.read_text().splitlines()[-1])
        figure = ""
        try:
            figure = self._figure(running)
        except SchedLabError as error:
            self.error = str(error)
        chosen = ", ".join(f"{key} {_words(value)}" for key, value in self.regimes[self.regime].items())
        return {
            "title": self.name,
            "regime": chosen or "as in the book",
            "running": running,
            "label": told.get("label", "") if running else "",
            "done": told.get("done", 0),
            "total": told.get("total", 1),
            "view": self.view,
            "figure": figure,
            "error": self.error,
        }

    def _figure(self, running: bool) -> str:
        if running and self.view == "live":
            return self._draft.read_text(encoding="utf-8") if self._draft.exists() else ""
        # The page asks again and again: drawn anew only when what is drawn has changed.
        seen = (self.view, _stamp(self._json), _stamp(self.cards) if self.view == "class" else 0)
        if self._drawn[0] != seen:
            self._drawn = (seen, self._draw())
        return self._drawn[1]

    def _draw(self) -> str:
        if self.view == "class":
            if self.cards is None:
                raise SchedLabError(
                    "No folder of cards was named.", "Start with: sched-labs demo … --class FOLDER"
                )
            return str(self._class(board.read(self.cards)[0])._repr_html_())
        if self.view == "recorded":
            kept = result.recorded(self.name)
            if kept is None:
                raise SchedLabError(f"No run of {self.name} ships with the book.")
            return f"<p>Recorded: {escape(kept.machine_line())}</p>{kept.plot()._repr_html_()}"
        if self._json.exists():
            return str(result.load(self._json).plot(recorded=result.recorded(self.name))._repr_html_())
        return ""

    def _class(self, cards: dict[str, dict[str, Any]]) -> Any:
        """The room's numbers of this experiment, and among them, lit, those of the run on the screen."""
        room = {
            name: {**one, "results": [entry for entry in one["results"] if entry["kind"] == self.name]}
            for name, one in cards.items()
        }
        if self._json.exists():
            own = card.numbers(result.load(self._json))
            room["this run"] = {"results": [{"kind": self.name, "numbers_ns": own}]}
        room = {name: one for name, one in room.items() if any(e["numbers_ns"] for e in one["results"])}
        if not room:
            raise SchedLabError(f"No card of the class has a number of {self.name}.")
        return board.strips(room, "this run")

    def _start(self) -> None:
        if self.child is not None and self.child.poll() is None:
            return
        self._forget()
        self.view = "live"
        command = [sys.executable, "-c", _RUN, "run", self.name, "--json", str(self._json)]
        for key, value in self.regimes[self.regime].items():
            command += ["--set", f"{key}={json.dumps(value)}"]
        files = {"SCHED_LABS_PROGRESS": str(self._progress), "SCHED_LABS_DRAFT": str(self._draft)}
        with self._said.open("wb") as said:
            self.child = subprocess.Popen(
                command,
                env=os.environ | files,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
                pass_fds=self.held,
            )

    def _stop(self) -> None:
        if self.child is None or self.child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGINT)
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()

    def _forget(self) -> None:
        for path in (self._json, self._draft, self._progress):
            path.unlink(missing_ok=True)


def _stamp(path: Path | None) -> int:
    """when a file, or what a folder holds, was last changed; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns if path else 0
    except OSError:
        return 0


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


class Server(bounded.Bounded):
    """Serves one stage under a secret path."""

    def __init__(self, stage: Stage, port: int) -> None:
        self.stage, self.key = stage, secrets.token_hex(16)
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise SchedLabError(
                f"Port {port} is taken: {error.strerror}.", "Choose another --port."
            ) from error

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{self.key}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = bounded.WAIT_S  # other users of this machine can connect, too

    def do_GET(self) -> None:
        if self.path == f"/{self.server.key}/":
            return self._send(200, PAGE.read_bytes(), "text/html; charset=utf-8")
        if self.path == f"/{self.server.key}/state":
            return self._send(200, json.dumps(self.server.stage.state()).encode(), "application/json")
        self._send(404, b"", "text/plain")

    def do_POST(self) -> None:
        before, _, action = self.path.rpartition("/")
        if before != f"/{self.server.key}/do":
            return self._send(404, b"", "text/plain")
        try:
            self.server.stage.do(action)
        except SchedLabError as error:
            return self._send(400, str(error).encode(), "text/plain")
        self._send(204, b"", "text/plain")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header(
            "Content-Security-Policy",
            "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
        )
        self.send_header("Referrer-Policy", "no-referrer")
        with contextlib.suppress(ConnectionError):  # a page that was closed meanwhile
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """A terminal beside a projector stays quiet."""


def serve(name: str, *, port: int = 0, cards: Path | None = None, announce: Any = print) -> None:
    """Show an experiment until Ctrl-C; nothing is left running."""
    with scratch.folder() as (folder, handle):
        stage = Stage(name, folder, cards, handle)
        # A terminal that is closed, or a service that is stopped, must not leave the experiment running.
        for way in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(way) is not signal.SIG_IGN:  # nohup
                signal.signal(way, lambda number, frame: sys.exit(128 + number))
        with Server(stage, port) as server:
            announce(f"{stage.name}: {server.address}\nKeys: s start, x stop, n next regime, o the class, "
                     "f the recorded run, r reset, d dark or light.  Ctrl-C here ends it.")  # fmt: skip
            try:
                server.serve_forever()
            finally:
                stage.end()
