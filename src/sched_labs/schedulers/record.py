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
from .compile import EXAMPLES
from .trial import KERNEL, Trial, run

FOLDER = Path(__file__).with_name("recorded")
SHOWN = ("fifo", "fair", "deadline", "short_first")


def recorded(name: str | None = None) -> Trial:
    """The recorded run of an example (None: of the kernel's own scheduler) on the workload `sleeper`.

    Raises ParameterError for an example that none was recorded of.
    """
    path = FOLDER / f"{name or 'own'}.json"
    if not path.is_file():
        raise ParameterError(f"No run of {name!r} was recorded.", f"There are: {', '.join(SHOWN)}, and None.")
    found = from_json(path.read_text(encoding="utf-8"), str(path))
    return Trial(**{field: getattr(found, field) for field in found.__dataclass_fields__})


def recorded_bout() -> Bout:
    """The recorded bout of the examples."""
    told = json.loads((FOLDER / "bout.json").read_text(encoding="utf-8"))
    return Bout(pd.DataFrame(told["rows"]), told["kernel"], told["timing"], told["seed"])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in (None, *SHOWN):
        found = run(EXAMPLES / f"{name}.bpf.c" if name else None)
        found.save(FOLDER / f"{name or 'own'}.json")
    all_of_them = bout([EXAMPLES / f"{name}.bpf.c" for name in SHOWN])
    rows = all_of_them.rows.astype(object).where(all_of_them.rows.notna(), None).to_dict("records")
    told = {"kernel": KERNEL, "timing": all_of_them.timing, "seed": all_of_them.seed, "rows": rows}
    write_text(FOLDER / "bout.json", json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
