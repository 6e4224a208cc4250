"""Incidents as a reader has them: the symptom is there, the repairs mend it, nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import incident_players
import pytest
from incident_room import Room, nothing_left, settle, started
from waiting import wait_until

from sched_labs.core.errors import SchedLabError
from sched_labs.incidents import cast, causes, desk, evidence, judge, stage, story
from sched_labs.reader import cleanup

# `make test-thorough` plays the first one whole, and asks of some more whether they show: one for each way to
# be slow that leaves another trace.  `make test-incidents` plays every variant.
FIRST = ("ledger", "lock")
SHOWN = {
    FIRST,  # asleep
    ("scoring", "quota"),  # held back
    ("encoding", "rival"),  # waiting for a CPU
    ("gateway", "blocking-call"),  # a loop that is away
    ("acknowledging", "batching"),  # done, and not sent
}


def variants(name: str, cause: str, *more: object, always: bool) -> object:
    """A variant as a parameter; `make test-thorough` plays it where `always` is true."""
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


@contextlib.contextmanager
def settled(folder: Path, variant: tuple[str, str]) -> Iterator[Room]:
    """A variant of an incident, as soon as what the dashboard shows is of it alone."""
    name, cause = variant
    need(name, cause)
    with (
        pytest.MonkeyPatch.context() as patch,
        started(folder, patch, name, "--seed", SEED, "--cause", cause) as found,
    ):
        settle()
        yield found


@pytest.fixture
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    """A start for one test alone."""
    with settled(tmp_path, request.param) as found:
        yield found


@pytest.fixture(scope="module")
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """One start for all tests of a variant: they come in the order of this file, and the last may end it."""
    with settled(tmp_path_factory.mktemp("incident"), request.param) as found:
        yield found


def of(*some: tuple[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("room", [variants(*one, always=True) for one in some], indirect=True)


# These start incidents of their own, and so come before those who share one.


def test_one_whose_parent_is_killed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a notebook is killed, which says nothing to what it started."""
    need(*FIRST)
    parent = (sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])")
    with started(tmp_path, monkeypatch, "ledger", "--seed", SEED, by=parent) as room:
        os.kill(room.process.pid, signal.SIGKILL)
        assert nothing_left(room)


# Of a minute, five seconds.
SHORT = """
import sys
from sched_labs import cli
from sched_labs.incidents import stage
run = stage.run
stage.run = lambda plan, **options: run(plan, **options | {"limit_s": options["limit_s"] / 12})
sys.exit(cli.main(sys.argv[5:]))  # behind python -u -m sched_labs
"""


def test_its_time_limit_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(*FIRST)
    short = (sys.executable, "-u", "-c", SHORT)
    with started(tmp_path, monkeypatch, "ledger", "--seed", SEED, "--minutes", "1", by=short) as room:
        assert room.process.wait(timeout=60) == 0
        assert nothing_left(room)


@pytest.mark.parametrize(("fresh", "number"), REPAIRS, indirect=["fresh"])
def test_each_repair_mends_it(fresh: Room, number: int) -> None:
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


@pytest.mark.parametrize("room", [variants(*one, always=one in SHOWN) for one in EACH], indirect=True)
def test_the_symptom_is_there_and_stays_and_a_placebo_does_not_help(room: Room) -> None:
    running = desk.running()
    well = running.state["healthy"]["level"]
    assert well >= stage.WELL
    first = room.status()["now"]["level"]
    # "Have you tried to start it again?"
    ended = running.pids["service"]
    os.kill(ended, signal.SIGKILL)
    assert wait_until(lambda: desk.running().pids["service"] != ended)
    with ThreadPoolExecutor() as beside:
        checked = beside.submit(judge.check, desk.running())
        settle(2)
        value = evidence.measure(desk.running())
        assert checked.result().right is not True
    second = room.status()
    assert second["log"], "that a program was started again is on the dashboard"
    assert first <= SICK * well and second["now"]["level"] <= SICK * well, (first, second["now"])
    # The judge measures once more: the evidence is stable.
    said = room.say("answer", running.plan.variant.cause, "--evidence", f"{value:.2f}")
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("room", [variants(*one, always=one == FIRST) for one in EACH], indirect=True)
def test_who_follows_the_books_order_finds_the_cause_and_proves_it(room: Room) -> None:
    """Twice, as other programs may come in between; `benchmarks/incidents.py` counts how often it works."""
    for last in (False, True):
        cause, value = incident_players.by_the_book(room.status)
        said = room.say("answer", cause, "--evidence", f"{value:.2f}")
        if said.returncode == 0:
            return
        assert not last, f"{cause} {value:g}: {said.stdout}\n{room.say('status').stdout}"


@of(FIRST)
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


@of(FIRST)
def test_a_second_start_is_refused_and_the_first_goes_on(room: Room) -> None:
    said = room.say("start", "ledger")
    assert said.returncode == 2 and "running already, and goes on" in said.stderr
    assert room.status()["now"]["requests_per_s"] > 0
    said = room.say("answer", "gremlins", "--evidence", "3")
    assert said.returncode == 2 and "is no cause" in said.stderr
    assert room.process.poll() is None


@of(FIRST)
def test_clean_sees_every_process_of_it(room: Room) -> None:
    seen = {pid for pid, owner in cleanup._marked() if owner == room.mark}
    assert set(desk.running().pids.values()) < seen, "the watchdog is among them, too"


@of(FIRST)
def test_stop_ends_it_and_all_of_it(room: Room) -> None:
    assert len(room.marked()) >= 4
    assert room.say("stop").returncode == 0
    assert room.process.wait(timeout=10) in (0, 130)
    assert nothing_left(room)


@of(("gateway", "blocking-call"))
def test_one_that_is_killed_leaves_nothing(room: Room) -> None:
    os.kill(room.process.pid, signal.SIGKILL)
    room.process.wait()
    assert nothing_left(room)
