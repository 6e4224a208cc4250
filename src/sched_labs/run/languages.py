"""Programs in other languages than C: compiled on first use, held at the same barrier, ended the same way.

Java and Go measure what their own runtimes do, so they cannot be C workloads.  They speak the same protocol
(`ready`, `go`, records, `done`) and end themselves when their standard input is closed.  Where a language is
not installed, an experiment goes on without it and says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from .. import workloads
from ..core import store
from ..core.errors import WorkloadError
from ..workloads import launch


def missing(*programs: str) -> str | None:
    """The first of these programs that is not installed, or None."""
    return next((program for program in programs if not shutil.which(program)), None)


def java(source: Path) -> list[str]:
    """The command that runs a .java file, compiled.  Raises WorkloadError where it does not compile."""
    folder = _compiled(source, ["javac", "-d", "{folder}", "{source}"])
    return ["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", str(folder), source.stem]


def go(source: Path) -> list[str]:
    """The command that runs a .go file, compiled.  Raises WorkloadError where it does not compile."""
    folder = _compiled(source, ["go", "build", "-o", "{folder}/" + source.stem, "{source}"])
    return [str(folder / source.stem)]


def build_all(folders: Iterable[Path]) -> list[str]:
    """Compile the programs in these folders before anything is measured; the names of those that compile."""

    def compiles(source: Path) -> bool:
        try:
            _COMPILERS[source.suffix](source)
        except WorkloadError:  # the experiment says why
            return False
        return True

    sources = sorted(path for folder in folders for path in folder.iterdir() if path.suffix in _COMPILERS)
    with ThreadPoolExecutor(os.cpu_count()) as side_by_side:
        return [
            one.name for one, done in zip(sources, side_by_side.map(compiles, sources), strict=True) if done
        ]


_COMPILERS = {".java": java, ".go": go}


def _compiled(source: Path, command: Sequence[str]) -> Path:
    """The folder that holds the compiled program, named after its source and compiler."""
    compiler = shutil.which(command[0]) or command[0]
    try:
        digest = hashlib.sha256(source.read_bytes() + compiler.encode()).hexdigest()[:16]
    except OSError as error:
        raise WorkloadError(f"{source.name} is not there: {error.strerror}.") from error
    folder = store.cache_folder() / "workloads" / f"{digest}{source.suffix}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".build-") as place:
            made = Path(place) / "made"
            made.mkdir()
            words = [word.format(folder=made, source=source) for word in command]
            # No network and no look at the reader's own modules: the source is one file.
            around = os.environ | {"GO111MODULE": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
            built = subprocess.run(words, capture_output=True, text=True, timeout=180, env=around)
            if built.returncode:
                raise WorkloadError(f"{source.name} does not compile with {command[0]}: {built.stderr[:500]}")
            with suppress(OSError):  # somebody else was quicker: theirs is the same
                made.rename(folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkloadError(f"{source.name} cannot be compiled: {error}.") from error
    return folder


def run(command: Sequence[str], *, deadline_s: float) -> list[workloads.Record]:
    """Start a program, let it go at once, and return its records.

    Raises WorkloadError when it fails, says nothing, or passes its deadline.
    """
    around = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "JAVA_HOME")}
    around |= {"LC_ALL": "C", launch.MARKER: launch.owner_mark()}
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Not a session of its own: each session is a task group (autogroup), and between two groups
                # nice values and the number of threads count for nothing.
                process_group=0,
                env=around,
                text=True,
            )
        except OSError as error:
            raise WorkloadError(f"{command[0]} does not start: {error.strerror}.") from error
        assert process.stdin and process.stdout
        try:
            with suppress(BrokenPipeError):
                process.stdin.write("go\n")
                process.stdin.flush()
            # Its input stays open until it has ended: closing it is how we end it.
            ended = process.wait(timeout=deadline_s)
            lines = process.stdout.read().splitlines()
        except subprocess.TimeoutExpired:
            raise WorkloadError(
                f"{Path(command[0]).name} did not finish within its deadline of {deadline_s:.0f} s.",
                "Close what else keeps this machine busy.",
            ) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
        if ended or not lines or lines[-1] != "done":
            errors.seek(0)
            said = errors.read(500).decode(errors="replace").strip()
            raise WorkloadError(f"{Path(command[0]).name} ended with status {ended}: {said}")
    return [launch.parse(line) for line in lines if line.split()[0] not in ("ready", "done")]
