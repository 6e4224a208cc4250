"""What watching costs, and the tools that it is compared with: structure and relations, never times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sched_labs.core import registry
from sched_labs.core.errors import ProbeError, ResultError
from sched_labs.core.result import Result, load
from sched_labs.probes import peers, runqlat, switches
from sched_labs.probes.channel import Availability
from sched_labs.probes.helper.btf import PLACE, Btf
from sched_labs.topics.scheduler_latency.observer import experiment, figure
from sched_labs.topics.scheduler_latency.observer import figure_rates as rates

pytestmark = pytest.mark.usefixtures("own_lock")


@pytest.mark.parametrize("kind", ["observer.cost", "observer.rates", "offcpu.stacks", "switchgraph.window"])
def test_where_nothing_can_watch_the_notebook_shows_a_recorded_run(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ProbeError("There is none.", "Get one.")

    none = Availability(False, "There is none.", "Get one.")
    for probe in (runqlat, switches):
        monkeypatch.setattr(probe, "available", lambda: none)
        monkeypatch.setattr(probe, "watch", refuse)
    monkeypatch.setattr(peers, "running", refuse)
    run = registry.find(kind)
    with pytest.raises(ProbeError) as refused:
        run(profile="tiny", progress=False, save=False)
    assert refused.value.lacking
    monkeypatch.setattr("sched_labs.run.base.in_notebook", lambda: True)
    shown = run(profile="tiny", progress=False, save=False)
    assert shown.stands_in and "Not measured on this machine" in shown.plot().provenance


def test_observers_take_turns(tiny: Callable[[str], Result], tmp_path: Path) -> None:
    result = tiny("observer.cost")
    observers = result.facts["observers"]
    assert observers[0] == "none"
    assert set(result.data["observer"]) == set(observers)
    lacking = [note.text for note in result.notes if note.level == "missing"]
    assert len(lacking) == len(experiment.OBSERVERS) - len(observers)
    assert ("ours" in observers) == runqlat.available().ok
    assert (result.data["switches"] >= 0.98 * 2 * result.parameters["round_trips"]).all()
    assert result.data["ns_per_switch"].to_numpy() == pytest.approx(
        (result.data["elapsed_ns"] / result.data["switches"]).to_numpy()
    )
    summary = result.summary().set_index("observer")
    assert summary.loc["none", "ratio"] == 1 and summary.loc["none", "added_ns"] == 0
    assert ((summary["ratio_lo"] <= summary["ratio"]) & (summary["ratio"] <= summary["ratio_hi"])).all()
    assert (summary["trials"] == result.parameters["trials"]).all()
    assert ("perf" in observers) == bool(result.facts["data_bytes"])
    again = load(result.save(tmp_path / "kept.json"))
    pd.testing.assert_frame_equal(again.summary(), result.summary())
    if len(observers) > 1:
        drawn = result.plot(recorded=result, predictions=[{"value": 1, "unit": "µs"}])
        assert "To a switch of" in drawn.caption and "Dashed" in drawn.alt
        assert list(figure.frame(result)["added_ns"]) == sorted(figure.frame(result)["added_ns"])


def test_a_run_without_observers_has_no_figure() -> None:
    result = experiment.cost(profile="tiny", progress=False, save=False, observers=[])
    assert set(result.data["observer"]) == {"none"}
    with pytest.raises(ResultError):
        figure.frame(result)


def test_a_tool_that_is_not_there_or_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peers, "_PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(peers.PeerError, match="not installed"), peers.running("runqlat"):
        pass
    program = tmp_path / "runqlat-bpfcc"
    program.write_text(f"#!{sys.executable}\nraise SystemExit('no headers')\n")
    program.chmod(0o755)
    with pytest.raises(peers.PeerError, match="no headers"), peers.running("runqlat-bpfcc"):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(peers.PeerError, match="needs root"), peers.running("perf"):
        pass


def test_a_histogram_of_powers_of_two_is_read() -> None:
    said = "     usecs : count\n  0 -> 1  : 7  |**|\n  2 -> 3 : 0 ||\n  1024 -> 2047 : 12 |*|\n"
    assert peers.Peer("runqlat", said).histogram() == {0: 7, 2: 0, 1024: 12}


def test_perfs_table_of_delays_is_read() -> None:
    said = (
        "  Task   |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    |\n"
        "  burn:4711      |    193.768 ms |       61 | avg:   7.159 ms | max:  12.925 ms | max start: 2 s |\n"
        "  kworker/1:3-eve:10170 |      0.020 ms |        1 | avg:   0.000 ms | max:   0.000 ms |\n"
        "  TOTAL:                |    625.127 ms |      138 |\n"
    )
    delays = peers.Peer("perf", latency=said).delays()
    assert set(delays) == {4711, 10170}
    assert delays[4711] == (61, pytest.approx(7_159_000), pytest.approx(12_925_000))


def test_summary_of_known_trials() -> None:
    turns_ns = (-1, 0, 400)  # one turn of each start was disturbed: a start counts with its median
    rows = [
        {"observer": name, "block": n, "ns_per_switch": base_ns + n + off_ns}
        for name, base_ns in (("none", 1000.0), ("ours", 1100.0))
        for n in range(9)
        for off_ns in turns_ns
    ]
    table = Result("observer.cost", pd.DataFrame(rows), {}, {}).summary().set_index("observer")
    assert table.loc["ours", "added_ns"] == 100 and (table.trials == 9).all()
    assert 90 < table.loc["ours", "added_lo_ns"] <= 100 <= table.loc["ours", "added_hi_ns"] < 110
    assert table.loc["ours", "share_at_10k_percent"] == pytest.approx(0.1)


def test_stand_in_headers_have_the_fields_where_this_kernel_has_them(tmp_path: Path) -> None:
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel carries no BTF")
    folder = peers.stand_in_headers(tmp_path / "headers")
    btf = Btf(Path(PLACE).read_bytes())
    task = btf.find(btf.STRUCT, b"task_struct")
    names = re.findall(r" (\w+);", (folder / "include/linux/sched.h").read_text().partition("task_struct")[2])
    fields = [name for name in names if btf.field(task, name.encode())]
    assert len(fields) == 4
    # The stand-ins bring types of their own; a program for this machine has the C library's.
    header = tmp_path / "sched.h"
    text = (folder / "include/linux/sched.h").read_text()
    header.write_text(text.replace("#include <linux/types.h>", ""))
    lines = ["#include <stdio.h>", "#include <stddef.h>", '#include "sched.h"', "int main(void) {"]
    lines += [f'printf("%zu\\n", offsetof(struct task_struct, {name}));' for name in fields] + ["}"]
    source = tmp_path / "where.c"
    source.write_text("\n".join(lines))
    subprocess.run(["cc", "-o", tmp_path / "where", source], check=True)
    said = subprocess.run([tmp_path / "where"], check=True, capture_output=True, text=True).stdout.split()
    assert [int(word) for word in said] == [btf.field(task, name.encode())[0] for name in fields]


def test_observers_at_given_rates(tmp_path: Path) -> None:
    observers = ["ours_attributed", "runqlat"]
    try:
        result = experiment.rates(
            profile="tiny", progress=False, save=False, observers=observers, bursts_us=[5, 200]
        )
    except ProbeError as error:
        if not error.lacking:
            raise
        pytest.skip(error.what)
    table = result.summary()
    alone = table[table["observer"] == "none"].set_index("burst_us")
    assert alone.loc[5, "switches_per_s"] > alone.loc[200, "switches_per_s"] > 0
    assert alone.loc[5, "ns_per_round"] < alone.loc[200, "ns_per_round"]
    assert (result.data["switches"] <= result.data["rounds"]).all()
    missing = [note.text for note in result.notes if note.level == "missing"]
    assert set(table["observer"]) >= {"none"} and len(set(table["observer"])) == 3 - len(missing)
    again = load(result.save(tmp_path / "kept.json"))
    pd.testing.assert_frame_equal(again.summary(), table)
    if len(missing) < 2:
        drawn = result.plot(recorded=result)
        assert "switches a second" in drawn.caption and len(drawn.data) == 2 * (2 - len(missing))


def test_rates_of_known_trials() -> None:
    rows = [
        {"trial": t, "observer": name, "burst_us": 5, "rounds": 9, "switches": 9, "switches_per_s": 1e5,
         "ns_per_round": ns + t}
        for t in range(3)
        for name, ns in (("none", 1000.0), ("runqlat", 1200.0))
    ]  # fmt: skip
    result = Result(kind="observer.rates", data=pd.DataFrame(rows), machine={}, parameters={})
    row = result.summary().set_index("observer").loc["runqlat"]
    assert row["added_ns"] == pytest.approx(200) and row["slower_percent"] == pytest.approx(20, rel=0.01)
    assert row["slower_lo_percent"] <= row["slower_percent"] <= row["slower_hi_percent"]


def test_what_is_within_the_noise_is_not_told_as_a_number() -> None:
    both = pd.DataFrame(
        {"observer": ["runqlat", "ours"], "added_ns": [-1500.0, -1100.0], "added_lo_ns": [-2000.0, -1900.0]}
    )
    assert figure._caption(both, 6100.0) == (
        "To a switch of 6.1 µs, runqlat (libbpf-tools) adds nothing that stands clear of the noise, our "
        "probe nothing that stands clear of the noise."
    )
    rows = [("runqlat", 5e3, -0.29, -1.1), ("runqlat", 3e5, 21.7, 10.7), ("ours", 5e3, 0.5, 0.1),
            ("ours", 3e5, 6.1, 5.0)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["observer", "switches_per_s", "slower_percent", "slower_lo_percent"])
    assert rates._caption(table) == (
        "At 5,000 and at 300,000 switches a second, our probe slows the threads down by 0.5 % and by 6.1 %; "
        "runqlat (libbpf-tools) not measurably and by 22 %."
    )
    assert "our probe slows the threads down not measurably at either rate." in rates._caption(
        table.iloc[2:].assign(slower_lo_percent=-1.0)
    )
    assert "not measurably at either rate." in rates._caption(table.assign(slower_lo_percent=float("nan")))
