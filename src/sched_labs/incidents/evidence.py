"""What the judge measures, to compare the player's value with: every time anew, in the running programs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ..core.errors import SchedLabError
from ..machine import files
from ..watching import looks
from . import cast, meter
from .desk import Running
from .story import CYCLE_S

WINDOW_S = float(CYCLE_S)  # the clients' whole round: another window of this length has the same in it
_EACH_S = 0.01


def measure(running: Running) -> float:
    """The value that the cause of the running incident is proved by.  Takes a few seconds."""
    return JUDGED[running.plan.variant.cause](running)


def _culprit(running: Running) -> int:
    return running.pids[running.plan.variant.culprit]


def _quota(running: Running) -> float:
    group = running.group
    if not group:
        raise SchedLabError("The service's control group has gone.", "Start the incident again.")
    before = group.counted()
    time.sleep(WINDOW_S)
    found = group.counted().since(before)
    return 100 * found.throttled_periods / max(1, found.periods)


def _cpu(pid: int) -> float:
    """CPU time of all threads, in ms of every second, from schedstat: in ns, and not in ticks."""
    return _scheduled(pid, 0)


def _waiting(running: Running) -> float:
    return _scheduled(_culprit(running), 1)


def _scheduled(pid: int, column: int) -> float:
    def now() -> dict[int, int]:
        found = {}
        for tid in cast.threads(pid):
            words = (files.read(f"/proc/{pid}/task/{tid}/schedstat") or "").split()
            if len(words) == 3:
                found[tid] = int(words[column])
        return found

    begin, before = time.monotonic(), now()
    time.sleep(WINDOW_S)
    after = now()
    spent = sum(value - before.get(tid, value) for tid, value in after.items())
    return spent / 1e6 / (time.monotonic() - begin)


def _nice(running: Running) -> float:
    return float(os.getpriority(os.PRIO_PROCESS, _culprit(running)))


def _mean(value: Callable[[], float]) -> float:
    """The mean of what is seen a hundred times a second."""
    end, seen = time.monotonic() + WINDOW_S, []
    while time.monotonic() < end:
        seen.append(value())
        time.sleep(_EACH_S)
    return sum(seen) / len(seen)


def _asleep_in(pid: int, tids: list[int], words: tuple[str, ...]) -> float:
    return sum(
        any(word in (files.read(f"/proc/{pid}/task/{tid}/wchan") or "") for word in words) for tid in tids
    )


def _lock(running: Running) -> float:
    pid = _culprit(running)
    return _mean(lambda: _asleep_in(pid, cast.threads(pid), looks.SLEEPS["lock or condition"]))


def _blocking_call(running: Running) -> float:
    pid = _culprit(running)
    return 100 * _mean(lambda: _asleep_in(pid, [pid], looks.SLEEPS["timer"]))


def _gil(running: Running) -> float:
    pid = _culprit(running)
    return 100 * _mean(lambda: _asleep_in(pid, [pid], looks.SLEEPS["lock or condition"]))


def _imbalance(running: Running) -> float:
    pid = _culprit(running)
    before = {tid: _ran(pid, tid) for tid in cast.threads(pid)}
    time.sleep(WINDOW_S)
    ran = [_ran(pid, tid) - before.get(tid, 0) for tid in cast.threads(pid)]
    return 100 * max(ran) / max(1, sum(ran))


def _stopped(running: Running) -> float:
    pid = _culprit(running)

    def is_stopped() -> float:
        words = (files.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        return float(words[:1] == ["T"])

    return 1000 * _mean(is_stopped)


def _long_handler(running: Running) -> float:
    pid = _culprit(running)
    begin, before = time.monotonic(), _ran(pid, pid)
    time.sleep(WINDOW_S)
    return (_ran(pid, pid) - before) / 1e6 / (time.monotonic() - begin)


def _ran(pid: int, tid: int) -> int:
    return int((files.read(f"/proc/{pid}/task/{tid}/schedstat") or "0").split()[0])


def _downstream(running: Running) -> float:
    name = running.names[running.plan.variant.culprit]
    before = meter.counters(running.folder, name)["replied"]
    time.sleep(WINDOW_S)
    return float((meter.counters(running.folder, name)["replied"] - before) / WINDOW_S)


def _place(key: str) -> Callable[[Running], float]:
    return lambda running: meter.mean_places(running.folder, running.names, WINDOW_S)[key]


def _each_second(count: Callable[[], int]) -> float:
    """How much a count grows in a second."""
    begin, before = time.monotonic(), count()
    time.sleep(WINDOW_S)
    return (count() - before) / (time.monotonic() - begin)


def _sleeps(pid: int, tids: list[int], kinds: tuple[str, ...] = ("voluntary_ctxt",)) -> int:
    """The voluntary switches of threads, or others, too."""
    texts = [files.read(f"/proc/{pid}/task/{tid}/status") or "" for tid in tids]
    lines = [line for text in texts for line in text.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(kinds))


def _yield(running: Running) -> float:
    pid = _culprit(running)
    return _each_second(lambda: _sleeps(pid, cast.threads(pid), ("voluntary_ctxt", "nonvoluntary_ctxt")))


def _polling(running: Running) -> float:
    pid = _culprit(running)
    return _each_second(lambda: _sleeps(pid, [pid]))


def _herd(running: Running) -> float:
    pid = _culprit(running)
    return _each_second(lambda: _sleeps(pid, cast.threads(pid)))


def _interrupts(running: Running) -> float:
    """Of the CPUs that the service may use, in ms of every second."""
    names = {f"cpu{cpu}" for cpu in os.sched_getaffinity(_culprit(running))}

    def ticks() -> int:
        lines = [line.split() for line in (files.read("/proc/stat") or "").splitlines()]
        return sum(int(words[6]) + int(words[7]) for words in lines if words[0] in names)

    return 1000 * _each_second(ticks) / os.sysconf("SC_CLK_TCK")


def _slack(running: Running) -> float:
    tids = cast.threads(_culprit(running))
    return max((int(files.read(f"/proc/{tid}/timerslack_ns") or 0) for tid in tids), default=0) / 1e6


def _faults(running: Running) -> float:
    pid = _culprit(running)

    def faults() -> int:
        words = (files.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        return int(words[7]) if len(words) > 7 else 0

    return _each_second(faults)


JUDGED: dict[str, Callable[[Running], float]] = {
    "quota": _quota,
    "rival": lambda running: _cpu(_culprit(running)),
    "nice": _nice,
    "mask": lambda running: float(len(os.sched_getaffinity(_culprit(running)))),
    "herd": _herd,
    "yield": _yield,
    "gil": _gil,
    "imbalance": _imbalance,
    "realtime": lambda running: _cpu(_culprit(running)),
    "interrupts": _interrupts,
    "timer-slack": _slack,
    "busy-wait": lambda running: _cpu(_culprit(running)),
    "page-faults": _faults,
    "own-threads": _waiting,
    "few-workers": _place("in_work"),
    "lock": _lock,
    "blocking-call": _blocking_call,
    "long-handler": _long_handler,
    "downstream": _downstream,
    "batching": _place("not_sent"),
    "polling": _polling,
    "stopped": _stopped,
}
