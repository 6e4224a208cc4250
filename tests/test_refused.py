"""Parameters that no run could use are refused at once: nothing starts, and nobody waits to hear of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import locked_apart

from sched_labs import workloads
from sched_labs.core import lock, registry
from sched_labs.core.errors import ParameterError
from sched_labs.topics.context_switch.interpreter import experiment as interpreter

MIB = 1 << 20
NAN = float("nan")
# What is wrong, and what the error says of it.
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "context_switch.matrix": [
        ({"mechanisms": ["post"]}, "'post'"), ({"mechanisms": "pipe"}, "'pipe'.*\n.*list"),
        ({"placements": []}, "placements"), ({"between": ["friends"]}, "'friends'"),
        ({"trials": 0}, "start at 1"), ({"round_trips": -5}, "start at 1"),
        ({"speed": 3}, "no parameter 'speed'.*\n.*mechanisms"),
        ({"profile": "huge"}, "no profile 'huge'.*\n.*tiny, quick, full"),
    ],
    "warmup.sweep": [
        ({"access": "random"}, "access"), ({"access": ["backwards"]}, "access"),
        ({"between": "friends"}, "between"), ({"working_sets_bytes": [8]}, "one cache line"),
        ({"partner_bytes": 0}, "at least one byte"), ({"partner_bytes": -1}, "at least one byte"),
        ({"trials": 0}, "0 trials"), ({"working_sets_bytes": [1 << 50]}, "memory that is available"),
        ({"partner_bytes": 1 << 50}, "memory that is available"), ({"sharing": "lent"}, "'lent'"),
        ({"grid_partners_bytes": [MIB], "partner_bytes": MIB}, "smaller than partner_bytes"),
        ({"grid_partners_bytes": [0]}, "larger than nothing"),
    ],
    "crowd.switch": [
        ({"threads": []}, "threads"), ({"threads": [1]}, "from 2 to 1,024"),
        ({"threads": [5000]}, "from 2 to 1,024"), ({"trials": 0}, "trials start at 1"),
        ({"yields": 0}, "between 1 and 1,000,000"),
    ],
    "bursts.spacing": [
        ({"bursts": []}, "bursts"), ({"bursts": [0]}, "bursts"), ({"bursts": 10}, "bursts"),
        ({"rounds": [0]}, "rounds"), ({"rounds": 1}, "rounds"),
        ({"bursts": [1, 7], "hand_overs": 10}, "no whole number of bursts.*\n.*7"),
        ({"working_set_bytes": 8}, "one cache line"),
        ({"partner_bytes": 1 << 50}, "memory that is available"), ({"trials": 0}, "0 trials"),
    ],
    "yielding.semantics": [
        ({"policies": ["deadline"]}, "deadline"), ({"policies": "other"}, "list"),
        ({"placements": []}, "placements"), ({"yields": 0}, "yields lie between"),
        ({"yields": 2_000_000}, "yields lie between"), ({"trials": 0}, "trials start at 1"),
    ],
    "recovery.curve": [
        ({"working_sets_bytes": []}, "working_sets_bytes"),
        ({"working_sets_bytes": [8]}, "one cache line"),
        ({"working_sets_bytes": [1 << 50]}, "memory that is available"),
        ({"partner_bytes": 0}, "one cache line"), ({"between": "friends"}, "'friends'"),
        ({"trials": 0}, "start at 1"), ({"resumes": 0}, "start at 1"),
    ],
    "interpreter.script": [
        ({"buffers_bytes": [8]}, "one cache line"), ({"buffers_bytes": []}, "buffers_bytes"),
        ({"buffers_bytes": [1 << 50]}, "memory that is available"),
        ({"steps": 10}, "at least one call's steps"), ({"every": 0}, "start at 1"),
        ({"trials": 0}, "start at 1"),
    ],
    "loops.counted": [
        ({"loops": ["pipe"]}, "'pipe'.*\n.*thread_yield"), ({"affinities": "none"}, "'none'"),
        ({"trials": 0}, "start at 1"), ({"iterations": 0}, "start at 1"),
    ],
    "reference.costs": [
        ({"rungs": "call"}, "'call'.*\n.*list"), ({"rungs": ["nap"]}, "'nap'.*\n.*stack_switch"),
        ({"rungs": []}, "rungs"), ({"trials": 0}, "0 trials"), ({"batch_us": 0}, "batch of 0"),
    ],
    "ring.sweep": [
        ({"access": "random"}, "access"), ({"access": ["backwards"]}, "backwards"),
        ({"rings": [3]}, "rings"), ({"processes": [1]}, "from 2 to 64"),
        ({"processes": [65]}, "from 2 to 64"), ({"sizes_bytes": [100]}, "multiples of 64"),
        ({"sizes_bytes": [-64]}, "multiples of 64"),
        ({"sizes_bytes": [1 << 40]}, "an eighth of the memory"), ({"trials": 0}, "0 trials"),
        ({"events": ["dreams"]}, "no event 'dreams'"),
    ],
    "shootdown.calls": [
        ({"call": "free"}, "munmap, madvise, mprotect"), ({"pages": 0}, "pages"), ({"pages": 257}, "pages"),
        ({"bystanders": 0}, "bystanders"), ({"calls": 0}, "calls"), ({"trials": 0}, "trials"),
        ({"pages": 256, "calls": 129}, "from 1 to 128"),
    ],
    "tlb.switches": [
        ({"pages": [0]}, "from 1"), ({"pages": [1 << 40]}, "an eighth"), ({"trials": 0}, "0 trials"),
        ({"passes": 0}, "0 passes"), ({"events": ["dreams"]}, "no event 'dreams'"),
    ],
    "fpu.state": [
        ({"trials": 0}, "start at 1"), ({"round_trips": 0}, "start at 1"),
    ],
    "attribution.waits": [
        ({"burners": 0}, ""), ({"burners": 1.5}, ""), ({"rivals": 99}, ""), ({"cpu": 9999}, ""),
        ({"cpu": -1}, ""), ({"duration_s": 0}, ""), ({"duration_s": NAN}, ""),
        ({"duration_s": "long"}, ""),
    ],
    "instruments.compared": [
        ({"cpu": 9999}, ""), ({"cpu": -1}, ""), ({"duration_s": 0}, ""), ({"duration_s": "x"}, ""),
    ],
    "interference.neighbours": [
        ({"neighbours": "files"}, ""), ({"neighbours": ["elves"]}, ""), ({"cpu": 99999}, ""),
        ({"trials": 0}, ""), ({"duration_s": 0}, ""),
    ],
    "ipc.causes": [
        ({"set_bytes": 10}, ""), ({"set_bytes": 1 << 45}, ""), ({"stream_bytes": 10}, ""),
        ({"switch_every_us": 0}, ""), ({"block_ms": 0}, ""), ({"trials": 0}, ""),
    ],
    "regimes.sweep": [
        ({"modes": ["nap"]}, "modes"), ({"placements": []}, "placements"), ({"cpus": [9999]}, "cpus"),
        ({"trials": 0}, "trials"), ({"duration_s": 0}, "duration_s"), ({"burst_us": 0}, "burst_us"),
        ({"pause_us": True}, "pause_us"),
    ],
    "slices.sweep": [
        ({"hogs": [1]}, "hogs"), ({"hogs": 3}, "hogs"), ({"trials": 0}, "trials"),
        ({"duration_s": 0}, "duration_s"), ({"wished_slices_ns": ["x"]}, "wished_slices_ns"),
    ],
    "policies.sweep": [
        ({"hogs": 0}, "hogs"), ({"wakes": True}, "wakes"), ({"period_us": 1}, "period_us"),
        ({"trials": 0}, "trials"),
    ],
    "weights.pairs": [
        ({"arrangements": ["three"]}, "arrangements does not take"), ({"trials": 0}, ""),
        ({"duration_s": 0.0}, ""),
    ],
    "policies.hog": [
        ({"real_time_s": 10}, "real_time_s"), ({"trials": 0}, "trials"),
    ],
    "policies.admission": [
        ({"step_percent": 0}, "step_percent"),
    ],
    "wakeplace.sweep": [
        ({"workers": 0}, "workers"), ({"gap_us": 1}, "gap_us"), ({"trials": True}, "trials"),
        ({"duration_s": 0}, "duration_s"),
    ],
    "wakepath.parts": [
        ({"gap_us": 1}, "gap_us"), ({"wakes": 0}, "wakes"), ({"trials": 0}, "trials"),
    ],
    "ticks.gaps": [
        ({"cpu": 9999}, "(?i)cpu"), ({"trials": 0}, "(?i)trials"), ({"duration_s": 0}, "(?i)duration_s"),
    ],
    "omission.compared": [
        ({"period_us": 1}, "period_us"), ({"stall_ms": 0}, "stall_ms"), ({"trials": 0}, "trials"),
        ({"duration_s": 0}, "duration_s"), ({"work_us": 1000}, "cannot answer"),
        ({"stall_ms": 9000}, "recover"),
    ],
    "observer.cost": [
        ({"observers": ["nobody"]}, ""), ({"observers": ["none"]}, ""), ({"cpu": 9999}, ""),
        ({"cpu": -1}, ""),
    ],
    "observer.rates": [
        ({"observers": "ours"}, ""), ({"observers": ["none"]}, ""), ({"bursts_us": [0]}, ""),
        ({"bursts_us": 5}, ""), ({"bursts_us": []}, ""), ({"trials": 0}, ""), ({"duration_s": 0}, ""),
        ({"cpu": 99999}, ""),
    ],
    "offcpu.stacks": [
        ({"cpu": 9999}, ""), ({"duration_s": 0}, ""), ({"duration_s": "x"}, ""),
    ],
    "napi.threaded": [
        ({"burst": 0}, "burst"), ({"burst": 201}, "burst"), ({"period_us": 1}, "period_us"),
        ({"block_ms": 0}, "block_ms"), ({"trials": 0}, "trials"),
    ],
    "packets.udp": [
        ({"sizes_bytes": []}, ""), ({"sizes_bytes": 64}, ""), ({"sizes_bytes": [1]}, ""),
        ({"sizes_bytes": [10_000]}, ""), ({"batch": 0}, ""), ({"batch": 64}, ""), ({"pieces": 4}, ""),
        ({"pieces": [0]}, ""), ({"pieces": [65]}, ""), ({"period_us": 0}, ""), ({"block_ms": 0}, ""),
        ({"trials": 0}, ""),
    ],
    "pool.pinned": [
        ({"workers": 1}, ""), ({"workers": 10_000}, ""), ({"cpus": 1}, ""), ({"cpus": 10_000}, ""),
        ({"hot_bytes": 10}, ""), ({"hot_bytes": 1 << 40}, ""), ({"session_bytes": 10}, ""),
        ({"thread_period_us": 0}, ""), ({"request_period_us": 0}, ""), ({"short_us": 0}, ""),
        ({"long_us": 1_000_000}, ""), ({"duration_s": 0}, ""),
        ({"duration_s": 0.02, "request_period_us": 50_000}, ""), ({"trials": 0}, ""),
    ],
    "runqlat.histogram": [
        ({"workers": 0}, ""), ({"workers": 65}, ""), ({"workers": 1.5}, ""), ({"duration_s": 0}, ""),
        ({"duration_s": -1.0}, ""), ({"duration_s": NAN}, ""), ({"duration_s": "long"}, ""),
        ({"cpus": []}, ""), ({"cpus": 0}, ""), ({"cpus": [9999]}, ""), ({"cpus": [-1]}, ""),
    ],
    "sleeper.among_hogs": [
        ({"hogs": -1}, "hogs"), ({"hogs": 65}, "hogs"), ({"wakes": 0}, "wakes"),
        ({"period_us": 2.5}, "period_us"), ({"work_us": True}, "work_us"),
    ],
    "switchgraph.window": [
        ({"hogs": -1}, ""), ({"hogs": 99}, ""), ({"cpu": 9999}, ""), ({"duration_s": 0}, ""),
        ({"duration_s": "x"}, ""),
    ],
    "migration.cost": [
        ({"distances": ["far"]}, "distances does not take"),
        ({"distances": "same_cpu"}, "distances does not take"), ({"touch": []}, "touch does not take"),
        ({"every_ms": -1}, "every_ms"), ({"trials": 0}, "0 trials"),
        ({"working_sets_bytes": [8]}, "starts at one cache line"),
        ({"working_sets_bytes": [1 << 45]}, "a quarter of the memory"),
    ],
    "smt.sharing": [
        ({"pairs": ["alu"]}, "pairs does not take"),
        ({"placements": "cores"}, "placements does not take"), ({"window_ms": 0}, "window_ms"),
    ],
    "numa.chase": [
        ({"loads": 0}, "loads"), ({"working_sets_bytes": []}, "sizes in bytes"),
    ],
    "reserved.residents": [
        ({"conditions": ["alone"]}, "conditions does not take"), ({"cpu": 4096}, "may not be used"),
        ({"duration_s": 0}, "duration_s"),
    ],
    "convoy.locks": [
        ({"locks": ["rcu"]}, ""), ({"locks": []}, ""), ({"producers": 0}, ""), ({"producers": 65}, ""),
        ({"items": 3}, ""), ({"trials": 0}, ""),
    ],
    "classify.processes": [
        ({"sets": 0}, ""), ({"interval_s": 0.0}, ""), ({"interval_s": 100}, ""),
    ],
    "hops.compared": [
        ({"trials": 0}, ""), ({"hops": 10}, ""),
    ],
    "threads.memory": [
        ({"threads": 0}, ""), ({"threads": 10**6}, ""), ({"stacks_bytes": [1]}, ""), ({"trials": 0}, ""),
    ],
    "batching.sweep": [
        ({"batches": []}, ""), ({"batches": [0]}, ""), ({"work_us": 200}, ""), ({"events": 10}, ""),
    ],
    "dispatch.ways": [
        ({"workers": 17}, ""), ({"requests": 1}, ""), ({"trials": 0}, ""), ({"slow_us": -1}, ""),
        ({"period_us": 1}, ""),
    ],
    "balance.spread": [
        ({"situations": ["later"]}, "situations"), ({"situations": []}, ""), ({"hogs": 1}, "hogs"),
        ({"hogs": 65}, "hogs"), ({"hold_ms": 10}, "hold_ms"), ({"watch_ms": 0}, ""), ({"trials": 0}, ""),
    ],
    "inversion.waits": [
        ({"hogs": 0}, "hogs"), ({"nice": 0}, "nice"), ({"nice": 20}, "nice"), ({"hold_us": 0}, ""),
        ({"hand_overs": 0}, ""), ({"trials": 0}, ""),
    ],
    "holder.waits": [
        ({"quota_us": 100}, ""), ({"quota_us": 100_000}, "quota_us"), ({"period_us": 1}, ""),
        ({"hold_us": 0}, "hold_us"), ({"hand_overs": 0}, ""), ({"trials": 0}, ""),
        ({"hold_us": 100, "quota_us": 50_000}, "used up after 1,300 holds.*\\n.*hold_us"),
    ],
    "eevdf.phases": [
        ({"turn_us": 100}, "turn_us"), ({"short_us": 6000}, "short_us"), ({"phases": 1}, "phases"),
        ({"trials": 0}, "trials"),
    ],
    "herd.wakeups": [
        ({"threads": 65}, ""), ({"events": 0}, ""),
    ],
    "timers.aligned": [
        ({"slack_us": 20_000}, ""), ({"threads": 0}, ""), ({"periods": 0}, ""),
    ],
    "connections.sweep": [
        ({"connections": []}, ""), ({"connections": [10**6]}, ""), ({"rates_per_s": [1]}, ""),
        ({"trials": 0}, ""),
    ],
    "threads.touch": [
        ({"size_bytes": 1 << 50}, ""),
    ],
    "threads.creation": [
        ({"count": 0}, ""),
    ],
    "runtimes.quota": [
        ({"runtimes": ["Ruby"]}, "runtimes does not take"), ({"quota_us": 900}, "takes a quota"),
        ({"gap_us": 0}, "gap_us"), ({"request_us": 6000}, "request_us"), ({"trials": 0}, ""),
        ({"duration_ms": 1}, "duration_ms"),
    ],
    "colocation.batch": [
        ({"ways": ["nicely"]}, "ways does not take"), ({"demand_percent": 0}, "demand_percent"),
        ({"work_us": 0}, "work_us"), ({"threads": 0}, ""), ({"crowd": 0}, "batch"), ({"trials": 0}, ""),
    ],
    "nested.groups": [
        ({"conditions": ["twins"]}, "conditions does not take"),
        ({"inner_us": 30_000}, "cpu.cfs_quota_us of v1 refuses it"),
        ({"outer_us": 900}, "takes a quota of 1,000 µs or more, not 900"),
        ({"period_us": 500}, "takes a period from"), ({"trials": 0}, "trials start at 1"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [(kind, wrong, said) for kind, slips in REFUSED.items() for wrong, said in slips],
    ids=repr,
)
def test_wrong_parameters_are_named_before_anything_starts(
    kind: str, wrong: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*arguments: Any, **options: Any) -> None:
        pytest.fail("a program was started")

    monkeypatch.setattr(workloads, "start", started)
    monkeypatch.setattr(interpreter, "_run_script", started)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    given = {"profile": "tiny", "progress": False} | wrong
    with locked_apart(tmp_path):
        with lock.machine("somebody else"), pytest.raises(ParameterError, match=said or None):
            registry.find(kind)(**given)
        assert lock.holder() == "" and not (tmp_path / "data").exists()
