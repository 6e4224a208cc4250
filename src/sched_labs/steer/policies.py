"""Scheduling policies: give one to a thread, ask which it has, and say in words why the kernel refused.

    from sched_labs.steer import policies
    policies.apply(tid, policies.FIFO)
    policies.apply(tid, policies.slice_of(3_000_000))
    policies.of(tid)                   # what the kernel says it has now
    policies.tries()                   # every policy tried on a thread of its own, refusals explained

Like placement, this acts on threads that stand at their workload's barrier, and changes only the workload.
See sched(7) and sched_setattr(2).
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from .. import machine
from ..core.errors import ParameterError, PlacementError
from ..machine import syscalls

_NUMBERS = {"OTHER": 0, "FIFO": 1, "RR": 2, "BATCH": 3, "IDLE": 5, "DEADLINE": 6}
_NAMES = {number: name for name, number in _NUMBERS.items()}
SHORTEST_SLICE_NS, LONGEST_SLICE_NS = 100_000, 100_000_000  # what the kernel clamps a custom slice to


@dataclass(frozen=True)
class Policy:
    """A policy with its parameters.

    label       its name in tables and figures
    name        of OTHER, BATCH, IDLE, FIFO, RR, DEADLINE
    nice        -20 to 19; OTHER and BATCH only
    priority    1 to 99; FIFO and RR only, which have no priority 0
    slice_ns    OTHER and BATCH: a slice of one's own (EEVDF from 6.12 on); 0 for the kernel's
    runtime_ns, deadline_ns, period_ns   DEADLINE: so much CPU time, this soon, in every period
    """

    label: str
    name: str
    nice: int = 0
    priority: int = 0
    slice_ns: int = 0
    runtime_ns: int = 0
    deadline_ns: int = 0
    period_ns: int = 0


OTHER = Policy("OTHER", "OTHER")
BATCH = Policy("BATCH", "BATCH")
IDLE = Policy("IDLE", "IDLE")
FIFO = Policy("FIFO", "FIFO", priority=50)
RR = Policy("RR", "RR", priority=50)


def nice(value: int) -> Policy:
    """OTHER with a nice value."""
    return Policy(f"nice {value:+d}", "OTHER", nice=value)


def slice_of(ns: int) -> Policy:
    """OTHER with a slice of its own: EEVDF from 6.12 on; other kernels take the call and ignore it."""
    if not SHORTEST_SLICE_NS <= ns <= LONGEST_SLICE_NS:
        raise ParameterError(
            f"A slice of {ns} ns is outside what the kernel grants.",
            f"Give {SHORTEST_SLICE_NS} to {LONGEST_SLICE_NS} ns.",
        )
    return Policy(f"slice {ns / 1e6:g} ms", "OTHER", slice_ns=ns)


def deadline(runtime_ns: int, period_ns: int, deadline_ns: int = 0) -> Policy:
    """DEADLINE: runtime_ns of CPU in every period_ns, by default due at the period's end."""
    return Policy(
        "DEADLINE",
        "DEADLINE",
        runtime_ns=runtime_ns,
        deadline_ns=deadline_ns or period_ns,
        period_ns=period_ns,
    )


class PolicyError(PlacementError):
    """The kernel refused a policy: `code` is its errno (0 where it ignored the wish), `why` the reason."""

    def __init__(self, what: str, why: str, code: int) -> None:
        super().__init__(f"{what}: {why}.", "The other policies can be measured without it.")
        self.code = code
        self.why = why


def apply(tid: int, policy: Policy) -> None:
    """Give a thread (0: the calling one) a policy.

    Raises PolicyError, with the reason in words, where the kernel refuses, or takes a slice and ignores it.
    """
    if policy.name not in _NUMBERS:
        raise ParameterError(f"There is no policy {policy.name!r}.", f"There are: {', '.join(_NUMBERS)}.")
    attr = syscalls.SchedAttr(
        size=syscalls.SCHED_ATTR_BYTES,
        sched_policy=_NUMBERS[policy.name],
        sched_nice=policy.nice,
        sched_priority=policy.priority,
        sched_runtime=policy.runtime_ns or policy.slice_ns,
        sched_deadline=policy.deadline_ns,
        sched_period=policy.period_ns,
    )
    try:
        syscalls.call("sched_setattr", tid, attr, 0)
    except OSError as error:
        code = error.errno or 0
        raise PolicyError(
            f"The kernel refuses {policy.label} ({errno.errorcode.get(code, code)})",
            explain(policy, code),
            code,
        ) from error
    if policy.slice_ns and of(tid).slice_ns != policy.slice_ns:
        raise PolicyError(
            f"The kernel takes {policy.label} and ignores it",
            "slices of one's own came with EEVDF in 6.12",
            0,
        )


def of(tid: int) -> Policy:
    """The policy that a thread (0: the calling one) has now, as the kernel tells it."""
    attr = syscalls.SchedAttr()
    try:
        syscalls.call("sched_getattr", tid, attr, syscalls.SCHED_ATTR_BYTES, 0)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise PolicyError(f"Thread {tid} cannot be asked", why, error.errno or 0) from error
    name = _NAMES.get(attr.sched_policy, str(attr.sched_policy))
    found = Policy(name, name, nice=attr.sched_nice, priority=attr.sched_priority)
    if name == "DEADLINE":
        return replace(
            found, runtime_ns=attr.sched_runtime, deadline_ns=attr.sched_deadline, period_ns=attr.sched_period
        )
    return replace(found, slice_ns=attr.sched_runtime)


_TOLD = {"FIFO": "policy.fifo", "RR": "policy.rr", "DEADLINE": "policy.deadline"}


def explain(policy: Policy, code: int) -> str:
    """Why the kernel answers `code` when asked for a policy, in words, for this machine and this user."""
    if code == errno.EBUSY:
        return "admission control: the CPU time already promised leaves no room for this much more"
    if code == errno.ESRCH:
        return "that thread has ended"
    if code == errno.ENOSYS:
        return "this architecture's system call number is not known here"
    if code == errno.EINVAL:
        return _invalid(policy)
    if code not in (errno.EPERM, errno.EACCES):
        return "the kernel gives no further reason"
    survey = machine.survey()
    key = _TOLD.get(policy.name, "policy.nice_negative")
    if why := survey.fact(key).why:
        return why
    if policy.name == "DEADLINE":
        return "its CPUs must be all those of its scheduling domain, so it may not be pinned"
    if policy.name in ("FIFO", "RR"):
        limit = survey.fact("policy.rtprio_limit").value
        if not survey.fact("policy.cap_sys_nice").value and isinstance(limit, int):
            return f"RLIMIT_RTPRIO allows priorities up to {limit}, and CAP_SYS_NICE is missing"
        return "its cpu group may have a real-time runtime of 0 (RT_GROUP_SCHED)"
    return "needs CAP_SYS_NICE or a higher RLIMIT_NICE"


def _invalid(policy: Policy) -> str:
    if policy.name in ("FIFO", "RR") and not 1 <= policy.priority <= 99:
        return f"real-time priorities go from 1 to 99; {policy.priority} is none"
    if policy.name not in ("FIFO", "RR") and policy.priority:
        return f"{policy.name} has no priorities; only FIFO and RR do"
    if policy.name == "DEADLINE":
        return "a reservation needs runtime <= deadline <= period, and a period inside this kernel's limits"
    return "this kernel or container does not offer it"


# Tried in the order in which a reader meets them; the refusals are part of the lesson.
TRIED = (
    OTHER,
    BATCH,
    IDLE,
    nice(10),
    nice(-10),
    slice_of(500_000),
    Policy("FIFO, priority 0", "FIFO"),
    Policy("FIFO, priority 1", "FIFO", priority=1),
    FIFO,
    Policy("FIFO, priority 100", "FIFO", priority=100),
    RR,
    deadline(2_000_000, 10_000_000),
    replace(deadline(10_000_000, 2_000_000, 2_000_000), label="DEADLINE, more than it has"),
)


def tries(wanted: Sequence[Policy] = TRIED) -> pd.DataFrame:
    """Try policies, each on a thread that ends with the try.

    One row per policy: policy (its label), granted, errno (the kernel's name for the refusal, "" if none),
    because (in words, for this machine and this user).
    """
    rows = []
    for policy in wanted:
        refusal = _try_on_a_thread(policy)
        rows.append(
            {
                "policy": policy.label if policy.label != policy.name else _long(policy),
                "granted": refusal is None,
                "errno": errno.errorcode.get(refusal.code, "") if refusal else "",
                "because": refusal.why if refusal else "",
            }
        )
    return pd.DataFrame(rows, columns=["policy", "granted", "errno", "because"])


def _long(policy: Policy) -> str:
    return f"{policy.label}, priority {policy.priority}" if policy.priority else policy.label


def _try_on_a_thread(policy: Policy) -> PolicyError | None:
    found: list[PolicyError] = []

    def attempt() -> None:
        try:
            apply(0, policy)
        except PolicyError as refusal:
            found.append(refusal)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0] if found else None
