"""One scheduler, one workload, one kernel: from the source file to a Result."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .. import kernels
from ..core import lock
from ..core.errors import ParameterError, SchedLabError
from ..core.progress import Progress, in_notebook
from ..core.result import Note, Result
from ..kernels.errors import GuestError
from ..kernels.jobs.scheduler import LIBRARY, OBJECT
from ..run import scratch
from ..workloads import build
from . import complaints, contests, decisions, here
from .compile import HOW_TO_INSTALL, KERNELS_OWN, compiled, source
from .errors import SchedulerError

if TYPE_CHECKING:
    from ..draw.base import Figure

KIND = "scheduler.run"
KERNEL = "6.18"
OWN = "the kernel's own"
_CALL = "sched_labs.kernels.jobs.scheduler:trial"
_DEADLINE_S = 120.0
HERE_S, MOST_HERE_S = 10.0, 60.0
_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib")


@dataclass
class Trial(Result):
    """The Result of one run: `.data` are the decisions (decisions.table).

    tables: `threads` and `requests`, what they did (workloads/src/roles.c).
    facts: `score`, its `unit` and whether `less_is_better` (contests.py); `elapsed_ms`; `not_recorded`, the
    records that there was no room for.
    """

    @property
    def score(self) -> float:
        return float(self.facts["score"])

    def plot(self, **options: Any) -> Figure:
        """The timeline around the longest wait."""
        from . import figure as figure  # registers it; a run that is not drawn loads no matplotlib

        return super().plot(**options)

    def summary(self) -> pd.DataFrame:
        """One row per thread of the workload.

        - thread, role, nice: who
        - cpu_ms: the CPU time that it had
        - work: its rounds, requests, hand-overs, yields or forks
        - picks: how often it got the CPU while there was room in the record
        - wait_p50_us, wait_p99_us, wait_max_us: how long it waited each time
        """
        rows = []
        for one in self.records("threads"):
            waits = self.data.loc[self.data["pid"] == one["tid"], "waited_us"].dropna()
            p50, p99, most = waits.quantile([0.5, 0.99, 1.0]) if len(waits) else [float("nan")] * 3
            rows.append(
                {
                    "thread": one["thread"], "role": one["role"], "nice": one["nice"],
                    "cpu_ms": one["cpu_ns"] / 1e6, "work": one["work"],
                    "picks": int((self.data["pid"] == one["tid"]).sum()),
                    "wait_p50_us": p50, "wait_p99_us": p99, "wait_max_us": most,
                }
            )  # fmt: skip
        return pd.DataFrame(rows)


def run(
    file: str | Path | None = None,
    *,
    workload: str = "sleeper",
    kernel: str = KERNEL,
    timing: str = "deterministic",
    cpus: int | None = None,
    seed: int = 1,
    anonymous: bool = False,
    on_this_running_kernel: bool = False,
    timeout_s: float = HERE_S,
    progress: bool = True,
) -> Trial:
    """Runs a workload under a scheduler of yours in a guest, and returns what happened.

    file: the scheduler's source, one file; None for the kernel's own scheduler, watched in the same way.
    workload: one of contests.CONTESTS.
    kernel: one that has sched_ext; from 6.18 on Debian's have it.
    timing: `deterministic`: virtual time on one CPU, the same digits every time; `vm`: as fast as the machine
        goes, on `cpus` CPUs (2), good for relations.
    seed: draws what is due when; anonymous: and the names of the threads and the order in which they start.
    on_this_running_kernel: no guest: your scheduler rules over this machine, for `timeout_s` at most, and
        then the kernel's own again (here.py); as root, and on a kernel that has sched_ext.  `kernel`,
        `timing` and `cpus` say nothing then.

    In a notebook, where clang or libbpf is missing, an example on the workload `sleeper` gives way to its
    recorded run, which says so.

    Raises SchedulerError where the file does not compile, the kernel refuses it or takes the machine back
    from it, ParameterError for an unknown workload, and what `kernels.run` raises.
    """
    contest = contests.find(workload)
    name = Path(file).name if file else OWN
    text = source(file or KERNELS_OWN)
    try:
        made, loader = compiled(file or KERNELS_OWN), libbpf()
    except SchedLabError as error:
        from .record import like

        shipped = like(text) if error.lacking and in_notebook() and workload == "sleeper" else None
        if shipped is None:
            raise
        shipped.standing_in(error)
        return shipped
    asked = {"file": name, "workload": workload, "kernel": kernel, "seed": seed, "anonymous": anonymous}
    asked["source_hash"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    if on_this_running_kernel:
        return _here(asked, made, contest, timeout_s, text)
    with Progress(f"scheduler: {name}, {workload}", 1, show=progress) as bar:
        try:
            answer = kernels.run(
                kernel,
                _CALL,
                {"arguments": contest.arguments(seed, anonymous)},
                timing=timing,
                cpus=cpus,
                native=["roles"],
                extra={OBJECT: made, LIBRARY: loader},
                deadline_s=_DEADLINE_S,
                progress=lambda text, share: bar.say(text),
            )
        except GuestError as error:
            if not file:
                raise
            raise SchedulerError(
                f"The guest broke while {name} ruled over it: {error.what}",
                f"Try an example; if that runs, it is your scheduler.\n{error.console}".rstrip(),
            ) from error
        bar.step("done")
    machine = {
        "cpu_model": "a guest's CPU",
        "cpus": answer.cpus,
        "kernel": answer.kernel.name,
        "scheduler": name,
        "hypervisor": f"QEMU {answer.key['qemu']}",
        "kernel_package": answer.key["kernel"],
        "guest_hash": answer.key["guest"],
        "sources_hash": answer.key["sources"],
    }
    notes = [Note(level, text) for level, text in answer.notes]
    found = _result(_unless_refused(answer.value, asked, text), contest, asked, machine, notes)
    found.duration_s, found.timing = answer.duration_s, answer.timing
    return found


def _here(
    asked: dict[str, Any], made: bytes, contest: contests.Contest, timeout_s: float, text: str
) -> Trial:
    """The same on the kernel that runs here."""
    if not 0 < timeout_s <= MOST_HERE_S:
        raise ParameterError(
            f"A scheduler cannot have this machine for {timeout_s:g} s.", f"Choose up to {MOST_HERE_S:g} s."
        )
    here.check()
    asked["kernel"] = platform.release()
    with (
        lock.machine("a scheduler on this kernel"),
        scratch.folder() as (folder, _),
    ):
        began = time.monotonic()
        loaded = folder / "scheduler.o"
        loaded.write_bytes(made)
        build.path("roles")  # compiled before the scheduler rules
        arguments = contest.arguments(asked["seed"], asked["anonymous"])
        said = here.guarded(arguments, timeout_s, str(libbpf()), str(loaded))
        took_s = time.monotonic() - began
    if said.get("late"):
        raise SchedulerError(
            f"{asked['file']} was not done in {timeout_s:g} s; the kernel's own scheduler is back.",
            "Try it in a guest, without the option: what goes wrong is told there.",
        )
    machine = {
        "cpu_model": "this machine's CPU",
        "cpus": os.cpu_count(),
        "kernel": asked["kernel"],
        "scheduler": asked["file"],
    }
    found = _result(_unless_refused(said, asked, text), contest, asked, machine, [])
    found.duration_s = took_s
    return found


def _unless_refused(said: dict[str, Any], asked: dict[str, Any], text: str) -> dict[str, Any]:
    if said.get("kernel"):
        raise complaints.given_up(said["kernel"], asked["file"])
    if said["refused"] or "records" not in said:
        raise complaints.refused(said["refused"], asked["file"], asked["kernel"], text)
    return said


def _result(
    said: dict[str, Any],
    contest: contests.Contest,
    asked: dict[str, Any],
    machine: dict[str, Any],
    notes: list[Note],
) -> Trial:
    by_kind: dict[str, list[dict[str, Any]]] = {"request": [], "thread": [], "end": []}
    for kind, values in said["records"]:
        by_kind[kind].append(values)
    threads = [{"thread": said["threads"][str(one["tid"])], **one} for one in by_kind["thread"]]
    elapsed_ns = by_kind["end"][0]["elapsed_ns"]
    data = decisions.table(said["decisions"])
    lost = max(0, said["count"] - decisions.MOST)
    if lost:
        until_ms = data["start_us"].max() / 1e3
        notes.append(Note("info", f"The record was full after {until_ms:.0f} ms: it has no later decisions."))
    return Trial(
        kind=KIND,
        data=data,
        machine=machine,
        parameters=asked,
        tables={"threads": pd.DataFrame(threads), "requests": pd.DataFrame(by_kind["request"])},
        facts={
            "score": contest.measure(by_kind["request"], threads, elapsed_ns),
            "unit": contest.unit,
            "less_is_better": contest.less_is_better,
            "elapsed_ms": elapsed_ns / 1e6,
            "not_recorded": lost,
        },
        notes=notes,
    )


def libbpf() -> Path:
    """The system's libbpf, which loads schedulers in the guest.

    Raises a SchedLabError that is `lacking` where there is none.
    """
    for folder in _FOLDERS:
        if (found := Path(folder, "libbpf.so.1")).exists():
            return found.resolve()
    raise SchedLabError(
        "There is no libbpf here, which loads schedulers into a kernel.",
        HOW_TO_INSTALL,
        lacking=True,
    )
