"""The run-queue probe on real workloads: structure and relations, never absolute times."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import adversary
import loaded
import pytest

from sched_labs.core.errors import ParameterError, ProbeError
from sched_labs.limits import cgroups
from sched_labs.machine import files
from sched_labs.probes import channel, runqlat, schedstat
from sched_labs.probes.waits import CAUSES, Waits, bin_edges_ns

CPU = min(os.sched_getaffinity(0))
HERE = runqlat.available()
live = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")

REQUEST: dict[str, Any] = {
    "probe": "runqlat",
    "version": channel.VERSION,
    "scope": "processes",
    "pids": [os.getpid()],
    "by": "machine",
    "bins": "fine",
    "attribution": False,
    "edges": False,
}

# Sides of a ping-pong over two pipes, on one CPU; it does as many round trips as each line on stdin says.
PINGPONG = f"""
import os, sys
os.sched_setaffinity(0, {{{CPU}}})
there, back = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(0)
    os.close(there[1])
    while os.read(there[0], 1):
        os.write(back[1], b"x")
    os._exit(0)
print(child, flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        os.write(there[1], b"x")
        os.read(back[0], 1)
    print("done", flush=True)
"""


def nearly(counted: int, truth: int) -> bool:
    """Within 2 %, or two waits.

    Not every machine shows every switch: some sandboxes hide what a supervisor of theirs does, and what
    interrupts do while it runs.  Elsewhere these numbers agree exactly.
    """
    return abs(counted - truth) <= max(2, 0.02 * truth)


class PingPong:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PINGPONG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdin and self.process.stdout
        self.to, self.back = self.process.stdin, self.process.stdout
        self.pids = [self.process.pid, int(self.back.readline())]

    def round_trips(self, count: int) -> None:
        self.to.write(f"{count}\n")
        self.to.flush()
        assert self.back.readline() == "done\n"


@contextmanager
def pingpong() -> Iterator[PingPong]:
    pair = PingPong()
    try:
        yield pair
    finally:
        pair.to.close()
        pair.process.wait(timeout=20)
        pair.back.close()


@contextmanager
def burners(count: int) -> Iterator[list[int]]:
    """So many processes that never sleep, on one CPU."""
    code = f"import os\nos.sched_setaffinity(0, {{{CPU}}})\nprint(flush=True)\nwhile True: pass"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for burner in running:
            assert burner.stdout
            burner.stdout.readline()
        yield [burner.pid for burner in running]
    finally:
        for burner in running:
            burner.kill()
            burner.wait()
            assert burner.stdout
            burner.stdout.close()


# ---- counted waits ----------------------------------------------------------------------------------------


def test_bins_join_and_are_narrow() -> None:
    for bin_bits in (5, 6):
        bins = [bin_edges_ns(number, bin_bits) for number in range(35 << bin_bits)]
        assert bins[0] == (0, 1)
        assert all(one[1] == next_one[0] for one, next_one in pairwise(bins))
        widest = max((high - low) / low for low, high in bins[1 << bin_bits :])
        assert widest <= 1 / (1 << bin_bits)


def test_quantiles_of_known_waits() -> None:
    waits = Waits({"wakeup": {10: 50, 20: 40}, "preempted": {3000: 10}}, bin_bits=6, window_ns=1)
    assert waits.total == 100
    assert waits.data["waits"].sum() == 100
    assert 10 <= waits.quantile_ns(0.5) <= 11
    assert 20 <= waits.quantile_ns(0.9) <= 21
    low, high = bin_edges_ns(3000, 6)
    assert waits.quantile_ns(1) == high
    assert low <= waits.quantile_ns(0, "preempted") <= waits.quantile_ns(0.5, "preempted") <= high
    assert waits.quantile_ns(1, "wakeup") <= 21


def test_quantiles_of_nothing() -> None:
    waits = Waits({cause: {} for cause in CAUSES}, bin_bits=6, window_ns=1)
    assert list(waits.data.columns) == ["bin_low_ns", "bin_high_ns", "cause", "waits"]
    assert math.isnan(waits.quantile_ns(0.5))
    for q, cause in ((2.0, None), (0.5, "idle")):
        with pytest.raises(ParameterError):
            waits.quantile_ns(q, cause)


# ---- what is refused before anything starts ---------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"pids": []},
        {"pids": [0]},
        {"pids": ["1"]},
        {"duration_s": 0},
        {"duration_s": math.nan},
        {"duration_s": 1e6},
        {"interval_s": 0},
        {"scope": "everything"},
        {"by": "colour"},
        {"bins": "coarse"},
        {"scope": "machine"},
        {"scope": "machine", "pids": [], "attribution": True},
        {"scope": "cgroup", "pids": [1, 2]},
    ],
    ids=repr,
)
def test_refuses_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        runqlat.watch(**{"pids": [os.getpid()], "duration_s": 1.0, "interval_s": 0.1, **wrong})


def test_available_says_what_a_machine_lacks(tmp_path: Path) -> None:
    begun = time.process_time()
    with files.root(tmp_path):
        lacking = runqlat.available()
    assert not lacking.ok and "BTF" in lacking.why and lacking.remedy
    btf = tmp_path / "sys/kernel/btf/vmlinux"
    btf.parent.mkdir(parents=True)
    btf.touch()
    with files.root(tmp_path):
        lacking = runqlat.available()
    assert not lacking.ok and "BCC" in lacking.why and lacking.remedy
    namespace = tmp_path / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to("pid:[4026532999]")
    with files.root(tmp_path):
        lacking = runqlat.available()
    assert not lacking.ok and "container" in lacking.why
    assert time.process_time() - begun < 1.0


def test_a_helper_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "helper"
    for body, expected in (
        ("import sys; sys.exit('it broke')", "it broke"),
        ("print('no record')", "no record"),
        ('print(\'{"record": "counts"}\')', "out of turn"),
        ('print(\'{"record": "error", "what": "w", "remedy": "r"}\')', "w"),
    ):
        script.write_text(body)
        monkeypatch.setattr(channel, "helper_command", lambda program: [sys.executable, str(script)])
        with pytest.raises(ProbeError) as raised:
            channel.Channel({})
        assert expected in raised.value.what


def test_a_helper_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, time; sys.stdin.read(); print(flush=True)"
    monkeypatch.setattr(channel, "helper_command", lambda program: [sys.executable, "-c", code])
    monkeypatch.setattr(channel, "_READY_S", 0.2)
    with pytest.raises(ProbeError, match="said nothing"):
        channel.Channel({})


# ---- live -------------------------------------------------------------------------------------------------


@live
def test_counts_an_oversubscribed_cpu() -> None:
    """Three burners on one CPU: two always wait, each wait ends in a time slice, none is a wake-up."""
    with burners(3) as pids, runqlat.watch(pids, 1.2, 0.2) as probe, schedstat.watch(pids) as slices:
        slices.start()
        probe.start()
        seen = list(probe)
        final = probe.stop()
        counted = slices.stop()
    assert len(seen) >= 4 and seen[-1] is final
    assert [s.window_ns for s in seen] == sorted(s.window_ns for s in seen)
    for before, after in pairwise(seen):
        for cause in CAUSES:
            for number, count in before.counts[cause].items():
                assert after.counts[cause].get(number, 0) >= count
    assert final.window_ns == 1_200_000_000 and final.ended_by == "duration over"
    assert nearly(final.total, final.total + final.lost)
    assert 1 <= final.unseen <= 3  # those that waited already when the window opened
    waits = dict(final.data.groupby("cause")["waits"].sum())
    assert waits["preempted"] > 20 and waits.get("wakeup", 0) <= 0.05 * final.total
    quantiles = [final.quantile_ns(q) for q in (0, 0.1, 0.5, 0.9, 0.99, 1)]
    assert quantiles == sorted(quantiles) and quantiles[0] > 0
    # The two looks at /proc enclose the window, so that the kernel counts as many time slices or a few more:
    # those outside the window, and for each thread the one whose wait began before it.
    timeslices = int(counted.data["timeslices"].sum())
    outside = (counted.window_ns - final.window_ns) / counted.window_ns
    assert final.total <= timeslices + 2
    assert final.total >= timeslices * (1 - outside) * 0.9 - 6
    # At least two of the three wait at any time, up to what the window cut.
    middle = (final.data["bin_low_ns"] + final.data["bin_high_ns"]) / 2
    waited = float((middle * final.data["waits"]).sum())
    assert 0.8 * 2 * final.window_ns < waited < 1.05 * 3 * final.window_ns


@live
def test_counts_each_wake_up_inside_the_window_only() -> None:
    """All threads sleep when the window opens and when it closes: waits and time slices agree."""
    with pingpong() as pair, runqlat.watch(pair.pids, 20) as probe:
        pair.round_trips(3000)  # before the window: not counted
        time.sleep(0.1)
        before = schedstat.look(pair.pids)
        probe.start()
        pair.round_trips(1000)
        time.sleep(0.1)
        after = schedstat.look(pair.pids)
        final = probe.stop()
        pair.round_trips(3000)
        assert probe.stop() is final
    timeslices = sum(after[who].timeslices - before[who].timeslices for who in after)
    assert final.ended_by == "stopped" and final.window_ns < 20e9
    assert nearly(final.total, timeslices)
    assert nearly(final.total + final.lost, timeslices)
    assert final.unseen <= 2 and (final.unfinished or 0) <= 2
    assert final.total >= 1000


@live
def test_counts_only_who_waits() -> None:
    """Watching one side of a ping-pong counts its waits and not those of the side that wakes it."""
    with pingpong() as pair, pingpong() as other, runqlat.watch(pair.pids[1:], 20) as probe:
        before = schedstat.look(pair.pids[1:])
        probe.start()
        other.round_trips(500)
        pair.round_trips(500)
        time.sleep(0.1)
        after = schedstat.look(pair.pids[1:])
        final = probe.stop()
    (who,) = after
    assert nearly(final.total, after[who].timeslices - before[who].timeslices)
    assert 400 <= final.total <= 1000


@live
def test_a_quiet_process_has_no_waits() -> None:
    with pingpong() as quiet, pingpong() as busy, runqlat.watch(quiet.pids, 20) as probe:
        probe.start()
        busy.round_trips(2000)
        final = probe.stop()
    assert final.total == 0 and final.data.empty and final.lost == 0  # it never ran


@live
def test_ends_when_the_watched_processes_end() -> None:
    with pingpong() as first, pingpong() as last, runqlat.watch(first.pids + last.pids, 60) as probe:
        probe.start()
        for pair in (first, last):
            pair.round_trips(200)
            pair.to.close()
            pair.process.wait()
        *_, final = probe
    assert final.ended_by == "processes ended" and final.window_ns < 60e9
    assert final.total > 400


@live
def test_refuses_to_measure_twice_or_without_start() -> None:
    with runqlat.watch([os.getpid()], 5) as probe:
        with pytest.raises(ProbeError, match="not been started"):
            probe.stop()
        with pytest.raises(ProbeError, match="not been started"):
            next(iter(probe))
        probe.start()
        with pytest.raises(ProbeError, match="already"):
            probe.start()
        assert probe.stop().ended_by == "stopped"


@live
def test_refuses_a_dead_process() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(ProbeError, match=str(child.pid)):
        runqlat.watch([child.pid], 1)


# ---- what is left behind ----------------------------------------------------------------------------------


OURS = (b"on_wakeup", b"on_wakeup_new", b"on_switch")


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether a process ends in time (a zombie has ended)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = (files.read(f"/proc/{pid}/stat") or ") Z").rpartition(")")[2].split()[0]
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


@live
def test_the_helper_gives_up_its_privileges() -> None:
    with runqlat.watch([os.getpid()], 5) as probe:
        helper = probe._channel.pid
        while children := files.read(f"/proc/{helper}/task/{helper}/children"):  # of sudo
            helper = int(children.split()[0])
        status = dict(
            line.split(":\t", 1) for line in (files.read(f"/proc/{helper}/status") or "").splitlines()
        )
        for name in ("CapEff", "CapPrm", "CapInh"):
            assert int(status[name], 16) == 0
        assert status["NoNewPrivs"] == "1"
        if os.geteuid() == 0:
            opened = [
                files.read(f"/proc/{helper}/fdinfo/{fd}") or "" for fd in files.names(f"/proc/{helper}/fd")
            ]
            assert sum("link_type:\traw_tracepoint" in text for text in opened) == 5
            assert not any("map_type" in text or "prog_type" in text for text in opened)


@live
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may list the kernel's BPF programs")
def test_nothing_stays_when_the_client_is_killed() -> None:
    before = loaded.programs(OURS)
    code = """
import os, sys, time
from sched_labs.probes import runqlat
with runqlat.watch([os.getpid()], 600, 0.05) as probe:
    probe.start()
    next(iter(probe))
    print(probe._channel.pid, flush=True)
    time.sleep(600)
"""
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert client.stdout
    try:
        helper = int(client.stdout.readline())
        ours = loaded.programs(OURS) - before
        assert len(ours) >= 3
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
        client.stdout.close()
    assert gone(helper)
    deadline = time.monotonic() + 10
    while loaded.programs(OURS) & ours and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not loaded.programs(OURS) & ours


@live
@pytest.mark.parametrize("started", [False, True])
def test_the_helper_ends_with_its_stdin(started: bool) -> None:
    request = REQUEST | {"duration_s": 600, "interval_s": 0.05}
    helper = subprocess.Popen(
        channel.helper_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert helper.stdin and helper.stdout
    try:
        helper.stdin.write(json.dumps(request).encode() + b"\n")
        helper.stdin.flush()
        assert json.loads(helper.stdout.readline())["record"] == "ready"
        if started:
            helper.stdin.write(b"start\n")
            helper.stdin.flush()
            assert json.loads(helper.stdout.readline())["record"] == "started"
            assert json.loads(helper.stdout.readline())["record"] == "counts"
        helper.stdin.close()
        helper.wait(timeout=30)
    finally:
        with suppress(ProcessLookupError):
            helper.kill()
        helper.stdout.close()
        helper.wait()


@live
@pytest.mark.parametrize("line", [b"halt\n", b"start\nstart\n", b"stop\n", b"x" * 4096])
def test_the_helper_refuses_other_commands(line: bytes) -> None:
    request = REQUEST | {"duration_s": 9, "interval_s": 5}
    helper = subprocess.Popen(
        channel.helper_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert helper.stdin and helper.stdout
    try:
        helper.stdin.write(json.dumps(request).encode() + b"\n" + line)
        helper.stdin.flush()
        assert json.loads(helper.stdout.readline())["record"] == "ready"
        said = [json.loads(record)["record"] for record in helper.stdout]
        assert said in (["error"], ["started", "error"])
        assert helper.wait(timeout=30) == 1
    finally:
        with suppress(ProcessLookupError):
            helper.kill()
        helper.stdin.close()
        helper.stdout.close()
        helper.wait()


# ---- whoever means it no good ------------------------------------------------------------------------------


@live
def test_nobody_who_does_not_read_keeps_the_helper_from_looking() -> None:
    """It drops what is not read, still sees who ends, and says in the end what was dropped."""
    watched = subprocess.Popen(["sleep", "600"], user=adversary.NOBODY if os.geteuid() == 0 else None)
    request = {**REQUEST, "pids": [watched.pid], "by": "cpu", "duration_s": 600, "interval_s": 0.01}
    with adversary.helper(request, live=True) as helper:
        assert helper.read()["record"] == "ready"
        helper.send("start")
        pipe = helper.process.stdout
        assert pipe
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
        helper.until(lambda: unread(pipe.fileno()) > 3000, "the pipe is nearly full")
        time.sleep(0.5)
        watched.kill()
        watched.wait()
        time.sleep(0.2)
        said = helper.rest()
        assert helper.process.wait(10) == 0
    assert said[-1]["record"] == "end" and said[-1]["why"] == "processes ended"
    assert said[-1]["dropped"] > 0


def unread(pipe: int) -> int:
    """How many bytes wait in a pipe."""
    answer = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, answer)
    return int.from_bytes(answer, sys.byteorder)


@live
@pytest.mark.computes  # for ten seconds nothing
def test_a_helper_that_cannot_say_anything_ends_at_its_deadline() -> None:
    """The pipe is full from the beginning, and nobody ever reads; SIGALRM is ignored where it starts."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    mine = subprocess.Popen(["sleep", "600"], user=adversary.NOBODY if os.geteuid() == 0 else None)
    request = {**REQUEST, "pids": [mine.pid], "duration_s": 0.1, "interval_s": 0.01}
    try:
        ignored = lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN)  # noqa: E731
        with adversary.helper(request, live=True, stdout=writing, preexec_fn=ignored) as helper:
            helper.send("start")
            helper.process.wait(60)
    finally:
        mine.kill()
        mine.wait()
        os.close(reading)
        os.close(writing)


# Loads a probe in this very process, whose arrays can be looked at then, for three children of another user.
INSIDE = """
import importlib.util, json, os, subprocess, sys, time
here, other, request = sys.argv[1:]
init = f"{here}/__init__.py"
spec = importlib.util.spec_from_file_location("helper", init, submodule_search_locations=[here])
sys.dont_write_bytecode = True
sys.modules["helper"] = importlib.util.module_from_spec(spec)
from helper import programs
code = "import os, sys\\nsys.stdin.readline()\\nif sys.argv[1:]: os.execv(sys.argv[1], sys.argv[1:])"
def child(*words):
    return subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.PIPE, user=65534)
children = ends, becomes, stays = child(), child(other, "600"), child("/usr/bin/sleep", "600")
held = {os.pidfd_open(one.pid): one.pid for one in children}
loaded = programs.load(json.loads(request), held, programs.Window(owner=65534))
def show():
    print(json.dumps([loaded.maps["watched"][one.pid] for one in children]), flush=True)
show()
for one in children:
    one.stdin.close()
os.waitid(os.P_PID, ends.pid, os.WEXITED | os.WNOWAIT)  # its number is still its own
while not all("sleep" in open(f"/proc/{one.pid}/comm").read() for one in (becomes, stays)):
    time.sleep(0.01)
show()
for one in (becomes, stays):
    one.kill()
os._exit(0)
"""


@live
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into the kernel's arrays")
def test_the_mark_of_a_process_goes_with_it() -> None:
    """The BPF program itself takes it away: at the end, before the number can be another's, and when the
    process becomes a program that runs as another user."""
    folder = Path(tempfile.mkdtemp(dir="/usr/local/lib"))  # where set-user-id programs are obeyed
    try:
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            pytest.skip("set-user-id programs are not obeyed here")
        folder.chmod(0o755)
        other = Path(shutil.copy("/usr/bin/sleep", folder / "sleep"))
        os.chown(other, 1, 1)
        other.chmod(0o4755)
        words = [channel.PYTHON, "-I", "-c", INSIDE, channel.OURS, other, json.dumps(REQUEST)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd="/")
    finally:
        shutil.rmtree(folder)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[1, 1, 1], [0, 0, 1]], done.stderr


@pytest.fixture
def two_users(tmp_path: Path) -> Iterator[tuple[int, int, cgroups.Group]]:
    """Two programs that never sleep, on one CPU: one of a user, and one called `secret` of another; and their
    group, beside which other programs hardly count."""
    able, why = cgroups.possible()
    if os.geteuid() != 0 or not able:
        pytest.skip(why or "only root can be two users")
    secret = tmp_path / "secret"
    secret.symlink_to("/bin/sh")
    spin = "while :; do :; done"
    running = [subprocess.Popen(["/bin/sh", "-c", spin], user=adversary.NOBODY, cwd="/")]
    running.append(subprocess.Popen([secret, "-c", spin]))
    with cgroups.group("of-two-users", weight=10_000) as group:
        for one in running:
            os.sched_setaffinity(one.pid, {CPU})
            group.add(one.pid)
        yield running[0].pid, running[1].pid, group
        for one in running:
            one.kill()
            one.wait()


def everything_said(request: dict[str, Any], uid: int) -> list[dict[str, Any]]:
    with adversary.helper({"duration_s": 1, "interval_s": 10, **request}, uid=uid) as helper:
        assert helper.read()["record"] == "ready"
        helper.send("start")
        said = helper.rest()
    assert said[-1]["record"] == "end"
    return said


@live
def test_of_other_users_threads_neither_name_nor_number_is_told(
    two_users: tuple[int, int, cgroups.Group],
) -> None:
    mine, theirs, _ = two_users
    request = {"probe": "switches", "scope": "processes", "pids": [mine], "stacks": False}
    for uid, told in ((adversary.NOBODY, False), (0, True)):
        for _ in range(5):  # beside another load the two may not follow each other within one window
            said = everything_said(request, uid)
            edges = said[-1]["edges"]
            seen = {(tid, name) for edge in edges for tid, name in ((edge[1], edge[5]), (edge[2], edge[6]))}
            if {theirs, -1} & {tid for tid, _ in seen}:
                break
        assert mine in {tid for tid, _ in seen}
        assert ((theirs, "secret") in seen) == told == ("secret" in json.dumps(said))
        assert ((-1, "another user's") in seen) == (not told)
        assert theirs not in {tid for tid, _ in seen} or told


@live
def test_in_a_group_only_the_callers_threads_are_told_apart(
    two_users: tuple[int, int, cgroups.Group],
) -> None:
    mine, theirs, group = two_users
    request = {**REQUEST, "scope": "cgroup", "pids": [mine], "by": "thread"}
    os.chown(group.path, adversary.NOBODY, adversary.NOBODY)
    of_user = {key for key, _ in everything_said(request, adversary.NOBODY)[-1]["keys"]}
    of_root = {key for key, _ in everything_said(request, 0)[-1]["keys"]}
    assert of_user == {mine, -1} and of_root == {mine, theirs}


# ---- the unprivileged probe -------------------------------------------------------------------------------


@pytest.mark.skipif(not schedstat.available().ok, reason="this kernel keeps no run delay")
def test_schedstat_sees_who_runs_and_who_waits() -> None:
    with burners(2) as pids, schedstat.watch(pids) as probe:
        probe.start()
        time.sleep(0.5)
        delays = probe.stop()
    assert list(delays.data.columns) == ["pid", "tid", "run_ns", "wait_ns", "timeslices"]
    assert sorted(delays.data["pid"]) == sorted(pids) and delays.ended == 0
    both = delays.data["run_ns"] + delays.data["wait_ns"]
    assert (both <= 1.1 * delays.window_ns).all()
    assert delays.data["wait_ns"].sum() > 0.3 * delays.window_ns  # one of the two waits at any time


def test_schedstat_refuses() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(ProbeError, match=str(child.pid)):
        schedstat.watch([child.pid])
    with pytest.raises(ParameterError):
        schedstat.watch([])
    with pytest.raises(ProbeError, match="not been started"):
        schedstat.watch([os.getpid()]).stop()


def test_schedstat_says_when_the_kernel_keeps_none(tmp_path: Path) -> None:
    with files.root(tmp_path):
        assert not schedstat.available().ok
    stat = tmp_path / "proc/self/schedstat"
    stat.parent.mkdir(parents=True)
    stat.write_text("0 0 0\n")
    with files.root(tmp_path):
        assert not schedstat.available().ok


# ---- families ----------------------------------------------------------------------------------------------

# Its child, which begins on a line on stdin, sleeps until it left its CPU a hundred times: whoever is kept
# from falling asleep for a millisecond does not leave it.
PARENT = """
import os, resource, sys, time
sys.stdin.readline()
if os.fork() == 0:
    while resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw < 100:
        time.sleep(0.001)
    os._exit(0)
os.wait()
"""


@live
@pytest.mark.parametrize("scope", ["processes", "family"])
def test_children_count_where_the_family_is_watched(scope: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, text=True)
    with runqlat.watch([parent.pid], 60, interval_s=30, scope=scope) as probe:
        probe.start()
        parent.communicate("go\n")
        assert parent.wait() == 0
        # Of a family others may be left; a process that ended ends the measurement by itself.
        waits = probe.stop() if scope == "family" else list(probe)[-1]
    assert (waits.total >= 100) is (scope == "family")
    assert waits.ended_by == ("stopped" if scope == "family" else "processes ended")
