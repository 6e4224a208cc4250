"""What kept the CPU while threads waited: parts that add up exactly, on workloads with a known answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from sched_labs import cgroups
from sched_labs.core.errors import ParameterError
from sched_labs.probes import runqlat, schedstat
from sched_labs.probes.waits import CAUSES, OCCUPANTS, Attribution, Waits, bin_edges_ns

ALLOWED = sorted(os.sched_getaffinity(0))
CPU = ALLOWED[-1]
HERE = runqlat.available()
live = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")
two_cpus = pytest.mark.skipif(len(ALLOWED) < 2, reason="there is no other CPU")

HOG = "import os, sys\nos.sched_setaffinity(0, {%d})\nprint(flush=True)\nwhile True: pass"
SLEEPER = (
    "import os, time\nos.sched_setaffinity(0, {%d})\nprint(flush=True)\n"
    "while True:\n time.sleep(0.002)\n for _ in range(20000): pass"
)


@contextmanager
def running(*programs: str, cpu: int = CPU) -> Iterator[list[int]]:
    """So many Python programs on one CPU."""
    started = [
        subprocess.Popen([sys.executable, "-c", program % cpu], stdout=subprocess.PIPE)
        for program in programs
    ]
    try:
        for process in started:
            assert process.stdout
            process.stdout.readline()
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout
            process.stdout.close()


def watched(pids: list[int], seconds: float = 0.8) -> Waits:
    with runqlat.watch(pids, seconds, attribution=True) as probe:
        probe.start()
        *_, final = probe
    assert_parts_are_whole(final)
    return final


def assert_parts_are_whole(waits: Waits) -> Attribution:
    """The parts add up to the waits, which were added up apart, and both agree with the histogram."""
    found = waits.attribution
    assert found is not None
    for cause in CAUSES:
        share = found.shares[cause]
        assert sum(share.parts_ns.values()) == share.sum_ns  # to the nanosecond
        assert all(ns > 0 for ns in share.parts_ns.values())
        edges = [(bin_edges_ns(n, waits.bin_bits), count) for n, count in waits.counts[cause].items()]
        assert sum(low * count for (low, _), count in edges) <= share.sum_ns
        assert share.sum_ns <= sum((high - 1) * count for (_, high), count in edges)
        assert share.moved + share.held <= 2 * sum(waits.counts[cause].values())
        assert sum(share.could.values()) + sum(share.later.values()) <= sum(waits.counts[cause].values())
        assert share.could_ns + share.later_ns <= share.sum_ns
        # Bin by bin, too.
        for number in {number for number, _ in share.parts_ns}:
            inside = [
                (e, c)
                for (e, c), n in zip(edges, waits.counts[cause], strict=True)
                if n >> found.fold == number
            ]
            part = sum(ns for (n, _), ns in share.parts_ns.items() if n == number)
            assert (
                sum(low * c for (low, _), c in inside)
                <= part
                <= sum((high - 1) * c for (_, high), c in inside)
            )
    assert sum(found.total_ns().values()) == found.sum_ns
    assert set(found.total_ns()) == set(OCCUPANTS)
    assert found.data["part_ns"].sum() == found.sum_ns
    assert found.stolen_ns >= 0
    return found


def ran_ns(pids: list[int]) -> int:
    """How long these have had a CPU so far."""
    return sum(tally.run_ns for tally in schedstat.look(pids).values())


def share_of(waits: Waits, *occupants: str, cause: str | None = None) -> float:
    assert waits.attribution
    total = waits.attribution.total_ns(cause)
    return sum(total[name] for name in occupants) / max(1, sum(total.values()))


# ---- live -------------------------------------------------------------------------------------------------


@live
def test_own_threads_keep_each_other_waiting() -> None:
    """Each waits whenever it does not run, and for its own program whenever another of the three does."""
    with running(HOG, HOG, HOG) as pids, runqlat.watch(pids, 0.8, attribution=True) as probe:
        ran_before, since = ran_ns(pids), time.monotonic_ns()
        probe.start()
        *_, waits = probe
        ran, passed = ran_ns(pids) - ran_before, time.monotonic_ns() - since
    assert_parts_are_whole(waits)
    assert waits.total > 20
    assert share_of(waits, "same_program") > 0.7 * 2 * ran / (3 * passed - ran)  # other programs may be about
    assert share_of(waits, "idle", "throttled", "migrated", "unattributed") < 0.05


@live
def test_another_program_keeps_them_waiting() -> None:
    with running(HOG, HOG) as (ours, _):
        waits = watched([ours])
    assert share_of(waits, "same_program") < 0.01  # it has one thread, which cannot wait for itself
    assert share_of(waits, "other_task") > 0.8


@live
def test_a_sleeper_waits_for_its_cpu_to_wake_up() -> None:
    with running(SLEEPER) as pids:
        waits = watched(pids)
    assert waits.attribution
    wakeups = waits.attribution.shares["wakeup"]
    assert wakeups.sum_ns > 0
    assert share_of(waits, "same_program", "throttled", "migrated", "unattributed", cause="wakeup") == 0


@live
@two_cpus
def test_a_wait_that_moves_is_followed() -> None:
    with running(HOG, HOG, HOG) as pids, runqlat.watch(pids, 5, attribution=True) as probe:
        probe.start()
        for step in range(60):  # the one that waits has to go as well
            for pid in pids:
                os.sched_setaffinity(pid, {ALLOWED[step % 2]})
            time.sleep(0.01)
        waits = probe.stop()
    found = assert_parts_are_whole(waits)
    assert sum(share.moved for share in found.shares.values()) > 0
    assert share_of(waits, "migrated", "unattributed") < 0.1


@live
def test_a_real_time_hog_is_named() -> None:
    code = (
        "import os, sys, time\nos.sched_setaffinity(0, {%d})\n"
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nprint(flush=True)\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end:\n"
        " until = time.monotonic() + 0.05\n while time.monotonic() < until: pass\n time.sleep(0.05)"
    )
    if len(ALLOWED) < 2:
        pytest.skip("real-time hogs never take the last CPU")
    may = subprocess.run(["chrt", "-f", "1", "true"], capture_output=True, check=False)
    if may.returncode:
        pytest.skip("this user may not use real-time policies")
    with running(HOG) as pids, runqlat.watch(pids, 3, attribution=True) as probe, running(code) as real_time:
        probe.start()
        before = ran_ns(real_time)
        time.sleep(1.0)
        ran = ran_ns(real_time) - before
        waits = probe.stop()
    found = assert_parts_are_whole(waits)
    assert ran > 0
    assert found.total_ns()["realtime"] > 0.8 * ran  # all the while the other one could not run


@live
def test_a_quota_that_is_used_up_is_named() -> None:
    able, why = cgroups.possible()
    if not able:
        pytest.skip(why)
    with (
        cgroups.group("look", quota_us=2000, period_us=100_000) as group,  # less than any load leaves it
        running(HOG) as (pid,),
        runqlat.watch([pid], 60, 0.2, attribution=True) as probe,
    ):
        group.add(pid)
        probe.start()
        before = group.counted()
        for waits in probe:
            throttled_ns = group.counted().since(before).throttled_ns
            assert waits.attribution
            if sum(share.held for share in waits.attribution.shares.values()) >= 5:
                break
        waits = probe.stop()
        with runqlat.watch([pid], 60, 0.2, scope="cgroup", by="cgroup") as probe:
            probe.start()
            for grouped in probe:
                if grouped.total:
                    break
            grouped = probe.stop()
        number = Path(group.path).stat().st_ino
        assert set(grouped.keys) == {number}
        assert int(grouped.of(number)["waits"].sum()) == grouped.total > 0
    found = assert_parts_are_whole(waits)
    assert sum(share.held for share in found.shares.values()) >= 5
    assert found.total_ns()["throttled"] > 0.5 * throttled_ns > 0  # by the kernel's own count


def idle_s(cpu: int) -> float:
    """For how long a CPU has been idle, or waiting for a disk, since the machine started."""
    lines = (line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines())
    words = next(words for words in lines if words[0] == f"cpu{cpu}")
    return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")


def room_elsewhere(waits: Waits) -> tuple[int, int]:
    """How many waits began while an allowed CPU was idle, and how many more had one later."""
    assert waits.attribution
    shares = waits.attribution.shares.values()
    return sum(sum(share.could.values()) for share in shares), sum(
        sum(share.later.values()) for share in shares
    )


@live
def test_an_idle_cpu_is_no_room_for_a_thread_that_may_not_use_it() -> None:
    with running(HOG, SLEEPER) as (_, sleeper):
        pinned = watched([sleeper])
    assert pinned.total > 5
    assert room_elsewhere(pinned) == (0, 0)


@live
@two_cpus
def test_busy_cpus_are_no_room() -> None:
    """A hog is pinned to each CPU that the threads may use: neither is ever idle."""
    with running(HOG, cpu=ALLOWED[0]), running(HOG, HOG, SLEEPER) as (_, hog, sleeper):
        for pid in (hog, sleeper):
            os.sched_setaffinity(pid, {ALLOWED[0], CPU})
        waits = watched([hog, sleeper])
    assert waits.total > 5
    assert room_elsewhere(waits) == (0, 0)


@live
@two_cpus
def test_a_cpu_that_is_idle_during_the_wait_is_noticed() -> None:
    """A thread stands behind hogs, bound to their CPU; while it waits it may use one that often is idle."""
    idle_before = idle_s(ALLOWED[0])
    with (
        running(SLEEPER, cpu=ALLOWED[0]),
        running(HOG, HOG, HOG) as (*_, ours),
        runqlat.watch([ours], 10, 0.2, attribution=True) as probe,
    ):
        probe.start()
        for snapshot in probe:
            if room_elsewhere(snapshot)[1] >= 3:
                break
            for _ in range(10):
                os.sched_setaffinity(ours, {CPU})
                time.sleep(0.02)
                os.sched_setaffinity(ours, {ALLOWED[0], CPU})
                time.sleep(0.01)
        waits = probe.stop()
    assert_parts_are_whole(waits)
    if room_elsewhere(waits)[1] < 3 and idle_s(ALLOWED[0]) - idle_before < 1:
        pytest.skip("other programs left the other CPU no idle moment")
    assert room_elsewhere(waits)[1] >= 3


@live
@pytest.mark.parametrize("bins", ["fine", "log2"])
def test_keys_have_all_waits_between_them(bins: str) -> None:
    with running(HOG, HOG, HOG) as pids:
        for by in ("thread", "process", "cpu"):
            with runqlat.watch(pids, 0.4, 0.1, by=by, bins=bins) as probe:
                probe.start()
                *_, waits = probe
            assert waits.unkeyed == 0 and waits.by == by
            assert waits.by_key["waits"].sum() == waits.total > 0
            assert {by, "bin_low_ns", "bin_high_ns", "cause", "waits"} == set(waits.by_key.columns)
            known = set(pids) if by != "cpu" else {CPU}
            assert {key for key in waits.keys if len(waits.of(key))} == known
            width = (waits.data["bin_high_ns"] / waits.data["bin_low_ns"])[waits.data["bin_low_ns"] > 64]
            assert (width == 2).all() if bins == "log2" else (width <= 1.03).all()
            with pytest.raises(ParameterError, match="No wait was counted"):
                waits.of(999_999_999)


@live
def test_more_keys_than_there_is_room_for_are_counted() -> None:
    code = (
        "import threading\n"
        "print(flush=True)\n"
        "import sys; sys.stdin.readline()\n"
        "for _ in range(1300):\n t = threading.Thread(target=int); t.start(); t.join()\n"
        "print(flush=True)\nsys.stdin.readline()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    try:
        process.stdout.readline()
        with runqlat.watch([process.pid], 30, by="thread", bins="log2") as probe:
            probe.start()
            process.stdin.write("go\n")
            process.stdin.flush()
            process.stdout.readline()
            waits = probe.stop()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    assert 900 < len(waits.keys) <= 1024
    assert waits.unkeyed > 0
    assert waits.by_key["waits"].sum() + waits.unkeyed == waits.total


@live
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may watch the whole machine")
def test_the_whole_machine_and_no_process() -> None:
    with running(HOG, HOG) as pids, runqlat.watch([], 0.5, scope="machine", by="process") as probe:
        probe.start()
        *_, waits = probe
    assert set(pids) <= set(waits.keys)
    assert 0 not in waits.keys


# ---- computed ---------------------------------------------------------------------------------------------


def test_folded_bins_join() -> None:
    for fold in (4, 6):
        bins = [bin_edges_ns(number, 6, fold) for number in range((35 << 6) >> fold)]
        assert bins[0][0] == 0
        assert all(one[1] == after[0] for one, after in pairwise(bins))
        for number in (0, 63, 64, 1000, 2000):
            low, high = bin_edges_ns(number, 6)
            folded = bin_edges_ns(number >> fold, 6, fold)
            assert folded[0] <= low and high <= folded[1]
