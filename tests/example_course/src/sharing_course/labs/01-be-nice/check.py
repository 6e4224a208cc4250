"""Parts that are drawn anew, and the nice value whose weight comes nearest."""

from __future__ import annotations

from sched_labs.labs import Judge


def check(judge: Judge) -> None:
    answer = judge.function("answer.py", "nice_for")
    right = 0
    for percent in judge.rng.uniform(1, 50, 10):
        best = min(range(20), key=lambda nice: abs(100 / (1 + 1.25**nice) - percent))
        right += answer(float(percent)) == best
    judge.expect(
        right == 10,
        good="all ten nice values are right.",
        missing=f"{right} of ten nice values are right. What does one step of nice multiply?",
    )
