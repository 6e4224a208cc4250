"""What a guest holds before it has a job, taken from the running system.

Archives, one after the other, as the kernel allows:

- the *base*: the interpreter, the part of its standard library that jobs use (as bytecode: compiling it in an
  emulated machine would take longer than booting), and the shared libraries;
- only for jobs that use them, the system's BCC and this Python's NumPy and pandas;
- the project's own: /init, and the modules of the library that all jobs import.

Those of the system are kept in the cache.
What a job needs besides is handed over later, see parcel.py.

Guest paths do not depend on where things are on the host: /usr/bin/python3, /usr/lib/python3.X,
/usr/lib/*.so, /lab.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from ..core import jsontext, store
from . import contents, packages
from .cpio import Archive

GUEST_PACKAGES = "/usr/lib/python3/dist-packages"  # where the guest has BCC, NumPy and pandas
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
    r"(_bisect|_bz2|_csv|_ctypes|_datetime|_heapq|_json|_lzma|_opcode|_pickle|_posixsubprocess|_queue|_random"
    r"|_socket|_statistics|_struct|_zoneinfo|_contextvars|array|binascii|cmath|fcntl|grp|math|mmap|resource|select"
    r"|syslog|termios|unicodedata|zlib|_sha\d+|_md5|_blake2)\.[^/]*so"
)


# What is imported before a guest is saved: what every job needs, and what every experiment needs.
_FOR_JOBS = ("sched_labs.kernels.wire", "sched_labs.workloads.launch")
_FOR_EXPERIMENTS = (*_FOR_JOBS, "sched_labs.run.base")


@dataclass(frozen=True)
class Kept:
    """An archive in the cache."""

    path: Path
    size: int
    digest: str
    libraries: frozenset[str]  # that it brings, by their path in the guest


@dataclass(frozen=True)
class World:
    """What a guest holds that waits for a job."""

    data: bool  # NumPy and pandas
    bpf: bool  # BCC
    port: str  # where it talks to the host
    settled_s: float  # it waits for jobs no earlier than this after its start
    config: bytes | None = None  # the kernel's
    release: str = ""

    def modules(self) -> tuple[str, ...]:
        """Of the library: imported already."""
        return _FOR_EXPERIMENTS if self.data else _FOR_JOBS

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """The project's own files, by their path in the guest."""
        return contents.library(*self.modules()) | {
            "/init": b"#!/usr/bin/python3 -IS\n"
            + contents.essence((contents.PACKAGE / "kernels" / "guest.py").read_bytes()),
            "/lab/guest.json": json.dumps(
                {
                    "imports": self.modules(),
                    "path": [GUEST_PACKAGES] if self.data else [],
                    "port": self.port,
                    "settled_s": self.settled_s,
                }
            ).encode(),
        }

    @cached_property
    def system(self) -> list[Kept]:
        return self._system()

    def _system(self) -> list[Kept]:
        """The archives with what is not the project's own, made if they are not in the cache."""
        wanted = [base(), bcc() if self.bpf else None, data() if self.data else None]
        return [archive for archive in wanted if archive]

    @property
    def libraries(self) -> frozenset[str]:
        return frozenset().union(*(archive.libraries for archive in self.system))

    @property
    def size(self) -> int:
        """Bytes, about: to choose the guest's memory by."""
        own = sum(map(len, self.sources.values())) + len(self.config or b"")
        return sum(archive.size for archive in self.system) + 3 * own

    def digest(self) -> str:
        """Equal for worlds with equal content; nothing is read or compiled for it."""
        stamp = hashlib.sha256(self.config or b"")
        for archive in self.system:
            stamp.update(archive.digest.encode())
        for guest, content in sorted(self.sources.items()):
            stamp.update(f"{guest} {len(content)}\n".encode() + content)
        return stamp.hexdigest()

    def archives(self) -> list[bytes]:
        """The whole initramfs."""
        own = Archive()
        for guest, content in sorted(contents.with_bytecode(self.sources).items()):
            own.file(guest, content, 0o755 if guest == "/init" else 0o644)
        if self.config:
            own.file(f"/boot/config-{self.release}", self.config)
        # Looked for again: another program may have cleared the cache since.
        return [*(archive.path.read_bytes() for archive in self._system()), own.finish()]


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


def base() -> Kept:
    """The base archive, from the cache when neither Python nor the recipe has changed since it was made."""
    files = _base_files()
    return _cached("base", [host for _, host in files], lambda: _make_base(files))


def bcc() -> Kept | None:
    """An archive with the system's BCC, for jobs that load BPF programs: large, because LLVM is in it.

    None where BCC is not installed: the job then finds none in its guest, as it would on this machine.
    """
    from ..machine.bpf import bcc_module  # here: few jobs need it, and the import takes long

    module = bcc_module()
    if module is None:
        return None
    modules = sorted(Path(module).glob("*.py"))
    return _cached("bcc", modules, lambda: _make_bcc(modules))


def _bcc_files(modules: Iterable[Path]) -> list[tuple[str, Path]]:
    files = [(f"{GUEST_PACKAGES}/bcc/{f.name}", f) for f in modules]
    # What it loads by name, ldd does not know of.
    named = {name for _, f in files for name in re.findall(r"CDLL\([\"'](lib[^\"']+)", f.read_text())}
    loaded = {name: path for name in sorted(named) for path in _library_paths(name)[:1]}
    native = {f"/usr/lib/{name}": path for name, path in loaded.items()}
    native |= contents.libraries(loaded.values())
    in_base = _base_libraries()
    return files + [(guest, host) for guest, host in sorted(native.items()) if guest not in in_base]


# Of the standard library, what NumPy and pandas import and no job does.
_DATA_FOLDERS = ("unittest", "html", "http", "xml", "asyncio")
_DATA_MODULES = re.compile(r"_sysconfigdata_.*|doctest|pdb|_pyio|tracemalloc")
_DATA_EXTENSIONS = re.compile(
    r"(_decimal|_uuid|pyexpat|_elementtree|_multiprocessing|_posixshmem|_asyncio|_lsprof)\.[^/]*so"
)
_DATA_PACKAGES = ("numpy", "pandas", "dateutil", "six", "pytz", "tzdata")


def data() -> Kept:
    """An archive with this Python's NumPy and pandas, for experiments, which return tables."""
    tops = [top for package in _DATA_PACKAGES if (top := _package(package))]
    # An installer writes a package anew, and beside it a folder that is named after the version.
    stamps = [f for top in tops for f in (top, *top.parent.parent.glob("*-info"))]
    return _cached("data", stamps, lambda: _make_data(_data_files()))


def _package(name: str) -> Path | None:
    """Where a package or module begins; which of pandas' dependencies there are depends on its version."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin) if spec and spec.origin else None


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
        top = _package(package)
        if not top:
            continue
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


def _make_data(files: Iterable[tuple[str, Path]]) -> Archive:
    archive = Archive()
    for guest, host in files:
        # Not stripped: wheels are packed so tightly that strip breaks them.
        content = host.read_bytes()
        if guest.endswith(".py"):
            archive.file(f"{guest}c", contents.bytecode(content, guest))
        else:
            archive.file(guest, content, 0o755)
    return archive


def _library_paths(name: str) -> list[Path]:
    """Where the loader finds a library."""
    done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True)
    found = re.findall(rf"^\s+{re.escape(name)} .* => (\S+)$", done.stdout, re.MULTILINE)
    return [Path(path) for path in found]


def _make_bcc(modules: Iterable[Path]) -> Archive:
    archive = Archive()
    for guest, host in _bcc_files(modules):
        if guest.endswith(".py"):
            archive.file(guest, host.read_bytes())
            cached = f"{GUEST_PACKAGES}/bcc/__pycache__/{host.stem}.{sys.implementation.cache_tag}.pyc"
            archive.file(cached, contents.bytecode(host.read_bytes(), guest))
        else:
            archive.file(guest, contents.native(host), 0o755)
    return archive


def _cached(what: str, stamps: Iterable[Path], make: Callable[[], Archive]) -> Kept:
    """An archive from the cache, or made and kept there.

    stamps: files that are written anew whenever what is to be packed has changed.
    """
    stamp = hashlib.sha256()
    for recipe in ("initramfs.py", "contents.py", "cpio.py"):
        stamp.update(Path(__file__).with_name(recipe).read_bytes())
    for host in (Path("/etc/ld.so.cache"), *stamps):  # the first: which shared libraries there are
        with contextlib.suppress(FileNotFoundError):
            stat = host.stat()
            stamp.update(f"{host} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    path = packages.cache_dir() / ".guest" / f"{what}-{stamp.hexdigest()[:16]}.cpio"
    note = path.with_suffix(".json")
    try:
        told = jsontext.parse(note.read_bytes())
        if path.stat().st_size == told["size"]:
            return Kept(path, told["size"], told["digest"], frozenset(told["libraries"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    archive = make()
    content = archive.finish()
    libraries = sorted(name for name in archive.files if name.startswith("/usr/lib/lib"))
    kept = Kept(path, len(content), hashlib.sha256(content).hexdigest(), frozenset(libraries))
    store.write_bytes(path, content)
    store.write_text(note, json.dumps({"size": kept.size, "digest": kept.digest, "libraries": libraries}))
    for old in path.parent.glob(f"{what}-*"):
        if old not in (path, note):
            old.unlink(missing_ok=True)
    return kept


def _make_base(files: Iterable[tuple[str, Path]]) -> Archive:
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
    return archive
