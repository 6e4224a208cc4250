"""Progress is told where the reader looks, and nowhere else."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from sched_labs.core.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHED_LABS_PROGRESS", raising=False)


def walk(show: bool = True) -> None:
    with Progress("warmup.sweep", 2, show=show) as bar:
        bar.step("one")
        bar.say("half way")
        bar.step("two")


def test_the_build_reads_lines_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "progress"
    monkeypatch.setenv("SCHED_LABS_PROGRESS", str(file))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    walk()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["done"], line["label"]) for line in lines] == [
        (0, "starting"),
        (1, "one"),
        (1, "half way"),
        (2, "two"),
    ]
    assert {(line["experiment"], line["total"]) for line in lines} == {("warmup.sweep", 2)}
    assert terminal.getvalue() == ""


def test_a_terminal_shows_one_line_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(KeyboardInterrupt), Progress("warmup.sweep", 2) as bar:
        bar.step("one")
        raise KeyboardInterrupt
    assert "1/2  one" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K") and "\n" not in terminal.getvalue()


def test_nothing_is_shown_where_nobody_looks_or_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, show in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        walk(show)
        assert stream.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw and some notebook servers
    walk()
