"""What this book has loaded into the kernel."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from contextlib import suppress
from pathlib import Path


def programs(names: tuple[bytes, ...] = ()) -> set[int]:
    """The ids of the kernel's BPF programs, whoever loaded them; only those of the names, where given."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 321, "aarch64": 280}[platform.machine()]

    def bpf(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
        return int(libc.syscall(ctypes.c_long(number), command, attributes, len(attributes)))

    found: set[int] = set()
    at = 0
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("<III", at, 0, 0), 12)
        if bpf(11, attributes) < 0:  # BPF_PROG_GET_NEXT_ID
            return found
        at = struct.unpack_from("<I", attributes, 4)[0]
        fd = bpf(13, ctypes.create_string_buffer(struct.pack("<III", at, 0, 0), 12))  # BPF_PROG_GET_FD_BY_ID
        if fd < 0:
            continue
        info = ctypes.create_string_buffer(256)
        asked = struct.pack("<IIQ", fd, len(info), ctypes.addressof(info))
        told = bpf(15, ctypes.create_string_buffer(asked, 16))  # BPF_OBJ_GET_INFO_BY_FD
        if told == 0 and (not names or info.raw[64:80].split(b"\0")[0] in names):
            found.add(at)
        os.close(fd)


def held_by_nobody() -> set[int]:
    """The ids of programs that no process has open: only something that was left keeps them in the kernel."""
    there, held = programs(), set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for name in os.listdir(process / "fdinfo"):  # noqa: PTH208 - what goes meanwhile is left out
                held |= _program(process / "fdinfo" / name)
    return there - held


def _program(about: Path) -> set[int]:
    with suppress(OSError):
        return {
            int(line.split()[1]) for line in about.read_text().splitlines() if line.startswith("prog_id:")
        }
    return set()
