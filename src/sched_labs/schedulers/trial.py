"""One scheduler, one workload, one kernel: from the source file to a Result."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .. import kernels
from ..core.errors import SchedLabError
from ..core.progress import Progress
from ..core.result import Note, Result
from ..kernels.jobs.scheduler import LIBRARY, OBJECT
from ..kernels.runner import Answer
from . import complaints, contests, decisions
from . import figure as figure  # registers what draws a run
from .compile import KERNELS_OWN, compiled, source

KIND = "scheduler.run"
KERNEL = "6.18"
OWN = "the kernel's own"
_CALL = "sched_labs.kernels.jobs.scheduler:trial"
_DEADLINE_S = 120.0
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
    progress: bool = True,
) -> Trial:
    """Runs a workload under a scheduler of yours in a guest, and returns what happened.

    file: the scheduler's source, one file; None for the kernel's own scheduler, watched in the same way.
    workload: one of contests.CONTESTS.
    kernel: one that has sched_ext; from 6.18 on Debian's have it.
    timing: `deterministic`: virtual time on one CPU, the same digits every time; `vm`: as fast as the machine
        goes, on `cpus` CPUs (2), good for relations.
    seed: draws what is due when; anonymous: and the names of the threads and the order in which they start.

    Raises SchedulerError where the file does not compile, the kernel refuses it or takes the machine back
    from it, ParameterError for an unknown workload, and what `kernels.run` raises.
    """
    contest = contests.find(workload)
    name = Path(file).name if file else OWN
    text, made = source(file or KERNELS_OWN), compiled(file or KERNELS_OWN)
    with Progress(f"scheduler: {name}, {workload}", 1, show=progress) as bar:
        answer = kernels.run(
            kernel,
            _CALL,
            {"arguments": contest.arguments(seed, anonymous)},
            timing=timing,
            cpus=cpus,
            native=["roles"],
            extra={OBJECT: made, LIBRARY: libbpf()},
            deadline_s=_DEADLINE_S,
            progress=lambda text, share: bar.say(text),
        )
        bar.step("done")
    said = answer.value
    if said.get("kernel"):
        raise complaints.given_up(said["kernel"], name)
    if said["refused"] or "records" not in said:
        raise complaints.refused(said["refused"], name, kernel, text)
    asked = {"file": name, "workload": workload, "kernel": kernel, "seed": seed, "anonymous": anonymous}
    asked["source_hash"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _result(answer, contest, asked)


def _result(answer: Answer, contest: contests.Contest, asked: dict[str, Any]) -> Trial:
    said = answer.value
    by_kind: dict[str, list[dict[str, Any]]] = {"request": [], "thread": [], "end": []}
    for kind, values in said["records"]:
        by_kind[kind].append(values)
    threads = [{"thread": said["threads"][str(one["tid"])], **one} for one in by_kind["thread"]]
    elapsed_ns = by_kind["end"][0]["elapsed_ns"]
    data = decisions.table(said["decisions"])
    notes = [Note(level, text) for level, text in answer.notes]
    lost = max(0, said["count"] - decisions.MOST)
    if lost:
        until_ms = data["start_us"].max() / 1e3
        notes.append(Note("info", f"The record was full after {until_ms:.0f} ms: it has no later decisions."))
    return Trial(
        kind=KIND,
        data=data,
        machine={
            "cpu_model": "a guest's CPU",
            "cpus": answer.cpus,
            "kernel": answer.kernel.name,
            "scheduler": asked["file"],
            "hypervisor": f"QEMU {answer.key['qemu']}",
            "kernel_package": answer.key["kernel"],
            "guest_hash": answer.key["guest"],
            "sources_hash": answer.key["sources"],
        },
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
        duration_s=answer.duration_s,
        timing=answer.timing,
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
        "Run scripts/provision.sh --schedulers; until then the chapter shows its recorded runs.",
        lacking=True,
    )
