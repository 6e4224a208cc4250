"""The pool, pinned or free, tiny: structure and relations that must hold, never absolute times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_experiments import documented_columns, gone

from sched_labs import experiments, lock, policies
from sched_labs.claims import judge
from sched_labs.errors import ParameterError
from sched_labs.experiments import pool
from sched_labs.probes import runqlat
from sched_labs.probes.attribution import OCCUPANTS
from sched_labs.probes.channel import Availability
from sched_labs.result import Result, from_json

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a pool needs two CPUs")


def own_lock(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Disturbed timing does not matter here, so nobody has to wait for anybody."""
    place = folder / "lock"
    place.mkdir()
    place.chmod(0o1777)
    patch.setattr(lock, "_PLACES", (place,))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        own_lock(tmp_path_factory.mktemp("pool"), patch)
        return pool.pinned(profile="tiny", save=False, progress=False)


def test_it_is_found_by_name() -> None:
    assert experiments.find("pool.pinned") is pool.pinned


def test_every_case_has_its_requests_in_order(tiny: Result) -> None:
    data, counted = tiny.data, pd.DataFrame(tiny.parameters["counted"])
    assert len(counted) == 2 * 2 * 3 * 2
    sent = data.groupby([*pool.KEYS, "trial"]).size()
    assert (sent == counted.set_index([*pool.KEYS, "trial"])["requests"].reindex(sent.index)).all()
    assert sent.nunique() == 1
    assert (data["start_ns"] >= data["due_ns"]).all()
    assert (data["done_ns"] > data["start_ns"]).all()
    assert set(data["worker"]) == {0, 1}
    assert set(data["cpu"]) <= set(tiny.parameters["cpus"])
    assert not (data["wait_ns"] < 0).any()


def test_a_thread_serves_one_request_at_a_time_and_only_its_own(tiny: Result) -> None:
    for (owner, *_), one in tiny.data.groupby([*pool.KEYS, "trial"]):
        for _, mine in one.groupby("worker"):
            mine = mine.sort_values("start_ns")
            assert (mine["start_ns"].to_numpy()[1:] >= mine["done_ns"].to_numpy()[:-1]).all()
        if owner == "thread":
            assert np.ptp(one.groupby("worker").size()) <= 1


def test_pinned_workers_stay_and_the_kernel_counts_no_fewer_moves(tiny: Result) -> None:
    counted = pd.DataFrame(tiny.parameters["counted"])
    pinned = counted[counted["placement"] == "pinned"]
    assert (pinned["moves"] == 0).all()
    cpus = tiny.data[tiny.data["placement"] == "pinned"].groupby("worker")["cpu"].unique()
    assert [list(cpu) for cpu in cpus] == [[cpu] for cpu in tiny.parameters["cpus"]]
    if counted["kernel_moves"].notna().all():
        assert (counted["kernel_moves"] >= counted["moves"]).all()


def test_the_intruder_came_where_it_was_asked_for(tiny: Result) -> None:
    counted = pd.DataFrame(tiny.parameters["counted"])
    stalls = counted.groupby("intruder")["stalls"]
    assert stalls.max()["none"] == 0
    assert stalls.min()["short"] > stalls.max()["long"] >= 1
    busy = counted[counted["intruder"] != "none"]
    stall_ns = 1000 * busy["intruder"].map(tiny.parameters["stall_us"])
    assert (busy["stalled_cpu_ns"] > 0).all()
    if tiny.parameters["intruder_policy"] == "FIFO":  # nobody takes its CPU away, but a hypervisor may
        assert (busy["stalled_cpu_ns"] < 2 * stall_ns * busy["stalls"]).all()


def test_its_summary_has_the_documented_columns(tiny: Result) -> None:
    table = tiny.summary()
    assert len(table) == 12
    assert set(documented_columns(pool.summarise.__doc__)) <= set(table.columns)
    assert (table["p50_ns"] <= table["p99_ns"]).all()
    assert (table["work_p50_ns"] <= table["work_p99_ns"]).all()
    assert (table["p99_lo_ns"] <= table["p99_ns"]).all() and (table["p99_ns"] <= table["p99_hi_ns"]).all()
    assert table.loc[table["placement"] == "pinned", "ratio_p99"].notna().all()
    assert table.loc[table["placement"] == "free", "ratio_p99"].isna().all()
    assert (table["queue_requests"] >= 1).all()


def test_the_longest_queue_is_what_was_due_and_in_nobodys_hand() -> None:
    trial = pd.DataFrame(
        {
            "owner": ["thread"] * 5,
            "worker": [0, 0, 0, 1, 1],
            "due_ns": [0, 10, 20, 5, 15],
            "start_ns": [30, 40, 50, 6, 16],
        }
    )
    assert pool._longest_queue(trial) == 3
    assert pool._longest_queue(trial.assign(owner="request")) == 3
    assert pool._longest_queue(trial.assign(start_ns=trial["due_ns"] + 1)) == 1


def test_waits_are_told_by_cause_where_the_probe_is(tiny: Result) -> None:
    table = pool.waits(tiny)
    if not runqlat.available().ok:
        assert table.empty and any("waited is missing" in note.text for note in tiny.notes)
        return
    assert set(table["occupied_by"]) == set(OCCUPANTS)
    assert (table["wait_ns"] >= 0).all()
    assert table.groupby(pool.KEYS)["share"].sum().to_numpy() == pytest.approx(1)


def test_without_privilege_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tid: int, policy: policies.Policy) -> None:
        raise policies.PolicyError(f"Thread {tid} does not get {policy.label}", "not allowed", 1)

    own_lock(tmp_path, monkeypatch)
    monkeypatch.setattr(policies, "apply", refuse)
    monkeypatch.setattr(runqlat, "available", lambda: Availability(False, "No probe here.", "Install it."))
    run = pool.pinned(profile="tiny", trials=1, hot_bytes=4096, save=False, progress=False)
    missing = [note.text for note in run.notes if note.level == "missing"]
    assert any("No probe here. Install it." in text for text in missing)
    assert any("no real-time policy" in text for text in missing)
    assert run.parameters["intruder_policy"] == "OTHER"
    assert pool.waits(run).empty
    assert {verdict.outcome for _, verdict in judge(run)}
    assert "p99" in "".join(run.plot().data.columns)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 1},
        {"workers": 10_000},
        {"hot_bytes": 10},
        {"hot_bytes": 1 << 40},
        {"period_us": 0},
        {"burst": 0},
        {"short_us": 0},
        {"long_us": 1_000_000},
        {"duration_s": 0},
        {"duration_s": 0.02, "period_us": 50_000},
        {"trials": 0},
    ],
)
def test_parameters_that_no_run_could_use_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        pool.pinned(profile="tiny", save=False, progress=False, **wrong)


def test_it_is_drawn_kept_and_judged(tiny: Result) -> None:
    again = from_json(tiny.to_json())
    figure = again.plot(recorded=tiny)
    assert "99 of 100 requests" in figure.caption and "pinned: long pieces" in figure.alt
    assert len(figure.data) == 6
    assert np.isfinite(figure.data.drop(columns="case").to_numpy(dtype=float)).all()
    assert {claim.id for claim, _ in judge(again)} >= {"000-074", "000-072", "000-077"}


def test_nothing_stays_behind(tiny: Result) -> None:
    assert len(tiny.data) > 0
    assert gone()
