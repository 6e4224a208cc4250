"""Runs that a build keeps: asked for again they are read, and only while nothing of theirs has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from sched_labs.book.chapters import Chapter
from sched_labs.book.measure import fingerprint
from sched_labs.core import registry
from sched_labs.run import kept


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path))
    monkeypatch.setattr(kept, "_asked", type(kept._asked)())
    return tmp_path


def test_a_run_is_measured_once_and_then_read(
    folder: Path, own_lock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fpu = registry.find("fpu")
    first = fpu(profile="tiny", save=False, progress=False)
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(kept, "_asked", type(kept._asked)())  # as a new process
    again = fpu(profile="tiny", save=False, progress=False)
    assert again.recorded_at == first.recorded_at
    pd.testing.assert_frame_equal(again.data, first.data, check_dtype=False)
    assert fpu(profile="tiny", trials=1, save=False, progress=False).data.trial.max() == 0
    assert len(list(folder.iterdir())) == 2


def test_who_asks_twice_gets_two_runs(folder: Path) -> None:
    one, two = (kept.place("a.b", "sched_labs.core.stats", (), {"trials": 1}) for _ in range(2))
    assert one and two and one != two


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kept.VARIABLE, raising=False)
    assert kept.place("a.b", "sched_labs.core.stats", (), {}) is None


def test_a_damaged_file_is_measured_again(folder: Path) -> None:
    (folder / "x.json").write_text("{")
    assert kept.read(folder / "x.json") is None


def test_the_sources_are_the_code_that_measures_and_no_other() -> None:
    one = registry.entry("runqlat")
    names = {path.name for path in kept.sources(f"{one.package}.experiment", one.workloads)}
    assert {"experiment.py", "burn.c", "lab.h", "runqlat.bpf.c", "launch.py"} <= names
    assert not {"figure.py", "claims.py", "cli.py", "axes.py", "sleeper.c"} & names


def test_a_chapter_rests_on_what_its_cells_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "01-one.md"
    text.write_text("```{code-cell} ipython3\nfrom sched_labs import slices\nslices.sweep()\n```\n")
    seen: set[str] = set()
    digest = kept.digest

    def spy(words: object, files: list[Path]) -> str:
        seen.update(os.fspath(path) for path in files)
        return digest(words, files)  # type: ignore[arg-type]

    monkeypatch.setattr(kept, "digest", spy)
    fingerprint(Chapter("notebooks/01-one", text), "tiny")
    names = {Path(path).name for path in seen if "/slices/" in path or "/workloads/" in path}
    assert {"experiment.py", "figure.py", "claims.py", "recorded.sweep.json", "burn.c"} <= names
    assert not any(path.endswith(("cli.py", "/service/experiment.py", "/server/serve.py")) for path in seen)
