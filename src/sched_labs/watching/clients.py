"""Who is at the other end of a program's connections on this machine, and how long that one waits.

A load generator that waits for a CPU measures its own wait as the server's, and one that has a CPU keeps the
server from it.  It came to the server, where the server came to its own services: whoever listens is asked.
Source: proc_pid_net(5) and Documentation/networking/proc_net_tcp.rst for TCP and UDP; sock_diag(7) for Unix
sockets, whose other ends /proc does not tell.  The latter only of the network namespace that we are in
ourselves, and the former only of the program's own.
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
# net/tcp_states.h; an unconnected UDP socket is closed, to the kernel
_ESTABLISHED, _CLOSED, _LISTENING = "01", "07", "0A"
# linux/sock_diag.h, unix_diag.h, netlink.h
_SOCK_DIAG, _BY_FAMILY, _REQUEST_DUMP = 4, 20, 0x301
_CONNECTED, _SHOW_NAME, _SHOW_PEER, _NAME, _PEER = 1, 1, 4, 0, 2


@dataclass(frozen=True)
class Client:
    """What a process at the other end did in the window, in ms of every second, over all its threads."""

    pid: int
    name: str
    running_ms_per_s: float
    waiting_ms_per_s: float


def others(pids: Iterable[int], candidates: Iterable[int]) -> dict[int, bool]:
    """Those of the candidates that one of the processes has a connection to, and whether they came to it."""
    own = set(pids)
    mine = {inode for pid in own for inode in _sockets(pid)}
    ends = _internet_ends(next(iter(own)), mine) if own else {}
    for end, came in _unix_ends(mine).items():
        ends[end] = ends.get(end, False) or came
    looked = list(dict.fromkeys(pid for pid in candidates if pid not in own))[:MOST_LOOKED_AT]
    found = {pid: ends.keys() & _sockets(pid) for pid in looked} if ends else {}
    return {pid: any(ends[end] for end in theirs) for pid, theirs in found.items() if theirs}


def open_to_datagrams(pids: Iterable[int]) -> bool:
    """Whether one of the processes takes datagrams of whoever sends some, at a port of its choice."""
    own = list(pids)
    return bool(own) and bool(_unconnected(own[0], own) - set(_given()))


def senders(pids: Iterable[int], candidates: Iterable[int]) -> set[int]:
    """Those of the candidates that may send such datagrams: they have a socket that is connected to nobody,
    at a port that the kernel gave it.  No socket tells whether they do.
    """
    own = set(pids)
    if not open_to_datagrams(own):
        return set()
    given, first = set(_given()), next(iter(own))
    looked = list(dict.fromkeys(pid for pid in candidates if pid not in own))[:MOST_LOOKED_AT]
    return {pid for pid in looked if _unconnected(first, [pid]) & given}


def _unconnected(network: int, pids: Iterable[int]) -> set[int]:
    """The ports of their sockets for datagrams that are connected to nobody, in a process's network."""
    mine = {inode for pid in pids for inode in _sockets(pid)}
    rows = _rows(network, "udp") if mine else ()
    return {int(_port(here), 16) for here, _, state, inode in rows if state == _CLOSED and inode in mine}


def _given() -> range:
    """The ports that the kernel gives to those who ask for none: a client's, and no server's."""
    words = (files.read("/proc/sys/net/ipv4/ip_local_port_range") or "").split()
    return range(int(words[0]), int(words[1]) + 1) if len(words) == 2 else range(32768, 61000)


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


@dataclass(frozen=True)
class UnixEnd:
    """A connected Unix socket, by inodes; `there` is "" where the other end is not told.

    The socket that a server accepts has the name of the one that it listens at; a client's has none.
    """

    here: str
    there: str
    named: bool


def _unix_ends(mine: set[str]) -> dict[str, bool]:
    """{inode at the other end of one of these sockets: whether it came to them}."""
    known = {end.here: end for end in unix_ends()}
    found = {end.there: end.named for end in known.values() if end.here in mine}
    # The socket of a datagram server knows none of those that are connected to it.
    found |= {end.here: True for end in known.values() if end.there in mine and end.there not in known}
    return {end: came for end, came in found.items() if end not in mine}


def unix_ends() -> Iterator[UnixEnd]:
    """Both ends of each connected Unix socket; nothing where the kernel does not tell."""
    if not files.live():
        return
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as asking:
            asking.setblocking(False)  # the kernel answers before sending and receiving return
            show = _SHOW_NAME | _SHOW_PEER
            body = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 1 << _CONNECTED, 0, show, 0, 0)
            head = struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0)
            asking.sendto(head + body, (0, 0))
            while found := list(_messages(asking.recv(1 << 20))):
                yield from (end for end in found if end.there)
    except OSError:  # a kernel without CONFIG_UNIX_DIAG, or a container that may not ask
        return


def _messages(data: bytes) -> Iterator[UnixEnd]:
    """Each socket in a datagram; none at the end, or on an error."""
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if kind != _BY_FAMILY or not 32 <= length <= len(data):
            return
        (here,), attributes, there, named = struct.unpack_from("=I", data, 20), data[32:length], "", False
        while len(attributes) >= 4:
            size, name = struct.unpack_from("=HH", attributes)
            named |= name == _NAME
            if name == _PEER and size == 8:
                there = str(struct.unpack_from("=I", attributes, 4)[0])
            attributes = attributes[max(4, (size + 3) & ~3) :]
        yield UnixEnd(str(here), there, named)
        data = data[(length + 3) & ~3 :]


def _internet_ends(pid: int, mine: set[str]) -> dict[str, bool]:
    """{inode at the other end of one of these sockets: whether it came to them}, in a process's network."""
    found: dict[str, bool] = {}
    for protocol in ("tcp", "udp"):
        rows = list(_rows(pid, protocol))
        listened = {_port(here) for here, _, state, _ in rows if state == _LISTENING}
        pairs = {
            (there, here): _port(here) in listened
            for here, there, state, inode in rows
            if state == _ESTABLISHED and inode in mine
        }
        # A datagram server's socket knows none of those that are connected to it.
        open_to_all = {here for here, _, state, inode in rows if state == _CLOSED and inode in mine}
        for here, there, state, inode in rows:
            if state != _ESTABLISHED or inode in mine:
                continue
            if (here, there) in pairs:
                found[inode] = pairs[here, there]
            elif {there, _anywhere(there), _anywhere(there, 32)} & open_to_all:
                found[inode] = True
    return found


def _rows(pid: int, protocol: str) -> Iterator[tuple[str, str, str, str]]:
    """(address here, address there, state, inode) of each socket in the network that a process sees."""
    for name in (protocol, f"{protocol}6"):
        for line in (files.read(f"/proc/{pid}/net/{name}") or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 9:
                yield words[1].removeprefix(_MAPPED), words[2].removeprefix(_MAPPED), words[3], words[9]


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _anywhere(address: str, digits: int = 8) -> str:
    """The same port at whatever address: digits 8 for IPv4, 32 for IPv6."""
    return f"{'0' * digits}:{_port(address)}"


def _sockets(pid: int) -> set[str]:
    """The inodes of its sockets; none of a process that we may not look into."""
    links = (files.link(f"/proc/{pid}/fd/{fd}") or "" for fd in files.names(f"/proc/{pid}/fd"))
    return {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
