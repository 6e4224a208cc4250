"""The processor: what it is, how fast it may run, how it sleeps, and what it is protected against."""

from __future__ import annotations

from collections.abc import Iterator

from . import arm, files
from .facts import Fact, look
from .seen import Seen

_CPU = "/sys/devices/system/cpu"


@look({"cpu.model": "CPU", "cpu.arch": "architecture"})
def look_model(seen: Seen) -> Iterator[Fact]:
    yield model(seen)
    yield Fact("cpu.arch", seen.arch, "", "uname -m")


def model(seen: Seen) -> Fact:
    """The processor's name; on arm64 those of its cores, and the board's where the device tree has it."""
    for field in ("model name", "Model Name", "cpu model", "uarch"):
        for block in seen.processors:
            if block.get(field):
                return Fact("cpu.model", " ".join(block[field].split()), "", "/proc/cpuinfo")
    cores = [arm.core_name(b) for b in seen.processors if "CPU part" in b]
    if cores:
        counted = " + ".join(f"{cores.count(name)} × {name}" for name in dict.fromkeys(cores))
        board = (files.read("/proc/device-tree/model") or "").strip("\0 ")
        return Fact("cpu.model", counted, "", "/proc/cpuinfo", f"board: {board}" if board else "")
    return Fact("cpu.model", None, "", "/proc/cpuinfo", "it holds no name of the processor")


@look(
    {
        "cpu.frequency_driver": "frequency driver",
        "cpu.governor": "frequency governor",
        "cpu.turbo": "turbo (boost)",
    }
)
def look_frequency(seen: Seen) -> Iterator[Fact]:
    policies = [f"{_CPU}/cpufreq/{p}" for p in files.names(f"{_CPU}/cpufreq") if p.startswith("policy")]
    none = "the kernel does not steer the frequency here; in a guest the host does"
    for key, name in (("cpu.frequency_driver", "scaling_driver"), ("cpu.governor", "scaling_governor")):
        found = [text for text in (files.read(f"{p}/{name}") for p in policies) if text]
        value = ", ".join(dict.fromkeys(found)) or None
        yield Fact(key, value, "", f"{_CPU}/cpufreq/policy*/{name}", "" if value else none)
    for path, on in ((f"{_CPU}/intel_pstate/no_turbo", 0), (f"{_CPU}/cpufreq/boost", 1)):
        switch = files.number(path)
        if switch is not None:
            yield Fact("cpu.turbo", switch == on, "", path)
            return
    yield Fact("cpu.turbo", None, "", f"{_CPU}/cpufreq/boost", "no switch for it is shown here")


@look(
    {
        "cpu.idle_driver": "idle driver",
        "cpu.idle_governor": "idle governor",
        "cpu.idle_states": "idle states (time to leave them)",
        "host.halt_poll_ns": "halt polling of this guest",
        "host.kvm_halt_poll_ns": "halt polling for guests of this machine",
    }
)
def look_idle(seen: Seen) -> Iterator[Fact]:
    for key, name in (("cpu.idle_driver", "current_driver"), ("cpu.idle_governor", "current_governor")):
        text = files.read(f"{_CPU}/cpuidle/{name}") or files.read(f"{_CPU}/cpuidle/{name}_ro")
        missing = "" if text else "no cpuidle here: an idle CPU just halts"
        yield Fact(key, text, "", f"{_CPU}/cpuidle/{name}", missing)
    states = []
    here = f"{_CPU}/cpu0/cpuidle"
    for state in files.names(here):
        called, latency = files.read(f"{here}/{state}/name"), files.number(f"{here}/{state}/latency")
        if called:
            off = ", off" if files.read(f"{here}/{state}/disable") == "1" else ""
            states.append(f"{called} ({latency if latency is not None else '?'} µs{off})")
    yield Fact("cpu.idle_states", states or None, "", here, "" if states else "sysfs shows none")
    # The guest polls before it halts when its idle governor is haltpoll; the host may poll for its guests.
    for key, path, none in (
        (
            "host.halt_poll_ns",
            "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
            "no haltpoll governor here",
        ),
        ("host.kvm_halt_poll_ns", "/sys/module/kvm/parameters/halt_poll_ns", "no KVM module here"),
    ):
        polled = files.number(path)
        yield Fact(key, polled, "ns", path, none if polled is None else "")


@look({"cpu.mitigations": "mitigations of processor bugs", "cpu.vulnerable": "processor bugs left open"})
def look_mitigations(seen: Seen) -> Iterator[Fact]:
    folder = f"{_CPU}/vulnerabilities"
    found = {name: files.read(f"{folder}/{name}") or "" for name in files.names(folder)}
    if not found:
        for key in ("cpu.mitigations", "cpu.vulnerable"):
            yield Fact(key, None, "", folder, "this kernel does not tell")
        return
    active = [f"{name}: {text.removeprefix('Mitigation:').removeprefix('Mitigation;').strip()}"
              for name, text in found.items() if text.startswith("Mitigation")]  # fmt: skip
    open_ = [name for name, text in found.items() if text.startswith("Vulnerable")]
    asked = seen.boot_option("mitigations")
    yield Fact("cpu.mitigations", active, "", folder, f"booted with mitigations={asked}" if asked else "")
    yield Fact("cpu.vulnerable", open_, "", folder)
