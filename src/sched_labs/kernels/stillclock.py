"""The library that keeps the calendar out of a deterministic guest; stillclock.c says why."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..core.store import cache_folder
from .errors import QemuError

_SOURCE = Path(__file__).with_suffix(".c")


def recipe() -> str:
    """What the library depends on, as 16 digits."""
    return hashlib.sha256(_SOURCE.read_bytes() + platform.machine().encode()).hexdigest()[:16]


def library() -> Path:
    """Where it is, for LD_PRELOAD; compiled if it is not there yet.  QemuError where it cannot be."""
    path = cache_folder() / "kernels" / f"stillclock-{recipe()}.so"
    if path.exists():
        return path
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if not compiler:
        raise QemuError(
            "A deterministic guest needs a small library, and there is no C compiler here.",
            "Run scripts/provision.sh, or install one: `sudo apt-get install gcc libc6-dev`.",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            command = [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(made), str(_SOURCE)]
            subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            made.replace(path)  # whole or not at all, also when two build at once
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        raise QemuError(
            f"{_SOURCE.name} cannot be compiled: {said}",
            "Install gcc and libc6-dev, or set XDG_CACHE_HOME to a folder you may write.",
        ) from error
    return path
