"""What one fact is, and how a look at the machine says which facts it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .seen import Seen

Value = bool | int | float | str | list[str] | None

NOT_LOOKED = "not looked at: this is a recorded machine"


@dataclass(frozen=True)
class Fact:
    """One thing known, or known not to be knowable, about a machine.

    `value` is None when it cannot be known, and `why` then says why; beside a value, `why` is a remark.
    `unit` is "" or the unit of a number (bytes, ns, us, ms, Hz, %, CPUs). `source` names the file or look.
    """

    key: str
    value: Value
    unit: str = ""
    source: str = ""
    why: str = ""

    @property
    def group(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return LABELS.get(self.key, self.key.partition(".")[2])


LABELS: dict[str, str] = {}
"""Every key that a survey answers on every machine -> its name for people. Tunables come on top."""

LOOKS: list[tuple[Callable[[Seen], Iterable[Fact]], tuple[str, ...]]] = []


def look(
    labels: dict[str, str],
) -> Callable[[Callable[[Seen], Iterable[Fact]]], Callable[[Seen], Iterable[Fact]]]:
    """Register a function as the look that answers these keys, each with its name for people."""

    def register(function: Callable[[Seen], Iterable[Fact]]) -> Callable[[Seen], Iterable[Fact]]:
        LABELS.update(labels)
        LOOKS.append((function, tuple(labels)))
        return function

    return register


def gather(seen: Seen) -> dict[str, Fact]:
    """Take every look. One that meets a file it cannot make sense of costs its own facts, not the survey.

    Only what a strange machine can cause is caught (OSError, ValueError); a mistake of ours stays an error.
    """
    facts: dict[str, Fact] = {}
    for function, promised in LOOKS:
        try:
            for fact in function(seen):
                facts[fact.key] = fact
        except (OSError, ValueError) as error:
            for key in promised:
                facts.setdefault(key, Fact(key, None, why=f"could not be made out: {error}"))
    return facts
