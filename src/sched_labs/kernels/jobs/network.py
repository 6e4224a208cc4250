"""The guest's half of an experiment whose programs send to one another: with the loopback device up."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Any

from . import experiment

_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41


def measure(module: str, name: str, parameters: dict[str, Any]) -> str:
    """`experiment.measure`, after the device has been brought up; the kernel gives it its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))
    return experiment.measure(module, name, parameters)
