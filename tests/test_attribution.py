"""The experiment that attributes waits, and its figure: structure and relations, never absolute times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from sched_labs.core.registry import find
from sched_labs.core.result import Result, load
from sched_labs.probes import runqlat
from sched_labs.probes.waits import OCCUPANTS
from sched_labs.topics.scheduler_latency.attribution import experiment
from sched_labs.topics.scheduler_latency.attribution import figure as causes

HERE = runqlat.available()
with_bpf = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")


pytestmark = pytest.mark.usefixtures("own_lock")


def measured(**parameters: object) -> Result:
    return experiment.waits(profile="tiny", progress=False, save=False, **parameters)


@with_bpf
def test_every_nanosecond_has_an_owner(tiny: Callable[[str], Result], tmp_path: Path) -> None:
    result = tiny("attribution.waits")
    assert find("attribution.waits") is experiment.waits
    assert result.facts["instrument"] == "bpf"
    counted = result.tables["trials_counted"].set_index(["trial", "condition"])
    assert set(counted.index.get_level_values("condition")) == set(experiment.CONDITIONS)
    parts = result.data.groupby(["trial", "condition"])["part_ns"].sum()
    assert parts.to_dict() == counted["wait_ns"].to_dict()  # exactly
    assert (result.data["part_ns"] > 0).all()
    assert set(result.data["occupied_by"]) <= set(OCCUPANTS)
    assert set(result.data["cause"]) <= {"wakeup", "preempted"}
    assert not [flag for flag in result.flags if "could not count" in flag]

    summary = result.summary().set_index(["condition", "occupied_by"])
    assert len(summary) == len(experiment.CONDITIONS) * len(OCCUPANTS)
    for condition in experiment.CONDITIONS:
        rows = summary.loc[condition]
        assert rows["share"].sum() == pytest.approx(1)
        assert ((rows["share_lo"] <= rows["share"]) & (rows["share"] <= rows["share_hi"])).all()
    assert summary.loc[("alone", "same_program"), "part_ns"] == 0  # one thread cannot wait for itself
    # Others may be about on this machine; how much is theirs is not for a test.
    assert summary.loc[("own_threads", "same_program"), "part_ns"] > 0
    assert summary.loc[("rival", "other_task"), "part_ns"] > 0

    table = causes.frame(result)
    assert table.groupby("condition")["share_percent"].sum().to_numpy() == pytest.approx(100)
    figure = result.plot(recorded=result, predictions=[{"value": 1, "unit": "ms"}])
    assert "waiting time" in figure.caption and "Dashed" in figure.alt
    for condition in experiment.CONDITIONS:  # the caption has the number that the table has
        assert causes._percent(100 * summary.loc[condition, "share"].max()) in figure.caption
    again = load(result.save(tmp_path / "kept.json"))
    pd.testing.assert_frame_equal(again.summary(), result.summary())


def test_without_bpf_only_the_sum_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runqlat, "available", lambda: runqlat.Availability(False, "There is none.", "Get one.")
    )
    result = measured(duration_s=0.2)
    assert result.facts["instrument"] == "schedstat"
    missing = [note.text for note in result.notes if note.level == "missing"]
    assert any("There is none." in text and "Get one." in text for text in missing)
    assert set(result.data["occupied_by"]) == {"unattributed"}
    rows = result.data.set_index("condition")
    assert rows.loc["rival", "part_ns"] > 0 and rows.loc["own_threads", "part_ns"] > 0
    counted = result.tables["trials_counted"].set_index("condition")
    assert (counted["waits"] > 10).all()  # of the light thread, too
    assert not [flag for flag in result.flags if "had ended" in flag]
    summary = result.summary()
    assert not summary["attributed"].any()
    known = summary["share"].notna()
    assert set(summary["occupied_by"][known]) == {"unattributed"} and (summary["share"][known] == 1).all()
    assert "not what had the CPU" in result.plot().caption
    assert "There is none." in experiment.instrument(None).improve  # type: ignore[arg-type]


def test_counts_that_disagree_are_flagged() -> None:
    from sched_labs.probes.schedstat import Delays
    from sched_labs.probes.waits import Waits
    from sched_labs.run.base import Run

    each = pd.DataFrame({"timeslices": [1000, 1000]})
    looked = Delays(each, window_ns=2 * 10**9, ended=0)
    for total, flagged in ((1000, False), (1065, False), (1150, True), (850, True)):
        run = Run("attribution.waits", "tiny", progress=False)
        experiment._check_counts(run, Waits({"wakeup": {100: total}}, 6, 10**9), looked)
        assert any(note.level == "flag" for note in run.notes) == flagged
    run = Run("attribution.waits", "tiny", progress=False)
    run.tables["trials_counted"] = [{"waits": 100, "lost": 5}]
    experiment._check_lost(run)
    assert any("could not count 5" in note.text for note in run.notes)
