"""The demonstration for a projector: what its keys do, who may press them, and that nothing outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import apart
from waiting import wait_until

from sched_labs.classroom import bounded, card, demo
from sched_labs.core import result
from sched_labs.core.errors import ParameterError, SchedLabError

TINY = "context_switch.matrix"  # ends by itself in a second or two
LONG = "runqlat.histogram"  # has to be stopped: see `endless`


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is a process of its own: by its environment it gets a data folder, a lock, the tiny profile."""
    for name, value in (apart(tmp_path / "data") | {"SCHED_LABS_PROFILE": "tiny"}).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regimes that would go on for a minute, in steps that each leave something to draw."""
    long = [{"workers": 2, "duration_s": 60.0}, {"workers": 3, "duration_s": 60.0}]
    monkeypatch.setitem(demo.REGIMES, LONG, long)


def made_up_card(folder: Path, name: str, value: float) -> None:
    """A CONSTRUCTED card with one number of the tiny experiment."""
    folder.mkdir(exist_ok=True)
    entry = {
        "kind": TINY, "recorded_at": "2026-01-01T00:00:00+00:00", "profile": "quick", "flags": 0,
        "numbers_ns": {"pipe switch, same cpu": value}, "claims": {},
    }  # fmt: skip
    one = {
        "format": card.FORMAT, "version": card.VERSION,
        "machine": dict.fromkeys(card.MACHINE), "results": [entry],
    }  # fmt: skip
    (folder / name).write_text(card.text(one))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., demo.Stage]]:
    made: list[demo.Stage] = []

    def make(name: str, cards: Path | None = None) -> demo.Stage:
        folder = tmp_path / f"stage{len(made)}"
        folder.mkdir()
        made.append(demo.Stage(name, folder, cards))
        return made[-1]

    yield make
    for one in made:
        one.end()


def until(stage: demo.Stage, true: Callable[[dict[str, Any]], Any], seconds: float = 60) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while not true(state := stage.state()):
        assert time.monotonic() < end, state | {"figure": len(state["figure"])}
        time.sleep(0.1)
    return state


def ended(state: dict[str, Any]) -> bool:
    return not state["running"]


def started_by(above: int) -> dict[int, str]:
    """Every process below this one, with its starting time, which no other process of that number has."""
    stats = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stats[int(process.name)] = (process / "stat").read_text().rpartition(")")[2].split()
    found: dict[int, str] = {}
    for _ in stats:
        more = {
            pid: words[19]
            for pid, words in stats.items()
            if (int(words[1]) == above or int(words[1]) in found) and pid not in found
        }
        if not more:
            break
        found |= more
    return found


def gone(processes: dict[int, str], seconds: float = 10) -> bool:
    """Whether all of these end (one that nobody has waited for yet has ended)."""

    def runs(pid: int, began: str) -> bool:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        return words[19] == began and words[0] != "Z"

    end = time.monotonic() + seconds
    while any(runs(pid, began) for pid, began in processes.items()):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def grown(above: int, least: int) -> dict[int, str]:
    """The processes below this one, as soon as there are as many."""
    end = time.monotonic() + 30
    while len(found := started_by(above)) < least:
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


# ---- the keys ----


def test_a_run_is_drawn_while_it_grows_and_when_it_is_over(stage: Any) -> None:
    one = stage(TINY)
    before = one.state()
    assert (before["running"], before["figure"], before["error"]) == (False, "", "")
    one.do("start")
    child = one.child
    one.do("start")  # a second press changes nothing
    assert one.child is child
    assert until(one, lambda state: state["done"] >= 1)["total"] > 1
    after = until(one, ended)
    assert "<svg" in after["figure"] and after["error"] == "" and after["label"] == ""
    assert after["regime"] == "between threads"
    assert one.state() == after, "what has not changed is not drawn again"
    kept = result.latest(TINY)
    assert kept and set(kept.data.between) == {"threads"}, "the run is kept like any other"


def test_stop_keeps_what_was_measured(stage: Any, endless: None) -> None:
    one = stage(LONG)
    one.do("start")
    growing = until(one, lambda state: state["figure"])
    assert growing["running"] and "<svg" in growing["figure"]
    below = grown(one.child.pid, 1)
    one.do("stop")
    state = one.state()
    assert not state["running"] and state["error"] == ""
    assert gone(below)
    if one._json.exists():  # what the run had kept by then; one long measurement may have kept nothing yet
        assert "Stopped early" in state["figure"] or result.load(one._json).flags


def test_a_run_can_be_stopped_where_the_demo_itself_ignores_ctrl_c(stage: Any, endless: None) -> None:
    """As in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        one = stage(LONG)
        one.do("start")
        until(one, lambda state: state["figure"])
        one.do("stop")
    finally:
        signal.signal(signal.SIGINT, before)
    assert one.child.returncode in demo._STOPPED
    assert "Stopped early" in one.state()["figure"] or result.load(one._json).flags


def test_next_goes_round_the_regimes_and_starts_each(stage: Any, endless: None) -> None:
    one = stage(LONG)
    one.do("start")
    first = one.child
    below = grown(first.pid, 1)
    one.do("next")
    assert first.poll() is not None and one.child is not first
    state = one.state()
    assert (state["regime"], state["running"], state["figure"]) == ("workers 3, duration_s 60.0", True, "")
    one.do("next")
    assert one.state()["regime"] == "workers 2, duration_s 60.0"
    below |= grown(one.child.pid, 1)
    one.do("reset")
    state = one.state()
    assert (state["running"], state["figure"], state["done"], one.regime) == (False, "", 0, 0)
    assert gone(below)


def test_the_recorded_run_is_one_key_away_while_the_live_one_fails(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(demo.REGIMES, TINY, [{"mechanisms": ["telepathy"]}])
    one = stage(TINY)
    one.do("start")
    state = until(one, ended)
    assert "telepathy" in state["error"]
    one.do("recorded")
    state = one.state()
    kept = result.recorded(TINY)
    assert kept and f"Recorded: {kept.machine_line()}" in state["figure"] and "<svg" in state["figure"]
    one.do("recorded")
    assert one.state()["view"] == "live"


def test_what_never_was_recorded_is_said(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.result, "recorded", lambda kind: None)
    one = stage(TINY)
    one.do("recorded")
    assert "No run of" in one.state()["error"]


def test_the_class_is_laid_under_the_run(stage: Any, tmp_path: Path) -> None:
    cards = tmp_path / "cards"
    for number in range(3):
        made_up_card(cards, f"{number}.json", 1000.0 + number)
    one = stage(TINY, cards)
    one.do("class")
    assert "3 machines" in one.state()["figure"]
    one.do("start")
    assert one.state()["view"] == "live"
    until(one, ended)
    one.do("class")
    assert "4 machines" in one.state()["figure"], "the room's three, and the run on the screen"
    made_up_card(cards, "late.json", 3000.0)
    assert "5 machines" in one.state()["figure"]

    alone = stage(TINY)
    alone.do("class")
    assert "--class FOLDER" in alone.state()["error"]
    other = stage(LONG, cards)
    other.do("class")
    assert f"has a number of {LONG}" in other.state()["error"]


def test_what_is_no_key_is_refused(stage: Any) -> None:
    with pytest.raises(SchedLabError, match="no action"):
        stage(TINY).do("format-disk")
    with pytest.raises(ParameterError, match="no experiment"):
        stage("no-such-thing")


def test_every_regime_is_one_that_its_experiment_takes() -> None:
    from typing import get_type_hints

    from sched_labs import cli
    from sched_labs.core import registry

    for name, regimes in demo.REGIMES.items():
        found = registry.find(name)
        assert found.name == name
        for regime in regimes:
            assert set(regime) <= set(found.parameters)
            cli._check(regime, get_type_hints(found.function))


# ---- the server ----


@pytest.fixture
def served(stage: Any, tmp_path: Path) -> Iterator[Callable[..., demo.Server]]:
    running: list[tuple[demo.Server, threading.Thread]] = []

    def make(name: str, cards: Path | None = None) -> demo.Server:
        server = demo.Server(stage(name, cards), 0)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        running.append((server, thread))
        return server

    yield make
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def status(address: str, method: str = "GET") -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_only_who_knows_the_address_gets_in(served: Any) -> None:
    server = served(TINY)
    base = f"http://127.0.0.1:{server.server_address[1]}"
    assert server.server_address[0] == "127.0.0.1", "no other machine reaches it"
    assert status(server.address) == status(server.address + "state") == 200
    wrong = "0" * len(server.key)
    for path in ("/", "/state", f"/{wrong}/", f"/{wrong}/state", f"/{server.key}/../state", "/do/start"):
        assert status(base + path) == 404, path
    for path in (f"/{wrong}/do/start", "/do/start", "/start"):
        assert status(base + path, "POST") == 404, path
    assert status(server.address + "do/start") == 404, "looking changes nothing"
    assert server.stage.child is None
    assert status(server.address + "do/format-disk", "POST") == 400
    assert status(server.address + "do/reset", "POST") == 204
    with pytest.raises(SchedLabError, match="is taken"):
        demo.Server(server.stage, server.server_address[1])


def test_silent_connections_take_no_place_from_the_page(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is on this machine can connect, without the key: with twice as many as there are places."""
    monkeypatch.setattr(bounded, "MOST_AT_ONCE", 32)
    server = served(TINY)
    before = threading.active_count()
    silent = [socket.create_connection(server.server_address) for _ in range(64)]
    try:
        assert status(server.address + "state") == 200
        assert len(server.connected) <= 32
        assert wait_until(lambda: threading.active_count() - before <= 34), "their threads end, too"
    finally:
        for one in silent:
            one.close()


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_runs_on_when_it_ends(way: int) -> None:
    command = [sys.executable, "-m", "sched_labs", "demo", LONG]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"SCHED_LABS_PROFILE": "full", "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        assert process.stdout
        found = re.search(r"http://127\.0\.0\.1:\d+/\w+/", process.stdout.readline())
        assert found
        assert status(found[0] + "do/start", "POST") == 204
        below = grown(process.pid, 2)  # the run, and its workload
        process.send_signal(way)
        process.wait(30)
        assert gone(below)
        assert process.returncode == (130 if way == signal.SIGINT else 128 + way)
    finally:
        timer.cancel()
        process.kill()
        if process.stdout:
            process.stdout.close()


# ---- in a browser ----


def test_a_room_is_shown_by_single_keys(served: Any, browser: Any, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    for number in range(3):
        made_up_card(tmp_path / "cards", f"{number}.json", 1000.0 + number)
    server = served(TINY, tmp_path / "cards")
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.on("request", lambda r: troubles.append(r.url) if not r.url.startswith(server.address) else None)
    page.goto(server.address)
    page.get_by_role("heading", name=TINY).wait_for()
    page.get_by_text("to start.").wait_for()
    page.keyboard.press("Control+s")  # the browser's own keys are left alone
    page.keyboard.press("q")
    assert server.stage.child is None

    page.keyboard.press("s")
    page.locator("#progress").wait_for()
    page.locator("#figure svg").wait_for(timeout=60_000)
    page.locator("#progress").wait_for(state="hidden", timeout=60_000)
    box = page.locator("#figure svg").first.bounding_box()
    assert box["height"] > 1080 * 0.6, "it fills the window"
    sizes = page.evaluate(
        "[...document.querySelectorAll('#figure svg text')].map(e => e.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 20, "legible from the last row"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1920

    seen = []
    for _ in range(2):
        assert axe.Axe().run(page).response["violations"] == []
        seen.append(page.evaluate(
            "[document.body, document.querySelector('#figure svg text')]"
            ".map((e, i) => getComputedStyle(e)[i ? 'fill' : 'backgroundColor'])"
        ))  # fmt: skip
        page.keyboard.press("d")
    assert seen[0][0] != seen[1][0] and seen[0][1] != seen[1][1], "page and figure change together"

    page.keyboard.press("f")
    page.locator("#figure > p").get_by_text("Recorded: ").wait_for()
    page.get_by_text("the recorded run").wait_for()
    page.keyboard.press("o")
    page.locator("figcaption").get_by_text("4 machines").wait_for()
    page.get_by_role("button", name="o class").click()  # the keys are buttons as well
    page.locator("#regime").get_by_text("between threads").wait_for()
    page.keyboard.press("r")
    page.get_by_text("to start.").wait_for()
    page.keyboard.press("n")
    page.locator("#regime").get_by_text("between processes").wait_for()
    page.keyboard.press("x")
    page.locator("#progress").wait_for(state="hidden", timeout=20_000)
    assert troubles == []
    server.shutdown()
    server.server_close()
    page.get_by_text("The demonstration has ended.").wait_for()
    context.close()


def test_a_figure_cannot_bring_a_script(served: Any, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an experiment says is shown as text, and the page's policy asks no other host for anything."""
    server = served(TINY)
    evil = "<img src=x onerror=document.title='got-in'>"
    monkeypatch.setattr(server.stage, "state", lambda: {
        "title": evil, "regime": evil, "running": False, "label": evil, "done": 0, "total": 1,
        "view": "live", "figure": "", "error": evil,
    })  # fmt: skip
    page = browser.new_page()
    page.goto(server.address)
    page.get_by_role("alert").get_by_text(evil).wait_for()
    assert page.title() != "got-in"
    with urllib.request.urlopen(server.address) as answer:
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    page.close()


def test_the_draft_is_the_experiments_own_figure(stage: Any, endless: None) -> None:
    one = stage(LONG)
    one.do("start")
    until(one, lambda state: state["figure"])
    first = one._draft.read_text()
    until(one, lambda state: state["figure"] != first)
    assert "<figure" in first and not one._json.exists()
    assert json.loads(one._progress.read_text().splitlines()[0])["experiment"] == LONG
