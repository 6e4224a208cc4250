"""Other people's tools that watch run queues: bcc's and libbpf-tools' runqlat, and perf sched.

They watch the whole machine or one process, need root, and are only ever started to be compared with.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import channel
from .helper.btf import PLACE, Btf
from .helper.protocol import Refused

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/share/bcc/tools"
_READY_S = 15.0
_PERF_READY_S = 1.0  # perf record does not say when it has begun


class PeerError(Exception):
    """Why a tool cannot be compared with here, in one clause."""


@dataclass
class Peer:
    """A running tool.  When its context has been left, `said` is what it printed, `bytes` what it wrote."""

    name: str
    said: str = ""
    bytes: int = 0
    latency: str = ""
    lines: list[str] = field(default_factory=list)

    def histogram(self) -> dict[int, int]:
        """{lower edge in us: waits} of runqlat's powers of two: the bin 4 -> 7 is 4."""
        rows = re.findall(r"^\s*(\d+) -> (\d+)\s*:\s*(\d+)", self.said, re.MULTILINE)
        return {int(low): int(count) for low, _, count in rows}

    def delays(self) -> dict[int, tuple[int, float, float]]:
        """{thread: (switches, mean delay in ns, longest in ns)} as perf sched latency has them."""
        pattern = r":(\d+)\s*\|[^|]*\|\s*(\d+) \| avg:\s*([\d.]+) ms \| max:\s*([\d.]+) ms"
        rows = re.findall(pattern, self.latency)
        return {int(tid): (int(n), float(mean) * 1e6, float(most) * 1e6) for tid, n, mean, most in rows}


def command(name: str) -> list[str]:
    """How the tool is started here.  Raises PeerError where it is not installed."""
    choices = {"runqlat": ["runqlat-libbpf", "runqlat"], "runqlat-bpfcc": ["runqlat-bpfcc"], "perf": ["perf"]}
    for program in choices[name]:
        found = shutil.which(program, path=_PATH)
        # bcc's script is called runqlat where there are no libbpf-tools.
        if found and not (name == "runqlat" and Path(found).read_bytes()[:2] == b"#!"):
            return [found]
    raise PeerError(f"{name} is not installed")


@contextlib.contextmanager
def running(name: str, pid: int | None = None) -> Iterator[Peer]:
    """The tool while it watches a process, or the machine.  Raises PeerError where it does not run here."""
    if os.geteuid() != 0:
        raise PeerError(f"{name} needs root")
    program = command(name)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        if name == "perf":
            arguments = [*program, "sched", "record", "-q", "-o", str(data)]
        else:
            # Without it the first line arrives with the last.
            arguments = [*(["stdbuf", "-oL"] if name == "runqlat" else []), *program]
            arguments += ["-p", str(pid)] if pid else []
        environment = {"PATH": _PATH, "LC_ALL": "C", "PYTHONUNBUFFERED": "1"}
        if name == "runqlat-bpfcc" and not Path("/lib/modules", platform.release(), "build").exists():
            environment["BCC_KERNEL_SOURCE"] = str(stand_in_headers(Path(folder) / "headers"))
        process = subprocess.Popen(
            # INT ends it.  In the background of a script we ignore it ourselves, and it would inherit that.
            ["/usr/bin/env", "--default-signal=INT", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        )
        peer = Peer(name)
        try:
            _wait_until_ready(process, name, peer)
            yield peer
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                peer.said = "\n".join([*peer.lines, process.communicate(timeout=15)[0]])
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            if data.exists():
                peer.bytes = data.stat().st_size
                peer.latency = _latency(program, data)


_SCHED_H = """
#include <linux/types.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define TASK_RUNNING 0
struct ns_common {{ unsigned int inum; }};
struct pid_namespace {{ struct ns_common ns; }};
struct upid {{ int nr; struct pid_namespace *ns; }};
struct pid {{ unsigned int level; struct upid numbers[1]; }};
struct task_struct {{
{fields}
}} __attribute__((packed));
"""


def stand_in_headers(folder: Path) -> Path:
    """Headers with which bcc's runqlat compiles where the running kernel's are not installed.

    It reads four fields of a thread.  They are placed where this kernel's BTF has them: with another
    kernel's headers it would read something else there, and say nothing.  Raises PeerError without BTF.
    """
    try:
        btf = Btf(Path(PLACE).read_bytes())
    except (OSError, Refused):
        raise PeerError("this kernel has neither headers nor BTF for bcc") from None
    task = btf.find(btf.STRUCT, b"task_struct")
    types = {
        "pid": "int",
        "tgid": "int",
        "thread_pid": "struct pid *",
        "__state": "unsigned int",
        "state": "long",
    }
    sizes = {"struct pid *": 8, "long": 8}
    fields, end = [], 0
    for offset, name in sorted(
        (found[0], name) for name in types if (found := btf.field(task, name.encode())) is not None
    ):
        fields += [f"    char before_{name}[{offset - end}];", f"    {types[name]} {name};"]
        end = offset + sizes.get(types[name], 4)
    shutil.copytree(channel.OURS / "headers", folder)
    include = folder / "include"
    (include / "linux" / "sched.h").write_text(_SCHED_H.format(fields="\n".join(fields)))
    for name in ("linux/nsproxy.h", "linux/pid_namespace.h", "linux/init_task.h", "uapi/linux/ptrace.h"):
        (include / name).write_text("")
    return folder


def _latency(program: list[str], data: Path) -> str:
    """What perf makes of its recording, one row per thread; empty where it cannot read it."""
    try:
        done = subprocess.run(
            [*program, "sched", "latency", "-p", "-i", str(data)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            env={"PATH": _PATH, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def _wait_until_ready(process: subprocess.Popen[str], name: str, peer: Peer) -> None:
    assert process.stdout
    if name == "perf":
        time.sleep(_PERF_READY_S)
        if process.poll() is None:
            return
        peer.lines.append(process.stdout.read())
    else:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            line = process.stdout.readline()
            if not line:
                break
            peer.lines.append(line.rstrip())
            if line.startswith("Tracing"):
                return
    process.kill()
    process.wait()
    said = [line for line in "\n".join(peer.lines).splitlines() if line.strip()]
    raise PeerError(f"{name} does not run here ({said[-1].strip()[:120] if said else process.returncode})")
