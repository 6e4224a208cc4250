"""A job with a known answer: was there room elsewhere for the threads that waited?"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ...probes import runqlat
from ...probes.waits import Waits
from ...workloads.launch import start

HERE, THERE = 1, 0  # where the threads wait; the other CPU of a guest with two


def elsewhere(duration_ms: int = 1000) -> dict[str, dict[str, int]]:
    """Three threads that never sleep, on one CPU of two, in three situations.

    bound    they may use only this CPU; the other one is idle
    busy     they may use both; a thread of another program that never sleeps is bound to each
    widened  bound, and allowed on the other, idle CPU for moments in the middle of their waits

    Returns for each: waits; could, those that began while an allowed CPU was idle; later, the others during
    which one was; parts_differ_ns, by which the parts of the waits miss their sum (0).
    """
    found = {}
    with start("burn", _words(2, 4 * duration_ms + 4000), deadline_s=_deadline_s(duration_ms)) as other:
        for tid, cpu in zip(other.tids, (HERE, THERE), strict=True):
            _allow([tid], {cpu})
        with start("burn", _words(3, duration_ms), deadline_s=_deadline_s(duration_ms)) as ours:
            _allow([ours.pid, *ours.tids], {HERE, THERE})
            with runqlat.watch([ours.pid], _deadline_s(duration_ms), attribution=True) as probe:
                other.go()
                time.sleep(1)  # it runs by now
                probe.start()
                ours.run()
                found["busy"] = _counted(probe.stop())
    for name in ("bound", "widened"):
        with start("burn", _words(3, duration_ms), deadline_s=_deadline_s(duration_ms)) as ours:
            _allow([ours.pid, *ours.tids], {HERE})
            with runqlat.watch([ours.pid], _deadline_s(duration_ms), attribution=True) as probe:
                probe.start()
                ours.go()
                end = time.monotonic() + 0.8 * duration_ms / 1000
                while time.monotonic() < end:
                    time.sleep(0.03)
                    if name == "widened":
                        _allow(ours.tids, {HERE, THERE})
                        time.sleep(0.005)
                        _allow(ours.tids, {HERE})
                waits = probe.stop()
            list(ours.records())
            found[name] = _counted(waits)
    return found


def _words(workers: int, duration_ms: int) -> list[str]:
    return ["--workers", str(workers), "--duration-ms", str(duration_ms), "--most-gaps", "1"]


def _deadline_s(duration_ms: int) -> float:
    return 300 + 8 * duration_ms / 1000  # an emulated machine takes its time to load the probe


def _allow(tids: Sequence[int], cpus: set[int]) -> None:
    for tid in tids:
        os.sched_setaffinity(tid, cpus)


def _counted(waits: Waits) -> dict[str, int]:
    parts = waits.attribution
    assert parts is not None
    shares = list(parts.shares.values())
    return {
        "waits": waits.total,
        "could": sum(sum(share.could.values()) for share in shares),
        "later": sum(sum(share.later.values()) for share in shares),
        "parts_differ_ns": parts.sum_ns - sum(parts.total_ns().values()),
    }
