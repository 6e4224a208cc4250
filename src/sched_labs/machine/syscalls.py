"""System calls that Python has no function for, through libc's syscall(2)."""

from __future__ import annotations

import ctypes
import errno
import os

# x86-64 has its own table; the others share include/uapi/asm-generic/unistd.h.
_X86_64 = {"perf_event_open": 298, "sched_setattr": 314, "sched_getattr": 315}
_GENERIC = {"perf_event_open": 241, "sched_setattr": 274, "sched_getattr": 275}
_TABLES = {"x86_64": _X86_64, "aarch64": _GENERIC, "riscv64": _GENERIC, "loongarch64": _GENERIC}


def call(name: str, *arguments: int | ctypes.Array | ctypes.Structure) -> int:
    """Make one system call; buffers go by address. OSError as the kernel answers; ENOSYS without a number."""
    table = _TABLES.get(os.uname().machine)
    # A 32-bit program on a 64-bit kernel speaks another table.
    if table is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise OSError(errno.ENOSYS, "no system call numbers are known for this architecture")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    passed = [ctypes.c_long(a) if isinstance(a, int) else ctypes.byref(a) for a in arguments]
    answer = int(libc.syscall(ctypes.c_long(table[name]), *passed))
    if answer == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


SCHED_ATTR_BYTES = 48  # of struct sched_attr as first published; newer kernels take it too


class SchedAttr(ctypes.Structure):
    """struct sched_attr, first published size."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("sched_policy", ctypes.c_uint32),
        ("sched_flags", ctypes.c_uint64),
        ("sched_nice", ctypes.c_int32),
        ("sched_priority", ctypes.c_uint32),
        ("sched_runtime", ctypes.c_uint64),
        ("sched_deadline", ctypes.c_uint64),
        ("sched_period", ctypes.c_uint64),
    ]
