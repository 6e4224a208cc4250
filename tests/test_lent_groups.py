"""The privileged helper lends an ordinary user a control group, and takes everything away again.

On v2 the same is tested in a guest, beside the library's own groups (test_cgroups.py).
Those who mean it no good get their group from the program itself, started as sudo starts it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adversary
import pytest
from sandbox import REPOSITORY, Sandbox, sandbox

from sched_labs.limits import cgroups
from sched_labs.probes import channel
from sched_labs.probes.helper import lending, protocol

PROVISION = REPOSITORY / "scripts/provision.sh"

CLIENT = """
import json, os, subprocess
from pathlib import Path
from sched_labs import cgroups
from sched_labs.core.errors import SchedLabError
own = Path("/proc/self/cgroup")
said = {"before": own.read_text()}
child = subprocess.Popen(["sleep", "60"])
try:
    with cgroups.group("mine", quota_us=5_000, cpus=[max(os.sched_getaffinity(0))]) as group:
        group.add(child.pid)
        said["path"], said["limit"] = group.path, list(group.read_limit())
        said["inside"] = child.pid in group.pids()
        said["counted"] = list(group.counted())
        with cgroups.group("inner", quota_us=2_000, inside=group if group.version == "v1" else None) as inner:
            said["inner"] = inner.path
    folders = [str(folder) for folder, _ in cgroups.left_behind()]
    said["left"] = [folder for folder in folders if f"/{os.getpid()}." in folder]
    above = group.path.partition("sched-labs-loan")[0]
    said["refused"] = []
    loan = Path(above) / Path(group.path[len(above):]).parts[0]
    for file in ("cpu.max", "cpu.cfs_quota_us", "cpu.weight", "cpu.shares"):
        if (loan / file).exists():
            try:
                (loan / file).write_text("100")
            except PermissionError:
                said["refused"].append(file)
            else:
                said["refused"].append(file + " TAKEN")
    cgroups.loan.Loan._channel.close()
    said["after"] = own.read_text()
except SchedLabError as error:
    said["error"] = f"{type(error).__name__}: {error}"
child.kill()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Sandbox]:
    able, why = cgroups.possible()
    if not able or os.getuid() != 0:
        pytest.skip(why or "only root can add users")
    try:
        with sandbox() as covered:
            if covered.run("sh", "-c", "command -v sudo && command -v visudo").returncode:
                pytest.skip("sudo is not installed (scripts/provision.sh --tests installs it)")
            yield covered
    except RuntimeError as error:
        pytest.skip(str(error))


def client(machine: Sandbox, user: int) -> dict[str, Any]:
    done = machine.python(CLIENT, user=user)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def loans(user: int) -> list[str]:
    return [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/sched-labs-loan-{user}-*")]


def gone(user: int) -> bool:
    end = time.monotonic() + 15
    while loans(user) and time.monotonic() < end:
        time.sleep(0.05)
    return not loans(user)


def test_with_the_rule_and_without(machine: Sandbox) -> None:
    allowed, stranger = machine.add_user("slgroups"), machine.add_user("slnogroups")
    machine.run(PROVISION, "--user", "slgroups")
    said = client(machine, allowed)
    assert "error" not in said, said
    assert f"/sched-labs-loan-{allowed}-" in said["path"] and said["limit"] == [5_000, 100_000, 0]
    assert said["inside"] and said["left"] == [] and said["path"] != said["inner"]
    # What it was lent it cannot widen: the limits of the loan itself are root's.
    assert said["refused"] and not [name for name in said["refused"] if "TAKEN" in name]
    assert said["before"] == said["after"]
    assert gone(allowed)

    said = client(machine, stranger)
    assert said["error"].startswith("PlacementError: No control group can be made")
    assert "provision.sh" in said["error"] and not loans(stranger)


def test_a_killed_program_leaves_no_loan(machine: Sandbox) -> None:
    user = machine.add_user("slkilled")
    machine.run(PROVISION, "--user", "slkilled")
    code = (
        "import os, subprocess\nfrom sched_labs import cgroups\n"
        "entered = cgroups.group('k', quota_us=5_000)\ngroup = entered.__enter__()\n"
        "child = subprocess.Popen(['sleep', '2'])\ngroup.add(child.pid)\n"
        "print(group.path, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = machine.python(code, user=user)
    assert "sched-labs-loan" in done.stdout, done.stderr
    assert gone(user)


# ---- whoever means it no good ------------------------------------------------------------------------------


lends = pytest.mark.skipif(
    os.geteuid() != 0 or not cgroups.possible()[0], reason="only root can lend a group, where it can make one"
)


def test_a_request_holds_what_is_asked_for_and_no_more() -> None:
    good = {"version": protocol.VERSION, "pid": os.getpid(), "duration_s": 1}
    for wrong in ({"pid": 0}, {"pid": [1]}, {"duration_s": 1e9}, {"version": 3}, {"folder": "/sys"}):
        with adversary.helper({**good, **wrong}, program=channel.LEND) as helper:
            assert helper.read()["record"] == "error"


@pytest.mark.skipif(os.geteuid() != 0, reason="it is root that is told so")
def test_root_gets_none() -> None:
    request = {"pid": os.getpid(), "duration_s": 1}
    with adversary.helper(request, program=channel.LEND, uid=0) as helper:
        assert "Root needs no group" in helper.read()["what"]


class Borrower:
    """A program of the user's in a group that was lent to it."""

    def __init__(self, code: str, duration_s: float, **options: Any) -> None:
        self.process = subprocess.Popen(
            [channel.PYTHON, "-I", "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            user=adversary.NOBODY, group=adversary.NOBODY, cwd="/", start_new_session=True,
        )  # fmt: skip
        self.before = self.groups
        request = {"pid": self.process.pid, "duration_s": duration_s}
        self.context = adversary.helper(request, program=channel.LEND, **options)
        self.helper = self.context.__enter__()
        self.answer = self.helper.read()

    @property
    def groups(self) -> str:
        return Path(f"/proc/{self.process.pid}/cgroup").read_text()

    @property
    def folders(self) -> list[Path]:
        return [Path(folder) for folder in self.answer["folders"]]

    def is_lent(self) -> bool:
        return all(folder.is_dir() for folder in self.folders) and "sched-labs-loan" in self.groups

    def has_given_back(self) -> bool:
        return not any(folder.exists() for folder in self.folders) and self.groups == self.before

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            while True:  # a chain of forks, too: one call kills all that are there
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.poll()
        self.process.wait()
        self.context.__exit__(None, None, None)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()


@contextlib.contextmanager
def borrower(
    code: str = "import time; time.sleep(600)", duration_s: float = 600, **options: Any
) -> Iterator[Borrower]:
    found = Borrower(code, duration_s, **options)
    try:
        yield found
    finally:
        found.end()


@lends
@pytest.mark.parametrize(
    "name",
    ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "TSTP", "TTIN", "RTMIN"],
)
def test_every_signal_gives_the_group_back(name: str) -> None:
    with borrower() as mine:
        assert mine.is_lent()
        mine.helper.process.send_signal(signal.SIGWINCH)  # ends nothing
        mine.helper.process.send_signal(getattr(signal, f"SIG{name}"))
        assert mine.helper.process.wait(30) == 0
        assert mine.has_given_back() and mine.process.poll() is None


@lends
def test_the_time_is_over_for_who_ignores_every_signal() -> None:
    def ignore() -> None:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    with borrower(duration_s=0.5, preexec_fn=ignore) as mine:
        assert mine.helper.process.wait(30) == 0
        assert mine.has_given_back()


@lends
def test_a_limit_on_cpu_time_does_not_reach_the_lender() -> None:
    """It would be killed without a chance to give back: its own limit is lifted, or it lends nothing."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (2, 2))  # noqa: E731
    with borrower(preexec_fn=limit) as mine:
        if mine.answer["record"] == "error":
            assert "limit on its CPU time" in mine.answer["what"] and mine.groups == mine.before
        else:
            limits = Path(f"/proc/{mine.helper.process.pid}/limits").read_text()
            own = next(line for line in limits.splitlines() if line.startswith("Max cpu time"))
            assert own.split()[3:5] == ["unlimited"] * 2 and mine.is_lent()


# A chain of processes none of which lives long, many that stay, and groups made faster than they are removed.
# It ends by itself: a suite that is killed leaves it, and no kill of single processes catches it.
UNWILLING = """
import os, signal, sys, time
folders = sys.stdin.readline().split()
end = time.monotonic() + 60
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
for _ in range(20):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
if os.fork() == 0:
    while time.monotonic() < end and os.fork() == 0:
        pass
    os._exit(0)
if os.fork() == 0:
    number = 0
    while time.monotonic() < end:
        number += 1
        for folder in folders:
            try:
                os.mkdir(f"{folder}/more-{number % 100}")
            except OSError:
                pass
    os._exit(0)
print("unwilling", flush=True)
time.sleep(60)
"""


@lends
def test_a_group_full_of_the_unwilling_is_given_back() -> None:
    with borrower(UNWILLING) as mine:
        assert mine.process.stdin and mine.process.stdout
        mine.process.stdin.write(" ".join(map(str, mine.folders)) + "\n")
        assert mine.process.stdout.readline() == "unwilling\n"
        time.sleep(0.2)
        assert mine.is_lent()
        mine.helper.close()
        assert mine.has_given_back() and mine.process.poll() is None


@lends
def test_when_the_borrower_is_killed_its_children_go_back() -> None:
    code = "import os, time\nchild = os.fork()\nif child: print(child, flush=True)\ntime.sleep(600)"
    with borrower(code) as mine:
        assert mine.process.stdout
        child = int(mine.process.stdout.readline())
        mine.process.kill()
        assert mine.helper.process.wait(30) == 0
        assert not any(folder.exists() for folder in mine.folders)
        assert Path(f"/proc/{child}/cgroup").read_text() == mine.before


def place_of(folder: str) -> lending.Place:
    found = [lending.Place(*each) for each in protocol.hierarchies(("cpu",))]
    return next(place for place in found if folder.startswith(place.mount))


@lends
def test_a_stranger_who_got_the_number_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process ends between the look at its pidfd and the move: the kernel moves who has its number then."""
    stranger = subprocess.Popen(["sleep", "600"])
    before = Path(f"/proc/{stranger.pid}/cgroup").read_text()
    pidfd = os.pidfd_open(os.getpid())  # of whoever: it says that it has ended in the middle
    answers = iter([False, True])
    monkeypatch.setattr(lending, "ended", lambda pidfd: next(answers))
    try:
        with cgroups.group("strangers") as group:
            assert not place_of(group.path).move(pidfd, stranger.pid, group.path)
            assert Path(f"/proc/{stranger.pid}/cgroup").read_text() == before and not group.pids()
    finally:
        os.close(pidfd)
        stranger.kill()
        stranger.wait()


@lends
def test_whoever_is_not_in_the_group_is_left_alone() -> None:
    with cgroups.group("mine") as mine, cgroups.group("other") as other:
        stranger = subprocess.Popen(["sleep", "600"])
        try:
            other.add(stranger.pid)
            for kill in (False, True):
                lending.send_back(place_of(mine.path), stranger.pid, mine.path, mine.path, kill=kill)
            assert stranger.poll() is None and other.pids() == [stranger.pid]
        finally:
            stranger.kill()
            stranger.wait()


def test_a_group_beside_one_with_settings_is_refused(tmp_path: Path) -> None:
    group = tmp_path / "session"
    group.mkdir()
    place = lending.Place(str(tmp_path), False, ["cpu"])
    new = {
        "cpu.max": "max 100000\n",
        "cpu.weight": "100\n",
        "cpuset.cpus": "\n",
        "io.max": "",
        "pids.max": "max\n",
    }
    for name, text in new.items():
        (group / name).write_text(text)
    assert place.above(str(group)) == str(tmp_path)
    for name, text in (
        ("cpu.max", "1000 100000\n"), ("cpu.weight", "1\n"), ("cpuset.cpus", "0\n"), ("pids.max", "100\n"),
        ("memory.high", "1048576\n"), ("io.max", "8:0 rbps=1 wbps=max\n"), ("cgroup.max.depth", "3\n"),
    ):  # fmt: skip
        (group / name).write_text(text)
        with pytest.raises(protocol.Refused, match=name):
            place.above(str(group))
        (group / name).write_text(new.get(name, "max\n"))
    assert lending.Place(str(tmp_path), True, ["cpu"]).above(str(group)) == str(group)  # inside, on version 1


def test_a_group_out_of_sight_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = lending.Place(str(tmp_path), False, ["cpu"])
    for path in (None, "/elsewhere", "/../../system.slice"):
        monkeypatch.setattr(protocol, "group_path", lambda pid, controller, path=path: path)
        with pytest.raises(protocol.Refused, match="cannot be seen"):
            place.group_of(os.getpid())
