"""The hands-on labs: every solution passes, every starter does not, and what is kept of the reader's work."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from conftest import VIRTUAL_LAB
from test_labs_answers import NEED_TWO, PARTS, judged

from sched_labs import cli, labs, machine
from sched_labs.core import registry
from sched_labs.core.errors import ParameterError, ResultError, SchedLabError

LABS = labs.all_labs()
NAMES = [lab.name for lab in LABS]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "sched-labs" / "labs"


@pytest.fixture
def small(tmp_path: Path) -> labs.Lab:
    """A lab of two lines, for everything that is not about a lab's content."""
    folder = tmp_path / "labs" / "90-small"
    for name in ("starter", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "sheet.md").write_text("# Say six\n")
    (folder / "starter" / "answer.py").write_text("def say(): return 5\n")
    (folder / "solution" / "answer.py").write_text("def say(): return 6\n")
    (folder / "check.py").write_text(
        "def check(judge):\n"
        "    said = judge.function('answer.py', 'say')()\n"
        "    judge.expect(said == 6, good=f'it is {said}', missing='it is another number')\n"
        "    judge.remark(f'drawn: {judge.rng.integers(1000)}')\n"
    )
    return labs.Lab(folder)


def test_there_are_eight_labs_with_all_their_parts() -> None:
    assert len(LABS) >= 8
    for lab in LABS:
        assert (lab.folder / "check.py").is_file()
        assert (lab.folder / "instructor.md").read_text().startswith("# Instructor's notes")
        starter, solution = (
            {p.name for p in (lab.folder / part).iterdir()} for part in ("starter", "solution")
        )
        assert starter == solution and starter
        told = re.search(r"sched-labs lab check (\S+)", (lab.folder / "sheet.md").read_text())
        assert told and labs.find(told[1]) == lab


@pytest.mark.parametrize("lab", LABS, ids=NAMES)
def test_whatever_the_sheet_compiles_is_laid_out(lab: labs.Lab, data: Path) -> None:
    folder = labs.start(lab)
    for line in re.findall(r"^    cc .*", (folder / "sheet.md").read_text(), re.MULTILINE):
        command = line.strip().partition(" && ")[0]
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def each_lab(*computed: str) -> pytest.MarkDecorator:
    """For tests that measure, but in these labs."""
    marked = [pytest.param(lab, marks=[pytest.mark.measures] * (lab.name not in computed)) for lab in LABS]
    return pytest.mark.parametrize("lab", marked, ids=NAMES)


# Only a machine that does other things meanwhile may leave it open.


@each_lab(VIRTUAL_LAB)
def test_the_solution_passes(lab: labs.Lab) -> None:
    if lab.name in NEED_TWO and len(machine.survey().cpus_allowed) < 2:
        pytest.skip("this lab needs two CPUs")
    solved = labs.check_folder(lab, lab.folder / "solution", seed=1)
    assert solved.passed or (solved.passed is None and solved.doubts), str(solved)


@each_lab(VIRTUAL_LAB, *PARTS)
def test_the_starter_does_not_pass(lab: labs.Lab) -> None:
    """What does not pass a part of a check does not pass it."""
    if lab.name in NEED_TWO and len(machine.survey().cpus_allowed) < 2:
        pytest.skip("this lab needs two CPUs")
    begun = judged(lab, lab.folder / "starter")
    assert begun.passed is False or (begun.passed is None and begun.doubts), str(begun)


def test_a_lab_from_start_to_solution(
    small: labs.Lab, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "labs", lambda: [small.folder])
    assert cli.main(["lab", "list"]) == 0
    assert "90-small" in capsys.readouterr().out
    assert cli.main(["lab", "check", "small"]) == 2  # not begun
    assert "sched-labs lab start" in capsys.readouterr().err
    assert cli.main(["lab", "start", "small"]) == 0
    mine = data / "90-small" / "answer.py"
    assert mine.read_text() == "def say(): return 5\n"
    assert cli.main(["lab", "check", "small", "--seed", "3"]) == 1
    assert "missing      it is another number" in capsys.readouterr().out
    mine.write_text("def say(): return 6\n")
    assert cli.main(["lab", "start", "small"]) == 0  # again: what was written stays
    assert mine.read_text() == "def say(): return 6\n"
    assert cli.main(["lab", "check", "90", "--seed", "4"]) == 0
    said = capsys.readouterr().out
    assert "it is 6" in said and "passed (seed 4)" in said
    assert cli.main(["lab", "reveal", "90-small"]) == 0
    assert "return 6" in capsys.readouterr().out

    row = labs.progress().iloc[0]
    assert (row["checks"], row["seed"]) == (2, 4)
    assert row["started_at"] <= row["passed_at"] <= row["revealed_at"]
    teacher = data / "teacher.csv"
    assert cli.main(["progress", "--export", str(teacher)]) == 0
    assert list(pd.read_csv(teacher)["lab"]) == ["90-small"]
    assert cli.main(["progress"]) == 0
    assert "90-small" in capsys.readouterr().out


def test_what_cannot_be_told_is_a_third_outcome(
    small: labs.Lab, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "labs", lambda: [small.folder])
    labs.start(small)
    head = "from sched_labs.core.errors import ProbeError\ndef check(judge):\n    "
    unclear = "judge.expect(None, good='', missing='', unclear='it may be 6')"
    for body, status, said in (
        (unclear, 3, "cannot tell  it may be 6"),
        ("judge.can_tell(False, 'too much goes on'); 1 / 0", 3, "cannot tell  too much goes on"),
        ("raise ProbeError('no probe here')", 3, "This machine could not measure it: no probe here"),
        (f"judge.expect(True, good='it is 6', missing=''); {unclear}", 3, "ok           it is 6"),
        (f"judge.expect(False, good='', missing='it is 5'); {unclear}", 1, "missing      it is 5"),
    ):
        (small.folder / "check.py").write_text(head + body)
        assert cli.main(["lab", "check", "small"]) == status
        out = capsys.readouterr().out
        assert said in out
        assert ("not judged" in out, "not yet" in out) == (status == 3, status == 1)
    assert labs.progress().iloc[0]["passed_at"] == ""


def test_hints_come_one_at_a_time_and_are_counted(
    small: labs.Lab, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "labs", lambda: [small.folder])
    assert cli.main(["lab", "hint", "small"]) == 2
    assert "has no hints" in capsys.readouterr().err
    folds = "".join(
        f"<details><summary>{name}</summary>\n\n{text}\n\n</details>\n\n"
        for name, text in (("First", "It is even."), ("Second", "It is\nbelow seven."))
    )
    (small.folder / "sheet.md").write_text(f"# Say six\n\n## Hints\n\n{folds}## Questions\n")
    assert cli.main(["lab", "start", "small"]) == 0
    said, laid_out = capsys.readouterr().out, (data / "90-small" / "sheet.md").read_text()
    for text in (said, laid_out):
        assert "sched-labs lab hint small" in text and "## Questions" in text
        assert "even" not in text and "seven" not in text and "<" not in text
    for first, second in ((True, False), (True, True), (True, True)):
        assert cli.main(["lab", "hint", "small"]) == 0
        out = capsys.readouterr().out
        assert ("It is even." in out, "below seven." in out) == (first, second)
    assert labs.progress().iloc[0]["hints"] == 2


def test_the_same_seed_asks_the_same(small: labs.Lab) -> None:
    first, again, other = (
        labs.check_folder(small, small.folder / "solution", seed=seed) for seed in (7, 7, 8)
    )
    assert first == again and first.remarks != other.remarks
    assert labs.check_folder(small, small.folder / "solution").passed  # a seed of its own
    for seed in (-1, 1_000_000):
        with pytest.raises(ParameterError, match="is no seed"):
            labs.check_folder(small, small.folder / "solution", seed=seed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def say(: return 6", "cannot be loaded: SyntaxError: invalid syntax\nanswer.py, line 1: def say("),
        ("import json\njson.loads('')", "cannot be loaded: JSONDecodeError"),
        ("import json\njson.loads('')", "\nanswer.py, line 2: json.loads('')"),
        ("def tell(): return 6", "has no function say"),
        (
            "def say():\n    return 1 / 0",
            "ZeroDivisionError: division by zero\nanswer.py, line 2: return 1 / 0",
        ),
        ("def say(): return say()", "say raised RecursionError"),
        ("print('noise')\ndef say(): return 5", "another number"),
        ("raise SystemExit(0)", "cannot be loaded: SystemExit"),
    ],
)
def test_broken_work_is_told_and_never_passes(small: labs.Lab, tmp_path: Path, text: str, said: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "answer.py").write_text(text)
    report = labs.check_folder(small, folder, seed=1)
    assert not report.passed
    assert said in report.findings[0][1]


@pytest.mark.measures
def test_a_busy_machine_is_told_with_what_is_missing(small: labs.Lab, tmp_path: Path) -> None:
    (small.folder / "check.py").write_text(
        "import time\n"
        "def check(judge):\n"
        "    time.sleep(1)\n"
        "    judge.expect(False, good='', missing='it is another number')\n"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            stack.callback(subprocess.Popen(["sh", "-c", "while :; do :; done"]).kill)
        said = str(labs.check_folder(small, small.folder / "solution", seed=1))
    assert "Other programs used" in said and "check again on a quiet machine" in said


def test_no_file_no_pass(small: labs.Lab, tmp_path: Path) -> None:
    report = labs.check_folder(small, tmp_path, seed=1)
    assert report.findings == (
        (
            False,
            f"answer.py is not in {tmp_path}. `sched-labs lab start 90-small` lays the starter out again.",
        ),
    )


def test_an_endless_loop_ends_and_takes_its_children_with_it(small: labs.Lab, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    left = tmp_path / "left"
    (folder / "answer.py").write_text(
        "import subprocess\n"
        f"child = subprocess.Popen(['sleep', '600'])\nopen({str(left)!r}, 'w').write(str(child.pid))\n"
        "def say():\n    while True: pass\n"
    )
    begun = time.monotonic()
    assert labs.check_folder(small, small.folder / "solution", seed=1).passed
    usual_s = time.monotonic() - begun  # on a busy machine Python alone may take seconds to start
    with pytest.raises(SchedLabError, match="loop for ever"):
        labs.check_folder(small, folder, seed=1, deadline_s=3 + 3 * usual_s)
    assert gone(int(left.read_text()))


def gone(pid: int, within_s: float = 5) -> bool:
    """Whether a process ends, by and by."""
    end, stat = time.monotonic() + within_s, Path(f"/proc/{pid}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_a_child_in_a_session_of_its_own_does_not_outlive_the_check(small: labs.Lab, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "answer.py").write_text(
        "import subprocess\n"
        "child = subprocess.Popen(['sh', '-c', 'echo $$ > left; exec sleep 600'],\n"
        f"    cwd={str(tmp_path)!r}, start_new_session=True)\n"
        "def say(): return 6\n"
    )
    assert labs.check_folder(small, folder, seed=1).passed
    assert gone(int((tmp_path / "left").read_text()), within_s=0)


def test_a_check_ends_with_whoever_started_it(small: labs.Lab, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    left = tmp_path / "left"
    (folder / "answer.py").write_text(
        "import os, pathlib\n"
        f"def say():\n    pathlib.Path({str(left)!r}).write_text(f'{{os.getpid()}} ')\n    while True: pass\n"
    )
    code = (
        "import sys; from pathlib import Path; from sched_labs import labs\n"
        "labs.check_folder(labs.Lab(Path(sys.argv[1])), Path(sys.argv[2]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, small.folder, folder])
    try:
        end = time.monotonic() + 60
        while not (left.exists() and left.read_text().endswith(" ")):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()
    assert gone(int(left.read_text()), within_s=20)


@pytest.mark.parametrize(
    "text", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 9)", "os.fork(); return 6"]
)
def test_code_that_ends_the_check_is_told_so(small: labs.Lab, tmp_path: Path, text: str) -> None:
    (tmp_path / "answer.py").write_text(f"import os\ndef say(): {text}\n")
    with pytest.raises(SchedLabError, match="before it had said what it found") as raised:
        labs.check_folder(small, tmp_path, seed=1)
    assert "Return from your function" in raised.value.remedy


def test_a_keeper_lets_processes_end_by_themselves_for_a_moment(tmp_path: Path) -> None:
    """So that the guard of a control group takes it away before it is ended."""
    guard = (
        "setsid sh -c 'touch begun; sleep 0.5; touch tidied' &\n"
        "setsid sh -c 'echo $$ > left; exec sleep 600' &\n"
        "until [ -e begun ] && [ -s left ]; do sleep 0.01; done; exit 3"
    )
    keeper = [sys.executable, "-I", labs.keeper.__file__, "60", "sh", "-c", guard]
    child = subprocess.Popen(keeper, cwd=tmp_path, stdin=subprocess.PIPE)
    assert child.wait(60) == 3 and child.stdin
    child.stdin.close()
    assert (tmp_path / "tidied").exists()
    assert gone(int((tmp_path / "left").read_text()), within_s=0)


def test_settings_are_read_strictly(small: labs.Lab, tmp_path: Path) -> None:
    for text, said in (
        ("{", "is not JSON"),
        ("[1]", "one object"),
        ('{"threads": true}', "must be a number from 1 to 16"),
        ('{"threads": 99}', "must be a number from 1 to 16"),
    ):
        (tmp_path / "settings.json").write_text(text)
        judge = labs.Judge("90-small", tmp_path, 1)
        with pytest.raises(labs.judge.Stop):
            judge.number(judge.settings("settings.json"), "threads", 1, 16)
        assert said in judge.findings[0][1]


def test_a_check_that_breaks_says_where_to_look(small: labs.Lab) -> None:
    (small.folder / "check.py").write_text("def check(judge):\n    None + 1\n")
    with pytest.raises(SchedLabError, match="broke") as raised:
        labs.check_folder(small, small.folder / "solution", seed=1)
    assert "None + 1" in raised.value.what
    assert "If its last line is in your file, mend it there" in raised.value.remedy


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("kill -ALRM $$", "does it return?"),
        ("kill -SEGV $$", "was ended by SIGSEGV"),
        ("echo no >&2; exit 3", "ended with status 3: no"),
        ("echo 1 2 3", "something else than its 2 numbers"),
        ("echo one 2", "something else than its 2 numbers"),
    ],
)
def test_how_a_program_ended_is_told_in_words(tmp_path: Path, script: str, said: str) -> None:
    judge = labs.Judge("90-small", tmp_path, 1)
    with pytest.raises(labs.judge.Stop):
        judge.counts(["sh", "-c", script], ("a", "b"), hung="does it return?")
    assert said in judge.findings[0][1]
    assert judge.counts(["echo", 1, 2], ("a", "b"), hung="") == {"a": 1, "b": 2}


def test_a_lab_that_is_not_there() -> None:
    with pytest.raises(ParameterError, match="no lab 'knitting'"):
        labs.find("knitting")
    with pytest.raises(ParameterError, match="Several labs"):
        labs.find("size")
    assert labs.find("4") == labs.find("04") == labs.find("convoy")
    # Python takes more for a digit than the ten, and refuses to read a number of 5,000 of them.
    for name in ("²", "٤", "", "0", "-1", "4.0", "9" * 5000, "../04-beat-the-convoy", "\0"):
        with pytest.raises(ParameterError, match="There is no lab"):
            labs.find(name)


@pytest.mark.parametrize(
    "damaged", ["[]", "{", '{"a": 1}', '{"a": {"hints": "x"}}', '{"a": {"passed_at": []}}', "[" * 100_000]
)
def test_unreadable_progress_is_told(data: Path, damaged: str) -> None:
    data.mkdir(parents=True)
    (data / "progress.json").write_text(damaged)
    with pytest.raises(ResultError, match="Move the file away"):
        labs.progress()


def test_sources_of_labs_compile_without_warnings(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    for lab in LABS:
        for source in lab.folder.glob("*.c"):
            for part in ("starter", "solution"):
                command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-pthread"]
                subprocess.run([*command, f"-I{lab.folder / part}", str(source)], check=True)
