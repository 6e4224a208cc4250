"""`sched-labs watch`: a program of one's own from a terminal."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..core.errors import ResultError, SchedLabError

if TYPE_CHECKING:
    from ..core.result import Result

ABOUT = "why a program of yours waits: a command, processes that run, or a control group"


def add_parser(commands: Any) -> None:
    """The command `watch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "watch",
        help=ABOUT,
        description=ABOUT[0].upper() + ABOUT[1:],
        epilog="A command's own output goes where it always does; where that is a file or a pipe, the report "
        "goes to standard error. The status is the command's. Ctrl-C ends the watch, with a report.",
        usage="%(prog)s [options] (-- COMMAND ... | --pid PID ... | --cgroup PATH)",
    )
    parser.add_argument("--pid", type=int, nargs="+", metavar="PID", help="processes that run already")
    parser.add_argument("--cgroup", metavar="PATH", help="a control group, as /proc/PID/cgroup has it")
    parser.add_argument("--seconds", type=float, help="how long (default: 10; a command: until it ends)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the result here (- is standard output)"
    )
    parser.add_argument(
        "--compare", type=Path, metavar="FILE", help="an earlier result, to set beside this one"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PAGE", help="write a page with figures here (.html)"
    )
    parser.add_argument(
        "--stacks",
        action="store_true",
        help="also where in the kernel threads wait, and who wakes them (helper)",
    )
    parser.add_argument(
        "--timeline", action="store_true", help="also who had which CPU when (helper; -o does it)"
    )
    parser.add_argument("--folded", type=Path, metavar="FILE", help="write these as folded stacks (--stacks)")
    parser.add_argument(
        "--export",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="for other programs, by suffix: .perfetto, .folded (stacks), .parquet, .csv; may be repeated",
    )
    parser.add_argument(
        "--table", default="turns", help="what .parquet and .csv hold (turns, threads, findings, edges, ...)"
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="after --, with its arguments")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Watch, write what was asked for, print, and pass the command's status on."""
    from ..core.result import load
    from . import exports, report
    from .program import observe, target_of
    from .target import Command

    for path in options.export:
        exports.check(path)
    for path in _asked(options):
        _check_place(path)
    folded = options.folded or any(one.suffix == ".folded" for one in options.export)
    stacks = options.stacks or bool(folded)
    turns = any(
        one.suffix in (".perfetto", ".pftrace") or (one.suffix != ".folded" and options.table == "turns")
        for one in options.export
    )
    earlier = load(options.compare) if options.compare else None
    if earlier is not None:
        report.check_comparable(earlier)
    told = _noted()
    with target_of(options.command or None, options.pid, options.cgroup) as target:
        result = observe(
            target,
            options.seconds,
            stacks=stacks,
            timeline=options.timeline or bool(options.output) or turns,
            progress=sys.stderr.isatty(),
        )
        for number in told:
            if isinstance(target, Command):
                target.tell(number)
        failed = list(_handed_over(options, result, earlier))
        for complaint in failed:
            _say(f"sched-labs: {complaint}\n", sys.stderr)
        status = 0
        if isinstance(target, Command):
            try:
                status = target.wait()
            except KeyboardInterrupt:
                return 130
        return status or (2 if failed else 0)


def _noted() -> list[int]:
    """The signals that end this watch from now on, and that no terminal sends to the command as well."""
    told: list[int] = []

    def note(number: int, frame: Any) -> None:
        told.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.default_int_handler:  # `cli.main` takes them for Ctrl-C
            signal.signal(number, note)
    return told


def _asked(options: argparse.Namespace) -> list[Path]:
    """The files that are to be written."""
    json = options.json if str(options.json) != "-" else None
    return [path for path in (json, options.output, options.folded, *options.export) if path]


def _check_place(path: Path) -> None:
    """Refuse a place that cannot be written before a program is watched for it."""
    above = next(one for one in (path, *path.absolute().parents) if one.exists())
    if path.is_dir() or not os.access(above, os.W_OK) or (above != path and not above.is_dir()):
        raise ResultError(f"Cannot write {path}.", "Name a file in a folder that you may write.")


def _handed_over(options: argparse.Namespace, result: Result, earlier: Result | None) -> Iterator[str]:
    """Everything that was asked for, each by itself: the report, then the files; what could not be done."""
    from ..core.store import write_text
    from . import exports, page, report

    out = sys.stderr if options.command and not sys.stdout.isatty() else sys.stdout
    if str(options.json) == "-":
        yield from _tried(lambda: _say(result.to_json(), sys.stdout))
    else:
        yield from _tried(lambda: _say(report.text(result) + "\n", out))
        if earlier is not None:
            yield from _tried(lambda: _say(report.compared(earlier, result) + "\n", out))
        if options.json:
            yield from _tried(lambda: result.save(options.json))
    if options.output:
        yield from _tried(lambda: page.write(result, options.output))
    if options.folded:
        yield from _tried(lambda: write_text(options.folded, page.folded(result)))
    for path in options.export:
        yield from _tried(partial(exports.write, result, path, options.table))


def _tried(write: Callable[[], Any]) -> Iterator[str]:
    try:
        write()
    except SchedLabError as error:
        yield str(error)
    except OSError as error:  # such as a full disk behind the report
        yield f"the report: {error.strerror or error}"


def _say(text: str, out: TextIO) -> None:
    """Print all of it, or as much as the reader at the other end takes (`| head`)."""
    try:
        out.write(text)
        out.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # Python tries once more when it ends
        if not isinstance(error, BrokenPipeError):
            raise
