"""Run one chapter on this machine and keep the notebook with its outputs.

The book runs its chapters itself instead of leaving it to Sphinx: the reader sees which cell and which
experiment is at work, a change of wording does not cost a new measurement of the other chapters, and a
failing cell is named at once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import SchedLabError
from .chapters import Chapter, Checkout
from .progress import VARIABLE, Follower, Terminal

PROFILES = ("tiny", "quick", "full")
_CELL_LIMIT_S = {"tiny": 180, "quick": 600, "full": 3600}
_STOP_LIMIT_S = 15
_KEY = "sched_labs"  # notebook metadata of ours


@dataclass(frozen=True)
class Failure:
    """A cell that did not run to its end."""

    chapter: str
    cell: int
    source: str
    error: str


def measure(
    book: Checkout, chapter: Chapter, profile: str, terminal: Terminal, *, fresh: bool = False
) -> Failure | None:
    """Run `chapter` unless all it is made of is unchanged since it last ran; return the cell that failed.

    The executed notebook goes to `_build/measured/`; one with a failed cell is kept too, because its page
    shows what happened, but it never counts as done.
    """
    import jupytext  # type: ignore[import-untyped]
    import nbformat

    target = book.measured / f"{chapter.name}.ipynb"
    inputs = fingerprint(chapter, profile)
    if not fresh and _made_from(target) == inputs:
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
    failure = _run(book, chapter, notebook, profile, terminal)
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


def fingerprint(chapter: Chapter, profile: str) -> str:
    """Return a digest of what a chapter's numbers come from: text, library, profile, machine."""
    digest = hashlib.sha256()
    for part in (profile, platform.python_version(), *_machine()):
        digest.update(part.encode() + b"\0")
    if chapter.source.is_file():
        digest.update(chapter.source.read_bytes() + b"\0")
    package = Path(__file__).parents[1]
    for path in sorted(_library(package)):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _machine() -> Iterator[str]:
    """Yield what tells this machine from another one with the same checkout (a VM's synced folder)."""
    yield from (platform.release(), platform.machine(), str(os.cpu_count()))
    identity = Path("/etc/machine-id")
    yield identity.read_text(encoding="ascii", errors="replace") if identity.is_file() else ""


def _library(package: Path) -> Iterator[Path]:
    # How pages are made and served does not change what was measured.
    aside = {package / "book", package / "server"}
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and not aside & set(path.parents):
            yield path


def _made_from(target: Path) -> str | None:
    import nbformat

    if not target.is_file():
        return None
    metadata: dict[str, Any] = nbformat.read(target, as_version=4).metadata
    value = metadata.get(_KEY, {}).get("inputs")
    return value if isinstance(value, str) else None


def _run(book: Checkout, chapter: Chapter, notebook: Any, profile: str, terminal: Terminal) -> Failure | None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    folder = book.build / "run"  # cells work here, so that nothing they drop lands among the sources
    folder.mkdir(parents=True, exist_ok=True)
    progress = folder / "progress.jsonl"
    numbers = {index: n for n, index in enumerate(_code_cells(notebook), start=1)}
    current = 0

    def starts(cell: Any, cell_index: int) -> None:
        nonlocal current
        if cell_index in numbers:
            current = cell_index
            follower.cell(numbers[cell_index])

    client = NotebookClient(
        notebook,
        timeout=_CELL_LIMIT_S[profile],
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=starts,
        store_widget_state=False,
        extra_arguments=["--IPKernelApp.log_level=40"],  # errors only; its start is not the reader's news
        # One chapter's kernel must be gone, with everything it started, before the next one measures.
        shutdown_kernel="graceful",
    )
    environment = {**os.environ, "SCHED_LABS_PROFILE": profile, VARIABLE: str(progress), "MPLBACKEND": "agg"}
    with Follower(terminal, progress, len(numbers)) as follower:
        try:
            _execute(client, environment)
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


def _execute(client: Any, environment: dict[str, str]) -> None:
    """Run the notebook. Ctrl-C stops its cell as a stop button does, so that experiments clean up."""
    # nbclient answers Ctrl-C by killing the kernel, then trips over it. Only the main thread hears of Ctrl-C.
    with ThreadPoolExecutor(1) as other:
        running = other.submit(client.execute, env=environment)
        try:
            running.result()
        except KeyboardInterrupt:
            _stop(client, signal.SIGINT)
            if not wait([running], _STOP_LIMIT_S).done:
                _stop(client, signal.SIGKILL)
                wait([running], _STOP_LIMIT_S)
            raise  # what the stopped notebook itself said is of no interest any more


def _stop(client: Any, how: signal.Signals) -> None:
    pid = getattr(client.km and client.km.provisioner, "pid", None)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, how)


def _code_cells(notebook: Any) -> list[int]:
    return [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
