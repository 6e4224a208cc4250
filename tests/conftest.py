"""What several test modules share: a browser, and the real book, built once for the whole session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sched_labs import lock

ROOT = Path(__file__).resolve().parents[1]
_FLAGS = (
    "--no-sandbox",  # as root Chromium has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


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


@pytest.fixture(scope="module")
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A machine lock of this module's own: whatever else is measuring, its tests need not wait.

    For tests that time how a run ends, and for runs whose numbers nobody looks at.
    """
    place = tmp_path_factory.mktemp("lock")
    place.chmod(0o1777)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_PLACES", (place,))
        yield


def run_book(*arguments: str, data: Path, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """Run `python -m sched_labs.book` with a data folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", "sched_labs.book", *arguments],
        env={**os.environ, "XDG_DATA_HOME": str(data)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def lay_checkout(folder: Path) -> Path:
    """Copy what a book is built from, without its chapters, to `folder`; its contents name the first one."""
    folder.mkdir()
    shutil.copy(ROOT / "_config.yml", folder / "_config.yml")
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in contents if "notebooks/" not in line or "notebooks/01-" in line]
    (folder / "_toc.yml").write_text("".join(kept), encoding="utf-8")
    shutil.copytree(ROOT / "book", folder / "book", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "labs", folder / "labs", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "notebooks").mkdir()
    return folder


@pytest.fixture(scope="session")
def real_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book of this checkout, its chapters run on this machine (SCHED_LABS_PROFILE, by default tiny).

    It is built from a copy, so that the tests neither use nor replace the pages that `make book` made.
    """
    checkout = lay_checkout(tmp_path_factory.mktemp("real") / "book")
    shutil.copytree(ROOT / "notebooks", checkout / "notebooks", dirs_exist_ok=True)
    shutil.copy(ROOT / "_toc.yml", checkout / "_toc.yml")
    profile = os.environ.get("SCHED_LABS_PROFILE", "tiny")
    done = run_book("build", "--root", str(checkout), "--profile", profile, data=checkout.parent / "data")
    assert done.returncode == 0, f"the book does not build:\n{done.stdout}\n{done.stderr}"
    return checkout / "_build"
