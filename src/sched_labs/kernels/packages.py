"""Kernels from the distribution's own packages, without root and without touching the system's apt.

A private apt tree (own lists, own cache, empty dpkg status) asks the archive that this system is configured
for;
apt checks signatures against the distribution's keyring and checksums against the signed lists.
Of a package only the kernel image and its configuration are kept:

    $XDG_CACHE_HOME/sched-labs/kernels/6.1/{vmlinuz,config,kernel.json}

Whatever is there works without a network.
The release's own suite is used, not its security updates: a guest has no network and runs nobody else's code,
and a version that stays for months lets a recorded deterministic result be compared to the digit.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..core import jsontext, store
from . import names
from .errors import KernelError, NetworkError, PackageError
from .names import KernelName, Package

Progress = Callable[[str, float | None], None]
"""Called with what is going on and the share of it that is done, 0 to 1, or None."""

LISTS_GOOD_FOR_S = 24 * 3600.0
_KEYRINGS = {
    "debian": ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"),
    "ubuntu": ("ubuntu-archive-keyring.gpg",),
}


def _silent(text: str, share: float | None) -> None:
    pass


def cache_dir() -> Path:
    """Where kernels are kept."""
    return store.cache_folder() / "kernels"


def architecture() -> str:
    """This machine's architecture as packages call it; guests use this system's programs, so it is theirs
    too."""
    machine = platform.machine()
    try:
        return {"x86_64": "amd64", "aarch64": "arm64"}[machine]
    except KeyError:
        raise KernelError(
            f"No kernels are prepared for a {machine} machine.", "Use an x86-64 or a 64-bit ARM machine."
        ) from None


def distribution() -> str:
    """`debian` or `ubuntu`: whose kernels are used.  A Debian mirror that the reader names decides first."""
    if os.environ.get("SCHED_LABS_DEBIAN_MIRROR"):
        return "debian"
    with contextlib.suppress(OSError):
        release = platform.freedesktop_os_release()
        if "ubuntu" in (release.get("ID", ""), *release.get("ID_LIKE", "").split()):
            return "ubuntu"
    return "debian"


@dataclass(frozen=True)
class Kernel:
    """A kernel that is on this disk, ready to boot."""

    name: str
    package: str
    version: str
    upstream: str
    flavour: str
    architecture: str
    sha256: str  # of the image
    directory: Path

    @property
    def image(self) -> Path:
        return self.directory / "vmlinuz"

    def config(self, option: str) -> str | None:
        """What the kernel was built with: 'y', 'm', a value, or None when unset or unknown."""
        with contextlib.suppress(OSError):
            match = re.search(rf"^{option}=(.*)$", (self.directory / "config").read_text(), re.MULTILINE)
            return match[1].strip('"') if match else None
        return None


def _load(directory: Path) -> Kernel:
    stored = jsontext.parse((directory / "kernel.json").read_bytes())
    return Kernel(directory=directory, **stored)


def cached(name: str) -> Kernel | None:
    """The kernel of that name on this disk, or None.  PackageError when its image is not what was
    unpacked."""
    directory = cache_dir() / str(names.parse(name, distribution()))
    if not (directory / "kernel.json").exists():
        return None
    try:
        kernel = _load(directory)
        sound = hashlib.sha256(kernel.image.read_bytes()).hexdigest() == kernel.sha256
    except (OSError, ValueError, TypeError):
        sound = False
    if not sound:
        raise PackageError(
            f"The cached kernel {name} is damaged ({directory}).",
            f"Fetch it again: sched-labs kernels get --newest {name}",
        )
    return kernel


def all_cached() -> list[Kernel]:
    """Every kernel on this disk, oldest series first; damaged ones are left out (asking for one says so)."""
    found = []
    for entry in sorted(cache_dir().glob("[0-9]*/kernel.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            found.append(_load(entry.parent))
    return sorted(found, key=lambda kernel: (names.version_order(kernel.upstream), kernel.flavour))


def offered(refresh: bool = False) -> list[Package] | None:
    """What the archive offers, newest first, as far as its lists have been read; None when none has.

    `refresh` reads all of them.
    """
    with _locked():
        suites = names.all_suites(distribution())
        if not refresh:
            suites = tuple(suite for suite in suites if _lists_age_s(suite) < float("inf"))
        if not suites:
            return None
        apt = _Apt(suites)
        if refresh:
            apt.update()
        return apt.packages()


def get(name: str, newest: bool = False, progress: Progress = _silent) -> Kernel:
    """The kernel of that name, from the cache or (first time, or `newest`) from the package archive.

    Raises UnknownKernelError, NetworkError (nothing cached and no archive), PackageError (does not check or
    unpack).
    """
    wanted = names.parse(name, distribution())
    if not newest:
        kernel = cached(name)
        if kernel:
            return kernel
    with _locked():
        apt = _Apt(names.suites(wanted, distribution()))
        look_first = newest or not apt.fresh()
        if look_first:
            progress(f"{wanted}: reading the archive's lists", None)
            apt.update()
        try:
            return _fetch(apt, wanted, progress)
        except NetworkError:
            raise
        except PackageError:
            if look_first:
                raise
        # The lists are from earlier today, and the package may have left the archive since.
        apt.update()
        return _fetch(apt, wanted, progress)


def _fetch(apt: _Apt, wanted: KernelName, progress: Progress) -> Kernel:
    """The newest package that matches, in the cache in place of an older one."""
    package = names.choose(apt.packages(), wanted, distribution())
    with contextlib.suppress(PackageError):
        held = cached(str(wanted))
        if held and (held.package, held.version) == (package.package, package.version):
            return held
    place = cache_dir() / str(wanted)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=cache_dir()) as scratch:
        debs = apt.download(package, Path(scratch), lambda share: progress(f"{wanted}: fetching", share))
        progress(f"{wanted}: unpacking", None)
        _unpack(debs, package, wanted, Path(scratch) / "kernel")
        if place.exists():
            place.rename(Path(scratch) / "old")
        (Path(scratch) / "kernel").rename(place)
    progress(f"{wanted}: {package.version}", 1.0)
    return _load(place)


_WANTED = re.compile(r"\./(?:usr/)?(?:boot/(vmlinuz|config)-[^/]+|lib/modules/[^/]+/(vmlinuz|config))")


def _extract(deb: Path, into: Path) -> None:
    """Image and configuration out of one package."""
    command = ["dpkg-deb", "--fsys-tarfile", str(deb)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as dpkg:
        assert dpkg.stdout
        try:
            with tarfile.open(fileobj=dpkg.stdout, mode="r|") as archive:
                for member in archive:
                    match = _WANTED.fullmatch(member.name)
                    source = archive.extractfile(member) if match and member.isreg() else None
                    if match and source:
                        (into / (match[1] or match[2])).write_bytes(source.read())
        except (tarfile.TarError, EOFError) as error:
            raise PackageError(f"{deb.name} does not unpack: {error}.", "Fetch it again.") from error
        finally:
            dpkg.stdout.close()
    if dpkg.returncode:
        raise PackageError(f"{deb.name} does not unpack.", "Fetch it again.")


def _unpack(debs: list[Path], package: Package, name: KernelName, into: Path) -> None:
    """The kernel's folder: image, configuration, and a note of where they came from."""
    into.mkdir()
    for deb in debs:
        _extract(deb, into)
    if not (into / "vmlinuz").exists():
        raise PackageError(
            f"{package.package} holds no kernel image.", "Choose another kernel, and report this one."
        )
    note = {
        "name": str(name),
        "package": package.package,
        "version": package.version,
        "upstream": package.upstream,
        "flavour": package.flavour,
        "architecture": package.architecture,
        "sha256": hashlib.sha256((into / "vmlinuz").read_bytes()).hexdigest(),
    }
    (into / "kernel.json").write_text(json.dumps(note, indent=1) + "\n")


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """One process at a time changes the cache.  What a killed one left half done is removed first."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache_dir().glob(".part-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


# apt, in a tree of its own


def _apt_dir() -> Path:
    return cache_dir() / ".apt"


def _host_apt(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        raise PackageError(
            "This system has no apt, and kernels come as Debian or Ubuntu packages.",
            "Use a Debian or Ubuntu system, or the book's virtual machine.",
        ) from None
    return done.stdout


def mirror(kind: str) -> str:
    """The address of the archive that this system's own apt configuration names for that distribution."""
    named = os.environ.get("SCHED_LABS_DEBIAN_MIRROR")
    if named:
        return named.rstrip("/")
    targets = _host_apt(
        "apt-get",
        "indextargets",
        "--no-release-info",
        "--format",
        "$(REPO_URI) $(COMPONENT)",
        "Created-By: Packages",
    )
    for line in targets.splitlines():
        address, _, component = line.partition(" ")
        if component == "main" and re.search(rf"/{kind}(-ports)?/?$|^[a-z+]+://ports\.", address):
            return address.rstrip("/")
    raise PackageError(
        f"This system's apt configuration names no {kind.capitalize()} archive.",
        "Check /etc/apt/sources.list.d, or set SCHED_LABS_DEBIAN_MIRROR to the address of a Debian mirror.",
    )


def _keyring(kind: str) -> Path:
    for name in _KEYRINGS[kind]:
        for folder in ("/usr/share/keyrings", "/etc/apt/trusted.gpg.d"):
            if (Path(folder) / name).exists():
                return Path(folder) / name
    raise PackageError(
        f"The {kind.capitalize()} archive's keyring is not installed, so its packages cannot be checked.",
        f"Install it: sudo apt install {kind}-{'archive-' if kind == 'debian' else ''}keyring",
    )


def _lists_age_s(suite: str) -> float:
    """Seconds since the suite's package list was last looked at."""
    stamp = _apt_dir() / f"read-{suite}"
    return time.time() - stamp.stat().st_mtime if stamp.exists() else float("inf")


class _Apt:
    """A private apt tree over some suites of the host's archive."""

    def __init__(self, suites: tuple[str, ...]) -> None:
        self.suites = suites
        self.architecture = architecture()
        base = _apt_dir()
        for folder in ("etc/preferences.d", "etc/parts", "state/lists/partial", "cache/archives/partial"):
            (base / folder).mkdir(parents=True, exist_ok=True)
        (base / "status").touch()
        kind = distribution()
        sources = base / "etc" / f"{'+'.join(suites)}.list"
        address, keyring = mirror(kind), _keyring(kind)
        sources.write_text(
            "".join(
                f"deb [arch={self.architecture} signed-by={keyring}] {address} {s} main\n" for s in suites
            )
        )
        self.config = base / "etc" / f"{'+'.join(suites)}.conf"
        self.config.write_text(_configuration(base, sources, self.architecture))

    def _run(self, *words: str) -> str:
        environment = os.environ | {"APT_CONFIG": str(self.config), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise _apt_error(done.stderr)
        return done.stdout

    def fresh(self) -> bool:
        return all(_lists_age_s(suite) < LISTS_GOOD_FOR_S for suite in self.suites)

    def update(self) -> None:
        self._run("apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any")
        for suite in self.suites:
            (_apt_dir() / f"read-{suite}").touch()

    def packages(self) -> list[Package]:
        found = self._run("apt-cache", "pkgnames", "linux-").split()
        kernels = [
            n
            for n in found
            if re.match(r"linux-(image|binary|base|modules)-\d", n) and not n.endswith("-dbg")
        ]
        if not kernels:
            return []
        return names.packages(
            names.stanzas(self._run("apt-cache", "show", *sorted(kernels))), self.architecture
        )

    def download(self, package: Package, into: Path, progress: Callable[[float], None]) -> list[Path]:
        """The .deb files, their checksums verified by apt."""
        environment = os.environ | {"APT_CONFIG": str(self.config), "LC_ALL": "C.UTF-8"}
        # setpriv: a download does not outlive the program that wants it.
        command = ["setpriv", "--pdeathsig", "KILL", "apt-get", "-q", "download"]
        command += [*(f"{part}={package.version}" for part in package.parts)]
        with (
            tempfile.TemporaryFile("w+") as complaint,
            subprocess.Popen(
                command, cwd=into, env=environment, stdout=subprocess.DEVNULL, stderr=complaint
            ) as apt,
        ):
            try:
                while apt.poll() is None:
                    got = sum(part.stat().st_size for part in into.glob("*.deb*"))
                    progress(min(1.0, got / package.size_bytes))
                    time.sleep(0.1)
            finally:
                apt.kill()
            complaint.seek(0)
            if apt.returncode:
                raise _apt_error(complaint.read())
        return sorted(into.glob("*.deb"))


def _configuration(base: Path, sources: Path, architecture: str) -> str:
    """The private tree's apt.conf: only how to reach the archive is taken from the host (proxies, timeouts,
    logins)."""
    reach = [line for line in _host_apt("apt-config", "dump").splitlines() if line.startswith("Acquire::")]
    return "\n".join(
        [
            *reach,
            'Acquire::Languages "none";',
            'Acquire::Retries "2";',
            'Acquire::http::Timeout "20";',
            'Acquire::https::Timeout "20";',
            'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";',
            'Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";',
            f'Dir::Etc "{base}/etc";',
            f'Dir::Etc::sourcelist "{sources}";',
            'Dir::Etc::sourceparts "/dev/null";',
            f'Dir::Etc::parts "{base}/etc/parts";',
            'Dir::Etc::netrc "/etc/apt/auth.conf";',
            'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";',
            f'Dir::State "{base}/state";',
            f'Dir::State::status "{base}/status";',
            f'Dir::Cache "{base}/cache";',
            'Dir::Cache::pkgcache "";',  # rebuilt in a second, and worth 80 MB
            'Dir::Cache::srcpkgcache "";',
            'APT::Get::List-Cleanup "false";',  # keep the lists of the suites that other kernels are in
            f'APT::Architecture "{architecture}";',
            f'APT::Architectures {{ "{architecture}"; }};',
            # The tree is the reader's own; as root, apt would otherwise want to hand it to its sandbox user.
            'APT::Sandbox::User "root";',
            "",
        ]
    )


def _apt_error(complaint: str) -> PackageError:
    """apt's complaint as one of ours."""
    lines = [
        line for line in complaint.splitlines() if line.startswith(("E:", "W:"))
    ] or complaint.splitlines()
    last = "; ".join(line[2:].strip() for line in lines[:2])
    if re.search(
        r"resolv|connect|timed out|Network is unreachable|No route|Could not wait|proxy",
        complaint,
        re.IGNORECASE,
    ):
        return NetworkError(
            f"The package archive cannot be reached: {last}",
            "Kernels that were fetched before still work; `sched-labs kernels list` shows them.",
        )
    if re.search(r"NO_PUBKEY|not signed|signature|Hash Sum mismatch|[Ss]ize.*mismatch", complaint):
        return PackageError(
            f"apt does not trust what it got: {last}",
            "Update the archive keyring (sudo apt install --only-upgrade "
            "debian-archive-keyring), or try another mirror.",
        )
    return PackageError(f"apt failed: {last}", "Check the package archive in /etc/apt/sources.list.d.")
