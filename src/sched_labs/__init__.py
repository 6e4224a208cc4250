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

from .core.errors import SchedLabError
from .core.version import __version__

_WHERE = {
    "bandwidth": ("sched_labs.limits.bandwidth", None),
    "calculators": ("sched_labs.reader.calculators", None),
    "cgroups": ("sched_labs.limits.cgroups", None),
    "compare": ("sched_labs.draw.compare", "compare"),
    "controls": ("sched_labs.reader.controls", None),
    "defend": ("sched_labs.claims.defence", "defend"),
    "doctor": ("sched_labs.reader.doctor", "doctor"),
    "explore": ("sched_labs.reader.explore", None),
    "fleet": ("sched_labs.fleet", None),
    "gallery": ("sched_labs.kernels.gallery", None),
    "judge": ("sched_labs.claims", "judge"),
    "load": ("sched_labs.core.result", "load"),
    "explorables": ("sched_labs.explorables", None),
    "pale": ("sched_labs.reader.pale", None),
    "placement": ("sched_labs.steer.placement", None),
    "predict": ("sched_labs.reader.predictions", "predict"),
    "quotas": ("sched_labs.limits.quotas", None),
    "recorded": ("sched_labs.core.result", "recorded"),
    "registry": ("sched_labs.core.registry", None),
    "Result": ("sched_labs.core.result", "Result"),
    "scheduler": ("sched_labs.schedulers", None),
    "stats": ("sched_labs.core.stats", None),
    "switch_rates": ("sched_labs.probes.status", "switch_rates"),
    "switches": ("sched_labs.probes.status", None),
    "watch": ("sched_labs.watching.program", "watch"),
}

__all__ = ["SchedLabError", "__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        module, attribute = _WHERE[name]
        room = importlib.import_module(module)
        value = getattr(room, attribute) if attribute else room
    else:
        from .core import registry

        try:
            value = registry.module(name)
        except KeyError:
            raise AttributeError(f"module 'sched_labs' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def home_of(name: str) -> str:
    """The module that a dotted name of the library stands for: "sched_labs.quota" -> the experiment's."""
    package, _, rest = name.partition(".")
    first, _, further = rest.partition(".")
    if package != "sched_labs" or not first:
        return name
    if first in _WHERE:
        return ".".join(part for part in (_WHERE[first][0], further) if part)
    from .core import registry

    found = {one.folder.name: f"{one.package}.experiment" for one in registry.entries()}
    return found.get(first, name)


def __dir__() -> list[str]:
    from .core import registry

    return sorted({*__all__, *(folder.name for folder in registry.folders())})
