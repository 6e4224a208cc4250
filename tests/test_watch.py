"""What `watch` says of a program: targets, windows and findings, on programs whose trouble is known."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import html
import math
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import troubles
from waiting import wait_until

import sched_labs
from sched_labs.core.errors import ParameterError, ProbeError, ResultError
from sched_labs.core.result import load
from sched_labs.machine import files
from sched_labs.probes import runqlat
from sched_labs.watching import clients, looks, page, program, report, target, wakers
from sched_labs.watching import findings as diagnosis
from sched_labs.watching.causes import Causes, causes
from sched_labs.watching.clients import Client
from sched_labs.watching.program import observe, watch
from sched_labs.watching.seen import WOKE_SHARE, Seen, Watcher
from sched_labs.watching.target import Command, ControlGroup, Processes

PYTHON = sys.executable
NO_HELPER = runqlat.Availability(False, "It was switched off for this test.", "")
SPIN = "while True: pass"
BUSY_S = 100  # in which a program is there on a machine with thirty others
HERE = runqlat.available()

# ---- what is watched ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["/nowhere/program"], "no such program"),
        (["/tmp"], "directory"),
        (["\0"], "cannot be started"),
    ],
)
def test_a_command_that_cannot_start_is_refused(command: list[str], what: str) -> None:
    with pytest.raises(ProbeError, match=what):
        watch(command, progress=False, save=False)


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("no program")
    with pytest.raises(ProbeError, match="permission denied"):
        watch([str(file)], progress=False, save=False)


@pytest.mark.parametrize("wrong", [[], "sleep 1", [1]])
def test_what_is_no_command_is_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        watch(wrong, progress=False, save=False)


def test_one_thing_is_watched() -> None:
    with pytest.raises(ParameterError, match="one thing"):
        watch(["true"], pid=1)
    with pytest.raises(ParameterError, match="one thing"):
        watch()


def test_a_process_that_is_not_there_is_refused() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(ProbeError, match=f"no process {ended.pid}"):
        watch(pid=ended.pid, seconds=0.1)
    with pytest.raises(ParameterError):
        watch(pid=[])
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text().strip() == "kthreadd":
        with pytest.raises(ProbeError, match="thread of the kernel"):
            Processes([2])
    with pytest.raises(ProbeError, match="no control group"):
        watch(cgroup="/no/such/group")


@pytest.mark.parametrize("seconds", [0, -1, 1e9, math.nan])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ParameterError):
        watch(pid=os.getpid(), seconds=seconds)


def test_a_command_is_held_until_it_may_begin(tmp_path: Path) -> None:
    mark = tmp_path / "began"
    with Command(["touch", str(mark)]) as command:
        time.sleep(0.2)
        assert not mark.exists()
        command.begin()
        assert wait_until(command.over)
        assert mark.exists()
        assert command.wait() == 0


@pytest.mark.parametrize(
    ("script", "status"), [("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM), ("exec true", 0)]
)
def test_a_command_has_its_own_status(script: str, status: int) -> None:
    with Command(["sh", "-c", script]) as command:
        command.begin()
        assert command.wait() == status


@pytest.mark.computes
def test_a_command_that_runs_on_is_ended_with_all_that_it_started() -> None:
    with Command(["sh", "-c", "sleep 100 & sleep 100; true"]) as command:
        command.begin()
        assert wait_until(lambda: len(command.pids()) == 3)
        pids = command.pids()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_command_that_never_begins_is_gone() -> None:
    with Command(["sleep", "100"]) as command:
        pid = command.pid
    assert not Path(f"/proc/{pid}").exists()


def test_children_stay_with_the_family_when_their_parent_has_ended() -> None:
    script = "import os, time; os.fork() or (os.fork(), time.sleep(100)); time.sleep(1)"
    with Command([PYTHON, "-c", script]) as command:
        command.begin()
        assert wait_until(lambda: len(command.pids()) == 3)
        os.kill(command.pid, signal.SIGKILL)
        assert wait_until(lambda: command.pid not in command.pids())
        assert len(command.pids()) == 2
        assert not command.over()


# ---- what was seen -----------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["helper", "no helper"])
def helper(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With the helper, where this machine has it, and without."""
    if request.param and not HERE.ok:
        pytest.skip(HERE.why)
    if not request.param:
        monkeypatch.setattr(runqlat, "available", lambda: NO_HELPER)
    return bool(request.param)


def test_where_the_time_of_a_command_went(helper: bool, tmp_path: Path) -> None:
    script = "import threading, time\nthreading.Thread(target=time.sleep, args=(1,)).start()\n" + (
        "end = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    )
    result = watch([PYTHON, "-c", script], progress=False, save=False)
    assert len(result.data) == 2
    worker, sleeper = result.data.iloc[0], result.data.iloc[1]
    assert worker["running_ms_per_s"] > 10 * sleeper["running_ms_per_s"]
    assert sleeper["asleep_ms_per_s"] > sleeper["running_ms_per_s"]
    assert sleeper["asleep_for"] in ("timer", looks.OTHER_SLEEP)
    # Of no second are there more than 1,000 ms.
    parts = result.data[["running_ms_per_s", "waiting_ms_per_s", "asleep_ms_per_s"]].sum(axis=1)
    assert (parts < 1100).all()
    assert result.facts["counted"] is helper
    assert bool([note for note in result.notes if "not counted one by one" in note.text]) is not helper
    again = load(result.save(tmp_path / "kept.json"))
    assert again.records("findings") == result.records("findings")
    assert report.text(again) == report.text(result)
    assert result.summary()["ms_per_s"].sum() > 0
    assert "ran" in result.plot().caption


def test_what_a_command_starts_is_seen(helper: bool) -> None:
    script = "import os, time; os.fork(); end = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    result = watch([PYTHON, "-c", script], progress=False, save=False)
    busy = result.data[result.data["running_ms_per_s"] + result.data["waiting_ms_per_s"] > 100]
    assert busy["pid"].nunique() == 2
    if helper:
        edges = result.tables["edges"]
        assert set(busy["tid"]) <= set(edges["prev_tid"]) | set(edges["next_tid"])


@pytest.mark.computes
def test_a_program_that_ends_at_once_is_reported(helper: bool) -> None:
    result = watch(["true"], progress=False, save=False)
    assert result.records("findings")
    short = result.facts["window_s"] < program.SHORT_S  # a busy machine takes its time
    assert any("It was there for" in text for text in result.flags) is short


PAST_ALL = 1 << 22  # no thread has such a number


class Storm(target.Target):
    """Two hundred threads that are new at every look and gone at the next, and one that stays."""

    name = "storm"
    born = 0

    def pids(self) -> list[int]:
        return [os.getpid()]

    def over(self) -> bool:
        return self.born >= 10_000

    def threads(self, pids: list[int]) -> dict[tuple[int, int], looks.Thread]:
        if pids != self.pids():  # of a rival
            return self.whole(pids)
        self.born += 200
        one = self.whole(pids)[os.getpid(), os.getpid()]
        shown = [
            dataclasses.replace(one, tid=PAST_ALL + self.born + n, run_ns=1000, wait_ns=500)
            for n in range(200)
        ]
        return {(thread.pid, thread.tid): thread for thread in (one, *shown)}

    whole = staticmethod(looks.threads)


@pytest.mark.computes
def test_a_storm_of_threads_fills_no_memory_and_those_without_a_row_are_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storm = Storm()
    monkeypatch.setattr(runqlat, "available", lambda: NO_HELPER)
    monkeypatch.setattr(looks, "threads", storm.threads)
    monkeypatch.setattr("sched_labs.watching.seen.MOST_KEPT", 1000)
    monkeypatch.setattr(Watcher, "_rest", lambda watcher, pause_s: None)
    result = observe(storm, 60, progress=False)
    assert 200 < len(result.data) <= 1000 + 201
    assert os.getpid() in set(result.data["tid"])
    (said,) = [text for text in result.flags if "have no row" in text]
    dropped = int(said.split()[0].replace(",", ""))
    assert dropped + len(result.data) == storm.born + 1
    ms = (dropped - 200) / 1000 / result.facts["window_s"]  # those that were there before the window had none
    assert f"ran {ms:,.1f} ms" in said and f"waited {ms / 2:,.1f} ms" in said


def test_a_long_watch_keeps_no_more_than_a_short_one(sleeping: str) -> None:
    """The kernel's side are arrays of a fixed size, ours is bound by the threads that there are: no look may
    leave anything behind, not even a number.

    What a look leaves behind grows in every round.  Now and then the interpreter lays out its table of all
    strings anew, which is some megabytes at once and in one round.
    """
    looked = 300
    watcher = Watcher(Processes([int(sleeping)]))

    def held() -> int:
        for _ in range(looked):
            watcher.glance()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        held()
        rounds = [held() for _ in range(4)]
        assert min(after - before for before, after in pairwise(rounds)) < 8 * looked
    finally:
        tracemalloc.stop()


def test_a_thread_that_ends_while_it_is_looked_at_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, own = files.read, f"/proc/{os.getpid()}/task/{os.getpid()}"
    assert (os.getpid(), os.getpid()) in looks.threads([os.getpid()])
    for gone in ("stat", "status", "schedstat"):
        monkeypatch.setattr(
            files, "read", lambda path, gone=gone: None if path == f"{own}/{gone}" else whole(path)
        )
        assert (os.getpid(), os.getpid()) not in looks.threads([os.getpid()])


@pytest.mark.skipif(
    os.uname().machine not in looks._FUTEX_CALLS, reason="the number of futex() is not known here"
)
@pytest.mark.parametrize(
    ("operation", "library", "kind"),
    [
        ("0x80", "/usr/lib/x86_64-linux-gnu/libc.so.6", "lock"),
        ("0x189", "/usr/lib/x86_64-linux-gnu/libc.so.6", "condition"),
        ("0x80", "/lib/x86_64-linux-gnu/libpthread-2.31.so", "lock"),
        ("0x80", "/usr/local/bin/a-go-program", "lock or condition"),  # whose idle threads wait so
        ("0x80", "/lib/ld-musl-x86_64.so.1", "lock or condition"),
    ],
)
def test_only_glibcs_waits_tell_a_lock_from_a_condition(
    operation: str, library: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    futex = looks._FUTEX_CALLS[os.uname().machine]
    said = {
        "/proc/7/task/8/syscall": f"{futex} 0x5000 {operation} 0x2 0x0 0x0 0x0 0x7ffd10 0x7f1234",
        "/proc/7/maps": f"400000-401000 r-xp 0 08:01 1 /x\n7f1000-7f2000 r-xp 0 08:01 2      {library}",
    }
    looks._in_glibc.cache_clear()
    monkeypatch.setattr(files, "read", said.get)
    assert looks._lock_or_condition(7, "/proc/7/task/8") == kind
    looks._in_glibc.cache_clear()


@pytest.mark.parametrize(
    ("wchan", "syscall", "state", "kind"),
    [
        ("0", "", "R", None),  # woken after it was seen to sleep
        ("futex_wait_queue", "running", "S", None),
        ("0", "", "S", looks.OTHER_SLEEP),  # another user's, whose place is not told
        ("some_driver_wait", "", "R", looks.OTHER_SLEEP),
    ],
)
def test_a_thread_that_is_woken_while_it_is_looked_at_has_no_unknown_sleep(
    wchan: str, syscall: str, state: str, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most looks at a lock that is handed on some thousand times a second are such ones."""
    asleep = dataclasses.replace(looks.threads([os.getpid()])[os.getpid(), os.getpid()], state="S")
    said = {"wchan": wchan, "syscall": syscall, "stat": f"7 (server) {state} 1"}
    monkeypatch.setattr(files, "read", lambda path: said.get(path.rpartition("/")[2]))
    assert looks.sleep_of(asleep) == kind


@pytest.mark.computes
def test_an_interrupt_reports_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runqlat, "available", lambda: NO_HELPER)
    with Command([PYTHON, "-c", SPIN]) as command:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        result = observe(command, 60, progress=False)
    assert result.interrupted
    assert 0.3 < result.facts["window_s"] < 30
    assert result.data.iloc[0]["running_ms_per_s"] > 0


def test_a_control_group_is_watched() -> None:
    if why := troubles.lacking():
        pytest.skip(why)
    with troubles.cgroups.group("watched") as group, subprocess.Popen([PYTHON, "-c", SPIN]) as process:
        group.add(process.pid)
        path = next(iter(looks.groups([process.pid])))
        assert ControlGroup(path).pids() == [process.pid]
        result = watch(cgroup=looks.group_name(process.pid), seconds=0.5, progress=False, save=False)
        process.kill()
    assert set(result.data["pid"]) == {process.pid}


def test_the_trouble_is_among_the_findings(helper: bool) -> None:
    """One of the constructed programs; test_watch_troubles.py has all of them."""
    if why := troubles.lacking():
        pytest.skip(why)
    (case,) = (case for case in troubles.SICK if case.name == "ancestor's quota")
    with case.running(seed=1) as pid:
        result = watch(pid=pid, seconds=2, progress=False, save=False)
    assert result.records("findings")[0]["name"] == "quota", report.text(result)


# ---- what it means -----------------------------------------------------------------------------------------


def thread(**values: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "pid": 7, "tid": 7, "name": "server", "running_ms_per_s": 500.0, "waiting_ms_per_s": 400.0,
        "asleep_ms_per_s": 100.0, "asleep_for": "timer", "voluntary_per_s": 10.0, "involuntary_per_s": 50.0,
        "migrations_per_s": 1.0, "minor_faults_per_s": 1.0, "major_faults_per_s": 0.0, "system_ms_per_s": 1.0,
        "policy": "OTHER", "nice": 0, "allowed_cpus": "0,1",
    }  # fmt: skip
    return given | values


def cpu(number: int, **values: Any) -> dict[str, Any]:
    names = ("user", "system", "idle", "irq", "softirq", "steal")
    return {"cpu": number, "used": True, "allowed": True, **{f"{n}_ms_per_s": 0.0 for n in names}} | values


def rival(**values: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "pid": 9, "name": "stress", "cpu_ms_per_s": 900.0, "kernel": False, "client": False,
        "woke_share": None, "policy": "OTHER", "nice": 0, "group": "/", "group_weight": None, "session": "a",
        "allowed_cpus": "0,1", "took_it": 12, "had_ms_per_s": None,
    }  # fmt: skip
    return given | values


def group(**values: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "path": "/", "limit_cpus": None, "period_us": 100_000, "weight": None, "periods": 0,
        "throttled_periods": 0, "throttled_ms_per_s": 0.0, "pressure_ms_per_s": None,
    }  # fmt: skip
    return given | values


def window(
    threads: list[dict[str, Any]] | None = None,
    cpus: list[dict[str, Any]] | None = None,
    rivals: list[dict[str, Any]] | None = None,
    groups: list[dict[str, Any]] | None = None,
    **values: Any,
) -> Any:
    """A window as `Seen` has it, made up: a server that waits 400 ms of every second."""
    rows = pd.DataFrame(threads or [thread()])
    running, waiting = float(rows["running_ms_per_s"].sum()), float(rows["waiting_ms_per_s"].sum())
    allowed = {int(one) for text in rows["allowed_cpus"] for one in text.split(",")}
    return SimpleNamespace(
        threads=rows,
        cpus=pd.DataFrame(cpus or [cpu(0), cpu(1)]),
        rivals=pd.DataFrame(rivals or [], columns=list(rival())),
        groups=pd.DataFrame(groups or [group()]),
        **{
            "running": running, "waiting": waiting, "wanted": running + waiting, "allowed": allowed,
            "asleep": {"timer": 100.0}, "session": "a", "waits": None, "switches": None, "turns": None,
            "handed_over_running": lambda tids: None, "slack_ns": {}, "clients": [], "crowding": 1.0,
        } | values,
    )  # fmt: skip


def waits(**parts: float) -> Causes:
    return Causes(parts, {}, True, 0.0)


def found(seen: Any, parts: Causes) -> list[diagnosis.Finding]:
    return diagnosis.findings(seen, parts, diagnosis.Costs())


NARROW = [thread(allowed_cpus="0")], [cpu(0), cpu(1, allowed=False, used=False, idle_ms_per_s=950.0)]
CROWD = [thread(tid=tid) for tid in (7, 8, 9)]
LOCKED = thread(asleep_for="lock", asleep_ms_per_s=900.0, voluntary_per_s=900.0, waiting_ms_per_s=1.0)
SLEEPY = thread(waiting_ms_per_s=1.0, asleep_ms_per_s=900.0, asleep_for="timer")
CASES = {
    "own_threads": (window(CROWD), waits(same_program=400.0)),
    "rival": (window(rivals=[rival()]), waits(other_task=400.0)),
    "weight": (window(rivals=[rival(nice=-5)]), waits(other_task=400.0)),
    "realtime": (window(rivals=[rival(policy="FIFO")]), waits(realtime=400.0)),
    "kernel_threads": (window(rivals=[rival(kernel=True, name="ksoftirqd/0")]), waits(kernel_thread=400.0)),
    "interrupts": (window(cpus=[cpu(0, softirq_ms_per_s=500.0)]), waits(interrupt=300.0)),
    "mask": (window(*NARROW), waits(same_program=400.0)),
    "quota": (
        window(groups=[group(limit_cpus=0.5, periods=10, throttled_periods=9, throttled_ms_per_s=400.0)]),
        waits(throttled=400.0),
    ),
    "steal": (window(cpus=[cpu(0, steal_ms_per_s=200.0, user_ms_per_s=500.0)]), waits()),
    "yields": (
        window([thread(involuntary_per_s=90_000.0, voluntary_per_s=0.0)]),
        Causes({}, {"same_program": 400.0}, True, 0.0),
    ),
    "locks": (window([LOCKED | {"tid": 7}, LOCKED | {"tid": 8}]), waits()),
    "disk": (window([thread(waiting_ms_per_s=1.0)], asleep={"disk": 400.0}), waits()),
    "page_faults": (
        window([thread(waiting_ms_per_s=1.0, minor_faults_per_s=50_000.0, system_ms_per_s=300.0)]),
        waits(),
    ),
    "migrations": (window([thread(waiting_ms_per_s=1.0, migrations_per_s=5000.0)]), waits()),
    "timer_slack": (
        window([SLEEPY | {"voluntary_per_s": 100.0}], slack_ns={(7, 7): 5_000_000}), waits()
    ),
    "idle_wakeups": (
        window([SLEEPY | {"voluntary_per_s": 9000.0}]), Causes({}, {"idle": 300.0}, True, 0.0)
    ),
    "client": (window([SLEEPY], clients=[Client(9, "wrk", 200.0, 500.0)]), waits()),
    "nothing": (window([thread(waiting_ms_per_s=1.0)]), waits(same_program=1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_trouble_has_its_finding(name: str) -> None:
    first = found(*CASES[name])[0]
    assert first.name == name
    assert all((first.title, first.evidence, first.instead, first.attempt))
    assert (Path(__file__).parents[1] / f"{first.page}.md").exists()
    assert "nan" not in f"{first.title} {first.evidence}".lower().split()


def test_the_rival_that_stood_next_to_its_threads_is_told_from_one_that_ran_elsewhere() -> None:
    """Without a timeline: by the switches between a rival's threads and its own."""
    rows = [
        (0, 9, 7, "interruptible", 50),  # it had the CPU, and slept
        (0, 7, 9, "runnable", 30),  # it took the CPU from one that could have gone on
        (0, 7, 9, "interruptible", 1000),  # it had a CPU that was free
        (1, 9, 11, "runnable", 1000),  # not concerned
    ]
    names = ["cpu", "prev_tid", "next_tid", "state", "switches"]
    nothing: Any = None
    process = SimpleNamespace(kernel=False)
    seen = Seen(
        SimpleNamespace(at_ns=0),  # type: ignore[arg-type]
        SimpleNamespace(at_ns=10**9, processes={os.getpid(): process}),  # type: ignore[arg-type]
        {(7, 7): nothing},
        switches=SimpleNamespace(edges=pd.DataFrame(rows, columns=names)),  # type: ignore[arg-type]
    )
    assert seen._met() == {9: 80}
    had = seen._had(os.getpid(), 900.0, None, Counter({os.getpid(): 80}))
    assert had is not None and 0 < had <= 900
    assert seen._had(os.getpid(), 900.0, None, Counter({9: 80})) == 0
    assert seen._had(os.getpid(), 900.0, None, None) is None
    assert seen._had(os.getpid(), 900.0, Counter({os.getpid(): 10**7}), None) == 10


def unix_sockets_are_told() -> bool:
    """Whether sock_diag answers for Unix sockets, asked with bytes of our own: a header and unix_diag_req."""
    dump_all = struct.pack("=IHHII", 40, 20, 0x301, 1, 0) + struct.pack(
        "=B3xIIIII", 1, 0xFFFFFFFF, 0, 4, 0, 0
    )
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as asking:
            asking.settimeout(10)
            asking.sendto(dump_all, (0, 0))
            (kind,) = struct.unpack_from("=H", asking.recv(1 << 16), 4)
    except OSError:
        return False
    return bool(kind != 2)  # NLMSG_ERROR: without CONFIG_UNIX_DIAG ENOENT


def test_the_other_end_of_a_unix_socket_is_found() -> None:
    here, there = socket.socketpair()
    if not unix_sockets_are_told():
        pytest.skip("this kernel does not tell who is at the other end of a Unix socket")
    ends = tuple(str(os.fstat(one.fileno()).st_ino) for one in (here, there))
    assert {ends, ends[::-1]} <= {(end.here, end.there) for end in clients.unix_ends()}
    with subprocess.Popen(["sleep", "100"], stdin=there) as server:
        there.close()
        # Neither has a name: it cannot be told who came to whom.
        assert clients.others([server.pid], [os.getpid(), os.getppid()]) == {os.getpid(): False}
        server.kill()
    here.close()


@contextlib.contextmanager
def holding(end: socket.socket) -> Iterator[int]:
    """A process that has this socket, in our stead."""
    with end, subprocess.Popen(["sleep", "100"], stdin=end) as process:
        end.close()
        yield process.pid
        process.kill()


def address(name: str, tmp_path: Path) -> tuple[socket.AddressFamily, Any]:
    if name == "a path":
        return socket.AF_UNIX, str(tmp_path / "socket")
    return (socket.AF_INET6 if ":" in name else socket.AF_INET), (name, 0)


# Wherever the kernel has IPv6 it has this file, also for interfaces without: a bind that fails there, fails.
IPV6 = pytest.param(
    "::",
    marks=pytest.mark.skipif(
        not Path("/proc/net/if_inet6").is_file(), reason="this kernel has no IPv6 (no /proc/net/if_inet6)"
    ),
)


@pytest.mark.parametrize("name", ["127.0.0.1", "0.0.0.0", IPV6, "a path"])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["stream", "datagram"])
def test_whoever_connects_came_to_the_one_that_listens(
    name: str, kind: socket.SocketKind, tmp_path: Path
) -> None:
    family, bound = address(name, tmp_path)
    if family == socket.AF_UNIX and not unix_sockets_are_told():
        pytest.skip("this kernel does not tell who is at the other end of a Unix socket")
    with socket.socket(family, kind) as listening:
        listening.bind(bound)
        at = listening.getsockname()
        asking = socket.socket(socket.AF_INET if name == "::" else family, kind)
        if kind == socket.SOCK_STREAM:
            listening.listen()
        asking.connect(at if family == socket.AF_UNIX else ("127.0.0.1", at[1]))
        answering = listening.accept()[0] if kind == socket.SOCK_STREAM else listening.dup()
        with asking, holding(answering) as server:
            if kind == socket.SOCK_DGRAM:
                listening.close()
            assert clients.others([server], [os.getpid(), os.getppid()]) == {os.getpid(): True}
            assert not any(clients.others([os.getpid()], [server]).values())


@pytest.mark.parametrize("name", ["127.0.0.1", "0.0.0.0", IPV6])
def test_whoever_may_send_datagrams_is_told_by_its_port(name: str) -> None:
    family = socket.AF_INET6 if name == "::" else socket.AF_INET
    given = clients._given()
    with socket.socket(family, socket.SOCK_DGRAM) as listening:
        port = next(one for one in range(given.start - 1, 1024, -1) if is_free(listening, name, one))
        with holding(listening) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            assert clients.open_to_datagrams([server])
            assert not clients.senders([server], [os.getpid()])
            asking.sendto(b"?", ("127.0.0.1", port))
            assert asking.getsockname()[1] in given
            assert clients.senders([server], [os.getpid(), os.getppid()]) == {os.getpid()}
            assert not clients.senders([os.getpid()], [server])


def is_free(one: socket.socket, name: str, port: int) -> bool:
    """Whether the port was free; it is bound now."""
    try:
        one.bind((name, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


_ANSWERING = """
import socket
own = socket.socket(fileno=0)
while True:
    data, whose = own.recvfrom(64)
    own.sendto(data, whose)
"""
_ASKING = """
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    own.sendto(b"?", ("127.0.0.1", int(sys.argv[1])))
    own.recv(64)
"""


@pytest.mark.skipif(not HERE.ok, reason=f"no probe tells who woke the server: {HERE.why}")
def test_a_client_of_datagrams_is_told_by_who_wakes_the_server() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        ports = range(clients._given().start - 1, 1024, -1)
        port = next(one for one in ports if is_free(listening, "127.0.0.1", one))
        with (
            subprocess.Popen([PYTHON, "-c", _ANSWERING], stdin=listening) as server,
            subprocess.Popen([PYTHON, "-c", _ASKING, str(port)]) as client,
        ):
            assert wait_until(lambda: clients.senders([server.pid], [client.pid]) == {client.pid})
            result = watch(pid=server.pid, seconds=1, progress=False, save=False)
            client.kill()
            server.kill()
    rows = result.tables["rivals"].set_index("pid")
    assert rows["client"][client.pid] and rows["woke_share"][client.pid] > WOKE_SHARE
    assert not any(
        f"process {client.pid}" in row["title"] and row["name"] == "rival"
        for row in result.records("findings")
    )
    assert "turns" not in result.tables  # nobody asked for them


def test_who_may_send_datagrams_is_a_client_by_how_often_it_wakes_the_program() -> None:
    looks_at: Any = SimpleNamespace(at_ns=0)
    rows = [(7, 1, os.getpid()), (7, 2, os.getpid()), (7, 3, 0), (7, None, -1)]  # the last was preempted
    turns: Any = SimpleNamespace(turns=pd.DataFrame(rows, columns=["tid", "waking_ns", "waker_tid"]))
    seen = Seen(looks_at, looks_at, {}, senders={os.getpid()}, turns=turns)
    assert seen._woke(os.getpid()) == pytest.approx(2 / 3)
    assert seen._woke(os.getppid()) is None
    assert Seen(looks_at, looks_at, {}, senders={os.getpid()})._woke(os.getpid()) is None


def unix_message(inode: int, *attributes: bytes, kind: int = 20) -> bytes:
    """A message of sock_diag as the kernel writes it: nlmsghdr, unix_diag_msg, attributes, each padded."""
    padded = b"".join(one + bytes(-len(one) % 4) for one in attributes)
    body = struct.pack("=BBBxIII", 1, 1, 1, inode, 0, 0) + padded
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body


def test_the_kernels_datagrams_about_unix_sockets_are_read() -> None:
    peer = struct.pack("=HHI", 8, 2, 4711)
    name = struct.pack("=HH", 9, 0) + b"@abcd"  # UNIX_DIAG_NAME, which is padded
    done, error = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0), struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -2)
    End = clients.UnixEnd
    both = [End("11", "4711", True), End("12", "", True)]
    assert list(clients._messages(unix_message(11, name, peer) + unix_message(12, name))) == both
    bare = [End("11", "4711", False), End("12", "", False)]
    assert list(clients._messages(unix_message(11, peer) + unix_message(12) + done)) == bare
    assert list(clients._messages(error + bytes(16))) == list(clients._messages(done)) == []
    odd = struct.pack("=HH", 0, 2)  # shorter than itself
    assert list(clients._messages(unix_message(13, odd, peer))) == [End("13", "4711", False)]
    for end in range(16 + 16):  # less than a message
        assert list(clients._messages(unix_message(11, peer)[:end]))[1:] == []


@pytest.mark.parametrize(
    "values",
    [
        {"slack_ns": {(7, 7): 50_000}},  # the default, of sleeps of 9 ms
        {"clients": [Client(9, "wrk", 500.0, 20.0)]},
        {"clients": [Client(9, "wrk", 900.0, 60.0)]},
    ],
)
def test_a_healthy_neighbour_of_a_late_one_is_left_alone(values: dict[str, Any]) -> None:
    assert [one.name for one in found(window([SLEEPY], **values), waits())] == ["nothing"]
    few = window([SLEEPY | {"voluntary_per_s": 100.0}])
    assert [one.name for one in found(few, Causes({}, {"idle": 4.0}, True, 0.0))] == ["nothing"]


def test_only_one_finding_tells_of_a_part() -> None:
    """A mask that crowds the threads is not also a fault of the threads, nor of a rival on the same CPU."""
    seen = window(*NARROW, rivals=[rival()])
    assert [one.name for one in found(seen, waits(same_program=200.0, other_task=200.0))] == ["mask"]


def test_the_cpus_of_ten_thousand_threads_are_those_of_all_and_not_of_one_that_hardly_wants_any() -> None:
    every = [thread(tid=n, running_ms_per_s=0.1, waiting_ms_per_s=0.1) for n in range(10_000)]
    seen = Seen(*(SimpleNamespace(at_ns=0),) * 2, {})  # type: ignore[arg-type]
    seen.threads = pd.DataFrame(every)
    assert seen.allowed == {0, 1}
    seen = Seen(*(SimpleNamespace(at_ns=0),) * 2, {})  # type: ignore[arg-type]
    seen.threads = pd.DataFrame([*NARROW[0], thread(running_ms_per_s=5.0, waiting_ms_per_s=0.0)])
    assert seen.allowed == {0}


def test_a_rival_is_a_rival_where_the_other_cpus_are_full() -> None:
    def full(idle: float) -> list[diagnosis.Finding]:
        threads, cpus = NARROW
        seen = window(threads, [cpus[0], cpus[1] | {"idle_ms_per_s": idle}], [rival()])
        return found(seen, waits(other_task=400.0))

    (only,) = full(0.0)
    assert (only.name, only.size_ms_per_s) == ("rival", 400.0)
    # Both are told of: whoever may use one CPU only cannot go out of the rival's way.
    assert "may use CPU 0 only, 1 of 2" in only.title and "Widen the mask" in only.attempt
    assert [(one.name, one.size_ms_per_s) for one in full(150.0)] == [("rival", 250.0), ("mask", 150.0)]
    assert [one.name for one in full(300.0)] == ["mask"]


def test_a_client_on_the_programs_cpus_is_no_rival_and_a_stranger_is_one() -> None:
    def names(lost: float, *rivals: dict[str, Any], **values: Any) -> list[str]:
        return [one.name for one in found(window(rivals=list(rivals), **values), waits(other_task=lost))]

    client = rival(pid=8, name="wrk", client=True, cpu_ms_per_s=450.0)
    (only,) = found(window(rivals=[client]), waits(other_task=400.0))
    assert (only.name, only.scheduling, only.size_ms_per_s) == ("nothing", True, 400.0)
    assert only.title.startswith(
        "Nothing is wrong with scheduling here: it shares its CPUs with its own client,"
    )
    assert "wrk (process 8)" in only.title and "450 ms" in only.evidence and "another machine" in only.attempt
    assert names(50.0, client | {"cpu_ms_per_s": 60.0}) == ["nothing"]  # a small one is a client as well
    assert names(50.0, client | {"cpu_ms_per_s": 60.0, "client": False}) == ["rival"]
    # Each has its part, by the time for which it had the CPU, or else by the time that it used.
    both = found(window(rivals=[rival(), client]), waits(other_task=399.0))
    assert [(one.name, one.size_ms_per_s) for one in both] == [("rival", 266.0), ("own_client", 133.0)]
    assert "stress" in both[0].title and not both[1].scheduling
    had = [rival(had_ms_per_s=0.0), client | {"had_ms_per_s": 300.0}]
    assert names(400.0, *had) == ["nothing"]
    # Whoever else has the CPU is told of first.
    limited = group(limit_cpus=0.5, periods=10, throttled_periods=9, throttled_ms_per_s=200.0)
    seen = window(rivals=[client], groups=[limited])
    assert [one.name for one in found(seen, waits(throttled=200.0, other_task=190.0))] == [
        "quota",
        "own_client",
    ]


def test_only_who_does_little_else_than_ask_is_a_client() -> None:
    """The program runs 500 ms of every second: a batch job beside it is connected, and works for itself."""
    batch = rival(client=True, cpu_ms_per_s=2100.0)
    (first,) = found(window(rivals=[batch]), waits(other_task=400.0))
    assert first.name == "rival" and "it is a client of the program, and works" in first.evidence
    # A client of 50 ms does not keep a thread waiting for 400: that was somebody who is gone.
    asking = rival(client=True, cpu_ms_per_s=50.0)
    first, second = found(window(rivals=[asking]), waits(other_task=400.0))
    assert (first.name, first.size_ms_per_s, second.name) == ("rival", 350.0, "own_client")
    assert "none of them ran long enough" in first.title
    queued = window(rivals=[asking], crowding=8.0)  # but eight threads in its queue
    assert [one.name for one in found(queued, waits(other_task=400.0))] == ["nothing"]


def test_the_larger_reason_comes_first() -> None:
    parts = waits(same_program=200.0, other_task=300.0)
    assert [one.name for one in found(window(CROWD, rivals=[rival()]), parts)] == ["rival", "own_threads"]


def test_what_takes_many_times_as_long_comes_before_a_small_wait() -> None:
    def names(waited: float) -> list[str]:
        late = SLEEPY | {"voluntary_per_s": 100.0, "running_ms_per_s": 20.0, "waiting_ms_per_s": waited}
        seen = window([late], rivals=[rival()], slack_ns={(7, 7): 5_000_000})  # 500 ms of every second
        return [one.name for one in found(seen, waits(other_task=waited))]

    assert names(10.0) == ["timer_slack", "rival"]
    assert names(90.0) == ["rival", "timer_slack"]


def test_whoever_is_preempted_by_the_thread_that_it_woke_does_not_yield() -> None:
    """A server that answers: each answer wakes its client, which has the CPU until it sleeps."""
    threads, parts = [thread(involuntary_per_s=90_000.0, voluntary_per_s=0.0)], waits(other_task=400.0)
    asked = window(threads, rivals=[rival()], handed_over_running=lambda tids: 0.1)
    assert [one.name for one in found(asked, parts)] == ["rival"]
    yielding = window(threads, rivals=[rival()], handed_over_running=lambda tids: 0.9)
    assert found(yielding, parts)[0].name == "yields"


def test_a_lock_comes_before_the_waits_that_it_makes_and_after_those_that_make_it() -> None:
    locked = [LOCKED | {"tid": tid, "waiting_ms_per_s": 400.0} for tid in (7, 8, 9)]
    names = [one.name for one in found(window(locked), waits(same_program=700.0))]
    assert names == ["locks", "own_threads"]
    names = [one.name for one in found(window(locked[:2], rivals=[rival()]), waits(other_task=700.0))]
    assert names == ["rival", "locks"]


def test_a_small_wait_is_no_finding() -> None:
    assert [one.name for one in found(window(), waits(same_program=20.0))] == ["nothing"]


def test_a_light_pool_that_is_woken_at_once_is_no_crowd_and_a_rival_as_small_is_one() -> None:
    pool = [thread(tid=tid, running_ms_per_s=3.0, waiting_ms_per_s=2.0) for tid in range(6)]
    assert [one.name for one in found(window(pool), waits(same_program=12.0))] == ["nothing"]
    assert found(window(pool, rivals=[rival()]), waits(other_task=12.0))[0].name == "rival"


def test_threads_that_fit_their_cpus_are_no_crowd_however_they_queue_and_one_more_is() -> None:
    """Two workers of a server on two CPUs: while the load generator has one, they share the other."""
    pair = [thread(tid=tid, running_ms_per_s=300.0, waiting_ms_per_s=150.0) for tid in (7, 8)]
    idle = [thread(tid=tid, running_ms_per_s=15.0, waiting_ms_per_s=25.0) for tid in (9, 10)]
    turns = Causes({"same_program": 290.0}, {}, True, 250.0)
    (only,) = found(window(pair + idle), turns)
    assert only.name == "nothing" and "290 ms are waits for its own threads" in only.evidence
    assert "another CPU was idle at some moment" in only.evidence
    crowd = window([*pair, pair[0] | {"tid": 11}])
    assert [(one.name, one.size_ms_per_s) for one in found(crowd, turns)] == [("own_threads", 290.0)]


def test_a_mask_says_who_is_there_and_only_a_crowd_is_told_to_run_fewer_threads() -> None:
    (alone,) = found(window(*NARROW, rivals=[rival()]), waits(other_task=400.0))
    assert "On CPU 0 it waited 400 ms for others, such as stress (process 9)." in alone.evidence
    assert alone.attempt == "Widen the mask or the cpuset."
    threads = [NARROW[0][0] | {"tid": tid} for tid in (7, 8)]
    (crowd,) = found(window(threads, NARROW[1]), waits(same_program=400.0))
    assert "such as" not in crowd.evidence and "as many busy threads" in crowd.attempt
    (full,) = found(window(threads, [NARROW[1][0], cpu(1, allowed=False)]), waits(same_program=400.0))
    assert "CPU 1, which it may not use, was busy with others" in full.evidence


def test_only_who_had_the_cpu_is_counted_among_the_rivals() -> None:
    rivals = [rival(had_ms_per_s=had) for had in (300.0, 40.0, 0.0)]
    first = found(window(rivals=rivals), waits(other_task=400.0))[0]
    assert "stress (process 9 and 1 more)" in first.title
    first = found(window(rivals=[rival(), rival()]), waits(other_task=400.0))[0]
    assert "stress (process 9 and 1 more)" in first.title  # it is not known who had it


def test_softirqs_in_small_parts_are_the_price_of_the_programs_own_packets() -> None:
    """Two CPUs of which the packets of a server and its client take a quarter, and a flood that takes half of
    one: less in sum.
    """
    few = window(cpus=[cpu(0, softirq_ms_per_s=270.0), cpu(1, softirq_ms_per_s=270.0)])
    assert [one.name for one in found(few, waits(interrupt=100.0))] == ["nothing"]
    assert CASES["interrupts"][0].cpus["softirq_ms_per_s"].sum() == 500


def test_the_price_is_the_switch_and_the_caches_with_an_interval() -> None:
    direct, warmup = sched_labs.recorded("context_switch.matrix"), sched_labs.recorded("warmup.sweep")
    seen = window([thread(voluntary_per_s=90_000.0, involuntary_per_s=10_000.0, waiting_ms_per_s=1.0)])
    estimate = diagnosis.price.estimate
    assert estimate(seen, diagnosis.Costs()) is None
    futexes = dataclasses.replace(direct, data=direct.data[direct.data["mechanism"] == "futex"])
    assert estimate(seen, diagnosis.Costs(futexes)) is None  # a reader's run of a part
    bare = estimate(seen, diagnosis.Costs(direct))
    both = estimate(seen, diagnosis.Costs(direct, warmup))
    assert bare and both
    assert "not counted" in bare.text and "to warm up" in both.text
    for one in (bare, both):
        assert 0 < one.low <= one.middle <= one.high
    rows = warmup.summary()
    row = rows[(rows["access"] == "random") & (rows["working_set_bytes"] == 32768)]
    extra = float(row[row["partner_bytes"] == 32768]["extra_ns"].iloc[0])
    assert both.middle - bare.middle == pytest.approx(100_000 * extra / 1e6)
    names = [one.name for one in diagnosis.findings(seen, waits(), diagnosis.Costs(direct, warmup))]
    assert "switches" in names


def test_whose_weight_counts() -> None:
    """Nice values within a session, weights between groups; across sessions a nice value says nothing."""
    far = window(rivals=[rival(nice=-20, session="b")])
    assert found(far, waits(other_task=400.0))[0].name == "rival"
    grouped = [group(path="/light", weight=100), group()]
    heavy = window(rivals=[rival(group="/heavy", group_weight=400)], groups=grouped)
    assert found(heavy, waits(other_task=400.0))[0].name == "weight"
    light = window(rivals=[rival(group="/lighter", group_weight=10)], groups=grouped)
    assert found(light, waits(other_task=400.0))[0].name == "rival"


def test_an_ancestors_quota_is_told_apart_from_its_own() -> None:
    limited = group(path="/tenant", limit_cpus=0.5, periods=10, throttled_periods=9, throttled_ms_per_s=400.0)
    seen = window(groups=[group(path="/tenant/server"), limited, group()])
    assert "around its own" in found(seen, waits(throttled=400.0))[0].title
    assert "its own control group" in found(window(groups=[limited]), waits(throttled=400.0))[0].title


HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (f"/system.slice/docker-{HEX}.scope", ["container 0123456789ab"]),
        (f"/docker/{HEX}", ["container 0123456789ab"]),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c4d2bb8_5d0f_4b9c_9d3e_2f6a1b3c4d5e"
            f".slice/cri-containerd-{HEX}.scope",
            ["Kubernetes pod 0c4d2bb8-5d0f-4b9c-9d3e-2f6a1b3c4d5e", "container 0123456789ab"],
        ),
        (
            f"/kubepods/burstable/pod0c4d2bb8-5d0f-4b9c-9d3e-2f6a1b3c4d5e/{HEX}",
            ["Kubernetes pod 0c4d2bb8-5d0f-4b9c-9d3e-2f6a1b3c4d5e", "container 0123456789ab"],
        ),
        ("/system.slice/nginx.service", ["systemd unit nginx.service"]),
        ("/tenant/server", ["/tenant/server"]),
    ],
)
def test_a_path_tells_whose_group_it_is(path: str, names: list[str]) -> None:
    assert all(name in diagnosis.container(path) for name in names)


def test_without_the_helper_the_waits_are_shared_out_by_who_ran() -> None:
    seen = window(rivals=[rival(cpu_ms_per_s=500.0), rival(policy="FIFO", cpu_ms_per_s=500.0)])
    parts = causes(seen)
    assert not parts.exact
    assert parts.long["other_task"] == pytest.approx(200) == parts.long["realtime"]
    limited = group(limit_cpus=0.5, periods=10, throttled_periods=9, throttled_ms_per_s=300.0)
    parts = causes(window(rivals=[rival()], groups=[limited]))
    assert parts.long["throttled"] == pytest.approx(300)
    assert parts.long_sum == pytest.approx(400)
    limited["throttled_ms_per_s"] = 150.0  # a CPU's, on whose queue two of its threads stand
    assert causes(window(groups=[limited], crowding=2.0)).long["throttled"] == pytest.approx(300)


def test_short_waits_are_the_price_of_switching() -> None:
    seen = window([thread(voluntary_per_s=100_000.0)])
    assert causes(seen).long_sum == 0
    assert found(seen, causes(seen))[-1].name == "nothing"


# ---- a terminal --------------------------------------------------------------------------------------------


def cli(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, "-m", "sched_labs", "watch", *words], capture_output=True, text=True, timeout=120, **options
    )


@pytest.mark.computes
def test_the_status_and_the_output_of_the_command_are_passed_on(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    done = cli("--json", str(kept), "--", "sh", "-c", "echo hello; exit 7")
    assert done.returncode == 7, done.stderr
    assert done.stdout == "hello\n"
    assert "sh: 1 thread," in done.stderr
    assert load(kept).kind == "own_program.watch"
    more = cli("--compare", str(kept), "--", "true")
    assert "Before and after" in more.stderr
    assert cli("--pid", "999999999").returncode == 2


@pytest.mark.computes
def test_the_page_needs_no_network(helper: bool, tmp_path: Path) -> None:
    result = watch([PYTHON, "-c", "for _ in range(10**7): pass"], progress=False, save=False)
    result.parameters["program"] = "<b>&"
    result.tables["findings"].loc[0, "attempt"] = "`chrt -p <PID>` tells."
    page.write(result, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;&amp;: why did it wait?" in text and "<b>&" not in text
    assert "<code>chrt -p &lt;PID&gt;</code> tells." in text
    assert not re.search(r"(src|href)=[\"']?(https?:)?//|@import|url\((?!#)", text)
    ElementTree.fromstring(re.search(r"<table>.*</table>", text, re.DOTALL)[0])  # type: ignore[index]
    assert result.records("findings")[0]["title"] in html.unescape(text)
    assert ("Who had the CPU after whom" in text) is helper


@pytest.mark.computes
def test_stacks_are_kept_and_folded(helper: bool, tmp_path: Path) -> None:
    script = "import time\nfor _ in range(20): time.sleep(0.01)"
    result = watch([PYTHON, "-c", script], stacks=True, progress=False, save=False)
    if not helper:
        with pytest.raises(ResultError, match="no stacks"):
            page.folded(result)
        return
    lines = page.folded(result).splitlines()
    assert any(re.search(r";interruptible;.*nanosleep.* \d+$", line) for line in lines)
    text = page.html(result)
    assert "off the CPU" in text and "Who wakes whom" in text
    assert any("nanosleep" in row["at"] and row["waker"] == "an interrupt" for row in wakers.table(result))


@pytest.mark.computes
def test_ctrl_c_ends_the_watch_with_a_report() -> None:
    with subprocess.Popen([PYTHON, "-c", SPIN]) as watched:
        words = [PYTHON, "-m", "sched_labs", "watch", "--pid", str(watched.pid), "--seconds", "60"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        fds = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            assert wait_until(lambda: not HERE.ok or fds.read_text().strip(), BUSY_S)
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=BUSY_S)
            assert watched.poll() is None
        finally:
            watched.kill()
            process.kill()
    assert process.returncode == 0, errors
    assert "Stopped early" in out


@pytest.fixture
def sleeping() -> Iterator[str]:
    """The number of a process that sleeps."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield str(process.pid)
        process.kill()


@pytest.mark.computes
def test_a_reader_that_has_seen_enough_costs_no_file(sleeping: str, tmp_path: Path) -> None:
    kept, table = tmp_path / "kept.json", tmp_path / "threads.csv"
    words = ["--pid", sleeping, "--seconds", "0.2", "--json", str(kept), "--export", str(table)]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [PYTHON, "-m", "sched_labs", "watch", *words, "--table", "threads"],
            stdout=closed, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert load(kept).data["pid"].tolist() == pd.read_csv(table)["pid"].tolist() == [int(sleeping)]


@pytest.mark.computes
def test_a_file_that_cannot_be_written_costs_no_other(sleeping: str, tmp_path: Path) -> None:
    table = tmp_path / "threads.csv"
    words = ["--pid", sleeping, "--seconds", "0.2", "--table", "threads"]
    done = cli(*words, "--json", "/dev/full", "--export", str(table))
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr
    assert "Nothing is wrong" in done.stdout and table.exists()
    for place in (str(tmp_path), str(table / "kept.json")):
        refused = cli(*words, "--json", place)
        assert refused.returncode == 2 and "Cannot write" in refused.stderr and not refused.stdout


@pytest.mark.computes
def test_what_ends_the_watch_is_told_to_its_command() -> None:
    words = [PYTHON, "-m", "sched_labs", "watch", "--", "sleep", "1000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def begun() -> bool:
        pids = children.read_text().split()
        return any("sleep" in (files.read(f"/proc/{pid}/comm") or "") for pid in pids)

    try:
        assert wait_until(begun, BUSY_S)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=BUSY_S)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "Stopped early" in errors


@pytest.mark.computes
def test_a_helper_that_is_gone_leaves_what_proc_told(monkeypatch: pytest.MonkeyPatch, sleeping: str) -> None:
    def stop(seen: Any) -> None:
        raise ProbeError("The privileged helper ended unexpectedly.")

    fake = SimpleNamespace(start=lambda: None, stop=stop)
    monkeypatch.setattr(program, "_probes", lambda *rest: fake)
    result = watch(pid=int(sleeping), seconds=0.1, progress=False, save=False)
    assert len(result.data) == 1 and not result.facts["counted"]
    assert any("ended unexpectedly" in note.text for note in result.notes)


@pytest.mark.computes
def test_a_name_steers_no_terminal_and_may_be_any_bytes(sleeping: str, tmp_path: Path) -> None:
    result = watch(pid=int(sleeping), seconds=0.1, progress=False, save=False)
    result.data["name"] = "\x1b[2J\r"
    assert not re.search("[\x00-\x09\x0b-\x1f]", report.text(result))
    odd = tmp_path / os.fsdecode(b"odd\xff")
    odd.symlink_to("/bin/true")
    with Command([str(odd)]) as command:
        assert command.name == "odd\ufffd"
    assert target.plain("a\x1b[2J\udcff") == "a\ufffd[2J\ufffd"


def test_only_results_of_a_watch_are_compared() -> None:
    one = SimpleNamespace(kind="own_program.watch", facts={}, records=lambda name: [])
    with pytest.raises(ResultError):
        report.compared(SimpleNamespace(kind="quota.hog"), one)  # type: ignore[arg-type]
    with pytest.raises(ResultError, match="has not what is compared"):
        report.compared(one, one)  # type: ignore[arg-type]


def test_the_library_has_it() -> None:
    assert sched_labs.watch is watch
