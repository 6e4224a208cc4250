"""`sched-labs scheduler new | check | run | compare | bout`."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ParameterError
from ..core.tables import cell, table_text

if TYPE_CHECKING:
    from .bouts import Bout

KERNEL = "6.18"  # as in trial.py, which loads pandas


def add_parser(subparsers: Any) -> None:
    """Adds the command to `sched-labs`; the chosen handler is in the arguments as `handler`."""
    about = "write a scheduler of your own, and run it in a guest (sched_ext)"
    parser = subparsers.add_parser("scheduler", help=about, description=about[0].upper() + about[1:])
    commands = parser.add_subparsers(required=True, metavar="new|check|run|compare|bout")

    new = commands.add_parser("new", help="lay out a working scheduler to change")
    new.add_argument("name", metavar="NAME", help="such as mine; the file is NAME.bpf.c in this folder")
    new.set_defaults(handler=_new)

    check = commands.add_parser(
        "check", help="compile it, and let a kernel verify it and run it for a moment"
    )
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--kernel", default=KERNEL, help=f"({KERNEL})")
    check.set_defaults(handler=_check)

    run = commands.add_parser(
        "run", help="run a workload under it; without FILE under the kernel's own scheduler"
    )
    run.add_argument("file", type=Path, nargs="?", metavar="FILE")
    _options(run, one_workload=True)
    run.add_argument(
        "--on-this-running-kernel",
        action="store_true",
        help="no guest: FILE rules over this machine for 10 s at most (root, sched_ext)",
    )
    run.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    run.add_argument("--plot", type=Path, metavar="FILE", help="write the timeline here (.svg, .png or .pdf)")
    run.set_defaults(handler=_run)

    compare = commands.add_parser("compare", help="several schedulers on one workload")
    compare.add_argument("files", type=Path, nargs="+", metavar="FILE")
    _options(compare, one_workload=True)
    compare.set_defaults(handler=_compare)

    bout = commands.add_parser("bout", help="all six workloads, against the kernel's own scheduler")
    bout.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="or a folder with those of a class, in folders of their own or not",
    )
    _options(bout, one_workload=False)
    bout.add_argument("--csv", type=Path, metavar="FILE", help="write every score here")
    bout.add_argument(
        "--plot", type=Path, metavar="FILE", help="write the figure of it here (.svg, .png or .pdf)"
    )
    bout.set_defaults(handler=_bout)


def _options(parser: argparse.ArgumentParser, *, one_workload: bool) -> None:
    if one_workload:
        parser.add_argument(
            "--workload", default="sleeper", metavar="W", help="(sleeper); a wrong one lists them all"
        )
    parser.add_argument("--kernel", default=KERNEL, help=f"({KERNEL})")
    parser.add_argument(
        "--timing",
        default="deterministic",
        choices=("deterministic", "vm"),
        help="virtual time (default), or real",
    )
    parser.add_argument(
        "--cpus", type=int, help="of the guest, with --timing vm (2); virtual time has one CPU"
    )
    parser.add_argument("--seed", type=int, default=1, help="draws what is due when (1)")
    parser.add_argument("--anonymous", action="store_true", help="names of threads that say nothing")


def _given(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("kernel", "timing", "cpus", "seed", "anonymous")}


def _new(options: argparse.Namespace) -> None:
    from .compile import INCLUDE
    from .starter import new

    path = new(options.name)
    print(f"{path} is a FIFO that works.  Change it, then: sched-labs scheduler run {path}")
    print(f"What it may call: {INCLUDE / 'scheduler.h'}")


def _check(options: argparse.Namespace) -> None:
    from .trial import run

    found = run(options.file, kernel=options.kernel)
    print(f"{options.file.name} compiles, and kernel {options.kernel} accepts it and ran it.")
    print(f"{len(found.data):,} decisions in {found.facts['elapsed_ms']:.0f} ms of the guest's time.")


def _run(options: argparse.Namespace) -> None:
    from .trial import run

    found = run(
        options.file,
        workload=options.workload,
        on_this_running_kernel=options.on_this_running_kernel,
        **_given(options),
    )
    print(found.provenance_line())
    for note in found.notes:
        print(f"{note.level}: {note.text}")
    print(f"\n{table_text(found.summary())}")
    print(f"\nscore on {options.workload}: {_scored(found.score, found.facts['unit'])}")
    if options.json:
        found.save(options.json)
    if options.plot:
        found.plot().save(options.plot)


def _scored(score: float, unit: str) -> str:
    """A score with its unit (contests.py), a time in one that reads well: "12.0 ms late"."""
    first, _, rest = unit.partition(" ")
    if math.isnan(score):
        return cell(score)
    return f"{cell(score, 'us')} {rest}" if first == "µs" else f"{cell(score)} {unit}"


def _print(found: Bout) -> None:
    if found.timing == "deterministic":
        shown = found.rows.drop(columns=["why", "unit", "times_better_low", "times_better_high"])
        for column in ("score", "kernels_own"):
            pairs = zip(found.rows[column], found.rows["unit"], strict=True)
            shown[column] = [_scored(score, unit) for score, unit in pairs]
    else:
        shown = found.relations()
    print(table_text(shown))
    failed = found.rows[found.rows["why"] != ""]
    for (name, why), rows in failed.groupby(["scheduler", "why"], sort=False):
        print(f"\n{name} on {', '.join(rows['workload'])}: {why}")


def _compare(options: argparse.Namespace) -> None:
    from .bouts import compare

    _print(compare(options.files, workload=options.workload, **_given(options)))


def _bout(options: argparse.Namespace) -> None:
    from ..core.spreadsheet import csv
    from ..core.store import write_text
    from .bouts import bout

    found = bout(_all_files(options.files), **_given(options))
    _print(found)
    print(f"\n{found.provenance_line()}")
    if options.csv:
        write_text(options.csv, csv(found.rows))
    if options.plot:
        found.plot().save(options.plot)
    if found.timing == "deterministic":
        print("\nHow many times better than the kernel's own scheduler (below 1: worse):\n")
        print(table_text(found.table()))


def _all_files(given: list[Path]) -> list[Path]:
    """The files, and of folders every scheduler in them."""
    found: list[Path] = []
    for path in given:
        inside = sorted(path.rglob("*.bpf.c")) if path.is_dir() else [path]
        if not inside:
            raise ParameterError(f"There is no *.bpf.c in {path}.", "Name the files, or another folder.")
        found += inside
    return found
