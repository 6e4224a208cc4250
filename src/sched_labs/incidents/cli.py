"""`sched-labs incident`: play one from terminals."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ABOUT = "something on this machine is slow: find out why, and mend it"


def add_parser(commands: Any) -> None:
    """The command `incident`."""
    parser = commands.add_parser("incident", help=ABOUT, description=ABOUT[0].upper() + ABOUT[1:])
    steps = parser.add_subparsers(required=True, metavar="WHAT")

    def add(
        name: str, about: str, handler: Callable[[argparse.Namespace], int | None]
    ) -> argparse.ArgumentParser:
        step: argparse.ArgumentParser = steps.add_parser(
            name, help=about, description=about[0].upper() + about[1:]
        )
        step.set_defaults(handler=handler)
        return step

    add("list", "the incidents there are, and how far you are", _list)
    start = add("start", "start one, and leave it running here; Ctrl-C ends it", _start)
    start.add_argument("name", nargs="?", metavar="NAME", help="such as ledger (default: one of them)")
    start.add_argument("--seed", type=int, help="the same incident for everybody with this number")
    start.add_argument("--minutes", type=int, default=45, help="how long it lasts at most, 1 to 120 (45)")
    start.add_argument("--cause", default="", help="rehearse this cause, so that it is no surprise")
    status = add("status", "the dashboard", _status)
    status.add_argument("--follow", action="store_true", help="until Ctrl-C")
    status.add_argument("--json", action="store_true", help="for other programs")
    add("causes", "what may be the cause, and what each is proved by", _causes)
    add("hint", "show its next hint", _hint)
    answer = add("answer", "name the cause, with a piece of evidence", _answer)
    answer.add_argument("cause", metavar="CAUSE", help="`sched-labs incident causes` lists them")
    answer.add_argument("--evidence", required=True, metavar="VALUE", help="what you measured, as a number")
    check = add("check", "is it mended? Measures for eight seconds", _check)
    check.epilog = "Status 0: mended; 1: not yet; 3: this machine cannot judge it now."
    add("reveal", "show the way from the symptom to the proof", _reveal)
    add("stop", "end it", _stop)
    score = add("score", "what you have played", _score)
    score.add_argument("--export", type=Path, metavar="FILE", help="write it for a teacher, as CSV")


def _list(options: argparse.Namespace) -> None:
    from . import ledger, story

    played = ledger.entries()
    for name in story.names():
        best = max((int(one.get("score", 0)) for one in played if one.get("story") == name), default=None)
        drawn = story.plan(name, 0).story
        done = "not played yet" if best is None else f"your best: {best} of 100"
        print(f"{name:<16} {drawn.title} ({done})")


def _start(options: argparse.Namespace) -> None:
    import secrets
    import sys

    from ..core.errors import ParameterError
    from . import causes, stage, story

    if not 1 <= options.minutes <= 120:
        raise ParameterError(f"An incident lasts 1 to 120 minutes, not {options.minutes}.")
    if options.seed is not None and not 0 <= options.seed < 10**9:
        raise ParameterError(f"{options.seed} is no seed.", "Give a number from 0 to 999,999,999.")
    name = story.check(options.name) if options.name else secrets.choice(story.names())
    cause = causes.find(options.cause).name if options.cause else ""
    if cause and cause not in {one.cause for one in story.plan(name, 0).story.variants}:
        raise ParameterError(f"{cause} is not behind any variant of {name}.")
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    without, why = stage.lacking(name)
    if without:
        print(
            f"This machine cannot show all of {name} ({why.splitlines()[0]}); the rest of it is drawn from."
        )
        whole = [one for one in story.names() if not story.needs(one) & set(without)]
        print(f"Whole here: {', '.join(whole)}.\n")
    plan = story.plan(name, seed, without=without, cause=cause or None)
    print(f"An invented incident. {plan.story.title}. Seed {seed}.\n\n{plan.text}")
    live = sys.stdout.isatty()

    def shown() -> None:
        if live:
            _redraw()
        elif not said:
            print("The alarm has gone off.", flush=True)
            said.append(True)

    said: list[bool] = []
    print("It runs as long as this terminal; Ctrl-C ends it. Play in a second one.", flush=True)
    stage.run(
        plan,
        without=without,
        cause=cause,
        limit_s=60.0 * options.minutes,
        say=lambda text: print(text, flush=True),
        shown=shown,
    )


def _redraw() -> None:
    from . import board, desk

    print("\033[2J\033[H" + board.text(desk.running()), flush=True)


def _status(options: argparse.Namespace) -> None:
    import json

    from . import board, desk

    if options.json:
        print(json.dumps(board.facts(desk.running()), indent=1))
        return
    if not options.follow:
        print(board.text(desk.running()))
        return
    while True:
        _redraw()
        time.sleep(1)


def _causes(options: argparse.Namespace) -> None:
    from .causes import CAUSES

    for cause in CAUSES.values():
        unit = f" ({cause.unit})" if cause.unit else ""
        print(f"{cause.name:<14} {cause.about}\n{'':<14} evidence: {cause.asks}{unit}")


def _hint(options: argparse.Namespace) -> None:
    from . import desk, ledger

    running = desk.running()
    hints = running.plan.hints
    had = int(ledger.of(running).get("hints", 0))
    if had < len(hints):
        ledger.note(running, hints=1)
    for number, text in enumerate(hints[: had + 1], 1):
        print(f"Hint {number} of {len(hints)}\n{text}\n")


def _answer(options: argparse.Namespace) -> int:
    from . import desk, judge

    verdict = judge.answer(desk.running(), options.cause, options.evidence)
    print(verdict)
    return 0 if verdict.right else 1


def _check(options: argparse.Namespace) -> int:
    from . import desk, judge

    verdict = judge.check(desk.running())
    print(verdict)
    return {True: 0, False: 1, None: 3}[verdict.right]


def _reveal(options: argparse.Namespace) -> None:
    from . import board, desk, ledger

    running = desk.running()
    ledger.note(running, revealed=True)
    print(board.revealed(running))


def _stop(options: argparse.Namespace) -> None:
    from . import desk

    desk.stop()
    print("Ended; nothing of it is left.")


def _score(options: argparse.Namespace) -> None:
    from . import ledger

    if options.export:
        ledger.export(options.export)
        print(f"Written to {options.export}")
        return
    for one in ledger.entries():
        told = ", ".join(
            word
            for word, key in (
                ("cause", "cause_at_s"),
                ("evidence", "evidence_at_s"),
                ("repair", "repaired_at_s"),
            )
            if key in one
        )
        seen = ", revealed" if one.get("revealed") else ""
        print(
            f"{one.get('story', ''):<16} seed {one.get('seed', '')!s:<8} {one.get('score', 0):>3} of 100"
            f"  {told or 'nothing yet'}; hints: {one.get('hints', 0)}{seen}"
        )
