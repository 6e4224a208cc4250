"""Which chapters the book has, and where everything of the book lives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ..errors import SchedLabError


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


@dataclass(frozen=True)
class Chapter:
    """One notebook of the book; `name` is its path without suffix, such as `notebooks/01-context-switch`."""

    name: str
    source: Path


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
    """Return the notebooks in the order of the table of contents."""
    contents = yaml.safe_load((book.root / "_toc.yml").read_text(encoding="utf-8"))
    names = [name for name in _files(contents) if name.startswith("notebooks/")]
    return [Chapter(name, book.root / f"{name}.md") for name in names]


def _files(entry: Any) -> list[str]:
    if isinstance(entry, list):
        return [name for item in entry for name in _files(item)]
    if not isinstance(entry, dict):
        return []
    own = [entry["file"]] if "file" in entry else []
    return own + [name for key in ("parts", "chapters", "sections") for name in _files(entry.get(key))]
