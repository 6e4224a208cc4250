"""A runtime's threads under a quota, and a batch job beside a service: relations and counts, never times."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sched_labs import machine
from sched_labs.core.errors import PlacementError, ResultError
from sched_labs.core.result import Result, recorded
from sched_labs.draw import panels
from sched_labs.limits import cgroups
from sched_labs.run import languages
from sched_labs.topics.cgroup_throttling.colocation import experiment as colocation
from sched_labs.topics.cgroup_throttling.runtimes import experiment as runtimes
from sched_labs.topics.cgroup_throttling.runtimes import python_runtimes
from sched_labs.topics.cgroup_throttling.service import dashboard

pytestmark = pytest.mark.usefixtures("own_lock")


def test_every_program_starts_as_many_threads_as_it_is_told(tiny: Callable[[str], Result]) -> None:
    run = tiny("runtimes.quota")
    blocks, counts = run.tables["blocks"], run.tables["counts"]
    host = len(machine.survey().cpus_allowed)
    assert (blocks[blocks.setting == "host"].threads == host).all()
    assert (blocks[blocks.setting == "quota"].threads == 1).all()
    assert (run.data.groupby(["runtime", "setting", "trial"]).size() == 200 // 5).all()
    assert (run.data.latency_ns > 0).all() and (blocks.background_ns > 0).all()
    assert (blocks.throttled_periods <= blocks.periods).all()
    # Python's is the machine's, whatever this process may use; no other counts more than it may use.
    assert (counts[counts.runtime != "Python"].cpus <= host).all() and (counts.cpus >= 1).all()
    own = set(re.findall(r"\b[a-z_0-9]+\b", runtimes.summarise.__doc__ or ""))
    assert set(run.summary().columns) <= own
    assert not [folder for folder, _ in cgroups.left_behind() if folder.endswith("-runtime")]


def test_a_language_that_is_not_installed_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "missing", lambda *programs: programs[0] if programs else None)
    run = runtimes.quota(profile="tiny", save=False, progress=False)
    assert set(run.data.runtime) == {"Python"}
    said = [note.text for note in run.notes if note.level == "missing"]
    assert said == [f"{name} was not measured: {name.lower()} is not installed." for name in ("Go", "Java")]
    assert "(Python)" in run.plot().caption and "Go" not in run.plot().caption


def test_a_quota_of_every_cpu_is_no_limit() -> None:
    with pytest.raises(PlacementError, match="is no limit here") as caught:
        runtimes.quota(quota_us=1_000_000_000, profile="tiny", save=False, progress=False)
    assert caught.value.lacking


def test_the_program_enters_its_group_before_it_starts() -> None:
    """A runtime looks at its group once, at its start."""
    with cgroups.group("enter") as group:
        asks = (
            "n = open('/proc/self/cgroup').read().count('-enter'); input(); print(f'at n={n}'); print('done')"
        )
        command = [*runtimes._ENTER, group.path, sys.executable, "-c", asks]
        assert languages.run(command, deadline_s=20)[0]["n"] == 1


def test_a_batch_job_has_cpu_time_but_where_there_is_none(tiny: Callable[[str], Result]) -> None:
    run = tiny("colocation.batch")
    table = run.summary().set_index("way")
    assert table.batch_percent["alone"] == 0 and (table.drop("alone").batch_percent > 0).all()
    limited = table[table.service_throttled_percent.notna()]
    assert list(limited.index) in ([], ["apart, quota"])  # none on one CPU
    assert table.index[table.batch_throttled_percent.notna()].tolist() == ["quota"]
    assert (run.data.groupby(["neighbour", "trial"]).size() == 80).all()
    own = set(re.findall(r"\b[a-z_0-9]+\b", colocation.summarise.__doc__ or ""))
    assert set(run.summary().columns) <= own


def test_a_way_that_this_kernel_has_not_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: cgroups.Group) -> None:
        raise PlacementError("cpu.idle is not there.")

    monkeypatch.setattr(cgroups.Group, "give_way", refuse)
    run = colocation.batch(ways=["alone", "cpu.idle"], profile="tiny", save=False, progress=False)
    assert set(run.data.neighbour) == set(run.tables["batches"].neighbour) == {"alone"}
    assert [note.text for note in run.notes if note.level == "missing"] == [
        "cpu.idle was left out: cpu.idle is not there."
    ]


def test_a_dashboard_shows_what_the_kernel_counted() -> None:
    run = recorded("service.latency")
    assert run
    table = dashboard.counters(run)
    blocks = run.tables["blocks"]
    own = blocks[blocks.limit.str.startswith("quota") & (blocks.neighbour == "idle")]
    assert table.throttled_s.sum() == pytest.approx(own.throttled_ns.sum() / 1e9)
    assert (table.throttled_periods / table.periods).tolist() == pytest.approx(table.throttled_periods_share)
    assert set(table.columns) <= set(re.findall(r"\b[a-z_0-9]+\b", dashboard.counters.__doc__ or ""))
    figure = dashboard.dashboard(run)
    assert "Under quota, demand 80 %" in figure.caption and "nan" not in figure.alt
    run.data = run.data[run.data.limit == "none"]
    with pytest.raises(ResultError, match="No limit was set"):
        dashboard.counters(run)


def test_an_interval_above_the_whole_is_drawn_to_its_end() -> None:
    panel = panels.Panel("Work", "share", panels.SHARE, "lo", "hi")
    table = pd.DataFrame({"who": ["one"], "share": [1.03], "lo": [0.7], "hi": [1.22]})
    (ax,) = panels.dots(table, [panel], key="who", names={}, roles={}).axes
    assert np.array_equal(ax.lines[0].get_xdata(), [0.7, 1.22])
    assert ax.get_xlim()[1] > 1.22


def test_no_process_of_python_waits_on_when_whoever_started_it_has_gone(tmp_path: Path) -> None:
    """Its processes wait for a period that never comes; a group of their own shows who is left."""
    (tmp_path / "cpu.stat").write_text("nr_periods 5\n")
    words = [python_runtimes.__file__, str(tmp_path / "cpu.stat"), "100", "700", "5000", "250", "2"]
    pipe = subprocess.PIPE
    program = subprocess.Popen([sys.executable, *words], stdin=pipe, stdout=pipe, start_new_session=True)
    assert program.stdin and program.stdout
    program.stdin.write(b"go\n")
    program.stdin.flush()
    program.stdout.readline()
    time.sleep(1)
    program.stdin.close()
    program.wait(timeout=10)
    program.stdout.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.killpg(program.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(program.pid, signal.SIGKILL)
    pytest.fail("a process was left")
