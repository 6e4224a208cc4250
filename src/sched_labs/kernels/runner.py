"""One job on one kernel: from its name to the answer, and several kernels one after the other."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import errors as every_error
from .. import lock
from ..errors import ParameterError, SchedLabError
from ..progress import Progress
from ..workloads import build
from . import initramfs, kvm, packages, qemu
from .errors import GuestError, JobError
from .jobs import JOBS, Job
from .packages import Kernel
from .qemu import DETERMINISTIC, VM_EMULATED, VM_KVM

Say = Callable[[str, float | None], None]
"""Called with what is going on and the share that is done (0 to 1), or None where nobody can know."""

TIMINGS = ("vm", VM_KVM, VM_EMULATED, DETERMINISTIC)
DEADLINE_S = 300.0

_CAVEATS = {
    VM_KVM: (
        "info",
        "Ran in a virtual machine (KVM) on this machine: its times include what virtualisation costs.",
    ),
    VM_EMULATED: (
        "flag",
        "Ran in an emulated machine, without KVM: what the scheduler decides holds, and times from about a "
        "millisecond up; shorter times say nothing about any machine.",
    ),
    DETERMINISTIC: (
        "info",
        "Virtual time: one instruction is one virtual nanosecond, on one CPU without caches.  The same run "
        "gives the same numbers to the digit, and they are not the times of any machine.",
    ),
}


@dataclass(frozen=True)
class Answer:
    """What a job returned, and everything about how."""

    value: Any
    job: str
    parameters: dict[str, Any]
    kernel: Kernel
    timing: str  # vm-kvm, vm-emulated, deterministic
    build: str  # the kernel's own `uname -v`
    cpus: int
    memory_mib: int
    boot_s: float  # wall clock, from starting QEMU to the first word of the guest
    duration_s: float  # wall clock, from starting QEMU to the answer, broken guests included
    retries: int  # guests that broke before this one
    key: dict[str, str]  # what a deterministic answer depends on: equal keys, equal answers
    notes: list[tuple[str, str]]  # level and text, as in a Result

    def to_json(self) -> dict[str, Any]:
        """Everything but where the kernel is on this disk."""
        flat = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "kernel"}
        return {"kernel": self.kernel.name, "package": f"{self.kernel.package} {self.kernel.version}", **flat}


def _job(name: str) -> Job:
    """The built-in job of that name, or `module:function` as it is."""
    if name in JOBS:
        return JOBS[name]
    if ":" not in name:
        raise ParameterError(
            f"There is no job {name!r}.", f"Built-in jobs: {', '.join(JOBS)}; others as module:function."
        )
    return Job(name, (), "")


def run(
    kernel: str | Kernel,
    job: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    timing: str = "vm",
    cpus: int | None = None,
    memory_mib: int | None = None,
    append: str = "",
    threads_per_core: int = 1,
    memory_nodes: int = 1,
    deadline_s: float = DEADLINE_S,
    native: Iterable[str] = (),
    modules: Iterable[str] = (),
    extra: Mapping[str, Path | bytes] | None = None,
    progress: Say | None = None,
) -> Answer:
    """Boots the kernel, runs the job in it, and returns its answer.

    kernel: a name (`6.1`, `6.12-rt`, see `kernels.available()`), fetched when it is not on this disk yet.
    job: a name in `kernels.jobs.JOBS`, or `module:function` of the library or of a file in `extra`.
    parameters: the job's own, plain values.
    timing: `vm` (KVM where it works, else emulated), or one of `vm-kvm`, `vm-emulated`, `deterministic`.
    cpus: 2 by default; a deterministic guest has one.
    memory_mib: of each memory node; by default what the job's initramfs needs, and room to work, at least
        512.
    append: more for the kernel's command line, e.g. `preempt=full`.
    threads_per_core, memory_nodes: what the guest is told of its CPUs, to exercise what asks for SMT or NUMA;
        cpus must be a multiple of their product.  The emulated CPUs share nothing: times there say nothing.
    deadline_s: wall clock for the whole boot and job.  A guest that breaks is tried once more.
    native: the workloads that a job of your own starts.
    modules: of the library, that the job imports by name rather than by an import statement.
    extra: further files for the guest, by their path there.

    Raises UnknownKernelError, PackageError, NetworkError, QemuError, GuestError (with the console's end),
    and what the job itself raised: a SchedLabError as it is, anything else as JobError.
    """
    if timing not in TIMINGS:
        raise ParameterError(f"There is no timing {timing!r}.", f"Choose one of {', '.join(TIMINGS)}.")
    if timing == DETERMINISTIC and cpus not in (None, 1):
        raise ParameterError("A deterministic guest has one CPU.", "Leave cpus out, or use timing='vm'.")
    if cpus is not None and not 1 <= cpus <= 64:
        raise ParameterError(f"A guest cannot have {cpus} CPUs.", "Choose 1 to 64.")
    if threads_per_core < 1 or memory_nodes < 1 or (cpus or 2) % (threads_per_core * memory_nodes):
        raise ParameterError(
            f"{cpus or 2} CPUs are not {memory_nodes} nodes of cores with {threads_per_core} threads each.",
            "Choose cpus as a multiple of threads_per_core times memory_nodes.",
        )
    if timing == DETERMINISTIC and threads_per_core * memory_nodes > 1:
        raise ParameterError("A deterministic guest has one CPU and one memory node.", "Use timing='vm'.")
    say = progress or (lambda text, share: None)
    wanted = _job(job)
    architecture = packages.architecture()
    qemu.program(architecture)  # before a kernel is fetched for nothing
    found = kernel if isinstance(kernel, Kernel) else packages.get(kernel, progress=say)

    given = _plain(parameters or {})
    order = {
        "call": wanted.call,
        "parameters": given,
        "port": qemu.BOARDS[architecture].port,
        "not_before_s": 5.0 if timing == DETERMINISTIC else 0.0,  # virtual, so it costs nothing
    }
    files = dict(extra or {})
    if (found.directory / "config").exists():
        files[f"/boot/config-{_release(found)}"] = found.directory / "config"
    chosen = native or wanted.workloads
    overlay = initramfs.Overlay(order, {name: build.path(name) for name in chosen}, files, tuple(modules))
    archives = overlay.stack()
    size = sum(len(archive) for archive in archives)
    guest = qemu.Guest(
        image=found.image,
        architecture=architecture,
        timing=timing,
        cpus=1 if timing == DETERMINISTIC else cpus or 2,
        # Each node gets as much as a whole machine: the initramfs is unpacked on the first.
        memory_mib=memory_nodes * (memory_mib or max(512, qemu.least_memory_mib(size) + 256)),
        append=append,
        numpy=overlay.needs_data,
        threads_per_core=threads_per_core,
        memory_nodes=memory_nodes,
    )
    qemu.check_memory(guest, size)
    notes = []
    if timing == "vm":
        say("is there KVM?", None)
        hello = initramfs.Overlay(order | {"call": JOBS["hello"].call, "parameters": {}})
        tried = kvm.probe(guest, hello.stack())
        guest = replace(guest, timing=VM_KVM if tried.works else VM_EMULATED)
        if not tried.works:
            notes.append(("info", f"No KVM: {tried.why}."))
    notes.insert(0, _CAVEATS[guest.timing])

    with lock.machine(f"{job} on kernel {found.name}", waiting=lambda who: say(f"waiting for: {who}", None)):
        started = time.monotonic()
        boot, retries = _boot(guest, archives, deadline_s, say)
        duration_s = time.monotonic() - started
    if boot.error:
        raise _as_raised(boot.error)
    if retries:
        notes.append(("info", "The first guest broke; a second one answered."))
    return Answer(
        value=boot.result,
        job=wanted.call,
        parameters=given,
        kernel=found,
        timing=guest.timing,
        build=boot.up["version"],
        cpus=guest.cpus,
        memory_mib=guest.memory_mib,
        boot_s=boot.boot_s,
        duration_s=duration_s,
        retries=retries,
        key={
            "kernel": f"{found.package} {found.version}",
            "qemu": qemu.version(architecture),
            "machine": f"{guest.cpus} cpu, {guest.memory_mib} MiB, {qemu.kernel_command_line(guest)}",
            "guest": _digest(*archives),
            "sources": _digest(*(text for _, text in sorted(overlay.sources().items()))),
        },
        notes=notes,
    )


def run_each(
    kernels: Iterable[str | Kernel], job: str, parameters: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[Answer]:
    """`run()` on several kernels, one after the other, with progress; answers come as they are ready."""
    wanted = list(kernels)
    with Progress(f"kernels: {job}", len(wanted)) as progress:
        for kernel in wanted:
            name = kernel if isinstance(kernel, str) else kernel.name

            def say(text: str, share: float | None, name: str = name) -> None:
                progress.say(f"{name}: {text}")

            answer = run(kernel, job, parameters, progress=say, **options)
            progress.step(f"{name}: {answer.duration_s:.0f} s")
            yield answer


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as JSON holds them: NumPy's numbers become Python's, ranges and tuples become lists."""

    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        if isinstance(value, (range, set, frozenset)):
            return sorted(value)
        raise ParameterError(
            f"A guest cannot be given a {type(value).__name__}.",
            "Parameters are numbers, texts, lists of them.",
        )

    held: dict[str, Any] = json.loads(json.dumps(dict(parameters), default=plain))
    return held


def _digest(*parts: bytes) -> str:
    stamp = hashlib.sha256()
    for part in parts:
        stamp.update(len(part).to_bytes(8, "little") + part)
    return stamp.hexdigest()[:16]


def _release(kernel: Kernel) -> str:
    """`uname -r` of the kernel: its package is named after it."""
    return kernel.package.split("-", 2)[2].removeprefix("unsigned-")


def _boot(guest: qemu.Guest, archives: list[bytes], deadline_s: float, say: Say) -> tuple[qemu.Boot, int]:
    """One boot, and a second one when the guest broke (not when it used up its time)."""
    try:
        return qemu.boot(guest, archives, deadline_s, say), 0
    except GuestError as error:
        if not error.again:
            raise
        say("the guest broke; once more", None)
    return qemu.boot(guest, archives, deadline_s, say), 1


def _as_raised(error: Mapping[str, str]) -> SchedLabError:
    """The job's error as it would have been raised here."""
    kind = getattr(every_error, error["kind"], None)
    if isinstance(kind, type) and issubclass(kind, SchedLabError):
        raised: SchedLabError = kind(error["what"], error["remedy"])
        return raised
    return JobError(f"The job failed in the guest: {error['what']}", error["remedy"] or error["traceback"])
