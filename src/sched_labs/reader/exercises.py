"""Exercises inside a chapter: the reader works something out from the run above, and it is checked in place.

    exercise("How many hand-overs a second fill a CPU?", 1e9 / pipe.net_per_switch_ns,
             unit="a second", why="A second, divided by what one of them costs.")

`exercise.js` draws it, in JupyterLab as a widget and on a page of the book.  Nothing of it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from ..core.errors import ParameterError
from ..explorables import modules
from .predictions import STYLE, WORD, in_unit
from .widgets import bundle


class Exercise:
    """`.answer` is in the exercise's unit, or one of its words; None where the run cannot tell."""

    def __init__(
        self,
        question: str,
        answer: float | str | None,
        unit: str,
        choices: Sequence[str],
        why: str,
        within: float,
    ) -> None:
        if isinstance(answer, str) != bool(choices) and answer is not None:
            raise ParameterError(
                f"{answer!r} does not answer {question!r}.", "Give a number, or choices and a word."
            )
        if isinstance(answer, str) and answer not in choices:
            raise ParameterError(f"{answer!r} is no choice.", f"The choices are {', '.join(choices)}.")
        self.question, self.unit, self.choices, self.within = question, unit, list(choices), within
        self.answer = answer if isinstance(answer, str) else in_unit(answer, unit)
        self.why = "" if self.answer is None else why

    def told(self) -> dict[str, Any]:
        """The exercise as `exercise.js` takes it."""
        about: dict[str, Any] = {"text": self.question, "unit": self.unit, "answer": self.answer}
        about |= {"within": self.within, "why": self.why}
        return about | ({"choices": self.choices} if self.choices else {})

    def html(self) -> str:
        """For a page, whose script brings it to life."""
        about = escape(json.dumps(self.told()))
        return f'<div class="sl-exercise" data-exercise="{about}"><p>{escape(self.question)}</p></div>'

    def widget(self) -> Any:
        """For JupyterLab."""
        import anywidget
        import traitlets

        kind = type(
            "Exercise",
            (anywidget.AnyWidget,),
            {
                "_esm": modules.for_widget("exercise", "guess"),
                "_css": STYLE.read_text(encoding="utf-8"),
                "exercise": traitlets.Dict().tag(sync=True),
            },
        )
        return kind(exercise=self.told())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(self.widget, self.html(), f"{self.question} [{self.unit}]")


def exercise(
    question: str,
    answer: float | str | None,
    *,
    why: str,
    unit: str = WORD,
    choices: Sequence[str] = (),
    within: float = 0.05,
) -> Exercise:
    """Let the reader work out a number, or find the word among several.

    answer   times in ns and sizes in bytes whatever the unit, other numbers as they are asked for; None or
             NaN where the run cannot tell
    why      how one gets there, in a sentence or two; shown with the right answer
    within   which part of the answer a number may be off

    Raises ParameterError for an answer that is none of the choices.
    """
    return Exercise(question, answer, unit, choices, why, within)
