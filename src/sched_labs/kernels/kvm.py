"""Does KVM work here?  A /dev/kvm that exists and opens proves nothing: many hosts offer one that cannot
run a guest.

So a guest is booted, with little time, and what came of it is remembered until this machine boots again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import jsontext, store
from . import packages, qemu
from .errors import KernelError

_DEVICE = Path("/dev/kvm")
PATIENCE_S = 10.0  # with KVM a guest is up in one second


@dataclass(frozen=True)
class Kvm:
    works: bool
    why: str  # why not, or empty


def probe(guest: qemu.Guest, boot: Callable[[qemu.Guest], None]) -> Kvm:
    """Has the guest booted under KVM, unless this was tried since the machine and QEMU last changed.

    boot: raises KernelError when the guest does not come up.
    """
    if not _DEVICE.exists():
        return Kvm(False, "this machine offers no /dev/kvm")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return Kvm(False, "this user may not open /dev/kvm (add the user to the group kvm)")
    remembered = packages.cache_dir() / ".guest" / "kvm.json"
    since = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    tried_on = [since, qemu.version(guest.architecture), os.geteuid()]
    try:
        kept = jsontext.parse(remembered.read_bytes())
        if kept["tried_on"] == tried_on:
            return Kvm(kept["works"], kept["why"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        boot(replace(guest, timing=qemu.VM_KVM))
        found = Kvm(True, "")
    except KernelError as error:
        first = error.what.splitlines()[0].rstrip(".")
        found = Kvm(False, f"/dev/kvm is there, but a guest did not run with it ({first})")
    store.write_text(
        remembered,
        json.dumps({"tried_on": tried_on, "works": found.works, "why": found.why}, indent=1) + "\n",
    )
    return found
