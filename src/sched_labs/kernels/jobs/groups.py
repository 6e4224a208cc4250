"""Jobs about control groups: the library's own groups on a kernel that mounts v2 and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...limits import cgroups
from ...workloads.launch import start
from . import lending

_ROOT = Path("/sys/fs/cgroup")


def limited(
    quota_us: int = 20_000, period_us: int = 50_000, burst_us: int = 0, ms: int = 500
) -> dict[str, Any]:
    """A worker that never sleeps, under a limit, on the last CPU.

    What the kernel's files said, what it counted, the worker's gaps, and what was left of our groups at the
    end and after a group was left behind on purpose; and the same for ordinary users: in a delegated group,
    and in one that the privileged helper lends, or does not.
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
    answer["lent"] = lending.lent()
    answer["refused"] = lending.refused()
    answer["given_back"] = lending.given_back()
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
    lending.wait_until_empty(scope)
    scope.rmdir()
    own.rmdir()
    return [said, *left]
