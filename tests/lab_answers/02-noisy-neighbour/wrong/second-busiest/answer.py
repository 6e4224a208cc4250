"""The busiest is not the one; so it is the next."""

from pathlib import Path


def find(service_tid, neighbours):
    def cpu_ticks(pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return sorted(neighbours, key=cpu_ticks)[-2]
