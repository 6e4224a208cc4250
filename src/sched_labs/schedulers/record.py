"""The runs that ship with the chapter.

`python -m sched_labs.schedulers.record` makes them, and is needed again when an example changes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from ..core.errors import ParameterError
from ..core.result import from_json
from ..core.store import write_text
from .bouts import Bout, bout
from .compile import EXAMPLES, KERNELS_OWN
from .trial import KERNEL, Trial, run

FOLDER = Path(__file__).with_name("recorded")
SHOWN = ("fifo", "fair", "deadline", "short_first")
KERNELS = (KERNEL, "7.3")  # the bout's
COMPARED = ((None, "7.3"), ("fifo", "7.3"))


def recorded(name: str | None = None, kernel: str = KERNEL) -> Trial:
    """The recorded run of an example (None: of the kernel's own scheduler) on the workload `sleeper`.

    Raises ParameterError for an example that none was recorded of; on another kernel than 6.18 there are two.
    """
    path = FOLDER / _name(name, kernel)
    if not path.is_file():
        raise ParameterError(
            f"No run of {name!r} on kernel {kernel} was recorded.",
            f"There are: {', '.join(SHOWN)} and None; on {KERNELS[1]} fifo and None.",
        )
    found = from_json(path.read_text(encoding="utf-8"), str(path))
    return Trial(**{field: getattr(found, field) for field in found.__dataclass_fields__})


def _name(name: str | None, kernel: str) -> str:
    return f"{name or 'own'}{'' if kernel == KERNEL else '.' + kernel}.json"


def like(text: str) -> Trial | None:
    """The recorded run of the scheduler whose source is this text, if there is one."""
    for name in (None, *SHOWN):
        if text == (EXAMPLES / f"{name}.bpf.c" if name else KERNELS_OWN).read_text(encoding="utf-8"):
            return recorded(name)
    return None


def recorded_bout(kernel: str = KERNEL) -> Bout:
    """The recorded bout of the examples on one of KERNELS.  ParameterError for another kernel."""
    path = FOLDER / f"bout.{kernel}.json"
    if not path.is_file():
        raise ParameterError(
            f"No bout was recorded on kernel {kernel!r}.", f"There are: {', '.join(KERNELS)}."
        )
    told = json.loads(path.read_text(encoding="utf-8"))
    return Bout(pd.DataFrame(told.pop("rows")), **told)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, kernel in [*((name, KERNEL) for name in (None, *SHOWN)), *COMPARED]:
        found = run(EXAMPLES / f"{name}.bpf.c" if name else None, kernel=kernel)
        found.save(FOLDER / _name(name, kernel))
    for kernel in KERNELS:
        made = bout([EXAMPLES / f"{name}.bpf.c" for name in SHOWN], kernel=kernel)
        rows = made.rows.astype(object).where(made.rows.notna(), None).to_dict("records")
        told = {"kernel": kernel, "timing": made.timing, "seed": made.seed, "cpus": made.cpus, "rows": rows}
        write_text(FOLDER / f"bout.{kernel}.json", json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
