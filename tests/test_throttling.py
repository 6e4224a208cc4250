"""CPU limits for real, in the tiny profile, and on constructed records: relations and counts, never times."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from waiting import wait_until

from sched_labs import draw as figures
from sched_labs import machine, workloads
from sched_labs.core import lock
from sched_labs.core.errors import ParameterError, PlacementError, WorkloadError
from sched_labs.core.result import Result, recorded
from sched_labs.limits import cgroups
from sched_labs.probes import runqlat
from sched_labs.probes.waits import OCCUPANTS
from sched_labs.run.base import Experiment
from sched_labs.topics.cgroup_throttling.isolation import experiment as isolation
from sched_labs.topics.cgroup_throttling.quota import experiment as quota
from sched_labs.topics.cgroup_throttling.quota import figure as throttle_figure
from sched_labs.topics.cgroup_throttling.service import experiment as service

MS = 1_000_000
ALL = (quota.hog, quota.threads, service.latency, service.contention)


def _own_lock(folder: Path, patch: pytest.MonkeyPatch) -> None:
    place = folder / "lock"
    place.mkdir(exist_ok=True)
    place.chmod(0o1777)
    patch.setattr(lock, "_PLACES", (place,))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock and a data folder of our own: these tests look at no absolute time."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    _own_lock(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def measured(tiny: Callable[[str], Result]) -> Callable[[Experiment], Result]:
    """A tiny run of an experiment, measured once."""
    return lambda experiment: tiny(experiment.name)


@pytest.fixture(scope="module")
def allowed() -> None:
    able, why = cgroups.possible()
    if not able:
        pytest.skip(why)


def documented(experiment: Experiment) -> set[str]:
    text = experiment.summarise.__doc__ or ""
    return set(re.findall(r"\b[a-z_0-9]+\b", text))


@pytest.mark.parametrize("experiment", ALL, ids=lambda e: e.name)
def test_summaries_figures_and_captions(
    experiment: Experiment, measured: Callable[[Experiment], Result], tmp_path: Path
) -> None:
    result = measured(experiment)
    table = result.summary()
    assert len(table) and set(table.columns) <= documented(experiment)
    figure = result.plot(recorded=result, predictions=[figures.Prediction(30, "ms")])
    assert figure.caption.endswith(".") and "nan" not in figure.caption + figure.alt
    assert "recorded on" in figure.alt and len(figure.data)
    assert figure.save(tmp_path / "figure.svg").stat().st_size > 5000


def test_the_timeline_holds_the_gaps_of_one_trial(measured: Callable[[Experiment], Result]) -> None:
    line = throttle_figure.timeline(measured(quota.hog))
    assert {"share_percent", "at_ns", "gap_ns", "stall"} == set(line.columns)
    assert not line[line.share_percent == 100].stall.any()
    assert (line.at_ns.diff()[line.share_percent.diff() == 0] >= 0).all()


@pytest.mark.usefixtures("allowed")
def test_a_hog_is_held_back_and_the_kernel_counts_it(measured: Callable[[Experiment], Result]) -> None:
    result = measured(quota.hog)
    assert result.facts["default_period_ns"] == 100 * MS
    assert "nr_throttled" in result.facts["stat_fields"]
    for block in result.records("blocks"):
        if block["share_percent"] == 100:
            assert block["periods"] == block["throttled_periods"] == 0
            continue
        quotas = block["periods"] + 1
        spent = quotas * block["share_percent"] / 100 * block["period_ns"]
        # No more than a quota in each period, and what each period's last slice and tick overran.
        assert block["cpu_ns"] <= spent + result.parameters["slice_ns"] + 2 * result.parameters["tick_ns"]
        assert block["throttled_periods"] <= block["periods"]
    table = result.summary().set_index("share_percent")
    # Held back, unless other programs left it less than its quota.
    assert table.throttled_periods[20] > 0 or table.cpu_percent[20] < 20


@pytest.mark.usefixtures("allowed")
def test_all_threads_stand_still_together(measured: Callable[[Experiment], Result]) -> None:
    result = measured(quota.threads)
    table = result.summary().set_index("threads")
    assert list(table.index) == [1, 2, 4, 16]
    assert (table.throttled_periods <= table.periods).all()
    # Where others left the group the CPU time of its quota, it was used up; on a busy machine they may not.
    spent = table.cpu_percent / 100 >= 1.05 * table.quota_ns / table.period_ns
    assert (table.throttled_periods[spent] > 0).all()
    # Stalls do not overlap: each begins after the one before it has ended.
    for _, rows in result.data.groupby(["threads", "trial"]):
        assert (rows.at_ns.iloc[1:].to_numpy() >= (rows.at_ns + rows.stall_ns).iloc[:-1].to_numpy()).all()


def test_when_every_worker_has_a_gap() -> None:
    """On CONSTRUCTED gaps."""
    one, two = [(0, 10), (20, 30), (60, 5)], [(5, 20), (30, 10), (61, 100)]
    assert list(quota.together([one, two], least_ns=1)) == [(5, 5), (20, 5), (30, 10), (61, 4)]
    assert list(quota.together([one, two], least_ns=5)) == [(5, 5), (20, 5), (30, 10)]
    assert list(quota.together([one], least_ns=1)) == one
    assert list(quota.together([one, []], least_ns=1)) == []


def hog_result(gaps: dict[int, list[float]], throttled: int = 5) -> Result:
    """A CONSTRUCTED run with a period of 100 ms: for each share its gaps in ms, all in one trial."""
    rows = [
        {
            "share_percent": share,
            "period_ns": 100 * MS,
            "trial": trial,
            "at_ns": n * 100 * MS,
            "gap_ns": ms * MS,
        }
        for share, some in gaps.items()
        for trial in (0, 1)
        for n, ms in enumerate(some)
    ]
    blocks = [
        {
            "share_percent": share, "period_ns": 100 * MS, "trial": trial, "elapsed_ns": 500 * MS,
            "cpu_ns": 5 * share * MS, "involuntary": 5, "periods": 5 if share < 100 else 0,
            "throttled_periods": throttled if share < 100 else 0,
            "throttled_ns": throttled * (100 - share) * MS,
        }
        for share in gaps
        for trial in (0, 1)
    ]  # fmt: skip
    return Result(
        "quota.hog",
        pd.DataFrame(rows),
        {"cpus": 2},
        {"slice_ns": 5 * MS, "tick_ns": 4 * MS},
        {"blocks": pd.DataFrame(blocks)},
        {"default_period_ns": 100 * MS, "stat_fields": ["nr_periods", "nr_throttled", "throttled_usec"]},
    )


def test_a_constructed_hog_is_summed_up_by_hand() -> None:
    # 20 ms is somebody else's gap: less than half of the 50 ms that the formula asks for.
    table = hog_result({50: [50, 20, 52, 48, 50], 100: [30]}).summary().set_index("share_percent")
    row = table.loc[50]
    assert (row.stalls, row.stall_ns, row.formula_stall_ns) == (8, 50 * MS, 50 * MS)
    assert (row.off_by_ns, row.counted_stall_ns, row.throttled_percent) == (0, 50 * MS, 100)
    assert (row.ran_ns, row.cpu_percent, row.throttled_field) == (50 * MS, 50, "throttled_usec")
    assert table.loc[100].stalls == 0 and np.isnan(table.loc[100].stall_ns)


def test_gaps_that_no_throttled_period_explains_are_no_stalls() -> None:
    """Other programs had the CPU, not the limit."""
    result = hog_result({50: [50, 52], 100: [30]}, throttled=0)
    row = result.summary().set_index("share_percent").loc[50]
    assert row.stalls == 0 and np.isnan(row.stall_ns)
    assert not throttle_figure.timeline(result).stall.any()
    assert throttle_figure.timeline(hog_result({50: [50, 52], 100: [30]})).stall.sum() == 2


def test_a_hog_without_a_limit_is_drawn_too() -> None:
    figure = hog_result({100: [4, 30]}).plot()
    assert "no limit was set here" in figure.caption
    assert "Below" not in figure.alt


# --- requests ---


@pytest.mark.parametrize("experiment", [service.latency, service.contention], ids=lambda e: e.name)
def test_no_request_is_lost(experiment: Experiment, measured: Callable[[Experiment], Result]) -> None:
    result = measured(experiment)
    keys = ["limit", "demand_percent", "neighbour", "hogs", "trial"]
    rows = result.data.groupby(keys).size()
    for block in result.records("blocks"):
        own = result.data[(result.data[keys] == [block[key] for key in keys]).all(axis=1)]
        assert block["arrived"] == block["completed"] + block["waiting"]
        assert block["arrived"] == rows[tuple(block[key] for key in keys)]
        assert block["completed"] == own.latency_ns.notna().sum()
        assert (own.latency_ns.dropna() >= own.queued_ns.dropna()).all() and (
            own.queued_ns.dropna() >= 0
        ).all()
        assert (own.waited_ns[own.latency_ns.isna()] > 0).all()
    table = result.summary()
    assert (table.p50_ns <= table.p99_ns).all() and (table.p99_lo_ns <= table.p99_hi_ns).all()
    assert not [note for note in result.notes if "went missing" in note.text]


@pytest.mark.usefixtures("allowed")
def test_waits_are_split_by_cause_where_the_kernel_can_be_watched(
    measured: Callable[[Experiment], Result],
) -> None:
    result = measured(service.contention)
    table = result.summary()
    assert (table.pressure_percent.dropna() <= 101).all()
    if not runqlat.available().ok:
        assert table.held_ns.isna().all() and any("BPF" in note.text for note in result.notes)
        pytest.skip("the kernel cannot be watched here")
    assert (table.held_ns[table.limit == "none"] == 0).all()  # without a limit nothing holds anybody back
    assert (table.rivals_ns[table.neighbour == "hogs"] > 0).all()
    watched = [block for block in result.records("blocks") if block["waits_ns"]]
    assert len(watched) == len(result.records("blocks")) == result.parameters["trials"] * len(table)


def test_a_guess_of_a_wait_stands_among_the_waits() -> None:
    run = recorded("service.contention")
    assert run
    drawing = run.plot(predictions=[figures.Prediction(100, "ms")]).mpl
    marked = [ax for ax in drawing.axes if any(line.is_dashed() for line in ax.lines)]
    assert [ax.get_title("left") for ax in marked] == ["run-queue wait per request (schedstat)"]
    assert marked[0].get_xlim()[1] > 100 * MS
    run.tables["blocks"]["run_delay_ns"] = 0  # a kernel that keeps none
    with pytest.raises(ParameterError, match="no axis on this figure"):
        run.plot(predictions=[figures.Prediction(100, "ms")])


def test_a_constructed_wait_is_split_by_hand() -> None:
    waits = dict.fromkeys(OCCUPANTS, 0) | {"throttled": 600, "same_program": 30, "other_task": 10}
    blocks = pd.DataFrame({"arrived": [10, 99], "waits_ns": [waits, None]})
    causes = service._causes(blocks)
    assert causes["throttled"] == 60 and causes["same_program"] + causes["other_task"] == 4
    assert np.isnan(service._causes(blocks.iloc[1:])["throttled"])


def test_every_condition_gets_the_same_requests(measured: Callable[[Experiment], Result]) -> None:
    data = measured(service.latency).data
    most = data[data.demand_percent == data.demand_percent.max()]
    for _, trial in most.groupby("trial"):
        schedules = {tuple(rows.arrival_ns) for _, rows in trial.groupby(["limit", "neighbour"])}
        assert len(schedules) == 1
    assert len({tuple(rows.arrival_ns) for _, rows in most.groupby("trial")}) > 1


@pytest.mark.usefixtures("allowed")
def test_a_quota_below_the_demand_throttles_and_lengthens(tmp_path: Path) -> None:
    result = service.latency(
        quota_us=5_000, period_us=50_000, demands_percent=[200], limits=["none", "quota"],
        neighbours=["idle"], work_us=1_000, trials=1, duration_s=0.6, profile="tiny",
        save=False, progress=False,
    )  # fmt: skip
    table = result.summary().set_index("limit")
    if table.cpu_percent["none"] < 15:
        pytest.skip("other programs left the service less than its quota needs")
    assert table.throttled_percent["none"] == 0 and table.throttled_percent["quota"] > 50
    assert table.p50_ns["quota"] > table.p50_ns["none"]
    assert table.cpu_percent["quota"] < table.cpu_percent["none"]
    assert table.waiting["quota"] > table.waiting["none"]
    error = service.model_error(result).iloc[0]
    assert error.model_throttled_percent > 50


@pytest.mark.parametrize(
    ("boundary_ms", "latency_ms"), [(None, 110), (0, 110), (90, 100), (-110, 100), (20, 30)]
)
def test_the_model_begins_its_periods_when_the_kernel_did(boundary_ms: int | None, latency_ms: int) -> None:
    """On a CONSTRUCTED request of 30 ms at the start of a run, under 20 ms in 100 ms."""
    about = {"limit": "quota", "demand_percent": 80, "neighbour": "idle", "hogs": 0, "trial": 0}
    data = pd.DataFrame([about | {"arrival_ns": 0, "latency_ns": np.nan, "waited_ns": 1000 * MS}])
    block = about | {"completed": 1, "cpu_ns": 30 * MS, "elapsed_ns": 1000 * MS}
    block["boundary_ns"] = None if boundary_ms is None else boundary_ms * MS
    parameters = {
        "quota_us": 20_000, "period_us": 100_000, "arrivals": "poisson", "threads": 1,
        "cpus": [0], "slice_us": 5000, "tick_us": None, "duration_s": 1.0, "work_us": 30_000,
    }  # fmt: skip
    run = Result("service.latency", data, {"cpus": 1}, parameters, {"blocks": pd.DataFrame([block])})
    assert service.modelled(run).latency_ns.round().tolist() == [latency_ms * MS]


def test_model_and_kernel_are_compared_by_the_periods_that_the_kernel_counted() -> None:
    """The same CONSTRUCTED request, throttled once; two periods were counted outside of the run's ten."""
    about = {"limit": "quota", "demand_percent": 80, "neighbour": "idle", "hogs": 0, "trial": 0}
    data = pd.DataFrame([about | {"arrival_ns": 0, "latency_ns": 110.0 * MS, "waited_ns": 0}])
    block = about | {
        "arrived": 1, "completed": 1, "waiting": 0, "elapsed_ns": 1000 * MS, "cpu_ns": 30 * MS,
        "involuntary": 0, "run_delay_ns": 0, "boundary_ns": 0, "tick_ns": None, "periods": 12,
        "throttled_periods": 1, "throttled_ns": 80 * MS, "pressure_us": None, "pressure_window_ns": 1000 * MS,
    }  # fmt: skip
    parameters = {
        "quota_us": 20_000, "period_us": 100_000, "arrivals": "poisson", "threads": 1,
        "cpus": [0], "slice_us": 5000, "tick_us": None, "duration_s": 1.0, "work_us": 30_000,
    }  # fmt: skip
    tables = {"blocks": pd.DataFrame([block])}
    error = service.model_error(Result("service.latency", data, {"cpus": 1}, parameters, tables)).iloc[0]
    assert error.throttled_percent == error.model_throttled_percent == 100 / 12
    assert error.off_by_points == 0


def test_a_tick_is_seen_where_the_next_ones_are() -> None:
    tick_ns = machine.survey().tick_ns
    if tick_ns is None:
        pytest.skip("neither the kernel's configuration nor a clock tells here how long a tick is")
    seen = [service._tick_ns() for _ in range(7)]
    assert None not in seen
    # Round the circle of a tick, most lie close together; one may come late on a busy machine.
    phases = np.array(seen, dtype=float) % tick_ns
    apart = np.abs(phases - np.median(phases))
    assert np.median(np.minimum(apart, tick_ns - apart)) < tick_ns / 4


@pytest.mark.usefixtures("allowed")
def test_the_begin_of_a_period_is_seen_where_periods_are_counted() -> None:
    server = service.Server([max(os.sched_getaffinity(0))], 1, 1, 1, 1, 10_000, 20_000, "even", 1.0, True)
    seen: list[int] = []
    for _ in range(20):  # a busy machine does not let us look often enough
        with cgroups.group("edge", quota_us=10_000, period_us=20_000) as group:
            looks = (service._boundary_ns(group, server) for _ in range(2))
            seen = [ns for ns in looks if ns is not None]
        if len(seen) == 2:
            break
    assert len(seen) == 2, "no edge of a period was seen, twenty times"
    off = (seen[1] - seen[0] + 10 * MS) % (20 * MS) - 10 * MS
    assert seen[1] > seen[0] and abs(off) <= 2 * service.EDGE_NS


def test_a_closed_loop_asks_less_when_it_is_slow() -> None:
    words = ["--arrivals", "closed", "--threads", "2", "--duration-ms", "200", "--think-us", "1000"]
    arrived = []
    for loops in ("1000", "20000000"):
        with workloads.start("service", [*words, "--loops", loops]) as running:
            records = running.run()
        total = next(record for record in records if record.kind == "service")
        assert total["arrived"] == total["completed"] and total["waiting"] == 0
        arrived.append(total["arrived"])
    assert arrived[0] > 5 * arrived[1] > 0


@pytest.mark.computes  # when requests are to arrive, and not when they did
def test_the_schedule_is_poisson_and_comes_from_the_seed() -> None:
    def arrivals(seed: int, *more: str) -> Any:
        words = ["--rate-per-s", "20000", "--duration-ms", "500", "--loops", "1", "--seed", str(seed), *more]
        with workloads.start("service", words) as running:
            return np.array([r["arrival_ns"] for r in running.run() if r.kind == "request"], dtype=float)

    first, other = arrivals(1), arrivals(2)
    apart = np.diff(first)
    assert (first == arrivals(1)).all() and (first != other).any()
    # As many as the rate says, so that no seed brings more work than another; only their places are random.
    assert len(first) == len(other) == 10_000
    assert (np.diff(first) >= 0).all() and first[0] >= 0 and first[-1] < 500 * MS
    # 10,000 exponential gaps of 50 µs: mean and standard deviation are equal, to within five standard errors.
    assert apart.mean() == pytest.approx(50_000, rel=0.05) and apart.std() == pytest.approx(50_000, rel=0.1)
    assert np.quantile(apart, 0.5) == pytest.approx(50_000 * np.log(2), rel=0.1)
    # The number is fixed over the whole run alone: in its parts it varies as that of independent users does.
    counts = np.histogram(first, bins=500, range=(0, 500 * MS))[0]
    assert counts.var() == pytest.approx(counts.mean(), rel=0.25)
    even = np.diff(arrivals(1, "--arrivals", "even"))
    assert even.max() - even.min() <= 1
    crowds = arrivals(1, "--batch", "4")
    assert (np.unique(crowds, return_counts=True)[1] == 4).all()


def test_arguments_that_the_server_does_not_take() -> None:
    with pytest.raises(WorkloadError, match="--arrivals takes poisson, even or closed"):
        workloads.start("service", ["--arrivals", "often"])


# --- isolation ---


def test_an_owner_and_its_intruders() -> None:
    result = isolation.cpuset(profile="tiny", save=False, progress=False)
    table = result.summary()
    assert set(table.columns) <= documented(isolation.cpuset)
    missing = [
        note.text.partition(":")[0].replace(" ", "_") for note in result.notes if note.level == "missing"
    ]
    assert set(table.condition) | set(missing) >= {"alone", "affinity"}
    if len(os.sched_getaffinity(0)) > 1:
        assert set(table.condition) | set(missing) == set(isolation.CONDITIONS)
    assert (result.data.cpu_ns > 0).all() and (result.data.longest_gap_ns <= result.data.elapsed_ns).all()
    assert (table.cpu_lo_percent <= table.cpu_percent).all() and (table.cpu_hi_percent <= 101).all()
    assert len(result.data) == 2 * len(table)
    figure = result.plot(recorded=result)
    assert figure.caption.startswith("Of its CPU the thread had") and "nan" not in figure.alt
    with pytest.raises(ParameterError, match="no axis on this figure"):
        result.plot(predictions=[figures.Prediction(1, "ms")])


def test_many_cpus_do_not_mean_more_intruders_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    large = SimpleNamespace(survey=lambda: SimpleNamespace(cpus_allowed=list(range(64))))
    monkeypatch.setattr(isolation, "machine", large)
    result = isolation.cpuset(conditions=["alone"], profile="tiny", save=False, progress=False)
    assert result.parameters["intruders"] == isolation.MOST_INTRUDERS


# --- parameters, and machines without groups ---

WRONG: list[tuple[Experiment, dict[str, Any], str]] = [
    (isolation.cpuset, {"conditions": ["fence"]}, "conditions does not take"),
    (isolation.cpuset, {"intruders": 0}, "intruders must be 1 to 64"),
    (isolation.cpuset, {"trials": 0}, "trials start at 1"),
    (quota.hog, {"shares_percent": [0]}, "from 1 to 99, not 0"),
    (quota.hog, {"shares_percent": 50}, "Give a list"),
    (quota.hog, {"periods_us": [500]}, "from 1,000 to 1,000,000"),
    (quota.hog, {"periods_us": [2000], "shares_percent": [20]}, "a quota of 1,000 µs or more, not 400"),
    (quota.hog, {"trials": 0}, "trials start at 1"),
    (quota.threads, {"threads": [65]}, "from 1 to 64"),
    (quota.threads, {"quota_us": 10}, "takes a quota of 1,000 µs or more, not 10"),
    (quota.threads, {"cpus": [4095]}, "CPU 4095 may not be used"),
    (service.latency, {"limits": ["hard"]}, "limits does not take"),
    (service.latency, {"neighbours": []}, "neighbours does not take"),
    (service.latency, {"demands_percent": [0]}, "demands_percent does not take"),
    (service.latency, {"arrivals": "often"}, "poisson, even or closed"),
    (service.latency, {"period_us": 2_000_000}, "takes a period from"),
    (service.latency, {"work_us": 0}, "work_us must be a whole number"),
    (service.latency, {"duration_s": 0}, "duration_s lies between"),
    (service.contention, {"hogs": [0]}, "Give numbers from 1 to 64"),
    (service.contention, {"demand_percent": 0}, "from 1 to 200"),
]


@pytest.mark.parametrize(("experiment", "given", "said"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_parameters_are_refused_before_anything_starts(
    experiment: Experiment, given: dict[str, Any], said: str
) -> None:
    with pytest.raises((ParameterError, PlacementError), match=re.escape(said).replace("\\ ", " ")):
        experiment(profile="tiny", save=False, progress=False, **given)
    assert not [folder for folder, _ in cgroups.left_behind() if f"/{os.getpid()}." in folder]


@pytest.mark.parametrize("experiment", ALL, ids=lambda e: e.name)
def test_without_groups_it_measures_the_rest_and_says_so(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PlacementError("No control group can be made here: constructed.", "Ask.")

    monkeypatch.setattr(cgroups.making, "make", refuse)
    result = experiment(profile="tiny", save=False, progress=False)
    assert any(
        note.level == "missing" and "No control group can be made" in note.text for note in result.notes
    )
    table = result.summary()
    assert (table.periods == 0).all() and (table.throttled_periods == 0).all()
    figure = result.plot()
    assert "no limit" in figure.caption.lower() and "cpu.stat" not in figure.alt
    assert experiment.instrument(_survey()).improve


def _survey() -> Any:
    from sched_labs import machine

    return machine.survey()


# --- nothing stays ---

CODE = """
import sys
from pathlib import Path
from sched_labs.core import lock
lock._PLACES = (Path(sys.argv[1]),)
from sched_labs import service
print("go", flush=True)
service.latency(profile="tiny", trials=50, save=False, progress=False)
"""


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_an_ended_run_leaves_no_group_and_no_process(how: signal.Signals, tmp_path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", CODE, str(tmp_path / "lock")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    mine = f"/{program.pid}."
    try:
        assert program.stdout and program.stdout.readline() == b"go\n"
        assert wait_until(lambda: any(mine in folder for folder, _ in cgroups.left_behind()))
        time.sleep(0.3)
        program.send_signal(how)
        program.wait(timeout=20)
        cgroups.clear()  # what the next run does first; after Ctrl-C there is nothing for it to do
        assert wait_until(lambda: not any(mine in folder for folder, _ in cgroups.left_behind()))
        assert wait_until(lambda: not workloads_of(program.pid))
    finally:
        program.kill()
        program.communicate()


def workloads_of(pid: int) -> list[int]:
    mark = f"{workloads.launch.MARKER}={pid}:".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.startswith(mark) for word in words):
                found.append(int(entry.name))
    return found


def test_what_is_usual_is_told_by_the_highest_demand_without_a_limit() -> None:
    rows = [
        *(
            {"limit": "none", "demand_percent": 80, "neighbour": "idle", "latency_ns": 1e6}
            for _ in range(100)
        ),
        *(
            {"limit": "none", "demand_percent": 30, "neighbour": "idle", "latency_ns": 9e6}
            for _ in range(100)
        ),
        *({"limit": "quota", "demand_percent": 90, "neighbour": "idle", "latency_ns": 9e6} for _ in range(9)),
        *({"limit": "none", "demand_percent": 80, "neighbour": "busy", "latency_ns": 9e6} for _ in range(9)),
    ]
    requests = pd.DataFrame(rows).assign(waited_ns=0)
    assert service.usual_ns(requests) == 1e6
    assert service.usual_ns(requests[requests.limit == "quota"]) == float("inf")
