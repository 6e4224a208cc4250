"""The ES modules beside this file and in the reader's room, as a page and as JupyterLab take them.

Every module is without imports and has one `export default`, at the start of a line.  So one copy serves
both: anywidget is given several of them in one text, and a page gets all of them in one ordinary script,
because a browser loads no module from a file on the disk.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE_SCRIPT = "sched-labs-explorables.js"
_EXPORT = "\nexport default "
_ELSEWHERE = {name: FOLDER.parent / "reader" / f"{name}.js" for name in ("guess", "exercise", "picture")}


def names() -> list[str]:
    """Every module, without its suffix."""
    return sorted({path.stem for path in FOLDER.glob("*.js") if path.stem != "page"} | set(_ELSEWHERE))


@cache
def source(name: str) -> str:
    """A module as it stands in its file."""
    return _ELSEWHERE.get(name, FOLDER / f"{name}.js").read_text(encoding="utf-8")


def expression(name: str) -> str:
    """The module as an expression whose value is what it exports."""
    before, _, exported = source(name).partition(_EXPORT)
    return f'(() => {{\n"use strict";\n{before}\nreturn {exported}\n}})()'


def for_widget(frame: str, part: str) -> str:
    """The text of a module that anywidget runs: `view` of the frame, around the part."""
    return f"const part = {expression(part)};\nexport default {expression(frame)}.view(part);\n"


def for_pages() -> str:
    """The script of every page: all modules, and what brings the explorables of a page to life."""
    modules = ",\n".join(f"{name}: {expression(name)}" for name in names())
    page = (FOLDER / "page.js").read_text(encoding="utf-8")
    return f'"use strict";\n((modules) => {{\n{page}}})({{\n{modules}\n}});\n'


def stylesheet() -> str:
    """What explorables add to the style of figures."""
    return (FOLDER / "frame.css").read_text(encoding="utf-8")
