"""What the odd ones have in common, and which machine changed: by fleets that were made up."""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import fleets
import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT

from sched_labs import cli
from sched_labs.book import cut
from sched_labs.core.errors import ParameterError
from sched_labs.fleet import compare, drift, recorded, report, row, store, strips, tables

SLOW = (3, 200, 333, 500, 991, 999)


def fleet_of(rows: list[Any]) -> tables.Fleet:
    return tables.of(rows, [], {})


REPORT = """
import sys, time
from pathlib import Path
from sched_labs.fleet import report
began = time.monotonic()
print(report.write(Path(sys.argv[1])).sentence)
print(time.monotonic() - began)
"""


def test_of_a_thousand_machines_the_six_slow_ones_and_what_they_share_are_found(tmp_path: Path) -> None:
    """Within 20 s on two CPUs that have nothing else to do; here others may have them.  And 1 GiB."""
    fleets.lay(tmp_path, fleets.rows(1000, 20, slow=SLOW))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(
        [sys.executable, "-c", REPORT, tmp_path], capture_output=True, text=True, check=True, timeout=300
    )
    sentence, took_s = done.stdout.splitlines()
    assert "6 machines with microcode 0xbad" in sentence
    assert float(took_s) < 180
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of the largest one so far
    assert after == before or after < 1024 * 1024, "KiB"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<figure") >= 20 and len(page) < 10_000_000
    kept = pd.read_parquet(tmp_path / "report.parquet")
    assert len(kept) == 1000 * 20 * 20 and set(kept["fact_microcode"]) == {"0xbad", "0x2b"}


def test_fleets_without_a_common_trait_are_told_of_one_in_one_of_twenty_at_most() -> None:
    told = 0
    for seed in range(200):
        fleet = fleet_of(fleets.rows(40, 4, numbers=6, seed=1000 + seed))
        told += bool(compare.compare(fleet, seed=seed).commons)
    assert told <= 10, f"{told} of 200"


def half_measured(seed: int, share: float) -> tables.Fleet:
    """A second kind that only some could measure, of which some were slower by chance."""
    generator = np.random.default_rng(seed)
    able = generator.random(100) < share
    big = able & (generator.random(100) < 0.5)
    made = []
    for machine, when, found in fleets.rows(100, 2, numbers=6, seed=seed):
        number = int(machine, 16)
        found["facts"] = {"able": bool(able[number]), "model": "big" if big[number] else "small"}
        slower = 1.6 if generator.random() < 0.15 else 1.0
        if found["kind"] == "made.up1":
            found["numbers"] = [
                [name, column, *(part * slower for part in rest)] for name, column, *rest in found["numbers"]
            ]
        if found["kind"] == "made.up0" or able[number]:
            made.append((machine, when, found | {"claims": {}}))
    return fleet_of(made)


def test_who_has_not_measured_lies_nowhere_and_not_in_the_middle() -> None:
    """Held against zeros in their place, three of four of such fleets were told of a trait."""
    told = [
        bool(compare.compare(half_measured(seed, (0.1, 0.3, 0.6)[seed % 3])).commons) for seed in range(60)
    ]
    assert sum(told) <= 6
    assert compare.compare(half_measured(1, 0.3)).distances.notna().all(axis=None)


def test_a_trait_among_those_that_have_measured_is_found() -> None:
    made = fleets.rows(60, 2, numbers=4, seed=3)
    slow = range(0, 60, 6)
    for machine, _, found in made:
        found["facts"] = {"able": int(machine, 16) % 2 == 0, "batch": int(machine, 16) in slow}
        if found["kind"] == "made.up1" and int(machine, 16) in slow:
            found["numbers"] = [
                [name, column, *(2 * part for part in rest)] for name, column, *rest in found["numbers"]
            ]
    half = [one for one in made if one[2]["kind"] == "made.up0" or int(one[0], 16) % 2 == 0]
    found = compare.compare(fleet_of(half))
    assert ("made.up1", ("batch yes",)) in {(one.kind, one.traits) for one in found.commons}


def test_a_difference_within_a_machines_own_interval_is_none() -> None:
    made = fleets.rows(40, 1, numbers=3, slow=(1, 5, 9, 13))
    narrow = compare.compare(fleet_of(made))
    assert [one.traits for one in narrow.commons] == [("microcode 0xbad",)]
    assert {"0" * 15 + "1", "0" * 15 + "5"} <= set(narrow.odd["machine"])
    for _, _, found in made:
        found["numbers"] = [[*head, value, value * 0.3, value * 3] for *head, value, _, _ in found["numbers"]]
    wide = compare.compare(fleet_of(made))
    assert wide.commons == [] and wide.odd.empty


def test_traits_of_the_same_machines_stand_together() -> None:
    made = fleets.rows(40, 1, numbers=3, slow=(1, 5, 9, 13))
    for _, _, found in made:
        found["facts"]["board"] = "b" if found["facts"]["microcode"] == "0xbad" else "a"
    [one] = compare.compare(fleet_of(made)).commons
    assert set(one.traits) == {"microcode 0xbad", "board b"}
    assert (one.machines, one.odd, one.others) == (4, 4, one.others) and one.ratio == pytest.approx(
        1.5, abs=0.2
    )


def test_few_machines_are_told_that_they_are_too_few() -> None:
    made = fleets.rows(4, 1, numbers=3, slow=(0, 1))
    found = compare.compare(fleet_of(made))
    assert found.commons == [] and "3 ways" in found.remark
    assert "3 ways" in report.answer(fleet_of(made), found)
    for machines in range(5, 8):
        few = compare.compare(fleet_of(fleets.rows(machines, 1, numbers=3, slow=(0, 1))))
        assert few.commons == [] and "no trait can stand out" in few.remark
    alone = compare.compare(fleet_of(fleets.rows(1, 1)))
    assert alone.commons == [] and alone.held == 0


def test_a_claim_that_fails_where_a_trait_is_counts_as_a_number_does() -> None:
    made = fleets.rows(60, 1, numbers=1)
    for machine, _, found in made:
        fails = int(machine, 16) % 6 == 0
        found["facts"]["board"] = "b" if fails else "a"
        found["claims"] = {"said": "does not hold here" if fails else "holds here"}
    kinds = {(one.kind, one.traits) for one in compare.compare(fleet_of(made)).commons}
    assert ("claim", ("board b",)) in kinds


def test_the_largest_of_all_comparisons_decides() -> None:
    """Dealt without a relation, p is uniform at least: no smaller than chance would have it."""
    generator = np.random.default_rng(5)
    least = []
    for seed in range(120):
        scores = generator.standard_normal((30, 8)).astype(np.float32)
        marks = (generator.random((30, 5)) < 0.3).astype(np.float32)
        marks = marks[:, (marks.sum(axis=0) >= 2)]
        least.append(float(compare.dealt(scores, marks, seed=seed, times=99)[1].min()))
    assert 0.01 <= np.mean(np.array(least) <= 0.2) <= 0.33
    assert np.mean(np.array(least) <= 0.05) <= 0.11


def test_a_step_is_dated_and_says_what_else_changed() -> None:
    found = drift.changes(fleet_of(fleets.weeks(16, step_at=8)))
    steps = found[found["what"] == "step"]
    assert set(found["machine"]) == {"0" * 16} and len(steps)
    first = steps.iloc[0]
    assert first["since"] == fleets.START + pd.Timedelta(weeks=8)
    assert "kernel" in first["facts"] and "7.0.0" in first["facts"]
    assert first["after"] / first["before"] == pytest.approx(1.5, abs=0.1)


def test_machines_that_stay_as_they_are_have_not_changed() -> None:
    assert drift.changes(fleet_of(fleets.weeks(16, step_at=99))).empty
    assert drift.changes(fleet_of(fleets.weeks(3, step_at=1))).empty, "too few rounds"


def test_series_without_a_change_are_told_of_one_in_one_of_twenty_at_most() -> None:
    generator = np.random.default_rng(11)
    told = sum(
        bool((drift.fitted(generator.standard_t(3, (20, 10)))[1] <= compare.LEVEL).any()) for _ in range(100)
    )
    assert told <= 5


def test_a_step_is_found_among_machines_that_each_missed_other_rounds() -> None:
    """Series of one length are shuffled together: of 24 lengths, 999 orders were too few for a verdict."""
    made = fleets.weeks(40, step_at=20, machines=24)
    began = {machine: int(machine, 16) for machine, _, _ in made}
    weeks = sorted({when for _, when, _ in made})
    found = drift.changes(fleet_of([one for one in made if weeks.index(one[1]) >= began[one[0]]]))
    assert set(found["machine"]) == {"0" * 16}


def test_a_drift_is_no_step() -> None:
    series = np.linspace(1, 2, 20)[None, :] + np.random.default_rng(3).normal(0, 0.01, (6, 20))
    best, p = drift.fitted(series)
    assert set(best) == {-1} and max(p) <= compare.LEVEL


def test_the_report_escapes_what_machines_say_and_lists_who_is_missing(tmp_path: Path) -> None:
    made = fleets.rows(8, 1, numbers=2)
    made[0][2]["facts"]["model"] = "<script>alert(1)</script>"
    made[0][2]["numbers"][0][0] = "<img src=x>"
    fleets.lay(tmp_path, made)
    [one] = store.rounds(tmp_path, "made.up0")
    one.miss("feedfeedfeedfeed", "busy", "<b>somebody</b> measures")
    (one.folder / "bad.row.json").write_text('{"format": "no row"}')
    assert cli.main(["fleet", "report", str(tmp_path), "--by", "kernel"]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "<img" not in page and "<b>" not in page
    assert "feedfeed, made.up0: busy" in page and "bad.row.json" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page


def test_no_fact_of_a_machine_takes_the_place_of_its_mark_or_its_round() -> None:
    made = fleets.rows(8, 1, numbers=2)
    victim = made[1][0]
    made[0][2]["facts"] |= {"machine": victim, "round": "9999", "round_bytes": 1, "kernel": "of nobody"}
    fleet = tables.of(made, [], {})
    assert list(fleet.machines.index) == [machine for machine, *_ in made]
    assert fleet.machines.loc[victim, "kernel"] == made[1][2]["facts"]["kernel"]
    assert report.html(fleet, compare.compare(fleet))


@pytest.mark.parametrize("value", [5e-324, 9.9e17, 0, -1.0])
def test_a_number_that_is_far_from_all_others_leaves_the_report_to_them(value: float) -> None:
    made = fleets.rows(8, 1, numbers=2)
    made[0][2]["numbers"][0][2:] = [value, None, None]
    row.checked(made[0][2])
    fleet = tables.of(made, [], {})
    page = report.html(fleet, compare.compare(fleet))
    assert "case 1" in page and len(page) < 100_000


def test_the_recorded_guests_are_as_the_page_says() -> None:
    fleet = recorded.guests()
    found = compare.compare(fleet)
    assert len(fleet.machines) == 14 and found.odd.empty
    assert {one.traits for one in found.commons} == {("kernel code preempted no",)}
    kind = str(fleet.numbers["kind"].iloc[0])
    figure = strips.of_kind(fleet, found, kind, recorded.BY)
    assert figure and "virtual ns" in figure.svg() and " µs" not in figure.svg()


def test_the_page_is_read_in_ten_minutes_and_its_examples_are_what_they_say_they_are() -> None:
    text = (ROOT / "book" / "many-machines.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 10 * cut.WORDS_PER_MINUTE
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for language, block in blocks:
        if language == "python":
            ast.parse(block)
        elif language == "yaml":
            assert yaml.safe_load(block)["singleuser"]["cpu"] == {"guarantee": 2, "limit": 2}
    assert [language for language, _ in blocks].count("python") == 5


def test_times_of_another_clock_are_not_compared() -> None:
    made = fleets.rows(40, 1, numbers=2)
    for machine, _, found in made:
        if int(machine, 16) % 2:
            found["timing"] = "deterministic"
            found["facts"]["hypervisor"] = "QEMU"
            found["numbers"] = [[*head, 1000 * value, None, None] for *head, value, _, _ in found["numbers"]]
    fleet = fleet_of(made)
    assert set(fleet.numbers["kind"]) == {"made.up0", "made.up0, virtual time"}
    assert compare.compare(fleet).commons == []


def test_a_trait_that_nobody_has_and_a_folder_of_something_else_are_refused(tmp_path: Path) -> None:
    fleet = fleet_of(fleets.rows(8, 1, numbers=2))
    with pytest.raises(ParameterError, match="No machine tells"):
        strips.of_kind(fleet, compare.compare(fleet), "made.up0", "colour")
    with pytest.raises(ParameterError, match="holds nothing of a fleet"):
        report.write(tmp_path)


def test_a_strip_of_many_machines_draws_what_can_be_told_apart() -> None:
    values = list(np.random.default_rng(1).lognormal(0, 0.1, 5000))
    kept = strips._thinned(sorted(values), min(values), max(values))
    assert len(kept) <= 5 * 141 and {min(values), max(values)} <= set(kept)
