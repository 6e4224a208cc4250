"""The archive format of an initramfs: cpio, "newc" flavour, as the kernel's Documentation describes it
(driver-api/early-userspace/buffer-format).

Only what a guest needs: folders, files, symbolic links, device nodes; root owns everything; no times.
The same content in the same order gives the same bytes.
"""

from __future__ import annotations

import stat
from pathlib import PurePosixPath


class Archive:
    """An initramfs that grows in memory.  Folders of a path are added by themselves."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._folders: set[str] = set()
        self.files: list[str] = []

    def _entry(self, path: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        name = path.lstrip("/").encode() + b"\0"
        header = b"070701" + b"".join(
            b"%08X" % field
            for field in (
                len(self._parts) // 4,  # inode: any number, and each its own
                mode,
                0,  # owner
                0,  # group
                1,  # links
                0,  # time
                len(data),
                0,  # the device the file is on
                0,
                *device,
                len(name),
                0,  # no checksum in this flavour
            )
        )
        head = header + name
        self._parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def folder(self, path: str, mode: int = 0o755) -> None:
        path = path.strip("/")
        if path and path not in self._folders:
            self.folder(str(PurePosixPath(path).parent).removeprefix("."))
            self._folders.add(path)
            self._entry(path, stat.S_IFDIR | mode)

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self.folder(str(PurePosixPath(path).parent).removeprefix("."))
        self._entry(path, stat.S_IFREG | mode, data)
        self.files.append(path)

    def link(self, path: str, target: str) -> None:
        self.folder(str(PurePosixPath(path).parent).removeprefix("."))
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, path: str, major: int, minor: int, mode: int = 0o600) -> None:
        self.folder(str(PurePosixPath(path).parent).removeprefix("."))
        self._entry(path, stat.S_IFCHR | mode, device=(major, minor))

    def finish(self) -> bytes:
        """The archive; the kernel takes several of them one after the other, so this one ends on a multiple
        of 4."""
        self._entry("TRAILER!!!", 0)
        data = b"".join(self._parts)
        return data + b"\0" * (-len(data) % 512)
