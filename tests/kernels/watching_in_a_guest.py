"""What runs in the guests of test_kernels_watching.py: a program under a limit, watched."""

from __future__ import annotations

from typing import Any

from sched_labs import workloads
from sched_labs.limits import cgroups
from sched_labs.watching import report
from sched_labs.watching.program import observe
from sched_labs.watching.target import Processes

LASTS_MS = "600000"  # the guest ends with the job


class Held(Processes):
    """A workload that begins with the window: while probes are attached an emulated CPU may stand still for
    seconds, and a limit would count that as use.
    """

    def __init__(self, workload: workloads.Workload) -> None:
        super().__init__([workload.pid])
        self._workload = workload

    def begin(self) -> None:
        self._workload.go()


def limited(seconds: float, stacks: bool) -> dict[str, Any]:
    """Two threads that never sleep, in a group inside one that may use a fifth of a CPU."""
    with (
        cgroups.group("tenant", quota_us=20_000) as tenant,
        cgroups.group("server", inside=tenant) as server,
        workloads.start("burn", ["--workers", "2", "--duration-ms", LASTS_MS], deadline_s=600) as busy,
    ):
        server.add(busy.pid)
        result = observe(Held(busy), seconds, stacks=stacks, timeline=True, progress=False)
        return {
            "version": tenant.version,
            "limited": tenant.path.removeprefix("/sys/fs/cgroup"),
            "text": report.text(result),
            "findings": result.records("findings"),
            "facts": result.facts,
            "tables": sorted(result.tables),
            "missing": [note.text for note in result.notes if note.level == "missing"],
        }
