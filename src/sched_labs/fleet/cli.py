"""`sched-labs fleet`: the same experiment on many machines."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ParameterError, SchedLabError

if TYPE_CHECKING:
    from .cluster import Cluster

ABOUT = "the same experiment on many machines: a room, a cluster, a cloud (Dask)"
_EVERY = re.compile(r"(\d+(?:\.\d+)?)(s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def add_parser(commands: Any, parameters: Callable[[list[str]], dict[str, Any]]) -> None:
    """The command `fleet`.  `parameters` reads NAME=VALUE words."""
    parser = commands.add_parser("fleet", help=ABOUT, description=ABOUT[0].upper() + ABOUT[1:])
    steps = parser.add_subparsers(required=True, metavar="WHAT")

    def add(name: str, about: str, handler: Callable[[argparse.Namespace], int | None]) -> Any:
        step = steps.add_parser(name, help=about, description=about[0].upper() + about[1:])
        step.set_defaults(handler=handler, read=parameters)
        return step

    run = add("run", "run experiments on every machine, one at a time on each", _run)
    run.add_argument("kinds", nargs="+", metavar="KIND", help="such as runqlat.histogram")
    run.add_argument("--profile", choices=("tiny", "quick", "full"), help="how long and how fine (quick)")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter, as JSON")
    run.add_argument("--every", metavar="TIME", help="again and again, such as 1h or 30min, until Ctrl-C")
    run.add_argument("--missing", action="store_true", help="only the machines that the last round lacks")
    run.add_argument(
        "--machines", type=int, default=0, metavar="N", help="so many are to come: half an hour's patience"
    )
    run.add_argument("--wait", type=float, default=600, metavar="SECONDS", help="for a busy machine (600)")
    watch = add("watch", "watch one control group on every machine", _watch)
    watch.add_argument("--cgroup", required=True, metavar="PATH", help="as /proc/PID/cgroup has it")
    watch.add_argument("--seconds", type=float, default=10, help="how long (10)")
    doctor = add("doctor", "one line for each machine: what it is, and what it lacks", _doctor)
    doctor.add_argument("kind", nargs="?", default="", metavar="KIND", help="with what it would measure this")
    for step in (run, watch, doctor):
        _connection(step)
    for step in (run, watch):
        step.add_argument(
            "-o", "--output", type=Path, default="fleet", metavar="FOLDER", help="where results go (fleet)"
        )
    report = add("report", "what a folder of results says, as one page and as Parquet", _report)
    report.add_argument("folder", type=Path, metavar="FOLDER", help="what `fleet run` wrote")
    report.add_argument("-o", "--output", type=Path, metavar="PAGE", help="(FOLDER/report.html)")
    report.add_argument("--by", metavar="TRAIT", help="group the machines by it, such as kernel or model")


def _connection(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "--scheduler", metavar="ADDRESS", help="of Dask, such as tcp://192.0.2.7:8786 (this machine alone)"
    )
    for name, about in (("ca", "the authority's"), ("cert", "your"), ("key", "your key's")):
        step.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"{about} PEM file, for tls://")
    step.add_argument(
        "--install",
        action="store_true",
        help="bring this sched-labs to the workers first, which restarts them with whatever they do",
    )


def _connect(options: argparse.Namespace) -> AbstractContextManager[Cluster]:
    from .cluster import connect, security

    return connect(options.scheduler, security(options.tls_ca, options.tls_cert, options.tls_key))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _begun(cluster: Cluster, options: argparse.Namespace) -> None:
    if cluster.dashboard:
        _say(f"Dask's dashboard: {cluster.dashboard}")
    if options.install:
        _say("Bringing sched-labs to the workers.")
        cluster.install()


def _run(options: argparse.Namespace) -> None:
    from ..core import registry
    from . import engine

    kinds = [registry.entry(kind).kind for kind in options.kinds]
    parameters, every = options.read(options.set), _seconds(options.every)
    if options.profile:
        parameters["profile"] = options.profile
    with _connect(options) as cluster:
        _begun(cluster, options)
        for turn in itertools.count():
            began = time.monotonic()
            for kind in kinds:
                try:
                    one = engine.run(
                        kind, cluster, options.output,
                        missing=options.missing, machines=options.machines, wait_s=options.wait, tell=_say,
                        **parameters,
                    )  # fmt: skip
                except SchedLabError as error:
                    if turn == 0:  # whoever started it is there to mend it
                        raise
                    _say(f"{kind}: {error.what} The next round is begun all the same.")
                else:
                    _summed(kind, one)
            if not every:
                break
            time.sleep(max(0.0, began + every - time.monotonic()))
    print(f"Report: sched-labs fleet report {options.output}")


def _watch(options: argparse.Namespace) -> None:
    from . import engine

    with _connect(options) as cluster:
        _begun(cluster, options)
        one = engine.watch(options.cgroup, cluster, options.output, seconds=options.seconds, tell=_say)
    _summed("own_program.watch", one)


def _summed(kind: str, one: Any) -> None:
    missing, count = one.missing(), len(one.rows())
    print(f"{kind}: {count} machine{'' if count == 1 else 's'}, {len(missing)} missing, in {one.folder}")
    for machine, (why, reason) in missing.items():
        print(f"  {machine[:8]}  {why}: {reason}")


def _doctor(options: argparse.Namespace) -> None:
    from . import engine

    with _connect(options) as cluster:
        _begun(cluster, options)
        found = engine.doctor(cluster, options.kind, tell=_say)
    for machine, said in sorted(found.answers.items()):
        print(_line(machine, said))
    for machine, (why, reason) in found.reasons.items():
        print(f"{machine[:8]}  {why}: {reason}")


def _line(machine: str, said: dict[str, Any]) -> str:
    facts = said["facts"]
    parts = [
        f"Linux {facts.get('kernel') or '?'}",
        str(facts.get("scheduler") or "?"),
        f"CPUs {facts.get('cpus_allowed') or '?'} of {facts.get('cpus') or '?'}",
        str(facts.get("model") or facts.get("hypervisor") or ""),
        said["instrument"],
        "measuring now" if said["busy"] else "",
        f"shared {' and '.join(said['shared'])}" if said["shared"] else "",
        f"without: {'; '.join(said['lacks'])}" if said["lacks"] else "",
    ]
    return f"{machine[:8]}  " + ", ".join(part for part in parts if part)


def _report(options: argparse.Namespace) -> None:
    from . import report

    page = report.write(options.folder, options.output, by=options.by)
    print(f"{page.sentence}\n{page.path}\n{page.parquet}")


def _seconds(text: str | None) -> float:
    """Seconds of "1h"; 0 without a text.  Raises ParameterError for what is no time."""
    if not text:
        return 0.0
    match = _EVERY.fullmatch(text)
    if not match or float(match[1]) * _SECONDS[match[2]] < 1:
        raise ParameterError(f"{text!r:.40} is no time between rounds.", "Write it as 90s, 30min, 1h or 1d.")
    return float(match[1]) * _SECONDS[match[2]]
