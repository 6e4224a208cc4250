"""The experiments for real, in their tiny profile: structure and relations, never absolute times."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sched_labs import machine, workloads
from sched_labs.claims import UNKNOWN, judge
from sched_labs.core import lock, registry
from sched_labs.core.errors import BusyError, ParameterError, SchedLabError, WorkloadError
from sched_labs.core.result import Result, latest, load, recorded
from sched_labs.run import base
from sched_labs.topics.context_switch.context_switch import experiment as context_switch
from sched_labs.topics.context_switch.warmup import experiment as warmup

ALLOWED = sorted(os.sched_getaffinity(0))
KIB = 1024


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data and lock of our own; the lock so that these tests need not wait for somebody's experiment."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SCHED_LABS_PROFILE", "tiny")
    _own_lock(tmp_path, monkeypatch)
    return tmp_path


def _own_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "lock"
    place.mkdir(exist_ok=True)
    place.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (place,))


@pytest.fixture(scope="module")
def matrix(tiny: Callable[[str], Result]) -> Result:
    return tiny("context_switch.matrix")


@pytest.fixture(scope="module")
def sweep(tiny: Callable[[str], Result]) -> Result:
    return tiny("warmup.sweep")


def marked_processes() -> list[int]:
    """Workloads that this process started and that still run."""
    mark = f"{workloads.launch.MARKER}={workloads.launch.owner_mark()}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def gone(timeout_s: float = 10) -> bool:
    end = time.monotonic() + timeout_s
    while marked_processes():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# --- the matrix ---


@pytest.mark.skipif(len(ALLOWED) < 2, reason="the whole matrix needs two CPUs")
def test_the_matrix_is_complete(matrix: Result) -> None:
    data = matrix.data
    cells = data.groupby(["mechanism", "between", "placement"]).size()
    assert len(cells) == 5 * 2 * 3
    # Alone and exchange, in each turn of each trial.
    assert (cells == 2 * context_switch.TURNS * matrix.parameters["trials"]).all()
    assert not data.duplicated(["mechanism", "between", "placement", "trial", "turn", "condition"]).any()
    assert list(data.columns) == [
        *("mechanism", "between", "placement", "trial", "turn", "condition", "round_trips"),
        *("elapsed_ns", "cpu_ns", "voluntary_switches", "involuntary_switches", "migrations"),
    ]
    assert (data[["round_trips", "elapsed_ns", "cpu_ns"]] > 0).all().all()
    assert (data[["voluntary_switches", "involuntary_switches", "migrations"]] >= 0).all().all()
    assert not data.isna().any().any()


def test_the_matrix_says_how_it_was_measured(matrix: Result) -> None:
    assert matrix.kind == "context_switch.matrix" and matrix.timing == "native" and matrix.path is None
    assert matrix.parameters["profile"] == "tiny" and matrix.parameters["cpu"] in ALLOWED
    read_ns = {"clock_read_ns": matrix.machine["clock_read_ns"]}  # measured by each survey
    assert read_ns["clock_read_ns"] > 0
    assert matrix.machine == machine.survey().provenance() | read_ns
    assert {"steal_s", "steal_share", "others_share"} == set(matrix.surroundings)
    assert matrix.duration_s > 0


@pytest.mark.parametrize("mechanism", ["pipe", "eventfd", "futex"])
@pytest.mark.parametrize("between", ["threads", "processes"])
def test_on_one_cpu_every_round_trip_is_two_counted_switches(
    matrix: Result, mechanism: str, between: str
) -> None:
    summary = matrix.summary().set_index(["mechanism", "between", "placement"])
    assert summary.switches_per_round_trip[mechanism, between, "same_cpu"] == pytest.approx(2, abs=0.15)
    assert summary.migrations_per_1000[mechanism, between, "same_cpu"] == 0


def test_alone_nothing_is_switched(matrix: Result) -> None:
    alone = matrix.data[matrix.data.condition == "alone"]
    switches = (alone.voluntary_switches + alone.involuntary_switches) / alone.round_trips
    assert switches.median() < 0.1


def test_a_cell_is_flagged_exactly_where_its_counts_disagree(matrix: Result) -> None:
    for row in matrix.summary().itertuples():
        off = abs(row.switches_per_round_trip / row.expected_switches_per_round_trip - 1)
        assert row.flagged == (off > context_switch.TOLERANCE)


def test_a_round_trip_costs_more_than_its_system_calls(matrix: Result) -> None:
    cells = matrix.summary()
    blocking = cells[cells.mechanism.isin(["pipe", "eventfd"]) & (cells.placement == "same_cpu")]
    assert len(blocking) == 4 and (blocking.round_trip_ns > blocking.alone_ns).all()


def test_without_switches_there_is_no_cost_per_switch() -> None:
    """Two yielding threads on two CPUs never switch: the summary says missing, not zero."""
    block = {"mechanism": "yield", "between": "threads", "placement": "other_cpu", "round_trips": 100}
    rows = [
        block
        | {"trial": trial, "condition": condition, "elapsed_ns": 1000, "cpu_ns": 1000, "migrations": 0}
        | {"voluntary_switches": 0, "involuntary_switches": 0}
        for trial in range(3)
        for condition in ("alone", "exchange")
    ]
    result = Result("context_switch.matrix", pd.DataFrame(rows), {}, {})
    row = result.summary().iloc[0]
    assert np.isnan(row.net_per_switch_ns) and np.isnan(row.voluntary_share) and bool(row.flagged)


# --- the sweep ---


def test_the_sweep_is_complete(sweep: Result) -> None:
    data = sweep.data
    assert list(data.columns) == [
        *("access", "working_set_bytes", "trial", "turn", "condition", "partner_bytes", "pass_index"),
        *("pass_ns", "away_ns"),
    ]
    sizes, partner = sweep.parameters["working_sets_bytes"], sweep.parameters["partner_bytes"]
    assert set(data.working_set_bytes) == set(sizes) and len(sizes) >= 3
    for (_, _), point in data.groupby(["access", "working_set_bytes"]):
        blocks = point.groupby(["condition", "partner_bytes", "trial", "turn"]).size()
        assert set(blocks.index.droplevel(["trial", "turn"])) == {
            ("alone", 0),
            ("after_switch", 0),
            ("after_switch", partner),
        }
        assert len(blocks) == 3 * warmup.TURNS * sweep.parameters["trials"] and blocks.nunique() == 1
    assert (data.away_ns > 0).all() and (data.pass_ns >= 0).all()


def test_alone_a_pass_over_more_memory_takes_longer(sweep: Result) -> None:
    for _, curve in sweep.summary().groupby("access"):
        assert curve.sort_values("working_set_bytes").alone_ns.is_monotonic_increasing
    assert not any("cannot be trusted" in note.text for note in sweep.notes)


def test_a_baseline_that_does_not_grow_is_flagged() -> None:
    run = base.Run("warmup.sweep", "tiny", False)
    flat = {"access": "random", "condition": "alone", "pass_ns": 100}
    run.add([flat | {"working_set_bytes": size} for size in (4 * KIB, 16 * KIB)])
    warmup._check_baseline(run)
    assert [note.level for note in run.notes] == ["flag"] and "16 KiB" in run.notes[0].text


def test_only_a_partner_that_touches_memory_makes_a_row() -> None:
    result = warmup.sweep(
        working_sets_bytes=[8 * KIB], partner_bytes=64, access=["random"], between="threads", progress=False
    )
    summary = result.summary()
    assert summary.partner_bytes.tolist() == [64] and summary.trials.tolist() == [3]


# --- parameters that no run could use ---


def test_no_experiment_measures_without_the_machine() -> None:
    def hasty(run: base.Run) -> None:
        run.add(pd.DataFrame({"wait_ns": [1]}))

    experiment = base.experiment("none.at_all", summarise=lambda _: pd.DataFrame(), instrument=_by_hand)(
        hasty
    )
    with pytest.raises(AssertionError, match=r"run\.begin"):
        experiment(progress=False, save=False)


def test_a_memory_limit_of_the_cgroup_counts_as_available() -> None:
    class Small:
        def fact(self, key: str) -> Any:
            values = {"memory.available_bytes": 1 << 40, "cgroup.memory_limit_bytes": 64 << 20}
            return type("Fact", (), {"value": values[key]})

    assert warmup._available(Small()) == 64 << 20  # type: ignore[arg-type]


def test_experiments_are_found_by_their_short_names() -> None:
    assert registry.find("warmup") is warmup.sweep
    assert registry.find("context_switch.matrix") is context_switch.matrix
    for name in ("", "sweep", "nothing"):
        with pytest.raises(ParameterError, match=r"context_switch\.matrix"):
            registry.find(name)


# --- saving ---


def small_matrix(**options: Any) -> Result:
    return context_switch.matrix(
        mechanisms=["pipe"], between=["threads"], placements=["same_cpu"], progress=False, **options
    )


def test_a_run_is_kept_in_the_data_folder_and_comes_back(own_folders: Path) -> None:
    result = small_matrix()
    assert result.path and own_folders / "data" in result.path.parents
    again = load(result.path)
    pd.testing.assert_frame_equal(again.summary(), result.summary(), check_dtype=False)
    newest = latest("context_switch.matrix")
    assert newest and newest.path == result.path


def test_a_run_that_is_not_to_be_kept_writes_nothing(own_folders: Path) -> None:
    assert small_matrix(save=False).path is None
    assert not (own_folders / "data").exists()


def test_a_run_that_cannot_be_kept_is_returned_with_a_note(
    own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_folders / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(own_folders / "file"))
    result = small_matrix()
    assert len(result.data) and result.path is None
    assert any(n.level == "missing" and "not kept" in n.text for n in result.notes)


# --- stopping ---


class Interrupts:
    """Lets `after` workloads run, and interrupts the next one while it runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self.left, self.start = after, workloads.start
        monkeypatch.setattr(workloads, "start", self)

    def __call__(self, *arguments: Any, **options: Any) -> workloads.Workload:
        workload = self.start(*arguments, **options)
        if self.left == 0:
            workload.go()
            signal.raise_signal(signal.SIGINT)
        self.left -= 1
        return workload


def test_ctrl_c_returns_what_was_measured_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Interrupts(monkeypatch, after=2)
    result = context_switch.matrix(placements=["same_cpu"], progress=False)
    assert len(result.summary()) == 2
    assert any("Stopped early" in flag for flag in result.flags)
    assert result.path and load(result.path).flags == result.flags
    assert lock.holder() == ""
    assert gone()


def test_ctrl_c_during_the_sweep_keeps_its_finished_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    Interrupts(monkeypatch, after=1)
    result = warmup.sweep(working_sets_bytes=[4 * KIB, 8 * KIB], access=["random"], progress=False)
    assert result.summary().working_set_bytes.tolist() == [4 * KIB]
    assert any("Stopped early" in flag for flag in result.flags)
    assert lock.holder() == "" and gone()


def test_ctrl_c_before_anything_was_measured_is_passed_on(
    own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Interrupts(monkeypatch, after=0)
    with pytest.raises(KeyboardInterrupt):
        small_matrix()
    assert lock.holder() == "" and not (own_folders / "data").exists()
    assert gone()


def test_a_run_without_an_observation_is_an_error_and_is_not_kept(own_folders: Path) -> None:
    """A table of no rows would be kept as the newest run, and nobody could draw or judge it."""

    def nothing(run: base.Run) -> None:
        run.begin()
        run.add(pd.DataFrame({"wait_ns": []}))

    empty = base.experiment("none.at_all", summarise=lambda _: pd.DataFrame(), instrument=_by_hand)(nothing)
    with pytest.raises(SchedLabError, match="recorded nothing"):
        empty(progress=False)
    assert not (own_folders / "data").exists()


def _by_hand(survey: Any) -> base.Instrument:
    return base.Instrument("by hand")


def test_a_real_ctrl_c_in_mid_run_ends_a_program_cleanly(own_folders: Path) -> None:
    code = f"""
from pathlib import Path
from sched_labs import context_switch, workloads
from sched_labs.core import lock
lock._PLACES = (Path({str(own_folders / "lock")!r}),)
start, count = workloads.start, 0
def counting(*a, **k):
    global count
    count += 1
    if count == 2:
        print("second", flush=True)
    return start(*a, **k)
workloads.start = counting
r = context_switch.matrix(placements=["same_cpu"], trials=50, round_trips=5000, progress=False)
print(len(r.summary()), any("Stopped early" in f for f in r.flags), repr(lock.holder()))
"""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout
    with program:
        assert program.stdout.readline() == "second\n"
        time.sleep(0.2)
        program.send_signal(signal.SIGINT)
        cells, stopped, holder = program.stdout.readline().split()
        assert program.wait(timeout=30) == 0
    assert 1 <= int(cells) < 10 and stopped == "True" and holder == "''"


def test_a_workload_that_dies_ends_the_run_with_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    start = workloads.start

    def dying(*arguments: Any, **options: Any) -> workloads.Workload:
        workload = start(*arguments, **options)
        os.killpg(workload.pid, signal.SIGKILL)
        return workload

    monkeypatch.setattr(workloads, "start", dying)
    with pytest.raises(SchedLabError) as caught:
        small_matrix()
    assert isinstance(caught.value, WorkloadError) or "has ended" in str(caught.value)
    assert lock.holder() == "" and gone()


def test_a_run_waits_for_the_machine_and_gives_up_with_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_lock = lock.machine
    monkeypatch.setattr(
        lock, "machine", lambda purpose, **options: machine_lock(purpose, **options | {"wait_s": 0})
    )
    with machine_lock("somebody else"), pytest.raises(BusyError, match="somebody else"):
        small_matrix()


# --- one CPU ---


@pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed")
def test_with_one_cpu_the_rest_is_measured_and_the_reader_told(own_folders: Path) -> None:
    code = f"""
from pathlib import Path
from sched_labs import context_switch, warmup
from sched_labs.core import lock
from sched_labs.core.errors import PlacementError
lock._PLACES = (Path({str(own_folders / "lock")!r}),)
r = context_switch.matrix(mechanisms=["pipe"], between=["threads"], save=False, progress=False)
print(sorted(set(r.data.placement)), [n.level for n in r.notes if "one CPU only" in n.text])
try:
    context_switch.matrix(placements=["other_cpu"], save=False, progress=False)
except PlacementError as error:
    print(error.what)
print(len(warmup.sweep(working_sets_bytes=[4096], access=["random"], save=False, progress=False).summary()))
"""
    done = subprocess.run(
        ["taskset", "-c", str(ALLOWED[0]), sys.executable, "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "['same_cpu'] ['missing']"
    assert "needs two CPUs" in second
    assert third == "1"


@pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed")
@pytest.mark.parametrize("kind", ["balance.spread", "shootdown.calls", "runtimes.quota"])
def test_what_takes_a_second_cpu_is_refused_on_one(own_folders: Path, kind: str) -> None:
    command = [sys.executable, "-m", "sched_labs", "run", kind, "--profile", "tiny"]
    done = subprocess.run(["taskset", "-c", str(ALLOWED[0]), *command], capture_output=True, text=True)
    assert done.returncode == 2 and "CPU" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_notebook_without_a_compiler_shows_the_recorded_run_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(WorkloadError, match="no C compiler"):  # a program wants to know
        context_switch.matrix(profile="tiny", progress=False)
    monkeypatch.setattr(base, "in_notebook", lambda: True)
    shown, kept = context_switch.matrix(profile="tiny", progress=False), recorded("context_switch.matrix")
    assert kept and shown.data.equals(kept.data) and shown.recorded_at == kept.recorded_at
    assert "no C compiler" in shown.stands_in and kept.machine_line() in shown.flags[0]
    assert not list((tmp_path / "data").rglob("*.json"))  # it is no result of the reader's
    verdicts = judge(shown).table()
    assert (verdicts.outcome == UNKNOWN).all()
    assert verdicts.reason.str.startswith("Not measured here. On the recorded machine it ").all()
    judged = judge(shown)
    own = judge(kept)
    assert [v.there for _, v in judged] == [v.outcome for _, v in own], (
        "judged as the recorded run that it is"
    )
    html = judged._repr_html_()
    assert "cannot tell here" not in html and f"There: {kept.machine_line()}, recorded." in html
