"""The probe that takes wake-ups apart: structure and relations."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sched_labs.core.errors import ParameterError, ProbeError
from sched_labs.probes import wakeups
from sched_labs.probes.helper import programs

HERE = wakeups.available()
live = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")

pytestmark = pytest.mark.usefixtures("own_lock")


# Says how often it went to sleep: one that is kept from its CPU until a sleep is over sleeps once less.
SLEEPER = """
import resource, time
def switches(): return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
print(flush=True)
input()
before = switches()
for _ in range(50): time.sleep(0.002)
print(switches() - before)
"""


@live
def test_every_wake_up_passes_its_stations_in_order() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin and child.stdout
        child.stdout.readline()
        with wakeups.watch([child.pid], 20) as probe:
            with pytest.raises(ProbeError, match="not been started"):
                probe.stop()
            probe.start()
            child.stdin.write(b"\n")
            child.stdin.flush()
            slept = int(child.stdout.read())
            child.wait()
            seen = probe.stop()
            assert probe.stop() == seen
    data = seen.data
    assert seen.lost == 0 and 0 < slept <= len(data) < 150 and set(data["tid"]) == {child.pid}
    assert (data["waking_ns"] <= data["wakeup_ns"]).all() and (data["wakeup_ns"] <= data["switch_ns"]).all()
    interrupted = data[data["interrupt_ns"] > 0]
    assert interrupted["interrupt_ns"].between(interrupted["waking_ns"], interrupted["switch_ns"]).all()
    assert (
        data["waking_ns"].is_monotonic_increasing
        and (data["waking_ns"] > data["switch_ns"].shift()).iloc[1:].all()
    )


def test_there_is_room_for_wake_ups_whatever_the_machine() -> None:
    for cpus in (1, 2, 3, 64, 8192):
        room = programs.wakes_of_each(cpus)
        assert room & (room - 1) == 0 and programs.LEAST_WAKES <= room <= programs.WAKES
    assert programs.wakes_of_each(2) == programs.WAKES // 2


@pytest.mark.parametrize(
    ("pids", "duration_s"), [([], 1), ([0], 1), (["1"], 1), ([1], 0), ([1], float("nan"))]
)
def test_refuses_parameters(pids: list[int], duration_s: float) -> None:
    with pytest.raises(ParameterError):
        wakeups.watch(pids, duration_s)
