"""Schedulers of a reader: compiled, complained about, recorded, scored; and one that runs in a guest."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sched_labs import cli, kernels, scheduler
from sched_labs.core.errors import ParameterError, ResultError, SchedLabError
from sched_labs.kernels.errors import GuestError, PackageError, QemuError
from sched_labs.schedulers import bouts, complaints, contests, decisions, here, record, trial
from sched_labs.schedulers import cli as from_terminal
from sched_labs.schedulers import compile as compiling
from sched_labs.schedulers.figure import longest_wait

WRONG = Path(__file__).with_name("schedulers")
KERNEL = "6.18"


@pytest.fixture
def clang() -> None:
    if not shutil.which("clang"):
        pytest.skip("there is no clang: scripts/provision.sh --schedulers installs it")


@pytest.fixture(scope="module")
def guest() -> None:
    try:
        compiling.compiled(compiling.KERNELS_OWN)
        trial.libbpf()
        kernels.get(KERNEL)
    except (PackageError, QemuError) as error:
        pytest.skip(f"no other kernel can be booted here: {error.what}")
    except SchedLabError as error:
        if not error.lacking:
            raise
        pytest.skip(error.what)


@pytest.mark.guests
@pytest.mark.measures  # its digits are compared
@pytest.mark.usefixtures("guest")
def test_one_scheduler_gives_the_same_digits_twice_and_its_decisions_add_up() -> None:
    one, again = (scheduler.run(scheduler.EXAMPLES / "fifo.bpf.c", progress=False) for _ in range(2))
    pd.testing.assert_frame_equal(one.data, again.data)
    assert one.facts == again.facts
    assert one.tables["requests"].equals(again.tables["requests"])
    data, summary = one.data, one.summary()
    assert set(summary["role"]) == {"sleeper", "hog"} and (summary["picks"] > 0).all()
    workload = data[data["pid"].isin(one.tables["threads"]["tid"])]
    assert set(workload["queue"].dropna()) == {"0"}  # the one that fifo makes
    assert set(workload["slice_us"].dropna()) == {20_000.0}
    # On one CPU no two have it at once.
    ends = (data["start_us"] + data["ran_us"]).to_numpy()[:-1]
    assert (data["start_us"].to_numpy()[1:] >= ends - 1e-3).all()
    # First come, first served: a hog waits until both others had their 20 ms.
    hogs = summary[summary["role"] == "hog"]
    assert (hogs["wait_p50_us"] > 2 * 19_000).all()
    figure = one.plot()
    assert figure.data["state"].isin(["running", "wake-up", "preemption"]).all()
    assert (figure.data["to_us"] >= figure.data["from_us"]).all()
    assert "virtual" in figure.caption


def test_the_longest_wait_is_not_the_one_in_which_all_threads_begin() -> None:
    """Of two threads one has to wait for the other's first turn, under the best of schedulers."""
    turns = [(1, 0.0, None), (2, 1.0, None), (1, 10.0, 9.0), (2, 21.0, 20.0), (1, 30.0, 5.0), (2, 40.0, 8.0)]
    data = pd.DataFrame(turns, columns=["pid", "start_us", "waited_us"])
    assert longest_wait(data)["waited_us"] == 8.0
    assert longest_wait(data)["of"] == "this run since each of its threads had its second turn"
    assert longest_wait(data[:4])["waited_us"] == 20.0  # nobody waited later
    assert longest_wait(data[:4])["of"] == "this run"
    starved = data[(data["pid"] == 1) | (data["start_us"] == 1.0)]
    assert longest_wait(starved)["waited_us"] == 9.0  # the other one has not begun


# ---- the compiler ----


@pytest.mark.usefixtures("clang")
@pytest.mark.parametrize("example", sorted(path.name for path in scheduler.EXAMPLES.glob("*.c")))
def test_every_example_compiles_is_short_and_depends_on_no_folder(example: str, tmp_path: Path) -> None:
    source = scheduler.EXAMPLES / example
    if example != "kernels_own.bpf.c":
        shutil.copy(source, tmp_path)
        assert compiling.compiled(tmp_path / example) == compiling.compiled(source)


@pytest.mark.parametrize("example", ["fifo", "per_cpu", "fair", "deadline", "short_first"])
def test_an_example_is_a_page_that_a_student_can_read(example: str) -> None:
    lines = (scheduler.EXAMPLES / f"{example}.bpf.c").read_text().splitlines()
    assert 15 <= len(lines) <= 60
    assert max(map(len, lines)) <= 120


@pytest.mark.usefixtures("clang")
@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("semicolon", r"semicolon.bpf.c:4:\d+: error: expected ';'"),
        ("no_member", r"no_member.bpf.c:2:\d+: error: field designator 'fairness'"),
        ("divides", "divides.bpf.c:4: BPF has no signed division"),
        ("no_scheduler", "there is no scheduler in it"),
    ],
)
def test_what_does_not_compile_is_said_at_its_line(file: str, said: str) -> None:
    with pytest.raises(scheduler.SchedulerError, match=said) as caught:
        compiling.compiled(WRONG / f"{file}.bpf.c")
    assert caught.value.remedy and "/tmp" not in str(caught.value)


def test_what_is_no_source_is_refused_before_the_compiler_sees_it(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.bpf.c", tmp_path / "binary.bpf.c"
    large.write_bytes(b"/" * 10_000_000)
    binary.write_bytes(b"\x7fELF\xff\xfe")
    for path, said in (
        (large, "more than 64 KiB"),
        (binary, "is no text"),
        (tmp_path / "none.bpf.c", "No such file"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(scheduler.SchedulerError, match=said):
            compiling.compiled(path)


def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine.bpf.c")
    with pytest.raises(scheduler.SchedulerError, match="no scheduler in it"):
        compiling.compiled(tmp_path / "mine.bpf.c")


def test_a_page_of_macros_does_not_take_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_MOST_KIB", 1 << 20)
    ten = "+".join(["A{0}"] * 10)
    macros = [f"#define A{n + 1} {ten.format(n)}" for n in range(11)]
    (tmp_path / "mine.bpf.c").write_text("\n".join(["#define A0 1", *macros, "int x = A11;"]))
    with pytest.raises(scheduler.SchedulerError, match="more than 1 GiB of memory"):
        compiling.compiled(tmp_path / "mine.bpf.c")


def test_without_clang_the_reader_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SchedLabError, match="no clang here") as caught:
        compiling.compiled(compiling.KERNELS_OWN)
    assert caught.value.lacking and "--schedulers" in caught.value.remedy


def test_without_clang_a_notebook_shows_the_recorded_run_of_an_example(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(trial, "in_notebook", lambda: True)
    shutil.copy(scheduler.EXAMPLES / "fair.bpf.c", tmp_path / "mine.bpf.c")
    found = scheduler.run(tmp_path / "mine.bpf.c", progress=False)
    assert "no clang here" in found.stands_in and found.flags
    assert found.parameters["file"] == "fair.bpf.c" and found.plot().provenance
    assert scheduler.run(None, progress=False).stands_in
    with pytest.raises(SchedLabError, match="no clang here") as caught:  # none was recorded of it
        scheduler.run(scheduler.EXAMPLES / "fair.bpf.c", workload="batch", progress=False)
    assert "recorded_bout" in caught.value.remedy


# ---- what libbpf, the verifier and the kernel say ----


def _log(*lines: str) -> list[str]:
    return [
        "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n" + "\n".join(lines) + "\n-- END PROG LOAD LOG --\n"
    ]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["libbpf: struct_ops init_kern x: Cannot find member fair in kernel BTF\n"], "no such member"),
        (["libbpf: extern (func ksym) 'scx_x': not found in kernel or module BTFs\n"], "no such function"),
        (
            ["libbpf: extern (func ksym) 'scx_x': func_proto [8] incompatible with kernel [9]\n"],
            "describes in another form",
        ),
        (_log("cannot find function scx_x_impl in BTF", "processed 0 insns"), "describes in another form"),
        (
            _log(
                "; a @ scheduler.bpf.c:2", "infinite loop detected at insn 7", "cur state: R1", "processed 3"
            ),
            "mine.bpf.c:2: second\nThe verifier, which follows every path",
        ),
        (_log("something new", "processed 1 insns"), "In its words: something new"),
        (["libbpf: failed to open\n"], "failed to open"),
        ([], "it said nothing"),
    ],
)
def test_a_refusal_becomes_a_sentence(said: list[str], told: str) -> None:
    error = complaints.refused(said, "mine.bpf.c", "6.18", "first\n  second\n")
    assert told in error.what and error.remedy


def test_a_kernel_that_gives_no_reason_is_said_to_give_none() -> None:
    assert "no reason given" in complaints.given_up([], "mine.bpf.c").what


@pytest.fixture
def broken_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every guest that has a scheduler of the reader's breaks."""

    def run(kernel: str, job: str, parameters: object, *, extra: dict[str, object], **_: object) -> None:
        raise GuestError("The guest's kernel broke: Kernel panic - not syncing", "", "its last words")

    monkeypatch.setattr(trial.kernels, "run", run)
    monkeypatch.setattr(trial, "libbpf", lambda: Path("/nowhere"))


@pytest.mark.usefixtures("clang", "broken_guest")
def test_a_guest_that_breaks_is_laid_to_the_scheduler_that_ruled_over_it() -> None:
    with pytest.raises(scheduler.SchedulerError, match=r"broke while fifo\.bpf\.c ruled over it") as caught:
        scheduler.run(scheduler.EXAMPLES / "fifo.bpf.c", progress=False)
    assert "its last words" in caught.value.remedy
    with pytest.raises(GuestError):  # of the kernel's own scheduler there is nothing to mend
        scheduler.run(None, progress=False)


# ---- on the kernel that runs here ----


def test_a_kernel_without_sched_ext_is_told_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(here, "STATE", tmp_path / "state")
    monkeypatch.setattr(here.os, "fork", lambda: pytest.fail("it was tried"))
    with pytest.raises(SchedLabError, match="has no sched_ext") as caught:
        here.guarded([], 1.0)
    assert caught.value.lacking
    (tmp_path / "state").write_text("enabled\n")
    monkeypatch.setattr(here.os, "geteuid", lambda: 1000)
    with pytest.raises(SchedLabError, match="Only root"):
        here.guarded([], 1.0)
    monkeypatch.setattr(here.os, "geteuid", lambda: 0)
    monkeypatch.setattr(here, "_SYSRQ", tmp_path)
    with pytest.raises(SchedLabError, match="has a scheduler of a user's already"):
        here.guarded([], 1.0)
    monkeypatch.setattr(here, "_SYSRQ", tmp_path / "none")
    with pytest.raises(SchedLabError, match="no SysRq"):
        here.guarded([], 1.0)


@pytest.mark.usefixtures("clang")
def test_nobody_can_lend_this_machine_for_long() -> None:
    with pytest.raises(ParameterError, match="for 3600 s"):
        scheduler.run(
            scheduler.EXAMPLES / "fifo.bpf.c", on_this_running_kernel=True, timeout_s=3600, progress=False
        )


def test_the_kernels_own_scheduler_is_asked_for_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, sysrq = tmp_path / "state", tmp_path / "sysrq"
    monkeypatch.setattr(here, "STATE", state)
    monkeypatch.setattr(here, "_SYSRQ", sysrq)
    monkeypatch.setattr(here, "_PATIENCE_S", 0.1)
    state.write_text("disabled\n")
    here.hand_back()
    assert not sysrq.exists()
    state.write_text("enabled\n")
    with pytest.raises(SchedLabError, match="has not come back"):
        here.hand_back()
    assert sysrq.read_text() == "S"


# ---- the record, the scores ----


def _packed(*rows: tuple[int, int, int, int, int, bool, str]) -> str:
    records = np.zeros(len(rows), dtype=decisions._RECORD)
    for place, (time_ns, what, cpu, pid, before, runnable, comm) in enumerate(rows):
        records[place] = (time_ns, runnable, 4000, 7, what, cpu, pid, before, comm.encode())
    return base64.b85encode(zlib.compress(records.tobytes())).decode()


def test_decisions_are_read_from_the_record() -> None:
    woke, queued, switched = 1, 2, 3
    table = decisions.table(
        _packed(
            (1_000, woke, 0, 11, 0, False, "a"),
            (2_000, queued, 0, 11, 0, False, "a"),  # queue 0
            (5_000, switched, 0, 11, 0, False, "a"),
            (9_000, switched, 0, 12, 11, True, "b"),
            (12_000, switched, 0, 11, 12, False, "a"),
            (13_000, switched, 0, 0, 11, False, "swapper/0"),
        )
    )
    assert list(table.columns) == list(decisions.COLUMNS)
    assert table["thread"].tolist() == ["a", "b", "a"]
    assert table["after"].tolist() == ["wake-up", "before", "preemption"]
    assert table["waited_us"].iloc[[0, 2]].tolist() == [4.0, 3.0] and np.isnan(table["waited_us"].iloc[1])
    assert table["ran_us"].tolist() == [4.0, 3.0, 1.0]
    assert table["then"].tolist() == ["runnable", "slept", "slept"]
    assert table["queue"].fillna("none").tolist() == ["0", "none", "0"]
    assert decisions.table(_packed()).empty


def test_the_recorder_and_its_reader_agree() -> None:
    """The sizes stand in C, in the guest's half and here."""
    header = (scheduler.INCLUDE / "recorder.h").read_text()
    assert f"RECORDS = {decisions.MOST}" in header
    from sched_labs.kernels.jobs import scheduler as job

    assert (decisions.MOST, decisions._RECORD.itemsize) == (job._RECORDS, job._RECORD_BYTES)


def _threads(**cpu_ns: int) -> list[dict[str, object]]:
    nice = {"a": -5, "b": 0, "c": 5}
    return [
        {"role": "hog", "number": place, "nice": nice[name], "cpu_ns": ns, "work": ns}
        for place, (name, ns) in enumerate(cpu_ns.items())
    ]


def test_scores_and_what_is_left_to_the_hogs() -> None:
    weights = contests.find("weights")
    due = {name: 1.25**-nice for name, nice in (("a", -5), ("b", 0), ("c", 5))}
    fair = _threads(**{name: round(1e9 * share) for name, share in due.items()})
    assert weights.measure([], fair, 10**9) == pytest.approx(100)
    alone = _threads(a=0, b=0, c=10**9)
    assert weights.measure([], alone, 10**9) < 20
    assert contests.least_kept_percent(alone, fair) == 0
    assert contests.least_kept_percent(fair, fair) == pytest.approx(100)
    late = contests.find("sleeper")
    assert late.measure([{"late_ns": 1000}, {"late_ns": 3000}], [], 1) == 2.0
    assert late.times_better(2.0, 6.0) == 3.0
    assert contests.find("batch").times_better(2.0, 6.0) == pytest.approx(1 / 3)


def _bout(timing: str = "deterministic", **times: tuple[float, ...]) -> scheduler.Bout:
    """A bout on the workloads b, a (and more letters) with these times_better."""
    rows = [
        {
            "scheduler": name, "workload": workload, "times_better": value, "times_better_low": value * 0.98,
            "times_better_high": value * 1.02, "why": "" if value == value else "it failed",
        }
        for name, values in times.items()
        for workload, value in zip("bacdef", values, strict=False)
    ]  # fmt: skip
    return scheduler.Bout(pd.DataFrame(rows), KERNEL, timing, 1)


GONE = float("nan")


def test_a_table_puts_the_best_first_and_what_failed_last() -> None:
    table = _bout(bad=(0.5, 1.0), good=(2.0, 0.5), gone=(9.0, GONE)).table()
    assert list(table.columns) == ["scheduler", "b", "a", "geometric_mean"]
    assert table["scheduler"].tolist() == ["good", "bad", "gone"]
    assert table["geometric_mean"].iloc[0] == pytest.approx(1.0) and np.isnan(table["geometric_mean"].iloc[2])


def test_of_emulated_time_only_relations_are_told() -> None:
    bout = _bout("vm-emulated", mine=(2.0, 0.5), other=(1.04, GONE))
    table = bout.relations()
    assert table.columns.tolist() == ["scheduler", "b", "a"]
    assert table["b"].tolist() == ["better", "cannot tell"]
    assert table["a"].tolist() == ["worse", "failed"]
    with pytest.raises(ResultError, match="only relations"):
        bout.plot()


@pytest.mark.parametrize(
    ("times", "caption"),
    [
        ({"mine": (2.0, 0.5)}, "mine won at b, and lost at a."),
        ({"mine": (2.0, 1.0)}, "mine won at b."),
        ({"mine": (1.0, 1.01)}, "mine is within 5 % of the kernel's own everywhere."),
        ({"mine": (2.0, GONE)}, "mine won at b, and failed at a."),
        ({"mine": (2.0, 0.5), "x": (1.2, 1.0)}, "Of these, x won somewhere and lost nowhere more than 5 %."),
        (
            {"mine": (2.0, 0.5), "x": (1.2, GONE)},
            "Of these, none won somewhere without losing more than 5 % elsewhere.",
        ),
        (
            {f"s{place}": (0.5 + place, 1.0) for place in range(12)},
            "Of the best 8 of 12, s11, s10, s9, s8, s7, s6, s5 and s4 "
            "won somewhere and lost nowhere more than 5 %.",
        ),
    ],
)
def test_the_figure_of_a_bout_has_one_message(times: dict[str, tuple[float, ...]], caption: str) -> None:
    figure = _bout(**times).plot()
    assert figure.caption == caption
    assert figure.data.columns.tolist() == ["scheduler", "workload", "times_better", "verdict"]
    assert len(figure.data) == 2 * min(8, len(times))
    assert "<svg" in figure.svg() and "virtual time" in figure.provenance


def test_files_of_a_class_are_called_after_their_folders() -> None:
    names = bouts._names(["a/mine.bpf.c", "b/mine.bpf.c", "c/own.bpf.c"])
    assert names == ["a/mine.bpf.c", "b/mine.bpf.c", "own.bpf.c"]
    for twice in (["a/x.bpf.c", "a/x.bpf.c"], ["1/a/x.bpf.c", "2/a/x.bpf.c"]):
        with pytest.raises(ParameterError, match="A bout needs"):
            bouts._names(twice)


@pytest.mark.usefixtures("clang")
def test_one_file_of_a_class_that_does_not_compile_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs: list[object] = []

    def run(file: object, **_: object) -> scheduler.Trial:
        runs.append(file)
        return scheduler.recorded("fifo" if file else None)

    monkeypatch.setattr(trial, "run", run)
    found = scheduler.bout(
        [scheduler.EXAMPLES / "fifo.bpf.c", WRONG / "semicolon.bpf.c"], workloads=["sleeper"], progress=False
    )
    assert len(runs) == 2
    rows = found.rows.set_index("scheduler")
    assert "expected ';'" in rows["why"]["semicolon.bpf.c"] and rows["why"]["fifo.bpf.c"] == ""
    assert found.table()["scheduler"].tolist() == ["fifo.bpf.c", "semicolon.bpf.c"]
    with pytest.raises(scheduler.SchedulerError, match="expected ';'"):
        scheduler.bout([WRONG / "semicolon.bpf.c"], progress=False)


# ---- from a terminal ----


def test_a_new_scheduler_compiles_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["scheduler", "new", "mine"]) == 0
    assert Path(capsys.readouterr().out.split()[-1]).is_file()  # the header
    text = (tmp_path / "mine.bpf.c").read_text()
    assert "SCX_OPS_DEFINE(mine," in text and "fifo" not in text
    if shutil.which("clang"):
        assert compiling.compiled(tmp_path / "mine.bpf.c")
    assert cli.main(["scheduler", "new", "mine"]) == 2
    assert "there already" in capsys.readouterr().err
    assert cli.main(["scheduler", "new", "../mine"]) == 2


@pytest.mark.parametrize(
    ("score", "unit", "text"),
    [
        (11_990.5674, "µs late", "12.0 ms late"), (402.25, "µs at p99", "402 µs at p99"),
        (1234.5678, "rounds per ms", "1,235 rounds per ms"), (float("nan"), "µs late", "-"),
    ],
)  # fmt: skip
def test_a_score_is_printed_as_one_reads_it(score: float, unit: str, text: str) -> None:
    assert from_terminal._scored(score, unit) == text


def test_bad_questions_are_answered_at_once() -> None:
    with pytest.raises(ParameterError, match="no workload 'hogs'"):
        scheduler.run(None, workload="hogs")
    with pytest.raises(ParameterError, match="needs a scheduler"):
        scheduler.bout([])


# ---- what ships with the chapter ----


@pytest.mark.parametrize("name", [None, *record.SHOWN])
def test_a_recorded_run_is_one_of_the_example_as_it_is(name: str | None) -> None:
    found = scheduler.recorded(name)
    path = scheduler.EXAMPLES / f"{name}.bpf.c" if name else compiling.KERNELS_OWN
    assert found.parameters["source_hash"] == hashlib.sha256(path.read_bytes()).hexdigest()[:16], (
        "python -m sched_labs.schedulers.record makes it anew"
    )
    assert found.timing == "deterministic" and found.plot().caption
    contest = contests.find(found.parameters["workload"])
    requests, threads = (found.records(table) for table in ("requests", "threads"))
    assert contest.measure(requests, threads, 1) == pytest.approx(found.score)


@pytest.mark.parametrize("kernel", record.KERNELS)
def test_the_recorded_bout_has_every_example_on_every_workload(kernel: str) -> None:
    found = scheduler.recorded_bout(kernel)
    assert (found.kernel, found.timing) == (kernel, "deterministic")
    assert len(found.rows) == len(record.SHOWN) * len(contests.CONTESTS)
    for row in found.rows.to_dict("records"):
        contest = contests.find(row["workload"])
        assert row["times_better"] == pytest.approx(contest.times_better(row["score"], row["kernels_own"]))
    assert found.plot().caption


def test_what_was_not_recorded_is_named() -> None:
    with pytest.raises(ParameterError, match="No run of 'mine'"):
        scheduler.recorded("mine")
    with pytest.raises(ParameterError, match=r"on kernel '6\.1'"):
        scheduler.recorded_bout("6.1")
