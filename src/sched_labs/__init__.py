"""Live experiments on the Linux scheduler.

    from sched_labs import doctor, judge, warmup
    doctor()                                 # what this machine is, and what it can measure
    result = warmup.sweep(profile="quick")   # an experiment; help(warmup.sweep) says what it takes
    result.summary()                         # a table, units in the column names
    result.plot()                            # its figure
    judge(result)                            # what people say, held against this run

`sched-labs list` in a terminal names every experiment.

Rooms are imported when they are first used: pandas and matplotlib take longer to load than many experiments
take to run, and a reader who asks for one thing should not wait for all of them.
"""

from __future__ import annotations

import importlib
from typing import Any

from .errors import SchedLabError
from .version import __version__

_WHERE = {
    "context_switch": ("sched_labs.experiments.context_switch", None),
    "crowd": ("sched_labs.experiments.crowd", None),
    "warmup": ("sched_labs.experiments.warmup", None),
    "yielding": ("sched_labs.experiments.yielding", None),
    "bursts": ("sched_labs.experiments.bursts", None),
    "interpreter": ("sched_labs.experiments.interpreter", None),
    "recovery": ("sched_labs.experiments.recovery", None),
    "runqlat": ("sched_labs.experiments.runqlat", None),
    "attribution": ("sched_labs.experiments.attribution", None),
    "observer": ("sched_labs.experiments.observer", None),
    "interference": ("sched_labs.experiments.interference", None),
    "offcpu": ("sched_labs.experiments.offcpu", None),
    "switchgraph": ("sched_labs.experiments.switchgraph", None),
    "instruments": ("sched_labs.experiments.instruments", None),
    "sleeper": ("sched_labs.experiments.sleeper", None),
    "regimes": ("sched_labs.experiments.regimes", None),
    "slices": ("sched_labs.experiments.slices", None),
    "loops": ("sched_labs.experiments.loops", None),
    "ring": ("sched_labs.experiments.ring", None),
    "fpu": ("sched_labs.experiments.fpu", None),
    "tlb": ("sched_labs.experiments.tlb", None),
    "reference": ("sched_labs.experiments.reference", None),
    "convoy": ("sched_labs.experiments.convoy", None),
    "isolation": ("sched_labs.experiments.isolation", None),
    "quota": ("sched_labs.experiments.quota", None),
    "service": ("sched_labs.experiments.service", None),
    "throttle": ("sched_labs.experiments.throttle", None),
    "nested": ("sched_labs.experiments.nested", None),
    "cgroups": ("sched_labs.cgroups", None),
    "classify": ("sched_labs.experiments.classify", None),
    "switches": ("sched_labs.switches", None),
    "switch_rates": ("sched_labs.switches", "switch_rates"),
    "hops": ("sched_labs.experiments.hops", None),
    "wakeplace": ("sched_labs.experiments.wakeplace", None),
    "ticks": ("sched_labs.experiments.ticks", None),
    "omission": ("sched_labs.experiments.omission", None),
    "threads": ("sched_labs.experiments.threads", None),
    "batching": ("sched_labs.experiments.batching", None),
    "herd": ("sched_labs.experiments.herd", None),
    "timers": ("sched_labs.experiments.timers", None),
    "connections": ("sched_labs.experiments.connections", None),
    "migration": ("sched_labs.experiments.migration", None),
    "pool": ("sched_labs.experiments.pool", None),
    "ipc": ("sched_labs.experiments.ipc", None),
    "packets": ("sched_labs.experiments.packets", None),
    "numa": ("sched_labs.experiments.numa", None),
    "reserved": ("sched_labs.experiments.reserved", None),
    "smt": ("sched_labs.experiments.smt", None),
    "machine": ("sched_labs.machine", None),
    "stats": ("sched_labs.stats", None),
    "bandwidth": ("sched_labs.bandwidth", None),
    "quotas": ("sched_labs.quotas", None),
    "calculators": ("sched_labs.calculators", None),
    "explore": ("sched_labs.explore", None),
    "figures": ("sched_labs.figures", None),
    "claims": ("sched_labs.claims", None),
    "widgets": ("sched_labs.widgets", None),
    "doctor": ("sched_labs.doctor", "doctor"),
    "Result": ("sched_labs.result", "Result"),
    "load": ("sched_labs.result", "load"),
    "compare": ("sched_labs.result", "compare"),
    "recorded": ("sched_labs.result", "recorded"),
    "predict": ("sched_labs.widgets", "predict"),
    "judge": ("sched_labs.claims", "judge"),
    "defend": ("sched_labs.defence", "defend"),
}

__all__ = ["SchedLabError", "__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module 'sched_labs' has no attribute {name!r}") from None
    room = importlib.import_module(module)
    value = getattr(room, attribute) if attribute else room
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
