"""Who is at the other end of a program's connections on this machine, and how long that one waits.

A load generator that waits for a CPU measures its own wait as the server's.  Source: proc_pid_net(5) and
Documentation/networking/proc_net_tcp.rst for TCP; sock_diag(7) for Unix sockets, whose other ends /proc does
not tell.  The latter only of the network namespace that we are in ourselves.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..machine import files
from .target import after_name

MOST_LOOKED_AT = 500  # processes whose descriptors are read
_MAPPED = "0000000000000000FFFF0000"  # before an IPv4 address in /proc/net/tcp6
_ESTABLISHED = "01"
# linux/sock_diag.h, unix_diag.h, netlink.h
_SOCK_DIAG, _BY_FAMILY, _REQUEST_DUMP = 4, 20, 0x301
_CONNECTED, _SHOW_PEER, _PEER = 1, 4, 2


@dataclass(frozen=True)
class Client:
    """What a process at the other end did in the window, in ms of every second, over all its threads."""

    pid: int
    name: str
    running_ms_per_s: float
    waiting_ms_per_s: float


def others(pids: Iterable[int], candidates: Iterable[int]) -> list[int]:
    """Those of the candidates that one of the processes has a connection to."""
    own = set(pids)
    ends = _connections(next(iter(own))) if own else {}
    mine = {inode for pid in own for inode in _sockets(pid)}
    far = {(there, here) for inode, (here, there) in ends.items() if inode in mine}
    theirs = {inode for inode, pair in ends.items() if pair in far} - mine
    # The socket of a datagram server knows none of those that are connected to it.
    theirs |= {end for pair in unix_pairs() if mine.intersection(pair) for end in pair} - mine
    looked = list(dict.fromkeys(pid for pid in candidates if pid not in own))[:MOST_LOOKED_AT]
    return [pid for pid in looked if theirs and theirs & _sockets(pid)]


def scheduled(pid: int) -> tuple[int, int]:
    """ns that its threads ran, and waited for a CPU, since they began."""
    sums = [0, 0]
    for tid in files.names(f"/proc/{pid}/task"):
        words = (files.read(f"/proc/{pid}/task/{tid}/schedstat") or "").split()
        if len(words) == 3:
            sums = [total + int(word) for total, word in zip(sums, words, strict=False)]
    return sums[0], sums[1]


def since(before: dict[int, tuple[int, int]], names: dict[int, str], window_s: float) -> list[Client]:
    """What they did since `before`; those that are gone are left out."""
    return [
        Client(pid, names[pid], *(max(0, b - a) / 1e6 / window_s for a, b in zip(then, now, strict=True)))
        for pid, then in before.items()
        if pid in names and after_name(f"/proc/{pid}/stat") and (now := scheduled(pid)) != (0, 0)
    ]


def unix_pairs() -> Iterator[tuple[str, str]]:
    """The inodes of both ends of each connected Unix socket; nothing where the kernel does not tell."""
    if not files.live():
        return
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as asking:
            asking.setblocking(False)  # the kernel answers before sending and receiving return
            body = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 1 << _CONNECTED, 0, _SHOW_PEER, 0, 0)
            head = struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0)
            asking.sendto(head + body, (0, 0))
            while found := list(_messages(asking.recv(1 << 20))):
                yield from (pair for pair in found if pair[1])
    except OSError:  # a kernel without CONFIG_UNIX_DIAG, or a container that may not ask
        return


def _messages(data: bytes) -> Iterator[tuple[str, str]]:
    """(inode, inode of the other end or "") of each socket in a datagram; none at the end, or on an error."""
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if kind != _BY_FAMILY or not 32 <= length <= len(data):
            return
        (here,), attributes, there = struct.unpack_from("=I", data, 20), data[32:length], ""
        while len(attributes) >= 4:
            size, name = struct.unpack_from("=HH", attributes)
            if name == _PEER and size == 8:
                there = str(struct.unpack_from("=I", attributes, 4)[0])
            attributes = attributes[max(4, (size + 3) & ~3) :]
        yield str(here), there
        data = data[(length + 3) & ~3 :]


def _connections(pid: int) -> dict[str, tuple[str, str]]:
    """{inode: (address here, address there)} in the network that a process sees."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in (files.read(f"/proc/{pid}/net/{name}") or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _ESTABLISHED:
                found[words[9]] = (words[1].removeprefix(_MAPPED), words[2].removeprefix(_MAPPED))
    return found


def _sockets(pid: int) -> set[str]:
    """The inodes of its sockets; none of a process that we may not look into."""
    links = (files.link(f"/proc/{pid}/fd/{fd}") or "" for fd in files.names(f"/proc/{pid}/fd"))
    return {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
