"""Packets over loopback, tiny: structure and relations that must hold, never absolute times."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_cases import Case

from sched_labs.claims import FAILS, HOLDS, UNKNOWN, judge
from sched_labs.core import registry
from sched_labs.core.errors import ResultError
from sched_labs.core.result import Result, from_json
from sched_labs.machine import files
from sched_labs.topics.switching_less.packets import experiment as packets

Row = dict[str, Any]


@pytest.fixture(scope="module")
def tiny(tiny: Callable[[str], Result]) -> Result:
    return tiny("packets.udp")


def test_it_is_found_by_name() -> None:
    assert registry.find("packets.udp") is packets.udp


def test_every_way_and_size_is_measured_as_often(tiny: Result) -> None:
    ways = set(tiny.data["way"])
    assert ways == set(packets.WAYS) or (
        ways == set(packets.WAYS) - {"segments"} and any("segments" in note.text for note in tiny.notes)
    )
    assert (tiny.data.groupby(["way", "size_bytes"])["trial"].nunique() == 2).all()


def test_no_packet_is_made_up(tiny: Result) -> None:
    data = tiny.data
    assert (data["received"] <= data["sent"]).all()
    assert (data["received"] > 0).all()
    one_by_one = data[data["way"].isin(["paced", "single"])]
    assert (one_by_one["sent"] == one_by_one["calls"]).all()
    many = data[~data["way"].isin(["paced", "single"])]
    assert (many["sent"] <= many["calls"] * many["batch"]).all()
    assert (many["sent"] > many["calls"])[many["batch"] > 1].all()
    assert (one_by_one["batch"] == 1).all()
    assert (data["receives"] <= data["received"] + 10).all()  # and the words that end a block


def test_the_senders_time_is_no_longer_than_what_passed(tiny: Result) -> None:
    data = tiny.data
    assert (data["cpu_ns"] <= data["elapsed_ns"] * 1.01 + 1e5).all()
    known = data[data["wait_ns"].notna()]
    assert (known["cpu_ns"] + known["wait_ns"] <= known["elapsed_ns"] * 1.05 + 1e6).all()


@pytest.mark.skipif(not Path("/proc/softirqs").exists(), reason="softirqs are not counted here")
def test_each_packet_over_loopback_takes_a_softirq_unless_they_come_as_one_piece(tiny: Result) -> None:
    table = tiny.summary().set_index(["way", "size_bytes"])
    for size in packets.SIZES:
        assert table.packets_per_softirq["single", size] < 1.2  # others may use the network: then it is less
        if ("segments", size) in table.index:
            assert table.packets_per_softirq["segments", size] > table.packets_per_softirq["single", size]


def test_its_summary_holds_together(tiny: Result) -> None:
    table = tiny.summary()
    assert (table["sender_lo_ns_per_packet"] <= table["sender_ns_per_packet"]).all()
    assert table["received_share"].between(0, 1).all()
    assert table.loc[table["way"] == "paced", "charged_share"].isna().all()
    shares = table["softirq_share"].dropna()
    assert shares.between(0, 1).all()


def test_what_the_machine_does_not_tell_is_missing(own_lock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(path: str) -> str | None:
        if path in ("/proc/softirqs", "/proc/stat") or path.endswith("/comm"):
            return None
        return read(path)

    read = files.read
    monkeypatch.setattr(packets.files, "read", hidden)
    run = packets.udp(profile="tiny", trials=1, sizes_bytes=[64], save=False, progress=False)
    table = run.summary()
    for column in ("packets_per_softirq", "ns_per_softirq", "softirq_share", "ksoftirqd_per_softirq"):
        assert table[column].isna().all()
    missing = [note.text for note in run.notes if note.level == "missing"]
    assert any("/proc/softirqs" in text for text in missing)
    assert any("ksoftirqd" in text for text in missing)
    assert {v.outcome for c, v in judge(run) if c.id != "004-031"} == {UNKNOWN}
    assert "divided by softirqs" not in run.plot().caption


def test_softirqs_and_ticks_are_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "/proc/softirqs": "        CPU0  CPU1\n  NET_TX:  9 9\n  NET_RX:  30 12\n",
        "/proc/stat": "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 40 50 6 7 8\ncpu1 0 0 0 0 0 0 5 0\nctxt 7\n",
        "/proc/9/status": "Name: x\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n",
    }
    monkeypatch.setattr(packets.files, "read", told.get)
    tick_ns = 1e9 / os.sysconf("SC_CLK_TCK")
    look = packets._look([9, 10], {"sender": 0, "receiver": 1})
    assert look.net_rx == 42
    assert look.cpu_ns == {"sender": (7 * tick_ns, 19 * tick_ns), "receiver": (5 * tick_ns, 5 * tick_ns)}
    assert look.ksoftirqd == 7


def line(*, batches: tuple[int, ...] = (1, 4, 16), net_rx: float = 100) -> Result:
    """A CONSTRUCTED run of large pieces: 2 µs for each, 10 ns more in a trial, and 50 ns for each packet.

    A piece of 32 takes a second softirq every other time, and 5 µs more.
    """
    rows = [
        {"way": "segments", "size_bytes": size, "batch": batch, "trial": trial, "calls": 100,
         "sent": 100 * batch, "net_rx": (1.5 if batch == 32 else 1) * net_rx,
         "cpu_ns": 100 * (2000 + 10 * trial + size - 64 + 50 * batch + 5000 * (batch == 32))}
        for trial in (0, 1, 0.5) for batch in batches for size in ((64, 1400) if batch == 16 else (64,))
    ]  # fmt: skip
    return Result(kind="packets.udp", data=pd.DataFrame(rows), machine={}, parameters={"batch": 16})


def test_what_a_piece_costs_is_told_by_the_packets_in_it() -> None:
    table = packets.pieces(line()).set_index("batch")
    assert list(table.index) == [1, 4, 16]
    assert table.softirqs_per_piece.tolist() == [1, 1, 1] and table.on_line.all()
    assert table.ns_per_piece.tolist() == [2055, 2205, 2805]
    assert table.sender_ns_per_packet.tolist() == pytest.approx([2055, 551.25, 175.3125])
    parts = packets.parts(line())
    assert parts["packet"].median == pytest.approx(50) and parts["fixed"].median == pytest.approx(2005)
    assert parts["fixed"].low == pytest.approx(2000) and parts["fixed"].high == pytest.approx(2010)


def test_a_piece_that_takes_more_than_one_softirq_is_not_on_the_line() -> None:
    run = line(batches=(1, 4, 16, 32))
    table = packets.pieces(run).set_index("batch")
    assert table.on_line.tolist() == [True, True, True, False]
    assert table.softirqs_per_piece[32] == 1.5
    assert packets.parts(run) == packets.parts(line())


def test_pieces_of_uncounted_softirqs_make_a_line_and_pieces_of_one_size_make_none() -> None:
    uncounted = line(net_rx=np.nan)
    assert packets.pieces(uncounted)["softirqs_per_piece"].isna().all()
    assert packets.parts(uncounted)["packet"].median == pytest.approx(50)
    for batches in ((16,), (16, 32), ()):
        with pytest.raises(ResultError, match="two sizes"):
            packets.parts(line(batches=batches) if batches else older())


def older() -> Result:
    """A CONSTRUCTED run of a kernel that sends no large pieces."""
    run = line()
    return Result(
        kind=run.kind, data=run.data.assign(way="single"), machine={}, parameters=dict(run.parameters)
    )


def test_larger_pieces_are_measured_besides_the_ways(tiny: Result) -> None:
    found = packets.pieces(tiny)
    if found.empty:
        assert any("segments" in note.text for note in tiny.notes)
        return
    assert found["batch"].tolist() == sorted({*packets.PIECES, tiny.parameters["batch"]})
    assert len(tiny.summary()) == len(packets.WAYS) * len(packets.SIZES)
    if found["on_line"].sum() > 1:  # others' packets may make softirqs as well
        parts = packets.parts(tiny)
        assert parts["packet"].low <= parts["packet"].median <= parts["packet"].high


def test_runs_that_were_kept_without_the_column_are_still_read(tiny: Result) -> None:
    main = tiny.data[(tiny.data["way"] != "segments") | (tiny.data["batch"] == tiny.parameters["batch"])]
    older = Result(
        kind=tiny.kind, data=main.drop(columns="batch"), machine=tiny.machine, parameters=tiny.parameters
    )
    pd.testing.assert_frame_equal(older.summary(), tiny.summary())


def test_it_is_drawn_kept_and_judged(tiny: Result) -> None:
    figure = from_json(tiny.to_json()).plot(recorded=tiny, predictions=[{"value": 5, "unit": "µs"}])
    assert "A packet of 64 bytes costs its sender" in figure.caption or "nothing to compare" in figure.caption
    assert "one at a call, 64 bytes" in figure.alt
    assert {claim.kind for claim, _ in judge(tiny)} == {tiny.kind}


@pytest.mark.parametrize(
    ("packets_per_softirq", "charged", "payer"),
    [(1.0, 1.0, "the sender"), (1.0, 0.6, "nobody"), (1e4, 1.0, "a kernel thread"), (10.0, 1.0, None),
     (np.nan, 1.0, None)],
)  # fmt: skip
def test_the_sender_pays_for_softirqs_that_were_counted(
    monkeypatch: pytest.MonkeyPatch, packets_per_softirq: float, charged: float, payer: str | None
) -> None:
    row = way("single", packets=packets_per_softirq) | {"charged_share": charged, "softirq_share": 0.4}
    monkeypatch.setattr(Result, "summary", lambda _: pd.DataFrame([row]))
    assert packets.payer(line()) == payer


# ---- claims, on CONSTRUCTED summaries ----


def way(
    name: str,
    packet: float = 3e3,
    softirq: float = 3e3,
    *,
    packets: float = 1.0,
    rate: float = 1e5,
    ksoftirqd: float = 0.001,
    half: float = 0.05,
    charged: float = 1.0,
    share: float = 0.5,
) -> Row:
    row: Row = {"way": name, "size_bytes": 64, "packets_per_s": rate, "ksoftirqd_per_softirq": ksoftirqd,
                "charged_share": charged, "softirq_share": share}  # fmt: skip
    for stem, value in (("sender{}_ns_per_packet", packet), ("ns{}_per_softirq", softirq),
                        ("packets{}_per_softirq", packets)):  # fmt: skip
        for part, factor in (("", 1), ("_lo", 1 - half), ("_hi", 1 + half)):
            row[stem.format(part)] = factor * value
    return row


PACED = way("paced", 20e3, 20e3, rate=1e4)
LARGE = way("segments", 700, 10e3, packets=14, share=0.8)
CASES: list[Case] = [
    ("004-030", HOLDS, [way("single"), way("segments", softirq=3.2e3, packets=14), PACED], "3 µs, one at a"),
    ("004-030", UNKNOWN, [way("single"), way("mmsg", softirq=3.2e3), PACED], "No softirq had several"),
    ("004-030", FAILS, [way("single"), LARGE], "10 µs, one large piece (14.0 packets"),
    ("004-030", FAILS, [way("single"), LARGE], "softirq, and at ticks /proc/stat calls 80 % of"),
    ("004-030", UNKNOWN, [way("single"), LARGE | {"softirq_share": 0.5}], "be that of the system calls: The"),
    ("004-030", UNKNOWN, [way("single"), LARGE | {"softirq_share": np.nan}], "/proc/stat calls unknown % of"),
    ("004-030", UNKNOWN, [way("single"), way("mmsg", softirq=5.5e3)],
     "2 times, and the intervals 2.85 µs to 3.15 µs and 5.22 µs to 5.78 µs:"),
    ("004-030", UNKNOWN, [way("single", softirq=np.nan), LARGE], "does not tell"),
    ("004-030", UNKNOWN, [way("single"), PACED], "does not tell"),
    ("004-030", UNKNOWN, [way("single", charged=0.5), LARGE], "was charged 50% of the time"),
    ("004-030", UNKNOWN, [way("single", packets=1e4), LARGE], "Next to no softirqs were counted"),
    ("004-031", HOLDS, [way("single", 30e3), PACED], "20 µs for each of 10,000 a second, 30 µs"),
    ("004-031", FAILS, [way("single"), PACED], "a second, 3 µs for each of 100,000. A sleep of the sender"),
    ("004-031", UNKNOWN, [way("single", 20e3), PACED], "19 µs to 21 µs and 19 µs to 21 µs overlap"),
    ("004-031", UNKNOWN, [way("single", rate=1.1e4), PACED], "hardly differ: packets of 64 bytes cost"),
    ("004-031", UNKNOWN, [PACED], "did not measure 'single'"),
    ("004-001", HOLDS, [way("single", ksoftirqd=0.9)], "0.9 times for each softirq"),
    ("004-001", FAILS, [way("single"), LARGE], "0.001 times for each softirq"),
    ("004-001", UNKNOWN, [way("single", ksoftirqd=0.3)], "0.5 for the fewest, which is 0.3: "),
    ("004-001", UNKNOWN, [way("single", ksoftirqd=0.9, packets=1e4)], "Next to no softirqs were counted"),
    ("004-001", UNKNOWN, [way("single", ksoftirqd=np.inf, packets=np.nan)], "Next to no softirqs were"),
    ("004-001", UNKNOWN, [way("single", ksoftirqd=np.nan)], "not seen from here"),
    ("002-005", HOLDS, [way("single", packets=1e4)], "for each 10000.00 packets"),
    ("002-005", FAILS, [way("single")], "of 64 bytes: a softirq (NET_RX) for each 1.00"),
    ("002-005", UNKNOWN, [way("single", ksoftirqd=0.9)], "may have been ksoftirqd"),
    ("002-005", UNKNOWN, [way("single", ksoftirqd=np.nan)], "may have been ksoftirqd"),
    ("002-005", UNKNOWN, [way("single", packets=10)], "(interval 9.5 to 10)"),
    ("002-005", UNKNOWN, [way("single", packets=np.nan)], "does not tell"),
]  # fmt: skip
