"""How much memory an experiment may use, and sizes in words."""

from __future__ import annotations

from collections.abc import Iterable

from .. import machine
from ..core.errors import ParameterError
from ..core.words import size_text
from ..steer import placement

KIB, MIB = 1 << 10, 1 << 20
UNKNOWN_AVAILABLE = 512 * MIB  # what a machine that does not say is taken to have


def available(survey: machine.Machine) -> int | None:
    """Bytes this process may still use: what the machine has free, and no more than its cgroup allows."""
    known = [survey.fact(key).value for key in ("memory.available_bytes", "cgroup.memory_limit_bytes")]
    return min((value for value in known if isinstance(value, int)), default=None)


def caches(survey: machine.Machine) -> list[int]:
    """The sizes of the data caches of the quiet CPU, smallest first; typical ones if none are described."""
    found = [
        cache.size_bytes for cache in survey.caches(placement.quiet_cpu()) if cache.kind != "instruction"
    ]
    return sorted(found) or [32 * KIB, MIB, 32 * MIB]


def second_level(survey: machine.Machine) -> int:
    """The size of the second-level cache; eight first levels where there is one level only."""
    levels = caches(survey)
    return levels[1] if len(levels) > 1 else 8 * levels[0]


def down_to_power(size: float) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(1, int(size)).bit_length() - 1)


def thorough_partner(profile: str, survey: machine.Machine) -> int:
    """Twice the last-level cache: a partner that touches so much leaves nothing of a set in any cache.

    Never more than an eighth of the available memory, nor than 64 MiB in quick; tiny takes four second-level
    caches, which is quick to touch but not thorough on every machine.
    """
    most = (available(survey) or UNKNOWN_AVAILABLE) // 8
    wanted = 4 * second_level(survey) if profile == "tiny" else 2 * caches(survey)[-1]
    return min(wanted, most, 64 * MIB) if profile != "full" else min(wanted, most)


def check(what: str, sizes: Iterable[int], line: int) -> None:
    """Raises ParameterError for sizes that are no sets of whole lines."""
    sizes = list(sizes)
    if not sizes or any(not isinstance(size, int) or isinstance(size, bool) for size in sizes):
        raise ParameterError(f"{what} takes sizes in bytes, not {sizes!r}.", "Give whole numbers.")
    if min(sizes) < line:
        raise ParameterError(f"{what} starts at one cache line, {line} bytes.", "Give larger sizes.")


def check_room(working_set: int, partner: int, survey: machine.Machine) -> None:
    """Raises ParameterError when the two sets together are more than a quarter of what is available."""
    free = available(survey)
    if free and working_set + partner > free // 4:
        raise ParameterError(
            f"A working set of {size_text(working_set)} and a partner of {size_text(partner)} need more than "
            f"a quarter of the memory that is available ({size_text(free)}).",
            "Choose smaller ones: a machine that swaps measures its disk.",
        )
