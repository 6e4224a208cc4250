"""The library as a stranger gets it: a wheel, in an environment that has never seen the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import ROOT, apart

from sched_labs.core import registry


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git has, as a release is."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if int(version("setuptools").partition(".")[0]) >= 77:  # else pip fetches one
        command += ["--no-index", "--no-build-isolation"]
    made = subprocess.run(
        [*command, "--wheel-dir", folder, folder / "source"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it depends on, and its folder."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    command = [sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "install", "--quiet"]
    subprocess.run([*command, "--disable-pip-version-check", "--no-deps", "--no-index", wheel], check=True)
    # Other people's packages come from here; a path that is named so brings no editable install along.
    own = sysconfig.get_path("purelib", vars={"base": str(folder / "venv")})
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (Path(own) / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")
    return folder


def run(fresh: Path, *words: str, where: Path) -> subprocess.CompletedProcess[str]:
    aside = ("PYTHON", "SCHED_LABS")
    given = {name: value for name, value in os.environ.items() if not name.startswith(aside)}
    given |= apart(where) | {"XDG_CACHE_HOME": str(fresh / "cache")}
    return subprocess.run(
        [fresh / "venv/bin" / words[0], *words[1:]],
        cwd=where, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_wheel_has_everything_that_the_package_has(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = wheel.parent / "source" / "src"
    ours = {str(path.relative_to(source)) for path in (source / "sched_labs").rglob("*") if path.is_file()}
    assert ours - inside == set()


def test_it_is_the_wheel_that_answers(fresh: Path, tmp_path: Path) -> None:
    told = run(fresh, "python", "-c", "import sched_labs; print(sched_labs.__file__)", where=tmp_path)
    assert Path(told.stdout.strip()).is_relative_to(fresh / "venv"), told.stderr


def test_every_experiment_is_listed_with_its_program_and_recorded_run(fresh: Path, tmp_path: Path) -> None:
    listed = run(fresh, "sched-labs", "list", where=tmp_path)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == registry.names()
    assert listed.stderr == ""
    code = """
from pathlib import Path
from sched_labs import probes, registry, workloads
from sched_labs.core.result import recorded
for entry in registry.entries():
    assert recorded(entry.kind).plot().caption if entry.kind == "crowd.switch" else recorded(entry.kind)
    assert all(workloads.build.source(name).is_file() for name in entry.workloads)
print(sorted(path.name for path in (Path(probes.__file__).parent / "helper").glob("sched-labs-*")))
"""
    told = run(fresh, "python", "-c", code, where=tmp_path)
    assert told.returncode == 0 and "sched-labs-probe" in told.stdout, told.stderr


def test_an_experiment_runs_draws_and_is_judged(fresh: Path, tmp_path: Path) -> None:
    words = ("run", "crowd", "--profile", "tiny", "--json", "crowd.json", "--plot", "crowd.svg")
    done = run(fresh, "sched-labs", *words, where=tmp_path)
    assert done.returncode == 0 and (tmp_path / "crowd.svg").stat().st_size > 5000, done.stderr
    code = "from sched_labs import judge, load; print(judge(load('crowd.json')))"
    assert "000-015" not in run(fresh, "python", "-c", code, where=tmp_path).stderr


def test_a_course_is_begun_with_it(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "nap-times").mkdir()
    done = run(fresh, "sched-labs", "new", "experiment", "naps", where=tmp_path / "nap-times")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "nap-times/src/nap_times/naps/naps/naps.c").is_file()


def test_what_needs_the_checkout_says_so(fresh: Path, tmp_path: Path) -> None:
    done = run(fresh, "python", "-m", "sched_labs.book", "build", where=tmp_path)
    assert done.returncode == 1 and "There is no book in" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert run(fresh, "sched-labs", "lab", "list", where=tmp_path).stdout == ""
