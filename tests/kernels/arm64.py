"""An arm64 guest on a machine of another kind: QEMU emulates it, Debian's arm64 packages are its world.

Guests are made of the running system's own programs, so an arm64 guest is for arm64 machines, and
this project has none.  What is the same code there is tried here with other programs: the kernel's package,
the command line, the line that console and answers share, the jobs.
Not tried: BCC, NumPy, and an arm64 host.
"""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from sched_labs.kernels import contents, initramfs, packages

COMPILER = "aarch64-linux-gnu-gcc"
PYTHON = (3, 11)  # of the suite that the programs are taken from
SUITE = "bookworm"
PROGRAMS = (
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "zlib1g", "libexpat1",
    "libffi8", "libbz2-1.0", "liblzma5",
)  # fmt: skip
LIBRARIES = ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu")


def make_it_ours(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Fetch arm64 programs and let guests be made of them; PackageError where they cannot be had."""
    monkeypatch.setattr(packages, "architecture", lambda: "arm64")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")  # names what is compiled
    monkeypatch.setenv("CC", COMPILER)
    _fetch(folder)
    native = {
        f"{initramfs._PYTHON}/lib-dynload/{file.name}": file
        for file in (folder / "usr/lib/python3.11/lib-dynload").glob("*.so")
        if initramfs._EXTENSIONS.fullmatch(file.name)
    }
    own = initramfs._base_files()
    files = {guest: host for guest, host in own if "/lib-dynload/" not in guest} | native
    files["/usr/bin/python3"] = folder / "usr/bin/python3.11"
    libraries = {
        f"/usr/lib/{file.name}": file.resolve()
        for place in LIBRARIES
        for file in (folder / place).glob("*.so*")
        if file.exists()
    }
    libraries["/lib/ld-linux-aarch64.so.1"] = (folder / LIBRARIES[0] / "ld-linux-aarch64.so.1").resolve()
    monkeypatch.setattr(initramfs, "_base_files", lambda: tuple(sorted(files.items())))
    monkeypatch.setattr(initramfs, "_base_libraries", lambda: libraries)
    monkeypatch.setattr(contents, "libraries", lambda programs: libraries)
    monkeypatch.setattr(contents, "native", lambda program: program.read_bytes())


def _fetch(folder: Path) -> None:
    apt = packages._Apt((SUITE,))
    if not apt.fresh():
        apt.update()
    environment = os.environ | {"APT_CONFIG": str(apt.config)}
    words = ["apt-get", "-q", "download", *PROGRAMS]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise packages._apt_error(done.stderr)
    for deb in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(deb), str(folder)], check=True)
