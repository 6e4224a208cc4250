"""A wake-up taken apart: its parts, what is left out where, and that idle CPUs idle as before afterwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sched_labs import machine, workloads
from sched_labs.core.errors import PlacementError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.probes import wakeups
from sched_labs.probes.channel import Availability
from sched_labs.steer import idling
from sched_labs.topics.scheduler_latency.wakepath import experiment as wakepath
from sched_labs.topics.scheduler_latency.wakepath import figure

pytestmark = pytest.mark.usefixtures("own_lock")


def test_each_wake_up_passes_its_stations_in_order(tiny: Callable[[str], Result]) -> None:
    run = tiny("wakepath.parts")
    data = run.data
    assert (data.wait_ns > 0).all() and (data.waker_ns > 0).all()
    assert data.groupby("situation").size().between(1, run.parameters["wakes"]).all()
    seen = data.dropna(subset=["switch_ns"])
    assert seen.empty or wakeups.available().ok
    assert ((seen.waking_ns >= 0) & (seen.waking_ns <= seen.wakeup_ns)).all()
    assert ((seen.wakeup_ns <= seen.switch_ns) & (seen.switch_ns <= seen.wait_ns)).all()
    told = seen.dropna(subset=["interrupt_ns"])
    assert told.interrupt_ns.between(told.waking_ns, told.switch_ns).all()


def test_parts_add_up(tiny: Callable[[str], Result]) -> None:
    table = figure.frame(tiny("wakepath.parts")).dropna()
    assert (table[list(figure.PARTS)] >= 0).all(axis=None)
    assert table[list(figure.PARTS)].sum(axis=1).to_list() == pytest.approx(table.whole_ns.to_list())


def test_what_the_probe_saw_belongs_to_its_own_wake_up() -> None:
    told = [workloads.launch.parse(f"wake at={at} called_ns=20 ns=50") for at in (100, 300, 900)]
    seen = pd.DataFrame(
        {
            "waking_ns": [110, 990],
            "interrupt_ns": [0, 992],
            "wakeup_ns": [120, 995],
            "switch_ns": [140, 999],
        }
    )  # none of the second; the last one came after its thread had run
    rows = wakepath._rows(told, seen)
    assert rows.loc[0, ["waking_ns", "wakeup_ns", "switch_ns"]].to_list() == [10, 20, 40]
    assert rows.loc[1:, list(wakepath.STATIONS)].isna().all(axis=None)
    assert rows.interrupt_ns.isna().all() and rows.wait_ns.to_list() == [50] * 3


def test_without_the_probe_the_wake_ups_are_timed_and_not_taken_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wakeups, "available", lambda: Availability(False, "No probe here.", "Get one."))
    monkeypatch.setattr(wakepath, "SITUATIONS", {"near": ""})
    run = wakepath.parts(profile="tiny", save=False, progress=False)
    assert run.data[list(wakepath.STATIONS)].isna().all(axis=None)
    assert any("No probe here." in note.text for note in run.notes if note.level == "missing")
    drawing = run.plot()
    assert figure.WHOLE[0] in drawing.alt and drawing.data.whole_ns.notna().all()


def test_situations_that_a_machine_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(situation: str) -> Any:
        if "poll" in situation:
            raise PlacementError(f"No {situation} here.", lacking=True)
        return nullcontext()

    class Notes:
        def __init__(self) -> None:
            self.said: list[str] = []

        def note(self, level: str, text: str) -> None:
            assert level == "missing"
            self.said.append(text)

    monkeypatch.setattr(wakepath, "_made", made)
    run = Notes()
    here = list(wakepath._possible(run))  # type: ignore[arg-type]
    if len(machine.survey().cpus_allowed) > 1:
        assert here == ["near", "idle", "spinner"] and len(run.said) == 2
    else:
        assert here == ["near"] and len(run.said) == 1


# ---- the settings -----------------------------------------------------------------------------------------


def governed(tree: Path, governor: str, state: str) -> Path:
    folder = tree / "sys/devices/system/cpu"
    for name, text in (("cpuidle/current_governor", governor), ("cpu0/cpuidle/state0/name", state)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    return tree


def test_idle_cpus_poll_for_a_while_and_then_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "guest_halt_poll_ns"
    limit.write_text("200000\n")
    monkeypatch.setattr(idling, "_HALTPOLL", str(limit))
    with files.root(governed(tmp_path, "haltpoll", "POLL")):
        with pytest.raises(KeyboardInterrupt), idling.polled_first(1_000_000):
            assert limit.read_text() == "1000000"
            raise KeyboardInterrupt
        assert limit.read_text() == "200000"
        limit.unlink()
        with pytest.raises(PlacementError, match="guest_halt_poll_ns cannot be moved") as refused:
            idling.polled_first(1_000_000).__enter__()
        assert refused.value.lacking


def test_no_latency_is_allowed_as_long_as_the_file_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "cpu_dma_latency"
    device.touch()
    monkeypatch.setattr(idling, "_ALLOWED", str(device))
    with files.root(governed(tmp_path, "menu", "POLL")):
        with idling.awake():
            assert device.read_bytes() == bytes(4)
            assert device in held_open()
        assert device not in held_open()


def held_open() -> set[Path]:
    return {link.resolve() for link in Path("/proc/self/fd").iterdir()}


def test_a_machine_without_such_states_says_so(tmp_path: Path) -> None:
    with files.root(governed(tmp_path, "menu", "WFI")):
        with pytest.raises(PlacementError, match="no state for it") as refused:
            idling.awake().__enter__()
        assert refused.value.lacking
        with pytest.raises(PlacementError, match="governor is not haltpoll"):
            idling.polled_first(1).__enter__()
        assert idling.spent_us(0) == {}
