"""The sleeper among hogs: the experiment here, its figure, and what was recorded of it on other kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs.core.errors import ParameterError
from sched_labs.core.registry import find
from sched_labs.core.result import Result
from sched_labs.core.words import count_text
from sched_labs.kernels import claims as claims_kernels
from sched_labs.kernels import gallery
from sched_labs.kernels.figure import long_calls
from sched_labs.topics.other_kernels.sleeper import figure as picture
from sched_labs.topics.other_kernels.sleeper.waits import waits

EXPERIMENT = find("sleeper.among_hogs")


@pytest.fixture(scope="module")
def here() -> Result:
    return EXPERIMENT(profile="tiny", progress=False, save=False, hogs=2)


@pytest.fixture(scope="module")
def recordings() -> list[Result]:
    return gallery.sleepers()


def emulated(result: Result) -> Result:
    """The same run as if an emulated machine had made it."""
    return dataclasses.replace(result, timing="vm-emulated")


# ---- here -------------------------------------------------------------------------------------------------


def test_a_row_for_each_wake_up(here: Result) -> None:
    assert here.data.columns.tolist() == ["wake_index", "late_ns", "hogs", "period_us", "work_us"]
    assert here.data["wake_index"].tolist() == list(range(60))
    assert (here.data["late_ns"] > 0).all()
    assert here.parameters["timer_slack_ns"] == 1
    assert (
        here.parameters["cpu"]
        in find("sleeper.among_hogs").function.__globals__["machine"].survey().cpus_allowed
    )


def test_the_summary_says_what_the_data_says(here: Result) -> None:
    row = here.summary().iloc[0]
    late = here.data["late_ns"]
    assert row["wakes"] == len(late) and row["max_ns"] == late.max()
    assert late.min() <= row["p50_ns"] <= row["p90_ns"] <= row["p99_ns"] <= row["max_ns"]
    assert row["made_wait_percent"] == pytest.approx(100 * (late > 100_000).sum() / len(late))
    assert row["fair_percent"] == pytest.approx(100 / 3)
    # It works 300 of every 2,017 µs; hogs that share its CPU cannot take that from it, nor can it have more.
    assert 0 < row["sleeper_cpu_percent"] < row["fair_percent"]


@pytest.mark.measures
def test_a_greedy_sleeper_is_told_so() -> None:
    result = EXPERIMENT(profile="tiny", progress=False, save=False, wakes=10, period_us=1000, work_us=900)
    assert any("more than an equal share" in note.text for note in result.notes)


def test_timing_needs_a_kernel() -> None:
    with pytest.raises(ParameterError, match="guests"):
        EXPERIMENT(progress=False, save=False, timing="deterministic")


def test_a_wake_up_that_is_due_during_the_work_before_has_no_wait_of_its_own() -> None:
    own = waits(among_hogs(BEHIND))
    assert own.iloc[:14].tolist() == 2 * [10_000_000, 0, 0, 0, 0, 0, 1_000]


# ---- recorded ---------------------------------------------------------------------------------------------


def test_every_kernel_is_recorded_with_its_key(recordings: list[Result]) -> None:
    assert [run.parameters["kernel"] for run in recordings] == list(gallery.GALLERY)
    for run in recordings:
        assert run.timing == "deterministic" and len(run.data) == run.parameters["wakes"]
        for key in ("kernel_package", "emulator", "guest", "guest_hash", "sources_hash"):
            assert run.machine[key]
    # The same sources on every kernel, or the comparison would be of two things at once.
    assert len({run.machine["sources_hash"] for run in recordings}) == 1


def test_cfs_lets_the_sleeper_in_and_eevdf_makes_it_wait(recordings: list[Result]) -> None:
    waited = {run.machine["scheduler"]: [] for run in recordings}
    for run in recordings:
        row = run.summary().iloc[0]
        waited[run.machine["scheduler"]].append(row["made_wait_percent"])
        assert row["sleeper_cpu_percent"] == pytest.approx(100 * 300 / 2017, rel=0.1)
    assert max(waited["CFS"]) < 1 < 25 < min(waited["EEVDF"])


def test_the_precise_tick_is_what_shortened_the_waits() -> None:
    table = gallery.switched()
    for _, rows in table.groupby("kernel"):
        on, off = (rows[rows["hrtick"] == state].iloc[0] for state in ("on", "off"))
        assert on["as_built"] != off["as_built"]
        assert on["max_virtual_ns"] < off["max_virtual_ns"] / 2


def test_the_switch_moves_more_than_another_start_of_the_guest_does(recordings: list[Result]) -> None:
    first = {run.parameters["kernel"]: run.summary().iloc[0] for run in recordings}
    for kernel, rows in gallery.switched().groupby("kernel"):
        [second] = rows[rows["as_built"]].to_dict("records")
        share, p99 = rows["late_percent"], rows["p99_virtual_ns"]
        moved = abs(second["late_percent"] - first[kernel]["made_wait_percent"])
        assert moved < share.max() - share.min()
        assert second["p99_virtual_ns"] == pytest.approx(first[kernel]["p99_ns"], rel=0.25)
        assert p99.max() > 2 * p99.min()


def test_three_hogs_are_three_ticks_and_with_the_precise_tick_none(recordings: list[Result]) -> None:
    ticks = {r.parameters["kernel"]: r.data["late_ns"] * r.machine["hz"] / 1e9 for r in recordings}
    for kernel in ("6.12", "6.18"):
        assert 0 < (ticks[kernel] > 3).mean() < 0.05 < 0.2 < (ticks[kernel] > 1).mean()
    assert (ticks["7.2"] > 1).mean() < 0.01


def test_quota_and_preemption_on_every_kernel() -> None:
    quota = gallery.throttling()
    assert quota["kernel"].tolist() == list(gallery.GALLERY)
    assert (quota["throttled"] >= 0.8 * quota["periods"]).all()
    calls = gallery.long_calls().set_index(["kernel", "preemption"])["late_max_virtual_ns"]
    assert len(calls) == len(gallery.PREEMPTION)
    for kernel in gallery.REAL_TIME:
        assert calls[kernel, "PREEMPT_RT"] < calls.drop(index=kernel, level="kernel").min() * 2
    assert calls["6.18", "full"] < calls["6.18", "none"] / 5


def test_long_calls_are_drawn_from_the_latest_down_in_virtual_time() -> None:
    figure = long_calls()
    late = figure.data["late_max_virtual_ns"]
    assert len(late) == len(gallery.PREEMPTION) and late.is_monotonic_decreasing
    assert (
        f"{count_text(late.iloc[0])} virtual ns" in figure.caption and count_text(late.iloc[-1]) in figure.alt
    )
    assert " ms" not in figure.svg() and "QEMU" in figure.provenance


def test_a_quota_is_drawn_for_every_kernel() -> None:
    limited = gallery.limited()
    assert [run.parameters["kernel"] for run in limited] == list(gallery.GALLERY)
    table = gallery.throttling().set_index("kernel")
    for run in limited:
        assert run.timing == "deterministic"
        assert run.data["late_ns"].max() == table.late_max_virtual_ns[run.parameters["kernel"]]
    figure = picture.gallery(limited, title="Under a quota")
    assert figure.title == "Under a quota"
    assert set(figure.data["timing"]) == {"deterministic"}
    assert "virtual ns" in figure.caption


def test_knobs_come_from_the_kernels() -> None:
    changed, same = (gallery.tunables(changed=which).set_index("fact") for which in (True, False))
    assert not set(changed.index) & set(same.index)
    assert changed.loc["scheduler", list(gallery.GALLERY)].tolist() == ["CFS"] * 2 + ["EEVDF"] * 3
    assert changed.loc["latency_ns", "6.1"] != "–" == changed.loc["latency_ns", "6.12"]
    assert gallery.places("latency_ns")["place"].iloc[0].startswith("/proc/sys/kernel/")
    assert "HRTICK" in gallery.features()["feature"].tolist()
    # A knob that says nothing is there all the same, and one that is not there may be the package's choice.
    assert changed.loc["energy_aware", ["6.1", "6.12"]].tolist() == ["1", "empty"]
    assert changed.loc["util_clamp_min", "6.12"] == "–"
    assert "CONFIG_UCLAMP_TASK" in gallery.places("util_clamp_min").set_index("kernel")["place"]["6.12"]


# ---- the figure -------------------------------------------------------------------------------------------


def test_a_panel_for_each_kernel_and_one_for_here(recordings: list[Result], here: Result) -> None:
    figure = picture.gallery([here, *recordings], predictions=[{"value": 2, "unit": "ms"}])
    panels = figure.mpl.axes
    assert len(panels) == len(recordings) + 1
    labels = [panel.get_xlabel() for panel in panels if panel.get_xlabel()]
    assert len(labels) == 2 and "virtual" in labels[0] and "virtual" not in labels[1]
    assert len({panel.get_xlim() for panel in panels}) == 1
    figure.mpl.draw_without_rendering()
    for panel, run in zip(
        panels, recordings, strict=False
    ):  # virtual time comes first, and has no unit of time
        assert f"Linux {run.parameters['kernel']}" in panel.get_title(loc="left")
        ticks = [panel.xaxis.get_major_formatter()(place) for place in panel.get_xticks()]
        assert ticks and not any(text.endswith((" ns", "µs", "ms")) for text in ticks)
    assert figure.data.groupby("panel")["share_percent"].sum().tolist() == pytest.approx([100] * len(panels))
    assert all(run.parameters["kernel"] in figure.caption for run in recordings)
    assert "<svg" in figure._repr_html_()


def test_one_run_draws_itself(here: Result, recordings: list[Result]) -> None:
    assert len(here.plot().mpl.axes) == 1
    assert len(here.plot(recorded=recordings[1]).mpl.axes) == 2


def test_an_emulated_machine_says_nothing_under_a_millisecond(here: Result) -> None:
    figure = picture.gallery([emulated(here)])
    assert (figure.data["high_ns"] >= 1e6).all()
    assert "emulated" in figure.caption
    assert "µs" not in figure.alt


def test_an_emulated_machine_in_which_nothing_lasts_a_millisecond_is_one_bar(here: Result) -> None:
    early = dataclasses.replace(here, data=here.data.assign(late_ns=here.data["late_ns"].clip(upper=400_000)))
    figure = picture.gallery([emulated(early)])
    assert figure.data["wakes"].tolist() == [len(here.data)]
    low, high = figure.mpl.axes[0].get_xlim()
    assert 0 < low < 1e6 < high


def test_what_cannot_be_drawn(here: Result) -> None:
    with pytest.raises(ParameterError):
        picture.gallery([])
    with pytest.raises(ParameterError):
        picture.gallery([here] * 9)
    with pytest.raises(ParameterError):
        figures.draw(here, predictions=[{"value": 4, "unit": "KiB"}])


# ---- claims -----------------------------------------------------------------------------------------------


def test_a_column_for_each_kernel(here: Result) -> None:
    judged = claims_kernels.per_kernel(here)
    assert list(judged.verdicts) == [*gallery.GALLERY, claims_kernels.THIS]
    table = judged.table().set_index(["id", "kernel"])["outcome"]
    assert table["002-082", "6.1"] == claims_kernels.FAILS
    assert table["002-082", "6.12"] == claims_kernels.UNKNOWN
    assert table["002-082", "7.2"] == claims_kernels.HOLDS
    assert table["002-105", "6.1"] == claims_kernels.UNKNOWN
    assert table["002-105", "7.2"] == claims_kernels.FAILS
    assert (
        table["000-109", "5.10"] == claims_kernels.HOLDS and table["000-109", "6.12"] == claims_kernels.FAILS
    )
    # How CFS treated a thread that wakes, and what it was called.
    for claim in ("002-081", "002-017"):
        assert [table[claim, name] for name in gallery.GALLERY] == [claims_kernels.HOLDS] * 2 + [
            claims_kernels.FAILS
        ] * 3
    # A knob that moved from sysctl to debugfs in 5.13, and what replaced rt_runtime in 6.12.
    assert [table["002-009", name] for name in ("5.10", "6.1")] == [
        claims_kernels.HOLDS,
        claims_kernels.FAILS,
    ]
    assert [table["002-045", name] for name in ("6.1", "6.12")] == [
        claims_kernels.HOLDS,
        claims_kernels.FAILS,
    ]
    assert [table["002-096", name] for name in ("5.10", "6.1")] == [
        claims_kernels.UNKNOWN,
        claims_kernels.FAILS,
    ]
    assert {table["002-092", name] for name in gallery.GALLERY} == {claims_kernels.HOLDS}
    assert table["002-092", claims_kernels.THIS] == claims_kernels.UNKNOWN
    assert {table["000-055", name] for name in gallery.GALLERY} == {claims_kernels.HOLDS}
    # What was said of defaults: of CFS's only there, of the settings of real-time threads up to 6.18.
    assert [table["002-051", name] for name in ("6.1", "6.12")] == [
        claims_kernels.HOLDS,
        claims_kernels.FAILS,
    ]
    assert [table["004-041", name] for name in ("6.18", "7.2")] == [
        claims_kernels.HOLDS,
        claims_kernels.FAILS,
    ]
    assert {table["002-102", name] for name in gallery.GALLERY} == {claims_kernels.HOLDS}
    assert {table["004-011", name] for name in gallery.GALLERY} == {claims_kernels.FAILS}
    assert judged._repr_html_().count("<tr>") == len(claims_kernels.CLAIMS) + 1


EEVDF = {
    "kernel.scheduler": "EEVDF",
    "kernel.release": "6.18.1",
    "kernel.slice_ns": 700_000,
    "kernel.hz": 250,
}
CFS_KNOBS = {"latency_ns": 6_000_000, "min_granularity_ns": 750_000, "wakeup_granularity_ns": 1_000_000}
CFS = {"kernel.scheduler": "CFS", "kernel.release": "6.1.2", "kernel.hz": 250, "cpu.count": 1}
TOLD = CFS | {f"tunable.{name}": value for name, value in CFS_KNOBS.items()}
OPEN = {"kernel.debugfs": True}
EXT = EEVDF | {"kernel.scheduler": "sched_ext (lavd)", "tunable.features": "PLACE_LAG"}
REAL_TIME = {
    "tunable.rr_timeslice_ms": 100,
    "tunable.rt_period_us": 1_000_000,
    "tunable.rt_runtime_us": 950_000,
    "tunable.cfs_bandwidth_slice_us": 5_000,
}
SERVER = {"tunable.fair_server_runtime_ns": 50_000_000, "tunable.fair_server_period_ns": 1_000_000_000}
NO_LIMIT = {"tunable.rt_runtime_us": -1}
QUOTA = {"quota": "20000 100000", "burst_counted": False, "late_max_virtual_ns": 80_000_000}


def among_hogs(late_ns: list[int], had: float = 1.0) -> Result:
    """A run in virtual time whose wake-ups came this late; its threads had this part of their CPU."""
    elapsed_ns = 100_000_000 + 2_017_000 * (len(late_ns) - 1) + late_ns[-1] + 300_000
    known = {"kernel": "6.1", "hogs": 3, "hog_cpu_ns": [0.3 * had * elapsed_ns] * 3}
    known |= {"sleeper_cpu_ns": 0.1 * had * elapsed_ns, "sleeper_involuntary_switches": 0}
    data = pd.DataFrame({"wake_index": range(len(late_ns)), "late_ns": late_ns})
    data = data.assign(period_us=2017, work_us=300)
    return Result("sleeper.among_hogs", data, {}, known, timing="deterministic")


PROMPT, LATE = [1_000] * 1000, [1_000] * 900 + [1_400_000] * 100
# One wait, and five more wake-ups that are due before the sleeper has caught up.
BEHIND = [10_000_000, 8_283_000, 6_566_000, 4_849_000, 3_132_000, 1_415_000, 1_000] * 100
H, F, U = claims_kernels.HOLDS, claims_kernels.FAILS, claims_kernels.UNKNOWN


@pytest.mark.parametrize(
    ("claim", "outcome", "facts", "late_ns", "more"),
    [
        ("000-109", H, CFS, PROMPT, {}),
        ("000-109", F, EEVDF, PROMPT, {}),
        ("000-109", U, EXT, PROMPT, {}),
        ("002-082", H, EEVDF, [200_000] * 6 + [1_000] * 1, {}),
        ("002-082", F, EEVDF, LATE, {}),
        ("002-082", U, EEVDF, [200_000] * 500 + [1_000] * 500, {}),
        ("002-082", U, EEVDF, BEHIND, {}),
        ("002-016", H, EEVDF, PROMPT, {}),
        ("002-016", F, EEVDF, LATE, {}),
        ("002-016", H, TOLD, LATE, {}),
        ("002-016", U, EEVDF, [*PROMPT, 1_400_000], {}),
        ("002-016", U, CFS, PROMPT, {}),
        ("002-081", H, CFS | {"tunable.features": "GENTLE_FAIR_SLEEPERS"}, PROMPT, {}),
        ("002-081", F, CFS | {"tunable.features": "NO_GENTLE_FAIR_SLEEPERS"}, PROMPT, {}),
        ("002-081", F, EEVDF, PROMPT, {}),
        ("002-081", U, CFS, PROMPT, {}),
        ("002-081", U, EXT, PROMPT, {}),
        ("002-017", H, TOLD, PROMPT, {}),
        ("002-017", F, EEVDF, PROMPT, {}),
        ("002-017", U, CFS, PROMPT, {}),
        ("002-103", H, EEVDF, [600] * 1000, {"cfs": among_hogs(PROMPT)}),
        ("002-103", F, EEVDF, [900] * 1000, {"cfs": among_hogs(PROMPT)}),
        ("002-103", U, EEVDF, PROMPT, {}),
        ("002-103", U, CFS, PROMPT, {"cfs": among_hogs(PROMPT)}),
        ("002-105", H, EEVDF | OPEN | {f"tunable.{name}": 1 for name in CFS_KNOBS}, PROMPT, {}),
        ("002-105", F, EEVDF | OPEN | {"tunable.latency_ns": 6_000_000}, PROMPT, {}),
        ("002-105", F, EEVDF | OPEN, PROMPT, {}),
        ("002-105", F, EEVDF, PROMPT, {}),
        ("002-105", U, TOLD, PROMPT, {}),
        ("004-005", H, EEVDF | {"kernel.hz": 1e9 / 700_000}, PROMPT, {}),
        ("004-005", F, TOLD, PROMPT, {}),
        ("004-005", U, CFS, PROMPT, {}),
        ("002-045", H, CFS | REAL_TIME, PROMPT, {}),
        ("002-045", F, CFS | REAL_TIME | NO_LIMIT, PROMPT, {}),
        ("002-045", F, EEVDF | REAL_TIME | SERVER | OPEN, PROMPT, {}),
        ("002-045", U, EEVDF | REAL_TIME, PROMPT, {}),
        ("002-045", U, EXT | REAL_TIME, PROMPT, {}),
        ("002-045", U, EEVDF | REAL_TIME | OPEN | {"tunable.fair_server_runtime_ns": 0}, PROMPT, {}),
        ("000-099", H, CFS | {"kernel.sched_debug": "/proc/sched_debug"}, PROMPT, {}),
        ("000-099", F, CFS | {"kernel.sched_debug": "/sys/kernel/debug/sched/debug"}, PROMPT, {}),
        ("000-099", F, CFS | {"kernel.sched_debug": None}, PROMPT, {}),
        ("000-099", U, CFS, PROMPT, {}),
        ("000-055", H, CFS, PROMPT, {"yields": {"switches_per_yield": 0.999}}),
        ("000-055", F, CFS, PROMPT, {"yields": {"switches_per_yield": 0.5}}),
        ("000-055", F, CFS, PROMPT, {"yields": {"switches_per_yield": 2.0}}),
        ("000-055", U, CFS, PROMPT, {}),
        ("002-102", H, CFS, PROMPT, {}),
        ("002-102", H, EEVDF, PROMPT, {}),
        ("002-102", F, EEVDF | {"kernel.release": "6.5.0"}, PROMPT, {}),
        ("002-102", U, EEVDF, PROMPT, {"sources": {"kernel.scheduler": "kernel release only"}}),
        ("002-102", U, EXT, PROMPT, {}),
        ("002-051", H, TOLD, PROMPT, {}),
        ("002-051", F, TOLD | {"tunable.latency_ns": 12_000_000, "cpu.count": 2}, PROMPT, {}),
        ("002-051", F, EEVDF, PROMPT, {}),
        ("002-051", U, CFS, PROMPT, {}),
        ("004-041", H, EEVDF | REAL_TIME, PROMPT, {}),
        ("004-041", F, EEVDF | REAL_TIME | NO_LIMIT, PROMPT, {}),
        ("004-041", U, EEVDF, PROMPT, {}),
        ("002-096", U, CFS, PROMPT, {"quota": QUOTA}),
        ("002-096", F, CFS, PROMPT, {"quota": QUOTA | {"burst_counted": True}}),
        ("002-096", U, CFS, PROMPT, {}),
        ("002-092", H, CFS, PROMPT, {"quota": QUOTA}),
        ("002-092", F, CFS, PROMPT, {"quota": QUOTA | {"late_max_virtual_ns": 20_000_000}}),
        ("002-092", U, CFS, PROMPT, {}),
    ],
)
def test_every_outcome(
    claim: str, outcome: str, facts: dict[str, Any], late_ns: list[int], more: dict[str, Any]
) -> None:
    [found] = [each for each in claims_kernels.CLAIMS if each.id == claim]
    known = claims_kernels.Evidence(facts, among_hogs(late_ns), **({"cfs": None} | more))
    verdict = found.check(known)
    assert verdict.outcome == outcome, verdict.reason
    assert verdict.reason.endswith(".")


@pytest.mark.parametrize(
    ("claim", "late_ns", "outcome"),
    [
        ("002-082", [200_000] * 6 + [1_000], U),  # a quota makes it wait on any kernel
        ("002-082", LATE, F),  # and yet it mostly did not
        ("002-016", LATE, U),
        ("002-016", PROMPT, H),
    ],
)
def test_where_others_had_the_cpu_a_wait_need_not_be_for_the_hogs(
    claim: str, late_ns: list[int], outcome: str
) -> None:
    [found] = [each for each in claims_kernels.CLAIMS if each.id == claim]
    verdict = found.check(claims_kernels.Evidence(EEVDF, among_hogs(late_ns, had=0.8), None))
    assert verdict.outcome == outcome
    assert ("had 80% of their CPU" in verdict.reason) == (outcome == U)
