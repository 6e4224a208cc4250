"""`make live`: pages at once, chapters measured behind them, and an end that leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, apart

HEADER = (
    (ROOT / "tests" / "small_book" / "02-latency-ladder.md").read_text(encoding="utf-8").partition("# ")[0]
)
FIRST, SECOND, THIRD = "01-context-switch", "02-latency-ladder", "03-scheduler-latency"
NAMES = """\
import os, pathlib, subprocess, sys, time

assert "measuring" not in dir(), "a chapter made by the same kernel left it"
measuring = "SCHED_LABS_KEPT" in os.environ
"""


class Live:
    """A book of three chapters, served as `make live` serves it; `gate` is what their cells wait for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "book"
        for name in ("_ext", "_static"):
            shutil.copytree(ROOT / "book" / name, self.root / "book" / name)
        shutil.copy(ROOT / "_config.yml", self.root)
        (self.root / "book" / "intro.md").write_text("# A book\n", encoding="utf-8")
        (self.root / "notebooks").mkdir()
        self._names: list[str] = []
        self.said = ""
        self.process: subprocess.Popen[str] | None = None

    def chapter(self, name: str, *cells: str) -> None:
        """Add a chapter of these cells."""
        code = "".join(f"\n```{{code-cell}} ipython3\n{cell}\n```\n" for cell in (NAMES, *cells))
        (self.root / "notebooks" / f"{name}.md").write_text(
            f"{HEADER}# Chapter {name}\n{code}", encoding="utf-8"
        )
        self._names.append(name)
        listed = "".join(f"  - file: notebooks/{name}\n" for name in self._names)
        contents = f"format: jb-book\nroot: book/intro\nchapters:\n{listed}"
        (self.root / "_toc.yml").write_text(contents, encoding="utf-8")

    def gate(self, name: str) -> str:
        """Code that waits until `open` is called with this name, for ten minutes at most."""
        return (
            f"until = time.monotonic() + 600\n"
            f"while not pathlib.Path({str(self.folder / name)!r}).exists() and time.monotonic() < until:\n"
            f"    time.sleep(0.05)"
        )

    def open(self, name: str) -> None:
        (self.folder / name).touch()

    def start(self, *before: str) -> str:
        """Start it, by a command that goes before it, and give the address of the book with its key."""
        words = ["live", "--root", str(self.root), "--profile", "tiny", "--port", "8950", "--no-browser"]
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "sched_labs.book", *words],
            env={**os.environ, **apart(self.folder / "data")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._hear, daemon=True).start()
        return until(lambda: re.search(r"The book: +(http://\S+)", self.said), lambda: self.said)[1]

    def _hear(self) -> None:
        assert self.process and self.process.stdout
        for line in self.process.stdout:
            self.said += line

    def page(self, name: str) -> str:
        return (self.root / "_build/html/notebooks" / f"{name}.html").read_text(encoding="utf-8")

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(90)


def until(found: Callable[[], Any], what: Callable[[], object] = str, seconds: float = 240) -> Any:
    end = time.monotonic() + seconds
    while not (there := found()):
        assert time.monotonic() < end, what()
        time.sleep(0.1)
    return there


def ours(root: Path) -> list[str]:
    """Every process whose command line names the book, but for the server's own."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(root).encode() in words and b"behind" in words:
            found.append(line.parent.name)
    return found


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    made = Live(tmp_path)
    yield made
    made.end()


def test_pages_are_there_at_once_and_each_chapter_replaces_its_own(live: Live, browser: Any) -> None:
    live.chapter(
        FIRST,
        f"if measuring:\n    {live.gate('first').replace(chr(10), chr(10) + '    ')}",
        "print('measured here:', measuring)",
    )
    live.chapter(SECOND, "print('measured here:', measuring)", "assert not measuring, 'not on this machine'")
    live.chapter(
        THIRD, "print('measured here:', measuring)",
        f"if os.environ.get('SCHED_LABS_PAGE'):\n    {live.gate('mine').replace(chr(10), chr(10) + '    ')}",
    )  # fmt: skip
    address = live.start()
    base = address.partition("?")[0]
    assert all("measured here: False" in live.page(name) for name in (FIRST, SECOND, THIRD))
    context = browser.new_context()
    context.set_default_timeout(240_000)
    troubles: list[str] = []

    def tab(name: str) -> Any:
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(f"{base}notebooks/{name}.html")
        return page

    front = context.new_page()
    front.goto(address)
    front.get_by_text("now “Chapter 01-context-switch”").wait_for()
    idle, touched, second, third = tab(FIRST), tab(FIRST), tab(SECOND), tab(THIRD)
    for page in (idle, touched):
        page.get_by_text("It is being measured on your machine now.").wait_for()
        page.get_by_text(re.compile(r"cell \d of 3")).wait_for()
    second.get_by_text("Your machine measures it after 1 other.").wait_for()
    third.get_by_text("Your machine measures it after 2 others.").wait_for()
    touched.keyboard.press("Tab")

    # What the reader runs goes first: the next cell of the chapter waits for it.
    third.get_by_role("button", name="Run the whole page on this machine").click()
    third.locator('.sl-running:has-text("SCHED_LABS_PAGE")').wait_for()
    time.sleep(4)  # the server looks twice a second
    live.open("first")
    idle.get_by_text("waiting: something of yours runs").wait_for()
    assert "measured here: False" in live.page(FIRST)
    live.open("mine")

    # A page that nobody has touched is the new one by itself; elsewhere the reader decides.
    idle.get_by_text("measured here: True").wait_for()
    touched.get_by_text("This chapter has been measured on your machine.").wait_for()
    assert touched.get_by_text("measured here: False").is_visible()
    touched.get_by_role("button", name="Show it").click()
    touched.get_by_text("measured here: True").wait_for()

    # One that fails keeps its page and says so.
    second.get_by_text("could not be measured on your machine (cell 3: AssertionError").wait_for()
    assert "measured here: False" in live.page(SECOND)
    # What ran on this page is not lost.
    third.get_by_text("What you have tried").or_(
        third.get_by_text("This chapter has been measured")
    ).wait_for()
    until(lambda: "Something failed" in live.said, lambda: live.said)
    assert "not on this machine" in live.said
    assert troubles == []
    context.close()

    live.end()
    assert live.process and live.process.returncode == 0
    assert not ours(live.root) and not (live.root / "_build/measuring.json").exists()

    # What was measured is kept; the one that failed is tried again.
    live.said = ""
    live.start()
    assert "notebooks/01-context-switch" not in live.said
    until(lambda: "notebooks/02-latency-ladder: measuring (profile tiny)" in live.said, lambda: live.said)
    assert "measured here: True" in live.page(THIRD)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_whatever_ends_the_server_ends_the_measuring_which_cleans_up(
    live: Live, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "no_sphinx"))
    said = live.folder / "said"
    live.chapter(
        FIRST,
        f"""
if measuring:
    said = pathlib.Path({str(said)!r})
    child = subprocess.Popen(["sleep", "600"])
    said.write_text(f"{{os.getpid()}} {{child.pid}}")
    try:
        child.wait()
    finally:
        child.kill()
        child.wait()
        said.write_text(said.read_text() + " cleaned")
""",
    )
    # Some scripts start what runs in the background so that it ignores Ctrl-C.
    live.start(*(("sh", "-c", "trap '' INT; exec \"$@\"", "sh") if how == signal.SIGKILL else ()))
    until(lambda: said.exists() and said.read_text(), lambda: live.said)
    assert len(ours(live.root)) == 1
    assert live.process
    live.process.send_signal(how)
    live.process.wait(90)
    until(lambda: not ours(live.root), lambda: live.said, seconds=120)
    kernel, child, cleaned = said.read_text().split()
    assert cleaned == "cleaned" and "Traceback" not in live.said, live.said
    assert not Path("/proc", kernel).exists() and not Path("/proc", child).exists()
