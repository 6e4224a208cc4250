"""A card: what one student shares of their machine.  One small JSON file, readable before it leaves.

It holds the machine's facts as results carry them (no host name, no user name), some numbers of the newest
run of each experiment, and the verdicts on its claims.  Nothing else of a result is in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from .. import claims, machine, result
from ..errors import ResultError, SchedLabError

FORMAT, VERSION = "sched-labs card", 1
LARGEST_BYTES = 64 * 1024
MOST_RESULTS = 100
# Of a machine: enough to say what machines have in common.
MACHINE = (
    "arch", "kernel", "scheduler", "preemption", "hz", "cpu_model", "cpus", "hypervisor", "clocksource",
    "smt",
)  # fmt: skip


def _matrix(table: pd.DataFrame) -> dict[str, float]:
    rows = table[(table.mechanism == "pipe") & (table.between == "threads")].set_index("placement")
    return {
        f"pipe switch, {place.replace('_', ' ')}": float(rows.net_per_switch_ns[place])
        for place in ("same_cpu", "other_cpu")
        if place in rows.index
    }


def _warmup(table: pd.DataFrame) -> dict[str, float]:
    rows = table[(table.access == "random") & table.seen].sort_values("extra_ns")
    return {"largest warm-up": float(rows.extra_ns.iloc[-1])} if len(rows) else {}


def _waits(table: pd.DataFrame) -> dict[str, float]:
    rows = table[table.cause == "all"]
    return {"run-queue latency, p99": float(rows.p99_ns.iloc[0])} if len(rows) else {}


def _sleeper(table: pd.DataFrame) -> dict[str, float]:
    return {"sleeper among hogs, p99": float(table.p99_ns.iloc[0])}


# What the room compares: kind of result -> numbers in ns, by a name for the plot.
HEADLINES: dict[str, Callable[[pd.DataFrame], dict[str, float]]] = {
    "context_switch.matrix": _matrix,
    "warmup.sweep": _warmup,
    "runqlat.histogram": _waits,
    "sleeper.among_hogs": _sleeper,
}
# The names that these give: what somebody else sends draws no strips of its own.
NUMBERS = {
    "pipe switch, same cpu",
    "pipe switch, other cpu",
    "largest warm-up",
    "run-queue latency, p99",
    "sleeper among hogs, p99",
}


def numbers(run: result.Result) -> dict[str, float]:
    """What the room compares of one run: name -> ns.  Empty for a kind that has no such number."""
    if run.kind not in HEADLINES:
        return {}
    found = HEADLINES[run.kind](run.summary())
    return {name: value for name, value in found.items() if math.isfinite(value)}


def make() -> dict[str, Any]:
    """The card of this machine.  Raises ResultError where nothing was measured yet."""
    kinds = {claim.kind for claim in claims.CLAIMS} | set(HEADLINES)
    results = []
    for kind in sorted(kinds):
        newest = result.latest(kind)
        if newest is None or newest.timing != "native":
            continue
        results.append(
            {
                "kind": kind,
                "recorded_at": newest.recorded_at,
                "profile": str(newest.parameters.get("profile", "")),
                "flags": len(newest.flags),
                "numbers_ns": numbers(newest),
                "claims": {claim.id: verdict.outcome for claim, verdict in claims.judge(newest)},
            }
        )
    if not results:
        raise ResultError(
            "Nothing was measured on this machine yet, so there is nothing to share.",
            "Run an experiment first, such as: sched-labs run context_switch.matrix",
        )
    facts = machine.survey().provenance()
    return {
        "format": FORMAT,
        "version": VERSION,
        "machine": {key: facts.get(key) for key in MACHINE},
        "results": results,
    }


def text(card: dict[str, Any]) -> str:
    """The card as it is written and sent; equal cards have equal texts."""
    return json.dumps(card, indent=1, sort_keys=True) + "\n"


def name(card: dict[str, Any]) -> str:
    """A file name that is the same for the same card, and says nothing about who made it."""
    return f"card-{hashlib.sha256(text(card).encode()).hexdigest()[:16]}.json"


def parse(data: bytes) -> dict[str, Any]:
    """A card from what somebody sent.  Raises SchedLabError, saying what is wrong with it.

    It comes from elsewhere, so everything in it is checked: types, ranges, lengths.
    """
    if len(data) > LARGEST_BYTES:
        raise SchedLabError(f"This is larger than a card may be ({LARGEST_BYTES // 1024} KiB).")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SchedLabError(f"This is not JSON: {str(error)[:100]}.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise SchedLabError("This is no card of sched-labs.", "Make one with: sched-labs share")
    if found.get("version") != VERSION:
        raise SchedLabError(
            f"This card has version {found.get('version')!r:.20}, not {VERSION}.",
            "Use the same sched-labs everywhere.",
        )
    facts: Any = found.get("machine")
    results: Any = found.get("results")
    _require(
        isinstance(facts, dict) and set(facts) <= set(MACHINE), "its machine is not what a card tells of one"
    )
    _require(
        all(_plain(value) for value in facts.values()), "a fact of its machine is no short text or number"
    )
    _require(isinstance(results, list) and 1 <= len(results) <= MOST_RESULTS, "it has no list of results")
    known = {claim.id for claim in claims.CLAIMS}
    outcomes = {claims.HOLDS, claims.FAILS, claims.UNKNOWN}
    for entry in results:
        _require(isinstance(entry, dict), "a result in it is no object")
        numbers, verdicts = entry.get("numbers_ns"), entry.get("claims")
        _require(
            _plain(entry.get("kind")) and isinstance(entry.get("kind"), str), "a result in it has no kind"
        )
        _require(
            isinstance(numbers, dict)
            and set(numbers) <= NUMBERS
            and all(
                isinstance(v, int | float) and not isinstance(v, bool) and 0 <= abs(v) < 1e15
                for v in numbers.values()
            ),
            "a number in it is none of this book's",
        )
        _require(
            isinstance(verdicts, dict)
            and set(verdicts) <= known
            and all(isinstance(v, str) and v in outcomes for v in verdicts.values()),
            "a verdict in it is none of this book's",
        )
    return found


def _plain(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, bool | int | float)
        or (isinstance(value, str) and len(value) <= 120 and value.isprintable())
    )


def _require(true: bool, what: str) -> None:
    if not true:
        raise SchedLabError(f"This card is damaged: {what}.", "Make it again with: sched-labs share")
