"""Incidents as a reader has them: the symptom is there, the repairs mend it, nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import incident_players
import pytest
from incident_room import Room, nothing_left, settle, started

from sched_labs.core.errors import SchedLabError
from sched_labs.incidents import cast, causes, desk, evidence, judge, stage, story
from sched_labs.reader import cleanup

# `make test-all` plays this one whole, and of these stories asks whether their first cause shows.
FIRST = ("ledger", "lock")
SHOWN = {
    name: story.plan(name, 0).story.variants[0].cause
    for name in (
        *("acknowledging", "callbacks", "encoding", "exclusive", "gateway"),
        *("matchmaking", "scoring", "segments"),
    )
} | dict([FIRST])


def variants(name: str, cause: str, *more: object, always: bool) -> object:
    """A variant as a parameter; `make test-all` plays it where `always` is true."""
    marks = [] if always else [pytest.mark.variants]
    return pytest.param((name, cause), *more, marks=marks, id="-".join(map(str, (name, cause, *more))))


EACH = [(name, one.cause) for name in story.names() for one in story.plan(name, 0).story.variants]
REPAIRS = [
    variants(name, one.cause, number, always=(name, one.cause) == FIRST)
    for name in story.names()
    for one in story.plan(name, 0).story.variants
    for number in range(len(one.repairs))
]
SEED = "11"
SICK = 0.7  # of the requests in time, at most, of all that the healthy run had


def need(name: str, cause: str) -> None:
    """Skip what this machine lacks."""
    try:
        without, why = stage.lacking(name)
    except SchedLabError as error:
        pytest.skip(error.what)
    variant = next(one for one in story.plan(name, 0).story.variants if one.cause == cause)
    if set(variant.needs) & set(without):
        pytest.skip(why)


@pytest.fixture
def room(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """The variant that a test is about, or ledger with a lock."""
    name, cause = getattr(request, "param", FIRST)
    need(name, cause)
    with started(tmp_path, monkeypatch, name, "--seed", SEED, "--cause", cause) as found:
        yield found


@pytest.mark.parametrize(
    "room", [variants(*one, always=SHOWN.get(one[0]) == one[1]) for one in EACH], indirect=True
)
def test_the_symptom_is_there_and_stays_and_a_placebo_does_not_help(room: Room) -> None:
    settle()
    running = desk.running()
    well = running.state["healthy"]["level"]
    assert well >= stage.WELL
    first = room.status()["now"]["level"]
    # "Have you tried to start it again?"
    os.kill(running.pids["service"], signal.SIGKILL)
    settle(9)
    second = room.status()
    assert second["log"], "that a program was started again is on the dashboard"
    assert first <= SICK * well and second["now"]["level"] <= SICK * well, (first, second["now"])
    assert judge.check(desk.running()).right is not True
    value = evidence.measure(desk.running())
    cause = causes.CAUSES[running.plan.variant.cause]
    assert cause.fits(evidence.measure(desk.running()), value), "the evidence is not stable"
    said = room.say("answer", cause.name, "--evidence", f"{value:.2f}")
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("room", [variants(*one, always=one == FIRST) for one in EACH], indirect=True)
def test_who_follows_the_books_order_finds_the_cause_and_proves_it(room: Room) -> None:
    """Twice, as other programs may come in between; `benchmarks/incidents.py` counts how often it works."""
    for last in (False, True):
        settle()
        cause, value = incident_players.by_the_book(room.status())
        said = room.say("answer", cause, "--evidence", f"{value:.2f}")
        if said.returncode == 0:
            return
        assert not last, f"{cause} {value:g}: {said.stdout}\n{room.say('status').stdout}"


@pytest.mark.parametrize(("room", "number"), REPAIRS, indirect=["room"])
def test_each_repair_mends_it(room: Room, number: int) -> None:
    settle()
    running = desk.running()
    repair = running.plan.variant.repairs[number]
    change = repair.change
    cast.apply(change, running.pids[change.role], running.folder, running.plan, running.group)
    for _ in range(3):  # beside other programs a check may have to be made again
        verdict = judge.check(desk.running())
        if verdict.right:
            return
    if verdict.right is None:
        pytest.skip(f"this machine is too busy: {verdict}")
    pytest.fail(f"{repair.text}: {verdict}")


def test_nothing_on_the_machine_says_what_is_wrong(room: Room) -> None:
    running = desk.running()
    words = {"lock", "actor", "cause", "variant", *causes.CAUSES} - {"nice"}
    for pid in running.pids.values():
        told = b""
        for name in ("cmdline", "environ", "comm"):
            told += Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b"\n") + b"\n"
        assert not [word for word in words if word in told.decode().split()], told
    seen = [str(path.relative_to(running.folder)) for path in running.folder.rglob("*")]
    roles = {"service", "client", "batch"}
    assert not [path for path in seen if any(word in path for word in roles)]


def test_a_second_start_is_refused_and_the_first_goes_on(room: Room) -> None:
    said = room.say("start", "ledger")
    assert said.returncode == 2 and "running already, and goes on" in said.stderr
    assert room.status()["now"]["requests_per_s"] > 0
    said = room.say("answer", "gremlins", "--evidence", "3")
    assert said.returncode == 2 and "is no cause" in said.stderr
    assert room.process.poll() is None


def test_stop_ends_it_and_all_of_it(room: Room) -> None:
    assert len(room.marked()) >= 4
    assert room.say("stop").returncode == 0
    assert room.process.wait(timeout=10) in (0, 130)
    assert nothing_left(room)


def test_one_that_is_killed_leaves_nothing(room: Room) -> None:
    os.kill(room.process.pid, signal.SIGKILL)
    room.process.wait()
    assert nothing_left(room)


def test_one_whose_parent_is_killed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a notebook is killed, which says nothing to what it started."""
    need("ledger", "lock")
    parent = (sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])")
    with started(tmp_path, monkeypatch, "ledger", "--seed", SEED, by=parent) as room:
        os.kill(room.process.pid, signal.SIGKILL)
        assert nothing_left(room)


def test_clean_sees_every_process_of_it(room: Room) -> None:
    seen = {pid for pid, owner in cleanup._marked() if owner == room.mark}
    assert set(desk.running().pids.values()) < seen, "the watchdog is among them, too"


def test_its_time_limit_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("ledger", "lock")
    with started(tmp_path, monkeypatch, "ledger", "--seed", SEED, "--minutes", "1") as room:
        assert room.process.wait(timeout=90) == 0
        assert nothing_left(room)
