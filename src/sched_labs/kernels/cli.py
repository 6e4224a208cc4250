"""`sched-labs kernels list | get`, and what `sched-labs run` does in guests."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import ParameterError
from ..core.progress import Progress
from ..core.store import write_text
from .jobs import JOBS
from .qemu import DEADLINE_S, TIMINGS


def add_parser(subparsers: Any) -> None:
    """Adds the command to `sched-labs`; the chosen handler is in the arguments as `handler`."""
    parser = subparsers.add_parser(
        "kernels",
        help="kernels to run an experiment in",
        description="Kernels of the distribution, for `sched-labs run --kernel`.",
    )
    commands = parser.add_subparsers(required=True, metavar="list|get")

    listing = commands.add_parser("list", help="which kernels there are")
    listing.add_argument("--refresh", action="store_true", help="ask the package archive what is new")
    listing.set_defaults(handler=_list)

    getting = commands.add_parser(
        "get", help="fetch kernels; what is on this disk already is not fetched again"
    )
    getting.add_argument(
        "kernels", nargs="*", metavar="KERNEL", help="such as 6.1 or 6.12-rt; default: the gallery"
    )
    getting.add_argument(
        "--newest", action="store_true", help="look for a newer version of what is on this disk"
    )
    getting.set_defaults(handler=_get)


def add_options(run: argparse.ArgumentParser) -> None:
    """What `sched-labs run` takes for guests; `guest()` understands it."""
    group = run.add_argument_group(
        "in other kernels, under QEMU",
        "KIND is then an experiment, module:function, or one of these jobs: "
        + "; ".join(f"{name} ({job.about})" for name, job in JOBS.items()),
    )
    group.add_argument(
        "--kernel", metavar="KERNEL,...", help="such as 6.1 or 6.1,6.12-rt; `gallery`: all of the book's"
    )
    group.add_argument("--timing", choices=TIMINGS, help="vm: KVM where it works, else emulated (default)")
    group.add_argument("--cpus", type=int, help="of the guest (2)")
    group.add_argument("--memory-mib", type=int, help="of the guest (what the job needs)")
    group.add_argument("--append", help="more for the kernel's command line, e.g. preempt=full")
    group.add_argument("--deadline-s", type=float, help=f"for one kernel ({DEADLINE_S:.0f})")


@dataclass(frozen=True)
class Wanted:
    """Which guests the command line asks for: none, for this machine."""

    kernels: list[str]
    options: dict[str, Any]

    def place(self, path: Path, kernel: str | None) -> Path:
        """The file for one of several results: with its kernel in the name."""
        return path.with_stem(f"{path.stem}-{kernel}") if len(self.kernels) > 1 else path


def guest(arguments: argparse.Namespace) -> Wanted:
    from . import catalogue

    names = (arguments.kernel or "").replace("gallery", ",".join(catalogue.gallery()))
    wanted = [name for name in names.split(",") if name]
    given = {
        name: getattr(arguments, name) for name in ("timing", "cpus", "memory_mib", "append", "deadline_s")
    }
    options = {name: value for name, value in given.items() if value is not None}
    if options and not wanted:
        option = min(options).replace("_", "-")
        raise ParameterError(f"--{option} is for a guest.", "Name its kernel too, such as --kernel 6.1.")
    return Wanted(wanted, options)


def is_job(kind: str) -> bool:
    """Whether that is something that only guests do."""
    return kind in JOBS or ":" in kind


def _list(arguments: argparse.Namespace) -> int:
    from . import catalogue

    print(f"{'kernel':<10} {'on this disk':<24} {'newest in the archive'}")
    known = False
    for entry in catalogue.entries(arguments.refresh):
        known = known or bool(entry.offered)
        print(f"{entry.name:<10} {entry.on_disk or '-':<24} {entry.offered or '-'}")
    if not known:
        print("Nobody has asked the archive yet: `sched-labs kernels list --refresh`.")
    return 0


def _get(arguments: argparse.Namespace) -> int:
    from . import catalogue, packages

    wanted = arguments.kernels or catalogue.gallery()
    with Progress("kernels", len(wanted)) as progress:
        for name in wanted:
            kernel = packages.get(
                name, newest=arguments.newest, progress=lambda text, share: progress.say(text)
            )
            progress.step(kernel.name)
            print(f"{kernel.name:<10} {kernel.version:<24} {kernel.image}")
    return 0


def run_job(job: str, parameters: Mapping[str, Any], file: Path | None, guests: Wanted) -> None:
    """Runs a job on each kernel, prints the answers, and writes each to a file of its own."""
    if not guests.kernels:
        raise ParameterError(f"{job} runs in a guest.", "Name its kernel, such as --kernel 6.1.")
    from . import runner

    for answer in runner.run_each(guests.kernels, job, parameters, **guests.options):
        print(f"{answer.kernel.name}  {answer.build}  {answer.timing}, {answer.cpus} CPU")
        for line in _lines(answer.value):
            print(f"  {line}")
        for level, text in answer.notes:
            print(f"  [{level}] {text}", file=sys.stderr)
        if file:
            write_text(guests.place(file, answer.kernel.name), json.dumps(answer.to_json(), indent=1) + "\n")


def _lines(value: Any) -> list[str]:
    """An answer for people: one line per item, long lists as their quantiles."""
    if not isinstance(value, dict):
        return [str(value)]
    lines = []
    for name, item in value.items():
        if name == "facts":  # a survey
            lines += [
                f"{key}: {fact['value']} {fact['unit']}".rstrip()
                for key, fact in item.items()
                if fact["value"] is not None
            ]
        elif isinstance(item, list) and len(item) > 16 and all(isinstance(number, int) for number in item):
            ordered = sorted(item)
            quantiles = {q: ordered[min(len(item) - 1, int(len(item) * q / 100))] for q in (50, 90, 99)}
            shown = ", ".join(f"p{q} {number}" for q, number in quantiles.items())
            lines.append(f"{name}: {len(item)} values, {shown}, greatest {ordered[-1]}")
        else:
            lines.append(f"{name}: {item}")
    return lines
