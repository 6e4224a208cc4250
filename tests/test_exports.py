"""What other programs read of a watch, read back."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_timeline import result as result  # a made up watch, as a fixture

from sched_labs.core.errors import ParameterError, ResultError
from sched_labs.core.result import Result
from sched_labs.watching import exports, lanes


def test_a_trace_holds_every_turn_and_every_waking(result: Result, tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    protos: Any = importlib.import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = protos.Trace()
    trace.ParseFromString(exports.write(result, tmp_path / "a.perfetto").read_bytes())
    tree = trace.packet[0].process_tree
    assert [(one.tid, one.tgid, one.name) for one in tree.threads] == [(7, 7, "<server>")]
    bundles = [packet.ftrace_events for packet in trace.packet if packet.HasField("ftrace_events")]
    assert [one.cpu for one in bundles] == [0]
    times = [event.timestamp for event in bundles[0].event]
    assert times == sorted(times)
    switches = [event for event in bundles[0].event if event.HasField("sched_switch")]
    turns = lanes.turns(result)
    assert [one.timestamp for one in switches] == turns["at_ns"].tolist()
    assert [one.sched_switch.next_pid for one in switches] == turns["tid"].tolist()
    assert [one.sched_switch.prev_pid for one in switches] == turns["prev_tid"].tolist()
    assert switches[0].sched_switch.next_comm == "<server>"
    wakings = [event for event in bundles[0].event if event.HasField("sched_waking")]
    assert [(one.pid, one.sched_waking.pid) for one in wakings] == [(9, 7), (9, 7)]
    assert [one.timestamp for one in wakings] == turns["waking_ns"].dropna().tolist()


def test_parquet_comes_back_as_it_was(result: Result, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    again = pd.read_parquet(exports.write(result, tmp_path / "a.parquet"))
    pd.testing.assert_frame_equal(again, lanes.turns(result), check_dtype=False)
    again = pd.read_parquet(exports.write(result, tmp_path / "a.parquet", "threads"))
    assert again["tid"].tolist() == [7]


def test_csv_comes_back_as_it_was(result: Result, tmp_path: Path) -> None:
    again = pd.read_csv(exports.write(result, tmp_path / "a.csv"))
    pd.testing.assert_frame_equal(again, lanes.turns(result), check_dtype=False)
    again = pd.read_csv(exports.write(result, tmp_path / "a.csv", "longest"))
    assert again["waited_ns"].tolist() == [800_000, 8_000]


HOSTILE = ("=cmd|'/C c'!A0", "+1", "-1+2", "@SUM(1)", "\tx", "\r=1", 'a;b\nc 99 "q",', "\ufffd</script>")


def test_what_a_thread_is_called_is_no_formula_and_no_line_of_its_own(result: Result, tmp_path: Path) -> None:
    """A program may call its threads whatever it likes, and the file is opened by somebody else."""
    for name in HOSTILE:
        result.data["name"] = name
        result.tables["turns"]["name"] = name
        result.tables["stacks"] = pd.DataFrame(
            {"name": [name], "state": ["S"], "stack": ["a;b"], "times": [1], "off_cpu_ns": [5000]}
        )
        for table in ("turns", "threads", "stacks"):
            again = pd.read_csv(exports.write(result, tmp_path / "a.csv", table), dtype=str)
            assert len(again) == len(exports._table(result, table))
            for cell in again["name"]:
                assert cell.removeprefix("'") == name.replace("\r", " ") and cell.strip()[0] not in "=+-@", (
                    cell
                )
        (line,) = exports.write(result, tmp_path / "a.folded").read_text().splitlines()
        frames, _, weight = line.rpartition(" ")
        assert len(frames.split(";")) == 4 and weight == "5" and line.isprintable()
        if importlib.util.find_spec("perfetto"):
            assert exports.write(result, tmp_path / "a.perfetto").stat().st_size > 100


def test_what_cannot_be_written_is_refused(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ParameterError, match="does not say"):
        exports.write(result, tmp_path / "a.txt")
    with pytest.raises(ParameterError, match="no table 'stacks'"):
        exports.write(result, tmp_path / "a.csv", "stacks")
    with pytest.raises(ResultError, match="no stacks"):
        exports.write(result, tmp_path / "a.folded")
    del result.tables["turns"]
    with pytest.raises(ResultError, match="no timeline"):
        exports.write(result, tmp_path / "a.csv")

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    for suffix in (".perfetto", ".parquet"):
        with pytest.raises(ResultError, match="not installed"):
            exports.check(f"a{suffix}")
    assert list(tmp_path.iterdir()) == []
