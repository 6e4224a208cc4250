"""Stands in for Jupyter Book where a test asks what is built when: its pages are the texts as they are."""

import sys
from pathlib import Path


def main() -> int:
    _, _, staged, _, work, *_ = sys.argv
    for source in Path(staged).rglob("*"):
        if source.suffix in (".md", ".ipynb"):
            page = Path(work, "_build/html", source.relative_to(staged)).with_suffix(".html")
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    Path(work, "_build/html/index.html").touch()
    return 0
