"""From one executed chapter to its pages: a short opening, and a page for each of its experiments.

An experiment is a section (`## ...`) that shows a figure; sections without one that follow each other share a
page.  The notebooks stay one per chapter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .chapters import Chapter

WORDS_PER_MINUTE = 180  # technical prose
_HEADING = re.compile(r"^(#{1,3}) +(.+?)\s*$", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()(?![a-z]+:|#|/)([^)\s]+\))")
_FOLDED = re.compile(r"<details.*?</details>", re.DOTALL)


@dataclass
class Page:
    """One page: its path from the book's root without suffix, its title, and its cells.

    `indices` are the places of its code among all the code of the chapter.
    """

    name: str
    title: str
    cells: list[Any] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)

    @property
    def minutes(self) -> int:
        """How long what is not folded takes to read."""
        prose = " ".join(_FOLDED.sub("", cell.source) for cell in self.cells if cell.cell_type == "markdown")
        return max(1, round(len(prose.split()) / WORDS_PER_MINUTE))


def anchor(heading: str) -> str:
    """The name under which a heading can be linked to, as MyST makes it."""
    text = re.sub(r"[*_`]", "", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def split(notebook: Any) -> list[Any]:
    """The cells, every heading at the beginning of a cell of its own."""
    from nbformat.v4 import new_markdown_cell

    cells = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            cells.append(cell)
            continue
        fences = [found.span() for found in _FENCE.finditer(cell.source)]
        starts = [
            found.start()
            for found in _HEADING.finditer(cell.source)
            if not any(first <= found.start() < last for first, last in fences)
        ]
        for begin, end in zip([0, *starts], [*starts, None], strict=True):
            if cell.source[begin:end].strip():
                cells.append(new_markdown_cell(cell.source[begin:end].strip()))
    return cells


def pages(chapter: Chapter, notebook: Any) -> list[Page]:
    """The pages of a chapter, the opening first.  Headings of an experiment's page are raised by one."""
    made = [Page(chapter.name, chapter.short)]
    code = 0
    cells = split(notebook)
    whole = not _experiment(cells)  # nothing to cut it by
    for section in [cells] if whole else _sections(cells):
        heading = _heading(section[0])
        if heading and heading[0] == 1:
            made[0].title = heading[1]
        elif heading and heading[0] == 2 and (_experiment(section) or _closed(made)):
            made.append(Page(f"{chapter.name}/{anchor(heading[1])}", heading[1]))
        page = made[-1]
        for cell in section:
            told = _heading(cell)
            if told:
                page.anchors.append(anchor(told[1]))
                if page is not made[0] and (not page.cells or told[0] > 2):
                    cell.source = cell.source[1:]
            if cell.cell_type == "code" and cell.source.strip():
                page.indices.append(code)
                code += 1
            page.cells.append(cell)
    return made


def _sections(cells: Sequence[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for cell in cells:
        heading = _heading(cell)
        if heading and heading[0] == 2:
            found.append([])
        found[-1].append(cell)
    return [section for section in found if section]


def _heading(cell: Any) -> tuple[int, str] | None:
    found = _HEADING.match(cell.source) if cell.cell_type == "markdown" else None
    return (len(found[1]), found[2]) if found else None


def _experiment(section: Sequence[Any]) -> bool:
    return any(
        "<figure" in "".join(output.get("data", {}).get("text/html", ""))
        for cell in section
        for output in cell.get("outputs", [])
    )


def _closed(made: Sequence[Page]) -> bool:
    """Whether the page before takes no further section: the opening and an experiment's page do not."""
    return len(made) == 1 or _experiment(made[-1].cells)


def chapter_code(notebook: Any, page: Page) -> str:
    """The code of the whole chapter, for a page that runs: its own cells need names that others make."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    whole = {
        "cells": [cell.source for cell in code],
        "here": page.indices,
        "seconds": [took_s(cell) for cell in code],
        "made": notebook.metadata.get("sched_labs", {}).get("measured_at"),
    }
    told = json.dumps(whole).replace("<", "\\u003c")
    return f'<script type="application/json" class="sl-chapter">{told}</script>'


def took_s(cell: Any) -> float | None:
    """How long a cell took when the chapter was measured; None where it was not run."""
    times = cell.metadata.get("execution", {})
    try:
        began, ended = (datetime.fromisoformat(times[f"iopub.status.{state}"]) for state in ("busy", "idle"))
    except (KeyError, ValueError):
        return None
    return round((ended - began).total_seconds(), 1)


def contents(made: Sequence[Page]) -> str:
    """What the opening says of the pages after it, with the time that each takes to read."""
    folder = made[0].name.rpartition("/")[2]
    lines = [
        f"- [{page.title}]({folder}/{page.name.rpartition('/')[2]}.ipynb), {page.minutes} min"
        for page in made[1:]
    ]
    return "## The pages of this chapter\n\n" + "\n".join(lines)


def deeper(text: str) -> str:
    """Links of a text that moved into a folder."""
    return _LINK.sub(r"\1../\2", text)


def lead(text: str, made: Sequence[Page]) -> str:
    """Links to a place in a chapter, led to the page on which it is."""
    for page in made:
        chapter = page.name.split("/")[1]
        for name in page.anchors:
            old, new = f"{chapter}.ipynb#{name})", f"{page.name.removeprefix('notebooks/')}.ipynb#{name})"
            text = text.replace(old, new)
    return text
