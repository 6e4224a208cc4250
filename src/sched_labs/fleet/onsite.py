"""What a machine of a fleet does when it is asked: survey itself, measure, or watch a control group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import machine
from ..core import lock, registry
from ..core.errors import BusyError, SchedLabError
from ..core.result import Result
from ..machine import files
from ..probes import runqlat
from . import row


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """What `asked["do"]` says, done; {"why", "reason"} where it could not be.

    why   busy, lacking or failed
    """
    try:
        return _KNOWN[asked["do"]](asked)
    except BusyError as error:
        return {"why": "busy", "reason": error.what}
    except SchedLabError as error:
        return {"why": "lacking" if error.lacking else "failed", "reason": error.what}
    except Exception as error:  # a machine that is unlike any that we know costs its own row only
        return {"why": "failed", "reason": f"{type(error).__name__}: {error!s:.200}"}


def facts() -> dict[str, Any]:
    """What a result says of its machine, and the model that its firmware names: in a cloud, the instance."""
    return row.plain(machine.survey().provenance() | {"model": files.read("/sys/class/dmi/id/product_name")})


def _survey(asked: dict[str, Any]) -> dict[str, Any]:
    survey = machine.survey(fresh=True)
    able = runqlat.available()
    lacks = [] if len(survey.cpus_allowed) > 1 else ["a second CPU"]
    lacks += [] if able.ok else [f"BPF ({able.why})"]
    lacks += [] if survey.fact("cgroup.can_make").value else ["a group with a CPU quota"]
    lacks += [] if survey.fact("policy.fifo").value else ["real-time priority"]
    lacks += [] if survey.fact("pmu.available").value else ["hardware counters"]
    instrument = ""
    if asked.get("kind"):
        instrument = registry.find(asked["kind"]).instrument(survey).name
    return {
        "facts": facts(),
        "lacks": lacks,
        "instrument": instrument,
        "load": survey.fact("host.load").value,
        "shared": survey.fact("host.shared").value,
        "holder": "" if not lock.holder() else "an experiment",  # it describes itself as it likes
    }


def _measure(asked: dict[str, Any]) -> dict[str, Any]:
    experiment = registry.find(asked["kind"])
    with lock.machine(f"fleet, {experiment.name}", wait_s=asked["wait_s"]):
        pass  # it takes the lock by itself, and would wait for ten minutes: be told now who has it
    return _found(experiment(**asked["parameters"], progress=False, save=False))


def _watch(asked: dict[str, Any]) -> dict[str, Any]:
    from ..watching.program import watch

    return _found(watch(cgroup=asked["cgroup"], seconds=asked["seconds"], progress=False, save=False))


def _found(result: Result) -> dict[str, Any]:
    # An experiment knows the guest's clock and no other; beside real machines its times are those of a guest.
    if machine.survey().fact("host.emulated").value:
        result.timing = "vm-emulated"
    return {"result": result.to_json(), "row": row.make(result, facts())}


_KNOWN: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "survey": _survey,
    "measure": _measure,
    "watch": _watch,
}
