"""Packets received by a thread of the kernel, tiny: structure and relations, and that nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_cases import Case
from waiting import wait_until

from sched_labs import workloads
from sched_labs.claims import FAILS, HOLDS, UNKNOWN
from sched_labs.core.errors import PlacementError
from sched_labs.core.result import Result
from sched_labs.topics.switching_less.napi import experiment as napi

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="network devices of one's own need root")


@pytest.fixture(scope="module")
def given(tiny: Callable[[str], Result]) -> Result:
    return tiny("napi.threaded")


def test_every_way_is_measured_with_a_hog_and_without(given: Result) -> None:
    blocks = given.data.groupby(["way", "hog"]).trial.nunique()
    left_out = sum("could not be received" in note.text for note in given.notes)
    assert ("none", True) in blocks.index
    assert len(blocks) == 1 + 2 * (len(napi.WAYS) - left_out)
    assert (blocks == given.parameters["trials"]).all()


def test_packets_arrive_and_only_a_thread_uses_time_of_a_thread(given: Result) -> None:
    data = given.data
    sent = data[data.way != "none"]
    assert (sent.received > 0).all() and (sent.received <= sent.sent).all()
    assert (data.sent[data.way == "none"] == 0).all()
    threads = sent.way.isin(["thread", "fifo"])
    assert (sent.thread_cpu_ns[threads] > 0).all() and (sent.thread_cpu_ns[~threads] == 0).all()
    known = sent[sent.p99_ns.notna()]
    assert (known.p50_ns > 0).all() and (known.p50_ns <= known.p99_ns).all()


def test_only_a_hog_that_runs_works(given: Result) -> None:
    data = given.data
    late = 1  # it may finish its last step in the block after its own
    ran = data.hog & (data.hog_cpu_ns > 1e6)  # hundreds of steps; other programs may have had the CPU
    assert (data.hog_steps[~data.hog] <= late).all() and (data.hog_steps[ran] > late).all()
    table = given.summary()
    assert table.hog_ns_per_packet[~table.hog].isna().all()
    assert (
        table.hog_lo_ns_per_packet[table.hog].notna().all() == (data.hog_steps[data.way == "none"] > 0).any()
    )


def test_a_hog_that_never_ran_has_no_speed(given: Result) -> None:
    kept = given.data.copy()
    try:
        given.data.loc[given.data.way == "none", ["hog_steps", "hog_cpu_ns"]] = 0
        assert given.summary().hog_ns_per_packet.isna().all()
    finally:
        given.data = kept


def threads_of_ours() -> set[str]:
    """The kernel's threads that poll devices of this experiment."""
    names = (_comm(path) for path in Path("/proc").glob("[0-9]*/comm"))
    return {name for name in names if name.startswith("napi/sl")}


def _comm(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def gone(before: set[str]) -> bool:
    """The kernel takes namespaces away when it has time."""
    return wait_until(lambda: threads_of_ours() <= before)


@ROOT
@pytest.mark.usefixtures("given")
def test_no_device_is_seen_outside_and_none_is_left_when_its_program_is_killed(tmp_path: Path) -> None:
    if _comm(Path("/proc/2/comm")) != "kthreadd":
        pytest.skip("a container does not show the kernel's threads")
    before, devices = threads_of_ours(), set(Path("/sys/class/net").iterdir())
    words = ["--way", "thread", "--block-ms", "5000", "--cpu", str(max(os.sched_getaffinity(0)))]
    script = (
        "import os, sys, time\n"
        "from sched_labs import workloads\n"
        f"program = workloads.start('napi', {words!r})\n"
        "program.go()\n"
        "print('going', flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout and parent.stdout.readline() == "going\n"
        assert wait_until(lambda: threads_of_ours() > before)
        assert set(Path("/sys/class/net").iterdir()) == devices
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout:
            parent.stdout.close()
    assert gone(before)


@pytest.mark.usefixtures("own_lock")
def test_without_root_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("on one CPU the experiment refuses for that reason, and not for the missing right")
    monkeypatch.setattr(napi.os, "geteuid", lambda: 1000)
    with pytest.raises(PlacementError, match="root's to have") as refused:
        napi.threaded(profile="tiny", save=False, progress=False)
    assert refused.value.lacking


def test_a_machine_without_such_devices_is_lacking_and_a_way_is_left_out() -> None:
    class Notes:
        def __init__(self) -> None:
            self.said: list[str] = []

        def note(self, level: str, text: str) -> None:
            self.said.append(f"{level}: {text}")

    notes: Any = Notes()
    with pytest.raises(PlacementError, match=r"\(veth\): operation not supported") as refused:
        napi._lacks(notes, workloads.launch.parse("missing what=veth errno=95"))
    assert refused.value.lacking
    napi._lacks(notes, workloads.launch.parse("missing way=thread errno=3"))
    napi._lacks(notes, workloads.launch.parse("missing way=interrupt errno=2"))
    assert notes.said == [
        "missing: Packets could not be received in the way 'thread': the kernel's threads are not seen from "
        "here.",
        "missing: Packets could not be received in the way 'interrupt': no such file or directory.",
    ]


def constructed(charged: float, nobody: float = 0, lost: bool = False) -> Result:
    """A CONSTRUCTED run: 1,000 packets, a step of 100 ns, and so many ns charged or lost for each packet."""
    rows: list[dict[str, Any]] = []
    for trial in range(6):
        quiet: dict[str, Any] = {"way": "none", "sent": 0, "received": 0, "sender_cpu_ns": 1e6,
                                 "hog_steps": 500_000, "hog_cpu_ns": 50_000_000}  # fmt: skip
        interrupt: dict[str, Any] = {"way": "interrupt", "sent": 1000, "received": 1000, "sender_cpu_ns": 5e6,
                                     "hog_steps": 400_000,
                                     "hog_cpu_ns": 40_000_000 + 1000 * charged + trial}  # fmt: skip
        for row in (quiet, interrupt):
            wait = 50_000_000 - row["hog_cpu_ns"] - 1000 * nobody * (row["way"] != "none")
            rows.append(row | {"hog": True, "trial": trial, "elapsed_ns": 50_000_000, "hog_wait_ns": wait,
                               "receiver_cpu_ns": 1e6, "thread_cpu_ns": 0,
                               "thread_wait_ns": 0, "p50_ns": 1e4,
                               "p99_ns": np.nan if lost and not trial else 4e4})  # fmt: skip
    return Result(kind="napi.threaded", data=pd.DataFrame(rows), machine={}, parameters={})


def test_the_accounts_add_up() -> None:
    row = constructed(1500).summary().iloc[0]
    assert row.hog_ns_per_packet == pytest.approx(1500, abs=0.01)
    assert row.nobody_ns_per_packet == pytest.approx(0, abs=0.01)
    assert row.sender_ns_per_packet == 4000 and row.hog_wait_percent == pytest.approx(17, abs=0.1)
    assert napi.payer(constructed(1500)) == "the program that was interrupted"
    assert napi.payer(constructed(0, 1500)) == "nobody"
    assert napi.payer(constructed(50)) is None


def test_without_an_account_of_waiting_no_time_is_told_as_nobodys() -> None:
    run = constructed(1500)
    run.data["hog_wait_ns"] = 0
    row = run.summary().iloc[0]
    assert np.isnan(row.hog_wait_percent) and np.isnan(row.nobody_ns_per_packet)
    assert row.hog_ns_per_packet == pytest.approx(1500, abs=0.01)
    assert napi.payer(run) == "the program that was interrupted"
    quiet = constructed(50)
    quiet.data["hog_wait_ns"] = 0
    assert napi.payer(quiet) is None


def test_a_charge_below_nothing_in_the_senders_call_makes_each_charge_a_lower_bound() -> None:
    """CONSTRUCTED: `call` like `interrupt`, with a hog that is charged 500 ns less than nothing."""
    run, call = constructed(1500), constructed(-500)
    call.data = call.data[call.data.way != "none"].assign(way="call")
    run.data = pd.concat([run.data, call.data], ignore_index=True)
    row = run.summary().set_index("way").loc["interrupt"]
    assert row.hog_lo_ns_per_packet == pytest.approx(1500, abs=0.01)
    assert np.isnan(row.hog_ns_per_packet) and np.isnan(row.hog_hi_ns_per_packet)
    assert napi.payer(run) == "the program that was interrupted"
    assert "is not told" in run.plot().caption and "nan" not in run.plot().alt


def test_beside_a_sender_on_the_same_core_the_hog_has_no_charge() -> None:
    run = constructed(1500)
    run.parameters["sender_shares_core"] = True
    assert run.summary().hog_lo_ns_per_packet.isna().all() and napi.payer(run) is None


def test_a_trial_that_lost_too_many_packets_has_no_p99_and_the_way_has_none() -> None:
    lost = constructed(1500, lost=True)
    assert np.isnan(lost.summary().p99_ns.iloc[0])
    assert "many are lost" in lost.plot().caption


# ---- claims, on CONSTRUCTED summaries ----


def way(
    name: str, late: float = 40e3, charged: float = 0, *, half: float = 0.1, received: float = 1
) -> dict[str, Any]:
    row: dict[str, Any] = {"way": name, "hog": True, "received_share": received, "thread_ns_per_packet": 1000}
    for part, factor in (("", 0), ("_lo", -1), ("_hi", 1)):
        row[f"p99{part}_ns"] = late * (1 + factor * half)
        row[f"hog{part}_ns_per_packet"] = charged + factor * 50
    return row


def unlimited(row: dict[str, Any]) -> dict[str, Any]:
    """The same where only a lower bound of what the hog is charged is known."""
    return row | {"hog_ns_per_packet": np.nan, "hog_hi_ns_per_packet": np.nan}


INTERRUPT = way("interrupt", charged=1500)
CASES: list[Case] = [
    ("napi-own", FAILS, [INTERRUPT], "was charged 1.5 µs for each packet"),
    ("napi-own", HOLDS, [way("interrupt", charged=20)], "charged no CPU time"),
    ("napi-own", HOLDS, [way("interrupt", charged=120)], "charged 120 ns for each packet (interval 70 ns"),
    ("napi-own", HOLDS, [way("interrupt", charged=120)], "Up to 200 ns counts as none"),
    ("napi-own", UNKNOWN, [way("interrupt", charged=200)], "spans a limit"),
    ("napi-own", UNKNOWN, [way("interrupt", charged=-1000)], "without packets (interval −1.05 µs to"),
    ("napi-own", UNKNOWN, [way("thread")], "did not measure"),
    ("napi-own", UNKNOWN, [way("interrupt", charged=np.nan)], "got none done"),
    ("napi-own", FAILS, [unlimited(INTERRUPT)], "at least 1.45 µs for each packet"),
    ("napi-own", UNKNOWN, [unlimited(way("interrupt", charged=20))], "no upper limit"),
    ("napi-pays", UNKNOWN, [unlimited(INTERRUPT), unlimited(way("thread"))], "no upper limit"),
    ("napi-pays", HOLDS, [INTERRUPT, way("thread")], "the thread used 1 µs of its own. Up to 725 ns"),
    ("napi-pays", FAILS, [INTERRUPT, way("thread", charged=1500)], "1.5 µs for each packet"),
    ("napi-pays", UNKNOWN, [INTERRUPT, way("thread", charged=725)], "spans a limit"),
    ("napi-pays", UNKNOWN, [INTERRUPT, way("thread", charged=-1000)], "by a thread than without packets"),
    ("napi-pays", UNKNOWN, [way("interrupt"), way("thread")], "Nor does it pay"),
    ("napi-pays", UNKNOWN, [way("interrupt", charged=-1000), way("thread")], "by interrupt is open"),
    ("napi-pays", UNKNOWN, [way("interrupt", charged=200), way("thread")], "Whether it pays by interrupt is"),
    ("napi-steadier", FAILS, [INTERRUPT, way("thread", 4e6)], "4 ms (3.6 ms to 4.4 ms) with an ordinary"),
    ("napi-steadier", FAILS, [INTERRUPT, way("thread", received=0.5)], "50% of the packets were lost with"),
    ("napi-steadier", HOLDS, [INTERRUPT, way("thread", 20e3)], "p99 was 20 µs (18 µs to 22 µs) with"),
    ("napi-steadier", UNKNOWN, [INTERRUPT, way("thread")], "overlap ("),
    ("napi-steadier", UNKNOWN, [way("interrupt", np.nan), way("thread", received=0.5)], "By interrupt a"),
    ("napi-steadier", UNKNOWN, [INTERRUPT, way("thread", np.nan)], "A trial lost so many"),
    ("napi-fifo", HOLDS, [INTERRUPT, way("thread", 4e6), way("fifo")], "40 µs (36 µs to 44 µs) with a SCHED"),
    ("napi-fifo", FAILS, [INTERRUPT, way("thread", 4e6), way("fifo", 4e6)], "4 ms (3.6 ms to 4.4 ms) with a"),
    ("napi-fifo", UNKNOWN, [INTERRUPT, way("thread", 4e6), way("fifo", 80e3)], "spans twice ("),
    ("napi-fifo", UNKNOWN, [INTERRUPT, way("thread"), way("fifo")], "nothing to mend"),
    ("napi-fifo", UNKNOWN, [INTERRUPT, way("thread", 80e3), way("fifo")], "is open"),
]  # fmt: skip
