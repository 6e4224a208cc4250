"""The reader's own folder of a lab."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..core import store
from ..core.errors import SchedLabError
from . import ledger
from .catalogue import Lab


def place(lab: Lab) -> Path:
    """Where the reader works on it; not there before `start`."""
    return store.data_folder() / "labs" / lab.name


def start(lab: Lab) -> Path:
    """Lay out sheet, given programs and starter; what the reader has written stays.  Returns the folder."""
    folder = place(lab)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sheet.md").write_text(lab.sheet, encoding="utf-8")
        for given in lab.given:
            shutil.copyfile(given, folder / given.name)
        for source in lab.starter:
            if not (folder / source.name).exists():
                shutil.copyfile(source, folder / source.name)
    except OSError as error:
        raise SchedLabError(
            f"{folder} cannot be written: {error.strerror}.",
            "Choose a folder that you may write with XDG_DATA_HOME.",
        ) from error
    ledger.note(lab.name, "started")
    return folder


def hints(lab: Lab) -> list[str]:
    """The hints that the reader has had, and one more where there is one.  The progress counts them.

    Raises SchedLabError where the lab has none.
    """
    if not lab.hints:
        raise SchedLabError(
            f"{lab.name} has no hints.", f"sched-labs lab reveal {lab.word} shows a solution."
        )
    had = ledger.hints_shown(lab.name)
    if had < len(lab.hints):
        ledger.note(lab.name, "hinted")
    return lab.hints[: had + 1]


def reveal(lab: Lab) -> dict[str, str]:
    """The solution: file name -> text.  The progress says from now on that it was looked at."""
    ledger.note(lab.name, "revealed")
    return {path.name: path.read_text(encoding="utf-8") for path in lab.solution}
