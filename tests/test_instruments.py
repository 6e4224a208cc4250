"""The wake-up probe, and several instruments on one run: structure and relations, never absolute times."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.core.errors import WorkloadError
from sched_labs.core.result import Result, load
from sched_labs.machine import files
from sched_labs.probes import runqlat, schedstat
from sched_labs.probes.waits import bin_edges_ns
from sched_labs.topics.scheduler_latency.instruments import experiment, figure

CPU = max(os.sched_getaffinity(0))


pytestmark = pytest.mark.usefixtures("own_lock")


def test_the_wake_up_probe_keeps_every_wake_up() -> None:
    with workloads.start("wakeup", ["--wakes", "200", "--blocks", "4", "--period-us", "500"]) as probe:
        assert len(probe.tids) == 1
        os.sched_setaffinity(probe.tids[0], {CPU})
        records = probe.run()
    blocks = [record for record in records if record.kind == "block"]
    assert [block["block"] for block in blocks] == [0, 1, 2, 3]
    assert [block["slack_ns"] for block in blocks][::2] == [1, 1]
    assert blocks[1]["slack_ns"] == blocks[3]["slack_ns"] > 1
    for block in blocks:
        late = [r for r in records if r.kind == "late" and r["block"] == block["block"]]
        assert sum(r["wakes"] for r in late) == block["wakes"] == 200
        edges = [(bin_edges_ns(r["bin"], experiment.BIN_BITS), r["wakes"]) for r in late]
        assert sum(low * n for (low, _), n in edges) <= block["late_sum_ns"]
        assert block["late_sum_ns"] <= sum(high * n for (_, high), n in edges)
        assert edges[-1][0][0] <= block["late_max_ns"] < edges[-1][0][1]
        # The points in time are fixed: however late some were, the last one's due time is 200 periods on.
        assert block["elapsed_ns"] >= 200 * 500_000


def test_a_late_wake_up_does_not_push_the_later_ones_back() -> None:
    """It works for longer than a period after each wake-up, so each is later than the one before."""
    arguments = ["--wakes", "20", "--blocks", "1", "--period-us", "1000", "--work-us", "3000"]
    with workloads.start("wakeup", arguments) as probe:
        block = next(record for record in probe.run() if record.kind == "block")
    assert block["late_max_ns"] >= 19 * 2_000_000
    assert block["late_sum_ns"] >= sum(range(20)) * 2_000_000


@pytest.mark.parametrize("wrong", [["--wakes", "0"], ["--period-us", "x"], ["--blocks", "101"]])
def test_the_wake_up_probe_refuses(wrong: list[str]) -> None:
    with pytest.raises(WorkloadError, match=wrong[0]):
        workloads.start("wakeup", wrong)


def test_every_instrument_sees_the_same_run(tiny: Callable[[str], Result], tmp_path: Path) -> None:
    result = tiny("instruments.compared")
    expected = {"own_clock"}
    expected |= {"bpf"} if runqlat.available().ok else set()
    expected |= {"schedstat"} if schedstat.available().ok else set()
    expected |= {"psi"} if files.exists("/proc/pressure/cpu") else set()
    for condition, rows in result.data.groupby("condition"):
        more = {"idle": {"own_clock_slack"}, "queue": set(rows["instrument"]) & {"perf"}}
        assert set(rows["instrument"]) == expected | more.get(str(condition), set())
        assert (rows["wait_ns"] >= 0).all() and (rows["window_ns"] > 0).all()
    summary = result.summary().set_index(["condition", "instrument"])
    assert summary["mean_ns"].isna().to_dict() == {
        key: key[1] == "psi" for key in summary.index
    }  # psi counts no waits
    if {"bpf", "schedstat"} <= expected:
        bpf, stat = (summary.loc[("queue", name)] for name in ("bpf", "schedstat"))
        assert bpf["waits"] == pytest.approx(stat["waits"], abs=0.2 * stat["waits"] + 20)
        assert bpf["p50_ns"] <= bpf["p99_ns"]
        # A thread cannot run late without having waited; what it sees contains what BPF sees.
        assert summary.loc[("idle", "own_clock"), "mean_ns"] > 0
    if ("queue", "perf") in summary.index:
        perf = summary.loc[("queue", "perf")]
        assert perf["waits"] > 0 and perf["mean_ns"] > 0
    else:
        assert any("perf sched is missing" in note.text for note in result.notes)
    again = load(result.save(tmp_path / "kept.json"))
    pd.testing.assert_frame_equal(again.summary(), result.summary())
    drawn = result.plot(recorded=result, predictions=[{"value": 10, "unit": "µs"}])
    assert "Dashed" in drawn.alt and drawn.caption
    if "psi" in expected:
        assert "PSI" in drawn.alt
    assert "psi" not in set(figure.frame(result)["instrument"])


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runqlat, "available", lambda: runqlat.Availability(False, "There is none.", "Get one.")
    )
    monkeypatch.setattr(experiment, "_psi_ns", lambda: None)
    result = experiment.compared(profile="tiny", progress=False, save=False)
    missing = " ".join(note.text for note in result.notes if note.level == "missing")
    assert "There is none. Get one." in missing and "PSI is missing" in missing
    assert not {"bpf", "psi"} & set(result.data["instrument"])
    assert "own clock" in result.plot().caption
    assert "BPF" not in experiment.instrument(None).name  # type: ignore[arg-type]


def test_summary_of_known_trials() -> None:
    rows = [
        {"condition": "queue", "instrument": "bpf", "waits": 10.0, "wait_ns": 1000.0 * n, "window_ns": 1000.0}
        for n in (9, 10, 11)
    ]
    data = pd.DataFrame(rows).assign(p50_ns=1.0, p99_ns=2.0)
    table = Result("instruments.compared", data, {}, {}).summary().iloc[0]
    assert (table["waits"], table["mean_ns"], table["waiting_percent"]) == (30, 1000, 1000)
