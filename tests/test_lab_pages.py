"""The labs as pages of the book: every lab has one, it tells how to begin, and chapters lead to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT

from sched_labs import labs
from sched_labs.book import generated, lab_pages
from sched_labs.book.chapters import Chapter, Checkout, chapters, checkout

BOOK = checkout(ROOT)
LABS = lab_pages.labs_of(BOOK)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_is_in_the_contents_and_its_notes_are_in_those_for_instructors(lab: labs.Lab) -> None:
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    assert f"file: labs/{lab.name}/sheet\n" in contents
    assert "instructor" not in contents
    assert f"labs/{lab.name}/instructor" in str(lab_pages.for_instructors(BOOK, chapters(BOOK)))
    assert 20 <= lab.minutes <= 90
    assert labs.find(lab.word) == lab
    assert lab_pages.leading_to(lab, chapters(BOOK)), "no chapter links to it"


def test_there_is_no_page_of_a_lab_that_is_gone() -> None:
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"labs/([\w-]+)/", contents)) == {lab.name for lab in LABS}


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_page_tells_how_to_begin_and_gives_nothing_away(lab: labs.Lab, tmp_path: Path) -> None:
    lab_pages.stage(BOOK, [Chapter("notebooks/90-a", tmp_path / "90-a.md")], tmp_path)
    page = (tmp_path / "labs" / lab.name / "sheet.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {lab.title}\n")
    for command in ("start", "check", "reveal"):
        assert f"sched-labs lab {command} {lab.word}" in page
    assert f"About {lab.minutes} minutes." in page and "It goes with" not in page
    for source in (lab.folder / "starter").iterdir():
        assert f"`{source.name}`" in page
    for solution in (lab.folder / "solution").iterdir():
        text = solution.read_text(encoding="utf-8")
        longest = max((line.strip() for line in text.splitlines()), key=len)
        assert longest not in page
    assert not (tmp_path / "labs" / lab.name / "instructor.md").exists()
    assert not re.search(r"^\|.*\| \|", page, re.MULTILINE), "a head that a screen reader cannot read"


def test_a_lab_names_the_chapters_that_lead_to_it(tmp_path: Path) -> None:
    lab = LABS[0]
    source = tmp_path / "90-a.md"
    source.write_text(f"# A [cost]\n\n[a lab](../labs/{lab.name}/sheet.md)\n", encoding="utf-8")
    part = Chapter("notebooks/90-a", source)
    assert lab_pages.leading_to(lab, [part]) == [("A [cost]", "notebooks/90-a.ipynb")]
    assert lab_pages.leading_to(LABS[1], [part]) == []
    table = generated.fill("<!-- sched-labs: labs -->", generated.Material(BOOK, [part]))
    assert table.count("\n") == 1 + len(LABS)
    assert "(../notebooks/90-a.ipynb)" in table.splitlines()[2]


def test_a_lab_leads_to_the_order_of_diagnosis() -> None:
    assert re.search(r"\.ipynb#the-order-of-diagnosis$", lab_pages.order_of_diagnosis(chapters(BOOK)))
    assert lab_pages.order_of_diagnosis([]) == ""


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_sheet_has_hints_that_a_terminal_keeps_for_later(lab: labs.Lab) -> None:
    written = (lab.folder / "sheet.md").read_text(encoding="utf-8")
    assert len(lab.hints) == written.count("<details>") >= 2
    assert "<details>" not in lab.sheet and "<summary>" not in lab.sheet
    for hint in lab.hints:
        assert hint in written and hint not in lab.sheet
        assert not hint.startswith("<") and not hint.endswith(">")
    assert f"sched-labs lab hint {lab.word}" in lab.sheet
    # Nothing else is left out.
    assert re.findall("^## .*", lab.sheet, re.MULTILINE) == re.findall("^## .*", written, re.MULTILINE)
    assert lab.sheet.partition("## Questions")[2] == written.partition("## Questions")[2]


def test_a_book_without_labs_is_a_book(tmp_path: Path) -> None:
    lab_pages.stage(Checkout(tmp_path), [], tmp_path / "staged")
    assert not (tmp_path / "staged").exists()
    assert "lab" in generated.fill("<!-- sched-labs: labs -->", generated.Material(Checkout(tmp_path), []))


def test_instructors_find_the_notes_of_every_lab() -> None:
    text = generated.fill(
        (ROOT / "book" / "instructors.md").read_text(encoding="utf-8"), generated.Material(BOOK, [])
    )
    for lab in LABS:
        assert f"(../labs/{lab.name}/instructor.md)" in text
        notes = (lab.folder / "instructor.md").read_text(encoding="utf-8")
        assert "misunderstandings" in notes and "Exit when time runs out" in notes


@pytest.mark.parametrize(
    "page, least", [("book/instructors.md", 12), ("book/setup.md", 6), ("book/labs.md", 5), ("README.md", 12)]
)
def test_readers_are_told_of_commands_that_exist(page: str, least: int) -> None:
    """Every command in the page is one that the program takes, with those options."""
    from sched_labs import cli
    from sched_labs.core import registry

    text = (ROOT / page).read_text(encoding="utf-8")
    # A command ends with its line, its quotes, or before its remark.
    told = set(re.findall(r'sched-labs ([a-z][^`"\n#]*)', text))
    assert len(told) >= least
    for line in told:
        options = cli._parser().parse_args(line.split())
        assert callable(options.handler)
        if line.startswith(("demo", "run")):
            registry.find(options.experiment)  # refuses a name that none has
