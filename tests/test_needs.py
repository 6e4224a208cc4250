"""Which cells a part of a page needs: what a reader runs finds its names, and nothing is measured in vain."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from sched_labs.book import needs
from sched_labs.book.chapters import Chapter, chapters, checkout
from sched_labs.book.needs import needed

CELLS = [
    "from lab import measure, other",  # 0
    "run = measure()",  # 1
    "table = run.summary()\nfor row in table: print(row)",  # 2
    "second = other()",  # 3
    "table = second.summary()",  # 4
    "print(f'{table} of {len(run)}', *[run for run in second])",  # 5
    "row = table + row",  # 6
    "def show(value, by=run):\n    text = str(value)\n    return text, KIB",  # 7
    "run.table, 'second'  # table",  # 8
    "class Kept:\n    text: str = 'x'\n    first = run\n    def show(self, *, of=second): return text",  # 9
    "Kept()",  # 10
    "text = 1",  # 11
]


@pytest.mark.parametrize(
    ("chosen", "ran", "expected"),
    [
        ([1], [], [0, 1]),
        ([2], [], [0, 1, 2]),
        ([2], [0, 1], [2]),
        ([5], [], [0, 1, 3, 4, 5]),
        ([4, 5], [0, 1, 2, 3], [4, 5]),
        ([5], [0, 1, 2, 3, 4], [5]),
        ([5], [0, 1, 3, 4, 2], [4, 5]),  # `table` is another one by now
        ([6], [0, 1], [2, 3, 4, 6]),
        ([7], [0], [1, 7]),
        ([8], [], [0, 1, 8]),  # neither an attribute nor a word in a text is a name
        (
            [9],
            [],
            [0, 1, 3, 9],
        ),  # a class has names of its own; its functions do not see them, cell 11 comes later
        ([10], [], [0, 1, 3, 9, 10]),  # a class is a name
        ([0], [0], [0]),  # what was chosen runs, also again
        ([], [], []),
    ],
)
def test_what_a_cell_needs(chosen: list[int], ran: list[int], expected: list[int]) -> None:
    assert needed(CELLS, chosen, ran) == expected


def test_a_cell_that_is_no_python_needs_nothing() -> None:
    assert needed(["x = 1", "x +"], [1], []) == [1]


@pytest.mark.parametrize("chapter", chapters(checkout(ROOT)), ids=lambda chapter: chapter.name)
def test_every_cell_of_the_book_finds_its_names(chapter: Chapter) -> None:
    """Run for its names only: the names of a cell are there when those before it ran that it needs."""
    text = chapter.source.read_text(encoding="utf-8")
    codes = re.findall(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*((?:.*\n)*?)```", text, re.MULTILINE)
    assert len(codes) > 5
    for chosen in range(len(codes)):
        known: set[str] = set()
        run = needed(codes, [chosen], [])
        for index in run:
            uses, binds = needs._look(codes[index])
            assert uses <= known, (codes[index], uses - known)
            known |= binds
        # And none of them could be left out.
        everything = set().union(*(needs._look(codes[index])[0] for index in run))
        assert all(needs._look(codes[index])[1] & everything for index in run if index != chosen)
