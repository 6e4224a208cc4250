"""The guest's whole world, taken from the running system: this Python, the library, native workloads.

Two archives, one after the other, as the kernel allows:

- the *base*: the interpreter, the part of its standard library that jobs use (as bytecode: compiling it in an
  emulated machine would take longer than booting), and the shared libraries; kept in the cache;
- the *overlay*: /init, the modules of the library that the job may import, the workloads and the job; made
  anew
  for every run.

Guest paths do not depend on where things are on the host: /usr/bin/python3, /usr/lib/python3.X,
/usr/lib/*.so, /lab.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..workloads import build as workloads
from . import contents, packages
from .cpio import Archive

GUEST_CACHE = "/lab/cache/sched-labs"

# What no job needs: tests, tools, windows, other systems' modules.
_NO_FOLDER = {
    "test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "distutils", "pydoc_data",
    "site-packages", "dist-packages", "__pycache__", "msilib", "curses", "dbm", "sqlite3", "wsgiref",
    "xmlrpc", "venv", "lib-dynload", "html", "http", "asyncio", "xml", "unittest",
}  # fmt: skip
_NO_MODULE = re.compile(
    r"turtle|pydoc|doctest|pdb|imaplib|smtplib|nntplib|ftplib|poplib|telnetlib|antigravity|this|mailbox|_pyio|cgi|"
    r"_sysconfigdata_.*|_aix_support|_osx_support|aifc|webbrowser|tracemalloc|crypt"
)
_EXTENSIONS = re.compile(
    r"(_bisect|_bz2|_ctypes|_datetime|_heapq|_json|_lzma|_opcode|_pickle|_posixsubprocess|_queue|_random|_socket"
    r"|_statistics|_struct|_zoneinfo|_contextvars|array|binascii|cmath|fcntl|grp|math|mmap|resource|select|syslog"
    r"|termios|unicodedata|zlib|_sha\d+|_md5|_blake2)\.[^/]*so"
)


@dataclass(frozen=True)
class Overlay:
    """What one run adds to the base."""

    job: Mapping[str, Any]
    native: Mapping[str, Path] = field(default_factory=dict)  # workloads by name
    extra: Mapping[str, Path | bytes] = field(
        default_factory=dict
    )  # further files by their path in the guest

    def sources(self) -> dict[str, bytes]:
        """The project's own files in the guest, by their path there."""
        module = self.job["call"].partition(":")[0]
        files = contents.library("sched_labs.kernels.wire", module)
        files["/init"] = (contents.PACKAGE / "kernels" / "guest.py").read_bytes()
        for source in ("lab.h", *(f"{name}.c" for name in self.native)):
            files[f"/lab/sched_labs/workloads/src/{source}"] = (workloads.SOURCES / source).read_bytes()
        return files

    def archive(self) -> bytes:
        archive = Archive()
        for guest, source in sorted(self.sources().items()):
            archive.file(guest, source, 0o755 if guest == "/init" else 0o644)
            if guest.endswith(".py"):
                folder, _, name = guest.rpartition("/")
                compiled = f"{folder}/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pyc"
                archive.file(compiled, contents.bytecode(source, guest))
        # Where `workloads.path()` looks for what has been compiled already: the guest has no compiler.
        for name, program in sorted(self.native.items()):
            place = f"{GUEST_CACHE}/workloads/{workloads.recipe(name)}/{name}"
            archive.file(place, contents.native(program), 0o755)
        for guest, host in sorted(contents.libraries(self.native.values()).items()):
            if host not in _base_libraries().values():
                archive.file(guest, contents.native(host), 0o755)
        for guest, content in sorted(self.extra.items()):
            archive.file(guest, content if isinstance(content, bytes) else content.read_bytes())
        archive.file("/lab/job.json", json.dumps(dict(self.job), sort_keys=True).encode())
        return archive.finish()


@cache
def _base_files() -> tuple[tuple[str, Path], ...]:
    """What the base holds, libraries aside: guest path and host file."""
    library = Path(sysconfig.get_paths()["stdlib"])
    guest = f"/usr/lib/python{sys.version_info.major}.{sys.version_info.minor}"
    files: dict[str, Path] = {"/usr/bin/python3": contents.interpreter()}
    for folder, folders, names in os.walk(library):
        folders[:] = [n for n in sorted(set(folders) - _NO_FOLDER) if not n.startswith("config-")]
        for name in sorted(names):
            module = name.removesuffix(".py")
            if name.endswith(".py") and not _NO_MODULE.fullmatch(module):
                below = (Path(folder) / module).relative_to(library)
                files[f"{guest}/{below}.pyc"] = Path(folder) / name
    for extension in sorted((library / "lib-dynload").glob("*.so")):
        if _EXTENSIONS.fullmatch(extension.name):
            files[f"{guest}/lib-dynload/{extension.name}"] = extension
    return tuple(sorted(files.items()))


@cache
def _base_libraries() -> dict[str, Path]:
    return contents.libraries(host for guest, host in _base_files() if not guest.endswith(".pyc"))


def base() -> bytes:
    """The base archive, from the cache when neither Python nor the recipe has changed since it was made."""
    files = _base_files()
    stamp = hashlib.sha256()
    for recipe in ("initramfs.py", "contents.py", "cpio.py"):
        stamp.update(Path(__file__).with_name(recipe).read_bytes())
    for guest, host in files:
        stat = host.stat()
        stamp.update(f"{guest} {host} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    path = packages.cache_dir() / ".guest" / f"base-{stamp.hexdigest()[:16]}.cpio"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        data = _make_base(files)
        _keep(path, data)
        return data


def _keep(path: Path, data: bytes) -> None:
    """Puts the new base into the cache; readers see a whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part-{os.getpid()}")
    try:
        part.write_bytes(data)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    bases = sorted(path.parent.glob("base-*"), key=lambda old: old.stat().st_mtime)
    for old in bases[:-4]:  # several Pythons may take turns
        old.unlink(missing_ok=True)


def _make_base(files: Iterable[tuple[str, Path]]) -> bytes:
    archive = Archive()
    for folder in ("proc", "sys", "run", "root", "var", "boot", "lab"):
        archive.folder(folder)
    archive.folder("tmp", 0o1777)
    archive.character_device("/dev/console", 5, 1)
    archive.character_device("/dev/null", 1, 3, 0o666)
    for guest, host in files:
        if guest.endswith(".pyc"):
            archive.file(guest, contents.bytecode(host.read_bytes(), guest.removesuffix("c")))
        else:
            archive.file(guest, contents.native(host), 0o755)
    for guest, host in sorted(_base_libraries().items()):
        archive.file(guest, contents.native(host), 0o755)
    return archive.finish()
