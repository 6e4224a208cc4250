"""Weights: the scales, this machine's groups against each other, and two hogs that share a CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import sched_labs
from sched_labs import workloads
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.result import Result
from sched_labs.limits import weights
from sched_labs.machine import cgroup, files
from sched_labs.machine.seen import Seen
from sched_labs.topics.scheduler_latency.weights import experiment as pairs_experiment


def test_the_scales_agree_with_their_sources() -> None:
    # sched_prio_to_weight; cpu.weight's default; both ends and the default of the runtimes' conversions
    assert [weights.of_nice(nice) for nice in (-20, 0, 10, 19)] == [88761, 1024, 110, 15]
    assert [weights.from_cgroup(weight) for weight in (1, 25, 100, 10_000)] == [10, 256, 1024, 102_400]
    assert [weights.runtime_linear(shares) for shares in (2, 1024, 1 << 18)] == [1, 39, 10_000]
    assert [weights.runtime_quadratic(shares) for shares in (2, 1024, 1 << 18)] == [1, 100, 10_000]
    assert [weights.runtime_linear(2000), weights.runtime_quadratic(2000)] == [77, 170]  # runc issue 4896
    assert weights.kubernetes_shares(1000) == 1024 and weights.kubernetes_shares(1) == 2
    assert weights.share(weights.of_nice(5)) == pytest.approx(0.2465, abs=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: weights.of_nice(20),
        lambda: weights.from_cgroup(0),
        lambda: weights.runtime_linear(1),
        lambda: weights.runtime_quadratic(1 << 19),
    ],
)
def test_weights_that_no_kernel_takes_are_refused(wrong: Callable[[], int]) -> None:
    with pytest.raises(ParameterError):
        wrong()


def _process(tree: Path, pid: str, group: str, session: str = "", uid: int = 12345) -> None:
    folder = tree / "proc" / pid
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(group)
    (folder / "comm").write_text(f"program{pid}\n")
    (folder / "status").write_text(f"Uid:\t{uid}\t{uid}\n")
    (folder / "stat").write_text(f"{pid} (program) S 1 1 1 0 -1 0 0\n")
    if session:
        (folder / "autogroup").write_text(session)


def _tree(tree: Path, mount: str) -> None:
    own = tree / "proc" / "self"
    own.mkdir(parents=True)
    (own / "mountinfo").write_text(mount)
    kernel = tree / "proc" / "sys" / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "sched_autogroup_enabled").write_text("1\n")


V2 = "30 20 0:26 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup2 rw\n"


def test_nested_groups_are_compared_where_their_ways_part(tmp_path: Path) -> None:
    _tree(tmp_path, V2)
    top = tmp_path / "sys/fs/cgroup"
    for folder, weight in (
        ("user", 100),
        ("user/one", 100),
        ("user/two", 300),
        ("system", 25),
        ("idle", 100),
    ):
        (top / folder).mkdir(parents=True)
        (top / folder / "cpu.weight").write_text(f"{weight}\n")
    (top / "idle" / "cpu.idle").write_text("1\n")
    (top / "user/two/bare").mkdir()  # without the cpu controller: no task group
    (top / "cgroup.controllers").write_text("cpuset cpu memory\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/user/one\n")
    for pid, group in (("10", "user/one"), ("11", "user/two"), ("12", "user/two/bare"), ("13", "system"),
                       ("14", "idle")):  # fmt: skip
        _process(tmp_path, pid, f"0::/{group}\n", session="/autogroup-1 nice 0\n")
    with files.root(tmp_path):
        table = weights.neighbours().set_index("name")
        assert cgroup.task_group(cgroup.hierarchy(Seen(), "cpu")).value == "its control group"
    shares = table.share_percent.round(1).to_dict()
    assert shares["user/two"] == 75.0 and table.processes["user/two"] == 2
    assert shares["user/one"] == 50.0 and table.yours["user/one"]
    assert shares["cgroup/system"] == 20.0
    assert shares["cgroup/idle"] == pytest.approx(0.3, abs=0.01)
    assert set(table.kind) == {"control group"}  # none is in the topmost group, so no session counts


def test_sessions_count_in_the_topmost_group_and_others_names_stay_theirs(tmp_path: Path) -> None:
    _tree(tmp_path, V2)
    top = tmp_path / "sys/fs/cgroup"
    top.mkdir(parents=True)
    (top / "cgroup.controllers").write_text("cpu\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "proc/self/autogroup").write_text("/autogroup-7 nice 0\n")
    _process(tmp_path, "20", "0::/\n", "/autogroup-7 nice 0\n")
    _process(tmp_path, "21", "0::/\n", "/autogroup-8 nice 10\n")
    _process(tmp_path, "22", "0::/\n")
    with files.root(tmp_path):
        table = weights.neighbours()
        assert cgroup.task_group(cgroup.hierarchy(Seen(), "cpu")).value == "its session (autogroup)"
        (top / "cpu.weight").write_text("100\n")  # as in a container, which takes its own group for the root
        assert cgroup.task_group(cgroup.hierarchy(Seen(), "cpu")).value == "its control group"
    assert list(table.kind) == ["session", "no group", "session"]
    assert list(table.weight) == [1024, 1024, 110] and list(table.yours) == [True, False, False]
    assert "program21" not in set(table.name) and "another user's" in set(table.name)


@pytest.mark.parametrize("shown", ["/", "/docker/4f2a"], ids=["namespace", "none"])
def test_a_container_of_v1_is_no_root(tmp_path: Path, shown: str) -> None:
    """With a control group namespace and without: what is mounted as the root is the container's group."""
    _tree(tmp_path, f"30 20 0:26 {shown} /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
    top = tmp_path / "sys/fs/cgroup/cpu"
    top.mkdir(parents=True)
    (top / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "proc/self/cgroup").write_text(f"4:cpu:{shown}\n")
    (tmp_path / "proc/self/autogroup").write_text("/autogroup-7 nice 0\n")
    with files.root(tmp_path):
        assert cgroup.task_group(cgroup.hierarchy(Seen(), "cpu")).value == "its control group"
        (top / "cgroup.sane_behavior").write_text("0\n")  # only the machine's own root has it
        assert cgroup.task_group(cgroup.hierarchy(Seen(), "cpu")).value == "its session (autogroup)"


def test_this_machines_own_group_is_among_them() -> None:
    table = weights.neighbours()
    assert len(table) and table.share_percent.between(0, 100).all() and table.yours.sum() <= 1
    assert (table[table.yours].share_percent == 50).all()


def test_hogs_in_sessions_of_their_own_end_with_their_workload() -> None:
    """They have left its process group, so that a signal to that does not reach them."""
    with workloads.start("weights", ["--sessions", "1", "--duration-ms", "60000"], deadline_s=90) as hogs:
        assert {os.getsid(tid) for tid in hogs.tids} == set(hogs.tids)
        hogs.go()
    until = time.monotonic() + 5
    while any(Path(f"/proc/{tid}").exists() for tid in hogs.tids) and time.monotonic() < until:
        time.sleep(0.01)
    assert not [tid for tid in hogs.tids if Path(f"/proc/{tid}").exists()]


def test_where_nice_values_are_refused_the_run_says_so(
    monkeypatch: pytest.MonkeyPatch, own_lock: None
) -> None:
    """As for whoever started the notebook with nice, and is no root."""
    monkeypatch.setattr(pairs_experiment, "_block", lambda *_: ([1, 1], False))
    with pytest.raises(PlacementError, match="refused the hogs' nice values") as refused:
        sched_labs.weights.pairs(trials=1, duration_s=0.1)
    assert refused.value.lacking


def test_the_two_share_the_cpu_and_nice_counts_within_a_session(tiny: Callable[[str], Result]) -> None:
    run = tiny("weights.pairs")
    assert (run.data.first_cpu_ns + run.data.second_cpu_ns <= 1.1 * run.data.elapsed_ns).all()
    table = run.summary().set_index("arrangement")
    assert table.by_groups_percent["one session"] == pytest.approx(9.7, abs=0.01)
    two = table.reindex(["alike", "one session"])
    if (two.pair_percent > 80).all():  # nobody else took turns of these short blocks
        assert table.second_percent["one session"] < table.second_percent["alike"]
