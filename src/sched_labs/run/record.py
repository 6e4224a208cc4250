"""Record the runs that ship with the book, on a quiet machine: `python -m sched_labs.run.record [NAME ...]`.

Each is the experiment as it stands in its chapter, saved whole: machine, kernel, date, parameters, notes.
Runs that carry a flag are written too, and named, so that whoever records can look and repeat.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..core import registry
from ..core.result import Result, recorded
from .base import PROFILES


def record(names: list[str], profile: str = "quick", folder: Path | None = None) -> list[str]:
    """Measure these experiments one after the other and write each beside its experiment, or to this folder.

    Returns the names of flagged ones.
    """
    flagged = []
    for name in names:
        entry = registry.entry(name)
        result = entry.load()(profile=profile, save=False)
        path = result.save((folder or entry.folder) / f"recorded.{entry.kind.partition('.')[2]}.json")
        print(f"{path.name}: {result.duration_s:.1f} s, {path.stat().st_size / 1024:.0f} KiB", flush=True)
        for text in result.flags:
            print(f"    {text}", flush=True)
        if result.flags:
            flagged.append(entry.kind)
    return flagged


def missing(run: Result) -> list[str]:
    """What a run says that it lacks."""
    return [note.text for note in run.notes if note.level == "missing"]


def wanted() -> dict[str, list[str]]:
    """The book's kinds whose recorded run lacks something that other machines have, and what."""
    own = [one.kind for one in registry.entries() if one.package.startswith("sched_labs.")]
    runs = {kind: recorded(kind) for kind in own}
    return {kind: lacks for kind, run in runs.items() if run and (lacks := missing(run))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sched_labs.run.record", description=__doc__)
    parser.add_argument("experiments", nargs="*", help="default: all")
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    given = parser.parse_args()
    if flagged := record(given.experiments or registry.names(), given.profile):
        print(f"Flagged, look at them before you commit: {', '.join(flagged)}")


if __name__ == "__main__":
    main()
