"""Switches by pair and departures by place: structure and relations, never absolute times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.core.errors import ParameterError, ProbeError, ResultError
from sched_labs.core.result import Result, load
from sched_labs.probes import runqlat, switches
from sched_labs.steer import placement
from sched_labs.topics.scheduler_latency.switchgraph import experiment, figure

HERE = switches.available()
live = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")
CPU = max(os.sched_getaffinity(0))


pytestmark = pytest.mark.usefixtures("own_lock")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    code = (
        f"import os, time\nos.sched_setaffinity(0, {{{CPU}}})\nprint(flush=True)\n"
        "while True: time.sleep(0.005)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@live
def test_every_departure_is_an_edge_and_has_a_place(sleeper: subprocess.Popen[bytes]) -> None:
    def voluntary() -> int:
        return experiment._counted(sleeper.pid)[0]

    with switches.watch([sleeper.pid], 20, stacks=True) as probe:
        with pytest.raises(ProbeError, match="not been started"):
            probe.stop()
        before = voluntary()
        probe.start()
        with pytest.raises(ProbeError, match="already"):
            probe.start()
        inside = voluntary()
        time.sleep(0.5)
        least = voluntary() - inside
        seen = probe.stop()
        most = voluntary() - before
        assert probe.stop() is seen
    assert seen.ended_by == "stopped" and seen.lost_edges == seen.lost_stacks == 0
    edges = seen.edges
    left = edges[edges["prev_tid"] == sleeper.pid]
    came = edges[edges["next_tid"] == sleeper.pid]
    assert set(edges["state"]) <= set(switches.STATES)
    assert (edges["switches"] > 0).all()
    assert set(edges.loc[edges["prev_tid"] != sleeper.pid, "next_tid"]) == {sleeper.pid}
    slept = left.loc[left["state"] == "interruptible", "switches"].sum()
    # Some sandboxes hide a switch now and then.
    assert 0.95 * least - 2 <= slept <= most
    assert abs(int(left["switches"].sum()) - int(came["switches"].sum())) <= 2
    stacks = seen.stacks
    assert set(stacks["tid"]) == {sleeper.pid}
    assert stacks["times"].sum() == left["switches"].sum()
    assert stacks["off_cpu_ns"].sum() <= seen.window_ns
    assert (stacks["waited_ns"] <= stacks["off_cpu_ns"]).all() and (stacks["waited_ns"] > 0).any()
    preempted = stacks[stacks["state"] == "runnable"]
    assert (preempted["waited_ns"] == preempted["off_cpu_ns"]).all()
    asleep = stacks[stacks["state"] == "interruptible"]
    assert asleep["off_cpu_ns"].sum() > 0.3 * seen.window_ns
    top = asleep.iloc[0]["stack"].split(";")
    assert top[-1] in ("__schedule", "schedule", "kernel")
    if top[-1] != "kernel":
        assert any("nanosleep" in function for function in top)


@live
@pytest.mark.parametrize("attribution", [False, True])
def test_the_waits_probe_counts_the_same_edges(attribution: bool) -> None:
    """Two threads hand a byte to each other while both probes look: each switch between them is in both."""
    words = ["--by", "pipe", "--between", "threads", "--trials", "1", "--round-trips", "500"]
    with workloads.start("pingpong", words, deadline_s=60) as pair:
        placement.pin(pair.tids, [CPU])
        with (
            runqlat.watch([pair.pid], 60, edges=True, attribution=attribution) as waits,
            switches.watch([pair.pid], 60) as alone,
        ):
            waits.start()
            alone.start()
            pair.run()
            pair.end()  # or a thread's last switch may come between the two stops
            counted, there = waits.stop(), alone.stop()
    assert waits.switches
    both: list[dict[object, int]] = []
    for seen in (waits.switches, there):
        rows = seen.edges
        own = rows[rows["prev_tid"].isin(pair.tids) & rows["next_tid"].isin(pair.tids)]
        both.append(own.groupby(["prev_tid", "next_tid", "state"])["switches"].sum().to_dict())
        assert seen.lost_edges == 0
        # Each hand-over needs a switch to the other one; a third program may have the CPU in between.
        assert rows[rows["next_tid"].isin(pair.tids)]["switches"].sum() >= 2 * 500
    assert both[0] == both[1]
    assert counted.total >= 2 * 500


def test_edges_of_a_control_group_are_not_told() -> None:
    with pytest.raises(ParameterError, match="control group"):
        runqlat.watch([os.getpid()], 1, scope="cgroup", edges=True)


@live
def test_without_stacks_there_are_none(sleeper: subprocess.Popen[bytes]) -> None:
    with switches.watch([sleeper.pid], 0.2) as probe:
        probe.start()
        seen = probe.wait()
    assert seen.ended_by == "duration over" and seen.window_ns == 200_000_000
    assert seen.stacks.empty and "tid" in seen.stacks.columns
    assert not seen.edges.empty


@live
def test_refuses_a_dead_process() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(ProbeError, match=str(child.pid)):
        switches.watch([child.pid], 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pids": []},
        {"pids": ["1"]},
        {"pids": [0]},
        {"duration_s": 0},
        {"duration_s": float("inf")},
        {"scope": "cgroup"},
        {"scope": "machine"},
    ],
    ids=repr,
)
def test_refuses_parameters(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        switches.watch(**{"pids": [os.getpid()], "duration_s": 1.0, **wrong})  # type: ignore[arg-type]


@live
def test_who_preempts_whom(tmp_path: Path) -> None:
    result = experiment.window(profile="tiny", duration_s=0.6, progress=False, save=False)
    data = result.data
    assert list(data.columns) == ["prev", "next", "state", "switches"]
    assert {"ping", "pong"} <= set(data["prev"]) | set(data["next"])
    assert not data.duplicated(["prev", "next", "state"]).any()
    # A thread that never sleeps is only ever taken off its CPU.
    assert set(data.loc[data["prev"].str.startswith("hog"), "state"]) <= {"runnable"}
    pair = data[data["prev"].isin(["ping", "pong"]) & (data["state"] == "interruptible")]
    assert 0 < pair["switches"].sum() <= result.facts["voluntary"]
    summary = result.summary().set_index("thread")
    assert summary["left"].sum() == summary["came"].sum() == data["switches"].sum()
    assert ((summary["preempted"] + summary["slept"]) <= summary["left"]).all()
    again = load(result.save(tmp_path / "kept.json"))
    pd.testing.assert_frame_equal(again.summary(), result.summary())
    drawn = result.plot(recorded=result)
    assert "most frequent" in drawn.caption and "In the recorded run" in drawn.caption
    assert len(re.findall(r"\d times?\b", drawn.alt)) == len(figure.frame(result))
    with pytest.raises(ParameterError):
        result.plot(predictions=[{"value": 1, "unit": "ms"}])


def test_a_window_without_switches_has_no_figure() -> None:
    nothing = pd.DataFrame(columns=["prev", "next", "state", "switches"])
    with pytest.raises(ResultError):
        figure.frame(Result("switchgraph.window", nothing, {}, {}))


def test_the_kernel_and_other_programs_are_told_apart() -> None:
    assert experiment._is_kernel_thread(2) or not Path("/proc/2/status").exists()
    assert not experiment._is_kernel_thread(os.getpid())
    assert not experiment._is_kernel_thread(1 << 22)
