"""One experiment at a time on each machine, until every machine has answered or has a reason.

A machine is its boot: workers of one boot are one machine, however many there are and whoever started them,
and one of them is asked.  On the machine the experiment takes the lock that every run takes (core/lock.py),
so that two fleets, or a fleet and a reader, take turns.  A worker that goes has its question put to another
one of its machine; a scheduler that goes is waited for; what has arrived stays.
"""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import registry
from ..core.errors import ParameterError, SchedLabError
from ..core.result import LARGEST_BYTES, from_json
from ..core.store import held
from ..core.version import __version__
from . import row, store
from .cluster import Cluster, heard

if TYPE_CHECKING:
    from distributed import Future

GREETING_S = 30.0  # a worker that has nothing else to do answers in milliseconds
SILENT_S = 30.0  # workers tell the scheduler every half second or so that they are there
RETURN_S = 15.0  # a nanny starts a killed worker again in a few seconds
ATTEMPTS = 3
_LOOK_S = 1.0
_TEXT = 300
Tell = Callable[[str], None]


@dataclass
class Machine:
    """A machine of the cluster: its mark, and its workers that are there."""

    name: str
    workers: set[str] = field(default_factory=set)
    attempts: int = 0
    why: tuple[str, str] | None = None  # the last reason for which there is no answer


@dataclass
class _Asked:
    """A question that a worker has."""

    future: Future
    worker: str
    machine: Machine | None  # None: it was asked who it is
    since: float


@dataclass
class Outcome:
    """What came of asking every machine: answers by machine, and why there is none."""

    answers: dict[str, dict[str, Any]]
    reasons: dict[str, tuple[str, str]]
    told: dict[str, str] = field(default_factory=dict)  # machine -> the Python of its worker


class Asking:
    """Put one question to every machine of a cluster, once."""

    def __init__(
        self,
        cluster: Cluster,
        question: dict[str, Any],
        *,
        read: Callable[[dict[str, Any]], dict[str, Any]],
        take: Callable[[str, dict[str, Any]], None],
        skip: set[str],
        tell: Tell,
        limit_s: float,
        patience_s: float,
        expected: int = 0,
        join_s: float = 0.0,
        busy_s: float = GREETING_S,
    ) -> None:
        self.cluster, self.question, self.skip, self.tell = cluster, question, skip, tell
        self.read, self.take = read, take  # what is wrong with an answer; where it goes
        self.limit_s, self.patience_s, self.busy_s = limit_s, patience_s, busy_s
        self.expected, self.join_s = expected, join_s
        self.machines: dict[str, Machine] = {}
        self.of: dict[str, Machine] = {}  # worker -> machine
        self.boots: dict[str, str] = {}  # boot -> machine's name
        self.greetings: list[tuple[str, str, str, str]] = []  # boot, mark, version, worker
        self.done: set[str] = set()
        self.strangers: dict[str, tuple[str, str]] = {}  # worker -> why it is of no known machine
        self.asked: dict[str, _Asked] = {}  # by the future's key
        self.seen: dict[str, tuple[float, float]] = {}  # worker -> (last heard of, when that changed here)
        self.ready: queue.Queue[Future] = queue.Queue()
        self.idle_since = time.monotonic()

    def run(self) -> dict[str, tuple[str, str]]:
        """Ask until nothing more can come; returns why machines have not answered.

        Raises SchedLabError when the scheduler stays away, and KeyboardInterrupt as it comes: whatever has
        been taken until then stays.
        """
        try:
            while True:
                try:
                    self._take_ready()
                    alive = self.cluster.workers()
                    self._look_at(alive)
                    self._put_questions(alive)
                except ConnectionError:
                    self._lost_scheduler()
                    continue
                if self._over():
                    return self._reasons()
        finally:
            for one in self.asked.values():
                self._cancel(one)

    # ---- one look ----

    def _take_ready(self) -> None:
        """What has come until now; waits a moment where nothing has."""
        try:
            future = self.ready.get(timeout=_LOOK_S if self.asked else _LOOK_S / 4)
        except queue.Empty:
            return
        while True:
            if future.status in ("cancelled", "lost") and str(future.key) in self.asked:
                raise ConnectionError("somebody else has cancelled it, or the scheduler is another one")
            if one := self.asked.pop(str(future.key), None):
                self._answered(one)
            try:
                future = self.ready.get_nowait()
            except queue.Empty:
                return

    def _answered(self, one: _Asked) -> None:
        try:
            said = heard(one.future)
        except SchedLabError as error:
            if one.machine is None:
                self.strangers[one.worker] = ("unknown", error.what)
            else:
                self._miss(one.machine, "failed", error.what)
            return
        finally:
            one.future.release()
        if one.machine is None:
            self._greeted(one.worker, said)
            return
        answer = said.get("answer")
        boot, mark = (str(said.get(key, "")) for key in ("boot", "machine"))
        if self.boots.get(boot or mark) != one.machine.name:
            self._miss(one.machine, "failed", "Its worker answered from another machine than before.")
        elif refused := said.get("refused"):
            self._miss(one.machine, "refused", str(refused))
        elif not isinstance(answer, dict):
            self._miss(one.machine, "failed", "Its worker gave no answer.")
        elif "why" in answer:
            why = answer["why"] if answer["why"] in store.WHY else "failed"
            self._miss(one.machine, why, str(answer.get("reason", "")))
        else:
            try:
                found = self.read(answer)
            except SchedLabError as error:
                self._miss(one.machine, "failed", error.what)
                return
            # A folder that takes no more ends it here: what others measured now would be lost.
            self.take(one.machine.name, found)
            self.done.add(one.machine.name)
            one.machine.why = None

    def _greeted(self, worker: str, said: dict[str, Any]) -> None:
        boot, machine, version = (str(said.get(key, "")) for key in ("boot", "machine", "version"))
        # Either may become the name of its files.
        if (boot or machine) and all(store.MARK.fullmatch(one) for one in (boot, machine) if one):
            self.greetings.append((boot or machine, machine or boot, version, worker))
        else:
            self.strangers[worker] = ("unknown", "A worker does not know which machine it is on.")

    def _name(self) -> None:
        """Which machines the workers are on that have said so, all at once: no name hangs on their order.

        A machine has its own mark, so that it is known again after its next boot; machines that were copied
        from one image share that mark, and have their boot's.
        """
        boots: dict[str, set[str]] = {}
        for boot, mark, _, _ in self.greetings:
            boots.setdefault(mark, set()).add(boot)
        for boot, mark, version, worker in sorted(self.greetings):
            taken = mark in self.boots.values() or len(boots[mark]) > 1
            name = self.boots.setdefault(boot, boot if taken else mark)
            one = self.of[worker] = self.machines.setdefault(name, Machine(name))
            one.workers.add(worker)
            if version != __version__:
                had = f"it has sched-labs {version:.40}" if version else "it has no sched-labs"
                self._miss(one, "refused", f"{had}, and here is {__version__}: --install brings this one.")
        self.greetings.clear()

    def _look_at(self, alive: dict[str, float]) -> None:
        """Which workers are gone, silent or late, and with them what they were asked."""
        now = time.monotonic()
        for worker, last in alive.items():
            if self.seen.get(worker, (None, 0.0))[0] != last:
                self.seen[worker] = (last, now)
        for worker in set(self.of) - set(alive):
            self.of.pop(worker).workers.discard(worker)
        for key, one in list(self.asked.items()):
            if one.future.status != "pending":
                continue  # its answer is on its way to `ready`
            limit = self.limit_s if one.machine else max(self.busy_s, GREETING_S)
            if one.worker not in alive:
                self._drop(key, one, "vanished", "Its worker went in the middle.")
            elif now - max(self.seen[one.worker][1], one.since) > SILENT_S:
                self._drop(key, one, "silent", f"Nothing was heard of its worker for {SILENT_S:.0f} s.")
            elif now - one.since > limit:
                self._drop(key, one, "failed", f"It did not answer within {limit:.0f} s.")

    def _put_questions(self, alive: dict[str, float]) -> None:
        busy = {one.worker for one in self.asked.values()}
        greeted = {worker for *_, worker in self.greetings}
        for worker in alive:
            if worker not in {*self.of, *busy, *self.strangers, *greeted}:
                self._ask(worker, None, {"do": "hello"})
        # Workers of one machine are one machine only once they have said so.  One that is at work for another
        # client says so when it has done that, and the others do not wait for it.
        new = time.monotonic() - GREETING_S
        if any(one.machine is None and one.since > new for one in self.asked.values()):
            return
        self._name()
        at_work = {one.machine.name for one in self.asked.values() if one.machine}
        for machine in self.machines.values():
            if machine.name in self.done | self.skip | at_work or not machine.workers & set(alive):
                continue
            if machine.attempts < ATTEMPTS and (machine.why is None or machine.why[0] == "vanished"):
                machine.attempts += 1
                latest = max(machine.workers & set(alive), key=lambda worker: self.seen[worker][1])
                self._ask(latest, machine, self.question)

    def _over(self) -> bool:
        if self.asked:
            self.idle_since = time.monotonic()
            return False
        open_ones = [one for one in self.machines.values() if one.name not in self.done | self.skip]
        idle_s = time.monotonic() - self.idle_since
        if len(self.skip | set(self.machines)) < self.expected and idle_s <= self.join_s:
            return False
        waiting = not self.machines or any(
            one.attempts < ATTEMPTS and (one.why is None or one.why[0] == "vanished") for one in open_ones
        )
        return not waiting or idle_s > RETURN_S

    # ---- what happens to a question ----

    def _ask(self, worker: str, machine: Machine | None, question: dict[str, Any]) -> None:
        future = self.cluster.ask(worker, question)
        self.asked[str(future.key)] = _Asked(future, worker, machine, time.monotonic())
        future.add_done_callback(self.ready.put)

    def _drop(self, key: str, one: _Asked, why: str, reason: str) -> None:
        del self.asked[key]
        self._cancel(one)
        if one.machine:
            self._miss(one.machine, why, reason)
        elif why != "vanished":
            self.strangers[one.worker] = (why, f"A worker did not say which machine it is on. {reason}")

    def _cancel(self, one: _Asked) -> None:
        try:
            one.future.cancel()
            one.future.release()
        except Exception:  # it goes with its scheduler
            pass

    def _miss(self, machine: Machine, why: str, reason: str) -> None:
        machine.why = (why, _shown(reason))
        self.tell(f"{machine.name[:8]}  {why}: {machine.why[1]}")

    def _lost_scheduler(self) -> None:
        self.tell("The scheduler is gone; waiting for it.")
        for one in self.asked.values():
            if one.machine:
                one.machine.attempts -= 1  # it was not the machine's fault
        self.asked.clear()
        self.greetings.clear()
        self.of.clear()
        self.seen.clear()
        self.strangers.clear()
        for machine in self.machines.values():
            machine.workers.clear()
        self.cluster.reconnect(self.patience_s)
        self.idle_since = time.monotonic()
        self.tell("The scheduler is back.")

    def _reasons(self) -> dict[str, tuple[str, str]]:
        """Machine -> why it has not answered; workers of no known machine are numbered."""
        found = {
            one.name: one.why or ("vanished", "Its workers went before they were asked.")
            for one in self.machines.values()
            if one.name not in self.done | self.skip
        }
        for number, reason in enumerate(self.strangers.values(), 1):
            found[f"worker-{number}"] = reason
        return found


def _shown(text: str) -> str:
    """What a machine says of itself, as one line: nothing of it moves a terminal's cursor."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_TEXT]


# ---- what is asked ----


def doctor(cluster: Cluster, kind: str = "", *, tell: Tell = lambda _: None) -> Outcome:
    """Survey every machine: its facts, what it lacks, and with what it would measure a kind."""
    if kind:
        kind = registry.entry(kind).kind
    answers: dict[str, dict[str, Any]] = {}

    def take(machine: str, said: dict[str, Any]) -> None:
        def told(what: str) -> list[str]:
            words = said.get(what)
            return [_shown(str(one)) for one in words[:10]] if isinstance(words, list) else []

        facts = said.get("facts")
        answers[machine] = {
            "facts": row.plain(facts) if isinstance(facts, dict) else {},
            "lacks": told("lacks"),
            "shared": told("shared"),
            "instrument": _shown(str(said.get("instrument") or "")),
            "busy": bool(said.get("holder")),
        }

    asking = Asking(
        cluster, {"do": "survey", "kind": kind}, read=dict, take=take, skip=set(), tell=tell, limit_s=60,
        patience_s=30,
    )  # fmt: skip
    return Outcome(answers, asking.run())


def run(
    kind: str,
    cluster: Cluster,
    folder: str | Path,
    *,
    missing: bool = False,
    machines: int = 0,
    join_s: float = 1800.0,
    wait_s: float = 600.0,
    limit_s: float = 3600.0,
    patience_s: float = 300.0,
    tell: Tell = lambda _: None,
    **parameters: Any,
) -> store.Round:
    """Run an experiment on every machine of a cluster, one at a time on each; keep what comes, as it comes.

    missing      go on with the last round, for the machines that it lacks, although it came to its end
    machines     how many are to come: a queue (Slurm's, a cloud's) may start them minutes apart, and each is
                 asked as it comes; 0: those that are there while others are asked
    join_s       how long they are waited for while there is nothing else to do
    wait_s       how long a machine that is measuring already is waited for
    limit_s      how long one machine may take
    patience_s   how long a scheduler that is gone is waited for
    parameters   those of the experiment, `profile` among them

    A round that was broken off goes on where it stopped.  Raises ParameterError for parameters that no run
    could use, ResultError where the folder cannot be written or another program writes to it, and
    SchedLabError where the scheduler stays away, or nobody has what the kind needs.
    """
    experiment = registry.find(kind)
    if unknown := set(parameters) - set(experiment.parameters) - {"profile"}:
        raise ParameterError(
            f"{experiment.name} has no parameter {min(unknown)!r}.",
            f"It has: {', '.join([*experiment.parameters, 'profile'])}.",
        )
    question = {"do": "measure", "kind": experiment.name, "parameters": parameters, "wait_s": wait_s}
    return _round(
        cluster, Path(folder), experiment.name, parameters, question,
        missing=missing, limit_s=limit_s + wait_s, patience_s=patience_s, tell=tell,
        expected=machines, join_s=join_s, busy_s=wait_s,
    )  # fmt: skip


def watch(
    cgroup: str,
    cluster: Cluster,
    folder: str | Path,
    *,
    seconds: float = 10.0,
    tell: Tell = lambda _: None,
) -> store.Round:
    """Watch the control group of this name on every machine, once; see `sched_labs.watch`."""
    question = {"do": "watch", "cgroup": cgroup, "seconds": seconds}
    given = {"cgroup": cgroup, "seconds": seconds}
    return _round(
        cluster, Path(folder), "own_program.watch", given, question,
        missing=False, limit_s=seconds + 300, patience_s=60, tell=tell,
    )  # fmt: skip


def _round(
    cluster: Cluster,
    folder: Path,
    kind: str,
    parameters: dict[str, Any],
    question: dict[str, Any],
    *,
    missing: bool,
    limit_s: float,
    patience_s: float,
    tell: Tell,
    expected: int = 0,
    join_s: float = 0.0,
    busy_s: float = GREETING_S,
) -> store.Round:
    try:
        json.dumps(parameters, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "These parameters are no JSON.", f"Give numbers, words and lists: {error}."
        ) from None
    with held(folder):
        one = store.begin(folder, kind, parameters, missing=missing)
        before = one.rows()
        for machine in one.missing():
            one.forget(machine)

        def read(answer: dict[str, Any]) -> dict[str, Any]:
            return {"row": _checked(kind, answer), "result": answer["result"]}

        def take(machine: str, answer: dict[str, Any]) -> None:
            found = answer["row"]
            one.keep(machine, found, answer["result"])
            took = f"{found['duration_s']:.1f} s" + (f", {found['flags']} flags" if found["flags"] else "")
            tell(f"{machine[:8]}  {kind}: {took} ({len(one.rows())} there)")

        asking = Asking(
            cluster, question, read=read, take=take, skip=before, tell=tell, limit_s=limit_s,
            patience_s=patience_s, expected=expected, join_s=join_s, busy_s=busy_s,
        )  # fmt: skip
        if before:
            tell(f"{len(before)} there already; this goes on where it stopped.")
        reasons = asking.run()
        for machine, (why, reason) in reasons.items():
            one.miss(machine, why, reason)
        one.end()
    if not one.rows() and reasons:
        why, reason = next(iter(reasons.values()))
        lacking = all(why == "lacking" for why, _ in reasons.values())
        raise SchedLabError(
            f"No machine measured {kind}. The first of {len(reasons)}: {why}: {reason}",
            "`sched-labs fleet doctor` says what each machine lacks.",
            lacking=lacking,
        )
    if not one.rows():
        raise SchedLabError("The cluster has no workers.", "Start some: dask worker ADDRESS")
    return one


def _checked(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The row of an answer.  Raises SchedLabError where it, or its result, is not what was asked for."""
    text = answer.get("result")
    if not isinstance(text, str) or len(text) > LARGEST_BYTES:
        raise SchedLabError("What arrived holds no result.")
    found, result = row.checked(answer.get("row")), from_json(text, "What arrived")
    if not kind == found["kind"] == result.kind:
        raise SchedLabError(f"What arrived is a result of another kind than {kind}.")
    return found
