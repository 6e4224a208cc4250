"""The source tree: nothing generated in it, nothing written into it, rooms in their order."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "sched_labs"

# The order of the rooms, as CONTRIBUTING.md shows it.
_LIST = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")[1]
ROOMS = [
    set(re.findall(r"\w+", line[4:].split("  ")[0])) for line in _LIST.splitlines() if line.startswith("    ")
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


@cache
def tracked() -> list[Path]:
    if not shutil.which("git") or not (REPOSITORY / ".git").exists():
        pytest.skip("this is not a git checkout")
    listed = subprocess.run(
        ["git", "-C", REPOSITORY, "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    return [path for name in listed.stdout.split("\0") if name and (path := REPOSITORY / name).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_nothing_that_git_should_ignore_is_tracked() -> None:
    tracked()
    ignored = subprocess.run(
        ["git", "-C", REPOSITORY, "ls-files", "-ci", "--exclude-standard"], capture_output=True, text=True
    )
    assert ignored.stdout == ""


def test_no_built_program_is_tracked() -> None:
    magic = {b"\x7fELF", b"!<ar", b"PK\x03\x04"}
    assert [path for path in tracked() if path.read_bytes()[:4] in magic] == []


def test_no_file_knows_where_it_was_written() -> None:
    """No absolute path of a developer's checkout or home."""
    places = {str(REPOSITORY), str(REPOSITORY.parent), sys.prefix} - {"/", "/home", "/tmp", "/opt", "/usr"}
    pattern = re.compile("|".join(rf"(?<![\w.-]){re.escape(place)}(?![\w-])" for place in places))
    found = [(path.name, match[0]) for path, text in texts() if (match := pattern.search(text))]
    assert found == []


def test_no_conflict_marker_is_left() -> None:
    marker = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)
    assert [path for path, text in texts() if marker.search(text)] == []


def snapshot(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_measuring_writes_nothing_into_the_source_tree(tmp_path: Path) -> None:
    """Run from a copy, so that what other tests do at the same time is not mistaken for it."""
    copy = tmp_path / "src"
    shutil.copytree(REPOSITORY / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = snapshot(copy)
    place = tmp_path / "lock"
    place.mkdir()
    place.chmod(0o1777)
    code = f"""
from pathlib import Path
import sched_labs
from sched_labs import context_switch
from sched_labs.core import lock, store
assert Path(sched_labs.__file__).is_relative_to({str(copy)!r}), sched_labs.__file__
lock._PLACES = (Path({str(place)!r}),)
store.save_prediction("q", 1, "ns")
print(context_switch.matrix(profile="tiny", mechanisms=["pipe"], progress=False).path)
"""
    environment = os.environ | {
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data") in Path(done.stdout.strip()).parents
    assert snapshot(copy) == before


def imported_rooms(file: Path) -> Iterator[tuple[str, int]]:
    """Rooms that a file imports, with the line; what is only for type checkers does not count."""
    tree = ast.parse(file.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    package = ("sched_labs", *file.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*start, *([node.module] if node.module else [])))
            modules = (
                [f"{module}.{alias.name}" for alias in node.names] if module == "sched_labs" else [module]
            )
        else:
            continue
        for module in modules:
            parts = module.split(".")
            if parts[0] == "sched_labs" and len(parts) > 1 and parts[1] in LEVEL:
                yield parts[1], node.lineno


def test_every_room_has_its_place_in_the_order() -> None:
    rooms = {path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
    rooms |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    rooms -= {"__main__"}
    assert rooms - set(LEVEL) == set()


def test_a_room_uses_only_the_rooms_above_it() -> None:
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in LEVEL:
            continue
        for room, line in imported_rooms(file):
            if LEVEL[room] > LEVEL[parts[0]]:
                wrong.append(f"{file.relative_to(PACKAGE)}:{line} imports {room}")
    assert wrong == []
