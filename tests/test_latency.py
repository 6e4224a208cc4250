"""The experiments on scheduler latency, live in their tiny profile: structure and relations."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs import judge, machine, workloads
from sched_labs.core import lock
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.core.registry import find
from sched_labs.core.result import Result, from_json, recorded
from sched_labs.machine import files
from sched_labs.probes import wakeups
from sched_labs.probes.channel import Availability
from sched_labs.run.base import Run
from sched_labs.steer import knobs, placement
from sched_labs.topics.scheduler_latency.policies import experiment as policies_module
from sched_labs.topics.scheduler_latency.policies import figure as policies_figure
from sched_labs.topics.scheduler_latency.slices import experiment as slices_module
from sched_labs.topics.scheduler_latency.slices.experiment import turns
from sched_labs.topics.scheduler_latency.ticks.experiment import _in_phase, interrupts, period
from sched_labs.topics.scheduler_latency.wakeplace import experiment as wakeplace_module

CPUS = len(machine.survey().cpus_allowed)


def alone(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A lock of our own: whether these runs are disturbed does not matter, and nobody has to wait."""
    place = folder / "lock"
    place.mkdir(exist_ok=True)
    place.chmod(0o1777)
    patch.setattr(lock, "_PLACES", (place,))


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(tmp_path, monkeypatch)


def run_tiny(name: str, factory: pytest.TempPathFactory, **parameters: Any) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        alone(factory.mktemp("run"), patch)
        return find(name)(profile="tiny", save=False, progress=False, **parameters)


def drawn(result: Result) -> None:
    """The figure exists in light and dark, over itself as the recorded run, and says something."""
    figure = result.plot(recorded=result)
    assert "<svg" in figure._repr_html_()
    assert figure.caption.endswith(".") and len(figure.alt) > 40 and "recorded" in figure.alt
    assert len(figure.data) > 0


# ---- regimes ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def regimes(tiny: Callable[[str], Result]) -> Result:
    return tiny("regimes.sweep")


def test_every_mode_placement_and_regime_is_there(regimes: Result) -> None:
    table = regimes.summary().set_index(["mode", "placement", "regime"])
    assert len(table) == 12
    assert set(table["instrument"]) <= {"bpf", "self_timed"} and table["instrument"].nunique() == 1
    full = table.xs("oversubscribed", level="regime")
    assert (full["workers"] == 4 * len(regimes.parameters["cpus"])).all()
    assert (table.xs("pinned", level="placement")["cpus"] == 1).all()
    assert (table["rounds"] > 0).all()
    seen = table.dropna(subset=["p50_ns"])
    assert len(seen) and (seen["p50_ns"] <= seen["p90_ns"]).all() and (seen["p90_ns"] <= seen["p99_ns"]).all()
    assert (seen["p99_ns"] <= seen["max_ns"]).all()


def test_the_kernels_counts_agree_with_the_workers(regimes: Result) -> None:
    for block in regimes.records("blocks"):
        # A yield that switched is an involuntary switch; there may be more of them, from preemptions.
        assert block["switched"] <= block["involuntary_switches"] + block["workers"]
        if block["timeslices"] is not None:
            switched = block["voluntary_switches"] + block["involuntary_switches"]
            assert abs(block["timeslices"] - switched) <= 2 * block["workers"] + 0.05 * switched
    table = regimes.summary().set_index(["mode", "placement", "regime"])
    crowded = table.loc[("yield", "pinned", "oversubscribed")]
    assert crowded["switched_share"] > 0.9  # there is always somebody to yield to
    if crowded["instrument"] == "bpf":
        assert crowded["wakeups_per_slice"] < 0.5
        assert table.loc[("sleep", "pinned", "light"), "wakeups_per_slice"] > 0.5
        for row in table.itertuples():
            assert abs(row.counted - row.timeslices) <= 0.1 * row.timeslices + 12 * row.workers


def test_a_wait_among_many_is_longer_than_one_burst(regimes: Result) -> None:
    table = regimes.summary().set_index(["mode", "placement", "regime"])
    crowded = table.loc[("yield", "pinned", "oversubscribed")]
    assert crowded["p50_ns"] > 0.5 * regimes.facts["burst_ns"]


def test_regimes_without_the_probe(tmp_path_factory: pytest.TempPathFactory) -> None:
    from sched_labs.probes.channel import Availability
    from sched_labs.topics.scheduler_latency.regimes import experiment as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.runqlat, "available", lambda: Availability(False, "There is none.", "Get one."))
        result = run_tiny("regimes.sweep", tmp_path_factory, modes=["sleep"], placements=["pinned"])
    table = result.summary()
    assert set(table["instrument"]) == {"self_timed"} and table["counted"].isna().all()
    assert any(note.level == "missing" and "There is none." in note.text for note in result.notes)
    assert table["p50_ns"].notna().any()


def test_the_figure_of_the_regimes(regimes: Result) -> None:
    drawn(regimes)
    shares = regimes.plot().data.groupby(["placement", "regime", "mode"])["share_percent"].sum()
    assert np.allclose(shares, 100)
    alt = regimes.plot().alt
    assert alt.count("sleep: ") + alt.count("yield: ") <= len(shares)  # of what is drawn only


# ---- slices -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run_tiny("slices.sweep", tmp_path_factory, duration_s=0.5)


def test_turns_of_hogs(slices: Result) -> None:
    # Beside another load a gap may end and the next begin within one reading of the clock.
    assert (slices.data["stint_ns"] >= 0).all() and (slices.data["gap_ns"] > 0).all()
    table = slices.summary()
    own = table[table["wished_slice_ns"].isna()]
    assert own["hogs"].tolist() == [2, 4]
    assert table["used_percent"].between(0, 102).all()
    assert (table["stint_p10_ns"] <= table["stint_p90_ns"]).all()
    assert (table["gap_p50_ns"] <= table["gap_max_ns"]).all()
    for used in slices.records("used"):  # a trial with long slices has as many rounds as others
        assert (
            used["duration_s"] >= slices_module.ROUNDS * used["hogs"] * (used["wished_slice_ns"] or 0) / 1e9
        )
    # Whoever shares a CPU with three others waits longer than who shares it with one, in sum over the run.
    mean = slices.data[slices.data["wished_slice_ns"].isna()].groupby("hogs")[["stint_ns", "gap_ns"]].sum()
    waits = mean["gap_ns"] / mean["stint_ns"]
    assert waits[4] > waits[2]


def test_slices_kept_before_the_knob_was_moved_still_have_a_summary(slices: Result) -> None:
    old = Result(
        kind=slices.kind,
        data=slices.data.drop(columns="moved_slice_ns"),
        machine=slices.machine,
        parameters=slices.parameters,
        tables={"used": slices.tables["used"].drop(columns="moved_slice_ns")},
    )
    alone = slices.summary()
    pd.testing.assert_frame_equal(old.summary().dropna(how="all"), alone[alone["moved_slice_ns"].isna()])


def test_turns_are_made_of_gaps() -> None:
    # CONSTRUCTED: hogs 0 and 1 take turns of 4 ms; another program borrows 1 ms from hog 1 in its turn.
    ms = 1_000_000
    gaps = [(0, 4, 5), (0, 13, 4), (0, 21, 4), (1, 0, 4), (1, 6, 1), (1, 9, 4), (1, 17, 4), (1, 25, 4)]
    table = turns(pd.DataFrame([(w, a * ms, n * ms) for w, a, n in gaps], columns=["worker", "at_ns", "ns"]))
    first = table[table["worker"] == 1].iloc[0]
    assert first["gap_ns"] == 4 * ms and first["stint_ns"] == 4 * ms
    assert (table["stint_ns"] == 4 * ms).all() and (table["gap_ns"] == 4 * ms).all()


def test_the_figure_of_the_slices(slices: Result) -> None:
    drawn(slices)


def test_the_kernels_slice_is_moved_and_put_back(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    knob = tmp_path_factory.mktemp("knobs") / "base_slice_ns"
    knob.write_text("1400000\n")
    seen: list[str] = []
    real = slices_module._measure

    def measure(*arguments: Any) -> None:
        seen.append(knob.read_text().strip())
        real(*arguments)

    monkeypatch.setattr(knobs, "movable", lambda name: (knob, int(knob.read_text())))
    monkeypatch.setattr(slices_module, "_measure", measure)
    result = run_tiny("slices.sweep", tmp_path_factory, hogs=[2, 4], wished_slices_ns=[], duration_s=0.2)
    assert seen == ["1400000", "1400000", "25000000"] and knob.read_text() == "1400000"
    assert [used["moved_slice_ns"] for used in result.records("used")] == [None, None, 25_000_000]
    assert result.facts["slice_before_ns"] == 1_400_000
    table = result.summary()
    if table["moved_slice_ns"].notna().any():  # on a crowded machine a trial may see no whole turn
        assert "slice set to 25 ms" in result.plot().alt
    with pytest.raises(ParameterError, match="moved_slice_ns"):
        run_tiny("slices.sweep", tmp_path_factory, moved_slice_ns=5)


def test_slices_are_left_out_where_the_kernel_ignores_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    from sched_labs.steer import policies

    def ignored(tid: int, policy: policies.Policy) -> None:
        raise policies.PolicyError("It ignores that", "slices came later", 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policies, "apply", ignored)
        result = run_tiny("slices.sweep", tmp_path_factory, hogs=[2], duration_s=0.3)
    assert result.data["wished_slice_ns"].isna().all()
    assert any(note.level == "missing" and "slices came later" in note.text for note in result.notes)


# ---- policies ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep(tiny: Callable[[str], Result]) -> Result:
    return tiny("policies.sweep")


def test_every_policy_that_can_be_had_is_there(sweep: Result) -> None:
    table = sweep.summary()
    left_out = [
        note.text.partition(" was left out")[0] for note in sweep.notes if "was left out" in note.text
    ]
    assert {"OTHER", "BATCH", "IDLE", "nice +10", "OTHER, slack 50 µs"} <= set(table["policy"])
    everything = {"OTHER", "nice +10", "nice -10", "BATCH", "IDLE", "slice 0.1 ms", "FIFO", "RR", "DEADLINE"}
    assert set(table["policy"]) | set(left_out) == everything | {"OTHER, slack 50 µs"}
    assert (table["wakes"] == sweep.parameters["wakes"]).all()
    assert (table["wakes_per_trial"] == sweep.parameters["wakes"]).all()
    assert set(table.loc[table["load"] == "heavy", "policy"]) | set(left_out) == everything
    assert {"OTHER", "OTHER, slack 50 µs"} <= set(table.loc[table["load"] == "light", "policy"])
    assert (table["p50_ns"] <= table["p99_ns"]).all() and (table["p99_ns"] <= table["max_ns"]).all()
    assert table["used_percent"].between(0, 102).all()


def test_late_wakes_are_kept_and_real_time_comes_first(sweep: Result) -> None:
    assert (sweep.data["late_ns"] > 0).all()
    table = sweep.summary().set_index(["policy", "load"])
    # Weights of 3 against three times 1024: an idle thread gets next to nothing beside hogs.
    assert table.loc[("IDLE", "heavy"), "worker_cpu_percent"] < table.loc[
        ("OTHER", "heavy"), "worker_cpu_percent"
    ]  # fmt: skip
    if ("FIFO", "heavy") in table.index:
        assert table.loc[("FIFO", "heavy"), "p50_ns"] < table.loc[("IDLE", "heavy"), "p50_ns"]
        assert table.loc[("FIFO", "heavy"), "not_run"] == 0


def test_hogs_are_counted_from_the_workers_first_wake_up_on() -> None:
    elapsed = []
    with workloads.start("periodic", ["--hogs", "1", "--wakes", "1", "--blocks", "5"]) as workload:
        for _ in range(5):
            workload.go()
            records, end = policies_module._block(workload)
            assert len(records) == 1 and end["hogs_cpu_ns"] <= 1.02 * end["elapsed_ns"] + 1e6
            elapsed.append(end["elapsed_ns"])
    assert min(elapsed) < 20e6  # the hogs settle for as long before the worker is due


def late(
    policy: str, tail_ms: float, *, load: str = "heavy", wakes: int = 100, not_run: int = 0
) -> dict[str, Any]:
    """A CONSTRUCTED row of the policies' figure, of three trials."""
    return {
        "policy": policy,
        "load": load,
        "p99_ns": 1e6 * tail_ms,
        "wakes": 3 * wakes,
        "wakes_per_trial": wakes,
        "at_home_percent": 100.0,
        "not_run": not_run,
    }


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([late("OTHER", 7), late("FIFO", 0.02)],
         "one in a hundred wake-ups of the worker that asks for 20 % is 20 µs late or more under FIFO, and "
         "7 ms under OTHER."),
        ([late("OTHER", 7), late("FIFO", 0.05, load="light"), late("FIFO", 0.02), late("DEADLINE", 0.03)],
         "20 µs late or more under FIFO"),
        ([late("OTHER", 7, load="light")], "of the worker that asks for 2 % of the CPU is 7 ms"),
        ([late("FIFO", 0.02, wakes=20), late("OTHER", 7, wakes=20)],
         "the latest of 20 wake-ups of the worker that asks for 20 % is 20 µs"),
        ([late("FIFO", 0.02), late("IDLE", 100, not_run=300)], "under IDLE none ran before its block ended."),
        ([late("FIFO", 0.02), late("nice +10", 80, not_run=36)],
         "80 ms under nice +10, where 36 of 300 had not run when their block ended."),
    ],
)  # fmt: skip
def test_the_policies_caption_says_what_a_tail_is_of(rows: list[dict[str, Any]], said: str) -> None:
    assert said in policies_figure._sweep_caption(pd.DataFrame(rows))


def test_the_figure_of_the_policies(sweep: Result) -> None:
    drawn(sweep)
    assert sweep.plot().data["policy"].iloc[0] == "OTHER"


def test_policies_that_are_refused_are_left_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    from sched_labs.steer import policies

    real = policies.apply

    def refused(tid: int, policy: policies.Policy) -> None:
        if policy.name in ("FIFO", "RR", "DEADLINE") or policy.nice < 0:
            raise policies.PolicyError("The kernel refuses that", "it needs CAP_SYS_NICE", errno.EPERM)
        real(tid, policy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policies, "apply", refused)
        result = run_tiny("policies.sweep", tmp_path_factory, wakes=3)
        pairs = run_tiny("policies.hog", tmp_path_factory)
        with pytest.raises(PlacementError, match="CAP_SYS_NICE"):
            run_tiny("policies.admission", tmp_path_factory)
    assert not {"FIFO", "RR", "DEADLINE", "nice -10"} & set(result.summary()["policy"])
    assert "FIFO beside OTHER" not in set(pairs.summary()["pair"])
    for run in (result, pairs):
        assert any("FIFO was left out (EPERM): it needs CAP_SYS_NICE." in note.text for note in run.notes)


@pytest.fixture(scope="module")
def hog(tiny: Callable[[str], Result]) -> Result:
    return tiny("policies.hog")


def test_hogs_share_by_weight_and_a_real_time_hog_is_ended(hog: Result) -> None:
    table = hog.summary().set_index("pair")
    assert table["second_percent"].between(0, 100).all()
    equal = table.loc["OTHER beside OTHER", "second_percent"]
    assert table.loc["OTHER beside IDLE", "second_percent"] < equal
    if CPUS < 2:
        assert "FIFO beside OTHER" not in table.index
    elif machine.survey().fact("policy.fifo").value:
        assert table.loc["FIFO beside OTHER", "second_percent"] < equal
    # Every block ended, and at its time: the watchdog can run whatever the hogs do.
    assert (hog.data["elapsed_ns"] < 5e9).all()
    drawn(hog)
    guessed_at(hog.plot(predictions=[{"value": 20, "unit": "%"}]), 20, "x")


def test_a_real_time_hog_never_gets_the_last_cpu(tmp_path_factory: pytest.TempPathFactory) -> None:
    from sched_labs.topics.scheduler_latency.policies import experiment as module

    class OneCpu:
        cpus_allowed = (machine.survey().cpus_allowed[-1],)
        provenance = staticmethod(machine.survey().provenance)
        fact = staticmethod(machine.survey().fact)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.machine, "survey", lambda fresh=False: OneCpu())
        result = run_tiny("policies.hog", tmp_path_factory)
    assert "FIFO beside OTHER" not in set(result.summary()["pair"])
    assert any("never have the last CPU" in note.text for note in result.notes)


def test_reservations_up_to_the_edge(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not machine.survey().fact("policy.deadline").value:
        pytest.skip("this user may have no deadline thread")
    result = run_tiny("policies.admission", tmp_path_factory)
    row = result.summary().iloc[0]
    assert row["refused_by"] == "EBUSY"
    assert 0 < row["granted_percent"] <= 100 and result.data["granted"].sum() == row["granted"]
    again = run_tiny("policies.admission", tmp_path_factory)  # the reservations have ended with their threads
    assert again.summary().iloc[0]["granted"] == row["granted"]
    drawn(result)
    guessed_at(result.plot(predictions=[{"value": 80, "unit": "%"}]), 80, "y")
    with pytest.raises(ParameterError):
        result.plot(predictions=[{"value": 1, "unit": "ms"}])


def test_more_cpus_than_the_threads_can_reserve_are_left_to_the_recorded_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    from sched_labs.topics.scheduler_latency.policies import experiment as module

    survey = machine.survey()

    class Large:
        cpus_allowed = survey.cpus_allowed
        provenance = staticmethod(survey.provenance)

        @staticmethod
        def fact(key: str) -> machine.Fact:
            return replace(survey.fact(key), value=56) if key == "cpu.count" else survey.fact(key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.machine, "survey", lambda fresh=False: Large())
        with pytest.raises(PlacementError, match="56 CPUs") as refused:
            run_tiny("policies.admission", tmp_path_factory)
    assert refused.value.lacking


def guessed_at(figure: figures.Figure, place: float, axis: str) -> None:
    """There is one dashed line, and it stands where the reader's guess is."""
    lines = [line for ax in figure.mpl.axes for line in ax.lines if "prediction" in str(line.get_label())]
    assert len(lines) == 1
    assert set((lines[0].get_xdata if axis == "x" else lines[0].get_ydata)()) == {place}
    assert "Dashed, your prediction" in figure.alt


# ---- placement --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def woken(tiny: Callable[[str], Result]) -> Result:
    return tiny("wakeplace.sweep")


@pytest.mark.skipif(CPUS < 3, reason="two CPUs leave the kernel nothing to search")
def test_the_migration_cost_is_moved_and_put_back(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    knob = tmp_path_factory.mktemp("knobs") / "migration_cost_ns"
    knob.write_text("500000\n")
    seen = {}
    real = wakeplace_module._keep

    def keep(run: Run, trial: int, condition: str, workload: Any) -> None:
        seen[condition] = knob.read_text().strip()
        real(run, trial, condition, workload)

    monkeypatch.setattr(knobs, "movable", lambda name: (knob, int(knob.read_text())))
    monkeypatch.setattr(wakeplace_module, "_keep", keep)
    result = run_tiny("wakeplace.sweep", tmp_path_factory)
    assert seen.pop("low migration cost") == "5000" and set(seen.values()) == {"500000"}
    assert knob.read_text() == "500000"
    assert "low migration cost" in set(result.summary()["condition"])
    drawn(result)


def test_woken_threads_run_where_they_may(woken: Result) -> None:
    data, home = woken.data, woken.parameters["waker_cpu"]
    assert (data["wait_ns"] > 0).all() and (data["waker_cpu"] == home).all()
    assert set(data["after_cpu"]) <= set(woken.parameters["cpus"])
    table = woken.summary().set_index("condition")
    assert table.loc["bound to the waker", "on_waker_percent"] == 100
    idle = table["others_idle_percent"]
    assert idle.between(0, 100).all() if CPUS > 1 else idle.isna().all()
    assert len(table) >= (1, 4, 5)[min(CPUS, 3) - 1]
    if CPUS > 1:
        assert table.loc["bound to an idle CPU", "on_waker_percent"] == 0
        assert table.loc["bound to an idle CPU", "stayed_percent"] > 90
    drawn(woken)


def test_a_wake_up_has_parts(woken: Result) -> None:
    parts = list(wakeplace_module.PARTS)
    if not wakeups.available().ok:
        assert woken.data[parts].isna().all(axis=None)
        return
    seen = woken.data.dropna(subset=parts)
    assert len(seen) > 0.9 * len(woken.data)
    assert (seen[parts] >= 0).all(axis=None) and (seen[parts].sum(axis=1) == seen["wait_ns"]).all()


def test_parts_belong_to_their_own_wake_up() -> None:
    wakes = pd.DataFrame({"tid": [7, 8, 7], "at_ns": [100, 150, 900], "wait_ns": [50, 90, 40]})
    seen = pd.DataFrame(
        {
            "tid": [7, 8, 7],
            "waking_ns": [110, 160, 990],
            "wakeup_ns": [120, 170, 995],
            "switch_ns": [145, 235, 999],
        }
    )  # the last one came after its thread had run: it is another wake-up's
    found = wakeplace_module.parts(wakes, seen)
    columns = list(wakeplace_module.PARTS)
    assert found.loc[0, columns].to_list() == [10, 10, 25, 5]
    assert found.loc[1, columns].to_list() == [10, 10, 65, 5]
    assert found.loc[2, columns].isna().all()
    none = pd.DataFrame([], columns=["tid", "at_ns", "wait_ns"])
    assert wakeplace_module.parts(none, seen).empty


@pytest.mark.parametrize(("cpus", "more"), [([0, 1], False), ([0, 1, 2], True)])
def test_a_survey_says_that_a_fixed_migration_cost_costs_a_condition(
    monkeypatch: pytest.MonkeyPatch, cpus: list[int], more: bool
) -> None:
    def fixed(name: str) -> None:
        raise PlacementError(f"{name} cannot be moved: constructed.", "Mount debugfs.")

    monkeypatch.setattr(knobs, "movable", fixed)
    monkeypatch.setattr(wakeups, "available", lambda: Availability(True))
    improve = wakeplace_module.instrument(replace(machine.survey(), cpus_allowed=cpus)).improve
    assert improve.startswith("the migration cost would be moved") if more else improve == ""


def test_workers_go_back_to_where_they_are_sent() -> None:
    cpus = sorted(machine.survey().cpus_allowed)
    words = ["--workers", "2", "--duration-ms", "50", "--back-to", str(cpus[-1])]
    with workloads.start("wakeplace", words, deadline_s=30) as program:
        placement.pin(program.tids[:1], cpus[:1])
        wakes = [record for record in program.run() if record.kind == "wake"]
    assert wakes and {record["before"] for record in wakes} == {cpus[-1]}
    assert {record["tid"] for record in wakes} <= set(program.tids[1:3])


# ---- ticks ------------------------------------------------------------------------------------------------


def comb(
    period_ns: float, watched_ns: float, seed: int, *, of: float = 1.0, noise: int = 0, jitter: float = 0.002
) -> np.ndarray:
    """CONSTRUCTED points in time: a comb of which some teeth are missing, jitter, and noise."""
    random = np.random.default_rng(seed)
    teeth = np.arange(0.3 * period_ns, watched_ns, period_ns)
    teeth = teeth[random.random(teeth.size) < of]
    teeth = teeth + random.normal(0, jitter * period_ns, teeth.size)
    return np.sort(np.concatenate([teeth, random.uniform(0, watched_ns, noise)]))


@pytest.mark.parametrize("period_ns", [1e6, 3.333e6, 4e6, 10e6])
def test_a_period_is_found_among_noise(period_ns: float) -> None:
    at = comb(period_ns, 1e9, 1, noise=150)
    found, phase, strength = period(at, 1e9)
    assert found == pytest.approx(period_ns, rel=0.01) and strength > 0.9
    turns = at / found - phase
    assert (np.abs(turns - np.round(turns)) < 0.06).sum() >= 0.9 * 1e9 / period_ns


def test_two_gaps_in_a_period_do_not_halve_it() -> None:
    both = np.sort(np.concatenate([comb(4e6, 1e9, 1), comb(4e6, 1e9, 2, of=0.4) + 1.9e6]))
    assert period(both, 1e9)[0] == pytest.approx(4e6, rel=0.01)


def test_no_multiple_of_a_period_is_taken_for_it() -> None:
    """Ticks come early and late, and the frequencies that are tried lie beside theirs."""
    for seed, hz in enumerate(np.linspace(249.85, 250.15, 13)):
        at = comb(1e9 / hz, 399.44e6, seed, jitter=0.012)
        assert period(at, 399.44e6)[0] == pytest.approx(1e9 / hz, rel=0.001)


def test_no_period_where_there_is_none() -> None:
    random = np.sort(np.random.default_rng(3).uniform(0, 1e9, 100))
    found, _, strength = period(random, 1e9)
    assert np.isnan(found) and strength < 0.8
    assert period(np.arange(5.0), 1e9)[2] == 0
    # So many that chance fills most teeth of a comb of 3 ms; a clock among them is found all the same.
    many = np.random.default_rng(0).uniform(0, 0.4e9, 2800)
    assert np.isnan(period(np.sort(many), 0.4e9)[0])
    assert period(np.sort([*many, *comb(4e6, 0.4e9, 1)]), 0.4e9)[0] == pytest.approx(4e6, rel=0.01)
    # Gaps that keep a distance from one another fill more teeth than as many that fall independently.
    apart = np.cumsum(np.random.default_rng(1).gamma(8, 71e3 / 8, 5600))
    assert np.isnan(period(apart[apart < 0.4e9], 0.4e9)[0])
    for too_short in (-5e6, 0.0, 1e6):  # others had the CPU for nearly all of the time, or past the end
        assert np.isnan(period(random, too_short)[0])


def test_the_regular_gaps_are_not_those_that_chance_puts_beside_them() -> None:
    """CONSTRUCTED: 100 ticks of 22 µs among 3,000 gaps of 2 µs, of which every tenth lies near a tick."""
    ticks, others = comb(4e6, 0.4e9, 1), np.random.default_rng(2).uniform(0, 0.4e9, 3000)
    length = [22e3] * ticks.size + [2e3] * others.size
    data = pd.DataFrame({"trial": 0, "at_ns": [*ticks, *others], "gap_ns": length, "switches": 0})
    clock = {"trial": 0, "period_ns": 4e6, "phase": 0.3}
    assert _in_phase(data, [clock], 4e6) == 22e3
    strange = {"trial": 1, "period_ns": 2.5e6, "phase": 0.0}  # and a trial whose gaps share another period
    both = pd.concat([data, data[data["gap_ns"] == 2e3].assign(trial=1)])
    assert _in_phase(both, [clock, strange], 4e6) == 22e3
    assert np.isfinite(_in_phase(both, [clock, strange], 3.25e6))  # no trial has the median of two


def test_a_trial_without_a_period_is_told_of() -> None:
    """CONSTRUCTED: the recorded run, with a period in two trials of three, in one, and in none."""
    result = recorded("ticks.gaps")
    assert result and "trials" not in result.plot().caption
    for without, told in (
        (1, "found in 2 of 3 trials"),
        (2, "found in 1 of 3 trials"),
        (3, "show no period"),
    ):
        some = copy.deepcopy(result)
        some.tables["found"].loc[: without - 1, "period_ns"] = np.nan
        figure = some.plot()
        assert told in figure.caption and ("in trials without one time" in figure.alt) == (without < 3)


@pytest.fixture(scope="module")
def lonely(tiny: Callable[[str], Result]) -> Result:
    return tiny("ticks.gaps")


def test_gaps_of_a_lonely_thread(lonely: Result) -> None:
    assert (lonely.data["gap_ns"] >= lonely.facts["threshold_ns"]).all()
    row = lonely.summary().iloc[0]
    assert row["gap_p50_ns"] <= row["gap_p99_ns"] <= row["gap_max_ns"]
    assert 0 < row["lost_percent"] < 100 and 0 <= row["strength"] <= 1
    if np.isfinite(row["period_ns"]):
        assert row["period_lo_ns"] <= row["period_ns"] <= row["period_hi_ns"]
    drawn(lonely)
    guessed_at(lonely.plot(predictions=[{"value": 50, "unit": "ms"}]), 50e6, "x")


X86 = """            CPU0       CPU1
  0:         10          0   IO-APIC   2-edge      timer
 24:        100         30   PCI-MSI 1-edge      virtio0
NMI:          0          0   Non-maskable interrupts
LOC:       5000       7000   Local timer interrupts
ERR:          0
"""
HYPER_V = X86 + "HVS:       1000       1000   Hyper-V stimer0 interrupts\n"
ARM = """           CPU0       CPU1
 11:      5000       7000     GICv3  27 Level     arch_timer
 49:        20         30     GICv3  79 Edge      virtio0
IPI0:     1000       2000       Rescheduling interrupts
"""
XEN = """           CPU0       CPU1
 48:       5000          0  xen-percpu    -virq      timer0
 54:          0       7000  xen-percpu    -virq      timer1
 60:         20         30  xen-dyn    -event     eth0-q0-tx
LOC:          0          0   Local timer interrupts
"""
COUNTS = [(X86, (7000, 30)), (HYPER_V, (8000, 30)), (ARM, (7000, 30)), (XEN, (7000, 30))]


@pytest.mark.parametrize(("text", "counts"), COUNTS)
def test_interrupts_of_a_cpu(text: str, counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "read", lambda path: text)
    assert interrupts(1) == counts
    assert interrupts(7) is None
    monkeypatch.setattr(files, "read", lambda path: None)
    assert interrupts(1) is None


# ---- omission ---------------------------------------------------------------------------------------------


def test_only_the_open_client_sees_the_whole_stall(tmp_path_factory: pytest.TempPathFactory) -> None:
    result = run_tiny("omission.compared", tmp_path_factory, trials=2)
    table = result.summary().set_index("client")
    closed, open_ = table.loc["closed"], table.loc["open"]
    assert open_["missing_requests"] == 0 < closed["missing_requests"]
    # The server stood still for 50 of 200 ms: a quarter of the schedule falls into it, and its end is slow.
    assert open_["slow_percent"] > 0.8 * open_["expected_slow_percent"]
    assert open_["slow_percent"] > closed["slow_percent"]
    assert (table["max_ns"] >= 0.9 * table["stall_ns"]).all()
    assert (table["stall_ns"] >= 50e6).all()
    data = result.data
    assert (data["took_ns"] > 0).all()
    on_schedule = data[(data["client"] == "open") & (data["trial"] == 0)]["sent_ns"]
    assert (on_schedule.diff().dropna() == 1_000_000).all()
    drawn(result)


# ---- interrupted ------------------------------------------------------------------------------------------

OURS = ["regimes.sweep", "slices.sweep", "policies.sweep", "policies.hog", "policies.admission",
        "wakeplace.sweep", "ticks.gaps", "omission.compared"]  # fmt: skip


@pytest.mark.parametrize("name", OURS)
def test_an_interrupted_run_keeps_and_shows_what_it_has(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if name == "policies.admission" and not machine.survey().fact("policy.deadline").value:
        pytest.skip("this user may have no deadline thread")

    def first_then_stop(self: Run, items: Iterable[Any], *, label: Any) -> Iterator[Any]:
        # A single yielding worker waits for nobody: there is nothing to draw yet.
        enough = 2 if name == "regimes.sweep" else 0
        for at, item in enumerate(items):
            yield item
            if self.measured and at >= enough:
                raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "each", first_then_stop)
        result = run_tiny(name, tmp_path_factory)
    assert any("Stopped early" in flag for flag in result.flags)
    assert len(result.summary()) >= 1
    figure = result.plot()
    assert "<svg" in figure._repr_html_() and figure.caption.endswith(".")
    for _, verdict in judge(result):
        assert verdict.reason
    assert from_json(result.to_json()).summary().shape == result.summary().shape
