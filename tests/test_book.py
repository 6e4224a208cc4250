"""The driver: chapters are run, kept, shown, and a failure is a failure."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT, apart, run_book
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from sched_labs.book import command, pages
from sched_labs.book.behind import Board
from sched_labs.book.chapters import Chapter, Checkout, chapters, checkout
from sched_labs.book.kernel import Kernel
from sched_labs.book.measure import fingerprint
from sched_labs.book.progress import Follower, Terminal
from sched_labs.core.errors import SchedLabError

SMALL = Path(__file__).with_name("small_book")
GOOD = (SMALL / "02-latency-ladder.md").read_text(encoding="utf-8")
BAD = (SMALL / "03-scheduler-latency.md").read_text(encoding="utf-8")
HEADER = GOOD.partition("# ")[0]
CONTENTS = """format: jb-book
root: book/intro
chapters:
  - file: notebooks/01-context-switch
"""


def write_chapter(root: Path, text: str) -> None:
    """Make `text` the first chapter of the book in `root`."""
    (root / "notebooks" / "01-context-switch.md").write_text(text, encoding="utf-8")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book of one page and one chapter."""
    root = tmp_path / "book"
    for folder in ("_ext", "_static"):
        shutil.copytree(ROOT / "book" / folder, root / "book" / folder)
    shutil.copy(ROOT / "_config.yml", root)
    (root / "_toc.yml").write_text(CONTENTS, encoding="utf-8")
    (root / "book" / "intro.md").write_text("# A book\n", encoding="utf-8")
    (root / "notebooks").mkdir()
    write_chapter(root, GOOD)
    return root


def test_of_two_that_make_one_book_the_second_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = Checkout(tmp_path)
    order: list[str] = []

    def second() -> None:
        with command._alone(book, Terminal()):
            order.append("second")

    with command._alone(book, Terminal()):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.5)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert "another `make` is at work" in capsys.readouterr().out


def test_what_the_pages_cannot_be_told_stops_no_measuring(tmp_path: Path) -> None:
    """The disk is full: the file that the pages are told by cannot be written."""
    (tmp_path / "measuring.partial").symlink_to("/dev/full")
    board = Board(tmp_path / "measuring.json", Checkout(tmp_path), [], [])
    board.tell(line="cell 3 of 7")
    assert not (tmp_path / "measuring.json").exists()


def build(root: Path, *options: str, data: Path) -> subprocess.CompletedProcess[str]:
    return run_book("build", "--root", str(root), "--profile", "tiny", *options, data=data)


def test_a_link_to_nowhere_and_unknown_tex_fail_the_build(book: Path, tmp_path: Path) -> None:
    wrong = "# A page\n\n[there is no such page](nowhere.md)\n\n$\\nosuchcommand{x}$\n"
    (book / "book" / "intro.md").write_text(wrong, encoding="utf-8")
    done = build(book, data=tmp_path)
    assert done.returncode == 1, done.stdout
    named = [line for line in done.stdout.splitlines() if "intro.md" in line]
    for cause in ("nowhere.md", "nosuchcommand"):
        assert any(cause in line for line in named), done.stdout
    assert not (book / "_build/html").exists()


# ---- what is built when ----


@pytest.fixture
def no_sphinx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are made by a stand-in, which takes their texts as they are."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("no_sphinx")))


@pytest.mark.usefixtures("no_sphinx")
def test_only_what_has_changed_is_measured_and_built_again(book: Path, tmp_path: Path) -> None:
    done = build(book, data=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    page = book / "_build/html/notebooks/01-context-switch.html"
    assert "profile tiny" in page.read_text(encoding="utf-8")

    again = build(book, data=tmp_path)
    assert again.returncode == 0 and "kept" in again.stdout and "nothing changed" in again.stdout
    fresh = build(book, "--fresh", data=tmp_path)
    assert "measuring" in fresh.stdout and "building" in fresh.stdout

    # A text changes: the pages are made anew, the chapter is not measured again, and no old file stays.
    (book / "_build/html/left-over.html").touch()
    with (book / "book/intro.md").open("a", encoding="utf-8") as intro:
        intro.write("\nAnother sentence.\n")
    text = build(book, data=tmp_path)
    assert text.returncode == 0 and "kept" in text.stdout and "pages: building" in text.stdout
    assert "Another sentence." in (book / "_build/html/book/intro.html").read_text(encoding="utf-8")
    assert not (book / "_build/html/left-over.html").exists()


def test_right_answers_are_in_the_instructors_book_alone(book: Path, tmp_path: Path) -> None:
    # An answer that the notes on a lab name and no sheet does; every page and the search of each book.
    lab = book / "labs" / "07-remove-a-p99"
    shutil.copytree(ROOT / "labs" / lab.name, lab)
    files = ("notebooks/01-context-switch", f"labs/{lab.name}/sheet")
    listed = {"caption": "All", "chapters": [{"file": file} for file in files]}
    contents = {"format": "jb-book", "root": "book/intro", "parts": [listed]}
    (book / "_toc.yml").write_text(json.dumps(contents), encoding="utf-8")
    (book / "book" / "instructors.md").write_text("# For instructors\n", encoding="utf-8")
    answer = "a burst of 18 to 39 ms"
    assert answer in (lab / "instructor.md").read_text() and answer not in (lab / "sheet.md").read_text()
    write_chapter(book, GOOD + "\n## The order of diagnosis\n\nAsk, then look.\n")
    for edition, has in ((), False), (("--instructors",), True):
        done = run_book("build", *edition, "--root", str(book), "--profile", "tiny", data=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        pages = book / "_build" / ("instructors" if has else "html")
        assert str(pages) in done.stdout
        texts = {path.relative_to(pages): path.read_text(encoding="utf-8") for path in pages.rglob("*.html")}
        assert any(answer in text for text in texts.values()) == has
        assert any("instructor" in str(path) for path in texts) == has
        index = (pages / "searchindex.js").read_text(encoding="utf-8")
        assert (f"labs/{lab.name}/instructor" in index) == has
        assert ("For instructors" in texts[Path("book/intro.html")]) == has
        # The sheet leads to the section, which is there.
        sheet = texts[Path("labs") / lab.name / "sheet.html"]
        assert 'href="../../notebooks/01-context-switch.html#the-order-of-diagnosis"' in sheet
        assert 'id="the-order-of-diagnosis"' in texts[Path("notebooks/01-context-switch.html")]
        # Hints are folded away until the reader opens them.
        article = sheet.partition("<article")[2]  # the margin has folds of its own
        assert article.count("<details>") == len(re.findall(r"<details>\s*<summary>", article)) == 2


@pytest.mark.usefixtures("no_sphinx")
def test_a_chapter_that_failed_is_tried_again(book: Path, tmp_path: Path) -> None:
    write_chapter(book, BAD)
    for _ in range(2):
        done = build(book, data=tmp_path)
        assert done.returncode == 1
        assert "cell 2 failed" in done.stdout and "this cell is meant to fail" in done.stdout
        assert "measuring" in done.stdout, "a failed chapter never counts as done"
    assert "profile tiny" in (book / "_build/html/notebooks/01-context-switch.html").read_text(
        encoding="utf-8"
    )


def test_chapters_share_a_kernel_and_neither_names_nor_what_failed() -> None:
    def ran(code: str, place: str = "") -> list[str]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        kernel.run(NotebookClient(notebook, kernel.manager, timeout=60), {"PLACE": place})
        return str(notebook.cells[0].outputs[0].text).split()

    says = "import os; print('mine' in dir(), os.environ['PLACE'], os.getpid()); mine = 1"
    with Kernel() as kernel:
        *told, pid = ran(says, "here")
        assert told == ["False", "here"] and ran(says, "there") == ["False", "there", pid]
        with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
            ran("1 / 0")
        *told, another = ran(says, "here")
        assert told == ["False", "here"] and another != pid
        with pytest.raises(DeadKernelError):
            ran("import os; os._exit(3)")
        assert ran(says, "here")[:2] == ["False", "here"]


def test_what_a_chapter_is_measured_from_decides_whether_it_is_measured_again(tmp_path: Path) -> None:
    source = tmp_path / "a.md"
    source.write_text("one", encoding="utf-8")
    chapter = Chapter("notebooks/a", source)
    first = fingerprint(chapter, "quick")
    assert fingerprint(chapter, "quick") == first
    assert fingerprint(chapter, "full") != first
    source.write_text("two", encoding="utf-8")
    assert fingerprint(chapter, "quick") != first


def test_chapters_are_those_of_the_table_of_contents() -> None:
    found = chapters(checkout(ROOT))
    assert [c.name for c in found] == sorted(c.name for c in found) and found
    assert all(c.source.is_file() for c in found)
    on_disk = {p.stem for p in (ROOT / "notebooks").glob("*.md")}
    assert on_disk == {c.source.stem for c in found}, (
        "a chapter that the table of contents does not name is never run"
    )


def test_a_folder_without_a_book_is_a_clear_message(tmp_path: Path) -> None:
    with pytest.raises(SchedLabError, match="no book"):
        checkout(tmp_path)


def test_widgets_leave_only_their_static_twin() -> None:
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "IntSlider()"}
    twin = {**view, "text/html": "<form></form>"}
    outputs = [
        nbformat.v4.new_output("display_data", data=dict(view)),
        nbformat.v4.new_output("display_data", data=dict(twin)),
        nbformat.v4.new_output("stream", text="said"),
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(outputs=outputs)], metadata={"widgets": {}}
    )
    pages.still(notebook)
    kept: list[Any] = notebook.cells[0].outputs
    assert [o.output_type for o in kept] == ["display_data", "stream"]
    assert set(kept[0].data) == {"text/plain", "text/html"} and "widgets" not in notebook.metadata


def test_links_between_chapters_lead_to_the_notebooks_that_ran() -> None:
    parts = [Chapter("notebooks/01-a", Path("notebooks/01-a.md"))]
    text = "[x](01-a.md) [y](../notebooks/01-a.md#part) [z](01-ab.md) `01-a.md`"
    said = pages.relink(text, parts)
    assert said == "[x](01-a.ipynb) [y](../notebooks/01-a.ipynb#part) [z](01-ab.md) `01-a.md`"


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_one_line_and_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    screen = _Screen()
    file = tmp_path / "progress"
    whole = json.dumps({"experiment": "warmup.sweep", "done": 3, "total": 12, "label": "64 KiB"})
    with Follower(Terminal(screen), file, cells=9) as follower:
        follower.cell(4)
        with file.open("a", encoding="utf-8") as out:
            out.write("not json\n" + whole[:20])
            out.flush()
            time.sleep(0.5)
            assert "warmup" not in follower.line() and "cell 4 of 9" in follower.line()
            out.write(whole[20:] + "\n")
        deadline = time.monotonic() + 30
        while "3/12" not in screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "warmup.sweep  █████░░░░░░░░░░░░░░░  3/12  64 KiB" in follower.line()
    assert "3/12" in screen.getvalue() and "\n" not in screen.getvalue()
    Terminal(screen).say("done")


@pytest.mark.parametrize("target", ["help", "live", "book", "test", "test-all", "check", "bench", "clean"])
def test_make_knows_its_targets(target: str) -> None:
    done = subprocess.run(
        ["make", "-n", "PROVISION=no", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_make_refuses_an_old_python_and_says_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text(
        "#!/bin/sh\ncase $1 in --version) echo Python 3.9.2;; *) exit 1;; esac\n", encoding="ascii"
    )
    old.chmod(0o755)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", "book", "PROVISION=no", f"PYTHON={old}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "3.11 or newer" in done.stderr and "PYTHON=" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_ctrl_c_stops_the_cell_lets_it_clean_up_and_leaves_nothing(book: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    cell = f"""
import pathlib, subprocess, os
said = pathlib.Path({str(said)!r})
child = subprocess.Popen(["sleep", "600"])
said.write_text(f"{{os.getpid()}} {{child.pid}}")
try:
    child.wait()
finally:
    child.kill()
    child.wait()
    said.write_text(said.read_text() + " cleaned")
"""
    write_chapter(book, HEADER + f"# A\n\n```{{code-cell}} ipython3\n{cell}\n```\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "sched_labs.book", "build", "--root", str(book), "--profile", "tiny"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **apart(tmp_path)},
    )
    deadline = time.monotonic() + 60
    while not (said.exists() and said.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped" in out and "Traceback" not in out, out
    kernel, child, cleaned = said.read_text().split()
    assert cleaned == "cleaned"
    assert not Path("/proc", kernel).exists() and not Path("/proc", child).exists()
    assert not (book / "_build/html").exists()
