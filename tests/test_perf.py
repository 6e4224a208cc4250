"""Events around a region: grouping, scaling and refusals, with software events; no PMU is needed."""

from __future__ import annotations

import ctypes
import errno
import mmap
import threading
import time
from pathlib import Path

import pytest

from sched_labs.core.errors import ParameterError, ProbeError
from sched_labs.machine import files, syscalls
from sched_labs.machine import perf as survey_of_counters
from sched_labs.probes import perf
from sched_labs.probes.perf import Counts, Group
from sched_labs.workloads import Record


def may_count() -> bool:
    try:
        Group(["context-switches"]).close()
    except ProbeError:
        return False
    return True


counts_software = pytest.mark.skipif(not may_count(), reason="this user may not count software events")


@counts_software
def test_a_group_counts_inside_its_region_and_nowhere_else() -> None:
    def touch_pages(count: int) -> None:
        with mmap.mmap(-1, count * mmap.PAGESIZE) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(count):
                memory[page * mmap.PAGESIZE] = 1

    with Group(["task-clock", "page-faults", "context-switches"]) as group:
        touch_pages(300)
        assert group.read() == Counts(
            {"task-clock": 0, "page-faults": 0, "context-switches": 0}, 0, 0
        )  # nothing before it is switched on
        with group.counting():
            touch_pages(200)
            time.sleep(0.001)
        counts = group.read()
        touch_pages(300)
        assert group.read() == counts  # nothing after it is switched off
    assert 200 <= counts.value("page-faults") < 300 and counts.value("context-switches") >= 1
    assert 0 < counts.value("task-clock") <= counts.enabled_ns and not counts.scaled


@counts_software
def test_regions_add_up() -> None:
    with Group(["context-switches"]) as group:
        for _ in range(3):
            with group.counting():
                time.sleep(0.001)
        assert group.read().value("context-switches") >= 3


def sleeper() -> tuple[threading.Thread, threading.Event]:
    """A thread that sleeps fifty times once the event is set."""
    start = threading.Event()

    def sleeps() -> None:
        start.wait()
        for _ in range(50):
            time.sleep(0.002)  # so long that no timer goes off before the thread sleeps

    thread = threading.Thread(target=sleeps)
    return thread, start


@counts_software
def test_a_group_does_not_follow_into_threads_that_are_started() -> None:
    other, start = sleeper()
    start.set()
    with Group(["context-switches"]) as mine:
        with mine.counting():
            other.start()
            other.join()
        assert mine.read().value("context-switches") < 40


@counts_software
def test_a_group_may_be_for_another_thread() -> None:
    other, start = sleeper()
    other.start()
    assert other.native_id
    with Group(["context-switches"], tid=other.native_id) as theirs:
        with theirs.counting():
            start.set()
            other.join()
        assert theirs.read().value("context-switches") >= 50


@counts_software
def test_no_counter_stays_open() -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    group = Group(["task-clock", "page-faults"])
    assert open_files() == before + 2
    group.close()
    group.close()
    assert open_files() == before
    with pytest.raises(ProbeError):
        Group(["task-clock", "page-faults"], tid=1 << 22)
    assert open_files() == before


# --- scaling ---


def test_a_group_that_shared_its_counters_is_scaled_and_says_so() -> None:
    shared = Counts({"cycles": 300}, enabled_ns=1000, running_ns=250)
    assert shared.scaled and shared.value("cycles") == 1200
    whole = Counts({"cycles": 300}, enabled_ns=1000, running_ns=1000)
    assert not whole.scaled and whole.value("cycles") == 300
    never = Counts({"cycles": 0}, enabled_ns=1000, running_ns=0)
    assert never.scaled and never.value("cycles") != never.value("cycles")  # NaN, not zero
    with pytest.raises(ParameterError, match="'instructions' was not counted"):
        whole.value("instructions")


# --- what a machine refuses ---


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EACCES, "perf_event_paranoid is 2, and this event happens in the kernel.\n.*paranoid=1"),
        (errno.EPERM, "perf_event_paranoid is 2"),
        (errno.ENOENT, "does not offer it"),
        (errno.ENOSYS, "no perf_event_open"),
        (errno.EMFILE, "cannot be counted now"),
        (errno.ESRCH, "No such process"),
    ],
)
def test_a_refusal_is_explained(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(name: str, *arguments: int | ctypes.Array | ctypes.Structure) -> int:
        raise OSError(code, "refused")

    monkeypatch.setattr(syscalls, "call", refuse)
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/perf_event_paranoid").write_text("2\n")
    with files.root(tmp_path), pytest.raises(ProbeError, match=said):
        Group(["context-switches"])


def test_hardware_events_are_counted_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an ordinary user may; the flags are all that can be seen of it without a PMU."""
    flags = []

    def note(name: str, attr: ctypes.Array, *arguments: int) -> int:
        flags.append(int.from_bytes(bytes(attr)[40:48], "little"))
        raise OSError(errno.ENOENT, "no PMU")

    monkeypatch.setattr(syscalls, "call", note)
    for name in ("cycles", "page-faults"):
        with pytest.raises(ProbeError, match="does not offer it"):
            Group([name])
    assert [bool(flag & 1 << 5) for flag in flags] == [True, False]
    assert all(flag & 1 for flag in flags)  # a leader starts switched off


@pytest.mark.parametrize(
    "names", [[], "cycles", ["cycles", "cycles"], ["dreams"], list(perf.EVENTS)[: perf.MOST + 1]]
)
def test_a_group_that_is_none_is_refused(names: list[str]) -> None:
    with pytest.raises(ParameterError):
        Group(names)


# --- what workloads are told, and what they answer ---


def test_a_workload_is_told_name_type_and_config() -> None:
    assert perf.arguments([]) == []
    assert perf.arguments(["page-faults", "cycles"]) == [
        *("--event", "page-faults:1:2"),
        *("--event", "cycles:0:0"),
    ]
    assert set(survey_of_counters.EVENTS) < set(perf.EVENTS)


def test_its_answer_is_counts_or_the_reason() -> None:
    counts = perf.from_record(
        Record("events", {"enabled_ns": 100, "running_ns": 50, "cycles": 7, "L1-dcache-load-misses": 1})
    )
    assert counts.scaled and counts.value("cycles") == 14 and counts.value("L1-dcache-load-misses") == 2
    with pytest.raises(ProbeError, match=r"cycles.*does not offer it"):
        perf.from_record(Record("events", {"failed": "cycles", "errno": errno.ENOENT}))


def test_only_events_that_really_count_are_offered() -> None:
    offered = perf.offered(["cycles", "dTLB-load-misses"])
    assert set(offered) <= {"cycles", "dTLB-load-misses"}
    counting = survey_of_counters.count(*survey_of_counters.EVENTS["cycles"])[0]
    assert ("cycles" in offered) == bool(counting)
