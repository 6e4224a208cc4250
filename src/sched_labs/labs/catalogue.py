"""Which labs the book has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import ParameterError


@dataclass(frozen=True)
class Lab:
    """One folder under `labs/`.  `name` is the folder's, such as `01-cache-sizes`."""

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
    def word(self) -> str:
        """The name without its number, as commands take it."""
        return self.name.partition("-")[2]

    @property
    def given(self) -> list[Path]:
        """Programs that the reader's work is built into: to read and to try, not to change."""
        return sorted(self.folder.glob("*.c"))

    @property
    def minutes(self) -> int:
        """How long it takes, as the instructor's notes say; 0 where they do not."""
        told = re.search(r"^Time: (\d+) minutes", self._notes(), re.MULTILINE)
        return int(told[1]) if told else 0

    def _notes(self) -> str:
        path = self.folder / "instructor.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""


def _home() -> Path:
    return Path(__file__).resolve().parents[3] / "labs"


def all_labs() -> list[Lab]:
    """All labs, by number.  Empty where the library was installed without the book."""
    return [Lab(sheet.parent) for sheet in sorted(_home().glob("[0-9][0-9]-*/sheet.md"))]


def find(name: str) -> Lab:
    """The lab of that number ("3"), or whose name holds this ("convoy").

    Raises ParameterError where none or several do.
    """
    known = all_labs()
    number = f"{int(name):02d}-" if name.isdigit() else None
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
