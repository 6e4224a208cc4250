"""Machines that nobody recorded: trees CONSTRUCTED by hand from what kernels are documented to show.

They exercise branches that the recorded machine does not reach. They prove that we read these files as meant,
not that such a machine exists; where a real recording can be had (record.py), it should take the place.
"""

from __future__ import annotations

from pathlib import Path

Tree = dict[str, str]

_CPU = "/sys/devices/system/cpu"
_CLOCK = "/sys/devices/system/clocksource/clocksource0"
_NOBODY_STATUS = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000"
_LIMITS = "Max realtime priority     0                    0"
_V2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
_DEBUGFS = "36 24 0:7 / /sys/kernel/debug rw,nosuid shared:10 - debugfs debugfs rw\n"


def build(tree: Tree, folder: Path) -> Path:
    """Write a tree into a folder; a text that starts with `-> ` is a symbolic link."""
    for path, text in tree.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            target.symlink_to(text[3:])
        else:
            target.write_text(text + "\n")
    return folder


def _kernel(release: str, build: str, arch: str) -> Tree:
    return {
        "/proc/sys/kernel/osrelease": release,
        "/proc/sys/kernel/version": build,
        "/proc/sys/kernel/arch": arch,
        "/proc/self/status": f"{_NOBODY_STATUS}\n",
        "/proc/self/limits": _LIMITS,
        "/proc/self/ns/pid": "-> pid:[4026531836]",
    }


def _cpuinfo(cpus: int, lines: str) -> Tree:
    return {"/proc/cpuinfo": "\n\n".join(f"processor\t: {n}\n{lines}" for n in range(cpus))}


def _cpu(number: int, core: int, socket: int, siblings: str) -> Tree:
    here = f"{_CPU}/cpu{number}/topology"
    return {
        f"{here}/core_id": str(core),
        f"{here}/physical_package_id": str(socket),
        f"{here}/thread_siblings_list": siblings,
    }


def _cache(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> Tree:
    here = f"{_CPU}/cpu{cpu}/cache/index{index}"
    return {
        f"{here}/level": str(level),
        f"{here}/type": kind,
        f"{here}/size": size,
        f"{here}/shared_cpu_list": shared,
        f"{here}/coherency_line_size": "64",
    }


def ubuntu_2404() -> Tree:
    """Ubuntu 24.04 in VirtualBox: kernel 6.8, cgroup v2, a desktop user's session, debugfs for root only."""
    tree = _kernel(
        "6.8.0-48-generic", "#48-Ubuntu SMP PREEMPT_DYNAMIC Fri Sep 27 14:04:52 UTC 2024", "x86_64"
    )
    tree |= _cpuinfo(2, "model name\t: 12th Gen Intel(R) Core(TM) i7-1260P\nflags\t\t: fpu tsc hypervisor\n")
    tree |= _cpu(0, 0, 0, "0") | _cpu(1, 1, 0, "1")
    for cpu in (0, 1):
        tree |= _cache(cpu, 0, 1, "Data", "48K", str(cpu)) | _cache(cpu, 1, 1, "Instruction", "32K", str(cpu))
        tree |= _cache(cpu, 2, 2, "Unified", "1280K", str(cpu)) | _cache(
            cpu, 3, 3, "Unified", "18432K", "0-1"
        )
    return tree | {
        f"{_CPU}/online": "0-1",
        "/sys/class/dmi/id/sys_vendor": "innotek GmbH",
        "/sys/class/dmi/id/product_name": "VirtualBox",
        f"{_CLOCK}/current_clocksource": "kvm-clock",
        f"{_CLOCK}/available_clocksource": "kvm-clock tsc acpi_pm",
        "/boot/config-6.8.0-48-generic": "CONFIG_HZ=1000\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_KPROBES=y\n"
        "CONFIG_SECURITY_LOCKDOWN_LSM=y",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=0 ro quiet splash isolcpus=1",
        "/proc/self/mountinfo": _V2 + _DEBUGFS,
        "/proc/self/cgroup": "0::/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc",
        "/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max": "150000 100000",
        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cpu.max": "max 100000",
        "/sys/fs/cgroup/user.slice/memory.max": "2147483648",
        "/sys/fs/cgroup/user.slice/user-1000.slice/memory.max": "max",
        "/sys/kernel/security/lockdown": "[none] integrity confidentiality",
        "/proc/sys/kernel/sched_schedstats": "0",
        "/proc/sys/kernel/sched_rt_runtime_us": "950000",
        "/proc/sys/kernel/perf_event_paranoid": "4",
        "/proc/sys/kernel/unprivileged_bpf_disabled": "2",
        "/sys/bus/event_source/devices/kprobe/type": "6",
        "/sys/bus/event_source/devices/tracepoint/type": "2",
        "/usr/lib/python3/dist-packages/bcc/__init__.py": "",
        "/usr/lib/python3/dist-packages/bcc/table.py": "",
        "/usr/lib/x86_64-linux-gnu/libbcc.so.0": "",
        "/usr/local/lib/sched-labs/sched-labs-probe": "",
    }


def big_little() -> Tree:
    """An arm64 board: four Cortex-A55, four Cortex-A76, kernel 6.12 with PREEMPT_RT, sysfs without caches."""
    tree = _kernel("6.12.30", "#1 SMP PREEMPT_RT Debian 6.12.30-1 (2025-05-20)", "aarch64")
    blocks = [
        f"processor\t: {n}\nCPU implementer\t: 0x41\nCPU part\t: {'0xd05' if n < 4 else '0xd0b'}"
        for n in range(8)
    ]
    for n in range(8):
        tree |= _cpu(n, n, 0, str(n)) | {f"{_CPU}/cpu{n}/cpu_capacity": "414" if n < 4 else "1024"}
    return tree | {
        "/proc/cpuinfo": "\n\n".join(blocks),
        f"{_CPU}/online": "0-7",
        "/proc/device-tree/model": "Radxa ROCK 5B\0",
        f"{_CLOCK}/current_clocksource": "arch_sys_counter",
        f"{_CPU}/cpufreq/policy0/scaling_governor": "schedutil",
        f"{_CPU}/cpufreq/policy4/scaling_governor": "performance",
        f"{_CPU}/cpufreq/policy0/scaling_driver": "cpufreq-dt",
        "/sys/kernel/sched_ext/state": "enabled",
        "/sys/kernel/sched_ext/root/ops": "lavd",
        "/sys/kernel/debug/sched/features": "PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY WA_IDLE",
        "/sys/kernel/debug/sched/base_slice_ns": "2800000",
        "/sys/kernel/debug/sched/migration_cost_ns": "500000",
        "/sys/kernel/debug/sched/fair_server/cpu0/runtime": "50000000",
        "/sys/kernel/debug/sched/numa_balancing/scan_delay_ms": "1000",
        "/proc/self/mountinfo": _V2 + _DEBUGFS,
    }


def two_sockets() -> Tree:
    """Bare metal: two sockets, two cores each, two threads a core, a node and a last-level cache a socket."""
    tree = _kernel("6.1.0-37-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)", "x86_64")
    tree |= _cpuinfo(8, "model name\t: Intel(R) Xeon(R)  Gold  5218\nflags\t: fpu tsc ht")
    for cpu in range(8):
        core, socket = cpu // 2 % 2, cpu % 2
        pair = f"{cpu % 4},{cpu % 4 + 4}"
        tree |= _cpu(cpu, core, socket, pair)
        tree |= _cache(cpu, 0, 1, "Data", "32K", pair) | _cache(cpu, 2, 2, "Unified", "1024K", pair)
        tree |= _cache(cpu, 3, 3, "Unified", "22528K", "0,2,4,6" if socket == 0 else "1,3,5,7")
    for node, its in ((0, "0,2,4,6"), (1, "1,3,5,7")):
        here = f"/sys/devices/system/node/node{node}"
        tree[f"{here}/cpulist"] = its
        tree[f"{here}/distance"] = "10 21" if node == 0 else "21 10"
        tree[f"{here}/meminfo"] = f"Node {node} MemTotal:       98304000 kB"
    return tree | {
        f"{_CPU}/online": "0-7",
        f"{_CPU}/intel_pstate/no_turbo": "0",
        f"{_CPU}/cpufreq/policy0/scaling_governor": "powersave",
        f"{_CPU}/cpufreq/policy0/scaling_driver": "intel_pstate",
        f"{_CPU}/vulnerabilities/meltdown": "Mitigation: PTI",
        f"{_CPU}/vulnerabilities/mds": "Vulnerable: Clear CPU buffers attempted, no microcode",
        f"{_CPU}/vulnerabilities/srbds": "Not affected",
        f"{_CPU}/cpuidle/current_driver": "intel_idle",
        f"{_CPU}/cpu0/cpuidle/state0/name": "POLL",
        f"{_CPU}/cpu0/cpuidle/state0/latency": "0",
        f"{_CPU}/cpu0/cpuidle/state1/name": "C6",
        f"{_CPU}/cpu0/cpuidle/state1/latency": "133",
        f"{_CPU}/cpu0/cpuidle/state1/disable": "1",
        "/proc/stat": "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0",
        "/sys/kernel/debug/sched/preempt": "none (voluntary) full",
        "/sys/kernel/debug/sched/latency_ns": "24000000",
        "/sys/kernel/debug/sched/min_granularity_ns": "3000000",
        "/sys/kernel/debug/sched/features": "GENTLE_FAIR_SLEEPERS START_DEBIT NO_NEXT_BUDDY",
        "/proc/self/mountinfo": _V2 + _DEBUGFS,
        "/proc/self/status": _NOBODY_STATUS + "\nCpus_allowed_list:\t0-3,5",
    }


def sysctl_era() -> Tree:
    """Debian 11: kernel 5.10, tunables as sysctls, cgroup v1 with cpu and cpuacct mounted together."""
    tree = _kernel("5.10.0-34-amd64", "#1 SMP Debian 5.10.234-1 (2025-02-24)", "x86_64")
    tree |= _cpuinfo(1, "model name\t: AMD Ryzen 5 3600\nflags\t\t: fpu")
    return tree | {
        f"{_CPU}/online": "0",
        "/proc/sys/kernel/sched_latency_ns": "6000000",
        "/proc/sys/kernel/sched_min_granularity_ns": "750000",
        "/proc/sys/kernel/sched_wakeup_granularity_ns": "1000000",
        "/proc/sys/kernel/sched_migration_cost_ns": "500000",
        "/proc/sys/kernel/sched_nr_migrate": "32",
        "/proc/sys/kernel/sched_child_runs_first": "0",
        "/proc/sys/kernel/sched_cfs_bw_burst_enabled": "1",
        "/proc/sys/kernel/sched_of_some_vendor_ms": "7",
        "/proc/sys/kernel/sched_domain/cpu0/domain0/name": "MC",
        "/proc/self/mountinfo": "31 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
        "/proc/self/cgroup": "4:cpu,cpuacct:/system.slice/ssh.service\n1:name=systemd:/",
        "/sys/fs/cgroup/cpu,cpuacct/system.slice/ssh.service/cpu.rt_runtime_us": "0",
        "/sys/fs/cgroup/cpu,cpuacct/system.slice/ssh.service/cpu.cfs_quota_us": "-1",
        "/sys/fs/cgroup/cpu,cpuacct/system.slice/ssh.service/cpu.cfs_period_us": "100000",
        "/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_quota_us": "20000",
        "/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_period_us": "100000",
    }


def wsl() -> Tree:
    """WSL2: Microsoft's kernel, a distribution in a pid namespace of its own, no caches in sysfs."""
    tree = _kernel("6.6.87.2-microsoft-standard-WSL2", "#1 SMP PREEMPT_DYNAMIC Thu Jun 5 2025", "x86_64")
    tree |= _cpuinfo(2, "model name\t: Intel(R) Core(TM) i5\nflags\t: hypervisor\nclflush size\t: 64")
    return tree | {
        "/proc/self/ns/pid": "-> pid:[4026532200]",
        "/run/systemd/container": "wsl",
        f"{_CLOCK}/current_clocksource": "tsc",
        f"{_CLOCK}/available_clocksource": "tsc hyperv_clocksource_tsc_page hyperv_clocksource_msr",
    }


def container() -> Tree:
    """A Docker container with a quota on cgroup v2; it sees neither its group's path nor the knobs."""
    tree = _kernel("6.12.48-cloud-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1 (2025-09-20)", "x86_64")
    tree |= _cpuinfo(4, "model name\t: AMD EPYC 7R13\nflags\t\t: fpu hypervisor")
    return tree | {
        "/.dockerenv": "",
        "/proc/self/ns/pid": "-> pid:[4026532450]",
        "/sys/class/dmi/id/sys_vendor": "Amazon EC2",
        "/sys/class/dmi/id/product_name": "m6a.xlarge",
        f"{_CPU}/online": "0-3",
        "/proc/self/status": _NOBODY_STATUS + "\nCpus_allowed_list:\t1-2",
        "/proc/self/mountinfo": _V2,
        "/proc/self/cgroup": "0::/",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory pids",
        "/sys/fs/cgroup/cpu.max": "50000 100000",
        "/sys/fs/cgroup/memory.max": "536870912",
        "/proc/self/sched": "python3 (7, #threads: 1)\n----\nse.vruntime  :  1.0\nse.slice   :    2800000",
    }
