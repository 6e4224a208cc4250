"""The parts of pages that only the build machine can write: what ran, on what, and how the claims fared.

A page holds a comment, `<!-- sched-labs: machine -->`, and the text that belongs there replaces it when the
pages are laid out.  What is written stays the same as long as the measured chapters and the saved results do:
nothing is built again without need.
"""

from __future__ import annotations

import contextlib
import inspect
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from ..core import registry
from ..core.errors import ResultError, SchedLabError
from ..core.store import recorded_machine
from ..core.tables import cell, heading
from ..core.words import number_text, size_text
from ..incidents import story
from ..reader import pale
from ..run import record
from . import cut, lab_pages, predictions, trust
from .chapters import Chapter, Checkout

if TYPE_CHECKING:
    from ..core.result import Result

_MARKER = re.compile(r"<!-- sched-labs: ([a-z]+) -->")
_WORDS_PER_MINUTE = cut.WORDS_PER_MINUTE  # code counts as prose
_MOST_APART = 20  # rows of two machines' differences
LEDGER = "book/ledger.yml"


@dataclass(frozen=True)
class Ran:
    """One chapter as it ran for this book."""

    name: str
    title: str
    words: int
    cells: int
    failed: int
    seconds: float
    profile: str
    measured_at: str

    @property
    def page(self) -> str:
        """The page, seen from a page in book/."""
        return f"../{self.name}.ipynb"

    @property
    def reading_minutes(self) -> int:
        return max(1, round(self.words / _WORDS_PER_MINUTE))


@dataclass(frozen=True)
class Material:
    """What the pages are written from, and `broken`: sentences about what went wrong on the way."""

    book: Checkout
    parts: Sequence[Chapter]
    broken: list[str] = field(default_factory=list)


def fill(text: str, made_from: Material) -> str:
    """Replace every marker in a page's text.  Raises SchedLabError for a marker that nobody writes."""

    def write(match: re.Match[str]) -> str:
        if match[1] not in _WRITERS:
            raise SchedLabError(
                f"A page asks for {match[0]}, which nothing writes.", f"There are {', '.join(_WRITERS)}."
            )
        return _WRITERS[match[1]](made_from)

    return _MARKER.sub(write, text)


def ran(book: Checkout, part: Chapter) -> Ran:
    """What a measured chapter says of its own run."""
    import nbformat

    notebook = nbformat.read(book.measured / f"{part.name}.ipynb", as_version=4)
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    title = re.search(r"^# (.+)$", "\n".join(prose), re.MULTILINE)
    about = notebook.metadata.get("sched_labs", {})
    return Ran(
        name=part.name,
        title=title[1] if title else part.name,
        words=len(" ".join([*prose, *(cell.source for cell in code)]).split()),
        cells=len(code),
        failed=sum(any(o.output_type == "error" for o in cell.outputs) for cell in code),
        seconds=sum(map(_seconds, code)),
        profile=str(about.get("profile", "unknown")),
        measured_at=str(about.get("measured_at", "unknown")).replace("T", " ").replace("+00:00", " UTC"),
    )


def _seconds(cell: Any) -> float:
    """How long a cell ran, by the kernel's own time stamps; 0 where it left none."""
    stamps = cell.metadata.get("execution", {})
    ends = [stamps.get(name) for name in ("iopub.execute_input", "shell.execute_reply")]
    if None in ends:
        return 0.0
    begin, end = (datetime.fromisoformat(str(stamp).replace("Z", "+00:00")) for stamp in ends)
    return (end - begin).total_seconds()


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table, with the bars in its cells escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _chapters(made_from: Material) -> str:
    """Which chapters there are, and how long each takes to read and to measure."""
    rows = []
    for each in (ran(made_from.book, part) for part in made_from.parts):
        rows.append(
            (
                f"[{each.title}]({each.page})",
                f"{each.reading_minutes} min",
                _duration(each.seconds),
                each.profile,
            )
        )
    return _table(("chapter", "to read", "to measure", "profile"), rows)


def _execution(made_from: Material) -> str:
    """Which cells ran, when and for how long."""
    rows = []
    for each in (ran(made_from.book, part) for part in made_from.parts):
        cells = f"{each.cells}, all to the end" if not each.failed else f"{each.cells}, {each.failed} failed"
        rows.append(
            (f"[{each.title}]({each.page})", cells, _duration(each.seconds), each.profile, each.measured_at)
        )
    return _table(("chapter", "cells", "time", "profile", "measured"), rows)


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "not measured"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


_FACTS = {
    "cpu_model": "processor", "arch": "architecture", "hypervisor": "hypervisor", "cpus": "CPUs",
    "cores": "cores", "smt": "threads on a core", "numa_nodes": "NUMA nodes", "l1d_bytes": "L1 data cache",
    "l2_bytes": "L2 cache", "l3_bytes": "L3 cache", "line_bytes": "cache line", "memory_bytes": "memory",
    "kernel": "kernel", "scheduler": "fair scheduler", "preemption": "preemption",
    "clocksource": "clock source", "idle_driver": "idle driver", "governor": "frequency governor",
    "huge_pages": "transparent huge pages", "pmu": "hardware counters (PMU)", "cgroup": "CPU cgroups",
    "cpu_limit": "CPU limit",
}  # fmt: skip


def _machine(made_from: Material) -> str:
    """The machine in short, without a name: what a result carries about it."""
    from ..machine import survey

    facts = survey().provenance()
    rows = []
    for key, label in _FACTS.items():
        value = facts[key]
        if key.endswith("_bytes") and value is not None:
            value = size_text(float(value))
        if isinstance(value, bool):
            value = "yes" if value else "no"
        rows.append((label, "unknown" if value is None else value))
    return _table(("what", "here"), rows)


_PACKAGES = ("numpy", "pandas", "matplotlib", "ipywidgets", "nbclient", "jupytext", "jupyter-book", "sphinx")


def _versions(made_from: Material) -> str:
    """Versions of everything that the numbers and pages went through."""
    from ..core.version import __version__

    rows = [("sched-labs", __version__), ("Python", platform.python_version()), ("C compiler", _compiler())]
    for name in _PACKAGES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "not installed"))
    return _table(("what", "version"), rows)


def _compiler() -> str:
    import shutil
    import subprocess

    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return "none"
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else "unknown"


def _verdicts(made_from: Material) -> str:
    """Every claim on the newest run of its experiment, or on the recorded one where this machine has none.

    A check that breaks is named at the end of the page, and costs only its own verdict.
    """
    from ..claims import BrokenCheck, Judgement, all_claims
    from ..core.registry import entries, find
    from ..core.result import latest

    without, broken = [], []
    homes = {one.kind: one.chapter for one in entries()}
    by_chapter: dict[str, list[str]] = {}
    outcomes: Counter[str] = Counter()
    for kind in dict.fromkeys(claim.kind for claim in all_claims()):
        claims = [claim for claim in all_claims() if claim.kind == kind]
        try:
            result, whose = latest(kind), "Measured here"
            if result is None or not _summarises(result):
                result, whose = _recorded(kind), "Recorded on another machine"
        except ResultError as error:
            without += [(claim.text, claim.source, error.what) for claim in claims]
            continue
        if result is None:
            without += [(claim.text, claim.source, "Nobody has run its experiment.") for claim in claims]
            continue
        verdicts, table = [], result.summary()
        for claim in claims:
            try:
                verdicts.append((claim, claim.check(result, table)))
            except BrokenCheck as error:
                broken.append((claim.text, claim.source, error.what))
        outcomes.update(verdict.outcome for _, verdict in verdicts)
        does = (inspect.getdoc(find(kind)) or "").partition("\n\n")[0].replace("\n", " ")
        told = f"<p><small>{kind}. {whose}: {escape(result.provenance_line())}</small></p>"
        inside = f"{told}{Judgement(verdicts).rows()}"
        summary = f"{escape(does)} <small>{len(verdicts)} judged</small>"
        by_chapter.setdefault(homes.get(kind, kind), []).append(
            f'<details class="sl-kind"><summary>{summary}</summary>{inside}</details>'
        )
    # A chapter's experiments lie in the folder of its name: 01-context-switch, context_switch.
    titles = {part.short.lstrip("0123456789-").replace("-", "_"): part.title for part in made_from.parts}
    counts = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common())
    found = [f'<p class="sl-claims-said"><strong>{sum(outcomes.values())} sentences: {counts}.</strong></p>']
    for chapter, kinds in by_chapter.items():
        found += [f"### {titles.get(chapter, chapter)}", *kinds]
    if broken:
        found += ["### Checks that broke", _table(("people say", "source", "what happened"), broken)]
        made_from.broken.extend(what for *_, what in broken)
    if without:
        found += ["### Not judged here", _table(("people say", "source", "why not"), without)]
    return "\n\n".join(found)


def _recorded(kind: str) -> Result | None:
    """The run that ships, of the machine that the reader has chosen."""
    return _recorded_on(kind, recorded_machine())


@cache
def _recorded_on(kind: str, machine: str) -> Result | None:
    """Read and summarised once, however often the pages are laid out."""
    from ..core.result import recorded

    run = recorded(kind, machine)
    if run is not None:
        run.summary = run.summary().copy  # type: ignore[method-assign]
    return run


def _summarises(mine: Result) -> bool:
    """Whether this library can read the rows of a run that an earlier one of this reader's may have saved."""
    try:
        mine.summary()
    except Exception:  # whatever other columns lead to
        print(f"    the saved {mine.kind} of {mine.recorded_at} has other columns: measure it again")
        return False
    return True


def ledger(book: Checkout) -> list[dict[str, str]]:
    """The statements of book/ledger.yml: id, topic, says, verdict, is, source.

    Raises SchedLabError for an entry that lacks one of them or repeats an id.
    """
    entries: list[dict[str, str]] = []
    path = book.root / Path(LEDGER)
    for topic, rows in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        for row in rows:
            if not (isinstance(row, dict) and set(row) == {"id", "says", "verdict", "is", "source"}):
                raise SchedLabError(f"{LEDGER} has a damaged entry under {topic!r}: {row!r}.")
            entries.append({"topic": topic, **{name: str(value).strip() for name, value in row.items()}})
    names = [entry["id"] for entry in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchedLabError(f"{LEDGER} has {twice[0]} twice.", "Keep one of them.")
    return entries


def _ledger(made_from: Material) -> str:
    """The wrong and outdated statements that no experiment of this book judges, by topic."""
    from ..claims import all_claims
    from ..kernels import claims as claims_kernels

    judged = {claim.id for claim in all_claims()} | {claim.id for claim in claims_kernels.CLAIMS}
    topics: dict[str, list[str]] = {}
    for entry in ledger(made_from.book):
        if entry["id"] not in judged:
            topics.setdefault(entry["topic"], []).append(
                f'<tr><td>{_breakable(entry["says"])}<span class="source">{entry["id"]}, '
                f"{escape(entry['verdict'])}</span></td><td>{_breakable(entry['is'])}"
                f'<span class="source">{_breakable(entry["source"])}</span></td></tr>'
            )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("People say", "In fact"))
    return "\n\n".join(
        f'### {topic}\n\n<table class="sl-claims"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
        for topic, rows in topics.items()
    )


def _breakable(text: str) -> str:
    """HTML in which a line may end after slashes and underscores of long names, so that it fits a phone."""
    return re.sub(r"([/_])(?=\w)", r"\1<wbr>", escape(text))


def _labs(made_from: Material) -> str:
    """The labs: how long each takes, what it goes with, and how to begin."""
    rows = []
    for lab in lab_pages.labs_of(made_from.book):
        read = ", ".join(
            f"[{title}](../{path})" for title, path in lab_pages.leading_to(lab, made_from.parts)
        )
        rows.append(
            (f"[{lab.title}](../labs/{lab.name}/sheet.md)", f"{lab.minutes} min", read, f"`{lab.word}`")
        )
    return _table(("lab", "time", "goes with", "its name in commands"), rows)


def _notes(made_from: Material) -> str:
    """The instructor's notes of each lab."""
    return "\n".join(
        f"- [{lab.title}](../labs/{lab.name}/instructor.md), {lab.minutes} minutes"
        for lab in lab_pages.labs_of(made_from.book)
    )


def _predictions(made_from: Material) -> str:
    """All questions, for the reader's answers."""
    return predictions.table(predictions.asked(made_from.book, made_from.parts))


def _agreement(made_from: Material) -> str:
    """The last comparisons with other tools, each with its machine."""
    found = []
    for table in trust.benchmarks(made_from.book.root):
        heads = ("compared", "value, 95 % interval", "target", "remark")
        found += [f"`{table['command']}` on {table['machine']}, {table['measured_at'][:10]}:"]
        found += [_table(heads, trust.rows(table)), *(f"Doubt: {doubt}" for doubt in table["doubts"])]
    return "\n\n".join(found) or "No benchmark has been recorded: `make bench` measures them on this machine."


def _effects(made_from: Material) -> str:
    """The smallest difference that each experiment can tell, from the newest runs."""
    from ..core.registry import entries
    from ..core.result import latest

    def newest() -> Iterator[Result]:
        for entry in entries():
            with contextlib.suppress(ResultError):
                mine = latest(entry.kind)
                run = mine if mine is not None and _summarises(mine) else _recorded(entry.kind)
                if run is not None:
                    yield run

    def percent(value: float) -> str:
        return f"{number_text(value, 2)} %" if value else "exact"

    rows = [
        (f"`{kind}`", profile, numbers, percent(half), percent(most))
        for kind, profile, numbers, half, most in trust.smallest_effects(newest()).to_numpy()
    ]
    return _table(("experiment", "profile", "numbers", "half of them", "nine in ten"), rows)


def _machines(made_from: Material) -> str:
    """What differs between the book's own machine and each other one that has recorded runs."""
    names = list(pale.machines().items())
    return "\n\n".join(_apart(names[0], other) for other in names[1:])


@cache
def _apart(own: tuple[str, str], other: tuple[str, str]) -> str:
    """The sentence and the table for two machines, each by its word and its line."""
    kinds = [kind for kind in registry.names() if {"", other[0]} <= registry.recorded_files(kind).keys()]
    pairs = [(_recorded_on(kind, ""), _recorded_on(kind, other[0])) for kind in kinds]
    table = trust.apart((first, second) for first, second in pairs if first and second)

    def text(value: float, column: str) -> str:
        return cell(value, heading(column)[1])

    rows = [
        (f"`{kind}`", name, text(first, column), text(second, column), f"× {number_text(times, 2)}")
        for kind, name, column, first, second, _, times in trust.farthest(table, _MOST_APART).to_numpy()
    ]
    return "\n".join(
        [
            f"`{own[0]}` is {own[1]}, `{other[0]}` is {other[1]}.",
            f"Of {len(table):,} numbers that both have with an interval, {table['differs'].sum():,} differ "
            "beyond both intervals.",
            "",
            _table(("experiment", "number", own[0], other[0], "times"), rows),
        ]
    )


def _wanted(made_from: Material) -> str:
    """The experiments whose recorded run lacks something, and what: other machines are wanted for it."""
    rows = [(f"`{kind}`", " ".join(lacks)) for kind, lacks in record.wanted().items()]
    return _table(("experiment", "what its recorded run says"), rows)


def _incidents(made_from: Material) -> str:
    """The incidents there are, and behind how many causes each may hide."""
    drawn = [(name, story.plan(name, 0).story) for name in story.names()]
    rows = [(one.title, str(len(one.variants)), f"`{name}`") for name, one in drawn]
    return _table(("incident", "causes that it may have", "its name in commands"), rows)


def _fleet(made_from: Material) -> str:
    """What a recorded fleet has in common, as the report of a fleet says and draws it."""
    return _recorded_fleet()


@cache
def _recorded_fleet() -> str:
    """Drawn once: a second drawing of one figure has other names in it, and the page would be another one."""
    from ..fleet import compare, recorded, report, strips

    fleet = recorded.guests()
    compared = compare.compare(fleet)
    found = [f"> {report.sentence(one)}" for one in compared.commons] or [
        f"> {report.answer(fleet, compared)}"
    ]
    kind = str(fleet.numbers["kind"].iloc[0])
    figure = strips.of_kind(fleet, compared, kind, recorded.BY)
    if figure is not None:
        figure.provenance = recorded.PROVENANCE
        found.append(figure._repr_html_())
    return "\n\n".join(found)


_WRITERS: dict[str, Callable[[Material], str]] = {
    "chapters": _chapters,
    "execution": _execution,
    "machine": _machine,
    "versions": _versions,
    "verdicts": _verdicts,
    "ledger": _ledger,
    "labs": _labs,
    "incidents": _incidents,
    "notes": _notes,
    "predictions": _predictions,
    "agreement": _agreement,
    "effects": _effects,
    "fleet": _fleet,
    "machines": _machines,
    "wanted": _wanted,
}
