"""The experiments of the chapter on pinning, tiny: structure and relations, never absolute times."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_cases import constructed
from machines.layouts import layout, without_caches

from sched_labs import draw as figures
from sched_labs import kernels, machine
from sched_labs.core import lock
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result, from_json
from sched_labs.kernels.errors import PackageError, QemuError
from sched_labs.machine import files
from sched_labs.run import distance
from sched_labs.topics.pinning.migration import experiment as migration
from sched_labs.topics.pinning.migration import figure as migration_figure
from sched_labs.topics.pinning.numa import experiment as numa
from sched_labs.topics.pinning.reserved import experiment as reserved
from sched_labs.topics.pinning.smt import experiment as smt

ALLOWED = sorted(os.sched_getaffinity(0))
KIB = 1024


# ---- moves ----


def test_every_move_is_counted_twice_and_the_same_cpu_is_none(tiny: Callable[[str], Result]) -> None:
    result = tiny("migration.cost")
    table = result.summary()
    still, moved = table[table["distance"] == "same_cpu"], table[table["distance"] != "same_cpu"]
    assert (still["moves_per_step"] == 0).all()
    assert (moved["moves_per_step"] == 1).all()
    told = table["kernel_moves_per_step"].notna()
    assert (table["kernel_moves_per_step"][told] == table["moves_per_step"][told]).all()
    assert not table["flagged"].any()
    assert moved.empty == (len(ALLOWED) < 2)
    # Each step was walked on the CPU that was asked for: both CPUs, as often moving as not.
    for far, rows in result.data.groupby("distance"):
        home, other = result.parameters["cpu"], result.parameters["cpus"][far]
        assert set(rows["cpu"]) == {home, other}
        assert rows["moving"].mean() == 0.5


def test_a_move_that_cannot_happen_is_named_and_not_invented(tiny: Callable[[str], Result]) -> None:
    result = tiny("migration.cost")
    there = distance.partners(machine.survey(), result.parameters["cpu"])
    assert set(result.data["distance"]) == set(there)
    said = " ".join(note.text for note in result.notes)
    for far in distance.DISTANCES[:-1]:
        assert (distance.WORDS[far] in said) == (far not in there)


def test_a_longer_stay_leaves_fewer_steps_and_no_other_working_set() -> None:
    sizes = {
        profile: migration.default_working_sets(profile, machine.survey())
        for profile in ("tiny", "quick", "full")
    }
    assert sizes["tiny"][0] == sizes["quick"][0] == sizes["full"][0] == 16 * KIB
    assert max(sizes["tiny"]) <= max(sizes["quick"]) <= max(sizes["full"])


@pytest.mark.parametrize(
    ("survey", "expected"),
    [
        (layout(cores=1), {"same_cpu": 0}),
        (layout(cores=2), {"same_cpu": 1, "same_cache": 0}),
        (layout(cores=2, threads=2), {"same_cpu": 3, "smt_sibling": 1, "same_cache": 2}),
        (layout(caches=2, cores=1), {"same_cpu": 1, "other_cache": 0}),
        (layout(nodes=2, cores=1), {"same_cpu": 1, "other_node": 0}),
        (
            layout(nodes=2, caches=2, cores=2, threads=2),
            {"same_cpu": 15, "smt_sibling": 7, "same_cache": 14, "other_cache": 13, "other_node": 11},
        ),
        (without_caches(layout(cores=2)), {"same_cpu": 1, "other_cpu": 0}),
        (without_caches(layout(cores=1, threads=2)), {"same_cpu": 1, "smt_sibling": 0}),
    ],
)
def test_distances_are_told_apart(survey: machine.Machine, expected: dict[str, int]) -> None:
    home = survey.cpus_allowed[-1]
    assert distance.partners(survey, home) == expected
    absent = distance.absent(survey, home)
    for far in distance.DISTANCES[:-1]:
        assert (distance.WORDS[far] in absent) == (far not in expected)


def constructed_moves() -> pd.DataFrame:
    """A summary that nobody measured: every distance, a value inside the noise and one below zero."""
    rows = []
    for number, far in enumerate(distance.DISTANCES):
        for size, warmup in ((16 * KIB, 5_000.0), (64 * KIB, 20_000.0), (1024 * KIB, -300.0)):
            for touch in ("writes", "reads"):
                row = {"touch": touch, "distance": far, "working_set_bytes": size, "stay_ns": 1000.0}
                for name, value in (("warmup", warmup * number), ("call", 50_000.0 * number)):
                    row |= {f"{name}_ns": value, f"{name}_lo_ns": value * 0.9, f"{name}_hi_ns": value * 1.1}
                floor = 1e6 if size == 64 * KIB else 10.0
                rows.append(row | {"cost_ns": warmup + 50_000, "floor_ns": floor, "seen": floor < 1e6})
    return pd.DataFrame(rows)


def test_every_distance_has_a_panel_and_what_is_noise_is_faint() -> None:
    result = constructed("migration.cost", constructed_moves())
    figure = figures.draw(result, recorded=result, predictions=[figures.Prediction(400, "µs")])
    panels = figure.mpl.axes
    assert [ax.get_title(loc="left") for ax in panels] == [
        f"to {migration_figure.WORDS[far]}" for far in distance.DISTANCES[1:]
    ]
    for ax in panels:
        drawn = [line for line in ax.get_lines() if line.get_marker() not in ("None", "", None)]
        faint = [
            line for line in drawn if line.get_alpha() == migration_figure.FAINT and len(line.get_xdata())
        ]
        assert {tuple(line.get_xdata()) for line in faint} == {(64 * KIB,)}
        # What is below zero has no place on the axis, and no point.
        warm = [line for line in drawn if line.get_color() == figures.style.colour(figures.style.WARMUP)]
        assert not any(1024 * KIB in line.get_xdata() for line in warm)
    assert "recorded" in figure.alt
    assert "your prediction" in figure.alt
    assert "same CPU" not in figure.alt  # it has no panel
    assert "reads, the data: 16 KiB" in figure.alt  # the calls of the first touch are drawn, alone


def test_the_legend_of_moves_names_what_is_faint_only_where_a_mark_is() -> None:
    moves = constructed_moves()
    unseen = moves[(moves.distance == "same_cache") & (moves.working_set_bytes != 64 * KIB)].copy()
    unseen.loc[unseen.touch == "reads", "call_lo_ns"] = -1.0  # the calls of the first touch are drawn, alone
    for rows, faint in ((unseen, False), (moves, True), (moves[moves.distance == "same_cpu"], False)):
        legend = figures.draw(constructed("migration.cost", rows)).mpl.legends[0]
        assert ("faint: inside the noise" in {text.get_text() for text in legend.get_texts()}) is faint
    still = moves[moves.distance == "same_cpu"].assign(warmup_ns=20.0)
    legend = figures.draw(constructed("migration.cost", still)).mpl.legends[0]
    assert "faint: inside the noise" in {text.get_text() for text in legend.get_texts()}


def test_a_recorded_run_that_has_nothing_of_this_one_is_not_called_pale() -> None:
    moves = constructed_moves()
    here, near = (
        constructed("migration.cost", moves[moves.distance.isin(["same_cpu", far])])
        for far in ("smt_sibling", "same_cache")
    )
    loads = [
        constructed(
            "numa.chase",
            pd.DataFrame(
                {"working_set_bytes": [kib * KIB], "cpu_node": [0], "memory_node": [0], "load_ns": [5.0],
                 "load_lo_ns": [4.0], "load_hi_ns": [6.0], "local": [True], "slowdown_ratio": [np.nan]}
            ),
        )
        for kib in (256, 512)
    ]  # fmt: skip
    for result, recorded in ((here, near), loads):
        guess = [figures.Prediction(400, "ns")]
        apart, alike = (figures.draw(result, recorded=old, predictions=guess) for old in (recorded, result))
        assert "ecorded" not in apart.alt + apart.provenance + str(apart.mpl.legends[0].get_texts())
        assert "your prediction" in apart.alt and "recorded" in alike.alt
        assert len(alike.mpl.legends[0].get_texts()) == len(apart.mpl.legends[0].get_texts()) + 1


def test_a_caption_on_written_lines_takes_no_number_of_read_ones() -> None:
    read = constructed_moves()
    read.loc[read.touch == "reads", "warmup_ns"] *= 9
    captions = {
        figures.draw(constructed("migration.cost", table)).caption for table in (constructed_moves(), read)
    }
    caption = captions.pop()
    assert not captions and "every line written" in caption
    assert "suffers most at 16 KiB, moved to another CPU: it takes" in caption  # of several distances
    inside = constructed_moves()
    inside["warmup_lo_ns"] = -1.0
    caption = figures.draw(constructed("migration.cost", inside)).caption
    assert caption.endswith("That the walk takes longer than without a move is not seen.")


# ---- shared cores ----


def test_two_workers_share_one_cpu_and_not_more(tiny: Callable[[str], Result]) -> None:
    data = tiny("smt.sharing").data
    assert (data["units"] > 0).all()
    assert (data["cpu_ns"] <= 1.01 * data["elapsed_ns"] + 1e6).all()
    both = data[data["together"] & (data["placement"] == "one_cpu")]
    together = both.groupby(["pair", "trial"])[["cpu_ns", "elapsed_ns"]].agg(
        {"cpu_ns": "sum", "elapsed_ns": "max"}
    )
    assert (together["cpu_ns"] <= 1.05 * together["elapsed_ns"] + 1e6).all()
    assert both.groupby(["pair", "trial"])["cpu"].nunique().max() == 1


def test_siblings_that_a_machine_lacks_have_a_note_and_no_row(tiny: Callable[[str], Result]) -> None:
    result = tiny("smt.sharing")
    has = bool(machine.survey().smt_siblings(ALLOWED[-1]))
    assert ("siblings" in set(result.data["placement"])) == has
    assert any("another thread of CPU" in note.text for note in result.notes) == (not has)


@pytest.mark.parametrize(
    ("survey", "expected"),
    [
        (layout(cores=1), {"one_cpu": (0, 0)}),
        (layout(cores=1, threads=2), {"siblings": (1, 0), "one_cpu": (1, 1)}),
        (layout(cores=2, threads=2), {"cores": (3, 2), "siblings": (3, 1), "one_cpu": (3, 3)}),
        (layout(nodes=2, cores=1), {"cores": (1, 0), "one_cpu": (1, 1)}),
        (without_caches(layout(cores=2)), {"cores": (1, 0), "one_cpu": (1, 1)}),
    ],
)
def test_workers_are_placed_by_what_they_share(survey: machine.Machine, expected: dict[str, Any]) -> None:
    assert smt.places(survey, survey.cpus_allowed[-1]) == expected


# ---- memory nodes ----


def test_memory_is_where_it_was_bound(tiny: Callable[[str], Result]) -> None:
    result = tiny("numa.chase")
    table = result.summary()
    told = table["pages_there_share"].notna()
    assert (table["pages_there_share"][told] == 1).all()
    assert (table["load_ns"] > 0).all()
    assert table.loc[table["local"], "slowdown_ratio"].isna().all()
    assert table.loc[~table["local"], "slowdown_ratio"].notna().all()
    assert any("one memory node" in note.text for note in result.notes) == (len(machine.survey().nodes) < 2)


# ---- reserved CPUs ----


def test_the_kernels_own_threads_are_found_on_their_cpu(tiny: Callable[[str], Result]) -> None:
    result = tiny("reserved.residents")
    cpu = result.parameters["cpu"]
    names = set(result.data.loc[result.data["kind"] == "kernel_thread", "name"])
    # These two are on every CPU of every kernel; in a container other processes are not to be seen.
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text().strip() == "kthreadd":
        assert {f"migration/{cpu}", f"ksoftirqd/{cpu}"} <= names
        every = reserved.bound_threads(cpu)
        assert all(switches >= 0 for _, switches, _ in every.values())
    assert (result.data["events"] >= 0).all()
    assert "anybody" in set(result.data["kind"])


def test_interrupts_are_sorted_by_who_causes_them(tmp_path: Path) -> None:
    tables = {
        "interrupts": "            CPU0       CPU1\n"
        "  9:          1          2   IO-APIC   9-fasteoi   acpi\n"
        " 40:         10         20   PCI-MSI 1-edge      eth0-rx-0\n"
        "NMI:          0          0   Non-maskable interrupts\n"
        "LOC:       1000       2000   Local timer interrupts\n"
        "HVS:        100        200   Hyper-V stimer0 interrupts\n"
        "IWI:          3          4   IRQ work interrupts\n"
        "RES:          5          6   Rescheduling interrupts\n"
        "TLB:          7          8   TLB shootdowns\n"
        "ERR:          0\n",
        "softirqs": "                    CPU0       CPU1\n"
        "          HI:          1          3\n"
        "       TIMER:        10         30\n",
    }
    (tmp_path / "proc").mkdir()
    for name, text in tables.items():
        (tmp_path / "proc" / name).write_text(text)
    with files.root(tmp_path):
        assert reserved.interrupts(1) == {
            ("device", "9 acpi"): 2,
            ("device", "40 eth0-rx-0"): 20,
            ("other", "NMI Non-maskable interrupts"): 0,
            ("timer", "LOC Local timer interrupts"): 2000,
            ("timer", "HVS Hyper-V stimer0 interrupts"): 200,
            ("other", "IWI IRQ work interrupts"): 4,
            ("call", "RES Rescheduling interrupts"): 6,
            ("call", "TLB TLB shootdowns"): 8,
        }
        assert reserved.soft_interrupts(1) == {"HI": 3, "TIMER": 30}
        assert reserved.interrupts(7) is None
        assert reserved.soft_interrupts(7) == {}


def test_interrupts_of_arm_have_names_for_numbers(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "interrupts").write_text(
        "           CPU0       CPU1\n"
        " 11:       1000       2000     GICv3  27 Level     arch_timer\n"
        " 42:          1          2     GICv3  78 Edge      virtio0\n"
        "IPI0:          5          6       Rescheduling interrupts\n"
        "IPI5:          7          8       IRQ work interrupts\n"
    )
    with files.root(tmp_path):
        found = reserved.interrupts(1)
    assert found == {
        ("timer", "11 GICv3 27 Level arch_timer"): 2000,
        ("device", "42 virtio0"): 2,
        ("call", "IPI0 Rescheduling interrupts"): 6,
        ("other", "IPI5 IRQ work interrupts"): 8,
    }


def test_kernel_threads_that_nobody_sees_are_not_counted_as_none() -> None:
    """In a container with process ids of its own."""
    rows = [{"kind": "timer", "name": "LOC Local timer interrupts"}, {"kind": "anybody", "name": "whoever"}]
    seen = pd.DataFrame(rows).assign(condition="pinned", per_s=250.0, per_lo_s=249.0, per_hi_s=251.0)
    caption = figures.draw(constructed("reserved.residents", seen)).caption
    assert "250 interrupts in a second; times" in caption and "kernel threads" not in caption
    untold = figures.draw(constructed("reserved.residents", seen[seen.kind == "anybody"])).caption
    assert "this CPU does not tell its interrupts here; times" in untold


def test_the_text_for_a_figure_of_residents_has_the_numbers_of_its_caption() -> None:
    rows = [
        {"kind": "timer", "name": "LOC Local timer interrupts", "per_s": 267.5},
        {"kind": "kernel_thread", "name": "kworker/1", "per_s": 10.0},
        {"kind": "kernel_thread", "name": "migration/1", "per_s": 0.0},  # in one trial of three it ran
        {"kind": "anybody", "name": "whoever", "per_s": 12.5},
    ]
    seen = pd.DataFrame(rows).assign(condition="pinned", per_lo_s=0.0, per_hi_s=300.0)
    figure = figures.draw(constructed("reserved.residents", seen))
    assert "had 268 interrupts" in figure.caption and "interrupts 268" in figure.alt
    assert "taken off it: 12.5" in figure.caption and "whoever 12.5" in figure.alt


# ---- the map ----


def test_the_map_of_this_machine_has_every_cpu() -> None:
    survey = machine.survey()
    table = figures.topology.frame(survey)
    assert list(table["cpu"]) == [cpu.number for cpu in survey.cpus]
    figure = figures.topology.draw(survey, home=ALLOWED[-1])
    assert all(f"CPU {cpu.number}" in figure.alt for cpu in survey.cpus)
    assert figure.data.equals(table)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 1, 4, 2), (1, 2, 3, 2), (2, 2, 2, 2), (2, 2, 32, 2)])
def test_what_is_shared_is_one_box_and_stays_inside_the_figure(shape: tuple[int, int, int, int]) -> None:
    nodes, caches, cores, threads = shape
    survey = layout(nodes, caches, cores, threads)
    figure = figures.topology.draw(survey)
    count = nodes * caches * cores * threads
    table = figure.data
    assert len(table) == count
    assert table["l3_cpus"].nunique() == nodes * caches
    assert table["node"].nunique() == nodes
    assert table["l2_cpus"].nunique() == nodes * caches * cores
    assert (table["smt_siblings"] != "").all() == (threads > 1)
    ax = figure.mpl.axes[0]
    width, height = ax.get_xlim()[1], ax.get_ylim()[0]
    boxes = [patch.get_bbox() for patch in ax.patches]
    assert all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)
    # Every CPU has a box, and no two of the innermost boxes touch.
    inner = [b for b in boxes if not any(o is not b and b.contains(o.x0 + 1, o.y0 + 1) for o in boxes)]
    assert len(inner) == count
    assert not any(a.overlaps(b) for i, a in enumerate(inner) for b in inner[i + 1 :])
    # The text stays inside, too.
    renderer = figure.mpl._get_renderer()  # type: ignore[attr-defined]
    for text in ax.texts:
        assert text.get_window_extent(renderer).x1 <= figure.mpl.bbox.x1


def test_a_machine_that_tells_no_caches_says_so() -> None:
    figure = figures.topology.draw(without_caches(layout(cores=3)))
    assert "does not tell its caches" in figure.caption
    assert figure.data["l2_bytes"].isna().all()


def test_of_one_cpu_the_map_says_nothing_of_sharing_a_core() -> None:
    assert figures.topology.draw(layout(1, 1, 1, 1)).caption.startswith("One CPU; one last-level cache")


# ---- what this machine may not have: logic in a guest, and no timing ----

IN_THE_GUEST = """
def measure(wanted):
    from sched_labs import workloads
    from sched_labs.kernels.jobs import experiment

    start, answers = workloads.start, {}
    for module, name, parameters in wanted:
        answers[name] = experiment.measure(module, name, {"profile": "tiny", **parameters})
        workloads.start = start
    return answers
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Three experiments in one guest that shows two threads per core and two memory nodes."""
    place = tmp_path_factory.mktemp("lock") / "lock"
    place.mkdir()
    place.chmod(0o1777)
    wanted = [
        (migration, "cost", {"working_sets_bytes": [16 * KIB], "touch": ["writes"]}),
        (smt, "sharing", {"pairs": ["alu_alu"]}),
        (numa, "chase", {"working_sets_bytes": [64 * KIB]}),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_PLACES", (place,))
        try:
            answer = kernels.run(
                "6.12",
                "pinning_in_a_guest:measure",
                {"wanted": [(module.__name__, name, given) for module, name, given in wanted]},
                cpus=4,
                threads_per_core=2,
                memory_nodes=2,
                native=["migrate", "siblings", "nodes"],
                modules=["sched_labs.kernels.jobs.experiment", *(module.__name__ for module, _, _ in wanted)],
                extra={"/lab/pinning_in_a_guest.py": IN_THE_GUEST.encode()},
            )
        except (PackageError, QemuError) as error:
            pytest.skip(f"no other kernel can be booted here: {error.what}")
    return {name: from_json(text, name) for name, text in answer.value.items()}


@pytest.mark.guests
def test_a_guest_with_siblings_and_nodes_moves_to_both(guest: dict[str, Result]) -> None:
    table = guest["cost"].summary().set_index("distance")
    assert list(table.index) == ["same_cpu", "smt_sibling", "other_node"]
    assert list(table["moves_per_step"]) == [0, 1, 1]
    assert list(table["kernel_moves_per_step"]) == [0, 1, 1]
    assert not table["flagged"].any()


@pytest.mark.guests
def test_a_guest_with_siblings_runs_on_both_at_once(guest: dict[str, Result]) -> None:
    result = guest["sharing"]
    assert result.parameters["cpus"] == {"cores": [3, 1], "siblings": [3, 2], "one_cpu": [3, 3]}
    together = result.data[result.data["together"]]
    for place, cpus in (("cores", {1, 3}), ("siblings", {2, 3}), ("one_cpu", {3})):
        assert set(together.loc[together["placement"] == place, "cpu"]) == cpus
    assert not any("another thread of CPU" in note.text for note in result.notes)
    assert "on two threads of one core" in result.plot().caption


@pytest.mark.guests
def test_a_guest_with_two_nodes_has_near_and_far_memory(guest: dict[str, Result]) -> None:
    result = guest["chase"]
    table = result.summary()
    assert list(zip(table["cpu_node"], table["memory_node"], strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert list(table["firmware_distance"]) == [10, 20, 20, 10]
    assert list(table["local"]) == [True, False, False, True]
    assert (table["pages_there_share"] == 1).all()
    assert np.isfinite(table.loc[~table["local"], "slowdown_ratio"]).all()
    assert not any("one memory node" in note.text for note in result.notes)
    assert "node 0" in result.plot().alt


def test_a_guest_cannot_have_half_a_core() -> None:
    with pytest.raises(ParameterError, match="are not 2 nodes of cores with 2 threads"):
        kernels.run("6.12", "hello", cpus=2, threads_per_core=2, memory_nodes=2)
    with pytest.raises(ParameterError, match="deterministic"):
        kernels.run("6.12", "hello", timing="deterministic", threads_per_core=2)
