"""What the programs of an incident did in a window: requests and their times, CPU, switches, memory, work."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..machine import files

FIELDS = (
    *("due", "flying", "answered", "in_time", "refused"),
    *("received", "started", "finished", "replied", "flushes"),
    *("work_us", "samples", "loop_tid", "flusher_tid"),
)
BINS = 96  # of actor.c: four to each doubling
_FORM = struct.Struct(f"{len(FIELDS) + BINS}q")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def counters(folder: Path, name: str) -> dict[str, Any]:
    """What a program has counted since its first start: FIELDS, and `bins`."""
    try:
        values = _FORM.unpack((folder / "run" / f"{name}.stats").read_bytes())
    except (OSError, struct.error):  # it has not come so far
        values = (0,) * (len(FIELDS) + BINS)
    return {**dict(zip(FIELDS, values, strict=False)), "bins": values[len(FIELDS) :]}


@dataclass(frozen=True)
class Look:
    """One moment: what each role's program counted, and the kernel of its process; CPU time of all."""

    at_s: float
    counted: Mapping[str, dict[str, Any]]
    kernel: Mapping[str, dict[str, float]]
    busy_s: float
    stolen_s: float


def look(folder: Path, names: Mapping[str, str], pids: Mapping[str, int]) -> Look:
    busy, stolen = _machine()
    return Look(
        time.monotonic(),
        {role: counters(folder, name) for role, name in names.items()},
        {role: _process(pid) for role, pid in pids.items()},
        busy,
        stolen,
    )


def _machine() -> tuple[float, float]:
    words = (files.read("/proc/stat") or "").partition("\n")[0].split()
    if len(words) < 9:
        return 0.0, 0.0
    user, nice, system, _idle, _io, irq, softirq, steal = (int(word) * _TICK_S for word in words[1:9])
    return user + nice + system + irq + softirq, steal


def _process(pid: int) -> dict[str, float]:
    """cpu_s, switches, rss_mib of a process; zeros when it has gone, and `alive` says so."""
    text = files.read(f"/proc/{pid}/stat")
    if not text:
        return {"pid": pid, "alive": 0, "cpu_s": 0.0, "switches": 0, "rss_mib": 0.0}
    words = text.rpartition(")")[2].split()
    switches = 0
    for tid in files.names(f"/proc/{pid}/task"):
        for line in (files.read(f"/proc/{pid}/task/{tid}/status") or "").splitlines():
            if "ctxt_switches" in line:
                switches += int(line.split()[1])
    return {
        "pid": pid,
        "alive": float(words[0] not in "ZX"),
        "cpu_s": (int(words[11]) + int(words[12])) * _TICK_S,
        "switches": switches,
        "rss_mib": int(words[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20,
    }


def reading(before: Look, after: Look) -> dict[str, Any]:
    """What lies between two looks, ready for JSON.

    requests_per_s, p50_ms, p99_ms, level (share of the requests that were answered in time), refused_per_s;
    programs: of each role pid, alive, cpu_ms_per_s, switches_per_s, rss_mib, work_per_s (ms, or samples),
    answers_per_s; others_share (of all CPUs, by programs that are not of the incident), stolen_share.
    """
    length = max(1e-3, after.at_s - before.at_s)

    def more(role: str, key: str) -> float:
        return float(after.counted[role][key] - before.counted[role][key])

    client = "client"
    bins = [a - b for a, b in zip(after.counted[client]["bins"], before.counted[client]["bins"], strict=True)]
    due = more(client, "due")
    programs, used = {}, 0.0
    for role, now in after.kernel.items():
        then = before.kernel.get(role, now)
        same = then["pid"] == now["pid"]
        cpu_s = now["cpu_s"] - (then["cpu_s"] if same else 0)
        used += cpu_s
        programs[role] = {
            "pid": int(now["pid"]),
            "alive": bool(now["alive"]),
            "cpu_ms_per_s": round(1000 * cpu_s / length, 1),
            "switches_per_s": round((now["switches"] - (then["switches"] if same else 0)) / length, 1),
            "rss_mib": round(now["rss_mib"], 1),
            "work_per_s": round(more(role, "work_us") / 1000 / length + more(role, "samples") / length, 2),
            "answers_per_s": round(more(role, "replied") / length, 2),
        }
    capacity = length * (os.cpu_count() or 1)
    return {
        "seconds": round(length, 2),
        "requests_per_s": round(due / length, 1),
        "p50_ms": quantile(bins, 0.5),
        "p99_ms": quantile(bins, 0.99),
        # Some were due before the first look, and answered after it.
        "level": round(min(1.0, more(client, "in_time") / due), 4) if due else 0.0,
        "refused_per_s": round(more(client, "refused") / length, 1),
        "programs": programs,
        "others_share": round(max(0.0, after.busy_s - before.busy_s - used) / capacity, 3),
        "stolen_share": round((after.stolen_s - before.stolen_s) / capacity, 3),
    }


def quantile(bins: list[int], share: float) -> float | None:
    """A quantile of the times to answer, in ms: the upper edge of the bin that it lies in."""
    total, seen = sum(bins), 0
    if not total:
        return None
    number = 0
    while seen < share * total:
        seen += bins[number]
        number += 1
    return round((1 + number % 4 / 4) * 2 ** (number // 4) / 1000, 2)


def places(folder: Path, names: Mapping[str, str]) -> dict[str, int]:
    """Where the requests are that are on their way at this moment."""
    client, service = counters(folder, names["client"]), counters(folder, names["service"])
    return {
        "outside": max(0, client["flying"] - (service["received"] - service["replied"])),
        "waiting": max(0, service["received"] - service["started"]),
        "in_work": max(0, service["started"] - service["finished"]),
        "not_sent": max(0, service["finished"] - service["replied"]),
    }


def mean_places(
    folder: Path, names: Mapping[str, str], seconds: float, each_s: float = 0.02
) -> dict[str, float]:
    """The same on average over a while."""
    sums: dict[str, float] = {}
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end or not count:
        for key, value in places(folder, names).items():
            sums[key] = sums.get(key, 0) + value
        count += 1
        time.sleep(each_s)
    return {key: round(value / count, 2) for key, value in sums.items()}
