"""The one program that all programs of an incident are: compiled once for each source and set of flags."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..core.errors import WorkloadError
from ..core.store import cache_folder
from ..workloads.build import FLAGS, SHARED

SOURCE = Path(__file__).with_name("actor.c")
COROUTINES = Path(__file__).with_name("coroutines.py")  # the one that is in Python


def path() -> Path:
    """The compiled program, built if it is not there yet.  Raises WorkloadError where it cannot be built."""
    digest = hashlib.sha256(" ".join((*FLAGS, platform.machine())).encode())
    for file in (SHARED / "lab.h", SHARED / "work.h", SOURCE):
        digest.update(file.read_bytes())
    binary = cache_folder() / "workloads" / digest.hexdigest()[:16] / SOURCE.stem
    if not os.access(binary, os.X_OK):
        _compile(binary)
    return binary


def _compile(binary: Path) -> None:
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if not compiler:
        raise WorkloadError(
            "There is no C compiler here.", "Run scripts/provision.sh, or install gcc.", lacking=True
        )
    try:
        binary.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=binary.parent, prefix=".actor.") as folder:
            part = Path(folder) / SOURCE.stem
            built = subprocess.run(
                [compiler, *FLAGS, f"-I{SHARED}", "-o", str(part), str(SOURCE)],
                capture_output=True,
                text=True,
                timeout=120,
            )
            if built.returncode:
                raise WorkloadError(
                    f"The program of the incidents does not compile:\n{built.stderr.strip()}",
                    "Install gcc and libc6-dev, or name another compiler in CC.",
                )
            part.replace(binary)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkloadError(
            f"Cannot compile into {binary.parent}: {error}.", "Name a folder of yours in XDG_CACHE_HOME."
        ) from error
