"""Questions and answers: what a page gets, what JupyterLab gets, and what is kept."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from sched_labs.core import store
from sched_labs.core.errors import ParameterError
from sched_labs.explorables import modules
from sched_labs.reader import exercises, predictions
from sched_labs.reader.predictions import Question, mark, pick, predict


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def asked(question_id: str = "warmup.peak", low: float = 1, high: float = 1e6) -> Question:
    return predict(question_id, "How long?", unit="ns", low=low, high=high)


def words(question_id: str = "where") -> Question:
    return predict(question_id, "Where?", choices=["here", "there"])


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


class Figure:
    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return f"<figure>{self.text}</figure>"


class Result:
    """Draws itself, with a mark where its axis is of that unit."""

    def __init__(self, units: tuple[str, ...] = ("ns",)) -> None:
        self.units = units

    def plot(self, *, recorded: Any = None, predictions: Any = ()) -> Figure:
        for prediction in predictions:
            if prediction["unit"] not in self.units:
                raise ParameterError("no such axis")
        return Figure(f"recorded {recorded}, marks {[p['value'] for p in predictions]}")


# ---- what a page gets ----


def test_a_page_gets_the_question_and_no_answer_of_anybody() -> None:
    odd = 'a"><script>alert(1)</script>'
    question = predict("direct.pipe", odd, unit=odd, low=1, high=2)
    page = Page(question.html())
    assert [tag for tag, _ in page.tags] == ["div", "p"] and page.text == odd
    told = json.loads(page.tags[0][1]["data-question"] or "")
    assert told == {"id": "direct.pipe", "text": odd, "unit": odd, "low": 1, "high": 2}
    before = question.html()
    store.save_prediction(question.id, 4321, "ns")
    assert question.html() == before


def test_words_are_asked_without_limits() -> None:
    told = json.loads(Page(words().html()).tags[0][1]["data-question"] or "")
    assert told["choices"] == ["here", "there"] and told["unit"] == "word" and "low" not in told


@pytest.mark.parametrize(
    ("unit", "given", "shown"),
    [
        ("ns", 1500, 1500), ("µs", 1500, 1.5), ("KiB", 2048, 2), ("%", 40, 40), ("ns", math.nan, None),
        ("ms", None, None),
    ],
)  # fmt: skip
def test_an_answer_is_in_the_unit_of_its_question(
    unit: str, given: float | None, shown: float | None
) -> None:
    question = predict("q", "?", unit=unit, low=1, high=100)
    page = Page(question.reveal(Result(), given).html())
    assert json.loads(page.tags[0][1]["data-reveal"] or "") == {"question": "q", "measured": shown}
    assert page.text == "recorded None, marks []"


def test_a_built_page_has_the_figure_without_marks_and_a_live_one_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = asked()
    store.save_prediction(question.id, 70, "ns")
    shown = question.reveal(Result(), 50, recorded="pale")
    assert "recorded pale, marks []" in shown.html()
    monkeypatch.setenv("SCHED_LABS_PAGE", "1")
    assert "recorded pale, marks [70.0]" in shown.html()
    assert set(shown._repr_mimebundle_()) == {"text/html", "text/plain"}


def test_what_can_be_revealed() -> None:
    question = asked()
    assert "<figure>drawn</figure>" in question.reveal(Figure("drawn"), 1).html()
    assert "[]" in question.reveal(lambda marks: Figure(str(list(marks))), 1).html()
    assert Page(words().reveal(None, "there").html()).text == ""
    with pytest.raises(ParameterError, match="no answer to where"):
        words().reveal(None, "nowhere")


# ---- in JupyterLab ----


def test_a_notebook_gets_the_widget_and_the_page_gets_the_question() -> None:
    bundle = asked()._repr_mimebundle_()
    assert bundle["text/html"] == asked().html()
    assert re.fullmatch(r"[0-9a-f]{32}", bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
    assert asked().kept is None  # showing a form answers nothing


def test_the_figure_is_covered_until_the_guess_is_made() -> None:
    question = asked()
    view, revealed = question.widget(), question.reveal(Result(), 50).widget()
    below = revealed.children[1]
    assert view.kept is None and below.value == ""
    view.decided = {"kept": {"value": 2500, "unit": "ns"}, "count": 1}
    kept = store.predictions()["warmup.peak"]
    assert (kept["value"], kept["unit"]) == (2500, "ns") and question.kept == kept
    assert view.kept == kept and revealed.children[0].kept == kept
    assert revealed.children[0].measured == {"measured": 50}
    assert "marks [2500.0]" in below.value
    view.decided = {"kept": None, "count": 2}
    assert below.value == "" and question.kept is None and store.predictions() == {}


def test_a_reader_may_decline() -> None:
    question = asked()
    revealed = question.reveal(Result(), 50).widget()
    revealed.children[0].decided = {"kept": {"declined": True}, "count": 1}
    assert revealed.children[1].value and question.decided and question.kept is None


def test_a_guess_that_was_made_before_uncovers_at_once() -> None:
    store.save_prediction("where", "here", "word")
    revealed = words().reveal(Result(("word",)), "there").widget()
    assert revealed.children[0].kept["value"] == "here" and "marks []" in revealed.children[1].value


def test_a_figure_without_an_axis_for_the_guess_is_drawn_without() -> None:
    store.save_prediction("warmup.peak", 5, "ns")
    assert "marks []" in asked().reveal(Result(units=()), 50).widget().children[1].value


def test_an_answer_that_cannot_be_kept_is_said(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = asked().widget()
    (own_folder / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(own_folder / "file"))
    view.decided = {"kept": {"value": 1, "unit": "ns"}, "count": 1}
    assert "Cannot" in view.said and "file" in view.said and view.kept is None


# ---- beside it ----


def test_a_figure_gets_a_mark_only_for_numbers_that_were_guessed() -> None:
    assert mark("warmup.peak") == [] and mark() == []
    store.save_prediction("other", 5, "percent")
    store.save_prediction("where", "here", "word")
    assert mark("other", "never.asked", "where") == [
        {"value": 5, "unit": "percent", "label": "your prediction"}
    ]


@pytest.mark.parametrize("value", [1, "", "a" * 65, "two\nlines", None])
def test_what_is_no_word_is_not_kept(value: Any) -> None:
    with pytest.raises(ParameterError):
        store.save_prediction("where", value, "word")
    assert store.predictions() == {}


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-1, 1), (2, 1), (1, 1), (float("nan"), 1), (1, float("nan")), (1, float("inf"))],
)
def test_a_range_without_a_number_is_refused(low: float, high: float) -> None:
    with pytest.raises(ParameterError, match="cannot lie between"):
        asked(low=low, high=high)
    with pytest.raises(ParameterError, match="One choice"):
        predict("q", "?", choices=["only"])


def test_a_value_is_picked_where_there_is_one() -> None:
    table = pd.DataFrame({"by": ["a", "a", "b"], "slice_ns": [1.0, None, 3.0], "p50_ns": [10.0, 20.0, 30.0]})
    result = SimpleNamespace(summary=lambda: table)
    assert pick(result, "p50_ns") == 30 and pick(result, "p50_ns", by="a") == 20
    assert pick(result, "p50_ns", by="a", slice_ns=1) == 10
    assert pick(result, "p50_ns", slice_ns=None) == 20
    assert math.isnan(pick(result, "p50_ns", by="c"))


# ---- what the script says ----


@pytest.fixture(scope="module")
def empty(browser: Any) -> Any:
    """An empty page that knows the modules."""
    page = browser.new_page()
    page.set_content("<!doctype html><title>empty</title>")
    page.add_script_tag(content=modules.for_pages())
    yield page
    page.close()


@pytest.mark.parametrize(
    ("guess", "measured", "unit", "way", "text"),
    [
        (10_000, 1500, "ns", 1, "seven times too high"), (10, 40, "ms", -1, "four times too low"),
        (100, 105, "ns", 0, "close to it"), (130, 100, "ns", 1, "30 % too high"),
        (20, 99, "%", -1, "79 points too low"), (98, 99, "%", 0, "close to it"),
        (5, 0, "moves", 1, "too high"), (5, 5, "moves", 0, "right"), ("here", "here", "word", 0, "right"),
        ("here", "there", "word", 0, "it was there"),
    ],
)  # fmt: skip
def test_a_guess_is_compared_in_words(
    empty: Any, guess: Any, measured: Any, unit: str, way: int, text: str
) -> None:
    said = empty.evaluate("([g, m, u]) => schedLabsModules.guess.compared(g, m, u)", [guess, measured, unit])
    assert (said["way"], said["text"]) == (way, text)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (10_000, "ns", "10 µs"), (0.5, "ms", "500 µs"), (1509, "ns", "1.51 µs"),
        (8000, "switches", "8,000 switches"), (2048, "KiB", "2 MiB"), (0, "ns", "0 ns"),
        ("here", "word", "here"),
    ],
)  # fmt: skip
def test_numbers_are_said_in_short_units(empty: Any, value: Any, unit: str, text: str) -> None:
    assert empty.evaluate("([v, u]) => schedLabsModules.guess.words(v, u)", [value, unit]) == text


def test_a_slider_shows_no_number_before_it_is_moved(empty: Any) -> None:
    empty.evaluate(
        """question => {
            const host = document.createElement("div");
            document.body.replaceChildren(host);
            window.told = [];
            schedLabsModules.guess.mount(host, question, { kept: null }, (kept) => told.push(kept));
        }""",
        asked(low=10, high=100_000).told(),
    )
    slider, keep = (
        empty.get_by_role("slider", name="How long?"),
        empty.get_by_role("button", name="That is my guess"),
    )
    assert empty.locator("output").inner_text() == "move the slider" and keep.is_disabled()
    assert slider.get_attribute("aria-valuetext") == "no guess yet"
    slider.focus()
    empty.keyboard.press("End")
    assert empty.locator("output").inner_text() == "100 µs"
    for _ in range(50):
        empty.keyboard.press("ArrowLeft")
    assert empty.locator("output").inner_text() == "10 µs"
    keep.click()
    assert empty.evaluate("told") == [{"value": 10_000, "unit": "ns"}]


def test_jupyterlab_runs_the_same_module(empty: Any) -> None:
    """As anywidget does: a module of its own, a model, an element."""
    empty.evaluate(
        """async ([text, question]) => {
            const module = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
            const measured = { measured: 50 };
            const heard = {}, state = { question, kept: null, measured, said: "", decided: {} };
            window.model = {
                get: (name) => state[name],
                set: (name, value) => { state[name] = value; },
                save_changes: () => { state.kept = state.decided.kept; heard["change:kept"](); },
                on: (name, call) => { heard[name] = call; },
            };
            const el = document.createElement("div");
            document.body.replaceChildren(el);
            module.default.render({ model, el });
        }""",
        [modules.for_widget("guess", "picture"), asked(low=10, high=100_000).told()],
    )
    assert empty.get_by_text("Measured").count() == 0
    empty.get_by_role("slider", name="How long?").press("End")
    empty.get_by_role("button", name="That is my guess").click()
    empty.get_by_text("You guessed 100 µs: 2,000 times too high. Measured: 50 ns.").wait_for()


# ---- what is saved as a picture ----

LONG = (
    "From losing the CPU to having it again, beside seven others who never sleep: how long, for half of them?"
)


def numbered(count: int, **more: Any) -> list[dict[str, Any]]:
    """Made-up numbers of a chapter, each guessed; nobody measured them."""
    one = {
        "question": {"id": "made.up", "text": LONG, "unit": "ns", "low": 1, "high": 1e6},
        "kept": {"value": 10_000, "unit": "ns"}, "measured": 1500, "interval": [1400, 1600], "ends": "95 %",
        "run": f"Somebody's machine with a very long name, and what else there is to say of it: {LONG}",
    }  # fmt: skip
    return [one | more | {"measured": 1500 + n} for n in range(count)]


INSIDE = """([what, given]) => {
    const host = document.createElement("div");
    document.body.replaceChildren(host);
    const { guess, picture } = schedLabsModules, drawing = picture.drawing(guess);
    host.innerHTML = what === "card" ? drawing.card(given) : drawing.sheet("A chapter", given);
    const svg = host.querySelector("svg"), { width, height } = svg.viewBox.baseVal;
    const outside = [...svg.querySelectorAll("text")].filter((text) => {
        const box = text.getBBox();
        return box.x < 0 || box.y < 0 || box.x + box.width > width || box.y + box.height > height;
    });
    return [svg.textContent, svg.getAttribute("aria-label"), outside.map((text) => text.textContent)];
}"""


@pytest.mark.parametrize("measured", [1500, None, "somewhere that takes a great many words to be told of"])
def test_a_card_says_what_was_guessed_and_measured_and_fits(empty: Any, measured: Any) -> None:
    one = numbered(1)[0] | {"measured": measured}
    if isinstance(measured, str):
        one["question"] |= {"unit": "word", "choices": [measured, "here"]}
        one |= {"kept": {"value": "here", "unit": "word"}, "interval": None}
    said, label, outside = empty.evaluate(INSIDE, ["card", one])
    assert outside == []
    assert ("here" if isinstance(measured, str) else "10 µs") in said and LONG in label
    assert {1500: "1.5 µs", None: "cannot tell"}.get(measured, measured) in said
    if measured == 1500:
        assert "seven times too high" in said and "1.4 µs to 1.6 µs (95 %)" in said


@pytest.mark.parametrize("count", [1, 8, 24])
def test_a_sheet_is_one_page_however_many_numbers_there_are(empty: Any, count: int) -> None:
    _, label, outside = empty.evaluate(INSIDE, ["sheet", numbered(count)])
    assert outside == [] and label.count(LONG) == count + 1  # the source is named once


def test_a_sheet_keeps_a_number_covered_until_its_guess_is_made(empty: Any) -> None:
    said, label, _ = empty.evaluate(INSIDE, ["sheet", numbered(1, kept=None)])
    assert "No guess yet" in said and "1.5" not in said + label and "Somebody" not in said + label
    said, _, _ = empty.evaluate(INSIDE, ["sheet", numbered(1, kept={"declined": True})])
    assert "No guess made" in said and "1.5 µs" in said


def test_pictures_have_the_colours_of_figures() -> None:
    from sched_labs.draw import style

    colours = dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', modules.source("picture")))
    assert colours == {name: style.PALETTE[name].light for name in colours} and len(colours) == 5


def test_a_card_is_saved_as_a_png_that_is_not_empty(empty: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    empty.evaluate(
        """one => {
            const { guess, picture } = schedLabsModules, host = document.createElement("div");
            document.body.replaceChildren(host);
            guess.mount(host, one.question, { ...one, picture }, () => {});
        }""",
        numbered(1)[0],
    )
    with empty.expect_download() as saved:
        empty.get_by_role("button", name="Save as a picture").click()
    assert saved.value.suggested_filename == "guess-made-up.png"
    saved.value.save_as(tmp_path / "card.png")
    with image.open(tmp_path / "card.png") as card:
        colours = card.convert("RGB").getcolors(1 << 24)
        assert card.width == 1200 and 500 < card.height < 1000
        ink = sum(count for count, colour in colours if sum(colour) < 200)
    assert 0.01 < ink / (card.width * card.height) < 0.3


def test_an_answer_knows_its_interval_and_its_run() -> None:
    table = pd.DataFrame(
        {"n": [1, 2], "cost_ns": [1500.0, 7.0], "cost_lo_ns": [1e3, 6.0], "cost_hi_ns": [2e3, 8.0]}
    )

    class Run(Result):
        def __init__(self, trials: int, stands_in: str) -> None:
            super().__init__()
            self.few_trials, self.stands_in = (trials if trials < 6 else 0), stands_in

        def summary(self) -> pd.DataFrame:
            return table

        def provenance_line(self) -> str:
            return "here"

    question = predict("q", "?", unit="µs", low=1, high=1e3)
    assert question.reveal(Run(6, ""), 1500.0).about == {
        "run": "here",
        "interval": [1, 2],
        "ends": "95 %",
        "measured": 1.5,
    }
    about = question.reveal(Run(3, "no such thing here"), 1500.0).about
    assert about["ends"] == "range of 3 trials" and about["run"].startswith("Recorded elsewhere")
    assert "interval" not in question.reveal(Run(6, ""), 1501.0).about
    table["cost_ns"] = 7.0
    assert "interval" not in question.reveal(Run(6, ""), 7.0).about, "two rows, and nobody says which"


def test_what_answers_in_words_is_computed_from_intervals() -> None:
    words = ("first", "second", "neither")
    assert predictions.larger((3, 4), (1, 2), words) == "first"
    assert predictions.larger((1, 2), (3, 4), words) == "second"
    assert predictions.larger((1, 3), (2, 4), words) == "neither"
    assert predictions.larger((math.nan, 3), (2, 4), words) is None
    assert predictions.above_zero(5, 1) == 5 and predictions.above_zero(5, -1) is None
    assert predictions.above_zero(math.nan, math.nan) is None
    walks = pd.DataFrame({"extra_ns": [9.0], "extra_lo_ns": [4.0], "floor_ns": [3.0]})
    run = SimpleNamespace(summary=lambda: walks)
    assert predictions.above_floor(run, "extra_ns") == 9
    walks["floor_ns"] = 5.0
    assert predictions.above_floor(run, "extra_ns") is None
    assert predictions.smallest({"a": 3, "b": 1}, "alike", 1) == "b"
    assert predictions.smallest({"a": 2, "b": 1}, "alike", 1) == "alike"


# ---- exercises ----


def worked(answer: float | str | None = 97.5e6, **about: Any) -> exercises.Exercise:
    return exercises.exercise("How long?", answer, **({"unit": "ms", "why": "By the rest."} | about))


def test_an_exercise_holds_its_answer_in_its_unit() -> None:
    told = json.loads(Page(worked().html()).tags[0][1]["data-exercise"] or "")
    assert told == {"text": "How long?", "unit": "ms", "answer": 97.5, "within": 0.05, "why": "By the rest."}
    choice = worked("b", unit="word", choices=["a", "b"]).told()
    assert choice["choices"] == ["a", "b"] and choice["answer"] == "b"


@pytest.mark.parametrize("answer", [None, math.nan, math.inf])
def test_an_exercise_without_an_answer_tells_no_way_to_it(answer: float | None) -> None:
    told = worked(answer, why="It is nan.").told()
    assert told["answer"] is None and told["why"] == ""


@pytest.mark.parametrize(
    ("answer", "choices"), [("c", ["a", "b"]), (1.0, ["a", "b"]), ("a", [])]
)  # fmt: skip
def test_an_answer_that_is_no_choice_is_refused(answer: float | str, choices: list[str]) -> None:
    with pytest.raises(ParameterError):
        worked(answer, choices=choices)


@pytest.mark.parametrize(
    ("tried", "right", "said"),
    [
        ("97.5", True, "Right: 97.5 ms."), ("97,5", True, "Right: 97.5 ms."),
        ("100", True, "Right: 97.5 ms."),
        (" 9,750 ", False, "100 times too high. Try again."),
        ("10", False, "Ten times too low. Try again."),
        ("ten", False, "Give a number, such as 12.5."), ("", False, "Give a number, such as 12.5."),
        ("1e3", False, "Give a number, such as 12.5."),
        ("-97.5", False, "Too low. Try again."), ("\u2212.5", False, "Too low. Try again."),
    ],
)  # fmt: skip
def test_a_try_is_judged_in_place(empty: Any, tried: str, right: bool, said: str) -> None:
    judged = "([about, tried]) => schedLabsModules.exercise.view(schedLabsModules.guess).judged(about, tried)"
    found = empty.evaluate(judged, [worked().told(), tried])
    assert (bool(found.get("right")), found["text"]) == (right, said)


def test_a_page_checks_an_exercise_and_shows_the_way_when_asked(empty: Any) -> None:
    html = worked().html() + worked("b", unit="word", choices=["a", "b"], why="Because.").html()
    html += worked(None).html()
    empty.evaluate("html => { document.body.innerHTML = html; schedLabsModules.wake(document); }", html)
    empty.get_by_role("textbox", name="How long?").fill("50")
    empty.get_by_role("button", name="Check").first.click()
    empty.get_by_text("Two times too low. Try again.").wait_for()
    assert empty.get_by_text("By the rest.").count() == 0
    empty.get_by_role("button", name="Show how").first.click()
    empty.get_by_text("97.5 ms. By the rest.").wait_for()
    empty.get_by_role("radio", name="a").check()
    empty.get_by_role("button", name="Check").last.click()
    empty.get_by_text("No. Try again.").wait_for()
    empty.get_by_role("radio", name="b").check()
    empty.keyboard.press("Enter")
    empty.get_by_text("Right. Because.").wait_for()
    assert empty.get_by_text("This run has no number to check it with.").count() == 1


def test_jupyterlab_gets_the_same_exercise() -> None:
    bundle = worked()._repr_mimebundle_()
    assert bundle["text/html"] == worked().html()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert worked().widget().exercise == worked().told()
