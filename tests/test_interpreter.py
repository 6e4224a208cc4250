"""The Python script of the literature: its summary on made-up rounds, a live run, and its end in any case."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sched_labs import draw as figures
from sched_labs.core.errors import WorkloadError
from sched_labs.core.result import Result
from sched_labs.topics.context_switch.interpreter import experiment as interpreter
from sched_labs.topics.context_switch.interpreter import interpreter_script
from sched_labs.workloads import launch

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(scope="module")
def live(tiny: Callable[[str], Result]) -> Result:
    return tiny("interpreter.script")


def rounds(
    size: int, one: float, calls: float, two: float, both: float, *, place: str = "pinned"
) -> list[dict[str, Any]]:
    """Three trials of the four conditions, in ns of CPU time per step (wall time is the same)."""
    return [
        {
            "placement": place,
            "buffer_bytes": size,
            "trial": trial,
            "threads": threads,
            "every": every,
            "steps": 1000 * threads,
            "elapsed_ns": 1000 * threads * ns,
            "cpu_ns": 1000 * threads * ns,
            "voluntary_switches": 0,
            "involuntary_switches": 10 * threads if every and threads == 2 else 0,
        }
        for trial in range(3)
        for threads, every, ns in ((1, 0, one), (1, 100, calls), (2, 0, two), (2, 100, both))
    ]


def made(*parts: list[dict[str, Any]]) -> Result:
    rows = [row for part in parts for row in part]
    return Result("interpreter.script", pd.DataFrame(rows), {}, {"every": 100})


def test_the_summary_takes_the_tax_apart() -> None:
    row = made(rounds(16 * KIB, 70, 90, 70, 105)).summary().iloc[0]
    assert (row.one_ns, row.one_yields_ns, row.two_ns, row.two_yields_ns) == (70, 90, 70, 105)
    assert (row.calls_ns, row.tax_ns) == (20, 35)
    assert row.ratio == row.ratio_lo == 2 * 105 / 70 and row.speedup == 1.0
    assert row.switches_per_call == 1.0 and row.voluntary_share == 0.0 and row.trials == 3


def test_a_buffer_without_all_four_conditions_is_left_out() -> None:
    part = [row for row in rounds(2 * MIB, 70, 90, 70, 105) if row["threads"] == 1]
    assert made(rounds(16 * KIB, 70, 90, 70, 105), part).summary().buffer_bytes.tolist() == [16 * KIB]


def test_a_live_run_has_all_conditions_and_counts_its_switches(live: Result) -> None:
    data, given = live.data, live.parameters
    every = given["every"]
    conditions = {(1, 0), (1, every), (2, 0), (2, every)}
    for _, part in data.groupby(["placement", "buffer_bytes"]):
        assert set(part.groupby(["threads", "every"]).groups) == conditions
        assert len(part) == len(conditions) * interpreter.TURNS * given["trials"]
        assert not part.duplicated(["threads", "every", "trial", "turn"]).any()
    assert (data.steps == data.threads * given["steps"]).all()
    assert (data.cpu_ns > 0).all() and (data.elapsed_ns > 0).all()
    table = live.summary().query("placement == 'pinned'")
    # On one CPU a call of one of two threads hands over, whatever the interpreter does around it.
    assert (table.switches_per_call > 0.5).all()
    assert set(data.placement) <= {"pinned", "unpinned"}
    assert given["python"] == sys.version.split()[0] and isinstance(live.facts["global_lock"], bool)


def test_the_figure_compares_the_smallest_with_the_largest(live: Result) -> None:
    result = made(rounds(16 * KIB, 70, 90, 70, 105), rounds(64 * MIB, 72, 91, 71, 104))
    figure = figures.draw(result, recorded=result, predictions=[{"value": 50, "unit": "ns"}])
    assert figure.caption == (
        "With 16 KiB the tax is 35 ns a step, with 64 MiB the tax is 32 ns a step; "
        "the loop itself takes 70 ns and 72 ns."
    )
    assert "16 KiB: loop 70 ns, calls 20 ns, second thread 15 ns" in figure.alt and "50 ns" in figure.alt
    assert live.plot().caption.endswith(".")


def test_the_legend_names_only_bars_that_are_drawn() -> None:
    def labels(both: float) -> str:
        legend = figures.draw(made(rounds(16 * KIB, 70, 90, 70, both))).mpl.legends[0]
        return " ".join(text.get_text() for text in legend.get_texts())

    assert "a second thread adds" in labels(105) and "a second thread adds" not in labels(85)


def test_the_script_stays_in_its_buffer_and_goes_on_where_it_stood() -> None:
    at = interpreter_script.walk(bytearray(256), 0, 3, 1, False)
    assert at == 192
    assert interpreter_script.walk(bytearray(256), at, 2, 1, True) == 64


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid: int, within_s: float = 30) -> bool:
    end = time.monotonic() + within_s
    while running(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not running(pid)


def test_a_script_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no buffer today')\n")
    monkeypatch.setattr(interpreter, "SCRIPT", broken)
    with pytest.raises(WorkloadError, match="no buffer today"):
        interpreter._run_script([64, 10, 1, 1], [0])


@pytest.mark.computes
def test_a_script_past_its_deadline_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(interpreter, "SCRIPT", slow)
    monkeypatch.setattr(interpreter, "DEADLINE_S", -2)  # and 5 s of grace: time for Python to start
    with pytest.raises(WorkloadError, match="did not finish"):
        interpreter._run_script([64, 10, 1, 1], [0])
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_script_ends_with_the_python_that_started_it() -> None:
    code = (
        "import subprocess, sys, time\n"
        "from sched_labs.topics.context_switch.interpreter import interpreter_script\n"
        "words = [sys.executable, '-I', interpreter_script.__file__, '65536', '100000000', '100', '1']\n"
        "p = subprocess.Popen(words,\n"
        "                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        "p.stdout.readline(); p.stdin.write('go\\n'); p.stdin.flush()\n"
        "print(p.pid, flush=True); time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout
    with starter:
        pid = int(starter.stdout.readline())
        assert running(pid)
        starter.send_signal(signal.SIGKILL)
        starter.wait()
        assert gone(pid)


def test_the_script_carries_the_mark_by_which_orphans_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "told.py"
    told.write_text(f"import os, sys\nsys.exit(os.environ.get({launch.MARKER!r}, 'no mark'))\n")
    monkeypatch.setattr(interpreter, "SCRIPT", told)
    with pytest.raises(WorkloadError, match=launch.owner_mark()):
        interpreter._run_script([64, 10, 1, 1], [0])
