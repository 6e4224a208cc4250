"""A server whose connections are bounded: of very many the oldest ends first."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any

WAIT_S = 10.0  # for a client that says nothing
MOST_AT_ONCE = 256  # connections


def hang_up(connection: socket.socket) -> None:
    """End a connection, for whoever reads from it as well."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Bounded(ThreadingHTTPServer):
    """Answers each connection in a thread: the silent and the slow take no place from others."""

    daemon_threads = True
    request_queue_size = 128  # a whole room at once

    def __init__(self, *arguments: Any) -> None:
        self.counting = threading.Lock()
        self.connected: dict[socket.socket, float] = {}  # since when, the oldest first
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer it in a thread; the oldest connection makes room for it if need be."""
        with self.counting:
            if len(self.connected) >= MOST_AT_ONCE:
                self.end(next(iter(self.connected)))
            self.connected[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.counting:
            self.connected.pop(request, None)
        super().shutdown_request(request)

    def end(self, request: socket.socket) -> None:
        """Hang up; its thread, which reads from it, comes to an end by itself.  Call it while `counting`."""
        del self.connected[request]
        hang_up(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is none; and nobody's address is written down."""
        error = sys.exception() if sys.version_info >= (3, 12) else sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(f"\nA request could not be answered: {error!r:.200}", file=sys.stderr)
