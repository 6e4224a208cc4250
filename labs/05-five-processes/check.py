"""Fresh sets of processes; only their switches are shown."""

from __future__ import annotations

import pandas as pd

from sched_labs.labs import Judge
from sched_labs.probes import status as switches
from sched_labs.topics.switching_less.classify import experiment as classify

SETS, RIGHT = 3, 13
SHOWN = ["leader", "voluntary_per_s", "involuntary_per_s", "cpu_share", "stint_ns"]
WORDS = set(classify.KINDS.values())


def told_right(threads: pd.DataFrame, said: str) -> bool:
    return bool(said == threads.truth.iloc[0])


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "diagnose")
    run = classify.processes(sets=SETS, interval_s=0.8, seed=judge.seed, save=False, progress=False)
    right, library, missed = 0, 0, set()
    for _, threads in run.data.groupby(["set", "process"]):
        said = answer(threads[SHOWN].reset_index(drop=True))
        judge.need(
            isinstance(said, str) and said in WORDS,
            f"diagnose must return one of the sheet's words, not {said!r}.",
        )
        library += told_right(threads, switches.classify(threads.assign(pid=1)).label)
        if told_right(threads, said):
            right += 1
        else:
            missed.add(threads.truth.iloc[0])
    told = f"{right} of {5 * SETS} processes were told right"
    judge.expect(
        # Beside other programs the processes do not live as they were told to: then no rule tells them apart.
        right >= RIGHT or (None if library < RIGHT else False),
        good=f"{told}.",
        missing=f"{told}. You missed {len(missed)} ways of life; "
        "do you look at all threads, and at how long each stays on the CPU?",
        unclear=f"{told}, and by the library's own rule only {library}: "
        "other programs disturb these processes too much.",
    )
