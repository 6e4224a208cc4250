"""The way to the privileged programs: find them, start them, exchange lines with them, and end them.

Each is always a separate process. Root starts it directly; everybody else goes through `sudo -n` to
the copy that `scripts/provision.sh` installed, because a rule without a password on code that the user can
change would make the user root.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..core import jsontext
from ..core.errors import ParameterError, ProbeError
from ..machine import files
from ..machine.bpf import bcc_module
from ..workloads.launch import MARKER, owner_mark
from .helper.protocol import VERSION

PYTHON = "/usr/bin/python3"  # the system's: BCC belongs to it
INSTALLED = Path("/usr/local/lib/sched-labs")
OURS = Path(__file__).parent / "helper"
FILES = ("sched-labs-*", "*.py", "*.c", "*.h")  # that are the helper, wherever in its folder they are
PROBE, LEND = "sched-labs-probe", "sched-labs-lend"
PROVISION = (
    "Run scripts/provision.sh once: it says what it installs, and `scripts/provision.sh --remove` undoes it."
)
FALLBACK = "The schedstat probe needs no privilege and measures queueing waits here."

_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, the same on every kernel
_CAP_SYS_ADMIN, _CAP_PERFMON, _CAP_BPF = 21, 38, 39
_READY_S = 80.0  # longer than the helper gives itself
_SILENT_S = 15.0


@dataclass(frozen=True)
class Availability:
    """Whether a probe can watch here, and if not why, and what the reader can do about it."""

    ok: bool
    why: str = ""
    remedy: str = ""


def available() -> Availability:
    """Whether the helper would work here, as far as that shows without loading anything (some 20 ms)."""
    if not files.exists("/sys/kernel/btf/vmlinux"):
        return Availability(False, "This kernel carries no BTF, the description of its own types.", FALLBACK)
    if files.link("/proc/self/ns/pid") not in (_FIRST_PID_NAMESPACE, None):
        return Availability(False, "This is a container with process ids of its own.", FALLBACK)
    if bcc_module() is None:
        return Availability(False, "BCC is not installed for the system's Python.", PROVISION)
    if os.geteuid() == 0:
        if not _capable():
            return Availability(False, "Root may not load BPF programs in this container.", FALLBACK)
        return Availability(True)
    try:
        command = helper_command()
    except ProbeError as error:
        return Availability(False, error.what, error.remedy)
    # Listing asks the rules without running anything.
    answer = subprocess.run(
        [command[0], "-n", "-l", *command[2:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        check=False,
    )
    if answer.returncode:
        return Availability(False, *_NO_RULE)
    return Availability(True)


def helper_command(program: str = PROBE) -> list[str]:
    """The command that starts a privileged program for this user. ProbeError when there is none to start."""
    installed = fingerprint(INSTALLED)
    ours = fingerprint(OURS)
    if os.geteuid() == 0:
        return [PYTHON, "-I", str((INSTALLED if installed == ours else OURS) / program)]
    if installed is None:
        raise ProbeError("The privileged helper is not installed.", PROVISION)
    if installed != ours:
        raise ProbeError(
            f"The privileged helper in {INSTALLED} belongs to another version of sched-labs.",
            "Run scripts/provision.sh again to install the one that belongs to this copy.",
        )
    sudo = shutil.which("sudo", path="/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin")
    if sudo is None:
        raise ProbeError(
            "There is no sudo, through which an ordinary user starts the privileged helper.", PROVISION
        )
    if "\nNoNewPrivs:\t1" in (files.read("/proc/self/status") or ""):
        raise ProbeError(
            "This process was started so that it cannot gain privileges (no_new_privs).", FALLBACK
        )
    return [sudo, "-n", PYTHON, "-I", str(INSTALLED / program)]


def fingerprint(folder: Path) -> str | None:
    """A hash over the names and contents of the helper's files, None when they cannot be read."""
    digest = hashlib.sha256()
    try:
        for path in sorted(path for kind in FILES for path in folder.rglob(kind)):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode())
            digest.update(content)
        (folder / PROBE).stat()
    except OSError:
        return None
    return digest.hexdigest()


class Channel:
    """A running helper: JSON records from it, command lines to it. Leaving the context ends the helper."""

    def __init__(self, request: dict[str, Any], program: str = PROBE) -> None:
        command = helper_command(program)
        self._pending = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                # A Ctrl-C in a terminal is for us: we ask the helper for what it has counted so far.
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            self._errors.close()
            raise ProbeError(f"The privileged helper does not start: {error.strerror}.", PROVISION) from error
        try:
            self.send(json.dumps({"version": VERSION, **request}))
            self.ready = self.receive("ready", timeout_s=_READY_S)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process that we started: the helper, or the sudo that runs it."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it runs no longer."""
        return self._process.poll() is not None

    def send(self, line: str) -> None:
        """Write one line to the helper. A helper that has gone shows when the next record is read."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")

    def receive(self, *kinds: str, timeout_s: float = _SILENT_S) -> dict[str, Any]:
        """The next record, of one of `kinds`. ProbeError for another one, for silence and for an end."""
        deadline = time.monotonic() + timeout_s
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise ProbeError(f"The privileged helper has said nothing for {timeout_s:.0f} s.", FALLBACK)
            more = os.read(pipe, 1 << 16)
            if not more:
                raise self._ended()
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            record = jsontext.parse(line)
            kind = record["record"]
            if kind == "error":
                raise ProbeError(str(record["what"]), str(record["remedy"]))
        except (ValueError, TypeError, KeyError):
            raise ProbeError(
                f"The privileged helper wrote what is no record: {line[:200]!r}.", PROVISION
            ) from None
        if kind not in kinds:
            raise ProbeError(f"The privileged helper wrote a record {kind!r} out of turn.", PROVISION)
        return dict(record)

    def close(self) -> None:
        """End the helper: it ends when its stdin does. May be called again."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe and not pipe.closed:
                pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            try:
                self._process.kill()
            except PermissionError:  # sudo belongs to root; the helper's own deadline ends both
                return
            self._process.wait()
        self._errors.close()

    def _ended(self) -> ProbeError:
        status = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip()
        refusals = ("password", "not allowed", "may not run", "sudoers")
        if said.startswith("sudo:") and any(word in said for word in refusals):
            return ProbeError(*_NO_RULE)
        last = said.splitlines()[-1] if said else f"it said nothing, status {status}"
        return ProbeError(f"The privileged helper ended unexpectedly ({last}).", FALLBACK)


def of_processes(probe: str, pids: Sequence[int], duration_s: float) -> dict[str, Any]:
    """The request for a probe on processes, whose window closes after `duration_s` at the latest.

    Raises ParameterError for values that no probe could use.
    """
    wanted = list(dict.fromkeys(pids))
    if not wanted or not all(isinstance(pid, int) and pid > 0 for pid in wanted):
        raise ParameterError(f"pids must be one or more process ids, not {list(pids)!r}.")
    if not (math.isfinite(duration_s) and 0.001 <= duration_s <= 3600):
        raise ParameterError(f"duration_s must lie between 0.001 and 3600 seconds, not at {duration_s}.")
    request = {"scope": "processes", "pids": wanted, "duration_s": float(duration_s), "interval_s": 60}
    return {"probe": probe, **request}


class Window:
    """A loaded probe that counts from `start()` on.  Leaving the context takes it out of the kernel."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._started = False
        self._ended_with: dict[str, Any] | None = None
        self._channel = Channel(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def start(self) -> None:
        """Open the window; it is open when this returns.  Nothing that began before it counts."""
        if self._started:
            raise ProbeError("The measurement has been started already.", "Watch again for another one.")
        self._channel.send("start")
        self._channel.receive("started")
        self._started = True

    def _last(self) -> dict[str, Any]:
        """Close the window, if it is still open, and return the probe's last record.  May be called again."""
        self._must_be_started()
        if self._ended_with is None:
            self._channel.send("stop")
        while self._ended_with is None:
            record = self._channel.receive("counts", "end", timeout_s=15)
            self._ended_with = record if record["record"] == "end" else None
        return self._ended_with

    def _must_be_started(self) -> None:
        if not self._started:
            raise ProbeError("The measurement has not been started.", "Call start() first.")


_NO_RULE = ("sudo does not let this user start the privileged helper without a password.", PROVISION)


def _environment() -> dict[str, str]:
    """The mark by which `sched-labs clean` finds orphans; above all no SUDO_UID of a sudo around us."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", MARKER: owner_mark()}


def _capable() -> bool:
    for line in (files.read("/proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return bool(held >> _CAP_SYS_ADMIN & 1 or (held >> _CAP_BPF & 1 and held >> _CAP_PERFMON & 1))
    return True  # a kernel that does not tell: loading will
