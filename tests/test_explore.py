"""The sliders over the bandwidth model: they move the model, and refuse what the kernel would refuse."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sched_labs.core.errors import ParameterError
from sched_labs.limits import bandwidth
from sched_labs.reader import explore, widgets


def test_the_sliders_values_are_the_models_in_its_own_units() -> None:
    run = explore.limit(
        quota_ms=20, period_ms=50, burst_ms=10, threads=3, cpus=2, work_ms=2, load_percent=50
    ).simulate()
    p = run.parameters
    assert (p["quota_us"], p["period_us"], p["burst_us"], p["work_us"]) == (20_000, 50_000, 10_000, 2_000)
    assert (p["threads"], p["cpus"]) == (3, 2)
    # Half of a quota of 0.4 CPUs, to within five standard deviations of the number of arrivals.
    expected = 0.5 * 0.4 / 0.002 * explore.SIMULATED_S
    assert run.arrivals == pytest.approx(expected, abs=5 * expected**0.5)


def test_a_page_gets_curves_and_jupyterlab_gets_sliders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "SIMULATED_S", 5.0)
    bundle = explore.limit()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "<svg" in bundle["text/html"] and "8 threads" in bundle["text/html"]
    assert "not measured" in bundle["text/html"]


def test_a_page_whose_cells_run_gets_plain_sliders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "SIMULATED_S", 5.0)
    monkeypatch.setenv("SCHED_LABS_PAGE", "1")
    bundle = explore.limit(quota_ms=50)._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" not in bundle
    given = dict(re.findall(r'name="(\w+)"[^>]* value="([\d.]+)"', bundle["text/html"]))
    assert set(given) == set(explore._SLIDERS) and given["quota_ms"] == "50"
    number = re.search(r'data-form="(\d+)"', bundle["text/html"])
    assert number
    assert "<svg" in widgets.answer(int(number[1]), json.dumps(given))._repr_html_()
    with pytest.raises(ParameterError):
        widgets.answer(int(number[1]), json.dumps(given | {"burst_ms": "400"}))


def test_a_move_redraws_and_a_move_too_far_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "SIMULATED_S", 5.0)
    box = explore.limit(quota_ms=50).widget()
    *sliders, shown = box.children
    by_name = dict(zip(explore._SLIDERS, sliders, strict=True))
    before = shown.value
    by_name["load_percent"].value = 120
    assert "<svg" in shown.value != before
    by_name["burst_ms"].value = 60
    assert "cpu.max.burst" in shown.value and "<svg" not in shown.value
    by_name["quota_ms"].value = 60
    assert "<svg" in shown.value


@pytest.mark.parametrize(
    "values", [{"quota_ms": 1}, {"threads": 0}, {"load_percent": 500}, {"quota_ms": 20, "burst_ms": 30}]
)
def test_what_cannot_be_is_refused_at_once(values: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        explore.limit(**values)


def test_the_grid_of_a_page_is_that_of_the_model() -> None:
    table = bandwidth.grid(
        explore.LOADS, explore.THREADS, quota_us=50_000, period_us=100_000, work_us=5_000, duration_s=1
    )
    assert len(table) == len(explore.LOADS) * len(explore.THREADS)
