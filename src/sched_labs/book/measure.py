"""Run one chapter on this machine and keep the notebook with its outputs.

The book runs its chapters itself instead of leaving it to Sphinx: the reader sees which cell and which
experiment is at work, a change of wording does not cost a new measurement of the other chapters, and a
failing cell is named at once.
"""

from __future__ import annotations

import ast
import platform
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sched_labs

from ..core import registry
from ..core.closure import closure, named
from ..core.errors import SchedLabError
from ..core.store import recorded_machine
from ..run import kept
from . import shipped
from .chapters import Chapter, Checkout
from .kernel import Kernel
from .progress import VARIABLE, Follower, Terminal

PROFILES = ("tiny", "quick", "full", shipped.PROFILE)
_CELL_LIMIT_S = {
    shipped.PROFILE: 300,
    "tiny": 900,
    "quick": 1200,
    "full": 3600,
}  # an experiment waits 600 s for another one
_KEY = "sched_labs"  # notebook metadata of ours


@dataclass(frozen=True)
class Failure:
    """A cell that did not run to its end."""

    chapter: str
    cell: int
    source: str
    error: str


def measure(
    book: Checkout,
    chapter: Chapter,
    profile: str,
    terminal: Terminal,
    kernel: Kernel,
    *,
    fresh: bool = False,
    keep_failed: bool = True,
    before_cell: Callable[[], None] = lambda: None,
) -> Failure | None:
    """Run `chapter` unless all it is made of is unchanged since it last ran; return the cell that failed.

    The executed notebook goes to `_build/measured/`; one with a failed cell is kept too, because its page
    shows what happened, but it never counts as done.  Without `keep_failed` the one before it stays.

    kernel       in which the chapter runs
    before_cell  called when a cell is about to run, and waited for
    """
    import jupytext  # type: ignore[import-untyped]
    import nbformat

    target = _notebook(book, chapter)
    inputs = fingerprint(chapter, profile)
    if not fresh and done(book, chapter, profile):
        terminal.say(
            f"{chapter.name}: measured before with this code on this machine, kept (FRESH=1 measures again)"
        )
        return None
    try:
        notebook = jupytext.read(chapter.source)
    except FileNotFoundError:
        raise SchedLabError(
            f"The table of contents names {chapter.name}, but there is no {chapter.name}.md.",
            "Write the chapter or take it out of _toc.yml.",
        ) from None
    terminal.say(f"{chapter.name}: measuring (profile {profile})")
    runs = book.build / "runs" / chapter.short
    if fresh:
        shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir(parents=True, exist_ok=True)
    began = time.time() - 1  # a file system may round
    failure = _run(book, chapter, notebook, profile, terminal, kernel, runs, before_cell)
    if not failure:
        _drop_unused(runs, began)
    elif not keep_failed:
        return failure
    notebook.metadata[_KEY] = {
        "inputs": None if failure else inputs,
        "profile": profile,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    nbformat.write(notebook, partial)
    partial.replace(target)
    return failure


def done(book: Checkout, chapter: Chapter, profile: str) -> bool:
    """Whether a chapter has run to its end in this profile, and all it is made of is unchanged since."""
    return about(book, chapter).get("inputs") == fingerprint(chapter, profile)


def about(book: Checkout, chapter: Chapter) -> dict[str, Any]:
    """What a chapter that ran says of its run: inputs, profile, measured_at; nothing where there is none."""
    import nbformat

    target = _notebook(book, chapter)
    said = nbformat.read(target, as_version=4).metadata.get(_KEY, {}) if target.is_file() else {}
    return dict(said)


def _notebook(book: Checkout, chapter: Chapter) -> Path:
    return book.measured / f"{chapter.name}.ipynb"


def fingerprint(chapter: Chapter, profile: str) -> str:
    """Return a digest of what a chapter's page comes from: text, machine, profile, and the code behind it.

    That is every module that its cells import, and all that stands beside the experiments among them; and
    whose recorded runs the reader wants to see.
    """
    words = [profile, platform.python_version(), *kept.machine_marks(), recorded_machine()]
    text = chapter.source.read_text(encoding="utf-8") if chapter.source.is_file() else ""
    return kept.digest([*words, text], sorted(_ingredients(text)))


def _ingredients(text: str) -> set[Path]:
    modules: set[str] = set()
    for code in re.findall(
        r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```", text, re.MULTILINE | re.DOTALL
    ):
        with suppress(SyntaxError):  # running it will say so
            modules |= {sched_labs.home_of(name) for name in named(ast.parse(code), "")}
    found = closure(modules)
    files = set(found.values())
    for module in found:
        if module.endswith(".experiment"):
            for kind in registry.entries():
                if kind.package == module.removesuffix(".experiment"):
                    files |= {path for path in kind.folder.iterdir() if path.is_file()}
                    files |= set(kept.sources(module, kind.workloads))
    return files


def _drop_unused(runs: Path, since: float) -> None:
    """Take kept runs away that the chapter did not ask for."""
    for path in runs.iterdir():
        if path.stat().st_mtime < since:
            path.unlink()


def _run(
    book: Checkout,
    chapter: Chapter,
    notebook: Any,
    profile: str,
    terminal: Terminal,
    kernel: Kernel,
    runs: Path,
    before_cell: Callable[[], None],
) -> Failure | None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    folder = book.build / "run"  # cells work here, so that nothing they drop lands among the sources
    folder.mkdir(parents=True, exist_ok=True)
    progress = folder / f"progress-{chapter.short}.jsonl"
    numbers = {index: n for n, index in enumerate(_code_cells(notebook), start=1)}
    current = 0

    def starts(cell: Any, cell_index: int) -> None:
        nonlocal current
        if cell_index in numbers:
            current = cell_index
            before_cell()
            follower.cell(numbers[cell_index])

    measures = profile != shipped.PROFILE
    first = shipped.START.format("keep_summaries" if measures else "use")
    client = NotebookClient(
        notebook,
        kernel.manager,
        timeout=_CELL_LIMIT_S[profile],
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=starts,
        store_widget_state=False,
        # errors only; its start is not the reader's news
        extra_arguments=["--IPKernelApp.log_level=40", f"--IPKernelApp.exec_lines={first}"],
    )
    around = {VARIABLE: str(progress)}
    if measures:
        around |= {"SCHED_LABS_PROFILE": profile, kept.VARIABLE: str(runs)}
    with Follower(terminal, progress, len(numbers)) as follower:
        try:
            kernel.run(client, around)
            if not measures:  # these times say nothing of a measurement
                for cell in notebook.cells:
                    cell.metadata.pop("execution", None)
        except CellExecutionError as error:
            said = f"{error.ename}: {error.evalue}" if error.ename else str(error)
        except CellTimeoutError:
            said = f"The cell ran longer than {_CELL_LIMIT_S[profile]} s and was stopped."
        except DeadKernelError:
            said = "The notebook's kernel ended in the middle of the cell."
        else:
            terminal.say(f"  {len(numbers)} cells in {follower.seconds:.0f} s")
            return None
    return Failure(chapter.name, numbers.get(current, 0), notebook.cells[current].source, said)


def _code_cells(notebook: Any) -> list[int]:
    return [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
