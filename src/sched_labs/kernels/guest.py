#!/usr/bin/python3 -IS
"""/init of the guest: mounts what a job may look at, stops, and when it goes on runs the job it was handed.

Runs as the first process of a machine that has nothing else.
While it stands still it can be saved and restored as often as there are jobs, so whatever takes long comes
before the stop: Python, the library, NumPy.
Talks to the host in lines on a serial port, and is handed its job in a window of memory, see wire.py.
"""

import ctypes
import fcntl
import json
import mmap
import os
import signal
import sys
import time

sys.path.insert(0, "/lab")

from sched_labs.kernels import wire  # it is in /lab

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_PCI = "/sys/bus/pci/devices/0000:00:{}.0"
# Machine code: write 1 to the address that is the argument, then jump to yourself.
_STOP = {
    "x86_64": "c60701 ebfe",  # movb $1,(%rdi); jmp .
    "aarch64": "21008052 01000039 00000014",  # mov w1,#1; strb w1,[x0]; b .
}
_LONGER_THAN_A_TICK_S = 0.02
_RNDRESEEDCRNG = 0x5207


def mount_all() -> None:
    """The file systems of an ordinary Linux, each where it is usually found."""
    for kind, target in (
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/dev/shm"),
        ("cgroup2", "/sys/fs/cgroup"),
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
        ("bpf", "/sys/fs/bpf"),
    ):
        if not target.startswith("/sys/"):  # there, the kernel has the folders ready
            os.makedirs(target, exist_ok=True)  # noqa: PTH103 - pathlib takes long to import
        if _LIBC.mount(kind.encode(), target.encode(), kind.encode(), 0, None):
            print(f"guest: cannot mount {kind}: {os.strerror(ctypes.get_errno())}", flush=True)


def open_device(slot: str, number: int) -> tuple[int, int]:
    """A PCI device's memory, as a file; and where in its page it begins."""
    place = _PCI.format(slot)
    with open(f"{place}/enable", "w") as switch:  # noqa: PTH123
        switch.write("1")
    with open(f"{place}/resource") as resources:  # noqa: PTH123
        start = int(resources.read().splitlines()[number].split()[0], 16)
    return os.open(f"{place}/resource{number}", os.O_RDWR), start % mmap.PAGESIZE


def forget_what_lies_free() -> None:
    """What was once in free memory would be saved with the rest: memory that was cleared takes no room."""
    with open("/proc/meminfo") as told:  # noqa: PTH123
        free_kib = next(int(line.split()[1]) for line in told if line.startswith("MemFree:"))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, free_kib * 1024 // 10 * 9, flags=flags).close()


def stop_here() -> None:
    """Stops the machine, and returns when it goes on, in this QEMU or in another.

    QEMU stops at the instruction that writes to the pvpanic device, and sometimes, as a race of its threads
    has it, lets virtual time jump to the next timer before it stands still.
    So the next instruction is a jump to itself: it makes no difference then whether the time until that timer
    was spent there or left out.
    A later timer of its own ends the process that jumps.
    """
    device, offset = open_device(wire.STOP_SLOT, 0)
    shared = _LIBC.mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, device, 0)
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex(_STOP[os.uname().machine]))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, _LONGER_THAN_A_TICK_S)
        call(shared + offset)
    os.waitpid(child, 0)


def stir(noise: str) -> None:
    """Random numbers of its own for a guest that was restored: all guests of one snapshot know the same."""
    with open("/dev/urandom", "wb", buffering=0) as source:  # noqa: PTH123
        source.write(bytes.fromhex(noise))
        fcntl.ioctl(source, _RNDRESEEDCRNG)


def main() -> None:
    mount_all()
    os.environ.update(
        HOME="/root",
        PATH="/usr/bin:/bin",
        LC_ALL="C.UTF-8",
        XDG_CACHE_HOME="/lab/cache",
        XDG_DATA_HOME="/tmp",
        OPENBLAS_NUM_THREADS="1",  # its threads would spin beside the job
    )
    with open("/lab/guest.json", encoding="utf-8") as file:  # noqa: PTH123
        wanted = json.load(file)
    os.environ["SCHED_LABS_PROGRESS"] = wanted["port"]  # its lines go straight to the host, see wire.py
    sys.path += wanted["path"]
    for module in wanted["imports"]:
        __import__(module)
    channel = wire.Channel.open(wanted["port"])
    device, _ = open_device(wire.WINDOW_SLOT, 2)
    window = mmap.mmap(device, os.fstat(device).st_size, prot=mmap.PROT_READ)
    forget_what_lies_free()
    # What booting left to do in the background must not run beside the job.
    time.sleep(max(0.0, wanted["settled_s"] - time.monotonic()))
    stop_here()

    job = wire.unpack(window)
    if job["noise"]:
        stir(job["noise"])
    channel.send("up", {"release": os.uname().release, "version": os.uname().version})
    worker = os.fork()  # a job that crashes must not take the first process, and with it the kernel, along
    if worker == 0:
        try:
            wire.work(job, channel)
        finally:
            os._exit(0)
    status = 0
    while True:  # the first process also buries everybody else's children
        ended, how = os.wait()
        if ended == worker:
            status = how
            break
    channel.send("end", {"status": status})


if __name__ == "__main__":
    try:
        main()
    finally:
        # The host ends QEMU when it has read the last line; a host that has gone away cannot.
        time.sleep(5)
        with open("/proc/sysrq-trigger", "w") as trigger:  # noqa: PTH123
            trigger.write("o")
        time.sleep(60)
