"""One module per experiment: parameters -> run -> Result."""

from __future__ import annotations

import importlib

from ..errors import ParameterError
from .base import Experiment

# Where each experiment lives; a module is imported when one of its experiments is asked for.
MODULES = {
    "isolation.cpuset": "isolation",
    "quota.hog": "quota",
    "quota.threads": "quota",
    "service.latency": "service",
    "service.contention": "service",
    "throttle.timeline": "throttle",
    "nested.groups": "nested",
    "context_switch.matrix": "context_switch",
    "warmup.sweep": "warmup",
    "crowd.switch": "crowd",
    "recovery.curve": "recovery",
    "interpreter.script": "interpreter",
    "bursts.spacing": "bursts",
    "yielding.semantics": "yielding",
    "runqlat.histogram": "runqlat",
    "attribution.waits": "attribution",
    "observer.cost": "observer",
    "observer.rates": "observer",
    "interference.neighbours": "interference",
    "offcpu.stacks": "offcpu",
    "switchgraph.window": "switchgraph",
    "instruments.compared": "instruments",
    "sleeper.among_hogs": "sleeper",
    "reference.costs": "reference",
    "tlb.switches": "tlb",
    "fpu.state": "fpu",
    "ring.sweep": "ring",
    "loops.counted": "loops",
    "regimes.sweep": "regimes",
    "slices.sweep": "slices",
    "policies.sweep": "policies",
    "policies.hog": "policies",
    "policies.admission": "policies",
    "convoy.locks": "convoy",
    "connections.sweep": "connections",
    "batching.sweep": "batching",
    "herd.wakeups": "herd",
    "timers.aligned": "timers",
    "threads.memory": "threads",
    "threads.touch": "threads",
    "threads.creation": "threads",
    "hops.compared": "hops",
    "classify.processes": "classify",
    "wakeplace.sweep": "wakeplace",
    "ticks.gaps": "ticks",
    "omission.compared": "omission",
    "migration.cost": "migration",
    "pool.pinned": "pool",
    "ipc.causes": "ipc",
    "packets.udp": "packets",
    "smt.sharing": "smt",
    "numa.chase": "numa",
    "reserved.residents": "reserved",
}


def names() -> list[str]:
    """All experiments there are."""
    return list(MODULES)


def find(name: str) -> Experiment:
    """An experiment by its full name, or by its module's name where that holds only one.

    Raises ParameterError for an unknown name.
    """
    matches = [full for full in MODULES if name in (full, full.partition(".")[0])]
    if len(matches) != 1:
        raise ParameterError(f"There is no experiment {name!r}.", f"There are: {', '.join(MODULES)}.")
    full = matches[0]
    module = importlib.import_module(f".{MODULES[full]}", __name__)
    found = getattr(module, full.partition(".")[2])
    assert isinstance(found, Experiment)
    return found
