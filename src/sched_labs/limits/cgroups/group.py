"""One control group, in the kernel's own units: its limit, weight and CPUs, and what was counted for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...core.errors import ParameterError, PlacementError
from ...machine import files
from ...machine.cgroup import hierarchy
from ...machine.seen import Seen
from .kernelfiles import WHICH_PARTITION, read, write

PERIOD_US = 100_000  # what the kernel gives a new group
LEAST_US, LONGEST_PERIOD_US = 1_000, 1_000_000  # of quota and period, as the kernel has them
WEIGHT, SHARES = 100, 1024  # what a new group has, in v2's and in v1's scale
PARTITIONS = ("root", "isolated")
SLICE = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us"


class Limit(NamedTuple):
    """What a group may use: quota_us (None: no limit) in every period_us, and burst_us saved up beyond it."""

    quota_us: int | None
    period_us: int
    burst_us: int


class Counted(NamedTuple):
    """What the kernel counted for a group.

    periods              in which the group had something to run under a quota
    throttled_periods    of them, those in which it ran out of quota
    throttled_ns         how long, summed over the CPUs that were held back
    bursts, burst_ns     periods that used saved-up quota, and how much; None before 5.14
    """

    periods: int
    throttled_periods: int
    throttled_ns: int
    bursts: int | None
    burst_ns: int | None

    def since(self, before: Counted) -> Counted:
        """What was added since an earlier look."""
        return Counted(
            *(
                None if now is None or then is None else now - then
                for now, then in zip(self, before, strict=True)
            )  # type: ignore[arg-type]
        )


class Group:
    """One group: its folder, and on v1 its folder in the cpuset hierarchy where it has CPUs of its own."""

    def __init__(self, path: str, version: str, cpuset_path: str | None = None) -> None:
        self.path = path
        self.version = version
        self.cpuset_path = path if version == "v2" else cpuset_path

    def __repr__(self) -> str:
        return f"<Group {self.path} ({self.version})>"

    @property
    def folders(self) -> list[str]:
        """Where a process has to be written to be in this group."""
        return list(dict.fromkeys(folder for folder in (self.path, self.cpuset_path) if folder))

    # ---- limits ----

    def limit(self, quota_us: int | None, period_us: int = PERIOD_US, burst_us: int = 0) -> None:
        """Let the group use `quota_us` of CPU time in every `period_us`; None takes the limit away.

        burst_us   how much unused quota it may save up for later periods, at most the quota; from kernel 5.14
        Raises ParameterError, naming the file and its range, and PlacementError for what the kernel refuses.
        """
        check_limit(quota_us, period_us, burst_us, self.version)
        burst = self._file("cpu.max.burst", "cpu.cfs_burst_us")
        if files.exists(burst):
            write(burst, "0")  # the kernel refuses a quota below the burst that is set
        if self.version == "v2":
            write(f"{self.path}/cpu.max", f"{'max' if quota_us is None else quota_us} {period_us}")
        else:
            # Each file is checked with the other's present value: without a quota any period passes.
            write(f"{self.path}/cpu.cfs_quota_us", "-1")
            write(f"{self.path}/cpu.cfs_period_us", str(period_us))
            if quota_us is not None:
                write(f"{self.path}/cpu.cfs_quota_us", str(quota_us))
        if burst_us:
            write(burst, str(burst_us))

    @property
    def can_burst(self) -> bool:
        """Whether the kernel lets it save quota up for later periods."""
        return files.exists(self._file("cpu.max.burst", "cpu.cfs_burst_us"))

    def read_limit(self) -> Limit:
        """The limit as the kernel has it."""
        burst = files.number(self._file("cpu.max.burst", "cpu.cfs_burst_us")) or 0
        if self.version == "v2":
            quota, period = read(f"{self.path}/cpu.max").split()
        else:
            quota, period = read(f"{self.path}/cpu.cfs_quota_us"), read(f"{self.path}/cpu.cfs_period_us")
        return Limit(None if quota in ("max", "-1") else int(quota), int(period), burst)

    def weigh(self, weight: int) -> None:
        """How much of a busy CPU the group gets beside its neighbours, who have 100: 1 to 10,000."""
        if not 1 <= weight <= 10_000:
            raise ParameterError(
                f"{self._file('cpu.weight', 'cpu.shares')} takes a weight from 1 to 10,000, not {weight}.",
                f"A group without a weight has {WEIGHT}.",
            )
        if self.version == "v2":
            write(f"{self.path}/cpu.weight", str(weight))
        else:
            write(f"{self.path}/cpu.shares", str(max(2, round(weight * SHARES / WEIGHT))))

    def read_weight(self) -> int:
        """The weight in v2's scale."""
        if self.version == "v2":
            return int(read(f"{self.path}/cpu.weight"))
        return round(int(read(f"{self.path}/cpu.shares")) * WEIGHT / SHARES)

    def give_way(self) -> None:
        """Let the group have only CPU time that others leave (cpu.idle, from 5.15; the same name on v1)."""
        path = f"{self.path}/cpu.idle"
        if not files.exists(path):
            raise PlacementError(f"{path} is not there.", "It came with Linux 5.15.")
        write(path, "1")

    def confine(self, cpus: Sequence[int]) -> None:
        """Let the group run on these CPUs only.  Raises PlacementError where it has no cpuset controller."""
        if not self.cpuset_path or not files.exists(f"{self.cpuset_path}/cpuset.cpus"):
            raise PlacementError(
                f"{self.path} has no cpuset controller.", "Make the group with cpus=, where it is mounted."
            )
        if not cpus:
            raise ParameterError(f"{self.cpuset_path}/cpuset.cpus takes at least one CPU.")
        write(f"{self.cpuset_path}/cpuset.cpus", files.cpu_ranges(list(cpus)))

    def isolate(self) -> None:
        """Take the group's CPUs away from everybody else, and from load balancing: an isolated partition."""
        self.partition("isolated")

    def partition(self, kind: str) -> None:
        """Take the group's CPUs away from everybody else: as a "root", or "isolated" from load balancing too.

        The group has CPUs of its own already (`confine`).  Raises PlacementError, with the kernel's reason,
        on v1, on kernels that allow it only directly below the root group (before 6.7), beside isolcpus,
        and where others need the CPUs.
        """
        if kind not in PARTITIONS:
            raise ParameterError(
                f"cpuset.cpus.partition does not take {kind!r}.", f"Give one of: {', '.join(PARTITIONS)}."
            )
        if (files.read("/sys/devices/system/cpu/isolated") or "").strip():
            # Seen on Linux 6.12: the kernel can crash when partitions are made beside isolcpus.
            raise PlacementError(
                "This kernel was booted with isolcpus, and partitions do not go together with it.",
                "Boot without isolcpus.",
            )
        path = f"{self.cpuset_path}/cpuset.cpus.partition"
        if self.version != "v2" or not files.exists(path):
            raise PlacementError(
                "Partitions came with cgroup v2 and Linux 5.0, and the cgroups here have none.",
                "Boot a kernel that has them, with cgroup v2.",
            )
        cpus = read(f"{self.path}/cpuset.cpus")
        for folder in (self.path.rpartition("/")[0], self.path):
            if files.exists(f"{folder}/cpuset.cpus.exclusive"):
                write(f"{folder}/cpuset.cpus.exclusive", cpus)
        write(path, kind)
        if (state := read(path)) != kind:
            raise PlacementError(
                f"{path} does not take {kind!r} for CPUs {cpus}; it says: {state}.", WHICH_PARTITION
            )

    # ---- processes ----

    def add(self, pid: int) -> None:
        """Move a process with all its threads into the group; what it forks from now on is in it too."""
        for folder in self.folders:
            write(f"{folder}/cgroup.procs", str(pid))

    def pids(self) -> list[int]:
        """The processes that are in the group."""
        return [int(word) for word in (files.read(f"{self.path}/cgroup.procs") or "").split()]

    # ---- what the kernel counted ----

    def counted(self) -> Counted:
        """The numbers of cpu.stat since the group was made, times in ns on both versions."""
        path = f"{self.path}/cpu.stat"
        return parse_counted(read(path), path)

    def stat_fields(self) -> list[str]:
        """What this kernel calls the numbers in cpu.stat."""
        return [line.partition(" ")[0] for line in read(f"{self.path}/cpu.stat").splitlines()]

    def pressure_us(self) -> dict[str, int] | None:
        """Time in µs in which some, or all, of the group's runnable threads waited for a CPU (cpu.pressure).

        None on v1, which has no pressure by group, and on kernels without it.
        """
        text = files.read(f"{self.path}/cpu.pressure")
        return parse_pressure(text) if text else None

    def _file(self, v2: str, v1: str) -> str:
        return f"{self.path}/{v2 if self.version == 'v2' else v1}"


def check_limit(quota_us: int | None, period_us: int, burst_us: int, version: str | None = None) -> None:
    """Raises ParameterError for a limit that no kernel takes, naming the file and its range.

    version   of control groups, whose files are named: v1 or v2; None: the one that steers the CPU here
    """
    if version is None:
        here = hierarchy(Seen(), "cpu")
        version = here.version if here else "v2"
    v2 = version == "v2"
    if not LEAST_US <= period_us <= LONGEST_PERIOD_US:
        raise ParameterError(
            f"{'cpu.max' if v2 else 'cpu.cfs_period_us'} takes a period from {LEAST_US:,} to "
            f"{LONGEST_PERIOD_US:,} µs, not {period_us:,}.",
            f"A group without one has {PERIOD_US:,} µs.",
        )
    if quota_us is not None and quota_us < LEAST_US:
        raise ParameterError(
            f"{'cpu.max' if v2 else 'cpu.cfs_quota_us'} takes a quota of {LEAST_US:,} µs or more, "
            f"not {quota_us:,}.",
            "Choose a longer period for a smaller share.",
        )
    if not 0 <= burst_us <= (quota_us or 0):
        raise ParameterError(
            f"{'cpu.max.burst' if v2 else 'cpu.cfs_burst_us'} takes 0 µs up to the quota "
            f"({'none is set' if quota_us is None else f'{quota_us:,} µs'}), not {burst_us:,}."
        )


def parse_counted(text: str, path: str = "cpu.stat") -> Counted:
    """cpu.stat of either version.  Raises PlacementError for a file that counts no periods."""
    values = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        values[name] = int(number)
    try:
        micro = "throttled_usec" in values
        return Counted(
            values["nr_periods"],
            values["nr_throttled"],
            values["throttled_usec"] * 1000 if micro else values["throttled_time"],
            values.get("nr_bursts"),
            values["burst_usec"] * 1000 if "burst_usec" in values else values.get("burst_time"),
        )
    except KeyError as missing:
        raise PlacementError(
            f"{path} has no {missing.args[0]}.", "The cpu controller is not switched on for this group."
        ) from None


def parse_pressure(text: str) -> dict[str, int]:
    """A pressure file: {"some": µs, "full": µs} since the group was made, or since boot."""
    found = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if total := re.search(r"total=(\d+)", rest):
            found[kind] = int(total[1])
    return found


def slice_us() -> int | None:
    """How much of its quota a group hands to a CPU at a time (sched_cfs_bandwidth_slice_us)."""
    return files.number(SLICE)
