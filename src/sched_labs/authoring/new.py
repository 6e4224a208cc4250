"""Lay out a new experiment, chapter or lab that runs, draws and keeps its contract at once."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path

import sched_labs

from .. import workloads
from ..core import registry
from ..core.errors import ParameterError
from ..core.render import render
from ..core.store import write_text
from ..core.version import __version__
from . import project as projects
from .project import Project

TEMPLATES = Path(__file__).with_name("templates")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def experiment(name: str, where: Path, *, chapter: str | None = None) -> list[Path]:
    """Lay out the experiment NAME, or NAME.FUNCTION, and tell of it in its chapter; the files written.

    where    a folder of the book's checkout or of a course; where it is none, a course is begun there
    chapter  by default the only one there is, or a new one of the experiment's name

    Raises ParameterError for a name that is taken or is none.
    """
    name, _, function = name.partition(".")
    function = function or "sweep"
    _check_name(name)
    _check_name(function)
    taken = {folder.name for folder in registry.folders()} | set(workloads.names()) | set(dir(sched_labs))
    if name in taken:
        raise ParameterError(
            f"{name} is taken: an experiment, a program or a tool is called so.", "Choose another name."
        )
    files, home = _project(where)
    chapter = chapter or (home.chapters[0] if len(home.chapters) == 1 else name)
    if not home.text(chapter).exists():
        files |= _chapter(home, chapter)
    folder = home.topics / chapter / name
    if folder.exists():
        raise ParameterError(f"{folder} is there already.", "Choose another name, or remove the folder.")
    values = {"name": name, "function": function, "kind": f"{name}.{function}", "title": _title(name)}
    for part in ("experiment.py", "figure.py", "claims.py", "cases.py"):
        files[folder / part] = _filled(f"experiment/{part}", values)
    files[folder / "__init__.py"] = _filled("experiment/init.py", values)
    files[folder / f"{name}.c"] = _filled("experiment/program.c", values)
    text = home.text(chapter)
    begun = files[text] if text in files else text.read_text(encoding="utf-8")
    files[text] = begun.rstrip("\n") + "\n" + _filled("chapter/section.md", values)
    return _write(files)


def chapter(name: str, where: Path) -> list[Path]:
    """Lay out the chapter NAME without an experiment; the files written.  Raises like `experiment`."""
    _check_name(name)
    files, home = _project(where)
    if home.text(name).exists():
        raise ParameterError(f"{home.text(name)} is there already.", "Choose another name.")
    return _write(files | _chapter(home, name))


def lab(name: str, where: Path) -> list[Path]:
    """Lay out the lab NAME with the next number; the files written.  Raises like `experiment`."""
    _check_name(name)
    files, home = _project(where)
    word = name.replace("_", "-")
    folder = home.labs / f"{projects.next_number(home.labs):02d}-{word}"
    values = {"word": word, "title": _title(name)}
    for template in sorted((TEMPLATES / "lab").rglob("*.j2")):
        part = str(template.relative_to(TEMPLATES / "lab")).removesuffix(".j2")
        files[folder / part] = _filled(f"lab/{part}", values)
    if home.is_book:
        files[home.folder / "_toc.yml"] = _line_after(
            _contents(home, files), r"      - file: labs/\S+/sheet\n", f"labs/{folder.name}/sheet"
        )
    return _write(files)


def _chapter(home: Project, name: str) -> dict[Path, str]:
    values = {"name": name, "title": _title(name)}
    text = home.text(name)
    files = {text: _filled("chapter/chapter.md", values)}
    if not (home.topics / name / "__init__.py").exists():
        files[home.topics / name / "__init__.py"] = _filled("chapter/init.py", values)
    if home.is_book:
        files[home.folder / "_toc.yml"] = _line_after(
            _contents(home, files), r"      - file: notebooks/\S+\n", f"notebooks/{text.stem}"
        )
    return files


def _project(where: Path) -> tuple[dict[Path, str], Project]:
    """The project that a folder lies in, and the files that begin one where there is none."""
    if found := projects.find(where):
        return {}, found
    folder = where.resolve()
    if (folder / "pyproject.toml").exists():
        raise ParameterError(
            f"{folder / 'pyproject.toml'} names no topic root.",
            f'Add [project.entry-points."{registry.GROUP}"] with the package of your topics.',
        )
    name, package = projects.course_name(folder)
    topics = folder / "src" / package
    values = {"project": name, "package": package, "title": _title(package), "library": __version__}
    return {
        folder / "pyproject.toml": _filled("course/pyproject.toml", values),
        folder / "tests" / "test_course.py": _filled("course/tests/test_course.py", values),
        topics / "__init__.py": _filled("course/init.py", values),
    }, Project(folder, package, topics)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ParameterError(
            f"{name!r} cannot be a name here.", "Take small letters, digits and underscores: nap_times."
        )


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _filled(template: str, values: Mapping[str, str]) -> str:
    return render(TEMPLATES / f"{template}.j2", **values)


def _contents(home: Project, files: Mapping[Path, str]) -> str:
    path = home.folder / "_toc.yml"
    return files[path] if path in files else path.read_text(encoding="utf-8")


def _line_after(contents: str, last: str, file: str) -> str:
    """The table of contents with one more file, after the last that matches, indented like it."""
    *_, before = re.finditer(last, contents)
    line = re.sub(r"file: \S+", f"file: {file}", before[0])
    return contents[: before.end()] + line + contents[before.end() :]


def _write(files: Mapping[Path, str]) -> list[Path]:
    for path, text in files.items():
        write_text(path, text)
    return list(files)
