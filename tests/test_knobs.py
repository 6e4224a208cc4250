"""A knob that is moved is put back: after success, an error, Ctrl-C, and when Python is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sched_labs import machine
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.machine.facts import Fact
from sched_labs.steer import knobs


@pytest.fixture
def knob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for the kernel's."""
    path = tmp_path / "base_slice_ns"
    path.write_text("2800000\n")
    point_at(monkeypatch, Fact("tunable.base_slice_ns", 2_800_000, "ns", str(path)))
    return path


def point_at(monkeypatch: pytest.MonkeyPatch, fact: Fact) -> None:
    class Survey:
        def fact(self, key: str) -> Fact:
            assert key == fact.key
            return fact

    monkeypatch.setattr(machine, "survey", Survey)


def test_moves_and_puts_back(knob: Path) -> None:
    with knobs.moved("base_slice_ns", 20_000_000) as before:
        assert before == 2_800_000
        assert knob.read_text() == "20000000"
    assert knob.read_text() == "2800000"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_puts_back_after_an_error(knob: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), knobs.moved("base_slice_ns", 20_000_000):
        raise error
    assert knob.read_text() == "2800000"


def test_puts_back_when_python_is_killed(knob: Path) -> None:
    program = f"""
import time
from pathlib import Path
from sched_labs.steer import knobs
knobs.movable = lambda name: (Path({str(knob)!r}), 2800000)
with knobs.moved("base_slice_ns", 20_000_000):
    print("moved", flush=True)
    time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline() == "moved\n"
    assert knob.read_text() == "20000000"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    deadline = time.monotonic() + 20
    while knob.read_text() != "2800000" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert knob.read_text() == "2800000"


@pytest.mark.parametrize(("name", "value"), [("base_slice_ns", 5), ("base_slice_ns", True), ("hz", 10**6)])
def test_refuses(knob: Path, name: str, value: int) -> None:
    with pytest.raises(ParameterError), knobs.moved(name, value):
        pass
    assert knob.read_text() == "2800000\n"


def test_says_why_it_cannot(knob: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(monkeypatch, Fact("tunable.base_slice_ns", None, "ns", "", "debugfs is not mounted"))
    with pytest.raises(PlacementError, match="debugfs is not mounted"):
        knobs.movable("base_slice_ns")
    point_at(monkeypatch, Fact("tunable.base_slice_ns", 5, "ns", str(knob.parent / "gone")))
    with pytest.raises(PlacementError, match="no such file"):
        knobs.movable("base_slice_ns")
