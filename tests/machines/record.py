"""Record what this machine shows, for tests: `python tests/machines/record.py FOLDER`.

Copies the files that the survey reads, a few kilobytes, into FOLDER. What tells about its owner is left out:
only mounts and boot options that matter are kept, no path of a group, no name of a host or of a user. The
type information (BTF) and the configuration of the kernel are cut down to the names that the survey asks for.
"""

from __future__ import annotations

import datetime
import struct
import sys
from pathlib import Path

from sched_labs.machine import files
from sched_labs.machine.kernel import _BOOT_OPTIONS
from sched_labs.machine.seen import Seen

COPIED = """
/proc/sys/kernel/{osrelease,version,arch,perf_event_paranoid,unprivileged_bpf_disabled,numa_balancing}
/proc/sys/kernel/{timer_migration,sched_*}
/proc/cpuinfo /proc/stat /proc/meminfo /proc/loadavg /proc/self/schedstat /proc/self/sched /proc/pressure/cpu
/proc/self/limits /proc/device-tree/{model,compatible}
/sys/devices/system/cpu/{online,isolated,nohz_full} /sys/devices/system/cpu/cpu*/cpu_capacity
/sys/devices/system/cpu/cpu*/topology/{core_id,physical_package_id,core_cpus_list,thread_siblings_list}
/sys/devices/system/cpu/cpu*/cache/index*/{level,size,type,shared_cpu_list,coherency_line_size}
/sys/devices/system/cpu/cpufreq/policy*/scaling_{driver,governor} /sys/devices/system/cpu/cpufreq/boost
/sys/devices/system/cpu/intel_pstate/no_turbo /sys/devices/system/cpu/cpuidle/*
/sys/devices/system/cpu/cpu0/cpuidle/state*/{name,latency,disable} /sys/devices/system/cpu/vulnerabilities/*
/sys/devices/system/clocksource/clocksource0/{current,available}_clocksource
/sys/devices/system/node/node*/{cpulist,distance,meminfo} /sys/devices/cpu_*/cpus
/sys/class/dmi/id/{sys_vendor,product_name} /sys/hypervisor/type /sys/kernel/sched_ext/{state,root/ops}
/sys/kernel/security/lockdown /sys/kernel/debug/sched/{features,preempt,*_ns,nr_migrate,tunable_scaling}
/sys/kernel/mm/transparent_hugepage/enabled /sys/module/haltpoll/parameters/guest_halt_poll_ns
/sys/module/kvm/parameters/halt_poll_ns /sys/fs/cgroup/cgroup.controllers
/sys/fs/cgroup/cpu/{cgroup.sane_behavior,cpu.cfs_quota_us,cpu.cfs_period_us,cpu.rt_runtime_us}
"""
KEPT_STATUS = ("Uid", "CapEff", "Cpus_allowed_list", "NSpid")
KEPT_CONFIG = (
    "HZ",
    "PREEMPT",
    "SCHED",
    "CGROUP",
    "BPF",
    "KPROBES",
    "RT_GROUP_SCHED",
    "LOCK",
    "SECURITY_LOCKDOWN",
    "DYNAMIC_FTRACE",
)
KEPT_BTF = ("vlag", "cfs_rq", "btf_trace_sched_switch")
KEPT_MOUNTS = ("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs")


def patterns(text: str) -> list[str]:
    """The patterns above with their {braces} spelled out."""
    found, queue = [], text.split()
    while queue:
        word = queue.pop(0)
        head, brace, rest = word.partition("{")
        inner, _, tail = rest.partition("}")
        if brace:
            queue += [head + choice + tail for choice in inner.split(",")]
        else:
            found.append(word)
    return found


def record(folder: Path) -> None:
    """Write the tree. Files that are not there, or that this user may not read, stay away."""
    seen = Seen()

    def keep(path: str, text: str | bytes) -> None:
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else (text.rstrip() + "\n").encode())

    for pattern in patterns(COPIED):
        for found in sorted(Path("/").glob(pattern.lstrip("/"))):
            text = files.read(str(found))
            if text is not None:
                keep(str(found), text)
    keep("/proc/self/status", "\n".join(f"{n}:\t{seen.status[n]}" for n in KEPT_STATUS if n in seen.status))
    keep("/proc/cmdline", " ".join(w for w in seen.cmdline if w.partition("=")[0] in _BOOT_OPTIONS))
    mounts = (files.read("/proc/self/mountinfo") or "").splitlines()
    keep(
        "/proc/self/mountinfo",
        "\n".join(m for m in mounts if m.partition(" - ")[2].split()[0] in KEPT_MOUNTS),
    )
    groups = (files.read("/proc/self/cgroup") or "").splitlines()
    keep("/proc/self/cgroup", "\n".join(":".join(g.split(":")[:2]) + ":/" for g in groups))
    kept = [f"CONFIG_{n}={v}" for n, v in seen.config.items() if n.startswith(KEPT_CONFIG)]
    if kept:
        keep(f"/boot/config-{seen.release}", "\n".join(kept))
    if seen.btf_names is not None:
        strings = b"\0" + b"\0".join(n.encode() for n in KEPT_BTF if seen.in_btf(n)) + b"\0"
        keep(
            "/sys/kernel/btf/vmlinux",
            struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, len(strings)) + strings,
        )
    for kind in ("pid", "uts", "ipc"):
        link = files.link(f"/proc/self/ns/{kind}")
        if link:
            (folder / "proc/self/ns").mkdir(parents=True, exist_ok=True)
            (folder / f"proc/self/ns/{kind}").symlink_to(link)
    for name in files.names("/sys/bus/event_source/devices"):
        keep(f"/sys/bus/event_source/devices/{name}/type", "0")
    today = datetime.datetime.now(tz=datetime.UTC).date()
    keep("/ABOUT", f"Recorded {today} by record.py: {seen.release} on {seen.arch}. (Say what it is.)")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
