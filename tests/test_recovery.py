"""The recovery curve: what its summary says of made-up curves, and the structure of a live run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs.core.result import Result
from sched_labs.topics.context_switch.recovery import experiment as recovery

KIB = 1024
READS = 256


@pytest.fixture(scope="module")
def live(tiny: Callable[[str], Result]) -> Result:
    return tiny("recovery.curve")


def made(after: list[list[float]], alone: float = 1000.0, size: int = 64 * KIB, **machine: Any) -> Result:
    """A result with these block times after the switch, one list per trial, against a steady baseline."""
    rows = []
    for trial, blocks in enumerate(after):
        for condition, times in (("alone", [alone] * len(blocks)), ("after_switch", blocks)):
            rows += [
                {
                    "working_set_bytes": size,
                    "trial": trial,
                    "condition": condition,
                    "partner_bytes": 0 if condition == "alone" else 1 << 20,
                    "block_index": number,
                    "accesses": READS,
                    "block_ns": ns,
                }
                for number, ns in enumerate(times)
            ]
    return Result("recovery.curve", pd.DataFrame(rows), dict(machine), {"profile": "quick", "line_bytes": 64})


def falling(blocks: int = 64, slow: int = 10, ratio: float = 3.0) -> list[float]:
    return [1000 * ratio] * slow + [1000.0] * (blocks - slow)


def test_recovery_is_where_the_slow_blocks_end() -> None:
    row = made([falling()] * 5).summary().iloc[0]
    assert row.recovered and row.seen
    assert row.recovered_ns == row.recovered_lo_ns == row.recovered_hi_ns == 10 * 3000 + 1000
    assert row.recovered_accesses == 11 * READS
    assert row.first_ratio == 3.0 and row.extra_ns == 10 * 2000
    assert row.alone_ns_per_access == 1000 / READS
    assert row.left_at_10k_ratio == 0.0  # the 39th block


def test_one_fast_block_is_no_recovery_and_one_slow_block_no_relapse() -> None:
    times = falling()
    times[4] = 1000.0
    assert made([times] * 5).summary().iloc[0].recovered_accesses == 11 * READS
    times = falling()
    times[12] = 90_000.0
    assert made([times] * 5).summary().iloc[0].recovered_accesses == 11 * READS


def test_what_never_recovers_is_said_not_to_have() -> None:
    row = made([falling(slow=64)] * 5).summary().iloc[0]
    assert row.seen and not row.recovered
    assert row.left_at_10k_ratio == 1.0


def test_a_floor_above_5_percent_leaves_recovery_open() -> None:
    row = made([falling()] * 5, clock_read_ns=60).summary().iloc[0]
    assert row.floor_ratio == 0.06 and np.isnan(row.recovered_ns) and not row.recovered
    figure = figures.draw(made([falling()] * 5, clock_read_ns=60))
    assert "the noise hides it for 64 KiB" in figure.caption and "the noise, 6.0%, hides when" in figure.alt


def test_a_switch_that_costs_nothing_is_not_seen() -> None:
    row = made([falling(ratio=1.0)] * 5, clock_read_ns=20).summary().iloc[0]
    assert not row.seen and row.recovered_accesses == READS
    figure = figures.draw(made([falling(ratio=1.0)] * 5, clock_read_ns=20))
    assert figure.caption == "No working set was seen to slow down after the switch."


def test_reads_that_are_quicker_after_a_switch_are_not_slowed_down() -> None:
    result = made([falling(ratio=0.8)] * 5, clock_read_ns=20)
    assert not result.summary().iloc[0].seen
    figure = figures.draw(result)
    assert figure.caption == "No working set was seen to slow down after the switch."
    assert "64 KiB: not seen to slow down" in figure.alt


def test_blocks_hold_ratios_with_intervals_and_the_time_since_the_resume() -> None:
    table = recovery.blocks(made([falling(), falling(ratio=5.0), falling(ratio=4.0)]).data)
    assert len(table) == 64 and table.ratio.iloc[0] == 4.0
    assert table.since_ns.is_monotonic_increasing and table.since_ns.iloc[1] == 8000
    assert ((table.ratio_lo <= table.ratio) & (table.ratio <= table.ratio_hi)).all()


def test_a_live_run_has_every_block_of_both_conditions(live: Result) -> None:
    data = live.data
    counts = data.groupby(["working_set_bytes", "condition", "trial", "turn"]).size()
    assert set(counts) == {recovery.BLOCKS}
    sets = len(live.parameters["working_sets_bytes"])
    assert len(counts) == 2 * recovery.TURNS * live.parameters["trials"] * sets
    assert (data.block_ns > 0).all() and (data.accesses >= recovery.FEWEST_READS).all()
    assert set(data[data.condition == "alone"].partner_bytes) == {0}


def test_a_live_summary_is_ordered(live: Result) -> None:
    table = live.summary()
    assert table.working_set_bytes.tolist() == live.parameters["working_sets_bytes"]
    known = table.dropna(subset=["recovered_ns"])
    assert (known.recovered_lo_ns <= known.recovered_ns).all()
    assert (known.recovered_ns <= known.recovered_hi_ns).all()
    assert (table.first_ratio > 0).all() and (table.floor_ratio >= 0).all()


def test_the_figure_says_when_each_set_is_back() -> None:
    result = made([falling()] * 5)
    figure = figures.draw(
        result, recorded=made([falling(ratio=2.0)] * 5), predictions=[{"value": 20, "unit": "µs"}]
    )
    assert (
        figure.caption
        == "After a switch it takes 31 µs for 64 KiB until an access is within 5 % of its time alone."
    )
    assert "3 times as long at first, within 5 % after 31 µs" in figure.alt and "20 µs" in figure.alt
    assert list(figure.data.columns) == [
        *("working_set_bytes", "block_index", "since_ns", "ratio", "ratio_lo", "ratio_hi", "floor_ratio")
    ]
    assert "<svg" in figure.svg()


def test_the_caption_names_a_set_that_was_not_seen_to_recover() -> None:
    result = made([falling()] * 5)
    result.data = pd.concat([result.data, made([falling(slow=64)] * 5, size=1024 * KIB).data])
    assert figures.draw(result).caption == (
        "After a switch it takes 31 µs for 64 KiB until an access is within 5 % of its time alone; it was "
        "not seen for 1 MiB."
    )


def test_a_live_run_can_be_drawn(live: Result) -> None:
    assert live.plot().caption.endswith(".")
