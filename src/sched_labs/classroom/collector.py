"""Takes cards over the room's network: a small process of its own, started by the instructor on purpose.

It has no Jupyter interface and serves nothing: it takes a card by POST, checks it, and writes it to a folder.
Students name the code that is on the screen; ten wrong codes a second are answered, more have to wait.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..errors import ResultError, SchedLabError
from ..store import write_text
from . import card
from .board import MOST_CARDS

PATH = "/card"
WAIT_S = 10.0  # for a client that is slow to send
DOUBT_S = 0.1  # for a wrong code, one after the other: who tries all codes is at it for a day


class Collector(ThreadingHTTPServer):
    """A server that keeps cards in `folder`; `code` is what senders have to name."""

    daemon_threads = True
    request_queue_size = 128  # a whole room at once

    def __init__(
        self,
        folder: Path,
        address: str,
        port: int,
        code: str | None = None,
        arrived: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`arrived` is told how many cards there are, whenever one more is."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SchedLabError(
                f"The folder {folder} cannot be made: {error.strerror}.", "Name another one."
            ) from error
        self.folder, self.code = folder, code or f"{secrets.randbelow(1_000_000):06d}"
        self.arrived = arrived
        self.keeping, self.doubting = threading.Lock(), threading.Lock()
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise SchedLabError(
                f"Nothing can listen on {address}:{port}: {error.strerror}.", "Choose another --port."
            ) from error

    def keep(self, data: bytes) -> str:
        """Check and keep one card; its file's name.  Raises SchedLabError for a damaged or repeated one."""
        found = card.parse(data)
        path = self.folder / card.name(found)
        with self.keeping:
            if path.exists():
                raise SchedLabError("This card is here already.")
            before = sum(1 for _ in self.folder.glob("*.json"))
            if before >= MOST_CARDS:
                raise SchedLabError(f"The board is full: it has room for {MOST_CARDS} cards.")
            write_text(path, card.text(found))
            self.arrived(before + 1)
        return path.name


class _Handler(BaseHTTPRequestHandler):
    server: Collector
    timeout = WAIT_S
    server_version, sys_version = "sched-labs", ""

    def do_POST(self) -> None:
        if self.path != PATH:
            return self._say(404, "Cards go to /card.")
        if not hmac.compare_digest(self.headers.get("X-Code", "").encode(), self.server.code.encode()):
            with self.server.doubting:
                time.sleep(DOUBT_S)
            return self._say(403, "That is not the code on the screen.")
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            return self._say(411, "Say how long the card is.")
        if int(length) > card.LARGEST_BYTES:
            return self._say(413, f"A card has at most {card.LARGEST_BYTES // 1024} KiB.")
        try:
            name = self.server.keep(self.rfile.read(int(length)))
        except (
            ResultError
        ) as error:  # a full disk: of the instructor's computer, whose paths are nobody's business
            print(f"\n{error}", file=sys.stderr)
            return self._say(500, "The collector cannot write it down; tell the instructor.")
        except SchedLabError as error:
            return self._say(409 if "already" in error.what else 400, str(error))
        except OSError:
            return self._say(408, "The card did not arrive.")
        self._say(201, name)

    def _say(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody's address is written down."""


def send(one: dict[str, Any], to: str, code: str) -> str:
    """Send a card to a collector; what it is called there.  Raises SchedLabError when it is refused."""
    if not to.startswith(("http://", "https://")):
        to = f"http://{to}"
    request = urllib.request.Request(
        to.rstrip("/") + PATH, card.text(one).encode(), {"X-Code": code, "Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        raise SchedLabError(
            f"The collector refused it: {error.read().decode(errors='replace')[:300]}"
        ) from error
    except (OSError, ValueError) as error:
        raise SchedLabError(
            f"The collector at {to} cannot be reached: {error}.", "Is it the address on the screen?"
        ) from error
