"""Asking the reader for a prediction before the measurement, and holding it against the result.

    guess = predict("direct.pipe", "What does one hand-over cost?", unit="ns", low=100, high=100_000)
    guess                                                  # asks
    guess.reveal(switches, pipe.net_per_switch_ns)         # the figure, once the guess is made or declined

`guess.js` draws both, in JupyterLab as a widget and on a page of the book; a page keeps the guess in its
browser, and with the reader's server, where one serves it, in `sched_labs.core.store`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from ..core import store
from ..core.errors import ParameterError, SchedLabError
from ..core.progress import on_page
from ..draw.base import Figure
from ..draw.rulers import rulers
from ..explorables import modules
from .widgets import bundle

STYLE = Path(__file__).with_name("guess.css")
WORD = "word"  # the unit of a guess that is one of several words

# What is measured comes in these units, whatever the unit of the question.
_SIZES = {
    "ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9,
    "bytes": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3,
}  # fmt: skip


def in_unit(measured: float | None, unit: str) -> float | None:
    """What was measured, in the unit of a question; None where that is no number."""
    value = math.nan if measured is None else float(measured) / _SIZES.get(unit, 1.0)
    return value if math.isfinite(value) else None


class Question:
    """A question that a notebook shows as a form.  `.kept` is the reader's answer so far, or None."""

    def __init__(
        self,
        question_id: str,
        question: str,
        unit: str,
        *,
        low: float = 0,
        high: float = 0,
        choices: Sequence[str] = (),
    ) -> None:
        store.check_question(question_id)
        if not choices and not 0 < low < high < math.inf:
            raise ParameterError(
                f"A prediction cannot lie between {low} and {high}.",
                "Give finite numbers with 0 < low < high, or choices.",
            )
        if len(set(choices)) == 1:
            raise ParameterError("One choice is none.", "Give two or more.")
        self.id, self.question, self.unit = question_id, question, unit
        self.low, self.high, self.choices = low, high, list(choices)
        self.declined = False
        self._views: list[Any] = []

    @property
    def kept(self) -> dict[str, Any] | None:
        """{"value", "unit", "made_at"}, or None."""
        return store.predictions().get(self.id)

    @property
    def decided(self) -> bool:
        """Whether the reader has made a guess, or declined to."""
        return self.declined or self.kept is not None

    def told(self) -> dict[str, Any]:
        """The question as `guess.js` takes it."""
        about: dict[str, Any] = {"id": self.id, "text": self.question, "unit": self.unit}
        return about | ({"choices": self.choices} if self.choices else {"low": self.low, "high": self.high})

    def reveal(self, shown: Any, measured: float | str | None, **how: Any) -> Revealed:
        """The figure of `shown`, and the guess held against `measured`, once the reader has decided.

        shown      a result (its figure gets the guess as a mark, where it has an axis for it), a figure,
                   a function that draws one with the marks it is given, or None for no figure
        measured   what was asked: times in ns and sizes in bytes whatever the question's unit, other numbers
                   as they were asked for, or one of its words; None or NaN where the run cannot tell
        how        goes to `shown.plot`, such as recorded=
        """
        return Revealed(self, shown, measured, how)

    def html(self) -> str:
        """For a page, which `book/_static/sched-labs-predictions.js` brings to life.

        It shows no earlier answer: a page is the same for everybody who reads it.
        """
        return (
            f'<div class="sl-question" data-question="{escape(json.dumps(self.told()))}">'
            f"<p>{escape(self.question)}</p></div>"
        )

    def widget(self) -> Any:
        """For JupyterLab."""
        return self._view({})

    def _view(self, measured: dict[str, Any]) -> Any:
        view = _view_class()(question=self.told(), kept=self._standing(), measured=measured)
        view.observe(lambda change: self._decide(view, change["new"]["kept"]), "decided")
        self._views.append(view)
        return view

    def _standing(self) -> dict[str, Any] | None:
        return {"declined": True} if self.declined else self.kept

    def _decide(self, asked: Any, given: dict[str, Any] | None) -> None:
        asked.said = ""
        try:
            if given is None or given.get("declined"):
                store.drop_prediction(self.id)
            else:
                store.save_prediction(self.id, given["value"], self.unit)
        except SchedLabError as error:  # a callback's traceback would go where no reader looks
            asked.said = str(error)
            return
        self.declined = bool(given and given.get("declined"))
        for view in self._views:
            view.kept = self._standing()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(self.widget, self.html(), f"{self.question} [{self.unit}]")


class Revealed:
    """A figure under its question; see `Question.reveal`."""

    def __init__(self, question: Question, shown: Any, measured: Any, how: dict[str, Any]) -> None:
        if isinstance(measured, str) and measured not in question.choices:
            raise ParameterError(
                f"{measured!r} is no answer to {question.id}.", f"It asks for {', '.join(question.choices)}."
            )
        if getattr(shown, "stands_in", ""):
            how = {name: value for name, value in how.items() if name != "recorded"}  # it is that run
        self.question, self._shown, self._how = question, shown, how
        self.measured = measured if isinstance(measured, str) else in_unit(measured, question.unit)
        self.about = _about(shown, measured, question.unit) | {"measured": self.measured}

    def figure(self, marks: Sequence[dict[str, Any]] = ()) -> Any:
        """The figure, with these predictions in it where it has an axis for them."""
        if not hasattr(self._shown, "plot"):
            return self._shown(marks) if callable(self._shown) else self._shown
        if marks:
            with suppress(ParameterError):  # without such an axis the ruler shows the guess
                return self._shown.plot(**self._how, predictions=marks)
        return self._shown.plot(**self._how)

    @cached_property
    def _unmarked(self) -> Any:
        return self.figure()  # drawn once, for the page and for where the guess goes

    def _rulers(self) -> list[dict[str, Any]]:
        """Where the page may draw the guess in the figure; nowhere, where that has no axis for it."""
        question = self.question
        if question.choices or not (hasattr(self._shown, "plot") or callable(self._shown)):
            return []
        trial = math.sqrt(question.low * question.high)
        given = [{"value": trial, "unit": question.unit}]
        try:
            tried = (
                self._shown.plot(**self._how, predictions=given)
                if hasattr(self._shown, "plot")
                else self._shown(given)
            )
        except ParameterError:
            return []
        return rulers(self._unmarked, tried, trial) if isinstance(self._unmarked, Figure) else []

    def _figure_html(self, marks: Sequence[dict[str, Any]]) -> str:
        if self._shown is None:
            return ""
        return str((self.figure(marks) if marks else self._unmarked)._repr_html_())

    def html(self) -> str:
        """For a page: the same for everybody, for the page itself covers it and draws the guess."""
        about: dict[str, Any] = {"question": self.question.id, **self.about}
        marks = mark(self.question.id) if on_page() else []
        figure = self._figure_html(marks)
        if not marks and (places := self._rulers()):
            about["rulers"] = places
        return f'<div class="sl-reveal" data-reveal="{escape(json.dumps(about))}">{figure}</div>'

    def widget(self) -> Any:
        """For JupyterLab: the question again, and below it the figure once it is answered."""
        import ipywidgets

        view, below = self.question._view(self.about), ipywidgets.HTML()

        def show(_: Any = None) -> None:
            below.value = self._figure_html(mark(self.question.id)) if self.question.decided else ""

        view.observe(show, "kept")
        show()
        return ipywidgets.VBox([view, below])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(self.widget, self.html(), f"{self.question.question} {self.measured}")


def _about(shown: Any, measured: Any, unit: str) -> dict[str, Any]:
    """What a saved picture says besides the number: `run`, where it comes from, and its interval.

    `interval` is that of the number in the result's summary that equals it, where only one does; `ends` says
    what its two ends are.
    """
    from ..book.trust import estimates

    if not hasattr(shown, "provenance_line"):
        return {}
    about = {"run": ("Recorded elsewhere: " if shown.stands_in else "") + shown.provenance_line()}
    if isinstance(measured, str) or measured is None:
        return about
    with suppress(ParameterError):
        found = estimates(shown.summary())
        for size in (1, 100):  # a share is asked for in per cent
            ends = found.loc[found["median"] * size == measured, ["low", "high"]].drop_duplicates()
            if len(ends) == 1:
                about["interval"] = [in_unit(end * size, unit) for end in ends.to_numpy()[0]]
                about["ends"] = f"range of {few} trials" if (few := shown.few_trials) else "95 %"
                break
    return about


def predict(
    question_id: str,
    question: str,
    *,
    unit: str = WORD,
    low: float = 0,
    high: float = 0,
    choices: Sequence[str] = (),
) -> Question:
    """Ask the reader to commit to a number between low and high, or to one of several words.

    Asking blocks nothing.  Raises ParameterError for a range that holds no number.
    """
    return Question(question_id, question, unit, low=low, high=high, choices=choices)


def mark(*question_ids: str) -> list[dict[str, Any]]:
    """The reader's predictions for these questions, as `plot(predictions=...)` takes them."""
    kept = store.predictions()
    return [
        {"value": kept[name]["value"], "unit": kept[name]["unit"], "label": "your prediction"}
        for name in question_ids
        if name in kept and kept[name]["unit"] != WORD
    ]


def pick(result: Any, column: str, **where: Any) -> float:
    """The value of a column in the last row of a result's summary where all of these hold; NaN without one.

    A condition of None stands for rows without a value there.
    """
    table = result.summary()
    for name, wanted in where.items():
        table = table[table[name].isna() if wanted is None else table[name] == wanted]
    return float(table[column].iloc[-1]) if len(table) else math.nan


def larger(one: Sequence[float], other: Sequence[float], words: Sequence[str]) -> str | None:
    """Which of two intervals (low, high) lies above the other: a word for the first, the second, and neither.

    None where one of the intervals is not known.
    """
    if any(value is None or math.isnan(value) for value in (*one, *other)):
        return None
    return words[0] if one[0] > other[1] else words[1] if other[0] > one[1] else words[2]


def above_zero(value: float, low: float) -> float | None:
    """The value where its interval begins above zero; None for a difference that this run does not see."""
    return value if low > 0 else None


def above_floor(result: Any, column: str, **where: Any) -> float | None:
    """A difference as `pick` finds it; None where its interval does not begin above the run's noise floor."""
    stem, _, unit = column.rpartition("_")
    low = pick(result, f"{stem}_lo_{unit}", **where) - pick(result, f"floor_{unit}", **where)
    return above_zero(pick(result, column, **where), low)


def unless(against: str, value: Any) -> Any:
    """The value; None where something stands against it, as a guard of the claims says ("" is nothing)."""
    return None if against else value


def smallest(values: Mapping[str, float], alike: str, within: float) -> str:
    """The name of the smallest value, or `alike` where no two of them differ by more than `within`."""
    names = sorted(values, key=lambda name: values[name])
    return names[0] if values[names[-1]] - values[names[0]] > within else alike


_made: list[Any] = []


def _view_class() -> Any:
    """The anywidget of a question, made when it is first needed."""
    if not _made:
        import anywidget
        import traitlets

        def of_a_page(kind: Any, **given: Any) -> Any:
            return kind(**given).tag(sync=True)

        _made.append(
            type(
                "Guess",
                (anywidget.AnyWidget,),
                {
                    "_esm": modules.for_widget("guess", "picture"),
                    "_css": STYLE.read_text(encoding="utf-8"),
                    "question": of_a_page(traitlets.Dict),
                    "kept": of_a_page(traitlets.Dict, allow_none=True, default_value=None),
                    "measured": of_a_page(traitlets.Dict),
                    "said": of_a_page(traitlets.Unicode),
                    "decided": of_a_page(traitlets.Dict),
                },
            )
        )
    return _made[0]
