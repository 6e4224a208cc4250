"""Programs that are slow for a known reason, and programs that are not: what `watch` has to tell apart.

Each is a context manager that yields a process that runs.  They stand in a group of much weight, so that what
else this machine does hardly counts, and each draws its sizes from a seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sched_labs import machine, workloads
from sched_labs.core.errors import PlacementError
from sched_labs.limits import cgroups
from sched_labs.limits.cgroups import Group
from sched_labs.machine.cgroup import hierarchy
from sched_labs.machine.seen import Seen
from sched_labs.steer import placement, policies
from sched_labs.workloads import Workload

LASTS_S = 60
WEIGHT = 10_000
_MS = str(1000 * LASTS_S)


@dataclass(frozen=True)
class Case:
    """`names`: what the first finding may be called; `never`: what a healthy one must not be told of, beside
    waits for a CPU.
    """

    name: str
    names: tuple[str, ...]
    start: Callable[[random.Random, Group], contextlib.AbstractContextManager[int]]
    never: tuple[str, ...] = ()

    @property
    def sick(self) -> bool:
        return self.names != ("nothing",)

    @contextlib.contextmanager
    def running(self, seed: int) -> Iterator[int]:
        """The process, while it does what it is to be watched at."""
        with apart() as group, self.start(random.Random(seed), group) as pid:
            yield pid


@contextlib.contextmanager
def apart() -> Iterator[Group]:
    """A group of much weight, and this process in another one: it would starve beside it."""
    with cgroups.group("case", weight=WEIGHT) as group, cgroups.group("watcher", weight=WEIGHT) as watcher:
        watcher.add(os.getpid())
        with contextlib.suppress(PlacementError):  # the group of all our groups, where it is ours
            Group(group.path.rpartition("/")[0], group.version).weigh(WEIGHT)
        yield group


def _cpus() -> list[int]:
    return machine.survey().cpus_allowed


@contextlib.contextmanager
def orders(group: Group | None, *options: object) -> Iterator[Workload]:
    words = [str(option) for option in options]
    with workloads.start("orders", [*words, "--duration-ms", _MS], deadline_s=LASTS_S + 10) as shop:
        if group:
            group.add(shop.pid)
        yield shop


@contextlib.contextmanager
def plain(group: Group, *options: object) -> Iterator[int]:
    with orders(group, *options) as shop:
        shop.go()
        yield shop.pid


def own_threads(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    workers = draw.randint(2, 4) * len(_cpus())
    return plain(group, "--workers", workers, "--work-us", draw.randint(500, 20_000))


@contextlib.contextmanager
def mask(draw: random.Random, group: Group) -> Iterator[int]:
    with orders(group, "--workers", draw.randint(2, 4), "--work-us", draw.randint(500, 20_000)) as shop:
        placement.pin(shop.tids, [draw.choice(_cpus())])
        shop.go()
        yield shop.pid


@contextlib.contextmanager
def cpuset(draw: random.Random, group: Group) -> Iterator[int]:
    cpu = draw.choice(_cpus())
    with (
        cgroups.group("narrow", weight=WEIGHT, cpus=[cpu]) as narrow,
        plain(narrow, "--workers", draw.randint(2, 4), "--work-us", draw.randint(500, 20_000)) as pid,
    ):
        yield pid


@contextlib.contextmanager
def quota(draw: random.Random, group: Group) -> Iterator[int]:
    limit = draw.randint(20, 70) * 1000
    with (
        cgroups.group("limited", quota_us=limit, weight=WEIGHT) as limited,
        plain(limited, "--workers", len(_cpus()), "--work-us", draw.randint(500, 20_000)) as pid,
    ):
        yield pid


@contextlib.contextmanager
def ancestors_quota(draw: random.Random, group: Group) -> Iterator[int]:
    limit = draw.randint(20, 70) * 1000
    with (
        cgroups.group("tenant", quota_us=limit, weight=WEIGHT) as tenant,
        cgroups.group("server", inside=tenant) as server,
        plain(server, "--workers", len(_cpus()), "--work-us", draw.randint(500, 20_000)) as pid,
    ):
        yield pid


@contextlib.contextmanager
def rival(draw: random.Random, group: Group) -> Iterator[int]:
    with (
        orders(group, "--workers", draw.randint(2, 3) * len(_cpus()), "--work-us", 5000) as other,
        orders(group, "--workers", 1, "--work-us", draw.randint(500, 20_000)) as shop,
    ):
        other.go()
        shop.go()
        yield shop.pid


@contextlib.contextmanager
def heavier(draw: random.Random, group: Group) -> Iterator[int]:
    """A rival whose group has more weight."""
    with (
        cgroups.group("heavy", weight=draw.randint(300, 1000), inside=group) as heavy,
        cgroups.group("light", weight=100, inside=group) as light,
        orders(heavy, "--workers", 2 * len(_cpus()), "--work-us", 5000) as other,
        orders(light, "--workers", 1, "--work-us", draw.randint(500, 20_000)) as shop,
    ):
        other.go()
        shop.go()
        yield shop.pid


@contextlib.contextmanager
def realtime(draw: random.Random, group: Group) -> Iterator[int]:
    with (
        realtime_threads(draw.randint(3, 10) * 1000),
        plain(group, "--workers", len(_cpus()), "--work-us", draw.randint(500, 20_000)) as pid,
    ):
        yield pid


@contextlib.contextmanager
def realtime_threads(work_us: int) -> Iterator[None]:
    """A FIFO thread on each CPU that wants half of it; in the topmost group, as others on v1 have no
    real-time runtime.
    """
    with orders(None, "--workers", len(_cpus()), "--work-us", work_us, "--pause-us", work_us) as other:
        top = hierarchy(Seen(), "cpu")
        assert top
        Group(top.mount, top.version).add(other.pid)
        for tid in other.tids:
            policies.apply(tid, policies.FIFO)
        other.go()
        yield


def yields(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    workers = draw.randint(2, 4) * len(_cpus())
    return plain(group, "--workers", workers, "--work-us", draw.randint(1, 8), "--yield")


def locks(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    return plain(
        group,
        "--workers",
        draw.randint(3, 6),
        "--work-us",
        draw.randint(100, 1000),
        "--pause-us",
        20,
        "--lock",
    )


def faults(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    return plain(group, "--workers", 1, "--work-us", 50, "--touch-kib", draw.randint(256, 2048))


def sleeper(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    return plain(
        group, "--workers", 1, "--work-us", draw.randint(50, 300), "--pause-us", draw.randint(5, 20) * 1000
    )


def worker(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    return plain(group, "--workers", 1, "--work-us", draw.randint(500, 20_000))


def light_pool(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    pause = draw.randint(20, 50) * 1000
    return plain(
        group, "--workers", draw.randint(2, 8), "--work-us", draw.randint(50, 200), "--pause-us", pause
    )


@contextlib.contextmanager
def pipe(draw: random.Random, group: Group) -> Iterator[int]:
    """Two threads that hand a byte to each other: many switches, and nobody is kept waiting.

    Between two blocks of round trips one keeps the other waiting: so the blocks are long.
    """
    words = ["--by", "pipe", "--between", "threads", "--trials", "2000", "--round-trips", "200000"]
    with workloads.start("pingpong", words, deadline_s=LASTS_S) as pair:
        placement.pin(pair.tids, [draw.choice(_cpus())])
        group.add(pair.pid)
        pair.go()
        yield pair.pid


_NAPS = """
import ctypes, time
assert not ctypes.CDLL(None).prctl(29, {slack_ns}, 0, 0, 0)  # PR_SET_TIMERSLACK
while True:
    time.sleep({pause_us} / 1e6)
"""
_WORK = """
import select, socket, sys, time
def work(us):
    end = time.thread_time() + us / 1e6
    while time.thread_time() < end:
        pass
"""
_SERVER = (
    _WORK
    + """
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
connected = []
while True:
    for one in select.select([listening, *connected], [], [])[0]:
        if one is listening:
            connected.append(one.accept()[0])
            continue
        try:
            data = one.recv(64)
            work(int(sys.argv[1]))
            one.sendall(data)
        except ConnectionError:  # it has been ended
            data = b""
        if not data:
            connected.remove(one)
"""
)
_CLIENT = (
    _WORK
    + """
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("there", flush=True)
while True:
    work(int(sys.argv[2]))
    server.sendall(b"?")
    server.recv(64)
    time.sleep(int(sys.argv[3]) / 1e6)
"""
)


@contextlib.contextmanager
def script(group: Group, code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program in a group."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: group.add(os.getpid()),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def slack(draw: random.Random, group: Group, slack_ns: int | None = None) -> Iterator[int]:
    """A thread that sleeps for 2 to 5 ms, and lets its timers be as late as that."""
    pause_us = draw.randint(2000, 5000)
    given = 1000 * pause_us if slack_ns is None else slack_ns
    with script(group, _NAPS.format(slack_ns=given, pause_us=pause_us)) as process:
        yield process.pid


def punctual(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    """The same with the slack that every thread has."""
    return slack(draw, group, 50_000)


def short_naps(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    """A thread that hardly works, and sleeps some thousand times a second."""
    return plain(
        group, "--workers", 1, "--work-us", draw.randint(10, 20), "--pause-us", draw.randint(60, 120)
    )


def worked_naps(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    """Naps as short, between pieces of work beside which the wait for a CPU to come back is nothing."""
    return plain(
        group, "--workers", 1, "--work-us", draw.randint(600, 900), "--pause-us", draw.randint(60, 120)
    )


@contextlib.contextmanager
def serving(group: Group, work_us: int) -> Iterator[tuple[str, int]]:
    """The port and the process of a server that works so long for each answer."""
    with script(group, _SERVER, str(work_us)) as server:
        assert server.stdout
        yield server.stdout.readline().strip(), server.pid


@contextlib.contextmanager
def asked(draw: random.Random, group: Group, limit_us: int | None = None) -> Iterator[int]:
    """A server, asked by a client with a limit."""
    limit = limit_us or draw.randint(2000, 4000)
    with (
        cgroups.group("client", quota_us=limit, weight=WEIGHT) as few,
        serving(group, 0) as (port, server),
        script(few, _CLIENT, port, "500", "5000") as client,
    ):
        assert client.stdout
        client.stdout.readline()
        yield server


def served(draw: random.Random, group: Group) -> contextlib.AbstractContextManager[int]:
    """The same with a client that has a CPU."""
    return asked(draw, group, 100_000)


@contextlib.contextmanager
def beside_clients(draw: random.Random, group: Group) -> Iterator[int]:
    """A server whose clients fill the machine together with it: as many as there are CPUs."""
    work_us = draw.randint(300, 1000)
    with serving(group, work_us) as (port, server), contextlib.ExitStack() as stack:
        for _ in _cpus():
            client = stack.enter_context(script(group, _CLIENT, port, str(work_us), "0"))
            assert client.stdout
            client.stdout.readline()
        yield server


@contextlib.contextmanager
def roomy(draw: random.Random, group: Group) -> Iterator[int]:
    """A worker that sleeps half of the time, under a limit of more than one CPU."""
    work = draw.randint(200, 2000)
    with (
        cgroups.group("roomy", quota_us=draw.randint(120, 180) * 1000, weight=WEIGHT) as limited,
        plain(limited, "--workers", 1, "--work-us", work, "--pause-us", work) as pid,
    ):
        yield pid


SICK = [
    Case("own threads", ("own_threads",), own_threads),
    Case("mask", ("mask",), mask),
    Case("cpuset", ("mask",), cpuset),
    Case("quota", ("quota",), quota),
    Case("ancestor's quota", ("quota",), ancestors_quota),
    Case("rival", ("rival",), rival),
    Case("heavier neighbour", ("weight",), heavier),
    Case("real-time neighbour", ("realtime",), realtime),
    Case("yields", ("yields",), yields),
    Case("locks", ("locks",), locks),
    Case("page faults", ("page_faults",), faults),
    Case("timer slack", ("timer_slack",), slack),
    Case("short naps", ("idle_wakeups", "timer_slack"), short_naps),
    Case("late client", ("client",), asked),
]
HEALTHY = [
    Case("sleeper", ("nothing",), sleeper),
    Case("one worker", ("nothing",), worker),
    Case("light pool", ("nothing",), light_pool),
    Case("pipe", ("nothing",), pipe),
    Case("punctual", ("nothing",), punctual, ("timer_slack",)),
    Case("worked naps", ("nothing",), worked_naps, ("idle_wakeups",)),
    Case("roomy quota", ("nothing",), roomy),
    Case("served", ("nothing",), served, ("client",)),
    Case("own clients", ("nothing",), beside_clients),
]


def lacking() -> str:
    """Why they cannot be started here; "" where they can."""
    if len(_cpus()) < 2:
        return "there is one CPU only"
    try:
        with cgroups.group("case", weight=WEIGHT):
            return ""
    except PlacementError as error:
        return error.what
