"""What do threads cost that do nothing?  Memory, creation, and the limit that stops it (labs L17 to L19)."""

from __future__ import annotations

import os
import platform
import re
import resource
import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.machine import files
from sched_labs.machine.seen import Seen
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

KIB, MIB = 1 << 10, 1 << 20
MOST_THREADS = 10_000
BYTES_PER_THREAD = 64 * KIB  # more than a sleeping thread has been seen to cost; bounds how many are started
SHARE_OF_MEMORY = 0.25
_MEMINFO = {"KernelStack": "kernel_stack_bytes", "PageTables": "page_table_bytes", "SUnreclaim": "slab_bytes",
            "MemAvailable": "available_bytes"}  # fmt: skip
ZONES = "/proc/zoneinfo"
_FREED_LATE = ("kernel_stack_bytes", "page_table_bytes", "slab_bytes")
_STATUS = {"VmSize": "vm_bytes", "VmRSS": "rss_bytes"}
PARTS = ("vm", "rss", "kernel_stack", "page_table", "slab", "lost")
SETTLE_S, SETTLES, SETTLED_BYTES = 0.1, 20, 256 * KIB


# ---- limits ----


def limits() -> pd.DataFrame:
    """What bounds the number of threads here, the tightest first.

    limit            the name of the limit, and where it is set
    threads          how many more threads it lets this process start, about
    holds_for        process, user, cgroup, PID namespace or machine
    """
    running = _threads_running()
    rows: list[tuple[str, int, str]] = []

    def add(name: str, bound: int | None, used: int, holds_for: str) -> None:
        if bound is not None and bound >= 0:
            rows.append((name, max(bound - used, 0), holds_for))

    # From 6.14 on, every PID namespace has a pid_max of its own.
    add("pid_max (/proc/sys/kernel/pid_max)", files.number("/proc/sys/kernel/pid_max"), running,
        "PID namespace" if (Seen().version or (0, 0)) >= (6, 14) else "machine")  # fmt: skip
    add("threads-max (/proc/sys/kernel/threads-max)", files.number("/proc/sys/kernel/threads-max"), running,
        "machine")  # fmt: skip
    maps = files.number("/proc/sys/vm/max_map_count") if _stacks_are_mappings() else None
    # A stack and its guard page are two mappings; the process needs some for itself.
    add("max_map_count (/proc/sys/vm/max_map_count)", None if maps is None else maps // 2, 50, "process")
    for name, bound, used in _cgroup_limits():
        add(f"pids.max ({name})", bound, used, "cgroup")
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # Root is not held to it, but for one whom a user namespace made root.
    mapped = (files.read("/proc/self/uid_map") or "0 0").split()[:2]
    root = os.geteuid() == 0 and mapped == ["0", "0"]
    if soft != resource.RLIM_INFINITY and not root:
        add("RLIMIT_NPROC (ulimit -u)", soft, _threads_of_user(), "user")
    memory = _available_bytes()
    if memory is not None:
        limited = memory == machine.survey().fact("cgroup.memory_limit_bytes").value
        add("memory, at 64 KiB a thread", memory // BYTES_PER_THREAD, 0, "cgroup" if limited else "machine")
    table = pd.DataFrame(rows, columns=["limit", "threads", "holds_for"])
    return table.sort_values("threads", kind="stable", ignore_index=True)


def _stacks_are_mappings() -> bool:
    """Whether the stack of each thread is a mapping of its own.

    From 2.42 on, the GNU C library marks the guard page inside of the stack, where the kernel can do that
    (MADV_GUARD_INSTALL, from 6.13 on): stacks side by side are one mapping then.
    """
    library, version = platform.libc_ver()
    marks = library == "glibc" and tuple(map(int, version.split("."))) >= (2, 42)
    return not (marks and (Seen().version or (0, 0)) >= (6, 13))


def _threads_running() -> int:
    words = (files.read("/proc/loadavg") or "").split()
    return int(words[3].partition("/")[2]) if len(words) > 3 and "/" in words[3] else 0


def _threads_of_user() -> int:
    """How many threads this user runs already, as far as /proc shows: RLIMIT_NPROC counts them."""
    processes = [f"/proc/{name}" for name in files.names("/proc") if name.isdecimal()]
    return sum(len(files.names(f"{one}/task")) for one in processes if files.owner(one) == os.geteuid())


def _cgroup_limits() -> list[tuple[str, int, int]]:
    """pids.max of our cgroup and of those above it, with what is used of it."""
    found = []
    for line in (files.read("/proc/self/cgroup") or "").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number != "0" and "pids" not in controllers.split(","):
            continue
        base = "/sys/fs/cgroup" if number == "0" else "/sys/fs/cgroup/pids"
        parts = [part for part in path.split("/") if part]
        # What a container sees as the root is a group with a limit; the machine's own root has none.
        for depth in range(len(parts), -1, -1):
            folder = "/".join([base, *parts[:depth]])
            bound = files.number(f"{folder}/pids.max")
            if bound is not None:
                found.append((f"{folder}/pids.max", bound, files.number(f"{folder}/pids.current") or 0))
    return found


def _available_bytes() -> int | None:
    survey = machine.survey()
    known = [survey.fact(key).value for key in ("memory.available_bytes", "cgroup.memory_limit_bytes")]
    return min((value for value in known if isinstance(value, int)), default=None)


def most_threads() -> int:
    """How many threads may be started without coming near a limit, and within a quarter of the memory."""
    return min(MOST_THREADS, int(_kept_clear().min()))


def _kept_clear() -> pd.Series:
    """How many threads keep clear of each limit, by its name."""
    bounds = limits().set_index("limit").threads
    return bounds * np.where(bounds.index.str.startswith("memory"), SHARE_OF_MEMORY, 0.8)


def instrument(survey: machine.Machine) -> Instrument:
    """What the kernel says of the process and of the machine."""
    return Instrument("/proc/<pid>/status and /proc/meminfo")


# ---- memory of sleeping threads ----


def summarise_memory(result: Result) -> pd.DataFrame:
    """One row per stack size; what changed when the threads were there, against the same wait without them.

    stack_bytes, threads
    vm_bytes_per_thread, vm_lo_bytes_per_thread, vm_hi_bytes_per_thread   address space (VmSize),
                       median over trials and 95 % interval
    rss_bytes_per_thread, rss_lo_bytes_per_thread, rss_hi_bytes_per_thread   resident memory (VmRSS)
    kernel_stack_bytes_per_thread, kernel_stack_lo_bytes_per_thread, kernel_stack_hi_bytes_per_thread
    page_table_bytes_per_thread, page_table_lo_bytes_per_thread, page_table_hi_bytes_per_thread
    slab_bytes_per_thread, slab_lo_bytes_per_thread, slab_hi_bytes_per_thread   kernel objects (SUnreclaim)
    lost_bytes_per_thread, lost_lo_bytes_per_thread, lost_hi_bytes_per_thread   by how much less memory is
                       available
    cpu_share          CPU time of all threads together while they slept, of one CPU
    trials
    """
    data = result.data
    rows = []
    without = data[data.threads == 0].set_index("trial").sort_index()
    for stack, part in data[data.threads > 0].groupby("stack_bytes", sort=False):
        treated = part.set_index("trial").sort_index()
        both = treated.index.intersection(without.index)
        treated, idle = treated.loc[both], without.loc[both]
        if treated.empty:
            continue
        row: dict[str, float] = {"stack_bytes": float(str(stack)), "threads": float(treated.threads.median())}
        for name in PARTS:
            change = treated[f"{name}_bytes"] - idle[f"{name}_bytes"]
            row |= {**stats.spread(f"{name}", "bytes_per_thread", change / treated.threads)}
        row |= {"cpu_share": float(treated.cpu_share.median()), "trials": len(treated)}
        rows.append(row)
    return pd.DataFrame(rows).astype({"stack_bytes": "int64", "threads": "int64"})


@experiment("threads.memory", summarise=summarise_memory, instrument=instrument, workloads=("threads",))
def memory(
    run: Run,
    *,
    threads: int | None = None,
    stacks_bytes: Sequence[int] = (8 * MIB, 64 * KIB),
    trials: int | None = None,
) -> None:
    """Start threads that sleep, and look what became of the memory.

    threads       how many; default 2,000 in quick, 10,000 in full; fewer where a limit or a quarter of
                  the memory does not allow so many, with a note
    stacks_bytes  stack sizes to compare
    trials        for each size; the same wait without threads goes first in every other one

    Data: one row per trial and stack size, and one per trial without threads (threads and stack_bytes 0):
    vm_bytes and rss_bytes of the process, kernel_stack_bytes, page_table_bytes and slab_bytes of the machine,
    lost_bytes (by how much MemAvailable fell, together with the free pages that the kernel keeps ready for
    each CPU), each as a change from before; cpu_share while the threads slept.
    """
    threads = run.choose(tiny=50, quick=2000, full=10_000) if threads is None else threads
    trials = run.choose(tiny=2, quick=3, full=9) if trials is None else trials
    if not 1 <= threads <= MOST_THREADS or trials < 1 or not stacks_bytes or min(stacks_bytes) < 16 * KIB:
        raise ParameterError(
            f"{threads} threads with stacks of {list(stacks_bytes)} bytes cannot be measured.",
            f"Give 1 to {MOST_THREADS:,} threads and stacks of at least 16 KiB.",
        )
    most = most_threads()
    if threads > most:
        run.note(
            "missing",
            f"{threads:,} threads were asked for; {most:,} keep clear of the limits here "
            f"({_kept_clear().idxmin()}).",
        )
        threads = most
    if files.read(ZONES) is None:
        run.note(
            "missing",
            f"{ZONES} is not shown here: memory that is free, and kept for one CPU, counts as lost.",
        )
    thp = files.read("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    run.begin()
    run.parameters |= {
        "threads": threads,
        "stacks_bytes": list(stacks_bytes),
        "trials": trials,
        "transparent_hugepages": thp.partition("[")[2].partition("]")[0] or None,
    }
    for trial in run.each(range(trials), label=lambda n: f"trial {n + 1}, {threads:,} threads"):
        conditions = [(0, 0), *((int(stack), threads) for stack in stacks_bytes)]
        for stack, count in conditions if trial % 2 == 0 else conditions[::-1]:
            run.add([_held(run, trial, stack, count)])


def _held(run: Run, trial: int, stack: int, count: int) -> dict[str, float]:
    arguments = [
        "--mode",
        "hold",
        "--threads",
        str(count),
        "--stack",
        str(stack or 64 * KIB),
        "--hold-ms",
        "250",
    ]
    with workloads.start("threads", arguments, deadline_s=60) as held:
        if not _settle():
            run.note(
                "flag",
                "The kernel's own memory was still changing when threads were about to be made: what another "
                "program takes or frees meanwhile counts as theirs.",
            )
        before = _look(held.pid)
        held.go()
        records = held.records()
        created = next(records)
        if created["threads"] < count:
            run.note("flag", f"Only {created['threads']:,} of {count:,} threads could be started: "
                     f"{os.strerror(created['error'])}.")  # fmt: skip
        time.sleep(0.2)  # the kernel adds its counters up now and then
        after = _look(held.pid)
        slept = next(records)
    change = {name: after[name] - before[name] for name in after}
    change["lost_bytes"] = -change.pop("available_bytes")
    return {
        "trial": trial,
        "stack_bytes": stack,
        "threads": created["threads"],
        **change,
        "cpu_share": slept["cpu_ns"] / slept["elapsed_ns"],
    }


def _look(pid: int) -> dict[str, float]:
    """Sizes of a process and of the machine, in bytes; missing where the kernel does not say."""
    found = _sizes(f"/proc/{pid}/status", _STATUS) | _sizes("/proc/meminfo", _MEMINFO)
    # Up to 6.1 the kernel adds what a thread touches to VmRSS late: of one that sleeps, when it ends.
    exact = _sizes(f"/proc/{pid}/smaps_rollup", {"Rss": "rss_bytes"})
    if not np.isnan(exact["rss_bytes"]):
        found |= exact
    # MemAvailable leaves out what lies ready on the CPUs' own lists, and that is tens of MiB just after many
    # threads have ended: the next ones would be built out of it, and cost nothing.
    kept = re.findall(r"^\s+count:\s+(\d+)", files.read(ZONES) or "", re.MULTILINE)
    found["available_bytes"] += sum(map(int, kept)) * os.sysconf("SC_PAGE_SIZE")
    return found


def _sizes(path: str, wanted: dict[str, str]) -> dict[str, float]:
    lines = dict(line.split(":", 1) for line in (files.read(path) or "").splitlines() if ":" in line)
    return {
        name: float(lines[key].split()[0]) * KIB if key in lines else np.nan for key, name in wanted.items()
    }


def _settle() -> bool:
    """Wait until the kernel has freed what threads before these had; False where it went on for too long.

    Page tables and kernel objects go some tens of milliseconds after the process that had them (RCU): a
    baseline in that time would show less memory at its end than at its beginning.
    """
    last = _sizes("/proc/meminfo", _MEMINFO)
    for _ in range(SETTLES):
        time.sleep(SETTLE_S)
        now = _sizes("/proc/meminfo", _MEMINFO)
        if not any(abs(now[name] - last[name]) > SETTLED_BYTES for name in _FREED_LATE):
            return True
        last = now
    return False


# ---- malloc and touch ----


def summarise_touch(result: Result) -> pd.DataFrame:
    """One row per step, medians over trials; step 0 is before malloc(), 1 just after it.

    step, touched_bytes
    vm_bytes, rss_bytes      address space and resident memory of the process, as changes from step 0
    rss_lo_bytes, rss_hi_bytes   95 % interval
    minor_faults             since step 0
    ns_per_page              time to touch one page of 4 KiB in this step; missing where none was touched
    asked_bytes              what malloc() was asked for
    trials
    """
    rows = []
    for step, part in result.data.groupby("step", sort=True):
        touched = part.step_bytes.median()
        rows.append(
            {
                "step": step,
                "touched_bytes": float(part.touched_bytes.median()),
                "vm_bytes": float(part.vm_bytes.median()),
                **stats.spread("rss", "bytes", part.rss_bytes),
                "minor_faults": float(part.minor_faults.median()),
                "ns_per_page": float(part.elapsed_ns.median()) / (touched / 4096) if touched else np.nan,
                "asked_bytes": result.parameters["size_bytes"],
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


@experiment("threads.touch", summarise=summarise_touch, instrument=instrument, workloads=("threads",))
def touch(run: Run, *, size_bytes: int | None = None, trials: int | None = None) -> None:
    """Ask malloc() for memory, then touch it in eight steps, and look at the process after each.

    size_bytes  default 400 MiB in quick and full, less where that is more than a quarter of the memory
    trials      each in a process of its own

    Data: one row per trial and step: touched_bytes, step_bytes (touched in this step), vm_bytes, rss_bytes
    and
    minor_faults as changes from before malloc(), elapsed_ns.
    """
    wanted = run.choose(tiny=16 * MIB, quick=400 * MIB, full=400 * MIB) if size_bytes is None else size_bytes
    trials = run.choose(tiny=2, quick=3, full=9) if trials is None else trials
    available = _available_bytes()
    bound = int(SHARE_OF_MEMORY * available) if available else 1 << 40
    if size_bytes is not None and not 64 * KIB <= size_bytes <= bound:
        raise ParameterError(
            f"{size_bytes:,} bytes cannot be touched here.",
            f"Give 64 KiB to a quarter of the available memory, {bound:,} bytes.",
        )
    if trials < 1:
        raise ParameterError("trials start at 1.", "Leave it out to use the profile's.")
    size = min(wanted, bound)
    if size < wanted:
        run.note(
            "missing", f"{wanted:,} bytes are over a quarter of the available memory; {size:,} were touched."
        )
    run.begin()
    run.parameters |= {"size_bytes": size, "trials": trials}
    for trial in run.each(range(trials), label=lambda n: f"trial {n + 1}, {size // MIB} MiB"):
        arguments = ["--mode", "touch", "--bytes", str(size)]
        with workloads.start("threads", arguments) as one:
            placement.pin(one.tids, [placement.quiet_cpu()])
            steps = one.run()
        rows, first, last = [], steps[0], 0
        for step in steps:
            rows.append(
                {
                    "trial": trial,
                    "step": step["number"],
                    "touched_bytes": step["touched_bytes"],
                    "step_bytes": step["touched_bytes"] - last,
                    **{key: step[key] - first[key] for key in ("vm_bytes", "rss_bytes", "minor_faults")},
                    "elapsed_ns": step["elapsed_ns"],
                }
            )
            last = step["touched_bytes"]
        run.add(rows)


# ---- creation ----


def summarise_creation(result: Result) -> pd.DataFrame:
    """One row per what was started and waited for: thread or process.

    what
    ns_each, ns_lo_each, ns_hi_each   to start one and wait for its end: median over trials, 95 % interval
    floor_ns             what two trials differ by without a cause
    binding_limit        the limit that allows the fewest threads here, as read, not as hit
    binding_threads      how many more it allows
    started_threads      how many could be started until one failed; missing unless hit_limit was asked for
    trials
    """
    known = result.parameters | result.facts
    rows = []
    for what, part in result.data.groupby("what", sort=False):
        each = part.elapsed_ns / part["count"]
        rows.append(
            {
                "what": what,
                **stats.spread("ns", "each", each),
                "floor_ns": stats.noise_floor(each),
                "binding_limit": known["binding_limit"],
                "binding_threads": known["binding_threads"],
                "started_threads": np.nan if known["started_threads"] is None else known["started_threads"],
                "trials": len(part),
            }
        )
    return pd.DataFrame(rows)


@experiment("threads.creation", summarise=summarise_creation, instrument=instrument, workloads=("threads",))
def creation(
    run: Run, *, count: int | None = None, trials: int | None = None, hit_limit: bool = False
) -> None:
    """Start a thread and wait for its end, again and again; and the same with a process.

    count      how many threads in a trial (processes: a quarter)
    trials     threads and processes take turns
    hit_limit  start threads that sleep until one cannot be started, and name the limit.  Only where the limit
               lies within 50,000 threads and a quarter of the memory; off by default, because a machine at
               its
               limit cannot start anything else either.

    Data: one row per trial and what: count, elapsed_ns.  The fact started_threads is how many could be
    started where that was tried.
    """
    count = run.choose(tiny=20, quick=1000, full=5000) if count is None else count
    trials = run.choose(tiny=3, quick=9, full=25) if trials is None else trials
    if not 1 <= count <= 100_000 or trials < 1:
        raise ParameterError(f"{trials} trials of {count} threads cannot be measured.")
    bounds = limits()
    run.begin()
    run.parameters |= {
        "count": count,
        "trials": trials,
        "binding_limit": str(bounds.limit.iloc[0]),
        "binding_threads": int(bounds.threads.iloc[0]),
    }
    run.facts |= {"started_threads": _hit(run, bounds) if hit_limit else None}
    arguments = ["--mode", "create", "--threads", str(count), "--trials", str(trials)]
    with workloads.start("threads", arguments, deadline_s=300) as one:
        placement.pin(one.tids, [placement.quiet_cpu()])
        one.go()
        batches = one.records()
        for trial in run.each(range(trials), label=lambda n: f"trial {n + 1}"):
            rows = [next(batches), next(batches)]
            run.add(
                [
                    {
                        "what": row.text("what"),
                        "trial": trial,
                        "count": row["count"],
                        "elapsed_ns": row["elapsed_ns"],
                    }
                    for row in rows
                ]
            )


def _hit(run: Run, bounds: pd.DataFrame) -> int | None:
    """Start sleeping threads until one fails, and count them; None where none fails or that is unwise."""
    memory = bounds[bounds.limit.str.startswith("memory")].threads
    most = min(50_000, *(int(SHARE_OF_MEMORY * value) for value in memory)) if len(memory) else 50_000
    if bounds.threads.iloc[0] >= most:
        run.note(
            "missing",
            f"No limit was hit: the tightest, {bounds.limit.iloc[0]}, lies past the {most:,} threads that "
            "keep this machine safe.",
        )
        return None
    arguments = ["--mode", "hold", "--threads", str(most), "--stack", str(64 * KIB), "--hold-ms", "1"]
    try:
        with workloads.start("threads", arguments, deadline_s=60) as held:
            held.go()
            created = next(held.records())
    except WorkloadError as error:
        run.note("missing", f"No limit was hit: {error.what}")
        return None
    why = os.strerror(created["error"]) if created["error"] else "none failed"
    run.note(
        "info",
        f"{created['threads']:,} threads could be started ({why}); {bounds.limit.iloc[0]}, as read, allows "
        f"{bounds.threads.iloc[0]:,}.",
    )
    return created["threads"] if created["error"] else None
