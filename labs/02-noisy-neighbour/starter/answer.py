"""Your answer: who takes the CPU from the service?"""

from pathlib import Path


def find(service_tid: int, neighbours: list[int]) -> int:
    """The process id of the neighbour.  This one names the busiest; that is not it."""

    def cpu_ticks(pid: int) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return max(neighbours, key=cpu_ticks)
