"""Machines CONSTRUCTED as what the survey would say of them: CPUs, caches and nodes, and nothing measured."""

from __future__ import annotations

import dataclasses

from sched_labs import machine

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def layout(nodes: int = 1, caches: int = 1, cores: int = 2, threads: int = 1) -> machine.Machine:
    """So many memory nodes, last-level caches per node, cores per cache and threads per core.

    CPUs are numbered as Linux does on x86: first one thread of every core, then their siblings.
    """
    every = nodes * caches * cores
    cpus, found = [], {}
    for number in range(every * threads):
        core = number % every
        siblings = tuple(core + every * thread for thread in range(threads))
        cache = core // cores
        sharing = tuple(
            sorted(
                c + every * thread
                for c in range(cache * cores, (cache + 1) * cores)
                for thread in range(threads)
            )
        )
        node = core // (caches * cores)
        cpus.append(machine.Cpu(number, core, node, node, siblings, None))
        found[number] = [
            machine.Cache(1, "data", 48 * KIB, 64, siblings),
            machine.Cache(1, "instruction", 32 * KIB, 64, siblings),
            machine.Cache(2, "unified", MIB, 64, siblings),
            machine.Cache(3, "unified", 32 * MIB, 64, sharing),
        ]
    places = [
        machine.Node(
            n,
            tuple(c.number for c in cpus if c.node == n),
            8 * GIB,
            tuple(10 if m == n else 21 for m in range(nodes)),
        )
        for n in range(nodes)
    ]
    numbers = [cpu.number for cpu in cpus]
    return dataclasses.replace(
        machine.survey(), cpus=cpus, nodes=places, cpus_allowed=numbers, caches_of=found, line_bytes=64
    )


def without_caches(survey: machine.Machine) -> machine.Machine:
    """The same machine, seen through a sysfs that shows no cache."""
    return dataclasses.replace(survey, caches_of={})
