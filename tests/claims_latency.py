"""Claims about scheduler latency: each judged on CONSTRUCTED summaries for every outcome it can have."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN


def regime(
    mode: str, place: str, name: str, half: tuple[float, float, float] = (nan, nan, nan), **more: Any
) -> dict[str, Any]:
    """One row of a sweep of regimes: half is (median, low, high) in ns."""
    return {
        "mode": mode,
        "placement": place,
        "regime": name,
        "workers": 8,
        "instrument": "bpf",
        "waits": 1000,
        "rounds": 1000,
        "p50_ns": half[0],
        "p50_lo_ns": half[1],
        "p50_hi_ns": half[2],
        "p99_ns": nan,
        "switched_share": nan,
        "used_percent": 99.0,
        "timeslices": 1000.0,
        "schedstat_mean_ns": nan,
        "mean_ns": nan,
        "wakeups_per_slice": nan,
    } | more


def crowd(**more: Any) -> list[dict[str, Any]]:
    return [regime("yield", "pinned", "oversubscribed", switched_share=1.0, **more)]


def matched(share: float, used: float = 99.0) -> dict[str, Any]:
    return regime("yield", "spread", "matched", switched_share=share, used_percent=used)


def beside(rows: list[dict[str, Any]], **column: float) -> list[dict[str, Any]]:
    """The same run on a machine where other programs ran."""
    return [row | column for row in rows]


def means(place: str, name: str, schedstat: float, mean: float, **more: Any) -> list[dict[str, Any]]:
    return [regime("sleep", place, name, schedstat_mean_ns=schedstat, mean_ns=mean, **more)]


def light(*half: float) -> list[dict[str, Any]]:
    return [regime("sleep", "spread", "light", (half[0], half[1], half[2]))]


def four(*half: float) -> list[dict[str, Any]]:
    return [regime("yield", "spread", "oversubscribed", (half[0], half[1], half[2]))]


def hogs(
    number: int, stint: float, gap: float, half: float = 0.01, *, wish: float = nan, own: float = 1.4e6
) -> dict[str, Any]:
    """One row of a sweep of slices: medians in ns with intervals of +- half of themselves."""
    return {
        "hogs": number,
        "wished_slice_ns": wish,
        "moved_slice_ns": nan,
        "stint_p50_ns": stint,
        "stint_lo_ns": stint * (1 - half),
        "stint_hi_ns": stint * (1 + half),
        "gap_p50_ns": gap,
        "gap_lo_ns": gap * (1 - half),
        "gap_hi_ns": gap * (1 + half),
        "gap_p90_ns": gap * 1.1,
        "gap_max_ns": gap * 1.3,
        "gaps_per_stint": gap / stint,
        "slice_ns": own,
        "used_percent": 99.0,
        "tick_ns": 4e6,
    }


def wishing(wish: float, stint: float, half: float = 0.01) -> list[dict[str, Any]]:
    plain = [hogs(2, 4e6, 4e6, half), hogs(4, 4e6, 12e6, half)]
    return [*plain, hogs(4, stint, 3 * stint, half, wish=wish)]


def moving(gap: float, half: float = 0.01) -> list[dict[str, Any]]:
    """Four hogs with the kernel's slice as it is, and set to 25 ms."""
    plain = [hogs(2, 4e6, 4e6, half), hogs(4, 4e6, 12e6, half)]
    return [*plain, hogs(4, gap / 3, gap, half) | {"moved_slice_ns": 25e6}]


def late(
    policy: str, load: str, half: float, tail: float, spread: float = 0.01, cpu: float = 20.0
) -> dict[str, Any]:
    """One row of a sweep of policies: quantiles in ns with intervals of +- spread of themselves."""
    return {
        "policy": policy,
        "load": load,
        "wakes_per_trial": 100,
        "p50_ns": half,
        "p50_lo_ns": half * (1 - spread),
        "p50_hi_ns": half * (1 + spread),
        "p99_ns": tail,
        "p99_lo_ns": tail * (1 - spread),
        "p99_hi_ns": tail * (1 + spread),
        "max_ns": tail * 1.2,
        "wakes": 300,
        "worker_cpu_percent": cpu,
        "used_percent": 99.0,
        "at_home_percent": 100.0,
    }


def both(other: float, fifo: float, spread: float = 0.01) -> list[dict[str, Any]]:
    return [late("OTHER", "heavy", 2e6, other, spread), late("FIFO", "heavy", 2e4, fifo, spread)]


def slack(plain: float, slacked: float, spread: float = 0.01) -> list[dict[str, Any]]:
    return [
        late("OTHER", "light", plain, 4e6, spread),
        late("OTHER, slack 50 µs", "light", slacked, 4e6, spread),
    ]


def fair(plain: float, best: float, spread: float = 0.01) -> list[dict[str, Any]]:
    return [late("OTHER", "heavy", 2e6, plain, spread), late("nice -10", "heavy", 2e4, best, spread)]


def got(other: float, fifo: float) -> list[dict[str, Any]]:
    return [late("OTHER", "heavy", 2e6, 9e6, cpu=other), late("FIFO", "heavy", 2e4, 3e4, cpu=fifo)]


def pair(
    name: str, percent: float, half: float = 0.2, watchdog: float = 1e5, block: float = 1.1e9
) -> list[dict[str, Any]]:
    return [
        {
            "pair": name,
            "second_percent": percent,
            "second_lo_percent": percent - half,
            "second_hi_percent": percent + half,
            "longest_gap_ns": 950e6,
            "block_ns": block,
            "watchdog_late_ns": watchdog,
            "used_percent": 99.0,
        }
    ]


def weighed(
    task_groups: int = 2, pair_percent: float = 99, group: str = "the whole machine", **shares: float
) -> list[dict[str, Any]]:
    """Rows of `weights.pairs`: arrangement=share of the second hog in %, with intervals of +- one point."""
    due = {"sessions_autogroup": 9.7, "groups_weight": 20.0}
    names = {
        "alike": "alike", "one": "one session", "sessions": "two sessions", "groups": "two groups",
        "sessions_autogroup": "two sessions, autogroup", "sessions_spread": "two sessions, spread",
        "groups_weight": "two groups, weight",
    }  # fmt: skip
    return [
        {
            "arrangement": names[name],
            "task_groups": task_groups,
            "task_group": group,
            "second_percent": share,
            "second_lo_percent": share - 1,
            "second_hi_percent": share + 1,
            "by_groups_percent": due.get(name, 50.0),
            "pair_percent": pair_percent,
        }
        for name, share in shares.items()
    ]


def edge(
    granted: float, refused: str | None = "EBUSY", limit: float = 95, fair_server: bool = True
) -> list[dict[str, Any]]:
    row = {"granted_percent": granted, "step_percent": 2.5, "refused_by": refused, "limit_percent": limit}
    return [row | {"fair_server": fair_server}]


def woken(
    condition: str,
    half: float,
    tail: float,
    stacked: float = 0,
    spread: float = 0.01,
    slow: tuple[float, float, float] = (7.0, 6.0, 8.0),
    idle: float = 85.0,
) -> list[dict[str, Any]]:
    """slow is (median, low, high) of the per cent of the wake-ups that took more than 300 µs."""
    return [
        {
            "condition": condition,
            "p50_ns": half,
            "p50_lo_ns": half * (1 - spread),
            "p50_hi_ns": half * (1 + spread),
            "p99_ns": tail,
            "p99_lo_ns": tail * (1 - spread),
            "p99_hi_ns": tail * (1 + spread),
            "max_ns": tail * 1.2,
            "wakes": 300,
            "on_waker_percent": stacked,
            "on_waker_lo_percent": stacked * (1 - spread),
            "on_waker_hi_percent": stacked * (1 + spread),
            "slow_percent": slow[0],
            "slow_lo_percent": slow[1],
            "slow_hi_percent": slow[2],
            "others_idle_percent": idle,
        }
    ]


def beside_idle(
    free: float, bound: float, slow: tuple[float, float, float] = (0.1, 0.0, 0.3)
) -> list[dict[str, Any]]:
    """The tails with idle CPUs to choose from, and bound to one of them, where so many in 100 were slow."""
    return [*woken("idle CPUs", 2e4, free), *woken("bound to an idle CPU", 2e4, bound, slow=slow)]


def cheaper(tail: float, low_cost: float, spread: float = 0.01) -> list[dict[str, Any]]:
    return [
        *woken("previous CPU busy", 20e3, tail, 0, spread),
        *woken("low migration cost", 20e3, low_cost, 0, spread),
    ]


def bound(busy: tuple[float, float, float], idle: tuple[float, float, float]) -> list[dict[str, Any]]:
    """How many were slow, in per cent, bound to a busy CPU and bound to an idle one."""
    tail = 4e6 if busy[0] else 2e4
    return [
        *woken("bound to the waker", 3e3, tail, slow=busy),
        *woken("bound to an idle CPU", 2e4, 9e4, slow=idle),
    ]


def placed(
    crowded: tuple[float, float, float], free: tuple[float, float, float], idle: float = 0.2
) -> list[dict[str, Any]]:
    """How many were slow, in per cent, with every CPU busy and with idle ones."""
    return [
        *woken("idle CPUs", 2e4, 9e4, slow=free),
        *woken("every CPU busy", 2e4, 4e6, slow=crowded, idle=idle),
    ]


def tick(period: float, spread: float = 0.001, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "period_ns": period,
            "period_lo_ns": period * (1 - spread),
            "period_hi_ns": period * (1 + spread),
            "lost_percent": 1.0,
            "strength": 0.4 if period != period else 0.99,
            "tick_ns": 4e6,
            "in_phase_p50_ns": 18e3,
            "interrupts_per_period": 1.02,
            "timer_interrupts": 500.0,
            "device_interrupts": 5.0,
            "arch": "x86_64",
            "hypervisor": "KVM",
        }
        | more
    ]


def clients(closed: float, open_: float, spread: float = 0.01, **more: float) -> list[dict[str, Any]]:
    return [
        {
            "client": name,
            "p99_ns": tail,
            "p99_lo_ns": tail * (1 - spread),
            "p99_hi_ns": tail * (1 + spread),
            "waited_ns": more.get(f"{name}_waited", 0.0),
            "run_delay_ns": more.get("delay", 2e6),
        }
        for name, tail in (("closed", closed), ("open", open_))
    ]


CASES: list[Case] = [
    ("nice-terminal", HOLDS, weighed(1, one=10, sessions=10), "in a session of its own it had 10.00 %"),
    ("nice-terminal", FAILS, weighed(one=10, sessions=50), "in a session of its own it had 50.00 %"),
    ("nice-terminal", UNKNOWN, weighed(one=10, sessions=25), "25.00 %"),
    ("nice-terminal", UNKNOWN, weighed(one=30, sessions=50), "Even in one session"),
    ("nice-terminal", UNKNOWN, weighed(one=10, sessions=50, pair_percent=30), "Other programs had 70 %"),
    (
        "nice-terminal",
        UNKNOWN,
        weighed(1, group="its control group", one=10, sessions=10),
        "whether every terminal stands in the same one was not tried",
    ),
    ("nice-container", HOLDS, weighed(one=10, groups=10), "in a control group of its own it had 10.00 %"),
    ("nice-container", FAILS, weighed(one=10, groups=50), "in a control group of its own it had 50.00 %"),
    ("nice-container", UNKNOWN, weighed(one=10), "did not measure"),
    ("autogroup-nice", HOLDS, weighed(sessions=50, sessions_autogroup=10), "for its session the second hog"),
    ("autogroup-nice", FAILS, weighed(sessions=50, sessions_autogroup=50), "for its session the second hog"),
    ("autogroup-nice", UNKNOWN, weighed(1, sessions=10, sessions_autogroup=50), "no task groups"),
    ("autogroup-nice", UNKNOWN, weighed(sessions=50, sessions_autogroup=25), "25.00 %"),
    ("cgroup-weights", HOLDS, weighed(groups=50, groups_weight=20), "had 20.00 % (interval 19.00 to 21.00)"),
    ("cgroup-weights", FAILS, weighed(groups=50, groups_weight=50), "had 50.00 %"),
    ("cgroup-weights", UNKNOWN, weighed(groups=50, groups_weight=23), "spans a limit"),
    ("cgroup-weights", UNKNOWN, weighed(groups=40, groups_weight=20), "shared unevenly"),
    ("weight-per-cpu", UNKNOWN, weighed(alike=43, sessions_spread=33), "shared unevenly"),
    ("weight-per-cpu", HOLDS, weighed(alike=50, sessions_spread=50), "on another CPU had 50.00 %"),
    ("weight-per-cpu", FAILS, weighed(alike=50, sessions_spread=33), "on another CPU had 33.00 %"),
    ("weight-per-cpu", UNKNOWN, weighed(alike=50, sessions_spread=42), "42.00 %"),
    ("weight-per-cpu", UNKNOWN, weighed(1, alike=50, sessions_spread=50), "no task groups"),
    ("002-021", HOLDS, crowd(wakeups_per_slice=0.99), "99.0% of the turns"),
    ("002-021", FAILS, crowd(wakeups_per_slice=0.004), "0.4% of the turns"),
    ("002-021", UNKNOWN, crowd(wakeups_per_slice=0.4), "next to none: 40.0%"),
    ("002-021", UNKNOWN, crowd(), "no probe"),
    ("002-028", HOLDS, [matched(0.9)], "90.0% of the sched_yield calls"),
    ("002-028", FAILS, [matched(0.001)], "0.1% of the sched_yield calls"),
    ("002-028", UNKNOWN, [matched(0.6, used=40.0)], "or it was idle while workers shared a CPU"),
    ("002-034", UNKNOWN, [matched(0.6, used=40.0), regime("sleep", "spread", "matched")], "used 40 %"),
    ("002-082", UNKNOWN, beside([late("OTHER", "light", 4e6, 9e6)], used_percent=30.0), "had 70 %"),
    ("002-040", UNKNOWN, beside(pair("OTHER beside nice +5", 25), used_percent=80.0), "had 20 %"),
    ("L11", UNKNOWN, beside([hogs(2, 4e6, 4e6), hogs(8, 2e6, 9e6)], used_percent=50.0), "had 50 %"),
    ("002-007", UNKNOWN, woken("previous CPU busy", 6e3, 6e6, 99, idle=5.0), "for 5 %"),
    ("002-028", UNKNOWN, [matched(0.3)], "a tenth or more: 30.0% of the sched_yield calls"),
    ("002-028", UNKNOWN, crowd(), "did not measure yielding workers, one for each CPU"),
    ("002-029", HOLDS, four(20_000, 18_000, 25_000), "took at most 20 µs"),
    ("002-029", FAILS, four(157_000, 107_000, 160_000), "took at most 157 µs"),
    ("002-029", FAILS, four(9_000, 8_000, 10_000), "took at most 9 µs"),
    ("002-029", UNKNOWN, four(30_000, 18_000, 45_000), "spans"),
    ("002-029", UNKNOWN, four(nan, nan, nan), "too few"),
    ("002-029", UNKNOWN, beside(four(157_000, 107_000, 160_000), used_percent=49.0), "used 49 %"),
    ("002-034", HOLDS, [matched(0.9), regime("sleep", "spread", "matched")], "90.0% of the rounds"),
    ("002-034", FAILS, [matched(0.0), regime("sleep", "spread", "matched")], "0% of the rounds"),
    ("002-034", UNKNOWN, [matched(0.0), regime("sleep", "spread", "matched", waits=100)], "now and then"),
    ("002-034", UNKNOWN, [matched(0.3), regime("sleep", "spread", "matched")], "30.0% of the rounds"),
    ("002-027", HOLDS, woken("bound to an idle CPU", 5e3, 9e3), "ran within 5 µs"),
    ("002-027", FAILS, woken("bound to an idle CPU", 21e3, 90e3), "ran within 21 µs"),
    ("002-027", UNKNOWN, woken("bound to an idle CPU", 7e3, 90e3, 0, 0.1), "spans"),
    ("002-038", HOLDS, crowd(p99_ns=2e7), "within 20 ms"),
    ("002-038", UNKNOWN, crowd(p99_ns=2e7, used_percent=50.0), "used 50 %"),
    ("002-038", FAILS, crowd(p99_ns=1e6), "within 1 ms"),
    ("002-038", UNKNOWN, crowd(p99_ns=7e6), "below ten: 99 % of the waits"),
    ("002-038", UNKNOWN, crowd(), "too few"),
    ("002-037", FAILS, means("pinned", "oversubscribed", 517e3, 515e3), "517 µs by schedstat, 515 µs by BPF"),
    ("002-037", HOLDS, means("pinned", "oversubscribed", 10e3, 515e3), "10 µs by schedstat"),
    ("002-037", UNKNOWN, means("pinned", "oversubscribed", 300e3, 515e3), "factor of two"),
    (
        "002-037",
        UNKNOWN,
        means("pinned", "oversubscribed", 10e3, 515e3, instrument="self_timed"),
        "No tracer looked",
    ),
    ("002-037", UNKNOWN, means("pinned", "oversubscribed", nan, 515e3), "no run delay"),
    ("L47-light", HOLDS, means("spread", "light", 20e3, 21e3), "saw 20 µs"),
    ("L47-light", FAILS, means("spread", "light", 400, 21800), "saw 400 ns (2%)"),
    ("L47-light", UNKNOWN, means("spread", "light", 14e3, 21e3), "factor of two"),
    ("L47-light", UNKNOWN, means("spread", "light", 74e3, 87e3, p50_ns=7e3), "not all short"),
    ("L47-light", UNKNOWN, means("spread", "light", 20e3, 21e3, instrument="self_timed"), "needs the probe"),
    ("L11", HOLDS, [hogs(2, 12e6, 12e6), hogs(8, 3e6, 21e6)], "12 ms among 2 hogs, 3 ms among 8"),
    ("L11", FAILS, [hogs(2, 4e6, 4e6), hogs(16, 4e6, 60e6)], "4 ms among 16. Below 0.8 times is taken"),
    ("L11", UNKNOWN, [hogs(2, 4e6, 4e6, 0.5), hogs(16, 3e6, 60e6, 0.5)], "spans 0.8 times"),
    ("L11", UNKNOWN, [hogs(2, 4e6, 4e6)], "two numbers of hogs"),
    ("002-006", HOLDS, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 28e6)], "1.10 × (N - 1) stints, all within 1.30"),
    ("002-006", FAILS, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 80e6)], "3.14 × (N - 1)"),
    ("002-006", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 36e6)], "Single waits were longer"),
    ("002-016", HOLDS, [hogs(2, 4e6, 4e6), hogs(3, 4e6, 3.8e6)], "The longest took 1.2"),
    ("002-016", FAILS, [hogs(2, 4e6, 4e6), hogs(16, 4e6, 60e6)], "the median wait is 15.0 stints long"),
    ("002-016", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(3, 4e6, 4e6)], "At most is said of all waits"),
    ("002-030", HOLDS, [hogs(2, 1.5e6, 1.5e6), hogs(4, 1.5e6, 4.5e6)], "the median wait is 4.5 ms"),
    ("002-030", FAILS, [hogs(2, 4e6, 4e6), hogs(4, 4e6, 12e6)], "the median wait is 12 ms"),
    ("002-030", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(4, 2e6, 6e6, 0.3)], "4.2 ms to 7.8 ms, spans"),
    ("002-057", HOLDS, [hogs(2, 4e6, 4e6), hogs(6, 160e6, 800e6)], "800 ms or less"),
    ("002-057", FAILS, [hogs(2, 4e6, 4e6), hogs(6, 4e6, 20e6)], "20 ms or less"),
    ("002-057", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(6, 80e6, 400e6, 0.3)], "half as long, or longer"),
    ("002-057", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(8, 4e6, 28e6)], "did not measure 6 hogs"),
    ("base-slice", HOLDS, [hogs(2, 1.4e6, 1.4e6), hogs(4, 1.4e6, 4e6)], "a turn among 2 hogs takes 1.4 ms"),
    ("base-slice", FAILS, [hogs(2, 4e6, 4e6), hogs(4, 4e6, 12e6)], "a turn among 2 hogs takes 4 ms"),
    ("base-slice", FAILS, [hogs(2, 3.33e6, 3.33e6, own=2.8e6), hogs(4, 3.33e6, 1e7)], "takes 3.33 ms"),
    ("base-slice", UNKNOWN, [hogs(2, 1.7e6, 2e6, 0.3), hogs(4, 2e6, 6e6)], "1.19 ms to 2.21 ms, spans"),
    ("base-slice", UNKNOWN, [hogs(2, 4e6, 4e6, own=nan), hogs(4, 4e6, 12e6)], "does not tell its slice"),
    ("002-052", FAILS, moving(75e6), "set to 25 ms, 4 hogs waited 75 ms for a turn, 12 ms before"),
    ("002-052", HOLDS, moving(13e6), "waited 13 ms"),
    ("002-052", UNKNOWN, moving(16.8e6, 0.1), "times, spans a limit"),
    ("002-052", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(4, 4e6, 12e6)], "could not be moved"),
    ("002-052", UNKNOWN, moving(75e6, float("inf")), "One trial"),
    ("002-126", HOLDS, wishing(20e6, 20e6), "asked for 20 ms ran 20 ms at a time, 4 ms without asking"),
    ("002-126", FAILS, wishing(20e6, 4e6), "ran 4 ms at a time"),
    ("002-126", UNKNOWN, wishing(20e6, 4.2e6, 0.1), "overlap"),
    ("002-126", UNKNOWN, wishing(1e6, 4e6), "No slice that was asked for is longer than a turn"),
    ("002-126", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(4, 4e6, 12e6)], "grants no slices"),
    (
        "002-126",
        UNKNOWN,
        [*wishing(20e6, 4e6)[:2], wishing(20e6, 4e6)[2] | {"used_percent": 60.0}],
        "Other programs had 40 %",
    ),
    ("002-043", HOLDS, [late("FIFO", "light", 17e3, 32e3)], "99 % within 32 µs"),
    ("002-043", FAILS, [late("FIFO", "light", 2e6, 8e6), late("OTHER", "light", 17e3, 2e6)], "within 2 ms"),
    # A timer that is as late under OTHER is no wait for normal threads.
    ("002-043", UNKNOWN, [late("FIFO", "light", 2e6, 8e6), late("OTHER", "light", 2e6, 8e6)], "The timer"),
    ("002-043", UNKNOWN, [late("FIFO", "light", 17e3, 2e6)], "or other real-time threads may be why"),
    ("002-043", UNKNOWN, [late("OTHER", "light", 17e3, 2e6)], "did not measure a light worker under FIFO"),
    ("002-114", HOLDS, [late("FIFO", "light", 3e3, 8e3)], "% of a light worker's wake-ups ran within 8 µs"),
    ("002-114", FAILS, [late("FIFO", "light", 17e3, 32e3)], "within 32 µs"),
    ("002-114", UNKNOWN, [late("FIFO", "light", 5e3, 9e3)], "interrupts or a hypervisor"),
    ("002-044", FAILS, slack(18e3, 69e3), "within 18 µs with a slack of 1 ns (interval"),
    ("002-044", HOLDS, slack(18e3, 20e3), "20 µs with the default"),
    ("002-044", UNKNOWN, slack(18e3, 60e3, 0.5), "spans 20 µs"),
    ("002-050", FAILS, both(13e6, 3e5), "43 times"),
    ("002-050", HOLDS, both(6e5, 3e5), "2 times"),
    ("002-050", UNKNOWN, both(9e5, 3e5, 0.3), "spans"),
    ("002-050", FAILS, [*both(6e5, 3e5), late("DEADLINE", "heavy", 2e4, 3e4)], "under DEADLINE: 20 times"),
    ("002-050", UNKNOWN, [late("OTHER", "heavy", 2e6, 9e6)], "no heavy worker under a real-time policy"),
    ("002-050", UNKNOWN, beside(both(13e6, 3e5), wakes_per_trial=20), "20 wake-ups in a trial"),
    ("002-053", UNKNOWN, beside(fair(13e6, 4e6), wakes_per_trial=99), "no one in a hundred"),
    ("002-053", FAILS, fair(13e6, 4e6), "4 ms with nice -10"),
    ("002-053", UNKNOWN, fair(4e6, 4e6), "a run can only refute it"),
    ("002-053", UNKNOWN, fair(6e6, 4e6, 0.4), "a run can only refute it"),
    ("002-053", UNKNOWN, both(4e6, 3e5), "neither"),
    ("002-059", UNKNOWN, [late("OTHER", "heavy", 2e6, 9e6, cpu=18.7)], "share nothing has to be taken: "),
    ("002-059", HOLDS, [late("OTHER", "heavy", 2e6, 9e6, cpu=8)], "got 8.0 %"),
    ("002-059", UNKNOWN, [late("OTHER", "heavy", 2e6, 9e6, cpu=15)], "got 15.0 %"),
    ("002-059", UNKNOWN, got(15, 16), "under FIFO, where it waits for no normal thread, it used 16.0 %"),
    ("002-059", HOLDS, got(15, 24), "got 15.0 % of what it and they had; under FIFO"),
    ("002-082", FAILS, [late("OTHER", "light", 18e3, 4e6)], "within 18 µs beside hogs"),
    ("002-082", HOLDS, [late("OTHER", "light", 4e6, 9e6)], "within 4 ms"),
    ("002-082", UNKNOWN, [late("OTHER", "light", 5e5, 9e6)], "Between"),
    ("002-082", UNKNOWN, [late("OTHER", "light", 4e6, 9e6), late("FIFO", "light", 3e6, 8e6)], "within 3 ms"),
    ("002-124", UNKNOWN, got(18.7, 19), "the hogs had, a heavy worker used 18.7 % under OTHER, 19.0 %"),
    ("002-124", FAILS, got(8, 19), "8.0 %"),
    ("002-124", UNKNOWN, got(14, 20), "14.0 %"),
    ("002-040", HOLDS, pair("OTHER beside nice +5", 25.2), "25.20 % (interval 25.00 to 25.40)"),
    ("002-040", FAILS, pair("OTHER beside nice +5", 40), "40.00 %"),
    ("002-040", UNKNOWN, pair("OTHER beside nice +5", 27.9), "spans"),
    ("002-042", HOLDS, pair("FIFO beside OTHER", 0.2), "0.20 %"),
    ("002-042", FAILS, pair("FIFO beside OTHER", 4.5), "which itself stands above FIFO, a run does not tell"),
    ("002-042", UNKNOWN, pair("FIFO beside OTHER", 0, 0, block=5e8), "a block took 500 ms"),
    ("002-042", UNKNOWN, pair("FIFO beside OTHER", 0.5), "spans"),
    ("002-042", UNKNOWN, pair("OTHER beside IDLE", 0.5), "did not measure a hog FIFO beside OTHER"),
    ("002-045", FAILS, pair("FIFO beside OTHER", 4.5), "no other was not tried), and a watchdog"),
    ("002-045", UNKNOWN, pair("FIFO beside OTHER", 0.1), "so a run can only refute it: FIFO beside OTHER"),
    ("002-045", UNKNOWN, pair("FIFO beside OTHER", 4.5, watchdog=2e9), "2 s after"),
    ("L31", HOLDS, pair("FIFO beside OTHER", 4.5), "4.50 % (interval"),
    ("L31", FAILS, pair("FIFO beside OTHER", 0.5), "0.50 %"),
    ("L31", UNKNOWN, pair("FIFO beside OTHER", 7), "spans"),
    ("L31", UNKNOWN, pair("FIFO beside OTHER", 0, 0, block=5e8), "a block took 500 ms"),
    ("002-049", HOLDS, edge(90), "90.0 % of each CPU was granted, 2.5 % more refused with EBUSY"),
    ("002-049", FAILS, edge(140), "140.0 %"),
    ("002-049", FAILS, edge(102.5, None), "102.5 % of each CPU was granted"),
    ("002-049", UNKNOWN, edge(97.5, None), "had not refused"),
    ("L41", HOLDS, edge(95), "set to 95 %"),
    ("L41", FAILS, edge(90), "set to 95 %"),
    ("L41", UNKNOWN, edge(90, limit=nan), "does not tell its limit"),
    ("L41", HOLDS, edge(95, fair_server=False), "set to 95 %"),
    ("L41", UNKNOWN, edge(90, fair_server=False), "may be reserved"),
    ("002-018", FAILS, woken("idle CPUs", 20e3, 90e3), "99 % within 90 µs"),
    (
        "002-018",
        HOLDS,
        [*woken("idle CPUs", 4e6, 11e6), *woken("bound to an idle CPU", 2e4, 9e4)],
        "within 4 ms",
    ),
    (
        "002-018",
        UNKNOWN,
        [*woken("idle CPUs", 4e6, 11e6), *woken("bound to an idle CPU", 4e6, 11e6)],
        "Bound to an idle CPU half ran within 4 ms",
    ),
    ("002-018", UNKNOWN, woken("idle CPUs", 20e3, 4e6), "other programs run"),
    ("002-002", UNKNOWN, beside_idle(90e3, 90e3), "108 µs, but there the last CPU of a worker"),
    (
        "002-002",
        FAILS,
        [*beside_idle(90e3, 90e3), *woken("previous CPU busy", 20e3, 1e5)],
        "longest of 300 waits took 108 µs, with the last CPU busy 120 µs of 300",
    ),
    (
        "002-002",
        HOLDS,
        [*beside_idle(90e3, 90e3), *woken("previous CPU busy", 20e3, 11e6)],
        "with the last CPU busy 13.2 ms of 300; bound to an idle CPU",
    ),
    ("002-002", HOLDS, beside_idle(11e6, 90e3), "longest of 300 waits took 13.2 ms"),
    ("002-002", UNKNOWN, beside_idle(11e6, 9e6), "without a choice"),
    ("002-002", UNKNOWN, beside_idle(11e6, 90e3, (7, 6, 8)), "7.0 % (interval 6.0 to 8.0) bound"),
    ("002-002", UNKNOWN, woken("every CPU busy", 20e3, 5e6), "did not measure wake-ups with idle CPUs"),
    ("L30", FAILS, cheaper(90e3, 75e3), "A tail below 0.7 times the other"),
    ("L30", HOLDS, cheaper(14e6, 2.4e6), "2.4 ms"),
    (
        "L30",
        UNKNOWN,
        cheaper(90e3, 60e3, 0.5),
        "either",
    ),
    ("L30", UNKNOWN, woken("previous CPU busy", 20e3, 90e3), "low migration cost"),
    ("002-007", FAILS, woken("previous CPU busy", 20e3, 90e3, 0.5), "0.5 % of the wake-ups put their thread"),
    ("002-007", HOLDS, woken("previous CPU busy", 20e3, 90e3, 95), "95.0 %"),
    ("002-007", UNKNOWN, woken("previous CPU busy", 20e3, 90e3, 30), "filled the idle CPUs"),
    ("002-007", UNKNOWN, woken("idle CPUs", 20e3, 90e3, 0.5), "did not measure wake-ups with prev"),
    ("002-123-mask", FAILS, bound((0.9, 0.7, 1.1), (0.1, 0, 0.3)), "0.9 % (interval 0.7 to 1.1) of the wake"),
    ("002-123-mask", HOLDS, bound((0, 0, 0), (0, 0, 0)), "bound to an idle CPU 0.0 %"),
    ("002-123-mask", UNKNOWN, bound((0.9, 0.2, 1.1), (0.1, 0, 0.3)), "may be other programs'"),
    (
        "002-123-mask",
        UNKNOWN,
        [*woken("bound to the waker", 3e3, 2e5, slow=(0, 0, 0)), *woken("bound to an idle CPU", 2e4, 9e4)],
        "99 % ran within 200 µs (interval 198 µs to 202 µs)",
    ),
    ("002-123-mask", UNKNOWN, bound((0.9, -inf, inf), (0.1, -inf, inf)), "One trial says nothing"),
    ("002-056", FAILS, placed((0.8, 0.6, 1), (0, 0, 0.2)), "0.8 % (interval 0.6 to 1.0) of the wake-ups"),
    (
        "002-056",
        HOLDS,
        [*placed((0, 0, 0.2), (0.8, 0.6, 1)), *woken("bound to an idle CPU", 2e4, 9e4, slow=(0, 0, 0.2))],
        "to 1.0) where a CPU was idle to go to",
    ),
    (
        "002-056",
        UNKNOWN,
        [*placed((0, 0, 0.2), (0.8, 0.6, 1)), *woken("bound to an idle CPU", 2e4, 9e4, slow=(0.8, 0.6, 1))],
        "were slow, too",
    ),
    ("002-056", UNKNOWN, placed((0.8, 0.1, 1), (0, 0, 0.2)), "overlap"),
    ("002-056", UNKNOWN, placed((0.8, 0.6, 1), (0, 0, 0.2), idle=30), "the others idled 30 %"),
    ("002-056", UNKNOWN, woken("idle CPUs", 2e4, 9e4), "did not measure busy CPUs"),
    ("002-065", HOLDS, tick(1e6), "1000 times a second"),
    ("002-065", FAILS, tick(4e6), "250 times a second"),
    ("002-065", UNKNOWN, tick(1e6, 0.2), "every 1 ms (interval 800 µs to 1.2 ms)"),
    ("002-065", UNKNOWN, tick(1e6, interrupts_per_period=0.26), "0.26 timer interrupts of this kernel"),
    ("002-065", UNKNOWN, tick(1e6, interrupts_per_period=nan), "does not tell its interrupts"),
    ("002-065", UNKNOWN, tick(1e6, interrupts_per_period=4.0), "interrupts 4.0 times as often"),
    ("002-067", UNKNOWN, tick(1e6, interrupts_per_period=0.26, in_phase_p50_ns=9e3), "such as a hypervisor"),
    ("002-065", UNKNOWN, tick(nan), "no period: the best comb is 40% full."),
    ("002-065", UNKNOWN, tick(nan, strength=0.97), "97% full, as chance alone fills it"),
    ("002-065", UNKNOWN, tick(1e6, lost_percent=60.0), "had the CPU for 60 %"),
    ("L46", UNKNOWN, clients(1e5, 45e6, inf), "One trial says nothing"),
    ("002-016", UNKNOWN, [hogs(2, 4e6, 4e6), hogs(3, 4e6, 6e6, inf)], "One trial says nothing"),
    ("L26", HOLDS, tick(4.0007e6), "and 1/HZ is 4 ms"),
    ("L26", FAILS, tick(1e6), "the regular gaps come every 1 ms (interval"),
    ("L26", UNKNOWN, tick(4e6, tick_ns=nan), "does not tell its tick"),
    ("L26", UNKNOWN, tick(4e6, inf), "One trial shows a period and says nothing"),
    ("002-067", HOLDS, tick(1e6, in_phase_p50_ns=80e3), "take 80 µs"),
    ("002-067", FAILS, tick(1e6), "take 18 µs"),
    ("002-067", UNKNOWN, tick(1e6, in_phase_p50_ns=50e3), "take 50 µs"),
    ("002-069", FAILS, tick(4e6), "500 times, devices 5 times"),
    ("002-069", FAILS, tick(4e6, device_interrupts=5000.0), "devices 5,000 times"),
    ("002-069", HOLDS, tick(4e6, arch="aarch64"), "devices 5 times, and irq_handler_entry sees both"),
    ("002-069", UNKNOWN, tick(4e6, arch="s390x"), "not known to this book"),
    ("002-069", UNKNOWN, tick(4e6, hypervisor="Xen"), "the timer may be Xen's"),
    ("002-069", UNKNOWN, tick(4e6, timer_interrupts=3.0), "Too few"),
    ("002-069", UNKNOWN, tick(4e6, timer_interrupts=nan), "does not tell"),
    ("L46", FAILS, clients(1e5, 45e6), "to 101 µs), the one that keeps to its schedule 45 ms ("),
    ("L46", HOLDS, clients(1e5, 1.1e5), "110 µs"),
    ("L46", UNKNOWN, clients(1e5, 2e5, 0.3), "spans"),
    ("002-116", FAILS, clients(1e5, 45e6, closed_waited=50e6, open_waited=1300e6), "missed 1.25 s"),
    ("002-116", HOLDS, clients(1e5, 45e6, closed_waited=5e6, open_waited=7e6), "missed 2 ms"),
    ("002-116", UNKNOWN, clients(1e5, 45e6, closed_waited=5e6, open_waited=9e6), "missed 4 ms"),
    ("002-116", UNKNOWN, clients(1e5, 45e6, delay=nan), "no run delay"),
]  # fmt: skip
