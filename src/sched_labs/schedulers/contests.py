"""The six workloads that schedulers are compared by, and what each is scored by.

Each is a plan for the workload `roles`, played for 300 ms of the guest's time; the seed draws what is due
when.  A score is a time (less is better) or an amount of work (more is better).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ParameterError

RUN_MS = 300
Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Contest:
    """A workload and its score.

    roles    as the command line of `roles` takes them
    measure  the score, of the records `request`, `thread` and of how long it took, in ns
    """

    name: str
    about: str
    roles: tuple[str, ...]
    unit: str
    less_is_better: bool
    measure: Callable[[Rows, Rows, int], float]

    def arguments(self, seed: int, anonymous: bool) -> list[str]:
        return [
            "--ms",
            str(RUN_MS),
            "--seed",
            str(seed),
            *(["--anonymous"] if anonymous else []),
            *self.roles,
        ]

    def times_better(self, mine: float, other: float) -> float:
        """How many times better one score is than another."""
        return other / mine if self.less_is_better else mine / other


def _mean_late(requests: Rows, threads: Rows, elapsed_ns: int) -> float:
    return float(np.mean([one["late_ns"] for one in requests])) / 1e3


def _p99_response(requests: Rows, threads: Rows, elapsed_ns: int) -> float:
    return float(np.percentile([one["response_ns"] for one in requests], 99)) / 1e3


def _work_of(role: str) -> Callable[[Rows, Rows, int], float]:
    def rate(requests: Rows, threads: Rows, elapsed_ns: int) -> float:
        return sum(one["work"] for one in threads if one["role"] == role) * 1e6 / elapsed_ns

    return rate


# The kernel's table: each step of nice is worth a factor of about 1.25 (sched_prio_to_weight, core.c).
def _weight(nice: int) -> float:
    return float(1.25**-nice)


def entitled(threads: Rows) -> dict[int, float]:
    """The share of the CPU that each thread that never sleeps is entitled to among them, by its number."""
    hungry = [one for one in threads if one["role"] == "hog"]
    whole = sum(_weight(one["nice"]) for one in hungry)
    return {one["number"]: _weight(one["nice"]) / whole for one in hungry}


def _as_entitled(requests: Rows, threads: Rows, elapsed_ns: int) -> float:
    """The CPU time that went to whom it was due, in percent of all."""
    due = entitled(threads)
    had = {one["number"]: one["cpu_ns"] for one in threads if one["role"] == "hog"}
    whole = sum(had.values()) or 1
    return 100.0 - 50.0 * sum(abs(had[number] / whole - due[number]) for number in due)


def least_kept_percent(mine: Rows, other: Rows) -> float:
    """What the hog that is worst off in this run has of what nobody may take from it, in percent.

    That is the CPU time that it had in the other run, or its share by weight among all threads if that is
    less.
    """
    had = {one["number"]: one["cpu_ns"] for one in mine if one["role"] == "hog"}
    other = list(other)
    whole, weights = sum(one["cpu_ns"] for one in other), sum(_weight(one["nice"]) for one in other)
    parts = [
        had[one["number"]] / max(1.0, min(one["cpu_ns"], whole * _weight(one["nice"]) / weights))
        for one in other
        if one["role"] == "hog"
    ]
    return 100.0 * min(parts)


CONTESTS = {
    one.name: one
    for one in (
        Contest(
            "sleeper",
            "a light sleeper among three hogs: how late it begins, on average",
            ("sleeper:1:0:2000:50", "hog:3"),
            "µs late",
            True,
            _mean_late,
        ),
        Contest(
            "pairs",
            "two pairs hand a token to and fro beside a hog",
            ("pair:2", "hog:1"),
            "hand-overs per ms",
            False,
            _work_of("pair"),
        ),
        Contest(
            "batch",
            "four hogs: how much they get done together",
            ("hog:4",),
            "rounds per ms",
            False,
            _work_of("hog"),
        ),
        Contest(
            "service",
            "four servers with requests at random, beside two hogs: the 99th percentile of the responses",
            ("sleeper:4:0:5000:400", "hog:2"),
            "µs at p99",
            True,
            _p99_response,
        ),
        Contest(
            "weights",
            "hogs with the nice values -5, 0, 5 and 10: does the CPU time go to whom it is due?",
            ("hog:1:-5", "hog:1:0", "hog:1:5", "hog:1:10"),
            "% as entitled",
            False,
            _as_entitled,
        ),
        Contest(
            "storm",
            "two threads fork and wait for their children, among three that yield and a hog",
            ("forker:2:0:1:100", "yielder:3:0:20", "hog:1"),
            "forks per ms",
            False,
            _work_of("forker"),
        ),
    )
}


def find(name: str) -> Contest:
    """The workload of that name.  ParameterError for an unknown one."""
    if name not in CONTESTS:
        raise ParameterError(
            f"There is no workload {name!r} for schedulers.", f"There are: {', '.join(CONTESTS)}."
        )
    return CONTESTS[name]
