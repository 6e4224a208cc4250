"""The kernel's files of a control group: read and written, with what to do where one is refused."""

from __future__ import annotations

import errno
import os

from ...core.errors import PlacementError
from ...machine import files

WHO = (
    "Start the notebook with `systemd-run --user --scope`, or let scripts/provision.sh install the "
    "privileged helper."
)
WHICH_PARTITION = (
    "Give the group CPUs that no other partition has, and leave some to everybody else; below the topmost "
    "group partitions came with Linux 6.7."
)
WHY = {
    errno.EROFS: "it is mounted read-only",
    errno.EACCES: "this user may not write it",
    errno.EPERM: "this user may not write it",
    errno.EBUSY: "it is in use",
    errno.ESRCH: "that process has ended",
}


def read(path: str) -> str:
    text, why = files.look(path)
    if text is None:
        raise PlacementError(f"{path} cannot be read: {why}.", "Is the controller switched on here?")
    return text


def write(path: str, text: str) -> None:
    """Write one of the kernel's files; never creates one."""
    try:
        handle = os.open(files.place(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    except OSError as error:
        remedy = ""
        if error.errno == errno.ENOENT and "burst" in path:
            remedy = "Saved-up quota came with kernel 5.14."
        elif error.errno == errno.EINVAL and "cfs_" in path:
            remedy = "On v1 a group may not have a larger share than the group that it is in."
        elif error.errno == errno.EINVAL and path.endswith("cpuset.cpus.partition"):
            remedy = WHICH_PARTITION
        elif error.errno == errno.EINVAL and "cgroup.procs" in path:
            remedy = "A real-time thread cannot enter a group without cpu.rt_runtime_us."
        elif error.errno in (errno.EACCES, errno.EPERM):
            remedy = WHO
        raise PlacementError(f"{path} does not take {text!r}: {reason(error)}.", remedy) from error


def reason(error: OSError) -> str:
    return WHY.get(error.errno or 0, (error.strerror or str(error)).lower())
