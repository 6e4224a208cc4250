"""A scheduler of the reader's in this guest: loaded, watched while a workload runs, and given up again.

The system's libbpf does the loading, called from here: its messages, the verifier's and the kernel's are what
the reader has to be told, and the record of decisions is read out of the program's memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...workloads.launch import start

LIBRARY, OBJECT = "/usr/lib/libbpf.so.1", "/lab/scheduler.o"
_STATE = Path("/sys/kernel/sched_ext/state")
_STRUCT_OPS = 26  # BPF_MAP_TYPE_STRUCT_OPS
_SLEEPABLE = 1 << 4  # BPF_F_SLEEPABLE; libbpf before 1.2 does not know "struct_ops.s/"
_SECTION = b"struct_ops/sleepable/"
_HEAD_BYTES, _RECORD_BYTES, _RECORDS = 16, 64, 16384  # of recorder.h
_PATIENCE_S = 5.0
_Print = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _Libbpf:
    """The few functions of libbpf that are needed, and what it says."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._library = ctypes.CDLL(LIBRARY, use_errno=True)
        self._libc = ctypes.CDLL(None)
        self._print = _Print(self._hear)  # kept: libbpf calls it
        self._library.libbpf_set_print(self._print)

    def _hear(self, level: int, form: bytes, arguments: int) -> int:
        if level <= 1:  # warnings, and among them the verifier's words
            text = ctypes.create_string_buffer(1 << 16)
            self._libc.vsnprintf(text, len(text), form, ctypes.c_void_p(arguments))
            self.said.append(text.value.decode(errors="replace"))
        return 0

    def __getattr__(self, name: str) -> Any:
        """A function of the library whose arguments and result are pointers or whole numbers."""
        function = getattr(self._library, name)
        function.restype = ctypes.c_long
        return lambda *arguments: function(
            *(ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments)
        )

    def each(self, what: str, loaded: int) -> Iterator[int]:
        one = 0
        while one := getattr(self, f"bpf_object__next_{what}")(loaded, one):
            yield one

    def text(self, function: str, one: int) -> bytes:
        return ctypes.string_at(getattr(self, function)(one))


def trial(arguments: list[str]) -> dict[str, Any]:
    """The workload `roles` with these arguments, under the scheduler in OBJECT.

    Returns what was said (`refused`: by libbpf and the verifier, before it ran; `kernel`: by the kernel), the
    records of the workload as lists of pairs, and the recorder's bytes (record.h) as base 85 of zlib's.
    A scheduler that the kernel gave up has `kernel` lines and no records.
    """
    libbpf = _Libbpf()
    loaded = libbpf.bpf_object__open_file(OBJECT.encode(), None)
    if not loaded:
        return {"refused": libbpf.said}
    for program in libbpf.each("program", loaded):
        if libbpf.text("bpf_program__section_name", program).startswith(_SECTION):
            libbpf.bpf_program__set_flags(program, _SLEEPABLE)
    if libbpf.bpf_object__load(loaded):
        return {"refused": libbpf.said}
    links = [
        libbpf.bpf_program__attach(program)
        for program in libbpf.each("program", loaded)
        if libbpf.text("bpf_program__section_name", program).startswith(b"tp_btf/")
    ]
    record = _memory(libbpf, loaded)
    schedulers = [one for one in libbpf.each("map", loaded) if libbpf.bpf_map__type(one) == _STRUCT_OPS]
    with start("roles", arguments, deadline_s=_PATIENCE_S) as workload:
        for scheduler in schedulers:
            links.append(libbpf.bpf_map__attach_struct_ops(scheduler))
        if not all(links):
            return {"refused": [*libbpf.said, *_kernel_said()]}
        threads = {tid: Path(f"/proc/{tid}/comm").read_text().strip() for tid in workload.tids}
        record[0] = 1
        try:
            records = [[one.kind, one.values] for one in workload.run()]
        except Exception:
            if schedulers and not _enabled():
                return {"refused": [], "kernel": _kernel_said()}
            raise
        record[0] = 0
    if schedulers and not _enabled():
        return {"refused": [], "kernel": _kernel_said()}
    for link in reversed(links):
        libbpf.bpf_link__destroy(link)
    count = int.from_bytes(record[8:_HEAD_BYTES], "little")
    return {
        "refused": [],
        "kernel": [],
        "threads": threads,
        "records": records,
        "count": count,
        "decisions": _packed(record[_HEAD_BYTES : _HEAD_BYTES + min(count, _RECORDS) * _RECORD_BYTES]),
    }


def _memory(libbpf: _Libbpf, loaded: int) -> mmap.mmap:
    """The recorder of recorder.h, which the programs write and we read."""
    for one in libbpf.each("map", loaded):
        if libbpf.text("bpf_map__name", one).endswith(b".recorder"):
            size = -(-(_HEAD_BYTES + _RECORDS * _RECORD_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
            return mmap.mmap(libbpf.bpf_map__fd(one), size)
    raise RuntimeError(f"{OBJECT} was not compiled with recorder.h")


def _packed(records: bytes) -> str:
    import base64
    import zlib

    return base64.b85encode(zlib.compress(records, 1)).decode()


def _enabled() -> bool:
    return _STATE.read_text().strip() == "enabled"


def _kernel_said() -> list[str]:
    """What the kernel said of sched_ext, once it has nothing more to say."""
    end = time.monotonic() + _PATIENCE_S
    while _STATE.read_text().strip() == "disabling" and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.05)  # the reason is printed after the state has changed
    said = []
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            said.append(os.read(log, 8192).decode(errors="replace").partition(";")[2].partition("\n")[0])
    except BlockingIOError:
        pass
    finally:
        os.close(log)
    return [line for line in said if line.startswith("sched_ext")]
