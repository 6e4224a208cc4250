"""A surveyed machine: its facts, and the questions that placing a workload asks."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.errors import ParameterError
from ..core.words import size_text, time_text
from .facts import Fact, Value
from .files import cpu_ranges
from .topology import Cache, Cpu, Node

if TYPE_CHECKING:
    import pandas as pd

_GROUPS = {
    "kernel": "kernel", "proc": "what /proc counts", "clock": "clocks", "cpu": "processor", "cache": "caches",
    "numa": "memory nodes", "memory": "memory", "host": "around the machine", "pmu": "hardware counters",
    "bpf": "probes", "helper": "privileged helper", "cgroup": "control groups", "policy": "policies",
    "tunable": "scheduler's tunables",
}  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """One surveyed machine. `cpus` are those online, `cpus_allowed` those that this process may use."""

    facts: dict[str, Fact]
    cpus: list[Cpu]
    nodes: list[Node]
    cpus_allowed: list[int]
    line_bytes: int
    caches_of: dict[int, list[Cache]]

    def fact(self, key: str) -> Fact:
        """One fact by its key, as the package's description lists them. ParameterError for another key."""
        try:
            return self.facts[key]
        except KeyError:
            near = difflib.get_close_matches(key, self.facts, n=3)
            hint = (
                f"Did you mean {' or '.join(near)}?" if near else "The table of the machine lists all facts."
            )
            raise ParameterError(f"The survey has no fact {key!r}.", hint) from None

    @property
    def tick_ns(self) -> float | None:
        """From one timer tick to the next, as the kernel's configuration says, else as measured; or None.

        The configuration goes first: on a busy machine the measurement may see too few ticks.
        """
        hz = self.fact("kernel.hz_told").value or self.fact("kernel.hz").value
        return 1e9 / hz if isinstance(hz, int | float) and hz > 0 else None

    def caches(self, cpu: int) -> list[Cache]:
        """The caches of one CPU, first level first; [] where sysfs shows none."""
        return self.caches_of.get(cpu, [])

    def smt_siblings(self, cpu: int) -> list[int]:
        """The other allowed CPUs of the same core."""
        found = next((c.siblings for c in self.cpus if c.number == cpu), ())
        return [c for c in self.cpus_allowed if c in found and c != cpu]

    def same_cache_cpus(self, cpu: int) -> list[int]:
        """The allowed CPUs of other cores behind the same last-level cache; [] where caches are not known."""
        behind = self._last_level(cpu)
        core = next((c.siblings for c in self.cpus if c.number == cpu), ())
        return [c for c in self.cpus_allowed if c in behind and c not in core and c != cpu]

    def other_cache_cpus(self, cpu: int) -> list[int]:
        """The allowed CPUs behind another last-level cache; [] where caches are not known."""
        behind = self._last_level(cpu)
        return [c for c in self.cpus_allowed if behind and c not in behind and c != cpu]

    def _last_level(self, cpu: int) -> tuple[int, ...]:
        data = [c for c in self.caches(cpu) if c.kind != "instruction"]
        return max(data, key=lambda c: c.level).shared_cpus if data else ()

    def table(self) -> pd.DataFrame:
        """Every fact for people: columns group, fact, value, source, note."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=["group", "fact", "value", "source", "note"])

    def rows(self, keys: Sequence[str] | None = None) -> list[tuple[str, str, str, str, str]]:
        """The same as plain rows; only of these facts where keys are named."""
        return [
            (_GROUPS[group], fact.name, human(fact.value, fact.unit), fact.source, fact.why)
            for group in _GROUPS
            for fact in self.facts.values()
            if fact.group == group and (keys is None or fact.key in keys)
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON-able data: facts by key, CPUs, nodes, caches by CPU."""
        return {
            "facts": {
                key: {"value": f.value, "unit": f.unit, "source": f.source, "why": f.why}
                for key, f in self.facts.items()
            },
            "cpus_allowed": self.cpus_allowed,
            "cpus": [dataclasses.asdict(c) for c in self.cpus],
            "nodes": [dataclasses.asdict(n) for n in self.nodes],
            "caches": {
                str(cpu): [dataclasses.asdict(c) for c in found] for cpu, found in self.caches_of.items()
            },
        }

    def provenance(self) -> dict[str, Any]:
        """What a result must carry about its machine: small, flat, JSON-able, no name of host or user."""
        kept = {
            "kernel": "kernel.release", "scheduler": "kernel.scheduler", "preemption": "kernel.preemption",
            "hz": "kernel.hz", "clocksource": "clock.source", "clock_read_ns": "clock.read_ns",
            "arch": "cpu.arch", "cpu_model": "cpu.model", "cpus": "cpu.count", "cpus_allowed": "cpu.allowed",
            "sockets": "cpu.sockets", "cores": "cpu.cores", "smt": "cpu.smt", "core_types": "cpu.core_types",
            "numa_nodes": "numa.nodes", "l1d_bytes": "cache.l1d_bytes", "l2_bytes": "cache.l2_bytes",
            "l3_bytes": "cache.l3_bytes", "line_bytes": "cache.line_bytes",
            "memory_bytes": "memory.total_bytes", "page_bytes": "memory.page_bytes",
            "huge_pages": "memory.huge_pages", "governor": "cpu.governor", "turbo": "cpu.turbo",
            "idle_driver": "cpu.idle_driver", "hypervisor": "host.hypervisor", "container": "host.container",
            "wsl": "host.wsl", "pmu": "pmu.available", "cgroup": "cgroup.version",
            "cpu_limit": "cgroup.cpu_limit", "task_group": "cgroup.task_group",
            "slice_ns": "kernel.slice_ns",
        }  # fmt: skip
        flat = {name: self.facts[key].value for name, key in kept.items()}
        return {name: human(v, "") if isinstance(v, list) else v for name, v in flat.items()}

    def _repr_html_(self) -> str:
        table: str = self.table().to_html(index=False, border=0)
        return table

    def __repr__(self) -> str:
        known = sum(f.value is not None for f in self.facts.values())
        model, release = self.facts["cpu.model"].value, self.facts["kernel.release"].value
        return (
            f"<Machine: {model}, CPUs {cpu_ranges(self.cpus_allowed)}, Linux {release}; {known} facts known>"
        )


def human(value: Value, unit: str) -> str:
    """A value as a person reads it: 32 KiB, 1.4 ms, yes, "—" for what is not known."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return size_text(value, 4)
    if unit in ("ns", "us"):
        return time_text(value * (1000 if unit == "us" else 1), 4)
    return f"{value:g} {unit}".rstrip() if isinstance(value, float) else f"{value} {unit}".rstrip()
