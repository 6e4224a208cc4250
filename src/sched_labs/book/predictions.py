"""The page that sets all of the reader's predictions against what was measured.

A page of the book holds no prediction: those are the reader's, in the browser or with the reader's server.
This lists the questions of all chapters with what this book's own runs answered; the page's script fills in
the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from typing import Any

from .chapters import Chapter, Checkout

_ASKED = re.compile(r'class="sl-question" data-question="([^"]*)"')
_ANSWERED = re.compile(r'class="sl-reveal" data-reveal="([^"]*)"')


@dataclass(frozen=True)
class Asked:
    """A question of a chapter, and what its answer says of itself (`reader.predictions.Revealed.about`)."""

    chapter: Chapter
    question: dict[str, Any]
    answer: dict[str, Any]

    @property
    def measured(self) -> float | str | None:
        """None where the chapter's run could not tell."""
        found: float | str | None = self.answer.get("measured")
        return found


def asked(book: Checkout, parts: Sequence[Chapter]) -> list[Asked]:
    """Every question of the measured chapters, in the order of the book."""
    found = []
    for part in parts:
        texts = list(_outputs(book, part))
        answers = [json.loads(unescape(said)) for text in texts for said in _ANSWERED.findall(text)]
        answered = {answer["question"]: answer for answer in answers}
        for text in texts:
            for said in _ASKED.findall(text):
                question = json.loads(unescape(said))
                found.append(Asked(part, question, answered.get(question["id"], {})))
    return found


def _outputs(book: Checkout, part: Chapter) -> Iterator[str]:
    import nbformat

    notebook = nbformat.read(book.measured / f"{part.name}.ipynb", as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield "".join(output.get("data", {}).get("text/html", ""))


def for_sheet(title: str, questions: Sequence[Asked]) -> str:
    """All of a chapter's numbers, which `sched-labs-sheet.js` lays out on one page."""
    known = ("measured", "interval", "ends", "run")
    numbers = [
        {"question": one.question, **{name: one.answer.get(name) for name in known}} for one in questions
    ]
    told = json.dumps({"title": title, "numbers": numbers}).replace("<", "\\u003c")
    return f'<script type="application/json" class="sl-sheet-data">{told}</script>' if numbers else ""


def table(questions: Sequence[Asked]) -> str:
    """The rows that `sched-labs-predictions.js` fills in."""
    rows = "".join(
        f'<tr data-question="{escape(json.dumps(one.question))}" '
        f'data-measured="{escape(json.dumps(one.measured))}">'
        f'<td><a href="../{one.chapter.name}.html">{escape(one.question["text"])}</a></td>'
        "<td></td><td></td><td></td></tr>"
        for one in questions
    )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("question", "guessed", "measured", "so it was")
    )
    return (
        '<p class="sl-predictions-said" role="status"></p>\n'
        f'<table class="sl-predictions"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )
