"""Runs in the middle of which something goes wrong; `python tests/faults/campaign.py --help`.

A case is a moment (when), a fault (what) and somebody who runs an experiment (who), drawn from the seed and
the case's number, so that each can be had again by itself.  After it, within 15 s, nothing of it may be left:
no process with its mark, no control group, no BPF program, no changed setting, no held lock, no part file,
nothing in the folder for temporaries.
And it ended in one of three ways: a whole result; one that says what it lacks; one clear error.
Only what no program can catch, SIGKILL and SIGQUIT, may end it in a fourth way, without a word.
After it the same one runs the smallest form of the same experiment once more, where the case ran: with its
files, its lock and its folders.  That has to end with a whole result, while the next case is on its way.
What befalls a whole machine (a CPU that goes, the clock set, a control group of v2 that somebody removes) is
tried in a guest: `machine.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a program by itself it has its own folder there
import loaded
from sandbox import sandbox

from sched_labs.core import result, store
from sched_labs.core.errors import ResultError
from sched_labs.limits.cgroups import folders, leftovers
from sched_labs.machine.seen import Seen
from sched_labs.machine.tunables import look_tunables
from sched_labs.workloads.launch import MARKER, owner_mark

HERE = Path(__file__).parent
PROVISION = HERE.parents[1] / "scripts" / "provision.sh"
WITHIN_S, HUNG_S, BLOCKED_S = 15.0, 90.0, 3.0

# An experiment, and the moments that its run passes.
SIMPLE = ("before the lock", "holding it", "workload ready", "measuring", "saving")
RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "context_switch": (("--set", 'mechanisms=["pipe"]'), SIMPLE),
    "quota.hog": ((), (*SIMPLE, "group made")),
    "runqlat.histogram": ((), (*SIMPLE, "helper ready", "window open")),
}
SMALLEST = {
    "context_switch": ("--set", 'mechanisms=["pipe"]', "--set", 'between=["threads"]', "--set", "trials=1"),
    "quota.hog": ("--set", "shares_percent=[50]", "--set", "trials=1"),
    "runqlat.histogram": ("--set", "duration_s=0.3"),  # less may see no wait
}
SIGNALS = ("KILL", "INT", "TERM", "QUIT", "HUP")
SILENT = {-signal.SIGKILL, -signal.SIGQUIT}
CALLS = {
    "write": errno.ENOSPC,
    "open": errno.EROFS,
    "pipe": errno.EMFILE,
    "mmap": errno.ENOMEM,
    "fork": errno.EAGAIN,
}
OTHERS = (
    "group taken away",
    "blocked output",
    "pid used again",
    "clock back",
    "clock forth",
    "load",
    "no descriptors",
)
WHO = ("this user", "no home", "two runs", "two users")
# In a covered copy of the machine; where none can be had, this user plays their cases too.
OTHERS_WHO = ("a user with the rule", "a user without the rule")
# Who runs it, and who runs it at once a second time.
PAIRS = {"two runs": ("this user", "this user"), "two users": OTHERS_WHO}


@dataclass(frozen=True)
class Case:
    """One case: who runs what experiment, when it is halted, and what befalls it then."""

    seed: int
    number: int
    kind: str
    when: str
    what: str
    who: str

    def __str__(self) -> str:
        return f"{self.number}: {self.kind}, {self.when}: {self.what} ({self.who})"


def case(seed: int, number: int) -> Case:
    """The case of that number: the same one each time."""
    draw = random.Random(f"{seed}/{number}")
    kind = draw.choice(sorted(RUNS))
    when = draw.choice(RUNS[kind][1])
    faults = [f"{name} to the program" for name in SIGNALS]
    faults += [f"{name} fails, {draw.randint(1, 12)}" for name in CALLS]
    faults += [one for one in OTHERS if one != "group taken away" or when == "group made"]
    if when in ("workload ready", "measuring"):
        faults += [f"{name} to the workload" for name in SIGNALS]
    if when in ("helper ready", "window open"):
        faults += [f"{name} to the helper" for name in SIGNALS] * 2
    if when == "group made":
        faults += [f"{name} to the guard" for name in SIGNALS]
    what, who = draw.choice(faults), draw.choice((*WHO, *OTHERS_WHO))
    if who == OTHERS_WHO[1] and when in ("group made", "helper ready", "window open"):
        who = OTHERS_WHO[0]  # whoever may not do that never comes there
    return Case(seed, number, kind, when, what, who)


@dataclass
class Ended:
    """How a case ended, and what was wrong about that; nothing, if all is well."""

    case: Case
    outcome: str = ""
    wrong: list[str] = field(default_factory=list)


@contextlib.contextmanager
def shim() -> Iterator[Path]:
    """The compiled shim."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        Path(folder).chmod(0o755)
        made = Path(folder) / "shim.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", made, HERE / "shim.c", "-ldl"], check=True)
        yield made


class Users:
    """Two users of a covered copy of this machine, one of whom may start the helper; or none."""

    def __init__(self) -> None:
        self.covering = contextlib.ExitStack()
        self.ids: dict[str, int] = {}

    def __enter__(self) -> Users:
        with contextlib.suppress(RuntimeError):
            self.covered = self.covering.enter_context(sandbox())
            self.ids = {who: self.covered.add_user(f"slfault{n}") for n, who in enumerate(OTHERS_WHO)}
            done = self.covered.run(PROVISION, "--user", "slfault0", timeout=600)
            if done.returncode not in (0, 3):  # 3: something is missing that the helper does not need
                raise RuntimeError(f"the machine cannot be provisioned: {done.stderr[-300:]}")
        return self

    def __exit__(self, *_: object) -> None:
        self.covering.close()

    def before(self, who: str) -> list[str]:
        """What goes before a command so that this user runs it."""
        if who not in self.ids:
            return []
        user = str(self.ids[who])
        enter = ["nsenter", "-t", str(self.covered._pid), "-m", "--"]
        return [*enter, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]

    def give(self, who: str, folder: Path) -> None:
        """The folder, with what is in it, to this user."""
        if user := self.ids.get(who):
            for path in (folder, *folder.rglob("*")):
                os.chown(path, user, user)


class Run:
    """One command of a case, in a folder of the case's own."""

    def __init__(self, case: Case, who: str, place: Path, library: Path, users: Users) -> None:
        self.who, self.lock = who, place / "lock"
        folder = Path(tempfile.mkdtemp(dir=place))  # of whoever runs it
        self.folder, self.json = folder, folder / "out.json"
        self.started: dict[int, str] = {}
        for name in ("data", "cache", "tmp"):
            (folder / name).mkdir()
        self.heard, tell = os.pipe()
        hear, self.tells = os.pipe()
        extra, _ = RUNS[case.kind]
        words = ["run", case.kind, "--profile", "tiny", "--json", str(self.json), *extra]
        self.output, out = os.pipe()
        self.errors = (folder / f"{self.json.stem}.err").open("w+b")
        before = users.before(who)
        users.give(who, folder)
        self.environment = self._environment(covered=bool(before))
        self.process = subprocess.Popen(
            [
                *before,
                sys.executable,
                HERE / "victim.py",
                case.when,
                str(tell),
                str(hear),
                self.lock,
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=self.errors,
            pass_fds=(tell, hear),
            env=self.environment | {"LD_PRELOAD": str(library)},
            cwd=folder / "tmp",
        )
        self.mark = owner_mark(self.process.pid)
        for fd in (tell, hear, out):
            os.close(fd)
        self.drained = b""
        self.reads = True

    def _environment(self, *, covered: bool) -> dict[str, str]:
        around = {
            **os.environ,
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CACHE_HOME": str(store.cache_folder().parent),  # workloads that are compiled already
            "SCHED_LABS_PROFILE": "tiny",
        }
        if covered:
            around |= {"HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        if self.who == "no home":
            for name in ("HOME", "XDG_DATA_HOME"):
                around.pop(name, None)
        return around

    def halted(self) -> bool:
        """Whether it came to its moment, and stands there."""
        end = time.monotonic() + HUNG_S
        while time.monotonic() < end:
            ready, _, _ = select.select([self.heard, self.output], [], [], 0.2)
            if self.output in ready:
                self.drain()
            if self.heard in ready:
                self.started = descendants(self.process.pid)
                return os.read(self.heard, 100) != b""
        return False

    def drain(self) -> None:
        if self.reads and select.select([self.output], [], [], 0)[0]:
            self.drained += os.read(self.output, 1 << 16)

    def go_on(self, *order: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.tells, json.dumps(order or [""]).encode())

    def wait(self) -> int | None:
        """Its status; None where it hangs."""
        end = time.monotonic() + HUNG_S
        while self.process.poll() is None and time.monotonic() < end:
            self.drain()
            time.sleep(0.02)
        return self.process.poll()

    def hang_up(self) -> None:
        """Whoever read its output is gone."""
        os.close(self.output)
        self.output = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for fd in (self.heard, self.tells, self.output):
            if fd >= 0:
                os.close(fd)
        self.errors.close()

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")


def marked(mark: str) -> dict[int, str]:
    """Processes that a run started, with their command lines."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARKER}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


def descendants(pid: int) -> dict[int, str]:
    """What a program has started so far: by pid, the mark that tells it from a later one of that number."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            above = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            parents.setdefault(above, []).append(int(entry.name))
    found, look = {}, [pid]
    while look:
        for one in parents.get(look.pop(), []):
            with contextlib.suppress(OSError):
                found[one] = owner_mark(one)
            look.append(one)
    return found


def _runs(pid: int, mark: str) -> bool:
    try:
        return owner_mark(pid) == mark
    except OSError:
        return False


def guards(pid: int) -> list[int]:
    """The guard of a program, which carries no mark."""
    wanted = f"{pid}\0".encode()
    return [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if (line := _cmdline(entry)).endswith(wanted) and b"cgroups.sweep" in line
    ]


def _cmdline(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def befall(run: Run, what: str) -> list[subprocess.Popen[bytes]]:
    """Let it happen, and the run go on.  Returns what was started for that."""
    word, _, whom = what.partition(" to the ")
    pid = run.process.pid
    if whom:
        ours = marked(run.mark)
        victims = {
            "program": [pid],
            "workload": [one for one, line in ours.items() if "sched-labs-" not in line],
            "helper": [one for one, line in ours.items() if "sched-labs-" in line],
            "guard": guards(pid),
        }[whom]
        for one in victims:
            os.kill(one, getattr(signal, f"SIG{word}"))
    elif " fails, " in what:
        call, _, count = what.partition(" fails, ")
        run.go_on("shim_arm", call, int(count), CALLS[call])
        return []
    elif what.startswith("clock"):
        run.go_on("shim_step", -86_400 if what == "clock back" else 86_400)
        return []
    elif what == "no descriptors":
        run.go_on("no descriptors")
        return []
    elif what == "group taken away":
        homes = folders.find_homes()
        for folder, _ in leftovers.left_behind():
            if f"/{pid}." in folder:
                folders.remove(folder, homes)
    elif what == "blocked output":
        run.reads = False
        fcntl.fcntl(run.output, 1031, 4096)  # F_SETPIPE_SZ
    elif what == "load":
        run.go_on()
        # No program between, which could be killed before its child; and it ends by itself.
        return [subprocess.Popen(["sh", "-c", "ulimit -S -t 3; while :; do :; done"]) for _ in range(2)]
    elif what == "pid used again":
        return _use_again(run)
    run.go_on()
    return []


def _use_again(run: Run) -> list[subprocess.Popen[bytes]]:
    """Kill the program, and have another one under its number, which nobody may take for it."""
    number = run.process.pid
    run.process.kill()
    run.process.wait()
    for _ in range(50):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
        other = subprocess.Popen(["sleep", "60"])
        if other.pid == number:
            return [other]
        other.kill()
        other.wait()
    return []


def outcome(run: Run, status: int | None, what: str) -> tuple[str, str]:
    """How it ended in words, and what is wrong about that."""
    said = run.said()
    if status is None:
        return "hung", f"it did not end within {HUNG_S:.0f} s"
    if "Traceback" in said or "Exception ignored" in said:
        return "traceback", said[-1500:]
    if status in SILENT and (what.endswith(("to the program", "used again"))):
        return "killed", ""
    if run.json.exists():
        try:
            found = result.load(run.json)
        except ResultError as error:
            return "half a result", str(error)
        lacks = found.interrupted or any(note.level != "info" for note in found.notes)
        return ("a result that says what it lacks" if lacks else "a whole result"), ""
    if status in (1, 2, 130) and said.strip():
        return "a clear error", ""
    if what == "blocked output" and status == 0:
        return "a whole result", ""  # whose reader had gone
    return "no word", f"status {status}, and it said {said[-500:]!r}"


def left_over(run: Run) -> list[str]:
    """What is left of a run now."""
    found = [f"process {pid}: {line}" for pid, line in marked(run.mark).items()]
    found += [f"guard {pid}" for pid in guards(run.process.pid)]
    found += [f"process {pid}, which it started" for pid, mark in run.started.items() if _runs(pid, mark)]
    own = run.mark.replace(":", ".")
    found += [
        f"group {folder}" for folder, _ in leftovers.left_behind() if Path(folder).name.startswith(f"{own}-")
    ]
    found += [f"in the folder for temporaries: {path.name}" for path in (run.folder / "tmp").iterdir()]
    for lock in run.lock.glob("*.lock"):
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append("the lock is held")
    return found


class Scene:
    """A case on its way to the moment where it halts; then it is played, and followed by a clean run."""

    def __init__(self, one: Case, library: Path, users: Users) -> None:
        self.case, self.library, self.users = one, library, users
        self.who = PAIRS.get(one.who, (one.who,))
        self.settings = {fact.key: fact.value for fact in look_tunables(Seen())}
        self.holds = contextlib.ExitStack()
        self.place = self.holds.enter_context(room())
        self.runs = [self._run(one, self.who[0])]

    def _run(self, one: Case, who: str) -> Run:
        run = Run(one, who, self.place, self.library, self.users)
        self.holds.callback(run.close)
        return run

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self.holds.close()

    def play(self) -> Ended:
        """Let it happen, from there to what is left of it."""
        one, ended = self.case, Ended(self.case)
        started: list[subprocess.Popen[bytes]] = []
        try:
            if not self.runs[0].halted():
                ended.wrong.append(f"it never came to the moment {one.when!r}: {self.runs[0].said()[-500:]}")
            # It halts last thing before its end, and is told to go on when the other one is over.
            self.runs += [self._run(replace(one, when="saving"), other) for other in self.who[1:]]
            started = befall(self.runs[0], one.what)
            if one.what == "blocked output":
                time.sleep(BLOCKED_S)
                self.runs[0].hang_up()
            ended.outcome, wrong = outcome(self.runs[0], self.runs[0].wait(), one.what)
            ended.wrong += [wrong] if wrong else []
            for other in self.runs[1:]:
                ended.wrong += [f"the other run: {said}" for said in _undisturbed(other)]
            ended.wrong += _left(self.runs, one)
            after = {fact.key: fact.value for fact in look_tunables(Seen())}
            ended.wrong += [
                f"{name}: {value} is now {after[name]}"
                for name, value in self.settings.items()
                if value != after[name]
            ]
            ended.wrong += [
                "what took its number was ended too" for taker in started if taker.poll() == -signal.SIGKILL
            ]
        finally:
            for process in started:
                process.kill()
                process.wait()
        return ended


@contextlib.contextmanager
def room() -> Iterator[Path]:
    """A folder that every user may enter, with a place for the lock."""
    with tempfile.TemporaryDirectory(prefix="faults-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        (folder / "lock").mkdir()
        (folder / "lock").chmod(0o1777)
        yield folder


def _undisturbed(run: Run) -> list[str]:
    """What is wrong about the end of a run that nothing befell."""
    run.halted()
    run.go_on()
    ended, wrong = outcome(run, run.wait(), "")
    return [] if "result" in ended else [wrong or f"{ended}: {run.said()[-500:]}"]


class Again:
    """A clean run where a case ran, by the same one: in its folders, with its lock and its files."""

    def __init__(self, users: Users) -> None:
        self.users = users
        self.waiting: dict[str, subprocess.Popen[str]] = {}  # by who: an interpreter that has imported all
        self.lacks: dict[tuple[str, str], list[str]] = {}  # what the first one of a kind had to do without

    def __enter__(self) -> Again:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.waiting.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.communicate()

    def _waiting(self, who: str) -> subprocess.Popen[str]:
        who = who if who in self.users.ids else ""
        if who not in self.waiting or self.waiting[who].poll() is not None:
            self.waiting[who] = subprocess.Popen(
                [*self.users.before(who), sys.executable, HERE / "again.py", *RUNS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self._line(self.waiting[who])
        return self.waiting[who]

    @staticmethod
    def _line(one: subprocess.Popen[str]) -> str:
        assert one.stdout
        return one.stdout.readline() if select.select([one.stdout], [], [], HUNG_S)[0] else ""

    def after(self, run: Run, kind: str) -> list[str]:
        """What is wrong about a run of the same kind to which nothing happens."""
        written, said = run.folder / "again.json", run.folder / "tmp" / "said"
        asked = {
            "words": ["run", kind, "--profile", "tiny", "--json", str(written), *SMALLEST[kind]],
            "folder": str(run.folder / "tmp"),
            "environment": run.environment | {"XDG_DATA_HOME": str(run.folder / "data")},
            "lock": str(run.lock),
            "said": str(said),
        }
        one = self._waiting(run.who)
        assert one.stdin
        print(json.dumps(asked), file=one.stdin, flush=True)
        status = self._line(one).strip()
        if not status:
            os.killpg(one.pid, signal.SIGKILL)
            return [f"a run after it did not end within {HUNG_S:.0f} s"]
        told = said.read_text(errors="replace") if said.exists() else ""
        if status != "0" or "Traceback" in told or not written.exists():
            return [f"a run after it: status {status}, and it said {told[-1500:]!r}"]
        found = result.load(written)
        # But for the numbers of processes and groups.
        lacks = [re.sub(r"\d+", "N", note.text) for note in found.notes if note.level == "missing"]
        before = self.lacks.setdefault((kind, run.who), lacks)
        if found.interrupted or found.data.empty or lacks != before:
            return [f"a run after it is not whole: {lacks}, where the first one lacked {before}"]
        return []


def _bpf() -> list[str]:
    return [f"BPF program {number}, which no process holds" for number in loaded.held_by_nobody()]


def _left(runs: list[Run], one: Case) -> list[str]:
    end = time.monotonic() + WITHIN_S
    while (found := [what for run in runs for what in left_over(run)] + _bpf()) and time.monotonic() < end:
        time.sleep(0.1)
    for part in [part for run in runs for part in store.abandoned(run.folder, after_s=-1)]:
        # What a program leaves that is killed while it writes, `sched-labs clean` takes away.
        if not one.what.startswith(("KILL", "QUIT", "pid")):
            found.append(f"part file {part.name}")
    return found


def campaign(cases: int, seed: int = 1, only: Sequence[int] = (), first: int = 0) -> list[Ended]:
    """Play the cases, each followed by a clean run, and say of each how it ended."""
    ended = []
    numbers = list(only or range(first, first + cases))
    with shim() as library, Users() as users, Again(users) as again, contextlib.ExitStack() as last:
        scene = last.enter_context(Scene(case(seed, numbers[0]), library, users))
        for following in [*numbers[1:], None]:
            with scene:
                one = scene.play()
                if following is not None:  # its program starts meanwhile
                    upcoming = last.enter_context(Scene(case(seed, following), library, users))
                one.wrong += again.after(scene.runs[0], one.case.kind)
            ended.append(one)
            print(f"{one.case}: {one.outcome}", *one.wrong, sep="\n    ", flush=True)
            if following is not None:
                scene = upcoming
    return ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case (default: 0)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="+", help="the numbers of cases, to play them again")
    asked = parser.parse_args()
    ended = campaign(asked.cases, asked.seed, asked.only or (), asked.first)
    print(
        *(f"{count:4} {outcome}" for outcome, count in Counter(one.outcome for one in ended).most_common()),
        sep="\n",
    )
    bad = [one for one in ended if one.wrong]
    for one in bad:
        print(f"again: python tests/faults/campaign.py --seed {asked.seed} --only {one.case.number}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
