"""Fresh sets of processes; only their switches are shown."""

from __future__ import annotations

from sched_labs.experiments import classify
from sched_labs.labs import Judge

SETS, RIGHT = 3, 13
SHOWN = ["leader", "voluntary_per_s", "involuntary_per_s", "cpu_share", "stint_ns"]
WORDS = set(classify.KINDS.values())


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "diagnose")
    run = classify.processes(sets=SETS, interval_s=0.8, seed=judge.seed, save=False, progress=False)
    right, missed = 0, set()
    for _, threads in run.data.groupby(["set", "process"]):
        truth = threads.truth.iloc[0]
        said = answer(threads[SHOWN].reset_index(drop=True))
        judge.need(
            isinstance(said, str) and said in WORDS,
            f"diagnose must return one of the sheet's words, not {said!r}.",
        )
        if said == truth:
            right += 1
        else:
            missed.add(truth)
    judge.expect(
        right >= RIGHT,
        good=f"{right} of {5 * SETS} processes were told right.",
        missing=f"{right} of {5 * SETS} processes were told right. You missed {len(missed)} "
        "ways of life; do you look at all threads, and at how long each stays on the CPU?",
    )
