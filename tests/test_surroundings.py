"""What else went on: time that was stolen, other programs, and our own work that is neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sched_labs import workloads
from sched_labs.machine import files
from sched_labs.run import surroundings
from sched_labs.run.surroundings import Surroundings
from sched_labs.steer import placement


def stat_line(root: Path, *, user: int = 0, idle: int = 0, steal: int = 0) -> None:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc" / "stat").write_text(f"cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of two CPUs whose clock we set; our own programs use nothing."""
    monkeypatch.setattr(surroundings.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(surroundings.os, "sysconf", lambda name: 100)
    with files.root(tmp_path):
        yield tmp_path


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(surroundings.time, "monotonic", lambda: seconds)


def test_steal_and_others_are_shares_of_all_cpus(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat_line(machine, user=1000, steal=50)
    at(monkeypatch, 100)
    looked = Surroundings()
    stat_line(machine, user=1400, steal=150)  # 4 s of work and 1 s stolen, of 10 s on 2 CPUs
    at(monkeypatch, 110)
    around = looked.since()
    assert around["steal_s"] == 1 and around["steal_share"] == pytest.approx(0.05)
    assert around["others_share"] == pytest.approx(0.2, abs=0.01)
    doubts = Surroundings.doubts(around)
    assert len(doubts) == 2 and "steal" in doubts[0] and "Other programs" in doubts[1]


def test_a_quiet_machine_raises_no_doubts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat_line(machine)
    at(monkeypatch, 100)
    looked = Surroundings()
    at(monkeypatch, 110)
    assert Surroundings.doubts(looked.since()) == []


@pytest.mark.parametrize("text", [None, "", "cpu  1 2 3\n", "intr 1 2 3 4 5 6 7 8 9\n"])
def test_what_the_machine_does_not_say_stays_unknown(
    machine: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    if text is not None:
        stat_line(machine)
        (machine / "proc" / "stat").write_text(text)
    around = Surroundings().since()
    assert around == {"steal_s": None, "steal_share": None, "others_share": None}
    assert Surroundings.doubts(around) == []


@pytest.mark.parametrize("between", ["threads", "processes"])
def test_both_sides_of_a_workload_are_counted_as_our_own(between: str) -> None:
    """The CPU time that the workload reports for both sides arrives in our own account once it has ended."""
    before = Surroundings._look()[3]
    arguments = ["--between", between, "--round-trips", "20000", "--trials", "2"]
    with workloads.start("pingpong", arguments) as pingpong:
        placement.pin(pingpong.tids, [placement.quiet_cpu()])
        reported = sum(block["cpu_ns"] for block in pingpong.run()) / 1e9
    assert Surroundings._look()[3] - before >= 0.9 * reported
