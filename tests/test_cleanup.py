"""Cleaning up: orphans are ended, living owners' workloads stay, and only what is ours is touched.

Other experiments may run on this machine: in these tests `clean` sees only processes that they started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from sched_labs import machine
from sched_labs.core.errors import ResultError
from sched_labs.reader import cleanup
from sched_labs.reader.cleanup import clean
from sched_labs.run import scratch
from sched_labs.workloads.launch import MARKER, owner_mark

OWNER = """
import sys, time
from sched_labs import workloads
long = ["--by", "pipe", "--between", "processes", "--round-trips", "100000000", "--trials", "1"]
with workloads.start("pingpong", long) as pingpong:
    pingpong.go()
    print(pingpong.pid, *pingpong.tids, flush=True)
    sys.stdin.read()
"""
Start = Callable[[str], subprocess.Popen[bytes]]
_everybody = cleanup._marked


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or cleanup._is_zombie(pid)


@pytest.fixture(autouse=True)
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Processes that this test started; `clean` finds no others, and a cache without anything in it."""
    pids: set[int] = set()

    def marked() -> Iterator[tuple[int, str]]:
        return ((pid, owner) for pid, owner in _everybody() if pid in pids)

    monkeypatch.setattr(cleanup, "_marked", marked)
    monkeypatch.setattr(cleanup, "_groups", list)
    monkeypatch.setattr(cleanup.cgroups, "clear", lambda *, everything: [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return pids


@pytest.fixture
def sleeper(ours: set[int]) -> Iterator[Start]:
    """Start a `sleep` that carries an owner's mark."""
    started = []

    def start(owner: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sleep", "300"], env={"PATH": os.environ["PATH"], MARKER: owner})
        started.append(process)
        ours.add(process.pid)
        assert wait_until(lambda: (process.pid, owner) in list(_everybody()))
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def dead_owner() -> str:
    """The mark of a process that has ended."""
    process = subprocess.Popen(["sleep", "300"])
    mark = owner_mark(process.pid)
    process.kill()
    process.wait()
    return mark


def test_a_killed_programs_workload_is_gone_by_itself(
    ours: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")  # the workloads that are compiled already
    program = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdin and program.stdout
    try:
        pids = {int(word) for word in program.stdout.readline().split()}
        found = {pid for pid, owner in _everybody() if owner == owner_mark(program.pid)}
        assert pids and pids <= found, "its processes do not carry their owner's mark"
        ours |= found
        assert all("Left alone" in sentence for sentence in clean())
        assert not any(gone(pid) for pid in found)
        program.send_signal(signal.SIGKILL)
        program.wait()
        assert wait_until(lambda: all(gone(pid) for pid in found))
    finally:
        program.kill()
        program.wait()
        program.stdin.close()
        program.stdout.close()
    assert clean() == []


def test_an_orphan_is_ended(sleeper: Start) -> None:
    orphan = sleeper(dead_owner())
    assert clean() == [f"Ended: process {orphan.pid}, which had lost its program."]
    assert orphan.wait(timeout=20) == -signal.SIGKILL
    assert clean() == []


def test_a_pid_that_is_used_again_is_not_the_owner(sleeper: Start) -> None:
    number, _, started = owner_mark().partition(":")
    orphan = sleeper(f"{number}:{int(started) - 1}")
    assert clean() == [f"Ended: process {orphan.pid}, which had lost its program."]


@pytest.mark.parametrize("mark", ["", ":", "x:1", "0:1", "-1:1", "999999999999:1", "1", "²:1", "\udcff:1"])
def test_a_mark_that_names_nobody_is_nobodys(mark: str) -> None:
    assert cleanup._alive(mark) is False


def test_an_owner_that_has_ended_but_was_not_waited_for_is_gone(sleeper: Start) -> None:
    owner = subprocess.Popen(["sleep", "300"])
    try:
        orphan = sleeper(owner_mark(owner.pid))
        assert "Left alone" in clean()[0]
        owner.kill()
        assert wait_until(lambda: cleanup._is_zombie(owner.pid))
        assert clean() == [f"Ended: process {orphan.pid}, which had lost its program."]
    finally:
        owner.kill()
        owner.wait()


def test_a_living_owners_workload_is_left_alone_unless_asked(sleeper: Start) -> None:
    process = sleeper(owner_mark())
    assert clean() == [
        f"Left alone: process {process.pid}, whose program (process {os.getpid()}) is running."
    ]
    assert process.poll() is None
    assert clean(everything=True) == [f"Ended: process {process.pid}, on request."]
    assert process.wait(timeout=20) == -signal.SIGKILL


def test_a_process_of_another_user_is_said_to_be_left(
    sleeper: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = sleeper(dead_owner())

    def refuse(pid: int, _: int) -> None:
        raise PermissionError

    monkeypatch.setattr(cleanup.os, "kill", refuse)
    said = clean()
    monkeypatch.undo()
    assert said == [f"Process {process.pid} cannot be ended by this user."] and process.poll() is None


def test_a_process_without_a_mark_is_never_seen() -> None:
    process = subprocess.Popen(["sleep", "300"], env={"PATH": os.environ["PATH"], f"X_{MARKER}": "1:1"})
    try:
        assert wait_until(lambda: b"X_" in Path(f"/proc/{process.pid}/environ").read_bytes())
        assert process.pid not in {pid for pid, _ in _everybody()}
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what others started")
@pytest.mark.parametrize("elsewhere", [["setpriv", "--reuid=65534"], ["unshare", "--pid", "--fork"]])
def test_root_leaves_alone_what_is_not_its_own(elsewhere: list[str]) -> None:
    """Another user's workload, and a container's, whose owner has another number out here."""
    mark = dead_owner()
    with subprocess.Popen(
        [*elsewhere, "sh", "-c", "exec sleep 300"],
        env={"PATH": os.environ["PATH"], MARKER: mark},
        start_new_session=True,
    ) as process:
        try:
            assert wait_until(lambda: bool(_sleeps(process.pid))), "nothing was started there"
            assert not _sleeps(process.pid) & {pid for pid, _ in _everybody()}
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _sleeps(session: int) -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(words[3]) == session and b"sleep" in (entry / "cmdline").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def make_in(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.undo()  # the real groups, and still no process but ours:
    monkeypatch.setattr(cleanup, "_marked", lambda: iter(()))
    place = machine.survey().fact("cgroup.make_in")
    if not isinstance(place.value, str):
        pytest.skip(f"no control group can be made here: {place.why}")
    return Path(place.value)


def test_empty_groups_of_ours_are_removed_and_others_stay(
    make_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ours, other = make_in / f"sched-labs-look-t{os.getpid()}", make_in / f"other-look-{os.getpid()}"
    inner = ours / "inner"
    try:
        for group in (ours, inner, other):
            group.mkdir()
        said = clean()
        for group in (ours, inner):
            assert f"Removed: the empty control group {group}." in said and not group.exists()
        assert other.exists() and not any(str(other) in sentence for sentence in said)
    finally:
        for group in (inner, ours, other):
            if group.exists():
                group.rmdir()


def test_a_group_with_a_process_in_it_is_left_alone(
    make_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    group = make_in / f"sched-labs-look-t{os.getpid()}"
    process = subprocess.Popen(["sleep", "300"])
    try:
        group.mkdir()
        try:
            (group / "cgroup.procs").write_text(str(process.pid))
        except OSError as error:
            pytest.skip(f"no process can be moved there: {error.strerror}")
        assert any(sentence.startswith(f"Left alone: the control group {group} (") for sentence in clean())
        assert group.exists() and process.poll() is None
    finally:
        process.kill()
        process.wait()
        if group.exists():
            assert wait_until(lambda: not (group / "cgroup.procs").read_text().strip())
            group.rmdir()


_HOLDS = """
import subprocess, sys
from sched_labs.run import scratch
with scratch.folder() as (folder, handle):
    run = subprocess.Popen([sys.executable, "-c", "input()"], stdin=sys.stdin, pass_fds=[handle])
    print(folder, flush=True)
    run.wait()
"""


def test_a_scratch_folder_goes_when_nobody_holds_it(tmp_path: Path) -> None:
    """Its program is killed, then what that program had started ends."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    program = subprocess.Popen(
        [sys.executable, "-c", _HOLDS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert program.stdin and program.stdout
    folder = Path(program.stdout.readline().strip())
    (folder / "file").write_text("")
    (tmp_path / "sched-labs-other").mkdir()
    os.utime(folder, (0, 0))
    try:
        assert clean() == []
        program.kill()
        program.wait()
        assert clean() == [] and folder.exists()
    finally:
        program.stdin.close()
        program.stdout.close()
    assert wait_until(lambda: clean() == [f"Removed: {folder}, whose program is gone."])
    assert not folder.exists() and (tmp_path / "sched-labs-other").exists()


def test_where_no_scratch_folder_can_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no such folder")
    with pytest.raises(ResultError, match="No folder can be made"), scratch.folder():
        pass


def test_a_scratch_folder_that_was_just_made_or_goes_in_order_is_left_alone(tmp_path: Path) -> None:
    with scratch.folder() as (folder, _):
        os.utime(folder, (0, 0))
        assert clean() == [] and folder.parent == tmp_path
    assert not folder.exists()
    (tmp_path / folder.name).mkdir()
    assert clean() == []


def test_only_old_half_written_files_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "cache/sched-labs/workloads/abc"
    folder.mkdir(parents=True)
    old, new, binary = folder / ".pingpong.x1", folder / ".pingpong.x2", folder / "pingpong"
    for file in (old, new, binary):
        file.write_text("")
    for file in (old, binary):
        os.utime(file, (time.time() - 7200,) * 2)
    assert clean() == [f"Removed: {old}, which was never finished."]
    assert not old.exists() and new.exists() and binary.exists()
    assert clean() == []
