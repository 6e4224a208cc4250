"""Jobs about control groups: the library's own groups on a kernel that mounts v2 and nothing else."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sched_labs import cgroups
from sched_labs.workloads.launch import start

_ROOT = Path("/sys/fs/cgroup")


def limited(
    helper: str, quota_us: int = 20_000, period_us: int = 50_000, burst_us: int = 0, ms: int = 500
) -> dict[str, Any]:
    """A worker that never sleeps, under a limit, on the last CPU.

    What the kernel's files said, what it counted, the worker's gaps, and what was left of our groups at the
    end and after a group was left behind on purpose; and the same for ordinary users: in a delegated group,
    and in one that `helper`, a file of the guest, lends.
    """
    cpu = max(os.sched_getaffinity(0))
    before = (_ROOT / "cgroup.subtree_control").read_text().split()
    with (
        cgroups.group(
            "limited", quota_us=quota_us, period_us=period_us, burst_us=burst_us, weight=50, cpus=[cpu]
        ) as group,
        start("burn", ["--workers", "1", "--duration-ms", str(ms)]) as burn,
    ):
        group.add(burn.pid)
        was_in = burn.pid in group.pids()
        first = group.counted()
        records = burn.run()
        answer: dict[str, Any] = {
            "version": group.version,
            "path": group.path,
            "was_in": was_in,
            "limit": list(group.read_limit()),
            "weight": group.read_weight(),
            "cpus": (Path(group.path) / "cpuset.cpus").read_text().strip(),
            "counted": group.counted().since(first)._asdict(),
            "pressure_us": group.pressure_us(),
            "gaps_ns": [r["ns"] for r in records if r.kind == "gap" and r["switches"]],
            "cpu_ns": next(r["cpu_ns"] for r in records if r.kind == "worker"),
            "slice_us": cgroups.slice_us(),
        }
        answer["inside"] = _inside(period_us)
    answer["left"] = [str(path) for path in _ROOT.glob("sched-labs*")]
    answer["switched_on"] = [before, (_ROOT / "cgroup.subtree_control").read_text().split()]
    answer["cleared"] = _left_and_cleared()
    answer["as_user"] = _as_user()
    answer["lent"] = _lent(helper)
    return answer


def _inside(period_us: int) -> list[Any]:
    """The limits of a group within a group, which on v2 may be larger than that of the group it is in."""
    with (
        cgroups.group("outer", quota_us=1000, period_us=period_us) as outer,
        cgroups.group("inner", quota_us=2000, period_us=period_us, inside=outer) as inner,
    ):
        return [list(outer.read_limit()), list(inner.read_limit())]


def _left_and_cleared() -> list[str]:
    """A child that makes a group, goes into it and is killed: what the next program removes."""
    child = os.fork()
    if child == 0:
        entered = cgroups.group("left")
        entered.__enter__()
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    return [*cgroups.clear(), *(str(path) for path in _ROOT.glob("sched-labs*"))]


def _as_user(uid: int = 1000) -> list[str]:
    """The same for an ordinary user, in a group that is theirs, as systemd delegates one (v2): what it read.

    The user's process is in a group inside the delegated one, as under `systemd-run --user --scope`.
    """
    (_ROOT / "cgroup.subtree_control").write_text("+cpu")
    own, scope = _ROOT / "delegated", _ROOT / "delegated" / "scope"
    for folder in (own, scope):
        folder.mkdir()
        for file in (folder, *(folder / name for name in ("cgroup.procs", "cgroup.subtree_control"))):
            os.chown(file, uid, uid)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        (scope / "cgroup.procs").write_text(str(os.getpid()))
        os.setgid(uid)
        os.setuid(uid)
        try:
            with cgroups.group("mine", quota_us=5_000) as group:
                group.add(os.getpid())
                said = f"{group.path} {group.read_limit().quota_us} {os.getpid() in group.pids()}"
            said += " " + Path("/proc/self/cgroup").read_text().strip()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    left = [path.name for path in own.iterdir() if path.is_dir()]
    _wait_until_empty(scope)
    scope.rmdir()
    own.rmdir()
    return [said, *left]


def _wait_until_empty(folder: Path) -> None:
    """The guard of a program that ended without a word looks once more."""
    end = time.monotonic() + 30
    while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
        time.sleep(0.05)


def _lent(helper: str, uid: int = 1000) -> dict[str, Any]:
    """What the privileged helper lends an ordinary user who may write no group.

    What the user's program saw, and what was left when it had ended.
    """
    (_ROOT / "cgroup.subtree_control").write_text("+cpu")
    before = (_ROOT / "cgroup.subtree_control").read_text().split()
    slice_ = _ROOT / "user.slice"
    session = slice_ / "session"
    for folder in (slice_, session):
        folder.mkdir()
    (slice_ / "cpu.max").write_text("50000 100000")
    lender = _load(helper)
    ours, theirs = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        (session / "cgroup.procs").write_text(str(os.getpid()))
        os.write(ours[1], b".")
        os.setgid(uid)
        os.setuid(uid)
        os.read(theirs[0], 1)  # until the group is lent
        os.write(ours[1], json.dumps(_borrow()).encode())
        os._exit(0)
    os.read(ours[0], 1)  # it is in its session
    caller = lender.Caller({})
    caller.uid = caller.gid = uid
    loan = lender.Loan(caller, child)
    folder = Path(loan.lent[0][1])
    lent: dict[str, Any] = {
        "folder": str(folder),
        "lent_to": [folder.stat().st_uid, (folder / "cpu.max").stat().st_uid],
    }
    os.write(theirs[1], b".")
    said: dict[str, Any] = json.loads(os.read(ours[0], 1 << 16))
    os.waitpid(child, 0)
    loan.end()
    left = [str(path) for path in _ROOT.glob("**/sched-labs*")]
    after = (_ROOT / "cgroup.subtree_control").read_text().split()
    lent["switched_off"] = not (slice_ / "cgroup.subtree_control").read_text().split()
    _wait_until_empty(session)
    session.rmdir()
    slice_.rmdir()
    return lent | said | {"left": left, "switched_on": [before, after]}


def _borrow() -> dict[str, Any]:
    """As the user, from inside the group that was lent."""
    try:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
        with cgroups.group("mine", quota_us=5_000, cpus=[0]) as group:
            group.add(child.pid)
            said = {
                "path": group.path,
                "limit": list(group.read_limit()),
                "inside": child.pid in group.pids(),
                "cpus": (Path(group.path) / "cpuset.cpus").read_text().strip(),
            }
        child.kill()
        child.wait()
        return said
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _load(path: str) -> Any:
    """The helper's code: a program whose name is no module's."""
    loader = importlib.machinery.SourceFileLoader("lender", path)
    spec = importlib.util.spec_from_loader("lender", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
