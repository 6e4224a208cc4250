"""Threads run where they were put, and a CPU that may not be used is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import pytest

from sched_labs import machine
from sched_labs.core.errors import PlacementError
from sched_labs.steer import placement

ALLOWED = sorted(os.sched_getaffinity(0))


def ended_thread() -> int:
    """The only thread of a process that has ended and was waited for."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def on_one_cpu(code: str) -> str:
    if not shutil.which("taskset"):
        pytest.skip("taskset is not installed")
    done = subprocess.run(
        ["taskset", "-c", str(ALLOWED[0]), sys.executable, "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_pinned_thread_may_run_there_only_and_others_as_before() -> None:
    ready, finish = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        finish.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        ready.wait()
        assert thread.native_id
        placement.pin([thread.native_id], [ALLOWED[-1]])
        assert os.sched_getaffinity(thread.native_id) == {ALLOWED[-1]}
        assert os.sched_getaffinity(0) == set(ALLOWED)
    finally:
        finish.set()
        thread.join()


def test_a_cpu_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(PlacementError, match=r"CPU 4095 may not be used.*\n.*It may use"):
        placement.pin([os.getpid()], [ALLOWED[0], 4095])
    with pytest.raises(PlacementError, match="CPU -1"):
        placement.pin([os.getpid()], [-1])
    with pytest.raises(PlacementError, match="No CPU"):
        placement.pin([os.getpid()], [])
    assert os.sched_getaffinity(0) == set(ALLOWED)


def test_an_ended_thread_is_named() -> None:
    tid = ended_thread()
    with pytest.raises(PlacementError, match=f"Thread {tid} has ended"):
        placement.pin([tid], [ALLOWED[0]])


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs a second CPU to exclude")
def test_a_cpu_outside_the_allowed_set_is_refused() -> None:
    said = on_one_cpu(f"""
import os
from sched_labs import placement
from sched_labs.core.errors import PlacementError
try:
    placement.pin([os.getpid()], [{ALLOWED[-1]}])
except PlacementError as error:
    print(error)
""")
    assert said.startswith(f"CPU {ALLOWED[-1]} may not be used by this process.\nIt may use {ALLOWED[0]};")


def test_with_one_cpu_there_is_a_quiet_one_and_no_other() -> None:
    said = on_one_cpu("""
from sched_labs import placement
from sched_labs.core.errors import PlacementError
print(placement.quiet_cpu())
try:
    placement.other_cpu(placement.quiet_cpu())
except PlacementError as error:
    print(error)
""")
    assert said.startswith(f"{ALLOWED[0]}\nThis experiment needs two CPUs")
    assert "second CPU" in said


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")
def test_the_other_cpu_is_another_core_where_there_is_one() -> None:
    survey = machine.survey()
    quiet = placement.quiet_cpu()
    other = placement.other_cpu(quiet)
    assert quiet in ALLOWED and other in ALLOWED and other != quiet
    if len(ALLOWED) > 1 + len(survey.smt_siblings(quiet)):
        assert other not in survey.smt_siblings(quiet)


def test_cpu_lists_read_as_the_kernel_writes_them() -> None:
    assert placement._ranges({5, 0, 2, 1}) == "0-2,5"
    assert placement._ranges({3}) == "3"
