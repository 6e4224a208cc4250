"""Several schedulers on several workloads, each score beside that of the kernel's own scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..core.errors import ParameterError, ResultError
from ..core.progress import Progress
from ..core.result import TIMINGS
from . import contests, trial
from .compile import compiled
from .errors import SchedulerError

if TYPE_CHECKING:
    from ..draw.base import Figure

ROUNDS = 3  # in real and in emulated time, where no two runs are equal
_APART = 1.05  # and where less than 5 % says nothing


@dataclass(frozen=True)
class Bout:
    """What a bout found, in `rows`:

    - scheduler, workload: which
    - score, unit: what it reached, the median of its rounds; missing where the kernel took the machine back
    - kernels_own: the score of the kernel's own scheduler, likewise
    - times_better: how many times better the scheduler is than that one; below 1 it is worse; the median
    - times_better_low, times_better_high: the range of the rounds; in virtual time there is one round
    - least_kept_percent: what the worst off hog has of what it had under the kernel's own scheduler, or of
      its share by weight among all threads if that is less; the least of the rounds
    - why: what went wrong, or ""
    """

    rows: pd.DataFrame
    kernel: str
    timing: str
    seed: int
    cpus: int = 1

    def table(self) -> pd.DataFrame:
        """One row per scheduler: `times_better` on each workload, and their geometric mean.

        The best mean stands first.  A scheduler that failed a workload has none there, and no mean.
        """
        wide = self._wide("times_better")
        wide["geometric_mean"] = np.exp(np.log(wide.to_numpy(dtype=float)).mean(axis=1))  # NaN stays NaN
        return wide.sort_values("geometric_mean", ascending=False, na_position="last").reset_index()

    def relations(self) -> pd.DataFrame:
        """One row per scheduler, and for each workload a word: all that can be said of emulated time.

        "better" or "worse" than the kernel's own scheduler where every round was so by more than 5 %, else
        "cannot tell"; "failed" where the kernel took the machine back.  In the order of the files.
        """
        low, high = self.rows["times_better_low"], self.rows["times_better_high"]
        said = np.select(
            [low.isna(), low > _APART, high < 1 / _APART], ["failed", "better", "worse"], "cannot tell"
        )
        wide = Bout(self.rows.assign(said=said), self.kernel, self.timing, self.seed)._wide("said")
        return wide.loc[list(dict.fromkeys(self.rows["scheduler"]))].reset_index()

    def _wide(self, values: str) -> pd.DataFrame:
        wide = self.rows.pivot(index="scheduler", columns="workload", values=values)
        wide = wide[list(dict.fromkeys(self.rows["workload"]))]
        wide.columns.name = None
        return wide

    def plot(self) -> Figure:
        """Each scheduler's `times_better` by workload; `.data` of the figure is what it shows.

        Raises ResultError for a bout in emulated time, which has relations and no numbers to draw.
        """
        from . import figure_bout

        if self.timing == "vm-emulated":
            raise ResultError(
                "Of a bout in emulated time only relations can be told, and there is nothing to draw.",
                "Look at `.relations()`, or run it in virtual time.",
            )
        return figure_bout.draw(self)

    def provenance_line(self) -> str:
        cpus = "one CPU" if self.cpus == 1 else f"{self.cpus} CPUs"
        return f"Linux {self.kernel} in a guest with {cpus} · seed {self.seed} · {TIMINGS[self.timing]}"


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

    The parameters are those of `run`.  In virtual time the same files give the same digits.  With
    timing="vm" every workload is run three times by each in turn: see `Bout.relations`.
    Files of one name are called after their folders too (alice/mine.bpf.c), for a class that hands in.

    Raises ParameterError for no file, an unknown workload, or a file that is named twice, and SchedulerError
    where a single file does not compile; of several files, one that does not compile or that fails in the
    guest has its reason in the rows, and the others go on.
    """
    names = _names(files)
    chosen = [contests.find(workload) for workload in workloads]
    rounds = 1 if timing == "deterministic" else ROUNDS
    broken: dict[str, str] = {}
    for file, name in zip(files, names, strict=True):
        try:
            compiled(file)
        except SchedulerError as error:
            if len(files) == 1:
                raise
            broken[name] = error.what
    rows = []
    steps = len(chosen) * rounds * (len(names) - len(broken) + 1)
    with Progress("scheduler: bout", steps, show=progress) as bar:

        def tried(file: str | Path | None, name: str, contest: contests.Contest) -> trial.Trial:
            bar.say(f"{name}, {contest.name}")
            try:
                return trial.run(
                    file, workload=contest.name, kernel=kernel, timing=timing, cpus=cpus, seed=seed,
                    anonymous=anonymous, progress=False,
                )  # fmt: skip
            finally:
                bar.step(contest.name)

        for contest in chosen:
            own: list[trial.Trial] = []
            mine: dict[str, list[trial.Trial]] = {name: [] for name in names}
            why = dict(broken)
            for _ in range(rounds):  # in turns: what changes on this machine meanwhile meets everybody
                own.append(tried(None, trial.OWN, contest))
                for file, name in zip(files, names, strict=True):
                    if name in why:
                        continue
                    try:
                        mine[name].append(tried(file, name, contest))
                    except SchedulerError as error:
                        why[name] = error.what
            rows += [_row(name, contest, mine[name], own, why.get(name, "")) for name in names]
    found = own[0]
    return Bout(pd.DataFrame(rows), kernel, found.timing, seed, int(found.machine["cpus"]))


def _names(files: Sequence[str | Path]) -> list[str]:
    paths = [Path(file) for file in files]
    if not paths or len({path.resolve() for path in paths}) < len(paths):
        raise ParameterError(
            "A bout needs each file once." if paths else "A bout needs a scheduler.",
            "Name the source files, each once.",
        )
    often = Counter(path.name for path in paths)
    names = [
        path.name if often[path.name] == 1 else f"{path.resolve().parent.name}/{path.name}" for path in paths
    ]
    if len(set(names)) < len(names):
        raise ParameterError(
            "A bout needs files with different names, or in folders with different names.",
            "Rename the files.",
        )
    return names


def _row(
    name: str, contest: contests.Contest, mine: list[trial.Trial], own: list[trial.Trial], why: str
) -> dict[str, object]:
    row: dict[str, object] = {
        "scheduler": name, "workload": contest.name, "score": float("nan"), "unit": contest.unit,
        "kernels_own": float(np.median([one.score for one in own])), "times_better": float("nan"),
        "times_better_low": float("nan"), "times_better_high": float("nan"),
        "least_kept_percent": float("nan"), "why": why,
    }  # fmt: skip
    if why:
        return row
    pairs = list(zip(mine, own, strict=True))
    times = [contest.times_better(one.score, other.score) for one, other in pairs]
    kept = [
        contests.least_kept_percent(one.records("threads"), other.records("threads")) for one, other in pairs
    ]
    return row | {
        "score": float(np.median([one.score for one in mine])),
        "times_better": float(np.median(times)),
        "times_better_low": min(times),
        "times_better_high": max(times),
        "least_kept_percent": min(kept),
    }


def compare(files: Sequence[str | Path], *, workload: str = "sleeper", **options: object) -> Bout:
    """A bout on one workload."""
    return bout(files, workloads=[workload], **options)  # type: ignore[arg-type]
