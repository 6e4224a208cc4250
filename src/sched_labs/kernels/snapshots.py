"""A guest that has booted once is not booted again.

A guest boots, imports what takes long, and stops itself (guest.py).
QEMU saves it there, and every job of the same kernel, world and machine goes on from the saved state:

    $XDG_CACHE_HOME/sched-labs/kernels/.snapshots/KERNEL-TIMING-KEY-HASH.state

KEY holds everything that the state depends on: QEMU, its command line, the kernel, what the guest holds.
HASH is the file's own, and a file that does not match it is removed.
Together the files take no more room than LIMIT_BYTES: those go that were not used for the longest time.

In virtual time a snapshot that is made anew holds the same memory to the bit, and the same digits come of
it.  Two things in the file are of the host and never seen by such a guest: when it was saved by the host's
clock, and in what order memory was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from . import packages, qemu, stillclock
from .emulator import Emulator, Say, Told
from .errors import GuestError, KernelError, SnapshotError
from .initramfs import World
from .packages import Kernel

LIMIT_BYTES = 4 << 30
_DIGITS = 16  # of a SHA-256
_ANYWHERE = qemu.Files(0, 0, 0, 0)


def folder() -> Path:
    return packages.cache_dir() / ".snapshots"


def key(kernel: Kernel, guest: qemu.Guest, world: World) -> str:
    """What a saved guest depends on, as 16 digits."""
    parts = [
        qemu.version(guest.architecture),
        kernel.sha256,
        *qemu.command(replace(guest, image=Path()), _ANYWHERE),
        world.digest(),
        stillclock.recipe(),
    ]
    if guest.timing == qemu.VM_KVM:  # such a guest has this machine's CPU
        told = Path("/proc/cpuinfo").read_text()
        parts += sorted(set(re.findall(r"^(?:model name|flags|Features)\s*:.*", told, re.MULTILINE)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def work(
    kernel: Kernel, guest: qemu.Guest, world: World, parcel: bytes, until: float, say: Say
) -> tuple[Told, list[str]]:
    """Has a guest do the job, restored where possible; also returns what was wrong with a snapshot.

    Raises what an Emulator raises, but no SnapshotError: such a guest is booted.
    """
    name = f"{kernel.name}-{guest.timing}-{key(kernel, guest, world)}"
    wrong: list[str] = []
    for kept in folder().glob(f"{name}-*.state"):
        try:
            return _restored_from_disk(kept, guest, parcel, until, say), wrong
        except SnapshotError as error:
            wrong.append(f"A snapshot was removed, and made anew by a boot: {error.what}")
    try:
        with _memory() as state:
            with Emulator(guest, until, say) as emulator:
                emulator.boot(world.archives())
                emulator.save(state)
            try:
                _keep(state, name)
            except OSError as error:
                wrong.append(f"The snapshot could not be kept, the next run boots again: {error}.")
            with Emulator(guest, until, say) as emulator:
                emulator.restore(state)
                emulator.wait_until_loaded()
                return emulator.work(parcel), wrong
    except SnapshotError as error:
        wrong.append(f"Booted, because this guest cannot be saved and restored: {error.what}")
    with Emulator(guest, until, say) as emulator:
        emulator.boot(world.archives())
        return emulator.work(parcel), wrong


def _restored_from_disk(path: Path, guest: qemu.Guest, parcel: bytes, until: float, say: Say) -> Told:
    """SnapshotError when the file is damaged or QEMU refuses it.  What once went wrong is not tried again."""
    try:
        with path.open("rb") as file, Emulator(guest, until, say) as emulator:
            emulator.restore(file.fileno())
            digest = _digest(path)  # QEMU loads it meanwhile
            if not path.stem.endswith(f"-{digest}"):
                raise SnapshotError(f"{path.name} does not match its hash.")
            os.utime(path)
            emulator.wait_until_loaded()
            return emulator.work(parcel)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise SnapshotError(f"{path.name} cannot be read: {error}.") from error
    except KernelError as error:
        if not isinstance(error, GuestError) or error.again:  # it did not just use up its time
            path.unlink(missing_ok=True)
        raise


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]


@contextlib.contextmanager
def _memory() -> Iterator[int]:
    state = os.memfd_create("state")
    try:
        yield state
    finally:
        os.close(state)


def _keep(state: int, name: str) -> None:
    """Writes a saved guest to the cache, and removes there what is above the limit."""
    folder().mkdir(parents=True, exist_ok=True)
    part = folder() / f"part-{os.getpid()}"
    try:
        with open(f"/proc/self/fd/{state}", "rb") as file, part.open("wb") as copy:  # noqa: PTH123
            shutil.copyfileobj(file, copy, 1 << 20)
        kept = folder() / f"{name}-{_digest(part)}.state"
        part.rename(kept)
    finally:
        part.unlink(missing_ok=True)
    for left in folder().glob("part-*"):  # by programs that were killed
        if not Path("/proc", left.name.removeprefix("part-")).exists():
            left.unlink(missing_ok=True)
    by_use = sorted(folder().glob("*.state"), key=lambda path: path.stat().st_mtime)
    room = LIMIT_BYTES - sum(path.stat().st_size for path in by_use)
    for path in by_use:
        if room < 0 and path != kept:
            room += path.stat().st_size
            path.unlink()
