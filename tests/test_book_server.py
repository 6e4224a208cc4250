"""A small book as Sphinx makes it, and the reader's own server: who is let in, what is served and kept."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import SmallBook, apart, lay_checkout, run_book
from jupyter_server.base.handlers import JupyterHandler
from test_incidents import running
from tornado import web

from sched_labs.incidents import board
from sched_labs.server import desk, extension


@dataclass
class Served:
    """A running server, and where it keeps what the reader keeps."""

    port: int
    token: str
    data: Path
    process: subprocess.Popen[str]
    html: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        path: str,
        *,
        key: bool = False,
        method: str = "GET",
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send `path` exactly as it is (no client tidies `..` away)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = dict(headers or {})
        if key:
            sent["Authorization"] = f"token {self.token}"
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.request(method, path, body=data, headers=sent)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content


@pytest.fixture(scope="module")
def served(small_book: SmallBook) -> Iterator[Served]:
    """The small book, served as `make live` serves it."""
    root, data = small_book.root, small_book.data
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sched_labs.book",
            "serve",
            "--root",
            str(root),
            "--port",
            str(port),
            "--no-browser",
        ],
        env={**os.environ, **apart(data), "SCHED_LABS_PROFILE": "tiny"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    timer = threading.Timer(60, process.kill)
    timer.start()
    assert process.stdout is not None
    said, found = "", None
    for line in process.stdout:
        said += line
        if found := re.search(r"The book: +http://127\.0\.0\.1:(\d+)/book/\?token=(\w+)", said):
            break
    timer.cancel()
    assert found, f"the server did not say where it is:\n{said}"
    threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the server
    yield Served(int(found[1]), found[2], data / "sched-labs", process, root / "_build" / "html")
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(60) == 0, "Ctrl-C ends the server without a question"
    finally:
        process.kill()


# ---- a book that Sphinx made ----


def test_a_chapter_is_run_and_its_outputs_reach_the_page(small_book: SmallBook) -> None:
    root = small_book.root
    page = (root / "_build/html/notebooks/02-latency-ladder.html").read_text(encoding="utf-8")
    assert "profile tiny" in page
    assert "<mfrac>" in page, "mathematics is MathML"
    # Whatever a cell drops lands in _build; the sources are as they were.
    assert not list(root.rglob("notebooks/dropped")) and (root / "_build/run/dropped").exists()
    assert {p.name: p.read_bytes() for p in (root / "notebooks").iterdir()} == {
        p.name: p.read_bytes() for p in Path(__file__).with_name("small_book").iterdir()
    }


def test_a_failing_cell_fails_the_build_whose_pages_show_how_far_it_came(small_book: SmallBook) -> None:
    said = small_book.built.stdout
    assert small_book.built.returncode == 1
    assert "notebooks/03-scheduler-latency: cell 2 failed" in said and said.count(" failed") == 1
    assert "this cell is meant to fail" in said
    page = (small_book.root / "_build/html/notebooks/03-scheduler-latency.html").read_text(encoding="utf-8")
    assert "profile tiny" in page


def test_the_book_builds_without_a_network(small_book: SmallBook) -> None:
    if small_book.network:
        pytest.skip(small_book.network)
    assert (small_book.root / "_build/html/book/intro.html").is_file()


# ---- who is let in ----


def test_nobody_gets_in_without_the_key(served: Served) -> None:
    for path in ("/book/", "/book/book/intro.html", "/book/_static/sched-labs.css"):
        status, headers, _ = served.ask(path)
        assert status == 302 and "/login" in headers["Location"], path
    for method, body in (("GET", None), ("POST", {"question": "a", "value": 1, "unit": "ns"})):
        status, _, _ = served.ask("/sched-labs/predictions", method=method, body=body)
        assert status == 403
    assert served.ask("/book/", headers={"Authorization": "token wrong"})[0] == 302
    assert not (served.data / "predictions.json").exists()


def test_requests_leave_the_server_as_large_as_it_was(served: Served) -> None:
    def asked(times: int) -> None:
        for number in range(times):
            said = {"question": "again.and-again", "value": number, "unit": "ns"}
            served.ask("/sched-labs/predictions", key=True, method="POST", body=said)
            for path in (
                "/book/book/intro.html",
                "/sched-labs/progress",
                "/sched-labs/incident",
                "/book/no.html",
            ):
                served.ask(path, key=True)
            with socket.create_connection(("127.0.0.1", served.port)) as gone:
                gone.sendall(b"GET /book/book/intro.html HTTP/1.1\r\n")
        served.ask("/sched-labs/predictions", key=True, method="POST", body={**said, "value": None})

    def size() -> tuple[float, int]:
        place = Path(f"/proc/{served.process.pid}")
        pages = int((place / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(list((place / "fd").iterdir()))

    asked(60)
    memory_mib, open_files = size()
    asked(200)
    after_mib, after_files = size()
    assert after_mib < memory_mib + 8 and after_files <= open_files + 8


def test_with_the_key_pages_come_with_a_strict_policy(served: Served) -> None:
    status, headers, body = served.ask("/book/book/intro.html", key=True)
    assert status == 200 and headers["Content-Type"].startswith("text/html") and b"<h1>" in body
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-cache"
    status, headers, _ = served.ask("/book/_static/sched-labs.js", key=True)
    assert status == 200 and "javascript" in headers["Content-Type"]
    status, headers, _ = served.ask("/book/_static/sched-labs.css", key=True)
    assert status == 200 and headers["Content-Type"].startswith("text/css")
    status, headers, _ = served.ask("/", key=True)
    assert status == 302 and headers["Location"].rstrip("?").endswith("/book/")
    assert served.ask("/book/no-such-page.html", key=True)[0] == 404
    assert served.ask("/book/book/intro.html", key=True, method="HEAD")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/book/../source/_toc.yml",
        "/book/%2e%2e/source/_toc.yml",
        "/book/..%2fsource/_toc.yml",
        "/book//etc/passwd",
    ],
)
def test_nothing_outside_the_pages_is_served(served: Served, path: str) -> None:
    assert (served.html.parent / "source/_toc.yml").is_file()
    assert served.ask(path, key=True)[0] in (403, 404)


def test_hidden_files_are_not_served(served: Served) -> None:
    assert served.ask("/book/.made-from", key=True)[0] == 404


def test_only_this_computer_is_listened_to(served: Served) -> None:
    wanted = f"{served.port:04X}"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).is_file()
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    assert [address for address in listening if address.endswith(f":{wanted}")] == [f"0100007F:{wanted}"]


def test_a_prediction_is_kept_and_told_again(served: Served) -> None:
    sent = {"question": "direct.pipe", "value": 2500, "unit": "ns"}
    status, _, _ = served.ask("/sched-labs/predictions", key=True, method="POST", body=sent)
    assert status == 200
    kept = json.loads(served.ask("/sched-labs/predictions", key=True)[2])
    assert kept["direct.pipe"]["value"] == 2500 and kept["direct.pipe"]["unit"] == "ns"
    assert json.loads((served.data / "predictions.json").read_text(encoding="utf-8")) == kept


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not json", 400),
        ([1, 2], 400),
        ({"value": 1, "unit": "ns"}, 400),
        ({"question": "direct.pipe", "value": "much", "unit": "ns"}, 400),
        ({"question": "direct.pipe", "value": True, "unit": "ns"}, 400),
        (b'{"question": "direct.pipe", "value": NaN, "unit": "ns"}', 400),
        (b'{"question": "direct.pipe", "value": 1e999, "unit": "ns"}', 400),
        ({"question": "../../x", "value": 1, "unit": "ns"}, 400),
        ({"question": "<script>", "value": 1, "unit": "ns"}, 400),
        ({"question": "direct.pipe", "value": 10**400, "unit": "ns"}, 400),
        ({"question": "direct.pipe", "value": 1, "unit": "n" * 500}, 400),
        (b" " * 100_000, 413),
    ],
)
def test_what_is_no_prediction_is_refused_and_changes_nothing(served: Served, body: Any, status: int) -> None:
    before = served.ask("/sched-labs/predictions", key=True)[2]
    assert served.ask("/sched-labs/predictions", key=True, method="POST", body=body)[0] == status
    assert served.ask("/sched-labs/predictions", key=True)[2] == before


def test_another_site_cannot_post_with_the_readers_cookies(served: Served, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{served.address}/book/book/intro.html?token={served.token}")
    cookies = "; ".join(f"{c['name']}={c['value']}" for c in context.cookies())
    context.close()
    body = {"question": "stolen", "value": 1, "unit": "ns"}
    status, _, _ = served.ask(
        "/sched-labs/predictions",
        method="POST",
        body=body,
        headers={"Cookie": cookies, "Origin": "http://evil.example"},
    )
    assert status in (403, 404)
    assert b"stolen" not in served.ask("/sched-labs/predictions", key=True)[2]


def test_only_the_readers_own_pages_reach_what_runs_their_code(served: Served, browser: Any) -> None:
    """Three adversaries: one without the key, a site that the reader visits, a name bent to this computer."""
    context = browser.new_context()
    context.new_page().goto(f"{served.address}/book/book/intro.html?token={served.token}")
    cookies = {"Cookie": "; ".join(f"{c['name']}={c['value']}" for c in context.cookies())}
    context.close()
    evil = {**cookies, "Origin": "http://evil.example", "Referer": "http://evil.example/"}
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    for path in ("/api/kernels", "/api/sessions", "/api/terminals"):
        for headers in (None, {"Authorization": "token wrong"}, evil):
            assert served.ask(path, method="POST", body={}, headers=headers)[0] in (403, 404), (path, headers)
        assert served.ask(path)[0] == 403
        assert served.ask(path, key=True, headers={"Host": "evil.example"})[0] == 403
    status, _, made = served.ask("/api/kernels", key=True, method="POST", body={"name": "python3"})
    assert status == 201
    kernel = f"/api/kernels/{json.loads(made)['id']}"
    try:
        for headers in ({}, evil, {**cookies, "Host": "evil.example", "Origin": "http://evil.example"}):
            assert served.ask(f"{kernel}/channels", headers={**headers, **upgrade})[0] == 403, headers
        assert json.loads(served.ask(kernel, key=True)[2])["connections"] == 0
    finally:
        assert served.ask(kernel, key=True, method="DELETE")[0] == 204


def test_a_page_keeps_a_prediction_and_leads_to_jupyterlab(served: Served, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.on(
        "request",
        lambda r: troubles.append(r.url) if not r.url.startswith((served.address, "data:")) else None,
    )
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    assert "token" not in page.content()
    page.goto(f"{served.address}/book/notebooks/01-context-switch.html")
    # With the keyboard alone; what was measured is covered until then.
    assert not page.get_by_text("told by the run").last.is_visible()
    page.get_by_label("How long?").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    for place in (".sl-g-told", ".sl-verdict"):  # where the guess was made, and under the figure
        page.locator(place, has_text="You guessed 100 µs: 40 times too high. Measured: 2.5 µs.").wait_for()
    assert page.get_by_text("told by the run").last.is_visible()
    page.wait_for_function("document.querySelector('.sl-lid') === null")
    page.reload()
    for place in (".sl-g-told", ".sl-verdict"):  # where the guess was made, and under the figure
        page.locator(place, has_text="You guessed 100 µs: 40 times too high. Measured: 2.5 µs.").wait_for()
    kept = json.loads(served.ask("/sched-labs/predictions", key=True)[2])
    assert kept["sample.question"]["value"] == 100_000
    page.goto(f"{served.address}/book/book/predictions.html")
    page.get_by_role("cell", name="40 times too high").wait_for()
    page.goto(f"{served.address}/book/notebooks/01-context-switch.html")

    link = page.get_by_role("link", name="Open in JupyterLab")
    assert link.get_attribute("href") == "/lab/tree/notebooks/01-context-switch.md"
    assert troubles == []
    link.click()
    # The chapter opens as a notebook, from the reader's own copy.
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(timeout=60_000)
    elsewhere = [said for said in troubles if said.startswith("http")]
    assert elsewhere == [], "JupyterLab asks no other host either"
    assert (served.data / "notebooks/01-context-switch.md").is_file()
    context.close()


def test_jupyterlab_is_dark_with_its_reader_and_asks_by_keys_alone(served: Served, browser: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    forget = {"question": "sample.question", "value": None, "unit": "ns"}
    served.ask("/sched-labs/predictions", key=True, method="POST", body=forget)
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    page.goto(f"{served.address}/lab/tree/notebooks/01-context-switch.md")
    idle = page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    idle.wait_for(timeout=60_000)
    assert page.evaluate("document.body.dataset.jpThemeLight") == "false"
    # The chapter's first cell has the focus; each is run, and the next one comes into view.
    slider = page.get_by_label("How long?")
    for _ in range(40):
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(300)
        idle.wait_for(timeout=60_000)
        if slider.count():
            break
    for key in ("Shift+Enter", "Control+Enter"):  # what was covered, and what uncovers it
        page.keyboard.press(key)
        page.wait_for_timeout(300)
        idle.wait_for(timeout=60_000)
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
        if slider.evaluate("e => e === document.activeElement"):
            break
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    told = page.locator(".sl-g-told", has_text="You guessed 100 µs: 40 times too high. Measured: 2.5 µs.")
    told.first.wait_for()
    dim = axe.Axe().run(page, context=".jp-OutputArea", options={"runOnly": ["color-contrast"]})
    assert dim.violations_count == 0, dim.generate_report()
    context.close()


def test_progress_with_the_labs_is_shown_in_the_margin(served: Served, browser: Any) -> None:
    assert served.ask("/sched-labs/progress")[0] == 403
    before = json.loads(served.ask("/sched-labs/progress", key=True)[2])
    assert len(before) >= 8 and not any(lab["started_at"] for lab in before)
    first, second = before[0]["lab"], before[1]["lab"]
    progress = served.data / "labs" / "progress.json"
    progress.parent.mkdir(parents=True)
    evil = "<img src=x onerror=document.title='got-in'>"
    progress.write_text(
        json.dumps(
            {
                first: {"started_at": "2026-01-02T00:00:00", "checks": 3, "passed_at": "2026-01-03T00:00:00"},
                second: {"started_at": evil, "checks": 1},
            }
        )
    )
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    margin = page.locator(".bd-sidebar-primary")
    margin.get_by_text(f"Labs: 1 of {len(before)} passed").wait_for()
    assert margin.locator(f'a[href*="{first}/sheet.html"]').inner_text().endswith("passed")
    assert margin.locator(".sl-standing").count() == 2
    page.goto(f"{served.address}/book/labs/{first}/sheet.html")
    page.get_by_text("You checked it 3 times. It passed on 2026-01-03.").wait_for()
    assert margin.locator(".sl-passed").count() == 1, "the page's own entry is marked too"
    link = page.get_by_role("link", name="Your files in JupyterLab")
    assert link.get_attribute("href") == f"/lab/tree/labs/{first}"
    page.goto(f"{served.address}/book/labs/{second}/sheet.html")
    page.get_by_text("You started this lab on <img").wait_for()
    assert page.title() != "got-in"
    # A damaged file costs the marks, and nothing else.
    progress.write_text("[]")
    page.goto(f"{served.address}/book/labs/{first}/sheet.html")
    page.get_by_role("heading", name="What to do").wait_for()
    assert served.ask("/sched-labs/progress", key=True)[0] == 500
    assert page.locator(".sl-standing").count() == 0
    progress.unlink()
    context.close()


def test_without_a_server_no_progress_is_claimed(served: Served, browser: Any) -> None:
    page = browser.new_page()
    page.goto((served.html / "labs/01-cache-sizes/sheet.html").as_uri())
    page.get_by_text("sched-labs lab start cache-sizes").wait_for()
    page.wait_for_timeout(300)
    assert page.locator(".sl-standing, .sl-all, .sl-note").count() == 0
    page.close()


def test_the_dashboard_of_an_incident_moves_on_its_page(served: Served, browser: Any) -> None:
    assert served.ask("/sched-labs/incident")[0] == 403
    said = json.loads(served.ask("/sched-labs/incident", key=True)[2])
    assert set(said) == {"none"} or "now" in said, "none runs, or one that somebody plays here"
    one = running("ledger", "lock")
    facts = board.facts(one)
    facts["log"] = ["12:00:00 <b>somebody</b> had ended"]
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        facts["now"]["requests_per_s"] = 1000.0 + len(asked)
        route.fulfill(json=facts if len(asked) < 3 else {"none": "No incident is running."})

    page.route("**/sched-labs/incident", answer)
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    page.goto(f"{served.address}/book/book/incident-room.html")
    room = page.locator(".sl-incident")
    room.get_by_text("1,001.0").wait_for()
    assert one.names["batch"] in room.inner_text() and "top -H -p 1" in room.locator("pre").inner_text()
    assert "<b>somebody</b>" in room.inner_text(), "what a log says is text"
    room.get_by_text("1,002.0").wait_for()
    room.get_by_text("No incident is running.").wait_for()
    assert room.locator("table").count() == 0
    page.goto((served.html / "book/incident-room.html").as_uri())
    room.get_by_text("shows its dashboard in a terminal").wait_for()
    context.close()


def test_the_page_of_an_experiment_runs_with_names_from_the_others(served: Served, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    page.goto(f"{served.address}/book/notebooks/04-cgroup-throttling.html")
    page.get_by_role("link", name="The second: its area").last.click()
    page.wait_for_url("**/04-cgroup-throttling/the-second-its-area.html")
    link = page.get_by_role("link", name="Open in JupyterLab")
    assert link.get_attribute("href") == "/lab/tree/notebooks/04-cgroup-throttling.md"
    page.get_by_role("button", name="Run the whole page on this machine").click()
    page.get_by_text("Measured on your machine, just now.").wait_for(timeout=120_000)
    assert page.get_by_text("The area is 36.").first.is_visible()
    assert page.locator(".sl-before").count() == 1, "what the page came with stays within reach"
    page.goto(f"{served.address}/book/notebooks/04-cgroup-throttling/what-you-can-now-say.html")
    page.get_by_role("button", name="Run the whole page on this machine").click()
    page.get_by_text("Measured on your machine, just now.").wait_for(timeout=120_000)
    assert page.locator(".cell_output .sl-told").inner_text() == "It is said in one sentence."
    assert troubles == []
    context.close()


def test_what_is_folded_opens_with_a_key_and_on_paper(served: Served, browser: Any) -> None:
    page = browser.new_page()
    page.goto((served.html / "notebooks/04-cgroup-throttling/the-first-a-square.html").as_uri())
    method = page.get_by_text("How it is measured stands here")
    assert not method.is_visible()
    page.keyboard.press("u")
    assert method.is_visible() and page.get_by_text("side = 6").first.is_visible()
    page.keyboard.press("u")
    assert not method.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert method.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not method.is_visible()
    page.goto((served.html / "notebooks/04-cgroup-throttling/what-you-can-now-say.html").as_uri())
    assert page.locator(".sl-told").inner_text() == "It is said in one sentence."
    page.close()


def test_without_a_server_a_prediction_stays_in_the_browser(served: Served, browser: Any) -> None:
    page = browser.new_page()
    page.goto((served.html / "notebooks/01-context-switch.html").as_uri())
    assert page.get_by_role("link", name="Open in JupyterLab").count() == 0
    page.get_by_role("link", name="Your guess first").click()
    assert page.evaluate("document.activeElement.type") == "range"
    page.get_by_role("button", name="Show it without a guess").click()
    page.get_by_text("You made no guess. Measured: 2.5 µs.").wait_for()
    page.reload()
    page.get_by_role("button", name="Guess after all").click()
    page.get_by_label("How long?").press("Home")
    page.get_by_role("button", name="That is my guess").click()
    page.locator(".sl-g-told", has_text="You guessed 10 ns: 250 times too low.").wait_for()
    page.goto((served.html / "book/predictions.html").as_uri())
    page.get_by_role("cell", name="250 times too low").wait_for()
    page.get_by_text("1 of 1 guesses made: 0 right or close, 0 too high, 1 too low.").wait_for()
    page.close()


def test_the_readers_copy_follows_the_book_until_it_is_changed(tmp_path: Path) -> None:
    own, chapter = tmp_path / "own", tmp_path / "chapter.md"
    sources, copy = {"01-a": chapter}, own / "notebooks" / "01-a.md"
    chapter.write_text("one", encoding="utf-8")
    assert desk.lay_out(sources, own) == [] and copy.read_text(encoding="utf-8") == "one"
    chapter.write_text("two", encoding="utf-8")
    assert desk.lay_out(sources, own) == [] and copy.read_text(encoding="utf-8") == "two"

    copy.write_text("mine", encoding="utf-8")
    assert desk.lay_out(sources, own) == [], "the book has nothing newer"
    chapter.write_text("three", encoding="utf-8")
    assert desk.lay_out(sources, own) == ["01-a.md"]
    assert copy.read_text(encoding="utf-8") == "mine"
    assert (own / "notebooks" / "01-a.new.md").read_text(encoding="utf-8") == "three"

    copy.unlink()  # begin afresh
    assert desk.lay_out(sources, own) == [] and copy.read_text(encoding="utf-8") == "three"
    assert not (own / "notebooks" / "01-a.new.md").exists()


def test_serving_before_building_says_what_to_do(tmp_path: Path) -> None:
    root = lay_checkout(tmp_path / "book")
    done = run_book("serve", "--root", str(root), data=tmp_path)
    assert done.returncode == 1 and "make book" in done.stdout


def test_a_page_runs_its_cells_on_this_machine(served: Served, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.on(
        "request",
        lambda r: troubles.append(r.url) if not r.url.startswith((served.address, "data:")) else None,
    )
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    page.goto(f"{served.address}/book/notebooks/01-context-switch.html")
    before = len(json.loads(served.ask("/api/kernels", key=True)[2]))
    # With the keyboard alone: the whole section.
    began = time.monotonic()
    page.get_by_role("button", name="Run on this machine: An experiment").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Measured on your machine, just now.").wait_for(timeout=120_000)
    cold_s = time.monotonic() - began
    cells = page.locator("div.cell")
    assert cells.nth(1).locator(".cell_output").inner_text().strip() == "the odds are 42"
    assert "context_switch.matrix" in cells.nth(2).locator("> .cell_output").inner_text()
    assert cells.nth(2).locator(".sl-progress").count() == 0, "progress goes when it is over"
    assert cells.nth(3).locator("> .cell_output").inner_text().strip() == "<b>not bold</b>"
    # What the page came with is still there; the first cell was not run, because nothing of it is used here.
    assert page.get_by_text("as this page was built").count() == 3
    assert len(json.loads(served.ask("/api/kernels", key=True)[2])) == before + 1

    # A warm kernel is used again, and spares the reader its start.
    earlier = cells.nth(1).locator("> .cell_output > *").element_handle()
    began = time.monotonic()
    page.get_by_role(
        "button", name="Unfold everything"
    ).click()  # a cell that only speaks is prose until then
    page.get_by_role("button", name="Run this cell").nth(1).click()
    page.wait_for_function("node => !node.isConnected", arg=earlier, timeout=60_000)
    cells.nth(1).get_by_text("the odds are 42").first.wait_for()
    assert time.monotonic() - began < cold_s
    assert len(json.loads(served.ask("/api/kernels", key=True)[2])) == before + 1
    assert troubles == []

    # The last run is back after a reload, and what the page came with is still below it.
    page.reload()
    page.get_by_text("as this page was built").nth(2).wait_for()
    assert cells.nth(1).locator("> .cell_output").inner_text().strip() == "the odds are 42"

    # A page that is left takes its kernel with it.
    page.goto(f"{served.address}/book/book/setup.html")
    end = time.monotonic() + 20
    while len(json.loads(served.ask("/api/kernels", key=True)[2])) > before:
        assert time.monotonic() < end, "the page's kernel outlives the page"
        time.sleep(0.2)
    context.close()


def test_stop_ends_the_whole_run_and_nothing_else_starts_meanwhile(served: Served, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    page.goto(f"{served.address}/book/notebooks/01-context-switch.html")
    section = page.get_by_role("heading", name="A long one").locator("xpath=ancestor::section[1]")
    section.get_by_role("button", name="Run on this machine: A long one").focus()
    page.keyboard.press("Enter")
    page.locator('.sl-running:has-text("time.sleep")').wait_for(timeout=60_000)
    assert page.get_by_role("button", name="Run the whole page on this machine").is_disabled()
    stop = page.get_by_role("button", name="Stop", exact=True)
    assert stop.evaluate("button => button === document.activeElement")
    page.keyboard.press("Enter")
    page.get_by_text("Stopped. What was measured until then").wait_for(timeout=20_000)
    assert section.locator(".sl-before").count() == 0, "the cell after it was not run"
    page.get_by_role("button", name="Run the whole page on this machine").focus()
    assert page.get_by_role("button", name="Stop", exact=True).count() == 0
    # What was stopped can be run again; a cell alone brings those along whose names it uses, once.
    page.get_by_role("button", name="Unfold everything").click()
    section.get_by_role("button", name="Run this cell").nth(1).click()
    page.get_by_text("Measured on your machine, just now.").wait_for(timeout=60_000)
    cells = page.locator("div.cell")
    assert section.locator(".cell_output").last.inner_text().strip() == "after it: the odds are 42"
    assert cells.nth(1).locator(".sl-before").count() == 1 and cells.nth(2).locator(".sl-before").count() == 0
    drawn = cells.nth(1).locator("> .cell_output > *").element_handle()
    own = section.locator(".cell_output > *").last.element_handle()
    section.get_by_role("button", name="Run this cell").nth(1).click()
    page.wait_for_function("node => !node.isConnected", arg=own, timeout=60_000)
    page.get_by_text("Measured on your machine, just now.").wait_for(timeout=60_000)
    assert drawn.evaluate("node => node.isConnected"), "it has run before, and did not run again"
    context.close()


def test_code_on_a_page_is_changed_run_and_put_back(served: Served, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    page.goto(f"{served.address}/book/notebooks/01-context-switch.html")
    page.get_by_role("button", name="Unfold everything").click()
    cells = page.locator("div.cell")
    first, last = cells.nth(1), page.locator("div.cell", has_text="after it:")
    shown = first.locator("> .cell_output")
    first.get_by_role("button", name="Edit this code").click()
    field = first.get_by_role("textbox")
    assert "random" in field.input_value() and field.evaluate("e => e === document.activeElement")

    def run(code: str) -> None:
        field.fill(code)
        field.press("Control+Enter")

    run("odds = 'changed'\nprint(odds, 1 + 1)")
    shown.get_by_text("changed 2").wait_for(timeout=60_000)
    # The names of the reader's version are what other cells see.
    last.get_by_role("button", name="Run this cell").click()
    last.get_by_text("after it: changed").wait_for(timeout=60_000)
    run("1 +")
    shown.get_by_text("SyntaxError").wait_for(timeout=60_000)
    assert len(shown.inner_text().strip().splitlines()) == 1
    run("while True:\n    print('x' * 50_000)")
    first.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped. What was measured until then").wait_for(timeout=60_000)
    assert len(shown.inner_text()) < 250_000, "the page does not keep all of it"
    # Code that does not heed the stop loses its Python, and the next run has a new one.
    run("while True:\n    try:\n        print('deaf', flush=True)\n        __import__('time').sleep(9)\n"
        "    except KeyboardInterrupt:\n        pass")  # fmt: skip
    shown.get_by_text("deaf").wait_for(timeout=60_000)
    first.get_by_role("button", name="Stop").click()
    page.get_by_text("its Python was ended").wait_for(timeout=60_000)
    first.get_by_role("button", name="Back to the book's").click()
    assert first.get_by_role("textbox").count() == 0 and first.locator(".cell_input pre").is_visible()
    first.get_by_role("button", name="Run this cell").click()
    shown.get_by_text("the odds are 42").wait_for(timeout=60_000)
    assert troubles == []
    context.close()


@pytest.mark.parametrize(
    ("ip", "key", "forwarded", "runs"),
    [
        ("127.0.0.1", "k", False, True), ("localhost", "k", False, True), ("::1", "k", False, True),
        ("10.0.2.15", "k", True, True), ("10.0.2.15", "k", False, False), ("0.0.0.0", "k", False, False),
        ("", "k", False, False), ("*", "k", False, False), ("127.0.0.1", "", False, False),
    ],
)  # fmt: skip
def test_pages_run_code_behind_a_key_on_this_computer_only(
    ip: str, key: str, forwarded: bool, runs: bool
) -> None:
    assert extension.runs_code(ip, key, forwarded) == runs


def test_behind_a_hub_a_font_comes_without_the_token_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JupyterHub puts a check of its own into the class of all handlers, which a GET has to pass, too."""

    def refuse(handler: Any) -> None:
        raise web.HTTPError(403)

    monkeypatch.setattr(JupyterHandler, "check_xsrf_cookie", refuse)
    for wanted, comes in (("font", True), ("empty", False), ("script", False), (None, False)):
        handler = object.__new__(extension.BookHandler)
        handler.request = SimpleNamespace(headers={"Sec-Fetch-Dest": wanted})  # type: ignore[assignment]
        with contextlib.nullcontext() if comes else pytest.raises(web.HTTPError):
            handler.check_xsrf_cookie()


def test_a_page_has_plain_forms_where_jupyterlab_has_widgets(served: Served, browser: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    context = browser.new_context(viewport={"width": 390, "height": 900})
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.goto(f"{served.address}/book/?token={served.token}")
    page.wait_for_url("**/book/book/intro.html")
    page.goto(f"{served.address}/book/notebooks/04-cgroup-throttling/a-choice.html")
    assert page.locator("form.sl-form").count() == 0, "before it runs, the page says what could be chosen"
    page.get_by_text("measures again with other values").wait_for()
    page.get_by_role("button", name="Run the whole page on this machine").click()
    page.get_by_text("Measured on your machine, just now.").wait_for(timeout=120_000)
    # With the keyboard alone: another choice, then the button.
    form = page.locator("form.sl-form").first
    form.get_by_label("mechanisms").focus()
    page.keyboard.press("ArrowDown")
    assert form.get_by_label("mechanisms").input_value() == "two & more"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    answer = page.locator(".sl-answer").first
    answer.locator("figure").last.wait_for(timeout=60_000)
    form.locator("button:enabled").wait_for(timeout=60_000)
    assert "futex" in answer.locator("svg").last.text_content()
    # A slider answers when it is let go.
    limit = page.locator("form.sl-form").nth(1)
    limit.get_by_label("threads").focus()
    page.keyboard.press("ArrowRight")
    assert limit.locator("input[name=threads] + output").inner_text() == "5"
    page.locator(".sl-answer").nth(1).locator("figure").wait_for(timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert troubles == []  # before axe, which asks for parts of style sheets that are not there
    for scheme in ("light", "dark"):
        page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
        results = axe.Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
    context.close()


def test_a_page_that_stands_alone_says_how_it_comes_alive(served: Served, browser: Any) -> None:
    page = browser.new_page()
    page.goto((served.html / "notebooks/01-context-switch.html").as_uri())
    page.get_by_text("To measure on your own machine").wait_for()
    assert page.get_by_role("button", name="Run").count() == 0
    page.close()


def test_a_chapter_is_presented_heading_by_heading(served: Served, browser: Any) -> None:
    page = browser.new_page()
    page.goto((served.html / "notebooks/01-context-switch.html").as_uri())
    page.get_by_role("button", name="Present").click()
    assert page.get_by_text("1 / 5").is_visible()
    assert not page.get_by_role("heading", name="An experiment").is_visible()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("heading", name="An experiment").is_visible()
    assert not page.get_by_role("heading", name="Its end").is_visible()
    page.keyboard.press("PageDown")
    assert page.get_by_role("heading", name="Its end").is_visible()
    page.keyboard.press("End")
    assert page.get_by_role("heading", name="A question").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("heading", name="An experiment").is_visible()
    page.close()
