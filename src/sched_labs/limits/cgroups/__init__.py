"""CPU control groups: make one, limit it, put processes in, read what the kernel counted, take it away again.

    with cgroups.group("service", quota_us=50_000) as limited, workloads.start("burn") as burn:
        limited.add(burn.pid)
        before = limited.counted()
        burn.run()
        print(limited.counted().since(before))

One interface for both versions, in the kernel's own units:

| here                    | v2                    | v1                                    |
| ----------------------- | --------------------- | ------------------------------------- |
| quota_us, period_us     | cpu.max               | cpu.cfs_quota_us, cpu.cfs_period_us   |
| burst_us (from 5.14)    | cpu.max.burst         | cpu.cfs_burst_us                      |
| weight (100 by default) | cpu.weight            | cpu.shares (1024 by default)          |
| counted()               | cpu.stat (in µs)      | cpu.stat (in ns)                      |
| pressure_us()           | cpu.pressure          | none                                  |
| cpus                    | cpuset.cpus           | cpuset.cpus in a hierarchy of its own |

Everything is inside one parent group, `sched-labs`, in the first place where this user may make groups.  A
group's name tells whose it is (process number and start time).  Should this program be killed, a guard that
sleeps at the end of a pipe takes its groups away; and the next run and `sched-labs clean` look once more.
Where a controller had to be switched on for our groups (v2), the parent's name says so (`sched-labs+cpu`),
and it is switched off with the last of them.

Source of names and limits: Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

from .group import PERIOD_US, Counted, Group, Limit, check_limit, parse_counted, parse_pressure, slice_us
from .leftovers import clear, left_behind, sweep
from .making import can_burst, group, possible

__all__ = [
    "PERIOD_US", "Counted", "Group", "Limit", "can_burst", "check_limit", "clear", "group", "left_behind",
    "parse_counted", "parse_pressure", "possible", "slice_us", "sweep",
]  # fmt: skip
