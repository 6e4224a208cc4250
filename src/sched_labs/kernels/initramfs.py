"""The guest's whole world, taken from the running system: this Python, the library, native workloads.

Two archives, one after the other, as the kernel allows:

- the *base*: the interpreter, the part of its standard library that jobs use (as bytecode: compiling it in an
  emulated machine would take longer than booting), and the shared libraries; kept in the cache;
- the *overlay*: /init, the modules of the library that the job may import, the workloads and the job; made
  anew for every run.

Between them come, only for jobs that use them, the system's BCC and this Python's NumPy and pandas.

Guest paths do not depend on where things are on the host: /usr/bin/python3, /usr/lib/python3.X,
/usr/lib/*.so, /lab.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..machine.bpf import bcc_module
from ..workloads import build as workloads
from . import contents, packages
from .cpio import Archive
from .jobs.experiment import GUEST_PACKAGES

GUEST_CACHE = "/lab/cache/sched-labs"
_HELPER = "/lab/sched_labs/probes/helper/sched-labs-probe"
_PYTHON = f"/usr/lib/python{sys.version_info.major}.{sys.version_info.minor}"

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
    extra: Mapping[str, Path | bytes] = field(default_factory=dict)  # more files, by their path in the guest
    modules: tuple[str, ...] = ()  # of the library, that the job imports by name

    @property
    def loads_bpf(self) -> bool:
        """Whether the job may start the privileged helper, which needs BCC."""
        return _HELPER in self.sources()

    @property
    def needs_data(self) -> bool:
        """Whether the job imports NumPy and pandas: experiments do."""
        return "/lab/sched_labs/experiments/base.py" in self.sources()

    def sources(self) -> dict[str, bytes]:
        """The project's own files in the guest, by their path there."""
        module = self.job["call"].partition(":")[0]
        files = contents.library("sched_labs.kernels.wire", module, *self.modules)
        files["/init"] = (contents.PACKAGE / "kernels" / "guest.py").read_bytes()
        if "/lab/sched_labs/probes/channel.py" in files:  # it starts the helper, which is no module
            folder = contents.PACKAGE / "probes" / "helper"
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    files[f"/lab/sched_labs/probes/helper/{path.relative_to(folder)}"] = path.read_bytes()
        for source in {f for name in self.native for f in (*workloads.headers(name), f"{name}.c")}:
            files[f"/lab/sched_labs/workloads/src/{source}"] = (workloads.SOURCES / source).read_bytes()
        return files

    def stack(self) -> list[bytes]:
        """The whole initramfs: base, what this job needs besides, and the overlay."""
        parts = [base()]
        if self.loads_bpf:
            parts.append(bcc())
        if self.needs_data:
            parts.append(data())
        return [*parts, self.archive()]

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
    guest = _PYTHON
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
    return _cached("base", files, lambda: _make_base(files))


def bcc() -> bytes:
    """An archive with the system's BCC, for jobs that load BPF programs: large, because LLVM is in it.

    Empty where BCC is not installed: the job then finds none in its guest, as it would on this machine.
    """
    module = bcc_module()
    if module is None:
        return b""
    files = [(f"{GUEST_PACKAGES}/bcc/{f.name}", f) for f in sorted(Path(module).glob("*.py"))]
    # What it loads by name, ldd does not know of.
    named = {name for _, f in files for name in re.findall(r"CDLL\([\"'](lib[^\"']+)", f.read_text())}
    loaded = {name: path for name in sorted(named) for path in _library_paths(name)[:1]}
    native = {f"/usr/lib/{name}": path for name, path in loaded.items()}
    native |= contents.libraries(loaded.values())
    in_base = _base_libraries()
    files += [(guest, host) for guest, host in sorted(native.items()) if guest not in in_base]
    return _cached("bcc", tuple(files), lambda: _make_bcc(files))


# Of the standard library, what NumPy and pandas import and no job does.
_DATA_FOLDERS = ("unittest", "html", "http", "xml", "asyncio")
_DATA_MODULES = re.compile(r"_sysconfigdata_.*|doctest|pdb|_pyio|tracemalloc")
_DATA_EXTENSIONS = re.compile(
    r"(_csv|_decimal|_uuid|pyexpat|_elementtree|_multiprocessing|_posixshmem|_asyncio|_lsprof)\.[^/]*so"
)
_DATA_PACKAGES = ("numpy", "pandas", "dateutil", "six", "pytz", "tzdata")


def data() -> bytes:
    """An archive with this Python's NumPy and pandas, for experiments, which return tables."""
    files = _data_files()
    return _cached("data", files, lambda: _make_data(files))


@cache
def _data_files() -> tuple[tuple[str, Path], ...]:
    files: dict[str, Path] = {}
    library = Path(sysconfig.get_paths()["stdlib"])
    for folder in _DATA_FOLDERS:
        files |= {f"{_PYTHON}/{f.relative_to(library)}": f for f in (library / folder).rglob("*.py")}
    files |= {f"{_PYTHON}/{f.name}": f for f in library.glob("*.py") if _DATA_MODULES.fullmatch(f.stem)}
    for f in (library / "lib-dynload").glob("*.so"):
        if _DATA_EXTENSIONS.fullmatch(f.name):
            files[f"{_PYTHON}/lib-dynload/{f.name}"] = f
    for package in _DATA_PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue  # which ones there are depends on the version of pandas
        top = Path(spec.origin)
        roots = [top.parent, *top.parent.parent.glob(f"{package}.libs")] if top.stem == "__init__" else [top]
        for root in roots:
            for f in [root] if root.is_file() else root.rglob("*"):
                if (
                    f.is_file()
                    and not {"tests", "__pycache__", "include"} & set(f.parts)
                    and f.suffix != ".pyi"
                ):
                    files[f"{GUEST_PACKAGES}/{f.relative_to(root.parent)}"] = f
    shared = [f for f in files.values() if ".so" in f.suffixes or f.suffix == ".so"]
    bundled = {f.name for f in shared}
    base = _base_libraries()
    for guest, f in contents.libraries(shared).items():
        if f.name not in bundled and guest not in base:
            files[guest] = f
    return tuple(sorted(files.items()))


def _make_data(files: Iterable[tuple[str, Path]]) -> bytes:
    archive = Archive()
    for guest, host in files:
        # Not stripped: wheels are packed so tightly that strip breaks them.
        content = host.read_bytes()
        if guest.endswith(".py"):
            archive.file(f"{guest}c", contents.bytecode(content, guest))
        else:
            archive.file(guest, content, 0o755)
    return archive.finish()


def _library_paths(name: str) -> list[Path]:
    """Where the loader finds a library."""
    done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True)
    found = re.findall(rf"^\s+{re.escape(name)} .* => (\S+)$", done.stdout, re.MULTILINE)
    return [Path(path) for path in found]


def _make_bcc(files: Iterable[tuple[str, Path]]) -> bytes:
    archive = Archive()
    for guest, host in files:
        if guest.endswith(".py"):
            archive.file(guest, host.read_bytes())
            cached = f"{GUEST_PACKAGES}/bcc/__pycache__/{host.stem}.{sys.implementation.cache_tag}.pyc"
            archive.file(cached, contents.bytecode(host.read_bytes(), guest))
        else:
            archive.file(guest, contents.native(host), 0o755)
    return archive.finish()


def _cached(what: str, files: Iterable[tuple[str, Path]], make: Callable[[], bytes]) -> bytes:
    """An archive from the cache, or made and kept there; the name holds all that it depends on."""
    stamp = hashlib.sha256()
    for recipe in ("initramfs.py", "contents.py", "cpio.py"):
        stamp.update(Path(__file__).with_name(recipe).read_bytes())
    for guest, host in files:
        stat = host.stat()
        stamp.update(f"{guest} {host} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    path = packages.cache_dir() / ".guest" / f"{what}-{stamp.hexdigest()[:16]}.cpio"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        data = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part-{os.getpid()}")
    try:
        part.write_bytes(data)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    older = sorted(path.parent.glob(f"{what}-*"), key=lambda old: old.stat().st_mtime)
    for old in older[:-1]:
        old.unlink(missing_ok=True)
    return data


def _make_base(files: Iterable[tuple[str, Path]]) -> bytes:
    archive = Archive()
    for folder in ("proc", "sys", "run", "root", "var", "boot", "lab"):
        archive.folder(folder)
    archive.folder("tmp", 0o1777)
    # BCC's module lies where Debian has it; other Pythons look for their site-packages.
    archive.link(
        f"/usr/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages", GUEST_PACKAGES
    )
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
