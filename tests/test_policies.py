"""Policies: given, read back, refused with a reason."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sched_labs import machine
from sched_labs.core.errors import ParameterError
from sched_labs.machine.facts import Fact
from sched_labs.steer import policies


def on_a_thread(do: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(do()))
    thread.start()
    thread.join()
    return found[0]


def test_what_was_given_is_read_back() -> None:
    def idle() -> policies.Policy:
        policies.apply(0, policies.IDLE)
        return policies.of(0)

    assert on_a_thread(idle).name == "IDLE"
    assert policies.of(0).name == "OTHER"  # ours is as it was


@pytest.mark.parametrize("policy", [policies.FIFO, policies.RR, policies.deadline(2_000_000, 10_000_000)])
def test_real_time_policies_are_granted_where_the_survey_says_so(policy: policies.Policy) -> None:
    told = machine.survey().fact(f"policy.{policy.name.lower()}").value

    def give() -> policies.Policy | None:
        try:
            policies.apply(0, policy)
        except policies.PolicyError:
            return None
        return policies.of(0)

    found = on_a_thread(give)
    assert (found is not None) == bool(told)
    if found:
        assert (found.name, found.priority, found.runtime_ns, found.period_ns) == (
            policy.name, policy.priority, policy.runtime_ns, policy.period_ns,
        )  # fmt: skip


def test_refusals_are_explained() -> None:
    table = policies.tries().set_index("policy")
    assert table.loc["OTHER", "granted"] and table.loc["IDLE", "granted"]
    assert table.loc["FIFO, priority 0", "errno"] == "EINVAL"
    assert "1 to 99" in table.loc["FIFO, priority 0", "because"]
    assert table.loc["DEADLINE, more than it has", "errno"] == "EINVAL"
    assert "runtime <= deadline" in table.loc["DEADLINE, more than it has", "because"]
    refused = table[~table["granted"]]
    assert (refused["because"] != "").all() and (table.loc[table["granted"], "because"] == "").all()


def told(patch: pytest.MonkeyPatch, **facts: Any) -> None:
    """A survey of a CONSTRUCTED machine: value, or reason why not."""
    made = {
        f"policy.{key}": Fact(f"policy.{key}", None if isinstance(value, str) else value, "", "",
                              value if isinstance(value, str) else "")
        for key, value in facts.items()
    }  # fmt: skip

    class Machine:
        def fact(self, key: str) -> Fact:
            return made[key]

    patch.setattr(machine, "survey", Machine)


@pytest.mark.parametrize(
    ("policy", "code", "says"),
    [
        (policies.FIFO, errno.EPERM, "needs CAP_SYS_NICE, or a limit"),
        (policies.RR, errno.EPERM, "priorities up to 10, and CAP_SYS_NICE is missing"),
        (policies.deadline(1000, 2000), errno.EPERM, "may not be pinned"),
        (policies.deadline(1000, 2000), errno.EBUSY, "admission control"),
        (policies.nice(-10), errno.EPERM, "RLIMIT_NICE"),
        (policies.OTHER, errno.ESRCH, "has ended"),
        (policies.FIFO, errno.ENOSYS, "not known here"),
        (policies.Policy("x", "OTHER", priority=3), errno.EINVAL, "OTHER has no priorities"),
        (policies.IDLE, errno.EINVAL, "does not offer it"),
        (policies.IDLE, errno.E2BIG, "no further reason"),
    ],
)
def test_every_reason_has_words(
    policy: policies.Policy, code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(
        monkeypatch,
        fifo="needs CAP_SYS_NICE, or a limit RLIMIT_RTPRIO above 0 (see limits.conf)",
        rr=True,
        deadline=True,
        nice_negative=True,
        rtprio_limit=10,
        cap_sys_nice=False,
    )
    assert says in policies.explain(policy, code)


def test_a_group_without_real_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, fifo=True, rtprio_limit=0, cap_sys_nice=True)
    assert "RT_GROUP_SCHED" in policies.explain(policies.FIFO, errno.EPERM)


def test_a_thread_that_has_ended() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    tid = thread.native_id
    assert tid
    thread.join()
    while Path(f"/proc/self/task/{tid}").exists():  # Python is done with it a moment before the kernel is
        time.sleep(0.001)
    with pytest.raises(policies.PolicyError, match="ended") as refusal:
        policies.apply(tid, policies.IDLE)
    assert refusal.value.code == errno.ESRCH
    with pytest.raises(policies.PolicyError, match="asked"):
        policies.of(tid)


def test_policies_that_there_are_not() -> None:
    with pytest.raises(ParameterError, match="no policy"):
        policies.apply(0, policies.Policy("x", "FAIR"))
    with pytest.raises(ParameterError, match="slice"):
        policies.slice_of(1)


def test_a_slice_of_ones_own() -> None:
    if not machine.survey().fact("policy.slice").value:
        pytest.skip("this kernel grants no slices of one's own")

    def give() -> policies.Policy:
        policies.apply(0, policies.slice_of(3_000_000))
        return policies.of(0)

    assert on_a_thread(give).slice_ns == 3_000_000


def test_nothing_changed_for_us() -> None:
    before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    policies.tries()
    assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before
