"""What *Try* shows on a page that cannot measure: runs with other values that ship with the book.

    python -m sched_labs.reader.tried [KIND ...]

records them on a quiet machine, as the forms of the chapters would measure them, and writes their figures
beside their experiments, each with its caption, its machine, kernel and date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import jsontext, registry, store
from ..core.errors import ParameterError, ResultError, SchedLabError
from ..draw import svg
from ..draw.base import Figure

if TYPE_CHECKING:
    from .controls import Controls

# The values that teach something beside the chapter's own: by experiment, the words of its form that differ.
VALUES: Mapping[str, Sequence[Mapping[str, str]]] = {
    "context_switch.matrix": [{"mechanisms": "condvar"}, {"placements": "wherever"}],
    "warmup.sweep": [{"partner_bytes": "1 MiB"}, {"partner_bytes": "64 KiB"}],
    "recovery.curve": [{"working_sets_bytes": "1 MiB"}, {"partner_bytes": "256 KiB"}],
    "bursts.spacing": [{"working_set_bytes": "32 KiB"}, {"partner_bytes": "256 KiB"}],
    "loops.counted": [{"iterations": "20,000"}],
    "ring.sweep": [{"processes": "16"}, {"access": "sequential"}],
    "tlb.switches": [{"pages": "512"}, {"pages": "4,096"}],
    "shootdown.calls": [{"call": "madvise"}, {"call": "mprotect"}, {"pages": "64"}],
    "regimes.sweep": [{"burst_us": "1000"}, {"modes": "yield"}],
    "slices.sweep": [{"hogs": "3"}, {"hogs": "16"}, {"wished_slices_ns": "1 ms"}],
    "wakeplace.sweep": [{"workers": "2"}, {"gap_us": "100"}],
    "wakepath.parts": [{"gap_us": "100"}, {"gap_us": "2000"}],
    "policies.sweep": [{"hogs": "1"}],
    "weights.pairs": [{"arrangements": "weights"}, {"arrangements": "spread"}],
    "attribution.waits": [{"rivals": "1"}, {"rivals": "4"}],
    "interference.neighbours": [{"neighbours": "files"}],
    "switchgraph.window": [{"hogs": "1"}, {"hogs": "4"}],
    "omission.compared": [{"stall_ms": "20"}, {"stall_ms": "100"}],
    "observer.rates": [{"bursts_us": "1 ms"}],
    "quota.hog": [{"shares_percent": "50 %"}, {"periods_us": "5 ms"}],
    "quota.threads": [{"threads": "8"}, {"quota_us": "80 ms"}],
    "service.latency": [{"demands_percent": "50 %"}, {"limits": "burst"}, {"limits": "weight"}],
    "service.contention": [{"demand_percent": "60"}],
    "nested.groups": [{"outer_us": "40 ms"}],
    "runtimes.quota": [{"quota_us": "half a CPU"}],
    "colocation.batch": [{"demand_percent": "80"}],
    "isolation.cpuset": [{"intruders": "4"}],
    "migration.cost": [{"working_sets_bytes": "1 MiB"}],
    "balance.spread": [{"hogs": "3"}, {"hold_ms": "1000"}],
    "pool.pinned": [{"workers": "4"}, {"long_us": "1000"}],
    "convoy.locks": [{"producers": "4"}, {"tries": "1"}],
    "inversion.waits": [{"hogs": "3"}, {"nice": "5"}],
    "holder.waits": [{"period_us": "20 ms"}],
    "connections.sweep": [{"work_us": "100"}],
    "batching.sweep": [{"work_us": "1"}],
    "herd.wakeups": [{"threads": "32"}],
    "dispatch.ways": [{"workers": "2"}, {"slow_us": "0"}],
    "timers.aligned": [{"slack_us": "50"}],
    "packets.udp": [{"batch": "64"}],
    "eevdf.phases": [{"turn_us": "12 ms"}, {"short_us": "3 ms"}],
}

_FIGURE = {"svg": str, "caption": str, "provenance": str, "width": float}  # as it is kept
_AGAIN = "Record them again: python -m sched_labs.reader.tried {}"
_TRIES = 3  # of a run that is flagged, as beside other programs


def figures(kind: str) -> list[tuple[dict[str, str], str]]:
    """What ships: for each run the words that were chosen in the form, and its figure as a page has it.

    Raises ResultError for a file that `main` did not write.
    """
    try:
        place = _place(kind)
    except ParameterError:
        return []  # no experiment of the register
    try:
        kept = jsontext.parse(place.read_bytes()) if place.is_file() else []
    except (OSError, ValueError) as error:
        raise ResultError(f"Cannot read {place}: {error!s:.200}.", _AGAIN.format(kind)) from error
    if not isinstance(kept, list) or not all(map(_is_kept, kept)):
        raise ResultError(f"{place} holds no runs for *Try*.", _AGAIN.format(kind))
    return [(one["words"], svg.page_figure(**one["figure"])) for one in kept]


def _is_kept(one: Any) -> bool:
    words, figure = (one.get("words"), one.get("figure")) if isinstance(one, dict) else (None, None)
    return (
        isinstance(words, dict)
        and all(isinstance(word, str) for word in words.values())
        and isinstance(figure, dict)
        and {name: type(value) for name, value in figure.items()} in (_FIGURE, _FIGURE | {"width": int})
        and 0 < figure["width"] < 1e5
    )


def drawn(figure: Figure) -> dict[str, Any]:
    """A figure as it is kept; the page's style is added when it is shown."""
    width = float(figure.mpl.get_size_inches()[0]) * 72
    about = {"caption": figure.caption, "provenance": figure.provenance, "width": width}
    return {"svg": figure.svg(), **about}


def _place(kind: str) -> Path:
    return registry.entry(kind).folder / f"tried.{kind.partition('.')[2]}.json"


def forms(notebooks: Sequence[Path]) -> list[Controls]:
    """Every form of these chapters."""
    import jupytext  # type: ignore[import-untyped]

    import sched_labs

    from .controls import controls

    found: list[Controls] = []

    class Names(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return getattr(sched_labs, name)

    sizes = {"KIB": 1024, "MIB": 1 << 20, "range": range}
    names = Names(sizes, controls=lambda experiment, **choices: found.append(controls(experiment, **choices)))
    for notebook in notebooks:
        for cell in jupytext.read(notebook).cells:
            if cell.cell_type == "code" and cell.source.startswith("controls("):
                exec(cell.source, dict(sizes), names)
    return found


def main(kinds: Sequence[str]) -> None:
    """Record the runs of these experiments, or of all."""
    from ..book.chapters import chapters, checkout

    for form in forms([part.source for part in chapters(checkout(None))]):
        if form.name not in VALUES or (kinds and form.name not in kinds):
            continue
        kept = []
        try:
            for words in VALUES[form.name]:
                for _ in range(_TRIES):
                    figure = form.measure(show=False, **words).plot()
                    said = figure.provenance.partition("Flagged: ")[2]
                    if not said:
                        break
                    print(f"{form.name}, {words}: {said}", flush=True)
                kept.append({"words": words, "figure": drawn(figure)})
        except SchedLabError as error:
            print(f"{form.name}: {error}", flush=True)
            continue
        place = _place(form.name)
        store.write_text(place, json.dumps(kept, indent=0) + "\n")
        print(f"{place.name}: {place.stat().st_size / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
