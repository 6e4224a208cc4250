"""Neighbours for whom the kernel works: structure and relations, never absolute times."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.core import lock
from sched_labs.core.errors import ResultError, WorkloadError
from sched_labs.core.registry import find
from sched_labs.core.result import Result, load
from sched_labs.machine import files
from sched_labs.probes import runqlat
from sched_labs.probes.channel import Availability
from sched_labs.topics.scheduler_latency.interference import experiment, figure

HERE = runqlat.available()


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "lock"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (place,))
    monkeypatch.setattr(experiment, "data_folder", lambda: tmp_path / "kept")


def measured(**parameters: object) -> Result:
    return experiment.neighbours(profile="tiny", progress=False, save=False, **parameters)


def test_the_workload_does_what_it_says_and_leaves_nothing(tmp_path: Path) -> None:
    with workloads.start("neighbour", ["--duration-ms", "50", "--burst", "7"]) as packets:
        said = packets.run()[0]
    assert said["bursts"] >= 1 and 0 < said["units"] <= 7 * said["bursts"]
    words = ["--kind", "files", "--folder", str(tmp_path), "--duration-ms", "50"]
    before = set(tmp_path.iterdir())
    with workloads.start("neighbour", words) as writer:
        assert set(tmp_path.iterdir()) == before  # the file has no name
        said = writer.run()[0]
    assert said["units"] == 64 * said["bursts"] > 0
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("wrong", [["--kind", "gossip"], ["--every-us", "1"], ["--burst", "0"]])
def test_the_workload_refuses(wrong: list[str]) -> None:
    with pytest.raises(WorkloadError), workloads.start("neighbour", wrong) as workload:
        workload.run()


def test_a_writer_needs_a_folder(tmp_path: Path) -> None:
    words = ["--kind", "files", "--folder", str(tmp_path / "nowhere")]
    with pytest.raises(WorkloadError, match="cannot write"), workloads.start("neighbour", words) as workload:
        workload.run()


def test_packets_make_softirqs_and_files_do_not(tmp_path: Path) -> None:
    result = measured()
    assert find("interference.neighbours") is experiment.neighbours
    trials = result.tables["trials_counted"].set_index(["neighbour", "nice"])
    assert set(trials.index.get_level_values("neighbour")) == set(experiment.NEIGHBOURS)
    assert trials.loc[("packets", 0), "units"] > 0 and trials.loc[("files", 0), "units"] > 0
    assert trials.loc[("nobody", 0), "units"] == 0
    if trials["softirqs"].notna().all():
        assert trials.loc[("packets", 0), "softirqs"] > trials.loc[("nobody", 0), "softirqs"]
    assert set(result.data["part"]) <= set(experiment.PARTS) and (result.data["part_ns"] > 0).all()
    table = result.summary()
    assert len(table) == len(trials) * len(experiment.PARTS)
    assert ((table["ms_per_s_lo"] <= table["ms_per_s"]) & (table["ms_per_s"] <= table["ms_per_s_hi"])).all()
    again = load(result.save(tmp_path / "kept.json"))
    pd.testing.assert_frame_equal(again.summary(), table)
    assert not list((tmp_path / "kept").iterdir())
    if not HERE.ok:
        return
    shares = table.set_index(["neighbour", "nice", "part"])["ms_per_s"]
    # The victim waits while the sender's packets are delivered: that is told from the sender itself.
    assert shares["packets", 0, "interrupt"] > 0 and shares["packets", 0, "other_task"] > 0
    drawn = figure.frame(result)
    sums = table[table["part"].isin(["interrupt", "over_it", "kernel_thread"])]["ms_per_s"].sum()
    assert drawn["ms_per_s"].sum() == pytest.approx(sums)
    figure_with_mark = result.plot(recorded=result, predictions=[{"value": 20, "unit": "ms"}])
    assert "packets" in figure_with_mark.caption and "Dashed" in figure_with_mark.alt


def test_without_bpf_only_the_sum_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runqlat, "available", lambda: Availability(False, "No BPF.", "Another machine."))
    result = measured(neighbours=["packets"])
    summary = result.summary()
    assert not summary["attributed"].any()
    assert set(summary["part"][summary["ms_per_s"].notna()]) == {"unattributed", "over_it"}
    assert any("No BPF." in note.text for note in result.notes)
    assert set(result.data["part"]) <= {"unattributed", "over_it"}
    with pytest.raises(ResultError) as refused:
        result.plot()
    assert refused.value.lacking
    monkeypatch.setattr("sched_labs.core.result.in_notebook", lambda: True)
    shown = result.plot()
    assert "Not measured on this machine" in shown.provenance


def test_softirqs_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "          CPU0       CPU2\n  TIMER:    5   6\n NET_TX:    1   2\n NET_RX:   10   20\n"
    monkeypatch.setattr(files, "read", lambda path: text)
    assert (experiment.softirqs(0), experiment.softirqs(2), experiment.softirqs(1)) == (11, 22, None)
    monkeypatch.setattr(files, "read", lambda path: None)
    assert experiment.softirqs(0) is None
