"""From texts and measured chapters to finished pages."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..errors import SchedLabError
from . import lab_pages
from .chapters import Chapter, Checkout
from .generated import Material, fill
from .progress import Terminal

_STAMP = ".made-from"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def build(book: Checkout, parts: list[Chapter], terminal: Terminal) -> list[str]:
    """Build `_build/html` from the texts and the chapters in `_build/measured`, unless it is made from these.

    Sentences about what broke while the texts were written; the pages say it too, and are there all the same.

    Sphinx works in a folder of its own and the result is put in place at the end: a server of the old pages
    never shows half of the new ones, and a page or a picture that is gone leaves nothing behind.
    Any warning of Sphinx (a link to nowhere, TeX that nobody understands) is an error.
    """
    staged = book.build / "source"
    broken = _stage(book, parts, staged)
    inputs = _digest(staged)
    stamp = book.html / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="ascii") == inputs:
        terminal.say("pages: nothing changed")
        return broken
    terminal.say("pages: building")
    work = book.build / "work"
    shutil.rmtree(work, ignore_errors=True)
    log = book.build / "sphinx.log"
    command = [
        *(
            sys.executable,
            "-c",
            "import sys; from jupyter_book.cli.main import main; sys.exit(main())",
            "build",
        ),
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
    (work / "_build" / "html" / _STAMP).write_text(inputs, encoding="ascii")
    _put_in_place(work / "_build" / "html", book.html)
    shutil.rmtree(work)
    return broken


def _worth_showing(line: str) -> bool:
    return any(word in line for word in ("WARNING", "ERROR", "CRITICAL", "Error:", "error:"))


def _put_in_place(new: Path, place: Path) -> None:
    old = place.with_name(place.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _stage(book: Checkout, parts: list[Chapter], staged: Path) -> list[str]:
    """Lay out what Sphinx reads: the texts as they are, each chapter as it ran here; what broke meanwhile."""
    import nbformat

    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(book.root / name, staged / name)
    shutil.copytree(book.root / "book", staged / "book", ignore=shutil.ignore_patterns("__pycache__"))
    made_from = Material(book, parts)
    for text in (staged / "book").glob("*.md"):
        filled = fill(text.read_text(encoding="utf-8"), made_from)
        text.write_text(relink(filled, parts), encoding="utf-8")
    lab_pages.stage(book, parts, staged)
    for chapter in parts:
        notebook = nbformat.read(book.measured / f"{chapter.name}.ipynb", as_version=4)
        still(notebook)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = relink(cell.source, parts)
        target = staged / f"{chapter.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)
    return made_from.broken


def relink(text: str, parts: list[Chapter]) -> str:
    """Turn links to a chapter's source (`01-a.md`) into links to the notebook that ran (`01-a.ipynb`)."""
    for chapter in parts:
        name = re.escape(chapter.source.stem)
        text = re.sub(rf"(\]\((?:[^)\s]*/)?{name})\.md(?=[)#])", r"\1.ipynb", text)
    return text


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


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
