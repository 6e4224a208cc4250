"""A guess in a figure without a kernel: a page gets the places at which matplotlib draws a line."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest

from sched_labs.core import registry
from sched_labs.core.result import recorded
from sched_labs.draw.rulers import rulers
from sched_labs.reader.predictions import predict

# A kind with a logarithmic time axis across, one with an even one upwards, and one of shares.
KINDS = [("runqlat.histogram", "ms", 7.0), ("quota.threads", "ms", 33.0), ("policies.hog", "%", 42.0)]


@pytest.mark.parametrize(("kind", "unit", "value"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_a_place_is_where_the_figure_itself_would_draw_it(kind: str, unit: str, value: float) -> None:
    run = recorded(kind)
    assert run is not None
    marked = run.plot(predictions=[{"value": value, "unit": unit}])
    # The marked figure measures itself: its own line lies at the place that is told for the value.
    (ruler, *_) = rulers(marked, marked, value)
    values, places = np.array(ruler["places"]).T
    assert (np.diff(values) > 0).all() and values[0] < value < values[-1]
    left, top, right, bottom = ruler["box"]
    assert 0 <= left < right <= 1 and 0 <= top < bottom <= 1
    scale = np.log if values[0] > 0 else np.asarray
    told = np.interp(scale(value), scale(values), places)
    svg = marked.svg()
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())  # type: ignore[union-attr]
    dashed = re.findall(r'd="M ?(\S+) (\S+) ?L ?(\S+) (\S+)" ?[^>]*stroke-dasharray', svg)
    drawn = [float(x) / width if ruler["along"] == "x" else float(y) / height for x, y, *_ in dashed]
    assert drawn and min(abs(place - told) for place in drawn) < 0.01


def test_a_page_gets_places_for_numbers_and_none_for_words_or_other_axes() -> None:
    run = recorded("runqlat.histogram")

    def about(html: str) -> dict[str, object]:
        found = re.search(r'data-reveal="([^"]*)"', html)
        assert found
        told: dict[str, object] = json.loads(unescape(found[1]))
        return told

    asked = predict("a.time", "How long?", unit="ms", low=0.01, high=100)
    assert about(asked.reveal(run, 1e6).html())["rulers"]
    share = predict("a.share", "How much?", unit="%", low=1, high=100)
    assert "rulers" not in about(share.reveal(run, 10).html())
    word = predict("a.word", "Which?", choices=["this", "that"])
    assert "rulers" not in about(word.reveal(run, "this").html())
    assert "rulers" not in about(asked.reveal(None, 1e6).html())


def test_kinds_of_the_test_exist() -> None:
    assert {kind for kind, _, _ in KINDS} <= set(registry.names())
