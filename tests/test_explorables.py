"""Pictures that move: the models behind them, how they are driven, and how they look without a script."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sched_labs import explorables
from sched_labs.core.errors import ParameterError, SchedLabError, WorkloadError
from sched_labs.explorables import mine, modules
from sched_labs.limits import bandwidth

NAMES = list(explorables.TITLES)


# ---- the modules as text ----


@pytest.mark.parametrize("name", modules.names())
def test_a_module_stands_alone_and_exports_one_thing(name: str) -> None:
    text = modules.source(name)
    assert not re.search(r"^import\b|\bimport\(", text, re.MULTILINE)
    assert len(re.findall(r"^export\b", text, re.MULTILINE)) == 1 and "\nexport default " in text
    assert "</script" not in text  # it may stand inside a page


def test_every_explorable_has_its_module_and_its_still_picture() -> None:
    assert set(NAMES) < set(modules.names())
    for name in NAMES:
        svg, sentence = explorables.picture(name)
        assert svg.startswith("<svg") and svg.endswith("</svg>") and len(sentence) > 40


def test_what_was_recorded_says_on_what() -> None:
    for path in explorables.RECORDED.glob("*.json"):
        about = json.loads(path.read_text(encoding="utf-8"))["about"]
        assert re.search(r"Linux \d+\.\d+", about) and re.search(r"20\d\d-\d\d-\d\d", about), path.name
    data, about = explorables.recorded("cache")
    assert data is None and "model" in about


# ---- the Python side ----


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ParameterError, match="no explorable 'nothing'"):
        explorables.show("nothing")
    for name in mine.NOT_HERE:
        with pytest.raises(ParameterError, match=f"{name}' cannot be measured here. {mine.NOT_HERE[name]}"):
            explorables.now_mine(name)
    assert set(mine.NOT_HERE) | set(mine.MEASURED) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_gets_a_picture_its_data_and_where_they_come_from(name: str) -> None:
    shown = explorables.show(name)
    html = shown.html()
    assert html.count("<svg") == 1 and f'data-explorable="{name}"' in html
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert json.loads(data) == shown.data
    assert shown.about and "figcaption" in html


def test_data_cannot_leave_their_place() -> None:
    odd = explorables.Explorable("wakeup", {"x": "</script><b>"}, "<i>about</i>")
    assert "</script><b>" not in odd.html() and "<i>" not in odd.html() and "<svg" not in odd.html()


def test_jupyterlab_gets_a_widget_with_the_same_modules() -> None:
    bundle = explorables.show("roundrobin")._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle and "data-explorable" in bundle["text/html"]
    box = explorables.show("roundrobin").widget()
    view, button = box.children[0], box.children[1].children[0]
    assert view.data == explorables.recorded("roundrobin")[0] and button.description == "Now mine"
    assert "sl-x-stage" in str(view._esm)
    assert len(explorables.show("cache").widget().children) == 2  # a model has no button


def test_the_button_shows_ones_own_run_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    box = explorables.show("roundrobin").widget()
    view, (button, below) = box.children[0], box.children[1].children
    own = {"threads": {count: [[0, 0, 5], [1, 5, 10], [0, 10, 15]] for count in "248"}}
    monkeypatch.setitem(mine.MEASURED, "roundrobin", lambda: (own, "Measured <here>."))
    button.click()
    assert view.data == own and "Measured &lt;here&gt;." in below.value and not button.disabled

    def fails() -> tuple[Any, str]:
        raise SchedLabError("The machine is busy.", "Wait.")

    monkeypatch.setitem(mine.MEASURED, "roundrobin", fails)
    button.click()
    assert view.data == own and "The machine is busy." in below.value and not button.disabled


def test_a_page_that_runs_has_a_form_for_ones_own_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHED_LABS_PAGE", "1")
    shown = explorables.show("omission")._repr_mimebundle_()
    assert "Now mine" in shown["text/html"] and 'class="sl-form"' in shown["text/html"]
    assert "Now mine" not in explorables.show("picking")._repr_mimebundle_()["text/html"]


def test_turns_are_what_lies_between_gaps() -> None:
    ms = 1_000_000
    gaps = [(0, 4 * ms, 4 * ms), (0, 12 * ms, 4 * ms), (1, 0, 4 * ms), (1, 8 * ms, 4 * ms), (1, 16 * ms, ms)]
    # Worker 1 runs from 4 to 8 and from 12 to 16, worker 0 from 8 to 12.
    assert mine.turns(gaps, begin_ms=5, length_ms=10) == [[0, 0, 3], [1, 3, 7], [0, 7, 10]]


def test_ones_own_round_robin_is_one_cpu_handed_round(own_lock: None) -> None:
    data, about = mine.round_robin()
    assert set(data["threads"]) == {"2", "4", "8"} and "Linux" in about
    for count, ran in data["threads"].items():
        assert {who for who, _, _ in ran} <= set(range(int(count)))
        assert all(0 <= begin < end <= 84 for _, begin, end in ran)
        assert all(b[1] >= a[2] - 0.1 for a, b in itertools.pairwise(ran)), "two ran at once"


def test_a_group_stands_where_its_gaps_are_long() -> None:
    ms = 1_000_000
    # Thread 0 is let go at 100 ms, thread 1 at 101; the gap of 4 ms in between is somebody else's turn.
    gaps = [(0, 30 * ms, 70 * ms), (1, 30 * ms, 71 * ms), (0, 110 * ms, 4 * ms), (0, 130 * ms, 70 * ms)]
    gaps += [(1, 128 * ms, 72 * ms), (0, 230 * ms, 70 * ms), (1, 230 * ms, 70 * ms)]
    data = mine.of_gaps(gaps, quota_ms=50, period_ms=100, length_ms=100, cpus=2)
    assert data["run"]["stands"] == [[1, 0, 1], [0, 30, 100], [1, 28, 100]]
    assert data["run"]["ran"] == [[0, 0, 10], [0, 14, 30], [1, 1, 28]]
    with pytest.raises(SchedLabError, match="Nobody stood"):
        mine.of_gaps([(0, 5 * ms, ms)], quota_ms=50, period_ms=100, length_ms=100, cpus=1)


def test_ones_own_quota_is_not_exceeded(own_lock: None) -> None:
    try:
        data, about = mine.quota()
    except SchedLabError as error:
        if not error.lacking:
            raise
        pytest.skip(f"this machine cannot limit a group: {error.what}")
    run = data["run"]
    assert "Linux" in about and run["stands"] and all(0 <= begin < end <= 400 for _, begin, end in run["ran"])
    used = sum(end - begin for _, begin, end in run["ran"])
    # A slice and a tick on each CPU beyond the quota of each period.
    assert used <= 4 * 50 + run["cpus"] * 2 * 15


def test_a_round_trip_begins_where_a_side_sleeps_for_its_turn() -> None:
    """By condition variable, as constructed: B runs, finds the mutex taken, sleeps, and has its turn."""
    one = [(0, 1, 0, True), (9, 0, 1, False), (12, 1, 0, True), (15, 0, 1, False), (30, 1, 0, True)]
    trips = [(at + 30 * n, *rest) for n in range(20) for at, *rest in one[1:]]
    found = mine.of_round_trips([one[0], *trips], [(1, 0, 1)], 20)
    assert found["length"] == 30 and found["alike"] == [20, 20]
    assert found["ran"] == [[0, 0, 9], [1, 9, 12], [0, 12, 15], [1, 15, 30]]
    assert [slept for *_, slept in found["switches"]] == [False, True, False, True]
    # Which thread begins is chance: the other way round it is the same picture.
    turned = [(at, 1 - prev, 1 - come, slept) for at, prev, come, slept in [one[0], *trips]]
    assert mine.of_round_trips(turned, [(1, 1, 0)], 20) == found
    for nothing in ([], [(0, -1, 0, False), (5, 0, -1, True)]):
        with pytest.raises(WorkloadError, match="No round trip"):
            mine.of_round_trips(nothing, [], 20)


def test_ones_own_round_trips_are_one_cpu_handed_to_and_fro(own_lock: None) -> None:
    try:
        data, about = mine.condvar()
    except SchedLabError as error:
        if not error.lacking:
            raise
        pytest.skip(error.what)
    assert "Linux" in about and data["unit"] == "ns"
    for name in ("pipe", "condvar"):
        one = data[name]
        assert sum(end - begin for _, begin, end in one["ran"]) == one["length"] == one["switches"][-1][0]
        assert [side for side, *_ in one["ran"]][:2] == [0, 1] and one["switches"][-1][3]
        assert 1 <= one["alike"][0] <= one["alike"][1] == 200


# ---- the models, in the browser that will run them ----


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """An empty page that knows the modules."""
    made = browser.new_page()
    made.add_script_tag(content=modules.for_pages())
    yield made
    made.close()


def cases(count: int) -> list[dict[str, Any]]:
    """Seeded limits: round and odd ones, with and without bursts, ticks and requests."""
    draw = random.Random(20)
    found = []
    for _ in range(count):
        quota, end = draw.choice([1000, 5000, 100_000, draw.uniform(1000, 200_000)]), draw.uniform(1e5, 1e6)
        case: dict[str, Any] = {
            "quota": quota,
            "period": draw.choice([5000, 100_000, draw.uniform(1000, 200_000)]),
            "burst": draw.choice([0, quota, draw.uniform(0, quota)]),
            "slice": draw.choice([5000, 1000, draw.uniform(100, 9000)]),
            "tick": draw.choice([0, 1000, 4000]),
            "tickAt": draw.uniform(0, 4000),
            "threads": draw.randint(1, 12),
            "cpus": draw.randint(1, 12),
            "end": end,
        }
        if draw.random() < 0.6:
            case["arrivals"] = sorted(draw.uniform(0, end) for _ in range(draw.randint(0, 200)))
            case["work"] = draw.uniform(100, 20_000)
        found.append(case)
    return found


def test_the_quota_that_moves_is_the_model_to_the_nanosecond(page: Any) -> None:
    given = cases(150)
    seen = page.evaluate("(cases) => cases.map(schedLabsModules.quota.simulate)", given)
    throttled = requests = 0
    for case, run in zip(given, seen, strict=True):
        model = bandwidth.replay(
            case["quota"], case["period"], case.get("arrivals"), threads=case["threads"], cpus=case["cpus"],
            duration_s=case["end"] / 1e6, burst_us=case["burst"], slice_us=case["slice"],
            tick_us=case["tick"], tick_at_us=case["tickAt"], work_us=case.get("work"),
        )  # fmt: skip
        for name in ("nr_periods", "nr_throttled", "nr_bursts"):
            assert run[name] == getattr(model, name), (name, case)
        nanosecond = {"rtol": 0, "atol": 1e-3}
        for name in ("burst_us", "used_us"):
            np.testing.assert_allclose(run[name], getattr(model, name), **nanosecond)
        stood = model.intervals[["cpu", "start_us", "end_us"]].to_numpy()
        ours = np.array(sorted(run["intervals"], key=lambda row: (row[1], row[0]))).reshape(-1, 3)
        np.testing.assert_allclose(ours, stood, **nanosecond)
        finished = np.array([np.inf if at is None else at for at in run["finished"]], dtype=float)
        done = np.isfinite(finished)
        arrived = np.array(case.get("arrivals", []), dtype=float)
        np.testing.assert_allclose((finished - arrived)[done], model.latency_us, **nanosecond)
        np.testing.assert_allclose(run["used_by"], np.cumsum(model.periods["used_us"]), **nanosecond)
        # What is drawn as running is what was used.
        assert sum(end - begin for _, begin, end in run["ran"]) == pytest.approx(model.used_us, abs=1e-3)
        throttled += model.nr_throttled
        requests += model.completions
    assert throttled > 100 and requests > 100, "the cases exercise neither limits nor requests"


def test_the_rules_choose_what_the_kernels_chose(page: Any) -> None:
    data, _ = explorables.recorded("picking")
    for version, rule in (("6.1", "cfs"), ("6.12", "eevdf")):
        kernel = data["kernels"][version]
        chosen = page.evaluate(
            "([rule, cases, granularity]) =>"
            " cases.map((c) => schedLabsModules.picking.choose(rule, c, granularity))",
            [rule, kernel["choices"], kernel.get("granularity_us")],
        )
        assert chosen == [choice["chosen"] for choice in kernel["choices"]]
        assert len(chosen) >= 20 and len(set(chosen)) == 3
    # The two rules differ: each refuses something that the other chose.
    crossed = page.evaluate(
        "(choices) => choices.map((c) => schedLabsModules.picking.choose('cfs', { ...c, kind: 'pick' }))",
        data["kernels"]["6.12"]["choices"],
    )
    assert crossed != [choice["chosen"] for choice in data["kernels"]["6.12"]["choices"]]


def test_the_two_clients_are_those_of_a_queue(page: Any) -> None:
    for period, work, stall in ((5, 1, 50), (2, 1.5, 20), (20, 0.5, 80), (7, 5, 5)):
        for waits in (True, False):
            seen = page.evaluate(
                "(given) => schedLabsModules.omission.simulate(given)",
                {"period": period, "work": work, "stall": stall, "waits": waits},
            )
            free, due = 0.0, 0.0
            for request in seen:
                assert request["at"] == pytest.approx(due)
                # Time passes for the server everywhere but in the stall.
                begins = max(due, free)
                served = sum(
                    max(0.0, min(request["done"], b) - max(begins, a))
                    for a, b in ((0.0, 40.0), (40.0 + stall, 1e9))
                )
                assert served == pytest.approx(work) and request["took"] == pytest.approx(
                    request["done"] - due
                )
                free = request["done"]
                due = max(due + period, free) if waits else due + period
            assert due >= 150


def test_ones_own_round_trips_are_drawn_in_their_own_unit(page: Any) -> None:
    data = explorables.recorded("condvar")[0]
    script = "data => schedLabsModules.frame.still(schedLabsModules.condvar, data)"
    drawn = page.evaluate(script, {**data, "unit": "ns"})
    assert "21,471 ns" in drawn["svg"] and "instructions" not in drawn["svg"]
    assert "the mutex is A&#39;s" in drawn["svg"] or "the mutex is A's" in drawn["svg"]
    data["condvar"]["switches"][1][3] = False  # another order than the one that the words are about
    drawn = page.evaluate(script, data)
    assert "B is interrupted: A runs" in drawn["svg"] and "mutex" not in drawn["sentence"]


def test_the_cache_forgets_what_was_used_longest_ago(page: Any) -> None:
    for a, b in ((40, 48), (16, 16), (64, 96), (4, 4), (60, 64)):
        run = page.evaluate("(given) => schedLabsModules.cache.simulate(given)", {"a": a, "b": b})
        sets: list[OrderedDict[tuple[str, int], None]] = [OrderedDict() for _ in range(16)]
        for n, owners in enumerate(run["before"]):
            assert sum(owner == "A" for owner in owners) == len(range(n, a, 16))
        # A's first walk is over: which of its lines is the oldest, the recorded steps must tell alike.
        order = page.evaluate("(given) => schedLabsModules.cache.first(given.a)", {"a": a})
        for line in order:
            sets[line % 16][("A", line)] = None
        for step in run["steps"]:
            held = sets[step["line"] % 16]
            key = (step["owner"], step["line"])
            assert step["hit"] == (key in held)
            if not step["hit"] and len(held) == 4:
                (owner, _), _ = held.popitem(last=False)
                assert step["lost"] == owner
            held.pop(key, None)
            held[key] = None


@pytest.mark.parametrize("name", NAMES)
def test_the_still_picture_is_what_the_module_draws(page: Any, name: str) -> None:
    """Drawn anew by `python -m sched_labs.explorables`."""
    from sched_labs.explorables.__main__ import still

    assert still(page, name) == explorables.picture(name)[0]


# ---- on a page ----


def visit(
    browser: Any,
    name: str | explorables.Explorable,
    *,
    width: int = 1280,
    theme: str = "light",
    **context: Any,
) -> Any:
    """A bare page with one explorable, as a page of the book has it."""
    shown = browser.new_context(viewport={"width": width, "height": 900}, **context).new_page()
    shown.errors = []
    shown.on("pageerror", lambda error: shown.errors.append(str(error)))
    shown.set_content(
        f'<!doctype html><html lang="en" data-theme="{theme}"><head><title>x</title></head>'
        f"<body><main><h1>x</h1>"
        f"{(explorables.show(name) if isinstance(name, str) else name).html()}</main></body></html>"
    )
    shown.add_script_tag(content=modules.for_pages())
    shown.wait_for_selector(".sl-x-time")
    return shown


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_it_fits_and_is_accessible(browser: Any, name: str, theme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = visit(browser, name, width=width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        """() => { const box = document.querySelector('.sl-x-stage svg').getBoundingClientRect();
        return [...document.querySelectorAll('.sl-x-stage text')].filter((text) => {
            const own = text.getBoundingClientRect();
            return own.left < box.left - 2 || own.right > box.right + 2 || own.bottom > box.bottom + 3;
        }).map((text) => text.textContent); }"""
    )
    assert beyond == []
    assert axe.Axe().run(page).response["violations"] == []
    assert page.errors == []
    page.context.close()


@pytest.mark.parametrize("name", NAMES)
def test_it_is_driven_by_keys_alone(browser: Any, name: str) -> None:
    page = visit(browser, name)
    stage, time = page.locator(".sl-x-stage"), page.locator(".sl-x-time input")
    stage.focus()
    page.keyboard.press("Home")
    assert time.input_value() == "0"
    first = stage.inner_html()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert float(time.input_value()) > 0 and stage.inner_html() != first
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("End")
    assert time.input_value() == "1000"
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('.sl-x-time input').value > 20")
    page.keyboard.press("Space")
    stopped = time.input_value()
    page.wait_for_timeout(200)
    assert time.input_value() == stopped and "Play" in page.locator(".sl-x-play").inner_text()
    assert page.locator(".sl-x-say").inner_text()
    # Every control, from end to end.
    for select in page.locator(".sl-x-controls select").all():
        for option in select.locator("option").all():
            select.select_option(option.get_attribute("value"))
    for slider in page.locator(".sl-x-controls input:visible").all():
        slider.focus()
        page.keyboard.press("Home")
        page.keyboard.press("End")
    assert page.errors == [] and stage.locator("svg").count() == 1
    page.context.close()


def test_a_measured_quota_is_drawn_without_the_models_sliders(browser: Any) -> None:
    gaps = [(who, (30 + 100 * n) * 1_000_000, 70_000_000) for who in (0, 1) for n in range(6)]
    shown = explorables.Explorable("quota", mine.of_gaps(gaps, 50, 100, 400, 2), "Measured.")
    page = visit(browser, shown)
    assert page.locator(".sl-x-controls input:visible, .sl-x-controls select:visible").count() == 0
    assert "In 400 ms they stood 8 times, for 70 ms to 70 ms." in page.locator(".sl-x-say").inner_text()
    assert page.errors == []
    page.context.close()


def test_nothing_moves_by_itself_or_where_motion_is_unwanted(browser: Any) -> None:
    page = visit(browser, "quota", reduced_motion="reduce")
    before = page.locator(".sl-x-stage").inner_html()
    page.wait_for_timeout(300)
    assert page.locator(".sl-x-stage").inner_html() == before
    assert page.locator(".sl-x-play").is_hidden()
    page.locator(".sl-x-stage").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Space")  # a step, not a film
    page.wait_for_timeout(200)
    assert page.locator(".sl-x-clock").inner_text() == "25 ms"
    page.context.close()


def test_what_makes_no_sense_gets_a_word_and_loses_nothing(browser: Any) -> None:
    page = visit(browser, "quota")
    before = page.locator(".sl-x-stage").inner_html()
    page.locator("input[name=burst]").fill("150")
    assert "refuses a burst above the quota" in page.locator(".sl-x-say").inner_text()
    assert page.locator(".sl-x-stage").inner_html() == before
    page.locator("input[name=burst]").fill("50")
    assert "refuses" not in page.locator(".sl-x-say").inner_text()
    page.context.close()


def test_paper_shows_the_picture_and_no_buttons(browser: Any) -> None:
    page = visit(browser, "picking", theme="dark")
    page.emulate_media(media="print")
    assert page.locator(".sl-x-time").is_hidden() and page.locator(".sl-x-controls").is_hidden()
    assert page.locator(".sl-x-stage svg").is_visible()
    page.context.close()


def test_without_a_script_there_is_the_still_picture(browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_content(
        f"<!doctype html><html lang='en'><body>{explorables.show('switch').html()}</body></html>"
    )
    assert page.locator("svg").count() == 1 and "instructions" in page.locator(".sl-x-say").inner_text()
    context.close()


def test_jupyterlab_can_load_what_anywidget_is_given(browser: Any) -> None:
    page = browser.new_page()
    page.set_content("<!doctype html><html lang='en'><body><div id='cell'></div></body></html>")
    seen = page.evaluate(
        """async ([text, data]) => {
            const module = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
            const heard = {}, model = { get: () => data, on: (name, act) => { heard[name] = act; } };
            const el = document.getElementById("cell"), stop = module.default.render({ model, el });
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const first = el.querySelectorAll("svg").length;
            heard["change:data"]();
            stop();
            return [first, el.querySelectorAll("svg").length, el.className];
        }""",
        [modules.for_widget("frame", "roundrobin"), explorables.recorded("roundrobin")[0]],
    )
    assert seen == [1, 1, "sl-figure sl-explorable"]
    page.close()
