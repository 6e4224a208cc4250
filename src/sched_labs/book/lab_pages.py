"""Pages of the book for the labs: each sheet with how to begin, and the instructor's notes.

They lie in the book's source where they lie in the checkout, so that one link is right in both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..labs import Lab
from .chapters import Chapter, Checkout


def labs_of(book: Checkout) -> list[Lab]:
    """The labs of this checkout, by number."""
    return [Lab(sheet.parent) for sheet in sorted((book.root / "labs").glob("[0-9][0-9]-*/sheet.md"))]


def stage(book: Checkout, parts: Sequence[Chapter], staged: Path) -> None:
    """Lay out the page of each lab's sheet and of its instructor's notes."""
    for lab in labs_of(book):
        target = staged / "labs" / lab.name
        target.mkdir(parents=True, exist_ok=True)
        (target / "sheet.md").write_text(_sheet(lab, leading_to(lab, parts)), encoding="utf-8")
        notes = (lab.folder / "instructor.md").read_text(encoding="utf-8")
        (target / "instructor.md").write_text(_notes(lab, notes), encoding="utf-8")


def leading_to(lab: Lab, parts: Sequence[Chapter]) -> list[tuple[str, str]]:
    """The chapters whose text links to the lab: title, and path from the book's root."""
    found = []
    for part in parts:
        text = part.source.read_text(encoding="utf-8") if part.source.is_file() else ""
        if f"labs/{lab.name}/sheet.md" in text:
            title = re.search(r"^# (.+)$", text, re.MULTILINE)
            found.append((title[1] if title else part.name, f"{part.name}.ipynb"))
    return found


def _sheet(lab: Lab, chapters: Sequence[tuple[str, str]]) -> str:
    title, _, rest = (lab.folder / "sheet.md").read_text(encoding="utf-8").partition("\n")
    read = ", ".join(f"[{name}](../../{path})" for name, path in chapters)
    starter = sorted((lab.folder / "starter").iterdir())
    files = ", ".join(f"`{path.name}`" for path in [*lab.given, *starter])
    begin = [
        f"About {lab.minutes} minutes." + (f" It goes with {read}." if read else ""),
        "In a terminal on your own machine:",
        f"    sched-labs lab start {lab.word}",
        f"It lays out this sheet and {files}, and says where. Work there, with any editor; "
        "in the virtual machine, with JupyterLab's.",
    ]
    end = [
        "## When you are done, or stuck",
        f"`sched-labs lab check {lab.word}` says what is right and what is missing, as often as you like; "
        "with `--seed` and the number that it printed it asks the same again.",
        f"`sched-labs lab reveal {lab.word}` shows one solution; other ones are as good.",
        "Your progress knows that you looked.",
        "`sched-labs progress` shows how far you are, "
        "and `sched-labs progress --export FILE` writes it for a teacher.",
    ]
    return "\n\n".join([title, *begin, rest.strip(), *end]) + "\n"


def _notes(lab: Lab, text: str) -> str:
    return f"{text.strip()}\n\n[The sheet that students get](sheet.md)\n"
