"""A guest as QEMU is told of it: one machine, its command line, what it needs."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import wire
from .errors import QemuError

VM_KVM, VM_EMULATED, DETERMINISTIC = "vm-kvm", "vm-emulated", "deterministic"
TIMINGS = ("vm", VM_KVM, VM_EMULATED, DETERMINISTIC)  # "vm": the first where it works, else the second
DEADLINE_S = 300.0


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
    """One machine."""

    image: Path
    architecture: str
    timing: str
    cpus: int = 2
    memory_mib: int = 1024
    append: str = ""  # more for the kernel's command line, e.g. preempt=full
    numpy: bool = False  # its binaries refuse a CPU without cmpxchg16b
    threads_per_core: int = 1  # so many CPUs are shown as threads of one core (SMT)
    memory_nodes: int = 1  # CPUs and memory are divided among so many nodes (NUMA)
    window_mib: int = 16  # through which it is handed its job, see wire.py; a power of two


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


class Files(NamedTuple):
    """What QEMU inherits, as descriptors."""

    console: int
    answers: int
    window: int
    monitor: int  # a socket
    initramfs: int | None = None  # to boot with
    incoming: int | None = None  # to restore instead


def command(guest: Guest, files: Files) -> list[str]:
    """QEMU's command line; a state can only be restored by the one it was saved from."""
    board = BOARDS[guest.architecture]
    if guest.timing == VM_KVM:
        timing = ["-accel", "kvm", "-cpu", "host", *topology(guest)]
    elif guest.timing == VM_EMULATED:
        timing = ["-accel", "tcg,thread=multi", "-cpu", _emulated_cpu(guest), *topology(guest)]
    else:
        # One instruction is one virtual nanosecond; the clock stands on its own, and idle time is skipped.
        timing = ["-accel", "tcg,thread=single", "-cpu", _emulated_cpu(guest), "-smp", "1"]
        timing += ["-icount", "shift=0,align=off,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
    lines = []
    for name in ("console", "answers") if board.separate_port else ("console",):
        place = f"/proc/self/fd/{getattr(files, name)}"
        lines += ["-chardev", f"file,id={name},path={place}", "-serial", f"chardev:{name}"]
    window = f"size={guest.window_mib}M,mem-path=/proc/self/fd/{files.window},share=on"
    start = []
    if files.initramfs is not None:
        start = ["-initrd", f"/proc/self/fd/{files.initramfs}"]
    if files.incoming is not None:
        start = ["-incoming", f"fd:{files.incoming}"]
    return [
        program(guest.architecture), "-machine", board.machine, *timing, "-m", f"{guest.memory_mib}M",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(guest.image), "-append", kernel_command_line(guest), *start, *lines,
        "-object", f"memory-backend-file,id=window,{window}",
        "-device", f"ivshmem-plain,memdev=window,master=on,addr=0x{wire.WINDOW_SLOT}",
        "-device", f"pvpanic-pci,addr=0x{wire.STOP_SLOT}", "-action", "panic=pause",
        "-chardev", f"socket,id=monitor,fd={files.monitor}", "-mon", "chardev=monitor,mode=control",
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
