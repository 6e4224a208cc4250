"""The guest's whole world, taken from the running system: this Python, the library, native workloads.

Two archives, one after the other, as the kernel allows:

- the *base*: the interpreter, the part of its standard library that jobs use (as bytecode: compiling it in an
  emulated machine would take longer than booting), and the shared libraries; kept in the cache;
- the *overlay*: /init, the library, the workloads and the job; made anew for every run, a few hundred kB.

Guest paths do not depend on where things are on the host: /usr/bin/python3, /usr/lib/python3.X, /usr/lib/*.so, /lab.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from . import packages
from .cpio import Archive
from .errors import KernelError

PACKAGE = Path(__file__).resolve().parent.parent
GUEST_WORKLOADS = "/lab/workloads"

# What no job needs: tests, tools, windows, other systems' modules.
_NO_FOLDER = {
    "test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "distutils", "pydoc_data",
    "site-packages", "dist-packages", "__pycache__", "msilib", "curses", "dbm", "sqlite3", "wsgiref", "xmlrpc",
    "venv", "lib-dynload", "email", "http", "html", "xml", "asyncio", "unittest", "concurrent",
}  # fmt: skip
_NO_MODULE = re.compile(r"(turtle|pydoc|doctest|pdb|imaplib|smtplib|nntplib|ftplib|poplib|telnetlib|antigravity|this)$")
_EXTENSIONS = re.compile(
    r"(_bisect|_bz2|_ctypes|_datetime|_heapq|_json|_lzma|_opcode|_pickle|_posixsubprocess|_queue|_random|_socket"
    r"|_statistics|_struct|_zoneinfo|_contextvars|array|binascii|cmath|fcntl|grp|math|mmap|resource|select|syslog"
    r"|termios|unicodedata|zlib|_sha\d+|_md5|_blake2)\.[^/]*so$"
)


def _bytecode(source: Path) -> bytes:
    """The module compiled, as a .pyc that is never compared with its source (which may not be there, or has no date).

    Bytecode that this Python has already cached and that fits the source is used; a module never imported is compiled.
    """
    code = None
    stat = source.stat()
    try:
        cached = Path(importlib.util.cache_from_source(str(source))).read_bytes()
        fits = (int(stat.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + (stat.st_size & 0xFFFFFFFF).to_bytes(4, "little")
        if cached[:8] == importlib.util.MAGIC_NUMBER + b"\0\0\0\0" and cached[8:16] == fits:
            code = cached[16:]
    except (OSError, NotImplementedError):
        pass
    if code is None:
        code = marshal.dumps(compile(source.read_bytes(), str(source), "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"\0" * 8 + code


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """Guest path -> host file of every shared library that the programs need, by ldd.

    The loader keeps its path; all other libraries go to /usr/lib, where it looks by itself.
    """
    wanted = sorted(str(program) for program in programs)
    if not wanted:
        return {}
    done = subprocess.run(["ldd", *wanted], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": os.defpath})
    found = {}
    for line in done.stdout.splitlines():
        named = re.match(r"\s+(\S+) => (?:(/\S+) \(0x|(not found))", line)
        loader = re.match(r"\s+(/\S+) \(0x", line)
        if named and named[3]:
            raise KernelError(f"A program for the guest needs the library {named[1]}, which is not installed.")
        if named:
            found[f"/usr/lib/{named[1].rpartition('/')[2]}"] = Path(named[2])
        elif loader:
            found[loader[1]] = Path(loader[1])
    return found


def _python() -> Path:
    """The interpreter itself, not the link in a virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable) or sys.executable).resolve()


@cache
def _base_files() -> tuple[tuple[str, Path], ...]:
    """What the base holds: guest path and host file."""
    library = Path(sysconfig.get_paths()["stdlib"])
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    guest = f"/usr/lib/{version}"
    files: dict[str, Path] = {"/usr/bin/python3": _python()}
    for folder, folders, names in os.walk(library):
        folders[:] = sorted(set(folders) - _NO_FOLDER)
        folders[:] = [name for name in folders if not name.startswith("config-")]
        for name in sorted(names):
            module = name.removesuffix(".py")
            if name.endswith(".py") and not _NO_MODULE.fullmatch(module):
                below = (Path(folder) / module).relative_to(library)
                files[f"{guest}/{below}.pyc"] = Path(folder) / name
    for extension in sorted((library / "lib-dynload").glob("*.so")):
        if _EXTENSIONS.match(extension.name):
            files[f"{guest}/lib-dynload/{extension.name}"] = extension
    return tuple(sorted(files.items()))


def base() -> Path:
    """The base archive, from the cache when neither Python nor the recipe has changed since it was made."""
    files = _base_files()
    stamp = hashlib.sha256()
    for recipe in ("initramfs.py", "cpio.py"):
        stamp.update(Path(__file__).with_name(recipe).read_bytes())
    for guest, host in files:
        stat = host.stat()
        stamp.update(f"{guest} {host} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    path = packages.cache_dir() / ".guest" / f"base-{stamp.hexdigest()[:16]}.cpio"
    if not path.exists():
        _keep(path, _make_base(files))
    return path


def _keep(path: Path, data: bytes) -> None:
    """The new base in place of older ones; readers see the old file, the new one, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part-{os.getpid()}")
    try:
        part.write_bytes(data)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    bases = sorted(path.parent.glob("base-*.cpio"), key=lambda old: old.stat().st_mtime)
    for old in bases[:-4]:  # several Pythons may take turns
        old.unlink(missing_ok=True)


def _make_base(files: Iterable[tuple[str, Path]]) -> bytes:
    archive = Archive()
    for folder in ("proc", "sys", "run", "root", "var", "boot", "lab"):
        archive.folder(folder)
    archive.folder("tmp", 0o1777)
    archive.character_device("/dev/console", 5, 1)
    archive.character_device("/dev/null", 1, 3, 0o666)
    native = []
    for guest, host in files:
        if guest.endswith(".pyc"):
            archive.file(guest, _bytecode(host))
        else:
            native.append(host)
            archive.file(guest, host.read_bytes(), 0o755)
    for guest, host in sorted(libraries(native).items()):
        archive.file(guest, host.read_bytes(), 0o755)
    return archive.finish()


def overlay(job: Mapping[str, object], workloads: Mapping[str, Path], extra: Mapping[str, Path | bytes]) -> bytes:
    """The per-run archive: /init, the library, native workloads by name, further files by guest path, and the job."""
    archive = Archive()
    archive.file("/init", (PACKAGE / "kernels" / "guest.py").read_bytes(), 0o755)
    for source in sorted(PACKAGE.rglob("*.py")):
        guest = f"/lab/sched_labs/{source.relative_to(PACKAGE)}"
        archive.file(guest, source.read_bytes())
        below, _, name = guest.rpartition("/")
        archive.file(f"{below}/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pyc", _bytecode(source))
    for name, program in sorted(workloads.items()):
        archive.file(f"{GUEST_WORKLOADS}/{name}", program.read_bytes(), 0o755)
    in_base = {f"/usr/lib/{Path(guest).name}" for guest, _ in _base_files()}
    for guest, host in sorted(libraries(workloads.values()).items()):
        if guest not in in_base:
            archive.file(guest, host.read_bytes(), 0o755)
    for guest, content in sorted(extra.items()):
        archive.file(guest, content if isinstance(content, bytes) else content.read_bytes())
    archive.file("/lab/job.json", json.dumps(job, sort_keys=True).encode())
    return archive.finish()


def recipe_hash(workloads: Mapping[str, Path]) -> str:
    """What a deterministic result depends on inside the guest, as a short hash.

    The recipe of the archives, /init, the Python that runs it, the native workloads, and their shared libraries.
    """
    stamp = hashlib.sha256(sys.version.encode())
    for recipe in ("initramfs.py", "cpio.py", "guest.py"):
        stamp.update(Path(__file__).with_name(recipe).read_bytes())
    native = {**libraries([_python(), *workloads.values()]), **{f"/{n}": p for n, p in workloads.items()}}
    for guest, host in sorted(native.items()):
        stamp.update(f"{guest} {hashlib.sha256(host.read_bytes()).hexdigest()}\n".encode())
    return stamp.hexdigest()[:16]
