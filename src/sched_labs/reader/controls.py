"""Measuring again with something else chosen: a small form beside an experiment.

In JupyterLab the form is made of ipywidgets: a list for each parameter that is worth playing with, and a
button that measures.  A page whose cells run gets the same as plain HTML.  A page that was built cannot
measure; there the same place says what could be chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any
from xml.sax.saxutils import quoteattr

from ..core.errors import ParameterError, SchedLabError
from ..core.progress import on_page
from ..core.result import Result
from . import tried
from .widgets import bundle, form

# A parameter's choices: the values, or a word for each value that would be long to read.
Choices = Sequence[Any] | Mapping[str, Any]


class Controls:
    """A form that runs an experiment with the values chosen; `.result` is what it measured last, or None."""

    def __init__(self, experiment: Callable[..., Result], choices: Mapping[str, Choices]) -> None:
        name = str(getattr(experiment, "name", "this experiment"))
        if not choices:
            raise ParameterError(
                f"{name} was given nothing to choose from.", "Name a parameter and its values."
            )
        known = getattr(experiment, "parameters", None)
        self.name, self._experiment = name, experiment
        self._choices: dict[str, dict[str, Any]] = {}
        for parameter, given in choices.items():
            if known is not None and parameter not in known:
                raise ParameterError(
                    f"{name} has no parameter {parameter!r}.", f"It has: {', '.join(known)}."
                )
            words = dict(given) if isinstance(given, Mapping) else {str(value): value for value in given}
            if not words:
                raise ParameterError(
                    f"There is nothing to choose for {parameter}.", "Give at least one value."
                )
            self._choices[parameter] = words
        self.result: Result | None = None

    def measure(self, *, show: bool = False, **words: str) -> Result:
        """Run the experiment with the values behind these words; the first of each where none is named.

        show: its progress too, wherever progress is shown.
        Raises ParameterError for a word that is not among the choices, and what the experiment raises.
        """
        if unknown := set(words) - set(self._choices):
            raise ParameterError(
                f"{min(unknown)!r} is not among these controls.", f"There are: {', '.join(self._choices)}."
            )
        chosen = {}
        for parameter, values in self._choices.items():
            word = words.get(parameter, next(iter(values)))
            if word not in values:
                raise ParameterError(
                    f"{parameter} cannot be {word!r} here.", f"Choose one of: {', '.join(values)}."
                )
            chosen[parameter] = values[word]
        self.result = self._experiment(progress=show, **chosen)
        return self.result

    def widget(self) -> Any:
        """The form as ipywidgets: a list per parameter, a button, and room for the figure."""
        import ipywidgets

        lists = {
            parameter: ipywidgets.Dropdown(
                options=list(values),
                description=_words(parameter, values),
                style={"description_width": "initial"},
            )
            for parameter, values in self._choices.items()
        }
        button = ipywidgets.Button(description="Measure again", tooltip=f"Run {self.name} with these values")
        figures = ipywidgets.VBox()

        def measure(_: Any) -> None:
            words = {parameter: form.value for parameter, form in lists.items()}
            chosen = escape(", ".join(f"{_words(parameter)}: {word}" for parameter, word in words.items()))
            figure = ipywidgets.HTML("<p>Measuring…</p>")
            figures.children = (figure, *figures.children)  # runs stay, the newest first
            button.disabled = True
            try:
                result = self.measure(**words)
                notes = "".join(
                    f"<li>{escape(note.level)}: {escape(note.text)}</li>" for note in result.notes
                )
                shown = result.plot()._repr_html_() + (f"<ul>{notes}</ul>" if notes else "")
                figure.value = f"<p>{chosen}</p>{shown}"
            except SchedLabError as error:  # a callback's traceback would go where no reader looks
                figure.value = f"<p>{escape(str(error))}</p>"
            finally:
                button.disabled = False

        button.on_click(measure)
        return ipywidgets.VBox([ipywidgets.HBox([*lists.values(), button]), figures])

    def form(self) -> str:
        """The form for a page whose cells run."""
        fields = "".join(
            f"<label>{escape(_words(parameter, values))} <select name={quoteattr(parameter)}>"
            + "".join(f"<option>{escape(word)}</option>" for word in values)
            + "</select></label>"
            for parameter, values in self._choices.items()
        )

        def measure(**words: str) -> Any:
            return self.measure(show=True, **words).plot()

        return form(measure, fields, "Measure again")

    def html(self) -> str:
        """What a page says that cannot measure."""
        rows = "".join(
            f"<li>{escape(_words(parameter, values))}: {escape('; '.join(values))}</li>"
            for parameter, values in self._choices.items()
        )
        return (
            '<div class="sl-controls"><p>Where this page runs on your machine, this cell becomes a form that '
            f"measures again with other values:</p><ul>{rows}</ul>{self._tried()}</div>"
        )

    def _tried(self) -> str:
        """Runs with some of these values that ship with the book, each a click away."""
        found = [
            (", ".join(f"{_words(name, [word])}: {word}" for name, word in words.items()), figure)
            for words, figure in tried.figures(self.name)
            if all(word in self._choices.get(name, {}) for name, word in words.items())
        ]
        if not found:
            return "<p>No run with other values ships with the book.</p>"
        folds = "".join(
            f'<details class="sl-fold"><summary>{escape(words)}</summary>{figure}</details>'
            for words, figure in found
        )
        return f"<p>Some were recorded before, on the machine that each figure names:</p>{folds}"

    def __repr__(self) -> str:
        parts = (f"{parameter}: {', '.join(values)}" for parameter, values in self._choices.items())
        return f"{self.name} can be measured again with other values. {'; '.join(parts)}."

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(self.widget, self.form() if on_page() else self.html(), repr(self))


_UNITS = {"bytes": "bytes", "ns": "ns", "us": "µs", "ms": "ms", "s": "s", "percent": "%"}


def _words(parameter: str, values: Iterable[str] = ()) -> str:
    """working_sets_bytes -> "working sets"; burst_us -> "burst (µs)" where the values are bare numbers."""
    name, _, unit = parameter.rpartition("_")
    if not name or unit not in _UNITS or name.endswith("_per"):
        return parameter.replace("_", " ")
    bare = [value for value in values if re.fullmatch(r"[\d.,]+", value)]
    return name.replace("_", " ") + (f" ({_UNITS[unit]})" if bare else "")


def controls(experiment: Callable[..., Result], **choices: Choices) -> Controls:
    """Let the reader choose among values of an experiment's parameters, and measure again.

    choices   for each parameter the values, or a mapping from a word to a value; the first is chosen at first

    Raises ParameterError for a parameter that the experiment does not have.
    """
    return Controls(experiment, choices)
