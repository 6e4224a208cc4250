"""From the reader's C to an object that a guest can load, or to the line that is wrong.

It is compiled alone with the two headers of `include/`, in a folder of its own, so that the object depends on
nothing but the source and the compiler.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ..core.errors import SchedLabError
from ..run import scratch
from .errors import SchedulerError

INCLUDE = Path(__file__).with_name("include")
EXAMPLES = Path(__file__).with_name("examples")
KERNELS_OWN = EXAMPLES / "kernels_own.bpf.c"
MOST_BYTES = 64 * 1024
_MOST_KIB = 2 << 20  # of memory for clang: a page of macros can ask for all there is
HOW_TO_INSTALL = (
    "Run scripts/provision.sh --schedulers.  Until then the chapter works, with its recorded runs: "
    "scheduler.recorded('fifo'), scheduler.recorded_bout()."
)
_FLAGS = (
    "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wno-unused", "-nostdinc", "-I.", "-ferror-limit=3",
    "-fdebug-compilation-dir=/lab", "-fno-crash-diagnostics", "-fno-color-diagnostics",
)  # fmt: skip
_NAME = "scheduler.bpf.c"


def source(path: str | Path) -> str:
    """The text of a scheduler's file.  SchedulerError where it cannot be one."""
    path = Path(path)
    try:
        # A pipe among a class's files is not waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            content = file.read(MOST_BYTES + 1) or b""
    except OSError as error:
        raise SchedulerError(
            f"{path} cannot be read: {error.strerror}.", "`sched-labs scheduler new NAME` lays one out."
        ) from error
    if len(content) > MOST_BYTES:
        raise SchedulerError(
            f"{path.name} has more than {MOST_BYTES // 1024} KiB; a scheduler is a page or two of C.",
            "Give the source file of a scheduler.",
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise SchedulerError(f"{path.name} is no text.", "Give the source file, not an object.") from None


def compiled(path: str | Path) -> bytes:
    """The object of a scheduler's source file.

    Raises SchedulerError with what the compiler says of its lines, and one that is `lacking` without clang.
    """
    text, name = source(path), Path(path).name
    clang = shutil.which("clang")
    if not clang:
        raise SchedLabError(
            "There is no clang here, which compiles schedulers for the kernel.",
            HOW_TO_INSTALL,
            lacking=True,
        )
    with scratch.folder() as (here, _):
        for header in INCLUDE.glob("*.h"):
            shutil.copy(header, here)
        (here / _NAME).write_text(text)
        try:
            done = subprocess.run(
                ["sh", "-c", f'ulimit -v {_MOST_KIB}; exec "$@"', "sh",
                 clang, *_FLAGS, "-c", _NAME, "-o", "scheduler.o"],
                cwd=here, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=60,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise SchedulerError(f"clang did not come to an end of {name} in a minute.") from None
        if done.returncode:
            raise SchedulerError(_complaint(done.stderr, name), "Mend that line and try again.")
        made = (here / "scheduler.o").read_bytes()
    if Path(path) != KERNELS_OWN and b"\0.struct_ops\0" not in made:
        raise SchedulerError(
            f"{name} compiles, but there is no scheduler in it: no struct sched_ext_ops for the kernel.",
            "End the file with SCX_OPS_DEFINE(name, .enqueue = ...), as the examples do.",
        )
    return made


def _complaint(said: str, name: str) -> str:
    """The compiler's own words, the lines named after the reader's file."""
    division = re.search(r"line (\d+): Unsupport signed div", said)
    if division:
        return f"{name}:{division[1]}: BPF has no signed division; divide a u64 or u32 by an unsigned number."
    if "out of memory" in said:
        return f"clang needs more than {_MOST_KIB >> 20} GiB of memory for {name}."
    lines = [line for line in said.splitlines() if not line.startswith("In file included")]
    if not any("error:" in line for line in lines):
        return f"clang fails on {name}: {lines[0] if lines else 'it says nothing'}"
    shown = [line for line in lines if not re.match(r"\d+ (error|warning)s? ", line)]
    return "\n".join([f"{name} does not compile:", *shown]).replace(_NAME, name)
