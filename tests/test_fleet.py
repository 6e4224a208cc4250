"""Many machines: the store, what arrives, and a fleet that is asked without a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sched_labs import cli
from sched_labs.core.errors import ParameterError, ResultError, SchedLabError
from sched_labs.core.result import recorded
from sched_labs.core.version import __version__
from sched_labs.fleet import cluster as clusters
from sched_labs.fleet import engine, greeting, numbers, row, store

KIND = "context_switch.matrix"


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """What a machine answers that measured the recorded run."""
    result = recorded(KIND)
    assert result
    facts = row.plain(result.machine)
    return {"row": row.make(result, facts), "result": result.to_json()}


class FakeFuture:
    """A future whose worker has answered, or never does (said is None)."""

    def __init__(self, key: str, said: str | None) -> None:
        self.key, self.said = key, said
        self.status = "pending" if said is None else "finished"

    def result(self, timeout: float) -> str | None:
        return self.said

    def add_done_callback(self, tell: Callable[[FakeFuture], None]) -> None:
        if self.said is not None:
            tell(self)

    def cancel(self) -> None:
        self.status = "cancelled"

    def release(self) -> None:
        pass


class FakeCluster:
    """Workers by address; each has a boot, and says to a question what `says` says."""

    def __init__(self, boots: dict[str, str], says: Callable[[str], dict[str, Any] | None]) -> None:
        self.boots, self.says = boots, says
        self.version = dict.fromkeys(boots, __version__)
        self.there = dict.fromkeys(boots, 0.0)
        self.frozen: set[str] = set()
        self.asked: list[str] = []
        self.look: Callable[[], None] = lambda: None
        self.reconnected = 0

    def workers(self) -> dict[str, float]:
        self.look()
        for address in self.there:
            self.there[address] += address not in self.frozen
        return dict(self.there)

    def ask(self, worker: str, question: dict[str, Any]) -> FakeFuture:
        head = {"boot": self.boots[worker], "machine": "", "version": self.version[worker]}
        if question["do"] == "hello":
            return FakeFuture(f"{worker}-hello", json.dumps(head))
        self.asked.append(worker)
        said = self.says(worker)
        text = None if said is None else json.dumps(head | {"answer": said})
        return FakeFuture(f"{worker}-{len(self.asked)}", text)

    def reconnect(self, patience_s: float) -> None:
        self.reconnected += 1


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_LOOK_S", 0.01)
    monkeypatch.setattr(engine, "RETURN_S", 0.2)
    monkeypatch.setattr(engine, "SILENT_S", 0.2)


def run(fake: FakeCluster, folder: Path, **options: Any) -> tuple[store.Round, list[str]]:
    said: list[str] = []
    return engine.run(KIND, fake, folder, tell=said.append, **options), said  # type: ignore[arg-type]


def test_a_machine_is_asked_once_however_many_workers_it_has(
    fast: None, tmp_path: Path, answer: dict[str, Any]
) -> None:
    fake = FakeCluster({"a1": "aa", "a2": "aa", "a3": "aa", "b1": "bb"}, lambda _: answer)
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"aa", "bb"} and len(fake.asked) == 2
    assert found.ended and found.missing() == {}
    assert recorded(KIND).to_json() == (found.folder / "aa.result.json").read_text()  # type: ignore[union-attr]


def test_a_round_goes_on_where_it_was_broken_off(fast: None, tmp_path: Path, answer: dict[str, Any]) -> None:
    fake = FakeCluster({"a": "aa", "b": "bb"}, lambda worker: answer if worker == "a" else None)

    def stop() -> None:
        if list(tmp_path.rglob("aa.row.json")):
            raise KeyboardInterrupt

    fake.look = stop
    with pytest.raises(KeyboardInterrupt):
        run(fake, tmp_path)
    again = FakeCluster({"a": "aa", "b": "bb"}, lambda _: answer)
    found, said = run(again, tmp_path)
    assert again.asked == ["b"] and found.rows() == {"aa", "bb"}
    assert said[0].startswith("1 there already")
    next_one, _ = run(FakeCluster({"a": "aa"}, lambda _: answer), tmp_path)
    assert next_one.folder != found.folder, "a round that came to its end is not gone on with"


def test_machines_that_a_queue_starts_later_are_waited_for_and_not_for_ever(
    fast: None, tmp_path: Path, answer: dict[str, Any]
) -> None:
    fake = FakeCluster({"a": "aa", "b": "bb"}, lambda _: answer)
    del fake.there["b"]
    began = time.monotonic()

    def starts() -> None:
        if time.monotonic() - began > 0.7:  # later than RETURN_S, in which the first one has answered
            fake.there.setdefault("b", 0.0)

    fake.look = starts
    found, _ = run(fake, tmp_path / "two", machines=2, join_s=30.0)
    assert found.rows() == {"aa", "bb"}
    again, _ = run(FakeCluster({"a": "aa"}, lambda _: answer), tmp_path / "one", machines=2, join_s=0.5)
    assert again.rows() == {"aa"} and again.ended


def test_a_worker_that_goes_has_its_question_put_to_another_one_of_its_machine(
    fast: None, tmp_path: Path, answer: dict[str, Any]
) -> None:
    fake = FakeCluster({"a1": "aa", "a2": "aa"}, lambda _: answer if len(fake.asked) > 1 else None)

    def kill() -> None:
        if fake.asked:
            fake.there.pop(fake.asked[0], None)

    fake.look = kill
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"aa"} and set(fake.asked) == {"a1", "a2"}


def test_who_vanishes_is_silent_refused_or_busy_is_listed_with_the_reason(
    fast: None, tmp_path: Path, answer: dict[str, Any]
) -> None:
    says = {"good": answer, "busy": {"why": "busy", "reason": "someone\x1b[2J measures"}}
    fake = FakeCluster({name: name for name in ("good", "gone", "silent", "old", "busy")}, says.get)
    fake.version["old"] = "0.0.1"

    def happen() -> None:
        if "gone" in fake.asked:
            fake.there.pop("gone", None)
        if "silent" in fake.asked:
            fake.frozen.add("silent")

    fake.look = happen
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"good"}
    assert {machine: why for machine, (why, _) in found.missing().items()} == {
        "gone": "vanished", "silent": "silent", "old": "refused", "busy": "busy",
    }  # fmt: skip
    assert "0.0.1" in found.missing()["old"][1]
    assert found.missing()["busy"][1] == "someone [2J measures"
    later = FakeCluster({name: name for name in ("good", "gone", "silent")}, lambda _: answer)
    again, _ = run(later, tmp_path, missing=True)
    assert again.folder == found.folder and sorted(later.asked) == ["gone", "silent"]
    assert set(again.missing()) == set(), "who was not there this time is not known of"


def test_a_scheduler_that_goes_is_waited_for(fast: None, tmp_path: Path, answer: dict[str, Any]) -> None:
    fake = FakeCluster({"a": "aa", "b": "bb"}, lambda worker: answer if fake.reconnected else None)

    def fail() -> None:
        if len(fake.asked) == 2 and not fake.reconnected:
            raise ConnectionError

    fake.look = fail
    found, said = run(fake, tmp_path)
    assert found.rows() == {"aa", "bb"} and fake.asked[2:] == ["a", "b"]
    assert "The scheduler is back." in said


def test_what_a_new_scheduler_has_dropped_is_asked_again(
    fast: None, tmp_path: Path, answer: dict[str, Any]
) -> None:
    fake = FakeCluster({"a": "aa"}, lambda _: answer)
    real = fake.ask

    def ask(worker: str, question: dict[str, Any]) -> FakeFuture:
        made = real(worker, question)
        if question["do"] != "hello" and not fake.reconnected:
            made.status = "cancelled"
        return made

    fake.ask = ask  # type: ignore[method-assign]
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"aa"} and fake.reconnected == 1


def test_copies_of_one_image_are_two_machines(fast: None, tmp_path: Path, answer: dict[str, Any]) -> None:
    def ask(worker: str, question: dict[str, Any]) -> FakeFuture:
        head = {"boot": f"boot{worker}", "machine": "same", "version": __version__}
        said = head if question["do"] == "hello" else head | {"answer": answer}
        return FakeFuture(f"{worker}-{question['do']}", json.dumps(said))

    fake = FakeCluster({"a": "", "b": ""}, lambda _: answer)
    fake.ask = ask  # type: ignore[method-assign]
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"boota", "bootb"}


@pytest.mark.parametrize("mark", ["../../outside", "/tmp/x", "a/b", "", "worker-1", "A", "²", "a" * 41])
def test_what_a_worker_calls_its_machine_names_no_file_elsewhere(
    fast: None, tmp_path: Path, answer: dict[str, Any], mark: str
) -> None:
    """A worker of two marks: the boot's is as it should be, the machine's is a path."""

    def ask(worker: str, question: dict[str, Any]) -> FakeFuture:
        marks = {"good": ("b0", "good"), "bad": ("b1", mark)}[worker]
        said = {"boot": marks[0], "machine": marks[1], "version": __version__, "answer": answer}
        return FakeFuture(f"{worker}-{question['do']}", json.dumps(said))

    fake = FakeCluster({"good": "", "bad": ""}, lambda _: answer)
    fake.ask = ask  # type: ignore[method-assign]
    found, _ = run(fake, tmp_path / "in" / "here")
    assert found.rows() == ({"good"} if mark else {"good", "b1"})
    assert {one.name for one in tmp_path.rglob("*.row.json")} == {f"{one}.row.json" for one in found.rows()}
    assert [one.name for one in tmp_path.iterdir()] == ["in"] and not list(Path("/tmp").glob("x.*.json"))


def test_a_hundred_megabytes_are_no_answer(fast: None, tmp_path: Path, answer: dict[str, Any]) -> None:
    fake = FakeCluster({"a": "aa", "b": "bb"}, lambda _: answer)
    real = fake.ask

    def ask(worker: str, question: dict[str, Any]) -> FakeFuture:
        made = real(worker, question)
        if worker == "b" and question["do"] != "hello":
            made.said = json.dumps({"answer": "x" * 100_000_000})
        return made

    fake.ask = ask  # type: ignore[method-assign]
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"aa"} and found.missing()["bb"][0] == "failed"


def test_a_row_is_kept_only_if_it_can_be_read_again(
    fast: None, tmp_path: Path, answer: dict[str, Any]
) -> None:
    """Short enough by its characters, and not as the text that it is kept as."""
    wide = [[f"{place} " + "\u1234" * 150, "wait_ns", 1.0, None, None] for place in range(400)]
    large = {"a": _spoiled(answer, numbers=wide), "b": _spoiled(answer, numbers=wide[:100])}
    found, _ = run(FakeCluster({"a": "aa", "b": "bb"}, large.get), tmp_path)
    assert found.rows() == {"bb"} and "larger than a row" in found.missing()["aa"][1]
    problems: dict[str, str] = {}
    assert [machine for machine, _ in store.read(found, problems)] == ["bb"] and not problems


def test_who_answers_from_another_boot_than_it_said_is_not_believed(
    fast: None, tmp_path: Path, answer: dict[str, Any]
) -> None:
    fake = FakeCluster({"a": "aa", "b": "bb"}, lambda _: answer)
    real = fake.ask

    def ask(worker: str, question: dict[str, Any]) -> FakeFuture:
        if worker == "b" and question["do"] != "hello":
            fake.boots["b"] = "aa"
        return real(worker, question)

    fake.ask = ask  # type: ignore[method-assign]
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"aa"} and "another machine" in found.missing()["bb"][1]


def test_a_worker_that_is_at_work_for_another_client_keeps_nobody_waiting_and_is_asked_later(
    fast: None, tmp_path: Path, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GREETING_S", 0.1)
    monkeypatch.setattr(engine, "SILENT_S", 30.0)
    fake = FakeCluster({"a": "aa", "b": "bb"}, lambda _: answer)
    real, held = fake.ask, list[tuple[FakeFuture, Callable[[FakeFuture], None]]]()

    def ask(worker: str, question: dict[str, Any]) -> FakeFuture:
        made = real(worker, question)
        if worker == "b" and question["do"] == "hello":
            made.status = "pending"
            made.add_done_callback = lambda tell: held.append((made, tell))  # type: ignore[method-assign]
        return made

    def ends() -> None:
        if held and list(tmp_path.rglob("aa.row.json")):
            made, tell = held.pop()
            made.status = "finished"
            tell(made)

    fake.ask, fake.look = ask, ends  # type: ignore[method-assign]
    found, _ = run(fake, tmp_path, wait_s=20.0)
    assert fake.asked == ["a", "b"] and found.rows() == {"aa", "bb"}


def test_a_folder_that_takes_no_more_ends_the_round_and_the_rest_are_asked_when_there_is_room(
    fast: None, tmp_path: Path, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.write_text

    def full(path: Path, text: str) -> None:
        if path.name == "bb.row.json":
            raise ResultError(f"Cannot write {path}: No space left on device.")
        write(path, text)

    asked: list[str] = []

    def says(worker: str) -> dict[str, Any] | None:
        asked.append(worker)
        return answer if worker != "c" else None  # it is measuring still

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_text", full)
        with pytest.raises(ResultError, match="No space left"):
            run(FakeCluster({"a": "aa", "b": "bb", "c": "cc"}, says), tmp_path)
    found, _ = run(later := FakeCluster({"a": "aa", "b": "bb", "c": "cc"}, lambda _: answer), tmp_path)
    assert found.rows() == {"aa", "bb", "cc"} and sorted(later.asked) == ["b", "c"]
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith((".tmp", "~"))]


@pytest.mark.parametrize("lacks", [5, {"a": 1}, "x" * 10_000, [["\x1b[2J"] * 3] * 40, None])
def test_whatever_a_machine_lacks_the_doctor_goes_on(fast: None, lacks: Any) -> None:
    fake = FakeCluster({"a": "aa", "b": "bb"}, lambda worker: {"lacks": lacks} if worker == "a" else {})
    found = engine.doctor(fake)  # type: ignore[arg-type]
    assert set(found.answers) == {"aa", "bb"}
    said = found.answers["aa"]["lacks"]
    assert len(said) <= 10 and all(one.isprintable() and len(one) <= 300 for one in said)


def test_the_doctor_says_with_whom_a_machine_is_shared(fast: None) -> None:
    from sched_labs.fleet.cli import _line

    told = {"a": ["by Slurm", "with 1 other user whose processes are here"], "b": []}
    found = engine.doctor(FakeCluster({"a": "aa", "b": "bb"}, lambda worker: {"shared": told[worker]}))  # type: ignore[arg-type]
    lines = {machine: _line(machine, said) for machine, said in found.answers.items()}
    assert "shared by Slurm and with 1 other user" in lines["aa"] and "shared" not in lines["bb"]


def _spoiled(answer: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**answer, "row": {**answer["row"], **changed}}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda said: {},
        lambda said: {**said, "result": "{}"},
        lambda said: {**said, "result": said["result"].replace(KIND, "runqlat.histogram", 1)},
        lambda said: _spoiled(said, kind="../../etc"),
        lambda said: _spoiled(said, numbers=[["a", "b_ns", float("nan"), None, None]]),
        lambda said: _spoiled(said, numbers=[["a", "b_ns", 1, 2, 0]]),
        lambda said: _spoiled(said, numbers=said["row"]["numbers"] * 100),
        lambda said: _spoiled(said, facts={"kernel": "x" * 10_000}),
        lambda said: _spoiled(said, claims={"a": "<script>"}),
        lambda said: _spoiled(said, flags=-1),
    ],
)
def test_what_is_no_result_spoils_the_row_of_its_own_machine_only(
    fast: None, tmp_path: Path, answer: dict[str, Any], spoil: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    fake = FakeCluster({"good": "good", "bad": "bad"}, lambda w: spoil(answer) if w == "bad" else answer)
    found, _ = run(fake, tmp_path)
    assert found.rows() == {"good"}
    assert found.missing()["bad"][0] == "failed"


def test_where_nobody_has_what_it_needs_the_reason_is_said(fast: None, tmp_path: Path) -> None:
    lacking = {"why": "lacking", "reason": "This machine has one CPU."}
    with pytest.raises(SchedLabError, match="one CPU") as caught:
        run(FakeCluster({"a": "aa"}, lambda _: lacking), tmp_path)
    assert caught.value.lacking


def test_a_watch_of_a_group_is_kept_as_any_result_is(fast: None, tmp_path: Path) -> None:
    result = recorded("own_program.watch")
    assert result
    said = {"row": row.make(result, row.plain(result.machine)), "result": result.to_json()}
    found = engine.watch("/a.slice", FakeCluster({"a": "aa"}, lambda _: said), tmp_path)  # type: ignore[arg-type]
    assert found.rows() == {"aa"} and found.folder.parent.name == "own_program.watch"


def test_again_and_again_is_a_round_each_time(
    fast: None, tmp_path: Path, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    fake = FakeCluster({"a": "aa"}, lambda _: answer)
    fake.dashboard = ""  # type: ignore[attr-defined]
    monkeypatch.setattr(clusters, "connect", lambda *_: contextlib.nullcontext(fake))
    monkeypatch.setattr(time, "sleep", sleep)
    assert cli.main(["fleet", "run", KIND, "--every", "1h", "-o", str(tmp_path)]) == 130
    assert len(store.rounds(tmp_path, KIND)) == 3 and all(3500 < one <= 3600 for one in slept)


def test_a_cluster_without_workers_is_told(fast: None, tmp_path: Path) -> None:
    with pytest.raises(SchedLabError, match="no workers"):
        run(FakeCluster({}, lambda _: None), tmp_path)


def test_other_parameters_go_to_another_folder(fast: None, tmp_path: Path, answer: dict[str, Any]) -> None:
    run(FakeCluster({"a": "aa"}, lambda _: answer), tmp_path, profile="tiny")
    with pytest.raises(ParameterError, match="other parameters"):
        run(FakeCluster({"a": "aa"}, lambda _: answer), tmp_path, profile="full")
    with pytest.raises(ParameterError, match="no parameter"):
        run(FakeCluster({"a": "aa"}, lambda _: answer), tmp_path, speed=11)


def test_a_second_run_in_one_folder_is_refused(
    fast: None, tmp_path: Path, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sched_labs.core.store.PATIENCE_S", 0.1)
    fake = FakeCluster({"a": "aa"}, lambda _: answer)
    refused: list[str] = []

    def meanwhile() -> None:
        if not refused:
            refused.append("")
            with pytest.raises(ResultError) as caught:
                run(FakeCluster({"a": "aa"}, lambda _: answer), tmp_path)
            refused[0] = caught.value.what

    fake.look = meanwhile
    run(fake, tmp_path)
    assert "Another program" in refused[0]


@pytest.mark.parametrize(
    "kind", ["quota.threads", "runqlat.histogram", "sleeper.among_hogs", "policies.hog", "own_program.watch"]
)
def test_a_recorded_run_has_a_row_that_is_taken(kind: str) -> None:
    result = recorded(kind)
    assert result
    made = json.loads(json.dumps(row.make(result, row.plain(result.machine))))
    columns = set(result.summary().columns)
    assert row.checked(made)["kind"] == kind and made["numbers"]
    for _, column, value, low, high in made["numbers"]:
        assert column in columns and value == value
        assert low is None or low <= high


@pytest.mark.parametrize("played, timing", [(True, "vm-emulated"), (False, "native"), (None, "native")])
def test_the_row_of_a_guest_says_how_its_time_passes(
    played: bool | None, timing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sched_labs import machine
    from sched_labs.fleet import onsite

    survey = machine.survey()
    facts = survey.facts | {"host.emulated": dataclasses.replace(survey.fact("host.emulated"), value=played)}
    monkeypatch.setattr(machine, "survey", lambda: dataclasses.replace(survey, facts=facts))
    result = recorded("sleeper.among_hogs")
    assert result and result.timing == "native"
    said = onsite._found(result)
    assert said["row"]["timing"] == json.loads(said["result"])["timing"] == timing


WITHOUT_MATPLOTLIB = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from sched_labs.core import registry
from sched_labs.core.result import recorded
from sched_labs.fleet import row
for kind in registry.names():
    if result := recorded(kind):
        print(kind, len(row.make(result, {})["claims"]))
"""


def test_every_kind_is_judged_where_matplotlib_is_missing_as_in_a_guest() -> None:
    import subprocess

    from sched_labs.core import registry

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MATPLOTLIB], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    judged = dict(line.split() for line in done.stdout.splitlines())
    assert set(judged) == {kind for kind in registry.names() if recorded(kind)}
    assert all(int(judged[kind]) == len(registry.claims_about(kind)) for kind in judged)


def test_a_number_has_the_interval_that_the_summary_gives_it() -> None:
    result = recorded(KIND)
    assert result
    table = result.summary()
    first = table.iloc[0]
    found = {(name, column): rest for name, column, *rest in numbers.of(result)}
    rest = found["pipe, threads, same cpu: net per switch", "net_per_switch_ns"]
    assert rest == [first.net_per_switch_ns, first.net_lo_ns, first.net_hi_ns]


def test_the_greeting_needs_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(greeting.__file__).read_text(encoding="utf-8")
    for name in [name for name in sys.modules if name.startswith("sched_labs")]:
        monkeypatch.setitem(sys.modules, name, None)
    names: dict[str, Any] = {}
    said = json.loads(
        eval(clusters._CALL, {"source": source, "question": '{"do": "hello", "version": "1"}'}, names)
    )
    assert said["version"] == "" and said["boot"]
    refused = json.loads(
        eval(clusters._CALL, {"source": source, "question": '{"do": "measure", "version": "1"}'})
    )
    assert "refused" in refused and "answer" not in refused


def test_no_name_of_host_or_user_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass
    import platform

    from sched_labs.fleet import onsite

    said = json.dumps(onsite.answer({"do": "survey", "kind": "", "version": __version__}))
    words = {getpass.getuser(), platform.node()} - {"root", "localhost", ""}
    assert not [word for word in words if f'"{word}"' in said]


def test_a_machine_that_measures_already_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sched_labs.core import lock
    from sched_labs.fleet import onsite

    tmp_path.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (tmp_path,))
    asked = {"do": "measure", "kind": KIND, "parameters": {"profile": "tiny"}, "wait_s": 0.1}
    with lock.machine("a reader's own"):
        assert onsite.answer({"do": "survey"})["holder"] == "an experiment"
        said = onsite.answer(asked)
    assert said["why"] == "busy" and "a reader's own" in said["reason"]
    assert onsite.answer({**asked, "kind": "none.such"})["why"] == "failed"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["run", KIND, "--scheduler", "nonsense://x"], "is no address of a scheduler"),
        (["run", KIND, "--scheduler", "tcp://127.0.0.1:1"], "No Dask scheduler answers"),
        (["run", KIND, "--scheduler", ""], "is no address of a scheduler"),
        (["run", KIND, "--scheduler", "tcp://"], "is no address of a scheduler"),
        (["run", KIND, "--scheduler", "\x1b[2J"], r"'\x1b[2J' is no address of a scheduler"),
        (["run", KIND, "--scheduler", "127.0.0.1:99999"], "No Dask scheduler answers"),
        (["run", "no.such.kind"], "There is no experiment"),
        (["run", KIND, "--every", "soon"], "is no time between rounds"),
        (["run", KIND, "--scheduler", "tls://127.0.0.1:1", "--tls-ca", "/nowhere"], "There is no file"),
    ],
)
def test_bad_input_is_refused_in_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(clusters, "CONNECT_S", 0.5)
    assert cli.main(["fleet", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 200 OK\r\n\r\n" * 20])
def test_a_port_where_something_else_listens_is_told_from_a_scheduler(
    says: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is left half open would be closed as the program ends, for 20 s and with a traceback."""
    clients = pytest.importorskip("distributed").Client._instances
    monkeypatch.setattr(clusters, "CONNECT_S", 0.5)
    before = len(clients)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].send(says), daemon=True)
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert cli.main(["fleet", "doctor", "--scheduler", address]) == 2
    assert "No Dask scheduler answers" in capsys.readouterr().err
    assert len(clients) == before


def test_a_round_that_breaks_does_not_end_the_rounds_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one does: whoever started it is there to mend it."""
    turns: list[int] = []

    def breaks(*given: Any, **named: Any) -> store.Round:
        turns.append(len(turns))
        if len(turns) - 1 in broken:
            raise SchedLabError("The cluster has no workers.")
        if len(turns) == 3:
            raise KeyboardInterrupt
        return store.Round(tmp_path)

    monkeypatch.setattr(engine, "run", breaks)
    monkeypatch.setattr(
        clusters, "connect", lambda *given: contextlib.nullcontext(SimpleNamespace(dashboard=""))
    )
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    broken = {1}
    assert cli.main(["fleet", "run", KIND, "--every", "1h"]) == 130
    assert turns == [0, 1, 2] and "no workers. The next round" in capsys.readouterr().err
    broken = {3}
    assert cli.main(["fleet", "run", KIND, "--every", "1h"]) == 2
    assert turns == [0, 1, 2, 3]


def test_without_dask_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main(["fleet", "doctor"]) == 2
    assert "sched-labs[fleet]" in capsys.readouterr().err


def test_other_commands_load_nothing_of_it() -> None:
    import subprocess

    code = (
        "import sys; from sched_labs import cli; cli.main(['list']);"
        "print([m for m in sys.modules if m == 'distributed' or m == 'dask'"
        " or m.startswith('sched_labs.fleet.') and m != 'sched_labs.fleet.cli'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.fixture(autouse=True)
def one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command leaves lies where a test may look."""
    monkeypatch.chdir(tmp_path)
    yield


def test_a_worker_that_raises_is_not_believed() -> None:
    with pytest.raises(SchedLabError, match="did not answer"):
        clusters.heard(SimpleNamespace(status="error"))  # type: ignore[arg-type]
