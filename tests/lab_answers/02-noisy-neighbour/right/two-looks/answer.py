"""Ticks of every thread between two looks, where it ran on the service's CPU at both."""

import time
from pathlib import Path


def look(pid):
    found = {}
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        fields = stat.read_text().rpartition(")")[2].split()
        found[stat] = (int(fields[11]) + int(fields[12]), fields[36])
    return found


def find(service_tid, neighbours):
    cpu = Path(f"/proc/{service_tid}/stat").read_text().rpartition(")")[2].split()[36]
    before = {pid: look(pid) for pid in neighbours}
    time.sleep(1)

    def used(pid):
        return sum(
            ticks - before[pid][thread][0]
            for thread, (ticks, where) in look(pid).items()
            if where == before[pid][thread][1] == cpu
        )

    return max(neighbours, key=used)
