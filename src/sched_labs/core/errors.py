"""Errors that say what happened and what to do about it."""

from __future__ import annotations


class SchedLabError(Exception):
    """Anything that sched-labs refuses or fails to do.

    `what` is one sentence about what happened, `remedy` one about what the reader can do; both are shown.
    `lacking` says that nothing went wrong: this machine has not what is needed, now or in a minute.
    """

    def __init__(self, what: str, remedy: str = "", *, lacking: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.lacking = lacking

    def __str__(self) -> str:
        return f"{self.what}\n{self.remedy}" if self.remedy else self.what


class ParameterError(SchedLabError, ValueError):
    """A parameter that no run could use: out of range, unknown name, contradicting another."""


class PlacementError(SchedLabError):
    """A CPU, policy or cgroup that this process may not use."""


class WorkloadError(SchedLabError):
    """A native workload that could not be built, died, or did not finish in time."""


class ThreadLimitError(WorkloadError):
    """A workload that may not start as many threads as it was asked to (pids.max, RLIMIT_NPROC)."""


class ProbeError(SchedLabError):
    """A probe that cannot watch here: no privilege, no BPF, no such process."""


class BusyError(SchedLabError):
    """Another experiment holds this machine."""


class ResultError(SchedLabError):
    """A result that cannot be saved, loaded or compared."""
