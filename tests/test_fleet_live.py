"""A fleet of worker processes on this machine: killed, stopped, doubled, without their scheduler; and a fleet
of guests with kernels of their own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, apart
from kernels import worker
from waiting import wait_until

from sched_labs import cli, kernels
from sched_labs.core import lock
from sched_labs.core.result import load
from sched_labs.fleet import cluster as clusters
from sched_labs.fleet import engine, store, tables
from sched_labs.kernels import packages, qemu
from sched_labs.kernels.errors import PackageError, QemuError, UnknownKernelError

pytest.importorskip("distributed")
KIND = "context_switch.matrix"
GIVEN = {"profile": "tiny", "mechanisms": ["yield"]}
MACHINES = 8
GUEST = Path(__file__).with_name("kernels") / "worker.py"
KERNELS = ("6.1", "6.12")

# Workers of one machine that say they are of several: what a file holds that only a boot changes.
PRETENDS = """
import os, pathlib
if boot := os.environ.get("FLEET_BOOT"):
    _read = pathlib.Path.read_text
    def read_text(self, *given, **named):
        pretended = ("/proc/sys/kernel/random/boot_id", "/etc/machine-id")
        return boot if str(self) in pretended else _read(self, *given, **named)
    pathlib.Path.read_text = read_text
"""

# A worker where sched-labs is not installed, whatever this checkout has.
WITHOUT = f"""
import sys
sys.path[:] = [place for place in sys.path if place != {str(ROOT / "src")!r}]
sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in getattr(one, "__name__", "").lower()]
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Room:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path, tls: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        self.address = f"{'tls' if tls else 'tcp'}://127.0.0.1:{self.port}"
        self.tls = tls
        self.folder = folder
        self.environment = {
            **os.environ,
            **apart(folder),
            "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical",
        }
        with (folder / "sitecustomize.py").open("a") as file:
            file.write(PRETENDS)
        self.scheduler = self.start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, module: str, *words: str, boot: str = "") -> subprocess.Popen[bytes]:
        words = (*words, *self.tls, "--no-dashboard" if module == "dask_worker" else "--no-show")
        return self.launch("-m", f"distributed.cli.{module}", *words, boot=boot)

    def launch(self, *words: str, boot: str = "") -> subprocess.Popen[bytes]:
        with (self.folder / "output").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *words],
                env={**self.environment, "FLEET_BOOT": boot},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def worker(self, name: str, boot: str, *, nanny: bool = False) -> None:
        words = ("--nthreads", "1", "--host", "127.0.0.1", "--nanny" if nanny else "--no-nanny")
        self.workers[name] = self.start("dask_worker", self.address, *words, boot=boot)

    def guest(self, kernel: str) -> str:
        """A worker in a guest with that kernel; its address."""
        port = free_port()
        self.workers[address := f"tcp://127.0.0.1:{port}"] = self.launch(
            str(GUEST), kernel, str(self.port), str(port)
        )
        return address

    def gone(self) -> list[str]:
        """The workers whose process has ended."""
        return [name for name, one in self.workers.items() if one.poll() is not None]

    def close(self) -> None:
        for one in (*self.workers.values(), self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                one.send_signal(signal.SIGCONT)
                one.kill()
            one.wait()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    try:
        yield made
    finally:
        made.close()


def mark(boot: str) -> str:
    """How a fleet calls the machine with this boot."""
    import hashlib

    return hashlib.sha256(f"sched-labs fleet {boot}".encode()).hexdigest()[:16]


@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_whatever_happens_to_workers_and_scheduler(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_PLACES", (tmp_path / "lock",))
    monkeypatch.setattr(engine, "SILENT_S", 15.0)
    monkeypatch.setattr(engine, "RETURN_S", 90.0)  # until all workers are started again
    put: list[engine.Machine] = []
    ask = engine.Asking._ask

    def noted(self: engine.Asking, worker: str, machine: engine.Machine | None, question: Any) -> None:
        ask(self, worker, machine, question)
        put.extend([machine] if machine else [])

    monkeypatch.setattr(engine.Asking, "_ask", noted)
    boots = [f"boot{number}" for number in range(MACHINES)]
    for boot in boots:
        room.worker(boot, boot)
    room.worker("second of boot1", boots[1])
    said: list[str] = []
    ended: list[store.Round | BaseException] = []

    def go(**options: bool) -> threading.Thread:
        def measure() -> None:
            try:
                with clusters.connect(room.address) as cluster:
                    assert wait_until(lambda: len(cluster.workers()) >= MACHINES + 1, 60)
                    ended.append(
                        engine.run(KIND, cluster, tmp_path / "out", tell=said.append, **GIVEN, **options)
                    )
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=measure, daemon=True)
        thread.start()
        return thread

    def rows() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.row.json")}

    with lock.machine("a test that holds all of them up"):
        running = go()
        # All wait for the machine: their turns come when the lock is let go.
        assert wait_until(lambda: len(put) >= MACHINES, 90), (said, ended)
        room.workers["boot1"].kill()  # its machine has another worker
        room.workers["boot2"].kill()  # its machine has none
        room.workers["boot3"].send_signal(signal.SIGSTOP)
        room.worker("second of boot4", boots[4])
        assert wait_until(lambda: any("silent" in line for line in said), 60), said
    assert wait_until(lambda: len(rows()) >= 2, 90), said
    before = rows()
    room.scheduler.kill()
    room.scheduler.wait()
    for name in ("boot0", "boot4", "boot5", "boot6", "boot7", "second of boot1", "second of boot4"):
        room.workers[name].kill()
        room.workers[name].wait()
    room.scheduler = room.start("dask_scheduler", "--host", "127.0.0.1", "--port", str(room.port))
    for boot in (0, 1, 4, 5, 6, 7):
        room.worker(f"again {boot}", boots[boot])
    assert wait_until(lambda: len(rows()) >= MACHINES - 2, 90), said
    monkeypatch.setattr(engine, "RETURN_S", 1.0)
    running.join(60)
    assert not running.is_alive(), said
    assert isinstance(ended[0], store.Round), (ended, said)
    assert ended[0].rows() == {mark(boots[number]) for number in (0, 1, 4, 5, 6, 7)}, said
    assert {name: when for name, when in rows().items() if name in before} == before
    reasons = ended[0].missing()
    assert set(reasons) == {mark("boot2"), mark("boot3")}, reasons
    assert {why for why, _ in reasons.values()} <= {"vanished", "silent"}

    # Both come back: the same round has all eight, and what was there stays as it is.
    before = rows()
    room.workers["boot3"].kill()
    for boot in (2, 3):
        room.worker(f"back {boot}", boots[boot])
    room.worker("third of boot4", boots[4])
    go(missing=True).join(120)
    assert isinstance(ended[1], store.Round), (ended, said)
    assert ended[1].folder == ended[0].folder
    assert ended[1].rows() == {mark(boot) for boot in boots}
    assert {name: when for name, when in rows().items() if name in before} == before
    results = sorted((tmp_path / "out").rglob("*.result.json"))
    assert len(results) == MACHINES and all(load(path).kind == KIND for path in results)


def test_a_worker_without_it_is_told_apart_and_can_be_brought_it(room: Room) -> None:
    (room.folder / "sitecustomize.py").write_text(PRETENDS + WITHOUT)
    room.worker("bare", "a boot", nanny=True)
    with clusters.connect(room.address) as cluster:
        assert wait_until(cluster.workers, 60)
        before = engine.doctor(cluster)
        assert before.answers == {}
        assert [why for why, _ in before.reasons.values()] == ["refused"]
        cluster.install()
        assert wait_until(cluster.workers, 60)
        after = engine.doctor(cluster)
    assert set(after.answers) == {mark("a boot")} and after.reasons == {}


def test_without_an_address_this_machine_is_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in apart(tmp_path).items():
        monkeypatch.setenv(name, value)
    words = ["--profile", "tiny", "--set", 'mechanisms=["yield"]', "-o", str(tmp_path / "out")]
    assert cli.main(["fleet", "run", KIND, *words]) == 0
    said = capsys.readouterr()
    assert f"{KIND}: 1 machine, 0 missing" in said.out and "dashboard: http://127.0.0.1:" in said.err
    assert cli.main(["fleet", "report", str(tmp_path / "out")]) == 0
    assert "1 machine, 1 kind of experiment" in capsys.readouterr().out


def fleet_run(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """`sched-labs fleet run` in a session of its own, as a terminal has one; what it says is in `said`."""
    given = ("--profile", "tiny", "--set", 'mechanisms=["yield"]', "-o", str(folder / "out"), *words)
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "sched_labs", "fleet", "run", KIND, *given],
            env={**os.environ, **apart(folder)}, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip


def alive(session: int) -> list[str]:
    """The programs of a session that have not ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (place / "stat").read_text().rpartition(")")
            state, _, _, of, *_ = rest.split()
            if int(of) == session and state != "Z":
                found.append(f"{name}) {(place / 'cmdline').read_bytes()!r:.100}")
    return found


@pytest.mark.parametrize("moment", ["dashboard", "machine, 0 missing"])
def test_ctrl_c_in_a_terminal_ends_all_of_it_with_a_line(tmp_path: Path, moment: str) -> None:
    """A terminal sends it to the whole group: to the worker as well, which then said a page about it."""
    running = fleet_run(tmp_path, "--every", "1h")
    said = tmp_path / "said"
    try:
        assert wait_until(lambda: moment in said.read_text(), 90), said.read_text()
        os.killpg(running.pid, signal.SIGINT)
        # A shell has 130 of both.  CPython ends by the signal, though it was caught, where it came while a
        # string was executed: a dataclass is made of one.
        assert running.wait(60) in (130, -signal.SIGINT), said.read_text()
        assert wait_until(lambda: not alive(running.pid), 20), alive(running.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert said.read_text().endswith("sched-labs: stopped.\n") and "Traceback" not in said.read_text()


def test_a_scheduler_that_ends_between_two_rounds_is_waited_for(room: Room, tmp_path: Path) -> None:
    room.worker("one", "a boot")
    running = fleet_run(tmp_path, "--every", "3s", "--scheduler", room.address)
    said = tmp_path / "said"
    try:
        assert wait_until(lambda: "machine, 0 missing" in said.read_text(), 90), said.read_text()
        room.scheduler.kill()
        room.scheduler.wait()
        assert wait_until(lambda: "The scheduler is gone" in said.read_text(), 60), said.read_text()
        room.workers["one"].kill()
        room.workers["one"].wait()
        rounds = said.read_text().count("machine, 0 missing")
        room.scheduler = room.start("dask_scheduler", "--host", "127.0.0.1", "--port", str(room.port))
        room.worker("again", "a boot")
        assert wait_until(lambda: said.read_text().count("machine, 0 missing") > rounds, 90), said.read_text()
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(60) == 130
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    rows = list((tmp_path / "out").rglob("*.row.json"))
    assert len({path.parent for path in rows}) == len(rows) > rounds


@pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl to make a certificate with")
def test_a_cluster_with_tls_answers_who_has_its_certificate_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clusters, "CONNECT_S", 2.0)
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=fleet"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ("--tls-ca-file", certificate, "--tls-cert", certificate, "--tls-key", key, "--protocol", "tls")
    room = Room(tmp_path, tls)
    try:
        room.worker("one", "a boot")
        mine = ["--tls-ca", certificate, "--tls-cert", certificate, "--tls-key", key]
        assert wait_until(lambda: cli.main(["fleet", "doctor", "--scheduler", room.address, *mine]) == 0, 60)
        assert mark("a boot")[:8] in capsys.readouterr().out
        assert cli.main(["fleet", "doctor", "--scheduler", room.address]) == 2
        assert cli.main(["fleet", "doctor", "--scheduler", room.address.replace("tls", "tcp")]) == 2
    finally:
        room.close()


@pytest.mark.timeout(420)
def test_two_kernels_are_two_machines_and_one_that_goes_costs_its_own_row(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if packages.architecture() != "amd64":
        pytest.skip("the guest's half knows the system calls of x86-64 only")
    try:
        for name in KERNELS:
            worker.drivers(kernels.get(name))
        qemu.program(packages.architecture())
    except (UnknownKernelError, PackageError, QemuError) as error:  # a guest that breaks fails
        pytest.skip(f"no other kernel can be booted here: {error.what}")
    monkeypatch.setattr(engine, "RETURN_S", 1.0)
    guests = {room.guest(name): name for name in KERNELS}
    with clusters.connect(room.address) as cluster:
        assert wait_until(lambda: set(cluster.workers()) == set(guests) or room.gone(), 240), output(room)
        assert not room.gone(), output(room)
        first = engine.run(worker.KIND, cluster, tmp_path / "out", profile="tiny")
        rows = dict(store.read(first, {}))
        assert first.missing() == {} and len(rows) == 2
        assert {series(row["facts"]["kernel"]) for row in rows.values()} == set(KERNELS)
        for machine, row in rows.items():
            kept = load(first.folder / f"{machine}.result.json")
            assert (
                kept.kind == worker.KIND
                and kept.machine["kernel"] == row["facts"]["kernel"]
                and len(kept.data)
            )

        # In the second round the first guest that is asked is killed while it measures.
        goes: list[str] = []
        ask = engine.Asking._ask

        def kill_soon(
            self: engine.Asking, worker: str, machine: engine.Machine | None, question: Any
        ) -> None:
            ask(self, worker, machine, question)
            if machine and not goes:
                goes.append(machine.name)
                soon_s = min(0.5, rows[machine.name]["duration_s"] / 4)
                threading.Timer(soon_s, room.workers[worker].kill).start()

        monkeypatch.setattr(engine.Asking, "_ask", kill_soon)
        second = engine.run(worker.KIND, cluster, tmp_path / "out", profile="tiny")
    assert second.rows() == set(rows) - set(goes)
    assert second.missing() == {goes[0]: ("vanished", "Its worker went in the middle.")}
    assert set(tables.read(tmp_path / "out").machines["kernel series"]) == set(KERNELS)


def series(kernel: str) -> str:
    return ".".join(kernel.split(".")[:2])


def output(room: Room) -> str:
    """What its processes said last."""
    return (room.folder / "output").read_text(errors="replace")[-3000:]
