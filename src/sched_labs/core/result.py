"""A Result: what was measured, where, how, and what was missing.

Results know nothing of pictures or experiments: `plot()` and `summary()` ask the register for theirs.
On disk a result is one JSON file that describes itself: format, version, kind, machine, columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from . import jsontext, older, registry
from .errors import ParameterError, ResultError, SchedLabError
from .progress import in_notebook
from .store import data_folder, held, now, recorded_machine, write_text
from .version import __version__

if TYPE_CHECKING:
    from ..draw import Figure

FORMAT = "sched-labs result"
FORMAT_VERSION = 2
LARGEST_BYTES = 256 * 1024 * 1024  # of a file; the largest of this book have some megabytes
LEVELS = ("info", "missing", "flag")
_KIND = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")  # a folder is named after it
ENOUGH = 6  # trials from which a median can have a 95 % interval: 1 - 2 / 2**6 is the first above 0.95
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
            raise ParameterError(f"A note's level is one of {', '.join(LEVELS)}, not {self.level!r:.40}.")
        if not isinstance(self.text, str):
            raise ParameterError("A note's text is words.")


@dataclass
class Result:
    """One run of one experiment.

    data          one row per observation, a unit in every column's name that has one
    machine       flat facts of the machine that was measured; no host name, no user name
    parameters    what was asked for, defaults filled in
    tables        what was found besides the observations, by name: one row per block, interval, trial ...
    facts         single things that were found, by name: a threshold, how many were lost
    surroundings  what else went on: steal, other programs
    notes         what was missing, substituted or flagged
    timing        one of TIMINGS: how time passed while it was measured
    interrupted   whether the reader stopped it before its end: it holds what was measured until then
    stands_in     why a recorded run is shown instead of one of this machine; empty for a run of one's own
    """

    kind: str
    data: pd.DataFrame
    machine: dict[str, Any]
    parameters: dict[str, Any]
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    surroundings: dict[str, Any] = field(default_factory=dict)
    recorded_at: str = field(default_factory=now)
    duration_s: float = 0.0
    timing: str = "native"
    library: str = __version__
    path: Path | None = None
    stands_in: str = ""
    interrupted: bool = False

    def __post_init__(self) -> None:
        _check_kind(self.kind)
        if self.timing not in TIMINGS:
            raise ParameterError(f"timing is one of {', '.join(TIMINGS)}, not {self.timing!r:.40}.")

    # ---- looking ----

    def summary(self) -> pd.DataFrame:
        """The table that figures and claims use; its columns are documented by the experiment."""
        return registry.find(self.kind).summarise(self)

    def plot(self, **options: Any) -> Figure:
        """The figure for this kind of result.  The options are those of that figure.

        In a notebook, a run that has not what its figure shows gives way to the recorded one, which says so.
        """
        try:
            return registry.figure(self.kind)(self, **options)
        except ResultError as error:
            shipped = recorded(self.kind) if error.lacking and in_notebook() else None
            if shipped is None:
                raise
            return registry.figure(self.kind)(shipped.standing_in(error))

    def standing_in(self, error: SchedLabError) -> Result:
        """This recorded run, marked as one that this machine did not make."""
        text = f"Not measured on this machine: {error.what} This is a recorded run of {self.machine_line()}."
        self.notes.insert(0, Note("flag", text))
        self.stands_in = error.what
        return self

    def records(self, table: str) -> list[dict[str, Any]]:
        """The rows of one of the tables; None where a value is missing.  Empty without such a table."""
        return _records(self.tables[table]) if table in self.tables else []

    @property
    def flags(self) -> list[str]:
        """Why this run should be doubted, if at all."""
        return [note.text for note in self.notes if note.level == "flag"]

    @property
    def few_trials(self) -> int:
        """How many trials there were, where that is too few for a 95 % interval of their median; else 0."""
        trials = self.parameters.get("trials")
        return trials if isinstance(trials, int) and trials < ENOUGH else 0

    def machine_line(self) -> str:
        """The machine in a few words."""
        facts = self.machine
        words = [str(facts.get("scheduler") or ""), f"HZ {facts['hz']}" if facts.get("hz") else ""]
        scheduler = ", ".join(word for word in words if word)
        parts = [
            str(facts.get("cpu_model") or "unknown CPU"),
            f"{facts['cpus']} CPU{'' if facts['cpus'] == 1 else 's'}" if facts.get("cpus") else "",
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
        if self.few_trials > 1:
            parts.append(f"{self.few_trials} trials, an interval is at most their range")
        parts.append(TIMINGS[self.timing])
        return " · ".join(parts)

    def _repr_html_(self) -> str:
        from html import escape

        notes = "".join(f"<li>{escape(note.level)}: {escape(note.text)}</li>" for note in self.notes)
        flagged = ", flagged" if self.flags else ""
        return (
            f'<details class="sl-result"><summary>{escape(self.kind)}, {len(self.data):,} '
            f"observations in {self.duration_s:.1f} s{flagged}</summary>"
            f"<p>{escape(self.provenance_line())}</p>" + (f"<ul>{notes}</ul>" if notes else "") + "</details>"
        )

    # ---- keeping ----

    def save(self, path: str | Path | None = None) -> Path:
        """Write the result; by default under its kind and time in the reader's data folder.

        Raises ResultError when the folder cannot be written.
        """
        if path is None:
            stamp = re.sub("[^0-9TZ]", "", self.recorded_at.replace("+00:00", "Z"))
            folder = data_folder() / "results" / self.kind
            with held(data_folder()):  # another run of the same second wants another name
                path, again = folder / f"{stamp}.json", 1
                while path.exists():
                    path, again = folder / f"{stamp}-{again}.json", again + 1
                write_text(path, self.to_json())
        else:
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
            "interrupted": self.interrupted,
            "machine": self.machine,
            "parameters": self.parameters,
            "tables": {name: _records(table) for name, table in self.tables.items()},
            "facts": self.facts,
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


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    # Cells may hold a table of their own (waits by cause), so rows are kept as they are, None where empty.
    return [
        {
            str(name): None if isinstance(value, float) and value != value else value
            for name, value in row.items()
        }
        for row in table.to_dict("records")
    ]


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


def _check_kind(kind: str) -> None:
    if not _KIND.fullmatch(kind):
        raise ParameterError(f"{kind[:80]!r} is no kind of result.", "`sched-labs list` names the kinds.")


def _decode(column: Mapping[str, Any]) -> pd.Series:
    """A column of a file.  Raises ValueError where its values are not of the type that it names."""
    kind = column["type"]
    if kind == "words":
        words = _all(column["words"], str)
        codes = _all(column["codes"], int)
        if codes and not -1 <= min(codes) <= max(codes) < len(words):
            raise ValueError("a code that names no word")
        return pd.Series([words[code] if code >= 0 else None for code in codes], dtype=object)
    if not re.fullmatch(r"bool|u?int(8|16|32|64)|float64", kind):
        raise ValueError(f"a column of type {kind!r:.40}")
    if kind == "float64":
        return pd.Series(_all(column["values"], float, int, type(None)), dtype=kind)
    return pd.Series(_all(column["values"], bool if kind == "bool" else int), dtype=kind)


def _all(values: Any, *kinds: type) -> list[Any]:
    # pandas would make a number of "7", and 1 of True.
    if not isinstance(values, list) or any(type(value) not in kinds for value in values):
        raise ValueError(f"values that are no {kinds[0].__name__}")
    return values


def _decode_all(columns: Any, rows: Any) -> pd.DataFrame:
    found: dict[str, pd.Series] = {}
    for column in columns:
        name = column["name"]
        if not isinstance(name, str) or name in found:
            raise ValueError(f"two columns are called {name!r:.40}, or one has no name")
        found[name] = _decode(column)
        if len(found[name]) != rows:  # pandas would fill a short one up with missing values
            raise ValueError(f"{len(found[name])} values of {name:.40} where {rows!r:.20} were saved")
    return pd.DataFrame(found)


def _table(rows: Any) -> pd.DataFrame:
    for row in _all(rows, dict):
        _all(list(row), str)
    return pd.DataFrame(rows)


# What the parts of a file must be; the columns say for themselves when they are read.
_FORMS: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "machine": dict,
    "parameters": dict,
    "tables": dict,
    "facts": dict,
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
        head = jsontext.parse(text)
    except ValueError as error:
        raise ResultError(
            f"{source} is no JSON: {error}.", "Give a file that Result.save() wrote."
        ) from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ResultError(f"{source} is not a result of sched-labs.", "Give a file that Result.save() wrote.")
    if (version := head.get("version")) not in (1, FORMAT_VERSION):
        raise ResultError(
            f"{source} has result format {version!r:.20}; this library reads 1 to {FORMAT_VERSION}.",
            "Use the version of sched-labs that wrote it, or a newer one.",
        )
    try:
        if head["version"] == 1:
            head = older.from_version_1(head)
        for key, form in _FORMS.items():
            if not isinstance(head[key], form):
                raise ValueError(f"its {key} is a {type(head[key]).__name__}")
        return Result(
            kind=head["kind"],
            data=_decode_all(head["columns"], head["rows"]),
            machine=head["machine"],
            parameters=head["parameters"],
            tables={name: _table(rows) for name, rows in head["tables"].items() if rows},
            facts=head["facts"],
            notes=[Note(**note) for note in head["notes"]],
            surroundings=head["surroundings"],
            recorded_at=head["recorded_at"],
            duration_s=head["duration_s"],
            timing=head["timing"],
            interrupted=bool(head.get("interrupted", False)),
            library=head["library"],
        )
    except (
        KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise ResultError(
            f"{source} is damaged: {error!s:.200}.", "Measure again, or find another copy."
        ) from error


def load(path: str | Path) -> Result:
    """Read a saved result.  Raises ResultError when there is none or it is damaged."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LARGEST_BYTES + 1)
        if len(text) > LARGEST_BYTES:
            raise ValueError("it is larger than any result")
    except (OSError, ValueError) as error:
        raise ResultError(f"Cannot read {path}: {error}.", "Give a file that Result.save() wrote.") from error
    result = from_json(text, str(path))
    result.path = Path(path)
    return result


def latest(kind: str) -> Result | None:
    """The reader's newest saved result of a kind, or None.  Raises ResultError where that is damaged."""
    _check_kind(kind)
    # "...Z.json" is older than "...Z-1.json" of the same second: length first within a second.
    found = sorted(
        (data_folder() / "results" / kind).glob("*.json"),
        key=lambda file: (file.stem.partition("-")[0], len(file.stem), file.stem),
    )
    return load(found[-1]) if found else None


def recorded(kind: str, machine: str | None = None) -> Result | None:
    """The run of a named machine that ships with the book, or None where there is none for this kind.

    machine   "" for the book's own, or the word of another machine; by default the reader's choice.
              A machine that has no run of this kind gives way to the book's own.
    """
    files = registry.recorded_files(kind)
    path = files.get(recorded_machine() if machine is None else machine, next(iter(files.values()), None))
    return from_json(path.read_text(encoding="utf-8"), f"the recorded {kind}") if path else None
