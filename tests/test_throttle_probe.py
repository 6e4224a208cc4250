"""The throttle probe: what its helper is asked, and what it sees of a real group.  Relations, never times."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import time
from pathlib import Path
from types import ModuleType

import pytest

from sched_labs import cgroups, workloads
from sched_labs.errors import ParameterError, ProbeError
from sched_labs.probes import channel, throttle

REQUEST = {
    "probe": "throttle", "version": 2, "scope": "processes", "pids": [1], "duration_s": 1.0, "interval_s": 60,
}  # fmt: skip


@pytest.fixture(scope="module")
def helper() -> ModuleType:
    path = Path(channel.__file__).parent / "helper" / channel.SCRIPT
    loader = importlib.machinery.SourceFileLoader("throttle_helper", str(path))
    spec = importlib.util.spec_from_loader("throttle_helper", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "value"),
    [("scope", "machine"), ("scope", "cgroup"), ("by", "cpu"), ("stacks", True), ("pids", [])],
)
def test_the_helper_takes_this_request_and_no_other(helper: ModuleType, name: str, value: object) -> None:
    assert helper.parse_request(json.dumps(REQUEST).encode()) == REQUEST
    with pytest.raises(helper.Refused):
        helper.parse_request(json.dumps({**REQUEST, name: value}).encode())


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
    assert probe.stop() is seen


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
