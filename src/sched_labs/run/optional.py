"""Probes that an experiment is better with, and what is said where one is missing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from ..core.errors import ProbeError
from ..probes.channel import Availability
from .base import Run

T = TypeVar("T")


def probe(
    run: Run,
    stack: ExitStack,
    able: Availability,
    watch: Callable[[], AbstractContextManager[T]],
    lacking: str,
    instead: str = "",
) -> T | None:
    """The probe that `watch` makes, loaded, and closed by the stack; or None and a note.

    able     what the probe's module says of this machine
    lacking  what is not known without it: "Throttled intervals were not seen"
    instead  what was done meanwhile, as a sentence
    """
    why, remedy = able.why, able.remedy
    if able.ok:
        try:
            return stack.enter_context(watch())
        except ProbeError as error:
            why, remedy = error.what, error.remedy
    run.note("missing", " ".join(part for part in (f"{lacking} (BPF): {why}", instead, remedy) if part))
    return None


def needed(able: Availability) -> None:
    """Raises ProbeError where a probe is missing that an experiment is nothing without."""
    if not able.ok:
        raise ProbeError(able.why, able.remedy, lacking=True)
