"""Right and wrong answers to each lab: how its check judges them, and what it says of ordinary mistakes."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import VIRTUAL_LAB

from sched_labs import labs, machine
from sched_labs.limits import cgroups

ANSWERS = sorted((Path(__file__).parent / "lab_answers").glob("*/*/*"))
# Of the labs that measure for long only the part that measures nothing; whole checks are in test_labs.py.
PARTS: dict[str, Callable[[Any, labs.Judge], None]] = {
    "01-cache-sizes": lambda check, judge: check.on_constructed_machines(
        judge, judge.function("answer.py", "cache_sizes")
    ),
    "06-size-a-quota": lambda check, judge: check.simulated(judge, judge.function("answer.py", "quota_us")),
    "07-remove-a-p99": lambda check, judge: check.check(judge),  # where no group can be made, it simulates
}
EACH = [
    pytest.param(
        folder,
        marks=[pytest.mark.measures] * (folder.parts[-3] not in {VIRTUAL_LAB, *PARTS}),
        id=f"{folder.parts[-3]}-{folder.name}",
    )
    for folder in ANSWERS
]
NEED_TWO = {"02-noisy-neighbour", "03-place-four-threads"}
BY_THE_LIBRARY = (
    "from sched_labs import switches\n"
    "def diagnose(threads):\n    return switches.classify(threads.assign(pid=1)).label\n"
)
# What the check says of a wrong answer, where it can judge.
SAID = {
    "01-cache-sizes/constants": "constructed machines were found",
    "01-cache-sizes/threshold-in-ns": "constructed machines were found",
    "02-noisy-neighbour/second-busiest": "in 2 of 6 sets. What do the service and its neighbour share",
    "02-noisy-neighbour/most-involuntary": "of 6 sets",
    "03-place-four-threads/always-together": "a pair that computes",
    "03-place-four-threads/all-on-one": "of what the best placement gets done",
    "04-beat-the-convoy/fifo-waking-everybody": "switches for an item",
    "04-beat-the-convoy/ticket-yield": "switches for an item",
    "05-five-processes/all-threads-rule-of-thumb": "of 15 processes were told right",
    "05-five-processes/one-word": "of 15 processes were told right",
    "06-size-a-quota/no-limit": "times what would be enough",
    "06-size-a-quota/twice-the-average": "times what would be enough",
    "07-remove-a-p99/a-shorter-period": "of today's",
    "07-remove-a-p99/a-small-burst": "of today's",
    "07-remove-a-p99/burst-to-the-maximum": "who were promised 89.6 ms at most",
    "07-remove-a-p99/fewer-threads": "of today's",
    "07-remove-a-p99/the-longest-period": "who were promised 89.6 ms at most",
    "08-batch-with-a-deadline/a-hundred-at-a-time": "missed the deadline at the low rate",
    "08-batch-with-a-deadline/at-the-deadline": "missed the deadline at the ",
    "08-batch-with-a-deadline/six-at-a-time": "missed the deadline at the low rate",
    "09-beat-eevdf/knows-the-name": "no workload may be worse than 0.95",
    "09-beat-eevdf/the-chapters-own": "this is the chapter's own deadline.bpf.c",
    "09-beat-eevdf/starves-the-hogs": "somebody pays who is not measured: pairs",
}


def the_check(lab: labs.Lab) -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_of_a_lab", lab.folder / "check.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as for any imported module; dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def wrong(report: labs.Report) -> str:
    return "\n".join(text for right, text in report.findings if right is False)


def judged(lab: labs.Lab, folder: Path) -> labs.Report:
    if lab.name not in PARTS:
        return labs.check_folder(lab, folder, seed=1)
    judge = labs.Judge(lab.name, folder, 1)
    with contextlib.suppress(labs.judge.Stop), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cgroups, "possible", lambda: (False, "not in this test"))
        PARTS[lab.name](the_check(lab), judge)
    return labs.Report(lab.name, 1, tuple(judge.findings), tuple(judge.remarks))


@pytest.mark.parametrize("folder", EACH)
def test_an_answer_is_judged_as_it_deserves(folder: Path) -> None:
    lab = labs.find(folder.parts[-3])
    if lab.name in NEED_TWO and len(machine.survey().cpus_allowed) < 2:
        pytest.skip("this lab needs two CPUs")
    report, right = judged(lab, folder), folder.parent.name == "right"
    assert report.passed is right or (report.passed is None and report.doubts), str(report)
    if report.passed is False:
        assert SAID[f"{lab.name}/{folder.name}"] in wrong(report), str(report)


def test_every_lab_has_right_and_wrong_answers_to_try() -> None:
    for lab in labs.all_labs():
        kinds = {folder.parent.name for folder in ANSWERS if folder.parts[-3] == lab.name}
        assert kinds == {"right", "wrong"}, lab.name
    told = {f"{folder.parts[-3]}/{folder.name}" for folder in ANSWERS if folder.parent.name == "wrong"}
    assert told == set(SAID)


def test_the_librarys_rule_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text(BY_THE_LIBRARY)
    report = labs.check_folder(labs.find("five-processes"), tmp_path, seed=1)
    assert "diagnose raised KeyError" in wrong(report) and "answer.py, line 3" in wrong(report)


@pytest.mark.parametrize(
    ("outcomes", "said", "not_said"),
    [
        (["elsewhere"] * 4 + ["found"] * 2, "What do the service and its neighbour share", "thread"),
        (["found"] * 5 + ["elsewhere"], "Once the process that you named did not use", "share"),
        (["found"] * 5 + ["light"], "Once it ran where the service runs, and hardly ever", "thread"),
        (["light"] * 6, "6 times it ran where the service runs", "share"),
    ],
    ids=["never looked at a CPU", "right five times", "a light one", "six light ones"],
)
def test_a_miss_is_told_by_what_it_is(outcomes: list[str], said: str, not_said: str) -> None:
    """Whoever looks at CPUs already is not asked again what the two share."""
    check = the_check(labs.find("noisy-neighbour"))
    advice = check.advice(list(zip([1, 2, 3] * 2, outcomes, strict=True)), check.Counter(outcomes))
    assert said in advice and not_said not in advice


def test_no_factor_of_the_average_is_a_quota_for_all() -> None:
    """The two kinds of service that a check always has ask for factors that exclude each other."""
    check = the_check(labs.find("size-a-quota"))
    needed = {}
    for work_us, low, high in check.KINDS[:2]:
        for load in (low, high):
            service = {"arrivals_per_s": round(load * 1e6 / work_us), "work_us": work_us, "threads": 8}
            service |= {"cpus": 4, "period_us": 100_000}
            needed[work_us, load] = check.Tail(service, [1]).enough() / (load * 100_000)
    small, large = ([f for (work, _), f in needed.items() if work == kind[0]] for kind in check.KINDS[:2])
    assert min(small) > 1 and min(large) > check.DEARER * max(small)


def test_an_answer_of_another_kind_is_told(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text("def diagnose(threads):\n    return threads.leader\n")
    assert "one of the sheet's words" in wrong(
        labs.check_folder(labs.find("five-processes"), tmp_path, seed=1)
    )
    judge, check = labs.Judge("01-cache-sizes", tmp_path, 1), the_check(labs.find("cache-sizes"))
    with pytest.raises(labs.judge.Stop):
        check.on_constructed_machines(judge, lambda curve: None)
    assert judge.findings[-1] == (False, "cache_sizes must return a list of numbers, not None.")


def test_the_sheet_has_the_words_that_the_check_knows() -> None:
    lab = labs.find("five-processes")
    sheet = (lab.folder / "sheet.md").read_text(encoding="utf-8")
    assert set(re.findall(r'^\| `"(.+?)"`', sheet, re.MULTILINE)) == the_check(lab).WORDS


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    judge = labs.Judge("01-cache-sizes", tmp_path, 1)
    curve = pd.DataFrame({"working_set_bytes": [4096], "ns_per_line": [1.0]})
    caches = the_check(labs.find("cache-sizes"))
    assert caches.asked(judge, lambda _: [np.int64(65536), np.float64(4096)], curve) == [4096, 65536]
    quota = the_check(labs.find("size-a-quota"))
    service = {"cpus": 2, "period_us": 100_000}
    assert quota.asked(judge, lambda _: np.int64(50_000), service) == 50_000
    assert judge.findings == []
    for value in (None, 0, 200_001, float("nan"), "50000"):
        with pytest.raises(labs.judge.Stop):
            quota.asked(judge, lambda _, value=value: value, service)
        assert "must return a number from 1000 to 200000" in judge.findings[-1][1]


def test_a_cache_that_a_neighbour_shares_is_not_asked_for() -> None:
    """Of 48 KiB and 2 MiB a program beside a busy hardware thread has parts, which no survey tells."""
    check, rng = the_check(labs.find("cache-sizes")), np.random.default_rng(1)
    told = [48 << 10, 2 << 20]
    assert check.shown(check.constructed(rng, told), told) == told
    assert check.shown(check.constructed(rng, [14 << 10, 300 << 10]), told) == []
    assert check.shown(check.constructed(rng, [14 << 10, 2 << 20]), told) == told[1:]


@pytest.mark.parametrize(
    ("curves", "answers", "verdict"),
    [
        ([[14 << 10], [48 << 10]], [[3 << 20], [48 << 10]], True),  # another program held the cache, and went
        ([[48 << 10], [48 << 10]], [[3 << 20], [48 << 10]], True),
        ([[48 << 10]] * 3, [[3 << 20]] * 3, False),
        ([[48 << 10], [14 << 10], [48 << 10]], [[3 << 20]] * 3, None),
        ([[14 << 10]] * 3, [[14 << 10]] * 3, None),
        ([[48 << 10]], [[17 << 10]], True),  # real curves may climb that early
        ([[48 << 10]] * 3, [[15 << 10]] * 3, False),
    ],
    ids=[
        "hidden at first",
        "found on the second",
        "found on none",
        "hidden once",
        "hidden",
        "early",
        "too early",
    ],
)
def test_a_cache_that_one_curve_hides_is_no_miss(
    curves: list[list[int]], answers: list[list[int]], verdict: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, rng = the_check(labs.find("cache-sizes")), np.random.default_rng(1)
    has = types.SimpleNamespace(kind="data", size_bytes=48 << 10)
    survey = types.SimpleNamespace(cpus_allowed=[0], caches=lambda cpu: [has])
    measured, answered = iter(curves), iter(answers)
    monkeypatch.setattr(check.machine, "survey", lambda: survey)
    monkeypatch.setattr(check, "measured", lambda: check.constructed(rng, [*next(measured), 4 << 20]))
    judge = labs.Judge("cache-sizes", Path(), 1)
    check.on_this_machine(judge, lambda curve: next(answered))
    assert [right for right, _ in judge.findings] == [verdict]


def test_constructed_machines_have_no_usual_caches() -> None:
    """The solution finds nearly all of them; no list of constants finds many."""
    lab = labs.find("cache-sizes")
    check, rng = the_check(lab), np.random.default_rng(1)
    solve = labs.Judge(lab.name, lab.folder / "solution", 1).function("answer.py", "cache_sizes")
    machines = [check.drawn(rng) for _ in range(300)]
    assert {len(caches) for caches in machines} == {2, 3}
    solved = sum(check.close(solve(check.constructed(rng, caches)), caches) for caches in machines)
    assert solved >= 0.97 * len(machines)
    for levels in (2, 3):
        # A factor of four around the middle of what was drawn is the most that a constant can cover.
        middle = np.median([caches for caches in machines if len(caches) == levels], axis=0)
        assert sum(check.close(list(middle), caches) for caches in machines) <= 0.3 * len(machines)


def test_the_sheet_shows_how_to_try_cache_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    lab = labs.find("cache-sizes")
    sheet = (lab.folder / "sheet.md").read_text(encoding="utf-8")
    told = re.search(r"^    from sched_labs.*?(?=^\S)", sheet, re.MULTILINE | re.DOTALL)
    assert told
    shutil.copy(lab.folder / "solution" / "answer.py", tmp_path)
    (tmp_path / "try.py").write_text(re.sub("^    ", "", told[0], flags=re.MULTILINE))
    done = subprocess.run(
        [sys.executable, "try.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [int(word) for word in re.findall(r"\d+", done.stdout.splitlines()[-1])]
    assert found == sorted(found) and all(4096 <= size <= 12 << 20 for size in found), done.stdout
