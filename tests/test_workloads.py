"""Native workloads: they compile without a warning, finish, fail plainly, and never stay behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from sched_labs import workloads
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.workloads import build, launch

# Arguments that make each workload as short as it can be.  A new workload in src/ must get a line here.
TINY = {
    "roles": ["--ms", "20", "sleeper:1:0:2000:50", "hog:1", "pair:1", "yielder:1:0:20", "forker:1:0:1:20"],
    "requests": ["--duration-ms", "30", "--stall-ms", "5"],
    "wakepath": ["--wakes", "5", "--spin"],
    "wakeplace": ["--workers", "1", "--duration-ms", "20"],
    "service": ["--duration-ms", "50", "--loops", "1000"],
    "burn": ["--workers", "2", "--duration-ms", "50"],
    "chase": [
        "--working-set",
        "4096",
        "--partner",
        "0",
        "--partner",
        "4096",
        "--passes",
        "3",
        "--trials",
        "2",
    ],
    "ipc": ["--trials", "1", "--block-ms", "5", "--condition", "switches"],
    "packets": ["--trials", "1", "--block-ms", "2", "--bytes", "64", "--way", "mmsg"],
    "pool": ["--duration-ms", "10", "--hot", "4096"],
    "orders": ["--workers", "2", "--work-us", "10", "--duration-ms", "20"],
    "migrate": ["--working-set", "4096", "--every-us", "100", "--steps", "2", "--trials", "1"],
    "nodes": ["--working-set", "4096", "--loads", "64", "--trials", "1"],
    "siblings": ["--work", "alu", "--work", "memory", "--window-ms", "2", "--trials", "1"],
    "yielder": ["--yields", "20", "--trials", "2"],
    "convoy": ["--items", "320", "--budget-ms", "20"],
    "hops": ["--trials", "1", "--hops", "1000"],
    "threads": ["--threads", "3", "--hold-ms", "1"],
    "batching": ["--events", "20", "--trials", "1"],
    "herd": ["--events", "5", "--trials", "1"],
    "dispatch": ["--requests", "5", "--trials", "1"],
    "phase": ["--phases", "1", "--round-us", "20000", "--settle-us", "0"],
    "balance": ["--hogs", "2", "--hold-ms", "1", "--watch-ms", "5"],
    "napi": ["--block-ms", "2", "--way", "call"],
    "holder": ["--hand-overs", "1", "--hold-us", "500"],
    "inversion": ["--priority", "0", "--hand-overs", "2"],
    "timers": ["--periods", "2", "--trials", "1"],
    "connections": ["--connections", "3", "--duration-ms", "10"],
    "mystery": ["--duration-ms", "30"],
    "hogpair": ["--duration-ms", "20"],
    "periodic": ["--hogs", "1", "--wakes", "5", "--period-us", "1000"],
    "pingpong": ["--round-trips", "5", "--trials", "2"],
    "loops": ["--iterations", "20", "--trials", "2"],
    "ring": ["--bytes", "4096", "--laps", "3", "--alone", "3", "--trials", "2"],
    "fpu": ["--round-trips", "20", "--trials", "2"],
    "tlb": ["--pages", "8", "--passes", "2", "--trials", "2"],
    "shootdown": ["--calls", "20"],
    "reference": ["--rung", "call", "--trials", "2", "--batch-us", "50"],
    "sleeper": ["--hogs", "1", "--wakes", "5", "--period-us", "500"],
    "neighbour": ["--duration-ms", "20", "--burst", "3"],
    "waiters": ["--duration-ms", "20"],
    "wakeup": ["--wakes", "5", "--period-us", "500"],
    "weights": ["--nice", "10", "--duration-ms", "10"],
    "worker": ["--workers", "2", "--duration-ms", "10"],
}
LONG = ["--round-trips", "100000000", "--trials", "1"]  # pingpong for much longer than any test


def group_is_gone(group: int) -> bool:
    """No process of the group is left, other than ended ones that nobody has waited for.

    Those that die with the workload (by PDEATHSIG) get the time to do so.
    """
    return wait_until(lambda: not members(group))


def members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(after_name[2]) == group and after_name[0] not in "ZX":
                found.append(int(entry.name))
    return found


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache: workloads must be compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Workloads of our own: the body of main() after lab_begin()."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "lab.h").write_text((build.SHARED / "lab.h").read_text())
    monkeypatch.setattr(build, "SHARED", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(body: str) -> None:
        (folder / "odd.c").write_text(
            f'#include "lab.h"\nint main(void)\n{{\n    lab_begin(2);\n    {body}\n}}\n'
        )

    yield write


# --- building ---


@pytest.mark.computes
def test_every_workload_compiles_without_a_warning_and_only_once(cache: Path) -> None:
    assert {"-Wall", "-Wextra", "-Werror"} <= set(build.FLAGS)
    built = workloads.build_all()
    assert set(built) == set(workloads.names()) and {"pingpong", "chase"} <= set(built)
    assert all(os.access(binary, os.X_OK) and cache in binary.parents for binary in built.values())
    times = {binary: binary.stat().st_mtime_ns for binary in built.values()}
    assert workloads.build_all() == built
    assert {binary: binary.stat().st_mtime_ns for binary in built.values()} == times
    assert {file for binary in times for file in binary.parent.iterdir()} == set(times)  # nothing half made


def test_another_source_or_header_makes_another_binary(sources: Callable[[str], None]) -> None:
    sources("return 0;")
    first = build.recipe("odd")
    sources("return 1;")
    second = build.recipe("odd")
    (build.SHARED / "lab.h").write_text((build.SHARED / "lab.h").read_text() + "\n")
    assert len({first, second, build.recipe("odd")}) == 3


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name in ("pong", "../src/pingpong", ""):
        with pytest.raises(ParameterError, match=r"no workload.*\n.*pingpong"):
            workloads.path(name)


def test_without_a_compiler_the_reader_is_told_what_to_install(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(WorkloadError, match=r"no C compiler here \('cc'.*\n.*provision\.sh"):
        workloads.start("pingpong")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(WorkloadError, match="no-such-compiler"):
        workloads.path("pingpong")


def test_a_compiled_workload_needs_no_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = workloads.path("pingpong")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert workloads.path("pingpong") == binary


def test_a_compiler_that_fails_is_quoted(sources: Callable[[str], None], tmp_path: Path) -> None:
    sources("int unused; return undeclared;")
    with pytest.raises(WorkloadError, match=r"odd does not compile with[\s\S]*undeclared"):
        workloads.path("odd")
    left = [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert left == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(WorkloadError, match=r"Cannot write .*\n.*XDG_CACHE_HOME"):
        workloads.path("pingpong")


# --- running ---


@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_runs_to_its_end_and_leaves_nothing(name: str) -> None:
    with workloads.start(name, TINY[name], deadline_s=30) as workload:
        assert workload.tids and len(set(workload.tids)) == len(workload.tids)
        assert {os.getpgid(tid) for tid in workload.tids} == {
            workload.pid
        }  # they are there, and in its group
        records = workload.run()
    assert records
    assert group_is_gone(workload.pid)


@pytest.mark.parametrize("by", ["pipe", "eventfd", "futex", "condvar", "yield"])
@pytest.mark.parametrize("between", ["threads", "processes"])
def test_ping_pong_alternates_its_conditions(by: str, between: str) -> None:
    arguments = ["--by", by, "--between", between, "--round-trips", "20", "--trials", "3"]
    with workloads.start("pingpong", arguments, deadline_s=30) as pingpong:
        blocks = pingpong.run()
    assert [(b["trial"], b.text("condition")) for b in blocks] == [
        (trial, condition) for trial in range(3) for condition in ("alone", "exchange")
    ]
    assert all(b["elapsed_ns"] > 0 and b["cpu_ns"] > 0 and b["round_trips"] == 20 for b in blocks)
    assert all(b["voluntary"] >= 0 and b["involuntary"] >= 0 and b["migrations"] >= 0 for b in blocks)


def test_the_chase_turns_its_order_round_from_trial_to_trial() -> None:
    with workloads.start("chase", TINY["chase"], deadline_s=30) as chase:
        records = chase.run()
    blocks = [r["partner"] for r in records if r.kind == "block"]
    assert blocks == [-1, 0, 4096, 4096, 0, -1]
    assert sum(r.kind == "pass" for r in records) == 3 * len(blocks)
    assert all(r["ns"] > 0 and r["away"] > 0 for r in records if r.kind == "pass")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("pingpong", ["--by", "post"], "--by takes pipe"),
        ("pingpong", ["--trials", "-1"], "--trials takes a number from 1"),
        ("pingpong", ["--trials", "1x"], "not '1x'"),
        ("chase", ["--working-set", "8", "--line", "64"], "at least one line"),
        ("chase", ["--working-set", str(1 << 39)], "cannot map|no memory"),
        ("chase", ["--access", "backwards"], "random or sequential"),
    ],
)
def test_wrong_arguments_are_explained_by_the_workload(name: str, arguments: list[str], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        workloads.start(name, arguments).end()


def test_a_record_that_is_none_is_refused() -> None:
    assert launch.parse("block trial=0 condition=alone").text("condition") == "alone"
    with pytest.raises(WorkloadError, match="no record"):
        launch.parse("block trial")
    with pytest.raises(WorkloadError, match="where a number was due"):
        launch.parse("block condition=alone")["condition"]
    with pytest.raises(WorkloadError, match="where a number was due"):
        launch.parse("block")["trial"]


# --- dying, hanging, being killed ---


def test_a_workload_that_dies_is_reported_with_what_it_said(sources: Callable[[str], None]) -> None:
    sources('lab_barrier((pid_t[]){lab_tid()}, 1);\n    errno = 0;\n    lab_fail("the tea is cold");')
    with workloads.start("odd") as odd, pytest.raises(WorkloadError, match="status 1: the tea is cold"):
        odd.run()
    sources("lab_barrier((pid_t[]){lab_tid()}, 1);\n    abort();")
    with workloads.start("odd") as odd, pytest.raises(WorkloadError, match="SIGABRT and said nothing"):
        odd.run()
    sources('puts("hello");\n    return 0;')
    with pytest.raises(WorkloadError, match="said 'hello' before it was ready"):
        workloads.start("odd")
    sources("return 3;")
    with pytest.raises(WorkloadError, match="ended with status 3"):
        workloads.start("odd")


def test_a_workload_past_its_deadline_ends_itself() -> None:
    said = "did not finish within its deadline of 1 s"
    with (
        workloads.start("pingpong", LONG, deadline_s=1) as pingpong,
        pytest.raises(WorkloadError, match=said),
    ):
        pingpong.run()
    assert group_is_gone(pingpong.pid)


@pytest.mark.computes
def test_a_workload_that_ignores_its_deadline_is_killed(
    sources: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_GRACE_S", 2)
    sources("alarm(0);\n    lab_barrier((pid_t[]){lab_tid()}, 1);\n    for (;;)\n        pause();")
    said = "hung past its deadline"
    with workloads.start("odd", deadline_s=0.5) as odd, pytest.raises(WorkloadError, match=said):
        odd.run()
    assert group_is_gone(odd.pid)


@pytest.mark.parametrize("by", ["pipe", "futex", "condvar", "yield"])
def test_a_killed_partner_ends_the_workload_at_once(by: str) -> None:
    arguments = [*LONG, "--by", by, "--between", "processes"]
    with workloads.start("pingpong", arguments, deadline_s=60) as pingpong:
        pingpong.go()
        os.kill(pingpong.tids[1], signal.SIGKILL)
        start = time.monotonic()
        with pytest.raises(WorkloadError, match="a process of this workload was killed"):
            list(pingpong.records())
        assert time.monotonic() - start < 30  # not only at its deadline
    assert group_is_gone(pingpong.pid)


def test_a_killed_chase_partner_ends_the_workload_at_once() -> None:
    arguments = ["--partner", "4096", "--passes", "100000", "--trials", "100000"]
    with workloads.start("chase", arguments, deadline_s=60) as chase:
        chase.go()
        os.kill(chase.tids[1], signal.SIGKILL)
        with pytest.raises(WorkloadError, match="a process of this workload was killed"):
            list(chase.records())
    assert group_is_gone(chase.pid)


@pytest.mark.parametrize("between", ["threads", "processes"])
@pytest.mark.parametrize("started", [False, True])
def test_the_end_of_its_input_ends_the_whole_group(between: str, started: bool) -> None:
    binary = workloads.path("pingpong")
    process = subprocess.Popen(
        [str(binary), *LONG, "--between", between],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin and process.stdout
    with process:
        assert process.stdout.readline().startswith(b"ready ")
        if started:
            process.stdin.write(b"go\n")
        process.stdin.close()
        assert process.wait(timeout=15) == -signal.SIGKILL
    assert group_is_gone(process.pid)


@pytest.mark.parametrize("between", ["threads", "processes"])
def test_killing_the_python_that_started_it_leaves_no_process(between: str) -> None:
    code = f"""
from sched_labs import workloads
w = workloads.start("pingpong", {[*LONG, "--between", between]!r})
w.go()
print(w.pid, flush=True)
list(w.records())
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    with owner:
        group = int(owner.stdout.readline())
        assert members(group)
        owner.kill()
    assert group_is_gone(group)


def test_leaving_the_context_ends_it_whatever_it_was_doing() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        workloads.start("pingpong", [*LONG, "--between", "processes"]) as pingpong,
    ):
        pingpong.go()
        assert len(children(pingpong.pid)) == 2  # the partner, and the watcher of stdin
        raise KeyboardInterrupt
    assert group_is_gone(pingpong.pid)
    pingpong.end()  # harmless a second time
    with workloads.start("pingpong", LONG) as waiting:
        pass  # never went
    assert group_is_gone(waiting.pid)


def test_go_to_a_workload_that_has_died_is_a_plain_error() -> None:
    with workloads.start("pingpong", LONG) as pingpong:
        os.killpg(pingpong.pid, signal.SIGKILL)
        with pytest.raises(WorkloadError, match="ended by SIGKILL"):
            pingpong.run()


def test_workloads_stand_in_the_task_group_of_whoever_starts_them() -> None:
    """So that nice values and numbers of threads count between them: a session is a task group."""
    words = ["--workers", "1", "--duration-ms", "10"]
    with workloads.start("burn", words) as one, workloads.start("burn", words) as other:
        assert {os.getsid(one.pid), os.getsid(other.pid)} == {os.getsid(0)}
        assert os.getpgid(one.pid) == one.pid and os.getpgid(other.pid) == other.pid


def test_every_process_carries_the_mark_of_its_owner() -> None:
    with workloads.start("pingpong", [*LONG, "--between", "processes"]) as pingpong:
        for tid in pingpong.tids:
            environment = Path(f"/proc/{tid}/environ").read_bytes().split(b"\0")
            assert f"{launch.MARKER}={launch.owner_mark()}".encode() in environment
