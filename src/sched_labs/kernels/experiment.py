"""An experiment of the book on another kernel: the same measuring, the same Result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core import store
from ..core.errors import ParameterError
from ..core.progress import Progress
from . import runner
from .packages import Kernel

if TYPE_CHECKING:
    from ..core.result import Result

_CALL = "sched_labs.kernels.jobs.experiment:measure"
_CALL_NETWORK = "sched_labs.kernels.jobs.network:measure"


def run_experiment(
    name: str,
    kernel: str | Kernel,
    parameters: Mapping[str, Any],
    timing: str = "vm",
    *,
    progress: bool = True,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Result:
    """Runs an experiment in a guest with that kernel and returns its Result.

    name: of the experiment, `context_switch.matrix`; parameters: its own, and `profile`.
    say: is told what is going on, in place of a bar of this run's own: for runs that are parts of a whole.
    options: more for `kernels.run`: cpus, memory_mib, append, deadline_s.

    The measuring runs in the guest, on its clock.
    The Result's machine is the guest; `timing` and the notes say how its times are to be read.

    Raises ParameterError for an experiment that there is not and for one that needs hardware counters
    (guests have none), and what `kernels.run` raises.
    """
    # Here and not above: they load pandas, which takes long, and listing kernels does not need it.
    from ..core import registry
    from ..core.result import Note, from_json

    experiment = registry.find(name)
    if "pmu" in experiment.needs:
        raise ParameterError(
            f"{experiment.name} reads hardware counters, and guests have none.",
            "Run it on this machine, without kernel=.",
        )
    module = experiment.function.__module__
    title = kernel if isinstance(kernel, str) else kernel.name
    with Progress(f"{experiment.name} on {title}", 1, show=progress and say is None) as bar:
        tell = say or bar.say
        answer = runner.run(
            kernel,
            _CALL_NETWORK if "network" in experiment.needs else _CALL,
            {"module": module, "name": experiment.function.__name__, "parameters": dict(parameters)},
            timing=timing,
            modules=[module],
            native=experiment.workloads,
            progress=lambda text, share: tell(f"{text} {share:.0%}" if share else text),
            **options,
        )
        bar.step("done")
    result = from_json(answer.value, f"the result from the guest with kernel {answer.kernel.name}")
    result.timing = answer.timing
    result.recorded_at = store.now()  # a guest's clock may be a virtual one
    result.parameters["kernel"] = answer.kernel.name
    result.machine |= {
        "kernel_package": f"{answer.kernel.package} {answer.kernel.version}",
        "emulator": f"QEMU {answer.key['qemu']}",
        # With these equal too, a deterministic run gives the same digits.
        "guest": answer.key["machine"],
        "guest_hash": answer.key["guest"],
        "sources_hash": answer.key["sources"],
    }
    result.notes[:0] = [Note(level, text) for level, text in answer.notes]
    return result
