"""A pair that speaks stays together; threads that compute get a CPU each."""

from typing import Any


def place(pairs: list[Any], cpus: list[int]) -> dict[int, int]:
    """tid -> CPU."""
    placed = {}
    for number, pair in enumerate(pairs):
        speaks = pair.voluntary_per_s > 1000
        for side, tid in enumerate(pair.tids):
            placed[tid] = cpus[(number if speaks else side) % len(cpus)]
    return placed
