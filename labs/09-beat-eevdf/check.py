"""The reader's scheduler and the kernel's own on six workloads, in virtual time."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

from sched_labs import scheduler
from sched_labs.core.errors import SchedLabError
from sched_labs.labs import Judge
from sched_labs.schedulers import contests

BETTER, WORSE = 1.1, 0.95
KEPT_PERCENT = 75  # of what each hog had, or of its share by weight if that is less
DRAWN = {"sleeper": 2, "service": 2}  # workloads in which the seed draws what is due: as many draws
KERNEL = "6.18"


def check(judge: Judge) -> None:
    mine = judge.file("mine.bpf.c")
    same = copied(mine)
    judge.need(not same, f"this is the chapter's own {same}: change it, and say what the change costs")
    seeds = [int(seed) for seed in judge.rng.integers(1, 2**31 - 1, size=max(DRAWN.values()))]
    times: dict[str, float] = {}
    kept: dict[str, float] = {}
    for name, contest in contests.CONTESTS.items():
        found = [one_bout(judge, mine, name, seed) for seed in seeds[: DRAWN.get(name, 1)]]
        # The mean of times, and not of ratios: one late request in one draw is one request.
        scores, own = (fmean(column) for column in zip(*((s, o) for s, o, _ in found), strict=True))
        times[name], kept[name] = contest.times_better(scores, own), min(k for _, _, k in found)
    won = [name for name, ratio in times.items() if ratio >= BETTER]
    lost = [name for name, ratio in times.items() if ratio < WORSE]
    judge.expect(
        bool(won),
        good="better than the kernel's own scheduler: " + told(times, won),
        missing=f"at least one workload must be {BETTER:g} times as good as under the kernel's own "
        "scheduler; "
        "the best is " + told(times, [max(times, key=lambda name: times[name])]),
    )
    judge.expect(
        not lost,
        good=f"no workload is worse than {WORSE:g} times as good.",
        missing=f"no workload may be worse than {WORSE:g} times as good: " + told(times, lost),
    )
    starved = [name for name, percent in kept.items() if percent < KEPT_PERCENT]
    judge.expect(
        not starved,
        good="and nobody pays for it who is not measured.",
        missing=f"somebody pays who is not measured: {', '.join(starved)}: a hog is left with less than "
        f"{KEPT_PERCENT} % of what is its own.",
    )
    judge.remark("The threads had names that say nothing, and started in an order that was drawn.")


def copied(mine: Path) -> str:
    """Which of the chapter's schedulers, the starter apart, it is but for comments, spaces and its name."""
    for path in sorted(scheduler.EXAMPLES.glob("*.bpf.c")):
        if path.name != "fifo.bpf.c" and bare(path) == bare(mine):
            return path.name
    return ""


def bare(path: Path) -> str:
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\s", "", path.read_text(errors="replace"), flags=re.DOTALL)
    name = re.search(r"SCX_OPS_DEFINE\((\w+)", text)
    return re.sub(rf"(?<![a-z0-9]){name[1]}(_|\b)", "", text) if name else text


def one_bout(judge: Judge, mine: object, name: str, seed: int) -> tuple[float, float, float]:
    """Both scores on a workload, and what the worst off hog was left with."""
    try:
        row = scheduler.compare(
            [str(mine)], workload=name, kernel=KERNEL, seed=seed, anonymous=True, progress=False
        ).rows.iloc[0]
    except scheduler.SchedulerError as error:
        judge.need(False, str(error))
        raise
    except SchedLabError as error:  # no clang, no QEMU, no kernel: nothing about the reader's work
        judge.can_tell(False, str(error))
        raise
    judge.need(row["why"] == "", f"on the workload {name}: {row['why']}")
    return float(row["score"]), float(row["kernels_own"]), float(row["least_kept_percent"])


def told(times: dict[str, float], names: list[str]) -> str:
    return ", ".join(f"{name} {times[name]:.2f} times as good" for name in names) + "."
