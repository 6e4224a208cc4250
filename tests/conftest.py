"""What several test modules share: a tiny run of each experiment, a browser, the real book."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sched_labs.core import lock, registry
from sched_labs.core.errors import SchedLabError
from sched_labs.core.result import Result
from sched_labs.kernels import emulator, snapshots
from sched_labs.testing import Watched, watched

BUILD_S = 2400  # for all chapters, beside other programs
# Slow programs, in groups of such a weight that they hardly notice what runs beside them; but one at a time.
_TROUBLES = ("test_incidents_live", "test_watch_troubles")
# Which files need what takes minutes; the rest is what everybody runs.
_TAKE_LONG = {
    "guests": (
        "test_kernels_live",
        "test_kernels_throttling",
        "test_kernels_watching",
        "test_schedulers_guests",
    ),
    "pages": ("test_book", "test_book_live", "test_book_server", "test_demo"),
    "opened": ("test_pages",),
    "labs": ("test_labs",),
    "answers": ("test_labs_answers",),
    "system": (
        "test_faults",
        "test_fleet_live",
        "test_lent_groups",
        "test_probe_users",
        "test_provision",
        "test_vm",
        "test_wheel",
    ),
    "troubles": _TROUBLES,
}
_ONE_GUEST = "test_a_guest_that_has_booted_once_is_not_booted_again"  # for everybody, too
# Nobody's numbers change when these run beside one another, on every CPU that there is.
_COMPUTE = (
    "test_agreement",
    "test_bandwidth",
    "test_bandwidth_figures",
    "test_book",  # whose chapters' numbers nobody looks at
    "test_book_generated",
    "test_calculators",
    "test_claims",
    "test_classroom",
    "test_clean_tree",
    "test_cli",
    "test_contribute",
    "test_controls",
    "test_cut",
    "test_defence",
    "test_doctor",
    "test_environment",
    "test_explorables",
    "test_explore",
    "test_exports",
    "test_figures",
    "test_figures_browser",
    "test_fleet",
    "test_fleet_compare",
    "test_guests",  # of a QEMU that is a script
    "test_incidents",
    "test_kept",
    "test_kernels",
    "test_lab_pages",
    "test_labs",
    "test_labs_answers",
    "test_labs_compare",
    "test_machine",
    "test_needs",
    "test_new",
    "test_pages",  # once the book is built
    "test_pale",
    "test_predictions",
    "test_probe_helper",
    "test_properties",
    "test_prose",
    "test_quotas",
    "test_refused",
    "test_result",
    "test_rulers",
    "test_schedulers",
    "test_sleeper",
    "test_stats",
    "test_store",
    "test_tables",
    "test_testing",
)
# What servers, other users, other Pythons and guests do, and not in what time; the longest come first.
# Each file shares what it starts, so that all of its tests are for one process.
_WHOLE_FILES = (
    *_TROUBLES,
    "test_faults",
    "test_book_live",
    "test_book_server",
    "test_fleet_live",
    "test_kernels_live",
    "test_provision",
    "test_wheel",
    "test_lent_groups",
    "test_demo",
    "test_vm",
    "test_probe_users",
)
_ONE_PROCESS = (*_WHOLE_FILES, "test_courses", "test_pinning")
_BUILDS_THE_BOOK = "test_every_cell_of_every_chapter_ran_to_its_end"
# Fixtures of what runs workloads or looks at the clock, in those files too.
_MEASURE = {"here", "live", "own_lock", "tiny", "tiny_watched"}
VIRTUAL_LAB = "09-beat-eevdf"  # in virtual time: what else the machine does decides nothing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem == "test_properties":
            item.add_marker("cases")
        for mark, files in _TAKE_LONG.items():
            if item.path.stem in files and item.name != _ONE_GUEST:
                item.add_marker(mark)
        fixtures = set(getattr(item, "fixturenames", ()))
        if "browser" in fixtures:
            item.add_marker("pages")
        measures = fixtures & _MEASURE or item.get_closest_marker("measures")
        together = item.path.stem in _WHOLE_FILES or item.get_closest_marker("guests")
        if together or ((item.path.stem in _COMPUTE or "recorded_run" in fixtures) and not measures):
            item.add_marker("computes")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """What takes long comes first: whoever were to come to it at the end would keep all others waiting.

    The book takes longest, and mostly waits; its pages are looked at when all else is under way.
    """
    if item.name == _BUILDS_THE_BOOK:
        return 0
    if item.path.stem in _WHOLE_FILES:
        return 1 + _WHOLE_FILES.index(item.path.stem)
    late = 2 if item.get_closest_marker("opened") else 0 if item.get_closest_marker("guests") else 1
    return 1 + len(_WHOLE_FILES) + late


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadscope`, hand out what shares something: a file, an open page, or a test by itself."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class BySharing(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path, _, name = nodeid.partition("::")
            file, page = Path(path).stem, name.partition("[")[2]
            if file in _TROUBLES:
                return "troubles"
            return path if file in _ONE_PROCESS else page if page and file == "test_pages" else nodeid

    return BySharing(config, log)


ROOT = Path(__file__).resolve().parents[1]
_APART = ("unshare", "-n")

if sys.dont_write_bytecode:
    # Containers often forbid it: every program that a test starts would compile pandas anew, in two seconds.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(ROOT / ".pytest_cache" / "bytecode")
    sys.dont_write_bytecode = False

_FLAGS = (
    "--no-sandbox",  # as root Chromium has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_configure() -> None:
    """Let signals end the tests and the programs that they start.

    A script that puts the suite in the background has it ignore SIGINT, nohup has it ignore SIGHUP, and a
    program inherits that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def _room_for_every_guest() -> None:
    """A reader has fewer guests: in their room none of ours would be kept until its test runs again.

    Nor does a reader boot one beside other guests, a book that is built and a browser: it is not late then.
    """
    snapshots.LIMIT_BYTES = 8 << 30
    if "PYTEST_XDIST_WORKER" in os.environ:
        emulator.BOOT_DEADLINE_S = {timing: 3 * time_s for timing, time_s in emulator.BOOT_DEADLINE_S.items()}


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium from the system's packages."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no Chromium: scripts/provision.sh --tests installs it")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        yield chromium
        chromium.close()


@contextlib.contextmanager
def locked_apart(folder: Path) -> Iterator[None]:
    """A machine lock of one's own, in `folder`: whatever else is measuring, nobody has to wait.

    For tests that time how a run ends, and for runs whose numbers nobody looks at.
    """
    folder.chmod(0o1777)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_PLACES", (folder,))
        yield


@pytest.fixture(scope="module")
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A machine lock of this module's own, see `locked_apart`."""
    with locked_apart(tmp_path_factory.mktemp("lock")):
        yield


@pytest.fixture(scope="session")
def tiny_watched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Watched]:
    """A live run of an experiment in its tiny profile and what it left, one for the whole session."""

    @functools.cache
    def run(kind: str) -> Watched:
        with locked_apart(tmp_path_factory.mktemp("lock")):
            try:
                return watched(registry.find(kind))
            except SchedLabError as error:
                if not error.lacking:
                    raise
                pytest.skip(f"this machine lacks what {kind} needs: {error.what}")

    return run


@pytest.fixture(scope="session")
def tiny(tiny_watched: Callable[[str], Watched]) -> Callable[[str], Result]:
    """The result of that run: change nothing in it."""
    return lambda kind: tiny_watched(registry.entry(kind).kind).result


def apart(folder: Path) -> dict[str, str]:
    """What the environment of a program says so that it, and all it starts, keep data and lock in `folder`.

    For programs whose numbers nobody looks at: whatever else is measuring, they need not wait.
    """
    (folder / "lock").mkdir(parents=True, exist_ok=True)
    (folder / "lock").chmod(0o1777)
    (folder / "sitecustomize.py").write_text(
        "from contextlib import suppress\n"
        "from pathlib import Path\n"
        "with suppress(ImportError):  # a Python that does not have the package\n"
        "    from sched_labs.core import lock\n"
        f"    lock._PLACES = (Path({str(folder / 'lock')!r}),)\n",
        encoding="utf-8",
    )
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {"XDG_DATA_HOME": str(folder), "PYTHONPATH": path}


def run_book(
    *arguments: str, data: Path, timeout: float = 900, within: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `python -m sched_labs.book` apart, in the folder `data`; `within` goes before its words."""
    return subprocess.run(
        [*within, sys.executable, "-m", "sched_labs.book", *arguments],
        env={**os.environ, **apart(data)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def lay_checkout(folder: Path, *chapters: str) -> Path:
    """Copy what a book is built from to `folder`, but no chapter; its contents name these, or the first."""
    folder.mkdir()
    shutil.copy(ROOT / "_config.yml", folder / "_config.yml")
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8").splitlines(keepends=True)
    named = [f"notebooks/{name}\n" for name in chapters or ("01-context-switch",)]
    kept = [line for line in contents if "notebooks/" not in line or line.endswith(tuple(named))]
    (folder / "_toc.yml").write_text("".join(kept), encoding="utf-8")
    shutil.copytree(ROOT / "book", folder / "book", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "labs", folder / "labs", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "notebooks").mkdir()
    return folder


@dataclass(frozen=True)
class SmallBook:
    """The front pages and labs with four short chapters, the third of which fails: tests/small_book.

    network   why it was not built without one; empty where it was
    """

    root: Path
    data: Path
    built: subprocess.CompletedProcess[str]
    network: str


@pytest.fixture(scope="session")
def small_book(tmp_path_factory: pytest.TempPathFactory) -> SmallBook:
    """Built once for all that look at a built book, without a network where this user may go without."""
    folder = tmp_path_factory.mktemp("small")
    chapters = Path(__file__).with_name("small_book")
    root = lay_checkout(folder / "book", *(path.stem for path in chapters.iterdir()))
    shutil.copytree(chapters, root / "notebooks", dirs_exist_ok=True)
    network = _network()
    within = [] if network else [*_APART, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    built = run_book("build", "--root", str(root), "--profile", "tiny", data=folder / "data", within=within)
    assert f"pages: {root / '_build/html'}" in built.stdout, (
        f"the book does not build:\n{built.stdout}\n{built.stderr}"
    )
    return SmallBook(root, folder / "data", built, network)


def _network() -> str:
    """Why a program cannot be started without a network; empty where it can."""
    if shutil.which("unshare") is None or subprocess.run([*_APART, "true"], check=False).returncode != 0:
        return "this user may not make a network namespace"
    if shutil.which("ip") is None:
        return "there is no `ip` to raise the loopback interface, which the notebook's kernel needs"
    return ""


@pytest.fixture(scope="session")
def real_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book of this checkout, its chapters run on this machine (SCHED_LABS_PROFILE, by default tiny).

    It is built from a copy, so that the tests neither use nor replace the pages that `make book` made; and
    once, by the first of several processes of tests: the others wait.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "real"
    folder.mkdir(exist_ok=True)
    checkout = folder / "book"
    with (folder / "lock").open("w") as only:
        fcntl.flock(only, fcntl.LOCK_EX)
        if not checkout.exists():
            lay_checkout(checkout)
            shutil.copytree(ROOT / "notebooks", checkout / "notebooks", dirs_exist_ok=True)
            shutil.copy(ROOT / "_toc.yml", checkout / "_toc.yml")
            profile = os.environ.get("SCHED_LABS_PROFILE", "tiny")
            words = ("build", "--root", str(checkout), "--profile", profile)
            done = run_book(*words, data=folder / "data", timeout=BUILD_S)
            assert done.returncode == 0, f"the book does not build:\n{done.stdout}\n{done.stderr}"
    return checkout / "_build"
