"""What runs in the guest of throttling.py: experiments, one after the other, and cpuset partitions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sched_labs import workloads
from sched_labs.core.errors import PlacementError
from sched_labs.kernels.jobs import experiment
from sched_labs.limits import cgroups

ROOT = Path("/sys/fs/cgroup")


def measure(wanted: list[Any], partitions: bool) -> dict[str, Any]:
    start, results = workloads.start, {}
    for kind, module, name, parameters in wanted:
        given = {"profile": "tiny", "progress": False, **parameters}
        results[kind] = experiment.measure(module, name, given)
        workloads.start = start
    said = {kind: partition(kind, [1]) for kind in ("root", "isolated")} if partitions else {}
    if partitions:
        said["all"] = partition("root", [0, 1])
    return {"results": results, "partitions": said, "left": [str(path) for path in ROOT.glob("sched-labs*")]}


def partition(kind: str, cpus: list[int]) -> dict[str, Any]:
    """What a partition of these CPUs is, which CPUs the root group has beside it, and where we may run."""
    said: dict[str, Any] = {}
    try:
        with cgroups.group("apart", cpus=cpus) as group:
            group.partition(kind)
            said["state"] = (Path(group.path) / "cpuset.cpus.partition").read_text().strip()
            said["outside"] = (ROOT / "cpuset.cpus.effective").read_text().strip()
            said["moved"] = sorted(os.sched_getaffinity(0))
    except PlacementError as error:
        said["error"] = str(error)
    said["after"] = (ROOT / "cpuset.cpus.effective").read_text().strip()
    return said
