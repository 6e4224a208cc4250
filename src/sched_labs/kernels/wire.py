"""How guest and host talk: lines of text on the guest's second serial port.

    SL <what> <length of the payload> <its CRC-32> <payload>

`what` is up (the guest runs), result, error or end; the payload is JSON, compressed when it is long.
A serial line has no errors in QEMU, but a guest that breaks while it writes does leave half a line: length
and checksum make sure that half a result is never taken for a whole one.

Between these lines stand those of `sched_labs.progress`, which writes to the port as to any file.
"""

from __future__ import annotations

import binascii
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_COMPRESS_FROM = 4096


def encode(what: str, payload: object) -> bytes:
    text = json.dumps(payload, separators=(",", ":")).encode()
    if len(text) >= _COMPRESS_FROM:
        import base64  # only here: most answers are short, and imports are slow in an emulated guest
        import zlib

        text = b"z" + base64.b85encode(zlib.compress(text, 1))
    return b"SL %s %d %08x %s\n" % (what.encode(), len(text), binascii.crc32(text), text)


def decode_progress(line: bytes) -> tuple[str, float] | None:
    """Label and share done of a line that `sched_labs.progress` wrote; None when it is no such line."""
    try:
        told = json.loads(line)
        return str(told["label"]), told["done"] / told["total"]
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        return None


def decode(line: bytes) -> tuple[str, Any] | None:
    """What and payload; None when the line is not a whole one of ours."""
    parts = line.strip().split(b" ", 4)
    if len(parts) != 5 or parts[0] != b"SL":
        return None
    _, what, length, checksum, text = parts
    if not length.isdigit() or int(length) != len(text) or b"%08x" % binascii.crc32(text) != checksum:
        return None
    if text.startswith(b"z"):
        import base64
        import zlib

        text = zlib.decompress(base64.b85decode(text[1:]))
    return what.decode(), json.loads(text)


class Channel:
    """The guest's end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls, port: str) -> Channel:
        import termios

        descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY)
        mode = termios.tcgetattr(descriptor)
        mode[0] = mode[1] = mode[3] = 0  # raw: no echo, no signals, no newline translation
        termios.tcsetattr(descriptor, termios.TCSANOW, mode)
        return cls(descriptor)

    def send(self, what: str, payload: object) -> None:
        line = memoryview(encode(what, payload))
        while line:
            line = line[os.write(self._descriptor, line) :]


def load_job() -> dict[str, Any]:
    """What the host left for this guest."""
    with open("/lab/job.json", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
        job: dict[str, Any] = json.load(file)
    return job


def work(job: dict[str, Any], channel: Channel) -> None:
    """Runs the job and sends what it returned, or what it failed of."""
    try:
        # What booting left to do in the background must not run beside the job.
        time.sleep(max(0.0, job["not_before_s"] - time.monotonic()))
        module, _, function = job["call"].partition(":")
        __import__(module)
        call: Callable[..., Any] = getattr(sys.modules[module], function)
        channel.send("result", call(**job["parameters"]))
    except BaseException as error:  # whatever it is, the host must hear of it
        import traceback

        channel.send(
            "error",
            {
                "kind": type(error).__name__,
                "what": getattr(error, "what", None) or f"{type(error).__name__}: {error}",
                "remedy": getattr(error, "remedy", ""),
                "traceback": traceback.format_exc(),
            },
        )
