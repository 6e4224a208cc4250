"""The pool, pinned or free, tiny: structure and relations that must hold, never absolute times."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.claims import judge
from sched_labs.core import registry
from sched_labs.core.result import Result, from_json
from sched_labs.probes import runqlat
from sched_labs.probes.channel import Availability
from sched_labs.probes.waits import OCCUPANTS
from sched_labs.run.base import Run
from sched_labs.steer import policies
from sched_labs.topics.pinning.pool import experiment as pool

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a pool needs two CPUs")


@pytest.fixture(scope="module")
def tiny(tiny: Callable[[str], Result]) -> Result:
    return tiny("pool.pinned")


def test_it_is_found_by_name() -> None:
    assert registry.find("pool.pinned") is pool.pinned


@pytest.fixture(scope="module", params=pool.OWNERS)
def records(request: pytest.FixtureRequest) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Whose the data are, the requests and the workers of one free pool of four."""
    owner = str(request.param)
    period = "200" if owner == "thread" else "800"
    words = [
        "--workers",
        "4",
        "--owner",
        owner,
        "--period-us",
        period,
        "--duration-ms",
        "20",
        "--hot",
        "4096",
    ]
    with workloads.start("pool", words) as one:
        told = one.run()
    requests, workers = (
        pd.DataFrame([record.values for record in told if record.kind == kind])
        for kind in ("request", "worker")
    )
    return owner, requests, workers


def test_every_request_is_served_once_and_in_order(records: tuple[str, pd.DataFrame, pd.DataFrame]) -> None:
    owner, requests, workers = records
    assert len(requests) == (400 if owner == "thread" else 25) == workers["requests"].sum()
    assert (requests["start"] >= requests["due"]).all()
    assert (requests["done"] > requests["start"]).all()
    assert ("sent" in requests) == (owner == "request")
    for _, mine in requests.groupby("worker"):
        mine = mine.sort_values("start")
        assert (mine["start"].to_numpy()[1:] >= mine["done"].to_numpy()[:-1]).all()


def test_a_thread_has_one_request_in_each_period_at_any_moment_of_it(
    records: tuple[str, pd.DataFrame, pd.DataFrame],
) -> None:
    owner, requests, workers = records
    if owner == "request":
        assert (requests["due"] == 800_000 * requests["number"]).all()
        return
    assert (workers["requests"] == 100).all()
    for _, mine in requests.groupby("worker"):
        assert (mine["due"] // 200_000 == np.arange(100)).all()
    moment = requests["due"] % 200_000
    assert moment.nunique() > 350 and 80_000 < moment.mean() < 120_000


def test_every_case_has_its_trials_and_its_requests(tiny: Result) -> None:
    data = tiny.data
    assert len(data) == 2 * 2 * 3 * 2 and not data.duplicated([*pool.KEYS, "trial"]).any()
    assert (data["requests"] == data["sent"]).all()
    assert data.groupby("owner")["requests"].agg(["min", "max"]).to_numpy().tolist() == [[75, 75], [150, 150]]
    assert (data["p50_ns"] <= data["p99_ns"]).all() and (data["p99_ns"] <= data["max_ns"]).all()
    assert not (data["wait_max_ns"] < 0).any()
    assert (data["dispatched_late_p99_ns"].isna() == (data["owner"] == "thread")).all()


def test_a_recorded_run_is_small(tiny: Result) -> None:
    assert len(tiny.to_json()) < 30_000


def test_pinned_workers_stay_and_the_kernel_counts_no_fewer_moves(tiny: Result) -> None:
    data = tiny.data
    assert (data.loc[data["placement"] == "pinned", "moves"] == 0).all()
    if data["kernel_moves"].notna().all():
        assert (data["kernel_moves"] >= data["moves"]).all()
    else:
        assert any("nr_migrations" in note.text for note in tiny.notes)


def test_a_pool_that_does_not_keep_up_is_flagged() -> None:
    run = Run("pool.pinned", "tiny", False)
    row = {"owner": "thread", "intruder": "none", "placement": "free", "moves": 0, "kernel_moves": 0.0,
           "requests": 9, "sent": 9, "dispatched_late_p99_ns": np.nan}  # fmt: skip
    run.add([row | {"p50_ns": 1.9e6}, row | {"p50_ns": 1.8e6}])
    pool._check_counts(run, {"thread": 200, "request": 800})
    assert not run.notes
    run.add([row | {"p50_ns": 2.5e6}, row | {"p50_ns": 2.5e6}, row | {"p50_ns": 2.5e6}])
    pool._check_counts(run, {"thread": 200, "request": 800})
    assert [note.level for note in run.notes] == ["flag"] and "thread_period_us" in run.notes[0].text


def test_workers_are_placed_in_turn_and_only_if_they_are_to_be_pinned() -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    with workloads.start("pool", ["--workers", "3", "--duration-ms", "1"]) as one:
        for placed, wanted in (("pinned", [{cpus[0]}, {cpus[1]}, {cpus[0]}]), ("free", [set(cpus)] * 3)):
            pool._place(Run("pool.pinned", "tiny", False), one.tids, cpus, placed)
            assert [os.sched_getaffinity(tid) for tid in one.tids[2:]] == wanted


def trials(**changed: list[float]) -> Result:
    """A CONSTRUCTED run: three trials of one case, pinned and free."""
    rows: dict[str, list[Any]] = {
        "placement": ["pinned"] * 3 + ["free"] * 3, "trial": [0, 1, 2] * 2, "requests": [1000] * 6,
        "moves": [0] * 3 + [200] * 3, "kernel_moves": [0.0] * 3 + [210.0] * 3,
        "cpu_ns": [30e6, 31e6, 30e6, 40e6, 41e6, 40e6], "p99_ns": [1e6] * 3 + [2e6] * 3,
        "moved_work_p50_ns": [np.nan] * 3 + [60e3] * 3, "stayed_work_p50_ns": [15e3] * 6,
    }  # fmt: skip
    rest = ("voluntary_switches", "involuntary_switches", "p50_ns", "work_p50_ns", "work_p99_ns",
            "queue_requests", "wait_max_ns")  # fmt: skip
    data = pd.DataFrame(rows | dict.fromkeys(rest, [1.0] * 6) | changed).assign(
        owner="thread", intruder="none"
    )
    stalls = {"workers": 4, "stall_us": {"none": 0}}
    return Result(kind="pool.pinned", data=data, machine={}, parameters=stalls)


def test_what_a_pin_saves_is_set_beside_what_moves_cost() -> None:
    table = trials().summary().set_index("placement")
    pin, free = table.loc["pinned"], table.loc["free"]
    assert (pin.ratio_p50, pin.ratio_p99) == (1.0, 0.5)
    assert (pin.saved_ns_per_request, pin.floor_ns_per_request) == (10e3, 1e3)
    assert np.isnan(free.ratio_p99) and np.isnan(free.saved_ns_per_request) and np.isnan(pin.move_ns)
    assert (free.move_ns, free.foreseen_ns_per_request) == (45e3, 9e3)


def test_a_few_moves_tell_no_price() -> None:
    free = trials(moves=[0, 0, 0, 6, 6, 6]).summary().set_index("placement").loc["free"]
    assert free.moves_per_request == 0.006 and np.isnan(free.move_ns)


def test_the_intruder_came_where_it_was_asked_for(tiny: Result) -> None:
    counted = tiny.data
    stalls = counted.groupby("intruder")["stalls"]
    assert stalls.max()["none"] == 0
    assert stalls.min()["short"] > stalls.max()["long"] >= 1
    busy = counted[counted["intruder"] != "none"]
    stall_ns = 1000 * busy["intruder"].map(tiny.parameters["stall_us"])
    assert (busy["stalled_cpu_ns"] > 0).all()
    if tiny.facts["intruder_policy"] == "FIFO":  # nobody takes its CPU away, but a hypervisor may
        # Interrupts and steal on that CPU are in its time: as much again, or 300 µs where that is more.
        most_ns = stall_ns + stall_ns.clip(lower=300_000)
        assert (busy["stalled_cpu_ns"] < most_ns * busy["stalls"]).all()


def test_its_summary_holds_together(tiny: Result) -> None:
    table = tiny.summary()
    assert len(table) == 12
    assert (table["p50_ns"] <= table["p99_ns"]).all()
    assert (table["work_p50_ns"] <= table["work_p99_ns"]).all()
    assert (table["p99_lo_ns"] <= table["p99_ns"]).all() and (table["p99_ns"] <= table["p99_hi_ns"]).all()
    assert table.loc[table["placement"] == "pinned", "ratio_p99"].notna().all()
    assert table.loc[table["placement"] == "free", "ratio_p99"].isna().all()
    assert table.loc[table["placement"] == "pinned", "saved_ns_per_request"].notna().all()
    assert (table["queue_requests"] >= 1).all()


def test_the_longest_queue_is_what_was_due_and_in_nobodys_hand() -> None:
    requests = pd.DataFrame(
        {"worker": [0, 0, 0, 1, 1], "due": [0, 10, 20, 5, 15], "start": [30, 40, 50, 6, 16]}
    )
    assert pool._longest_queue(requests, "thread") == 3
    assert pool._longest_queue(requests.assign(due=0, start=9), "request") == 5
    assert pool._longest_queue(requests.assign(start=requests["due"] + 1), "thread") == 1


def test_waits_are_told_by_cause_where_the_probe_is(tiny: Result) -> None:
    table = pool.waits(tiny)
    if not runqlat.available().ok:
        assert table.empty and any("waited is missing" in note.text for note in tiny.notes)
        return
    assert set(table["occupied_by"]) == set(OCCUPANTS)
    assert (table["wait_ns"] >= 0).all()
    assert table.groupby(pool.KEYS)["share"].sum().to_numpy() == pytest.approx(1)


def test_without_privilege_it_says_what_is_missing(own_lock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tid: int, policy: policies.Policy) -> None:
        raise policies.PolicyError(f"Thread {tid} does not get {policy.label}", "not allowed", 1)

    monkeypatch.setattr(policies, "apply", refuse)
    monkeypatch.setattr(runqlat, "available", lambda: Availability(False, "No probe here.", "Install it."))
    run = pool.pinned(profile="tiny", trials=1, hot_bytes=4096, save=False, progress=False)
    missing = [note.text for note in run.notes if note.level == "missing"]
    assert any("No probe here. Install it." in text for text in missing)
    assert any("no real-time policy" in text for text in missing)
    assert run.facts["intruder_policy"] == "OTHER"
    assert pool.waits(run).empty
    assert {verdict.outcome for _, verdict in judge(run)}
    assert "p99" in "".join(run.plot().data.columns)


def test_it_is_drawn_kept_and_judged(tiny: Result) -> None:
    again = from_json(tiny.to_json())
    figure = again.plot(recorded=tiny)
    assert "99 of 100 are done" in figure.caption and "pinned: long pieces" in figure.alt
    assert len(figure.data) == 6
    assert np.isfinite(figure.data.drop(columns="case").to_numpy(dtype=float)).all()
    assert {claim.id for claim, _ in judge(again)} >= {"000-074", "000-072", "000-077"}
