"""A running QEMU, from its start to the guest's last word.

Nothing is written to disk: the initramfs, the console, the answers and the window are files in memory, and
QEMU is killed as soon as the answer is complete, and by the kernel when this process dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..workloads.launch import MARKER, owner_mark
from . import stillclock, wire
from .errors import GuestError, QemuError, SnapshotError
from .qemu import BOARDS, DETERMINISTIC, VM_EMULATED, VM_KVM, Files, Guest, command

Say = Callable[[str, float | None], None]
"""Called with what is going on and the share that is done (0 to 1), or None where nobody can know."""

BOOT_DEADLINE_S = {VM_KVM: 30.0, VM_EMULATED: 90.0, DETERMINISTIC: 180.0}
_BROKEN = re.compile(
    rb"Kernel panic - not syncing[^\r\n]*|\bOops: [^\r\n]*|Internal error: [^\r\n]*|"
    rb"BUG: (?:unable to handle|kernel NULL pointer)[^\r\n]*"
)
_CONSOLE_KEPT = 64 * 1024
_LOOK_EVERY_S = 0.02
_PATIENCE_S = 60.0
_WAITS = "guest-panicked"  # as QEMU calls a guest that has stopped itself


@dataclass
class Told:
    """What a guest said of its job, and how long it took to its first word."""

    result: Any = None
    error: dict[str, str] | None = None
    up: dict[str, Any] = field(default_factory=dict)
    boot_s: float = 0.0
    restored: bool = False


class _Line:
    """What the guest writes to one serial port, line by line.

    A file in memory, not a socket or a pipe: those fill up where this process is slow to read, and the guest
    then sees its port accept a byte later, or never.  Deterministic runs would no longer be equal, and on a
    busy machine answers were lost.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.text = b""
        self._read = 0

    def read(self) -> None:
        """Takes what is new."""
        while piece := os.pread(self.file, 1 << 20, self._read):
            self._read += len(piece)
            self.text += piece

    def take(self) -> bytes:
        text, self.text = self.text, b""
        return text

    def lines(self) -> Iterator[bytes]:
        *whole, self.text = self.text.split(b"\n")
        yield from whole


class _Monitor:
    """QEMU's monitor (QMP): a line of JSON for each command, answer and event.

    Raises EOFError when QEMU has ended.
    """

    def __init__(self, line: socket.socket) -> None:
        line.settimeout(_PATIENCE_S)
        self._line = line
        self._text = b""
        self.events: list[str] = []

    def ask(self, command: str, arguments: Mapping[str, Any] | None = None, files: Sequence[int] = ()) -> Any:
        """The command's answer; QemuError when it is refused.  files: descriptors for QEMU."""
        words = json.dumps({"execute": command, "arguments": arguments or {}}).encode() + b"\n"
        with contextlib.suppress(OSError):  # QEMU has ended: the next line says so
            socket.send_fds(self._line, [words], files)
        while True:
            told = self._next()
            if "return" in told:
                return told["return"]
            if "error" in told:
                raise QemuError(f"QEMU refused {command}: {told['error'].get('desc')}.", "Try it again.")

    def listen(self, patience_s: float) -> None:
        """Takes an event, if one comes within that time."""
        if b"\n" in self._text or select.select([self._line], [], [], patience_s)[0]:
            self._next()

    def _next(self) -> dict[str, Any]:
        while b"\n" not in self._text:
            try:
                piece = self._line.recv(1 << 16)
            except TimeoutError:
                raise QemuError("QEMU does not answer its monitor.", "Run it again.") from None
            except ConnectionError:
                piece = b""
            if not piece:
                raise EOFError
            self._text += piece
        line, _, self._text = self._text.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        if "event" in told:
            self.events.append(told["event"])
        return told


class Emulator:
    """A guest under QEMU: booted or restored until it waits for a job, handed one, and listened to.

    Raises GuestError when the guest breaks (panic, oops, silence, half a message), with the console's last
    lines, QemuError when QEMU itself refuses, and SnapshotError when only saving or restoring fails.
    After the `with` QEMU is gone, whatever happened.
    """

    def __init__(self, guest: Guest, until: float, say: Say) -> None:
        """until: the deadline, on the monotonic clock."""
        self.guest = guest
        self._until = until
        self._say = say
        self._started = time.monotonic()
        self._seen = b""
        self._restored = False
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> Emulator:
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def boot(self, initramfs: list[bytes]) -> None:
        """Returns when the guest has come up and stopped itself, to be saved or handed a job."""
        packed = self._memory("initramfs")
        for part in initramfs:
            os.write(packed, part)
        self._start(initramfs=packed)
        self._say("booting", None)
        while "STOP" not in self._monitor.events:
            self._look(coming_up=True)

    def save(self, state: int) -> None:
        """Into that file, when the guest has stopped."""
        try:
            # By default QEMU writes at the pace of a network.
            self._monitor.ask("migrate-set-parameters", {"max-bandwidth": 1 << 40})
            self._monitor.ask("getfd", {"fdname": "state"}, files=[state])
            self._monitor.ask("migrate", {"uri": "fd:state"})
            while (told := self._monitor.ask("query-migrate"))["status"] not in ("completed", "failed"):
                self._pause("QEMU was still saving it at the deadline.")
        except (EOFError, QemuError) as error:
            raise SnapshotError(f"QEMU cannot save the guest: {error or self._complaint()}") from None
        if told["status"] == "failed":
            raise SnapshotError(f"QEMU cannot save the guest: {told.get('error-desc', 'no reason given')}.")

    def restore(self, state: int) -> None:
        """Begins to load that file; `wait_until_loaded()` tells when it is done."""
        os.lseek(state, 0, os.SEEK_SET)
        self._restored = True
        self._start(incoming=state)

    def wait_until_loaded(self) -> None:
        """Returns when the guest is where it had stopped itself."""
        try:
            while (status := self._status()) == "inmigrate":
                self._pause("QEMU was still loading it at the deadline.")
        except (EOFError, QemuError):
            raise SnapshotError(f"QEMU refused it: {self._complaint() or 'no reason given'}") from None
        if status != _WAITS:
            raise SnapshotError(f"The guest in it does not wait for a job, it is {status}.")

    def work(self, parcel: bytes) -> Told:
        """Hands the waiting guest its job and returns what it said of it."""
        os.pwrite(self._window, parcel, 0)
        with contextlib.suppress(EOFError):  # that QEMU has ended is noticed below
            self._monitor.ask("cont")
        told = Told(restored=self._restored)
        while True:
            for what, payload in self._look(coming_up=not told.up):
                if what == "up":
                    told.up, told.boot_s = payload, time.monotonic() - self._started
                    self._say(f"{payload['release']} is up", 0.0)
                elif what == "result":
                    told.result = payload
                elif what == "error":
                    told.error = payload
                elif what == "end":
                    if payload["status"] and told.error is None:
                        raise GuestError(
                            f"The job's process ended with wait status {payload['status']}.", "Run it again."
                        )
                    return told

    def _memory(self, name: str) -> int:
        file = os.memfd_create(name)
        self._undo.callback(os.close, file)
        return file

    def _start(self, initramfs: int | None = None, incoming: int | None = None) -> None:
        self._console, self._answers = (_Line(self._memory(name)) for name in ("console", "answers"))
        self._window = self._memory("window")
        os.ftruncate(self._window, self.guest.window_mib << 20)
        self._stderr = self._memory("stderr")
        ours, theirs = socket.socketpair()
        self._undo.enter_context(ours)
        with theirs:
            inherited = (self._console.file, self._answers.file, self._window, theirs.fileno())
            files = Files(*inherited, initramfs, incoming)
            # setpriv: the kernel kills QEMU when this process dies, even by SIGKILL.
            self._qemu = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command(self.guest, files)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._stderr,
                pass_fds=[file for file in files if file is not None],
                start_new_session=True, env=_environment(self.guest),
            )  # fmt: skip
        self._undo.callback(_end, self._qemu)
        self._monitor = _Monitor(ours)
        with contextlib.suppress(EOFError):
            self._monitor.ask("qmp_capabilities")

    def _status(self) -> str:
        return str(self._monitor.ask("query-status")["status"])

    def _pause(self, too_late: str) -> None:
        if time.monotonic() > self._until:
            raise SnapshotError(too_late)
        time.sleep(_LOOK_EVERY_S / 4)

    def _complaint(self) -> str:
        return os.pread(self._stderr, 1 << 16, 0).decode(errors="replace").strip()

    def _look(self, coming_up: bool) -> list[tuple[str, Any]]:
        """What the guest has said since the last look."""
        now = time.monotonic()
        until = self._until
        if coming_up:
            until = min(until, self._started + BOOT_DEADLINE_S[self.guest.timing])
        if now >= until:
            doing = "had not come up" if coming_up else "was still working on its job"
            raise GuestError(
                f"The guest {doing} after {now - self._started:.0f} s.",
                "Allow more time (deadline_s), or close what else keeps this machine busy.",
                _tail(self._seen),
                again=now < self._until,
            )
        try:
            self._monitor.listen(_LOOK_EVERY_S)
            running = True
        except EOFError:
            running = False
        messages = self._messages()  # read last: what QEMU wrote before its end is there by now
        if messages or running:
            return messages
        status, said = self._qemu.wait(), self._complaint()
        if status and coming_up and not self._seen.strip():
            raise QemuError(
                f"QEMU ended with status {status}: {said or 'no message'}", "Check that QEMU is whole."
            )
        raise GuestError("The guest switched itself off before it had answered.", said, _tail(self._seen))

    def _messages(self) -> list[tuple[str, Any]]:
        shared = not BOARDS[self.guest.architecture].separate_port
        if not shared:
            self._console.read()
            self._hear(self._console.take())
        messages = []
        line = self._console if shared else self._answers
        line.read()
        for text in line.lines():
            message = wire.decode(text)
            told = wire.decode_progress(text) if message is None else None
            if message:
                messages.append(message)
            elif told:
                self._say(*told)
            elif shared:
                self._hear(text + b"\n")
            else:
                raise GuestError("The guest sent half a message.", "Run it again.", _tail(self._seen + text))
        return messages

    def _hear(self, text: bytes) -> None:
        """What the kernel said on its console; GuestError when it is its last words."""
        self._seen = (self._seen + text)[-_CONSOLE_KEPT:]
        if _BROKEN.search(self._seen):
            time.sleep(1.0)  # a kernel that breaks prints for a while; its last words help
            self._console.read()
            raise _broken(self._seen + self._console.text)


def _environment(guest: Guest) -> dict[str, str]:
    words = {"PATH": os.environ.get("PATH", os.defpath), MARKER: owner_mark()}
    return words | ({"LD_PRELOAD": str(stillclock.library())} if guest.timing == DETERMINISTIC else {})


def _end(qemu: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(qemu.pid, signal.SIGKILL)
    qemu.wait()


def _broken(console: bytes) -> GuestError:
    match = _BROKEN.search(console)
    first = match[0].decode(errors="replace").strip() if match else "it broke"
    remedy = "Run it again; a guest that breaks every time deserves a report."
    if (
        b"Out of memory" in console
        or b"System is deadlocked on memory" in console
        or b"No working init" in console
    ):
        remedy = "Give the guest more memory (memory_mib)."
    return GuestError(f"The guest's kernel broke: {first}", remedy, _tail(console))


def _tail(console: bytes, lines: int = 20) -> str:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1bc|\r", "", console.decode(errors="replace"))
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
