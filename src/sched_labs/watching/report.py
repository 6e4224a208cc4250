"""A Result of `watch` in a terminal: where the time went, what is the matter, and what to try."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

from ..core.errors import ResultError
from ..core.result import Result

KIND = "own_program.watch"
COMPARED = ("running", "waiting", "throttled")
MOST_THREADS = 8
SHOWN = 5  # findings
_BARS = {"running_ms_per_s": "#", "waiting_ms_per_s": "=", "asleep_ms_per_s": "."}


def text(result: Result, width: int | None = None) -> str:
    """The whole report; the answer comes first."""
    width = width or min(110, shutil.get_terminal_size((100, 24)).columns)
    lines = [*_answer(result, width), "", *_threads(result, width), "", *_proof(result, width)]
    if price := result.facts.get("price"):
        lines += [*_wrapped(f"Price: {price}", width, "       "), ""]
    for note in result.notes:
        lines += _wrapped(f"{note.level}: {note.text}", width)
    return _shown("\n".join(lines).rstrip() + "\n")


def answer(result: Result) -> str:
    """How much it ran and waited, in a sentence."""
    facts, name = result.facts, result.parameters.get("program", "the program")
    count = "1 thread" if len(result.data) == 1 else f"{len(result.data)} threads"
    return (
        f"{name}: {count}, {facts['window_s']:.1f} s. Of every second they ran "
        f"{facts['running_ms_per_s']:,.0f} ms and waited {facts['waiting_ms_per_s']:,.0f} ms for a CPU."
    )


def _answer(result: Result, width: int) -> Iterator[str]:
    rows = result.records("findings")
    yield from _wrapped(answer(result), width)
    yield ""
    for number, row in enumerate(rows[:SHOWN], 1):
        size = f" {size_text(row)}" if size_text(row) else ""
        yield from _wrapped(f"{number}. {row['title']}{size}", width, "   ")
        if number == 1:
            yield from _wrapped(f"   Try: {row['attempt']}", width, "        ")


def size_text(row: dict[str, Any]) -> str:
    """How much a finding is, in brackets; "" where only a rate is known."""
    size, share = row["size_ms_per_s"], row["share"]
    if size is None:
        return ""
    part = f", {share:.0%} of what it wanted" if share is not None else ""
    return f"[{size:,.0f} ms of every second{part}]"


def compared(before: Result, after: Result) -> str:
    """Both in a few lines: what ran, what waited, and which findings came or went.

    Raises ResultError for a result that no watch made.
    """
    check_comparable(before)
    lines = ["Before and after, ms of every second:"]
    for name in COMPARED:
        pair = [float(one.facts[f"{name}_ms_per_s"]) for one in (before, after)]
        lines.append(f"  {name:<10}{pair[0]:>10,.1f}{pair[1]:>10,.1f}")
    sides = [{row["name"]: row["title"] for row in one.records("findings")} for one in (before, after)]
    lines += [f"  gone: {title}" for name, title in sides[0].items() if name not in sides[1]]
    lines += [f"  new:  {title}" for name, title in sides[1].items() if name not in sides[0]]
    return _shown("\n".join(lines))


def check_comparable(result: Result) -> None:
    """Raises ResultError for a result that no watch made."""
    if result.kind != KIND:
        raise ResultError(f"That is a result of {result.kind}.", "Compare with what `watch --json` wrote.")
    known = [result.facts.get(f"{name}_ms_per_s") for name in COMPARED]
    rows = result.records("findings")
    if not all(isinstance(one, int | float) for one in known) or not all(
        {"name", "title"} <= set(row) for row in rows
    ):
        raise ResultError(
            "That result has not what is compared.",
            "Compare with what `watch --json` wrote, and left as it is.",
        )


def _threads(result: Result, width: int) -> Iterator[str]:
    """One line for each of the busiest threads."""
    yield "ms of every second        running   waiting    asleep  (for)"
    for row in result.data.head(MOST_THREADS).to_dict("records"):
        parts = [float(row[name]) for name in _BARS]
        yield (
            f"{row['tid']:>8} {row['name'][:15]:<15}"
            + "".join(f" {part:>9,.1f}" for part in parts)
            + f"  {row['asleep_for'] or '':<20.20} {_bar(parts, min(30, width - 78))}"
        ).rstrip()
    if len(result.data) > MOST_THREADS:
        rest = result.data.iloc[MOST_THREADS:]
        sums = "".join(f" {rest[name].sum():>9,.1f}" for name in _BARS)
        yield f"{'':>8} {f'{len(rest)} more':<15}{sums}"
    yield "         # running   = waiting for a CPU   . asleep"


def _bar(parts: list[float], cells: int) -> str:
    if cells < 10 or not sum(parts):
        return ""
    marks = "".join(
        mark * round(cells * part / sum(parts)) for mark, part in zip(_BARS.values(), parts, strict=True)
    )
    return marks[:cells]


def _proof(result: Result, width: int) -> Iterator[str]:
    """What says so, and what else it could be."""
    for number, row in enumerate(result.records("findings")[:SHOWN], 1):
        yield from _wrapped(f"{number}. {row['title']}", width, "   ")
        for word, key in (("Seen", "evidence"), ("Or", "instead"), ("Try", "attempt"), ("Read", "page")):
            yield from _wrapped(f"   {word + ':':<6}{row[key]}", width, "         ")
        yield ""


def _shown(text: str) -> str:
    """Threads and processes may be called anything: what steers a terminal is no part of a name."""
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)


def _wrapped(line: str, width: int, indent: str = "  ") -> list[str]:
    first = len(line) - len(line.lstrip(" "))
    return textwrap.wrap(line[first:], width, initial_indent=" " * first, subsequent_indent=indent)
