"""A guest under QEMU: its command line, and one boot from start to answer.

Nothing is written to disk: the initramfs, the console and the answers are files in memory, and QEMU is killed
as soon as the answer is complete, and by the kernel when this process dies.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..workloads.launch import MARKER, owner_mark
from . import stillclock, wire
from .errors import GuestError, QemuError

VM_KVM, VM_EMULATED, DETERMINISTIC = "vm-kvm", "vm-emulated", "deterministic"

BOOT_DEADLINE_S = {VM_KVM: 30.0, VM_EMULATED: 90.0, DETERMINISTIC: 180.0}
_BROKEN = re.compile(
    rb"Kernel panic - not syncing[^\r\n]*|\bOops: [^\r\n]*|Internal error: [^\r\n]*|"
    rb"BUG: (?:unable to handle|kernel NULL pointer)[^\r\n]*"
)
_CONSOLE_KEPT = 64 * 1024
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Board:
    """What QEMU is asked to be for one architecture."""

    program: str
    machine: str
    emulated_cpu: str
    console: str
    port: str  # where the guest talks to the host
    separate_port: bool  # or do console and answers share one line?


BOARDS = {
    "amd64": Board("qemu-system-x86_64", "q35", "max", "ttyS0", "/dev/ttyS1", True),
    "arm64": Board(
        "qemu-system-aarch64", "virt,gic-version=3", "max,pauth-impdef=on", "ttyAMA0", "/dev/ttyAMA0", False
    ),
}


@dataclass(frozen=True)
class Guest:
    """One machine to boot."""

    image: Path
    architecture: str
    timing: str
    cpus: int = 2
    memory_mib: int = 1024
    append: str = ""  # more for the kernel's command line, e.g. preempt=full
    numpy: bool = False  # its binaries refuse a CPU without cmpxchg16b
    threads_per_core: int = 1  # so many CPUs are shown as threads of one core (SMT)
    memory_nodes: int = 1  # CPUs and memory are divided among so many nodes (NUMA)


def program(architecture: str) -> str:
    """Where QEMU is; QemuError says how to get it."""
    board = BOARDS[architecture]
    found = shutil.which(board.program)
    if not found:
        package = {"amd64": "qemu-system-x86", "arm64": "qemu-system-arm"}[architecture]
        raise QemuError(
            f"Other kernels run under QEMU, and {board.program} is not installed.",
            f"Install it: sudo apt install --no-install-recommends {package}",
        )
    return found


def version(architecture: str) -> str:
    """QEMU's version with its package's revision, e.g. '7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)'."""
    done = subprocess.run([program(architecture), "--version"], capture_output=True, text=True, timeout=20)
    match = re.search(r"version (.+)", done.stdout)
    return match[1].strip() if match else "unknown"


def _emulated_cpu(guest: Guest) -> str:
    """The CPU that TCG plays.

    Under QEMU 7.2, kernels that use cmpxchg16b on two emulated CPUs oops at random, so the CPU has none.
    NumPy's binaries insist on it and do not use it.
    For them it is there, and only the kernel is told to leave it alone (clearcpuid in kernel_command_line).
    """
    cpu = BOARDS[guest.architecture].emulated_cpu
    return f"{cpu},cx16=off" if guest.architecture == "amd64" and not guest.numpy else cpu


def kernel_command_line(guest: Guest) -> str:
    words = [
        f"console={BOARDS[guest.architecture].console}", "quiet", "loglevel=3", "panic=-1", "mitigations=off",
        "cryptomgr.notests",  # self-tests of ciphers would run for half a second beside the job
        "rdinit=/init",
    ]  # fmt: skip
    if guest.architecture == "amd64" and guest.numpy and guest.timing != VM_KVM:
        words.append("clearcpuid=141")  # X86_FEATURE_CX16 by its number: names are understood from 5.18 on
    if guest.timing == DETERMINISTIC:
        words += ["nokaslr", "norandmaps"]
    return " ".join([*words, *guest.append.split()])


def topology(guest: Guest) -> list[str]:
    """QEMU's words for how many CPUs there are, and what the guest is told of who shares what with whom.

    It is what the guest's kernel sees and what its scheduler goes by.  The emulated CPUs share no core, and
    the memory is all alike, so times in such a guest say nothing about either.
    """
    if guest.threads_per_core == guest.memory_nodes == 1:
        return ["-smp", str(guest.cpus)]
    each = guest.cpus // guest.memory_nodes
    words = ["-smp", f"{guest.cpus},sockets={guest.memory_nodes},cores={each // guest.threads_per_core}"]
    words[1] += f",threads={guest.threads_per_core}"
    for node in range(guest.memory_nodes if guest.memory_nodes > 1 else 0):
        words += [
            "-object",
            f"memory-backend-ram,id=node{node},size={guest.memory_mib // guest.memory_nodes}M",
        ]
        words += ["-numa", f"node,nodeid={node},memdev=node{node},cpus={node * each}-{(node + 1) * each - 1}"]
    return words


def command(guest: Guest, initrd: str, console: int, answers: int) -> list[str]:
    """QEMU's command line; console and answers are descriptors of files it inherits."""
    board = BOARDS[guest.architecture]
    if guest.timing == VM_KVM:
        timing = ["-accel", "kvm", "-cpu", "host", *topology(guest)]
    elif guest.timing == VM_EMULATED:
        timing = ["-accel", "tcg,thread=multi", "-cpu", _emulated_cpu(guest), *topology(guest)]
    else:
        # One instruction is one virtual nanosecond; the clock stands on its own, and idle time is skipped.
        timing = ["-accel", "tcg,thread=single", "-cpu", _emulated_cpu(guest), "-smp", "1"]
        timing += ["-icount", "shift=0,align=off,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
    files = {"console": console} | ({"answers": answers} if board.separate_port else {})
    lines = []
    for name, descriptor in files.items():
        lines += ["-chardev", f"file,id={name},path=/proc/self/fd/{descriptor}", "-serial", f"chardev:{name}"]
    return [
        program(guest.architecture), "-machine", board.machine, *timing, "-m", f"{guest.memory_mib}M",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(guest.image), "-initrd", initrd, "-append", kernel_command_line(guest), *lines,
    ]  # fmt: skip


def least_memory_mib(initramfs_bytes: int) -> int:
    """The smallest guest that comes up: for a moment the initramfs is there packed and unpacked."""
    return 128 + 5 * initramfs_bytes // 2**21


def check_memory(guest: Guest, initramfs_bytes: int) -> None:
    """QemuError when the guest is too small for its initramfs, or this machine too small for the guest."""
    least = least_memory_mib(initramfs_bytes)
    if guest.memory_mib < least:
        raise QemuError(
            f"A guest of {guest.memory_mib} MiB is too small: this job's guest needs {least} MiB.",
            f"Ask for memory_mib={least} or more.",
        )
    with contextlib.suppress(OSError):
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        if match and int(match[1]) // 1024 < guest.memory_mib + 128:
            raise QemuError(
                f"The guest needs {guest.memory_mib} MiB, and this machine has {int(match[1]) // 1024} free.",
                f"Close other programs, or ask for less memory (memory_mib, at least {least}).",
            )


@dataclass
class Boot:
    """What one boot gave: the guest's messages, and how long it took to come up."""

    result: Any = None
    error: dict[str, str] | None = None
    up: dict[str, Any] = field(default_factory=dict)
    boot_s: float = 0.0
    duration_s: float = 0.0


class _Line:
    """What the guest writes to one serial port, line by line.

    A file in memory, not a socket or a pipe: those fill up where this process is slow to read, and the guest
    then sees its port accept a byte later, or never.  Deterministic runs would no longer be equal, and on a
    busy machine answers were lost.
    """

    def __init__(self, name: str) -> None:
        self.file = os.memfd_create(name)
        self.text = b""
        self._read = 0

    def read(self) -> None:
        """Takes what is new."""
        while piece := os.pread(self.file, 1 << 20, self._read):
            self._read += len(piece)
            self.text += piece

    def lines(self) -> Iterator[bytes]:
        *whole, self.text = self.text.split(b"\n")
        yield from whole

    def close(self) -> None:
        os.close(self.file)


def boot(
    guest: Guest, initramfs: list[bytes], deadline_s: float, progress: Callable[[str, float | None], None]
) -> Boot:
    """Boots the guest and returns what its job sent.

    Raises GuestError when it broke (panic, oops, silence, half a message), with the console's last lines, and
    QemuError when QEMU itself refused.  Whatever happens, QEMU is gone afterwards.
    """
    started = time.monotonic()
    console, answers = _Line("console"), _Line("answers")
    with contextlib.ExitStack() as undo:
        undo.callback(console.close)
        undo.callback(answers.close)
        initrd = os.memfd_create("initramfs")
        undo.callback(os.close, initrd)
        for part in initramfs:
            os.write(initrd, part)
        complaint = undo.enter_context(tempfile.TemporaryFile())
        keep = [initrd, console.file, answers.file]
        words = command(guest, f"/proc/self/fd/{initrd}", keep[1], keep[2])
        # setpriv: the kernel kills QEMU when this process dies, even by SIGKILL.
        qemu = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaint, pass_fds=keep,
            start_new_session=True, env=_environment(guest),
        )  # fmt: skip
        undo.callback(_end, qemu)
        return _listen(guest, qemu, console, answers, started, deadline_s, progress, complaint)


def _environment(guest: Guest) -> dict[str, str]:
    words = {"PATH": os.environ.get("PATH", os.defpath), MARKER: owner_mark()}
    return words | ({"LD_PRELOAD": str(stillclock.library())} if guest.timing == DETERMINISTIC else {})


def _end(qemu: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(qemu.pid, signal.SIGKILL)
    qemu.wait()


def _listen(
    guest: Guest, qemu: subprocess.Popen[bytes], console: _Line, answers: _Line, started: float,
    deadline_s: float, progress: Callable[[str, float | None], None], complaint: Any,
) -> Boot:  # fmt: skip
    """Follows the guest until its last message, its end, or a deadline."""
    got = Boot()
    shared = not BOARDS[guest.architecture].separate_port
    boot_by = started + min(deadline_s, BOOT_DEADLINE_S[guest.timing])
    seen = b""
    progress("booting", None)
    running = True
    while running:
        now = time.monotonic()
        until = started + deadline_s if got.up else boot_by
        if now >= until:
            doing = "was still working on its job" if got.up else "had not come up"
            raise GuestError(
                f"The guest {doing} after {now - started:.0f} s.",
                "Allow more time (deadline_s), or close what else keeps this machine busy.",
                _tail(seen),
                again=not got.up and now < started + deadline_s,
            )
        running = qemu.poll() is None  # asked first: what it wrote before its end is read below
        console.read()
        answers.read()
        if not shared:
            seen, console.text = (seen + console.text)[-_CONSOLE_KEPT:], b""
            if _BROKEN.search(seen):
                _let_it_finish(console)
                raise _broken(seen + console.text)
        for line in (console, answers):
            for text in line.lines() if line is answers or shared else ():
                message = wire.decode(text)
                told = wire.decode_progress(text) if message is None else None
                if told:
                    progress(*told)
                elif message is None:
                    seen += text + b"\n"
                    if line is answers:
                        raise GuestError("The guest sent half a message.", "Run it again.", _tail(seen))
                    if _BROKEN.search(text):
                        raise _broken(seen)
                elif _take(got, message, started, progress):
                    got.duration_s = time.monotonic() - started
                    return got
        if running:
            time.sleep(_LOOK_EVERY_S)
    complaint.seek(0)
    said = complaint.read().decode(errors="replace").strip()
    if qemu.returncode and not got.up and not seen.strip():
        raise QemuError(
            f"QEMU ended with status {qemu.returncode}: {said or 'no message'}", "Check that QEMU is whole."
        )
    raise GuestError("The guest switched itself off before it had answered.", said, _tail(seen))


def _take(
    got: Boot, message: tuple[str, Any], started: float, progress: Callable[[str, float | None], None]
) -> bool:
    """Notes one message of the guest; True when it was the last."""
    what, payload = message
    if what == "up":
        got.up, got.boot_s = payload, time.monotonic() - started
        progress(f"{payload['release']} is up", 0.0)
    elif what == "result":
        got.result = payload
    elif what == "error":
        got.error = payload
    elif what == "end":
        if payload["status"] and got.error is None:
            raise GuestError(
                f"The job's process ended with wait status {payload['status']}.", "Run it again."
            )
        return True
    return False


def _let_it_finish(console: _Line) -> None:
    """A kernel that breaks prints for a while; its last words help."""
    time.sleep(1.0)
    console.read()


def _broken(console: bytes) -> GuestError:
    match = _BROKEN.search(console)
    first = match[0].decode(errors="replace").strip() if match else "it broke"
    remedy = "Run it again; a guest that breaks every time deserves a report."
    if (
        b"Out of memory" in console
        or b"System is deadlocked on memory" in console
        or b"No working init" in console
    ):
        remedy = "Give the guest more memory (memory_mib)."
    return GuestError(f"The guest's kernel broke: {first}", remedy, _tail(console))


def _tail(console: bytes, lines: int = 20) -> str:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1bc|\r", "", console.decode(errors="replace"))
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
