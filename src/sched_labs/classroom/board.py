"""The class board: the cards of a room, drawn together."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from ..core.errors import ParameterError, SchedLabError
from ..draw import axes
from ..draw.base import Figure
from ..fleet import compare, report, tables
from ..fleet import strips as of_fleet
from . import card

MOST_CARDS = 500


def read(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The cards of a folder by file name, and why the other JSON files in it are none.

    A file that repeats another one counts once.  Raises ParameterError for what is no folder.
    """
    if not folder.is_dir():
        raise ParameterError(f"{folder} is no folder.", "Name the folder that the students' cards are in.")
    cards: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    seen: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        if len(cards) >= MOST_CARDS:
            refused[path.name] = f"the board has room for {MOST_CARDS}."
            continue
        try:
            found = card.parse(_content(path))
        except OSError as error:
            refused[path.name] = f"it cannot be read: {error.strerror}."
            continue
        except SchedLabError as error:
            refused[path.name] = error.what
            continue
        text = card.text(found)
        if text in seen:
            refused[path.name] = f"it is the same as {seen[text]}."
            continue
        seen[text] = path.name
        cards[path.name] = found
    return cards, refused


def _content(path: Path) -> bytes:
    # A pipe in the folder is not waited for.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        return file.read(card.LARGEST_BYTES + 1) or b""


def counted(cards: dict[str, dict[str, Any]]) -> str:
    """How many machines there are, in words for a caption."""
    return f"{len(cards)} machine{'' if len(cards) == 1 else 's'}"


def frame(cards: dict[str, dict[str, Any]], mine: str | None = None) -> pd.DataFrame:
    """One row per card and number: card, kind, number (its name), value_ns, mine (the card to light up)."""
    rows = [
        {
            "card": name,
            "kind": entry["kind"],
            "number": number,
            "value_ns": float(value),
            "mine": name == mine,
        }
        for name, one in cards.items()
        for entry in one["results"]
        for number, value in entry["numbers_ns"].items()
        if value > 0
    ]
    return pd.DataFrame(rows, columns=["card", "kind", "number", "value_ns", "mine"])


def fleet(cards: dict[str, dict[str, Any]]) -> tables.Fleet:
    """The cards as a fleet that was asked once; nobody sees what the files were called."""
    rows = [
        (
            f"card {number:03}",
            datetime(2026, 1, 1, tzinfo=UTC),  # a card is one round
            {
                "kind": entry["kind"],
                "timing": "native",
                "facts": one["machine"],
                "numbers": [
                    [key, "value_ns", float(ns), None, None] for key, ns in entry["numbers_ns"].items()
                ],
                "claims": entry["claims"],
            },
        )
        for number, one in enumerate(cards.values(), 1)
        for entry in one["results"]
    ]
    return tables.of(rows, [], {})


def strips(cards: dict[str, dict[str, Any]], mine: str | None = None) -> Figure:
    """A strip for each number: a dot for each machine of the room, one's own lit.

    Raises ParameterError where no card has a number.
    """
    table = frame(cards, mine)
    if table.empty:
        raise ParameterError("No card has a number to draw.", "Run context_switch.matrix, then share again.")
    rows = [
        (str(number), list(own.loc[~own.mine, "value_ns"]), list(own.loc[own.mine, "value_ns"]))
        for number, own in table.groupby("number", sort=False)
    ]
    drawing = of_fleet.draw(rows, lambda ax, low, high: axes.log_time(ax, "x", low / 1.5, high * 1.5))
    spread = [
        f"{number}: {axes.range_text(float(values.min()), float(values.max()))}"
        for number, values in table.groupby("number", sort=False).value_ns
    ]
    caption = f"{counted(cards)}. " + "; ".join(spread) + "."
    about = f"{len(cards)} cards"
    return Figure(drawing, "class.board", alt=caption, caption=caption, provenance=about, data=table)


def page(cards: dict[str, dict[str, Any]], refused: dict[str, str], mine: str | None = None) -> str:
    """The board as one HTML file that needs nothing else: the report of a fleet, for cards.

    Raises ParameterError where there is no card at all.
    """
    if not cards:
        raise ParameterError("There is no card to show.", "Students make theirs with: sched-labs share")
    found = fleet(cards)
    found.problems.update(refused)
    drawn = [] if frame(cards).empty else [("", strips(cards, mine)._repr_html_())]
    return report.html(found, compare.compare(found), figures=drawn)
