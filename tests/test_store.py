"""What the reader keeps: whole files or none, and predictions that survive damage."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox import Sandbox, sandbox

from sched_labs import store
from sched_labs.errors import ParameterError, ResultError


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_nothing_is_created_before_something_is_written(own_folder: Path) -> None:
    assert store.predictions() == {}
    assert store.data_folder() == own_folder / "data" / "sched-labs"
    assert list(own_folder.iterdir()) == []


def test_without_xdg_the_folders_are_in_the_home(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(own_folder))
    assert store.data_folder() == own_folder / ".local/share/sched-labs"
    assert store.cache_folder() == own_folder / ".cache/sched-labs"


def test_a_write_replaces_the_whole_file_with_an_ordinary_mode(own_folder: Path) -> None:
    file = own_folder / "deep" / "down" / "a.json"
    store.write_text(file, "long " * 1000)
    store.write_text(file, "short")
    assert file.read_text() == "short"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask
    assert list(file.parent.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = own_folder / "a.json"
    store.write_text(file, "old")

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write_text(file, "new")
    assert file.read_text() == "old"
    assert list(own_folder.iterdir()) == [file]


def test_a_folder_that_is_a_file_is_named(own_folder: Path) -> None:
    (own_folder / "file").write_text("")
    with pytest.raises(ResultError, match=r"Cannot write .*file/a\.json.*\n.*XDG_DATA_HOME"):
        store.write_text(own_folder / "file" / "a.json", "text")


def test_an_ordinary_user_is_told_which_folder_cannot_be_written() -> None:
    code = """
from pathlib import Path
from sched_labs import store
from sched_labs.errors import ResultError
try:
    store.write_text(Path("/usr/sched-labs-test/a.json"), "text")
except ResultError as error:
    print(error)
"""
    if os.geteuid() == 0:
        try:
            with sandbox() as machine:
                done = _as_user(machine, code)
        except RuntimeError as error:
            pytest.skip(str(error))
    else:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("Cannot write /usr/sched-labs-test/a.json: Permission denied."), done
    assert not Path("/usr/sched-labs-test").exists()


def _as_user(machine: Sandbox, code: str) -> subprocess.CompletedProcess[str]:
    return machine.python(code, user=machine.add_user("sl-store-test"))


def test_a_prediction_is_kept_and_replaced_by_a_later_one() -> None:
    store.save_prediction("ch1.switch", 1000, "ns")
    entry = store.save_prediction("ch1.switch", 2000, "ns")
    store.save_prediction("ch1.warm-up", 0.5, "percent")
    kept = store.predictions()
    assert kept["ch1.switch"] == entry == {"value": 2000.0, "unit": "ns", "made_at": entry["made_at"]}
    assert set(kept) == {"ch1.switch", "ch1.warm-up"}


@pytest.mark.parametrize(
    ("question", "value", "unit"),
    [
        ("../../etc/passwd", 1, "ns"),
        ("", 1, "ns"),
        ("A question", 1, "ns"),
        ("q" * 65, 1, "ns"),
        ("q", float("nan"), "ns"),
        ("q", float("inf"), "ns"),
        ("q", 1e300, "ns"),
        ("q", "many", "ns"),
        ("q", None, "ns"),
        ("q", 1, ""),
        ("q", 1, "n" * 33),
    ],
)
def test_what_no_question_asks_is_refused(question: str, value: float, unit: str) -> None:
    with pytest.raises(ParameterError):
        store.save_prediction(question, value, unit)
    assert store.predictions() == {}


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", "7", '{"q": 3}', '{"q": {"value": 1}}', "\udcff", "[" * 100_000]
)
def test_damaged_predictions_are_reported_and_never_overwritten(damaged: str) -> None:
    store.save_prediction("q", 1, "ns")
    file = store.data_folder() / "predictions.json"
    content = damaged.encode("utf-8", "surrogateescape")
    file.write_bytes(content)
    with pytest.raises(ResultError, match=r"Cannot read the predictions in .*\n.*Move the file away"):
        store.predictions()
    with pytest.raises(ResultError):
        store.save_prediction("q", 2, "ns")
    assert file.read_bytes() == content
    file.unlink()
    store.save_prediction("q", 3, "ns")
    assert json.loads(file.read_text())["q"]["value"] == 3
