"""Prose and verdicts on machines that differ: no sentence contradicts the run that it speaks of."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import prose
import pytest

from sched_labs.book.chapters import Chapter, chapters, checkout

ROOT = Path(__file__).parents[1]
CHAPTERS = {part.short: part for part in chapters(checkout(ROOT))}


@pytest.mark.pages
@pytest.mark.parametrize("chapter", CHAPTERS.values(), ids=lambda part: part.name)
def test_every_sentence_is_true_on_every_machine(
    chapter: Chapter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    reached, said = set(), {}
    for name, answer in prose.MACHINES.items():
        done = prose.run(chapter, answer, prose.TOLD.get(name))
        assert {name: list(prose.contradictions(done.text))} == {name: []}
        reached |= done.reached
        said[name] = done.text
    sides = prose.conditions(chapter)
    missed = [
        f"cell {cell}: {prose.line(chapter, cell, place)} ({side})"
        for cell, place, side in sorted(sides - reached)
    ]
    assert missed == []  # what no machine can reach is to go; for the rest, construct a machine that does
    if sides:  # a chapter that says the same of all machines computes nothing
        assert len(set(said.values())) > 1


@pytest.mark.parametrize("chapter", CHAPTERS.values(), ids=lambda part: part.name)
def test_a_notebook_shows_each_exercise_that_a_cell_makes(chapter: Chapter) -> None:
    # It shows the value of a cell's last line by itself, but none that stands inside a condition.
    for source in prose.cells(chapter):
        *_, last = ast.parse(source).body
        inside = [line for line in ast.walk(ast.parse(source)) if isinstance(line, ast.Expr)]
        hidden = [ast.unparse(line) for line in inside if line.lineno != last.lineno]
        assert [words for words in hidden if words.startswith(("exercise(", "claims.", "predict("))] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("the tail is 0.8 times shorter", True),
        ("the tail is 2.0 times shorter", False),
        ("it takes 0.8 times as long", False),
        ("it takes nan ns", True),
        ("inf requests", True),
        ("it takes -0.2 µs later", True),
        ("-1.1% less work", True),
        ("at 0.5-2 ms more", False),
        ("-0% (-0% to 1%) lost", True),
        ("-0.0 points against alone", True),
        ("-0.04 points, on CPUs 1-0", False),
        ("information, finance", False),
    ],
)
def test_what_no_run_can_make_true_is_found(text: str, wrong: bool) -> None:
    assert bool(list(prose.contradictions(text))) == wrong


@pytest.mark.parametrize("chapter", CHAPTERS.values(), ids=lambda part: part.name)
def test_no_direction_is_named_but_in_a_branch(chapter: Chapter) -> None:
    assert list(prose.directions(chapter)) == []


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        ('print(f"the pin is {n} ns faster")', True),
        ('print("the pin is faster" if n > 0 else "no win is seen")', False),
        ('print(f"{share:.0%} take longer than a tick; one in a hundred {n} ms or more")', False),
        ('guess = predict("a.b", "How much longer does it take?")', False),
    ],
)
def test_a_direction_in_no_branch_is_found(cell: str, named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "cells", lambda chapter: [cell])
    assert bool(list(prose.directions(CHAPTERS["01-context-switch"]))) == named


def test_a_contrary_machine_turns_a_comparison_round() -> None:
    usual, other = (
        answer("omission.compared", {}).summary().set_index("client")
        for answer in (prose.recorded_machine, prose.contrary_machine)
    )
    assert usual.loc["open", "p99_ns"] > usual.loc["closed", "p99_ns"]
    assert other.loc["open", "p99_ns"] < other.loc["closed", "p99_ns"]


def test_the_path_for_an_hour_names_pages_that_there_are() -> None:
    path = (ROOT / "book" / "pathways.md").read_text(encoding="utf-8")
    path = path.partition("## If you have an hour")[2].partition("\n## ")[0]
    named = re.findall(r"\.\./notebooks/([\w-]+)\.md\)(.*)", path)
    assert len(named) == 3
    for chapter, titles in named:
        text = (ROOT / "notebooks" / f"{chapter}.md").read_text(encoding="utf-8")
        for title in re.findall(r"\*([^*]+)\*", titles):
            assert f"\n## {title}\n" in text, title
