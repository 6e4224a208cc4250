"""Whose recorded runs are drawn pale: which machines there are, and what the reader chooses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sched_labs import cli, pale, recorded
from sched_labs.book import measure
from sched_labs.book.chapters import chapters, checkout
from sched_labs.core import registry, store
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result

KIND = "nested.groups"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "sched-labs"


@pytest.fixture
def third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CONSTRUCTED machine `third`, of which one kind has a run."""
    entry = registry.entry(KIND)
    folder = tmp_path / "nested"
    shutil.copytree(entry.folder, folder)
    elsewhere = replace(entry, folder=folder)
    monkeypatch.setitem(registry._found().entries, KIND, elsewhere)
    run = _shown(KIND)
    run.machine["cpu_model"] = "A third"
    return run.save(elsewhere.recorded_file("third"))


def _shown(kind: str, machine: str | None = None) -> Result:
    run = recorded(kind, machine)
    assert run
    return run


def test_the_books_own_machine_is_drawn_until_another_one_is_chosen() -> None:
    own, *others = pale.machines()
    assert pale.chosen() == own and "intel" in others
    usual = _shown(KIND).machine["cpu_model"]
    pale.choose("intel")
    assert pale.chosen() == "intel" and "Intel" in _shown(KIND).machine["cpu_model"]
    assert _shown(KIND, "").machine["cpu_model"] == usual  # asked for by name
    pale.choose(own)
    assert _shown(KIND).machine["cpu_model"] == usual


def test_a_machine_without_a_run_of_a_kind_gives_way_to_the_books_own(third: Path) -> None:
    pale.choose("third")
    assert _shown(KIND).machine["cpu_model"] == "A third"
    assert _shown("yielding.semantics").machine == _shown("yielding.semantics", "").machine
    third.unlink()  # of a course that has been uninstalled since
    assert pale.chosen() == next(iter(pale.machines()))
    assert _shown(KIND).machine == _shown(KIND, "").machine


def test_every_figure_names_the_machine_behind_it() -> None:
    mine, other = _shown(KIND, ""), _shown(KIND, "intel")
    figure = mine.plot(recorded=other)
    assert "recorded on Intel" in figure.alt
    assert f"Pale, recorded: {other.provenance_line()}" in figure.provenance


def test_a_wrong_word_is_told_the_right_ones(data: Path) -> None:
    with pytest.raises(ParameterError, match=", ".join(pale.machines())):
        pale.choose("sparc")
    assert not data.exists()
    for word in ("../x", "A", "", "a.b"):
        with pytest.raises(ParameterError):
            pale.choose(word)
        if word:
            with pytest.raises(ParameterError, match="such as intel"):
                registry.entry(KIND).recorded_file(word)


@pytest.mark.parametrize("kept", [b"", b"\xff\xfe", b"../../etc/passwd\n", b"sparc\n"])
def test_a_choice_that_is_none_is_the_books_own(kept: bytes, data: Path) -> None:
    data.mkdir(parents=True)
    (data / "recorded-machine").write_bytes(kept)
    assert _shown(KIND).machine == _shown(KIND, "").machine
    assert pale.chosen() == next(iter(pale.machines()))


def test_whoever_has_no_home_sees_the_books_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(Path, "home", nobody)
    assert store.recorded_machine() == "" and _shown(KIND)


def test_the_command_lists_and_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recorded"]) == 0
    before = capsys.readouterr().out.splitlines()
    assert cli.main(["recorded", "intel"]) == 0
    after = capsys.readouterr().out.splitlines()
    assert [line[2:] for line in before] == [line[2:] for line in after]
    assert [line.split()[1] for line in (*before, *after) if line.startswith("*")] == [
        next(iter(pale.machines())),
        "intel",
    ]
    assert cli.main(["recorded", "sparc"]) == 2
    assert "intel" in capsys.readouterr().err


def test_a_choice_makes_the_pages_anew() -> None:
    chapter = chapters(checkout(Path(__file__).parents[1]))[0]
    before = measure.fingerprint(chapter, "quick")
    pale.choose("intel")
    assert measure.fingerprint(chapter, "quick") != before
