"""Record the runs that ship with the book, on a quiet machine: `python -m sched_labs.record [NAME ...]`.

Each is the experiment as it stands in its chapter, saved whole: machine, kernel, date, parameters, notes.
Runs that carry a flag are written too, and named, so that whoever records can look and repeat.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .experiments import MODULES, find
from .experiments.base import PROFILES

FOLDER = Path(__file__).parent / "recorded"


def record(names: list[str], profile: str = "quick", folder: Path = FOLDER) -> list[str]:
    """Measure these experiments one after the other and write each to its file; the names of flagged ones."""
    flagged = []
    for name in names:
        result = find(name)(profile=profile, save=False)
        path = result.save(folder / f"{find(name).name}.json")
        print(f"{path.name}: {result.duration_s:.1f} s, {path.stat().st_size / 1024:.0f} KiB", flush=True)
        flags = [note.text for note in result.notes if note.level == "flag"]
        for text in flags:
            print(f"    {text}", flush=True)
        if flags:
            flagged.append(find(name).name)
    return flagged


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sched_labs.record", description=__doc__)
    parser.add_argument("experiments", nargs="*", help="default: all")
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    given = parser.parse_args()
    if flagged := record(given.experiments or list(MODULES), given.profile):
        print(f"Flagged, look at them before you commit: {', '.join(flagged)}")


if __name__ == "__main__":
    main()
