"""Threads that share a CPU, watched by two instruments: structure and relations, never absolute times."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.core.errors import ProbeError, SchedLabError, WorkloadError
from sched_labs.core.registry import find
from sched_labs.core.result import Result, load
from sched_labs.probes import runqlat as probe
from sched_labs.probes.waits import bin_edges_ns, quantile_ns
from sched_labs.topics.scheduler_latency.runqlat import experiment

HERE = probe.available()
with_bpf = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")
CPU = max(os.sched_getaffinity(0))


@pytest.fixture
def no_bpf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "available", lambda: probe.Availability(False, "There is none.", "Get one."))


def measure(**parameters: Any) -> Result:
    return experiment.histogram(profile="tiny", progress=False, save=False, **parameters)


def rows(result: Result, instrument: str) -> pd.DataFrame:
    return result.data[result.data["instrument"] == instrument]


def children() -> set[str]:
    """The processes whose parent is this one."""
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


# ---- the workload ----


def test_burn_reports_every_worker_and_its_gaps() -> None:
    with workloads.start("burn", ["--workers", "3", "--duration-ms", "300"]) as burn:
        assert len(set(burn.tids)) == 3
        for tid in burn.tids:
            os.sched_setaffinity(tid, {CPU})
        records = burn.run()
    reports = [record for record in records if record.kind == "worker"]
    assert [report["worker"] for report in reports] == [0, 1, 2]
    for report in reports:
        gaps = [r for r in records if r.kind == "gap" and r["worker"] == report["worker"]]
        assert report["chunks"] > 0
        assert len(gaps) == report["gaps"]
        assert report["lost"] == 0
        assert sum(gap["switches"] for gap in gaps) <= report["involuntary"]
        assert [gap["at_ns"] for gap in gaps] == sorted(gap["at_ns"] for gap in gaps)
        # It worked, or it was in a gap: nothing else is left of its time.
        assert report["cpu_ns"] + sum(gap["ns"] for gap in gaps) >= 0.8 * 300e6
    # One CPU: three workers cannot run longer in sum than it was there.
    longest = max((r["at_ns"] + r["ns"] for r in records if r.kind == "gap"), default=0)
    assert sum(report["cpu_ns"] for report in reports) <= 1.1 * max(300e6, longest)


def test_burn_counts_the_gaps_it_cannot_keep() -> None:
    arguments = ["--workers", "3", "--duration-ms", "300", "--most-gaps", "2"]
    with workloads.start("burn", arguments) as burn:
        for tid in burn.tids:
            os.sched_setaffinity(tid, {CPU})
        records = burn.run()
    reports = [record for record in records if record.kind == "worker"]
    assert sum(record.kind == "gap" for record in records) == sum(r["gaps"] - r["lost"] for r in reports)
    assert all(report["gaps"] - report["lost"] <= 2 for report in reports)
    assert sum(report["lost"] for report in reports) > 0


def test_burn_ends_early_with_its_records() -> None:
    with workloads.start("burn", ["--workers", "2", "--duration-ms", "60000"], deadline_s=70) as burn:
        burn.go()
        time.sleep(0.3)
        os.kill(burn.pid, signal.SIGINT)
        began = time.monotonic()
        assert [r["worker"] for r in burn.records() if r.kind == "worker"] == [0, 1]
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("arguments", [["--workers", "0"], ["--duration-ms", "x"], ["--workers", "65"]])
def test_burn_refuses(arguments: list[str]) -> None:
    with pytest.raises(WorkloadError, match=arguments[0]):
        workloads.start("burn", arguments)


# ---- the experiment ----


@with_bpf
def test_both_instruments_see_the_same_waits(tmp_path: Path) -> None:
    result = measure(duration_s=2.0)
    assert result.facts["instruments"] == ["bpf", "self_timed"]
    assert set(result.data["instrument"]) == {"bpf", "self_timed"}
    assert list(result.data.columns) == list(experiment.COLUMNS)
    assert (result.data["waits"] > 0).all()
    assert (result.data["bin_low_ns"] < result.data["bin_high_ns"]).all()
    assert set(rows(result, "self_timed")["cause"]) == {"preempted"}

    # The kernel counts its switches whatever the probe does.
    by_bpf = rows(result, "bpf").query("cause == 'preempted'")
    switches = result.facts["involuntary_switches"]
    assert switches > 0
    assert abs(by_bpf["waits"].sum() - switches) <= 0.05 * switches + 8
    # Waits that the workers can see are the same, to two bins: clocks see the switches beside a wait, too.
    threshold_ns = result.facts["threshold_ns"]
    seen = by_bpf[by_bpf["bin_low_ns"] >= threshold_ns]
    perhaps = by_bpf[by_bpf["bin_low_ns"] >= 0.5 * threshold_ns]
    timed = rows(result, "self_timed")
    least, most = seen["waits"].sum(), perhaps["waits"].sum()
    assert least - 0.1 * switches - 8 <= timed["waits"].sum() <= most + 0.1 * switches + 8
    assert quantile_ns(timed, 0.5) == pytest.approx(quantile_ns(seen, 0.5), rel=0.15)
    # And their sum is the run delay that schedstat has.
    middles = (by_bpf["bin_low_ns"] + by_bpf["bin_high_ns"]) / 2
    assert (middles * by_bpf["waits"]).sum() == pytest.approx(result.facts["run_delay_ns"], rel=0.1)

    again = load(result.save(tmp_path / "result.json"))
    pd.testing.assert_frame_equal(again.summary(), result.summary())


def test_without_the_probe_the_workers_clocks_are_left(no_bpf: None) -> None:
    result = measure(duration_s=1.0)
    assert result.facts["instruments"] == ["self_timed"]
    assert set(result.data["instrument"]) == {"self_timed"}
    missing = [note.text for note in result.notes if note.level == "missing"]
    assert len(missing) == 1
    assert "There is none." in missing[0]
    assert "Get one." in missing[0]
    assert result.data["waits"].sum() <= result.facts["involuntary_switches"]
    assert result.facts["timeslices"] > 0
    middles = (result.data["bin_low_ns"] + result.data["bin_high_ns"]) / 2
    assert (middles * result.data["waits"]).sum() == pytest.approx(result.facts["run_delay_ns"], rel=0.15)


def test_a_probe_that_does_not_load_is_replaced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ProbeError("The kernel refused the program.", "Read dmesg.")

    monkeypatch.setattr(probe, "available", lambda: probe.Availability(True))
    monkeypatch.setattr(probe, "watch", refuse)
    result = measure()
    assert result.facts["instruments"] == ["self_timed"]
    assert any("The kernel refused the program." in n.text for n in result.notes if n.level == "missing")


def test_more_workers_wait_longer(no_bpf: None) -> None:
    two, six = (measure(workers=count, duration_s=1.0).facts for count in (2, 6))
    assert six["run_delay_ns"] > 2 * two["run_delay_ns"]  # five wait at a time instead of one


def test_a_worker_alone_waits_for_other_programs_only(no_bpf: None) -> None:
    with workloads.start("burn", ["--workers", "1", "--duration-ms", "60000"], deadline_s=70) as other:
        os.sched_setaffinity(other.tids[0], {CPU})
        other.go()
        result = measure(workers=1, cpus=[CPU])
    assert any("for every worker" in note.text for note in result.notes)
    assert list(result.data.columns) == list(experiment.COLUMNS)
    assert result.summary().columns[0] == "instrument" and result.summary()["waits"].gt(0).all()
    assert result.facts["involuntary_switches"] > 0


def test_a_worker_that_never_waited_is_no_observation(
    no_bpf: None, own_lock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may be as quiet as that: then there is no histogram to draw, and nothing is made up."""
    own_clocks = experiment._own_clocks

    def without_waits(run: Any, records: Any) -> pd.DataFrame:
        return own_clocks(run, [r for r in records if r.kind != "gap" or r["switches"] == 0])

    monkeypatch.setattr(experiment, "_own_clocks", without_waits)
    with pytest.raises(SchedLabError, match="recorded nothing"):
        measure(workers=1, cpus=[CPU])


def test_ctrl_c_keeps_what_was_seen(no_bpf: None, own_lock: None) -> None:
    before = children()
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    result = measure(duration_s=60.0)
    assert result.duration_s < 30
    assert any("Stopped early" in flag for flag in result.flags)
    assert result.facts["involuntary_switches"] > 0
    assert children() == before


@with_bpf
def test_ctrl_c_with_the_probe_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from sched_labs import runqlat\n"
        "r = runqlat.histogram(profile='tiny', duration_s=60.0, progress=False, save=False)\n"
        "r.save(sys.argv[1])"
    )
    kept = tmp_path / "kept.json"
    marks = tmp_path / "progress"
    runner = subprocess.Popen(
        [sys.executable, "-c", code, str(kept)], env=os.environ | {"SCHED_LABS_PROGRESS": str(marks)}
    )
    try:
        deadline = time.monotonic() + 200  # another run may have the machine first
        while not marks.exists() or marks.read_text().count("\n") < 6:
            assert runner.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        own = Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()
        assert len(own) == 2  # the workload and the helper
        runner.send_signal(signal.SIGINT)
        assert runner.wait(timeout=40) == 0
    finally:
        runner.kill()
        runner.wait()
    result = load(kept)
    assert set(result.data["instrument"]) == {"bpf", "self_timed"}
    assert any("Stopped early" in flag for flag in result.flags)
    assert not [pid for pid in own if Path(f"/proc/{pid}").exists()]


# ---- what is computed from a run ----


@pytest.mark.parametrize("ns", [0, 1, 15, 16, 31, 32, 33, 1000, 4095, 4096, 10**7 + 1, 2**40 - 1])
def test_bins_hold_what_is_put_into_them(ns: int) -> None:
    low, high = bin_edges_ns(experiment._bin(ns), experiment.BIN_BITS)
    assert low <= ns < high


def made(counted: int, timed: int, switches: int) -> list[str]:
    """The flags of a run with so many waits of 1 ms by each instrument and so many switches by the kernel."""
    from sched_labs.probes.waits import Waits
    from sched_labs.run.base import Run

    run = Run("runqlat.histogram", "tiny", progress=False)
    number = experiment._bin(1_000_000)
    waits = Waits({"wakeup": {}, "preempted": {number: counted}}, experiment.BIN_BITS, 10**9)
    chunk = [
        workloads.Record("chunk", {"ns": 500, "threshold_ns": 10_000}),
        *[workloads.Record("gap", {"worker": 0, "at_ns": 0, "ns": timed, "switches": 1})] * counted,
        workloads.Record(
            "worker", {"worker": 0, "chunks": 1, "voluntary": 0, "involuntary": switches, "lost": 0}
        ),
    ]
    clocks = experiment._own_clocks(run, chunk)
    experiment._check_counts(run, waits, workers=1)
    experiment._check_medians(run, waits.data, clocks)
    assert run.facts["timeslices"] is None  # this kernel kept none
    return [note.text for note in run.notes if note.level == "flag"]


def test_instruments_that_disagree_are_flagged() -> None:
    assert made(1000, 1_000_000, 1000) == []
    assert made(1000, 1_000_000, 1050) == []
    assert any("1200 involuntary" in flag for flag in made(1000, 1_000_000, 1200))
    assert any("own clocks" in flag for flag in made(1000, 2_000_000, 1000))


def test_two_humps_are_no_disagreement() -> None:
    """A few waits more or less carry the median from one hump to the other."""
    from sched_labs.run.base import Run

    def waits(short: int, long: int) -> pd.DataFrame:
        rows = [("preempted", 1_000_000, 1_040_000, short), ("preempted", 9_000_000, 9_400_000, long)]
        return pd.DataFrame(rows, columns=["cause", "bin_low_ns", "bin_high_ns", "waits"])

    for clocks, flags in ((waits(101, 99), 0), (waits(1, 199), 0), (waits(199, 1), 1)):
        probe = waits(1, 199) if clocks["waits"].iloc[0] != 101 else waits(99, 101)
        run = Run("runqlat.histogram", "tiny", progress=False, facts={"threshold_ns": 10_000})
        experiment._check_medians(run, probe, clocks)
        assert len(run.notes) == flags


def test_the_figure_does_not_add_the_instruments_up() -> None:
    from sched_labs.topics.scheduler_latency.runqlat import figure as histogram

    data = pd.DataFrame(
        [("bpf", "preempted", 3000, 3010, 3), ("self_timed", "preempted", 9000, 9100, 5)],
        columns=list(experiment.COLUMNS),
    )
    both = Result("runqlat.histogram", data, {}, {})
    assert 3000 <= histogram.quantiles(both)[0.5] < 3010
    assert "3 waits" in both.plot().caption
    assert "5 waits" in Result("runqlat.histogram", data.iloc[1:], {}, {}).plot().caption


def test_summary_says_what_the_rows_hold() -> None:
    data = pd.DataFrame(
        [
            ("bpf", "wakeup", 1000, 1010, 1),
            ("bpf", "preempted", 3000, 3010, 3),
            ("self_timed", "preempted", 3000, 3100, 3),
        ],
        columns=list(experiment.COLUMNS),
    )
    facts = {"run_delay_ns": 900, "timeslices": 3}
    table = (
        Result("runqlat.histogram", data, {}, {}, facts=facts).summary().set_index(["instrument", "cause"])
    )
    assert table["waits"].to_dict() == {
        ("bpf", "all"): 4,
        ("bpf", "wakeup"): 1,
        ("bpf", "preempted"): 3,
        ("self_timed", "all"): 3,
        ("self_timed", "preempted"): 3,
    }
    assert 3000 <= table["p50_ns"].to_dict()["bpf", "all"] < 3010
    assert table["max_ns"].to_dict()["bpf", "all"] == 3010
    assert (table["schedstat_mean_ns"] == 300).all()
    assert find("runqlat") is experiment.histogram
