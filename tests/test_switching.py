"""The experiments of the chapter on switching less, tiny: structure and relations, never absolute times."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from test_experiments import gone

from sched_labs import workloads
from sched_labs.core.errors import ParameterError, ProbeError, WorkloadError
from sched_labs.core.result import Result, recorded
from sched_labs.probes import status as switches
from sched_labs.run import base, languages
from sched_labs.steer import policies
from sched_labs.topics.switching_less.batching import experiment as batching
from sched_labs.topics.switching_less.classify import experiment as classify
from sched_labs.topics.switching_less.connections import experiment as connections
from sched_labs.topics.switching_less.connections import figure as connections_figure
from sched_labs.topics.switching_less.convoy import experiment as convoy
from sched_labs.topics.switching_less.holder import experiment as holder
from sched_labs.topics.switching_less.holder import guests as holder_guests
from sched_labs.topics.switching_less.hops import experiment as hops
from sched_labs.topics.switching_less.inversion import experiment as inversion
from sched_labs.topics.switching_less.threads import experiment as threads
from sched_labs.topics.switching_less.timers import figure as timers_figure

pytestmark = pytest.mark.usefixtures("own_lock")


# ---- locks ----


def test_each_lock_is_measured_in_each_trial(tiny: Callable[[str], Result]) -> None:
    run = tiny("convoy.locks")
    native = run.data[~run.data["lock"].str.startswith("java")]
    counts = native.groupby("lock").size()
    assert set(counts.index) == {*convoy.LOCKS, "alone"}
    assert (counts == run.parameters["trials"]).all()
    assert (run.data["items"] >= run.data.turns).all() and (run.data.turns >= 1).all()
    assert (run.data["items"] <= run.parameters["items"]).all()
    whole = run.parameters["items"] // 16 * 16
    finished = run.data[run.data.finished & (run.data["lock"] != "alone")]
    assert (finished["items"] == whole).all()


def test_a_producers_share_and_quantiles_are_what_they_can_be(tiny: Callable[[str], Result]) -> None:
    data = tiny("convoy.locks").data
    assert data.jain_share.between(1 / 16 - 1e-6, 1 + 1e-6).all()
    native = data[data.p50_ns.notna()]
    assert (native.p50_ns <= native.p99_ns).all() and (native.p99_ns <= native.max_ns).all()
    alone = data[data["lock"] == "alone"]
    assert (alone.turns == 1).all() and (alone.jain_share == 1).all()


def test_producers_use_no_more_cpu_time_than_there_is(tiny: Callable[[str], Result]) -> None:
    native = tiny("convoy.locks").data.dropna(subset="cpu_ns")
    assert set(native["lock"]) == {*convoy.LOCKS, "alone"} and (native.cpu_ns > 0).all()
    cpus = np.where(native["lock"] == "alone", 1, len(os.sched_getaffinity(0)))
    assert (native.cpu_ns <= 1.05 * cpus * native.elapsed_ns).all()


def test_only_turns_can_cost_switches_under_the_fair_lock(tiny: Callable[[str], Result]) -> None:
    """A voluntary switch of a producer is a wait for its turn."""
    fifo = tiny("convoy.locks").data.query("lock == 'fifo'")
    assert (fifo.voluntary_switches <= 2 * fifo.turns + 64).all()


def test_without_java_the_rest_runs_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "missing", lambda *programs: programs[0])
    run = convoy.locks(profile="tiny", trials=1, save=False, progress=False)
    assert any(note.level == "missing" and "java is not installed" in note.text for note in run.notes)
    assert set(run.data["lock"]) == {*convoy.LOCKS, "alone"}
    assert np.isfinite(run.summary().ns_per_item).all()


# ---- programs in other languages ----


def test_a_program_that_fails_or_hangs_is_an_error_and_is_gone() -> None:
    with pytest.raises(WorkloadError, match="status 3: oh no"):
        languages.run(["sh", "-c", "echo oh no >&2; exit 3"], deadline_s=10)
    with pytest.raises(WorkloadError, match="deadline of 0 s"):
        languages.run(["sh", "-c", "sleep 60"], deadline_s=0.2)
    assert gone()


def test_a_program_whose_source_is_missing_is_an_error() -> None:
    with pytest.raises(WorkloadError, match=r"Nothing\.go is not there"):
        languages.go(Path("Nothing.go"))


def test_what_does_not_compile_is_left_to_its_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beforehand nobody asks for it; the experiment says why it goes without."""
    for name in ("Broken.java", "fine.go", "other.c"):
        (tmp_path / name).write_text("no program")
    monkeypatch.setitem(languages._COMPILERS, ".go", lambda source: [])
    assert languages.build_all([tmp_path]) == ["fine.go"]


def test_a_program_starts_at_go_and_its_records_are_read() -> None:
    said = "read line; echo ready; echo item by=$line n=3; echo done"
    (record,) = languages.run(["sh", "-c", said], deadline_s=10)
    assert (record.kind, record.text("by"), record["n"]) == ("item", "go", 3)


# ---- switch rates ----


def thread(
    leader: bool, voluntary: float, involuntary: float, cpu: float = 0.1, waiting: float = 0.1
) -> dict[str, object]:
    return {
        "pid": 1,
        "leader": leader,
        "voluntary_per_s": voluntary,
        "involuntary_per_s": involuntary,
        "cpu_share": cpu,
        "run_delay_share": waiting,
    }


NAN = float("nan")
CONSTRUCTED = [
    (switches.IO_BOUND, [thread(True, 1000, 10)]),
    (switches.IO_BOUND, [thread(True, 1000, 10, NAN, NAN)]),
    # Preempted by the very thread that it woke: short stints, and it blocks as well.
    (switches.IO_BOUND, [thread(True, 5000, 3000, 0.02)]),
    # Nobody keeps it from a CPU: a few switches in half a second have no ratio.
    (switches.IO_BOUND, [thread(True, 8, 2, 0.002, 0.001)]),
    (switches.CONTENDED, [thread(True, 0, 300, 0.5, 0.5)]),
    (switches.CONTENDED, [thread(True, 0, 300, NAN, NAN)]),
    (switches.BOTH, [thread(True, 40, 200, 0.4, 0.5)]),
    (switches.YIELDING, [thread(True, 0, 90_000, 0.5, 0.5)]),
    (switches.UNCONTENDED, [thread(True, 0, 5, 0.99, 0.0)]),
    (switches.IDLE, [thread(True, 1, 0, 0.0, 0.0)]),
    (switches.POOL, [thread(True, 1, 0, 0.0, 0.0), thread(False, 500, 2), thread(False, 500, 2)]),
    # A leader that works without switching is no idle leader.
    (switches.IO_BOUND, [thread(True, 0, 0, 0.9, 0.0), thread(False, 500, 2)]),
    # Hardly any time on a CPU, and few switches, because it hardly gets one.
    (switches.CONTENDED, [thread(True, 0, 1.5, 0.02, 0.98)]),
]


@pytest.mark.parametrize(("label", "rows"), CONSTRUCTED)
def test_constructed_rates_are_read(label: str, rows: list[dict[str, object]]) -> None:
    said = switches.classify(pd.DataFrame(rows))
    assert said.label == label and label in switches.LABELS
    assert "switches/s" in said.evidence and "nan" not in said.evidence
    assert ("threads together" in said.evidence) == (len(rows) > 1)


def test_threads_wait_for_no_more_than_all_of_the_time() -> None:
    two = [thread(True, 0, 400, 0.0, 1.005), thread(False, 0, 400, 0.0, 1.005)]
    assert "200% of the time" in switches.classify(pd.DataFrame(two)).evidence


def test_only_one_process_is_read_at_a_time() -> None:
    two = [thread(True, 1, 0), thread(True, 1, 0) | {"pid": 2}]
    with pytest.raises(ParameterError, match="one process"):
        switches.classify(pd.DataFrame(two))


def test_rates_agree_with_what_a_workload_counts_itself() -> None:
    with workloads.start("mystery", ["--kind", "pool", "--period-us", "2000"]) as pool:
        pool.go()
        rates = switches.switch_rates([pool.pid], 0.3)
        (life,) = list(pool.records())
    assert sorted(rates.tid) == sorted(pool.tids) and rates.leader.sum() == 1
    seen = ((rates.voluntary_per_s + rates.involuntary_per_s) * rates.interval_s).sum()
    assert 0 < seen <= life["voluntary"] + life["involuntary"]
    assert (rates.interval_s >= 0.3).all() and rates.cpu_share.dropna().between(0, 1.05).all()


def test_rates_need_a_process_that_is_there() -> None:
    with pytest.raises(ProbeError, match="None of these"):
        switches.switch_rates([2**22 + 7], 0.02)
    for wrong in ([], 17, "17"):
        with pytest.raises(ParameterError):
            switches.switch_rates(wrong, 0.02)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        switches.switch_rates([os.getpid()], 0)


def test_rates_of_ourselves_see_our_own_sleeps() -> None:
    """We block in time.sleep() at least once between the two looks."""
    start = time.monotonic()
    rates = switches.switch_rates([os.getpid()], 0.05)
    assert time.monotonic() - start >= 0.05
    assert (rates[rates.leader].voluntary_per_s * rates[rates.leader].interval_s > 0.9).all()


def test_every_way_of_life_is_watched_with_its_threads(tiny: Callable[[str], Result]) -> None:
    table = tiny("classify.processes").summary()
    assert sorted(table.process) == list("ABCDE")
    assert set(table.truth) <= set(classify.KINDS.values()) and table.truth.nunique() == 5
    pool = table[table.truth == switches.POOL].iloc[0]
    assert pool.threads == 5 and pool.leader_voluntary_per_s < pool.voluntary_per_s


def test_the_same_seed_starts_the_same_processes() -> None:
    runs = [
        classify.processes(profile="tiny", interval_s=0.1, seed=5, save=False, progress=False)
        for _ in range(2)
    ]
    truths = [list(run.summary().sort_values("process").truth) for run in runs]
    assert truths[0] == truths[1]


# ---- hops ----


def test_hops_in_one_thread_need_no_kernel_and_hops_between_threads_do(tiny: Callable[[str], Result]) -> None:
    table = tiny("hops.compared").summary().set_index("by")
    assert {"call", "stack", "ucontext", "asyncio", "pipe", "futex"} <= set(table.index)
    assert (table.trials == 3).all()
    for by in ("call", "stack", "asyncio"):
        assert table.kernel_switches_per_hop[by] < 0.05
    for by in ("pipe", "futex"):
        assert table.kernel_switches_per_hop[by] == pytest.approx(1, abs=0.2)
    assert table.times_stack["stack"] == 1


def test_every_hop_is_counted(tiny: Callable[[str], Result]) -> None:
    data = tiny("hops.compared").data
    assert (data.hops > 0).all() and (data.hops % 2 == 0).all() and (data.elapsed_ns > 0).all()
    assert (data.groupby("by").trial.nunique() == 3).all()


def test_without_go_the_rest_runs_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "missing", lambda *programs: programs[0])
    run = hops.compared(profile="tiny", trials=1, hops=1000, save=False, progress=False)
    assert any("go is not installed" in note.text for note in run.notes)
    assert "go_1" not in set(run.data["by"])


# ---- threads in memory ----

KIB, MIB = 1 << 10, 1 << 20


def test_sleeping_threads_take_their_stacks_of_addresses_and_little_memory(
    tiny: Callable[[str], Result],
) -> None:
    table = tiny("threads.memory").summary()
    assert list(table.stack_bytes) == [8 * MIB, 64 * KIB] and (table.threads == 50).all()
    assert (table.vm_bytes_per_thread >= table.stack_bytes).all()
    assert (table.rss_bytes_per_thread < 64 * KIB).all() and (table.cpu_share >= 0).all()
    data = tiny("threads.memory").data
    assert set(data.threads) == {0, 50} and (data.groupby(["trial", "stack_bytes"]).size() == 1).all()
    assert (data[data.threads == 0].groupby("trial").size() == 1).all()


def test_free_pages_that_wait_on_a_cpus_own_list_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    zones = "Node 0, zone Normal\n  pages free 900\n  pagesets\n    cpu: 0\n              count: 30\n" \
        "              high:  70\n    cpu: 1\n              count: 12\n              high:  70\n"  # fmt: skip
    told = {"/proc/meminfo": "MemAvailable: 1000 kB\nKernelStack: 16 kB\n", threads.ZONES: zones}
    monkeypatch.setattr(threads.files, "read", told.get)
    look = threads._look(1)
    assert look["available_bytes"] == 1000 * KIB + 42 * os.sysconf("SC_PAGE_SIZE")
    assert look["kernel_stack_bytes"] == 16 * KIB and np.isnan(look["page_table_bytes"])
    del told[threads.ZONES]
    assert threads._look(1)["available_bytes"] == 1000 * KIB


def test_a_look_waits_until_freed_page_tables_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as they fall, and not for ever."""
    naps: list[float] = []
    monkeypatch.setattr(threads.time, "sleep", naps.append)
    for tables, expected in (([9000, 900, 880, 880], 2), ([5000] * 4, 1), (range(10**6, 0, -1000), 20)):
        falling = iter(tables)
        monkeypatch.setattr(
            threads.files, "read", lambda _path, left=falling: f"PageTables: {next(left)} kB\n"
        )
        naps.clear()
        assert threads._settle() == (expected < threads.SETTLES)  # False is noted
        assert len(naps) == expected


def test_no_more_threads_than_limits_and_memory_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "most_threads", lambda: 7)
    run = threads.memory(profile="tiny", trials=1, threads=50, save=False, progress=False)
    assert run.parameters["threads"] == 7 and run.data.threads.max() == 7
    assert any(note.level == "missing" and "50 threads were asked for; 7" in note.text for note in run.notes)


def test_limits_are_read_and_the_tightest_comes_first() -> None:
    table = threads.limits()
    assert len(table) >= 4 and table.threads.is_monotonic_increasing
    assert any(name.startswith("pid_max") for name in table.limit)
    assert threads.most_threads() <= 0.25 * table.threads[table.limit.str.startswith("memory")].iloc[0]


def test_a_note_names_the_limit_that_bounds_and_not_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame({"limit": ["pids.max", "memory, at 64 KiB a thread"], "threads": [100, 120]})
    monkeypatch.setattr(threads, "limits", lambda: table)
    run = threads.memory(profile="tiny", trials=1, threads=50, save=False, progress=False)
    assert run.parameters["threads"] == 30
    assert any("30 keep clear of the limits here (memory" in note.text for note in run.notes)


def test_threads_that_a_user_runs_already_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    user = threads.os.geteuid()
    running = sum(1 for _ in Path("/proc/self/task").iterdir())
    assert threads._threads_of_user() >= running
    monkeypatch.setattr(threads.os, "geteuid", lambda: user + 1_000_000)
    monkeypatch.setattr(threads, "_threads_of_user", lambda: 40)
    monkeypatch.setattr(threads.resource, "getrlimit", lambda _: (100, 100))
    table = threads.limits().set_index("limit").threads
    assert table["RLIMIT_NPROC (ulimit -u)"] == 60


def test_root_of_a_user_namespace_alone_is_held_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.os, "geteuid", lambda: 0)
    monkeypatch.setattr(threads.resource, "getrlimit", lambda _: (100, 100))
    read = threads.files.read
    for mapped, held in (("0 0 4294967295", False), ("0 1000 1", True)):
        shown = {"/proc/self/uid_map": mapped}
        monkeypatch.setattr(threads.files, "read", lambda path, shown=shown: shown.get(path) or read(path))
        assert ("RLIMIT_NPROC (ulimit -u)" in set(threads.limits().limit)) == held


def test_the_limit_of_a_group_that_looks_like_the_root_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for line, folder in (("0::/", "/sys/fs/cgroup"), ("8:pids:/", "/sys/fs/cgroup/pids")):
        found = {f"{folder}/pids.max": 100, f"{folder}/pids.current": 40}
        monkeypatch.setattr(threads.files, "read", lambda _, line=line: line)
        monkeypatch.setattr(threads.files, "number", found.get)
        assert threads._cgroup_limits() == [(f"{folder}/pids.max", 100, 40)]


def test_memory_bounds_a_group_where_its_limit_is_the_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, holds_for in ((64 * MIB, "cgroup"), (256 * MIB, "machine"), (None, "machine")):
        values = {"memory.available_bytes": 128 * MIB, "cgroup.memory_limit_bytes": limit}
        survey = SimpleNamespace(fact=lambda key, known=values: SimpleNamespace(value=known[key]))
        monkeypatch.setattr(threads.machine, "survey", lambda found=survey: found)
        table = threads.limits().set_index("limit").holds_for
        assert table["memory, at 64 KiB a thread"] == holds_for


def test_the_largest_number_of_a_thread_bounds_the_machine_before_6_14(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kernel, holds_for in (((6, 12), "machine"), ((6, 14), "PID namespace")):
        monkeypatch.setattr(threads.Seen, "version", kernel)
        table = threads.limits().set_index("limit").holds_for
        assert table["pid_max (/proc/sys/kernel/pid_max)"] == holds_for


def test_mappings_bound_threads_only_where_their_stacks_are_mappings(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, kernel, bound in (
        ("2.41", (6, 18), True),
        ("2.42", (6, 12), True),
        ("2.42", (6, 13), False),
    ):
        monkeypatch.setattr(threads.platform, "libc_ver", lambda version=library: ("glibc", version))
        monkeypatch.setattr(threads.Seen, "version", kernel)
        assert threads.limits().limit.str.startswith("max_map_count").any() == bound


def test_a_limit_that_is_hit_is_reported_and_nothing_breaks() -> None:
    """Address space is a limit that can be set for the workload alone."""
    arguments = ["--mode", "hold", "--threads", "500", "--stack", str(8 * MIB), "--hold-ms", "1"]
    with workloads.start("threads", arguments) as held:
        resource.prlimit(held.pid, resource.RLIMIT_AS, (256 * MIB, 256 * MIB))
        created, _ = held.run()
    assert 0 < created["threads"] < 500 and created["error"] in (errno.EAGAIN, errno.ENOMEM)


def test_a_far_limit_is_not_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    far = pd.DataFrame({"limit": ["pid_max"], "threads": [4_000_000], "holds_for": ["machine"]})
    monkeypatch.setattr(threads, "limits", lambda: far)
    run = threads.creation(profile="tiny", hit_limit=True, save=False, progress=False)
    assert run.facts["started_threads"] is None and run.summary().started_threads.isna().all()
    assert any("keep this machine safe" in note.text for note in run.notes)


def test_no_limit_was_hit_where_every_thread_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    near = pd.DataFrame({"limit": ["pids.max", "memory, at 64 KiB a thread"], "threads": [30, 160]})
    monkeypatch.setattr(threads, "limits", lambda: near)
    run = threads.creation(profile="tiny", hit_limit=True, save=False, progress=False)
    assert run.facts["started_threads"] is None
    assert any("40 threads could be started (none failed)" in note.text for note in run.notes)


def test_touching_makes_memory_resident(tiny: Callable[[str], Result]) -> None:
    table = tiny("threads.touch").summary().set_index("step")
    size = tiny("threads.touch").parameters["size_bytes"]
    assert list(table.index) == list(range(10)) and table.touched_bytes[9] == size
    assert table.vm_bytes[1] >= size and (table.vm_bytes.diff().iloc[2:] == 0).all()
    assert table.rss_bytes[1] < 0.1 * size and table.rss_bytes[9] >= 0.99 * size
    assert table.minor_faults.is_monotonic_increasing


def test_threads_and_processes_take_turns(tiny: Callable[[str], Result]) -> None:
    data = tiny("threads.creation").data
    assert list(data.what) == ["thread", "process"] * 3 and (data.elapsed_ns > 0).all()
    assert tiny("threads.creation").facts["started_threads"] is None


# ---- batches, herds, timers ----


def test_a_worker_is_woken_at_most_once_for_each_batch(tiny: Callable[[str], Result]) -> None:
    run = tiny("batching.sweep")
    assert sorted(run.data.batch_events.unique()) == list(batching.BATCHES)
    batches = np.ceil(run.data.events / run.data.batch_events)
    assert (run.data.wakes >= 1).all() and (run.data.wakes <= batches).all()
    assert (run.data.p50_ns <= run.data.p99_ns).all() and (run.data.p99_ns <= run.data.max_ns).all()


def test_events_of_a_batch_wait_for_its_last_one(tiny: Callable[[str], Result]) -> None:
    """200 events every 100 µs in one batch: half of them wait for at least half of that time."""
    data = tiny("batching.sweep").data
    assert (data[data.batch_events >= data.events].p50_ns >= 0.45 * 200 * 100_000).all()


def test_every_event_is_taken_once_and_one_for_all_wakes_more(tiny: Callable[[str], Result]) -> None:
    run = tiny("herd.wakeups")
    assert (run.data.events == run.parameters["events"]).all()
    assert (run.data.wakes - run.data.empty_returns == run.data.events).all()
    table = run.summary().set_index("by")
    assert list(table.threads) == [8, 8, 8]
    assert table.switches_per_event["shared"] > table.switches_per_event["own"]


def test_every_connection_is_served_once_by_one_worker(tiny: Callable[[str], Result]) -> None:
    run = tiny("dispatch.ways")
    served = run.data.groupby(["way", "trial", "worker"]).size()
    did = run.tables["workers"].set_index(["way", "trial", "worker"]).requests
    assert served.reindex(did.index, fill_value=0).equals(did.astype(served.dtype))
    assert (did.groupby(["way", "trial"]).sum() == run.parameters["requests"]).all()
    slow = run.data[run.data.slow]
    assert (slow.late_ns >= 1000 * run.parameters["slow_us"]).all() and (run.data.late_ns > 0).all()


def test_how_often_a_worker_came_for_nothing_is_in_the_summary() -> None:
    run = recorded("dispatch.ways")
    assert run
    counted = pd.DataFrame(run.tables["workers"]).groupby("way")[["empty", "requests"]].sum()
    table = run.summary().set_index("way")
    assert table.empty_per_request["each"] > 0
    assert table.empty_per_request.to_dict() == pytest.approx(
        (counted["empty"] / counted["requests"]).to_dict(), abs=0.05
    )


def test_a_hog_is_in_a_wait_only_where_there_is_one(tiny: Callable[[str], Result]) -> None:
    run = tiny("inversion.waits")
    data = run.data
    assert (data.groupby(["situation", "lock", "trial"]).size() == run.parameters["hand_overs"]).all()
    assert (data[data.situation == "no hog"].hogs_ns == 0).all()
    # Two clocks of the kernel: the hog's own may run a little ahead.
    assert (data.hogs_ns <= 1.01 * data.wait_ns + 100_000).all()
    kept = data[(data.situation == "nice") & (data["lock"] != "mutex")]  # none without SCHED_FIFO
    assert (kept.groupby("lock").hogs_ns.min() < 100_000).all()


def test_without_the_right_to_be_real_time_an_ordinary_thread_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = pd.DataFrame([{"policy": "FIFO", "granted": False, "errno": "EPERM", "because": "no right"}])
    monkeypatch.setattr(policies, "tries", lambda wanted: refused)
    run = inversion.waits(profile="tiny", save=False, progress=False)
    assert set(run.data.situation) == {"ordinary"} and set(run.data["lock"]) == {"mutex", "inherit"}
    assert any(note.level == "missing" and "no right" in note.text for note in run.notes)
    assert "an ordinary thread" in run.plot().caption


def test_only_a_holder_with_a_quota_is_in_a_group(tiny: Callable[[str], Result]) -> None:
    run = tiny("holder.waits")
    counts = run.data.groupby("situation").size()
    burst = counts.index.str.contains("burst")
    assert (counts[~burst] == run.parameters["hand_overs"]).all() and (counts[burst] < counts.max()).all()
    assert run.parameters["hand_overs"] * run.parameters["hold_us"] > run.parameters["quota_us"]
    groups = run.tables["groups"]
    assert set(groups.situation) == {name for name in run.data.situation if "quota" in name}
    assert (groups.throttled_periods <= groups.periods).all()
    assert (run.data.hold_cpu_ns > 0).all() and (run.data.wait_ns >= 0).all()


def test_without_groups_no_holder_has_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder.cgroups, "possible", lambda: (False, "no place for one"))
    run = holder.waits(profile="tiny", save=False, progress=False)
    assert set(run.data.situation) == {"mutex", "file"} and "groups" not in run.tables
    assert any(note.level == "missing" and "no place for one" in note.text for note in run.notes)
    assert "mutex, no quota" in run.plot().caption


def test_what_a_kernel_cannot_do_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = pd.DataFrame([{"policy": "FIFO", "granted": False, "errno": "EPERM", "because": "no right"}])
    monkeypatch.setattr(policies, "tries", lambda wanted: refused)
    monkeypatch.setattr(holder.cgroups, "possible", lambda: (True, ""))
    monkeypatch.setattr(holder.cgroups, "can_burst", lambda: False)
    run = base.Run("holder.waits", "tiny", progress=False)
    assert holder.possible(run) == ["mutex", "mutex, quota", "file", "file, quota"]
    assert [note.level for note in run.notes] == ["missing", "missing"]


def test_recorded_guests_keep_the_lock_of_a_file_up_to_6_17() -> None:
    """And no longer from 6.18 on; a lock of the program's own is kept by all of them."""
    table = holder_guests.waits()
    assert "6.12" in set(table.kernel)
    assert (table.mutex_quota_ms > 4 * table.mutex_ms).all()
    for row in table.itertuples():
        older = [int(part) for part in str(row.kernel).split(".")] < [6, 18]
        assert (row.file_quota_ms > 4 * row.file_ms) == older


def test_every_event_of_a_timer_is_served(tiny: Callable[[str], Result]) -> None:
    run = tiny("timers.aligned")
    assert (run.data.events == 16 * run.parameters["periods"]).all()
    assert run.data.bursts.between(1, run.data.events).all() and (run.data.p50_ns <= run.data.p99_ns).all()
    table = run.summary().set_index("by")
    assert table.switches_per_event["one"] < 0.5 * table.switches_per_event["own"]


@pytest.mark.parametrize("module", [timers_figure, connections_figure])
def test_a_prediction_stands_on_one_panel_alone(module: ModuleType, tiny: Callable[[str], Result]) -> None:
    """Two panels have times, and the chapter asks for one of them."""
    made = [{"value": 3.0, "unit": "ms", "label": "mine"}]
    drawing = tiny(module.KIND).plot(predictions=made).mpl
    dashed = [sum(line.get_linestyle() == "--" for line in ax.lines) for ax in drawing.axes]
    assert dashed == [0, 0, 1]


# ---- connections ----


def test_every_request_is_served_and_answered(tiny: Callable[[str], Result]) -> None:
    run = tiny("connections.sweep")
    assert (run.data.requests == run.data.sent).all() and (run.data.answered == run.data.sent).all()
    expected = run.data.rate_per_s * run.parameters["duration_ms"] // 1000
    assert (run.data.sent == expected).all()
    assert (run.data.p50_ns <= run.data.p99_ns).all() and (run.data.p99_ns <= run.data.max_ns).all()
    assert (run.data.p50_ns > 0).all() and (run.data.elapsed_ns > 0).all()


def test_each_server_is_measured_at_each_point(tiny: Callable[[str], Result]) -> None:
    run = tiny("connections.sweep")
    cells = run.data.groupby(["by", "connections", "rate_per_s"]).size()
    assert len(cells) == 2 * 2 * 2 and (cells == run.parameters["trials"]).all()
    table = run.summary()
    assert (table.answered_share == 1).all()
    assert table[table["by"] == "loop"].requests_per_wait.notna().all()
    assert table[table["by"] == "threads"].requests_per_wait.isna().all()


@pytest.mark.parametrize("by", connections.SERVERS)
def test_threads_take_their_stacks_and_hanging_up_is_no_requests_cost(by: str) -> None:
    """Five requests over 400 connections: the end of 400 threads would be most of the switches."""
    arguments = ["--by", by, "--connections", "400", "--rate", "100", "--duration-ms", "50"]
    with workloads.start("connections", arguments) as both:
        served, sent = both.run()
    assert served["requests"] == sent["answered"] == sent["sent"] == 5
    assert served["voluntary"] + served["involuntary"] < 200 and served["waits"] <= 5
    assert (served["rss_bytes"] > 400 * 4096) == (by == "threads")


def test_a_thread_is_switched_for_a_request_and_not_again_when_its_answer_is_taken() -> None:
    arguments = ["--by", "threads", "--connections", "5", "--rate", "200", "--duration-ms", "200"]
    with workloads.start("connections", arguments) as both:
        served, _ = both.run()
    assert 0.2 < served["voluntary"] / served["requests"] < 1.5


def test_no_more_connections_than_limits_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "most_threads", lambda: 9)
    run = connections.sweep(profile="tiny", connections=[5, 50], trials=1, save=False, progress=False)
    assert sorted(run.data.connections.unique()) == [5, 9]
    assert any("More than 9 connections" in note.text for note in run.notes)
