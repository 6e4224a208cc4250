"""Claims about CPU limits, each judged on CONSTRUCTED summaries for every outcome it can have."""

from __future__ import annotations

from typing import Any

from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN

MS = 1e6
NAN, INF = float("nan"), float("inf")


def hog(
    stall: tuple[float, float, float] = (50, 48, 52),
    *,
    share: int = 50,
    default: float | None = 100 * MS,
    field: str | None = "throttled_usec",
    throttled: int = 9,
    used: float = 52,
    counted: float | None = None,
) -> dict[str, Any]:
    """One limit: the stall is (median, low, high) in ms; `counted` is what the kernel counts in its place."""
    return {
        "share_percent": share,
        "stall_ns": stall[0] * MS,
        "stall_lo_ns": stall[1] * MS,
        "stall_hi_ns": stall[2] * MS,
        "counted_stall_ns": (stall[0] if counted is None else counted) * MS,
        "default_period_ns": default,
        "throttled_field": field,
        "throttled_periods": throttled,
        "throttled_percent": 10 * throttled,
        "period_ns": 100 * MS,
        "quota_ns": share * MS,
        "tolerance_ns": 9 * MS,
        "periods": 30,
        "trials": 3,
        "cpu_percent": used,
    }


def threads(
    count: int,
    ran: tuple[float, float, float],
    stall: tuple[float, float, float] = (80, 79, 81),
    cpus: int = 2,
    throttled: int = 10,
) -> dict[str, Any]:
    """Under 40 of 100 ms: time to exhaustion and stall as (median, low, high) in ms."""
    row: dict[str, Any] = {"threads": count, "cpus": cpus, "quota_ns": 40 * MS, "period_ns": 100 * MS}
    row["tolerance_ns"] = 9 * MS
    row |= {"throttled_periods": throttled, "throttled_percent": 10 * throttled}
    row["formula_ran_ns"] = 40 * MS / min(count, cpus)
    for name, values in (("ran", ran), ("stall", stall)):
        for part, value in zip(("", "_lo", "_hi"), values, strict=True):
            row[f"{name}{part}_ns"] = value * MS
    return row


def service(
    limit: str = "quota",
    p99: tuple[float, float, float] = (60, 50, 70),
    *,
    demand: int = 80,
    neighbour: str = "idle",
    throttled: float = 40,
    periods: int = 30,
    beyond: float = 20,
    mode: float = 60,
    delay: tuple[float, float, float] = (8, 7, 9),
    rivals: float = NAN,
    waiting: int = 0,
) -> dict[str, Any]:
    """One condition: p99 and the run delay as (median, low, high) in ms; `rivals` is a part of the latter."""
    return {
        "limit": limit,
        "neighbour": neighbour,
        "demand_percent": demand,
        "p99_ns": p99[0] * MS,
        "p99_lo_ns": p99[1] * MS,
        "p99_hi_ns": p99[2] * MS,
        "throttled_percent": throttled,
        "periods": periods,
        "beyond_percent": beyond,
        "second_mode_ns": mode * MS,
        "cpu_percent": 40.0,
        "arrived": 100,
        "waiting": waiting,
        "run_delay_ns": delay[0] * MS,
        "run_delay_lo_ns": delay[1] * MS,
        "run_delay_hi_ns": delay[2] * MS,
        "rivals_ns": rivals * MS,
    }


def free(p99: tuple[float, float, float] = (20, 18, 22), **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"throttled": 0, "periods": 0, "delay": (2, 1, 3)}
    return service("none", p99, **given | more)


def owner(condition: str, low: float, high: float) -> dict[str, Any]:
    return {
        "condition": condition,
        "cpu_percent": (low + high) / 2,
        "cpu_lo_percent": low,
        "cpu_hi_percent": high,
    }


def inside(
    condition: str, cpu: tuple[float, float], own: float = 0, outer: float = 90, around: float = 50
) -> dict[str, Any]:
    return {
        "condition": condition,
        "own_limit_percent": 40,
        "outer_limit_percent": around,
        "own_throttled_percent": own,
        "outer_throttled_percent": outer,
        "cpu_percent": sum(cpu) / 2,
        "cpu_lo_percent": cpu[0],
        "cpu_hi_percent": cpu[1],
    }


def moments(held: float, held_p50: float = 30, other_p99: float = 8, throttled: int = 5) -> dict[str, Any]:
    return {
        "held_percent": held,
        "held_p50_ns": held_p50 * MS,
        "other_p99_ns": other_p99 * MS,
        "throttled_periods": throttled,
    }


def counting(
    setting: str,
    p99: tuple[float, float, float] = (48, 45, 50),
    *,
    runtime: str = "Go",
    throttled: float = 90,
    starts: tuple[float, float] | None = None,
    work: tuple[float, float, float] = (94, 93, 95),
    own: int = 2,
) -> dict[str, Any]:
    """One runtime under a quota of one CPU, on two: p99 in ms and work in percent as (median, low, high).

    starts   the interval of the throttled periods; without one all starts were alike
    """
    row: dict[str, Any] = {"runtime": runtime, "setting": setting, "threads": 2 if setting == "host" else 1}
    row["own_threads"], row["throttled_ns_per_s"] = own, throttled * MS
    share = (throttled, *(starts or (throttled, throttled)))
    for name, values, unit, scale in (
        ("p99", p99, "ns", MS),
        ("background", work, "percent", 1.0),
        ("throttled", share, "percent", 1.0),
    ):
        for part, value in zip(("", "_lo", "_hi"), values, strict=True):
            row[f"{name}{part}_{unit}"] = value * scale
    return row


def fitting(p99: tuple[float, float, float] = (20, 19, 21), **given: Any) -> dict[str, Any]:
    """The same with the quota's count, by default of Go, which is not throttled then."""
    return counting("quota", p99, **{"throttled": 0, **given})


def beside(
    way: str,
    p99: tuple[float, float, float] = (30, 28, 32),
    job: tuple[float, float, float] = (150, 148, 152),
    throttled: float = NAN,
) -> dict[str, Any]:
    """A service beside a batch job: p99 in ms, and the job's percent of a CPU, as (median, low, high)."""
    row: dict[str, Any] = {"way": way, "service_throttled_percent": throttled}
    for name, values, unit, scale in (("p99", p99, "ns", MS), ("batch", job, "percent", 1.0)):
        for part, value in zip(("", "_lo", "_hi"), values, strict=True):
            row[f"{name}{part}_{unit}"] = value * scale
    return row


def harmed(*others: dict[str, Any]) -> list[dict[str, Any]]:
    """These ways, after a service alone and one beside a job that nothing is done to."""
    return [beside("alone", (5, 4, 6)), beside("beside"), *others]


def _neighbours(weight: tuple[float, float, float]) -> list[dict[str, Any]]:
    return [service("weight", weight, neighbour="busy"), free((40, 35, 45), neighbour="busy")]


def beside_busy(none: tuple[float, float, float], weight: tuple[float, float, float]) -> list[dict[str, Any]]:
    """p99 in ms beside a busy neighbour: with a quota, with neither limit nor weight, with a weight."""
    return [
        service(neighbour="busy"),
        service("none", none, neighbour="busy"),
        service("weight", weight, neighbour="busy"),
    ]


USUAL = service("none", (5, 4, 6), throttled=0)
BEST = beside_busy((30, 28, 32), (20, 18, 22))
JAVA: dict[str, Any] = {"runtime": "Java", "own": 1}
GIVING: list[tuple[str, str]] = [("idle-out-of-the-way", "SCHED_IDLE"), ("batch-gives-way", "SCHED_BATCH")]
LIMITED = beside("quota", (20, 18, 22), (100, 98, 102))
GIVEN = "SCHED_IDLE inside"
CASES: list[Case] = [
    *((claim, HOLDS, harmed(beside(way, (6, 5, 7))), f"6 ms (the job under {way}") for claim, way in GIVING),
    *((claim, FAILS, harmed(beside(way)), f"30 ms (the job under {way}") for claim, way in GIVING),
    *((claim, UNKNOWN, harmed(beside(way, (22, 10, 40))), "allow either") for claim, way in GIVING),
    *((claim, UNKNOWN, harmed(beside(way, (26, 25.8, 27))), "Quicker, but by less") for claim, way in GIVING),
    *((claim, UNKNOWN, harmed(), f"did not measure the way 'the job under {way}") for claim, way in GIVING),
    (
        "batch-gives-way",
        UNKNOWN,
        [beside("alone"), beside("beside"), beside("SCHED_BATCH")],
        "less than 1.25 times, if",
    ),
    ("batch-gives-way", UNKNOWN, [beside("alone"), beside("beside", (45, 36, 60))], "than 1.25 times: p99"),
    (
        "only-a-limit",
        HOLDS,
        harmed(LIMITED, beside("cpu.idle")),
        "20 ms (a quota for the job; interval 18 ms to 22 ms) and 30 ms (cpu.idle for",
    ),
    (
        "only-a-limit",
        FAILS,
        harmed(LIMITED, beside("cpu.idle", (6, 5, 7))),
        "6 ms (cpu.idle for the job's group; interval 5 ms to 7 ms)",
    ),
    (
        "only-a-limit",
        FAILS,
        harmed(LIMITED, beside("cpu.idle"), beside("weight", (6, 5, 7))),
        "6 ms (the least weight for the job's group;",
    ),
    ("only-a-limit", UNKNOWN, harmed(LIMITED, beside("cpu.idle", (25, 20, 30))), "allow either"),
    ("only-a-limit", UNKNOWN, harmed(LIMITED), "nothing to the job but limit it"),
    (
        "only-a-limit",
        UNKNOWN,
        harmed(beside("quota", (20, 19.8, 20.2)), beside("cpu.idle", (23, 22.8, 23.2))),
        "Slower than under the limit, but by less than 1.25 times",
    ),
    ("gives-way-gets-less", FAILS, [LIMITED, beside(GIVEN)], "98 to 102) under the limit, 150 %"),
    ("gives-way-gets-less", UNKNOWN, [LIMITED, beside(GIVEN, job=(40, 38, 42))], "may have needed the"),
    ("gives-way-gets-less", UNKNOWN, [LIMITED, beside(GIVEN, job=(99, 90, 110))], "overlap"),
    ("gives-way-gets-less", UNKNOWN, [LIMITED, beside("cpu.idle")], "in the service's group"),
    ("own-cpu-quota", HOLDS, [beside("apart"), beside("apart, quota", throttled=0)], "0 % of its periods"),
    ("own-cpu-quota", UNKNOWN, [beside("apart"), beside("apart, quota", throttled=8)], "period: 8 % of its"),
    ("own-cpu-quota", UNKNOWN, [beside("apart"), beside("apart, quota", throttled=0.4)], "0.4 % of its"),
    ("own-cpu-quota", UNKNOWN, [beside("apart")], "did not measure the way 'one CPU each, and a quota"),
    ("gomaxprocs-throttled", UNKNOWN, [counting("host"), fitting()], "had the CPUs: 0 % of the periods"),
    (
        "gomaxprocs-throttled",
        FAILS,
        [counting("host"), fitting(throttled=40)],
        "for 40 ms and 90 ms of each second",
    ),
    (
        "gomaxprocs-throttled",
        UNKNOWN,
        [counting("host"), fitting(throttled=7, starts=(0, 20))],
        "differ too much",
    ),
    ("gomaxprocs-throttled", FAILS, [counting("host"), fitting(throttled=20, starts=(10, 30))], "10 to 30 %"),
    ("gomaxprocs-throttled", UNKNOWN, [counting("host"), fitting(starts=(-INF, INF))], "One start"),
    ("gomaxprocs-throttled", UNKNOWN, [counting("host", throttled=2), fitting()], "even with 2 threads"),
    ("gomaxprocs-throttled", UNKNOWN, [counting("host", **JAVA)], "did not measure Go with"),
    ("gomaxprocs-tail", HOLDS, [counting("host"), fitting()], "50 ms) with GOMAXPROCS=2, 20 ms (interval"),
    ("gomaxprocs-tail", FAILS, [counting("host", (21, 20, 22)), fitting()], "p99 21 ms"),
    ("gomaxprocs-tail", UNKNOWN, [counting("host", (25, 20, 30)), fitting()], "allow either"),
    ("gomaxprocs-tail", UNKNOWN, [counting("host", (22.5, 22, 23)), fitting()], "Slower, but by less"),
    ("gomaxprocs-tail", UNKNOWN, [counting("host", (25, -INF, INF)), fitting()], "One trial"),
    ("gomaxprocs-tail", UNKNOWN, [counting("host", throttled=2), fitting()], "even with 2 threads"),
    ("gomaxprocs-work", HOLDS, [counting("host", work=(70, 68, 72)), fitting()], "70.0 % of a CPU's work"),
    ("gomaxprocs-work", UNKNOWN, [counting("host"), fitting()], "had the CPUs: 94.0 % of a CPU"),
    ("gomaxprocs-work", UNKNOWN, [counting("host", work=(90, 80, 95)), fitting()], "allow either"),
    ("gomaxprocs-work", UNKNOWN, [counting("host", work=(91, 90.5, 92)), fitting()], "Less, but by less"),
    ("gomaxprocs-work", UNKNOWN, [counting("host", throttled=2), fitting()], "even with 2 threads"),
    ("gomaxprocs-work", UNKNOWN, [counting("host", work=(0, 0, 0)), fitting(work=(0, 0, 0))], "too short"),
    ("gomaxprocs-work", UNKNOWN, [counting("host", work=(94, -INF, INF)), fitting()], "One trial"),
    ("runtime-counts", FAILS, [fitting(), fitting(**JAVA)], "2 in Go, 1 in Java"),
    ("runtime-counts", HOLDS, [fitting(own=1), fitting(**JAVA)], "1 in Go, 1 in Java"),
    ("runtime-counts", UNKNOWN, [fitting(**JAVA)], "Only one of the two is installed here"),
    ("runtime-counts", FAILS, [fitting()], "2 in Go"),
    ("runtime-counts", UNKNOWN, [fitting(runtime="Python")], "Neither Go nor Java"),
    (
        "percent-tells",
        FAILS,
        [counting("host", **JAVA), fitting((4, 3, 5), **JAVA, throttled=88)],
        "90 % and 88 %",
    ),
    (
        "percent-tells",
        FAILS,
        [counting("host", **JAVA), fitting((190, 180, 200), **JAVA, throttled=88)],
        "90 % and 88 %",
    ),
    (
        "percent-tells",
        UNKNOWN,
        [counting("host", **JAVA), fitting((4, 3, 5), **JAVA)],
        "90 % and 0 %",
    ),
    (
        "percent-tells",
        UNKNOWN,
        [counting("host", **JAVA), fitting((48, 45, 50), **JAVA, throttled=88)],
        "Neither is twice as slow",
    ),
    (
        "percent-tells",
        UNKNOWN,
        [counting("host", **JAVA), fitting((34, 30, 44), **JAVA, throttled=88)],
        "Neither is twice as slow",
    ),
    (
        "percent-tells",
        UNKNOWN,
        [counting("host", **JAVA, throttled=1), fitting(**JAVA)],
        "even with 2 threads",
    ),
    ("000-130", HOLDS, _neighbours((20, 18, 22)), "20 ms (interval 18 ms to 22 ms) where that has a tenth"),
    ("000-130", UNKNOWN, _neighbours((50, 46, 60)), "40 ms (interval 35 ms to 45 ms) where it has as much"),
    ("000-130", UNKNOWN, _neighbours((38, 30, 42)), "Not faster for sure"),
    ("000-130", UNKNOWN, [service()], "did not measure weight"),
    ("slower-cpu", UNKNOWN, [moments(98)], "98 % of the requests"),
    ("slower-cpu", FAILS, [moments(40), moments(50, 25)], "between 40 and 50 % of the requests met"),
    ("slower-cpu", UNKNOWN, [moments(40), moments(50, 7)], "not far enough apart"),
    ("slower-cpu", UNKNOWN, [moments(NAN)], "not watched"),
    ("slower-cpu", UNKNOWN, [moments(0, throttled=0)], "No period was throttled"),
    ("own-counters", UNKNOWN, [inside("sibling", (24, 26), own=70)], "own limit may have held it back"),
    ("own-counters", FAILS, [inside("no_own_limit", (24, 26), own=NAN)], "counted no periods at all"),
    (
        "own-counters",
        FAILS,
        [inside("sibling", (24, 26), own=70), inside("no_own_limit", (24, 26), own=NAN)],
        "counted 70 %; the group around",
    ),
    ("own-counters", UNKNOWN, [inside("sibling", (24, 26), own=30)], "own limit may have held it back"),
    ("own-counters", UNKNOWN, [inside("sibling", (24, 26), outer=20)], "was not held back"),
    ("own-limit", UNKNOWN, [inside("alone", (39, 41)), inside("sibling", (38, 40))], "the sibling had less"),
    (
        "own-limit",
        UNKNOWN,
        [inside("alone", (39, 41), around=76), inside("sibling", (37, 39), around=76)],
        "may have room for both",
    ),
    ("own-limit", FAILS, [inside("alone", (39, 41)), inside("sibling", (24, 26))], "25 % (interval 24"),
    (
        "own-limit",
        UNKNOWN,
        [inside("alone", (39, 41)), inside("sibling", (24, 26), outer=0)],
        "was held back in less than half of its periods",
    ),
    ("own-limit", UNKNOWN, [inside("alone", (39, 41)), inside("sibling", (24, 39))], "spans nine tenths"),
    ("own-limit", UNKNOWN, [inside("alone", (20, 30)), inside("sibling", (24, 26))], "Other programs may"),
    ("own-limit", UNKNOWN, [inside("sibling", (24, 26))], "did not measure a group alone"),
    ("002-070", FAILS, [owner("alone", 98, 100), owner("outside_pinned", 48, 52)], "50.0 % (interval 48.0"),
    ("002-070", UNKNOWN, [owner("alone", 98, 100), owner("outside_pinned", 96, 98)], "a tenth at most"),
    ("002-070", UNKNOWN, [owner("alone", 98, 100), owner("outside_pinned", 93, 95)], "a tenth at most"),
    ("002-070", UNKNOWN, [owner("alone", 85, 100), owner("outside_pinned", 48, 80)], "allow either"),
    ("002-070", UNKNOWN, [owner("alone", 37, 39), owner("outside_pinned", 36, 38)], "Even alone"),
    ("002-070", UNKNOWN, [owner("alone", 98, 100)], "no cpuset with an intruder"),
    ("000-101", HOLDS, [hog((0.1, 0.05, 0.2))], "between 100 µs"),
    ("000-101", FAILS, [hog(), hog((20, 19, 21), share=80)], "between 20 ms and 50 ms"),
    ("000-101", UNKNOWN, [hog((0.3, 0.1, 0.4))], "from 100 µs to 400 µs"),
    ("000-101", UNKNOWN, [hog(counted=0.1)], "the kernel counts 100 µs"),
    ("000-101", UNKNOWN, [hog(share=100)], "No thread was held back"),
    ("000-101", UNKNOWN, [hog(throttled=0)], "No thread was held back"),
    ("000-101", UNKNOWN, [hog((50, float("-inf"), float("inf")))], "one trial only"),
    ("000-140", HOLDS, [hog()], "a period of 100 ms"),
    ("000-140", FAILS, [hog(default=50 * MS)], "a period of 50 ms"),
    ("000-140", UNKNOWN, [hog(default=None)], "No group was made"),
    ("002-090", HOLDS, [hog()], "leaves 50.0 % of a period"),
    ("002-090", FAILS, [hog((20, 18, 22))], "leaves 80.0 % of a period"),
    ("002-090", UNKNOWN, [hog((50, 42, 58))], "spans a limit"),
    ("002-090", UNKNOWN, [hog(share=20)], "did not measure 50 ms in 100 ms"),
    ("002-090", UNKNOWN, [hog(throttled=1)], "Only 10 % of the periods"),
    ("002-094", HOLDS, [hog(field="throttled_time_ns")], "throttled_time_ns"),
    ("002-094", FAILS, [hog()], "throttled_usec"),
    ("002-094", UNKNOWN, [hog(field=None)], "No group was made"),
    ("002-039", UNKNOWN, [threads(4, (40, 39, 41))], "had the CPUs: 4 threads on 2 CPUs used"),
    ("002-039", FAILS, [threads(1, (40, 39, 41)), threads(4, (20, 19, 21))], "in 20 ms"),
    ("002-039", UNKNOWN, [threads(4, (35, 20, 45))], "within 9 ms, a slice and a tick, of the quota"),
    ("002-039", UNKNOWN, [threads(4, (35, 34, 36))], "within 9 ms, a slice and a tick, of the quota"),
    ("002-039", UNKNOWN, [threads(4, (40, 39, 41), cpus=1)], "no two threads on two CPUs"),
    ("002-039", UNKNOWN, [threads(4, (NAN, NAN, NAN))], "not held back"),
    ("002-039", UNKNOWN, [threads(4, (5, 4, 6), throttled=0)], "not held back"),
    ("002-039", UNKNOWN, [threads(4, (5, 4, 6), throttled=2)], "only 20 % of the periods"),
    ("002-092", UNKNOWN, [threads(4, (40, 39, 41), (59, 58, 60))], "had the CPUs: 4 threads stood"),
    ("002-092", FAILS, [threads(4, (20, 19, 21))], "stood still for 80 ms"),
    ("002-092", UNKNOWN, [threads(4, (30, 19, 41), (70, 59, 81))], "does not lie 9 ms, a slice and a tick,"),
    ("002-092", UNKNOWN, [threads(4, (39, 38, 40), (61, 61, 62))], "does not lie 9 ms, a slice and a tick,"),
    ("002-095", HOLDS, [threads(16, (2.5, 2.4, 2.6))], "quota / threads is 2.5 ms"),
    ("002-095", FAILS, [threads(2, (20, 19, 21)), threads(16, (20, 19, 21))], "quota / CPUs 20 ms"),
    ("002-095", UNKNOWN, [threads(16, (11, 2, 20))], "spans both"),
    ("002-095", UNKNOWN, [threads(16, (8, 7.5, 8.5), cpus=8)], "9 ms, a slice and a tick, beyond quota"),
    ("002-095", UNKNOWN, [threads(2, (20, 19, 21))], "no more threads than CPUs"),
    ("002-095", UNKNOWN, [threads(16, (NAN, NAN, NAN))], "not held back"),
    ("000-102", UNKNOWN, [service(throttled=100), service(demand=30, throttled=95)], "all of its quota"),
    ("000-102", FAILS, [service(throttled=90), service(demand=30, throttled=2)], "2 % at 30 % demand"),
    ("000-102", UNKNOWN, [service(throttled=70)], "Neither nearly all nor few"),
    ("000-102", UNKNOWN, [service(periods=3)], "Only 3 periods"),
    ("000-102", UNKNOWN, [service(throttled=0), free(waiting=30)], "may have been busy"),
    ("000-102", UNKNOWN, [free()], "did not measure a quota"),
    ("002-093", HOLDS, [service(), USUAL], "20 % of the requests, densest near 60 ms"),
    ("002-093", UNKNOWN, [service(beyond=0.5, mode=NAN), USUAL], "99 % do without a limit: too few."),
    ("002-093", UNKNOWN, [service(beyond=2, mode=NAN), USUAL], "too few"),
    ("002-093", UNKNOWN, [service(mode=6), USUAL], "end of the first hill"),
    ("002-093", UNKNOWN, [service(mode=7.5), USUAL], "5 ms (interval 4 ms to 6 ms)"),
    ("002-093", UNKNOWN, [service(throttled=1), USUAL], "Only 1 % of the periods"),
    ("002-096", FAILS, [service(), service("quota + burst", (30, 25, 35), throttled=2)], "30 ms (interval"),
    ("002-096", UNKNOWN, [service(), service("quota + burst", (61, 58, 65), throttled=41)], "quota to save"),
    (
        "002-096",
        FAILS,
        [service(p99=(60, 58, 61)), service("quota + burst", (53, 52, 54), throttled=41)],
        "53 ms (interval 52",
    ),
    ("002-096", UNKNOWN, [service(), service("quota + burst", (52, 45, 60), throttled=2)], "Not faster for"),
    ("002-096", UNKNOWN, [service(), service("quota + burst", (90, 80, 99), throttled=2)], "Not faster for"),
    ("002-096", UNKNOWN, [service()], "did not measure quota + burst"),
    ("002-096", UNKNOWN, [service(throttled=0), service("quota + burst")], "Only 0 %"),
    ("000-103", UNKNOWN, [service("quota", (40, 39, 41)), free((20, 19, 21))], "for sure: p99 40 ms with"),
    ("000-103", FAILS, [service("quota", (100, 90, 110)), free()], "80.0% better"),
    ("000-103", UNKNOWN, [service("quota", (21, 20, 22)), free()], "4.8% better"),
    ("000-103", UNKNOWN, [service("quota", (40, 20, 60)), free()], "Not more than 60 % for sure"),
    ("000-103", UNKNOWN, [service("quota", (40, 21, 50)), free((7, 6.7, 8.45))], "59.8% to 86.6%"),
    ("000-103", UNKNOWN, [service("quota", (40, -INF, INF)), free()], "One trial"),
    ("000-103", UNKNOWN, [service("quota", (21, 20, 22), throttled=2), free()], "Only 2 % of the periods"),
    (
        "002-097",
        HOLDS,
        BEST,
        "20 ms (interval 18 ms to 22 ms) with a weight",
    ),
    (
        "002-097",
        UNKNOWN,
        beside_busy((70, 68, 72), (90, 80, 99)),
        "90 ms (interval 80 ms to 99 ms) with a weight",
    ),
    ("002-097", UNKNOWN, beside_busy((20, 18, 22), (30, 28, 32)), "22 ms) with neither"),
    ("002-097", UNKNOWN, [service(neighbour="busy", throttled=0), *BEST[1:]], "Only 0 % of the periods"),
    ("002-097", UNKNOWN, [*BEST, service("quota + burst", (9, 8, 10), neighbour="busy")], "10 ms) with a"),
    ("002-097", UNKNOWN, [*BEST, service("quota + burst", (22, 20, 25), neighbour="busy")], "A burst may do"),
    ("002-097", UNKNOWN, beside_busy((30, 28, 32), (29, 27, 33)), "(no limit, then a weight)"),
    ("002-097", UNKNOWN, [service(neighbour="busy")], "did not measure weight"),
    ("002-123", FAILS, [service(), free()], "with 40 % of a CPU in use"),
    ("002-123", UNKNOWN, [service("quota", (20, 18, 22)), free()], "Not slower for sure: with 40 %"),
    ("002-123", UNKNOWN, [service("quota", (25, 19, 30)), free()], "Not slower for sure: with 40 %"),
    ("002-115", UNKNOWN, [service(), free()], "was not watched: run-queue wait a request: 2 ms"),
    ("002-115", HOLDS, [service(rivals=3), free(rivals=2)], "other threads differ by 1 ms"),
    ("002-115", HOLDS, [service(rivals=2), free(rivals=3)], "other threads differ by 1 ms"),
    ("002-115", UNKNOWN, [service(rivals=7), free(rivals=2)], "Other threads may have had the CPU"),
    ("002-115", UNKNOWN, [service(delay=(0.7, 0.5, 0.9)), free()], "Not longer for sure: run-queue wait"),
    ("002-115", UNKNOWN, [service(delay=(3, 2, 4)), free()], "Not longer for sure: run-queue wait"),
    ("002-115", UNKNOWN, [service(delay=(NAN, NAN, NAN)), free()], "keeps no run delay"),
    ("002-115", UNKNOWN, [service(throttled=0), free()], "Only 0 %"),
]
