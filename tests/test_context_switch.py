"""Where the ping-pong's second side runs: on made-up topologies, and what this machine has of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sched_labs import machine
from sched_labs.core import lock
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.run import base
from sched_labs.steer import placement
from sched_labs.topics.context_switch.context_switch import experiment as context_switch


class Topology:
    """Eight CPUs: two caches of two cores of two threads; CPUs 0-3 share one cache, and 2n, 2n+1 a core."""

    def __init__(self, allowed: tuple[int, ...] = tuple(range(8))) -> None:
        self.cpus_allowed = list(allowed)

    def smt_siblings(self, cpu: int) -> list[int]:
        return [c for c in self.cpus_allowed if c // 2 == cpu // 2 and c != cpu]

    def same_cache_cpus(self, cpu: int) -> list[int]:
        return [c for c in self.cpus_allowed if c // 4 == cpu // 4 and c // 2 != cpu // 2]

    def other_cache_cpus(self, cpu: int) -> list[int]:
        return [c for c in self.cpus_allowed if c // 4 != cpu // 4]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(*allowed: int) -> Any:
        topology = Topology(allowed or tuple(range(8)))
        monkeypatch.setattr(machine, "survey", lambda: topology)
        return topology

    return use


def run() -> base.Run:
    return base.Run("context_switch.matrix", "tiny", False)


def test_every_distance_is_a_case_where_it_is_another_cpu(on: Any) -> None:
    topology = on()
    # other_cpu takes the last CPU of another core: 5, behind the same cache, so that same_cache is that case.
    assert placement.other_cpu(7) == 5
    assert context_switch.default_placements(topology, 7) == [
        *("same_cpu", "smt_sibling", "other_cache", "other_cpu", "unpinned")
    ]
    assert context_switch._partners(run(), context_switch.PLACEMENTS, topology, 7) == {
        "same_cpu": 7, "smt_sibling": 6, "same_cache": 5, "other_cache": 3, "other_cpu": 5, "unpinned": None,
    }  # fmt: skip


def test_two_cpus_are_one_case(on: Any) -> None:
    assert context_switch.default_placements(on(0, 2), 2) == ["same_cpu", "other_cpu", "unpinned"]
    assert context_switch.default_placements(on(0, 1), 1) == ["same_cpu", "other_cpu", "unpinned"]
    assert context_switch.default_placements(on(0, 4), 4) == ["same_cpu", "other_cpu", "unpinned"]


def test_a_distance_that_is_not_there_is_left_out_with_a_note(on: Any) -> None:
    topology, this = on(0, 2), run()
    assert context_switch._partners(this, ["same_cpu", "smt_sibling"], topology, 2) == {"same_cpu": 2}
    assert [(n.level, n.text) for n in this.notes] == [
        ("missing", "No CPU here is at this distance from CPU 2: smt sibling.")
    ]
    with pytest.raises(ParameterError, match="none of these placements: other_cache"):
        context_switch._partners(run(), ["other_cache"], topology, 2)


def test_with_one_cpu_the_rest_is_left_out(on: Any) -> None:
    topology, this = on(3), run()
    assert context_switch._partners(this, context_switch.PLACEMENTS, topology, 3) == {"same_cpu": 3}
    assert len(this.notes) == 1 and "one CPU only" in this.notes[0].text
    with pytest.raises(PlacementError, match="needs two CPUs"):
        context_switch._partners(run(), ["unpinned"], topology, 3)


def test_a_live_run_says_which_cpus_it_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (tmp_path,))
    result = context_switch.matrix(
        mechanisms=["pipe"], between=["threads"], profile="tiny", save=False, progress=False
    )
    used = result.parameters["partner_cpus"]
    assert set(result.data.placement) == set(result.parameters["placements"])
    assert used["same_cpu"] == result.parameters["cpu"] and "unpinned" not in used
    assert all(cpu in machine.survey().cpus_allowed for cpu in used.values())
    assert len(set(used.values())) == len(used)
