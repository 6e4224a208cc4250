"""What can go wrong between asking for a kernel and holding its result."""

from __future__ import annotations

from ..core.errors import SchedLabError


class KernelError(SchedLabError):
    """Anything about running on another kernel."""


class UnknownKernelError(KernelError):
    """No such kernel, or none that this system's package archive offers."""


class PackageError(KernelError):
    """A kernel package that could not be fetched, checked or unpacked."""


class NetworkError(PackageError):
    """The package archive cannot be reached."""


class QemuError(KernelError):
    """QEMU is missing, too old, or refused its command line; or the machine has too little memory for a
    guest."""


class GuestError(KernelError):
    """The guest broke: it panicked, never came up, or said nothing more before its deadline.

    `console` holds the last lines of its console.
    `again` tells whether another try may help: it does not help a guest that used up its time.
    """

    def __init__(self, what: str, remedy: str = "", console: str = "", *, again: bool = True) -> None:
        super().__init__(what, remedy)
        self.console = console
        self.again = again

    def __str__(self) -> str:
        shown = f"\nThe guest's console ended with:\n{self.console}" if self.console else ""
        return super().__str__() + shown


class SnapshotError(KernelError):
    """A guest that waits for a job cannot be saved, or not be restored; it can still be booted."""


class JobError(KernelError):
    """The guest ran, and the job itself failed there; the message is the job's."""
