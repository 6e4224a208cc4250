"""Which labs there are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..core import registry
from ..core.errors import ParameterError

_HINT = re.compile(r"^<details><summary>.*?</summary>\n(.*?)^</details>", re.MULTILINE | re.DOTALL)
_HINTS = re.compile(r"^(## Hints.*?\n\n)<details>.*</details>\n+", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Lab:
    """One folder of the book or of a course.  `name` is the folder's, such as `01-cache-sizes`."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def title(self) -> str:
        """The first heading of the sheet."""
        first = (self.folder / "sheet.md").read_text(encoding="utf-8").splitlines()[0]
        return first.lstrip("# ").strip()

    @property
    def sheet(self) -> str:
        """The sheet as it is read without a browser, which would fold the hints: without them."""
        text = (self.folder / "sheet.md").read_text(encoding="utf-8")
        command = f"sched-labs lab hint {self.word}"
        told = f"There are {len(self.hints)}, and this shows the next one:\n\n    {command}"
        return _HINTS.sub(rf"\1{told}\n\n", text)

    @property
    def hints(self) -> list[str]:
        """What the sheet folds away, in order."""
        text = (self.folder / "sheet.md").read_text(encoding="utf-8")
        return [hint.strip() for hint in _HINT.findall(text)]

    @property
    def word(self) -> str:
        """The name without its number, as commands take it."""
        return self.name.partition("-")[2]

    @property
    def given(self) -> list[Path]:
        """Programs that the reader's work is built into: to read and to try, not to change."""
        return sorted(self.folder.glob("*.c"))

    @property
    def starter(self) -> list[Path]:
        """What the reader begins with, without what Python leaves beside it."""
        return _files(self.folder / "starter")

    @property
    def solution(self) -> list[Path]:
        """One way to solve it, in files of the same names."""
        return _files(self.folder / "solution")

    @property
    def minutes(self) -> int:
        """How long it takes, as the instructor's notes say; 0 where they do not."""
        told = re.search(r"^Time: (\d+) minutes", self._notes(), re.MULTILINE)
        return int(told[1]) if told else 0

    def _notes(self) -> str:
        path = self.folder / "instructor.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def all_labs() -> list[Lab]:
    """The book's labs and those of courses, by number; none where the library has neither."""
    return [Lab(folder) for folder in registry.labs()]


def find(name: str) -> Lab:
    """The lab of that number ("3"), or whose name holds this ("convoy").

    Raises ParameterError where none or several do.
    """
    known = all_labs()
    # Only the ten digits: Python's isdigit() knows more of them, such as "²".
    number = f"{name.lstrip('0').zfill(2)}-" if re.fullmatch("[0-9]+", name) else None
    found = [
        lab
        for lab in known
        if lab.name == name or (lab.name.startswith(number) if number else name and name in lab.name)
    ]
    exact = [lab for lab in found if lab.name == name]
    if len(exact or found) != 1:
        raise ParameterError(
            f"There is no lab {name!r}."
            if not found
            else f"Several labs are called something like {name!r}.",
            f"There are: {', '.join(lab.name for lab in found or known) or 'none, outside the book'}.",
        )
    return (exact or found)[0]
