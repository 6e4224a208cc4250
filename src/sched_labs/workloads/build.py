"""Compile the workloads, once for each source, compiler and set of flags."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from ..core import registry
from ..core.errors import ParameterError, WorkloadError
from ..core.store import cache_folder

SHARED = registry.SHARED_PROGRAMS
FLAGS = ("-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread")


def _sources() -> dict[str, Path]:
    """Every workload's source: shared ones, and those that stand beside their experiment."""
    found: dict[str, Path] = {}
    for folder in (SHARED, *registry.folders()):
        for path in sorted(folder.glob("*.c")):
            found.setdefault(path.stem, path)
    return found


def names() -> list[str]:
    """The workloads there are."""
    return sorted(_sources())


def source(name: str) -> Path:
    """The source of a workload.  Raises ParameterError for an unknown name."""
    shared = SHARED / f"{name}.c"
    if (
        shared.is_file() and name == shared.stem
    ):  # a guest has its programs' sources here, and need not look for experiments
        return shared
    known = _sources()
    if name not in known:
        raise ParameterError(f"There is no workload {name!r}.", f"There are: {', '.join(sorted(known))}.")
    return known[name]


def _compiler() -> str:
    wanted = os.environ.get("CC") or "cc"
    found = shutil.which(wanted)
    if not found:
        raise WorkloadError(
            f"There is no C compiler here ({wanted!r} was not found).",
            "Run scripts/provision.sh, or install one: `sudo apt-get install gcc libc6-dev`.",
            lacking=True,
        )
    return found


@cache
def _compiler_version(compiler: str) -> str:
    try:
        answer = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WorkloadError(
            f"The C compiler {compiler} does not run: {error}.", "Install gcc or clang."
        ) from error
    return answer.stdout.splitlines()[0] if answer.stdout else ""


def headers(name: str) -> list[Path]:
    """The headers that a workload's source includes, in its order: of its own folder, or shared ones."""
    path = source(name)
    named = re.findall(r'^#include "([a-z_]+\.h)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    return [beside if (beside := path.with_name(one)).exists() else SHARED / one for one in named]


def recipe(name: str) -> str:
    """The hash that names a compiled workload: its source, the headers that it includes, flags, machine type.

    The compiler is not in it: where a binary is already there, none is needed to run it.
    """
    digest = hashlib.sha256()
    for path in (*headers(name), source(name)):
        digest.update(path.read_bytes())
    digest.update(" ".join((*FLAGS, platform.machine())).encode())
    return digest.hexdigest()[:16]


def path(name: str) -> Path:
    """The compiled workload, built if it is not there yet.

    Raises ParameterError for an unknown name, WorkloadError where it cannot be built.
    """
    binary = cache_folder() / "workloads" / recipe(name) / name
    if not os.access(binary, os.X_OK):
        _compile(name, binary)
    return binary


def _compile(name: str, binary: Path) -> None:
    compiler = _compiler()
    try:
        binary.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=binary.parent, prefix=f".{name}.")
        os.close(handle)
    except OSError as error:
        raise WorkloadError(
            f"Cannot write {binary.parent}: {error.strerror}.",
            "Set XDG_CACHE_HOME to a folder that you may write.",
        ) from error
    try:
        command = [compiler, *FLAGS, f"-I{SHARED}", "-o", temporary, str(source(name))]
        built = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if built.returncode:
            raise WorkloadError(
                f"The workload {name} does not compile with {_compiler_version(compiler)}:\n"
                f"{built.stderr.strip()}",
                "Install gcc and libc6-dev, or name another compiler in CC.",
            )
        Path(temporary).chmod(0o755)
        os.replace(temporary, binary)  # noqa: PTH105 - whole or not at all, also when two build at once
    except subprocess.TimeoutExpired as error:
        raise WorkloadError(
            f"Compiling {name} took over 120 s.", "Try again on a quieter machine."
        ) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def build_all() -> dict[str, Path]:
    """Compile every workload; name -> binary."""
    return {name: path(name) for name in names()}
