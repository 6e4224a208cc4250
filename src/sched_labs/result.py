"""A Result: what was measured, where, how, and what was missing.

Results know nothing of pictures or experiments; `plot()` and `summary()` look theirs up by `kind`.
On disk a result is one JSON file that describes itself: format, version, kind, machine, columns.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .errors import ParameterError, ResultError
from .store import data_folder, now, write_text
from .version import __version__

if TYPE_CHECKING:
    from .figures import Figure

FORMAT = "sched-labs result"
FORMAT_VERSION = 1
LEVELS = ("info", "missing", "flag")
TIMINGS = {
    "native": "measured on the running kernel",
    "vm-kvm": "measured in a virtual machine (KVM)",
    "vm-emulated": "measured in an emulated machine: good for milliseconds and policies, not for nanoseconds",
    "deterministic": "virtual time: one instruction is one nanosecond, and no machine has these times",
}


@dataclass(frozen=True)
class Note:
    """What the reader should know: `info` (what was done), `missing` (what could not be), `flag` (doubt)."""

    level: str
    text: str

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ParameterError(f"A note's level is one of {', '.join(LEVELS)}, not {self.level!r}.")


@dataclass
class Result:
    """One run of one experiment.

    data          one row per observation, a unit in every column's name that has one
    machine       flat facts of the machine that was measured; no host name, no user name
    parameters    what was asked for, defaults filled in
    surroundings  what else went on: steal, other programs
    notes         what was missing, substituted or flagged
    timing        one of TIMINGS: how time passed while it was measured
    stands_in     why a recorded run is shown instead of one of this machine; empty for a run of one's own
    """

    kind: str
    data: pd.DataFrame
    machine: dict[str, Any]
    parameters: dict[str, Any]
    notes: list[Note] = field(default_factory=list)
    surroundings: dict[str, Any] = field(default_factory=dict)
    recorded_at: str = field(default_factory=now)
    duration_s: float = 0.0
    timing: str = "native"
    library: str = __version__
    path: Path | None = None
    stands_in: str = ""

    def __post_init__(self) -> None:
        if self.timing not in TIMINGS:
            raise ParameterError(f"timing is one of {', '.join(TIMINGS)}, not {self.timing!r}.")

    # ---- looking ----

    def summary(self) -> pd.DataFrame:
        """The table that figures and claims use; its columns are documented by the experiment."""
        return importlib.import_module("sched_labs.experiments").find(self.kind).summarise(self)

    def plot(self, **options: Any) -> Figure:
        """The figure for this kind of result.  The options are those of that figure."""
        return importlib.import_module("sched_labs.figures").draw(self, **options)

    @property
    def flags(self) -> list[str]:
        """Why this run should be doubted, if at all."""
        return [note.text for note in self.notes if note.level == "flag"]

    def machine_line(self) -> str:
        """The machine in a few words."""
        facts = self.machine
        words = [str(facts.get("scheduler") or ""), f"HZ {facts['hz']}" if facts.get("hz") else ""]
        scheduler = ", ".join(word for word in words if word)
        parts = [
            str(facts.get("cpu_model") or "unknown CPU"),
            f"{facts['cpus']} CPUs" if facts.get("cpus") else "",
            f"Linux {facts['kernel']}" + (f" ({scheduler})" if scheduler else "")
            if facts.get("kernel")
            else "",
            str(facts.get("hypervisor") or ""),
        ]
        return " · ".join(part for part in parts if part)

    def provenance_line(self) -> str:
        """Where the numbers come from, in one line."""
        parts = [self.machine_line(), self.recorded_at.replace("T", " ").replace("+00:00", " UTC")]
        if profile := self.parameters.get("profile"):
            parts.append(f"{profile} profile")
        parts.append(TIMINGS[self.timing])
        return " · ".join(parts)

    def _repr_html_(self) -> str:
        from html import escape

        notes = "".join(f"<li>{escape(note.level)}: {escape(note.text)}</li>" for note in self.notes)
        return (
            f'<div class="sl-result"><p><strong>{escape(self.kind)}</strong>, {len(self.data):,} '
            f"observations in {self.duration_s:.1f} s</p>"
            f"<p><small>{escape(self.provenance_line())}</small></p>"
            + (f"<ul>{notes}</ul>" if notes else "")
            + "</div>"
        )

    # ---- keeping ----

    def save(self, path: str | Path | None = None) -> Path:
        """Write the result; by default under its kind and time in the reader's data folder.

        Raises ResultError when the folder cannot be written.
        """
        if path is None:
            stamp = self.recorded_at.replace(":", "").replace("-", "").replace("+0000", "Z")
            folder = data_folder() / "results" / self.kind
            path, again = folder / f"{stamp}.json", 1
            while path.exists():
                path, again = folder / f"{stamp}-{again}.json", again + 1
        path = Path(path)
        write_text(path, self.to_json())
        self.path = path
        return path

    def to_json(self) -> str:
        """The file's text.  Raises ResultError for values that JSON does not have, such as infinity."""
        head = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "kind": self.kind,
            "library": self.library,
            "recorded_at": self.recorded_at,
            "duration_s": round(self.duration_s, 3),
            "timing": self.timing,
            "machine": self.machine,
            "parameters": self.parameters,
            "surroundings": self.surroundings,
            "notes": [asdict(note) for note in self.notes],
            "rows": len(self.data),
            "columns": [_encode(self.data[name]) for name in self.data.columns],
        }
        try:
            return json.dumps(head, separators=(",", ":"), allow_nan=False, default=_plain) + "\n"
        except (TypeError, ValueError) as error:
            raise ResultError(
                f"This {self.kind} holds something that cannot be kept: {error}.",
                "Keep numbers, words, lists and missing values only.",
            ) from error


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, (set, tuple)):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be saved in a result")


def _encode(column: pd.Series) -> dict[str, Any]:
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_integer_dtype(column):
        return {"name": column.name, "type": str(column.dtype), "values": column.tolist()}
    if pd.api.types.is_float_dtype(column):
        values = [None if pd.isna(value) else value for value in column.tolist()]
        return {"name": column.name, "type": "float64", "values": values}
    codes, words = pd.factorize(column.astype(object))
    return {
        "name": column.name,
        "type": "words",
        "words": [str(word) for word in words],
        "codes": codes.tolist(),
    }


def _decode(column: Mapping[str, Any]) -> pd.Series:
    if column["type"] == "words":
        words = column["words"]
        return pd.Series([words[code] if code >= 0 else None for code in column["codes"]], dtype=object)
    if not re.fullmatch(r"bool|u?int(8|16|32|64)|float64", column["type"]):
        raise ValueError(f"a column of type {column['type']!r}")
    return pd.Series(column["values"], dtype=column["type"])


# What the parts of a file must be; the columns say for themselves when they are read.
_FORMS: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "machine": dict,
    "parameters": dict,
    "surroundings": dict,
    "notes": list,
    "recorded_at": str,
    "duration_s": (int, float),
    "timing": str,
    "library": str,
}


def from_json(text: str, source: str = "this text") -> Result:
    """A result from the text of its file.  Raises ResultError for anything else."""
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultError(
            f"{source} is no JSON: {error}.", "Give a file that Result.save() wrote."
        ) from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ResultError(f"{source} is not a result of sched-labs.", "Give a file that Result.save() wrote.")
    if head.get("version") != FORMAT_VERSION:
        raise ResultError(
            f"{source} has result format {head.get('version')!r}; this library reads {FORMAT_VERSION}.",
            "Use the version of sched-labs that wrote it, or a newer one.",
        )
    try:
        for key, form in _FORMS.items():
            if not isinstance(head[key], form):
                raise ValueError(f"its {key} is a {type(head[key]).__name__}")
        columns = {column["name"]: _decode(column) for column in head["columns"]}
        for name, column in columns.items():  # pandas would fill a short one up with missing values
            if len(column) != head["rows"]:
                raise ValueError(f"{len(column)} values of {name} where {head['rows']} were saved")
        data = pd.DataFrame(columns)
        return Result(
            kind=head["kind"],
            data=data,
            machine=head["machine"],
            parameters=head["parameters"],
            notes=[Note(**note) for note in head["notes"]],
            surroundings=head["surroundings"],
            recorded_at=head["recorded_at"],
            duration_s=head["duration_s"],
            timing=head["timing"],
            library=head["library"],
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ResultError(f"{source} is damaged: {error}.", "Measure again, or find another copy.") from error


def load(path: str | Path) -> Result:
    """Read a saved result.  Raises ResultError when there is none or it is damaged."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultError(f"Cannot read {path}: {error}.", "Give a file that Result.save() wrote.") from error
    result = from_json(text, str(path))
    result.path = Path(path)
    return result


def latest(kind: str) -> Result | None:
    """The reader's newest saved result of a kind, or None."""
    # "...Z.json" is older than "...Z-1.json" of the same second: length first within a second.
    found = sorted(
        (data_folder() / "results" / kind).glob("*.json"),
        key=lambda file: (file.stem.partition("-")[0], len(file.stem), file.stem),
    )
    return load(found[-1]) if found else None


def recorded(kind: str) -> Result | None:
    """The run of a named machine that ships with the book, or None where there is none for this kind."""
    resource = package_files("sched_labs") / "recorded" / f"{kind}.json"
    if not resource.is_file():
        return None
    return from_json(resource.read_text(encoding="utf-8"), f"the recorded {kind}")


def compare(*results: Result) -> Figure:
    """Several results of one kind on one axis.  Raises ResultError for different kinds or fewer than two."""
    kinds = {result.kind for result in results}
    if len(results) < 2 or len(kinds) != 1:
        raise ResultError(
            f"Cannot compare {len(results)} results of {len(kinds)} kinds.",
            "Give two or more results of one kind.",
        )
    return importlib.import_module("sched_labs.figures").compare(*results)
