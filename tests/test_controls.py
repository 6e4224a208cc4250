"""Controls: what they choose, measure, show in JupyterLab and say on a page.  No experiment runs here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd
import pytest

from sched_labs.cli import _fits
from sched_labs.core import registry
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Note, Result
from sched_labs.reader import tried, widgets
from sched_labs.reader.controls import _words, controls
from sched_labs.topics.context_switch.recovery import experiment as recovery
from sched_labs.topics.context_switch.yielding import experiment as yielding


class Figure:
    def _repr_html_(self) -> str:
        return "<figure>drawn</figure>"


class Measured(Result):
    def plot(self, **options: Any) -> Any:
        return Figure()


class Experiment:
    """Keeps what it was called with."""

    name = "made.up"

    def __init__(self, error: Exception | None = None) -> None:
        self.parameters = {"working_sets_bytes": None, "between": None}
        self.calls: list[dict[str, Any]] = []
        self.error = error

    def __call__(self, **parameters: Any) -> Result:
        self.calls.append(parameters)
        if self.error:
            raise self.error
        return Measured("made.up", pd.DataFrame(), {}, {}, notes=[Note("flag", "a <doubt>")])


SETS = {"16 KiB": [16384], "1 MiB": [1 << 20]}


def test_the_first_value_is_chosen_where_none_is_named() -> None:
    experiment = Experiment()
    form = controls(experiment, working_sets_bytes=SETS, between=["processes", "threads"])
    assert form.result is None
    assert form.measure(between="threads") is form.result
    assert experiment.calls == [{"progress": False, "working_sets_bytes": [16384], "between": "threads"}]


def test_the_button_measures_what_the_lists_say_and_shows_the_figure() -> None:
    experiment = Experiment()
    lists, figures = (
        controls(experiment, working_sets_bytes=SETS, between=["processes", "threads"]).widget().children
    )
    sets, between, button = lists.children
    assert (sets.description, between.options) == ("working sets", ("processes", "threads"))
    sets.value = "1 MiB"
    button.click()
    assert experiment.calls[0]["working_sets_bytes"] == [1 << 20]
    first = figures.children[0].value
    assert "<figure>drawn</figure>" in first and "a &lt;doubt&gt;" in first
    assert not button.disabled
    # Another run stands before this one, each with what was chosen.
    between.value = "threads"
    button.click()
    assert [shown.value.partition("</p>")[0] for shown in figures.children] == [
        "<p>working sets: 1 MiB, between: threads",
        "<p>working sets: 1 MiB, between: processes",
    ]


def test_an_experiment_that_fails_says_why_under_the_button() -> None:
    failing = Experiment(WorkloadError("No <memory> left.", "Close something."))
    lists, figures = controls(failing, between=["threads"]).widget().children
    lists.children[-1].click()
    assert "No &lt;memory&gt; left." in figures.children[0].value and not lists.children[-1].disabled


def test_a_page_says_what_could_be_chosen() -> None:
    form = controls(Experiment(), working_sets_bytes=SETS, between=["<threads>"])
    bundle = form._repr_mimebundle_()
    assert "working sets: 16 KiB; 1 MiB" in bundle["text/html"] and "&lt;threads&gt;" in bundle["text/html"]
    assert bundle["text/plain"] == (
        "made.up can be measured again with other values. "
        "working_sets_bytes: 16 KiB, 1 MiB; between: <threads>."
    )
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_a_page_whose_cells_run_gets_a_plain_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHED_LABS_PAGE", "1")
    experiment = Experiment()
    bundle = controls(experiment, working_sets_bytes=SETS, between=['"<threads>"'])._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "<option>1 MiB</option>" in bundle["text/html"] and "<threads>" not in bundle["text/html"]
    number = re.search(r'data-form="(\d+)"', bundle["text/html"])
    assert number
    given = json.dumps({"working_sets_bytes": "1 MiB", "between": '"<threads>"'})
    assert "drawn" in widgets.answer(int(number[1]), given)._repr_html_()
    assert experiment.calls[0] == {
        "progress": True,
        "working_sets_bytes": [1 << 20],
        "between": '"<threads>"',
    }
    with pytest.raises(ParameterError, match="cannot be 'anything else'"):
        widgets.answer(int(number[1]), json.dumps({"between": "anything else"}))


def test_wrong_choices_are_named() -> None:
    with pytest.raises(ParameterError, match="nothing to choose from"):
        controls(Experiment())
    with pytest.raises(ParameterError, match="no parameter 'speed'"):
        controls(Experiment(), speed=[1])
    with pytest.raises(ParameterError, match="nothing to choose for between"):
        controls(Experiment(), between=[])
    form = controls(Experiment(), working_sets_bytes=SETS)
    with pytest.raises(ParameterError, match=r"cannot be '2 MiB' here.\n.*16 KiB, 1 MiB"):
        form.measure(working_sets_bytes="2 MiB")
    with pytest.raises(ParameterError, match="'between' is not among"):
        form.measure(between="threads")


def test_real_experiments_know_their_parameters() -> None:
    form = controls(recovery.curve, working_sets_bytes=SETS, between=["threads"])
    assert form.name == "recovery.curve"
    with pytest.raises(ParameterError, match=r"yielding\.semantics has no parameter 'between'"):
        controls(yielding.semantics, between=["threads"])
    assert _words("partner_bytes") == "partner" and _words("rates_per_s", ["5"]) == "rates per s"
    assert _words("burst_us", ["50", "1 ms"]) == "burst (µs)" and _words("quota_us", ["1 ms"]) == "quota"


CHAPTERS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.md"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_choice_of_the_chapters_is_one_that_its_experiment_takes(chapter: Path) -> None:
    offered = tried.forms([chapter])
    for form in offered:
        kinds = get_type_hints(registry.find(form.name).function)
        for parameter, words in form._choices.items():
            for value in words.values():
                assert _fits(value, kinds[parameter]), (form.name, parameter, value)


def test_what_was_tried_and_recorded_is_drawn_on_a_page_that_cannot_measure() -> None:
    forms = {form.name: form for form in tried.forms(CHAPTERS)}
    assert set(tried.VALUES) <= set(forms), "a run of a form that no chapter has"
    shown = dict.fromkeys(("context_switch", "scheduler_latency", "cgroup_throttling"), 0)
    for name, form in forms.items():
        html = form.html()
        count = html.count('class="sl-fold"')
        assert count == len(tried.figures(name)) == len(tried.VALUES.get(name, []) if count else [])
        assert ("No run with other values ships" in html) == (count == 0)
        for (words, figure), chosen in zip(tried.figures(name), tried.VALUES.get(name, []), strict=False):
            assert words == chosen and figure.count("<svg") == 1 and 'role="img"' in figure
            assert re.search(r"Linux \d.* 20\d\d-\d\d-\d\d", figure), "it says on what and when"
        chapter = registry.entry(name).chapter
        shown[chapter] = shown.get(chapter, 0) + (count > 0)
    assert all(shown[chapter] for chapter in ("context_switch", "scheduler_latency", "cgroup_throttling"))
