#!/usr/bin/python3 -IS
"""/init of the guest: mounts what a job may look at, runs the job, tells the host, powers off.

Runs as the first process of a machine that has nothing else.
Uses only the standard library, and little of it: every import counts when the machine is emulated.
Talks to the host in lines on a serial port, see wire.py.
"""

import os
import sys
import time

sys.path.insert(0, "/lab")


def mount_all() -> None:
    """The file systems of an ordinary Linux, each where it is usually found."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
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
        if libc.mount(kind.encode(), target.encode(), kind.encode(), 0, None):
            print(f"guest: cannot mount {kind}: {os.strerror(ctypes.get_errno())}", flush=True)


def main() -> None:
    mount_all()
    os.environ.update(
        HOME="/root",
        PATH="/usr/bin:/bin",
        LC_ALL="C.UTF-8",
        XDG_CACHE_HOME="/lab/cache",
        XDG_DATA_HOME="/tmp",
    )
    from sched_labs.kernels import wire

    job = wire.load_job()
    channel = wire.Channel.open(job["port"])
    os.environ["SCHED_LABS_PROGRESS"] = job["port"]  # its lines go straight to the host, see wire.py
    channel.send(
        "up", {"release": os.uname().release, "version": os.uname().version, "uptime_s": time.monotonic()}
    )
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
