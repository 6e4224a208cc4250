"""What a formula is: its inputs, its quantities, and the statements of the literature that it checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from ...core.errors import ParameterError

ADDS_UP, OFF, IMPOSSIBLE = "adds up", "does not add up", "cannot be"
SOURCES = {
    "000": "a web course on context switches",
    "002": "a web course on scheduler latency",
    "004": "a collection of switch benchmarks",
}


@dataclass(frozen=True)
class Input:
    """A number that goes into a formula: its name in code, in words, its unit, and where its slider ends."""

    name: str
    label: str
    unit: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Quantity:
    """A number that comes out; `most` is the value beyond which it cannot exist (100 % of all CPUs)."""

    name: str
    label: str
    unit: str
    most: float = math.inf


@dataclass(frozen=True)
class Case:
    """A statement: what it puts into the formula, and what it says comes out (`said` of the quantity `of`).

    `within` is how far apart the two may be, as a factor: round numbers are no mistake.
    """

    claim: str
    statement: str
    inputs: Mapping[str, float]
    of: str
    said: float
    within: float = 1.08

    @property
    def source(self) -> str:
        """Who says it: the first part of a claim's number."""
        return SOURCES[self.claim.partition("-")[0]]


@dataclass(frozen=True)
class Calculator:
    """One formula."""

    name: str
    title: str
    formula: str
    inputs: tuple[Input, ...]
    quantities: tuple[Quantity, ...]
    compute: Callable[..., tuple[float, ...]]
    literature: tuple[Case, ...]

    def values(self, **inputs: float) -> dict[str, float]:
        """The quantities by name, for these inputs; the others have their defaults.

        Raises ParameterError for an input that there is not, and for one that is negative or no number.
        """
        defaults = {each.name: each.value for each in self.inputs}
        if strange := sorted(set(inputs) - set(defaults)):
            raise ParameterError(
                f"{self.name} has no input {strange[0]!r}.", f"It has {', '.join(defaults)}."
            )
        for name, value in inputs.items():
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise ParameterError(f"{name} cannot be {value!r}.", "Give a number above 0.")
        results = self.compute(**(defaults | inputs))
        return {quantity.name: value for quantity, value in zip(self.quantities, results, strict=True)}

    def table(self, **inputs: float) -> pd.DataFrame:
        """Inputs and quantities in words: what, value, unit.  Raises ParameterError as `values` does."""
        found = self.values(**inputs)
        given = {each.name: each.value for each in self.inputs} | inputs
        rows = [(each.label, given[each.name], each.unit) for each in self.inputs]
        rows += [(each.label, found[each.name], each.unit) for each in self.quantities]
        return pd.DataFrame(rows, columns=["what", "value", "unit"])

    def cases(self) -> pd.DataFrame:
        """The literature's statements against the formula, one row each.

        Columns: claim, statement, quantity, said, computed, unit (of both), verdict (ADDS_UP, OFF, or
        IMPOSSIBLE where the formula asks for more than there is), factor (computed / said), source.
        """
        by_name = {quantity.name: quantity for quantity in self.quantities}
        rows = []
        for case in self.literature:
            quantity, computed = by_name[case.of], self.values(**case.inputs)[case.of]
            rows.append(
                {
                    "claim": case.claim,
                    "statement": case.statement,
                    "quantity": quantity.label,
                    "said": case.said,
                    "computed": computed,
                    "unit": quantity.unit,
                    "verdict": _verdict(case, computed, quantity.most),
                    "factor": computed / case.said,
                    "source": case.source,
                }
            )
        return pd.DataFrame(rows)

    def html(self, **inputs: float) -> str:
        """The formula with its numbers as a table, for a page."""
        given = {each.name: each.value for each in self.inputs} | inputs
        found = self.values(**inputs)
        rows = "".join(
            f"<tr><td>{escape(each.label)}</td><td>{number(given[each.name])} {escape(each.unit)}</td></tr>"
            for each in self.inputs
        )
        rows += "".join(
            f"<tr><td><strong>{escape(each.label)}</strong></td><td><strong>{number(found[each.name])} "
            f"{escape(each.unit)}</strong>{' (cannot be)' if found[each.name] > each.most else ''}</td></tr>"
            for each in self.quantities
        )
        return (
            f"<p><strong>{escape(self.title)}</strong>: {escape(self.formula)}</p>"
            f'<table><thead><tr><th scope="col">what</th><th scope="col">value</th></tr></thead>'
            f"<tbody>{rows}</tbody></table>"
        )

    def widget(self) -> Any:
        """Sliders for the inputs, on logarithmic scales, over the table that follows them."""
        import ipywidgets

        shown = ipywidgets.HTML(self.html())
        sliders = {
            each.name: ipywidgets.FloatLogSlider(
                value=each.value,
                min=math.log10(each.low),
                max=math.log10(each.high),
                step=0.005,
                description=f"{each.label} [{each.unit}]" if each.unit else each.label,
                readout=False,  # it would write 3.1e+5; the table says 312,000
                style={"description_width": "22em"},
                layout=ipywidgets.Layout(width="46em", max_width="100%"),
            )
            for each in self.inputs
        }

        def again(_: Any) -> None:
            shown.value = self.html(**{name: slider.value for name, slider in sliders.items()})

        for slider in sliders.values():
            slider.observe(again, names="value")
        return ipywidgets.VBox([*sliders.values(), shown])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # JupyterLab takes the widget, a page takes the table.
        bundle = self.widget()._repr_mimebundle_()
        data: dict[str, Any] = dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
        return data | {"text/html": self.html(), "text/plain": self.table().to_string(index=False)}


def _verdict(case: Case, computed: float, most: float) -> str:
    factor = computed / case.said
    if 1 / case.within <= factor <= case.within:
        return ADDS_UP
    return IMPOSSIBLE if computed > most else OFF


def number(value: float) -> str:
    """Three significant digits, commas between thousands, no exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
