"""Is the cause right, is its evidence, and is it mended?"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from typing import Any

from ..core.errors import ParameterError
from . import causes, evidence, ledger, meter
from .desk import Running
from .story import CYCLE_S

NEAR = 0.1  # how far a service level or work may be from the healthy run's
_SAME_LOAD = 0.05
# Of all CPUs, more than in the healthy run: then a run that is not well says nothing.
_OTHERS = 0.15
_MOST_OTHERS = 0.6  # ... and whatever the healthy run had: then it was well by luck
_STOLEN = 0.05
_SETTLE_S = 2.0


@dataclass(frozen=True)
class Verdict:
    """What was found: right is None where this machine cannot tell now."""

    right: bool | None
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def number(text: str) -> float:
    """The number in what the player gave as evidence: "47", "47 %", "310 ms/s".  Raises ParameterError."""
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(?:%|[A-Za-z]+(?:/s)?|1/s|/s)?\s*", text)
    value = float(found[1]) if found else math.nan
    if not found or not math.isfinite(value):
        raise ParameterError(
            f"{text[:40]!r} is no value of a measurement.", "Give a number, such as --evidence 47."
        )
    return value


def answer(running: Running, name: str, given: str) -> Verdict:
    """Judge a cause and its evidence; the ledger keeps what was found."""
    cause, value = causes.find(name), number(given)
    if cause.name != running.plan.variant.cause:
        ledger.note(running, wrong_causes=1)
        return Verdict(
            False,
            (f"No: {cause.name} is not the cause.", "The incident goes on; look again, or take a hint."),
        )
    measured = evidence.measure(running)
    ledger.note(running, cause_at_s=running.state["since_s"], given=value, measured=round(measured, 2))
    unit = f" {cause.unit}" if cause.unit else ""
    if not cause.fits(value, measured):
        ledger.note(running, wrong_values=1)
        return Verdict(
            False,
            (
                f"Yes: {cause.name} is the cause.",
                f"But {value:.12g}{unit} is not the evidence. Asked for: {cause.asks}.",
                "Measure over some seconds, and answer again. (After a repair it is another value.)",
            ),
        )
    ledger.note(running, evidence_at_s=running.state["since_s"])
    return Verdict(
        True,
        (
            f"Yes: {cause.name} is the cause.",
            f"And {value:.12g}{unit} is right: the judge measured {causes.plain(measured)}{unit} "
            f"({cause.asks}).",
            "Now mend it while everything goes on working: sched-labs incident check.",
        ),
    )


def check(running: Running) -> Verdict:
    """Measure the same load once more, and compare with the healthy run.  Takes about eight seconds."""
    time.sleep(_SETTLE_S)
    before = meter.look(running.folder, running.names, running.pids)
    time.sleep(CYCLE_S)
    found = meter.reading(before, meter.look(running.folder, running.names, running.pids))
    verdict = judged(found, running.state["healthy"], running.names)
    ledger.note(running, checks=1)
    if verdict.right:
        ledger.note(running, repaired_at_s=running.state["since_s"])
    return verdict


def judged(found: dict[str, Any], healthy: dict[str, Any], names: dict[str, str]) -> Verdict:
    """A reading after a repair beside the healthy one, by the names of the programs."""
    lines: list[str] = []
    missing: list[str] = []
    broken: list[str] = []
    load = found["requests_per_s"] / max(0.1, healthy["requests_per_s"])
    if abs(load - 1) > _SAME_LOAD:
        broken.append(f"The clients sent {load:.0%} of the healthy run's requests: less load is no repair.")
    level, goal = found["level"], (1 - NEAR) * healthy["level"]
    said = f"In time were {level:.1%} of the requests; in the healthy run {healthy['level']:.1%}."
    (lines if level >= goal else missing).append(said)
    for role, then in healthy["programs"].items():
        now = found["programs"].get(role, {"alive": False, "work_per_s": 0.0})
        if not now["alive"]:
            broken.append(f"{names[role]} is not running; it is started again by itself.")
        elif then["work_per_s"]:
            share = now["work_per_s"] / then["work_per_s"]
            line = f"{names[role]} did {share:.0%} of its work of the healthy run."
            (lines if share >= 1 - NEAR else missing).append(line)
    if broken:
        return Verdict(False, (*broken, *missing, "Not mended. The incident goes on."))
    if not missing:
        return Verdict(True, (*lines, "Mended: the service is well, and everybody's work is done."))
    busy = (
        found["others_share"] > min(healthy["others_share"] + _OTHERS, _MOST_OTHERS)
        or found["stolen_share"] > healthy["stolen_share"] + _STOLEN
    )
    if busy:
        why = (
            f"Programs that are not of the incident used {found['others_share']:.0%} of this machine, "
            f"and {found['stolen_share']:.0%} was stolen (in the healthy run {healthy['others_share']:.0%} "
            f"and {healthy['stolen_share']:.0%}): it cannot be judged now. "
            "Try again in a quieter minute."
        )
        return Verdict(None, (*missing, why))
    return Verdict(False, (*lines, *missing, "Not mended. The incident goes on."))
