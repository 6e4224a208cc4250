"""`sched-labs watch`: a program of one's own from a terminal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

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
    """Watch, print, and pass the command's status on."""
    from ..core.result import load
    from ..core.store import write_text
    from . import exports, page, report
    from .program import observe, target_of
    from .target import Command

    for path in options.export:
        exports.check(path)
    folded = options.folded or any(one.suffix == ".folded" for one in options.export)
    stacks = options.stacks or bool(folded)
    turns = any(
        one.suffix in (".perfetto", ".pftrace") or (one.suffix != ".folded" and options.table == "turns")
        for one in options.export
    )
    earlier = load(options.compare) if options.compare else None
    with target_of(options.command or None, options.pid, options.cgroup) as target:
        result = observe(
            target,
            options.seconds,
            stacks=stacks,
            timeline=options.timeline or bool(options.output) or turns,
            progress=sys.stderr.isatty(),
        )
        if options.json and str(options.json) == "-":
            sys.stdout.write(result.to_json())
        else:
            out = sys.stderr if options.command and not sys.stdout.isatty() else sys.stdout
            print(report.text(result), file=out)
            if earlier is not None:
                print(report.compared(earlier, result), file=out)
        if options.json and str(options.json) != "-":
            result.save(options.json)
        if options.output:
            page.write(result, options.output)
        if options.folded:
            write_text(options.folded, page.folded(result))
        for path in options.export:
            exports.write(result, path, options.table)
        if not isinstance(target, Command):
            return 0
        try:
            return target.wait()
        except KeyboardInterrupt:
            return 130
