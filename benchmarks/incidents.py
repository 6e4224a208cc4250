"""How often players find the cause of an incident: one who follows the book's order, and some who do not.

    python benchmarks/incidents.py --seeds 3 [--story ledger] [--cause lock]

Starts every variant of every story with each seed, one after the other: about 25 seconds each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import incident_players
from incident_room import started

from sched_labs.incidents import story


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--story", choices=story.names())
    parser.add_argument("--cause")
    options = parser.parse_args()
    right: Counter[str] = Counter()
    played = 0
    for name in [options.story] if options.story else story.names():
        for variant in story.plan(name, 0).story.variants:
            if options.cause and variant.cause != options.cause:
                continue
            for seed in range(1, options.seeds + 1):
                try:
                    found = play(name, variant.cause, seed)
                except (Exception, pytest.fail.Exception) as error:
                    print(
                        f"{name:<15} {variant.cause:<14} seed {seed}: not played: {str(error)[-300:]}",
                        flush=True,
                    )
                    continue
                played += 1
                right.update(who for who, blamed in found.items() if blamed == variant.cause)
                right["the book, evidence too"] += found["accepted"] == "yes"
                words = "  ".join(f"{who}: {blamed}" for who, blamed in found.items())
                print(f"{name:<15} {variant.cause:<14} seed {seed}: {words}", flush=True)
    print(f"\nof {played}:")
    for who, count in right.most_common():
        print(f"  {who:<24} {count} ({count / max(1, played):.0%})")


def play(name: str, cause: str, seed: int) -> dict[str, str]:
    """What each player blames."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        started(Path(folder), patch, name, "--seed", str(seed), "--cause", cause) as room,
    ):
        status = room.status()
        blamed, value = incident_players.by_the_book(status)
        said = room.say("answer", blamed, "--evidence", f"{value:.2f}")
        return {
            "the book": blamed,
            "accepted": "no" if said.returncode else "yes",
            "top CPU": incident_players.top_cpu(status),
            "most switches": incident_players.most_switches(status),
            "the story": story.plan(name, seed).story.suspect,
            "level": f"{status['now']['level']:.2f} of {status['healthy']['level']:.2f}",
        }


if __name__ == "__main__":
    main()
