"""The bandwidth model against what can be worked out by hand, and against what must hold whatever happens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sched_labs.core.errors import ParameterError
from sched_labs.limits import bandwidth

MS = 1000.0


def test_one_thread_stalls_for_the_rest_of_each_period() -> None:
    run = bandwidth.simulate(30 * MS, 100 * MS, threads=1, cpus=1, duration_s=1)
    assert run.intervals["length_us"].tolist() == [70 * MS] * 10
    assert run.intervals["start_us"].tolist() == [(30 + 100 * k) * MS for k in range(10)]
    assert (run.nr_periods, run.nr_throttled, run.throttled_us) == (10, 10, 700 * MS)
    assert run.periods["used_us"].tolist() == [30 * MS] * 10
    assert run.used_us == 300 * MS
    assert bandwidth.stall_us(30 * MS, 100 * MS, threads=1, cpus=1) == 70 * MS


def test_the_throttled_part_of_a_period_is_what_the_quota_leaves_of_it_to_each_cpu() -> None:
    # 200 ms for four CPUs, in slices of 5 ms: every CPU gets ten of them.
    run = bandwidth.simulate(200 * MS, 100 * MS, threads=4, cpus=4, duration_s=1)
    assert set(run.intervals["length_us"]) == {50 * MS}
    assert len(run.intervals) == 40


def test_what_is_noticed_at_a_tick_comes_off_the_next_runtime() -> None:
    """One thread, 20 ms in 100 ms, slices of 5 ms and a tick of 3 ms."""
    given = {"threads": 1, "cpus": 1, "duration_s": 0.5, "slice_us": 5 * MS}
    exact = bandwidth.replay(20 * MS, 100 * MS, None, **given)
    assert exact.intervals["start_us"].tolist() == [(20 + 100 * k) * MS for k in range(5)]
    late = bandwidth.replay(20 * MS, 100 * MS, None, tick_us=3 * MS, **given)
    # Slices last until 6 (noticed), 12, 15, and 20, which is noticed at 21; then 1 ms is paid back, and a
    # nanosecond runs from 100 to the tick at 102.
    assert late.intervals["start_us"].tolist() == pytest.approx(
        [21 * MS, 120 * MS, 219 * MS, 321 * MS, 420 * MS]
    )
    assert late.used_us == pytest.approx(100 * MS, abs=3 * MS), "overrun and paid back"
    # With ticks at 2, 5, 8 ... the first quota ends at one.
    other = bandwidth.replay(20 * MS, 100 * MS, None, tick_us=3 * MS, tick_at_us=302 * MS, **given)
    assert other.intervals["start_us"].iloc[0] == pytest.approx(20 * MS)


def test_a_wake_up_on_a_busy_cpu_shows_that_its_runtime_is_used_up() -> None:
    """Two threads on a CPU, 5 ms in 100 ms, a tick of 50 ms; a second request comes at 8 ms."""
    given = {"cpus": 1, "duration_s": 0.3, "tick_us": 50 * MS, "work_us": 20 * MS}
    alone = bandwidth.replay(5 * MS, 100 * MS, [0.0], threads=2, **given)
    assert alone.latency_us.tolist() == [20 * MS] and alone.intervals.empty, "over before the first tick"
    both = bandwidth.replay(5 * MS, 100 * MS, [0.0, 8 * MS], threads=2, **given)
    assert both.intervals["start_us"].iloc[0] == 8 * MS
    one = bandwidth.replay(5 * MS, 100 * MS, [0.0, 8 * MS], threads=1, **given)
    assert one.latency_us[0] == 20 * MS, "no thread sleeps that could wake up"


@pytest.mark.parametrize("tick_ms", [0, 1, 4, 10])
@pytest.mark.parametrize(("threads", "cpus"), [(1, 1), (2, 2), (4, 2), (16, 4)])
def test_with_a_tick_no_request_and_no_runtime_is_lost(tick_ms: int, threads: int, cpus: int) -> None:
    arrivals = np.sort(np.random.default_rng(threads).uniform(0, 10_000 * MS, 9_000))
    run = bandwidth.replay(
        10 * cpus * MS, 20 * MS, arrivals, threads=threads, cpus=cpus, duration_s=30, tick_us=tick_ms * MS,
        work_us=0.9 * MS * cpus / 2,
    )  # fmt: skip
    assert run.in_flight == 0 and run.used_us == pytest.approx(9_000 * 0.9 * MS * cpus / 2)
    assert run.nr_throttled > 0
    assert (run.latency_us >= 0.9 * MS * cpus / 2 - 1e-6).all()
    # Whatever is overrun is paid back: no period's use exceeds its quota by more than the ticks of all CPUs.
    used = run.periods["used_us"].to_numpy().cumsum()
    assert (used <= 10 * cpus * MS * (np.arange(used.size) + 1) + cpus * (tick_ms + 5) * MS + 1e-6).all()


def test_no_tick_of_an_hour() -> None:
    with pytest.raises(ParameterError, match="tick"):
        bandwidth.replay(10 * MS, 100 * MS, None, threads=1, cpus=1, duration_s=1, tick_us=3.6e9)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8, 16, 40])
@pytest.mark.parametrize("cpus", [1, 2, 4, 16])
@pytest.mark.parametrize("quota_ms", [20, 50, 130, 400])
def test_a_quota_lasts_quota_over_running_threads_to_within_a_slice(
    threads: int, cpus: int, quota_ms: int
) -> None:
    quota, period, slice_us = quota_ms * MS, 100 * MS, 1 * MS
    run = bandwidth.simulate(quota, period, threads=threads, cpus=cpus, slice_us=slice_us, duration_s=0.1)
    lasts = bandwidth.exhaustion_us(quota, threads=threads, cpus=cpus)
    if lasts >= period:
        assert run.throttled_us == 0
        return
    starts = run.intervals["start_us"]
    assert len(starts) == min(threads, cpus)
    assert (abs(starts - lasts) <= slice_us).all()
    # Slices decide who runs on a little longer, never how much they get together.
    assert run.used_us == pytest.approx(quota)


def test_sixteen_threads_on_four_cpus_last_25_ms_not_6() -> None:
    run = bandwidth.simulate(100 * MS, 100 * MS, threads=16, cpus=4, duration_s=1)
    assert set(run.intervals["start_us"] % (100 * MS)) == {25 * MS}


def test_a_slice_is_the_error_of_the_formula() -> None:
    # 10 ms in slices of 5 ms: two of four run for 5 ms, the others wait for a later period.
    run = bandwidth.simulate(10 * MS, 100 * MS, threads=4, cpus=4, duration_s=1)
    first = run.intervals.iloc[:4]
    assert sorted(first["start_us"]) == [0, 0, 5 * MS, 5 * MS]
    assert run.intervals["length_us"].max() == 195 * MS


def test_a_quota_of_all_cpus_throttles_nobody() -> None:
    run = bandwidth.simulate(200 * MS, 100 * MS, threads=8, cpus=2, duration_s=2)
    assert (run.nr_throttled, run.throttled_share, len(run.intervals)) == (0, 0, 0)
    assert run.used_us == 4_000 * MS


def test_requests_of_one_burst_wait_for_the_next_period() -> None:
    # 20 ms of quota, one CPU, three requests of 10 ms at time 0: the third has to wait for the refill.
    run = bandwidth.replay(20 * MS, 100 * MS, [0, 0, 0], threads=1, cpus=1, work_us=10 * MS, duration_s=1)
    assert run.latency_us.tolist() == [10 * MS, 20 * MS, 110 * MS]
    assert run.intervals.values.tolist() == [[0, 20 * MS, 100 * MS, 80 * MS]]
    assert run.nr_throttled == 1


def test_a_request_that_is_interrupted_ends_after_the_refill() -> None:
    # 15 ms of quota: the second request does 5 of its 10 ms, then stands from 15 to 100 ms.
    run = bandwidth.replay(15 * MS, 100 * MS, [0, 0], threads=2, cpus=1, work_us=10 * MS, duration_s=1)
    assert run.latency_us.tolist() == [10 * MS, 105 * MS]


def test_a_request_that_is_not_completed_has_waited_until_the_end() -> None:
    run = bandwidth.replay(
        20 * MS, 100 * MS, [0, 0, 5 * MS], threads=1, cpus=1, work_us=9 * MS, duration_s=0.05
    )
    assert run.latency_us.tolist() == [9 * MS, 18 * MS]
    assert run.waited_us.tolist() == [45 * MS] and run.in_flight == 1


def test_requests_run_side_by_side_on_two_cpus() -> None:
    run = bandwidth.replay(100 * MS, 100 * MS, [0, 0, 0], threads=2, cpus=2, work_us=10 * MS, duration_s=1)
    assert run.latency_us.tolist() == [10 * MS, 10 * MS, 20 * MS]


def test_burst_carries_over_what_an_idle_period_left() -> None:
    # Nothing in the first period; then five requests of 10 ms at once, against a quota of 20 ms.
    at = [100 * MS] * 5
    options: dict[str, Any] = {"threads": 1, "cpus": 1, "work_us": 10 * MS, "duration_s": 1}
    without = bandwidth.replay(20 * MS, 100 * MS, [0.0, *at], **options)
    burst = bandwidth.replay(20 * MS, 100 * MS, [0.0, *at], burst_us=10 * MS, **options)
    assert without.latency_us[1:].tolist() == [10 * MS, 20 * MS, 110 * MS, 120 * MS, 210 * MS]
    assert burst.latency_us[1:].tolist() == [10 * MS, 20 * MS, 30 * MS, 110 * MS, 120 * MS]
    assert (without.nr_bursts, burst.nr_bursts) == (0, 1)
    assert burst.burst_us == pytest.approx(10 * MS, abs=MS)


def test_the_timer_fills_the_burst_up_once_more_before_it_stops() -> None:
    # do_sched_cfs_period_timer() refills before it looks whether the group was idle (kernel/sched/fair.c,
    # from 5.14): so 15 ms every third period go through in one piece, on a quota of 10 ms and as much burst.
    at = [300 * MS * number for number in range(6)]
    options: dict[str, Any] = {"threads": 1, "cpus": 1, "work_us": 15 * MS, "duration_s": 2}
    run = bandwidth.replay(10 * MS, 100 * MS, at, burst_us=10 * MS, **options)
    assert run.latency_us.tolist() == [15 * MS] * 6
    assert run.nr_throttled == 0


def test_a_run_queue_that_falls_idle_keeps_one_millisecond_and_gives_the_rest_back() -> None:
    # CPU 0 serves 1 ms out of a 5 ms slice and gives 3 back; without that the second could not run 8 ms.
    run = bandwidth.replay(10 * MS, 100 * MS, [0, 50 * MS], threads=2, cpus=2, work_us=1 * MS, duration_s=0.1)
    assert run.throttled_us == 0
    assert run.latency_us.tolist() == [MS, MS]


def test_more_run_queues_than_slices_leave_some_with_nothing() -> None:
    run = bandwidth.replay(
        16 * MS, 100 * MS, [0, 0, 0], threads=3, cpus=3, work_us=9 * MS, slice_us=8 * MS, duration_s=1
    )
    assert run.intervals["start_us"].tolist()[:3] == [0, 8 * MS, 8 * MS]


def test_what_is_given_back_is_there_for_the_next_that_wakes() -> None:
    # Both take all of the pool, run for 3 ms and give 6 ms back each; the third finds it.
    run = bandwidth.replay(
        20 * MS, 100 * MS, [0, 0, 6 * MS], threads=2, cpus=2, work_us=3 * MS, slice_us=10 * MS, duration_s=1
    )
    assert run.latency_us.tolist() == [3 * MS] * 3


def test_the_slack_timer_lets_go_only_where_more_than_a_slice_was_given_back() -> None:
    # The third finds the pool empty.  At 2 ms two give back 2 ms each: no more than a slice, so it stands.
    stands = bandwidth.replay(
        10 * MS, 100 * MS, [0, 0, 0.5 * MS], threads=3, cpus=3, work_us=2 * MS, duration_s=1
    )
    assert stands.latency_us.tolist() == [2 * MS, 2 * MS, 101.5 * MS]
    # Four give back 1 ms each at 1 ms: more than a slice of 3 ms.  The timer lets the fifth go 5 ms later.
    at = [0, 0, 0, 0, 0.5 * MS]
    goes = bandwidth.replay(
        12 * MS, 100 * MS, at, threads=5, cpus=5, work_us=1 * MS, slice_us=3 * MS, duration_s=1
    )
    assert goes.latency_us.tolist() == [MS, MS, MS, MS, 6.5 * MS]
    assert goes.intervals.values.tolist() == [[4, 0.5 * MS, 6 * MS, 5.5 * MS]]
    assert goes.nr_throttled == 0, "no run queue stood throttled when a period ended"


def test_the_period_timer_stops_when_nothing_runs() -> None:
    run = bandwidth.replay(20 * MS, 100 * MS, [0.0], threads=1, cpus=1, work_us=1 * MS, duration_s=10)
    assert run.nr_periods == 2, "the one with the request, and the one in which the kernel notices"


@pytest.mark.parametrize("seed", range(12))
def test_what_must_hold_whatever_happens(seed: int) -> None:
    pick = np.random.default_rng(seed)
    cpus, threads = int(pick.integers(1, 17)), int(pick.integers(1, 33))
    period = float(pick.choice([5, 20, 100, 1000])) * MS
    quota = max(period * float(pick.uniform(0.05, 1.2)) * min(cpus, threads), 1 * MS)
    burst = quota * float(pick.choice([0, 0.5, 1]))
    work = float(pick.uniform(0.05, 20)) * MS
    rate = quota / period / work * 1e6 * float(pick.choice([0.3, 0.8, 1.5]))
    run = bandwidth.simulate(
        quota,
        period,
        threads=threads,
        cpus=cpus,
        burst_us=burst,
        duration_s=5,
        arrivals_per_s=rate,
        work_us=work,
        seed=seed,
    )
    width = min(threads, cpus)
    held = width * 5 * MS  # a slice on every CPU
    used = run.periods["used_us"]
    assert (used <= quota + burst + held + 1e-6).all()
    assert run.used_us <= quota * (len(used) + 1) + burst + 1e-6, "over many periods the quota is the limit"
    assert (used <= width * period + 1e-6).all()
    assert run.arrivals == run.completions + run.in_flight
    assert (run.latency_us >= work - 1e-6).all()
    # The CPU time is that of the requests: the completed ones, and what those under way have got.
    assert run.completions * work - 1e-3 <= run.used_us
    assert run.used_us <= run.completions * work + width * work + 1e-3
    assert run.nr_throttled <= run.nr_periods <= len(used) + 1
    spans = run.intervals
    assert (spans["length_us"] >= 0).all() and (spans["end_us"] <= 5e6).all()
    for _, of_cpu in spans.groupby("cpu"):
        assert (of_cpu["start_us"].to_numpy()[1:] >= of_cpu["end_us"].to_numpy()[:-1] - 1e-6).all()
    # No CPU both runs and stands.
    assert run.used_us + run.throttled_us <= width * 5e6 + 1e-3
    assert sorted(run.quantiles().values()) == list(run.quantiles().values())
    assert run.histogram()["requests"].sum() == run.completions


def test_without_a_limit_that_binds_the_queue_is_an_ordinary_one() -> None:
    """M/D/1 by Pollaczek and Khinchine: the mean wait is rho / (1 - rho) / 2 services."""
    run = bandwidth.simulate(
        1000 * MS, 1000 * MS, threads=1, cpus=1, duration_s=600, arrivals_per_s=600, work_us=1 * MS, seed=1
    )
    assert run.nr_throttled == 0
    assert run.latency_us.mean() / MS - 1 == pytest.approx(0.6 / 0.4 / 2, rel=0.05)


def test_the_seed_decides_the_arrivals() -> None:
    options: dict[str, Any] = {"threads": 2, "cpus": 2, "arrivals_per_s": 50, "work_us": 5 * MS}
    first = bandwidth.simulate(50 * MS, 100 * MS, seed=3, **options)
    again = bandwidth.simulate(50 * MS, 100 * MS, seed=3, **options)
    other = bandwidth.simulate(50 * MS, 100 * MS, seed=4, **options)
    assert first.latency_us.tolist() == again.latency_us.tolist()
    assert first.latency_us.tolist() != other.latency_us.tolist()


def test_a_summary_has_units_in_its_names_and_an_empty_run_has_no_latency() -> None:
    run = bandwidth.simulate(50 * MS, 100 * MS, threads=1, cpus=1, duration_s=1)
    row = run.summary().iloc[0]
    assert list(run.summary())[-4:] == ["p50_us", "p90_us", "p99_us", "p999_us"]
    assert row["used_cpus"] == pytest.approx(0.5) and math.isnan(row["p99_us"])
    assert run.histogram().empty


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quota_us": 999}, "cpu.cfs_quota_us"),
        ({"quota_us": math.inf}, "limit"),
        ({"quota_us": math.nan}, "quota"),
        ({"period_us": 500}, "cpu.cfs_period_us"),
        ({"period_us": 1_000_001}, "cpu.cfs_period_us"),
        ({"burst_us": 50_001}, "cpu.cfs_burst_us"),
        ({"burst_us": -1}, "cpu.cfs_burst_us"),
        ({"slice_us": 0}, "sched_cfs_bandwidth_slice_us"),
        ({"threads": 0}, "thread"),
        ({"threads": 1.5}, "thread"),
        ({"cpus": 0}, "CPU"),
        ({"duration_s": 0}, "simulated"),
        ({"duration_s": math.inf}, "simulated"),
        ({"arrivals_per_s": 10}, "amount of work"),
        ({"work_us": 10}, "amount of work"),
        ({"arrivals_per_s": 0, "work_us": 10}, "rate"),
        ({"arrivals_per_s": 1e9, "work_us": 10}, "requests"),
        ({"arrivals_per_s": 10, "work_us": 0}, "work_us"),
    ],
)
def test_bad_input_says_what_to_give(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"quota_us": 50_000, "period_us": 100_000, "threads": 2, "cpus": 2} | change
    with pytest.raises(ParameterError, match=said):
        bandwidth.simulate(given.pop("quota_us"), given.pop("period_us"), **given)


@pytest.mark.parametrize("at", [[2, 1], [-1], [2e6]])
def test_arrivals_out_of_order_are_refused(at: list[float]) -> None:
    with pytest.raises(ParameterError, match="Arrivals"):
        bandwidth.replay(50_000, 100_000, at, threads=1, cpus=1, duration_s=1, work_us=10)
