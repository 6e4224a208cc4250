"""Incidents without starting any: what is drawn, told, judged and kept; and each service alone."""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import json
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from sched_labs import cli
from sched_labs.book.chapters import checkout
from sched_labs.classroom import wall
from sched_labs.core.errors import BusyError, ParameterError, ResultError, SchedLabError
from sched_labs.incidents import (
    board,
    cast,
    causes,
    desk,
    evidence,
    judge,
    ledger,
    meter,
    program,
    stage,
    story,
)
from sched_labs.incidents import cli as incident_cli
from sched_labs.incidents.desk import Running
from sched_labs.workloads.launch import owner_mark

ROOT = checkout().root
NAMES = story.names()
VARIANTS = [(name, one.cause) for name in NAMES for one in story.plan(name, 0).story.variants]


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def reading(level: float = 0.99, **programs: dict[str, Any]) -> dict[str, Any]:
    one = {"pid": 1, "alive": True, "cpu_ms_per_s": 1, "switches_per_s": 1, "rss_mib": 1, "answers_per_s": 1}
    told = {role: {**one, "work_per_s": 0.0, **more} for role, more in programs.items()}
    return {
        **{"seconds": 6.0, "requests_per_s": 60.0, "p50_ms": 20.0, "p99_ms": 40.0, "level": level},
        **{"refused_per_s": 0.0, "programs": told, "others_share": 0.0, "stolen_share": 0.0},
        "places": {"outside": 0.0, "waiting": 0.0, "in_work": 1.0, "not_sent": 0.0},
    }


def running(name: str, cause: str, seed: int = 1) -> Running:
    plan = story.plan(name, seed, cause=cause)
    roles: dict[str, dict[str, Any]] = {role: {"work_per_s": 1.0} for role in plan.names}
    state = {
        **{"started_at": "2026-01-01T00:00:00+00:00", "since_s": 60, "alarm_s": 0.0, "ends_s": 2700.0},
        **{"healthy": reading(**roles), "sick": 0.1, "now": reading(0.1, **roles), "log": [], "group": None},
        "pids": dict.fromkeys(plan.names, 1),
    }
    return Running(plan, desk.place(), state)


# ---- stories ----


def test_there_are_about_twenty_causes_to_choose_from() -> None:
    assert 18 <= len(causes.CAUSES) <= 27
    assert all((ROOT / f"{cause.page}.md").is_file() for cause in causes.CAUSES.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_story_has_three_variants_that_can_be_judged_and_mended(name: str) -> None:
    drawn = story.plan(name, 0).story
    found = [one.cause for one in drawn.variants]
    assert len(found) >= 3 and len(set(found)) == len(found)
    assert set(found) <= set(causes.CAUSES) and set(found) <= set(evidence.JUDGED)
    roles = {one.role for one in drawn.programs}
    assert {"client", "service"} <= roles
    for one in drawn.programs:  # or two windows of a cycle hold unlike amounts of the same work
        periods = [one.told.get(key, 1) for key in ("period_ms", "snapshot_every_ms")]
        assert not [length for length in periods if 1000 * story.CYCLE_S % length]
    for variant in drawn.variants:
        assert variant.repairs and variant.culprit in roles
        changed = {change.role for change in variant.breaks} | {one.change.role for one in variant.repairs}
        assert changed <= roles - {"client"}, "clients are the load: neither trouble nor repair is theirs"
        for repair in variant.repairs:
            knobs = drawn.program(repair.change.role).knobs
            assert set(repair.change.set) <= set(knobs), "a repair that the program's file does not offer"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_told_before_the_end_is_the_same_for_every_variant(name: str, tmp_path: Path) -> None:
    """Neither the text nor the hints, files, names and order of the programs give the cause away."""
    seen = set()
    for variant in story.plan(name, 5).story.variants:
        plan = story.plan(name, 5, cause=variant.cause)
        told = [plan.text, *plan.hints, plan.story.title, str(plan.names), str(plan.order)]
        told += [f"{one.about} {one.cpus} {one.knobs} {one.told}" for one in plan.story.programs]
        seen.add("\n".join(told))
        assert plan.proof(variant.cause) and variant.cause not in plan.hints
    assert len(seen) == 1


@pytest.mark.parametrize("name", NAMES)
def test_names_numbers_and_causes_come_from_the_seed(name: str) -> None:
    drawn = [story.plan(name, seed) for seed in range(60)]
    assert len({plan.variant.cause for plan in drawn}) == len(drawn[0].story.variants)
    assert len({str(plan.names) for plan in drawn}) > 30
    assert len({str(plan.story.programs) for plan in drawn}) > 30
    assert len({plan.order for plan in drawn}) > 3
    again = story.plan(name, 7)
    assert str(again) == str(drawn[7])


def test_what_a_machine_lacks_is_not_drawn() -> None:
    for name in NAMES:
        for seed in range(30):
            assert not story.plan(name, seed, without=story.NEEDS).variant.needs


def test_who_may_give_no_real_time_policy_is_told_before_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stage, "_no_priority", lambda: "real-time policies: needs CAP_SYS_NICE")
    monkeypatch.setattr(cast, "cpus", dict)
    assert stage.lacking("isolated") == (("priority",), "real-time policies: needs CAP_SYS_NICE")
    assert stage.lacking("ledger") == ((), "")
    assert cli.main(["incident", "start", "isolated", "--cause", "realtime"]) == 2
    said = capsys.readouterr()
    assert "cannot show all of isolated (real-time policies: needs CAP_SYS_NICE)" in said.out
    assert "cannot show realtime" in said.err


def test_a_seed_alone_draws_the_same_incident_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[story.Plan] = []
    monkeypatch.setattr(cast, "cpus", dict)
    monkeypatch.setattr(stage, "run", lambda plan, **options: drawn.append(plan))
    for words in (["--seed", "9"], ["--seed", "9"], ["--cause", "interrupts"], *[[]] * 30):
        assert cli.main(["incident", "start", *words]) == 0
    assert str(drawn[0]) == str(drawn[1])
    assert drawn[2].variant.cause == "interrupts"
    assert len({plan.name for plan in drawn[3:]}) > 5


def test_an_evening_of_incidents_repeats_none_before_all_were_played(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[story.Plan] = []
    monkeypatch.setattr(cast, "cpus", dict)
    monkeypatch.setattr(stage, "run", lambda plan, **options: drawn.append(plan))
    for _ in range(2 * len(NAMES)):
        assert cli.main(["incident", "start"]) == 0
        ledger.note(Running(drawn[-1], desk.place(), {"started_at": f"{len(drawn)}"}), hints=1)
    names = [plan.name for plan in drawn]
    assert sorted(names[: len(NAMES)]) == sorted(names[len(NAMES) :]) == sorted(NAMES)
    assert cli.main(["incident", "start", "--seed", str(drawn[-1].seed)]) == 0
    assert str(drawn[-1]) == str(drawn[-2]), "the seed that a story names starts it once more"


def test_two_paragraphs_tell_the_story_and_name_what_runs() -> None:
    for name in NAMES:
        plan = story.plan(name, 3)
        assert plan.text.count("\n\n") == 1 and "{" not in plan.text
        opening = board.opening(plan)
        assert max(map(len, opening.splitlines())) <= 100 and plan.names["service"] in opening
        assert plan.names["service"] in plan.text
        assert len(plan.hints) >= 3


def test_a_program_is_laid_out_under_a_name_with_its_settings(tmp_path: Path) -> None:
    plan = story.plan("ledger", 1)
    cast.lay_out(plan, tmp_path)
    name = plan.names["service"]
    file = (tmp_path / "etc" / f"{name}.conf").read_text()
    assert all(line.startswith("#") for line in file.splitlines()), "nothing in a file says how it is set"
    assert "# workers = " in file and (tmp_path / "bin" / name).is_file()


def test_what_the_stories_suggest_is_mostly_wrong() -> None:
    drawn = [story.plan(name, 0).story for name in NAMES]
    right = sum(variant.cause == one.suspect for one in drawn for variant in one.variants)
    assert right < 0.35 * len(VARIANTS)


# ---- judging ----


@pytest.mark.parametrize(
    ("text", "value"), [("47", 47.0), ("47 %", 47.0), ("-3", -3.0), ("310.5 ms/s", 310.5), (" 2 CPUs", 2.0)]
)
def test_a_value_is_read_as_people_write_it(text: str, value: float) -> None:
    assert judge.number(text) == value


@pytest.mark.parametrize("text", ["", "much", "1e999", "nan", "4 7", "--", "47; rm", "9" * 400])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="no value of a measurement"):
        judge.number(text)


def test_a_wrong_cause_is_told_at_once_and_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    one = running("ledger", "lock")
    assert judge.answer(one, "overload", "60").right is False
    monkeypatch.setattr(evidence, "measure", lambda found: 4.0)
    assert judge.answer(one, "lock", "11").right is False
    assert judge.answer(one, "lock", "4.3").right is True
    assert [causes.plain(value) for value in (653_145.7, 4.166, -10, 0)] == ["653000", "4.17", "-10", "0"]
    kept = ledger.of(one)
    assert (kept["wrong_causes"], kept["wrong_values"], kept["score"]) == (1, 1, 30 + 25)


def test_an_answer_that_is_no_cause_is_refused_and_costs_nothing() -> None:
    one = running("ledger", "lock")
    assert causes.find("GIL").name == "gil"
    with pytest.raises(ParameterError, match="Did you mean lock"):
        judge.answer(one, "locks", "3")
    with pytest.raises(ParameterError, match="lists them all"):
        judge.answer(one, "gremlins", "3")
    assert ledger.entries() == []


def test_what_comes_after_reveal_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = running("ledger", "lock")
    ledger.note(one, revealed=True)
    monkeypatch.setattr(evidence, "measure", lambda found: 4.0)
    assert judge.answer(one, "lock", "4").right is True
    assert ledger.of(one)["score"] == 0


HEALTHY = reading(0.99, service={}, batch={"work_per_s": 100.0})
NAMED = {"service": "adlerd", "batch": "kestrel"}


@pytest.mark.parametrize(
    ("change", "right", "said"),
    [
        ({}, True, "Mended"),
        ({"level": 0.90}, True, "Mended"),
        ({"level": 0.85}, False, "Not mended"),
        ({"level": 0.85, "others_share": 0.4}, None, "quieter minute"),
        ({"level": 0.85, "stolen_share": 0.2}, None, "quieter minute"),
        ({"level": 0.85, "others_share": 0.1}, False, "Not mended"),
        ({"requests_per_s": 30.0}, False, "less load is no repair"),
        ({"requests_per_s": 0.0, "level": 0.0, "others_share": 0.9}, False, "less load is no repair"),
        ({"batch": {"work_per_s": 60.0}}, False, "kestrel did 60% of its work"),
        ({"batch": {"work_per_s": 100.0, "alive": False}}, False, "kestrel is not running"),
        ({"batch": {"work_per_s": 60.0}, "others_share": 0.5}, None, "quieter minute"),
    ],
)
def test_a_repair_is_judged_by_the_level_the_load_and_everybodys_work(
    change: dict[str, Any], right: bool | None, said: str
) -> None:
    batch = change.pop("batch", {"work_per_s": 100.0})
    found = {**reading(0.98, service={}, batch=batch), **change}
    verdict = judge.judged(found, HEALTHY, NAMED)
    assert verdict.right is right and said in str(verdict)


@pytest.mark.parametrize(("others", "right"), [(0.3, False), (0.5, False), (0.7, None)])
def test_beside_very_much_else_nothing_is_judged_however_busy_it_was_before(
    others: float, right: bool | None
) -> None:
    busy = {"others_share": others}
    found = {**reading(0.5, service={}, batch={"work_per_s": 100.0}), **busy}
    assert judge.judged(found, {**HEALTHY, **busy}, NAMED).right is right
    well = {**found, "level": 0.98}
    assert judge.judged(well, {**HEALTHY, **busy}, NAMED).right is True, "what is well is well"


def test_no_more_requests_are_in_time_than_there_were() -> None:
    """Those that were due before the first look may be answered after it."""
    none = {"due": 0, "in_time": 0, "refused": 0, "bins": [0] * meter.BINS}
    looks = [
        meter.Look(at_s, {"client": {**none, "due": due, "in_time": in_time}}, {}, 0, 0)
        for at_s, due, in_time in ((0.0, 10, 7), (1.0, 20, 18))
    ]
    assert meter.reading(*looks)["level"] == 1


def test_a_quantile_is_the_upper_edge_of_its_bin() -> None:
    bins = [0] * meter.BINS
    bins[4 * 10] = 99  # 1024 to 1280 µs
    bins[4 * 14 + 3] = 1  # 28,672 to 32,768 µs
    assert meter.quantile(bins, 0.5) == 1.28
    assert meter.quantile(bins, 0.999) == 32.77
    assert meter.quantile([0] * meter.BINS, 0.5) is None


# ---- programs ----


@pytest.fixture(params=["service", "coroutines"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A service by itself, with three loops or with coroutines."""
    for name in cast.FOLDERS:
        (tmp_path / name).mkdir()
    (tmp_path / "etc" / "adlerd.conf").write_text("workers = 2 # two\nworkers = many\nshoes = 3\n")
    source = program.path() if request.param == "service" else program.COROUTINES
    shutil.copy(source, tmp_path / "bin" / "adlerd")
    with (
        (tmp_path / "log" / "adlerd.log").open("wb") as log,
        subprocess.Popen(
            [*(cast.PYTHON if request.param == "coroutines" else ()), "bin/adlerd"],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        assert process.stdin
        told = f"kind={cast.KINDS['service']} deadline_s=60 workers=1 cpu_us=100 asks=2 loops=3 balance=1"
        process.stdin.write(f"{told} wait_us=1000\n".encode())
        process.stdin.flush()
        yield tmp_path
        process.stdin.close()
        assert process.wait(timeout=10) == 0, "it ends with whoever started it"


def test_a_service_answers_on_every_connection_and_counts(service: Path) -> None:
    one = struct.Struct("qII")
    assert wait_until(lambda: (service / "run" / "adlerd.sock").exists())
    with contextlib.ExitStack() as lines:
        answers = []
        for number in range(6):
            line = lines.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            line.settimeout(10)
            assert wait_until(functools.partial(connects, line, service / "run" / "adlerd.sock"))
            line.send(one.pack(number, number, 0))
            answers.append(one.unpack(line.recv(one.size)))
    assert answers == [(number, number, 0) for number in range(6)]

    def counted() -> list[int]:
        found = meter.counters(service, "adlerd")
        return [found[key] for key in ("received", "started", "finished", "replied")]

    assert wait_until(lambda: counted() == [6] * 4), counted()
    log = (service / "log" / "adlerd.log").read_text()
    assert "workers = many: not taken" in log and "shoes" in log and "= 2" not in log


def connects(line: socket.socket, path: Path) -> bool:
    """Whether somebody listens there by now."""
    with contextlib.suppress(OSError):
        line.connect(str(path))
        return True
    return False


# ---- what is shown and kept ----


@pytest.mark.parametrize(("name", "cause"), VARIANTS)
def test_the_dashboard_says_nothing_of_the_cause_and_the_end_says_it_all(name: str, cause: str) -> None:
    one = running(name, cause)
    others = [found for found in causes.CAUSES if f" {found} " in f" {board.text(one)} "]
    assert others == []
    facts = json.dumps(board.facts(one))
    assert "seed" not in facts and "variant" not in facts and '"cause"' not in facts
    end = board.revealed(one)
    assert f"The cause: {cause}" in end and causes.CAUSES[cause].page in end and "{" not in end


def test_the_score_is_kept_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = running("ledger", "lock", seed=9)
    ledger.note(one, cause_at_s=50, hints=1)
    ledger.note(one, cause_at_s=80, repaired_at_s=90)
    assert cli.main(["incident", "score", "--export", str(tmp_path / "kept.csv")]) == 0
    (row,) = csv.DictReader((tmp_path / "kept.csv").open())
    assert (row["story"], row["seed"], row["cause_at_s"], row["score"]) == ("ledger", "9", "50", "65")
    assert cli.main(["incident", "score"]) == 0
    assert "65 of 100" in capsys.readouterr().out


def test_a_ledger_that_somebody_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data" / "sched-labs" / "incidents.json"
    file.parent.mkdir(parents=True)
    for text in ("{", '{"a": 1}', "[1]"):
        file.write_text(text)
        with pytest.raises(ResultError, match="Move the file away"):
            ledger.entries()


def test_stop_ends_the_incident_and_nobody_who_has_its_number_by_now() -> None:
    with subprocess.Popen(["sleep", "100"]) as one:
        pid, _, began = owner_mark(one.pid).partition(":")
        desk._tell(f"{pid}:{int(began) - 1}")  # whose number is used again
        with pytest.raises(subprocess.TimeoutExpired):
            one.wait(0.2)
        desk._tell(f"{pid}:{began}")
        assert one.wait(10) == -signal.SIGTERM
    desk._tell(f"{pid}:{began}")  # who has gone


# ---- bad input ----


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start", "nosuch"], "There is no incident 'nosuch'"),
        (["start", "ledger", "--minutes", "0"], "lasts 1 to 120 minutes"),
        (["start", "ledger", "--seed", "-4"], "is no seed"),
        (["start", "ledger", "--cause", "gremlins"], "is no cause"),
        (["start", "ledger", "--cause", "interrupts"], "It is behind one of: housekeeping, observer"),
        (["start", "--cause", "hypervisor"], "Nor is it behind any other"),
        (["start", "ledger", "--class", "blue-7"], "one incident for all of it"),
        (["start", "--class", "blue-7", "--seed", "7"], "one incident for all of it"),
        (["start", "--class", "a b"], "no code of a class"),
        (["start", "--to", "127.0.0.1:8891"], "Name its code"),
        (["wall", "../x"], "no code of a class"),
        (["status"], "No incident is running"),
        (["story"], "No incident is running"),
        (["stop"], "No incident is running"),
        (["check"], "No incident is running"),
        (["hint"], "No incident is running"),
        (["reveal"], "No incident is running"),
        (["answer", "lock", "--evidence", "3"], "No incident is running"),
    ],
)
def test_bad_input_gets_a_clear_word(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["incident", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_seed_of_letters_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["incident", "start", "ledger", "--seed", "seven"])
    assert end.value.code == 2 and "invalid int value: 'seven'" in capsys.readouterr().err


def test_a_code_of_a_class_draws_the_same_for_everybody_and_not_for_every_class() -> None:
    assert story.of_class("blue-7") == story.of_class("blue-7")
    drawn = {story.of_class(f"class-{number}") for number in range(100)}
    assert len({name for name, _ in drawn}) == len(NAMES) and len(drawn) > 95
    for name in NAMES:  # without what some machines lack there is still something to find out
        assert len({story.plan(name, seed, without=story.NEEDS).variant.cause for seed in range(20)}) >= 2


def test_a_machine_that_is_too_busy_or_bears_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = cast.Cast(story.plan("ledger", 1), tmp_path, 1, None)
    monkeypatch.setattr(stage.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(stage, "_looked", lambda room: None)
    monkeypatch.setattr(meter, "mean_places", lambda *what: {})
    monkeypatch.setattr(meter, "reading", lambda before, after: reading(0.8))
    with pytest.raises(SchedLabError, match="too busy for an incident: without any trouble only 80%"):
        stage._healthy(room)
    with pytest.raises(SchedLabError, match="nothing can be seen of the trouble") as told:
        stage._shows(room, 0.99)
    assert told.value.lacking


def test_a_wall_that_cannot_be_reached_costs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    options = argparse.Namespace(tell=wall.tell)
    incident_cli._tell(options, {"to": "127.0.0.1:1", "code": "blue-7", "player": "0" * 16}, {})
    assert "The incident goes on without it" in capsys.readouterr().err
    incident_cli._tell(options, None, {})
    assert capsys.readouterr().err == ""


def test_an_answer_goes_to_the_wall_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    one = running("ledger", "lock")
    monkeypatch.setattr(desk, "running", lambda: one)
    monkeypatch.setattr(evidence, "measure", lambda found: 4.0)
    with wall.Wall("127.0.0.1", 0, "blue-7") as screen:
        threading.Thread(target=screen.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        to = f"127.0.0.1:{screen.server_address[1]}"
        one.state["room"] = {"to": to, "code": "blue-7", "player": "0" * 16}
        assert cli.main(["incident", "answer", "overload", "--evidence", "4"]) == 1
        assert screen.text().startswith("1 began; 0 have the cause")
        assert cli.main(["incident", "answer", "lock", "--evidence", "4"]) == 0
        assert screen.text() == "1 began; 1 have the cause, 1 have proved it, 0 have mended it."
        screen.shutdown()


def test_a_second_incident_is_refused_while_one_runs() -> None:
    with desk.taken(), pytest.raises(BusyError, match="goes on"), desk.taken():
        pass


def test_an_incident_that_is_being_set_up_says_so() -> None:
    with desk.taken(), pytest.raises(SchedLabError, match="being set up"):
        desk.running()


def test_one_cpu_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cast.placement, "quiet_cpu", lambda: 0)

    def none(cpu: int) -> int:
        raise cast.placement.PlacementError("There is one CPU.", lacking=True)

    monkeypatch.setattr(cast.placement, "other_cpu", none)
    with pytest.raises(SchedLabError, match="never takes the last CPU"):
        stage.lacking("ledger")


def test_listing_loads_nothing_heavy() -> None:
    code = (
        "import sys; from sched_labs import cli; assert cli.main(['incident', 'list']) == 0;"
        "print({'pandas', 'numpy', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()" and "ledger" in done.stdout
