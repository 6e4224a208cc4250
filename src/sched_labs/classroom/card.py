"""A card: what one student shares of their machine.  One small JSON file, readable before it leaves.

It holds the machine's facts as results carry them (no host name, no user name), some numbers of the newest
run of each experiment, and the verdicts on its claims.  Nothing else of a result is in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd

from .. import claims, machine
from ..core import jsontext, result
from ..core.errors import ResultError, SchedLabError

FORMAT, VERSION = "sched-labs card", 1
LARGEST_BYTES = 64 * 1024
MOST_FLAGS = 1000
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


_OUTCOMES = {claims.HOLDS, claims.FAILS, claims.UNKNOWN}
# What the room compares: kind of result -> numbers in ns, by a name for the plot.
HEADLINES: dict[str, Callable[[pd.DataFrame], dict[str, float]]] = {
    "context_switch.matrix": _matrix,
    "warmup.sweep": _warmup,
    "runqlat.histogram": _waits,
    "sleeper.among_hogs": _sleeper,
}
# The names that these give: what somebody else sends draws no strips of its own.
NUMBERS = {
    "context_switch.matrix": {"pipe switch, same cpu", "pipe switch, other cpu"},
    "warmup.sweep": {"largest warm-up"},
    "runqlat.histogram": {"run-queue latency, p99"},
    "sleeper.among_hogs": {"sleeper among hogs, p99"},
}
LARGEST_NS, SMALLEST_NS = 1e12, 1e-3  # of a number on a card: a quarter of an hour, a thousandth of a ns


def numbers(run: result.Result) -> dict[str, float]:
    """What the room compares of one run: name -> ns.  Empty for a kind that has no such number."""
    if run.kind not in HEADLINES:
        return {}
    found = HEADLINES[run.kind](run.summary())
    rounded = {name: round(value, 3) for name, value in found.items() if math.isfinite(value)}
    return {name: value for name, value in rounded.items() if abs(value) < LARGEST_NS}


def make() -> dict[str, Any]:
    """The card of this machine.  Raises ResultError where nothing was measured yet."""
    results = []
    for kind in sorted(known_claims()):
        newest = result.latest(kind)
        if newest is None or newest.timing != "native":
            continue
        results.append(
            {
                "kind": kind,
                "recorded_at": newest.recorded_at,
                "profile": str(newest.parameters.get("profile", "")),
                "flags": min(len(newest.flags), MOST_FLAGS),
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

    It comes from elsewhere, so everything in it is checked: types, ranges, lengths.  What comes back is made
    of what a card has and of nothing else that stood there, and says of each kind of result one thing.
    """
    if len(data) > LARGEST_BYTES:
        raise SchedLabError(f"This is larger than a card may be ({LARGEST_BYTES // 1024} KiB).")
    try:
        found = jsontext.parse(data)
    except ValueError as error:
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
    known = known_claims()
    _require(isinstance(results, list) and 1 <= len(results) <= len(known), "it has no list of results")
    entries = [_entry(entry, known) for entry in results]
    _require(len({entry["kind"] for entry in entries}) == len(entries), "it has two results of one kind")
    return {
        "format": FORMAT,
        "version": VERSION,
        "machine": {key: facts.get(key) for key in MACHINE},
        "results": entries,
    }


@cache
def known_claims() -> dict[str, set[str]]:
    """The kinds of results that a card can tell of, and the ids of the claims on each."""
    found: dict[str, set[str]] = {kind: set() for kind in HEADLINES}
    for claim in claims.all_claims():
        found.setdefault(claim.kind, set()).add(claim.id)
    return found


def _entry(entry: Any, known: dict[str, set[str]]) -> dict[str, Any]:
    """One of a card's results, made anew of what is known of it."""
    _require(isinstance(entry, dict), "a result in it is no object")
    kind, numbers, verdicts = entry.get("kind"), entry.get("numbers_ns"), entry.get("claims")
    _require(isinstance(kind, str) and kind in known, "a result in it has no kind of this book")
    _require(
        isinstance(numbers, dict)
        and set(numbers) <= NUMBERS.get(kind, set())
        and all(_is_number(value) for value in numbers.values()),
        "a number in it is none of this book's",
    )
    _require(
        isinstance(verdicts, dict)
        and set(verdicts) <= known[kind]
        and all(isinstance(v, str) and v in _OUTCOMES for v in verdicts.values()),
        "a verdict in it is none of this book's",
    )
    when, profile, flags = entry.get("recorded_at", ""), entry.get("profile", ""), entry.get("flags", 0)
    _require(
        _is_word(when, 40)
        and _is_word(profile, 40)
        and (when + profile).isascii()
        and type(flags) is int
        and 0 <= flags <= MOST_FLAGS,
        "it does not say as a card does when and how it was measured",
    )
    return {
        "kind": kind,
        "recorded_at": when,
        "profile": profile,
        "flags": flags,
        "numbers_ns": dict(numbers),
        "claims": dict(verdicts),
    }


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and (value == 0 or SMALLEST_NS <= abs(value) < LARGEST_NS)


def _is_word(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def _plain(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, int | float) and abs(value) < 1e15)
        or _is_word(value, 120)
    )


def _require(true: bool, what: str) -> None:
    if not true:
        raise SchedLabError(f"This card is damaged: {what}.", "Make it again with: sched-labs share")
