"""`sched-labs new`, `check` and `record`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..core import registry


def add_parser(commands: Any) -> None:
    """Add them to the command line."""
    new = commands.add_parser(
        "new",
        help="lay out an experiment, a chapter or a lab of your own",
        description="Lay out an experiment, a chapter or a lab that works at once: in the course or the "
        "checkout that this folder lies in, or as the first part of a new course.",
    )
    kinds = new.add_subparsers(required=True, metavar="WHAT")
    for what, name in (
        ("experiment", "such as naps, or naps.sweep to name its function too"),
        ("chapter", "such as sleeping"),
        ("lab", "such as late_naps"),
    ):
        one = kinds.add_parser(what, help=f"a new {what}", description=f"Lay out a new {what}.")
        one.add_argument("name", help=name)
        one.set_defaults(handler=_new, what=what, chapter=None)
        if what == "experiment":
            one.add_argument("--chapter", help="put it there (default: the only one, or a new one)")
    check = commands.add_parser(
        "check",
        help="hold an experiment to its contract",
        description="Hold an experiment to its contract: its recorded run, and a tiny one made now.",
    )
    check.add_argument("experiments", nargs="+", metavar="EXPERIMENT", help="such as naps.sweep")
    check.set_defaults(handler=_check)
    record = commands.add_parser(
        "record",
        help="measure an experiment, and keep the run beside it",
        description="Measure experiments as their chapters do, and keep each run beside its experiment: "
        "readers see it pale behind their own.",
    )
    record.add_argument("experiments", nargs="+", metavar="EXPERIMENT", help="such as naps.sweep")
    record.add_argument("--profile", choices=("tiny", "quick", "full"), default="quick")
    record.add_argument(
        "--machine", default="", metavar="WORD", help="such as intel: beside the run that is there"
    )
    record.set_defaults(handler=_record)


def _new(options: argparse.Namespace) -> None:
    from . import new, project

    here = Path.cwd()
    given = {"chapter": options.chapter} if options.what == "experiment" else {}
    for path in getattr(new, options.what)(options.name, here, **given):
        print(path.relative_to(here) if path.is_relative_to(here) else path)
    home = project.find(here)
    assert home
    print("\nNext:")
    if home.package not in registry.roots():
        print(f"  pip install -e {home.folder}    once, with the Python of sched-labs")
    if options.what == "experiment":
        name = options.name.partition(".")[0]
        print(
            f"  sched-labs run {name} --profile tiny\n  sched-labs check {name}\n  sched-labs record {name}"
        )
    elif options.what == "lab":
        print(f"  sched-labs lab start {options.name.replace('_', '-')}\n  lead to its sheet from a chapter")
    print("  make book    in the checkout of sched-labs, for its pages")


def _check(options: argparse.Namespace) -> None:
    from ..testing import check_experiment

    for name in options.experiments:
        check_experiment(name)
        print(f"{registry.entry(name).kind} keeps its contract.")


def _record(options: argparse.Namespace) -> None:
    from ..run.record import record

    record(options.experiments, options.profile, options.machine)
