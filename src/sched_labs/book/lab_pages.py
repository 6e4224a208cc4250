"""Pages of the book for the labs: each sheet with how to begin, and in the instructors' book the notes on it.

They lie in the book's source where they lie in the checkout, so that one link is right in both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core import registry
from ..labs import Lab
from .chapters import Chapter, Checkout, relink

DIAGNOSIS = "The order of diagnosis"


def labs_of(book: Checkout) -> list[Lab]:
    """The labs of this checkout, by number, and those of courses."""
    own = sorted((book.root / "labs").glob("[0-9][0-9]-*/sheet.md"))
    roots = [course.folder for course in registry.courses()]
    others = [folder for folder in registry.labs() if set(roots) & set(folder.parents)]
    return [Lab(folder) for folder in (*(sheet.parent for sheet in own), *others)]


def stage(book: Checkout, parts: Sequence[Chapter], staged: Path, *, instructors: bool = False) -> None:
    """Lay out the page of each lab's sheet; for instructors that of the notes on it, too."""
    for lab in labs_of(book):
        target = staged / "labs" / lab.name
        target.mkdir(parents=True, exist_ok=True)
        (target / "sheet.md").write_text(relink(_sheet(lab, parts), parts), encoding="utf-8")
        if instructors:
            notes = (lab.folder / "instructor.md").read_text(encoding="utf-8")
            (target / "instructor.md").write_text(relink(_notes(lab, notes), parts), encoding="utf-8")


def for_instructors(book: Checkout, parts: Sequence[Chapter]) -> dict[str, Any]:
    """What the instructors' book has in its contents besides: a part of _toc.yml."""
    notes = [{"file": f"labs/{lab.name}/instructor"} for lab in labs_of(book)]
    notes += [{"file": f"instructors/{part.short}"} for part in parts if part.notes]
    return {"caption": "For instructors", "chapters": [{"file": "book/instructors", "sections": notes}]}


def leading_to(lab: Lab, parts: Sequence[Chapter]) -> list[tuple[str, str]]:
    """The chapters whose text links to the lab: title, and path from the book's root."""
    found = []
    for part in parts:
        text = part.source.read_text(encoding="utf-8") if part.source.is_file() else ""
        if f"labs/{lab.name}/sheet.md" in text:
            title = re.search(r"^# (.+)$", text, re.MULTILINE)
            found.append((title[1] if title else part.name, f"{part.name}.ipynb"))
    return found


def order_of_diagnosis(parts: Sequence[Chapter]) -> str:
    """The section on how to look at a slow program, as a path from the book's root; empty without one."""
    for part in parts:
        text = part.source.read_text(encoding="utf-8") if part.source.is_file() else ""
        if re.search(rf"^#+ {DIAGNOSIS}$", text, re.MULTILINE):
            return f"{part.name}.ipynb#{DIAGNOSIS.lower().replace(' ', '-')}"
    return ""


def _sheet(lab: Lab, parts: Sequence[Chapter]) -> str:
    title, _, rest = (lab.folder / "sheet.md").read_text(encoding="utf-8").partition("\n")
    read = ", ".join(f"[{name}](../../{path})" for name, path in leading_to(lab, parts))
    diagnosis = order_of_diagnosis(parts)
    *some, last = ["this sheet", *(f"`{path.name}`" for path in [*lab.given, *lab.starter])]
    files = f"{', '.join(some)} and {last}"
    begin = [
        f"About {lab.minutes} minutes." + (f" It goes with {read}." if read else ""),
        "In a terminal on your own machine:",
        f"    sched-labs lab start {lab.word}",
        f"It lays out {files}, and says where. Work there, with any editor; "
        "in the virtual machine, with JupyterLab's.",
    ]
    end = [
        "## When you are done, or stuck",
        f"`sched-labs lab check {lab.word}` says what is right and what is missing, as often as you like; "
        "with `--seed` and the number that it printed it draws the same again.",
        *([f"[{DIAGNOSIS}](../../{diagnosis}) is a way through any slow program."] if diagnosis else []),
        f"`sched-labs lab reveal {lab.word}` shows one solution; other ones are as good.",
        "Your progress knows that you looked.",
        "`sched-labs progress` shows how far you are, "
        "and `sched-labs progress --export FILE` writes it for a teacher.",
    ]
    return "\n\n".join([title, *begin, rest.strip(), *end]) + "\n"


def _notes(lab: Lab, text: str) -> str:
    return f"{text.strip()}\n\n[The sheet that students get](sheet.md)\n"
