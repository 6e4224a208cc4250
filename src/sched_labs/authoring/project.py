"""Where a new experiment, chapter or lab belongs: in the book's checkout, or in a course of one's own."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import ParameterError
from ..core.registry import GROUP


@dataclass(frozen=True)
class Project:
    """A folder with a topic root in it.

    folder   of the project: its pyproject.toml is there
    package  of the topic root
    topics   the folder of that package
    """

    folder: Path
    package: str
    topics: Path

    @property
    def is_book(self) -> bool:
        return self.package == GROUP

    @property
    def labs(self) -> Path:
        return self.folder / "labs" if self.is_book else self.topics / "labs"

    def text(self, chapter: str) -> Path:
        """The text of a chapter, whether it is there or not.

        The book's are numbered notebooks; a course's stands in the chapter's folder.
        """
        if not self.is_book:
            return self.topics / chapter / "chapter.md"
        word = chapter.replace("_", "-")
        notebooks = self.folder / "notebooks"
        there = sorted(notebooks.glob(f"[0-9][0-9]-{word}.md"))
        return there[0] if there else notebooks / f"{next_number(notebooks):02d}-{word}.md"

    @property
    def chapters(self) -> list[str]:
        """The folders of its chapters."""
        return sorted(path.parent.name for path in self.topics.glob("*/__init__.py"))


def next_number(folder: Path) -> int:
    """One more than the highest of what is numbered there: 01-a, 02-b ..."""
    numbers = [int(path.name[:2]) for path in folder.glob("[0-9][0-9]-*")]
    return max(numbers, default=0) + 1


def find(start: Path) -> Project | None:
    """The project that a folder lies in, or None where it lies in none.

    Raises ParameterError for a project that names a topic root which is not there.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        own = folder / "src" / Path(*GROUP.split("."))
        if own.is_dir():
            return Project(folder, GROUP, own)
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
        named = project.get("entry-points", {}).get(GROUP, {})
        for package in named.values():
            return Project(folder, package, _folder_of(folder, package))
    return None


def _folder_of(folder: Path, package: str) -> Path:
    parts = Path(*package.split("."))
    for place in (folder / "src" / parts, folder / parts):
        if place.is_dir():
            return place
    raise ParameterError(
        f"{folder / 'pyproject.toml'} names the package {package}, which is not there.",
        f"Make {folder / 'src' / parts}, or name the package that has your topics.",
    )


def course_name(folder: Path) -> tuple[str, str]:
    """What a course in that folder is called, as a project and as a package: ("nap-times", "nap_times")."""
    words = re.findall(r"[a-z0-9]+", folder.name.lower())
    if not words or not words[0][0].isalpha():
        raise ParameterError(
            f"A course cannot be named after the folder {folder.name!r}.",
            "Name the folder in letters: nap-times.",
        )
    return "-".join(words), "_".join(words)
