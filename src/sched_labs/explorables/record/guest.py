"""Traces of a real kernel's scheduler, from a deterministic guest."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import lzma
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ... import kernels
from ...core.errors import ProbeError

HELPER = Path(__file__).parents[2] / "probes" / "helper"
_LINE = re.compile(r"\s*.+-(\d+)\s+\[\d+\] \S+ +([\d.]+): (\w+): (.*)")
_JOB = "sched_labs.kernels.jobs.trace"


class Event(NamedTuple):
    """One line of a trace: ns (or instructions, see `trace`), whose it is, what, its values, its words."""

    at: int
    tid: int
    what: str
    values: dict[str, str]
    words: str

    def number(self, name: str) -> int:
        return int(self.values[name], 0)


class Traced(NamedTuple):
    """A trace, the threads of the workload, and which kernel it was."""

    events: list[Event]
    tids: list[int]
    kernel: str


def trace(
    kernel: str,
    workload: str,
    words: Sequence[str],
    events: Sequence[str],
    kprobes: Sequence[str] = (),
    *,
    fine: bool = False,
) -> Traced:
    """Run a workload in a deterministic guest and trace it there.

    fine   times to the instruction (of the guest's TSC, which counts them); else to the microsecond
    """
    answer = kernels.run(
        kernel,
        f"{_JOB}:record",
        {
            "workload": workload,
            "words": list(words),
            "events": list(events),
            "kprobes": list(kprobes),
            "clock": "x86-tsc" if fine else "mono",
        },
        timing="deterministic",
        append="psi=1",  # its hook in __schedule() is where the kprobes look
        native=[workload],
        modules=[_JOB],
    )
    found = []
    for line in answer.value["lines"]:
        if match := _LINE.match(line):
            at = int(match[2]) if fine else round(float(match[2]) * 1e9)
            values = dict(re.findall(r"(\w+)=(\S+)", match[4]))
            found.append(Event(at, int(match[1]), match[3], values, match[4]))
    return Traced(found, answer.value["tids"], f"Linux {answer.kernel.upstream} (Debian)")


def fields(kernel: str, wanted: dict[str, list[str]]) -> dict[str, dict[str, int]]:
    """{struct: {field: offset}} of a kernel of the gallery, by its image's BTF; missing ones left out."""
    btf = _helper().Btf(_section(_unpacked(kernels.get(kernel).image.read_bytes()), b".BTF"))
    found: dict[str, dict[str, int]] = {}
    for struct_name, names in wanted.items():
        type_id = btf.find(btf.STRUCT, struct_name.encode())
        places = {name: btf.field(type_id, name.encode()) for name in names}
        found[struct_name] = {name: place[0] for name, place in places.items() if place}
    return found


def _helper() -> Any:
    """The privileged helper as a module: it has the reader of BTF."""
    loader = importlib.machinery.SourceFileLoader("sched_labs_probe", str(HELPER / "sched-labs-probe"))
    spec = importlib.util.spec_from_loader("sched_labs_probe", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _unpacked(image: bytes) -> bytes:
    """The ELF file inside a bzImage (Documentation/arch/x86/boot.rst: payload_offset, payload_length)."""
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = ((image[0x1F1] or 4) + 1) * 512 + offset
    packed = image[start : start + length]
    if packed.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(packed)
    for magic, program in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x02!L\x18", "lz4")):
        if packed.startswith(magic):
            # The last four bytes are the length that the kernel's own unpacking goes by.
            return subprocess.run(
                [program, "-dc"], input=packed[:-4], capture_output=True, check=False
            ).stdout
    raise ProbeError("This kernel's image is packed in a way that is not known here.")


def _section(elf: bytes, name: bytes) -> bytes:
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_at = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, table + n * size) for n in range(count)]
    names = elf[heads[names_at][4] :]
    for head in heads:
        if names[head[0] : head[0] + len(name) + 1] == name + b"\0":
            return elf[head[4] : head[4] + head[5]]
    raise ProbeError(f"This kernel's image has no section {name.decode()}.")
