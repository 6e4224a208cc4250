"""Who may run where the service may, and uses most CPU time."""

import os
from pathlib import Path


def find(service_tid, neighbours):
    cpus = os.sched_getaffinity(service_tid)

    def used(pid):
        return sum(
            int((task / "schedstat").read_text().split()[0])
            for task in Path(f"/proc/{pid}/task").iterdir()
            if os.sched_getaffinity(int(task.name)) == cpus
        )

    return max(neighbours, key=used)
