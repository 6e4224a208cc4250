"""Guests that misbehave, and snapshots that are wrong: a QEMU that is a script."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sched_labs.kernels import contents, emulator, initramfs, packages, qemu, runner, snapshots, wire
from sched_labs.kernels.emulator import Told
from sched_labs.kernels.errors import GuestError, QemuError

FAKE = """#!{python}
import json, os, re, socket, sys, threading, time
sys.path.insert(0, {source!r})
if "--version" in sys.argv:
    print("QEMU emulator version 9.9 (a fake)"); sys.exit()
from sched_labs.kernels import wire
words = " ".join(sys.argv)
incoming = re.search(r"-incoming fd:(\\d+)", words)
with open({log!r}, "a") as log: log.write("restore\\n" if incoming else "boot\\n")
starts = open({log!r}).read().split()
boots = starts.count("boot")
places = re.findall(r"file,id=\\w+,path=(\\S+)", words)
console, answers = (open(place, "wb", buffering=0) for place in places)
window = open(re.search(r"mem-path=([^,]+)", words)[1], "rb")
monitor = socket.socket(fileno=int(re.search(r"socket,id=monitor,fd=(\\d+)", words)[1]))
status, goes_on, saved = "inmigrate" if incoming else "running", threading.Event(), "completed"
said = console.write
def up(): answers.write(wire.encode("up", {{"release": "6.1", "version": "#1"}}))
def result(value): answers.write(wire.encode("result", value))
def end(status=0): answers.write(wire.encode("end", {{"status": status}}))
def tell(**told): monitor.sendall(json.dumps(told).encode() + b"\\n")
def serve():
    tell(QMP={{}})
    text, state = b"", None
    while True:
        piece, files, _, _ = socket.recv_fds(monitor, 1 << 16, 1)
        if not piece: os._exit(0)
        state = files[0] if files else state
        *lines, text = (text + piece).split(b"\\n")
        for line in lines:
            asked = json.loads(line)["execute"]
            if asked == "migrate" and saved == "completed": os.write(state, b"a guest")
            tell(**{{"return": {{"status": saved if asked == "query-migrate" else status}}}})
            if asked == "cont": goes_on.set()
threading.Thread(target=serve, daemon=True).start()
if incoming:
    {load}
    assert os.read(int(incoming[1]), 99) == b"a guest"
else:
    {boot}
    tell(event="STOP")
status = "guest-panicked"
goes_on.wait()
{job}
"""


class Guests:
    """Has the script be QEMU, and a guest under it do a job."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._program = folder / "bin" / "qemu-system-x86_64"
        self._program.parent.mkdir()
        self._log = folder / "starts"
        monkeypatch.setenv("PATH", f"{self._program.parent}:{os.environ['PATH']}")
        self.kernel = packages.Kernel("6.1", "p", "v", "u", "f", "amd64", "sha256", folder)
        self.guest = qemu.Guest(folder / "vmlinuz", "amd64", qemu.VM_EMULATED)
        self.world = initramfs.World(data=False, bpf=False, port="/dev/ttyS1", settled_s=0)
        self.told: list[tuple[str, float | None]] = []

    def write(self, job: str, boot: str = "pass", load: str = "pass") -> None:
        text = FAKE.format(
            python=sys.executable, source=str(contents.PACKAGE.parent), log=str(self._log),
            job=job, boot=boot, load=load,
        )  # fmt: skip
        self._program.write_text(text)
        self._program.chmod(0o755)

    def run(
        self, job: str, *, boot: str = "pass", load: str = "pass", deadline_s: float = 20.0
    ) -> tuple[Told, list[str], int]:
        self.write(job, boot, load)
        parcel = wire.pack({"x": 1}, {})
        work = partial(
            snapshots.work,
            self.kernel,
            self.guest,
            self.world,
            parcel,
            time.monotonic() + deadline_s,
            self._say,
        )
        return runner._twice(work, self._say)

    def _say(self, text: str, share: float | None) -> None:
        self.told.append((text, share))

    @property
    def starts(self) -> list[str]:
        return self._log.read_text().split()

    @property
    def kept(self) -> list[Path]:
        return sorted(snapshots.folder().glob("*"))


@pytest.fixture
def guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guests:
    if not shutil.which("setpriv"):
        pytest.skip("setpriv (util-linux) is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(initramfs.World, "_system", lambda world: [])
    return Guests(tmp_path, monkeypatch)


WELL = "up(); result(7); end(); time.sleep(60)"


# snapshots


def test_a_guest_that_has_booted_once_is_not_booted_again(guests: Guests) -> None:
    told, wrong, retries = guests.run(WELL)
    assert (told.result, told.restored, wrong, retries) == (7, True, [], 0)
    assert guests.starts == ["boot", "restore"]
    [state] = guests.kept
    assert state.read_bytes() == b"a guest"
    told, wrong, _ = guests.run(WELL)
    assert (told.result, told.restored, wrong) == (7, True, [])
    assert guests.starts == ["boot", "restore", "restore"]


def test_the_job_is_in_the_window_when_the_guest_goes_on(guests: Guests) -> None:
    told, _, _ = guests.run("up(); result(wire.unpack(window.read())); end(); time.sleep(60)")
    assert told.result == {"x": 1}


def test_a_damaged_snapshot_is_made_anew_and_said(guests: Guests) -> None:
    guests.run(WELL)
    [state] = guests.kept
    state.write_bytes(b"a gu3st")
    told, [wrong], retries = guests.run(WELL)
    assert (told.result, told.restored, retries) == (7, True, 0)
    assert "does not match its hash" in wrong
    assert guests.starts == ["boot", "restore", "restore", "boot", "restore"]
    assert [path.read_bytes() for path in guests.kept] == [b"a guest"]


def test_a_snapshot_that_qemu_refuses_is_made_anew_and_said(guests: Guests) -> None:
    guests.run(WELL)
    told, [wrong], _ = guests.run(WELL, load="if boots == 1: sys.exit('Missing section footer for ram')")
    assert (told.result, told.restored) == (7, True)
    assert "Missing section footer" in wrong
    assert guests.starts == ["boot", "restore", "restore", "boot", "restore"]
    assert len(guests.kept) == 1


def test_a_guest_that_cannot_be_restored_is_booted_and_said(guests: Guests) -> None:
    told, [wrong], retries = guests.run(WELL, load="sys.exit('not this one')")
    assert (told.result, told.restored, retries) == (7, False, 0)
    assert "not this one" in wrong


def test_a_guest_that_cannot_be_saved_is_booted_and_said(guests: Guests) -> None:
    told, [wrong], retries = guests.run(WELL, boot="saved = 'failed'")
    assert (told.result, told.restored, retries) == (7, False, 0)
    assert "cannot be saved" in wrong
    assert guests.kept == []


def test_without_a_place_to_keep_it_the_snapshot_is_used_and_said(guests: Guests) -> None:
    snapshots.folder().parent.mkdir(parents=True)
    snapshots.folder().touch()
    told, [wrong], _ = guests.run(WELL)
    assert (told.result, told.restored) == (7, True)
    assert "could not be kept" in wrong


def test_a_snapshot_whose_guest_breaks_is_not_used_again(guests: Guests) -> None:
    guests.run(WELL)
    job = "if starts.count('restore') == 2: said(b'Oops: 0002 [#1] SMP\\n'); time.sleep(60)\n" + WELL
    told, _, retries = guests.run(job)
    assert (told.result, retries) == (7, 1)
    assert guests.starts == ["boot", "restore", "restore", "boot", "restore"]


def test_a_snapshot_whose_guest_used_up_its_time_is_kept(guests: Guests) -> None:
    guests.run(WELL)
    with pytest.raises(GuestError, match="still working"):
        guests.run("up(); time.sleep(60)", deadline_s=2)
    assert len(guests.kept) == 1


def test_those_not_used_for_long_go_when_there_is_no_room(
    guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LIMIT_BYTES", 2 * len(b"a guest"))
    machine, made = guests.guest, {}
    for number, append in enumerate(("first", "second")):
        guests.guest = replace(machine, append=append)
        guests.run(WELL)
        [made[append]] = set(guests.kept) - set(made.values())
        os.utime(made[append], (number, number))
    guests.guest = replace(machine, append="first")
    guests.run(WELL)  # now the second was not used for the longest time
    guests.guest = replace(machine, append="third")
    guests.run(WELL)
    assert len(guests.kept) == 2
    assert made["first"] in guests.kept
    assert made["second"] not in guests.kept
    monkeypatch.setattr(snapshots, "LIMIT_BYTES", 0)
    guests.guest = replace(machine, append="fourth")
    guests.run(WELL)
    assert len(guests.kept) == 1  # the one in use stays


def test_what_a_killed_program_left_is_removed(guests: Guests) -> None:
    snapshots.folder().mkdir(parents=True)
    dead = subprocess.Popen(["true"])
    dead.wait()
    (snapshots.folder() / f"part-{dead.pid}").touch()
    guests.run(WELL)
    assert [path.suffix for path in guests.kept] == [".state"]


def test_whatever_the_state_depends_on_is_in_its_key(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    guests.write(WELL)

    def key(guest: dict[str, Any] | None = None, kernel: str = "sha256", settled_s: float = 0) -> str:
        return snapshots.key(
            replace(guests.kernel, sha256=kernel),
            replace(guests.guest, **(guest or {})),
            replace(guests.world, settled_s=settled_s),
        )

    changed: list[dict[str, Any]] = [
        {"append": "preempt=full"}, {"cpus": 4}, {"memory_mib": 2048}, {"numpy": True}, {"window_mib": 32},
        {"timing": qemu.DETERMINISTIC}, {"timing": qemu.VM_KVM}, {"threads_per_core": 2},
    ]  # fmt: skip
    keys = [key(), key(kernel="other"), key(settled_s=1), *(key(change) for change in changed)]
    assert len(set(keys)) == len(keys)
    assert key() == key({"image": Path("/elsewhere/vmlinuz")})  # what is in it counts, not where it is
    monkeypatch.setattr(qemu, "version", lambda architecture: "10.0")
    assert key() not in keys


# guests that misbehave


@pytest.mark.parametrize(
    "words",
    [
        "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000009",
        "Oops: general protection fault, probably for non-canonical address: 0000 [#1] PREEMPT SMP NOPTI",
        "BUG: unable to handle page fault for address: ffff8880",
        "Internal error: Oops - Undefined instruction: 0000000002000000 [#1] SMP",
    ],
)
def test_a_broken_guest_is_started_once_more(guests: Guests, words: str) -> None:
    told, _, retries = guests.run(
        WELL, boot=f"if boots == 1: said({('[    1.0] ' + words + chr(10)).encode()!r}); time.sleep(60)"
    )
    assert (told.result, retries) == (7, 1)


def test_a_guest_that_breaks_twice_is_reported_with_its_last_words(guests: Guests) -> None:
    boot = (
        "said(b'first line\\r\\n[    1.0] Kernel panic - not syncing: VFS: no root\\r\\nlast line\\r\\n');"
        "time.sleep(60)"
    )
    with pytest.raises(GuestError, match="VFS: no root") as broken:
        guests.run(WELL, boot=boot)
    assert guests.starts == ["boot", "boot"]
    assert "first line" in broken.value.console
    assert "last line" in str(broken.value)


def test_an_oops_after_the_first_words_spoils_the_answer(guests: Guests) -> None:
    job = "up(); said(b'Oops: 0002 [#1] SMP\\n'); time.sleep(0.5); result(1); end(); time.sleep(60)"
    with pytest.raises(GuestError, match="Oops"):
        guests.run(job)


def test_a_long_answer_waits_for_nobody(guests: Guests) -> None:
    """Byte by byte, as a serial port sends it, and faster than anybody reads."""
    job = "up()\nfor byte in wire.encode('result', list(range(20_000))): answers.write(bytes([byte]))\nend()"
    told, _, retries = guests.run(job)
    assert told.result == list(range(20_000))
    assert retries == 0


def test_half_a_message_is_no_answer(guests: Guests) -> None:
    job = "up(); answers.write(wire.encode('result', list(range(99)))[:40] + b'\\n'); time.sleep(60)"
    with pytest.raises(GuestError, match="half a message"):
        guests.run(job)
    assert guests.starts.count("restore") == 2


def test_a_guest_that_switches_itself_off_is_noticed_at_once(guests: Guests) -> None:
    with pytest.raises(GuestError, match="switched itself off"):
        guests.run("up()")
    assert guests.starts.count("restore") == 2


def test_a_silent_guest_meets_its_deadline_and_is_not_started_again(guests: Guests) -> None:
    before = time.monotonic()
    with pytest.raises(GuestError, match="still working on its job"):
        guests.run("up(); time.sleep(60)", deadline_s=4)
    assert time.monotonic() - before < 20
    assert guests.starts == ["boot", "restore"]


def test_a_guest_that_does_not_come_up_is_started_again(
    guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(emulator.BOOT_DEADLINE_S, qemu.VM_EMULATED, 1.0)
    with pytest.raises(GuestError, match="had not come up"):
        guests.run(WELL, boot="time.sleep(60)", deadline_s=30)
    assert guests.starts == ["boot", "boot"]


def test_qemus_own_refusal_is_passed_on(guests: Guests) -> None:
    with pytest.raises(QemuError, match="no such machine"):
        guests.run(WELL, boot="sys.exit('no such machine')")
    assert guests.starts == ["boot"]


def test_progress_is_passed_on(guests: Guests) -> None:
    line = '{"experiment": "x", "done": 1, "total": 2, "label": "half"}'
    guests.run(f"up(); answers.write(b'{line}\\n'); result(1); end(); time.sleep(60)")
    assert ("half", 0.5) in guests.told
    assert guests.told[0][0] == "booting"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_host_is_killed(guests: Guests, tmp_path: Path, how: signal.Signals) -> None:
    guests.write(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); up(); time.sleep(60)")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = (
        "import time; from pathlib import Path; from sched_labs.kernels import emulator, qemu;"
        "guest = qemu.Guest(Path('/k'), 'amd64', 'vm-emulated');"
        "running = emulator.Emulator(guest, time.monotonic() + 60, lambda t, s: None).__enter__();"
        "running.boot([b'x']); running.work(b'')"
    )
    host = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(scratch)}, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 20
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        guest = int((tmp_path / "pid").read_text())
        time.sleep(0.3)
        host.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a shell may have had SIGINT ignored
            host.wait(timeout=10)
        host.kill()
        host.wait()
        while Path(f"/proc/{guest}").exists() and _state(guest) != "Z":
            assert time.monotonic() < deadline + 20, "QEMU outlived its host"
            time.sleep(0.05)
    finally:
        host.kill()
        host.wait()
    assert list(scratch.iterdir()) == []


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"
