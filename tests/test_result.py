"""Results: what is saved comes back, and damage is named."""

from __future__ import annotations

import getpass
import json
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sched_labs.core import result as results
from sched_labs.core.errors import ParameterError, ResultError
from sched_labs.core.result import Note, Result, from_json, latest, load
from sched_labs.core.version import __version__
from sched_labs.draw.compare import compare


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def made(**changes: Any) -> Result:
    fields: dict[str, Any] = {
        "kind": "context_switch.matrix",
        "data": pd.DataFrame(
            {
                "mechanism": ["pipe", "futex", None],
                "elapsed_ns": [1, 2**60, -3],
                "share": [0.1, float("nan"), 1e-300],
                "flagged": [True, False, True],
            }
        ),
        "machine": {"cpu_model": "A CPU <3", "cpus": 2, "kernel": "6.18.1", "scheduler": "EEVDF", "hz": 250},
        "parameters": {"profile": "tiny", "trials": 3, "sizes": [1, 2]},
        "notes": [Note("flag", "doubtful <b>"), Note("info", "µs × 2")],
        "surroundings": {"steal_s": None, "others_share": 0.25},
        "recorded_at": "2026-11-21T05:00:00+00:00",
        "duration_s": 1.5,
    }
    return Result(**(fields | changes))


def test_a_saved_result_comes_back_whole(own_folder: Path) -> None:
    original = made()
    again = load(original.save(own_folder / "a.json"))
    for part in ("kind", "machine", "parameters", "notes", "surroundings", "recorded_at", "duration_s"):
        assert getattr(again, part) == getattr(original, part)
    assert again.path == own_folder / "a.json" and again.library == __version__
    assert list(again.data.columns) == list(original.data.columns)
    assert again.data.mechanism.tolist()[:2] == ["pipe", "futex"] and pd.isna(again.data.mechanism[2])
    assert again.data.elapsed_ns.tolist() == [1, 2**60, -3]
    assert again.data.elapsed_ns.dtype == "int64" and again.data.flagged.dtype == bool
    assert again.data.share.tolist()[::2] == [0.1, 1e-300] and np.isnan(again.data.share[1])
    assert from_json(again.to_json()).to_json() == original.to_json()


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame(),
        pd.DataFrame({"word": pd.Series([], dtype=object), "time_ns": pd.Series([], dtype="int64")}),
        pd.DataFrame({"share": [float("nan")] * 3}),
        pd.DataFrame({"word": ["", "ä", "a\nb", '"']}),
        pd.DataFrame({"word": pd.Categorical(["b", "a", "b"])}),
        pd.DataFrame({"count": np.array([0, 2**64 - 1], dtype="uint64")}),
        pd.DataFrame({"time_ns": [1, 2, 3]}, index=[7, 5, 7]),
    ],
)
def test_odd_tables_come_back(data: pd.DataFrame) -> None:
    again = from_json(made(data=data).to_json()).data
    assert len(again) == len(data) and list(again.columns) == list(data.columns)
    for name in data.columns:
        before, after = data[name].astype(object).tolist(), again[name].astype(object).tolist()
        assert all(a == b or (pd.isna(a) and pd.isna(b)) for a, b in zip(before, after, strict=True))


def test_numpy_values_in_parameters_are_kept_as_numbers() -> None:
    given = {"size": np.int64(4096), "sizes": (1, 2), "x": np.float64(0.5)}
    again = from_json(made(parameters=given).to_json())
    assert again.parameters == {"size": 4096, "sizes": [1, 2], "x": 0.5}


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"x": float("inf")}},
        {"parameters": {"x": object()}},
        {"data": pd.DataFrame({"x": [float("inf")]})},
    ],
)
def test_what_json_does_not_have_is_refused_and_leaves_no_file(
    changes: dict[str, Any], own_folder: Path
) -> None:
    with pytest.raises(ResultError, match="cannot be kept"):
        made(**changes).save(own_folder / "a.json")
    assert not (own_folder / "a.json").exists()


def change(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda head: head.update({key: value})


def column(number: int, **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda head: head["columns"][number].update(changes)


@pytest.mark.parametrize(
    "damage",
    [
        *(
            pytest.param(lambda head, key=key: head.pop(key), id=f"no {key}")
            for key in ("kind", "machine", "parameters", "notes", "surroundings", "rows", "columns", "timing")
        ),
        change("kind", 3),
        change("machine", []),
        change("parameters", "x"),
        change("notes", {}),
        change("notes", [3]),
        change("notes", [{"level": "shout", "text": "x"}]),
        change("notes", [{"level": "info"}]),
        change("recorded_at", None),
        change("duration_s", "long"),
        change("timing", "guessed"),
        change("rows", 4),
        change("rows", None),
        change("columns", 3),
        change("columns", [3]),
        change("columns", [{"name": "x"}]),
        column(0, codes=[0, 1, 99]),
        column(0, codes=None),
        column(0, words=None),
        column(1, values=[1, 2]),
        column(1, values=[1, "two", 3]),
        column(1, values=[1, None, 3]),
        column(1, values=[1, 2**70, 3]),
        column(1, type="float1024"),
        column(1, type="object"),
        column(1, type=None),
        column(2, values="abc"),
        # What pandas would have made something of.
        column(1, name="share"),
        column(1, name=7),
        column(1, values=["1", "2", "3"]),
        column(1, values=[1.5, 2, 3]),
        column(1, values=[True, 2, 3]),
        column(2, values=["0.1", None, 1.0]),
        column(3, values=[1, 0, 1]),
        column(0, words=[1, 2]),
        column(0, codes=[0, 1, -2]),
        column(0, codes=[0.0, 1.0, -1.0]),
        change("kind", "../../x"),
        change("kind", ""),
        change("kind", "a/b"),
        change("tables", {"waits": {"a": [1]}}),
        change("tables", {"waits": [[1]]}),
        change("notes", [{"level": "info", "text": 7}]),
    ],
)
def test_a_damaged_file_is_named(damage: Callable[[dict[str, Any]], Any], own_folder: Path) -> None:
    head = json.loads(made().to_json())
    damage(head)
    file = own_folder / "damaged.json"
    file.write_text(json.dumps(head))
    with pytest.raises(ResultError, match=r"damaged\.json is damaged"):
        load(file)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b'{"format": "other"}', b"\xff\xfe", b"[" * 100_000, b"\x00" * 50]
)
def test_what_is_no_result_is_said_to_be_none(content: bytes, own_folder: Path) -> None:
    file = own_folder / "a.json"
    file.write_bytes(content)
    with pytest.raises(ResultError, match=r"a\.json.*\n.*Result\.save"):
        load(file)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(number: str) -> None:
    with pytest.raises(ResultError, match="no number of JSON"):
        from_json(made().to_json().replace("1e-300", number))


def test_what_never_ends_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LARGEST_BYTES", 1 << 20)
    with pytest.raises(ResultError, match="larger than any result"):
        load("/dev/zero")


@pytest.mark.parametrize("kind", ["../../x", "/etc", "", "a/../b", "A", ".", "a\0", "\n", "x" * 9 + "\n"])
def test_no_kind_names_a_folder_elsewhere(kind: str, own_folder: Path) -> None:
    with pytest.raises(ParameterError, match="no kind of result"):
        made(kind=kind)
    with pytest.raises(ParameterError, match="no kind of result"):
        latest(kind)
    assert list(own_folder.iterdir()) == []


def test_two_runs_that_end_in_one_second_are_both_kept() -> None:
    with ThreadPoolExecutor(8) as several:
        paths = list(several.map(lambda _: made().save(), range(16)))
    assert len(set(paths)) == 16


@pytest.mark.parametrize("cut", [1, 100, 400, -2])
def test_a_file_cut_short_is_refused(cut: int, own_folder: Path) -> None:
    file = own_folder / "a.json"
    file.write_text(made().to_json()[:cut])
    with pytest.raises(ResultError):
        load(file)


def test_another_version_names_both() -> None:
    head = json.loads(made().to_json()) | {"version": 99}
    with pytest.raises(ResultError, match="result format 99; this library reads 1"):
        from_json(json.dumps(head))


def test_a_missing_file_and_a_folder_are_named(own_folder: Path) -> None:
    for path in (own_folder / "absent.json", own_folder):
        with pytest.raises(ResultError, match="Cannot read"):
            load(path)


def test_every_run_is_kept_and_the_latest_is_the_last_one_saved() -> None:
    assert latest("context_switch.matrix") is None
    for minute in (1, 0):  # saved out of order: the time of recording counts
        made(recorded_at=f"2026-11-21T05:0{minute}:00+00:00", duration_s=minute).save()
    for again in range(12):  # twelve in one second
        path = made(recorded_at="2026-11-21T05:02:00+00:00", duration_s=100 + again).save()
        newest = latest("context_switch.matrix")
        assert newest and newest.duration_s == 100 + again and newest.path == path
    assert latest("warmup.sweep") is None


def test_a_folder_that_cannot_be_written_is_named(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_folder / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(own_folder / "file"))
    with pytest.raises(ResultError, match=r"Cannot write .*file.*\n.*XDG_DATA_HOME"):
        made().save()


def test_the_provenance_says_where_when_how() -> None:
    line = made().provenance_line()
    for part in ("A CPU <3", "2 CPUs", "Linux 6.18.1 (EEVDF, HZ 250)", "2026-11-21 05:00:00 UTC", "tiny"):
        assert part in line
    assert "virtual machine" in made(timing="vm-kvm").provenance_line()
    assert "unknown CPU" in made(machine={}).provenance_line()


def test_a_real_machine_is_saved_without_the_names_of_host_and_user() -> None:
    from sched_labs import machine

    facts = machine.survey().provenance()
    from_json(made(machine=facts).to_json())  # it can be saved
    words = {str(value) for value in facts.values()}
    assert platform.node() not in words and getpass.getuser() not in words
    assert not {"host", "hostname", "node", "user", "login"} & set(facts)


def test_a_page_shows_notes_as_text() -> None:
    html = made()._repr_html_()
    assert "doubtful &lt;b&gt;" in html and "A CPU &lt;3" in html and "<b>" not in html


def test_wrong_levels_and_timings_are_refused() -> None:
    with pytest.raises(ParameterError):
        Note("shout", "x")
    with pytest.raises(ParameterError):
        made(timing="guessed")
    assert made().flags == ["doubtful <b>"]


def test_results_of_different_kinds_are_not_compared() -> None:
    for several in ((), (made(),), (made(), made(kind="warmup.sweep"))):
        with pytest.raises(ResultError, match="Cannot compare"):
            compare(*several)


def test_every_recorded_run_in_the_package_can_be_read() -> None:
    from sched_labs.core import registry

    for kind in registry.names():
        run = results.recorded(kind)
        assert run is None or (run.kind == kind and run.machine.get("kernel") and len(run.data))
    assert results.recorded("no.such") is None
