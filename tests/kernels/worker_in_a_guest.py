"""What runs in the guests of test_fleet_guests.py: a network device, and a worker of Dask's behind it."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import time
from pathlib import Path

MODULES = Path("/lab/network")  # in the order of their names
ADDRESS, MASK, HOST = "10.0.2.15", "255.255.255.0", "10.0.2.2"  # as QEMU's own network has them
_INIT_MODULE = 175  # the number of the system call on x86-64
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8916, 0x891C, 0x8914, 0x41


def work(scheduler_port: int, port: int) -> None:
    """Work for the scheduler that listens on the host's loopback, until the guest ends.

    port   here, and on the host's loopback, which hands connections on
    """
    _load_modules()
    while not Path("/sys/class/net/eth0").exists():
        time.sleep(0.01)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command, address in ((_SIOCSIFADDR, ADDRESS), (_SIOCSIFNETMASK, MASK)):
            spoken = struct.pack("16sHH4s8x", b"eth0", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(any_socket, command, spoken)
        for device in (b"lo", b"eth0"):
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", device, _IFF_UP_RUNNING))
    asyncio.run(_work(scheduler_port, port))


def _load_modules() -> None:
    kernel = ctypes.CDLL(None, use_errno=True)
    for path in sorted(MODULES.iterdir()):
        content = path.read_bytes()
        if kernel.syscall(_INIT_MODULE, content, ctypes.c_ulong(len(content)), b""):
            raise OSError(ctypes.get_errno(), f"{path.name}: {os.strerror(ctypes.get_errno())}")


async def _work(scheduler_port: int, port: int) -> None:
    from distributed import Worker

    async with Worker(
        f"tcp://{HOST}:{scheduler_port}",
        host=ADDRESS,
        port=port,
        contact_address=f"tcp://127.0.0.1:{port}",
        nthreads=1,
        memory_limit=0,
        dashboard=False,
        local_directory="/tmp",
    ) as worker:
        await worker.finished()
