"""A row: what one machine measured in one run of one experiment, small enough for a thousand machines.

It is made where the result is made, and comes from elsewhere: everything in it is checked when it arrives and
again when it is read: types, ranges, lengths.  What comes back is made of what a row has, and nothing else.
"""

from __future__ import annotations

import json
from typing import Any

from .. import claims
from ..core import jsontext
from ..core.errors import SchedLabError
from ..core.result import TIMINGS, Result
from . import numbers

FORMAT, VERSION = "sched-labs fleet row", 1
LARGEST_BYTES = 256 * 1024
_STAMP_BYTES = 100  # when it arrived, which is added when it is kept
MOST_FACTS, MOST_CLAIMS, LONGEST = 64, 400, 120
OUTCOMES = (claims.HOLDS, claims.FAILS, claims.UNKNOWN)  # no set: what is looked for may be a list


def make(result: Result, facts: dict[str, Any]) -> dict[str, Any]:
    """The row of a result, of a machine with these facts."""
    return {
        "kind": result.kind,
        "recorded_at": result.recorded_at,
        "duration_s": round(result.duration_s, 3),
        "timing": result.timing,
        "profile": str(result.parameters.get("profile", "")),
        "flags": len(result.flags),
        "library": result.library,
        "facts": facts,
        "numbers": numbers.of(result),
        "claims": {claim.id: verdict.outcome for claim, verdict in claims.judge(result)},
    }


def text(row: dict[str, Any]) -> str:
    """The row as it is kept."""
    return json.dumps({"format": FORMAT, "version": VERSION, **row}, separators=(",", ":")) + "\n"


def parse(data: bytes) -> dict[str, Any]:
    """A kept row.  Raises SchedLabError for what is none."""
    if len(data) > LARGEST_BYTES:
        raise SchedLabError(f"This is larger than a row may be ({LARGEST_BYTES // 1024} KiB).")
    try:
        found = jsontext.parse(data)
    except ValueError as error:
        raise SchedLabError(f"This is not JSON: {error!s:.100}.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("version") != VERSION:
        raise SchedLabError("This is no row of a fleet.", "`sched-labs fleet run` writes them.")
    return checked(found)


def checked(found: Any) -> dict[str, Any]:
    """A row made anew of what is known of it.  Raises SchedLabError, saying what is wrong with it."""
    _require(isinstance(found, dict), "it is no object")
    words = {key: found.get(key) for key in ("kind", "recorded_at", "timing", "profile", "library")}
    _require(all(_is_word(value, 60) for value in words.values()), "it does not say what it is of")
    _require(words["timing"] in TIMINGS, "its time passed in no known way")
    duration, flags = found.get("duration_s"), found.get("flags")
    _require(_is_number(duration) and duration >= 0, "it does not say how long it took")
    _require(type(flags) is int and 0 <= flags <= 1000, "it does not say how often it was flagged")
    facts, rows, verdicts = found.get("facts"), found.get("numbers"), found.get("claims")
    _require(isinstance(facts, dict) and facts == plain(facts), "a fact in it is no short text or number")
    _require(
        isinstance(rows, list) and len(rows) <= numbers.MOST and all(map(_is_entry, rows)),
        "a number in it is none",
    )
    _require(len({(name, column) for name, column, *_ in rows}) == len(rows), "it has a number twice")
    _require(
        isinstance(verdicts, dict)
        and len(verdicts) <= MOST_CLAIMS
        and all(_is_word(key, 80) and value in OUTCOMES for key, value in verdicts.items()),
        "a verdict in it is none",
    )
    made = {
        **words,
        "duration_s": duration,
        "flags": flags,
        "facts": facts,
        "numbers": rows,
        "claims": verdicts,
    }
    _require(len(text(made)) <= LARGEST_BYTES - _STAMP_BYTES, "it is larger than a row may be")
    return made


def plain(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that are short texts, numbers or not known."""
    kept = {key: value for key, value in facts.items() if _is_word(key, 40) and _is_fact(value)}
    return dict(list(kept.items())[:MOST_FACTS])


def _is_fact(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _is_number(value) or _is_word(value, LONGEST)


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 5:
        return False
    name, column, value, low, high = entry
    if not (_is_word(name, numbers.LONGEST_NAME) and _is_word(column, 60) and _is_number(value)):
        return False
    return (low is None and high is None) or (_is_number(low) and _is_number(high) and low <= high)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e18  # nor is NaN, or an infinity


def _is_word(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def _require(true: bool, what: str) -> None:
    if not true:
        raise SchedLabError(f"This row is damaged: {what}.", "Measure that machine again.")
