"""One incident from its healthy run to its end: whatever happens to this program, nothing of it stays."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import machine
from ..core import lock, store
from ..core.errors import BusyError, PlacementError, SchedLabError
from ..limits import cgroups
from ..limits.cgroups import Group
from ..workloads.launch import MARKER, owner_mark
from . import board, desk, meter, story
from . import cast as casting
from .cast import Cast
from .story import CYCLE_S, Plan

LIMIT_S = 45 * 60
WELL = 0.9  # of the requests of a healthy run, in time
SICK = 0.75  # of those of the healthy run, at most, once the trouble is there
_SETTLE_S = 2.0
_TRIES = 3  # a healthy run that something else came into is made again
_SAMPLE_S = 0.1
_QUOTA_US = 200_000  # what the group has while all is well: far more than one CPU
_WEIGHT = 10_000  # beside other groups of ours, such as those of a test
_PR_SET_PDEATHSIG = 1

# Runs by itself: ends the incident when its time is over, and clears up after one that was killed.
_WATCHDOG = """
import os, select, shutil, signal, sys, time
pid, folder, end = int(sys.argv[1]), sys.argv[2], time.monotonic() + float(sys.argv[3])
who = os.pidfd_open(pid)
print(flush=True)
while (left := end - time.monotonic()) > 0 and not select.select([0], [], [], left)[0]:
    pass
over = time.monotonic() >= end
if over or not os.read(0, 16):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            signal.pidfd_send_signal(who, number)
        except ProcessLookupError:
            break
        if select.select([who], [], [], 5)[0]:
            break
    time.sleep(0.5)
    shutil.rmtree(folder, ignore_errors=True)
"""


def lacking(name: str) -> tuple[tuple[str, ...], str]:
    """What of a story this machine cannot show: (needs that are missing, why in words).

    Raises SchedLabError where it can show nothing of it.
    """
    try:
        casting.cpus()
    except PlacementError as error:
        raise SchedLabError(
            f"{error.what} An incident never takes the last CPU.", error.remedy, lacking=True
        ) from error
    needs = story.needs(name)
    missing = {}
    if "group" in needs and not (found := cgroups.possible())[0]:
        missing["group"] = found[1]
    if "priority" in needs and (why := _no_priority()):
        missing["priority"] = why
    return tuple(missing), "; ".join(missing.values())


def _no_priority() -> str:
    """Why this user may not give real-time policies, nor see the timer slack of others; "" where he may."""
    survey = machine.survey()
    if not survey.fact("policy.fifo").value:
        return f"real-time policies: {survey.fact('policy.fifo').why}"
    return "" if survey.fact("policy.cap_sys_nice").value else "timer slack of others: needs CAP_SYS_NICE"


@contextlib.contextmanager
def _watchdog(folder: Path, limit_s: float) -> Iterator[None]:
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(os.getpid()), str(folder), str(limit_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={MARKER: owner_mark()},
        start_new_session=True,  # a Ctrl-C is for us
    )
    assert guard.stdout
    guard.stdout.readline()
    try:
        yield
    finally:
        guard.communicate(b"bye")


@contextlib.contextmanager
def _grouped(plan: Plan, without: tuple[str, ...]) -> Iterator[Group | None]:
    if plan.story.grouped and "group" not in without:
        with cgroups.group(plan.names["service"], quota_us=_QUOTA_US, weight=_WEIGHT) as group:
            yield group
    else:
        yield None


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = desk.place()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700, parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(
    plan: Plan,
    *,
    without: tuple[str, ...] = (),
    cause: str = "",
    limit_s: float = LIMIT_S,
    room: dict[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
    shown: Callable[[], None] = lambda: None,
) -> None:
    """Run an incident until its time is over, or until this program is interrupted (which is raised).

    room   the class that it is played in: to (its wall's address), code, player
    say    is told what happens in words; shown   is called every second once the incident is on
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # a killed notebook takes its incident along
    with contextlib.ExitStack() as stack:
        stack.enter_context(desk.taken())
        try:
            stack.enter_context(lock.machine("an incident", wait_s=0))
        except BusyError as error:
            raise BusyError(
                error.what, "Let it end first: an incident and a measurement disturb each other."
            ) from None
        folder = stack.enter_context(_folder())
        stack.enter_context(_watchdog(folder, limit_s + 120))
        group = stack.enter_context(_grouped(plan, without))
        casting.lay_out(plan, folder)
        cast = Cast(plan, folder, limit_s + 120, group)
        stack.callback(cast.end)
        cast.start_all()
        say(board.opening(plan))
        say("\nIt runs as long as this terminal; Ctrl-C ends it. Play in a second one.")
        say("The programs are running. First the machine while all is well, for some ten seconds ...")
        healthy = _healthy(cast)
        for change in plan.variant.breaks:
            cast.change(change)
        say("Now something goes wrong; the alarm goes off as soon as it can be seen ...")
        sick = _shows(cast, healthy["level"])
        state: dict[str, Any] = {
            "name": plan.name,
            "seed": plan.seed,
            "without": list(without),
            "cause": cause,
            "owner": owner_mark(),
            "started_at": store.now(),
            "alarm_s": time.time(),
            "ends_s": time.time() + limit_s,
            "healthy": healthy,
            "sick": sick,
            "group": [group.path, group.version] if group else None,
            "log": [],
            "room": room,
        }
        _serve(cast, state, shown)
    say("Its time is over: the incident has ended, and nothing of it is left.")


def _looked(cast: Cast) -> meter.Look:
    return meter.look(
        cast.folder, cast.plan.names, {role: process.pid for role, process in cast.processes.items()}
    )


def _healthy(cast: Cast) -> dict[str, Any]:
    """What the programs do while all is well, over one cycle of the clients'."""
    time.sleep(_SETTLE_S)
    for _ in range(_TRIES):
        before = _looked(cast)
        places = meter.mean_places(cast.folder, cast.plan.names, CYCLE_S, _SAMPLE_S)
        found = meter.reading(before, _looked(cast))
        if found["level"] >= WELL:
            return {**found, "places": places}
    raise SchedLabError(
        f"This machine is too busy for an incident: without any trouble only {found['level']:.0%} of the "
        "requests were answered in time.",
        "Close what else is running, and start it again.",
    )


def _shows(cast: Cast, well: float) -> float:
    """Wait until the symptom is there: another kernel may bear the same cause without one.

    Returns the level that it has then.
    """
    for _ in range(_TRIES):
        before = _looked(cast)
        time.sleep(CYCLE_S)
        level = float(meter.reading(before, _looked(cast))["level"])
        if level <= SICK * well:
            return level
    raise SchedLabError(
        "On this machine nothing can be seen of the trouble that was drawn.",
        "Start it again with another seed, or another one.",
        lacking=True,
    )


def _serve(cast: Cast, state: dict[str, Any], shown: Callable[[], None]) -> None:
    looks = deque([_looked(cast)], maxlen=CYCLE_S + 1)
    places: deque[dict[str, int]] = deque(maxlen=round(CYCLE_S / _SAMPLE_S))
    log: deque[str] = deque(maxlen=20)
    while (now := time.time()) < state["ends_s"]:
        for name in cast.revive():
            log.append(f"{time.strftime('%H:%M:%S')} {name} had ended and was started again")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            places.append(meter.places(cast.folder, cast.plan.names))
            time.sleep(_SAMPLE_S)
        looks.append(_looked(cast))
        mean = {key: round(sum(one[key] for one in places) / len(places), 2) for key in places[0]}
        state |= {
            "pids": {role: process.pid for role, process in cast.processes.items()},
            "now": {**meter.reading(looks[0], looks[-1]), "places": mean},
            "log": list(log),
            "since_s": round(now - state["alarm_s"]),
        }
        desk.write(state)
        shown()
