"""`python -m sched_labs.book`: what `make book` and `make live` run once everything is installed."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..core import registry
from ..core.errors import SchedLabError
from . import behind, pages, shipped
from .behind import Behind, Board
from .chapters import Chapter, Checkout, chapters, checkout
from .kernel import Kernel
from .measure import PROFILES, Failure, done, measure
from .progress import Terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (1: something failed, 130: the reader stopped it)."""
    options = _parser().parse_args(arguments)
    terminal = Terminal()
    try:
        book = checkout(options.root)
        with _alone(book, terminal) if options.command != "serve" else contextlib.nullcontext():
            if options.command == "build":
                return 0 if _build(book, options, terminal) else 1
            if options.command == "behind":
                return 0 if _behind(book, options) else 1
            measuring = _first_pages(book, options, terminal) if options.command == "live" else None
        from ..server import serve

        serve.run(
            _place(book, options),
            notebooks={part.short: part.source for part in chapters(book)},
            port=options.port,
            browser=options.browser,
            forwarded=options.forwarded,
            measuring=measuring,
        )
    except SchedLabError as error:
        terminal.say(f"sched-labs: {error}")
        return 1
    except KeyboardInterrupt:
        terminal.say("sched-labs: stopped. What was finished is kept; the same command goes on from there.")
        return 130


@contextlib.contextmanager
def _alone(book: Checkout, terminal: Terminal) -> Iterator[None]:
    """Be the only one who makes this book: two would write over each other's chapters and pages."""
    try:
        book.build.mkdir(parents=True, exist_ok=True)
        handle = os.open(book.build / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SchedLabError(
            f"Cannot write {book.build}: {error.strerror}.", "Make the book in a checkout of your own."
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            terminal.say("Waiting: another `make` is at work on this book.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # a folder of another system's that knows no locks
            pass
        yield
    finally:
        os.close(handle)


def _build(book: Checkout, options: argparse.Namespace, terminal: Terminal) -> bool:
    """Measure the chapters and make the pages; whether every cell and every claim's check ran to its end."""
    parts = chapters(book)
    _introduce(terminal)
    if options.profile == shipped.PROFILE:
        failures = _shipped(book, parts, terminal, fresh=options.fresh)
    else:
        with Kernel() as kernel:
            every = [
                measure(book, part, options.profile, terminal, kernel, fresh=options.fresh) for part in parts
            ]
        failures = [failure for failure in every if failure is not None]
    broken = pages.build(book, parts, terminal, instructors=options.instructors)
    for failure in failures:
        _report(failure, terminal)
    for sentence in broken:
        terminal.say(f"\n{sentence}")
    terminal.say(f"pages: {_place(book, options) / 'index.html'}")
    return not failures and not broken


def _shipped(
    book: Checkout, parts: Sequence[Chapter], terminal: Terminal, *, fresh: bool = False
) -> list[Failure]:
    """Make chapters of the runs that ship with the book: what measures nothing need not have the machine."""
    due = iter(parts)

    def made(_: int) -> list[Failure | None]:
        with Kernel() as kernel:
            return [measure(book, part, shipped.PROFILE, terminal, kernel, fresh=fresh) for part in due]

    with ThreadPoolExecutor(2) as side_by_side:
        return [failure for some in side_by_side.map(made, range(2)) for failure in some if failure]


def _first_pages(book: Checkout, options: argparse.Namespace, terminal: Terminal) -> Behind | None:
    """Make pages of what was measured before and of what ships with the book; what measures the rest."""
    parts = chapters(book)
    missing = [part for part in parts if not done(book, part, options.profile)]
    for failure in _shipped(book, missing, terminal):
        _report(failure, terminal)
    pages.build(book, parts, terminal, instructors=options.instructors, again=True)
    due = parts if options.fresh else missing
    if not due or options.profile == shipped.PROFILE:
        return None
    words = ["behind", "--root", str(book.root), "--profile", options.profile]
    words += [f"--{name}" for name in ("fresh", "instructors") if getattr(options, name)]
    return Behind(words, _standing(book))


def _behind(book: Checkout, options: argparse.Namespace) -> bool:
    parts = chapters(book)
    due = [part for part in parts if options.fresh or not done(book, part, options.profile)]
    board = Board(_standing(book), book, parts, due)
    _introduce(board)

    def measured(part: Chapter, let_pass: Callable[[], None]) -> Failure | None:
        failure = measure(
            book,
            part,
            options.profile,
            board,
            kernel,
            fresh=options.fresh,
            keep_failed=False,
            before_cell=let_pass,
        )
        if failure:
            _report(failure, board)
        return failure

    def written() -> bool:
        return not pages.build(book, parts, board, instructors=options.instructors, again=True)

    with Kernel() as kernel:
        return behind.run(due, board, measured, written)


def _standing(book: Checkout) -> Path:
    """Where the process that measures behind the server tells it how the chapters stand."""
    return book.build / "measuring.json"


def _place(book: Checkout, options: argparse.Namespace) -> Path:
    return book.for_instructors if options.instructors else book.html


def _introduce(terminal: Terminal) -> None:
    """Compile the workloads and say in a few lines what this machine is; `sched-labs doctor` says it all."""
    from .. import workloads
    from ..machine import survey
    from ..probes import runqlat
    from ..run import languages

    facts = survey().provenance()
    terminal.say(f"This machine: {facts['cpu_model'] or facts['arch']}, CPUs {facts['cpus_allowed']}")
    hypervisor = (
        f", in a virtual machine ({facts['hypervisor']})" if facts["hypervisor"] not in (None, "none") else ""
    )
    terminal.say(f"  Linux {facts['kernel']}, scheduler {facts['scheduler']}{hypervisor}")
    try:
        built = workloads.build_all()
        others = languages.build_all({one.folder for one in registry.entries()})
        terminal.say(f"  workloads: {', '.join([*sorted(built), *others])} are compiled")
    except SchedLabError as error:
        terminal.say(f"  workloads: {error}")
    probe = runqlat.available()
    terminal.say("  waits are counted in the kernel" if probe.ok else f"  waits: {probe.why} {probe.remedy}")


def _report(failure: Failure, terminal: Terminal) -> None:
    terminal.say(f"\n{failure.chapter}: cell {failure.cell} failed; its page shows the chapter up to there.")
    for line in failure.source.splitlines():
        terminal.say(f"    {line}")
    terminal.say(f"  {failure.error}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sched-labs book", description="Measure, build and serve the book.")
    parser.add_argument(
        "command",
        choices=("build", "live", "serve", "behind"),
        help="build: measure and make the pages; live: serve them at once, and measure meanwhile; "
        "serve: serve what is there; behind: the measuring of `live`, which ends with its standard input",
    )
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        default=os.environ.get("SCHED_LABS_PROFILE", "quick"),
        help="quick takes minutes, full gives narrow intervals, tiny only tries the machinery, "
        "recorded measures nothing and shows the runs that ship with the book",
    )
    parser.add_argument(
        "--instructors", action="store_true", help="the book with the notes and right answers of the labs"
    )
    parser.add_argument("--fresh", action="store_true", help="measure again even where nothing changed")
    parser.add_argument("--root", type=Path, help="the checkout (default: the one this was installed from)")
    parser.add_argument(
        "--port", type=int, default=8888, help="port on 127.0.0.1; the next free one where it is taken"
    )
    parser.add_argument(
        "--forwarded",
        type=int,
        metavar="PORT",
        help="this is a virtual machine: listen where its host's PORT is forwarded to, and keep one key",
    )
    parser.add_argument(
        "--browser",
        action=argparse.BooleanOptionalAction,
        default=_has_screen(),
        help="open a browser (default: where there is a screen)",
    )
    return parser


def _has_screen() -> bool:
    # Without a screen, Python's webbrowser would start a text browser over the server's own terminal.
    return sys.stdout.isatty() and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
