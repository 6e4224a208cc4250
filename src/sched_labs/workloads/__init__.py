"""Native programs that make the scheduler work.

`path(name)` compiles a workload when it is first needed; `start(name, arguments)` runs one in its own process
group, held at a barrier until it is placed and watched.  The C sources are one file each: beside their
experiment, or in `workloads/src` where several share one.
"""

from .build import build_all, names, path
from .launch import Record, Workload, start

__all__ = ["Record", "Workload", "build_all", "names", "path", "start"]
