"""What a guest is handed for one job: what it does not hold already.

The modules that the job may import, the workloads that it starts, and files of the caller's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..workloads import build as workloads
from . import contents
from .initramfs import World

GUEST_CACHE = "/lab/cache/sched-labs"


@dataclass(frozen=True)
class Parcel:
    """One job, and what goes with it."""

    job: Mapping[str, Any]  # call, parameters, and moment_s: see wire.work
    native: Mapping[str, Path] = field(default_factory=dict)  # workloads by name
    extra: Mapping[str, Path | bytes] = field(default_factory=dict)  # more files, by their path in the guest
    modules: tuple[str, ...] = ()  # of the library, that the job imports by name

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """The project's own files that the job may use, by their path in the guest."""
        files = contents.library(self.job["call"].partition(":")[0], *self.modules)
        for source in {f for name in self.native for f in (*workloads.headers(name), workloads.source(name))}:
            files[f"/lab/sched_labs/workloads/src/{source.name}"] = source.read_bytes()
        return files

    @property
    def loads_bpf(self) -> bool:
        """Whether the job may start the privileged helper, which needs BCC."""
        return contents.HELPER in self.sources

    @property
    def needs_data(self) -> bool:
        """Whether the job imports NumPy and pandas: experiments do."""
        return "/lab/sched_labs/run/base.py" in self.sources

    def files(self, world: World) -> dict[str, tuple[int, bytes]]:
        """Mode and content, by path in the guest, of what that world lacks."""
        own = {guest: code for guest, code in self.sources.items() if world.sources.get(guest) != code}
        plain = contents.with_bytecode(dict(sorted(own.items())))
        for guest, content in sorted(self.extra.items()):
            plain[guest] = content if isinstance(content, bytes) else content.read_bytes()
        files = {guest: (0o644, content) for guest, content in plain.items()}
        # Where `workloads.path()` looks for what has been compiled already: the guest has no compiler.
        for name, program in sorted(self.native.items()):
            place = f"{GUEST_CACHE}/workloads/{workloads.recipe(name)}/{name}"
            files[place] = (0o755, contents.native(program))
        # A shared library among the caller's files needs others as a program does.
        own_libraries = [
            host for guest, host in self.extra.items() if isinstance(host, Path) and ".so" in guest
        ]
        needed = contents.libraries([*self.native.values(), *own_libraries])
        for guest, host in sorted(needed.items()):
            if guest not in world.libraries and guest.startswith("/usr/lib/"):  # not the loader
                files[guest] = (0o755, contents.native(host))
        return files
