"""Takes cards over the room's network: a small process of its own, started by the instructor on purpose.

It has no Jupyter interface and serves nothing: it takes a card by POST, checks it, and writes it to a folder.
Students name the code that is on the screen.  Those of one address are looked at one after the other, and
after a wrong one the next has to wait; other addresses do not.
A connection has a few seconds in all, and of very many the oldest ends first (`bounded.py`).
"""

from __future__ import annotations

import abc
import contextlib
import hmac
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..core.errors import ResultError, SchedLabError
from ..core.store import write_text
from . import card
from .board import MOST_CARDS
from .bounded import WAIT_S, Bounded, hang_up

PATH = "/card"
DOUBT_S = 0.1  # for a wrong code, before the next one is looked at: who tries all codes is at it for a day
MOST_IN_TURN = 64  # codes of one address that wait to be looked at
_UNREAD_BYTES = 1 << 20  # of a card that is too large: read all the same, so that its sender hears why
_ANSWER_BYTES = 1000
_NAME = re.compile(r"card-[0-9a-f]{16}\.json")


class RepeatedError(SchedLabError):
    """A card that is here already."""


class Receiver(abc.ABC, Bounded):
    """A server that keeps what a room sends; `code` is what senders have to name."""

    path = PATH

    def __init__(self, address: str, port: int, code: str | None = None) -> None:
        self.code = code or f"{secrets.randbelow(1_000_000):06d}"
        self.keeping = threading.Lock()
        self.turns: dict[
            str, tuple[threading.Lock, int]
        ] = {}  # of an address: whose turn it is, and how many wait
        try:
            super().__init__((address, port), _Handler)
        except (OSError, OverflowError, UnicodeError, TypeError) as error:  # of which Python has all four
            raise SchedLabError(
                f"Nothing can listen on {address}:{port}: {getattr(error, 'strerror', None) or error}.",
                "Choose another --port.",
            ) from error

    @abc.abstractmethod
    def keep(self, data: bytes) -> str:
        """Check and keep what was sent; what the sender hears.  Raises SchedLabError where it is refused."""

    def knows(self, code: str, address: str) -> bool:
        """Whether it is the code, looked at when it is this address's turn; not where too many wait for that.

        A right one is answered no sooner than a wrong one before it: else who tries many at once would see by
        the answers which of them it was.
        """
        with self._in_turn(address) as turn:
            right = turn and hmac.compare_digest(code.encode(), self.code.encode())
            if turn and not right:
                time.sleep(DOUBT_S)
        return right

    @contextlib.contextmanager
    def _in_turn(self, address: str) -> Iterator[bool]:
        with self.counting:
            lock, waiting = self.turns.get(address, (threading.Lock(), 0))
            turn = waiting < MOST_IN_TURN
            self.turns[address] = lock, waiting + 1
        try:
            with lock if turn else contextlib.nullcontext():
                yield turn
        finally:
            with self.counting:
                lock, waiting = self.turns.pop(address)
                if waiting > 1:
                    self.turns[address] = lock, waiting - 1

    def service_actions(self) -> None:
        """End, twice a second, the connections that have had their time."""
        with self.counting:
            while self.connected and time.monotonic() - next(iter(self.connected.values())) > WAIT_S:
                self.end(next(iter(self.connected)))


class Collector(Receiver):
    """Keeps cards in `folder`."""

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
        card.known_claims()  # looked up now: it takes a moment, which no student's connection has
        self.folder, self.arrived = folder, arrived
        super().__init__(address, port, code)

    def keep(self, data: bytes) -> str:
        """Check and keep one card; its file's name.  Raises SchedLabError for a damaged or repeated one."""
        found = card.parse(data)
        path = self.folder / card.name(found)
        with self.keeping:
            if path.exists():
                raise RepeatedError("This card is here already.")
            before = sum(1 for _ in self.folder.glob("*.json"))
            if before >= MOST_CARDS:
                raise SchedLabError(f"The board is full: it has room for {MOST_CARDS} cards.")
            write_text(path, card.text(found))
            self.arrived(before + 1)
        return path.name


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    timeout = WAIT_S
    server_version, sys_version = "sched-labs", ""

    def do_POST(self) -> None:
        # What is announced is read first: a connection that closes over unread bytes loses its answer.
        announced = self.headers.get("Content-Length", "")
        length = int(announced) if re.fullmatch("[0-9]{1,9}", announced) else None
        data = self.rfile.read(min(length or 0, _UNREAD_BYTES))
        if self.path != self.server.path:
            return self._say(404, f"What is for this room goes to {self.server.path}.")
        if not self.server.knows(self.headers.get("X-Code", ""), self.client_address[0]):
            return self._say(403, "That is not the code on the screen.")
        if length is None:
            return self._say(411, "Say how long the card is.")
        if length > card.LARGEST_BYTES:
            return self._say(413, f"A card has at most {card.LARGEST_BYTES // 1024} KiB.")
        try:
            name = self.server.keep(data)
        except RepeatedError as error:
            return self._say(409, str(error))
        except ResultError as error:
            # A full disk: of the instructor's computer, whose paths are nobody's business.
            print(f"\n{error}", file=sys.stderr)
            return self._say(500, "The collector cannot write it down; tell the instructor.")
        except SchedLabError as error:
            return self._say(400, str(error))
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
    status, said = post(card.text(one).encode(), to, code)
    if status == 201 and _NAME.fullmatch(said):
        return said
    if status == 201:
        said = f"This is no collector: {to} says {shown(said)}"
        raise SchedLabError(said, "Is it the address on the screen?")
    raise SchedLabError(f"The collector refused it: {shown(said)}")


def shown(said: str) -> str:
    """What a stranger said, as far as it moves no terminal's cursor."""
    return "".join(sign if sign.isprintable() else " " for sign in said[:300])


def post(data: bytes, to: str, code: str, path: str = PATH, whom: str = "collector") -> tuple[int, str]:
    """Send it there: (status, what was said).  Raises SchedLabError where nobody answers within WAIT_S.

    It goes to that address itself: through no proxy, which would learn the code, and nowhere else from there.
    """
    try:
        return _post(data, to, code, path)
    except (OSError, ValueError, HTTPException) as error:
        raise SchedLabError(
            f"The {whom} at {shown(to)} cannot be reached: {shown(str(error) or type(error).__name__)}.",
            "Is it the address on the screen?",
        ) from error


def _post(data: bytes, to: str, code: str, path: str) -> tuple[int, str]:
    where = urlsplit(to if "://" in to else f"http://{to}")
    kinds = {"http": HTTPConnection, "https": HTTPSConnection}
    if where.scheme not in kinds or not where.hostname:
        raise ValueError("it is no address such as 192.0.2.7:8890")
    connection = kinds[where.scheme](where.hostname, where.port, timeout=WAIT_S)
    with contextlib.closing(connection):
        connection.connect()
        # The socket's own limit is for each piece: a server that drips has one by one.
        end = time.monotonic() + WAIT_S  # before the timer's: what that cuts off may look whole
        over = threading.Timer(WAIT_S, hang_up, (connection.sock,))
        over.start()
        try:
            headers = {"X-Code": code, "Content-Type": "application/json"}
            connection.request("POST", where.path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            said = answer.read(_ANSWER_BYTES).decode(errors="replace")
            if time.monotonic() > end:
                raise TimeoutError("it does not come to an end of its answer")
            return answer.status, said
        finally:
            over.cancel()
