"""Claims whose truth depends on the kernel, each judged on every kernel of the gallery and on this machine.

Per kernel there is the recorded run of the sleeper among hogs, and what the kernel told of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from . import gallery, machine
from .claims.base import _CLASS, FAILS, HOLDS, UNKNOWN, CannotTell, Verdict
from .result import Result

THIS = "this machine"
WAKEUP_ARTICLE = "an article on wake-up latency (002), no measurement given"


@dataclass(frozen=True)
class Evidence:
    """What is known of one kernel: what it told of itself, its run, and the run of CFS to compare it with.

    Both runs are of sleeper.among_hogs; only runs on the same clock are compared.
    """

    facts: Mapping[str, Any]
    sleeper: Result
    cfs: Result | None

    def fact(self, key: str) -> Any:
        value = self.facts.get(key)
        if value is None:
            raise CannotTell(f"This kernel does not tell its {key.partition('.')[2]}.")
        return value

    @property
    def eevdf(self) -> bool:
        return bool(self.fact("kernel.scheduler") == "EEVDF")


@dataclass(frozen=True)
class KernelClaim:
    """A sentence, where it was said, and the check on one kernel."""

    id: str
    text: str
    source: str
    test: Callable[[Evidence], Verdict]

    def check(self, evidence: Evidence) -> Verdict:
        try:
            return self.test(evidence)
        except CannotTell as reason:
            return Verdict(UNKNOWN, str(reason))


def _verdict(true: bool, reason: str) -> Verdict:
    return Verdict(HOLDS if true else FAILS, reason)


def _time(ns: float, result: Result) -> str:
    from .figures.sleeper import late_text

    return late_text(ns, result.timing)


def _must_wait(known: Evidence) -> Verdict:
    row = known.sleeper.summary().iloc[0]
    share, wakes = row["made_wait_percent"] / 100, row["wakes"]
    reason = f"{share:.0%} of {wakes:.0f} wake-ups waited."
    # Deterministic or not, these are samples of the moments at which a wake-up can meet the others' slices.
    spread = 1.96 * (share * (1 - share) / wakes) ** 0.5
    if abs(share - 0.5) <= spread:
        raise CannotTell(f"Too close to half: {reason}")
    return _verdict(share > 0.5, reason)


def _within_a_slice(known: Evidence) -> Verdict:
    p99 = float(known.sleeper.summary()["p99_ns"].iloc[0])
    if known.eevdf:
        slice_ns = float(known.fact("kernel.slice_ns"))
    else:
        threads = known.sleeper.parameters["hogs"] + 1
        least = float(known.fact("tunable.min_granularity_ns"))
        slice_ns = max(least, known.fact("tunable.latency_ns") / threads)
    reason = f"99 % within {_time(p99, known.sleeper)}; a slice is {slice_ns:,.0f} ns."
    return _verdict(p99 <= slice_ns, reason)


def _cuts_the_tail(known: Evidence) -> Verdict:
    if not known.eevdf:
        raise CannotTell("This is CFS.")
    if known.cfs is None:
        raise CannotTell("No run of CFS on the same clock.")
    before, after = (float(run.summary()["p99_ns"].iloc[0]) for run in (known.cfs, known.sleeper))
    return _verdict(after <= 0.7 * before, f"99 % point: {after / before:,.0f} times that of CFS.")


def _old_knobs(known: Evidence) -> Verdict:
    if not known.eevdf:
        raise CannotTell("This is CFS.")
    there = [
        name
        for name in ("latency_ns", "min_granularity_ns")
        if known.facts.get(f"tunable.{name}") is not None
    ]
    return _verdict(bool(there), f"It has {' and '.join(there) or 'neither'}.")


def _slice_is_tick(known: Evidence) -> Verdict:
    if not known.eevdf:
        threads = known.sleeper.parameters["hogs"] + 1
        slice_ns = known.fact("tunable.latency_ns") / threads
    else:
        slice_ns = known.fact("kernel.slice_ns")
    tick_ns = 1e9 / known.fact("kernel.hz")
    return _verdict(
        abs(slice_ns / tick_ns - 1) < 0.05, f"a slice is {slice_ns:,.0f} ns, a tick {tick_ns:,.0f} ns."
    )


CLAIMS = [
    KernelClaim("002-082", "A light sleeper that wakes among hogs mostly has to wait.", WAKEUP_ARTICLE,
                _must_wait),
    KernelClaim("002-016", "A thread that wakes waits for one time slice at most.", WAKEUP_ARTICLE,
                _within_a_slice),
    KernelClaim("002-103", "EEVDF cuts the 99th percentile of wake-up latency by 30 % or more.",
                WAKEUP_ARTICLE, _cuts_the_tail),
    KernelClaim("002-105", "sched_latency_ns and sched_min_granularity_ns still exist under EEVDF.",
                WAKEUP_ARTICLE, _old_knobs),
    KernelClaim("004-005", "A time slice is 1/HZ.", "a collection of switch benchmarks (004)",
                _slice_is_tick),
]  # fmt: skip


class KernelJudgement:
    """A verdict for each claim on each kernel.  Shows itself as a table with a column per kernel."""

    def __init__(self, verdicts: dict[str, list[tuple[KernelClaim, Verdict]]]) -> None:
        self.verdicts = verdicts

    def table(self) -> pd.DataFrame:
        """claim, source, id, kernel, outcome, reason: one row per claim and kernel."""
        return pd.DataFrame(
            [
                {"claim": c.text, "source": c.source, "id": c.id, "kernel": kernel}
                | {"outcome": verdict.outcome, "reason": verdict.reason}
                for kernel, judged in self.verdicts.items()
                for c, verdict in judged
            ],
            columns=["claim", "source", "id", "kernel", "outcome", "reason"],
        )

    def __repr__(self) -> str:
        return self.table().to_string()

    def _repr_html_(self) -> str:
        heads = "".join(f'<th scope="col">{escape(kernel)}</th>' for kernel in self.verdicts)
        rows = []
        for place, (claim, _) in enumerate(next(iter(self.verdicts.values()), [])):
            cells = ""
            for judged in self.verdicts.values():
                verdict = judged[place][1]
                cells += (
                    f'<td><span class="verdict {_CLASS[verdict.outcome]}">{verdict.outcome}</span>'
                    f"<br><small>{escape(verdict.reason)}</small></td>"
                )
            rows.append(
                f'<tr><th scope="row">{escape(claim.text)}<br><small>{escape(claim.source)}</small></th>'
                f"{cells}</tr>"
            )
        return (
            '<table class="sl-claims"><thead><tr><th scope="col">People say</th>'
            f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )


def per_kernel(here: Result | None = None) -> KernelJudgement:
    """Judge the claims on each recorded kernel and, where a run of it is given, on this machine."""
    surveys = {
        answer["kernel"]: {key: fact["value"] for key, fact in answer["value"]["facts"].items()}
        for answer in gallery.answers("survey")
    }
    runs = {str(run.parameters["kernel"]): run for run in gallery.sleepers()}
    cfs = [run for name, run in runs.items() if surveys.get(name, {}).get("kernel.scheduler") == "CFS"]
    found = {
        name: Evidence(surveys[name], run, cfs[-1] if cfs else None)
        for name, run in runs.items()
        if name in surveys
    }
    if here is not None:
        facts = {key: fact["value"] for key, fact in machine.survey().to_json()["facts"].items()}
        found[THIS] = Evidence(facts, here, None)
    return KernelJudgement({name: [(c, c.check(known)) for c in CLAIMS] for name, known in found.items()})
