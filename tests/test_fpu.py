"""Vector registers and the switch: the experiment for real, tiny, and its figure on made-up switches."""

from __future__ import annotations

import platform

import numpy as np
import pandas as pd
import pytest
from conftest import locked_apart
from ladder_lab import MACHINE, documented

from sched_labs.core.errors import ResultError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.run import base
from sched_labs.topics.latency_ladder.fpu import experiment as fpu


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with locked_apart(tmp_path_factory.mktemp("fpu")):
        return fpu.state(profile="tiny", save=False, progress=False)


def test_every_set_has_its_trials_and_none_is_measured_twice(vectors: Result) -> None:
    blocks = vectors.data.groupby(["registers", "condition"]).size()
    assert (blocks == fpu.TURNS * vectors.parameters["trials"]).all()
    assert {"integer", "integer_again"} <= set(vectors.data.registers)
    assert not vectors.data.duplicated(["registers", "condition", "trial", "turn"]).any()
    assert (vectors.summary().trials == vectors.parameters["trials"]).all()


def test_its_summary_has_the_documented_columns(vectors: Result) -> None:
    assert list(vectors.summary().columns) == documented(fpu.summarise)


def test_the_registers_are_those_that_the_kernel_shows(vectors: Result) -> None:
    """/proc/cpuinfo lists what the kernel has switched on, the program what it found for itself."""
    measured = set(vectors.data.registers) - {"integer", "integer_again"}
    if platform.machine() == "x86_64":
        flags = (files.read("/proc/cpuinfo") or "").split()
        expected = {kind for kind, flag in (("avx", "avx"), ("avx512", "avx512f")) if flag in flags}
        assert measured - {"sse"} == expected
    elif platform.machine() == "aarch64":
        assert measured == {"neon"}


# What each set of registers takes in the image that the kernel saves (Intel SDM, volume 1, chapter 13): SSE
# 256 bytes, the upper halves of AVX 256; of AVX-512 the masks 64, the upper halves 512, the rest 1,024.
ADDED_BYTES = {"sse": 256, "avx": 256 + 256, "avx512": 256 + 256 + 64 + 512 + 1024}


def test_what_was_filled_is_in_use(vectors: Result) -> None:
    """The processor's own account: each set adds its own bytes to what is in use when none is filled.

    How much that is depends on processor and kernel: the x87's registers (160 bytes), which nothing cleans,
    and the protection keys (8 bytes), where Linux writes a value other than the initial one.  In a virtual
    machine the SSE registers come on top: in use, though not filled, once the hypervisor had the CPU.
    """
    exchanged = vectors.data[vectors.data.condition == "exchange"]
    table = exchanged.groupby("registers").in_use_bytes.min().dropna().drop("integer_again", errors="ignore")
    if table.empty:
        pytest.skip("this processor does not say which state is in use")
    added = (table - table["integer"]).drop("integer")
    before = ADDED_BYTES["sse"] if table["integer"] >= ADDED_BYTES["sse"] else 0
    assert added.to_dict() == {kind: ADDED_BYTES[kind] - before for kind in added.index}
    assert (table <= vectors.facts["image_bytes"]).all()


def test_each_round_trip_is_two_counted_switches_and_alone_none(vectors: Result) -> None:
    table = vectors.summary()
    assert table.switches_per_round_trip.between(1.85, 2.15).all()
    alone = vectors.data[vectors.data.condition == "alone"]
    assert ((alone.voluntary_switches + alone.involuntary_switches) / alone.round_trips).median() < 0.1
    assert (table.switch_lo_ns <= table.switch_ns).all() and (table.switch_ns <= table.switch_hi_ns).all()


def test_what_a_processor_does_not_say_is_missing_with_a_note() -> None:
    run = base.Run("fpu.state", "tiny", False)
    rows = {"condition": ["exchange"], "voluntary_switches": [200], "involuntary_switches": [0]}
    fpu._say_what_is_missing(
        run, pd.DataFrame(rows | {"registers": ["neon"], "round_trips": [100], "in_use_bytes": [np.nan]})
    )
    assert [note.level for note in run.notes] == ["missing", "missing"]
    assert "SVE" in run.notes[0].text
    fpu._say_what_is_missing(
        run, pd.DataFrame(rows | {"registers": ["integer"], "round_trips": [50], "in_use_bytes": [256.0]})
    )
    assert [note.level for note in run.notes[2:]] == ["missing", "flag"]


# --- the summary and the figure ---


def made(extra: float, kinds: tuple[str, ...] = ("sse", "avx512")) -> Result:
    """Switches of 1 µs; the last set of registers adds `extra` ns to each."""
    sets = {"integer": 0.0, **dict.fromkeys(kinds, 0.0), "integer_again": 0.0}
    if kinds:
        sets[kinds[-1]] = extra
    rows = []
    for kind, more in sets.items():
        for trial in range(5):
            for condition in ("alone", "exchange"):
                per_trip = 500 if condition == "alone" else 500 + 2 * (1000 + more + trial)
                rows.append(
                    {"registers": kind, "trial": trial, "condition": condition, "round_trips": 100}
                    | {"elapsed_ns": 100 * per_trip, "voluntary_switches": 200 * (condition == "exchange")}
                    | {"involuntary_switches": 0, "in_use_bytes": 256.0 if "integer" in kind else 2112.0}
                )
    return Result("fpu.state", pd.DataFrame(rows), dict(MACHINE), {}, facts={"image_bytes": 2432})


def test_the_extra_is_what_the_registers_add_to_a_switch() -> None:
    table = made(100).summary().set_index("registers")
    assert table.extra_ns["avx512"] == pytest.approx(100) and bool(table.seen["avx512"])
    assert table.extra_ns["sse"] == 0 and not table.seen["sse"]
    assert table.switch_ns["integer"] == pytest.approx(1002) and np.isnan(table.extra_ns["integer"])
    assert "integer_again" not in table.index


def test_the_figure_says_how_much_or_that_it_is_not_seen() -> None:
    figure = made(100).plot(recorded=made(0))
    assert figure.caption == (
        "Filled AVX-512 registers add 100 ns a switch, 10 %; with none filled it costs 1 µs."
    )
    assert "SSE 0 (no difference seen: " in figure.alt
    texts = [text.get_text() for text in figure.mpl.axes[0].texts]
    assert texts == ["2,112 B in use", "2,112 B in use"]
    assert "nothing to a switch that stands clear" in made(0).plot().caption
    with pytest.raises(ResultError):
        made(0, ()).plot()
