"""Players of incidents: one that follows the book's order of diagnosis, and some that do not.

The first knows what the dashboard says (`status --json`), what /proc says of a user's own processes, and what
a control group counts; not the story, nor what the programs were told.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

WINDOW_S = 6.0  # as long as what the dashboard shows
_EACH_S = 0.01
FAULTS_PER_S = 5_000  # far more than a program that keeps its memory has, on any machine
IN_INTERRUPTS_MS_PER_S = 250  # far more than ticks and an idle network take
TURN_MS = 1.0  # of CPU time at a stretch: who has less, and did not sleep, has handed it on
SLACK_MS = 5.0  # a hundred times the usual one
WAITS_MS_PER_S = 250  # of all its threads: less is what programs beside the incident cost


def read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def tids(pid: int) -> list[int]:
    try:
        return [int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


def scheduled(pid: int) -> dict[int, tuple[int, int]]:
    """Of each thread: ns that it ran, and ns that it waited for a CPU."""
    found = {}
    for tid in tids(pid):
        words = read(f"/proc/{pid}/task/{tid}/schedstat").split()
        if len(words) == 3:
            found[tid] = (int(words[0]), int(words[1]))
    return found


def switched(pid: int, tid: int) -> tuple[int, int]:
    """Switches of a thread: voluntary ones, and others."""
    lines = read(f"/proc/{pid}/task/{tid}/status").splitlines()
    found = [int(line.split()[1]) for line in lines if "ctxt_switches" in line]
    return (found[0], found[1]) if len(found) == 2 else (0, 0)


def in_interrupts(pid: int) -> float:
    """Ticks in interrupts and softirqs of the CPUs that a process may use."""
    names = {f"cpu{cpu}" for cpu in os.sched_getaffinity(pid)}
    lines = [line.split() for line in read("/proc/stat").splitlines()]
    return sum(int(words[6]) + int(words[7]) for words in lines if words[0] in names)


def slack_ms(pid: int) -> float:
    """The longest timer slack of its threads; 0 where one may not see it."""
    return max((int(read(f"/proc/{tid}/timerslack_ns") or 0) for tid in tids(pid)), default=0) / 1e6


def faults(pid: int) -> int:
    words = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(words[7]) if words else 0


def given(folder: str, name: str) -> int:
    """How many CPUs a program was given, according to its file."""
    said = "# It was given CPU "
    lines = read(f"{folder}/etc/{name}.conf").splitlines()
    return next(line.removeprefix(said).count(",") + 1 for line in lines if line.startswith(said))


def throttled(group: str | None) -> tuple[int, int]:
    words = dict(line.split()[:2] for line in read(f"{group}/cpu.stat").splitlines() if group)
    return int(words.get("nr_periods", 0)), int(words.get("nr_throttled", 0))


class Seen:
    """What a look of some seconds at the service and its neighbours says.

    ask   how to read the dashboard; `status` is what it says of the seconds of the look
    """

    def __init__(self, ask: Callable[[], dict[str, Any]]) -> None:
        status = ask()
        service = status["programs"]["service"]["name"]
        now = status["now"]["programs"]
        pids = {one["name"]: int(now[role]["pid"]) for role, one in status["programs"].items()}
        self.pid = pid = pids.pop(service)
        self.others = pids
        before = {name: scheduled(other) for name, other in {service: pid, **self.others}.items()}
        switches = {tid: switched(pid, tid) for tid in tids(pid)}
        memory, periods, begin = faults(pid), throttled(status["group"]), time.monotonic()
        ticks = in_interrupts(pid)
        asleep: defaultdict[tuple[int, str], int] = defaultdict(int)
        stopped = looks = 0
        while time.monotonic() < begin + WINDOW_S:
            looks += 1
            stopped += read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["T"]
            for tid in tids(pid):
                asleep[tid, kind(read(f"/proc/{pid}/task/{tid}/wchan"))] += 1
            time.sleep(_EACH_S)
        length = time.monotonic() - begin
        self.status = ask()
        self.programs = {
            one["name"]: {**one, **self.status["now"]["programs"][role]}
            for role, one in self.status["programs"].items()
        }
        self.stopped = stopped / looks
        self.asleep = {key: count / looks for key, count in asleep.items()}
        went = {tid: switched(pid, tid) for tid in switches}
        self.switches = (went[pid][0] - switches[pid][0]) / length
        self.sleeps, self.forced = (
            sum(went[tid][kind] - switches[tid][kind] for tid in went) / length for kind in (0, 1)
        )
        self.faults = (faults(pid) - memory) / length
        hz = os.sysconf("SC_CLK_TCK")
        self.in_interrupts = 1000 * (in_interrupts(pid) - ticks) / hz / length
        self.lacks_cpus = len(os.sched_getaffinity(pid)) < given(status["folder"], service)
        after = throttled(status["group"])
        self.throttled = (after[1] - periods[1]) / max(1, after[0] - periods[0])

        def more(name: str, number: int, column: int) -> dict[int, float]:
            now = scheduled(number)
            return {
                tid: (value[column] - before[name].get(tid, (0, 0))[column]) / 1e6 / length
                for tid, value in now.items()
            }

        ran = more(service, pid, 0)
        self.loop_ran, self.busiest = ran.get(pid, 0.0), max(ran.values())
        self.ran, self.waited = sum(ran.values()), sum(more(service, pid, 1).values())
        self.rivals = {
            name: sum(more(name, other, 0).values())
            for name, other in self.others.items()
            if os.sched_getaffinity(other) & os.sched_getaffinity(pid)
        }

    def threads_in(self, where: str) -> float:
        """How many threads sleep there, on average."""
        return sum(share for (_, name), share in self.asleep.items() if name == where)


def kind(wchan: str) -> str:
    for name, words in (
        ("lock", ("futex",)),
        ("timer", ("nanosleep",)),
        ("socket", ("skb", "unix_")),
        ("poll", ("poll",)),
    ):
        if any(word in wchan for word in words):
            return name
    return "else"


def by_the_book(ask: Callable[[], dict[str, Any]]) -> tuple[str, float]:
    """(cause, evidence), in the order of book/incident-room.md."""
    seen = Seen(ask)
    status = seen.status
    places = status["now"]["places"]
    service = status["programs"]["service"]["name"]
    where = max(places, key=lambda key: places[key])
    if where == "not_sent":
        return "batching", places["not_sent"]
    if seen.stopped > 0.1:
        return "stopped", 1000 * seen.stopped
    if seen.throttled > 0.1:
        return "quota", 100 * seen.throttled
    if seen.in_interrupts > IN_INTERRUPTS_MS_PER_S:
        return "interrupts", seen.in_interrupts
    if seen.faults > FAULTS_PER_S:
        return "page-faults", seen.faults
    if seen.waited > max(seen.ran, WAITS_MS_PER_S):
        if seen.lacks_cpus:
            return "mask", float(len(os.sched_getaffinity(seen.pid)))
        rival = max(seen.rivals, key=lambda name: seen.rivals[name])
        if os.sched_getscheduler(seen.others[rival]) in (os.SCHED_FIFO, os.SCHED_RR):
            return "realtime", seen.rivals[rival]
        ours, theirs = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (seen.pid, seen.others[rival]))
        if ours > theirs:
            return "nice", float(ours)
        # Who uses as much as on a good day is no news: then others than those of the incident have the CPU.
        if seen.ran > seen.rivals[rival] and seen.ran > more_than(status, service):
            return what_for(status, seen)
        if seen.rivals[rival] > more_than(status, rival):
            return "rival", seen.rivals[rival]
    other = next(
        (one for one in seen.programs.values() if one["pid"] != seen.pid and one["answers_per_s"]), None
    )
    in_poll, in_timer, in_socket, in_lock = (
        seen.asleep.get((seen.pid, name), 0.0) for name in ("poll", "timer", "socket", "lock")
    )
    # A loop that is away from its poll is what they wait for: also those that it has as coroutines.
    if where == "outside" or in_poll < 0.5:
        if in_lock > 0.3 and seen.ran - seen.loop_ran > WAITS_MS_PER_S:
            return "gil", 100 * in_lock
        if in_lock > max(in_timer, in_socket, seen.loop_ran / 1000):
            return "lock", seen.threads_in("lock")
        if seen.loop_ran > 1000 * max(in_timer, in_socket):
            return "long-handler", seen.loop_ran
        if in_socket > in_timer and other:
            return "downstream", other["answers_per_s"]
        if seen.threads_in("poll") - in_poll > 2.5:  # besides the one who reads what the program is told
            return "imbalance", 100 * seen.busiest / seen.ran
        if in_poll < 0.02:
            return "polling", seen.switches
        return "blocking-call", 100 * in_timer
    sleeps = {name: seen.threads_in(name) for name in ("lock", "socket")}
    if slack_ms(seen.pid) > SLACK_MS:
        return "timer-slack", slack_ms(seen.pid)
    if max(sleeps.values()) < 0.6:
        return "few-workers", places["in_work"]
    if sleeps["socket"] > sleeps["lock"] and other:
        return "downstream", other["answers_per_s"]
    return "lock", sleeps["lock"]


def what_for(status: dict[str, Any], seen: Seen) -> tuple[str, float]:
    """For what the service's threads take the CPU from each other."""
    now, well = (status[when]["programs"]["service"] for when in ("now", "healthy"))
    if now["work_per_s"] > 1.2 * well["work_per_s"]:
        return "own-threads", seen.waited
    if seen.forced > max(seen.sleeps, seen.ran / TURN_MS):
        return "yield", seen.forced + seen.sleeps
    if seen.sleeps > 10 * now["answers_per_s"]:
        return "herd", seen.sleeps
    return "busy-wait", seen.ran


def more_than(status: dict[str, Any], name: str) -> float:
    """CPU time in ms/s, clearly more than what a program used while all was well."""
    role = next(role for role, one in status["programs"].items() if one["name"] == name)
    return float(50 + 1.5 * status["healthy"]["programs"][role]["cpu_ms_per_s"])


def top_cpu(status: dict[str, Any]) -> str:
    """Blames who uses most CPU time."""
    return _blame(status, "cpu_ms_per_s", own="overload")


def most_switches(status: dict[str, Any]) -> str:
    """Blames who switches most."""
    return _blame(status, "switches_per_s", own="own-threads")


def _blame(status: dict[str, Any], column: str, own: str) -> str:
    programs = status["now"]["programs"]
    worst = max(programs, key=lambda role: programs[role][column])
    return {"service": own, "client": "overload"}.get(worst, "rival")
