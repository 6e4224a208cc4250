"""The throttle probe: what its helper is asked, and what it sees of a real group.  Relations, never times."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs import workloads
from sched_labs.core import lock
from sched_labs.core.errors import ParameterError, PlacementError, ProbeError
from sched_labs.core.result import Result
from sched_labs.limits import cgroups
from sched_labs.probes import throttle
from sched_labs.probes.helper import watching
from sched_labs.probes.helper.protocol import VERSION, Refused
from sched_labs.topics.cgroup_throttling.throttle import experiment
from sched_labs.topics.cgroup_throttling.throttle import figure as throttle_timeline_figure

REQUEST = {
    "version": VERSION, "probe": "throttle", "scope": "processes", "pids": [1],
    "duration_s": 1.0, "interval_s": 60,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [("scope", "machine"), ("scope", "cgroup"), ("by", "cpu"), ("stacks", True), ("pids", [])],
)
def test_the_helper_takes_this_request_and_no_other(name: str, value: object) -> None:
    watching.check(REQUEST)
    with pytest.raises(Refused):
        watching.check({**REQUEST, name: value})


@pytest.mark.parametrize("pids", [[], [0], ["1"]])
def test_wrong_processes_are_refused(pids: list[int]) -> None:
    with pytest.raises(ParameterError, match="pids must be"):
        throttle.watch(pids, 1)


def test_wrong_durations_are_refused() -> None:
    with pytest.raises(ParameterError, match="duration_s must lie"):
        throttle.watch([1], float("nan"))


@pytest.fixture
def limited() -> None:
    able, why = cgroups.possible()
    if not able:
        pytest.skip(why)


@pytest.mark.usefixtures("limited")
def test_looks_at_cpu_stat_add_up_to_what_it_says_at_the_end() -> None:
    with (
        cgroups.group("sampled", quota_us=2_000, period_us=20_000) as group,
        workloads.start("burn", ["--workers", "1", "--duration-ms", "300"]) as burn,
    ):
        group.add(burn.pid)
        before = group.counted()
        with throttle.sampled(group, period_us=20_000) as samples:
            burn.run()
            time.sleep(0.03)  # the last period ends
        total = group.counted().since(before)
    table = samples.data
    assert len(table) >= 4 and (table.diff().dropna() >= 0).all().all()
    assert table.at_ns.is_unique
    # The group is empty: its counts stand still but for a period that was under way.
    assert 0 <= total.periods - table.periods.iloc[-1] <= 2
    assert 0 < table.throttled_periods.iloc[-1] <= total.throttled_periods
    assert table.throttled_ns.iloc[-1] <= total.throttled_ns


@pytest.mark.usefixtures("limited")
def test_the_kernel_sees_the_intervals_that_cpu_stat_counts() -> None:
    able = throttle.available()
    if not able.ok:
        pytest.skip(able.why)
    with (
        cgroups.group("held", quota_us=2_000, period_us=20_000) as group,
        workloads.start("burn", ["--workers", "1", "--duration-ms", "400"]) as burn,
    ):
        group.add(burn.pid)
        with throttle.watch([burn.pid], 20) as probe:
            with pytest.raises(ProbeError, match="not been started"):
                probe.stop()
            before, since = group.counted(), time.monotonic_ns()
            probe.start()
            burn.run()
            counted = group.counted().since(before)
            seen = probe.stop()
            until = time.monotonic_ns()
    spans = seen.spans
    assert counted.throttled_periods > 0 and len(spans) > 0 and seen.lost == 0
    assert ((spans.end_ns > spans.begin_ns) & (spans.begin_ns >= since) & (spans.end_ns <= until)).all()
    for _, own in spans.groupby("cpu"):
        assert (own.begin_ns.iloc[1:].to_numpy() >= own.end_ns.iloc[:-1].to_numpy()).all()
    # The probe sees a begin a moment after the kernel does, and an end when the next thread is switched to.
    assert (spans.end_ns - spans.begin_ns).sum() >= 0.9 * counted.throttled_ns
    assert probe.stop() == seen


@pytest.mark.usefixtures("limited")
def test_without_a_limit_nothing_is_seen() -> None:
    able = throttle.available()
    if not able.ok:
        pytest.skip(able.why)
    with (
        cgroups.group("free") as group,
        workloads.start("burn", ["--workers", "1", "--duration-ms", "50"]) as burn,
    ):
        group.add(burn.pid)
        with throttle.watch([burn.pid], 20) as probe:
            probe.start()
            burn.run()
            assert probe.stop().spans.empty


# --- the timeline ---


def made(*, watched: bool, limited: bool = True) -> Result:
    """A CONSTRUCTED run: a throttled interval from 60 to 100 ms on each of two CPUs, and three requests."""
    ms = 1_000_000
    data = pd.DataFrame(
        {
            "trial": 0,
            "arrival_ns": [10 * ms, 59 * ms, 150 * ms],
            "latency_ns": [2.0 * ms, 44.0 * ms, np.nan],
            "waited_ns": [0, 0, 50 * ms],
        }
    )
    spans = [[0, cpu, 60 * ms, 100 * ms] for cpu in (0, 1)] if watched else []
    looks = [[0, n * 50 * ms, n // 2, int(n >= 2), 80 * ms * (n >= 2)] for n in range(4)] if limited else []
    block = {
        "trial": 0, "arrived": 3, "completed": 2, "waiting": 1, "periods": 2 * limited,
        "throttled_periods": int(limited), "throttled_ns": 80 * ms * limited,
    }  # fmt: skip
    tables = {
        "spans": pd.DataFrame(spans, columns=experiment.SPANS),
        "samples": pd.DataFrame(looks, columns=experiment.SAMPLES),
        "blocks": pd.DataFrame([block]),
    }
    parameters = {"duration_s": 0.2, "period_us": 100_000}
    return Result(
        "throttle.timeline", data, {"cpus": 2}, parameters, tables, {"watched": [0] if watched else []}
    )


def test_a_constructed_timeline_is_summed_up_by_hand() -> None:
    row = made(watched=True).summary().iloc[0]
    assert (row.spans, row.spans_ns, row.longest_span_ns) == (2, 80e6, 40e6)
    # The second request waited from 59 to 103 ms; the last had waited 50 ms when the run ended at 200.
    assert (round(row.held_percent), row.held_p50_ns, row.other_p50_ns) == (33, 44e6, 26e6)
    row = made(watched=False).summary().iloc[0]
    assert np.isnan(row.held_percent) and np.isnan(row.spans) and np.isnan(row.other_p50_ns)


def test_the_panels_of_a_constructed_timeline() -> None:
    result = made(watched=True)
    assert list(throttle_timeline_figure.frame(result).held) == [False, True, False]
    assert len(throttle_timeline_figure.spans(result)) == 2
    looks = throttle_timeline_figure.samples(result)
    assert list(looks.throttled_ns) == [0, 80e6, 0] and (looks.end_ns - looks.begin_ns == 50e6).all()
    result.parameters["duration_s"] = 0.09  # the look at 100 ms found what came after
    assert list(throttle_timeline_figure.samples(result).throttled_ns) == [0]


@pytest.mark.parametrize(("watched", "limited"), [(True, True), (False, True), (False, False)])
def test_a_timeline_is_drawn_with_whatever_was_seen(watched: bool, limited: bool, tmp_path: Path) -> None:
    result = made(watched=watched, limited=limited)
    figure = result.plot(recorded=made(watched=True), predictions=[figures.Prediction(30, "ms")])
    assert figure.caption.endswith(".") and "nan" not in figure.caption + figure.alt
    assert ("no limit was set" in figure.caption) == (not limited)
    assert ("throttled intervals" in figure.alt) == watched
    assert figure.save(tmp_path / "figure.svg").stat().st_size > 5000


@pytest.mark.usefixtures("limited")
def test_a_service_on_a_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (tmp_path,))
    result = experiment.timeline(
        profile="tiny", quota_us=3_000, period_us=30_000, demand_percent=150, work_us=1_000, save=False,
        progress=False,
    )  # fmt: skip
    table, block = result.summary(), result.records("blocks")[0]
    documented = set(re.findall(r"\b[a-z_0-9]+\b", experiment.timeline.summarise.__doc__ or ""))
    assert set(table.columns) <= documented and len(table) == 1
    assert block["arrived"] == block["completed"] + block["waiting"] == len(result.data)
    looks = result.tables["samples"]
    assert (looks.at_ns.diff().dropna() > 0).all() and (looks.throttled_ns.diff().dropna() >= 0).all()
    assert looks.throttled_periods.max() <= block["throttled_periods"]
    if throttle.available().ok:
        assert result.facts["watched"] == [0]
        spans = result.tables["spans"]
        assert (len(spans) > 0) or block["throttled_periods"] == 0
    else:
        assert any("BPF" in note.text for note in result.notes)
    assert result.plot().caption


def test_without_groups_or_bpf_the_requests_are_served_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PlacementError("No control group can be made here: constructed.", "Ask.")

    tmp_path.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (tmp_path,))
    monkeypatch.setattr(cgroups.making, "make", refuse)
    result = experiment.timeline(profile="tiny", save=False, progress=False)
    assert any(
        note.level == "missing" and "No control group can be made" in note.text for note in result.notes
    )
    assert not result.records("spans") and not result.records("samples")
    assert "no limit was set" in result.plot().caption
    with pytest.raises(ParameterError, match="1 to 200"):
        experiment.timeline(demand_percent=0, save=False)
