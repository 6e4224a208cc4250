"""What both privileged programs share: how they begin, whom they serve, and how they talk.

    stdin    one line of JSON, the request; then what each program takes; its end ends the program
    stdout   one JSON record per line: ready, ...; or error, with `what` and `remedy`

Nothing that the caller does makes a program wait: what is not read is dropped or ends the program.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import resource
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

VERSION = 7
PIDS = 1 << 22  # the kernel's own limit on process ids; watched.bpf.h says the same
MOST_S = 3600
REQUEST_BYTES = 16 * 1024
REQUEST_S = 10  # how long the request may take to arrive
LAST_WORDS_S = 10  # how long the last record may take to be read
SLOTS = 8  # of each program, for each user
SLOT_FILE = "/run/{}.slots"


class Refused(Exception):
    """What the program will or can not do, and what the reader can do about it."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class Gone(Exception):
    """Whoever asked has gone."""


# ---- how a program begins and ends -------------------------------------------------------------------------


def shed() -> None:
    """Let go of what the caller handed down: signals ignored, blocked or waiting, timers, limits, folder."""
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    for number in signal.valid_signals():
        with contextlib.suppress(OSError):  # KILL and STOP
            signal.signal(number, signal.SIG_IGN)  # which drops one that waits behind the mask
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a write says it
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Kernels before 5.11 count maps and programs as locked memory.
    limits = dict.fromkeys(("AS", "CPU", "DATA", "FSIZE", "MEMLOCK", "RTTIME"), resource.RLIM_INFINITY)
    for name, most in {**limits, "CORE": 0, "NOFILE": 4096, "STACK": 8 << 20}.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):  # not even root may go beyond it without CAP_SYS_RESOURCE
            resource.setrlimit(kind, (resource.getrlimit(kind)[1],) * 2)
    os.umask(0o077)
    os.chdir("/")


def run(serve: Callable[[Records, dict[str, str]], None]) -> NoReturn:
    """Begin, serve one caller, and end; the environment is for `serve` only."""
    shed()
    signal.alarm(2 * REQUEST_S)  # the last resort, whatever hangs: SIGALRM ends this process
    environment = dict(os.environ)
    os.environ.clear()  # what BCC loads reads a number of variables; none of the caller's may reach them
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    records, status = Records(), 1
    try:
        if len(sys.argv) > 1:
            raise Refused("The helper takes no arguments.")
        serve(records, environment)
        status = 0
    except Refused as refused:
        with contextlib.suppress(Gone):
            records.write("error", what=refused.what, remedy=refused.remedy)
    except Gone:
        pass
    except Exception:
        signal.alarm(LAST_WORDS_S)
        sys.excepthook(*sys.exc_info())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(2 * LAST_WORDS_S)
    records.finish()
    os._exit(status)  # BCC would close descriptors that it no longer owns


# ---- whom it serves ----------------------------------------------------------------------------------------


class Caller:
    """Whose processes may be touched.  Root may touch everybody's."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.uid, self.gid = os.getuid(), os.getgid()
        if self.uid == 0 and "SUDO_UID" in environment:
            try:
                self.uid, self.gid = int(environment["SUDO_UID"]), int(environment["SUDO_GID"])
            except (KeyError, ValueError):
                raise Refused("sudo does not say who calls (SUDO_UID, SUDO_GID).") from None

    def take_slot(self, program: str) -> int | None:
        """A descriptor that is one of this user's few places while it is open; none for root itself."""
        if self.uid == 0 or os.geteuid() != 0:
            return None
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(SLOT_FILE.format(program), flags, 0o600)
        except OSError as error:
            raise Refused(f"It cannot be counted how many helpers run: {error.strerror}.") from None
        for slot in range(SLOTS):
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self.uid * SLOTS + slot)
                return fd
            except OSError:
                continue
        raise Refused(
            f"{SLOTS} helpers of this kind run for you already.",
            "End one of them; `sched-labs clean` ends orphans.",
        )

    def hold(self, pid: int) -> int:
        """A pidfd of a process of the caller.  While that has not `ended`, the number means this process."""
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise Refused(f"There is no process {pid}.", "Start the probe while the processes run.") from None
        except OSError as error:
            raise Refused(f"Process {pid} cannot be held: {error.strerror}.") from None
        # Read first, look after: were the process gone by now, the answer might be about another one.
        status = dict(line.partition(":")[::2] for line in read_file(f"/proc/{pid}/status").splitlines())
        if not status or ended(fd):
            os.close(fd)
            raise Refused(f"Process {pid} has ended.", "Start the probe while the processes run.")
        # Real, effective, saved and file system id: a set-user-id program is not the caller's own.
        if self.uid != 0 and status["Uid"].split() != [str(self.uid)] * 4:
            os.close(fd)
            raise Refused(f"Process {pid} belongs to another user.", "Watch only processes that you started.")
        return fd


def ended(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def group_path(pid: int | str, controller: str) -> str | None:
    """The path of a process's control group in the hierarchy of a controller; version 2's is called ""."""
    for line in read_file(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return None


def hierarchies(controllers: Iterable[str]) -> list[tuple[str, bool, list[str]]]:
    """(mount point, whether it is version 1, which of the controllers it has) of those that steer CPUs.

    Empty where nothing shares out CPU time.
    """
    unified, steered = None, list[tuple[str, bool, list[str]]]()
    for line in read_file("/proc/self/mounts").splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup":
            # A hierarchy may be mounted more than once: its first place counts.
            known = {name for _, _, names in steered for name in names}
            names = [name for name in controllers if name in options.split(",") and name not in known]
            if names:
                steered.append((place, True, names))
        elif kind == "cgroup2" and unified is None:
            unified = place
    if not any("cpu" in names for _, _, names in steered):
        there = read_file(f"{unified}/cgroup.controllers").split() if unified else []
        names = [name for name in controllers if name in there]
        return [(str(unified), False, names)] if "cpu" in names else []
    return steered


# ---- how it talks ------------------------------------------------------------------------------------------


def read_request() -> tuple[dict[str, Any], bytes]:
    """The request, and the bytes after its line.  Refused when that is too long, late, cut, or no JSON."""
    deadline = time.monotonic() + REQUEST_S
    poller = select.poll()
    poller.register(0, select.POLLIN)
    data = b""
    while b"\n" not in data and len(data) <= REQUEST_BYTES:
        if not poller.poll(max(0, math.ceil(1000 * (deadline - time.monotonic())))):
            raise Refused(f"No request came within {REQUEST_S} s.")
        more = read_input()
        if more == b"":
            raise Refused("The request ended before its first line did.")
        data += more or b""
    line, _, rest = data.partition(b"\n")
    if len(line) > REQUEST_BYTES:
        raise Refused(f"The request is longer than {REQUEST_BYTES} bytes.")

    return parsed(line), rest


def parsed(line: bytes) -> dict[str, Any]:
    """The names and values of a request.  Refused when it is no JSON, or names something twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a name occurs twice")
        return dict(pairs)

    try:
        request = json.loads(line.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise Refused("The request is not one line of JSON.") from None
    if type(request) is not dict:
        raise Refused("The request is not one line of JSON with names and values.")
    return request


def check_names(request: dict[str, Any], names: set[str]) -> None:
    """Refused unless the request has exactly these names, and is of this version."""
    if set(request) != names:
        raise Refused("The request must hold exactly {}.".format(", ".join(sorted(names))))
    if type(request["version"]) is not int or request["version"] != VERSION:
        raise Refused(
            f"The request is of another version than this helper, which is {VERSION}.",
            "Run scripts/provision.sh to install the helper that belongs to this copy of sched-labs.",
        )


def check_number(request: dict[str, Any], name: str, least: float, most: float) -> None:
    value = request[name]
    if type(value) not in (int, float) or not least <= value <= most:  # which NaN is not
        raise Refused(f"{name} must be a number between {least:g} and {most:g}.")


def check_pids(pids: Any, least: int, most: int) -> None:
    if type(pids) is not list or not least <= len(pids) <= most:
        raise Refused(f"pids must be a list of {least} to {most} process ids.")
    if any(type(pid) is not int or not 0 < pid < PIDS for pid in pids) or len(set(pids)) != len(pids):
        raise Refused(f"pids must be different whole numbers between 1 and {PIDS - 1}.")


def read_input() -> bytes | None:
    """What is there on stdin, b"" at its end, None when somebody else has read it."""
    try:
        return os.read(0, 4096)
    except BlockingIOError:
        return None


def reopened(fd: int, access: int) -> int:
    """A descriptor of the caller's pipe that does not block.  Of nothing but a pipe, and only for what it is
    open for: root could open a file for writing that the caller may only read.
    """
    try:
        allowed = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE in (access, os.O_RDWR)
        if allowed and stat.S_ISFIFO(os.fstat(fd).st_mode):
            return os.open(f"/proc/self/fd/{fd}", access | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        pass
    sys.stderr.write("The helper talks through two pipes, one to read from and one to write to.\n")
    os._exit(1)


class Records:
    """JSON lines to the caller, on a descriptor that no library prints to.

    Neither stdin nor stdout can make us wait: they are opened anew, because what the caller holds of them
    stays the caller's to change.  A record that finds an earlier one unread is dropped if it may be, and
    counted.
    """

    def __init__(self) -> None:
        stdin, self.fd = reopened(0, os.O_RDONLY), reopened(1, os.O_WRONLY)
        os.dup2(stdin, 0)
        os.close(stdin)
        os.dup2(2, 1)  # BCC prints warnings to stdout
        self.unread = b""
        self.dropped = 0

    def write(self, record: str, *, may_drop: bool = False, **values: Any) -> None:
        self.flush()
        if may_drop and self.unread:
            self.dropped += 1
            return
        self.unread += json.dumps({"record": record, **values}, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Hand over what is taken.  Gone when nothing ever will be."""
        try:
            while self.unread:
                self.unread = self.unread[os.write(self.fd, self.unread) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unread = b""
            raise Gone from None

    def finish(self) -> None:
        """Let the rest be read, for a while and as long as somebody is there."""
        end = time.monotonic() + LAST_WORDS_S
        poller = select.poll()
        poller.register(self.fd, select.POLLOUT)
        poller.register(0, select.POLLIN)
        with contextlib.suppress(Gone):
            while self.unread and poller.poll(max(0, math.ceil(1000 * (end - time.monotonic())))):
                if read_input() == b"":
                    return
                self.flush()
