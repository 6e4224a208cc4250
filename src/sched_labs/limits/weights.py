"""What threads and groups weigh against each other, in every scale that weights are written in.

    from sched_labs.limits import weights
    weights.share(weights.of_nice(19))     # of a CPU, beside one of nice 0: 0.014
    weights.conversions([1024])            # cpu.shares in cpu.weight, by everybody who translates
    weights.neighbours()                   # this machine's sessions and control groups, against our own

The scheduler's own scale is that of cpu.shares: nice 0 and a new group weigh 1,024.  It weighs groups first,
and threads within a group.  Sources: kernel/sched/core.c (sched_prio_to_weight), kernel/sched/sched.h
(sched_weight_from_cgroup, in core.c before 6.12) and autogroup.c, Linux 5.10 to 7.3; the kubelet's
MilliCPUToShares; ConvertCPUSharesToCgroupV2Value of opencontainers/cgroups, which runc writes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from ..core.errors import ParameterError
from ..machine import files
from ..machine.cgroup import Hierarchy, hierarchy, lineage
from ..machine.seen import Seen

NICE_0 = 1024
IDLE = 3  # a SCHED_IDLE thread, and a group with cpu.idle = 1 (WEIGHT_IDLEPRIO)
LEAST_SHARES, MOST_SHARES = 2, 1 << 18
_OF_NICE = (
    *(88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916),
    *(9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277),
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the flags of /proc/PID/stat
_LONGEST_NAME = 32


def of_nice(nice: int) -> int:
    """What a thread of this nice value weighs, -20 to 19; and a session whose autogroup has it."""
    if not -20 <= nice <= 19:
        raise ParameterError(f"There is no nice value {nice!r}.", "Nice values go from -20 to 19.")
    return _OF_NICE[nice + 20]


def share(weight: float, beside: float = NICE_0) -> float:
    """The part of a CPU that it gets beside one other that wants the CPU all the time, too."""
    return weight / (weight + beside)


def from_cgroup(weight: int) -> int:
    """What the kernel makes of cpu.weight, 1 to 10,000: the weight that it schedules with."""
    if not 1 <= weight <= 10_000:
        raise ParameterError(f"cpu.weight takes 1 to 10,000, not {weight!r}.")
    return (weight * NICE_0 + 50) // 100


def runtime_linear(shares: int) -> int:
    """The cpu.weight that runc before 1.3.2 and crun before 1.23 write for cpu.shares: range onto range."""
    return 1 + (_shares(shares) - LEAST_SHARES) * 9999 // 262142


def runtime_quadratic(shares: int) -> int:
    """The cpu.weight that later ones write: default onto default, and both ends of the range onto theirs."""
    if _shares(shares) == LEAST_SHARES:
        return 1
    if shares == MOST_SHARES:
        return 10_000
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


def kubernetes_shares(millicores: int) -> int:
    """The cpu.shares of a container that requests so many thousandths of a CPU."""
    return min(max(LEAST_SHARES, millicores * NICE_0 // 1000), MOST_SHARES)


def _shares(shares: int) -> int:
    if not LEAST_SHARES <= shares <= MOST_SHARES:
        raise ParameterError(f"cpu.shares takes {LEAST_SHARES} to {MOST_SHARES:,}, not {shares!r}.")
    return shares


def conversions(millicores: Sequence[int]) -> pd.DataFrame:
    """What a container that requests CPU weighs, by who translates; one row per request.

    millicores     requested, in thousandths of a CPU
    shares         cpu.shares of cgroup v1
    weight_linear, weight_quadratic     cpu.weight of cgroup v2, by older and by later container runtimes
    linear_percent, quadratic_percent   of a CPU, beside a group of the default weight, as a service has it
    """
    rows = []
    for request in millicores:
        shares = kubernetes_shares(request)
        linear, quadratic = runtime_linear(shares), runtime_quadratic(shares)
        rows.append(
            {
                "millicores": request,
                "shares": shares,
                "weight_linear": linear,
                "weight_quadratic": quadratic,
                "linear_percent": 100 * share(from_cgroup(linear)),
                "quadratic_percent": 100 * share(from_cgroup(quadratic)),
            }
        )
    return pd.DataFrame(rows)


# ---- this machine's groups ----


class _Step(NamedTuple):
    """A task group on the way from the topmost one down to a thread."""

    key: str
    kind: str
    weight: int


def neighbours() -> pd.DataFrame:
    """The task groups of this machine that have processes, and what each is worth against our own.

    kind           session (its autogroup), control group, or no group: threads that stand in the topmost one
    name           a session's first program where it is this user's; the end of a control group's path
    yours          whether this process is in it
    weight         in the scheduler's scale: 1,024 for a new one; of threads without a group, each one's
    processes      how many this user can see in it
    share_percent  what one busy thread of it gets of a CPU, beside one busy thread of ours: where the two
                   ways part, the weights there are held against each other

    Nested groups are compared where their ways part.  All nice values count as 0.
    """
    seen = Seen()
    own = _way(seen, "self")
    found: dict[tuple[str, ...], list[int]] = {}
    ways: dict[tuple[str, ...], list[_Step]] = {}
    for name in files.names("/proc"):
        if not name.isdigit() or (way := _way(seen, int(name))) is None:
            continue
        key = tuple(step.key for step in way)
        ways[key] = way
        found.setdefault(key, []).append(int(name))
    rows = [
        {
            "kind": way[-1].kind if way else "no group",
            "name": _name(way, found[key]),
            "yours": own is not None and key == tuple(step.key for step in own),
            "weight": way[-1].weight if way else NICE_0,
            "processes": len(found[key]),
            "share_percent": 100 * _against(way, own or []),
        }
        for key, way in ways.items()
    ]
    columns = ["kind", "name", "yours", "weight", "processes", "share_percent"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["share_percent", "processes"], ascending=False, ignore_index=True)


def _way(seen: Seen, process: int | str) -> list[_Step] | None:
    """The task groups around a process, from the outermost on; None where that cannot be read."""
    here = hierarchy(seen, "cpu", process)
    if here is not None and here.group is None:
        return None  # it ended meanwhile, or its group is outside of what this container sees
    steps = [_Step(folder, "control group", _weight(folder, here)) for folder in _groups(here)]
    if not steps and files.read("/proc/sys/kernel/sched_autogroup_enabled") == "1":
        words = (files.read(f"/proc/{process}/autogroup") or "").split()
        if len(words) == 3:
            steps.append(_Step(words[0], "session", of_nice(int(words[2]))))
    return steps


def _groups(here: Hierarchy | None) -> list[str]:
    """The folders around a process that are task groups: those with the cpu controller, without the root's.

    The root of a whole v2 tree has no cpu.weight; what a container sees as the root has one.
    """
    if here is None:
        return []
    if here.version == "v2":
        return [folder for folder in reversed(lineage(here)) if files.exists(f"{folder}/cpu.weight")]
    return [folder for folder in reversed(lineage(here)) if folder != here.mount]


def _weight(folder: str, here: Hierarchy | None) -> int:
    if files.read(f"{folder}/cpu.idle") == "1":
        return IDLE
    if here and here.version == "v2":
        return from_cgroup(files.number(f"{folder}/cpu.weight") or 100)
    return files.number(f"{folder}/cpu.shares") or NICE_0


def _against(way: Sequence[_Step], own: Sequence[_Step]) -> float:
    """Its share beside ours: the weights of the two groups, or bare threads, below the last common group."""
    common = 0
    while common < min(len(way), len(own)) and way[common].key == own[common].key:
        common += 1
    theirs, ours = (steps[common].weight if common < len(steps) else NICE_0 for steps in (way, own))
    return share(theirs, ours)


def _name(way: Sequence[_Step], pids: Sequence[int]) -> str:
    if way and way[-1].kind == "control group":
        name = "/".join(way[-1].key.split("/")[-2:])
        return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    kernel = [pid for pid in pids if _flags(pid) & _KERNEL_THREAD]
    if not way:
        return "threads of the kernel" if len(kernel) == len(pids) else "threads, each by itself"
    first = min(pids)
    status = (files.read(f"/proc/{first}/status") or "").splitlines()
    owner = next((line.split()[1] for line in status if line.startswith("Uid:")), "")
    if owner != str(os.getuid()):
        return "another user's"
    return (files.read(f"/proc/{first}/comm") or "").strip() or "a program"


def _flags(pid: int) -> int:
    words = (files.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(words[6]) if len(words) > 6 else 0
