"""The kernel: its release, its fair scheduler, how it preempts, and what it was built with."""

from __future__ import annotations

from collections.abc import Iterator

from . import files
from .facts import Fact, look
from .seen import Seen

_SCHED_EXT = "/sys/kernel/sched_ext"
_RUN_QUEUES = ("/proc/sched_debug", "/sys/kernel/debug/sched/debug")

_BOOT_OPTIONS = {
    "isolcpus", "nohz", "nohz_full", "rcu_nocbs", "irqaffinity", "mitigations", "nosmt", "preempt",
    "threadirqs", "idle", "intel_idle.max_cstate", "processor.max_cstate", "cpuidle_haltpoll.force",
    "haltpoll.guest_halt_poll_ns", "cpuidle.off", "intel_pstate", "amd_pstate", "clocksource", "tsc",
    "highres", "hpet", "lockdown", "psi", "schedstats", "skew_tick", "transparent_hugepage",
    "numa_balancing", "noautogroup", "cgroup_disable", "systemd.unified_cgroup_hierarchy",
    "kpti", "pti", "nopti", "spectre_v2", "spec_store_bypass_disable",
}  # fmt: skip


@look(
    {
        "kernel.release": "kernel release",
        "kernel.build": "kernel build",
        "kernel.config": "kernel configuration",
        "kernel.boot_options": "boot options that matter to the scheduler",
    }
)
def look_release(seen: Seen) -> Iterator[Fact]:
    yield Fact(
        "kernel.release", seen.release or None, "", "uname -r", "" if seen.release else "no file tells it"
    )
    yield Fact("kernel.build", seen.build or None, "", "uname -v", "" if seen.build else "no file tells it")
    none = "this kernel shows no configuration file"
    yield Fact(
        "kernel.config", seen.config_path, "", seen.config_path or "", "" if seen.config_path else none
    )
    # Not the whole line: it may hold names of hosts and disks.
    chosen = [word for word in seen.cmdline if word.partition("=")[0] in _BOOT_OPTIONS]
    yield Fact("kernel.boot_options", chosen, "", "/proc/cmdline")


@look(
    {
        "kernel.scheduler": "scheduler of ordinary processes",
        "kernel.sched_ext": "sched_ext",
        "kernel.sched_debug": "file with every run queue",
        "kernel.slice_ns": "slice of this process",
    }
)
def look_scheduler(seen: Seen) -> Iterator[Fact]:
    fair, source, remark = fair_scheduler(seen)
    state = files.read(f"{_SCHED_EXT}/state")
    ops = files.read(f"{_SCHED_EXT}/root/ops")
    if state == "enabled":
        name = f"sched_ext ({ops or 'name not told'})"
        kept = f"{fair or 'the fair class'} keeps what sched_ext was not given"
        yield Fact("kernel.scheduler", name, "", f"{_SCHED_EXT}/state", kept)
    else:
        yield Fact("kernel.scheduler", fair, "", source, remark)
    if state is not None:
        yield Fact(
            "kernel.sched_ext", ops if state == "enabled" and ops else state, "", f"{_SCHED_EXT}/state"
        )
    else:
        yield Fact("kernel.sched_ext", "not built", "", _SCHED_EXT, "the kernel shows no such folder")
    place = next((path for path in _RUN_QUEUES if files.exists(path)), None)
    why = "5.13 moved it from /proc to debugfs, which only root may read"
    yield Fact("kernel.sched_debug", place, "", place or _RUN_QUEUES[-1], "" if place else why)
    own = seen.own_sched.get("se.slice", "")
    why = "this kernel does not show it (EEVDF from 6.12 on does)"
    known = own.isdigit()
    yield Fact("kernel.slice_ns", int(own) if known else None, "ns", "/proc/self/sched", "" if known else why)


def fair_scheduler(seen: Seen) -> tuple[str | None, str, str]:
    """(EEVDF, CFS or None, what showed it, remark). What the kernel shows comes before what its release says.

    EEVDF (commit 147f3efaa241, Linux 6.6) added `vlag` to the scheduler's entities and the feature PLACE_LAG,
    and took the sleeper features and the target latency away.
    """
    features = files.read("/sys/kernel/debug/sched/features") or files.read(
        "/sys/kernel/debug/sched_features"
    )
    if features:
        words = {word.removeprefix("NO_") for word in features.split()}
        return ("EEVDF" if "PLACE_LAG" in words else "CFS"), "scheduler features in debugfs", ""
    if files.exists("/proc/sys/kernel/sched_latency_ns"):
        return "CFS", "/proc/sys/kernel/sched_latency_ns", "a target latency is CFS's"
    if "se.slice" in seen.own_sched:
        return "EEVDF", "/proc/self/sched", "entities have a slice of their own"
    if seen.in_btf("vlag"):
        return "EEVDF", "/sys/kernel/btf/vmlinux", "entities have a lag"
    if seen.in_btf("cfs_rq"):
        return "CFS", "/sys/kernel/btf/vmlinux", "entities have no lag"
    if seen.version:
        name = "EEVDF" if seen.version >= (6, 6) else "CFS"
        return name, "kernel release only", "nothing else tells it here; the change came with 6.6"
    return None, "", "neither debugfs, BTF nor the release tell it"


@look({"kernel.preemption": "preemption model", "kernel.realtime": "PREEMPT_RT"})
def look_preemption(seen: Seen) -> Iterator[Fact]:
    yield preemption(seen)
    if seen.build:
        yield Fact("kernel.realtime", "PREEMPT_RT" in seen.build.split(), "", "uname -v")
    else:
        yield Fact("kernel.realtime", None, "", "uname -v", "no file tells it")


def preemption(seen: Seen) -> Fact:
    """How the kernel preempts itself: "none (dynamic)", "full (static)", "PREEMPT_RT (lazy)", ..."""
    key, flags = "kernel.preemption", set(seen.build.split())
    mode = _dynamic_mode(files.read("/sys/kernel/debug/sched/preempt"))
    if "PREEMPT_RT" in flags:
        # Before 6.13 a real-time kernel had no mode beside full.
        form = mode or ("lazy" if "PREEMPT_LAZY" in seen.config else "full")
        return Fact(key, f"PREEMPT_RT ({form})", "", "uname -v")
    if "PREEMPT_DYNAMIC" in flags:
        if mode:
            return Fact(key, f"{mode} (dynamic)", "", "/sys/kernel/debug/sched/preempt")
        asked = seen.boot_option("preempt")
        if asked in ("none", "voluntary", "full", "lazy"):
            return Fact(key, f"{asked} (dynamic)", "", "boot option preempt=", "may have been changed since")
        built = _configured_mode(seen)
        if built:
            remark = "the built-in default; debugfs, which would confirm it, cannot be read"
            return Fact(key, f"{built} (dynamic)", "", seen.config_path or "", remark)
        return Fact(key, "dynamic, mode not known", "", "uname -v", "debugfs tells the mode, to root only")
    built = _configured_mode(seen)
    if built:
        return Fact(key, f"{built} (static)", "", seen.config_path or "")
    if "PREEMPT" in flags:
        return Fact(
            key, "full or lazy (static)", "", "uname -v", "only the kernel's configuration tells which"
        )
    if seen.build:
        return Fact(
            key, "none or voluntary (static)", "", "uname -v", "only the kernel's configuration tells which"
        )
    return Fact(key, None, "", "uname -v", "no file tells it")


def _dynamic_mode(text: str | None) -> str | None:
    """The mode in parentheses of "none voluntary (full) lazy"."""
    _, _, rest = (text or "").partition("(")
    return rest.partition(")")[0] or None


def _configured_mode(seen: Seen) -> str | None:
    for name, mode in (
        ("PREEMPT_NONE", "none"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
    ):
        if name in seen.config:
            return mode
    return None


@look({"kernel.lockdown": "lockdown", "kernel.debugfs": "debugfs"})
def look_lockdown(seen: Seen) -> Iterator[Fact]:
    path = "/sys/kernel/security/lockdown"
    text, why = files.look(path)
    if text is not None:
        mode = text.partition("[")[2].partition("]")[0] or text
        yield Fact("kernel.lockdown", mode, "", path)
    elif seen.configured("SECURITY_LOCKDOWN_LSM") is False:
        yield Fact("kernel.lockdown", "none", "", seen.config_path or "", "not built into this kernel")
    else:
        forced = [
            m for m in ("INTEGRITY", "CONFIDENTIALITY") if seen.configured(f"LOCK_DOWN_KERNEL_FORCE_{m}")
        ]
        if forced:
            # Forcing at build time sets the least level; boot and root can only raise it.
            remark = f"forced at build time, perhaps raised since ({path}: {why})"
            yield Fact("kernel.lockdown", forced[0].lower(), "", seen.config_path or "", remark)
        else:
            mounted = seen.mount_of("securityfs") or not seen.live
            yield Fact("kernel.lockdown", None, "", path, why if mounted else "securityfs is not mounted")
    yield debugfs(seen)


def debugfs(seen: Seen) -> Fact:
    """Whether the scheduler's folder in debugfs can be listed, and why not."""
    key, path = "kernel.debugfs", "/sys/kernel/debug"
    if files.names(f"{path}/sched"):
        return Fact(key, True, "", f"{path}/sched")
    if "debugfs" not in {kind for _, _, kind, _ in seen.mounts}:
        return Fact(key, False, "", path, "debugfs is not mounted")
    if not files.names(path):
        return Fact(key, False, "", path, "only root may look into debugfs")
    return Fact(
        key, False, "", f"{path}/sched", "there is no such folder: a kernel before 5.13, or without it"
    )


@look(
    {
        "proc.schedstat": "run delay per task (/proc/<pid>/schedstat)",
        "proc.sched": "scheduler's view per task (/proc/<pid>/sched)",
        "proc.pressure": "pressure stall information",
        "proc.schedstats": "detailed scheduler statistics",
    }
)
def look_proc(seen: Seen) -> Iterator[Fact]:
    text, why = files.look("/proc/self/schedstat")
    works = text is not None and len(text.split()) == 3
    yield Fact(
        "proc.schedstat", works, "", "/proc/self/schedstat", "" if works else why or "not three numbers"
    )
    yield Fact("proc.sched", bool(seen.own_sched), "", "/proc/self/sched")
    # Where psi=0 is the default the files exist but cannot be read.
    text, why = files.look("/proc/pressure/cpu")
    yield Fact("proc.pressure", text is not None, "", "/proc/pressure/cpu", why)
    switch = files.number("/proc/sys/kernel/sched_schedstats")
    if switch is None:
        yield Fact(
            "proc.schedstats",
            False,
            "",
            "/proc/sys/kernel/sched_schedstats",
            "this kernel has no such switch",
        )
    else:
        remark = "" if switch else "built in, but switched off"
        yield Fact("proc.schedstats", bool(switch), "", "/proc/sys/kernel/sched_schedstats", remark)
