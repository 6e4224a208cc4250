"""Tables in a terminal: durations and sizes in a unit a person would choose, and still the measured ones."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest

from sched_labs.core import registry
from sched_labs.core.result import recorded
from sched_labs.core.tables import cell, heading, table_text

_SCALES = {
    "ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9,
    "B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3,
}  # fmt: skip
_NAMED = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "bytes": 1.0}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("p50_ns", ("p50", "ns")), ("ns_hi_per_hop", ("hi_per_hop", "ns")),
        ("net_per_switch_ns", ("net_per_switch", "ns")), ("calls_per_s", ("calls_per_s", None)),
        ("cpu_ns_per_s", ("cpu_per_s", "ns")), ("working_set_bytes", ("working_set", "bytes")),
        ("cpu_percent", ("cpu_percent", None)), ("ns", ("ns", "ns")),
    ],
)  # fmt: skip
def test_a_heading_gives_its_unit_to_its_cells(name: str, told: tuple[str, str | None]) -> None:
    assert heading(name) == told


def test_a_cell_in_words() -> None:
    assert cell(11_990_567.4, "ns") == "12.0 ms" and cell(999.7, "us") == "1.00 ms"
    assert cell(-5.267, "ns") == "−5.27 ns" and cell(0, "ns") == "0" and cell(7.2e12, "ns") == "7,200 s"
    assert cell(65536, "bytes") == "64 KiB" and cell(math.nan, "ns") == cell(None) == "-"
    assert cell(np.int64(12_345)) == "12,345" and cell(0.000251) == "0.000251" and cell(True) == "True"


def test_no_two_headings_are_the_same() -> None:
    text = table_text(pd.DataFrame({"seen": [True], "seen_ns": [5.0], "p_ns": [1.0], "p_us": [2.0]}))
    assert text.splitlines()[0].split() == ["seen", "seen_time", "p", "p_time"]


@pytest.mark.parametrize("kind", registry.names())
def test_every_kind_of_run_is_read_without_counting_digits(kind: str) -> None:
    """What a recorded run prints: few digits for a duration or size, and the number of its data."""
    run = recorded(kind)
    assert run is not None, kind
    table = run.summary()
    for name in table.columns:
        unit = heading(str(name))[1]
        if unit is None:
            # No unit is left unread: what has one in its name stands behind `per`, or has no numbers.
            assert not re.search(r"(?<!per)_(ns|us|bytes)(_|$)", str(name)), name
            continue
        for value in table[name]:
            said = cell(value, unit)
            if said in ("-", "0", "−∞", "∞"):
                assert value in (0, math.inf, -math.inf) or value is None or value != value
                continue
            found = re.fullmatch(r"(−?)(\d[\d,]*\.?\d*) (\S+)", said)
            assert found, (name, said)
            number = float(found[2].replace(",", "")) * (-1 if found[1] else 1)
            assert abs(number) < 1024 or found[3] in ("s", "GiB"), (name, said)
            assert number * _SCALES[found[3]] == pytest.approx(value * _NAMED[unit], rel=0.006, abs=0.006), (
                name,
                said,
            )
    lines = table_text(table).splitlines()
    assert len(lines) == 1 + len(table) and len(lines[0].split()) == len(table.columns)
