"""`sched-labs incident`: play one from terminals."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ABOUT = "something on this machine is slow: find out why, and mend it"


Handler = Callable[[argparse.Namespace], int | None]


def add_parser(commands: Any, wall: Handler, tell: Callable[[str, str, str, dict[str, Any]], None]) -> None:
    """The command `incident`.

    wall   shows how far a class is
    tell   says to one how far a player is: its address and code, the player, what is kept
    """
    parser = commands.add_parser("incident", help=ABOUT, description=ABOUT[0].upper() + ABOUT[1:])
    steps = parser.add_subparsers(required=True, metavar="WHAT")

    def add(name: str, about: str, handler: Handler) -> argparse.ArgumentParser:
        step: argparse.ArgumentParser = steps.add_parser(
            name, help=about, description=about[0].upper() + about[1:]
        )
        step.set_defaults(handler=handler, tell=tell)
        return step

    add("list", "the incidents there are, and how far you are", _list)
    start = add("start", "start one, and leave it running here; Ctrl-C ends it", _start)
    start.add_argument("name", nargs="?", metavar="NAME", help="such as ledger (default: one of them)")
    start.add_argument("--seed", type=int, help="the same incident for everybody with this number")
    start.add_argument("--minutes", type=int, default=45, help="how long it lasts at most, 1 to 120 (45)")
    start.add_argument("--cause", default="", help="rehearse this cause, so that it is no surprise")
    start.add_argument(
        "--class", dest="code", metavar="CODE", help="the incident that all with this code have"
    )
    start.add_argument(
        "--to",
        metavar="ADDRESS",
        help="tell this wall how far you are (no name, no score), as 192.0.2.7:8891",
    )
    status = add("status", "the dashboard", _status)
    status.add_argument("--follow", action="store_true", help="until Ctrl-C")
    status.add_argument("--json", action="store_true", help="for other programs")
    add("story", "tell its story once more", _story)
    add("causes", "what may be the cause, and what each is proved by", _causes)
    add("hint", "show its next hint", _hint)
    answer = add("answer", "name the cause, with a piece of evidence", _answer)
    answer.add_argument("cause", metavar="CAUSE", help="`sched-labs incident causes` lists them")
    answer.add_argument("--evidence", required=True, metavar="VALUE", help="what you measured, as a number")
    check = add("check", "is it mended? Measures for eight seconds", _check)
    check.epilog = "Status 0: mended; 1: not yet; 3: this machine cannot judge it now."
    add("reveal", "show the way from the symptom to the proof", _reveal)
    add("stop", "end it", _stop)
    board = add("wall", "show how many of a class have found it, until Ctrl-C", wall)
    board.add_argument("code", metavar="CODE", help="what the class names with --class")
    board.add_argument("--address", default="0.0.0.0", help="on which the wall listens (all)")
    board.add_argument("--port", type=int, default=8891, help="on which the wall listens (8891)")
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
    import random
    import secrets
    import sys

    from ..core.errors import ParameterError
    from . import causes, ledger, stage, story

    if not 1 <= options.minutes <= 120:
        raise ParameterError(f"An incident lasts 1 to 120 minutes, not {options.minutes}.")
    if options.seed is not None and not 0 <= options.seed < 10**9:
        raise ParameterError(f"{options.seed} is no seed.", "Give a number from 0 to 999,999,999.")
    if options.code and (options.name or options.cause or options.seed is not None):
        raise ParameterError("A class has one incident for all of it.", "Leave out NAME, --seed and --cause.")
    if options.to and not options.code:
        raise ParameterError("A wall is a class's.", "Name its code, too: --class CODE.")
    cause = causes.find(options.cause).name if options.cause else ""
    able = story.names(cause)
    those = able or story.names()

    def drawn(seed: int) -> str:
        return random.Random(seed).choice(those)

    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    if options.seed is None and not options.name:
        # One that was played least often; by its seed alone it starts once more all the same.
        played = [str(one["story"]) for one in ledger.entries()]
        while played.count(drawn(seed)) > min(map(played.count, those)):
            seed = secrets.randbelow(1_000_000)
    name = story.check(options.name) if options.name else drawn(seed)
    if name not in able:
        raise ParameterError(
            f"{cause} is not behind any variant of {name}.",
            f"It is behind one of: {', '.join(able)}." if able else "Nor is it behind any other incident.",
        )
    if options.code:
        name, seed = story.of_class(options.code)
    without, why = stage.lacking(name)
    if options.code:
        without = story.NEEDS  # on every machine the same: nothing that some of them lack
    elif without:
        print(
            f"This machine cannot show all of {name} ({why.splitlines()[0]}); the rest of it is drawn from."
        )
        lost = {one.cause for one in story.plan(name, 0).story.variants if set(one.needs) & set(without)}
        if cause in lost:
            raise ParameterError(f"This machine cannot show {cause}.", "Leave out --cause.")
        whole = [one for one in story.names() if not story.needs(one) & set(without)]
        print(f"Whole here: {', '.join(whole)}.\n")
    plan = story.plan(name, seed, without=without, cause=cause or None)
    room = None
    if options.to:
        room = {"to": options.to, "code": options.code, "player": secrets.token_hex(8)}
        _tell(options, room, {})
    live = sys.stdout.isatty()

    def shown() -> None:
        if live:
            _redraw()
        elif not said:
            print("The alarm has gone off.", flush=True)
            said.append(True)

    said: list[bool] = []
    stage.run(
        plan,
        without=without,
        cause=cause,
        limit_s=60.0 * options.minutes,
        room=room,
        say=lambda text: print(text, flush=True),
        shown=shown,
    )


def _tell(options: argparse.Namespace, room: dict[str, str] | None, entry: dict[str, Any]) -> None:
    """Tell the class's wall, if there is one; an incident needs none."""
    import sys

    from ..core.errors import SchedLabError

    if room:
        try:
            options.tell(room["to"], room["code"], room["player"], entry)
        except SchedLabError as error:
            print(f"{error} The incident goes on without it.", file=sys.stderr)


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


def _story(options: argparse.Namespace) -> None:
    from . import board, desk

    print(board.opening(desk.running().plan))


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
    from . import desk, judge, ledger

    running = desk.running()
    verdict = judge.answer(running, options.cause, options.evidence)
    print(verdict)
    _tell(options, running.state.get("room"), ledger.of(running))
    return 0 if verdict.right else 1


def _check(options: argparse.Namespace) -> int:
    from . import desk, judge, ledger

    running = desk.running()
    verdict = judge.check(running)
    print(verdict)
    _tell(options, running.state.get("room"), ledger.of(running))
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
