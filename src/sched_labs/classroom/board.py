"""The class board: the cards of a room, drawn together."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from .. import claims
from ..core.errors import ParameterError, SchedLabError
from ..draw import axes
from ..draw.base import Figure, each
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


def in_common(cards: dict[str, dict[str, Any]]) -> str:
    """What the odd ones of the room have in common, as the report of a fleet says it."""
    rows = [
        (
            name,
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
        for name, one in cards.items()
        for entry in one["results"]
    ]
    fleet = tables.of(rows, [], {})
    return report.answer(fleet, compare.compare(fleet))


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


def verdicts(cards: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """One row per claim: id, claim, holds, fails, unknown (counts of machines), in_common.

    in_common: facts that all machines on which it fails share, and none of those on which it holds.
    """
    rows = []
    for claim in claims.all_claims():
        by_outcome: dict[str, list[dict[str, Any]]] = {claims.HOLDS: [], claims.FAILS: [], claims.UNKNOWN: []}
        for one in cards.values():
            for entry in one["results"]:
                if claim.id in entry["claims"]:
                    by_outcome[entry["claims"][claim.id]].append(one["machine"])
        if not any(by_outcome.values()):
            continue
        rows.append(
            {
                "id": claim.id,
                "claim": claim.text,
                "holds": len(by_outcome[claims.HOLDS]),
                "fails": len(by_outcome[claims.FAILS]),
                "unknown": len(by_outcome[claims.UNKNOWN]),
                "in_common": _in_common(by_outcome[claims.FAILS], by_outcome[claims.HOLDS]),
            }
        )
    return pd.DataFrame(rows, columns=["id", "claim", "holds", "fails", "unknown", "in_common"])


def _in_common(fails: list[dict[str, Any]], holds: list[dict[str, Any]]) -> str:
    if not fails or not holds:
        return ""
    shared = [
        f"{key} {fails[0].get(key)}"
        for key in card.MACHINE
        if len({str(one.get(key)) for one in fails}) == 1
        and all(str(one.get(key)) != str(fails[0].get(key)) for one in holds)
    ]
    return ", ".join(shared)


def page(cards: dict[str, dict[str, Any]], refused: dict[str, str], mine: str | None = None) -> str:
    """The board as one HTML file that needs nothing else.  What comes from cards is escaped.

    Raises ParameterError where there is no card at all.
    """
    if not cards:
        raise ParameterError("There is no card to show.", "Students make theirs with: sched-labs share")
    drawn = "<p>No card has a number to draw.</p>"
    if not frame(cards).empty:
        drawn = strips(cards, mine)._repr_html_()
    rows = "".join(
        f"<tr><td>{escape(row.claim)}</td><td>{row.holds}</td><td>{row.fails}</td><td>{row.unknown}</td>"
        f"<td>{escape(row.in_common)}</td></tr>"
        for row in each(verdicts(cards))
    )
    machines = "".join(
        "<tr>"
        + "".join(f"<td>{escape(str(one['machine'].get(key) or ''))}</td>" for key in card.MACHINE)
        + "</tr>"
        for one in cards.values()
    )
    left_out = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in refused.items())
    heads = "".join(f'<th scope="col">{escape(key.replace("_", " "))}</th>' for key in card.MACHINE)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>The class</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 1.2rem/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8886; }}
.wide {{ overflow-x: auto; }}
</style></head><body><main>
<h1>The class: {counted(cards)}</h1>
{drawn}
<h2>What the odd ones have in common</h2>
<p>{escape(in_common(cards))}</p>
<h2>What people say, machine by machine</h2>
<div class="wide" tabindex="0" role="region" aria-label="claims"><table><thead><tr><th scope="col">Claim</th>
<th scope="col">holds</th><th scope="col">does not</th><th scope="col">cannot tell</th>
<th scope="col">only the machines where it fails have</th></tr></thead><tbody>{rows}</tbody></table></div>
<h2>The machines</h2>
<div class="wide" tabindex="0" role="region" aria-label="machines"><table><thead><tr>{heads}</tr></thead>
<tbody>{machines}</tbody></table></div>
{f"<h2>Left out</h2><ul>{left_out}</ul>" if left_out else ""}
</main></body></html>
"""
