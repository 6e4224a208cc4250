"""`python -m sched_labs.labs.run LAB FOLDER SEED`: one check; its findings as JSON on stdout."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

from ..errors import SchedLabError
from ..experiments.surroundings import Surroundings
from .judge import Judge, Stop


def main(lab: str, folder: str, seed: str) -> None:
    # The reader's code may print; the findings have a channel of their own.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spec = importlib.util.spec_from_file_location("check", Path(lab) / "check.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["check"] = module  # as for any imported module; dataclasses look themselves up there
    spec.loader.exec_module(module)
    judge, around = Judge(Path(lab).name, Path(folder), int(seed)), Surroundings()
    try:
        module.check(judge)
    except Stop:
        pass  # its finding says why
    except SchedLabError as error:
        judge.findings.append((False, f"This machine could not measure it: {error}"))
    found = {
        "findings": judge.findings,
        "remarks": judge.remarks,
        "doubts": Surroundings.doubts(around.since()),
    }
    json.dump(found, answer)
    answer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
