"""Asking the reader for a prediction before the measurement, and finding it again for the figure.

In JupyterLab the question is a small form of ipywidgets; on a page of the book it is a plain HTML form, which
`book/_static/sched-labs.js` keeps.  Both write to the same place, `sched_labs.store`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from html import escape
from typing import Any

from . import store
from .errors import ParameterError, SchedLabError

# What the forms on a live page call, by the number that each form carries.
_FORMS: dict[int, Callable[..., Any]] = {}


def form(call: Callable[..., Any], fields: str, press: str) -> str:
    """A plain form for a page of the book whose cells run: what ipywidgets are in JupyterLab.

    fields   its inputs as HTML; each has a name
    press    what its button says

    `book/_static/sched-labs-live.js` has the kernel call `call(**{name: text})` and shows what it returns.
    """
    number = len(_FORMS) + 1
    _FORMS[number] = call
    return (
        f'<form class="sl-form" data-form="{number}">{fields}'
        f'<button type="submit" class="sl-run">{escape(press)}</button></form><div class="sl-answer"></div>'
    )


def answer(number: int, given: str) -> Any:
    """What form `number` answers to its fields, a JSON object of texts.  Only pages call this."""
    return _FORMS[number](**json.loads(given))


class Question:
    """A question that a notebook shows as a form.  `.kept` is the reader's answer so far, or None."""

    def __init__(self, question_id: str, question: str, unit: str, low: float, high: float) -> None:
        store.check_question(question_id)
        if not 0 < low < high < math.inf:
            raise ParameterError(
                f"A prediction cannot lie between {low} and {high}.",
                "Give finite numbers with 0 < low < high.",
            )
        self.id, self.question, self.unit, self.low, self.high = question_id, question, unit, low, high

    @property
    def kept(self) -> dict[str, Any] | None:
        """{"value", "unit", "made_at"}, or None."""
        return store.predictions().get(self.id)

    def html(self) -> str:
        """The plain form.  It shows no earlier answer: a page is the same for everybody who reads it."""
        name = escape(f"predict-{self.id}", quote=True)
        return (
            f'<form class="predict" data-question="{escape(self.id, quote=True)}" '
            f'data-unit="{escape(self.unit, quote=True)}">'
            f'<label for="{name}">{escape(self.question)}</label> '
            f'<input id="{name}" type="number" min="{self.low:.15g}" max="{self.high:.15g}" step="any" '
            f'inputmode="decimal" required> {escape(self.unit)} '
            '<button type="submit">Keep my prediction</button> <output></output></form>'
        )

    def widget(self) -> Any:
        """The form as ipywidgets: a number, a button, and what was kept."""
        import ipywidgets

        before = self.kept
        start = before["value"] if before else math.sqrt(self.low * self.high)
        number = ipywidgets.BoundedFloatText(value=start, min=self.low, max=self.high, description=self.unit)
        button = ipywidgets.Button(description="Keep my prediction")
        said = ipywidgets.Label(f"You predicted {before['value']:,g} {before['unit']}." if before else "")

        def keep(_: Any) -> None:
            try:
                kept = store.save_prediction(self.id, number.value, self.unit)
            except SchedLabError as error:  # a callback's traceback would go where no reader looks
                said.value = str(error)
                return
            said.value = f"Kept: {kept['value']:,g} {kept['unit']}. The next figure shows it."

        button.on_click(keep)
        return ipywidgets.VBox([ipywidgets.Label(self.question), ipywidgets.HBox([number, button, said])])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # JupyterLab takes the widget, a page takes the HTML: each shows the richest of these that it knows.
        bundle = self.widget()._repr_mimebundle_()
        data: dict[str, Any] = dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
        return data | {"text/html": self.html(), "text/plain": f"{self.question} [{self.unit}]"}


def predict(question_id: str, question: str, *, unit: str, low: float, high: float) -> Question:
    """Ask the reader to commit to a number between low and high; asking blocks nothing.

    Raises ParameterError for a range that holds no number.
    """
    return Question(question_id, question, unit, low, high)


def mark(*question_ids: str) -> list[dict[str, Any]]:
    """The reader's predictions for these questions, as `plot(predictions=...)` takes them."""
    kept = store.predictions()
    return [
        {"value": kept[name]["value"], "unit": kept[name]["unit"], "label": "your prediction"}
        for name in question_ids
        if name in kept
    ]
