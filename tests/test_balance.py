"""Threads that were crowded onto one CPU are let go: what is made of their stays, and a run of them here."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from sched_labs import machine
from sched_labs.core.result import recorded
from sched_labs.machine import files
from sched_labs.topics.pinning.balance import experiment as balance
from sched_labs.topics.pinning.balance import figure

MS = 1_000_000


def stretches(*rows: tuple[int, int, float, float]) -> pd.DataFrame:
    """hog, cpu, from and to in ms."""
    whole = [(hog, cpu, round(begin * MS), round(end * MS)) for hog, cpu, begin, end in rows]
    return pd.DataFrame(whole, columns=["hog", "cpu", "from_ns", "to_ns"])


def test_stretches_on_one_cpu_are_one_stay() -> None:
    seen = balance.stays(stretches((0, 1, -9, -8), (1, 1, -8, -7), (0, 1, 3, 4), (0, 0, 5, 6), (0, 1, 8, 9)))
    assert seen.values.tolist() == [
        [hog, cpu, begin * MS, end * MS]
        for hog, cpu, begin, end in ((0, 1, -9, 4), (0, 0, 5, 6), (0, 1, 8, 9), (1, 1, -8, -7))
    ]


def test_a_crowd_is_spread_when_no_cpu_has_two_more_than_another() -> None:
    seen = balance.stays(
        stretches(*((hog, 1, -4, -1) for hog in range(4)), (2, 0, 10, 12), (0, 0, 30, 31), (0, 1, 50, 51))
    )
    assert balance.spreading(seen, [0, 1], 1, 100 * MS) == {
        "moves": 3, "first_ns": 10 * MS, "spread_ns": 30 * MS,
    }  # fmt: skip
    short = balance.spreading(seen, [0, 1], 1, 20 * MS)
    assert short["moves"] == 1 and short["first_ns"] == 10 * MS and pd.isna(short["spread_ns"])
    none = balance.spreading(seen, [0, 1], 1, 5 * MS)
    assert none["moves"] == 0 and pd.isna(none["first_ns"])


def test_hogs_that_may_not_leave_crowd_nobody() -> None:
    """Two of four may not leave: with the others on a CPU each, nothing is left to be moved."""
    seen = balance.stays(stretches(*((hog, 1, -4, -1) for hog in range(4)), (2, 0, 10, 12), (3, 2, 30, 31)))
    assert balance.spreading(seen, [0, 1, 2], 1, 100 * MS, kept=2)["spread_ns"] == 30 * MS
    assert balance.spreading(seen, [0, 1, 2, 3], 1, 100 * MS, kept=2)["spread_ns"] == 30 * MS
    assert pd.isna(balance.spreading(seen, [0, 1, 2, 3], 1, 100 * MS)["spread_ns"])


def test_a_hog_that_had_no_turn_before_it_was_let_go_moves_too() -> None:
    seen = balance.stays(stretches((0, 1, -4, -1), (1, 0, 6, 9)))
    assert balance.spreading(seen, [0, 1], 1, 10 * MS)["first_ns"] == 6 * MS


def test_a_hog_that_has_left_before_the_last_was_let_go_has_moved() -> None:
    """They are let go one after the other: what it did before is negative, and its place is the new one."""
    seen = balance.stays(stretches(*((hog, 1, -4, -1) for hog in range(3)), (0, 0, -0.01, 9), (1, 0, 20, 21)))
    assert balance.spreading(seen, [0, 1], 1, 100 * MS) == {"moves": 2, "first_ns": 1, "spread_ns": 1}


def test_windows_cut_stretches_at_their_ends() -> None:
    rows = balance.windows(stretches((0, 0, -50, 150), (1, 1, 90, 100)), 250 * MS)
    assert [(row["window"], row["hog"], row["cpu_ns"]) for row in rows] == [
        (0, 0, 100 * MS), (0, 1, 10 * MS), (1, 0, 50 * MS), (1, 1, 0),
    ]  # fmt: skip


def test_the_lead_is_nothing_of_equals_and_all_of_one_with_a_cpu_for_itself() -> None:
    assert balance.lead_percent(pd.Series([2, 2, 2]), 2) == pytest.approx(0)
    assert balance.lead_percent(pd.Series([2, 1, 1]), 2) == pytest.approx(100)
    assert balance.lead_percent(pd.Series([4, 4, 4, 2, 2]), 4) == pytest.approx(100)
    assert pd.isna(balance.lead_percent(pd.Series([2, 1]), 2))


def test_a_median_of_which_half_never_happened_is_the_time_that_was_watched() -> None:
    run = recorded("balance.spread")
    trials = run.tables["trials"]
    short = trials.index[trials.situation == "short"]
    never = trials.assign(spread_ns=trials.spread_ns.mask(trials.index.isin(short[: len(short) // 2])))
    run = replace(run, tables={**run.tables, "trials": never})
    table = balance.summarise(run).set_index("situation")
    assert table.loc["short", "crowded_percent"] == 50
    assert table.loc["short", "spread_ns"] == trials.loc[short, "watch_ns"].max()


def test_the_caption_says_how_long_a_crowd_was_held_that_was_held_for_long() -> None:
    run = recorded("balance.spread")
    other = replace(run, parameters=run.parameters | {"hold_ms": 1234})
    assert "Held for 1234 ms instead: " in figure.draw(other, None, ()).caption
    trials = run.tables["trials"]
    short = replace(run, tables={**run.tables, "trials": trials[trials.situation == "short"]})
    assert "instead" not in figure.draw(short, None, ()).caption


# A domain's line of each version: busy 3, idle 5, newly idle 7, and 2 running ones.
V15 = " ".join(["9 9 9 9 {} 9 9 9"] * 3).format(5, 3, 7)
V16 = " ".join(["9 9 9 9 {} 9 9 9"] * 3).format(3, 5, 7)
V17 = " ".join(["9 9 9 9 9 9 9 {} 9 9 9"] * 3).format(3, 5, 7)


@pytest.mark.parametrize(
    ("version", "line"),
    [(15, f"domain0 3 {V15}"), (16, f"domain0 00000003 {V16}"), (17, f"domain0 MC 3 {V17}")],
)
def test_who_moved_threads_is_read_from_every_version(
    version: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = f"{line} 9 9 2{9 * ' 9'}\n"
    text = f"version {version}\ntimestamp 1\ncpu0 0 0 0\n{domain}cpu1 0 0 0\n{domain}"
    told = {"/proc/schedstat": text, "/proc/sys/kernel/sched_schedstats": "1\n"}
    monkeypatch.setattr(files, "read", told.get)
    assert balance.counted() == {"busy": 6, "idle": 10, "newly idle": 14, "running": 4}
    assert not balance.uncounted()
    told["/proc/sys/kernel/sched_schedstats"] = "0\n"
    assert "schedstats=enable" in balance.uncounted()
    told["/proc/schedstat"] = text.replace("version 1", "version 9")
    told["/proc/sys/kernel/sched_schedstats"] = "1\n"
    assert balance.counted() == {} and "version" in balance.uncounted()
    told.clear()
    assert balance.counted() == {} and "CONFIG_SCHEDSTATS" in balance.uncounted()


@pytest.mark.skipif(
    len(machine.survey().cpus_allowed) < 2,
    reason="a crowd leaves its CPU for another, and this process has one",
)
def test_every_hog_is_held_on_one_cpu_and_then_let_go() -> None:
    run = balance.spread(
        profile="tiny",
        save=False,
        progress=False,
        situations=["short", "half"],
        hogs=4,
        watch_ms=60,
        trials=1,
    )
    home = run.parameters["home_cpu"]
    begins = run.data.loc[run.data.groupby("situation").from_ns.idxmin()]
    assert (begins.cpu == home).all() and (begins.from_ns < 0).all()
    half = run.data[run.data.situation == "half"]
    assert set(half[half.hog < 2].cpu) == {home}
    assert (run.data.to_ns >= run.data.from_ns).all() and set(run.data.cpu) <= set(run.parameters["cpus"])
    assert (run.tables["hogs"].cpu_ns >= 0).all() and len(run.tables["hogs"]) == 8
    drawn = figure.lanes(run)
    assert set(drawn.hog) <= {0, 1, 2, 3} and (drawn.to_ns > drawn.from_ns - 1).all()
