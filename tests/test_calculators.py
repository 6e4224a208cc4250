"""Each formula against numbers worked out by hand, and the literature's own numbers against the formulas."""

from __future__ import annotations

import pytest

from sched_labs import draw as figures
from sched_labs.core.errors import ParameterError, ResultError
from sched_labs.reader import calculators as c


def test_formulas_by_hand() -> None:
    assert c.refill.values(working_set_kib=64, line_bytes=128, cycles_per_line=10, clock_ghz=2) == {
        "lines": 512,
        "cycles": 5120,
        "time_us": 2.56,
    }
    assert c.time_of.values(cycles=3000, clock_ghz=3)["time_us"] == 1
    assert c.switch_share.values(rate_per_s=1000, cost_us=100, cpus=2) == {
        "cpu_ms_per_s": 100,
        "share_percent": 5,
        "every_us": 2000,
    }
    assert c.implied_cost.values(before=2, after=1, rate_per_cpu_s=1000) == {
        "loss_percent": 50,
        "cost_us": 500,
    }
    assert c.tax.values(alone_gcycles=1, together_gcycles=3, switches=1e6, clock_ghz=1) == {
        "tax_gcycles": 1,
        "share_percent": pytest.approx(100 / 3),
        "per_switch_us": 1,
    }
    assert c.per_work.values(ratio=6, work_ratio=3) == {"factor": 2}
    assert c.utilisation.values(before_percent=10, load_ratio=4, ipc_before=2, ipc_after=1) == {
        "after_percent": 80,
        "machines": 0.8,
    }
    assert c.per_cpu.values(sources=1000, interval_s=10, cpus=4)["rate_per_s"] == 25
    assert c.exhaustion.values(quota_ms=100, period_ms=100, threads=2, cpus=8) == {
        "lasts_ms": 50,
        "stands_ms": 50,
    }
    assert c.turn.values(threads=8, cpus=2, slice_ms=3) == {
        "threads_per_cpu": 4,
        "wait_ms": 9,
        "round_ms": 12,
    }


# What CLAIMS.md works out for these rows: claim, quantity's words, computed, verdict.
WORKED_OUT = [
    ("000-036", "lines to fetch", 4096, c.OFF),
    ("000-037", "time", 15.36, c.OFF),
    ("000-038", "share of all CPUs", 234, c.IMPOSSIBLE),
    ("000-038", "CPU time per second", 74_880, c.ADDS_UP),
    ("000-051", "tax", 5.62, c.OFF),
    ("000-052", "share of the run", 32.6, c.OFF),
    ("000-002", "utilisation after", 1012, c.IMPOSSIBLE),
    ("000-135", "cycles lost", 30, c.ADDS_UP),
    ("000-083", "events per second and CPU", 5625, c.ADDS_UP),
    ("002-095", "the quota lasts", 25, c.OFF),
    ("002-057", "wait for the next turn", 21, c.OFF),
]


@pytest.mark.parametrize(("claim", "quantity", "computed", "verdict"), WORKED_OUT)
def test_the_literature_against_its_own_numbers(
    claim: str, quantity: str, computed: float, verdict: str
) -> None:
    rows = c.statements().table()
    row = rows[(rows["claim"] == claim) & (rows["quantity"] == quantity)].iloc[0]
    assert row["computed"] == pytest.approx(computed, rel=0.005)
    assert row["verdict"] == verdict
    assert row["factor"] == pytest.approx(row["computed"] / row["said"])


def test_both_answers_of_one_figure_are_there() -> None:
    rows = c.time_of.cases()
    assert rows.loc[rows["claim"] == "000-022", "verdict"].tolist() == [c.ADDS_UP, c.OFF]


def test_every_case_names_a_quantity_and_inputs_of_its_calculator() -> None:
    for each in c.CALCULATORS.values():
        assert len(each.cases()) == len(each.literature) > 0
        assert all(given.low <= given.value <= given.high for given in each.inputs)


@pytest.mark.parametrize("name", c.CALCULATORS)
def test_a_calculator_shows_itself_with_and_without_a_notebook(name: str) -> None:
    found = c.calculator(name)
    bundle = found._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert all(quantity.label in bundle["text/html"] for quantity in found.quantities)
    assert list(found.table()) == ["what", "value", "unit"]


def test_a_slider_changes_the_table() -> None:
    box = c.refill.widget()
    before = box.children[-1].value
    box.children[0].value = 1024
    assert box.children[-1].value != before
    assert "16,384 lines" in box.children[-1].value


def test_more_than_there_is_is_said_to_be_impossible() -> None:
    assert "(cannot be)" in c.switch_share.html()
    assert "(cannot be)" not in c.switch_share.html(cost_us=10.0)


def test_bad_input_is_refused() -> None:
    for inputs in ({"lines": 3.0}, {"line_bytes": 0.0}, {"line_bytes": -1.0}, {"line_bytes": float("inf")}):
        with pytest.raises(ParameterError):
            c.refill.values(**inputs)
    with pytest.raises(ParameterError, match="refill"):
        c.calculator("magic")


@pytest.mark.parametrize(
    ("value", "text"), [(4096, "4,096"), (15.36, "15.4"), (0.41875, "0.419"), (1012.3, "1,012"), (0, "0")]
)
def test_numbers_read_without_exponents(value: float, text: str) -> None:
    assert c.number(value) == text


def test_statements_show_themselves_and_count_their_verdicts() -> None:
    every = c.statements()
    assert sum(every.counts().values()) == len(every.table())
    assert all(count > 0 for count in every.counts().values())
    some = c.statements("refill", "turn")
    assert set(some.table()["calculator"]) == {"refill", "turn"}
    html = some._repr_html_()
    assert html.count('class="verdict holds"') == some.counts()[c.ADDS_UP]
    assert "64,000" in html and "4,096" in html and "4,096" in repr(some)


def test_the_figure_orders_statements_by_how_far_off_they_are() -> None:
    rows = figures.arithmetic.frame(c.statements().table())
    assert rows["said_over_computed"].is_monotonic_decreasing
    assert rows.iloc[0]["said_over_computed"] > 1 > rows.iloc[-1]["said_over_computed"]
    drawn = figures.arithmetic.draw(c.statements("refill").table())
    assert "1 of 3 statements" in drawn.caption and "16 times too much" in drawn.caption
    assert drawn.svg()
    with pytest.raises(ResultError):
        figures.arithmetic.draw(c.refill.table())
