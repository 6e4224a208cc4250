"""Runs that readers give to the book: which are wanted, what is refused, and nothing unseen."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from sched_labs import cli
from sched_labs.authoring import contribute
from sched_labs.core import registry
from sched_labs.core.errors import SchedLabError
from sched_labs.core.result import Note, Result, recorded
from sched_labs.run import record

KIND = "smt.sharing"


@pytest.fixture
def siblings() -> Result:
    """A CONSTRUCTED run with two threads of one core: the book's own, whose two cores stand for them, too."""
    run = recorded(KIND)
    assert run
    shared = run.data[run.data.placement == "cores"].assign(placement="siblings")
    run.data = pd.concat([run.data, shared], ignore_index=True)
    run.parameters["cpus"]["siblings"] = [1, 0]
    run.machine["smt"] = 2
    run.notes = []
    return run


def test_what_the_books_own_runs_lack_is_wanted() -> None:
    found = record.wanted()
    assert {KIND, "numa.chase", "migration.cost"} <= set(found)
    for kind, lacks in found.items():
        runs = [run for machine in registry.recorded_files(kind) if (run := recorded(kind, machine))]
        assert lacks in [[note.text for note in run.notes if note.level == "missing"] for run in runs]
        assert all(map(contribute.objections, runs)), "the book has these"


def test_a_run_that_lacks_less_is_taken_whole(
    siblings: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert contribute.objections(siblings) == []
    path = tmp_path / "given.json"
    path.write_text(contribute.text([siblings]))
    entry = replace(registry.entry(KIND), folder=tmp_path)
    monkeypatch.setattr(registry, "entry", lambda kind: entry)
    monkeypatch.setattr(contribute, "lacking", lambda kind: ["SMT"])
    monkeypatch.setattr(contribute, "_broken", lambda run: [])  # the entry has nothing but this folder
    for machine, name in (("", "recorded.sharing.json"), ("smt-host", "recorded.sharing.smt-host.json")):
        assert contribute.take(path, machine) == [tmp_path / name]
        assert (tmp_path / name).read_text() == siblings.to_json()


CHANGES: list[tuple[str, Callable[[Result], Result]]] = [
    ("has all that it wants", lambda run: recorded("sleeper.among_hogs") or run),
    ("lacks what the book", lambda run: replace(run, notes=recorded(KIND).notes)),  # type: ignore[union-attr]
    ("flagged: The host", lambda run: replace(run, notes=[Note("flag", "The host was busy.")])),
    ("not measured whole", lambda run: replace(run, timing="vm-emulated")),
    ("not measured whole", lambda run: replace(run, interrupted=True)),
    ("profile", lambda run: replace(run, parameters=run.parameters | {"profile": "tiny"})),
    ("sched-labs 0.0", lambda run: replace(run, library="0.0")),
    (
        "declared|documented|intervals|saved|drawn|told|judged",
        lambda run: replace(run, data=run.data.drop(columns="units")),
    ),
]


@pytest.mark.parametrize(("said", "change"), CHANGES, ids=[said for said, _ in CHANGES])
def test_what_the_books_own_runs_may_not_be_is_refused(
    said: str, change: Callable[[Result], Result], siblings: Result, tmp_path: Path
) -> None:
    (tmp_path / "given.json").write_text(contribute.text([change(siblings)]))
    shipped = [path for kind in record.wanted() for path in registry.recorded_files(kind).values()]
    before = {path: path.stat().st_mtime_ns for path in shipped}
    with pytest.raises(SchedLabError, match=said):
        contribute.take(tmp_path / "given.json")
    assert before == {path: path.stat().st_mtime_ns for path in before}


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"format":"sched-labs contribution","version":1,"runs":[]}',
             '{"format":"sched-labs contribution","version":1,"runs":[7]}'],
)  # fmt: skip
def test_what_is_no_contribution_is_refused_in_words(text: str, tmp_path: Path) -> None:
    (tmp_path / "given.json").write_text(text)
    with pytest.raises(SchedLabError):
        contribute.take(tmp_path / "given.json")
    with pytest.raises(SchedLabError, match="cannot be read"):
        contribute.take(tmp_path / "nowhere.json")


def test_all_but_the_rows_is_shown_before_it_is_written(
    siblings: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["contribute"]) == 2
    assert f"sched-labs run {KIND}" in capsys.readouterr().out
    siblings.save()
    monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
    assert cli.main(["contribute"]) == 1 and not (tmp_path / "contribution.json").exists()
    assert cli.main(["contribute", KIND, "--yes"]) == 0
    said = capsys.readouterr().out
    [held] = json.loads((tmp_path / "contribution.json").read_text())["runs"]
    for key, value in held["machine"].items():
        assert f'"{key}": {json.dumps(value)}' in said
    assert "rows of pair, placement, trial" in said
