"""Which chapters the book has, and where everything of the book lives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ..core import registry
from ..core.errors import SchedLabError


@dataclass(frozen=True)
class Checkout:
    """The folders of one checkout of the book."""

    root: Path

    @property
    def build(self) -> Path:
        """Everything that is made lies here; deleting it loses nothing that cannot be made again."""
        return self.root / "_build"

    @property
    def measured(self) -> Path:
        """The chapters as they ran on this machine, outputs included."""
        return self.build / "measured"

    @property
    def html(self) -> Path:
        """The finished pages."""
        return self.build / "html"

    @property
    def for_instructors(self) -> Path:
        """The finished pages of the instructors' book: the same, with the notes on the labs."""
        return self.build / "instructors"


@dataclass(frozen=True)
class Chapter:
    """One notebook; `name` is its page's path without suffix, such as `notebooks/01-context-switch`.

    A course's text lies in the folder of its experiments, and its page among the book's own.
    """

    name: str
    source: Path

    @property
    def short(self) -> str:
        """The last part of its name."""
        return self.name.rpartition("/")[2]

    @property
    def title(self) -> str:
        """Its first heading."""
        text = self.source.read_text(encoding="utf-8") if self.source.is_file() else ""
        found = re.search(r"^# (.+)$", text, re.MULTILINE)
        return found[1] if found else self.short

    @property
    def notes(self) -> Path | None:
        """What a course tells instructors of it, in `instructor.md` beside the text; None without."""
        path = self.source.with_name("instructor.md")
        return path if path.is_file() else None


def checkout(root: Path | None = None) -> Checkout:
    """Return the checkout at `root`, or the one that this package was installed from."""
    candidate = (root or Path(__file__).parents[3]).resolve()
    if not (candidate / "_toc.yml").is_file():
        raise SchedLabError(
            f"There is no book in {candidate}: it has no _toc.yml.",
            "Run this inside a checkout of sched-labs, or give its folder with --root.",
        )
    return Checkout(candidate)


def chapters(book: Checkout) -> list[Chapter]:
    """Return the notebooks in the order of the table of contents, and then those of courses."""
    contents = yaml.safe_load((book.root / "_toc.yml").read_text(encoding="utf-8"))
    names = [name for name in _files(contents) if name.startswith("notebooks/")]
    own = [Chapter(name, book.root / f"{name}.md") for name in names]
    return own + [chapter for course in registry.courses() for chapter in course_chapters(course)]


def course_chapters(course: registry.Course) -> list[Chapter]:
    """The chapters of a course, by the names of their folders."""
    return [Chapter(f"notebooks/{text.parent.name}", text) for text in course.chapters]


def contents(book: Checkout) -> dict[str, Any]:
    """The table of contents as Sphinx reads it: the book's, in parts, and a part for each course."""
    made: dict[str, Any] = yaml.safe_load((book.root / "_toc.yml").read_text(encoding="utf-8"))
    if "parts" not in made:  # a book of one part, which the format writes without it
        made["parts"] = [{"caption": "Chapters", "chapters": made.pop("chapters", [])}]
    for course in registry.courses():
        parts = course_chapters(course)
        labs = [folder.name for folder in registry.labs() if course.folder in folder.parents]
        files = [part.name for part in parts]
        files += [f"labs/{name}/sheet" for name in labs]
        if files:
            made["parts"].append(
                {"caption": f"Course: {course.title}", "chapters": [{"file": name} for name in files]}
            )
    return made


def _files(entry: Any) -> list[str]:
    if isinstance(entry, list):
        return [name for item in entry for name in _files(item)]
    if not isinstance(entry, dict):
        return []
    own = [entry["file"]] if "file" in entry else []
    return own + [name for key in ("parts", "chapters", "sections") for name in _files(entry.get(key))]


def relink(text: str, parts: Sequence[Chapter]) -> str:
    """Turn links to a chapter's source (`01-a.md`) into links to the notebook that ran (`01-a.ipynb`).

    Those to a course's (`../naps/chapter.md`) lead to its page among the book's notebooks.
    """
    for chapter in parts:
        name = re.escape(chapter.short)
        text = re.sub(rf"(\]\((?:[^)\s]*/)?{name})\.md(?=[)#])", r"\1.ipynb", text)
        text = re.sub(rf"(\]\((?:\.\./)+){name}/chapter\.md(?=[)#])", rf"\1{chapter.name}.ipynb", text)
    return text
