"""What lies between two looks: how much each thread, group, CPU and neighbour had of the window."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from ..machine import files
from ..probes import schedstat
from ..probes.switches import Switches
from ..probes.timeline import NOT_TOLD, Timeline
from ..probes.waits import Waits
from . import clients, lanes, looks
from .clients import Client
from .looks import Look, Thread
from .target import Target

LEAST_S = 0.1  # between two looks
SPENT = 0.02  # of one CPU, at most, on looking
MOST_KEPT = 20_000  # threads that have a row; of more, those that have ended and used the CPU least have none


@dataclass
class Dropped:
    """Threads that were seen and have no row: how many, and what they had since they were first seen."""

    threads: int = 0
    run_ns: int = 0
    wait_ns: int = 0


@dataclass
class Seen:
    """The window.  `waits`, `switches` and `turns` are the helper's, None without it; rates are ms of every
    second.
    """

    first: Look
    last: Look
    latest: dict[tuple[int, int], Thread]
    sleeps: dict[tuple[int, int], Counter[str]] = field(default_factory=dict)
    used_cpus: set[int] = field(default_factory=set)
    looked_ns: int = 0
    pause_s: float = 0.0
    slack_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    clients: list[Client] = field(default_factory=list)
    came: set[int] = field(default_factory=set)  # processes that connected to the program, and are there
    senders: set[int] = field(default_factory=set)  # those that may send it datagrams without connecting
    crowding: float = 1.0  # of its threads that could run, so many were on one CPU's queue, on the average
    dropped: Dropped = field(default_factory=Dropped)
    waits: Waits | None = None
    switches: Switches | None = None
    turns: Timeline | None = None

    @cached_property
    def window_s(self) -> float:
        return max(1e-3, (self.last.at_ns - self.first.at_ns) / 1e9)

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread; what the columns mean says `program.summarise`."""
        rows = []
        for key, now in self.latest.items():
            then = self.first.threads.get(key)
            seconds = (now.at_ns - (then.at_ns if then else max(now.began_ns, self.first.at_ns))) / 1e9
            since = [
                getattr(now, name) - (getattr(then, name) if then else 0)
                for name in ("run_ns", "wait_ns", "voluntary", "involuntary")
            ]
            faults = [getattr(now, n) - (getattr(then, n) if then else 0) for n in _FAULTS]
            moved = None if now.migrations is None else now.migrations - ((then and then.migrations) or 0)
            run, wait = (max(0.0, value / 1e6 / self.window_s) for value in since[:2])
            wall = 1000 * min(1.0, seconds / self.window_s)
            # A wait is counted when it ends, whole: one that had begun before the window reaches out of it.
            wait = min(wait, max(0.0, wall - run))
            asleep = max(0.0, wall - run - wait)
            row: dict[str, Any] = {
                "pid": now.pid,
                "tid": now.tid,
                "name": now.name,
                "running_ms_per_s": run,
                "waiting_ms_per_s": wait,
                "asleep_ms_per_s": asleep,
                "asleep_for": self._asleep_for(key),
                "voluntary_per_s": max(0, since[2]) / self.window_s,
                "involuntary_per_s": max(0, since[3]) / self.window_s,
                "migrations_per_s": None if moved is None else max(0, moved) / self.window_s,
                "minor_faults_per_s": max(0, faults[0]) / self.window_s,
                "major_faults_per_s": max(0, faults[1]) / self.window_s,
                "system_ms_per_s": max(0, faults[2]) / 1e6 / self.window_s,
                "policy": looks.REALTIME.get(now.policy, "OTHER"),
                "nice": now.nice,
                "allowed_cpus": ",".join(map(str, now.allowed)),
            }
            rows.append(row)
        table = pd.DataFrame(rows, columns=_COLUMNS)
        busy = table["running_ms_per_s"] + table["waiting_ms_per_s"]
        return table.iloc[busy.argsort(kind="stable")[::-1]].reset_index(drop=True)

    def _asleep_for(self, key: tuple[int, int]) -> str:
        kinds = self.sleeps.get(key)
        return kinds.most_common(1)[0][0] if kinds else ""

    @cached_property
    def ended(self) -> int:
        """How many of the threads that were seen were gone at the end."""
        return self.dropped.threads + sum(key not in self.last.threads for key in self.latest)

    @cached_property
    def running(self) -> float:
        return float(self.threads["running_ms_per_s"].sum())

    @cached_property
    def waiting(self) -> float:
        return float(self.threads["waiting_ms_per_s"].sum())

    @cached_property
    def wanted(self) -> float:
        """The time in which its threads ran or could have run."""
        return self.running + self.waiting

    @cached_property
    def asleep(self) -> dict[str, float]:
        """ms of every second asleep, by what for, over all threads: sampled."""
        sums: defaultdict[str, float] = defaultdict(float)
        for row in self.threads.to_dict("records"):
            kinds = self.sleeps.get((row["pid"], row["tid"])) or Counter({looks.OTHER_SLEEP: 1})
            for kind, times in kinds.items():
                sums[kind] += row["asleep_ms_per_s"] * times / kinds.total()
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    @cached_property
    def allowed(self) -> set[int]:
        """The CPUs that its threads may use; those that all together wanted next to no time do not count."""
        rows = self.threads.assign(want=self.threads["running_ms_per_s"] + self.threads["waiting_ms_per_s"])
        rows = rows.sort_values("want", ascending=False, kind="stable")
        wanted_more = rows["want"].cumsum() - rows["want"]
        lists = rows[wanted_more <= (1 - BUSY) * rows["want"].sum()]["allowed_cpus"].unique()
        return {int(cpu) for text in lists for cpu in str(text).split(",") if cpu}

    @cached_property
    def session(self) -> str:
        """The autogroup that it is in, "" where there is none."""
        return self.first.session

    @cached_property
    def cpus(self) -> pd.DataFrame:
        """cpu, used (by the program), allowed; user, system, idle, irq, softirq, steal in ms of each s."""
        rows = []
        for cpu, now in self.last.cpus.items():
            if then := self.first.cpus.get(cpu):
                parts = {
                    f"{name}_ms_per_s": max(0, getattr(now, f"{name}_ns") - getattr(then, f"{name}_ns"))
                    / 1e6
                    / self.window_s
                    for name in ("user", "system", "idle", "irq", "softirq", "steal")
                }
                rows.append(
                    {"cpu": cpu, "used": cpu in self.used_cpus, "allowed": cpu in self.allowed, **parts}
                )
        return pd.DataFrame(rows)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """One row per control group around it: path, limit_cpus, period_us, weight, periods,
        throttled_periods, throttled_ms_per_s (summed over CPUs), pressure_ms_per_s.
        """
        rows = []
        for path, now in self.last.groups.items():
            then = self.first.groups.get(path)
            counted = now.counted.since(then.counted) if now.counted and then and then.counted else None
            pressed = (
                None if now.pressure_us is None or not then or then.pressure_us is None
                else (now.pressure_us - then.pressure_us) / 1e3 / self.window_s
            )  # fmt: skip
            rows.append(
                {
                    "path": path,
                    "limit_cpus": now.cpus,
                    "period_us": now.period_us,
                    "weight": now.weight,
                    "periods": counted.periods if counted else 0,
                    "throttled_periods": counted.throttled_periods if counted else 0,
                    "throttled_ms_per_s": counted.throttled_ns / 1e6 / self.window_s if counted else 0.0,
                    "pressure_ms_per_s": pressed,
                }
            )
        return pd.DataFrame(rows, columns=_GROUPS)

    @cached_property
    def rivals(self) -> pd.DataFrame:
        """Other processes that used the CPUs it may use, the busiest first: pid, name, cpu_ms_per_s, kernel,
        client (whether it connected to the program, or may send it datagrams and wakes it), woke_share (of
        the times that the program was woken, those by one that may send datagrams; None of others, and
        without a timeline), policy, nice, group, group_weight, session, allowed_cpus, took_it (switches from
        threads of ours that could go on), had_ms_per_s (while threads of ours waited for it: from the
        timeline as far as it goes back, else estimated from the switches between its threads and ours; None
        without both).  Those that had it come first.
        """
        own, rows = {*self.last.pids, *self.first.pids, os.getpid()}, []
        took = self._took()
        had = None if self.turns is None else lanes.rivals(self.turns.turns)
        met = self._met()
        for pid, now in self.last.processes.items():
            then = self.first.processes.get(pid)
            before = then.run_ns if then and then.start == now.start else 0
            used = (now.run_ns - before) / 1e6 / self.window_s
            if pid in own or used < LEAST_RIVAL:
                continue
            thread = looks.busiest_thread(pid)
            allowed = set(thread.allowed) if thread else set()
            if allowed and self.allowed and not allowed & self.allowed:
                continue
            session, woke = looks.autogroup(pid), self._woke(pid)
            rows.append(
                {
                    "pid": pid,
                    "name": now.name,
                    "cpu_ms_per_s": used,
                    "kernel": now.kernel,
                    "client": pid in self.came or (woke or 0.0) >= WOKE_SHARE,
                    "woke_share": woke,
                    "policy": looks.REALTIME.get(thread.policy if thread else now.policy, "OTHER"),
                    "nice": thread.nice if thread else now.nice,
                    "group": looks.group_name(pid),
                    "group_weight": looks.weight_of(pid),
                    "session": session[0] if session else "",
                    "allowed_cpus": ",".join(map(str, sorted(allowed))),
                    "took_it": None if took is None else sum(took[tid] for tid in self._tids(pid)),
                    "had_ms_per_s": self._had(pid, used, had, met),
                }
            )
        table = pd.DataFrame(rows, columns=_RIVALS)
        by = ["cpu_ms_per_s"] if had is None and met is None else ["had_ms_per_s", "cpu_ms_per_s"]
        return table.sort_values(by, ascending=False, ignore_index=True)

    def _took(self) -> Counter[int] | None:
        """How often each other thread had the CPU after one of ours that could have gone on."""
        if self.switches is None:
            return None
        edges, own = self.switches.edges, {tid for _, tid in self.latest}
        lost = edges[(edges["state"] == "runnable") & edges["prev_tid"].isin(own)]
        return _sums(lost[~lost["next_tid"].isin(own)], "next_tid")

    def _met(self) -> Counter[int] | None:
        """How often each other thread had a CPU just before one of ours, or took it from one that could have
        gone on: those times it was what ours waited for.  None without the helper.
        """
        if self.switches is None:
            return None
        edges, own = self.switches.edges, {tid for _, tid in self.latest}
        before = edges[edges["next_tid"].isin(own)]
        after = edges[edges["prev_tid"].isin(own) & (edges["state"] == "runnable")]
        return _sums(before, "prev_tid") + _sums(after, "next_tid")

    def _tids(self, pid: int) -> set[int]:
        """The numbers by which the helper tells of a process's threads."""
        # The threads of another user are not told apart: each of them may have been all of them.
        told = looks.is_ours(pid) or self.last.processes[pid].kernel
        return _threads_of(pid) if told else {NOT_TOLD}

    def _had(self, pid: int, used: float, had: Counter[int] | None, met: Counter[int] | None) -> float | None:
        """ms of every second that a process had the CPU that threads of ours waited for."""
        tids = self._tids(pid)
        if had is not None:
            return min(used, sum(had[tid] for tid in tids) / 1e6 / self.window_s)
        if met is None:
            return None
        # So often it stood next to ours; so long it has a CPU each time, by its whole life.
        tallies = schedstat.look([pid])
        stints = sum(one.timeslices for one in tallies.values())
        stint_ms = sum(one.run_ns for one in tallies.values()) / 1e6 / stints if stints else 0.0
        return min(used, sum(met[tid] for tid in tids) * stint_ms / self.window_s)

    def _woke(self, pid: int) -> float | None:
        """Of the times that the program was woken, those by this process, if it may send it datagrams."""
        if pid not in self.senders or self.turns is None:
            return None
        table = self.turns.turns
        wakers = table[table["waking_ns"].notna()]["waker_tid"]
        return float(wakers.isin(_threads_of(pid)).mean()) if len(wakers) else None

    def handed_over_running(self, tids: set[int]) -> float | None:
        """Of the switches to these threads, the part from one that could have gone on; None without helper.

        Whoever yields gets its CPU back from one that yields, or is preempted; whoever was preempted by the
        thread that it had woken gets it back when that one sleeps.
        """
        if self.switches is None:
            return None
        edges = self.switches.edges
        to = edges[edges["next_tid"].isin(tids) & (edges["prev_tid"] != 0)]
        every = int(to["switches"].sum())
        return float(to[to["state"] == "runnable"]["switches"].sum()) / every if every else None


BUSY = 0.02  # of what all threads wanted
LEAST_RIVAL = 5.0  # ms of every second
WOKE_SHARE = 0.1  # of the times that the program is woken: who does that so often asks it
_FAULTS = ("minor_faults", "major_faults", "system_ns")
_COLUMNS = [
    "pid",
    "tid",
    "name",
    "running_ms_per_s",
    "waiting_ms_per_s",
    "asleep_ms_per_s",
    "asleep_for",
    "voluntary_per_s",
    "involuntary_per_s",
    "migrations_per_s",
    "minor_faults_per_s",
    "major_faults_per_s",
    "system_ms_per_s",
    "policy",
    "nice",
    "allowed_cpus",
]
_GROUPS = [
    "path",
    "limit_cpus",
    "period_us",
    "weight",
    "periods",
    "throttled_periods",
    "throttled_ms_per_s",
    "pressure_ms_per_s",
]
_RIVALS = [
    "pid",
    "name",
    "cpu_ms_per_s",
    "kernel",
    "client",
    "woke_share",
    "policy",
    "nice",
    "group",
    "group_weight",
    "session",
    "allowed_cpus",
    "took_it",
    "had_ms_per_s",
]


def _sums(edges: pd.DataFrame, side: str) -> Counter[int]:
    """The switches of these edges by the thread on one side."""
    sums = edges.groupby(side)["switches"].sum()
    return Counter({int(str(tid)): int(times) for tid, times in sums.items()})


def _threads_of(pid: int) -> set[int]:
    return {pid, *map(int, files.names(f"/proc/{pid}/task"))}


def _connected(look: Look) -> dict[int, bool]:
    """Who is at the other end of its connections, and whether they came to it."""
    return clients.others(look.pids, _programs(look))


def _programs(look: Look) -> list[int]:
    return [pid for pid, one in look.processes.items() if not one.kernel]


class Watcher:
    """Looks at a target again and again, and spends at most SPENT of one CPU on it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.first = Look(target.pids())
        self.latest = dict(self.first.threads)
        self.pids = set(self.first.pids)
        self.sleeps: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        self.used_cpus: set[int] = set()
        self.slack_ns: dict[tuple[int, int], int] = {}
        connected = _connected(self.first)
        self.came = {pid for pid, came in connected.items() if came}
        self.clients = {pid: clients.scheduled(pid) for pid in connected}
        self.runnable = self.queues = (
            0  # threads that could run, and the CPUs that they were on, in all looks
        )
        self.dropped = Dropped()
        self.looked_ns = 0
        self.pause_s = 0.0

    def until(self, end_s: float | None, say: Callable[[float], None]) -> None:
        """Look until a time of the monotonic clock, or until nothing of the target is left."""
        began = time.monotonic()
        while not self.target.over() and (end_s is None or time.monotonic() < end_s):
            spent = self.glance()
            say(time.monotonic() - began)
            pause = max(LEAST_S, spent / SPENT)
            if end_s is not None:
                pause = min(pause, max(0.0, end_s - time.monotonic()))
            self.pause_s = max(self.pause_s, pause)
            self._rest(pause)

    def _rest(self, pause_s: float) -> None:
        """Sleep, but not long beyond the end of a target that ends meanwhile."""
        end = time.monotonic() + pause_s
        while (left := end - time.monotonic()) > 0 and not self.target.over():
            time.sleep(min(left, 0.1))

    def glance(self) -> float:
        """One look at the threads; the seconds that it took."""
        began = time.thread_time_ns()
        pids = self.target.pids()
        self.pids |= set(pids)
        there, cpus = looks.threads(pids), set[int]()
        for key, thread in there.items():
            self.latest[key] = thread
            if thread.state == "R":
                self.runnable += 1
                cpus.add(thread.cpu)
            if kind := looks.sleep_of(thread):
                self.sleeps[key][kind] += 1
                if kind == "timer" and key not in self.slack_ns:
                    self.slack_ns[key] = looks.timer_slack_ns(thread.tid) or 0
            else:
                self.used_cpus.add(thread.cpu)
        self.queues += len(cpus)
        if len(self.latest) > MOST_KEPT:
            self._drop(there)
        spent = time.thread_time_ns() - began
        self.looked_ns += spent
        return spent / 1e9

    def _drop(self, there: Container[tuple[int, int]]) -> None:
        """Make room: of the threads that have ended, those go that used a CPU least or waited least for one.

        A storm of forks would fill all memory.  Threads that are there all stay: the kernel bounds these.
        """
        ended = [key for key in self.latest if key not in there]
        ended.sort(key=lambda key: self.latest[key].run_ns + self.latest[key].wait_ns)
        for key in ended[: len(self.latest) - MOST_KEPT * 3 // 4]:
            gone, then = self.latest.pop(key), self.first.threads.get(key)
            self.dropped.threads += 1
            self.dropped.run_ns += gone.run_ns - (then.run_ns if then else 0)
            self.dropped.wait_ns += gone.wait_ns - (then.wait_ns if then else 0)
            self.sleeps.pop(key, None)
            self.slack_ns.pop(key, None)
        self.pids = {pid for pid in self.pids if files.exists(f"/proc/{pid}")}

    def seen(self) -> Seen:
        """What was seen from the first look until now."""
        last = Look(self.target.pids(), self.first.folders)
        came = self.came | {pid for pid, came in _connected(last).items() if came}
        last.pids = sorted(self.pids | set(last.pids))
        self.latest |= last.threads
        return Seen(
            self.first,
            last,
            self.latest,
            dict(self.sleeps),
            self.used_cpus or {t.cpu for t in self.latest.values()},
            self.looked_ns,
            self.pause_s,
            self.slack_ns,
            clients.since(
                self.clients,
                {pid: one.name for pid, one in last.processes.items()},
                max(1e-3, (last.at_ns - self.first.at_ns) / 1e9),
            ),
            came,
            clients.senders(last.pids, _programs(last)),
            self.runnable / self.queues if self.queues else 1.0,
            self.dropped,
        )
