"""Your answer: which thread goes on which CPU?"""

from typing import Any


def place(pairs: list[Any], cpus: list[int]) -> dict[int, int]:
    """tid -> CPU.  This one spreads every pair over both CPUs."""
    return {tid: cpu for pair in pairs for tid, cpu in zip(pair.tids, cpus, strict=True)}
