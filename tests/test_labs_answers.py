"""Answers that a lab's check must not take, and ordinary mistakes that it must tell."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from sched_labs import labs, machine

CONSTANT_CACHES = "def cache_sizes(curve):\n    return [45 << 10, 1 << 20, 23 << 20]\n"
BY_PID = "def find(service_tid, neighbours):\n    return sorted(neighbours)[1]\n"
BY_THE_LIBRARY = (
    "from sched_labs import switches\n"
    "def diagnose(threads):\n    return switches.classify(threads.assign(pid=1)).label\n"
)
FIXED_BATCH = """#include <stdbool.h>
#include <stdint.h>
static bool send_now(int waiting, int64_t oldest_ns, int64_t deadline_ns)
{
    (void)oldest_ns;
    (void)deadline_ns;
    return waiting >= 6;
}
"""


def the_check(lab: labs.Lab) -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_of_a_lab", lab.folder / "check.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrong(report: labs.Report) -> str:
    return "\n".join(text for right, text in report.findings if not right)


@pytest.mark.parametrize(
    ("lab", "file", "text", "said"),
    [
        ("cache-sizes", "answer.py", CONSTANT_CACHES, "constructed machines were found"),
        ("noisy-neighbour", "answer.py", BY_PID, "it is another one"),
        ("five-processes", "answer.py", BY_THE_LIBRARY, "diagnose raised KeyError"),
        ("batch", "batch.h", FIXED_BATCH, "missed the deadline at the low rate"),
    ],
    ids=["constant caches", "the second process id", "the library's rule", "a fixed batch"],
)
def test_an_answer_that_must_not_pass(tmp_path: Path, lab: str, file: str, text: str, said: str) -> None:
    if lab == "noisy-neighbour" and len(machine.survey().cpus_allowed) < 2:
        pytest.skip("this lab's check refuses to run on one CPU: its neighbours need a second")
    (tmp_path / file).write_text(text)
    report = labs.check_folder(labs.find(lab), tmp_path, seed=1)
    assert said in wrong(report), str(report)


@pytest.mark.parametrize(
    ("lab", "text", "said"),
    [
        (
            "cache-sizes",
            "def cache_sizes(curve):\n    return None if curve.working_set_bytes.max() < 100 << 20 else []\n",
            "must return a list of numbers, not None",
        ),
        ("five-processes", "def diagnose(threads):\n    return threads.leader\n", "one of the sheet's words"),
    ],
    ids=["caches", "words"],
)
def test_an_answer_of_another_kind_is_told(tmp_path: Path, lab: str, text: str, said: str) -> None:
    (tmp_path / "answer.py").write_text(text)
    assert said in wrong(labs.check_folder(labs.find(lab), tmp_path, seed=1))


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


def test_the_simulated_service_judges_as_the_real_one() -> None:
    """Where no group can be made: a burst or a long period removes the tail, a shorter period does not."""
    check = the_check(labs.find("remove-a-p99"))
    seeds = range(3, 6)
    today = [check.simulated(check.TODAY, seed) for seed in seeds]
    for change, better in (
        ({"burst_us": 50_000}, True),
        ({"period_us": 1_000_000}, True),
        ({"period_us": 10_000}, False),
        ({"threads": 2}, False),
    ):
        mine = [check.simulated(check.TODAY | change, seed) for seed in seeds]
        ratio = np.median([own[0] / now[0] for own, now in zip(mine, today, strict=True)])
        assert (ratio <= check.BETTER) == better, (change, ratio)
        assert sum(waiting for _, waiting in mine) <= check.TURNS * check.BATCH
