"""Every knob of the scheduler, under the name that it has on this kernel.

Names moved: up to 5.12 most were sysctls (kernel.sched_*), 5.13 moved the developers' ones to debugfs
(commit 8a99b6833c88), 6.6 replaced three of them by one (commits 147f3efaa241 and e4ec3318a17f). A reader who
has a name from an old article finds it here too, with what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import files
from .facts import Fact, look
from .kernel import debugfs, fair_scheduler
from .seen import Seen

_SYSCTL = "/proc/sys/kernel"
_DEBUG = "/sys/kernel/debug"


@dataclass(frozen=True)
class Knob:
    """One knob: its short name, unit, (file, kernels that have it there), and what became of it."""

    name: str
    unit: str
    places: tuple[tuple[str, tuple[int, int], tuple[int, int]], ...]
    fate: str = "not built into this kernel"
    eevdf: bool | None = None  # True: EEVDF only, False: CFS only, None: either


_FIRST, _NEVER = (0, 0), (999, 0)


def _moved(name: str, unit: str, fate: str = Knob.fate, eevdf: bool | None = None) -> Knob:
    """A developers' knob that 5.13 moved from sysctl to debugfs."""
    gone = (6, 6) if eevdf is False else _NEVER
    places = ((f"{_SYSCTL}/sched_{name}", _FIRST, (5, 13)), (f"{_DEBUG}/sched/{name}", (5, 13), gone))
    return Knob(name, unit, places, fate, eevdf)


def _sysctl(name: str, unit: str = "", fate: str = Knob.fate, file: str = "") -> Knob:
    return Knob(name, unit, ((f"{_SYSCTL}/{file or 'sched_' + name}", _FIRST, _NEVER),), fate)


KNOBS = (
    Knob("base_slice_ns", "ns", ((f"{_DEBUG}/sched/base_slice_ns", (6, 6), _NEVER),),
         "CFS has none; min_granularity_ns is the nearest", True),
    _moved("latency_ns", "ns", "gone since EEVDF (6.6): there is no target latency any more", False),
    _moved("min_granularity_ns", "ns", "gone since EEVDF (6.6): base_slice_ns took its place", False),
    _moved("wakeup_granularity_ns", "ns", "gone since EEVDF (6.6): lag and deadline decide instead", False),
    _moved("migration_cost_ns", "ns"),
    _moved("nr_migrate", ""),
    _moved("tunable_scaling", ""),
    Knob("features", "",
         ((f"{_DEBUG}/sched_features", _FIRST, (5, 13)), (f"{_DEBUG}/sched/features", (5, 13), _NEVER))),
    Knob("preempt", "", ((f"{_DEBUG}/sched/preempt", (5, 13), _NEVER),),
         "only kernels with PREEMPT_DYNAMIC have it"),
    Knob("fair_server_runtime_ns", "ns", ((f"{_DEBUG}/sched/fair_server/cpu0/runtime", (6, 12), _NEVER),),
         "the fair server came with 6.12; before, rt_runtime_us held a runaway back"),
    Knob("fair_server_period_ns", "ns", ((f"{_DEBUG}/sched/fair_server/cpu0/period", (6, 12), _NEVER),),
         "the fair server came with 6.12; before, rt_runtime_us held a runaway back"),
    _sysctl("child_runs_first", "", "gone by 6.12"),
    _sysctl("rt_period_us", "us"),
    _sysctl("rt_runtime_us", "us"),
    _sysctl("rr_timeslice_ms", "ms"),
    _sysctl("deadline_period_max_us", "us"),
    _sysctl("deadline_period_min_us", "us"),
    _sysctl("cfs_bandwidth_slice_us", "us", "this kernel was built without CPU quotas"),
    _sysctl("autogroup_enabled"),
    _sysctl("schedstats", "", "this kernel was built without CONFIG_SCHEDSTATS"),
    _sysctl("energy_aware", "", "only kernels built with energy models and schedutil have it"),
    _sysctl("util_clamp_min", "", "this kernel was built without CONFIG_UCLAMP_TASK"),
    _sysctl("util_clamp_max", "", "this kernel was built without CONFIG_UCLAMP_TASK"),
    _sysctl("util_clamp_min_rt_default", "", "this kernel was built without CONFIG_UCLAMP_TASK"),
    _sysctl("cfs_bw_burst_enabled", "",
            "a vendor's, not in mainline; there cpu.cfs_burst_us or cpu.max.burst (5.14)"),
    _sysctl("cfs_bw_burst_onset_percent", "", "a vendor's, never in mainline"),
    _sysctl("numa_balancing", "", file="numa_balancing"),
    _sysctl("timer_migration", "", file="timer_migration"),
)  # fmt: skip

_FOLDERS_LEFT_OUT = {"debug", "domains", "fair_server", "ext_server"}
"""Dumps and per-CPU folders in debugfs; the knobs above name what matters in them."""


@look({f"tunable.{knob.name}": knob.name for knob in KNOBS})
def look_tunables(seen: Seen) -> Iterator[Fact]:
    """One fact `tunable.<name>` per knob known here, and one for every other that the kernel shows."""
    handled: set[str] = set()
    eevdf = fair_scheduler(seen)[0] != "CFS"
    for knob in KNOBS:
        handled.update(path for path, _, _ in knob.places)
        yield _fact(knob, seen, eevdf)
    for name in files.names(_SYSCTL):
        path = f"{_SYSCTL}/{name}"
        if name.startswith("sched_") and path not in handled and not files.is_folder(path):
            yield _unknown(name.removeprefix("sched_"), path)
    for name in files.names(f"{_DEBUG}/sched"):
        path = f"{_DEBUG}/sched/{name}"
        if name in _FOLDERS_LEFT_OUT or path in handled:
            continue
        if files.is_folder(path):
            for inner in files.names(path):
                yield _unknown(f"{name}.{inner}", f"{path}/{inner}")
        else:
            yield _unknown(name, path)


def _fact(knob: Knob, seen: Seen, eevdf: bool) -> Fact:
    key = f"tunable.{knob.name}"
    for path, _, _ in knob.places:
        text, why = files.look(path)
        if text is not None:
            return Fact(key, _value(text), knob.unit, path)
        if files.exists(path):
            return Fact(key, None, knob.unit, path, why)
    # Not in sight: never there on this kernel, or behind a debugfs that is closed?
    if knob.eevdf is not None and knob.eevdf != eevdf:
        return Fact(key, None, knob.unit, "", knob.fate)
    version = seen.version or _NEVER
    expected = [path for path, first, gone in knob.places if first <= version < gone]
    closed = debugfs(seen)
    if expected and expected[0].startswith(_DEBUG) and not closed.value:
        return Fact(key, None, knob.unit, expected[0], closed.why)
    return Fact(key, None, knob.unit, expected[0] if expected else "", knob.fate)


def _unknown(name: str, path: str) -> Fact:
    text, why = files.look(path)
    unit = next((u for u in ("ns", "us", "ms") if name.endswith(f"_{u}")), "")
    return Fact(f"tunable.{name}", None if text is None else _value(text), unit, path, why)


def _value(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
