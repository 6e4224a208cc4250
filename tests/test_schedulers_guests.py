"""Schedulers in guests: what goes wrong is said, what goes right is scored, on both kernels."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sched_labs import kernels, scheduler
from sched_labs.core.errors import SchedLabError
from sched_labs.kernels.errors import PackageError, QemuError
from sched_labs.kernels.jobs.scheduler import LIBRARY, OBJECT
from sched_labs.schedulers import compile as compiling
from sched_labs.schedulers import contests, trial

WRONG = Path(__file__).with_name("schedulers")
KERNELS = ("6.18", "7.3")
# In virtual time, and with no digit compared: what else the machine does decides nothing.
BESIDE_OTHERS = pytest.mark.computes
EXAMPLES = ("fifo", "per_cpu", "fair", "deadline", "short_first")


@pytest.fixture(autouse=True, scope="module")
def _can_boot(own_lock: None) -> None:
    try:
        compiling.compiled(compiling.KERNELS_OWN)
        trial.libbpf()
        for name in KERNELS:
            kernels.get(name)
    except (PackageError, QemuError) as error:
        pytest.skip(f"no other kernel can be booted here: {error.what}")
    except SchedLabError as error:
        if not error.lacking:
            raise
        pytest.skip(error.what)


@BESIDE_OTHERS
@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("forgets", r"forgets.bpf.c left hog-2 runnable for 1\.\d s without giving it a CPU"),
        ("never_dispatches", "gave no CPU to the kernel's own threads either"),
        ("drops", "gave no CPU to the kernel's own threads either"),
        ("loops", r"loops.bpf.c:5: while \(turns != 7\)\nThe verifier, which follows every path"),
        ("index", r"index.bpf.c:5: counted\[p->pid\]\+\+;\nAn index may lie outside"),
        ("not_sleepable", r"not_sleepable.bpf.c:2: .*\nThis function of the kernel may sleep"),
        ("writes", r"writes.bpf.c:4: p->scx.weight = 10000;\nThis field is the kernel's own"),
        ("says_so", "a hog has come"),
        ("no_queue", "into queue 77, which it has not made"),
        ("no_function", "calls scx_bpf_be_fair, and kernel 6.18 has no such function"),
        ("wrong_place", "calls a function of the kernel where it may not"),
    ],
)
def test_a_wrong_scheduler_is_told_what_is_wrong(file: str, said: str) -> None:
    with pytest.raises(scheduler.SchedulerError, match=said) as caught:
        scheduler.run(WRONG / f"{file}.bpf.c", progress=False)
    assert caught.value.remedy


@BESIDE_OTHERS
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_runs_every_thread_of_the_workload(example: str, kernel: str) -> None:
    found = scheduler.run(scheduler.EXAMPLES / f"{example}.bpf.c", kernel=kernel, progress=False)
    assert (found.tables["threads"]["cpu_ns"] > 0).all()
    assert found.data["queue"].notna().any()


@BESIDE_OTHERS
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_example_wins_and_loses_what_the_chapter_says(kernel: str) -> None:
    files = [scheduler.EXAMPLES / f"{name}.bpf.c" for name in ("fifo", "fair", "deadline", "short_first")]
    found = scheduler.bout(files, kernel=kernel, progress=False)
    rows = found.rows.set_index(["scheduler", "workload"])
    assert (rows["why"] == "").all()
    times = {key: row["times_better"] for key, row in rows.iterrows()}
    assert times["fifo.bpf.c", "sleeper"] < times["fair.bpf.c", "sleeper"] < 0.5
    assert times["deadline.bpf.c", "sleeper"] > 1 and times["short_first.bpf.c", "sleeper"] > 1
    assert times["fifo.bpf.c", "weights"] < 0.7 < 0.95 < times["fair.bpf.c", "weights"]
    assert times["short_first.bpf.c", "weights"] < 0.7
    assert all(0.95 < times[f"{name}.bpf.c", "batch"] < 1.05 for name in ("fifo", "fair", "deadline"))


@BESIDE_OTHERS
@pytest.mark.parametrize("kernel", KERNELS)
def test_to_the_head_of_the_queue_goes_who_is_put_there(kernel: str, tmp_path: Path) -> None:
    """The flag's number differs between the two kernels."""
    first_come = scheduler.EXAMPLES / "fifo.bpf.c"
    head = "    if (enq_flags & SCX_ENQ_WAKEUP)\n        enq_flags |= SCX_ENQ_HEAD;\n"
    text = first_come.read_text()
    woken_first = tmp_path / "woken_first.bpf.c"
    woken_first.write_text(text.replace("    scx_bpf_dsq_insert(", head + "    scx_bpf_dsq_insert("))
    ends, begins = (scheduler.run(path, kernel=kernel, progress=False) for path in (first_come, woken_first))
    assert begins.score < 0.9 * ends.score


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_comparison_gives_the_same_digits_twice(kernel: str) -> None:
    fifo = [scheduler.EXAMPLES / "fifo.bpf.c"]
    one, again = (scheduler.compare(fifo, workload="storm", kernel=kernel, progress=False) for _ in range(2))
    pd.testing.assert_frame_equal(again.rows, one.rows)


def test_names_that_say_nothing_change_who_is_called_what_and_not_what_is_due() -> None:
    fair = scheduler.EXAMPLES / "fair.bpf.c"
    named, anonymous = (scheduler.run(fair, anonymous=hidden, progress=False) for hidden in (False, True))
    due = [one.tables["requests"]["due_ns"].tolist() for one in (named, anonymous)]
    assert due[0] == due[1]
    assert not {"sleeper-1", "hog-1"} & set(anonymous.tables["threads"]["thread"])
    other = scheduler.run(fair, seed=2, progress=False)
    assert other.tables["requests"]["due_ns"].tolist() != due[0]


@pytest.mark.parametrize(("file", "late"), [("fifo", False), ("drops", True)])
def test_on_a_running_kernel_the_kernels_own_scheduler_comes_back(file: str, late: bool) -> None:
    """The running kernel is a guest's: it has sched_ext, which this machine's may not have."""
    path = (WRONG if late else scheduler.EXAMPLES) / f"{file}.bpf.c"
    said = kernels.run(
        KERNELS[0],
        "sched_labs.schedulers.here:guarded",
        {"arguments": contests.find("sleeper").arguments(1, False), "timeout_s": 0.2 if late else 20.0},
        timing="deterministic",
        native=["roles"],
        extra={OBJECT: compiling.compiled(path), LIBRARY: trial.libbpf()},
    ).value
    if late:  # before the watchdog's second is over
        assert said == {"late": True}
    else:
        assert not said["kernel"] and not said["refused"]
        assert {kind for kind, _ in said["records"]} == {"request", "thread", "end"}


def test_on_two_cpus_relations_are_told() -> None:
    """By first come, first served a light sleeper waits for hogs; a busy host may hide that."""
    found = scheduler.compare(
        [scheduler.EXAMPLES / "fifo.bpf.c"], workload="sleeper", timing="vm", cpus=2, progress=False
    )
    assert found.cpus == 2 and found.timing != "deterministic"
    rows = found.rows
    assert (rows["times_better_low"] <= rows["times_better"]).all()
    assert (rows["times_better"] <= rows["times_better_high"]).all()
    assert set(found.relations()["sleeper"]) <= {"worse", "cannot tell"}


def test_with_a_queue_for_every_cpu_no_thread_ever_moves() -> None:
    mine = scheduler.run(
        scheduler.EXAMPLES / "per_cpu.bpf.c", workload="batch", timing="vm", cpus=2, progress=False
    )
    assert mine.timing != "deterministic"
    hogs = mine.data[mine.data["pid"].isin(mine.tables["threads"]["tid"])]
    assert (hogs.groupby("thread")["cpu"].nunique() == 1).all()
