"""One job on one kernel: from its name to the answer, and several kernels one after the other."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import errors as every_error
from ..core import lock
from ..core.errors import ParameterError, SchedLabError
from ..core.progress import Progress
from ..workloads import build
from . import emulator, kvm, packages, qemu, snapshots, wire
from .emulator import Say, Told
from .errors import GuestError, JobError
from .initramfs import World
from .jobs import JOBS, Job
from .packages import Kernel
from .parcel import Parcel
from .qemu import DEADLINE_S, DETERMINISTIC, TIMINGS, VM_EMULATED, VM_KVM

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
    """Runs the job in a guest with that kernel, and returns its answer.

    The guest is restored from a snapshot; the first time, it is booted to make one.

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
    _check(timing, cpus, threads_per_core, memory_nodes)
    say = progress or (lambda text, share: None)
    wanted = _job(job)
    qemu.program(packages.architecture())  # before a kernel is fetched for nothing
    found = kernel if isinstance(kernel, Kernel) else packages.get(kernel, progress=say)

    given = _plain(parameters or {})
    moment_s = 1.0 if timing == DETERMINISTIC else 0.0  # virtual, so it costs nothing
    call = {"call": wanted.call, "parameters": given, "moment_s": moment_s}
    workloads = {name: build.path(name) for name in native or wanted.workloads}
    parcel = Parcel(call, workloads, dict(extra or {}), tuple(modules))
    world = _world(found, parcel, timing)
    files = parcel.files(world)
    handed = len(wire.pack(call, files))
    guest = qemu.Guest(
        image=found.image,
        architecture=found.architecture,
        timing=timing,
        cpus=1 if timing == DETERMINISTIC else cpus or 2,
        # Each node gets as much as a whole machine: the initramfs is unpacked on the first.
        memory_mib=memory_nodes * (memory_mib or _memory_mib(world.size)),
        append=append,
        numpy=world.data,
        threads_per_core=threads_per_core,
        memory_nodes=memory_nodes,
        window_mib=max(16, 1 << (handed >> 20).bit_length()),
    )
    qemu.check_memory(guest, world.size + handed)
    notes = []
    if timing == "vm":
        say("is there KVM?", None)
        tried = kvm.probe(guest, partial(_try, world=world))
        guest = replace(guest, timing=VM_KVM if tried.works else VM_EMULATED)
        if not tried.works:
            notes.append(("info", f"No KVM: {tried.why}."))
    notes.insert(0, _CAVEATS[guest.timing])

    # Of a real time's guest, no two runs draw the same random numbers.
    noise = "" if timing == DETERMINISTIC else os.urandom(32).hex()
    with lock.machine(f"{job} on kernel {found.name}", waiting=lambda who: say(f"waiting for: {who}", None)):
        started = time.monotonic()
        work = partial(
            snapshots.work, found, guest, world, wire.pack(call | {"noise": noise}, files),
            started + deadline_s, say,
        )  # fmt: skip
        told, wrong, retries = _twice(work, say)
        duration_s = time.monotonic() - started
    if told.error:
        raise _as_raised(told.error)
    notes += [("info", text) for text in wrong]
    if retries:
        notes.append(("info", "The first guest broke; a second one answered."))
    if not told.restored and timing == DETERMINISTIC:
        notes.append(("flag", "A guest that was booted may differ in its digits from one that was restored."))
    start = "" if told.restored else ", booted"
    return Answer(
        value=told.result,
        job=wanted.call,
        parameters=given,
        kernel=found,
        timing=guest.timing,
        build=told.up["version"],
        cpus=guest.cpus,
        memory_mib=guest.memory_mib,
        boot_s=told.boot_s,
        duration_s=duration_s,
        retries=retries,
        key={
            "kernel": f"{found.package} {found.version}",
            "qemu": qemu.version(guest.architecture),
            "machine": f"{guest.cpus} cpu, {guest.memory_mib} MiB, {qemu.kernel_command_line(guest)}{start}",
            "guest": _digest(world.digest().encode(), wire.pack(call, files)),
            "sources": _digest(*(text for _, text in sorted((world.sources | parcel.sources).items()))),
        },
        notes=notes,
    )


def _check(timing: str, cpus: int | None, threads_per_core: int, memory_nodes: int) -> None:
    """ParameterError for a machine that no guest can be."""
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


def _world(kernel: Kernel, parcel: Parcel, timing: str) -> World:
    """What a guest holds that can do such a job."""
    config = kernel.directory / "config"
    return World(
        data=parcel.needs_data,
        bpf=parcel.loads_bpf,
        port=qemu.BOARDS[kernel.architecture].port,
        settled_s=5.0 if timing == DETERMINISTIC else 0.0,
        config=config.read_bytes() if config.exists() else None,
        release=_release(kernel),
    )


def _memory_mib(initramfs_bytes: int) -> int:
    """What the initramfs needs and room to work, in steps: a changed line must not make another machine."""
    return max(512, -(-qemu.least_memory_mib(initramfs_bytes) // 64) * 64 + 256)


def _try(guest: qemu.Guest, world: World) -> None:
    """Boots the guest and has it do the smallest job."""
    hello = Parcel({"call": JOBS["hello"].call, "parameters": {}, "moment_s": 0, "noise": ""})
    until = time.monotonic() + kvm.PATIENCE_S
    with emulator.Emulator(guest, until, lambda text, share: None) as running:
        running.boot(world.archives())
        running.work(wire.pack(hello.job, hello.files(world)))


def _twice(work: Callable[[], tuple[Told, list[str]]], say: Say) -> tuple[Told, list[str], int]:
    """What the guest said; a second one is asked when the first broke (not when it used up its time).

    Emulated CPUs with a thread of the host each now and then see half an instruction of a jump label that
    another CPU is changing, when a probe is loaded: such a kernel breaks, and the next one does not.
    """
    try:
        return *work(), 0
    except GuestError as error:
        if not error.again:
            raise
        say("the guest broke; once more", None)
    return *work(), 1


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


def _as_raised(error: Mapping[str, str]) -> SchedLabError:
    """The job's error as it would have been raised here."""
    kind = getattr(every_error, error["kind"], None)
    if isinstance(kind, type) and issubclass(kind, SchedLabError):
        raised: SchedLabError = kind(error["what"], error["remedy"])
        return raised
    return JobError(f"The job failed in the guest: {error['what']}", error["remedy"] or error["traceback"])
