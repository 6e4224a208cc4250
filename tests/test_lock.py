"""One experiment at a time: between processes, between users, and after a holder was killed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sched_labs.core import lock
from sched_labs.core.errors import BusyError

HOLD = """
import sys
from pathlib import Path
from sched_labs.core import lock
lock._PLACES = (Path(sys.argv[1]),)
with lock.machine("the other experiment"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of our own: these tests wait for nobody's experiment, and hold nobody's up."""
    place = tmp_path / "lock"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (place,))
    return place


@contextmanager
def held_elsewhere(place: Path) -> Iterator[subprocess.Popen[str]]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin and holder.stdout
    try:
        assert holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()


def test_a_second_process_is_told_who_holds_the_machine(own_place: Path) -> None:
    with held_elsewhere(own_place) as other:
        assert lock.holder() == f"the other experiment (process {other.pid})"
        with (
            pytest.raises(BusyError, match=rf"the other experiment \(process {other.pid}\)"),
            lock.machine("mine", wait_s=0),
        ):
            pytest.fail("two hold the machine")


def test_a_second_process_waits_and_says_so_once(own_place: Path) -> None:
    told: list[str] = []
    with held_elsewhere(own_place) as other:
        assert other.stdin
        end = threading.Timer(0.5, other.stdin.close)

        def waiting(holder: str) -> None:
            told.append(holder)
            end.start()  # a second start would be an error

        with lock.machine("mine", wait_s=30, waiting=waiting):
            assert other.wait(timeout=30) == 0
            assert lock.holder() == f"mine (process {os.getpid()})"
    assert told == [f"the other experiment (process {other.pid})"]


def test_a_killed_holder_frees_the_machine(own_place: Path) -> None:
    with held_elsewhere(own_place) as other:
        other.send_signal(signal.SIGKILL)
        with lock.machine("mine", wait_s=30):
            pass


def test_it_is_free_afterwards_also_after_an_error() -> None:
    with pytest.raises(KeyboardInterrupt), lock.machine("mine"):
        raise KeyboardInterrupt
    assert lock.holder() == ""
    with lock.machine("mine again", wait_s=0):
        pass


def test_asking_who_holds_it_creates_nothing(own_place: Path) -> None:
    assert lock.holder() == ""
    assert list(own_place.iterdir()) == []


def test_two_threads_of_one_process_exclude_each_other() -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with lock.machine("thread", wait_s=30):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


def test_the_file_is_open_to_everybody_whatever_the_umask(own_place: Path) -> None:
    umask = os.umask(0o077)
    try:
        with lock.machine("mine"):
            pass
    finally:
        os.umask(umask)
    assert stat.S_IMODE((own_place / "sched-labs.lock").stat().st_mode) == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [0o666, 0o644])
def test_another_user_can_take_the_file(mode: int) -> None:
    """In a child that becomes `nobody`, in a sticky folder, with a file that belongs to root."""
    place = Path("/run/lock" if Path("/run/lock").is_dir() else "/tmp") / f"sched-labs-test-{os.getpid()}"
    place.mkdir()
    try:
        place.chmod(0o1777)
        lock._PLACES = (place,)  # own_place puts it back
        with lock.machine("root's"):
            pass
        lock.lock_path().chmod(mode)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                with lock.machine("nobody's", wait_s=0):
                    probe = os.open(lock.lock_path(), os.O_RDONLY)
                    try:
                        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        # A holder who may not write cannot name itself, but must not seem to be another.
                        named = "nobody's" if mode == 0o666 else "another experiment"
                        status = 0 if lock.holder().startswith(named) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        for file in place.iterdir():
            file.unlink()
        place.rmdir()


def test_root_chooses_the_place_that_everybody_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, opened = tmp_path / "closed", tmp_path / "open"
    closed.mkdir(0o755)
    opened.mkdir()
    opened.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (tmp_path / "absent", closed, opened))
    assert lock.lock_path().parent == opened
    monkeypatch.setattr(lock, "_PLACES", (closed,))
    with pytest.raises(BusyError, match="writable /tmp"):
        lock.lock_path()


def test_a_link_in_the_place_of_the_file_is_not_followed(own_place: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (own_place / "sched-labs.lock").symlink_to(victim)
    with pytest.raises(BusyError, match="cannot be opened"), lock.machine("mine"):
        pytest.fail("followed a link")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("planted", ["pipe", "folder", "another name of a file"])
def test_what_is_no_lock_file_is_told_and_left_alone(own_place: Path, tmp_path: Path, planted: str) -> None:
    path, victim = own_place / "sched-labs.lock", tmp_path / "victim"
    victim.write_text("precious")
    if planted == "pipe":
        os.mkfifo(path)
    elif planted == "folder":
        path.mkdir()
    else:
        path.hardlink_to(victim)
    assert lock.holder() == ""
    with pytest.raises(BusyError, match=r"[Rr]emove"), lock.machine("mine"):
        pytest.fail("took it for a lock")
    assert victim.read_text() == "precious"


def test_a_full_disk_is_told_or_does_not_matter(own_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with lock.machine("mine", wait_s=0):
        assert lock.holder() == "another experiment"
    (own_place / "sched-labs.lock").unlink()
    real = os.open

    def no_new(path: object, flags: int, *mode: int) -> int:
        return full() if flags & os.O_CREAT else real(path, flags, *mode)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", no_new)
    with pytest.raises(BusyError, match="No space left on device"), lock.machine("mine"):
        pytest.fail("held nothing")


def test_what_another_user_wrote_there_moves_no_cursor(own_place: Path) -> None:
    with held_elsewhere(own_place):
        lock.lock_path().write_bytes(b"\x1b[2J\xffevil\n\x07")
        assert lock.holder().isprintable() and "evil" in lock.holder()
