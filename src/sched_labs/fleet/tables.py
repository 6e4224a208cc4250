"""The rows of a folder as frames: numbers, machines, claims, and who is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from . import store

# Facts that differ between machines that are alike, or say the same as another fact.
_NO_TRAIT = {"clock_read_ns", "slice_ns", "task_group", "l1d_bytes", "line_bytes", "page_bytes"}
_GIB = 1024**3


@dataclass
class Fleet:
    """What a fleet measured.

    numbers   machine, kind, name, column, value, low, high, round (when, UTC): one row per number
    claims    machine, kind, id, outcome, round: one row per verdict
    machines  one row per machine, its newest facts as words, by the machine's mark
    facts     machine, round and the same facts: what a machine was in each round
    missing   machine, kind, why, reason: of the newest round of each kind
    problems  file -> why it was left out
    """

    numbers: pd.DataFrame
    claims: pd.DataFrame
    machines: pd.DataFrame
    facts: pd.DataFrame
    missing: pd.DataFrame
    problems: dict[str, str] = field(default_factory=dict)

    def newest(self) -> pd.DataFrame:
        """The numbers of the newest round in which each machine measured each kind."""
        return _newest(self.numbers)

    def newest_claims(self) -> pd.DataFrame:
        """The verdicts of the same rounds."""
        return _newest(self.claims)


def _newest(table: pd.DataFrame) -> pd.DataFrame:
    last = table.groupby(["machine", "kind"], observed=True)["round"].transform("max")
    return table[table["round"] == last]


def read(folder: Path) -> Fleet:
    """Everything in a folder.  Raises ParameterError for one that holds nothing of a fleet."""
    rows: list[tuple[str, Any, dict[str, Any]]] = []
    missing: list[tuple[str, str, str, str]] = []
    problems: dict[str, str] = {}
    for kind in store.kinds(folder):
        all_rounds = store.rounds(folder, kind)
        for one in all_rounds:
            when = store.when(one)
            for machine, found in store.read(one, problems):
                if found["kind"] == kind:
                    rows.append((machine, when, found))
                else:
                    problems[f"{machine}.row.json"] = f"it is of {found['kind']}, and lies with {kind}."
        missing += [(machine, kind, *said) for machine, said in all_rounds[-1].missing().items()]
    return of(rows, missing, problems)


def of(
    rows: list[tuple[str, Any, dict[str, Any]]],
    missing: list[tuple[str, str, str, str]],
    problems: dict[str, str],
) -> Fleet:
    """A fleet of rows: (machine, when, row)."""
    columns: dict[str, list[Any]] = {
        key: [] for key in ("machine", "kind", "name", "column", "value", "low", "high", "round")
    }
    claims: dict[str, list[Any]] = {key: [] for key in ("machine", "kind", "id", "outcome", "round")}
    facts: dict[tuple[str, Any], dict[str, str]] = {}
    for machine, when, found in rows:
        facts.setdefault((machine, when), traits(found["facts"]))
        count = len(found["numbers"])
        kind = _kind(found)
        for key, same in (("machine", machine), ("kind", kind), ("round", when)):
            columns[key] += [same] * count
        for key, values in zip(
            ("name", "column", "value", "low", "high"), zip(*found["numbers"], strict=True), strict=False
        ):
            columns[key] += values
        for key, same in (("machine", machine), ("kind", kind), ("round", when)):
            claims[key] += [same] * len(found["claims"])
        claims["id"] += found["claims"]
        claims["outcome"] += found["claims"].values()
    numbers = pd.DataFrame(columns).astype({"value": float, "low": float, "high": float})
    for key in ("machine", "kind", "name", "column"):
        numbers[key] = numbers[key].astype("category")
    table = pd.DataFrame(
        [{"machine": machine, "round": when, **known} for (machine, when), known in facts.items()]
    )
    if table.empty:
        table = pd.DataFrame(columns=["machine", "round"])
    newest = table.sort_values("round").drop_duplicates("machine", keep="last").set_index("machine")
    return Fleet(
        numbers,
        pd.DataFrame(claims),
        newest.drop(columns="round").sort_index().fillna("unknown"),
        table.fillna("unknown"),
        pd.DataFrame(missing, columns=["machine", "kind", "why", "reason"]),
        problems,
    )


def _kind(found: dict[str, Any]) -> str:
    """The kind, with the clock where that is no machine's own: such times are compared with their like."""
    clock = {"vm-emulated": ", emulated", "deterministic": ", virtual time"}.get(found["timing"], "")
    return f"{found['kind']}{clock}"


def traits(facts: dict[str, Any]) -> dict[str, str]:
    """What a machine may have in common with others, in words: its facts, and its kernel's series."""
    found = {}
    for key, value in facts.items():
        if value is None or key in _NO_TRAIT:
            continue
        if key.endswith("_bytes") and isinstance(value, int | float):
            size = float(value)
            found[key.removesuffix("_bytes")] = (
                f"{size / _GIB:.0f} GiB" if size >= _GIB else f"{size / 1024:.0f} KiB"
            )
        elif isinstance(value, bool):
            found[key] = "yes" if value else "no"
        else:
            found[key] = str(value)
    if release := found.get("kernel"):
        found["kernel series"] = ".".join(release.split(".")[:2])
    if preemption := found.get("preemption"):
        # none and voluntary: kernel code gives the CPU up where it says so, and nowhere else.
        gives = preemption.partition(" ")[0] in ("none", "voluntary")
        found["kernel code preempted"] = "no" if gives else "yes"
    # A fact takes no place of what the table itself says of a row.
    return {name: value for name, value in found.items() if name not in ("machine", "round")}
