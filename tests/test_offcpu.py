"""Time off the CPU by state and place: structure and relations, never absolute times."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.core.errors import ParameterError, ResultError, WorkloadError
from sched_labs.core.result import Result, load
from sched_labs.probes import switches
from sched_labs.topics.scheduler_latency.offcpu import experiment
from sched_labs.topics.scheduler_latency.offcpu import figure as flame

HERE = switches.available()
live = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")
CPU = max(os.sched_getaffinity(0))


pytestmark = pytest.mark.usefixtures("own_lock")


def made(*rows: tuple[str, str, str, int]) -> Result:
    data = pd.DataFrame(rows, columns=["role", "state", "stack", "off_cpu_ns"]).assign(times=1)
    return Result("offcpu.stacks", data, {}, {})


def test_five_threads_wait_in_their_own_ways() -> None:
    with workloads.start("waiters", ["--duration-ms", "200"], deadline_s=30) as program:
        assert len(set(program.tids)) == 5
        for tid in program.tids:
            os.sched_setaffinity(tid, {CPU})
        threads = {record.text("role"): record for record in program.run()}
    assert tuple(threads) == experiment.ROLES
    for role in ("sleeper", "reader", "parent"):
        assert threads[role]["voluntary"] > 0
    for role in ("hog", "rival"):
        assert threads[role]["cpu_ns"] > threads["sleeper"]["cpu_ns"]


def test_the_workload_refuses() -> None:
    with pytest.raises(WorkloadError, match="--sleep-us"):
        workloads.start("waiters", ["--sleep-us", "1"])


@live
def test_states_tell_the_threads_apart(tmp_path: Path) -> None:
    result = experiment.stacks(profile="tiny", duration_s=0.6, progress=False, save=False)
    summary = result.summary().set_index(["role", "state"])
    chosen = result.summary().query("state != 'woken'")  # how long that takes is the other threads' doing
    top = chosen.groupby("role", sort=False).head(1).set_index("role")["state"].to_dict()
    assert top == {
        "hog": "runnable",
        "rival": "runnable",
        "sleeper": "interruptible",
        "reader": "interruptible",
        "parent": "uninterruptible",
    }
    # After its sleep the sleeper waits for a hog's turn to end, as well as it is asleep before.
    assert summary.loc[("sleeper", "woken"), "off_cpu_ns"] > 0
    assert ("hog", "woken") not in summary.index
    for role in experiment.ROLES:
        assert summary.loc[role]["share_percent"].sum() == pytest.approx(100)
        assert summary.loc[role]["off_cpu_ns"].sum() <= result.facts["window_ns"]
    assert not [flag for flag in result.flags if "went to sleep" in flag]
    lines = experiment.folded(result).splitlines()
    assert all(line.rpartition(" ")[2].isdigit() and line.count(";") >= 2 for line in lines)
    assert experiment.save_folded(result, tmp_path / "stacks.folded").read_text().splitlines() == lines
    drawn = result.plot(recorded=result)
    assert "waiting for one" in drawn.caption and "In the recorded run" in drawn.caption
    again = load(result.save(tmp_path / "kept.json"))
    pd.testing.assert_frame_equal(again.summary(), result.summary())


def test_boxes_hold_what_is_called_in_them() -> None:
    result = made(
        ("hog", "runnable", "irq;schedule", 3_000_000),
        ("hog", "runnable", "irq;other", 1_000_000),
        ("hog", "interruptible", "syscall;schedule", 4_000_000),
        ("reader", "interruptible", "syscall;read;schedule", 8_000_000),
    )
    table = flame.frame(result)
    roots = table[table["depth"] == 0].set_index("name")
    assert roots["off_cpu_ns"].to_dict() == {"hog": 8_000_000, "reader": 8_000_000}
    assert (roots.loc["hog", "left_share"], roots.loc["hog", "right_share"]) == (0, 0.5)
    irq = table[table["name"] == "irq"].iloc[0]
    assert irq["off_cpu_ns"] == 4_000_000 and irq["state"] == "runnable"
    for box in table[table["depth"] > 0].itertuples():
        above = table[(table["depth"] == box.depth - 1) & (table["left_share"] <= box.left_share + 1e-9)]
        parent = above[above["right_share"] >= box.right_share - 1e-9]
        assert len(parent) == 1 and parent["off_cpu_ns"].iloc[0] >= box.off_cpu_ns
    assert (table["right_share"] - table["left_share"]).to_numpy() == pytest.approx(
        (table["off_cpu_ns"] / 16_000_000).to_numpy()
    )
    drawn = result.plot()
    assert "25 % of the time" in drawn.caption
    assert "The reader: interruptible 8 ms, mostly in syscall > read > schedule" in drawn.alt
    assert experiment.folded(result).splitlines()[0] == "hog;interruptible;syscall;schedule 4000"
    with pytest.raises(ParameterError):
        result.plot(predictions=[{"value": 1, "unit": "ms"}])


def test_sleep_ends_at_the_wake_up() -> None:
    stacks = pd.DataFrame(
        {
            "tid": [1, 2, 2],
            "state": ["runnable", "interruptible", "uninterruptible"],
            "stack": ["irq", "nap", "disk"],
            "times": [3, 2, 1],
            "off_cpu_ns": [30, 500, 40],
            "waited_ns": [30, 100, 0],
        }
    )
    found = experiment.divided(stacks).set_index(["tid", "state"])["off_cpu_ns"].to_dict()
    assert found == {
        (1, "runnable"): 30,
        (2, "interruptible"): 400,
        (2, "uninterruptible"): 40,
        (2, "woken"): 100,
    }
    drawn = made(
        ("hog", "runnable", "irq", 600), ("nap", "interruptible", "nap", 300), ("nap", "woken", "nap", 100)
    )
    caption = drawn.plot().caption
    assert "70 % of the time" in caption and "the others spent 25 % of theirs" in caption


def test_nothing_to_draw_or_fold() -> None:
    with pytest.raises(ResultError):
        flame.frame(made(("hog", "runnable", "irq", 0)))
    assert experiment.folded(made(("hog", "runnable", "irq", 0))) == ""
    with pytest.raises(ParameterError):
        experiment.folded(Result("runqlat.histogram", pd.DataFrame(), {}, {}))
