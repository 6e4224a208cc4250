"""The guest's half of an experiment: measure there, and let the host make a Result of the rows."""

from __future__ import annotations

import time
from typing import Any

from sched_labs.kernels.jobs import stand_in


def measure(module: str, function: str, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Runs an experiment's measuring function; returns its rows and what else a Result holds.

    `parameters` are those of the experiment, and `profile`.
    """
    stand_in.install()
    import importlib

    from sched_labs import machine
    from sched_labs.experiments.base import Run
    from sched_labs.experiments.surroundings import Surroundings

    class Rows(Run):
        def add(self, rows: Any) -> None:
            self.rows.extend(rows)

    experiment = getattr(importlib.import_module(module), function)
    given = dict(parameters)
    run = Rows(name, given.pop("profile"), True)
    surroundings, before = Surroundings(), time.monotonic()
    experiment.function(run, **given)
    duration_s = time.monotonic() - before
    around = surroundings.since()
    for text in surroundings.doubts(around):
        run.note("flag", text)
    defaults = {key: parameter.default for key, parameter in experiment.parameters.items()}
    return {
        "rows": run.rows,
        "notes": [[note.level, note.text] for note in run.notes],
        "parameters": {"profile": run.profile, **defaults, **given, **run.parameters},
        "surroundings": around,
        "machine": machine.survey().provenance(),
        "duration_s": duration_s,
    }
