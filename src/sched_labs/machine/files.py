"""The one place that reads what the kernel shows: /proc, /sys and a few files beside them.

Every path is written as it is on a running machine (`/proc/stat`); `root(tree)` makes all of them answer from
a folder that holds a recorded machine, so that what we say about a machine can be tested without having it.
"""

from __future__ import annotations

import errno
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIVE = Path("/")
_root = _LIVE

_MOST_CPUS = 1 << 16  # far beyond NR_CPUS of any architecture

_WHY = {
    errno.ENOENT: "no such file here",
    errno.ENOTDIR: "no such file here",
    errno.EACCES: "this user may not read it",
    errno.EPERM: "the kernel refuses to open it, to root as well (lockdown does that)",
    errno.EISDIR: "it is a folder",
}


@contextmanager
def root(tree: str | Path) -> Iterator[Path]:
    """Answer every read inside the `with` from the recorded machine under `tree`. Not for several threads."""
    global _root
    before, _root = _root, Path(tree).resolve()
    try:
        yield _root
    finally:
        _root = before


def live() -> bool:
    """Whether reads answer from the machine that we run on, and not from a recorded one."""
    return _root == _LIVE


def where() -> Path:
    """The folder that stands for `/` at the moment."""
    return _root


def place(path: str | Path) -> Path:
    """Where `path` is really read from."""
    return _root / str(path).lstrip("/")


def look(path: str | Path) -> tuple[str | None, str]:
    """Read one small text file: (its text without surrounding white space, "") or (None, why not).

    Bytes that are not UTF-8 are replaced; a file that ends in `.gz` is unpacked.
    """
    data, why = _bytes(path)
    if data is None:
        return None, why
    return data.decode("utf-8", "replace").strip(), ""


def read(path: str | Path) -> str | None:
    """The text of one file without surrounding white space, None where it cannot be read."""
    return look(path)[0]


def read_bytes(path: str | Path) -> bytes | None:
    """The bytes of one file (unpacked when it ends in `.gz`), None where it cannot be read."""
    return _bytes(path)[0]


def _bytes(path: str | Path) -> tuple[bytes | None, str]:
    try:
        data = place(path).read_bytes()
        return (gzip.decompress(data) if str(path).endswith(".gz") else data), ""
    except OSError as error:  # gzip.BadGzipFile is one
        return None, _WHY.get(error.errno or 0, (error.strerror or str(error)).lower())
    except EOFError:
        return None, "it is cut short"


def number(path: str | Path) -> int | None:
    """The file's text as an integer, None where it cannot be read or is not one."""
    text = read(path)
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def names(folder: str | Path) -> list[str]:
    """The names in a folder, cpu2 before cpu10; [] where it cannot be listed."""
    try:
        found = [entry.name for entry in place(folder).iterdir()]
    except OSError:
        return []
    return sorted(found, key=_natural)


def _natural(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder (False as well where we may not look)."""
    try:
        return place(path).exists()
    except OSError:
        return False


def is_folder(path: str | Path) -> bool:
    """Whether it is a folder (False as well where we may not look)."""
    try:
        return place(path).is_dir()
    except OSError:
        return False


def link(path: str | Path) -> str | None:
    """What a symbolic link such as /proc/self/ns/pid says, None where there is none."""
    try:
        return str(place(path).readlink())
    except OSError:
        return None


def owner(path: str | Path) -> int | None:
    """The number of the user to whom a file belongs, None where there is none or we may not look."""
    try:
        return place(path).stat().st_uid
    except OSError:
        return None


def cpu_list(text: str | None) -> list[int]:
    """The CPUs of a kernel list: "0-2,8" is [0, 1, 2, 8]; [] for None or "". ValueError for another text."""
    cpus: list[int] = []
    for part in (text or "").replace(" ", "").split(","):
        if not part or part == "(null)":
            continue
        first, _, last = part.partition("-")
        if int(last or first) > _MOST_CPUS:
            raise ValueError(f"no machine has CPU {last or first}")
        cpus.extend(range(int(first), int(last or first) + 1))
    return sorted(set(cpus))


def cpu_ranges(cpus: list[int]) -> str:
    """The kernel list of some CPUs: [0, 1, 2, 8] is "0-2,8"."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def size_bytes(text: str | None) -> int | None:
    """A size as sysfs writes it ("32K", "1024 KB") in bytes; None for None or "". ValueError else."""
    if not text:
        return None
    digits = text.strip().upper().removesuffix("B").rstrip()
    for letter, factor in (("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)):
        if digits.endswith(letter):
            return int(digits[:-1]) * factor
    return int(digits)
