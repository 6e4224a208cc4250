"""The experiments, labs and classes of the book from a terminal."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from threading import current_thread, main_thread
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from .core import jsontext, registry
from .core.errors import ParameterError, ResultError, SchedLabError
from .core.store import write_text
from .core.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when it did what was asked, 2 with a message when not, 130 after Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a locale without µ, a file name that is no text
            stream.reconfigure(errors="backslashreplace")
    with _ended_in_order():
        return _do(arguments)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """`kill`, `timeout` and a closed terminal end a command as Ctrl-C does: what was measured is kept."""
    mine = (signal.SIGTERM, signal.SIGHUP) if current_thread() is main_thread() else ()
    changed = [one for one in mine if signal.getsignal(one) == signal.SIG_DFL]  # nohup has them ignored
    for one in changed:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one in changed:
            signal.signal(one, signal.SIG_DFL)


def _do(arguments: Sequence[str] | None) -> int:
    try:
        options = _parser().parse_args(arguments)
        status = int(options.handler(options) or 0)
        sys.stdout.flush()
        return status
    except SchedLabError as error:
        print(f"sched-labs: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sched-labs: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough: `sched-labs doctor | head`
        _close_output()
        return 0
    except OSError as error:  # such as a full disk behind our output
        print(f"sched-labs: {error.filename or 'the system'}: {error.strerror or error}", file=sys.stderr)
        _close_output()
        return 2
    except MemoryError:
        print("sched-labs: there is not enough memory.", file=sys.stderr)
        return 2


def _close_output() -> None:
    """What has not been written by now never is: Python tries once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sched-labs", description=__doc__, epilog="`sched-labs COMMAND --help` says more of each."
    )
    parser.add_argument("--version", action="version", version=f"sched-labs {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_experiments(commands)
    _add_labs(commands)
    _add_classroom(commands)
    url = _add(commands, "url", "where the book's virtual machine serves it", _url)
    url.add_argument(
        "--forwarded", type=int, metavar="PORT", help="its host's port; makes the key if need be"
    )

    from .authoring import cli as authoring
    from .fleet import cli as fleet
    from .incidents import cli as incidents
    from .kernels import cli as kernels
    from .schedulers import cli as schedulers
    from .watching import cli as watching

    watching.add_parser(commands)
    incidents.add_parser(commands, wall=_wall, tell=_tell_wall)
    kernels.add_parser(commands)
    schedulers.add_parser(commands)
    fleet.add_parser(commands, _parameters)
    authoring.add_parser(commands)
    return parser


def _add(
    commands: Any, name: str, about: str, handler: Callable[[argparse.Namespace], int | None]
) -> argparse.ArgumentParser:
    """A command that says the same of itself in its own help as in the list of them all."""
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:]
    )
    command.set_defaults(handler=handler)
    return command


def _add_experiments(commands: Any) -> None:
    from .kernels import cli as kernels

    doctor = _add(commands, "doctor", "what this machine is, and what it can measure", _doctor)
    doctor.add_argument("--json", action="store_true", help="everything, for other programs")
    doctor.add_argument("--long", action="store_true", help="every fact of the survey")
    doctor.add_argument("--for", dest="purpose", choices=("workshop",), help="one line: is it ready?")

    _add(commands, "list", "the experiments there are", _list)

    run = _add(commands, "run", "run an experiment on this machine, or in other kernels", _run)
    run.add_argument("experiment", metavar="KIND", help="such as warmup or context_switch.matrix")
    run.add_argument("--profile", choices=("tiny", "quick", "full"), help="how long and how fine (quick)")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter, as JSON")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    _plot(run)
    kernels.add_options(run)

    show = _add(commands, "show", "a saved result", _show)
    show.add_argument("file", type=Path, metavar="FILE", help="what `run --json` wrote, or one that was kept")
    _plot(show)

    compare = _add(commands, "compare", "several saved results of one kind on one axis", _compare)
    compare.add_argument("files", type=Path, nargs="+", metavar="FILE", help="the results")
    compare.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FIGURE", help="a .svg, .png or .pdf file"
    )

    pale = _add(commands, "recorded", "whose recorded runs your figures show pale", _recorded)
    pale.add_argument("machine", nargs="?", metavar="MACHINE", help="from now on those of this one")

    clean = _add(commands, "clean", "take away what a crash left behind", _clean)
    clean.add_argument("--all", action="store_true", help="also end what is being measured now")


def _plot(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--plot", type=Path, metavar="FILE", help="write the figure here (.svg, .png or .pdf)"
    )


def _add_labs(commands: Any) -> None:
    lab = commands.add_parser("lab", help="the hands-on labs", description="The hands-on labs")
    steps = lab.add_subparsers(required=True, metavar="WHAT")
    _add(steps, "list", "the labs there are", _lab_list)
    start = _add(steps, "start", "lay out its sheet and its starter", _lab_start)
    hint = _add(steps, "hint", "show its next hint", _lab_hint)
    check = _add(steps, "check", "check your work on it, on this machine", _lab_check)
    check.epilog = "Status 0: passed; 1: not yet; 2: not checked; 3: this machine cannot judge it now."
    reveal = _add(steps, "reveal", "show its solution", _lab_reveal)
    for step in (start, hint, check, reveal):
        step.add_argument("lab", help="its number or a part of its name")
    check.add_argument("--seed", type=int, help="draw what an earlier check drew")

    progress = _add(commands, "progress", "how far you have come with the labs", _progress)
    progress.add_argument("--export", type=Path, metavar="FILE", help="write it for a teacher, as CSV")


def _add_classroom(commands: Any) -> None:
    share = _add(
        commands, "share", "what your machine measured, as one small file for the class board", _share
    )
    share.add_argument("--out", type=Path, metavar="FILE", help="where to write it (default: this folder)")
    share.add_argument("--to", metavar="ADDRESS", help="send it to the instructor's collector instead")
    share.add_argument("--code", default="", help="the code on the instructor's screen")
    share.add_argument("--yes", action="store_true", help="without the question")

    give = _add(
        commands, "contribute", "runs that the book lacks, for a pull request, as one file", _contribute
    )
    give.add_argument("kinds", nargs="*", metavar="KIND", help="such as smt.sharing (all that are wanted)")
    give.add_argument("-o", "--output", type=Path, default="contribution.json", metavar="FILE",
                      help="(contribution.json)")  # fmt: skip
    give.add_argument("--yes", action="store_true", help="without the question")
    give.add_argument(
        "--take", type=Path, metavar="FILE", help="in a checkout: lay its runs beside their experiments"
    )
    give.add_argument("--machine", default="", metavar="WORD",
                      help="with --take: lay them beside the book's own, as this machine's")  # fmt: skip

    board = _add(commands, "class", "the cards of a whole room on one page", _class)
    board.add_argument("folder", type=Path, help="where the cards are")
    board.add_argument("-o", "--output", type=Path, default="class.html", metavar="PAGE", help="(class.html)")
    board.add_argument("--mine", metavar="NAME", help="the card in the folder that is lit up")

    demo = _add(commands, "demo", "an experiment for a projector, driven by single keys", _demo)
    demo.add_argument("experiment", help="such as runqlat.histogram")
    demo.add_argument(
        "--class", dest="cards", type=Path, metavar="FOLDER", help="the room's cards, to show too"
    )
    demo.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: a free one)")

    collect = _add(commands, "collect", "take cards over the room's network (for instructors)", _collect)
    collect.add_argument("folder", type=Path, help="where to put the cards")
    collect.add_argument("--address", default="0.0.0.0", help="listen here (default: everywhere)")
    collect.add_argument("--port", type=int, default=8890, help="on this port (8890)")


def _doctor(options: argparse.Namespace) -> None:
    from .core.lazy import postpone

    postpone("pandas")  # the experiments' modules name it, and saying what they measure with needs none of it
    from .reader.doctor import doctor

    found = doctor()
    if options.purpose:
        print(found.line())
        return
    print(
        json.dumps(found.to_json(), indent=1, default=str) if options.json else found.text(long=options.long)
    )


def _list(options: argparse.Namespace) -> None:
    for entry in registry.entries():
        needs = f" (needs: {', '.join(entry.needs)})" if entry.needs else ""
        print(f"{entry.kind:<24} {entry.about}{needs}")
    for line in registry.problems():
        print(line, file=sys.stderr)


def _url(options: argparse.Namespace) -> None:
    from .server import serve

    print(serve.address(options.forwarded))


def _lab_list(options: argparse.Namespace) -> None:
    from . import labs

    for lab in labs.all_labs():
        print(f"{lab.name:<28} {lab.title}")


def _lab_start(options: argparse.Namespace) -> None:
    from . import labs

    lab = labs.find(options.lab)
    folder = labs.start(lab)
    print(lab.sheet)
    print(f"Your files are in {folder}\nWhen you think it works: sched-labs lab check {lab.name}")


def _lab_check(options: argparse.Namespace) -> int:
    from . import labs

    report = labs.check(labs.find(options.lab), seed=options.seed)
    print(report)
    return {True: 0, False: 1, None: 3}[report.passed]


def _lab_hint(options: argparse.Namespace) -> None:
    from . import labs

    lab = labs.find(options.lab)
    shown = labs.hints(lab)
    for number, text in enumerate(shown, 1):
        print(f"Hint {number} of {len(lab.hints)}\n{text}\n")


def _lab_reveal(options: argparse.Namespace) -> None:
    from . import labs

    for name, text in labs.reveal(labs.find(options.lab)).items():
        print(f"---- {name} ----\n{text}")


def _progress(options: argparse.Namespace) -> None:
    from . import labs

    if options.export:
        labs.export(options.export)
        print(f"Written to {options.export}")
    else:
        print(labs.progress().drop(columns=["title", "seed"]).to_string(index=False))


def _share(options: argparse.Namespace) -> int:
    from .classroom import card, collector

    one = card.make()
    print(card.text(one), end="")
    target = options.to or str(options.out or Path.cwd() / card.name(one))
    if not (options.yes or _agreed(target)):
        return 1
    if options.to:
        print(f"Sent; it is called {collector.send(one, options.to, options.code)} there.")
    else:
        write_text(Path(target), card.text(one))
        print(f"Written to {target}")
    return 0


def _agreed(target: str) -> bool:
    """Whether the reader lets what was shown go there."""
    print(f"This, and nothing else, goes to {target}. Go on? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("Nothing was written or sent.")
    return False


def _contribute(options: argparse.Namespace) -> int:
    from .authoring import contribute
    from .core import result
    from .run.record import wanted

    if options.take:
        for path in contribute.take(options.take, options.machine):
            print(f"Written to {path}")
        return 0
    lacks, runs = wanted(), []
    for kind in [registry.entry(kind).kind for kind in options.kinds] or lacks:
        run = result.latest(kind)
        wrong = contribute.objections(run) if run else [f"No run of it yet: sched-labs run {kind}"]
        if run and not wrong:
            runs.append(run)
        print(f"{kind}: {' '.join(wrong) or 'it is wanted.'}")
        for text in lacks.get(kind, []) if wrong else []:
            print(f"    The book's own run: {text}")
    if not runs:
        raise ResultError(
            "No run of this machine is one that the book lacks.", "Its own runs say above what they lack."
        )
    for run in runs:
        print(f"{contribute.shown(run)}\n{run.summary().to_string(index=False)}")
    if not (options.yes or _agreed(str(options.output))):
        return 1
    write_text(options.output, contribute.text(runs))
    print(f"Written to {options.output}. In a checkout: sched-labs contribute --take {options.output}")
    return 0


def _class(options: argparse.Namespace) -> None:
    from .classroom import board

    cards, refused = board.read(options.folder)
    for name, why in refused.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    if options.mine and options.mine not in cards:
        raise ParameterError(f"There is no card {options.mine} in {options.folder}.", "Name a file of it.")
    write_text(options.output, board.page(cards, refused, options.mine))
    print(f"{board.counted(cards)}: {options.output}")


def _demo(options: argparse.Namespace) -> None:
    from .classroom import demo

    demo.serve(options.experiment, port=options.port, cards=options.cards)


def _collect(options: argparse.Namespace) -> None:
    from .classroom import collector

    def arrived(count: int) -> None:
        print(f"\rcards: {count}", end="", flush=True)

    with collector.Collector(options.folder, options.address, options.port, arrived=arrived) as server:
        port = server.server_address[1]
        print(
            f"Collecting cards in {options.folder} until Ctrl-C.  On every student's machine:\n\n"
            f"  sched-labs share --to ADDRESS-OF-THIS-MACHINE:{port} --code {server.code}\n\n"
            "Whoever is in this network can reach this port; it takes cards and nothing else.\n",
            flush=True,
        )
        server.serve_forever()


def _wall(options: argparse.Namespace) -> None:
    from .classroom.wall import Wall
    from .incidents import story

    story.of_class(options.code)
    with Wall(
        options.address, options.port, options.code, lambda said: print(f"\r{said}", end="", flush=True)
    ) as server:
        print(
            "A wall until Ctrl-C.  On every student's machine:\n\n"
            f"  sched-labs incident start --class {options.code} "
            f"--to ADDRESS-OF-THIS-MACHINE:{server.server_address[1]}\n\n"
            "Whoever is in this network can reach this port; it counts players and nothing else.\n\n"
            f"{server.text()}",
            end="",
            flush=True,
        )
        server.serve_forever()


def _tell_wall(to: str, code: str, player: str, entry: dict[str, Any]) -> None:
    from .classroom import wall

    wall.tell(to, code, player, entry)


def _parameters(words: list[str]) -> dict[str, Any]:
    """["trials=5", "between=threads"] -> {"trials": 5, "between": "threads"}: JSON where it is, else text."""
    found = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ParameterError(f"{word!r} sets nothing.", "Write --set name=value, such as --set trials=5.")
        try:
            found[name] = jsontext.parse(text)
        except ValueError:
            found[name] = text
    return found


def _check(parameters: dict[str, Any], kinds: dict[str, Any]) -> None:
    """Refuse what JSON gave another type than the experiment takes: it was typed by a person."""
    for name, value in parameters.items():
        if name in ("profile", "kernel", "timing"):
            raise ParameterError(f"{name} is no parameter of the experiment.", f"Write --{name} {value}.")
        if name in kinds and not _fits(value, kinds[name]):
            raise ParameterError(
                f"{name} does not take {value!r}.",
                "Write a number as 5, a list as '[4096, 8192]' or '[\"random\"]', in quotes for the shell.",
            )


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if get_origin(kind) in (Sequence, list):
        return isinstance(value, list) and all(_fits(one, get_args(kind)[0]) for one in value)
    if kind is float:
        kind = (int, float)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _run(options: argparse.Namespace) -> int:
    from .kernels import cli as kernels

    parameters, guest = _parameters(options.set), kernels.guest(options)
    if kernels.is_job(options.experiment):
        if options.profile or options.plot:
            raise ParameterError(
                f"{options.experiment} is a job: it has no profile and no figure.",
                "Leave --profile and --plot out.",
            )
        kernels.run_job(options.experiment, parameters, options.json, guest)
        return 0
    return _run_experiment(options, parameters, guest)


def _run_experiment(options: argparse.Namespace, parameters: dict[str, Any], guest: Any) -> int:
    """On this machine, or in one kernel after the other."""
    from .kernels.experiment import run_experiment

    experiment, stopped = registry.find(options.experiment), False
    _check(parameters, get_type_hints(experiment.function))
    if options.profile:
        parameters["profile"] = options.profile
    for kernel in guest.kernels or [None]:
        if kernel is None:
            result = experiment(**parameters)
        else:
            result = run_experiment(experiment.name, kernel, parameters, **guest.options)
            result.save()
        if options.json:
            result.save(guest.place(options.json, kernel))
        _print(result, options.plot and guest.place(options.plot, kernel))
        stopped |= result.interrupted
    return 130 if stopped else 0


def _show(options: argparse.Namespace) -> None:
    from .core.result import load

    with _of_a_file():
        _print(load(options.file), options.plot)


def _compare(options: argparse.Namespace) -> None:
    from .core.result import load
    from .draw.compare import compare

    with _of_a_file():
        figure = compare(*(load(file) for file in options.files))
    figure.save(options.output)
    print(figure.caption)


@contextmanager
def _of_a_file() -> Iterator[None]:
    """A file may say of itself what it is and yet lack what its kind has: somebody has changed it."""
    try:
        yield
    except SchedLabError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ResultError(
            f"This result is not as its kind is: {type(error).__name__}: {error!s:.200}.",
            "Measure again, or find another copy.",
        ) from error


def _recorded(options: argparse.Namespace) -> None:
    from .reader import pale

    if options.machine:
        pale.choose(options.machine)
    chosen = pale.chosen()
    for word, line in pale.machines().items():
        print(f"{'*' if word == chosen else ' '} {word:<8} {line}")


def _clean(options: argparse.Namespace) -> None:
    from .reader.cleanup import clean

    for sentence in clean(everything=options.all) or ["Nothing was left behind."]:
        print(sentence)


def _print(result: Any, plot: Path | None) -> None:
    from .core.tables import table_text

    print(f"{result.kind}: {len(result.data):,} observations in {result.duration_s:.1f} s")
    print(result.provenance_line())
    for note in result.notes:
        print(f"{note.level}: {note.text}")
    print()
    print(table_text(result.summary()))
    if plot:
        result.plot().save(plot)
    if result.path:
        print(f"\nKept in {result.path}")
