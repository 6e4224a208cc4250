"""What the kernel offers to probes, and whether the tools for them are installed. Nothing is loaded here."""

from __future__ import annotations

from collections.abc import Iterator

from . import files
from .facts import Fact, look
from .seen import Seen

HELPER = "/usr/local/lib/sched-labs/sched-labs-probe"

# Where Debian, Ubuntu, Fedora, Arch and openSUSE put the module that belongs to the system's Python.
_BCC_FIXED = "/usr/lib/python3/dist-packages/bcc"
_LIBRARY = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64")

_CAP_SYS_ADMIN, _CAP_PERFMON, _CAP_BPF = 21, 38, 39


@look(
    {
        "bpf.syscall": "BPF",
        "bpf.unprivileged": "BPF for ordinary users",
        "bpf.capable": "this process may load BPF programs itself",
        "bpf.btf": "BTF (type information of the kernel)",
        "bpf.raw_tracepoints": "scheduler's raw tracepoints in BTF",
        "bpf.tracepoints": "tracepoints",
        "bpf.tracefs": "tracefs",
        "bpf.kprobes": "kprobes",
        "bpf.fentry": "fentry (trampolines)",
    }
)
def look_bpf(seen: Seen) -> Iterator[Fact]:
    path = "/proc/sys/kernel/unprivileged_bpf_disabled"
    switch = files.number(path)
    built = switch is not None or bool(seen.configured("BPF_SYSCALL"))
    yield Fact("bpf.syscall", built, "", path, "" if built else "this kernel has no bpf system call")
    why = "" if switch is not None else "the kernel has no switch for it"
    yield Fact("bpf.unprivileged", switch == 0 if switch is not None else None, "", path, why)
    admin, perfmon, bpf = (seen.capable(c) for c in (_CAP_SYS_ADMIN, _CAP_PERFMON, _CAP_BPF))
    if admin is None:
        yield Fact("bpf.capable", None, "", "/proc/self/status", "the kernel does not tell capabilities")
    else:
        able = bool(admin or (perfmon and bpf))
        remark = "" if able else "the privileged helper does it for ordinary users"
        yield Fact("bpf.capable", able, "", "/proc/self/status (CapEff)", remark)
    btf = files.exists("/sys/kernel/btf/vmlinux")
    yield Fact(
        "bpf.btf",
        btf,
        "",
        "/sys/kernel/btf/vmlinux",
        "" if btf else "no such file: built without it, or before 5.4",
    )
    raw = seen.in_btf("btf_trace_sched_switch")
    yield Fact(
        "bpf.raw_tracepoints",
        raw,
        "",
        "/sys/kernel/btf/vmlinux",
        "" if raw is not None else "without BTF it cannot be told",
    )
    pmus = files.names("/sys/bus/event_source/devices")
    yield Fact("bpf.tracepoints", "tracepoint" in pmus, "", "/sys/bus/event_source/devices")
    yield tracefs(seen)
    # The PMU is the way perf and bcc attach; the symbol alone would need root and kallsyms.
    kprobes = "kprobe" in pmus
    why = (
        ""
        if kprobes
        else "the kernel was built without them"
        if seen.configured("KPROBES") is False
        else "no such PMU is shown"
    )
    yield Fact("bpf.kprobes", kprobes, "", "/sys/bus/event_source/devices/kprobe", why)
    fentry = seen.configured("DYNAMIC_FTRACE_WITH_DIRECT_CALLS")
    why = "" if fentry is not None else "only the kernel's configuration tells"
    yield Fact(
        "bpf.fentry", fentry, "", seen.config_path or "", why or "built in; lockdown may still refuse it"
    )


def tracefs(seen: Seen) -> Fact:
    """Where tracefs is mounted, None with the reason where it is not or where we may not look."""
    mounted = seen.mount_of("tracefs")
    if mounted is None:
        return Fact("bpf.tracefs", None, "", "/proc/self/mountinfo", "not mounted; raw tracepoints need none")
    readable = bool(files.names(f"{mounted}/events"))
    return Fact(
        "bpf.tracefs",
        mounted,
        "",
        "/proc/self/mountinfo",
        "" if readable else "this user may not look into it",
    )


@look(
    {
        "bpf.bcc": "BCC for the system's Python",
        "bpf.libbcc": "BCC's library",
        "helper.installed": "privileged helper",
    }
)
def look_tools(seen: Seen) -> Iterator[Fact]:
    module = bcc_module()
    none = "python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora) is not installed"
    yield Fact(
        "bpf.bcc",
        module,
        "",
        module or _BCC_FIXED,
        "found, not loaded: only the helper loads it" if module else none,
    )
    library = next(
        (
            f"{folder}/{name}"
            for folder in _LIBRARY
            for name in reversed(files.names(folder))
            if name.startswith("libbcc.so")
        ),
        None,
    )
    yield Fact(
        "bpf.libbcc",
        library,
        "",
        library or "library folders",
        "" if library else "libbcc.so is not installed",
    )
    installed = files.exists(HELPER)
    yield Fact(
        "helper.installed",
        installed,
        "",
        HELPER,
        "" if installed else "scripts/provision.sh installs it, after saying so",
    )


def bcc_module() -> str | None:
    """The folder of the system's bcc module, None without it (PyPI's `bcc` is something else)."""
    folders = [_BCC_FIXED]
    for library in ("/usr/lib", "/usr/lib64"):
        folders += [
            f"{library}/{n}/site-packages/bcc" for n in files.names(library) if n.startswith("python3.")
        ]
    return next(
        (f for f in folders if files.exists(f"{f}/__init__.py") and files.exists(f"{f}/table.py")), None
    )
