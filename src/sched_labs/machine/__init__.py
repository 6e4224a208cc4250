"""What is this computer, and what can it measure?

    from sched_labs import machine
    m = machine.survey()
    m.table()                          # everything, for people
    m.fact("kernel.hz").value          # one thing
    m.caches(0), m.same_cache_cpus(0)  # for placing workloads

A survey takes short looks that undo themselves and needs no privilege. Every key below is answered on every
machine: where a thing cannot be known, the value is None and `why` says why. A limit that is not set is the
text "none"; a list may be empty.

- kernel: release, build, config, boot_options, scheduler, sched_ext, sched_debug, slice_ns, preemption,
  realtime, lockdown, debugfs, hz (measured), hz_told
- proc: schedstat, sched, pressure, schedstats
- clock: source, sources, read_ns, read_python_ns, high_resolution
- cpu: model, arch, count, allowed, sockets, cores, smt, core_types, isolated, nohz_full, frequency_driver,
  governor, turbo, idle_driver, idle_governor, idle_states, mitigations, vulnerable
- cache: l1d_bytes, l1i_bytes, l2_bytes, l3_bytes, line_bytes
- numa: nodes
- memory: total_bytes, available_bytes, page_bytes, huge_pages
- host: hypervisor, emulated, wsl, container, pid_namespace, shared, steal_percent, load, halt_poll_ns,
  kvm_halt_poll_ns
- pmu: available, events, missing, name, paranoid, context_switches
- bpf: syscall, unprivileged, capable, btf, raw_tracepoints, tracepoints, tracefs, kprobes, fentry, bcc,
  libbcc
- helper: installed
- cgroup: version, controllers, cpu_mount, cpu_group, cpuset_mount, task_group, cpu_limit, memory_limit_bytes,
  can_make, make_in, can_make_cpuset, delegated
- policy: fifo, rr, deadline, batch, idle, nice_negative, slice, rtprio_limit, cap_sys_nice, rt_group_sched,
  rt_group_runtime_us
- tunable: one per knob of the scheduler, without the prefix sched_ (`machine.tunables.KNOBS`, and whatever
  else this kernel shows)
"""

from __future__ import annotations

# In the order in which a reader wants to see them; importing a module registers its looks.
from . import files  # isort: skip
from . import bpf, cgroup, clock, cpu, host, kernel, perf, policy, topology, tunables
from .facts import LABELS, Fact, gather
from .inventory import Machine
from .seen import Seen
from .topology import Cache, Cpu, Node

__all__ = ["LABELS", "Cache", "Cpu", "Fact", "Machine", "Node", "files", "survey"]

_LOOKED_AT = (kernel, clock, cpu, topology, host, perf, bpf, cgroup, policy, tunables)

_last: dict[str, Machine] = {}


def survey(fresh: bool = False) -> Machine:
    """Survey this machine, or the recorded one that `files.root()` points at. Kept; `fresh` looks again."""
    where = str(files.where())
    if fresh or where not in _last:
        seen = Seen()
        mine = topology.allowed(seen)
        own = {c: topology.caches(c) for c in topology.online(seen)}
        _last[where] = Machine(
            facts=gather(seen),
            cpus=topology.cpus(seen),
            nodes=topology.nodes(),
            cpus_allowed=mine,
            line_bytes=topology.line_bytes(own.get(mine[0], []), seen)[0],
            caches_of=own,
        )
    return _last[where]
