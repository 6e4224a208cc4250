"""Several schedulers on several workloads, each score beside that of the kernel's own scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..core.errors import ParameterError
from ..core.progress import Progress
from . import contests, trial
from .compile import compiled
from .errors import SchedulerError


@dataclass(frozen=True)
class Bout:
    """What a bout found, in `rows`:

    - scheduler, workload: which
    - score, unit: what it reached; missing where the kernel took the machine back from it
    - kernels_own: the score of the kernel's own scheduler
    - times_better: how many times better the scheduler is than that one; below 1 it is worse
    - least_kept_percent: what the worst off hog has of what it had under the kernel's own scheduler, or of
      its share by weight among all threads if that is less
    - why: what went wrong, or ""
    """

    rows: pd.DataFrame
    kernel: str
    timing: str
    seed: int

    def table(self) -> pd.DataFrame:
        """One row per scheduler: `times_better` on each workload, and their geometric mean.

        The best mean stands first.  A scheduler that failed a workload has none there, and no mean.
        """
        wide = self.rows.pivot(index="scheduler", columns="workload", values="times_better")
        wide = wide[list(dict.fromkeys(self.rows["workload"]))]
        wide["geometric_mean"] = np.exp(np.log(wide.to_numpy(dtype=float)).mean(axis=1))  # NaN stays NaN
        wide.columns.name = None
        return wide.sort_values("geometric_mean", ascending=False, na_position="last").reset_index()


def bout(
    files: Sequence[str | Path],
    *,
    workloads: Sequence[str] = tuple(contests.CONTESTS),
    kernel: str = trial.KERNEL,
    timing: str = "deterministic",
    cpus: int | None = None,
    seed: int = 1,
    anonymous: bool = False,
    progress: bool = True,
) -> Bout:
    """Runs every file and the kernel's own scheduler on every workload.

    The parameters are those of `run`.  In virtual time the same files give the same digits.
    Raises SchedulerError where a file does not compile, before anything runs, and ParameterError for no file,
    an unknown workload, or two files of one name; one that fails in the guest has its reason in the table.
    """
    names = [Path(file).name for file in files]
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "A bout needs files with different names." if names else "A bout needs a scheduler.",
            "Name the source files, each once.",
        )
    chosen = [contests.find(workload) for workload in workloads]
    for file in files:
        compiled(file)
    rows = []
    with Progress("scheduler: bout", len(chosen) * (len(names) + 1), show=progress) as bar:

        def tried(file: str | Path | None, contest: contests.Contest) -> trial.Trial:
            bar.say(f"{Path(file).name if file else trial.OWN}, {contest.name}")
            try:
                return trial.run(
                    file, workload=contest.name, kernel=kernel, timing=timing, cpus=cpus, seed=seed,
                    anonymous=anonymous, progress=False,
                )  # fmt: skip
            finally:
                bar.step(contest.name)

        for contest in chosen:
            own = tried(None, contest)
            for file, name in zip(files, names, strict=True):
                row = {
                    "scheduler": name, "workload": contest.name, "score": float("nan"), "unit": contest.unit,
                    "kernels_own": own.score, "times_better": float("nan"),
                    "least_kept_percent": float("nan"), "why": "",
                }  # fmt: skip
                try:
                    mine = tried(file, contest)
                    row |= {
                        "score": mine.score,
                        "times_better": contest.times_better(mine.score, own.score),
                        "least_kept_percent": contests.least_kept_percent(
                            mine.records("threads"), own.records("threads")
                        ),
                    }
                except SchedulerError as error:
                    row["why"] = error.what
                rows.append(row)
    return Bout(pd.DataFrame(rows), kernel, timing, seed)


def compare(files: Sequence[str | Path], *, workload: str = "sleeper", **options: object) -> Bout:
    """A bout on one workload."""
    return bout(files, workloads=[workload], **options)  # type: ignore[arg-type]
