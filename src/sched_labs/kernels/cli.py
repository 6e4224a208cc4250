"""`sched-labs kernels list | get | run`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..errors import ParameterError
from ..progress import Progress
from . import catalogue, packages, runner
from .jobs import JOBS


def add_parser(subparsers: Any) -> None:
    """Adds the command to `sched-labs`; the chosen handler is in the arguments as `handler`."""
    parser = subparsers.add_parser(
        "kernels",
        help="the same experiment on other kernels",
        description="Boot kernels of the distribution under QEMU and run jobs or experiments in them.",
    )
    commands = parser.add_subparsers(required=True, metavar="list|get|run")

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

    # What stands before `--` is ours, what follows is the job's whatever it looks like: see _run().
    running = commands.add_parser(
        "run",
        help="run a job or an experiment on kernels, one after the other",
        add_help=False,
        prefix_chars="\0",
    )
    running.add_argument("words", nargs=argparse.REMAINDER)
    running.set_defaults(handler=_run)


def _run_parser() -> argparse.ArgumentParser:
    """What stands before the `--`."""
    parser = argparse.ArgumentParser(
        prog="sched-labs kernels run",
        usage="sched-labs kernels run KERNEL ... [options] -- JOB|EXPERIMENT [--parameter value ...]",
        epilog="Jobs: " + "; ".join(f"{name} ({job.about})" for name, job in JOBS.items()) + ".",
    )
    parser.add_argument("kernels", nargs="+", metavar="KERNEL", help="'gallery' stands for all of the book's")
    parser.add_argument(
        "--timing",
        choices=runner.TIMINGS,
        default="vm",
        help="vm: KVM where it works, else emulated (default)",
    )
    parser.add_argument("--cpus", type=int, help="of the guest, default 2")
    parser.add_argument("--memory-mib", type=int, help="of the guest, default: what the job needs")
    parser.add_argument("--append", default="", help="more for the kernel's command line, e.g. preempt=full")
    parser.add_argument("--deadline-s", type=float, default=runner.DEADLINE_S, help="for one kernel")
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")
    return parser


def _list(arguments: argparse.Namespace) -> int:
    print(f"{'kernel':<10} {'on this disk':<24} {'newest in the archive'}")
    known = False
    for entry in catalogue.entries(arguments.refresh):
        known = known or bool(entry.offered)
        print(f"{entry.name:<10} {entry.on_disk or '-':<24} {entry.offered or '-'}")
    if not known:
        print("Nobody has asked the archive yet: `sched-labs kernels list --refresh`.")
    return 0


def _get(arguments: argparse.Namespace) -> int:
    wanted = arguments.kernels or catalogue.gallery()
    with Progress("kernels", len(wanted)) as progress:
        for name in wanted:
            kernel = packages.get(
                name, newest=arguments.newest, progress=lambda text, share: progress.say(text)
            )
            progress.step(kernel.name)
            print(f"{kernel.name:<10} {kernel.version:<24} {kernel.image}")
    return 0


def parameters(words: list[str]) -> dict[str, Any]:
    """['--hogs', '3', '--quiet'] -> {'hogs': 3, 'quiet': True}: values are JSON where they look like it."""
    found: dict[str, Any] = {}
    left = list(words)
    while left:
        option = left.pop(0)
        if not option.startswith("--"):
            raise ParameterError(f"{option!r} is no parameter.", "Parameters look like --hogs 3 or --hogs=3.")
        name, equals, value = option[2:].partition("=")
        if not equals:
            value = left.pop(0) if left and not left[0].startswith("--") else "true"
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            found[name.replace("-", "_")] = value
    return found


def _run(command: argparse.Namespace) -> int:
    parser = _run_parser()
    words: list[str] = command.words
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    if not words[cut + 1 :]:
        parser.error("say what to run, after --")
    job, *rest = words[cut + 1 :]
    wanted = [
        n for name in arguments.kernels for n in (catalogue.gallery() if name == "gallery" else (name,))
    ]
    options = {
        name: getattr(arguments, name) for name in ("timing", "cpus", "memory_mib", "append", "deadline_s")
    }
    if job in JOBS or ":" in job:
        for answer in runner.run_each(wanted, job, parameters(rest), **options):
            _show(answer, arguments.json)
    else:
        _run_experiment(job, wanted, parameters(rest), options)
    return 0


def _show(answer: runner.Answer, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer.to_json(), indent=1))
        return
    print(f"{answer.kernel.name}  {answer.build}  {answer.timing}, {answer.cpus} CPU")
    for line in _lines(answer.value):
        print(f"  {line}")
    for level, text in answer.notes:
        print(f"  [{level}] {text}", file=sys.stderr)


def _run_experiment(name: str, wanted: list[str], given: dict[str, Any], options: dict[str, Any]) -> None:
    """An experiment on each kernel; every result is kept like any other."""
    from .. import experiments
    from .experiment import run_experiment

    try:
        experiments.find(name)
    except ParameterError as error:
        raise ParameterError(error.what, f"{error.remedy} And these jobs: {', '.join(JOBS)}.") from None
    with Progress(name, len(wanted)) as progress:
        for kernel in wanted:

            def say(text: str, kernel: str = kernel) -> None:
                progress.say(f"{kernel}: {text}")

            result = run_experiment(name, kernel, given, say=say, **options)
            progress.step(kernel)
            kept = result.save()
            print(f"{kernel}  {result.provenance_line()}")
            print(result.summary().to_string(index=False))
            for note in result.notes:
                print(f"  [{note.level}] {note.text}", file=sys.stderr)
            print(f"  kept in {kept}")


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
