"""Watch a program for a while, and say what was seen, as a Result."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .. import machine
from ..core.errors import ParameterError, ProbeError, SchedLabError
from ..core.progress import Progress
from ..core.result import Note, Result, latest
from ..core.store import now
from ..probes import runqlat, schedstat, switches
from ..probes import timeline as turns
from ..run.surroundings import Surroundings
from . import clients, looks, report
from . import findings as diagnosis
from .causes import causes
from .seen import Seen, Watcher
from .target import Command, ControlGroup, Processes, Target, plain

MOST_S = 3600.0
SECONDS = 10.0
SHORT_S = 0.3
MOST_HELD = 1024  # processes that the helper takes
REMEDY = "Run scripts/provision.sh once, which installs the privileged helper: then every wait is counted."


def watch(
    command: Sequence[str] | None = None,
    *,
    pid: int | Sequence[int] | None = None,
    cgroup: str | None = None,
    seconds: float | None = None,
    stacks: bool = False,
    timeline: bool = False,
    progress: bool = True,
    save: bool = True,
) -> Result:
    """Watch a program of one's own, and say where its time went and why it waited.

    command   words to start; it keeps standard input and output, and is ended with the window
    pid       processes that run already, with their threads and what they start
    cgroup    the processes of a control group and of the groups inside it
    seconds   how long (0.1 to 3600); by default 10, and a command until it ends
    stacks    also note in which functions of the kernel threads leave their CPU, and who wakes them; dearer,
              and only with the helper
    timeline  also keep who had which CPU when, as far back as there is room, and around the ten longest
              waits; only with the helper.  Of a process that takes datagrams of everybody it is watched in
              any case: no socket tells who sends them

    One of the three is given.  Ctrl-C ends the window, and what was seen until then is returned.  Raises
    ParameterError for what cannot be watched by anybody, ProbeError for a process that is not there, or a
    command that does not start.

    The Result is one of the experiment own_program.watch, whose docstring describes the columns of its data
    (one row per thread) and its tables: findings, causes, cpus, groups, rivals, sleeps and, where the
    privileged helper is installed, waits (the histogram) and edges (who had the CPU after whom); with stacks
    also stacks (tid, name, state, times, off_cpu_ns, stack: the functions joined by semicolons) and wakers
    (probes.switches.Switches.wakers), with timeline also turns and longest (probes.timeline.Timeline.turns
    and .worst).
    """
    with target_of(command, pid, cgroup) as target:
        result = observe(target, seconds, stacks=stacks, timeline=timeline, progress=progress)
    if save:
        with contextlib.suppress(SchedLabError):
            result.save()
    return result


def target_of(command: Sequence[str] | None, pid: int | Sequence[int] | None, cgroup: str | None) -> Target:
    """What is to be watched.  Raises like `watch`."""
    if sum(one is not None for one in (command, pid, cgroup)) != 1:
        raise ParameterError("Give one thing to watch.", "A command, or pid=, or cgroup=.")
    if command is not None:
        return Command(command)
    if pid is not None:
        return Processes([pid] if isinstance(pid, int) else list(pid))
    return ControlGroup(str(cgroup))


def observe(
    target: Target,
    seconds: float | None = None,
    *,
    stacks: bool = False,
    timeline: bool = False,
    progress: bool = True,
) -> Result:
    """Watch a target until it ends or the time is over; see `watch`."""
    if seconds is None and not isinstance(target, Command):
        seconds = SECONDS
    if seconds is not None and not 0.1 <= seconds <= MOST_S:
        raise ParameterError(f"seconds must lie between 0.1 and {MOST_S:.0f}, not at {seconds!r}.")
    able = schedstat.available()
    if not able.ok:
        raise ProbeError(able.why, "A kernel with CONFIG_SCHED_INFO.", lacking=True)
    if not target.pids():
        raise ProbeError("There is no process to watch.", "Start it first.")
    about, notes = machine.survey().provenance(), list[Note]()
    if strangers := [pid for pid in target.pids() if not looks.is_ours(pid)]:
        text = f"Process {strangers[0]} belongs to another user: what its threads sleep for is not known."
        notes.append(Note("missing", text))
    around, recorded_at, began = Surroundings(), now(), time.monotonic()
    with contextlib.ExitStack() as stack:
        # Who sends it datagrams is told by no socket, but by who wakes it.
        kept = timeline or clients.open_to_datagrams(target.pids())
        probe = _probes(stack, target, seconds or MOST_S, stacks, kept, notes)
        bar = Progress(f"watching {target.name}", 1, show=progress)
        seen, interrupted = _watch(target, seconds, probe, bar, notes)
    if seen.window_s < SHORT_S:
        text = f"It was there for {1000 * seen.window_s:.0f} ms only: what so short a time shows is chance."
        notes.append(Note("flag", text))
    if seen.ended:
        threads = "1 thread" if seen.ended == 1 else f"{seen.ended:,} threads"
        text = (
            f"{threads} ended meanwhile. Their last {1000 * seen.pause_s:.0f} ms at most "
            "are not in the table, nor is a thread that lived no longer than that."
        )
        notes.append(Note("info", text))
    if dropped := seen.dropped.threads:
        run, wait = (ns / 1e6 / seen.window_s for ns in (seen.dropped.run_ns, seen.dropped.wait_ns))
        text = (
            f"{dropped:,} of these have no row, for want of room: together they ran {run:,.1f} ms of every "
            f"second and waited {wait:,.1f} ms."
        )
        notes.append(Note("flag", text))
    if interrupted:
        notes.append(Note("info", "Stopped early: this holds what was seen before the interruption."))
    result = _result(seen, about, notes, timeline)
    result.parameters = {"program": target.name, "seconds": seconds}
    result.recorded_at, result.duration_s, result.interrupted = recorded_at, seen.window_s, interrupted
    result.surroundings = around.since()
    result.facts |= {"looking_ms_per_s": seen.looked_ns / 1e6 / max(1e-3, time.monotonic() - began)}
    return result


@dataclass(frozen=True)
class Probes:
    """What counts in the kernel while the window is open."""

    waits: runqlat.Watch
    stacks: switches.Watch | None
    turns: turns.Watch | None

    def start(self) -> None:
        for probe in (self.waits, self.stacks, self.turns):
            if probe:
                probe.start()

    def stop(self, seen: Seen) -> None:
        """Close them, and put what they counted into the window."""
        seen.waits = self.waits.stop()
        seen.switches = self.stacks.stop() if self.stacks else self.waits.switches
        seen.turns = self.turns.stop() if self.turns else None


def _probes(
    stack: contextlib.ExitStack,
    target: Target,
    seconds: float,
    stacks: bool,
    timeline: bool,
    notes: list[Note],
) -> Probes | None:
    """The helper's probes, where it is there and may watch this program."""
    able = runqlat.available()
    why, remedy, pids = able.why, able.remedy, target.pids()
    if able.ok and len(pids) > MOST_HELD:
        able, why = runqlat.Availability(False), f"The helper takes {MOST_HELD} processes, not {len(pids)}."
    # We close the window.  The looks at thousands of threads may take longer than it lasts.
    longest = min(MOST_S, seconds + 60)
    if able.ok:
        try:
            enter, whose = stack.enter_context, "family"
            waits = enter(
                runqlat.watch(pids, longest, 30, scope=whose, bins="log2", attribution=True, edges=not stacks)
            )
            # Where stacks are noted at each switch, the edges are counted by the way.
            places = enter(switches.watch(pids, longest, scope=whose, stacks=True)) if stacks else None
            kept = enter(turns.watch(pids, longest, scope=whose)) if timeline else None
            return Probes(waits, places, kept)
        except ProbeError as error:
            why, remedy = error.what, error.remedy
    notes.append(
        Note(
            "missing",
            f"Waits were not counted one by one: {why} How long threads waited is exact; who had the CPU "
            f"meanwhile is estimated, and how long single waits were is not known. {remedy or REMEDY}",
        )
    )
    return None


def _watch(
    target: Target, seconds: float | None, probe: Probes | None, bar: Progress, notes: list[Note]
) -> tuple[Seen, bool]:
    """The window, and whether it was stopped early."""
    interrupted = False
    watcher = Watcher(target)
    if probe:
        probe.start()
    try:
        target.begin()
        end_s = time.monotonic() + seconds if seconds is not None else time.monotonic() + MOST_S
        watcher.until(end_s, lambda passed: bar.say(f"{passed:.0f} s"))
    except KeyboardInterrupt:
        interrupted = True
    seen = watcher.seen()
    if probe:
        try:
            probe.stop(seen)
        except ProbeError as error:  # somebody ended the helper: what /proc told is there all the same
            notes.append(Note("missing", f"What was counted is lost: {error.what}"))
    return seen, interrupted


def _result(seen: Seen, about: dict[str, Any], notes: list[Note], timeline: bool) -> Result:
    found = causes(seen)
    costs = diagnosis.Costs(_newest("context_switch.matrix"), _newest("warmup.sweep"))
    reasons = diagnosis.findings(seen, found, costs)
    paid = diagnosis.price.estimate(seen, costs)
    tables = {
        "findings": diagnosis.table(reasons),
        "causes": found.table(),
        "cpus": seen.cpus,
        "groups": seen.groups,
        "rivals": seen.rivals,
        "sleeps": pd.DataFrame(list(seen.asleep.items()), columns=["asleep_for", "asleep_ms_per_s"]),
    }
    if seen.waits is not None and seen.switches is not None:
        tables |= {"waits": seen.waits.data, "edges": seen.switches.edges, "stacks": seen.switches.stacks}
        tables["wakers"] = seen.switches.wakers
        if lost := seen.waits.lost:
            notes.append(Note("flag", f"{lost:,} waits could not be counted."))
        if lost := seen.switches.lost_edges:
            text = (
                f"{lost:,} switches found no room in the table of who had the CPU after whom: too many pairs."
            )
            notes.append(Note("flag", text))
        if lost := seen.switches.lost_stacks:
            notes.append(
                Note("flag", f"{lost:,} times a thread left its CPU where the table of stacks was full.")
            )
    if timeline and seen.turns is not None:
        tables |= {"turns": seen.turns.turns, "longest": seen.turns.worst}
        if seen.turns.lost:
            text = (
                f"The timeline has the last {len(seen.turns.turns):,} switches, and those around the longest "
                f"waits; {seen.turns.lost:,} earlier ones are gone."
            )
            notes.append(Note("info", text))
    return Result(
        report.KIND,
        seen.threads,
        about,
        {},
        tables={name: _named(table) for name, table in tables.items() if len(table)},
        facts={
            "window_s": seen.window_s,
            "counted": found.exact,
            "running_ms_per_s": seen.running,
            "waiting_ms_per_s": seen.waiting,
            "throttled_ms_per_s": found.long.get("throttled", 0.0),
            "price": paid.text if paid else diagnosis.price.unknown(),
        },
        notes=notes,
    )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names that can be shown; /proc's are so already, and the kernel's are not."""
    raw = [name for name in table.columns if name in ("name", "prev_name", "next_name", "waker_name")]
    return table.assign(**{name: table[name].map(plain) for name in raw})


def _newest(kind: str) -> Result | None:
    """The reader's own run of this experiment, where there is one."""
    with contextlib.suppress(SchedLabError):
        return latest(kind)
    return None
