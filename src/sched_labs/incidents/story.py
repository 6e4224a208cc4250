"""What a story is made of, and where the stories are.

A story is a folder `stories/NAME/` with two files.  `story.md` has two paragraphs, with the programs' roles
in braces where their names will be, then sections `## hint`, and one for each cause, such as `## lock`: the
way to its proof.  `__init__.py` has one function:

    def story(draw: random.Random) -> Story

All numbers of an incident come from `draw`.  A new folder is a new story; nothing else has to know of it.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import ParameterError

FOLDER = Path(__file__).with_name("stories")
NEEDS = ("group", "priority")  # what some machines lack
CYCLE_S = 6  # the clients repeat themselves so often: any window of this length holds the same requests

# What may stand in a program's file, and what it says of itself there.
SETTINGS = {
    "workers": "threads that serve requests; 0: the loop serves them itself",
    "threads": "threads for work that is due in every period",
    "offload_slow": "yes: long requests go to a thread of their own",
    "audit_async": "yes: the audit is written after the answer",
    "copy_snapshot": "yes: snapshots are taken of a copy",
    "linger_ms": "keep answers so long, to send several together",
    "poll_ms": "look for requests so often; 0: be woken by them",
    "freeze": "yes: stop a process while it is looked at",
    "spin": "yes: workers without work try again and again; no: they sleep until work wakes them",
    "wake_all": "yes: work wakes all workers; no: it wakes one",
    "slack_ms": "timers may be so late, to have several at once; 0: as late as everybody's",
    "publish": "how many steps of each request are published, for whoever listens",
    "listen": "yes: listen to what is published",
    "reuse_memory": "yes: keep the memory of one request for the next one",
    "yield": "yes: workers without work look again and again, and yield the CPU after each look",
    "loops": "threads that receive, and serve where there are no workers",
    "balance": "yes: connections belong to the loops in turn; no: to the first that is there",
    "await_slow": "yes: long requests are awaited, with the library's coroutines",
    "native": "yes: sums are computed by a library in C, without the interpreter's lock",
    "switch_us": "a Python thread asks another for the interpreter's lock after so long",
}


@dataclass(frozen=True)
class Program:
    """One program of a story.

    role     what the story calls it, in braces
    kind     of actor.c: client, service, batch, sampler; or coroutines, a service in Python
    about    what it is, for the dashboard
    told     what it does while all is well
    peer     the role of whom it asks, or looks at
    cpus     "rack" (the CPU that the story is about), "front" (another one) or "both"
    knobs    settings that stand in its file
    """

    role: str
    kind: str
    about: str
    told: Mapping[str, int]
    peer: str = ""
    cpus: str = "rack"
    knobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """Something that is done to a program, to break it or to mend it; None leaves a thing as it is.

    told     what it is told anew, which nobody sees
    set      lines of its file
    nice     of all its threads
    realtime their priority under SCHED_FIFO; 0: the usual policy
    cpus     "rack", "front" or "both"
    quota_us of its control group in 100 ms; 0: no limit
    """

    role: str
    told: Mapping[str, int] = field(default_factory=dict)
    set: Mapping[str, str] = field(default_factory=dict)
    nice: int | None = None
    realtime: int | None = None
    cpus: str | None = None
    quota_us: int | None = None


@dataclass(frozen=True)
class Repair:
    """One way to mend it: how it is said (names and pids in braces), and what it is."""

    text: str
    change: Change


@dataclass(frozen=True)
class Variant:
    """One cause behind the story's symptoms.

    breaks   what goes wrong, all at once
    culprit  the role that the evidence is about
    repairs  what mends it; a player may find others
    needs    of NEEDS: "group" where it takes a control group with a quota, "priority" where it takes the
             right to give real-time policies, and to see the timer slack of others (CAP_SYS_NICE)
    """

    cause: str
    breaks: tuple[Change, ...]
    culprit: str
    repairs: tuple[Repair, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """One story with its numbers drawn.

    suspect  the cause that its text suggests
    target_ms  an answer within it is in time
    grouped  whether all but the clients share a control group, where one can be made
    """

    title: str
    suspect: str
    target_ms: int
    programs: tuple[Program, ...]
    variants: tuple[Variant, ...]
    grouped: bool = False

    def program(self, role: str) -> Program:
        return next(one for one in self.programs if one.role == role)


@dataclass(frozen=True)
class Plan:
    """What one start is, all of it from the name and a seed: a story, its variant, the programs' names."""

    name: str
    seed: int
    story: Story
    variant: Variant
    names: Mapping[str, str]
    order: tuple[str, ...]

    @property
    def text(self) -> str:
        """The story as it is told."""
        return self._sections()[0][1]

    @property
    def hints(self) -> list[str]:
        """The same for every variant, in order."""
        return [text for title, text in self._sections() if title == "hint"]

    def proof(self, cause: str) -> str:
        """The way from the symptom to the proof of a cause."""
        return dict(self._sections())[cause]

    def _sections(self) -> list[tuple[str, str]]:
        """(title, text) of what is told: the story, without a title, its hints, and a proof of each cause."""
        told = (FOLDER / self.name / "story.md").read_text(encoding="utf-8")
        told = told.format(**self.names, target_ms=self.story.target_ms)
        parts = re.split(r"^## (.+)\n", told, flags=re.MULTILINE)
        texts = [one.strip() for one in parts[::2]]
        return list(zip(["", *parts[1::2]], texts, strict=True))


_SERVICES = (
    "adlerd",
    "birket",
    "corvid",
    "dorade",
    "elvers",
    "fennec",
    "grouse",
    "heronry",
    "isopod",
    "jackdaw",
)
_OTHERS = (
    *("kestrel", "lapwing", "merlin", "nuthatch", "ouzel", "pipit", "quokka", "redstart", "sandpiper"),
    *("turnstone", "umbrette", "vendace", "wagtail", "xerus", "yaffle", "zander"),
)


def names(cause: str = "") -> list[str]:
    """The stories there are, or those with a variant that has this cause."""
    found = sorted(path.parent.name for path in FOLDER.glob("*/story.md"))
    return [one for one in found if not cause or cause in {two.cause for two in plan(one, 0).story.variants}]


def check(name: str) -> str:
    """The story of that name, or that begins so.  Raises ParameterError where none or several do."""
    found = [one for one in names() if one == name] or [
        one for one in names() if name and one.startswith(name)
    ]
    if len(found) != 1:
        raise ParameterError(f"There is no incident {name[:40]!r}.", f"There are: {', '.join(names())}.")
    return found[0]


def of_class(code: str) -> tuple[str, int]:
    """(story, seed) that everybody has who names this code.  Raises ParameterError for what is no code."""
    if not re.fullmatch(r"[A-Za-z0-9-]{4,40}", code):
        raise ParameterError(
            f"{code[:40]!r} is no code of a class.", "It has 4 to 40 letters, digits and hyphens."
        )
    number = int.from_bytes(hashlib.sha256(code.encode()).digest()[:8], "big")
    return names()[number % len(names())], number % 1_000_000


def needs(name: str) -> set[str]:
    """What a machine must have for all of a story's variants."""
    return {need for one in plan(name, 0).story.variants for need in one.needs}


def plan(name: str, seed: int, *, without: tuple[str, ...] = (), cause: str | None = None) -> Plan:
    """Everything that one start is made of.

    without   what this machine lacks: variants that need it are not drawn
    cause     this variant, for tests and rehearsals
    """
    draw = random.Random(f"{name} {seed}")
    story = importlib.import_module(f".stories.{name}", __package__).story(draw)
    possible = [one for one in story.variants if not set(one.needs) & set(without)]
    variant = draw.choice(possible)
    if cause:
        variant = next(one for one in story.variants if one.cause == cause)
    services, others = list(_SERVICES), list(_OTHERS)
    draw.shuffle(services)
    draw.shuffle(others)
    chosen = {one.role: (services if one.role == "service" else others).pop() for one in story.programs}
    order = [one.role for one in story.programs]
    draw.shuffle(order)
    return Plan(name, seed, story, variant, chosen, tuple(order))
