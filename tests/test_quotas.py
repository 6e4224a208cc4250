"""One limit in four languages, forth and back, and what each of them refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sched_labs.core.errors import ParameterError
from sched_labs.limits import bandwidth, quotas

# millicores, CPUQuota=, cpu.max, v1 quota; all with the period of 100 ms
SAME = [
    ("500m", "50%", "50000 100000", 50_000),
    ("100m", "10%", "10000 100000", 10_000),
    ("2000m", "200%", "200000 100000", 200_000),
    ("1500m", "150%", "150000 100000", 150_000),
    ("125m", "12.5%", "12500 100000", 12_500),
]


@pytest.mark.parametrize(("pod", "percent", "line", "quota"), SAME)
def test_every_language_says_every_other(pod: str, percent: str, line: str, quota: int) -> None:
    files = {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": 100_000}
    for limit in (
        quotas.from_kubernetes(pod),
        quotas.from_systemd(percent),
        quotas.from_cpu_max(line),
        quotas.from_v1(files),
    ):
        assert limit.kubernetes == pod
        assert limit.systemd == {"CPUQuota": percent, "CPUQuotaPeriodSec": "100ms"}
        assert limit.cpu_max == line
        assert limit.v1 == files
        assert "note" not in set(limit.table()["where"]), "nothing was rounded"


@pytest.mark.parametrize("quota", [1000, 1001, 33_333, 99_999, 1_234_567])
@pytest.mark.parametrize("period", [1000, 5000, 33_000, 1_000_000])
def test_files_lose_nothing_and_the_others_say_when_they_round(quota: int, period: int) -> None:
    limit = quotas.Limit(quota, period)
    assert quotas.from_cpu_max(limit.cpu_max) == limit == quotas.from_v1(limit.v1)
    assert limit.millicores is not None and limit.millicores <= 1000 * quota / period < limit.millicores + 1
    said = " ".join(limit.table().query("where == 'note'")["value"])
    assert ("rounded down" in said) == bool(quota * 1000 % period or quota * 10_000 % period)
    assert "kubelet" in said, "the period is not the kubelet's"


def test_no_limit_is_no_limit_in_every_language() -> None:
    for limit in (
        quotas.from_systemd(""),
        quotas.from_cpu_max("max"),
        quotas.from_cpu_max("max 100000"),
        quotas.from_v1({"cpu.cfs_quota_us": -1}),
        quotas.from_kubernetes(0),
    ):
        assert limit.cpus == math.inf and limit.kubernetes is None
        assert limit.cpu_max == "max 100000" and limit.v1["cpu.cfs_quota_us"] == -1
        assert limit.systemd["CPUQuota"] == ""
        assert set(limit.stalls(cpus=4)["stands_us"]) == {0.0}


@pytest.mark.parametrize(("written", "quota"), [("0.5", 50_000), (2, 200_000), (1.5, 150_000), ("1m", 1_000)])
def test_kubernetes_takes_cpus_and_millicores(written: Any, quota: int) -> None:
    assert quotas.from_kubernetes(written).quota_us == quota


def test_the_kubelet_and_systemd_raise_what_the_kernel_would_refuse() -> None:
    tiny = quotas.from_kubernetes("5m")
    assert tiny.quota_us == 1_000 and "least quota" in tiny.notes[0]
    assert quotas.from_kubernetes("10m").notes == ()
    # systemd's own test: a period of 1 ms and a quota of 40 % need 2.5 ms.
    stretched = quotas.from_systemd("40%", period="1ms")
    assert (stretched.quota_us, stretched.period_us) == (1_000, 2_500)
    assert "2500us" in stretched.notes[0]
    assert quotas.from_systemd("40%", period="5s").period_us == 1_000_000
    assert quotas.from_systemd("0.01%").quota_us == 1_000


def test_threads_that_never_sleep_stand_for_what_the_quota_leaves() -> None:
    table = quotas.from_kubernetes("1").stalls(cpus=4, threads=[1, 2, 4, 16]).set_index("threads")
    assert table["runs_us"].to_dict() == {1: 100_000, 2: 50_000, 4: 25_000, 16: 25_000}
    assert (table["runs_us"] + table["stands_us"] == 100_000).all()


def test_where_cpus_outnumber_the_slices_some_sit_a_period_out_and_the_table_says_so() -> None:
    limit = quotas.from_systemd("50%", period="10ms")
    table = limit.stalls(cpus=8, threads=[1, 2, 8, 16]).set_index("threads")
    assert table["slices_per_cpu"].to_dict() == {1: 1.0, 2: 0.5, 8: 0.125, 16: 0.125}
    for threads, row in table.iterrows():
        run = bandwidth.simulate(5_000, 10_000, threads=int(str(threads)), cpus=8, duration_s=1)
        longest = run.intervals["length_us"].max()
        assert (longest > limit.period_us) == (row["slices_per_cpu"] < 1), threads
    assert set(quotas.from_kubernetes("1").stalls(cpus=4, threads=[4, 8])["slices_per_cpu"]) == {5.0}
    assert set(quotas.from_cpu_max("max").stalls(cpus=4)["slices_per_cpu"]) == {math.inf}


@pytest.mark.parametrize(
    ("call", "given", "said"),
    [
        (quotas.from_kubernetes, "half", "no CPU limit"),
        (quotas.from_kubernetes, "-1", "no CPU limit"),
        (quotas.from_kubernetes, "0.5m", "whole millicores"),
        (quotas.from_kubernetes, "0.0001", "whole millicores"),
        (quotas.from_kubernetes, "", "no CPU limit"),
        (quotas.from_systemd, "50", "lacks its %"),
        (quotas.from_systemd, "0%", "0.01 %"),
        (quotas.from_systemd, "12.345%", "0.01 %"),
        (quotas.from_systemd, "-5%", "no CPUQuota="),
        (quotas.from_cpu_max, "", "no cpu.max"),
        (quotas.from_cpu_max, "1 2 3", "no cpu.max"),
        (quotas.from_cpu_max, "500 100000", "cpu.cfs_quota_us"),
        (quotas.from_cpu_max, "50000 999", "cpu.cfs_period_us"),
        (quotas.from_cpu_max, "50000 2000000", "cpu.cfs_period_us"),
        (quotas.from_cpu_max, "50ms 100ms", "whole µs"),
        (quotas.from_v1, {"cpu.cfs_period_us": 100_000}, "cpu.cfs_quota_us"),
        (quotas.from_v1, {"cpu.cfs_quota_us": 0}, "cpu.cfs_quota_us"),
        (quotas.from_v1, {"cpu.cfs_quota_us": 5000, "cpu.max": 1}, "cpu.max is no file"),
    ],
)
def test_what_no_language_takes_is_refused_with_the_file_named(call: Any, given: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        call(given)


def test_a_period_is_a_time() -> None:
    with pytest.raises(ParameterError, match="CPUQuotaPeriodSec="):
        quotas.from_systemd("50%", period="soon")
    assert quotas.from_systemd("50%", period="10ms").cpu_max == "5000 10000"
    assert quotas.from_systemd("50%", period="0.1").period_us == 100_000
