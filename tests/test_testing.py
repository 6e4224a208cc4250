"""The contract can be broken: every clause names what is wrong with a run that was damaged on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from sched_labs import workloads
from sched_labs.claims import FAILS, HOLDS
from sched_labs.core.errors import ParameterError
from sched_labs.draw.base import Figure
from sched_labs.testing import CLAUSES, Case, ContractError, Subject, Watched, check_experiment, subject
from sched_labs.testing.quoted import made_up, unit_of
from sched_labs.testing.watch import watched

KIND = "crowd.switch"


@pytest.fixture(scope="module")
def sound() -> Subject:
    return subject(KIND)


def damaged(sound: Subject, **parts: Any) -> Subject:
    """The same subject with some of what its clauses look at put in its place."""
    one = Subject(sound.entry, copy(sound.result), sound.cases, Watched(sound.result, {"yielder"}))
    one.__dict__.update({"table": sound.table.copy(), "figures": dict(sound.figures)} | parts)
    return one


def with_words(figure: Figure, **words: Any) -> Figure:
    other = copy(figure)
    other.__dict__.update(words)
    return other


def with_table(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Subject], Subject]:
    return lambda one: damaged(one, table=change(one.table))


def with_figure(change: Callable[[Figure], Figure], name: str = "alone") -> Callable[[Subject], Subject]:
    return lambda one: damaged(one, figures=one.figures | {name: change(one.figures[name])})


def with_text(x: float, y: float, text: str) -> Callable[[Subject], Subject]:
    """A figure with a text of somebody's, at a place in it as parts of its width and height."""

    def change(one: Subject) -> Subject:
        figure = one.result.plot()
        figure.mpl.text(x, y, text, color=figure.mpl.axes[0].get_lines()[0].get_color())
        return damaged(one, figures=one.figures | {"alone": figure})

    return change


def with_entry(**fields: Any) -> Callable[[Subject], Subject]:
    def change(one: Subject) -> Subject:
        other = damaged(one)
        other.entry = replace(one.entry, **fields)
        return other

    return change


def with_watch(**fields: Any) -> Callable[[Subject], Subject]:
    def change(one: Subject) -> Subject:
        other = damaged(one)
        other.watch = Watched(one.result, **fields)
        return other

    return change


def with_cases(*cases: Case) -> Callable[[Subject], Subject]:
    def change(one: Subject) -> Subject:
        other = damaged(one)
        other.cases = cases
        return other

    return change


def with_data(column: str, value: Any) -> Callable[[Subject], Subject]:
    def change(one: Subject) -> Subject:
        other = damaged(one)
        other.result.data = one.result.data.assign(**{column: value})
        return other

    return change


def with_found(**found: Any) -> Callable[[Subject], Subject]:
    def change(one: Subject) -> Subject:
        other = damaged(one)
        other.result.__dict__.update(found)
        return other

    return change


def crowd(switch_ns: float) -> dict[str, Any]:
    return {"threads": 2, "switch_ns": switch_ns}


MOODS = {"moods": pd.DataFrame({"it": [0.5]})}
DAMAGE: list[tuple[str, Callable[[Subject], Subject], str]] = [
    ("declared", with_entry(kind="mob.switch"), "begins with its folder's name: crowd"),
    ("declared", with_entry(about="crowds"), "no sentence: 'crowds'"),
    ("declared", with_entry(needs=("luck",)), "needs 'luck'"),
    ("declared", with_entry(workloads=("dreamer",)), "no program 'dreamer'"),
    ("declared", with_entry(workloads=("chase",)), "not what the register reads"),
    ("documented", with_data("mood", 1), "data does not describe its column mood"),
    ("documented", with_data("elapsed", 0.5), "elapsed of the data has no unit"),
    ("documented", with_found(facts={"mood": 1}), "does not say what it found as mood"),
    ("documented", with_found(tables=MOODS), "found as moods"),
    ("documented", with_found(tables=MOODS), "table moods does not describe"),
    ("documented", with_table(lambda t: t.assign(mood=1)), "summary does not describe its column mood"),
    ("documented", with_table(lambda t: t.assign(wait=0.5)), "wait of the summary has no unit"),
    ("documented", with_table(lambda t: t.drop(columns="floor_ns")), "floor_ns, which is no column"),
    (
        "documented",
        with_figure(lambda f: with_words(f, data=f.data.assign(mood=1))),
        "figure does not describe its column mood",
    ),
    ("intervals", with_table(lambda t: t.assign(switch_lo_ns=1e9)), "switch_ns is not always between"),
    ("intervals", with_table(lambda t: t.drop(columns="switch_hi_ns")), "switch_lo_ns has no switch_hi_ns"),
    ("saved", with_table(lambda t: t.assign(switch_ns=t.switch_ns + 1)), "its summary is another"),
    ("drawn", with_text(0.2, 1.1, "up"), "'up' leaves the figure"),
    ("drawn", with_text(0.3, 0.5, "1e7"), "'1e7' is a number with an exponent"),
    ("drawn", with_text(0.01, 0.95, "a legend"), "'a legend' covers"),
    ("drawn", with_figure(lambda f: with_words(f, caption="A crowd")), "caption is no sentence"),
    ("drawn", with_figure(lambda f: with_words(f, alt="It takes nan µs.")), "text says 'nan'"),
    ("drawn", with_figure(lambda f: with_words(f, provenance="")), "where its numbers come from"),
    ("drawn", with_figure(lambda f: with_words(f, data=f.data.iloc[:0])), "without the frame"),
    (
        "drawn",
        with_figure(lambda f: with_words(f, alt="No.", caption="No."), "over a recorded run"),
        "do not tell of it",
    ),
    ("told", with_figure(lambda f: with_words(f, alt=re.sub(r"[0-9.]+ µs", "987 µs", f.alt))), "says 987 µs"),
    ("told", with_figure(lambda f: with_words(f, alt="It grows.")), "has no number"),
    ("judged", with_cases(), "000-015: no case ends in 'holds here'"),
    ("judged", with_cases(Case("000-999", HOLDS, [], "")), "000-999, which is no claim"),
    ("judged", with_cases(Case("crowd", FAILS, [crowd(1)], "x")), "is 'cannot tell here' with 'Two crowds"),
    (
        "judged",
        with_cases(Case("crowd", HOLDS, [{"threads": 2}, {"threads": 512}], "")),
        "The check of the claim crowd",
    ),
    ("started", with_watch(programs={"yielder", "burn"}), "starts burn, which it does not declare"),
    ("started", with_watch(programs=set()), "declares yielder, which it did not start"),
    ("left", with_watch(left=["Its process 7 still runs."]), "Its process 7"),
]


@pytest.mark.parametrize(("clause", "damage", "said"), DAMAGE, ids=[f"{c}: {s}" for c, _, s in DAMAGE])
def test_damage_is_named(
    clause: str, damage: Callable[[Subject], Subject], said: str, sound: Subject
) -> None:
    found = CLAUSES[clause](damage(sound))
    assert any(said in sentence for sentence in found), found


def test_every_clause_is_damaged_somewhere() -> None:
    assert {clause for clause, *_ in DAMAGE} == set(CLAUSES)


def test_a_small_text_is_found(sound: Subject) -> None:
    figure = sound.result.plot()
    figure.mpl.axes[0].xaxis.label.set_fontsize(9)
    found = CLAUSES["drawn"](damaged(sound, figures=sound.figures | {"alone": figure}))
    assert any("has 9 points;" in sentence for sentence in found)


@pytest.mark.parametrize(
    ("text", "missed"),
    [
        ("It took 1.23 µs, and 99 % took at most 4 ms.", []),
        ("It took 1.24 µs.", ["1.24 µs"]),
        ("It took 1.23 ms.", ["1.23 ms"]),
        ("−850 ns, 64 KiB, 12 %, 3 rows, avx512 and CPU 7.", []),
        ("850 ns.", ["850 ns"]),
        ("4.0012 ms in all.", []),
        ("About 12,300 switches, and 12,400 more.", ["12,400"]),
    ],
)
def test_numbers_are_compared_as_they_are_rounded(text: str, missed: list[str]) -> None:
    table = pd.DataFrame(
        {
            "name": ["avx512", "CPU 7", "x"],
            "wait_ns": [1234.4, -850.0, 4e6],
            "size_bytes": [65536, 0, 0],
            "slower_percent": [12.3, float("nan"), float("inf")],
            "switches": [12345, 1, 1],
        }
    )
    assert list(made_up(text, [table], {})) == missed


def test_the_unit_is_the_last_word_before_per() -> None:
    assert unit_of("wait_ns") == 1 and unit_of("ms_per_s") == 1e6 and unit_of("slow_lo_percent") == 0.01
    assert unit_of("switches_per_event") is None and unit_of("size_bytes") == 1


def test_a_broken_contract_is_told_as_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sched_labs.testing.contract.CLAUSES", {"drawn": lambda one: ["It is dull."]})
    with pytest.raises(ContractError, match=r"crowd\.switch breaks its contract:\n  drawn: It is dull\.\n"):
        check_experiment("crowd", live=False)
    with pytest.raises(ParameterError, match="no experiment 'mob'"):
        check_experiment("mob")


def test_what_a_run_leaves_behind_is_seen(own_lock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that forgets its program, and one that leaves nothing."""
    kept: list[workloads.Workload] = []

    def forgetful(**_: Any) -> Any:
        workload = workloads.start("yielder", ["--threads", "2", "--yields", "10"], deadline_s=60)
        kept.append(workload)
        return workload

    monkeypatch.setattr("sched_labs.testing.watch._PATIENCE_S", 0.2)
    seen = watched(forgetful)  # type: ignore[arg-type]
    kept[0].end()
    assert seen.programs == {"yielder"}
    assert seen.left and all("(yielder) still runs" in sentence for sentence in seen.left)
    assert watched(lambda **_: None).left == []  # type: ignore[arg-type,return-value]
