"""What this machine runs in: a hypervisor, a container, WSL; what they take away; memory and load."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator

from . import files
from .facts import NOT_LOOKED, Fact, look
from .seen import Seen

# (text in the firmware's vendor and product, hypervisor): read without root on x86 and on arm64 servers.
_FIRMWARE = (
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("VMware", "VMware"),
    ("Parallels", "Parallels"),
    ("Microsoft Corporation Virtual Machine", "Hyper-V"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("BHYVE", "bhyve"),
    ("Xen", "Xen"),
    ("Google Compute Engine", "KVM (Google Compute Engine)"),
    ("OpenStack", "KVM (OpenStack)"),
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
)
# A clock source that only guests of one hypervisor are offered.
_GUEST_CLOCK = {
    "kvm-clock": "KVM",
    "hyperv_clocksource_tsc_page": "Hyper-V",
    "hyperv_clocksource": "Hyper-V",
    "xen": "Xen",
}

# The first namespaces have fixed inodes (include/linux/proc_ns.h).
_FIRST_NAMESPACES = {"pid": "pid:[4026531836]", "uts": "uts:[4026531838]", "ipc": "ipc:[4026531839]"}


@look({"host.hypervisor": "hypervisor", "host.wsl": "Windows Subsystem for Linux"})
def look_hypervisor(seen: Seen) -> Iterator[Fact]:
    version = wsl(seen)
    yield hypervisor(seen) if version != "WSL2" else Fact("host.hypervisor", "Hyper-V (WSL2)", "", "uname -r")
    yield Fact("host.wsl", version or "no", "", "uname -r")


def wsl(seen: Seen) -> str | None:
    """WSL1, WSL2 or None. WSL1 is no Linux kernel at all: it answers 4.4.0 with a capital Microsoft."""
    release = seen.release
    if "microsoft" not in release.lower() and "WSL" not in release:
        return None
    return "WSL1" if release.startswith("4.4.0-") else "WSL2"


def hypervisor(seen: Seen) -> Fact:
    """The hypervisor's name, or "none" (x86: the processor says so; elsewhere: no sign of one was found)."""
    key = "host.hypervisor"
    flag = any("hypervisor" in p.get("flags", "").split() for p in seen.processors)
    if seen.arch in ("x86_64", "i686") and seen.processors and not flag:
        if files.read("/sys/hypervisor/type") == "xen":
            return Fact(key, "Xen", "", "/sys/hypervisor/type")
        return Fact(key, "none", "", "/proc/cpuinfo", "the processor says that it is no guest's")
    dmi = " ".join(files.read(f"/sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    for text, name in _FIRMWARE:
        if text in dmi:
            return Fact(key, name, "", "/sys/class/dmi/id")
    if "Amazon EC2" in dmi and "metal" not in dmi:
        return Fact(key, "Amazon EC2", "", "/sys/class/dmi/id")
    told = files.read("/sys/hypervisor/type")
    if told:
        return Fact(key, told, "", "/sys/hypervisor/type")
    for clock in _clocks():
        if clock in _GUEST_CLOCK:
            return Fact(key, _GUEST_CLOCK[clock], "", f"clock source {clock} is offered")
    if "dummy-virt" in (files.read("/proc/device-tree/compatible") or ""):
        return Fact(key, "QEMU", "", "/proc/device-tree/compatible")
    if flag:
        return Fact(key, "some hypervisor", "", "/proc/cpuinfo", "it does not say which one")
    return Fact(
        key, "none", "", "firmware, clock sources", "no sign of one; on this architecture that proves little"
    )


def _clocks() -> list[str]:
    return (files.read("/sys/devices/system/clocksource/clocksource0/available_clocksource") or "").split()


@look({"host.emulated": "a program plays the processor"})
def look_emulated(seen: Seen) -> Iterator[Fact]:
    yield emulated(seen)


def emulated(seen: Seen) -> Fact:
    """Whether a program plays the processor, as QEMU's TCG does where it has no KVM.

    Its name does not tell, for QEMU gives it any.  On x86 the hypervisor signs CPUID leaf 0x40000000 (QEMU's
    target/i386/cpu.c); where that cannot be asked: QEMU's firmware, and none of KVM's clock.  On arm64 QEMU's
    processor `max` is nobody's, and has the part number 'Q' (target/arm/tcg/cpu64.c).
    """
    key, told = "host.emulated", hypervisor(seen)
    if told.value == "none":
        return Fact(key, False, "", told.source, told.why)
    if seen.arch == "x86_64":
        if seen.live and (signature := _signature()):
            return Fact(key, signature == "TCGTCGTCGTCG", "", "CPUID", f"the hypervisor signs as {signature}")
        # KVM offers its clock to every guest that does not turn it off.
        return Fact(key, told.value == "QEMU" and "kvm-clock" not in _clocks(), "", "firmware, clock sources")
    parts = {(p.get("CPU implementer"), p.get("CPU part")) for p in seen.processors}
    if parts == {("0x00", "0x051")}:
        return Fact(key, True, "", "/proc/cpuinfo", "QEMU's own processor")
    return Fact(key, None, "", "/proc/cpuinfo", "on this architecture a hypervisor does not say how it works")


def _signature() -> str:
    """The twelve letters at CPUID leaf 0x40000000; "" where no code may be made, as SELinux may forbid."""
    code = bytes.fromhex(
        "53"  # push %rbx
        "89f8"  # mov %edi,%eax: the first argument is the leaf
        "0fa2"  # cpuid
        "891e894e04895608"  # mov %ebx,(%rsi); mov %ecx,4(%rsi); mov %edx,8(%rsi): the second, where it goes
        "5bc3"  # pop %rbx; ret
    )
    try:
        with mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as page:
            page.write(code)
            place = ctypes.c_char.from_buffer(page)
            letters = ctypes.create_string_buffer(12)
            ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_char_p)(ctypes.addressof(place))
            ask(0x40000000, letters)
            del place
    except OSError:
        return ""
    return letters.raw.decode("ascii", "replace").rstrip("\0")


@look({"host.container": "container", "host.pid_namespace": "pid namespace"})
def look_container(seen: Seen) -> Iterator[Fact]:
    yield container(seen)
    namespace = files.link("/proc/self/ns/pid")
    if namespace is None:
        yield Fact("host.pid_namespace", None, "", "/proc/self/ns/pid", "the kernel does not tell")
    else:
        value = "the machine's" if namespace == _FIRST_NAMESPACES["pid"] else "its own"
        remark = (
            ""
            if value == "the machine's"
            else "process numbers here are not those that the kernel's probes see"
        )
        yield Fact("host.pid_namespace", value, "", "/proc/self/ns/pid", remark)


def container(seen: Seen) -> Fact:
    """The container's kind, or "none" when no sign of one was found."""
    key = "host.container"
    if files.exists("/.dockerenv"):
        # A machine made from a container's image keeps the file; its first namespaces give it away.
        if all(files.link(f"/proc/self/ns/{kind}") == first for kind, first in _FIRST_NAMESPACES.items()):
            return Fact(
                key, "none", "", "/proc/self/ns", "/.dockerenv is here, but the namespaces are the machine's"
            )
        return Fact(key, "docker", "", "/.dockerenv")
    if files.exists("/run/.containerenv"):
        return Fact(key, "podman", "", "/run/.containerenv")
    told = files.read("/run/systemd/container")
    if told and told != "wsl":
        return Fact(key, told, "", "/run/systemd/container")
    groups = files.read("/proc/self/cgroup") or ""
    for word in ("kubepods", "docker", "libpod", "containerd", "lxc"):
        if word in groups:
            return Fact(key, word, "", "/proc/self/cgroup")
    namespace = files.link("/proc/self/ns/pid")
    if wsl(seen) is None and namespace not in (None, _FIRST_NAMESPACES["pid"]):
        return Fact(
            key, "of some kind", "", "/proc/self/ns/pid", "this process has a pid namespace of its own"
        )
    return Fact(key, "none", "", "files, cgroup and namespace", "no sign of one")


# What a program is started with by those who share out a machine.
_SHARED_BY = {
    "JUPYTERHUB_USER": "a JupyterHub",
    "SLURM_JOB_ID": "Slurm",
    "PBS_JOBID": "PBS",
    "LSB_JOBID": "LSF",
    "KUBERNETES_SERVICE_HOST": "Kubernetes",
}
_PEOPLE = range(
    1000, 65534
)  # user numbers of people (UID_MIN of login.defs); below are services, 65534: nobody


@look({"host.shared": "shared with others"})
def look_shared(seen: Seen) -> Iterator[Fact]:
    """Who else may use this machine, as far as this process sees: others' runs are in its numbers."""
    key, source = "host.shared", "/proc, environment"
    if not seen.live:
        yield Fact(key, None, "", source, NOT_LOOKED)
        return
    users = {files.owner(f"/proc/{name}") for name in files.names("/proc") if name.isdigit()}
    others = len(users & set(_PEOPLE) - {os.getuid()})
    told = [f"by {name}" for word, name in _SHARED_BY.items() if word in os.environ]
    told += [f"with {others} other user{'s' * (others > 1)} whose processes are here"] * bool(others)
    yield Fact(key, told, "", source, "" if told else "no sign of it")


@look(
    {
        "host.steal_percent": "time stolen by the host since boot",
        "host.load": "processes running or waiting (1 min)",
    }
)
def look_steal(seen: Seen) -> Iterator[Fact]:
    text, why = files.look("/proc/stat")
    line = next((li for li in (text or "").splitlines() if li.startswith("cpu ")), "")
    ticks: list[int] = [int(t) for t in line.split()[1:]]
    total = sum(ticks[:8])
    if len(ticks) >= 8 and total:
        # The first eight: user, nice, system, idle, iowait, irq, softirq, steal; guest time is inside user.
        stolen = round(100 * ticks[7] / total, 2)
        guest = hypervisor(seen).value != "none"
        remark = (
            "a hypervisor need not report it: nothing reported is not nothing stolen"
            if guest and not stolen
            else ""
        )
        yield Fact("host.steal_percent", stolen, "%", "/proc/stat", remark)
    else:
        yield Fact("host.steal_percent", None, "%", "/proc/stat", why or "it has no column for it")
    text, why = files.look("/proc/loadavg")
    yield Fact("host.load", float(text.split()[0]) if text else None, "", "/proc/loadavg", why)


@look(
    {
        "memory.total_bytes": "memory",
        "memory.available_bytes": "memory available now",
        "memory.page_bytes": "page",
        "memory.huge_pages": "transparent huge pages",
    }
)
def look_memory(seen: Seen) -> Iterator[Fact]:
    text, why = files.look("/proc/meminfo")
    kilobytes = {}
    for name, _, rest in (line.partition(":") for line in (text or "").splitlines()):
        if rest.split()[:1] and rest.split()[0].isdigit():
            kilobytes[name] = int(rest.split()[0])
    for key, name in (("memory.total_bytes", "MemTotal"), ("memory.available_bytes", "MemAvailable")):
        known = name in kilobytes
        missing = "" if known else why or f"no line {name}"
        yield Fact(key, kilobytes[name] * 1024 if known else None, "bytes", "/proc/meminfo", missing)
    if seen.live:
        yield Fact("memory.page_bytes", os.sysconf("SC_PAGESIZE"), "bytes", "sysconf")
    else:
        pages = {"x86_64": 4096}.get(seen.arch)
        yield Fact(
            "memory.page_bytes", pages, "bytes", "architecture", "" if pages else "several are possible"
        )
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    text, why = files.look(path)
    yield Fact("memory.huge_pages", (text or "").partition("[")[2].partition("]")[0] or None, "", path, why)
