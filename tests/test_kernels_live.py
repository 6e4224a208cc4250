"""Other kernels, booted: 6.1 (CFS) and 6.12 (EEVDF).

Skipped, with the reason, where QEMU is missing or a kernel is neither cached nor to be had.
Times are the host's mood; what is tested is what each kernel is, decides and counts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kernels import deterministic

from sched_labs import kernels
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.registry import find
from sched_labs.kernels import gallery, qemu, snapshots
from sched_labs.kernels.errors import GuestError, JobError, KernelError, PackageError, QemuError
from sched_labs.machine.bpf import bcc_module
from sched_labs.topics.other_kernels.eevdf.experiment import NOTHING, SITUATIONS

CFS, EEVDF = "6.1", "6.12"
BOTH = pytest.mark.parametrize("name", [CFS, EEVDF])


@pytest.fixture(autouse=True, scope="module")
def _can_boot(own_lock: None) -> None:
    try:
        for name in (CFS, EEVDF):
            kernels.get(name)
        kernels.run(CFS, "hello")
    except (PackageError, QemuError) as error:
        pytest.skip(f"no other kernel can be booted here: {error.what}")


def facts(name: str) -> dict[str, Any]:
    value = kernels.run(name, "survey").value
    return {key: fact["value"] for key, fact in value["facts"].items()}


def test_the_survey_tells_cfs_from_eevdf_and_names_each_kernels_tunables() -> None:
    old, new = facts(CFS), facts(EEVDF)
    assert old["kernel.release"].startswith("6.1.")
    assert new["kernel.release"].startswith("6.12.")
    assert (old["kernel.scheduler"], new["kernel.scheduler"]) == ("CFS", "EEVDF")
    assert isinstance(old["tunable.latency_ns"], int)
    assert new["tunable.latency_ns"] is None
    assert isinstance(new["tunable.base_slice_ns"], int)
    assert old["tunable.base_slice_ns"] is None
    for found in (old, new):
        assert found["cgroup.version"] in (2, "2", "v2")
        assert found["proc.schedstat"] is True
        assert "full" in found["tunable.preempt"]


def test_an_emulated_processor_is_told_by_more_than_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU lends it any; without QEMU's signature the firmware and the clocks tell."""
    for more in ("", ",tcg-cpuid=off"):
        cpu = f"max,cx16=off,model-id=Made-Up-CPU{more}"
        monkeypatch.setattr(qemu, "_emulated_cpu", lambda guest, cpu=cpu: cpu)
        found = kernels.run(EEVDF, "survey", timing="vm-emulated").value["facts"]
        assert found["cpu.model"]["value"] == "Made-Up-CPU"
        assert found["host.emulated"]["value"] is True
        assert (found["host.emulated"]["source"] == "CPUID") == (not more)


@BOTH
def test_a_quota_throttles_in_nearly_every_period(name: str) -> None:
    answer = kernels.run(name, "throttle", {"quota_percent": 20, "seconds": 1.5})
    counted = answer.value["cpu_stat"]
    assert answer.value["quota"] == "20000 100000"
    assert counted["nr_periods"] >= 10
    assert counted["nr_throttled"] >= 0.7 * counted["nr_periods"]
    assert counted["throttled_usec"] > 0.5 * counted["usage_usec"]
    # Whoever is throttled waits for the next period: most of 100 ms.
    assert max(answer.value["late_ns"]) > 20_000_000


@BOTH
def test_hogs_share_the_cpu_and_the_result_says_how_it_was_timed(name: str) -> None:
    # So seldom that waking takes little of the CPU also where it is emulated slowly, on a busy machine.
    parameters = {"wakes": 50, "period_us": 20_011, "hogs": 2, "work_us": 0}
    result = kernels.run_experiment("sleeper.among_hogs", name, parameters, progress=False)
    assert len(result.data) == 50
    assert len(result.facts["hog_cpu_ns"]) == 2
    assert sum(result.facts["hog_cpu_ns"]) > 10 * result.facts["sleeper_cpu_ns"]
    assert result.timing in ("vm-kvm", "vm-emulated")
    assert bool(result.flags) == (result.timing == "vm-emulated")
    assert kernels.get(name).version in result.machine["kernel_package"]


@BOTH
def test_the_bpf_probe_counts_every_wait(name: str) -> None:
    if bcc_module() is None:
        pytest.skip("BCC is not installed (python3-bpfcc)")
    answer = kernels.run(name, "run_queue", {"hogs": 2, "wakes": 100})
    waits = {cause: sum(count for _, _, count in bins) for cause, bins in answer.value["waits"].items()}
    assert not any(answer.value["losses"].values())
    # Every time the sleeper slept, it was woken once; the other threads sleep at the start and at the end.
    assert 0 <= waits["wakeup"] - answer.value["sleeper_voluntary_switches"] < 40
    # The hogs wait when they are taken off the CPU.
    assert waits["preempted"] > 10


@BOTH
def test_the_probe_knows_whether_there_was_room_elsewhere(name: str) -> None:
    if bcc_module() is None:
        pytest.skip("BCC is not installed (python3-bpfcc)")
    answer = kernels.run(name, "sched_labs.kernels.jobs.room:elsewhere", native=["burn"])
    found = answer.value
    assert all(case["waits"] > 10 and case["parts_differ_ns"] == 0 for case in found.values())
    for case in ("bound", "busy"):
        assert (found[case]["could"], found[case]["later"]) == (0, 0)
    assert found["widened"]["later"] > 0


@BOTH
def test_a_deterministic_run_is_the_same_to_the_byte_whenever_its_guest_was_booted(name: str) -> None:
    """From a snapshot, from one that is made anew, and where the key is the recorded one's, as recorded."""
    first = deterministic.run(name)
    deterministic.check_relations(first)
    second = deterministic.run(name, booted_anew=True)
    assert deterministic.as_text(second) == deterministic.as_text(first)
    if why := deterministic.difference(first):
        pytest.skip(f"repeated and plausible, but not compared with the recorded run: {why}")
    assert deterministic.values(first) == deterministic.recorded(name)["value"]  # type: ignore[index]


def test_a_feature_that_is_turned_off_shows_and_the_run_repeats_to_the_digit() -> None:
    def run() -> dict[str, Any]:
        given = {"off": ["PLACE_LAG", "PLACE_NOTHING"], "phases": 6}
        value: dict[str, Any] = kernels.run(
            EEVDF, gallery.PIECES_JOB, given, timing="deterministic", native=["phase"]
        ).value
        return value

    first = run()
    assert first["without"] == ["PLACE_NOTHING"]
    late = pd.DataFrame(first["wakes"]).groupby(["off", "situation"]).late_ns
    assert (late.size() == 6).all() and set(late.groups) == {
        (off, name) for off in (NOTHING, "PLACE_LAG") for name in SITUATIONS
    }
    # What the sleeper was owed is forgotten without it.  The median: a thread of the kernel's may end a turn.
    assert late.median()["PLACE_LAG", "owed"] > 10 * late.median()[NOTHING, "owed"]
    assert run() == first


@pytest.mark.computes
def test_a_guest_that_has_booted_once_is_not_booted_again() -> None:
    kernels.run(CFS, "hello")
    before = {path: path.stat().st_mtime_ns for path in snapshots.folder().glob(f"{CFS}-vm-*")}
    answer = kernels.run(CFS, "hello")
    assert "booted" not in answer.key["machine"]
    after = {path: path.stat().st_mtime_ns for path in snapshots.folder().glob(f"{CFS}-vm-*")}
    assert set(after) == set(before)  # none was made
    assert after != before  # one was used


def test_no_two_restored_guests_draw_the_same_random_numbers(tmp_path: Path) -> None:
    job = "import os\n\n\ndef draw() -> str:\n    return os.urandom(8).hex()\n"
    options: dict[str, Any] = {"extra": {"/lab/dice.py": job.encode()}}
    drawn = {kernels.run(CFS, "dice:draw", timing="vm-emulated", **options).value for _ in range(2)}
    assert len(drawn) == 2
    drawn = {kernels.run(CFS, "dice:draw", timing="deterministic", **options).value for _ in range(2)}
    assert len(drawn) == 1


def test_an_experiment_returns_its_result_from_another_kernel() -> None:
    from sched_labs.kernels.experiment import run_experiment

    parameters = {
        "profile": "tiny",
        "mechanisms": ["pipe"],
        "placements": ["same_cpu"],
        "between": ["threads"],
    }
    result = run_experiment("context_switch.matrix", CFS, parameters, progress=False)
    assert result.kind == "context_switch.matrix"
    assert result.machine["kernel"].startswith("6.1.")
    assert result.machine["scheduler"] == "CFS"
    assert result.timing in ("vm-kvm", "vm-emulated")
    assert result.parameters["kernel"] == CFS
    together = result.data[result.data.condition == "exchange"]
    switches = (together.voluntary_switches + together.involuntary_switches) / together.round_trips
    assert switches.median() == pytest.approx(2, abs=0.2)
    assert result.flags if result.timing == "vm-emulated" else True
    line = result.provenance_line()
    assert f"Linux {result.machine['kernel']} (CFS" in line
    assert ("emulated machine" if result.timing == "vm-emulated" else "(KVM)") in line


def test_the_probes_of_an_experiment_work_on_another_kernel() -> None:
    result = find("runqlat.histogram")(kernel=EEVDF, profile="tiny", progress=False, save=False)
    assert result.machine["scheduler"] == "EEVDF"
    waits = result.data.groupby("instrument")["waits"].sum()
    assert ("bpf" in waits) == (bcc_module() is not None)
    assert waits["self_timed"] > 0
    assert (waits > 0).all()
    assert (result.summary()["schedstat_mean_ns"].dropna() > 0).all()  # the kernel's own run delay
    assert result.summary()["schedstat_mean_ns"].notna().any()
    figure = result.plot()
    assert not re.search(r"\d (ns|µs)\b", figure.caption) or result.timing == "vm-kvm"


def test_errors_come_out_of_the_guest() -> None:
    with pytest.raises(ParameterError, match="quota"):
        kernels.run(CFS, "throttle", {"quota_percent": 0})
    with pytest.raises(WorkloadError, match="--hogs takes a number"):
        kernels.run(CFS, "long_system_call", {"hogs": 1000})
    with pytest.raises(JobError, match="no_such_module") as failed:
        kernels.run(CFS, "no_such_module:f")
    assert "Traceback" in str(failed.value)


def test_a_kernel_that_panics_is_reported_with_its_console() -> None:
    with pytest.raises(GuestError, match="panic") as broken:
        kernels.run(CFS, "hello", append="rdinit=/nowhere root=/nowhere")
    assert "Kernel panic" in broken.value.console


def test_a_job_that_takes_too_long_meets_its_deadline() -> None:
    before = time.monotonic()
    # On a busy machine the guest may not even be up by then; that is the same deadline.
    with pytest.raises(GuestError, match=r"still working|had not come up"):
        kernels.run(CFS, "long_system_call", {"wakes": 60_000}, deadline_s=8)
    assert time.monotonic() - before < 60  # 60,000 wake-ups, 1 ms apart, cannot have been over by then


def test_nothing_runs_on_after_a_kill(tmp_path: Path) -> None:
    program = f"from sched_labs import kernels; kernels.run({CFS!r}, 'long_system_call', {{'wakes': 60000}})"
    host = subprocess.Popen([sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(tmp_path)})
    try:
        deadline = time.monotonic() + 120  # another measurement may hold the machine
        while not (guests := children(host.pid)):
            assert time.monotonic() < deadline
            assert host.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        host.send_signal(signal.SIGKILL)
        host.wait()
        deadline = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in guests):
            assert time.monotonic() < deadline, "QEMU outlived its host"
            time.sleep(0.05)
    finally:
        host.kill()
        host.wait()
    assert list(tmp_path.iterdir()) == []


def children(pid: int) -> list[int]:
    """The QEMUs that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid and "qemu" in (entry / "comm").read_text():
                    found.append(int(entry.name))
            except (OSError, IndexError):
                continue
    return found


def test_an_unknown_series_is_refused() -> None:
    with pytest.raises(KernelError):
        kernels.run("4.4.0-rt", "hello")
