"""Record the runs that ship with the book, on a quiet machine: `python -m sched_labs.run.record [NAME ...]`.

With `--machine intel` they are another machine's, and lie beside the book's own.

Each is the experiment as it stands in its chapter, saved whole: machine, kernel, date, parameters, notes.
Runs that carry a flag are written too, and named, so that whoever records can look and repeat.
"""

from __future__ import annotations

import argparse

from ..core import registry
from ..core.result import Result, load
from .base import PROFILES


def record(names: list[str], profile: str = "quick", machine: str = "") -> list[str]:
    """Measure these experiments one after the other and write each beside its experiment.

    machine   a word for this one, whose runs then lie beside the book's own; "": they are the book's own

    Returns the names of flagged ones.
    """
    flagged = []
    for name in names:
        entry = registry.entry(name)
        place = entry.recorded_file(machine)
        result = entry.load()(profile=profile, save=False)
        path = result.save(place)
        print(f"{path.name}: {result.duration_s:.1f} s, {path.stat().st_size / 1024:.0f} KiB", flush=True)
        for text in result.flags:
            print(f"    {text}", flush=True)
        if result.flags:
            flagged.append(entry.kind)
    return flagged


def missing(run: Result) -> list[str]:
    """What a run says that it lacks."""
    return [note.text for note in run.notes if note.level == "missing"]


def lacking(kind: str) -> list[str]:
    """What the recorded run of a kind lacks that other machines have; of several runs, the one with least."""
    runs = [missing(load(path)) for path in registry.recorded_files(kind).values()]
    return min(runs, key=len, default=[])


def wanted() -> dict[str, list[str]]:
    """The book's kinds whose recorded runs all lack something, and what."""
    own = [one.kind for one in registry.entries() if one.package.startswith("sched_labs.")]
    return {kind: lacks for kind in own if (lacks := lacking(kind))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sched_labs.run.record", description=__doc__)
    parser.add_argument("experiments", nargs="*", help="default: all")
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    parser.add_argument("--machine", default="", help="a word for this one, beside the book's own")
    given = parser.parse_args()
    if flagged := record(given.experiments or registry.names(), given.profile, given.machine):
        print(f"Flagged, look at them before you commit: {', '.join(flagged)}")


if __name__ == "__main__":
    main()
