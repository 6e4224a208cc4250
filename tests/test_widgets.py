"""Questions: the form on a page, the form in JupyterLab, and what is kept when the reader answers."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import ipywidgets
import pytest

from sched_labs import store
from sched_labs.errors import ParameterError
from sched_labs.widgets import Question, mark, predict


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def asked(question_id: str = "warmup.peak", low: float = 1, high: float = 1e6) -> Question:
    return predict(question_id, "How long?", unit="ns", low=low, high=high)


class Page(HTMLParser):
    """The elements of a page as (tag, attributes), and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def one(self, tag: str) -> dict[str, str | None]:
        found = [attributes for name, attributes in self.tags if name == tag]
        assert len(found) == 1, (tag, found)
        return found[0]


def parts(
    question: Question,
) -> tuple[ipywidgets.BoundedFloatText, ipywidgets.Button, ipywidgets.Label]:
    number, button, said = question.widget().children[1].children
    return number, button, said


def test_the_form_on_a_page_has_a_label_and_its_limits() -> None:
    page = Page(asked(low=0.5, high=2e6).html())
    field, form = page.one("input"), page.one("form")
    assert field["id"] and page.one("label")["for"] == field["id"]
    assert (float(field["min"] or 0), float(field["max"] or 0)) == (0.5, 2e6)
    assert field["type"] == "number" and field["step"] == "any" and "required" in field
    assert form["class"] == "predict" and form["data-question"] == "warmup.peak" and form["data-unit"] == "ns"
    assert page.one("button")["type"] == "submit" and page.one("output") == {}
    assert "How long?" in page.text and " ns " in page.text


def test_limits_on_a_page_are_those_that_were_given() -> None:
    field = Page(asked(low=1234567.5, high=123456789).html()).one("input")
    assert (float(field["min"] or 0), float(field["max"] or 0)) == (1234567.5, 123456789)


def test_the_form_on_a_page_is_escaped() -> None:
    odd = 'a"><script>alert(1)</script>'
    page = Page(predict("direct.pipe", odd, unit=odd, low=1, high=2).html())
    assert [tag for tag, _ in page.tags] == ["form", "label", "input", "button", "output"]
    form = page.one("form")
    assert form["data-question"] == "direct.pipe" and form["data-unit"] == odd
    assert page.one("label")["for"] == page.one("input")["id"] == "predict-direct.pipe"
    assert odd in page.text


def test_a_page_is_the_same_before_and_after_an_answer() -> None:
    question = asked()
    before = question.html()
    store.save_prediction(question.id, 4321, "ns")
    assert question.html() == before and "4321" not in before


def test_a_notebook_gets_the_widget_and_the_page_gets_the_form() -> None:
    question = asked()
    bundle = question._repr_mimebundle_()
    assert bundle["text/html"] == question.html()
    assert re.fullmatch(r"[0-9a-f]{32}", bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
    assert bundle["text/plain"] == "How long? [ns]"
    assert asked().kept is None  # showing a form answers nothing


def test_the_button_keeps_the_answer_and_says_so() -> None:
    question = asked()
    number, button, said = parts(question)
    assert question.kept is None and said.value == ""
    assert number.min == 1 and number.max == 1e6 and number.min <= number.value <= number.max
    number.value = 2500
    button.click()
    kept = store.predictions()["warmup.peak"]
    assert (kept["value"], kept["unit"]) == (2500, "ns") and question.kept == kept
    assert "2,500 ns" in said.value
    number.value = 2600
    button.click()
    assert store.predictions()["warmup.peak"]["value"] == 2600
    again, _, remembered = parts(asked())
    assert again.value == 2600 and "2,600 ns" in remembered.value


def test_a_number_outside_the_range_is_moved_to_its_edge() -> None:
    number, button, _ = parts(asked(high=100))
    number.value = 1e9
    button.click()
    assert store.predictions()["warmup.peak"]["value"] == 100


def test_an_answer_that_cannot_be_kept_is_said_beside_the_button(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, button, said = parts(asked())
    (own_folder / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(own_folder / "file"))
    button.click()
    assert "Cannot" in said.value and "file" in said.value and "Kept" not in said.value


def test_a_figure_gets_a_mark_only_for_what_was_answered() -> None:
    question = asked()
    assert mark(question.id) == [] and mark() == []
    _, button, _ = parts(question)
    assert mark(question.id) == []
    button.click()
    store.save_prediction("other", 5, "percent")
    value = store.predictions()[question.id]["value"]
    assert mark(question.id) == [{"value": value, "unit": "ns", "label": "your prediction"}]
    assert [entry["value"] for entry in mark("other", "never.asked", question.id)] == [5, value]


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-1, 1), (2, 1), (1, 1), (float("nan"), 1), (1, float("nan")), (1, float("inf"))],
)
def test_a_range_without_a_number_is_refused(low: float, high: float) -> None:
    with pytest.raises(ParameterError, match="cannot lie between"):
        asked(low=low, high=high)
