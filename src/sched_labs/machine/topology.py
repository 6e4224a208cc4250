"""CPUs, cores, sockets, nodes and caches, from sysfs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from . import arm, files
from .facts import Fact, look
from .seen import Seen

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"


@dataclass(frozen=True)
class Cpu:
    """One CPU that is online. `siblings`: CPUs of its core, itself too; `core_type` None: all alike."""

    number: int
    core: int | None
    socket: int | None
    node: int | None
    siblings: tuple[int, ...]
    core_type: str | None


@dataclass(frozen=True)
class Cache:
    """One cache as a CPU sees it. `kind`: data, instruction or unified; `shared_cpus` has the CPU itself."""

    level: int
    kind: str
    size_bytes: int
    line_bytes: int | None
    shared_cpus: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """One NUMA node. `distances` are the firmware's relative ones (10 = itself), one per node."""

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | None
    distances: tuple[int, ...]


def online(seen: Seen) -> list[int]:
    """The CPUs that are online; at least one."""
    found = _list_or_none(files.read(f"{_CPU}/online"))
    if not found:
        found = sorted(int(p["processor"]) for p in seen.processors if p.get("processor", "").isdigit())
    return found or list(range(os.cpu_count() or 1) if seen.live else [0])


def allowed(seen: Seen) -> list[int]:
    """The online CPUs that this process may run on (affinity and cpuset)."""
    if seen.live and hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    cpus = online(seen)
    told = _list_or_none(seen.status.get("Cpus_allowed_list"))
    # A list that names no online CPU is no list.
    return [c for c in cpus if c in (told or cpus)] or cpus


def cpus(seen: Seen) -> list[Cpu]:
    """Every online CPU."""
    types = _core_types(seen)
    node_of = {c: node.number for node in nodes() for c in node.cpus}
    found = []
    for number in online(seen):
        here = f"{_CPU}/cpu{number}/topology"
        siblings = files.read(f"{here}/core_cpus_list") or files.read(f"{here}/thread_siblings_list")
        found.append(
            Cpu(
                number,
                _known(files.number(f"{here}/core_id")),
                _known(files.number(f"{here}/physical_package_id")),
                node_of.get(number),
                tuple(_list_or_none(siblings) or [number]),
                types.get(number),
            )
        )
    return found


def nodes() -> list[Node]:
    """The NUMA nodes, [] where the kernel was built without NUMA."""
    found = []
    for name in files.names(_NODE):
        if not (name.startswith("node") and name[4:].isdigit()):
            continue
        memory = None
        for line in (files.read(f"{_NODE}/{name}/meminfo") or "").splitlines():
            words = line.split()
            if "MemTotal:" in words[:-1] and words[words.index("MemTotal:") + 1].isdigit():
                memory = int(words[words.index("MemTotal:") + 1]) * 1024
        distances = tuple(
            int(d) for d in (files.read(f"{_NODE}/{name}/distance") or "").split() if d.isdigit()
        )
        its = _list_or_none(files.read(f"{_NODE}/{name}/cpulist")) or []
        found.append(Node(int(name[4:]), tuple(its), memory, distances))
    return found


def caches(cpu: int) -> list[Cache]:
    """The caches of one CPU, first level first; [] where sysfs tells none (some arm64 boards and guests)."""
    found = []
    for name in files.names(f"{_CPU}/cpu{cpu}/cache"):
        here = f"{_CPU}/cpu{cpu}/cache/{name}"
        level = files.number(f"{here}/level")
        try:
            size = files.size_bytes(files.read(f"{here}/size"))
        except ValueError:
            size = None
        if level is None or not size:
            continue
        shared = _list_or_none(files.read(f"{here}/shared_cpu_list")) or [cpu]
        kind = (files.read(f"{here}/type") or "unified").lower()
        line = files.number(f"{here}/coherency_line_size") or None
        found.append(Cache(level, kind, size, line, tuple(shared)))
    return sorted(found, key=lambda c: (c.level, c.kind))


def _list_or_none(text: str | None) -> list[int] | None:
    try:
        return files.cpu_list(text) or None
    except ValueError:
        return None


def _known(number: int | None) -> int | None:
    """The kernel writes -1 where the firmware told nothing."""
    return None if number is None or number < 0 else number


def _core_types(seen: Seen) -> dict[int, str]:
    """CPU -> kind of core, {} where all are alike.

    x86: the two PMUs of a hybrid list their CPUs. arm64: part numbers differ; else capacities differ.
    """
    found: dict[int, str] = {}
    for pmu, kind in (("cpu_core", "performance"), ("cpu_atom", "efficiency"), ("cpu_lowpower", "low power")):
        for cpu in _list_or_none(files.read(f"/sys/devices/{pmu}/cpus")) or []:
            found[cpu] = kind
    if not found:
        for block in seen.processors:
            if block.get("processor", "").isdigit() and "CPU part" in block:
                found[int(block["processor"])] = arm.core_name(block)
    if len(set(found.values())) < 2:
        capacities = {c: files.number(f"{_CPU}/cpu{c}/cpu_capacity") for c in online(seen)}
        found = {c: f"capacity {v}" for c, v in capacities.items() if v is not None}
    return found if len(set(found.values())) > 1 else {}


@look(
    {
        "cpu.count": "CPUs online",
        "cpu.allowed": "CPUs this process may use",
        "cpu.sockets": "sockets",
        "cpu.cores": "cores",
        "cpu.smt": "threads per core (SMT)",
        "cpu.core_types": "kinds of cores",
        "cpu.isolated": "isolated CPUs",
        "cpu.nohz_full": "CPUs without a tick when alone (nohz_full)",
        "numa.nodes": "NUMA nodes",
    }
)
def look_topology(seen: Seen) -> Iterator[Fact]:
    found, sysfs = cpus(seen), f"{_CPU}/cpu*/topology"
    yield Fact("cpu.count", len(found), "CPUs", f"{_CPU}/online")
    mine = allowed(seen)
    remark = (
        "" if len(mine) == len(found) else "an affinity mask or a cpuset keeps this process from the others"
    )
    yield Fact("cpu.allowed", files.cpu_ranges(mine), "", "affinity of this process", remark)
    sockets = {c.socket for c in found if c.socket is not None}
    yield Fact("cpu.sockets", len(sockets) or None, "", sysfs, "" if sockets else "sysfs does not tell")
    told = any(c.core is not None for c in found)
    cores = {c.siblings for c in found}
    yield Fact("cpu.cores", len(cores) if told else None, "", sysfs, "" if told else "sysfs does not tell")
    threads = max(len(c.siblings) for c in found)
    remark = ""
    if threads == 1 and any("hypervisor" in p.get("flags", "").split() for p in seen.processors):
        remark = "in a guest the hypervisor may hide that two CPUs share a core"
    yield Fact("cpu.smt", threads if told else None, "", sysfs, remark if told else "sysfs does not tell")
    kinds: dict[str, list[int]] = {}
    for c in found:
        if c.core_type:
            kinds.setdefault(c.core_type, []).append(c.number)
    listed = [f"{kind}: {files.cpu_ranges(its)}" for kind, its in kinds.items()]
    alike = "" if listed else "all alike, as far as the kernel shows"
    yield Fact("cpu.core_types", listed, "", "PMU lists, cpuinfo, cpu_capacity", alike)
    yield _cpus_in("cpu.isolated", f"{_CPU}/isolated")
    yield _cpus_in("cpu.nohz_full", f"{_CPU}/nohz_full")
    many = nodes()
    told_nodes = [f"node {n.number}: CPUs {files.cpu_ranges(list(n.cpus)) or 'none'}" for n in many]
    yield Fact("numa.nodes", len(many) or 1, "", _NODE, "; ".join(told_nodes) or "a kernel without NUMA")


def _cpus_in(key: str, path: str) -> Fact:
    text, why = files.look(path)
    if text is None:
        return Fact(key, "none", "", path, f"{why}: this kernel was built without it")
    return Fact(key, files.cpu_ranges(files.cpu_list(text)) or "none", "", path)


@look(
    {
        "cache.l1d_bytes": "first-level data cache",
        "cache.l1i_bytes": "first-level instruction cache",
        "cache.l2_bytes": "second-level cache",
        "cache.l3_bytes": "third-level cache",
        "cache.line_bytes": "cache line",
    }
)
def look_caches(seen: Seen) -> Iterator[Fact]:
    mine = allowed(seen)[0]
    every = {c: caches(c) for c in online(seen)}
    here = f"{_CPU}/cpu{mine}/cache"
    for key, level, kinds in (
        ("cache.l1d_bytes", 1, ("data", "unified")),
        ("cache.l1i_bytes", 1, ("instruction",)),
        ("cache.l2_bytes", 2, ("data", "unified")),
        ("cache.l3_bytes", 3, ("data", "unified")),
    ):
        its = [c for c in every.get(mine, []) if c.level == level and c.kind in kinds]
        if not its:
            yield Fact(key, None, "bytes", here, "sysfs shows no such cache of this CPU")
            continue
        others = {
            c.size_bytes for found in every.values() for c in found if c.level == level and c.kind in kinds
        }
        remark = (
            f"shared by CPUs {files.cpu_ranges(list(its[0].shared_cpus))}"
            if len(its[0].shared_cpus) > 1
            else ""
        )
        if len(others) > 1:
            remark = f"{remark}; other CPUs have another size".lstrip("; ")
        yield Fact(key, its[0].size_bytes, "bytes", here, remark)
    line, source, remark = line_bytes(every.get(mine, []), seen)
    yield Fact("cache.line_bytes", line, "bytes", source, remark)


def line_bytes(found: list[Cache], seen: Seen) -> tuple[int, str, str]:
    """(size of a cache line, where from, remark). 64 is taken, and said, where nothing tells."""
    for cache in found:
        if cache.line_bytes:
            return cache.line_bytes, f"{_CPU}/cpu*/cache/index*/coherency_line_size", ""
    for block in seen.processors:
        if block.get("clflush size", "").isdigit():
            return int(block["clflush size"]), "/proc/cpuinfo (clflush size)", ""
    return 64, "assumed", "nothing here tells the size; 64 bytes is the usual one"
