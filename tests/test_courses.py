"""A course that is installed beside the book: what works with the book's topics works with its own."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, run_book

from sched_labs import kernels, labs
from sched_labs.book import chapters as book_chapters
from sched_labs.book.chapters import Chapter, Checkout
from sched_labs.book.measure import fingerprint
from sched_labs.claims import judge
from sched_labs.core import closure, registry
from sched_labs.core.errors import ParameterError, SchedLabError
from sched_labs.core.result import load, recorded
from sched_labs.kernels import contents
from sched_labs.kernels.errors import PackageError, QemuError
from sched_labs.testing import check_experiment, check_lab
from sched_labs.workloads import build

EXAMPLE = Path(__file__).with_name("example_course")
KIND = "two_hogs.shares"
OWN_LABS = len(list((EXAMPLE.parents[1] / "labs").glob("[0-9][0-9]-*")))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the example course is installed in, as pip does it."""
    folder = tmp_path_factory.mktemp("course")
    source = shutil.copytree(EXAMPLE, folder / "source")  # pip builds in it
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # The course needs no newer setuptools than Python comes with, and a test no network.
    done = subprocess.run(
        [*command, "--no-index", "--no-build-isolation", "--target", folder / "site", source],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "site"


def forget() -> None:
    """What is known of courses is asked once in a process."""
    importlib.invalidate_caches()
    registry._found.cache_clear()
    registry._unread.clear()
    closure._homes.cache_clear()


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Puts a folder where Python looks for packages, for one test."""
    known = set(sys.modules)

    def put(folder: Path) -> None:
        monkeypatch.syspath_prepend(folder)
        forget()

    yield put
    monkeypatch.undo()
    for name in set(sys.modules) - known:
        del sys.modules[name]
    forget()


@pytest.fixture
def course(site: Path, path: Callable[[Path], None]) -> registry.Course:
    path(site)
    (found,) = registry.courses()
    return found


def run(site: Path, *words: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sched_labs", *words],
        env=os.environ | {"PYTHONPATH": str(site), "XDG_DATA_HOME": str(data)},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


# ---- what it can do ----


def test_its_experiment_keeps_the_contract(course: registry.Course, own_lock: None) -> None:
    assert registry.problems() == []
    assert course.kinds == [KIND]
    check_experiment(KIND)


def test_its_lab_takes_its_solution_and_not_its_starter(course: registry.Course) -> None:
    check_lab("be-nice")


def test_a_terminal_knows_it(site: Path, tmp_path: Path) -> None:
    listed = run(site, "list", data=tmp_path)
    assert re.search(rf"^{KIND} +Let two threads compute on one CPU", listed.stdout, re.MULTILINE)
    assert listed.stderr == ""
    assert "01-be-nice" in run(site, "lab", "list", data=tmp_path).stdout
    assert run(site, "lab", "start", "be-nice", data=tmp_path).stdout.startswith("# Be nice")
    assert (tmp_path / "sched-labs/labs/01-be-nice/answer.py").is_file()


def test_its_claims_are_judged_and_its_recorded_run_is_found(course: registry.Course) -> None:
    kept = recorded(KIND)
    assert kept and [claim.id for claim, _ in judge(kept)] == ["nice-quarter"]
    assert judge(kept, "nice-quarter")


def test_it_is_imported_like_the_books_own(course: registry.Course) -> None:
    import sched_labs

    assert sched_labs.two_hogs.shares.name == KIND
    assert build.source("two_hogs").is_relative_to(course.folder)


def test_a_guest_gets_its_modules_and_its_program(course: registry.Course) -> None:
    module = f"{registry.entry(KIND).package}.experiment"
    files = contents.library(module)
    assert "/lab/sharing_course/sharing/two_hogs/experiment.py" in files
    assert "/lab/sched_labs/steer/placement.py" in files
    assert not [name for name in files if "/figure" in name or name.endswith("/cases.py")]


@pytest.mark.guests
def test_it_runs_on_another_kernel(course: registry.Course, own_lock: None) -> None:
    try:
        kernels.get("6.12")
        given = {"nices": [0, 10], "duration_ms": 400}
        result = registry.find(KIND)(profile="tiny", save=False, progress=False, kernel="6.12", **given)
    except (PackageError, QemuError) as error:
        pytest.skip(f"no other kernel can be booted here: {error.what}")
    assert result.parameters["kernel"] == "6.12" and result.machine["kernel"].startswith("6.12.")
    table = result.summary().set_index("nice")
    assert table.share_percent[10] < table.share_percent[0]


def test_its_chapter_is_measured_anew_where_its_own_code_changed(
    site: Path, path: Callable[[Path], None], tmp_path: Path
) -> None:
    own = shutil.copytree(site, tmp_path / "site")
    path(own)
    (chapter,) = book_chapters.course_chapters(registry.courses()[0])
    book = Chapter("notebooks/a", tmp_path / "a.md")
    book.source.write_text("```{code-cell} ipython3\nfrom sched_labs import crowd\n```\n", encoding="utf-8")

    def marks() -> tuple[str, str]:
        closure._imports.cache_clear()
        return fingerprint(chapter, "tiny"), fingerprint(book, "tiny")

    before = marks()
    for name in ("two_hogs.c", "experiment.py", "figure.py", "claims.py", "recorded.shares.json"):
        file = own / "sharing_course/sharing/two_hogs" / name
        file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        after = marks()
        assert after[0] != before[0], f"{name} is no part of it"
        assert after[1] == before[1]
        before = after


@pytest.mark.computes  # whose numbers nobody looks at
@pytest.mark.pages
def test_the_book_has_its_pages(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapter, lab and instructor's pages, in a book with little else."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    root = tmp_path / "book"
    root.mkdir()
    shutil.copy(ROOT / "_config.yml", root)
    shutil.copytree(ROOT / "book", root / "book", ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    (root / "book" / "intro.md").write_text(
        "# A book\n\n<!-- sched-labs: chapters -->\n\n<!-- sched-labs: labs -->\n", encoding="utf-8"
    )
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nparts: []\n", encoding="utf-8")
    (root / "book" / "instructors.md").write_text("# For instructors\n", encoding="utf-8")
    words = ("--root", str(root), "--profile", "tiny")
    for more in ((), ("--instructors",)):  # the second one measures nothing again
        built = run_book("build", *words, *more, data=tmp_path / "data")
        assert built.returncode == 0, built.stdout + built.stderr
    html = Checkout(root).html
    assert not (html / "instructors").exists() and not list(html.rglob("instructor*.html"))
    parts = [html / "notebooks/sharing.html", *(html / "notebooks/sharing").glob("*.html")]
    assert len(parts) > 1, "an opening, and a page for the experiment"
    chapter = "".join(part.read_text(encoding="utf-8") for part in parts)
    assert re.search(r'class="verdict (holds|fails|unknown)"', chapter) and "sl-figure" in chapter
    assert re.search(r'href="(\.\./)+labs/01-be-nice/sheet\.html"', chapter)
    lab = (html / "labs/01-be-nice/sheet.html").read_text(encoding="utf-8")
    assert 'href="../../notebooks/sharing.html"' in lab and "sched-labs lab start be-nice" in lab
    notes = (Checkout(root).for_instructors / "instructors/sharing.html").read_text(encoding="utf-8")
    assert 'href="../notebooks/sharing.html"' in notes
    front = (html / "book/intro.html").read_text(encoding="utf-8")
    assert "Course: Sharing a cpu" in front
    for page in ("notebooks/sharing", "labs/01-be-nice/sheet"):
        assert f'href="../{page}.html"' in front


def test_the_books_own_contents_stay_as_they_are_without_a_course() -> None:
    own = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert book_chapters.contents(Checkout(ROOT)) == own


# ---- what is wrong with a course is said in a line, and costs nothing else ----

HEAD = '@experiment("{kind}", summarise=None, instrument=None)\ndef go(run):\n    """Go."""\n'


def lay(folder: Path, value: str, files: dict[str, str], name: str = "theirs") -> None:
    """A course as it is installed: a package, and what pip notes of it."""
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        for parent in path.parents:
            if parent != folder and parent.is_relative_to(folder) and "labs" not in parent.parts:
                (parent / "__init__.py").touch()
    notes = folder / f"{name}-1.0.dist-info"
    notes.mkdir(parents=True)
    (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (notes / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = {value}\n", encoding="utf-8")


def module(kind: str) -> dict[str, str]:
    folder = kind.partition(".")[0]
    return {
        f"theirs/chapter/{folder}/experiment.py": HEAD.format(kind=kind),
        f"theirs/chapter/{folder}/figure.py": "",
    }


PROBLEMS = {
    "an entry point to nowhere": (
        "gone", {}, "The course theirs is left out: ImportError: there is no package gone",
    ),
    "an entry point of an older form": (
        "theirs.old:ROOT", {"theirs/__init__.py": ""}, "The course theirs is left out: ImportError: ",
    ),
    "a parent that fails": (
        "theirs.topics", {"theirs/__init__.py": "1 / 0", "theirs/topics/__init__.py": ""},
        "The course theirs is left out: ZeroDivisionError: division by zero.",
    ),
    "two of one kind": (
        "theirs", module("quota.hog"),
        "theirs.chapter.quota is left out: sched_labs.topics.cgroup_throttling.quota has the folder quota",
    ),
    "two kinds in two folders": (
        "theirs", module("a.b") | {"theirs/chapter/other/experiment.py": HEAD.format(kind="a.b")},
        "theirs.chapter.other is left out: theirs.chapter.a has the experiment a.b already.",
    ),
    "a program of the book's name": (
        "theirs", module("a.b") | {"theirs/chapter/a/burn.c": ""},
        "theirs.chapter.a is left out: sched_labs has the program burn already.",
    ),
    "no declaration": (
        "theirs", {"theirs/chapter/a/experiment.py": "x = 1\n"},
        "theirs.chapter.a is left out: its experiment.py has no @experiment(...) above a function",
    ),
    "a computed declaration": (
        "theirs", {"theirs/chapter/a/experiment.py": HEAD.format(kind="a.b").replace('"a.b"', "NAME")},
        "theirs.chapter.a is left out: what its @experiment(...) says is computed, and not written out.",
    ),
    "a declaration that is no Python": (
        "theirs", {"theirs/chapter/a/experiment.py": HEAD.format(kind="a.b").replace("=None", " None")},
        "theirs.chapter.a is left out: invalid syntax",
    ),
    "a file that is no text": (
        "theirs", {"theirs/chapter/a/experiment.py": "\udcff"}, "theirs.chapter.a is left out: 'utf-8' codec",
    ),
    "no figure": (
        "theirs", {"theirs/chapter/a/experiment.py": HEAD.format(kind="a.b")},
        "theirs.chapter.a has no figure.py: its runs are tables without a picture.",
    ),
    "a lab of the book's name": (
        "theirs", module("a.b") | {"theirs/labs/01-cache-sizes/sheet.md": "# x\n"},
        "The lab 01-cache-sizes of theirs is left out: the book has one of this name.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("value", "files", "said"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_problem_is_a_line_that_names_it_and_the_rest_works(
    value: str, files: dict[str, str], said: str, tmp_path: Path, path: Callable[[Path], None]
) -> None:
    own = registry.names()
    lay(tmp_path, value, files)
    path(tmp_path)
    (line,) = registry.problems()
    assert line.startswith(said) and "\n" not in line
    assert registry.names()[: len(own)] == own
    assert registry.find("crowd").name == "crowd.switch" and len(labs.all_labs()) == OWN_LABS


def test_a_module_that_does_not_load_costs_itself_alone(tmp_path: Path, path: Callable[[Path], None]) -> None:
    """Made for another version of the library: a name that it imports is not there."""
    broken = "from sched_labs.core import what_was_there_once\n"
    files = module("a.b")
    files["theirs/chapter/a/experiment.py"] = broken + files["theirs/chapter/a/experiment.py"]
    lay(tmp_path, "theirs", files | {"theirs/chapter/a/claims.py": broken})
    path(tmp_path)
    assert registry.problems() == [] and "a.b" in registry.names()
    with pytest.raises(
        SchedLabError, match=r"a\.b cannot be loaded.*what_was_there_once.*\n.*all other"
    ) as told:
        registry.find("a.b")
    assert "\n" not in told.value.what
    with pytest.raises(ParameterError, match=r"no experiment 'a\.c'"):
        registry.find("a.c")
    # Claims of others are judged all the same, and the lines tell what is missing.
    kept = recorded("crowd.switch")
    assert kept and len(list(judge(kept))) == 2 and len(list(judge(kept, "crowd"))) == 1
    assert [line.partition(":")[0] for line in registry.problems()] == [
        "The claims of theirs.chapter.a are left out"
    ]


def test_a_terminal_tells_of_a_problem_beside_its_list(tmp_path: Path) -> None:
    lay(tmp_path / "site", "gone", {})
    listed = run(tmp_path / "site", "list", data=tmp_path)
    assert listed.returncode == 0 and len(listed.stdout.splitlines()) == len(registry.names())
    assert listed.stderr == "The course theirs is left out: ImportError: there is no package gone.\n"


def test_results_of_a_course_that_is_gone_can_still_be_looked_at(tmp_path: Path) -> None:
    saved = EXAMPLE / "src/sharing_course/sharing/two_hogs/recorded.shares.json"
    kept = load(saved)
    assert len(kept.data) == json.loads(saved.read_text(encoding="utf-8"))["rows"]
    for look in (kept.summary, kept.plot):
        with pytest.raises(ParameterError, match=r"'two_hogs\.shares'"):
            look()
