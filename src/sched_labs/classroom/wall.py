"""How many of a class have found it: the incident that all play, counted without names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..core import jsontext
from ..core.errors import SchedLabError
from .board import MOST_CARDS
from .collector import Receiver, post, shown

STEPS = {"cause_at_s": "have the cause", "evidence_at_s": "have proved it", "repaired_at_s": "have mended it"}


class Wall(Receiver):
    """Counts who began and who has come how far; it keeps nothing but that, and nothing once it has ended."""

    path = "/incident"

    def __init__(
        self, address: str, port: int, code: str, arrived: Callable[[str], None] = lambda said: None
    ) -> None:
        """`arrived` is told what the wall says, whenever that changes."""
        self.players: dict[str, set[str]] = {}
        self.arrived = arrived
        super().__init__(address, port, code)

    def keep(self, data: bytes) -> str:
        """Note one player.  Raises SchedLabError for what no player sends, and when the wall is full."""
        try:
            found = jsontext.parse(data[:1000])
        except ValueError:
            found = None
        if (
            not isinstance(found, dict)
            or not isinstance(token := found.get("player"), str)
            or not re.fullmatch("[0-9a-f]{16}", token)
            or not isinstance(steps := found.get("steps"), list)
            or not all(isinstance(step, str) and step in STEPS for step in steps)
        ):
            raise SchedLabError("This is nothing that a player of an incident sends.")
        with self.keeping:
            if token not in self.players and len(self.players) >= MOST_CARDS:
                raise SchedLabError(f"The wall is full: it has room for {MOST_CARDS} players.")
            self.players[token] = self.players.get(token, set()) | set(steps)
            self.arrived(self.text())
        return "noted"

    def text(self) -> str:
        """The wall, in one line."""
        counts = (f"{sum(key in one for one in self.players.values())} {said}" for key, said in STEPS.items())
        return f"{len(self.players)} began; " + ", ".join(counts) + "."


def tell(to: str, code: str, player: str, entry: dict[str, Any]) -> None:
    """Tell the wall how far a player is, by what the ledger keeps.  Raises SchedLabError when refused."""
    told = json.dumps({"player": player, "steps": [key for key in STEPS if key in entry]})
    status, said = post(told.encode(), to, code, Wall.path, "wall")
    if status != 201:
        raise SchedLabError(f"The wall refused it: {shown(said)}")
