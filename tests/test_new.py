"""`sched-labs new`: what it lays out runs, draws, keeps its contract and has its place, at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, apart

from sched_labs.authoring import new, project
from sched_labs.core.errors import ParameterError

RUFF = Path(sys.executable).with_name("ruff")


def run(*words: str, where: Path, data: Path, packages: Path) -> subprocess.CompletedProcess[str]:
    """sched-labs in a folder, with packages of its own first, and a machine lock of its own."""
    given = apart(data)
    given["PYTHONPATH"] = os.pathsep.join([str(packages), given["PYTHONPATH"]])
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=where, env=os.environ | given, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def installed(course: Path, folder: Path) -> Path:
    """Where Python finds the course as after `pip install -e`: its sources, and what pip notes."""
    about = tomllib.loads((course / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(course / "src", folder)
    notes = folder / f"{about['name']}-{about['version']}.dist-info"
    notes.mkdir()
    (notes / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n", encoding="utf-8"
    )
    points = about["entry-points"]["sched_labs.topics"]
    lines = ["[sched_labs.topics]", *(f"{name} = {package}" for name, package in points.items())]
    (notes / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.system
def test_a_course_begins_with_an_experiment_in_an_empty_folder(tmp_path: Path) -> None:
    """The afternoon of a stranger, but for the thirty lines of C."""
    course = tmp_path / "nap-times"
    course.mkdir()
    for words in (("experiment", "naps"), ("lab", "late_naps"), ("chapter", "waking")):
        told = run("sched_labs", "new", *words, where=course, data=tmp_path, packages=tmp_path / "none")
        assert told.returncode == 0, told.stderr
        assert "pip install -e" in told.stdout  # until that is done
    assert (course / "src/nap_times/naps/naps/naps.c").is_file()
    packages = installed(course, tmp_path / "packages")
    tested = run("pytest", "-q", where=course, data=tmp_path, packages=packages)
    assert tested.returncode == 0 and "3 passed" in tested.stdout, tested.stdout + tested.stderr
    recorded = run("sched_labs", "record", "naps", "--profile", "tiny", where=course, data=tmp_path,
                   packages=packages)  # fmt: skip
    assert recorded.returncode == 0 and "recorded.sweep.json" in recorded.stdout
    checked = run("sched_labs", "check", "naps", where=course, data=tmp_path, packages=packages)
    assert checked.stdout == "naps.sweep keeps its contract.\n", checked.stderr
    shown = run("sched_labs", "run", "naps", "--profile", "tiny", "--plot", str(tmp_path / "naps.svg"),
                where=course, data=tmp_path, packages=packages)  # fmt: skip
    assert shown.returncode == 0 and (tmp_path / "naps.svg").stat().st_size > 5000


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What of the book's checkout `new` reads and writes."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "_toc.yml"):
        shutil.copy(ROOT / name, folder)
    for name in ("src", "notebooks", "labs"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    return folder


def test_in_the_checkout_it_becomes_a_part_of_the_book(checkout: Path, tmp_path: Path) -> None:
    packages = checkout / "src"
    (checkout / "book").mkdir()
    before = sorted(path.name for path in (checkout / "notebooks").iterdir())
    for words in (
        ("experiment", "naps.lengths", "--chapter", "sleeping"),
        ("experiment", "rests", "--chapter", "pinning"),
        ("lab", "late_naps"),
    ):
        told = run(
            "sched_labs", "new", *words, where=checkout / "src", data=tmp_path, packages=checkout / "src"
        )
        assert told.returncode == 0, told.stderr
        assert "pip install" not in told.stdout
    (added,) = {path.name for path in (checkout / "notebooks").iterdir()} - set(before)
    assert added.endswith("-sleeping.md")
    assert "naps_run = naps.lengths()" in (checkout / "notebooks" / added).read_text(encoding="utf-8")
    (pinning,) = (checkout / "notebooks").glob("*-pinning.md")
    assert pinning.read_text(encoding="utf-8").startswith(
        (ROOT / "notebooks" / pinning.name).read_text()[:2000]
    )
    assert pinning.read_text(encoding="utf-8").rstrip().endswith("judge(rests_run)\n```")
    contents = yaml.safe_load((checkout / "_toc.yml").read_text(encoding="utf-8"))
    parts = {part["caption"]: [file["file"] for file in part["chapters"]] for part in contents["parts"]}
    assert parts["Chapters"][-1] == f"notebooks/{added.removesuffix('.md')}"
    (lab,) = (checkout / "labs").glob("*-late-naps")
    assert f"labs/{lab.name}/sheet" in parts["Labs"]
    listed = run("sched_labs", "list", where=tmp_path, data=tmp_path, packages=packages)
    assert "naps.lengths" in listed.stdout and "rests.sweep" in listed.stdout and listed.stderr == ""
    checked = run(
        "sched_labs", "check", "naps", "rests", where=tmp_path, data=tmp_path, packages=checkout / "src"
    )
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(not RUFF.exists(), reason="ruff is not installed")
def test_what_it_writes_is_formatted_as_the_book_is(checkout: Path) -> None:
    files = new.experiment("naps", checkout, chapter="sleeping") + new.lab("late_naps", checkout)
    python = [str(path) for path in files if path.suffix == ".py"]
    for words in (("check",), ("format", "--check")):
        done = subprocess.run(
            [RUFF, *words, *python], cwd=checkout, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Naps", "cannot be a name"), ("two words", "cannot be a name"), ("../naps", "cannot be a name"),
        ("class", "cannot be a name"), ("naps.", "naps is taken|cannot be a name|^$"),
        ("warmup", "warmup is taken"), ("burn", "burn is taken"), ("judge", "judge is taken"),
    ],
)  # fmt: skip
def test_names_that_are_taken_or_none_are_refused(name: str, said: str, tmp_path: Path) -> None:
    where = tmp_path / "course"
    where.mkdir()
    if name == "naps.":  # no function's name: the usual one
        assert new.experiment(name, where)
        return
    with pytest.raises(ParameterError, match=said):
        new.experiment(name, where)
    assert list(where.iterdir()) == []


def test_nothing_is_written_over(tmp_path: Path) -> None:
    where = tmp_path / "course"
    where.mkdir()
    new.experiment("naps", where)
    (where / "src/course/naps/naps/naps.c").write_text("mine")
    for again in (lambda: new.experiment("naps", where), lambda: new.chapter("naps", where)):
        with pytest.raises(ParameterError, match="is there already"):
            again()
    assert (where / "src/course/naps/naps/naps.c").read_text() == "mine"
    assert [path.parent.name for path in new.lab("late", where) + new.lab("late", where)].count(
        "02-late"
    ) == 3


def test_a_project_that_is_no_course_is_told_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n', encoding="utf-8")
    with pytest.raises(ParameterError, match=r"names no topic root.*\n.*entry-points"):
        new.experiment("naps", tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[project.entry-points."sched_labs.topics"]\nx = "nowhere"\n', encoding="utf-8"
    )
    with pytest.raises(ParameterError, match="names the package nowhere, which is not there"):
        new.experiment("naps", tmp_path)
    with pytest.raises(ParameterError, match="cannot be named after"):
        project.course_name(Path("/x/123"))
