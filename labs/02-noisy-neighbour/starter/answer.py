"""Your answer: who takes the CPU from the service?"""


def find(service_tid: int, neighbours: list[int]) -> int:
    """The process id of the neighbour.  This one names the busiest; that is not it."""

    def cpu_ticks(pid: int) -> int:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return max(neighbours, key=cpu_ticks)
