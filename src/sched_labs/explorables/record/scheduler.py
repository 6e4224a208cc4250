"""The round robin, what CFS and EEVDF chose, the switches of a hand-over: recorded from guests' traces."""

from __future__ import annotations

import itertools
from typing import Any

from .. import mine
from . import guest

NEWER, OLDER = "6.12", "6.1"
_SWITCH = "sched/sched_switch"
_US, _MS = 1e3, 1e6
_NOT_OURS = -2
ROUND_TRIPS = 60


def round_robin() -> tuple[dict[str, Any], str]:
    """Threads that never sleep on one CPU: {"threads": {count: [[thread, from_ms, to_ms], ...]}}.

    Threads are numbered by their first turn; -1 is whoever else had the CPU.
    """
    found, kernel = {}, ""
    for count in (2, 4, 8):
        words = ["--workers", str(count), "--duration-ms", "140", "--most-gaps", "1"]
        traced = guest.trace(NEWER, "burn", words, [_SWITCH])
        kernel = traced.kernel
        stints = _stints(traced)
        # The first turns still belong to the start; from the fourth on, 84 ms.
        turns = [n for n, (who, begin, end) in enumerate(stints) if who >= 0 and end - begin > _MS]
        found[str(count)] = _window(stints, stints[turns[3]][1], 84)
    return {"threads": found}, kernel


def _stints(traced: guest.Traced) -> list[tuple[int, int, int]]:
    """(who, from, to) one after the other: the place of the thread among the workload's, or -1."""
    switches = [event for event in traced.events if event.what == "sched_switch"]
    place = {tid: n for n, tid in enumerate(traced.tids)}
    return [
        (place.get(one.number("next_pid"), -1), one.at, other.at)
        for one, other in itertools.pairwise(switches)
    ]


def _window(stints: list[tuple[int, int, int]], begin: int, length_ms: float) -> list[list[float]]:
    names: dict[int, int] = {-1: -1}
    rows = []
    for who, at, until in stints:
        low, high = max(at, begin), min(until, begin + round(length_ms * _MS))
        if low < high:
            rows.append([names.setdefault(who, len(names) - 1), (low - begin) / _MS, (high - begin) / _MS])
    return rows


def picking() -> tuple[dict[str, Any], str]:
    """A sleeper among two hogs, on CFS and on EEVDF: what ran, and every choice with all that it rests on.

    {"kernels": {kernel: {"ran": [[who, from_ms, to_ms], ...], "woken_ms": [...], "choices": [...]}}}; who
    is 0 for the sleeper, 1 and 2 for the hogs, -1 for anybody else.  A choice: at_ms; kind ("wake": may the
    woken one interrupt? or "pick": who is next?); tasks {who: {"v", "d"}}, virtual runtime and deadline in
    µs; curr, who had the CPU and still wants it; kept, whether curr has its slice to the end; woken;
    chosen, what the kernel chose.
    """
    words = ["--hogs", "2", "--period-us", "7017", "--wakes", "12", "--work-us", "1000"]
    found, kernels = {}, []
    for kernel in (OLDER, NEWER):
        layout = _Layout(kernel)
        traced = guest.trace(kernel, "sleeper", words, [_SWITCH, "sched/sched_wakeup"], layout.kprobes())
        kernels.append(traced.kernel)
        woken = [e for e in traced.events if e.what == "on_wake" and e.number("pid") == traced.tids[0]]
        # Long after the start, and not with a wake-up that meets a tick: there, two choices are one.
        begin = next(e.at for e in woken if e.at > traced.events[-1].at - 80 * _MS) - round(1 * _MS)
        end = begin + round(46 * _MS)
        found[kernel] = {
            "ran": [
                [who, max(0.0, (at - begin) / _MS), min(46.0, (until - begin) / _MS)]
                for who, at, until in _stints(traced)
                if until > begin and at < end
            ],
            "woken_ms": [(e.at - begin) / _MS for e in woken if begin <= e.at < end],
            "choices": _choices(traced, layout, begin, end),
        }
        if not layout.eevdf:
            found[kernel]["granularity_us"] = (
                1000.0  # sysctl_sched_wakeup_granularity on a machine with one CPU
            )
    return {"kernels": found}, " and ".join(kernels)


class _Layout:
    """Where a kernel keeps what a choice rests on, and the kprobes that read it."""

    def __init__(self, kernel: str) -> None:
        self.eevdf = kernel == NEWER
        wanted = {
            "task_struct": ["se", "pid"],
            "sched_entity": ["vruntime", "deadline", "vlag", "cfs_rq", "on_rq"],
            "cfs_rq": ["curr", "nr_running"],
        }
        self.at = guest.fields(kernel, wanted)

    def kprobes(self) -> list[str]:
        task, entity, queue = (self.at[name] for name in ("task_struct", "sched_entity", "cfs_rq"))
        names = {"v": "vruntime"} | ({"d": "deadline", "l": "vlag"} if self.eevdf else {})

        def of_entity(register: str, prefix: str = "") -> list[str]:
            values = [f"{prefix}{short}=+{entity[name]}({register}):s64" for short, name in names.items()]
            back = task["pid"] - task["se"]
            return [
                f"{prefix}pid=+{back}({register}):s32",
                f"{prefix}on=+{entity['on_rq']}({register}):u8",
                *values,
            ]

        def of_task(register: str, prefix: str = "") -> list[str]:
            values = [f"{prefix}{s}=+{task['se'] + entity[n]}({register}):s64" for s, n in names.items()]
            on = f"{prefix}on=+{task['se'] + entity['on_rq']}({register}):u8"
            return [f"{prefix}pid=+{task['pid']}({register}):s32", on, *values]

        its_queue = f"+{task['se'] + entity['cfs_rq']}(%si)"
        current = f"+{queue['curr']}(%di)"
        pick = "pick_eevdf" if self.eevdf else "pick_next_entity"
        return [
            # In __schedule(), after the choice: who leaves and who comes.
            " ".join(["p:on_switch psi_task_switch", *of_task("%di"), *of_task("%si", "next_")]),
            # After a woken task was put into its queue: may it interrupt what runs there?
            " ".join(
                [
                    f"p:on_wake {'wakeup_preempt' if self.eevdf else 'check_preempt_curr'}",
                    *of_task("%si"),
                    f"queue={its_queue}:x64",
                    f"cv=+{entity['vruntime']}(+{queue['curr']}({its_queue})):s64",
                ]
            ),
            " ".join(
                [f"p:on_pick {pick} queue=%di:x64 nr=+{queue['nr_running']}(%di):u32", *of_entity(current)]
            ),
            f"r:on_picked {pick} pid=+{task['pid'] - task['se']}($retval):s32",
            "p:on_resched resched_curr",
        ]


def _choices(traced: guest.Traced, layout: _Layout, begin: int, end: int) -> list[dict[str, Any]]:
    """Follow what each thread's virtual runtime and deadline are, and note them at every choice."""
    who = {tid: n for n, tid in enumerate(traced.tids)}
    known: dict[int, dict[str, float]] = {}
    waiting: set[int] = set()  # in the queue, or on the CPU
    running, queue, woken = None, "", None
    rows: list[dict[str, Any]] = []

    def learn(event: guest.Event, prefix: str = "") -> int | None:
        name = who.get(event.number(f"{prefix}pid"))
        if name is not None:
            known[name] = {"v": event.number(f"{prefix}v") / _US}
            if layout.eevdf:
                known[name]["d"] = event.number(f"{prefix}d") / _US
                known[name]["kept"] = float(event.number(f"{prefix}d") == event.number(f"{prefix}l"))
        return name

    def note(at: int, kind: str, curr: int | None, chosen: int) -> None:
        if begin <= at < end and len(waiting) > 1:
            rows.append(
                {
                    "at_ms": (at - begin) / _MS,
                    "kind": kind,
                    "tasks": {
                        n: {k: known[n][k] for k in ("v", "d") if k in known[n]} for n in sorted(waiting)
                    },
                    "curr": curr,
                    "kept": curr is not None and bool(known[curr].get("kept")),
                    "woken": woken,
                    "chosen": chosen,
                }
            )

    asked = False
    dozing: set[int] = set()  # asleep, and perhaps in the queue all the same (DELAY_DEQUEUE)
    pending: int | None = _NOT_OURS
    for n, event in enumerate(traced.events):
        if event.what == "on_wake" and event.number("pid") in who:
            woken = learn(event)
            assert woken is not None
            waiting.add(woken)
            dozing.discard(woken)
            queue = event.values["queue"]
            if (
                not layout.eevdf and running is not None and not asked
            ):  # this kernel decides here, and says so by what follows
                known[running]["v"] = event.number("cv") / _US
                follows = next(e.what for e in traced.events[n + 1 :] if e.what.startswith("on_"))
                note(event.at, "wake", running, woken if follows == "on_resched" else running)
        elif event.what == "on_resched":
            asked = True  # a choice is due already: a wake-up before it changes nothing
        elif event.what == "sched_switch" and event.number("prev_pid") in who:
            if event.values["prev_state"].startswith("S"):
                dozing.add(who[event.number("prev_pid")])
        elif event.what == "on_pick" and event.values["queue"] == queue:
            curr = learn(event) if event.number("pid") in who else None
            if curr is not None and not event.number("on"):
                waiting.discard(curr)  # it goes to sleep
                curr = None
            if event.number("nr") < len(waiting):
                waiting -= dozing  # one that slept with too much used had stayed in the queue until now
            pending = curr if event.number("nr") == len(waiting) else _NOT_OURS
        elif event.what == "on_picked" and pending != _NOT_OURS:
            if event.number("pid") in who:
                note(
                    event.at,
                    "wake" if "check_preempt" in event.words else "pick",
                    pending,
                    who[event.number("pid")],
                )
            pending = _NOT_OURS
        elif event.what == "on_switch":
            asked = False
            learn(event)
            came = learn(event, "next_")
            if came is not None or event.number("pid") in who:
                running = came
                woken = None if came == woken else woken
    return rows


def condvar() -> tuple[dict[str, Any], str]:
    """One round trip by pipe and one by condition variable, on one CPU.

    {mechanism: {"length": instructions, "ran": [[thread, from, to], ...], "switches": [[at, from, to,
    slept], ...], "wakes": [[at, waker, woken], ...]}}, all in instructions since the round trip began.
    """
    found, kernel = {}, ""
    for mechanism in ("pipe", "condvar"):
        words = [
            "--by",
            mechanism,
            "--between",
            "threads",
            "--round-trips",
            str(ROUND_TRIPS),
            "--trials",
            "1",
        ]
        traced = guest.trace(NEWER, "pingpong", words, [_SWITCH, "sched/sched_waking"], fine=True)
        kernel = traced.kernel
        found[mechanism] = _round_trip(traced, ROUND_TRIPS)
    return found, kernel


def _round_trip(traced: guest.Traced, round_trips: int) -> dict[str, Any]:
    place = {tid: n for n, tid in enumerate(traced.tids)}
    switches = [
        (
            e.at,
            place.get(e.number("prev_pid"), -1),
            place.get(e.number("next_pid"), -1),
            e.values["prev_state"][0] == "S",
        )
        for e in traced.events
        if e.what == "sched_switch"
    ]
    wakes = [
        (e.at, place[e.tid], place[e.number("pid")])
        for e in traced.events
        if e.what == "sched_waking" and e.tid in place and e.number("pid") in place
    ]
    return mine.of_round_trips(switches, wakes, round_trips)
