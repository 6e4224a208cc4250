"""Who wakes whom, with stacks: the probe, and what the page says of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sched_labs.probes import switches
from sched_labs.probes.switches import Switches
from sched_labs.watching import wakers

HERE = switches.available()
live = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")
SCRIPT = """
import os, time
a, b = os.pipe()
input()
if os.fork():
    for _ in range(100):
        time.sleep(0.002)
        os.write(b, b"x")
    os.wait()
else:
    for _ in range(100):
        os.read(a, 1)
"""


@live
def test_a_timer_wakes_the_writer_and_the_writer_wakes_the_reader() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE) as pair,
        switches.watch([pair.pid], 60, scope="family", stacks=True) as probe,
    ):
        probe.start()
        pair.communicate(b"\n")
        seen = probe.stop()
    rows = seen.wakers
    read = rows[rows["stack"].str.contains("pipe_read") & (rows["tid"] != pair.pid)]
    # A read that finds its byte does not sleep.
    assert 50 <= read[(read["by"] == "thread") & (read["waker_tid"] == pair.pid)]["times"].sum() <= 100
    assert read["waker_stack"].str.contains("pipe_write").any()
    slept = rows[(rows["tid"] == pair.pid) & rows["stack"].str.contains("nanosleep")]
    timers = slept[slept["by"] == "interrupt"]
    assert timers["times"].sum() >= 90
    assert timers["slept_ns"].sum() >= 90 * 1_000_000
    off = seen.stacks[(seen.stacks["tid"] == pair.pid) & seen.stacks["stack"].str.contains("nanosleep")]
    # What it slept until it was woken, and what it then waited for a CPU, is all of its time off the CPU.
    both = slept["slept_ns"].sum() + off["waited_ns"].sum()
    assert both == pytest.approx(off["off_cpu_ns"].sum(), rel=0.05)


def test_what_woke_is_told_apart() -> None:
    rows = [
        [7, "server", ["sys_futex", "futex_wait", "schedule"], 8, "peer", ["sys_futex", "wake_up_q"], 2, 50],
        [7, "server", ["sys_futex", "futex_wait", "schedule"], 0, "swapper/0", ["sysvec_apic_timer"], 1, 9],
        [7, "server", ["sys_futex", "futex_wait", "schedule"], -1, "another user's", [], 1, 5],
    ]
    table = Switches([], [], 1000, 0, 0, "stopped", rows).wakers
    assert table["by"].tolist() == ["thread", "interrupt", "not known"]
    assert table["slept_ns"].tolist() == [50, 9, 5]


@pytest.mark.parametrize(
    ("stack", "where"),
    [
        ("do_syscall_64;futex_wait;schedule;__schedule", "futex_wait"),
        ("hrtimer_interrupt;hrtimer_wakeup;try_to_wake_up", "hrtimer_wakeup"),
        ("schedule", ""),
        ("", ""),
    ],
)
def test_the_scheduler_itself_is_no_place(stack: str, where: str) -> None:
    assert wakers.place(stack) == where
