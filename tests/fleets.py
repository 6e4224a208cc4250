"""Fleets that were MADE UP by a generator; nobody measured them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from sched_labs import claims
from sched_labs.fleet import row, store

FACTS = {
    "kernel": ["6.1.0-40", "6.12.1", "6.8.0-60", "5.15.0-151"],
    "cpu_model": ["one", "two", "three"],
    "governor": ["performance", "schedutil"],
    "hypervisor": ["none", "KVM"],
    "clocksource": ["tsc", "kvm-clock"],
    "model": [f"type {number}" for number in range(12)],
}
START = datetime(2026, 1, 5, tzinfo=UTC)


def facts(machines: int, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Facts dealt to machines by chance."""
    dealt = {key: generator.choice(values, machines) for key, values in FACTS.items()}
    return [{key: str(values[number]) for key, values in dealt.items()} for number in range(machines)]


def rows(
    machines: int,
    kinds: int,
    *,
    numbers: int = 20,
    slow: tuple[int, ...] = (),
    seed: int = 0,
    when: datetime = START,
) -> list[tuple[str, datetime, dict[str, Any]]]:
    """Rows of machines that differ by chance alone: each by its own some percent, and by its trials.

    slow   these have a trait of their own, and need half as long again in a third of the kinds
    """
    generator = np.random.default_rng(seed)
    dealt = facts(machines, generator)
    for number in slow:
        dealt[number]["microcode"] = "0xbad"
    for number in range(machines):
        dealt[number].setdefault("microcode", "0x2b")
    of_machine = generator.lognormal(0, 0.03, machines)
    made = []
    for kind in range(kinds):
        middles = generator.lognormal(8, 1.5, numbers)
        noise = generator.lognormal(0, 0.03, (machines, numbers)) * of_machine[:, None]
        noise[generator.random((machines, numbers)) < 0.01] *= 3  # whatever else went on
        if kind % 3 == 0:
            noise[list(slow)] *= 1.5
        for number in range(machines):
            values = middles * noise[number]
            entries = [
                [f"case {place}: wait", "wait_ns", float(one), float(one * 0.96), float(one * 1.05)]
                for place, one in enumerate(values)
            ]
            made.append(
                (
                    f"{number:016x}",
                    when,
                    {
                        "kind": f"made.up{kind}",
                        "recorded_at": when.isoformat(),
                        "duration_s": 1.0,
                        "timing": "native",
                        "profile": "quick",
                        "flags": 0,
                        "library": "0.1.0",
                        "facts": dealt[number],
                        "numbers": entries,
                        "claims": {f"claim-{kind}": claims.HOLDS if number % 7 else claims.FAILS},
                    },
                )
            )
    return made


def lay(folder: Path, made: list[tuple[str, datetime, dict[str, Any]]]) -> None:
    """The rows as `fleet run` lays them, without the results beside them."""
    for machine, when, found in made:
        place = folder / found["kind"] / when.strftime("%Y%m%dT%H%M%SZ")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{machine}.row.json").write_text(row.text(found), encoding="utf-8")
        if not (place / "done").exists():
            store.Round(place).end()


def weeks(count: int, step_at: int, machines: int = 12) -> list[tuple[str, datetime, dict[str, Any]]]:
    """Rounds a week apart; the first machine needs half as long again from one on, with another kernel."""
    made = []
    for week in range(count):
        for machine, when, found in rows(machines, 1, numbers=4, seed=7, when=START + timedelta(weeks=week)):
            shaken = np.random.default_rng([week, int(machine, 16)]).lognormal(0, 0.02, 4)
            slower = 1.5 if int(machine, 16) == 0 and week >= step_at else 1.0
            found["numbers"] = [
                [name, column, *(part * shake * slower for part in parts)]
                for (name, column, *parts), shake in zip(found["numbers"], shaken, strict=True)
            ]
            if slower > 1:
                found["facts"]["kernel"] = "7.0.0"
            made.append((machine, when, found))
    return made
