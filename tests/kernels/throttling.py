"""CPU limits in guests that mount control groups v2 alone: what runs there, and what must hold.

    python tests/kernels/throttling.py             # every kernel of the gallery
    python tests/kernels/throttling.py 5.10 6.12   # only these

In virtual time, on one CPU and with nobody else there, stalls and the time in which a quota is used up agree
with the formula, and requests with the model.  On two CPUs the times are the host's mood: there only counts
are looked at, the BPF probe beside cpu.stat, and cpusets and their partitions.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sched_labs import kernels
from sched_labs.core import registry
from sched_labs.core.result import Result, from_json
from sched_labs.kernels import catalogue
from sched_labs.machine.bpf import bcc_module
from sched_labs.topics.cgroup_throttling.service import experiment as service

MS = 1_000_000
HOG, THREADS, NESTED = "quota.hog", "quota.threads", "nested.groups"
LATENCY, TIMELINE = "service.latency", "throttle.timeline"
EXPERIMENTS = {
    HOG: {"shares_percent": [20, 50], "periods_us": [50_000], "trials": 1, "cycles": 8},
    THREADS: {"threads": [1, 4], "quota_us": 20_000, "period_us": 50_000, "cycles": 8},
    NESTED: {"cycles": 10},
    LATENCY: {
        "demands_percent": [50, 80], "limits": ["none", "quota"], "neighbours": ["idle"], "trials": 1,
        "duration_s": 2.0,
    },
    TIMELINE: {"demand_percent": 150, "duration_s": 0.4},
}  # fmt: skip


def run(kernel: str, timing: str, names: list[str]) -> dict[str, Any]:
    """One guest for all of them: the Result of each, and `partitions` where the timing is not virtual."""
    experiments = {name: registry.find(name).function for name in names}
    wanted = [(name, one.__module__, one.__name__, EXPERIMENTS[name]) for name, one in experiments.items()]
    answer = kernels.run(
        kernel,
        "throttling_in_a_guest:measure",
        {"wanted": wanted, "partitions": timing != "deterministic"},
        timing=timing,
        deadline_s=900,  # on a busy machine
        native=["burn", "service"],
        modules=[
            "sched_labs.kernels.jobs.experiment",
            "sched_labs.limits.cgroups",
            *(one.__module__ for one in experiments.values()),
        ],
        extra={
            "/lab/throttling_in_a_guest.py": Path(__file__).with_name("throttling_in_a_guest.py").read_bytes()
        },
    )
    found = {name: from_json(text, name) for name, text in answer.value["results"].items()}
    return found | {"partitions": answer.value["partitions"], "left": answer.value["left"]}


def check_virtual(found: dict[str, Any]) -> None:
    """One CPU, virtual time: the formula within a slice and a tick, and the model within its targets."""
    assert found["left"] == []
    hog = found[HOG]
    table = hog.summary()
    held = table[table.share_percent < 100]
    assert len(held) == 2 and hog.parameters["version"] == "v2"
    assert list(held.throttled_field.unique()) == ["throttled_usec"]
    assert (held.throttled_periods >= held.periods - 3).all()
    assert (held.off_by_ns.abs() <= hog.parameters["slice_ns"]).all(), held
    assert ((held.counted_stall_ns - held.formula_stall_ns).abs() <= hog.parameters["slice_ns"]).all(), held
    assert table.stalls[table.share_percent == 100].sum() == 0

    table = found[THREADS].summary()
    assert list(table.threads) == [1, 4]
    # One CPU: four threads use the quota up no sooner than one.
    assert (table.formula_ran_ns == 20 * MS).all()
    assert (table.off_by_ns.abs() <= found[THREADS].parameters["slice_ns"]).all(), table
    assert ((table.stall_ns - table.formula_stall_ns).abs() <= found[THREADS].parameters["slice_ns"]).all()

    check_nested(found[NESTED])
    table = found[NESTED].summary().set_index("condition")
    # The quota of the inner group alone; the outer one's, shared, with a sibling.
    assert table.cpu_percent["alone"] == pytest.approx(40, abs=5)
    assert table.cpu_percent["sibling"] == pytest.approx(25, abs=5)
    assert table.cpu_percent["no_own_limit"] == pytest.approx(25, abs=5)

    check_requests(found[LATENCY])
    error = service.model_error(found[LATENCY])
    assert list(error.demand_percent) == [50, 80]
    assert (error.off_by_points.abs() <= 5).all(), error
    assert error.throttled_percent.iloc[-1] > 5 and (error.off_by_bars.dropna().abs() <= 1).all(), error


def check_requests(result: Result) -> None:
    """No request is lost."""
    for block in result.records("blocks"):
        assert block["arrived"] == block["completed"] + block["waiting"] > 0
        assert block["throttled_periods"] <= block["periods"]


def check_nested(result: Result) -> None:
    table = result.summary().set_index("condition")
    assert table.own_throttled_percent["alone"] > 50
    # The group around both throttles first; the inner one is not held back by its own limit.
    assert table.own_throttled_percent["sibling"] < 50 < table.outer_throttled_percent["sibling"]
    assert table.own_throttled_percent.isna()["no_own_limit"]
    assert table.outer_throttled_percent["no_own_limit"] > 50


def check_counts(kernel: str, found: dict[str, Any]) -> None:
    """Two CPUs, times that mean little: the probe beside cpu.stat, and partitions."""
    assert found["left"] == []
    line = found[TIMELINE]
    check_requests(line)
    row = line.summary().iloc[0]
    assert row.periods > 0 and row.throttled_periods > 0
    if bcc_module() is not None:
        assert line.facts["watched"] == [0], [note.text for note in line.notes]
        assert row.spans > 0
        # The probe sees each interval begin and end a moment after the kernel does.
        assert row.spans_ns >= 0.8 * row.throttled_ns, row
    check_partitions(kernel, found["partitions"])


def check_partitions(kernel: str, said: dict[str, Any]) -> None:
    version = tuple(int(part) for part in kernel.partition("-")[0].split("."))
    file = "cpuset.cpus.partition"
    if version < (6, 7):
        # Only directly below the root group: ours are deeper.
        assert all(file in said[kind]["error"] for kind in ("root", "isolated")), said
        return
    for kind in ("root", "isolated"):
        assert said[kind]["state"] == kind and said[kind]["outside"] == "0" and said[kind]["after"] == "0-1"
        assert said[kind]["moved"] == [0], "who was there and may not stay"
    # All CPUs: none is left for the processes outside.  The kernel's own reason is told.
    assert file in said["all"]["error"] and "invalid" in said["all"]["error"], said


def main() -> None:
    for name in sys.argv[1:] or catalogue.gallery():
        check_virtual(run(name, "deterministic", [HOG, THREADS, NESTED, LATENCY]))
        check_counts(name, run(name, "vm", [TIMELINE]))
        print(f"{name}: as it should be")


if __name__ == "__main__":
    main()
