"""Every kernel of the book, booted: `make test-kernels`.

Not part of `make test`: it takes more than half an hour without KVM, and fetches what is not cached.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import arm64
import deterministic
import pytest

from sched_labs import kernels, workloads
from sched_labs.core import registry
from sched_labs.core.errors import ResultError
from sched_labs.kernels import catalogue, contents, gallery, names, packages, qemu
from sched_labs.kernels.errors import PackageError
from sched_labs.machine.bpf import bcc_module

GALLERY = catalogue.gallery()
KEY = ("kernel_package", "emulator", "guest", "guest_hash", "sources_hash")
REAL_TIME = names.REAL_TIME[packages.distribution()]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """The job that `make test` compares, on every kernel."""
    return {name: deterministic.run(name) for name in GALLERY}


# The book's recordings, made again: with equal keys they must be equal to the digit.


@pytest.mark.usefixtures("own_lock")  # what others measure is no part of the four minutes
def test_the_books_figure_takes_four_minutes_at_most_and_is_as_recorded() -> None:
    before = time.monotonic()
    again = {
        name: registry.find(gallery.EXPERIMENT)(
            kernel=name, timing="deterministic", profile=gallery.PROFILE, progress=False, save=False
        )
        for name in gallery.GALLERY
    }
    assert time.monotonic() - before < 240
    compared = 0
    for held in gallery.sleepers():
        made = again[held.parameters["kernel"]]
        if all(made.machine[key] == held.machine[key] for key in KEY):
            assert made.data.equals(held.data)
            assert made.parameters == held.parameters
            compared += 1
    if compared < len(again):
        pytest.skip(f"{compared} of {len(again)} compared: the others were recorded with another key")


@pytest.mark.parametrize(("job", "kernel", "append"), gallery.JOBS)
def test_the_books_jobs_are_as_recorded(job: str, kernel: str, append: str) -> None:
    [held] = [a for a in gallery.answers(job) if (a["kernel"], a["append"]) == (kernel, append)]
    made = kernels.run(kernel, job, timing="deterministic", append=append)
    if made.key != held["key"]:
        pytest.skip("recorded with another key")
    assert made.value == held["value"]


def test_a_busy_machine_changes_no_digit() -> None:
    """The job that came out with other digits where QEMU's threads had to wait for each other."""
    kernel, append = "6.18", "preempt=full"
    [held] = [
        a for a in gallery.answers("long_system_call") if (a["kernel"], a["append"]) == (kernel, append)
    ]
    threads = str(2 * (os.cpu_count() or 1))
    with workloads.start("burn", ["--workers", threads, "--duration-ms", "600000"], deadline_s=600) as hogs:
        hogs.go()
        made = kernels.run(kernel, "long_system_call", timing="deterministic", append=append)
    # Where the recording has another key (another QEMU, another package), against an undisturbed run.
    if made.key != held["key"]:
        held = kernels.run(kernel, "long_system_call", timing="deterministic", append=append).to_json()
    assert made.value == held["value"]


@pytest.mark.parametrize("name", GALLERY)
def test_relations(answers: dict[str, Any], name: str) -> None:
    deterministic.check_relations(answers[name])


@pytest.mark.parametrize("name", GALLERY)
def test_equal_to_the_digit(answers: dict[str, Any], name: str) -> None:
    why = deterministic.difference(answers[name])
    assert "other sources" not in why, why
    if why:
        pytest.skip(f"not compared with the recorded run: {why}")
    assert deterministic.values(answers[name]) == deterministic.recorded(name)["value"]  # type: ignore[index]


@pytest.mark.parametrize("name", [*GALLERY, *REAL_TIME])
def test_survey_and_throttling(name: str) -> None:
    facts = {k: f["value"] for k, f in kernels.run(name, "survey").value["facts"].items()}
    series = tuple(int(part) for part in name.partition("-")[0].split(".")[:2])
    assert facts["kernel.scheduler"] == ("CFS" if series < (6, 6) else "EEVDF")
    assert facts["kernel.realtime"] is name.endswith("-rt")
    assert facts["proc.schedstat"] is True
    counted = kernels.run(name, "throttle", {"seconds": 1.5}).value["cpu_stat"]
    assert counted["nr_throttled"] >= 0.6 * counted["nr_periods"] >= 6


@pytest.mark.parametrize("name", GALLERY)
def test_the_bpf_probe(name: str) -> None:
    if bcc_module() is None:
        pytest.skip("BCC is not installed (python3-bpfcc)")
    value = kernels.run(name, "run_queue", {"hogs": 2, "wakes": 100}).value
    assert sum(count for _, _, count in value["waits"]["wakeup"]) >= value["sleeper_voluntary_switches"] > 20
    assert not any(value["losses"].values())


@pytest.mark.parametrize("name", [name for name in REAL_TIME if name.partition("-")[0] in GALLERY])
def test_preempt_rt_preempts_a_long_system_call(name: str) -> None:
    plain = name.partition("-")[0]
    worst = {}
    for kernel, append in ((name, ""), (plain, "preempt=full"), (plain, "preempt=none")):
        given = {"wakes": 200}
        made = kernels.run(kernel, "long_system_call", given, timing="deterministic", append=append)
        worst[kernel, append] = max(made.value["late_ns"])
    assert worst[name, ""] < worst[plain, "preempt=full"]
    if plain in ("6.12", "6.18"):  # 7.2 has no preempt=none any more
        assert worst[plain, "preempt=none"] > 5 * worst[name, ""]


def _in_guests() -> list[tuple[str, str]]:
    """Experiments and kernels: all of them on CFS, and on EEVDF those that load a probe into the kernel.

    The others ask nothing of EEVDF that `make test` does not ask of a machine that has it.
    An emulated guest takes half a minute of CPU time for each.
    """
    first, *second = [name for name in ("6.1", "6.12") if name in GALLERY] or GALLERY[-1:]
    wanted = [(name, first) for name in registry.names()]
    for name in registry.names() if second else ():
        held = contents.library(registry.find(name).function.__module__)
        if "/lab/sched_labs/probes/channel.py" in held:
            wanted.append((name, second[0]))
    return wanted


@pytest.mark.usefixtures("own_lock")
@pytest.mark.parametrize(("name", "kernel"), _in_guests())
def test_every_experiment_runs_in_a_guest(name: str, kernel: str) -> None:
    result = registry.find(name)(kernel=kernel, profile="tiny", progress=False, save=False)
    assert result.kind == name
    assert result.parameters["kernel"] == kernel
    assert str(result.machine["kernel"]).startswith(f"{kernel}.")
    assert result.timing in ("vm-kvm", "vm-emulated")
    assert len(result.data) > 0
    assert len(result.summary()) > 0
    try:
        words = result.plot().caption
    except ResultError as refused:
        assert "under a millisecond" in refused.what
    else:
        assert words


@pytest.mark.usefixtures("own_lock")
def test_arm64_guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On any machine, with arm64 programs from their packages; see arm64.py for what this does not try."""
    for needed in (qemu.BOARDS["arm64"].program, arm64.COMPILER):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    if sys.version_info[:2] != arm64.PYTHON:
        pytest.skip("the library would have to be that of the same Python")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    world = tmp_path / "world"
    world.mkdir()
    try:
        arm64.make_it_ours(monkeypatch, world)
        kernels.get("6.12")
    except PackageError as error:
        pytest.skip(f"arm64 packages cannot be had: {error.what}")
    facts = {k: f["value"] for k, f in kernels.run("6.12", "survey").value["facts"].items()}
    assert (facts["cpu.arch"], facts["kernel.scheduler"]) == ("aarch64", "EEVDF")
    assert facts["kernel.release"].endswith("-arm64")
    counted = kernels.run("6.12", "throttle", {"seconds": 1.5}).value["cpu_stat"]
    assert counted["nr_throttled"] >= 0.6 * counted["nr_periods"] >= 6
    first, second = (deterministic.run("6.12") for _ in range(2))
    assert deterministic.as_text(first) == deterministic.as_text(second)
    deterministic.check_relations(first)
