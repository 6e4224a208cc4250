"""One CPU limit in four languages: Kubernetes, systemd, and the files of cgroup v2 and v1.

    from sched_labs import quotas
    limit = quotas.from_kubernetes("500m")
    limit.cpu_max                 # "50000 100000"
    limit.table()                 # in every language
    limit.stalls(cpus=8)          # what it does to threads that never sleep

All of them set a quota and a period, in µs, of CFS bandwidth control; none pins a thread to a CPU.  Sources:
Documentation/scheduler/sched-bwc.rst and admin-guide/cgroup-v2.rst; the kubelet's MilliCPUToQuota
(kubelet/cm/helpers_linux.go); systemd.resource-control(5) and its cgroup_cpu_adjust_period (core/cgroup.c).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pandas as pd

from ..core.errors import ParameterError
from . import bandwidth

PERIOD_US = 100_000  # the default of all four
SLICE_US = 5_000  # in which CPUs take a quota: the default of sched_cfs_bandwidth_slice_us
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True)
class Limit:
    """A CPU limit: `quota_us` of CPU time in each period of `period_us`; no limit where quota_us is None.

    `notes` say where a translation is not exact.  Limits with the same share of a CPU and different periods
    stall differently.
    """

    quota_us: int | None
    period_us: int = PERIOD_US
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        bandwidth.check(bandwidth.LEAST_US if self.quota_us is None else self.quota_us, self.period_us)

    @property
    def cpus(self) -> float:
        """The limit in CPUs: 0.5 is half of one; infinite without a limit."""
        return math.inf if self.quota_us is None else self.quota_us / self.period_us

    @property
    def millicores(self) -> int | None:
        """What `limits.cpu` says, in thousandths of a CPU, rounded down as Kubernetes has no finer ones."""
        return None if self.quota_us is None else self.quota_us * 1000 // self.period_us

    @property
    def kubernetes(self) -> str | None:
        """As in a pod's `resources.limits.cpu`: "500m"; None where no limit is written."""
        return None if self.millicores is None else f"{self.millicores}m"

    @property
    def systemd(self) -> dict[str, str]:
        """CPUQuota= and CPUQuotaPeriodSec= as a unit file takes them; empty values lift a limit."""
        if self.quota_us is None:
            return {"CPUQuota": "", "CPUQuotaPeriodSec": ""}
        # systemd keeps hundredths of a per cent.
        hundredths = self.quota_us * 10_000 // self.period_us
        whole, part = divmod(hundredths, 100)
        percent = f"{whole}.{part:02d}".rstrip("0").rstrip(".") if part else str(whole)
        return {"CPUQuota": f"{percent}%", "CPUQuotaPeriodSec": _duration(self.period_us)}

    @property
    def cpu_max(self) -> str:
        """The line of cgroup v2's cpu.max."""
        return f"{'max' if self.quota_us is None else self.quota_us} {self.period_us}"

    @property
    def v1(self) -> dict[str, int]:
        """The files of cgroup v1: cpu.cfs_quota_us (-1 without a limit) and cpu.cfs_period_us."""
        quota = -1 if self.quota_us is None else self.quota_us
        return {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": self.period_us}

    def stall_us(self, *, threads: int, cpus: int) -> float:
        """How long threads that never sleep stand in each period; see `bandwidth.stall_us`."""
        if self.quota_us is None:
            return 0.0
        return bandwidth.stall_us(self.quota_us, self.period_us, threads=threads, cpus=cpus)

    def table(self) -> pd.DataFrame:
        """The limit in every language: where, setting, value; the notes follow as rows of their own."""
        systemd = self.systemd
        rows = [
            ("Kubernetes", "limits.cpu", self.kubernetes or "(no limit)"),
            ("systemd", "CPUQuota=", systemd["CPUQuota"] or "(empty)"),
            ("systemd", "CPUQuotaPeriodSec=", systemd["CPUQuotaPeriodSec"] or "(empty)"),
            ("cgroup v2", "cpu.max", self.cpu_max),
            *(("cgroup v1", name, str(value)) for name, value in self.v1.items()),
            *(("note", "", note) for note in self._all_notes()),
        ]
        return pd.DataFrame(rows, columns=["where", "setting", "value"])

    def stalls(self, *, cpus: int, threads: Sequence[int] = (1, 2, 4, 8, 16)) -> pd.DataFrame:
        """What the limit does to threads that never sleep: threads, runs_us and stands_us in each period.

        By the formula: all of them run side by side for runs_us, then stand until the next period.  Whether
        it describes them is told by slices_per_cpu, how many of the slices in which a quota is taken there
        are for each CPU that they run on: below 1 some CPUs find nothing left and sit a period out
        (`bandwidth.simulate` shows for how long).  Raises ParameterError for numbers of threads or CPUs that
        cannot be.
        """
        quota = math.inf if self.quota_us is None else self.quota_us
        rows = []
        for count in threads:
            stands = self.stall_us(threads=count, cpus=cpus)
            rows.append(
                {
                    "threads": count,
                    "runs_us": self.period_us - stands,
                    "stands_us": stands,
                    "slices_per_cpu": quota / SLICE_US / min(count, cpus),
                }
            )
        return pd.DataFrame(rows)

    def _all_notes(self) -> list[str]:
        notes = list(self.notes)
        if self.quota_us is None:
            return notes
        if self.quota_us * 1000 % self.period_us:
            notes.append(f"{self.kubernetes} is rounded down: Kubernetes counts in thousandths of a CPU.")
        if self.quota_us * 10_000 % self.period_us:
            notes.append(f"{self.systemd['CPUQuota']} is rounded down: systemd counts in 0.01 %.")
        if self.period_us != PERIOD_US:
            notes.append(
                "A pod cannot ask for its period: the kubelet has one for all of its pods "
                "(cpuCFSQuotaPeriod, 100 ms by default)."
            )
        return notes


def from_kubernetes(cpu: str | int | float, *, period_us: int = PERIOD_US) -> Limit:
    """From a pod's `limits.cpu`: "500m", "0.5", 2; 0 is no limit.

    `period_us` is the kubelet's cpuCFSQuotaPeriod.  Raises ParameterError for what Kubernetes refuses, as are
    parts of a millicore.
    """
    text = str(cpu).strip()
    milli = text.endswith("m")
    share = _fraction(
        text.removesuffix("m"), f"{cpu!r} is no CPU limit of Kubernetes.", "Write 500m, 0.5 or 2."
    )
    millicores = share if milli else share * 1000
    if millicores.denominator != 1:
        raise ParameterError(
            f"Kubernetes has no CPU limit of {cpu}: it counts in whole millicores.",
            "1m is the smallest step.",
        )
    if millicores == 0:
        return Limit(None, period_us, ("A limit of 0 is no limit in Kubernetes.",))
    quota = int(millicores) * period_us // 1000
    if quota >= bandwidth.LEAST_US:
        return Limit(quota, period_us)
    least = bandwidth.LEAST_US
    Limit(least, period_us)  # refuses a period that is none
    note = (
        f"The kubelet raises {cpu} to the kernel's least quota, {least:,} µs: {least / period_us:.3g} CPUs."
    )
    return Limit(least, period_us, (note,))


def from_systemd(quota: str, *, period: str = "100ms") -> Limit:
    """From CPUQuota= ("50%", "150%"; empty: no limit) and CPUQuotaPeriodSec= ("100ms", "1s").

    systemd keeps the period between 1 ms and 1 s, and long enough for a quota of 1 ms; a note says so.
    Raises ParameterError for anything else than a percentage above 0 and a time.
    """
    if not quota.strip():
        return Limit(None)
    remedy = "Write a percentage of one CPU above 0, such as 50% or 150%."
    if not quota.strip().endswith("%"):
        raise ParameterError(f"{quota!r} is no CPUQuota=: it lacks its %.", remedy)
    share = _fraction(quota.strip()[:-1], f"{quota!r} is no CPUQuota=.", remedy) / 100
    if share == 0 or (share * 10_000).denominator != 1:
        raise ParameterError(f"{quota!r} is no CPUQuota=: systemd counts in steps of 0.01 %.", remedy)
    asked = _duration_us(period)
    needed = math.floor(bandwidth.LEAST_US / share)
    kept = min(max(asked, bandwidth.LEAST_US, needed), bandwidth.LONGEST_PERIOD_US)
    notes = (
        ()
        if kept == asked
        else (f"systemd makes the period {_duration(kept)}: the kernel refuses {period}.",)
    )
    # Where even a second is too short for the quota, systemd writes the kernel's minimum.
    return Limit(max(math.floor(share * kept), bandwidth.LEAST_US), kept, notes)


def from_cpu_max(line: str, *, period_us: int = PERIOD_US) -> Limit:
    """From cgroup v2's cpu.max: "50000 100000", "max 100000", or a quota alone, which keeps `period_us`.

    Raises ParameterError for what the kernel refuses.
    """
    words = line.split()
    if not 1 <= len(words) <= 2:
        raise ParameterError(
            f"{line!r} is no cpu.max.", 'Write "quota period" in µs, such as "50000 100000".'
        )
    period = _whole(words[1], "cpu.max") if len(words) == 2 else period_us
    return Limit(None if words[0] == "max" else _whole(words[0], "cpu.max"), period)


def from_v1(files: Mapping[str, int | str]) -> Limit:
    """From the files of cgroup v1: cpu.cfs_quota_us (negative: none) and cpu.cfs_period_us (default 100,000).

    Raises ParameterError for a missing or unknown file and for what the kernel refuses.
    """
    known = {"cpu.cfs_quota_us", "cpu.cfs_period_us"}
    if strange := sorted(set(files) - known):
        raise ParameterError(
            f"{strange[0]} is no file of the CPU limit.", f"It has {' and '.join(sorted(known))}."
        )
    if "cpu.cfs_quota_us" not in files:
        raise ParameterError("A limit needs cpu.cfs_quota_us.", "It is -1 where there is no limit.")
    quota = _whole(files["cpu.cfs_quota_us"], "cpu.cfs_quota_us")
    period = _whole(files.get("cpu.cfs_period_us", PERIOD_US), "cpu.cfs_period_us")
    return Limit(None if quota < 0 else quota, period)


def _fraction(text: str, what: str, remedy: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise ParameterError(what, remedy)
    return Fraction(text)


def _whole(value: int | str, name: str) -> int:
    text = str(value).strip()
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise ParameterError(f"{value!r:.60} is no value for {name}.", "It takes whole µs, less than 10¹⁸.")
    return int(text)


_UNITS = {"us": 1, "µs": 1, "ms": 1_000, "s": 1_000_000, "": 1_000_000}


def _duration_us(text: str) -> int:
    """A time as systemd writes it, in one unit; a bare number is seconds."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(us|µs|ms|s|)", text.strip())
    if not match:
        raise ParameterError(f"{text!r} is no CPUQuotaPeriodSec=.", "Write a time such as 100ms.")
    return int(Fraction(match[1]) * _UNITS[match[2]])


def _duration(us: int) -> str:
    for unit, size in (("s", 1_000_000), ("ms", 1_000)):
        if us % size == 0:
            return f"{us // size}{unit}"
    return f"{us}us"
