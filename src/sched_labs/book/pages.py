"""From texts and measured chapters to finished pages."""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from .. import explorables
from ..core.errors import SchedLabError
from ..reader import predictions
from . import cut, glossary, lab_pages, layers
from . import predictions as predictions_of
from .chapters import Chapter, Checkout, contents, relink
from .generated import Material, fill
from .progress import Terminal

_STAMP = ".made-from"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_IN_COMMON = ("_config.yml", "_toc.yml", "book/_static/*", "book/_static/*/*", "book/_ext/*")
# The command line of Jupyter Book has no word for how many processes Sphinx may be.
_JUPYTER_BOOK = """
import functools, sys
from jupyter_book import sphinx
sphinx.build_sphinx = functools.partial(sphinx.build_sphinx, jobs={jobs})
from jupyter_book.cli.main import main
sys.exit(main())
"""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def build(
    book: Checkout,
    parts: list[Chapter],
    terminal: Terminal,
    *,
    instructors: bool = False,
    again: bool = False,
) -> list[str]:
    """Build `_build/html` from the texts and the chapters in `_build/measured`, unless it is made from these.

    For instructors it is `_build/instructors`, and has their pages, with the right answers, besides.

    Sentences about what broke while the texts were written; the pages say it too, and are there all the same.

    Sphinx works in a folder of its own and the result is put in place at the end: a server of the old pages
    never shows half of the new ones, and a page or a picture that is gone leaves nothing behind.
    Any warning of Sphinx (a link to nowhere, TeX that nobody understands) is an error.

    again  for a book that is soon built again, a chapter at a time: what Sphinx knows is kept, and it writes
           only the pages that changed, as long as what they have in common stays the same
    """
    staged = book.build / "source"
    place = book.for_instructors if instructors else book.html
    broken = _stage_over(book, parts, staged, instructors)
    inputs = _digest(staged)
    stamp = place / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="ascii") == inputs:
        terminal.say("pages: nothing changed")
        return broken
    terminal.say("pages: building")
    work = book.build / "work"
    common, known = _digest(staged, _IN_COMMON), work / _STAMP
    if not (again and known.is_file() and known.read_text(encoding="ascii") == common):
        shutil.rmtree(work, ignore_errors=True)
    known.unlink(missing_ok=True)  # until it is whole
    log = book.build / "sphinx.log"
    command = [
        *(sys.executable, "-c", _JUPYTER_BOOK.format(jobs=_jobs()), "build"),
        *(str(staged), "--path-output", str(work), "-W", "--keep-going"),
    ]
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False)
    if done.returncode != 0:
        lines = _COLOUR.sub("", log.read_text(encoding="utf-8")).splitlines()
        said = [line for line in lines if _worth_showing(line)]
        raise SchedLabError(
            "\n".join(["The pages could not be built:", *said[-20:]]),
            f"Everything that Sphinx said is in {log}.",
        )
    made = work / "_build" / "html"
    if again:
        known.write_text(common, encoding="ascii")
        made = Path(shutil.copytree(made, work / "copy"))
    (made / _STAMP).write_text(inputs, encoding="ascii")
    _put_in_place(made, place)
    if not again:
        shutil.rmtree(work)
    return broken


def _jobs() -> int:
    """How many processes Sphinx may be: it writes pages with one fewer, and the last only hands them out."""
    return min(4, len(os.sched_getaffinity(0))) + 1


def _worth_showing(line: str) -> bool:
    return any(word in line for word in ("WARNING", "ERROR", "CRITICAL", "Error:", "error:"))


def _put_in_place(new: Path, place: Path) -> None:
    old = place.with_name(place.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _stage_over(book: Checkout, parts: list[Chapter], staged: Path, instructors: bool) -> list[str]:
    """Stage anew; a file that stays the same keeps its time, by which Sphinx knows it."""
    fresh = staged.with_suffix(".new")
    broken = _stage(book, parts, fresh, instructors)
    for new in fresh.rglob("*"):
        old = staged / new.relative_to(fresh)
        if new.is_file() and old.is_file() and filecmp.cmp(new, old, shallow=False):
            shutil.copystat(old, new)
    shutil.rmtree(staged, ignore_errors=True)
    fresh.rename(staged)
    return broken


def _stage(book: Checkout, parts: list[Chapter], staged: Path, instructors: bool) -> list[str]:
    """Lay out what Sphinx reads: the texts as they are, each chapter as it ran here; what broke meanwhile."""
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    shutil.copy(book.root / "_config.yml", staged / "_config.yml")
    listed = contents(book)
    if instructors:
        listed["parts"].append(lab_pages.for_instructors(book, parts))
    shutil.copytree(book.root / "book", staged / "book", ignore=shutil.ignore_patterns("__pycache__"))
    explorables.write_page_script(staged / "book" / "_static")
    words = book.root / "book" / "glossary.md"
    told = glossary.script(words.read_text(encoding="utf-8") if words.is_file() else "")
    (staged / "book" / "_static" / glossary.SCRIPT).write_text(told, encoding="utf-8")
    shutil.copy(predictions.STYLE, staged / "book" / "_static" / "sched-labs-guess.css")
    made_from = Material(book, parts)
    for text in (staged / "book").glob("*.md"):
        filled = fill(text.read_text(encoding="utf-8"), made_from)
        text.write_text(relink(filled, parts), encoding="utf-8")
    lab_pages.stage(book, parts, staged, instructors=instructors)
    made = [page for chapter in parts for page in _stage_chapter(book, chapter, parts, staged)]
    _nest(listed, made)
    (staged / "_toc.yml").write_text(yaml.safe_dump(listed, sort_keys=False), encoding="utf-8")
    for chapter in parts:
        if instructors and chapter.notes:
            notes = staged / "instructors" / f"{chapter.short}.md"
            notes.parent.mkdir(exist_ok=True)
            notes.write_text(relink(chapter.notes.read_text(encoding="utf-8"), parts), encoding="utf-8")
    for text in staged.rglob("*.md"):
        text.write_text(cut.lead(text.read_text(encoding="utf-8"), made), encoding="utf-8")
    return made_from.broken


def _stage_chapter(book: Checkout, chapter: Chapter, parts: list[Chapter], staged: Path) -> list[cut.Page]:
    """Lay out the pages of a chapter as it ran here."""
    import nbformat

    notebook = nbformat.read(book.measured / f"{chapter.name}.ipynb", as_version=4)
    still(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = relink(cell.source, parts)
    made = cut.pages(chapter, notebook)
    for page in made:
        for cell in page.cells:
            layers.fold(cell)
            if page is not made[0] and cell.cell_type == "markdown":
                cell.source = cut.deeper(cell.source)
    for page in made:
        last = [cut.contents(made)] if page is made[0] and len(made) > 1 else []
        last.append(cut.chapter_code(notebook, page))
        if page is made[0]:
            last.append(predictions_of.for_sheet(page.title, predictions_of.asked(book, [chapter])))
        added = [nbformat.v4.new_markdown_cell(text) for text in last if text]
        target = staged / f"{page.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = nbformat.v4.new_notebook(cells=[*page.cells, *added], metadata=notebook.metadata)
        for number, cell in enumerate(whole.cells):
            cell.id = f"cell-{number}"  # the same each time, so that nothing is built again without need
        nbformat.write(whole, target)
    return made


def _nest(listed: dict[str, Any], made: list[cut.Page]) -> None:
    """Put the pages of a chapter under it in the table of contents."""
    for part in listed["parts"]:
        for entry in part.get("chapters", []):
            below = [{"file": page.name} for page in made if page.name.startswith(f"{entry['file']}/")]
            if below:
                entry["sections"] = below


def still(notebook: Any) -> None:
    """Make `notebook` (in place) fit a page that has no kernel: a widget is shown by its static twin.

    A widget without one, such as a progress bar, is dropped: its text form is a Python object's name.
    pandas heads the column of row names with an empty `<th>`, which a screen reader stumbles over.
    """
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        kept = []
        for output in cell.outputs:
            data = output.get("data", {})
            if data.pop(_WIDGET, None) is not None and not set(data) - {"text/plain"}:
                continue
            if "text/html" in data:
                data["text/html"] = "".join(data["text/html"]).replace("<th></th>", "<td></td>")
            kept.append(output)
        cell.outputs = kept


def _digest(folder: Path, kinds: Sequence[str] = ("**/*",)) -> str:
    digest = hashlib.sha256()
    for path in sorted({p for kind in kinds for p in folder.glob(kind) if p.is_file()}):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
