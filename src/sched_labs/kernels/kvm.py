"""Does KVM work here?  A /dev/kvm that exists and opens proves nothing: many hosts offer one that cannot
run a guest.

So a guest is booted, with little time, and what came of it is remembered until this machine boots again.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from .. import store
from . import packages, qemu
from .errors import KernelError

_DEVICE = Path("/dev/kvm")
_PATIENCE_S = 10.0  # with KVM a guest is up in one second


@dataclass(frozen=True)
class Kvm:
    works: bool
    why: str  # why not, or empty


def probe(guest: qemu.Guest, initramfs: list[bytes]) -> Kvm:
    """Boots the guest under KVM, unless this was tried since the machine and QEMU last changed."""
    if not _DEVICE.exists():
        return Kvm(False, "this machine offers no /dev/kvm")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return Kvm(False, "this user may not open /dev/kvm (add the user to the group kvm)")
    remembered = packages.cache_dir() / ".guest" / "kvm.json"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    tried_on = [boot, qemu.version(guest.architecture), os.geteuid()]
    try:
        kept = json.loads(remembered.read_text())
        if kept["tried_on"] == tried_on:
            return Kvm(kept["works"], kept["why"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        qemu.boot(replace(guest, timing=qemu.VM_KVM), initramfs, _PATIENCE_S, lambda text, share: None)
        found = Kvm(True, "")
    except KernelError as error:
        first = error.what.splitlines()[0].rstrip(".")
        found = Kvm(False, f"/dev/kvm is there, but a guest did not run with it ({first})")
    store.write_text(
        remembered,
        json.dumps({"tried_on": tried_on, "works": found.works, "why": found.why}, indent=1) + "\n",
    )
    return found
