"""How host and guest talk.

The host lays the job into a window of memory while the guest stands still: the length of a line of JSON, the
line (the job; path, mode and size of each file), and the files.  To the guest it is a PCI device's memory,
which needs no driver and has no size worth worrying about.

The guest answers in lines of text on its second serial port:

    SL <what> <length of the payload> <its CRC-32> <payload>

`what` is up (the guest runs), result, error or end; the payload is JSON, compressed when it is long.
A serial line has no errors in QEMU, but a guest that breaks while it writes does leave half a line: length
and checksum make sure that half a result is never taken for a whole one.

Between these lines stand those of `sched_labs.core.progress`, which writes to the port as to any file.
"""

from __future__ import annotations

import binascii
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

_COMPRESS_FROM = 4096
_LARGEST = 256 << 20  # what a guest can say at once, unpacked
WINDOW_SLOT, STOP_SLOT = "10", "11"  # where on the PCI bus: the window, and what stops the machine
_LENGTH = 8


def pack(job: Mapping[str, Any], files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """What is laid into the window; files by path, with mode and content."""
    head = {"job": job, "files": [(path, mode, len(content)) for path, (mode, content) in files.items()]}
    line = json.dumps(head, sort_keys=True).encode()
    return b"".join(
        [len(line).to_bytes(_LENGTH, "little"), line, *(content for _, content in files.values())]
    )


def unpack(window: Any) -> dict[str, Any]:
    """Takes the job out of the window (bytes, or a map of them), and puts the files where they belong."""
    place = _LENGTH + int.from_bytes(window[:_LENGTH], "little")
    head = json.loads(window[_LENGTH:place])
    for path, mode, size in head["files"]:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - pathlib takes long to import
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        content = memoryview(window[place : place + size])
        while content:
            content = content[os.write(file, content) :]
        os.close(file)
        place += size
    job: dict[str, Any] = head["job"]
    return job


def encode(what: str, payload: object) -> bytes:
    text = json.dumps(payload, separators=(",", ":")).encode()
    if len(text) >= _COMPRESS_FROM:
        import base64  # only here: most answers are short, and imports are slow in an emulated guest
        import zlib

        text = b"z" + base64.b85encode(zlib.compress(text, 1))
    return b"SL %s %d %08x %s\n" % (what.encode(), len(text), binascii.crc32(text), text)


def decode_progress(line: bytes) -> tuple[str, float] | None:
    """Label and share done of a line that `sched_labs.core.progress` wrote; None when it is no such line."""
    try:
        told = json.loads(line)
        return str(told["label"]), told["done"] / told["total"]
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return None


def decode(line: bytes) -> tuple[str, Any] | None:
    """What and payload; None when the line is not a whole one of ours."""
    parts = line.strip().split(b" ", 4)
    if len(parts) != 5 or parts[0] != b"SL":
        return None
    _, what, length, checksum, text = parts
    if length != b"%d" % len(text) or b"%08x" % binascii.crc32(text) != checksum:
        return None
    try:
        return what.decode(), json.loads(_unpacked(text) if text.startswith(b"z") else text)
    except (ValueError, RecursionError):
        return None


def _unpacked(text: bytes) -> bytes:
    import base64
    import zlib

    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(base64.b85decode(text[1:]), _LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail:
        raise ValueError("it unpacks to more than any answer")
    return whole


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


def work(job: dict[str, Any], channel: Channel) -> None:
    """Runs the job and sends what it returned, or what it failed of.

    The job begins on a multiple of `moment_s` (0: at once), so that in virtual time, where waiting costs
    nothing, it meets the scheduler's tick alike however long its files took.
    """
    try:
        if job["moment_s"]:
            time.sleep(-time.monotonic() % job["moment_s"])
        importlib.invalidate_caches()  # the files have only just come
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
