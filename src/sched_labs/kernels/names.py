"""How kernels are called, and which of the packages an archive offers is meant.

A name is a series or an exact version, and a flavour: `6.1`, `6.18.12`, `6.18-rt`, `6.1-generic`.
Without a flavour it is the small kernel that boots fastest: `cloud` on Debian, `generic` on Ubuntu.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import UnknownKernelError

# The story of the book: CFS, the first EEVDF, the later ones, and PREEMPT_RT.
GALLERY = {"debian": ("5.10", "6.1", "6.12", "6.18", "7.2"), "ubuntu": ("5.4", "5.15", "6.8", "6.14")}
REAL_TIME = {"debian": ("6.12-rt", "6.18-rt", "7.2-rt"), "ubuntu": ()}

# Where an archive keeps a series.  What is not here is new, and new kernels come to the backports.
_SUITES = {
    "debian": {"5.10": ("bullseye",), "6.1": ("bookworm",), "6.12": ("trixie",)},
    "ubuntu": {"5.4": ("focal",), "5.15": ("jammy",), "6.8": ("noble",)},
}
_NEWER_SUITES = {"debian": ("trixie-backports",), "ubuntu": ("noble-updates",)}

_DEBIANS = (
    " Debian has more: install debian-archive-keyring, and set SCHED_LABS_DEBIAN_MIRROR to the address of a "
    "Debian mirror."
)

_NAME = re.compile(r"(?P<series>\d+\.\d+)(?P<patch>\.\d+)?(?:-(?P<flavour>[a-z]+))?")
_IMAGE = re.compile(r"linux-image-(?P<abi>\d.*?)-(?:(?P<flavour>cloud|rt|generic)-?)?(?P<arch>amd64|arm64)?")


@dataclass(frozen=True)
class KernelName:
    """A kernel as a reader asks for it."""

    series: str
    patch: str = ""
    flavour: str = ""

    def __str__(self) -> str:
        return self.series + self.patch + (f"-{self.flavour}" if self.flavour else "")


def parse(text: str, distribution: str = "debian") -> KernelName:
    """The name a reader typed; UnknownKernelError says what names look like."""
    match = _NAME.fullmatch(text.strip())
    allowed = {"debian": ("cloud", "rt", "generic"), "ubuntu": ("generic",)}[distribution]
    if not match or (match["flavour"] and match["flavour"] not in allowed):
        raise UnknownKernelError(
            f"'{text}' is not the name of a kernel.",
            f"Names look like 6.1, 6.18.12 or 6.12-{allowed[-2] if len(allowed) > 1 else 'generic'}; "
            f"flavours here: {', '.join(allowed)}. `sched-labs kernels list` shows what can be had.",
        )
    flavour = match["flavour"] or ""
    default = "cloud" if distribution == "debian" else "generic"
    return KernelName(match["series"], match["patch"] or "", "" if flavour == default else flavour)


def suites(name: KernelName, distribution: str = "debian") -> tuple[str, ...]:
    """The suites of the archive to look in."""
    return _SUITES[distribution].get(name.series, _NEWER_SUITES[distribution])


def all_suites(distribution: str = "debian") -> tuple[str, ...]:
    """Every suite that kernels are taken from."""
    known = (suite for group in _SUITES[distribution].values() for suite in group)
    return (*known, *_NEWER_SUITES[distribution])


@dataclass(frozen=True)
class Package:
    """The package, or the packages, that hold a kernel's image and its configuration."""

    package: str  # holds vmlinuz
    parts: tuple[str, ...]  # everything to download
    version: str  # as the archive writes it: 6.1.176-1
    upstream: str  # 6.1.176
    flavour: str  # cloud, rt, generic
    architecture: str  # amd64, arm64
    size_bytes: int  # of the download


def stanzas(text: str) -> list[dict[str, str]]:
    """The stanzas of a Packages file or of `apt-cache show`; continued lines are dropped."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        fields = {}
        for line in block.splitlines():
            key, colon, value = line.partition(": ")
            if colon and not line.startswith((" ", "\t")):
                fields[key] = value.strip()
        if "Package" in fields:
            found.append(fields)
    return found


def version_order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def packages(found: Iterable[dict[str, str]], architecture: str) -> list[Package]:
    """Every bootable kernel among the stanzas, newest first.

    From 6.19 on, Debian splits the image: `linux-image-*` is empty.  It depends on `linux-binary-*`, which
    holds the image, and on `linux-base-*`, which holds its configuration.
    Ubuntu's `linux-image-*` holds the image, and `linux-modules-*` the configuration.
    """
    by_name: dict[tuple[str, str], dict[str, str]] = {}
    for fields in found:
        whole = "Version" in fields and re.fullmatch("[0-9]{1,15}", fields.get("Size", ""))
        if whole and fields.get("Architecture") == architecture:
            by_name[fields["Package"], fields["Version"]] = fields
    kernels = []
    for (package, version), fields in by_name.items():
        match = _IMAGE.fullmatch(package)
        upstream = re.match(r"\d+\.\d+(\.\d+)?", version)
        if not match or not upstream or fields.get("Section", "kernel").split("/")[-1] != "kernel":
            continue
        if not match["flavour"] and not match["arch"]:
            continue  # a flavour this book does not boot (Ubuntu's -aws, -oem ...)
        split = re.findall(r"\blinux-(?:binary|base|modules)-\d[^\s,]+", fields.get("Depends", ""))
        modules = [part for part in split if part.startswith("linux-modules-")]
        if any("binary" in part for part in split):
            parts = sorted(set(split) - set(modules), reverse=True)
        else:
            parts = [package, *modules]
        parts = [part for part in parts if (part, version) in by_name]
        if not parts or "base" in parts[0]:
            continue  # the image was announced but is not (or no longer) in the archive
        kernels.append(
            Package(
                package=parts[0],
                parts=tuple(parts),
                version=version,
                upstream=upstream[0],
                flavour=match["flavour"] or "generic",
                architecture=architecture,
                size_bytes=sum(int(by_name[part, version]["Size"]) for part in parts),
            )
        )
    return sorted(kernels, key=lambda kernel: version_order(kernel.version), reverse=True)


def choose(kernels: Iterable[Package], name: KernelName, distribution: str = "debian") -> Package:
    """The newest package that matches the name."""
    flavour = name.flavour or ("cloud" if distribution == "debian" else "generic")
    kernels = list(kernels)
    wanted = name.series + name.patch
    for kernel in kernels:
        if kernel.flavour == flavour and (
            kernel.upstream == wanted or kernel.upstream.startswith(wanted + ".")
        ):
            return kernel
    offered = {".".join(kernel.upstream.split(".")[:2]) for kernel in kernels if kernel.flavour == flavour}
    others = sorted({*offered, *(_SUITES[distribution] if not name.patch else ())}, key=version_order)
    raise UnknownKernelError(
        f"The package archive offers no kernel {name} ({flavour}).",
        (f"There are {', '.join(others)}. " if others else "")
        + "`sched-labs kernels list --refresh` shows what can be had."
        + (_DEBIANS if distribution == "ubuntu" else ""),
    )
