"""The experiments of the chapter on switching less, tiny: structure and relations, never absolute times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_experiments import documented_columns, gone

from sched_labs import experiments, figures, lock
from sched_labs.claims import judge
from sched_labs.errors import ParameterError, WorkloadError
from sched_labs.experiments import convoy, languages
from sched_labs.result import Result, from_json

KINDS = ["convoy.locks"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """A tiny run of an experiment, made once; with a lock of our own: disturbed timing does not matter."""
    place = tmp_path_factory.mktemp("lock") / "lock"
    place.mkdir()
    place.chmod(0o1777)
    runs: dict[str, Result] = {}

    def run(kind: str) -> Result:
        if kind not in runs:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lock, "_PLACES", (place,))
                runs[kind] = experiments.find(kind)(profile="tiny", save=False, progress=False)
        return runs[kind]

    return run


# ---- what holds for all of them ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_has_the_documented_columns(kind: str, tiny: Callable[[str], Result]) -> None:
    documented = documented_columns(experiments.find(kind).summarise.__doc__)
    assert list(tiny(kind).summary().columns)
    assert set(documented) - set(tiny(kind).summary().columns) == set()
    prose = experiments.find(kind).summarise.__doc__ or ""
    assert [name for name in tiny(kind).summary().columns if name not in prose] == []


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_contain_their_medians(kind: str, tiny: Callable[[str], Result]) -> None:
    table = tiny(kind).summary()
    for low in [name for name in table.columns if "_lo_" in name]:
        high, middle = low.replace("_lo_", "_hi_"), low.replace("_lo_", "_")
        rows = table[table[middle].notna()]
        assert (rows[low] <= rows[middle]).all() and (rows[middle] <= rows[high]).all(), low


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_survives_being_saved(kind: str, tiny: Callable[[str], Result]) -> None:
    again = from_json(tiny(kind).to_json())
    assert again.summary().round(6).equals(tiny(kind).summary().round(6))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_drawn_alone_and_over_a_recorded_one(
    kind: str, tiny: Callable[[str], Result], tmp_path: Path
) -> None:
    drawn = figures.draw(tiny(kind), recorded=tiny(kind))
    for figure in (figures.draw(tiny(kind)), drawn):
        assert figure.caption.endswith(".") and len(figure.alt) > 80 and "nan" not in figure.caption
        assert not figure.data.empty
    assert drawn.save(tmp_path / "figure.png").stat().st_size > 10_000
    assert "recorded on" in drawn.alt


@pytest.mark.parametrize("kind", KINDS)
def test_claims_are_judged_on_a_live_run(kind: str, tiny: Callable[[str], Result]) -> None:
    said = list(judge(tiny(kind)))
    assert said
    assert all(verdict.reason.strip().endswith((".", ".)")) for _, verdict in said)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_stays_behind(kind: str, tiny: Callable[[str], Result]) -> None:
    tiny(kind)
    assert gone()


# ---- locks ----


def test_each_lock_is_measured_in_each_trial(tiny: Callable[[str], Result]) -> None:
    run = tiny("convoy.locks")
    native = run.data[~run.data["lock"].str.startswith("java")]
    counts = native.groupby("lock").size()
    assert set(counts.index) == {*convoy.LOCKS, "alone"}
    assert (counts == run.parameters["trials"]).all()
    assert (run.data["items"] >= run.data.turns).all() and (run.data.turns >= 1).all()
    assert (run.data["items"] <= run.parameters["items"]).all()
    whole = run.parameters["items"] // 16 * 16
    finished = run.data[run.data.finished & (run.data["lock"] != "alone")]
    assert (finished["items"] == whole).all()


def test_a_producers_share_and_quantiles_are_what_they_can_be(tiny: Callable[[str], Result]) -> None:
    data = tiny("convoy.locks").data
    assert data.jain_share.between(1 / 16 - 1e-6, 1 + 1e-6).all()
    native = data[data.p50_ns.notna()]
    assert (native.p50_ns <= native.p99_ns).all() and (native.p99_ns <= native.max_ns).all()
    alone = data[data["lock"] == "alone"]
    assert (alone.turns == 1).all() and (alone.jain_share == 1).all()


def test_only_turns_can_cost_switches_under_the_fair_lock(tiny: Callable[[str], Result]) -> None:
    """A voluntary switch of a producer is a wait for its turn."""
    fifo = tiny("convoy.locks").data.query("lock == 'fifo'")
    assert (fifo.voluntary_switches <= 2 * fifo.turns + 64).all()


def test_without_java_the_rest_runs_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "lock"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (place,))
    monkeypatch.setattr(languages, "missing", lambda *programs: programs[0])
    run = convoy.locks(profile="tiny", trials=1, save=False, progress=False)
    assert any(note.level == "missing" and "java is not installed" in note.text for note in run.notes)
    assert set(run.data["lock"]) == {*convoy.LOCKS, "alone"}
    assert np.isfinite(run.summary().ns_per_item).all()


@pytest.mark.parametrize(
    "wrong",
    [{"locks": ["rcu"]}, {"locks": []}, {"producers": 0}, {"producers": 65}, {"items": 3}, {"trials": 0}],
)
def test_impossible_locks_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        convoy.locks(profile="tiny", save=False, progress=False, **wrong)


# ---- programs in other languages ----


def test_a_program_that_fails_or_hangs_is_an_error_and_is_gone() -> None:
    with pytest.raises(WorkloadError, match="status 3: oh no"):
        languages.run(["sh", "-c", "echo oh no >&2; exit 3"], deadline_s=10)
    with pytest.raises(WorkloadError, match="deadline of 0 s"):
        languages.run(["sh", "-c", "sleep 60"], deadline_s=0.2)
    assert gone()


def test_a_program_starts_at_go_and_its_records_are_read() -> None:
    said = "read line; echo ready; echo item by=$line n=3; echo done"
    (record,) = languages.run(["sh", "-c", said], deadline_s=10)
    assert (record.kind, record.text("by"), record["n"]) == ("item", "go", 3)
