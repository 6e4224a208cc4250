"""How far apart two CPUs are: the nearest thing that they share."""

from __future__ import annotations

from .. import machine
from ..machine.files import cpu_ranges

# From near to far.  `other_cpu` stands for another CPU where the machine does not tell its caches.
DISTANCES = ("same_cpu", "smt_sibling", "same_cache", "other_cache", "other_node", "other_cpu")
WORDS = {
    "same_cpu": "the same CPU",
    "smt_sibling": "an SMT sibling: another thread of the same core",
    "same_cache": "another core behind the same last-level cache",
    "other_cache": "a core behind another last-level cache of the same node",
    "other_node": "a core of another memory node",
    "other_cpu": "another CPU (this machine does not tell its caches)",
}


def partners(survey: machine.Machine, home: int) -> dict[str, int]:
    """For each distance that this machine has, one CPU that is so far from `home`; nearest first.

    Only CPUs that this process may use count.
    """
    node = {cpu.number: cpu.node for cpu in survey.cpus}
    elsewhere = [
        cpu
        for cpu in survey.cpus_allowed
        if None not in (node.get(cpu), node.get(home)) and node[cpu] != node[home]
    ]
    found = {
        "same_cpu": [home],
        "smt_sibling": survey.smt_siblings(home),
        "same_cache": [cpu for cpu in survey.same_cache_cpus(home) if cpu not in elsewhere],
        "other_cache": [cpu for cpu in survey.other_cache_cpus(home) if cpu not in elsewhere],
        "other_node": elsewhere,
    }
    others = [cpu for cpu in survey.cpus_allowed if cpu != home]
    if others and not any(found[distance] for distance in DISTANCES[1:-1]):
        found["other_cpu"] = others
    return {distance: cpus[-1] for distance, cpus in found.items() if cpus}


def absent(survey: machine.Machine, home: int) -> str:
    """One sentence on the distances that are not on this machine, "" where all are."""
    there = partners(survey, home)
    gone = [WORDS[distance] for distance in DISTANCES[:-1] if distance not in there]
    if not gone:
        return ""
    may = f"of the CPUs that this process may use ({cpu_ranges(survey.cpus_allowed)})"
    return f"Not on this machine, {may}, seen from CPU {home}: {'; '.join(gone)}."
