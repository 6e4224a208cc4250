"""`python -m sched_labs.labs.run LAB FOLDER SEED`: one check; its findings as JSON on stdout."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from ..core.errors import SchedLabError
from ..run.surroundings import Surroundings
from .judge import Judge, Stop


def main(lab: str, folder: str, seed: str) -> None:
    # Python takes a file of the same size and second for the one that it compiled: a quick correction.
    sys.dont_write_bytecode = True
    # The reader's code may print; the findings have a channel of their own.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(_found(Path(lab), Path(folder), int(seed)), answer)
    answer.close()


def _found(lab: Path, folder: Path, seed: int) -> dict[str, Any]:
    judge, around = Judge(lab.name, folder, seed), Surroundings()
    try:
        spec = importlib.util.spec_from_file_location("check", lab / "check.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["check"] = module  # as for any imported module; dataclasses look themselves up there
        spec.loader.exec_module(module)
        module.check(judge)
    except Stop:
        pass  # its finding says why
    except SchedLabError as error:
        judge.findings.append((None, f"This machine could not measure it: {error}"))
    except Exception:
        return {"broke": traceback.format_exc()}
    return {
        "findings": judge.findings,
        "remarks": judge.remarks,
        "doubts": Surroundings.doubts(around.since()),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
