"""Files that several looks need, each read once in a survey."""

from __future__ import annotations

import os
import re
import struct
from functools import cached_property

from . import files


def series(release: str) -> tuple[int, int] | None:
    """(major, minor) of a kernel's release, None where it starts with no two numbers."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else None


class Seen:
    """What one survey has read so far. Made anew for every survey; holds no conclusions."""

    @cached_property
    def live(self) -> bool:
        return files.live()

    @cached_property
    def release(self) -> str:
        """`uname -r`, "" where nothing tells."""
        return files.read("/proc/sys/kernel/osrelease") or (os.uname().release if self.live else "")

    @cached_property
    def build(self) -> str:
        """`uname -v`, "" where nothing tells."""
        return files.read("/proc/sys/kernel/version") or (os.uname().version if self.live else "")

    @cached_property
    def version(self) -> tuple[int, int] | None:
        """(major, minor) of the release, None where it starts with no two numbers."""
        return series(self.release)

    @cached_property
    def arch(self) -> str:
        """`uname -m`: x86_64, aarch64, ... A recorded kernel before 6.1 has no file for it; cpuinfo tells."""
        if self.live:
            return os.uname().machine
        told = files.read("/proc/sys/kernel/arch")
        return told or ("aarch64" if "CPU implementer" in self.cpuinfo else "x86_64")

    @cached_property
    def cpuinfo(self) -> str:
        return files.read("/proc/cpuinfo") or ""

    @cached_property
    def processors(self) -> list[dict[str, str]]:
        """/proc/cpuinfo, one dict per block of `name : value` lines."""
        blocks = []
        for block in self.cpuinfo.split("\n\n"):
            pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
            blocks.append({name.strip(): value.strip() for name, _, value in pairs})
        return [b for b in blocks if b]

    @cached_property
    def status(self) -> dict[str, str]:
        """/proc/self/status as a dict."""
        lines = (files.read("/proc/self/status") or "").splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def capable(self, bit: int) -> bool | None:
        """Whether this process has a capability in effect, None where the kernel does not tell."""
        mask = self.status.get("CapEff")
        return None if not mask else bool(int(mask, 16) >> bit & 1)

    @cached_property
    def cmdline(self) -> list[str]:
        return (files.read("/proc/cmdline") or "").split()

    def boot_option(self, name: str) -> str | None:
        """The last `name=value` of the kernel command line, "" for a bare `name`, None without."""
        found = None
        for word in self.cmdline:
            key, _, value = word.partition("=")
            if key == name:
                found = value
        return found

    @cached_property
    def config_path(self) -> str | None:
        """The file that holds the running kernel's configuration, None where none is shipped."""
        r = self.release
        places = [
            "/proc/config.gz",
            f"/boot/config-{r}",
            f"/lib/modules/{r}/config",
            f"/usr/lib/modules/{r}/config",
        ]
        return next((p for p in places if files.read_bytes(p) is not None), None)

    @cached_property
    def config(self) -> dict[str, str]:
        """The kernel's configuration without CONFIG_ before the names; only what is set; {} when unknown."""
        text = files.read(self.config_path) if self.config_path else None
        return dict(re.findall(r"^CONFIG_(\w+)=\"?(.*?)\"?$", text or "", re.M))

    def configured(self, name: str) -> bool | None:
        """Whether a configuration switch is on, None where the configuration is not to be had."""
        return name in self.config if self.config else None

    @cached_property
    def btf_names(self) -> bytes | None:
        """The string section of the kernel's type information: names between NULs. None without BTF.

        Layout: include/uapi/linux/btf.h (magic, version, flags, header length, then offsets and lengths).
        """
        data = files.read_bytes("/sys/kernel/btf/vmlinux")
        if data is None or len(data) < 24:
            return None
        order = "<" if data[:2] == b"\x9f\xeb" else ">"
        magic, _, _, header, _, _, offset, length = struct.unpack(order + "HBBIIIII", data[:24])
        return data[header + offset : header + offset + length] if magic == 0xEB9F else None

    def in_btf(self, name: str) -> bool | None:
        """Whether the kernel's type information knows a name, None without BTF."""
        return None if self.btf_names is None else b"\0" + name.encode() + b"\0" in self.btf_names

    @cached_property
    def own_sched(self) -> dict[str, str]:
        """/proc/self/sched as a dict, {} where the kernel was built without it."""
        lines = (files.read("/proc/self/sched") or "").splitlines()
        return {
            name.strip(): value.strip() for name, colon, value in (li.partition(":") for li in lines) if colon
        }

    @cached_property
    def mounts(self) -> list[tuple[str, str, str, str]]:
        """/proc/self/mountinfo: (root, mount point, type, options of the file system), later mounts last."""
        found = []
        for line in (files.read("/proc/self/mountinfo") or "").splitlines():
            left, _, right = line.partition(" - ")
            before, after = left.split(), right.split()
            if len(before) >= 5 and len(after) >= 3:
                # Octal escapes stand for blanks and backslashes in paths.
                point = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), before[4])
                found.append((before[3], point, after[0], after[2]))
        return found

    def mount_of(self, kind: str) -> str | None:
        """Where a file system such as debugfs is mounted, None where it is not."""
        return next((point for _, point, found, _ in self.mounts if found == kind), None)
