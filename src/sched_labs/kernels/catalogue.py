"""Which kernels there are: on this disk, and in the package archive as far as anybody has looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import names, packages

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Entry:
    """One kernel by name; versions are empty where there is none or nobody has looked."""

    name: str
    on_disk: str
    offered: str


def gallery() -> tuple[str, ...]:
    """The kernels of the book's comparison, oldest first."""
    return names.GALLERY[packages.distribution()]


def entries(refresh: bool = False) -> list[Entry]:
    """The book's kernels, those on this disk, and the newest of each series that the archive offers.

    `refresh` asks the archive (NetworkError when it cannot be reached).
    Without it, the answer is what is known from the last time.
    """
    distribution = packages.distribution()
    on_disk = {kernel.name: kernel.version for kernel in packages.all_cached()}
    newest: dict[str, str] = {}
    for package in packages.offered(refresh) or []:
        series = ".".join(package.upstream.split(".")[:2])
        newest.setdefault(str(names.parse(f"{series}-{package.flavour}", distribution)), package.version)
    wanted = {*names.GALLERY[distribution], *names.REAL_TIME[distribution], *on_disk}
    wanted |= {name for name in newest if not name.endswith("-generic") or distribution == "ubuntu"}
    return [Entry(name, on_disk.get(name, ""), newest.get(name, "")) for name in sorted(wanted, key=_order)]


def _order(name: str) -> tuple[tuple[int, ...], str]:
    parsed = names.parse(name, packages.distribution())
    return names.version_order(parsed.series + parsed.patch), parsed.flavour


def available(refresh: bool = False) -> pd.DataFrame:
    """`entries()` as a table: kernel, on_disk (version, or empty), offered (newest version known, or
    empty)."""
    import pandas as pd

    rows = [(entry.name, entry.on_disk, entry.offered) for entry in entries(refresh)]
    return pd.DataFrame(rows, columns=["kernel", "on_disk", "offered"])
