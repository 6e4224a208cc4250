"""The register of experiments: what there is, and where.

An experiment registers itself by standing in its place.  A *topic root* is a package with a folder for each
chapter, and in it a folder for each experiment:

    chapter/experiment/
        experiment.py           @experiment("experiment.name", ...): what it is, what it starts, what it needs
        figure.py               @draws("experiment.name")
        claims.py               CLAIMS
        recorded.name.json      a run of a named machine
        recorded.name.word.json another machine's, which a reader chooses by that word
        its own programs        *.c

The book's own root is `sched_labs.topics`; a course adds its root by an entry point of the group
`sched_labs.topics`.  Nothing of it is imported to know what there is: declarations are read as text, and a
module is loaded when one of its experiments is asked for.  So `sched-labs list` is quick, and a topic that
fails to load costs nothing but itself.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .errors import ParameterError, SchedLabError

if TYPE_CHECKING:
    from ..draw import Figure
    from ..run.base import Experiment

GROUP = "sched_labs.topics"
SHARED_PROGRAMS = Path(__file__).resolve().parents[1] / "workloads" / "src"
_OWN = "sched_labs.topics"
_CHECKOUT = Path(__file__).resolve().parents[3]  # of the book, where the library was installed from one
_MACHINE = re.compile(r"[a-z][a-z0-9-]{0,31}")
_DECLARED = re.compile(
    r'^@(?P<call>experiment\(.*?\))\s*^def (?P<name>\w+)\(.*?:\n    """(?P<about>.*?)(?:"""|\n)',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Entry:
    """An experiment as its module declares it.

    kind        of its results, "quota.hog"; its first part is the name of its folder
    package     where its parts are, "sched_labs.topics.cgroup_throttling.quota"
    function    the name of its function in the module `experiment`
    about       the first line of what it says of itself
    workloads   the programs that it starts
    needs       what a machine must have: "bpf", "cgroup", "network", "pmu", "priority",
               "second CPU"
    """

    kind: str
    package: str
    folder: Path
    function: str
    about: str
    workloads: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def chapter(self) -> str:
        """The chapter that it belongs to: its folder's name, which is that of the notebook."""
        return self.folder.parent.name

    def parts(self, stem: str) -> list[ModuleType]:
        """The modules beside it whose names begin so, loaded.  SchedLabError for one that does not load."""
        return [self._load(path.stem) for path in sorted(self.folder.glob(f"{stem}*.py"))]

    def load(self) -> Experiment:
        """The experiment itself.  SchedLabError where its module does not load."""
        found: Experiment = getattr(self._load("experiment"), self.function)
        return found

    def recorded_file(self, machine: str = "") -> Path:
        """The place of its recorded run: the book's own, or that of another machine, which a word names.

        Raises ParameterError for what is no such word.
        """
        if machine and not _MACHINE.fullmatch(machine):
            raise ParameterError(
                f"{machine[:40]!r} cannot name a machine.",
                "Take a word of lower-case letters, digits and dashes, such as intel or arm-server.",
            )
        words = ("recorded", self.kind.partition(".")[2], machine, "json")
        return self.folder / ".".join(word for word in words if word)

    def _load(self, name: str) -> ModuleType:
        try:
            return importlib.import_module(f"{self.package}.{name}")
        except SchedLabError:
            raise
        except Exception as error:
            raise SchedLabError(
                f"{self.kind} cannot be loaded: {self.package}.{name}: {type(error).__name__}: {error}",
                "Mend it or uninstall it; all other experiments work.",
            ) from error


@dataclass(frozen=True)
class Course:
    """A topic root that is not the book's own: what an entry point calls it, its package and its folder.

    In the folder: a folder for each chapter, with `chapter.md` and perhaps `instructor.md` beside its
    experiments, and `labs`.
    """

    name: str
    package: str
    folder: Path

    @property
    def title(self) -> str:
        return self.name.replace("-", " ").replace("_", " ").capitalize()

    @property
    def kinds(self) -> list[str]:
        """Its experiments."""
        return [one.kind for one in entries() if one.package.startswith(f"{self.package}.")]

    @property
    def chapters(self) -> list[Path]:
        """Its chapters' texts, in the order of their folders."""
        return sorted(self.folder.glob("*/chapter.md"))


@dataclass
class _Found:
    """What there is, and what was left out; `taken` says which package has a folder's or a program's name."""

    entries: dict[str, Entry] = field(default_factory=dict)
    roots: dict[str, Path] = field(default_factory=dict)
    courses: list[Course] = field(default_factory=list)
    labs: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    taken: dict[tuple[str, str], str] = field(default_factory=dict)

    def look_into(self, name: str, package: str) -> None:
        """Read a topic root.  What cannot be read, or is there already, is left out with a line about it."""
        try:
            folder = _folder_of(package)
        except Exception as error:  # parents of the root are imported: anything can come of that
            self.problems.append(f"The course {name} is left out: {type(error).__name__}: {error}.")
            return
        self.roots[package] = folder
        if name:
            self.courses.append(Course(name, package, folder))
        self._take_labs(name, folder / "labs" if name else _CHECKOUT / "labs")
        for path in sorted(folder.glob("*/*/experiment.py")):
            home = f"{package}.{path.parent.parent.name}.{path.parent.name}"
            try:
                self._take(home, list(_declared(home, path)))
            except (OSError, SyntaxError, ValueError) as error:
                self.problems.append(f"{home} is left out: {error}.")

    def _take_labs(self, name: str, folder: Path) -> None:
        for sheet in sorted(folder.glob("[0-9][0-9]-*/sheet.md")):
            lab = sheet.parent
            if other := self.taken.get(("lab", lab.name)):
                self.problems.append(
                    f"The lab {lab.name} of {name} is left out: {other} has one of this name."
                )
                continue
            self.taken["lab", lab.name] = name or "the book"
            self.labs.append(lab)

    def _take(self, home: str, declared: list[Entry]) -> None:
        folder = declared[0].folder
        names = [("folder", folder.name), *(("program", path.stem) for path in folder.glob("*.c"))]
        names += [("experiment", entry.kind) for entry in declared]
        for what, name in names:
            if other := self.taken.get((what, name)):
                raise ValueError(f"{other} has the {what} {name} already")
        self.taken.update(dict.fromkeys(names, home))
        self.entries.update((entry.kind, entry) for entry in declared)
        if not list(folder.glob("figure*.py")):
            self.problems.append(f"{home} has no figure.py: its runs are tables without a picture.")


@cache
def _found() -> _Found:
    found = _Found(taken={("program", path.stem): "sched_labs" for path in SHARED_PROGRAMS.glob("*.c")})
    found.look_into("", _OWN)
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name):
        found.look_into(point.name, point.value)
    return found


def _folder_of(package: str) -> Path:
    # find_spec imports the parents of a package, so a course's root had better be empty of code.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"there is no package {package}")
    return Path(next(iter(spec.submodule_search_locations)))


def _declared(home: str, path: Path) -> Iterator[Entry]:
    """What a module `experiment` declares, read as text.  ValueError where that is nothing, or computed."""
    found = list(_DECLARED.finditer(path.read_text(encoding="utf-8")))
    if not found:
        raise ValueError("its experiment.py has no @experiment(...) above a function with a docstring")
    for declared in found:
        call = ast.parse(declared["call"], str(path), "eval").body
        if not isinstance(call, ast.Call) or not call.args:
            raise ValueError("its @experiment(...) does not begin with a name")
        said = {word.arg: word.value for word in call.keywords}
        try:
            kind = ast.literal_eval(call.args[0])
            lists = [ast.literal_eval(said[word]) if word in said else () for word in ("workloads", "needs")]
        except ValueError:
            raise ValueError("what its @experiment(...) says is computed, and not written out") from None
        yield Entry(kind, home, path.parent, declared["name"], declared["about"].strip(), *map(tuple, lists))


def problems() -> list[str]:
    """A line for each course, experiment or list of claims that is left out, and for each missing figure."""
    return [*_found().problems, *_unread.values()]


def courses() -> list[Course]:
    """The courses that are installed beside the book, by name."""
    return _found().courses


def roots() -> dict[str, Path]:
    """Package and folder of every topic root, the book's own first."""
    return _found().roots


def labs() -> list[Path]:
    """The folder of every lab, by number, the book's first.

    The book's own are not there where the library was installed without its checkout.
    """
    return _found().labs


def entries() -> list[Entry]:
    """Every experiment that there is, by chapter."""
    return list(_found().entries.values())


def names() -> list[str]:
    """Their kinds."""
    return list(_found().entries)


def entry(kind: str) -> Entry:
    """What is declared of a kind, or of the only one in the folder of that name.

    Raises ParameterError for an unknown name.
    """
    known = _found().entries
    matches = [full for full in known if kind in (full, full.partition(".")[0])]
    if len(matches) != 1:
        raise ParameterError(f"There is no experiment {kind!r}.", f"There are: {', '.join(known)}.")
    return known[matches[0]]


def find(name: str) -> Experiment:
    """An experiment by its kind, or by its folder's name where that holds only one.

    Raises ParameterError for an unknown name, SchedLabError for one whose module does not load.
    """
    return entry(name).load()


def module(folder: str) -> ModuleType:
    """The module `experiment` of the folder of that name, with all of its experiments.

    Raises KeyError where there is none.
    """
    for one in entries():
        if one.folder.name == folder:
            return one.parts("experiment")[0]
    raise KeyError(folder)


def folders() -> list[Path]:
    """The folder of every experiment."""
    return list(dict.fromkeys(one.folder for one in entries()))


def recorded_files(kind: str) -> dict[str, Path]:
    """The recorded runs of a kind, by the word of their machine; the book's own comes first, under ""."""
    known = _found().entries
    if kind not in known:
        return {}
    own = known[kind].recorded_file()
    found = {"": own} if own.is_file() else {}
    for path in sorted(own.parent.glob(f"{own.stem}.*.json")):
        word = path.stem.removeprefix(f"{own.stem}.")
        if f"{kind}.{word}" not in known:
            found[word] = path
    return found


Drawer = Callable[..., "Figure"]
_drawers: dict[str, Drawer] = {}


def add_figure(kind: str, drawer: Drawer) -> None:
    """Register what draws a kind.  ParameterError where the kind has its figure already."""
    if kind in _drawers:
        raise ParameterError(f"Two functions want to draw {kind!r}.", "Give one of them another kind.")
    _drawers[kind] = drawer


@cache
def _figures_of(one: Entry) -> None:
    one.parts("figure")


def figure(kind: str) -> Drawer:
    """What draws results of a kind.  ParameterError where nothing does."""
    if kind in _found().entries:
        _figures_of(_found().entries[kind])
    if kind not in _drawers:
        raise ParameterError(
            f"No figure draws results of the kind {kind!r}.",
            f"Figures exist for {', '.join(names())}; `.data` and `.summary()` have the numbers.",
        )
    return _drawers[kind]


_unread: dict[str, str] = {}


def claims() -> list[Any]:
    """Every claim that some experiment can judge, in the order of the experiments.

    Those of a folder that cannot be loaded are left out, and `problems` says so.
    """
    modules: dict[str, ModuleType] = {}
    for one in entries():
        try:
            modules |= {part.__name__: part for part in one.parts("claims")}
        except SchedLabError as error:
            _unread[one.package] = f"The claims of {one.package} are left out: {error.what}"
    return [claim for part in modules.values() for claim in part.CLAIMS]


def claims_about(kind: str) -> list[Any]:
    """The claims about results of a kind, which stand beside it; none for a kind that there is not.

    Raises SchedLabError where they cannot be loaded.
    """
    one = _found().entries.get(kind)
    parts = one.parts("claims") if one else []
    return [claim for part in parts for claim in part.CLAIMS if claim.kind == kind]
