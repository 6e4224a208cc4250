"""sched-labs-lend: lend the caller a control group in which it may make others, and take it away again.

    stdin    {"version": 4, "pid": 4711, "duration_s": 3600}, and nothing more
    stdout   ready, with the folders

The loan ends when stdin does, when the process does, after its time, or at any signal that can be caught.

Where it stands: every limit that holds for the process has to hold for the loan.  On version 1 it is made
inside the process's group.  On version 2 a group with processes has no groups with controllers inside, so
that the loan is made beside it, and only where that group has no settings of its own.  All else is refused,
and nothing is made elsewhere instead.  The kernel says which group that is (/proc/<pid>/cgroup), not the
caller.

What the caller may do: it owns the group and may make others inside (on version 2 MOST_GROUPS); the limits
of the group itself stay root's.  The process goes into a group of its own inside, `home`: only from there
may the caller move what it starts (v2), and only a group without processes may have groups with controllers
inside.

How it is taken away: the loan is frozen (v2), the folders become root's, and every process goes back to the
group that the first one came from, and nowhere else.  What cannot go there within MOVING_S is killed.  That
goes on until nothing is left, for GIVING_BACK_S at most; then the group stays, root's own, below the same
limits.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import time

from . import protocol
from .protocol import Caller, Records, Refused, ended, read_file

LOAN = "sched-labs-loan"
MARK = "trusted.sched-labs"  # on a group: the controllers that loans have switched on in it
MOST_GROUPS = 64
CONTROLLERS = ("cpu", "cpuset")
NEW = {
    "cpu.weight": "100",
    "cpuset.cpus": "",
    "cpuset.mems": "",
}  # settings of a group that nobody has changed
HANDED_OVER = ("", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control", "/tasks")
MOVING_S, GIVING_BACK_S = 5, 60
# Nothing can go on after a fault of the program itself; the others end nothing.
NOT_CAUGHT = ("BUS", "FPE", "ILL", "SEGV", "CHLD", "CONT", "PIPE", "URG", "WINCH")


def write_file(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(fd)


def settings_of(group: str) -> list[str]:
    """The files by which a group (v2) is limited, or weighed otherwise than a new one."""
    found = []
    for name in sorted(os.listdir(group)):
        limits = name.endswith((".max", ".high")) or name.startswith("cgroup.max.")
        said = read_file(f"{group}/{name}").splitlines() if limits or name in NEW else []
        if any("max" not in line.split() if limits else line.strip() != NEW[name] for line in said):
            found.append(name)
    return found


class Place:
    """A hierarchy of control groups that steers CPUs."""

    def __init__(self, mount: str, first_version: bool, names: list[str]) -> None:
        self.mount, self.first_version, self.names = mount, first_version, names

    def group_of(self, pid: int) -> str:
        """The folder of the group that a process is in.  Refused where that is out of sight."""
        path = protocol.group_path(pid, self.names[0] if self.first_version else "")
        # A path that leads up and out is that of a group outside of what this mount shows.
        if path is None or ".." in path.split("/") or not os.path.isdir(self.mount + path):
            raise Refused(f"The control group of process {pid} cannot be seen in {self.mount}.")
        return (self.mount + path).rstrip("/")

    def above(self, group: str) -> str:
        """Where a loan stands whose process is in `group`: below every limit of that.  Or refused."""
        if self.first_version or group == self.mount:
            return group
        if own := settings_of(group):
            raise Refused(
                f"{group} has settings of its own ({', '.join(own)}), which would not hold beside it.",
                "Start the program from a login session, or have a group delegated to it.",
            )
        return os.path.dirname(group)

    def move(self, pidfd: int, pid: int, group: str) -> bool:
        """Move a process; False when it has ended.

        The kernel takes a number.  Should the process end between our looks, a stranger may have it by then,
        and is put to where its parent is: there processes begin.
        """
        if ended(pidfd):
            return False
        write_file(f"{group}/cgroup.procs", str(pid))
        if not ended(pidfd):
            return True
        with contextlib.suppress(OSError, Refused, IndexError):
            if self.group_of(pid) == group:
                parent = int(read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
                write_file(f"{self.group_of(parent)}/cgroup.procs", str(pid))
        return False

    def downward(self, group: str) -> list[str]:
        """The groups from the topmost to this one."""
        line = [group]
        while line[0] != self.mount:
            line.insert(0, os.path.dirname(line[0]))
        return line

    def switch_on(self, above: str) -> None:
        """Let groups in `above` have the controllers: they come down from the topmost group."""
        for group in self.downward(above):
            for name in self.names:
                if name not in read_file(f"{group}/cgroup.subtree_control").split():
                    mark(group, {*marked(group), name})
                    write_file(f"{group}/cgroup.subtree_control", f"+{name}")

    def switch_off(self, above: str) -> None:
        """Switch off what loans have switched on, and what is of no use to anybody by now."""
        for group in reversed(self.downward(above)):
            for name in marked(group):
                with contextlib.suppress(OSError):  # a group inside hands it on, or this one has gone
                    inside = [entry.path for entry in os.scandir(group) if entry.is_dir()]
                    if not any(
                        setting.startswith(f"{name}.") for each in inside for setting in settings_of(each)
                    ):
                        write_file(f"{group}/cgroup.subtree_control", f"-{name}")
                        mark(group, set(marked(group)) - {name})


def marked(group: str) -> list[str]:
    try:
        return os.getxattr(group, MARK).decode().split()
    except OSError:
        return []


def mark(group: str, names: set[str]) -> None:
    os.setxattr(group, MARK, " ".join(sorted(names)).encode())


class Loan:
    """A group of the caller's in each hierarchy that steers CPUs, and the way back."""

    def __init__(self, caller: Caller, pid: int, pidfd: int) -> None:
        self.caller, self.pid, self.pidfd = caller, pid, pidfd
        self.lent: list[
            tuple[Place, str, str]
        ] = []  # where, the folder, the group that the process came from
        places = [Place(*found) for found in protocol.hierarchies(CONTROLLERS)]
        if not places:
            raise Refused("This machine has no control groups for CPU time.")
        try:
            for place in places:
                self.lend(place)
        except OSError as error:
            self.end()
            raise Refused(f"No control group can be lent: {error.strerror} ({error.filename}).") from None
        except BaseException:
            self.end()
            raise

    def lend(self, place: Place) -> None:
        came_from = place.group_of(self.pid)
        above = place.above(came_from)
        self.tidy(above)
        folder = f"{above}/{LOAN}-{self.caller.uid}-{os.getpid()}"
        self.lent.append((place, folder, came_from))
        if not place.first_version:
            place.switch_on(above)
        for group in (folder, f"{folder}/home"):
            os.mkdir(group)
            os.chmod(group, 0o755)
            if place.first_version and "cpuset" in place.names:  # a new one has neither CPUs nor memory
                for name in ("cpuset.cpus", "cpuset.mems"):
                    write_file(f"{group}/{name}", read_file(f"{above}/{name}").strip())
            elif not place.first_version and group == folder:
                write_file(f"{group}/cgroup.max.descendants", str(MOST_GROUPS))
                write_file(f"{group}/cgroup.subtree_control", " ".join(f"+{name}" for name in place.names))
        if not place.move(self.pidfd, self.pid, f"{folder}/home"):
            raise Refused(f"Process {self.pid} has ended.")
        for group in (folder, f"{folder}/home"):
            hand_over(group, self.caller.uid, self.caller.gid)

    def tidy(self, above: str) -> None:
        """What a helper of this user left there that was killed, as far as nothing lives in it."""
        for name in os.listdir(above):
            kind, _, number = name.rpartition("-")
            if kind == f"{LOAN}-{self.caller.uid}" and not os.path.exists(f"/proc/{number}"):
                for group, _, _ in os.walk(f"{above}/{name}", topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(group)

    def wait(self, signals: int, seconds: float) -> None:
        """Until stdin ends, the process does, a signal comes, or the time is over."""
        poller = select.poll()
        for fd in (0, signals, self.pidfd):
            poller.register(fd, select.POLLIN)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for fd, _ in poller.poll(math.ceil(1000 * max(0.0, end - time.monotonic()))):
                if fd != 0 or protocol.read_input() == b"":
                    return

    def end(self) -> None:
        """Give everything back, however slowly the caller lets us run."""
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, -20)
        for place, folder, came_from in self.lent:
            self.take_away(place, folder, came_from)
            if not place.first_version:
                place.switch_off(os.path.dirname(folder))
        self.lent = []

    @staticmethod
    def take_away(place: Place, folder: str, came_from: str) -> None:
        begun, pause_s = time.monotonic(), 0.001
        with contextlib.suppress(OSError):  # version 1 has none; there nothing runs before us, at least
            write_file(f"{folder}/cgroup.freeze", "1")
        while os.path.isdir(folder):
            late_s = time.monotonic() - begun
            if late_s > GIVING_BACK_S:
                return
            groups = [group for group, _, _ in os.walk(folder)]
            for group in groups:
                hand_over(group, 0, 0)
            if late_s > MOVING_S:
                with contextlib.suppress(OSError):  # from 5.14 on; it finds whom a number does not
                    write_file(f"{folder}/cgroup.kill", "1")
            for group in reversed(groups):
                for pid in map(int, read_file(f"{group}/cgroup.procs").split()):
                    with contextlib.suppress(OSError, Refused):  # it has ended, or cannot go there
                        send_back(place, pid, folder, came_from, kill=late_s > MOVING_S)
                with contextlib.suppress(OSError):  # somebody is in it
                    os.rmdir(group)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)


def hand_over(group: str, uid: int, gid: int) -> None:
    for name in HANDED_OVER:
        with contextlib.suppress(OSError):
            os.chown(group + name, uid, gid)


def send_back(place: Place, pid: int, folder: str, came_from: str, *, kill: bool) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        if not f"{place.group_of(pid)}/".startswith(f"{folder}/"):
            return  # the number is another process's by now
        if kill:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        else:
            place.move(pidfd, pid, came_from)
    finally:
        os.close(pidfd)


def catch_signals() -> int:
    """A descriptor that can be read after any signal that would end or stop this program."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in signal.valid_signals() - {getattr(signal, f"SIG{name}") for name in NOT_CAUGHT}:
        with contextlib.suppress(OSError):  # KILL and STOP
            signal.signal(number, lambda *_: None)
    return reading


def serve(records: Records, environment: dict[str, str]) -> None:
    caller = Caller(environment)
    caller.take_slot("sched-labs-lend")  # ours until we end
    request, _ = protocol.read_request()
    protocol.check_names(request, {"version", "pid", "duration_s"})
    protocol.check_pids([request["pid"]], 1, 1)
    protocol.check_number(request, "duration_s", 0.001, protocol.MOST_S)
    if caller.uid == 0:
        raise Refused("Root needs no group to be lent.")
    if os.geteuid() != 0 or resource.getrlimit(resource.RLIMIT_CPU)[0] != resource.RLIM_INFINITY:
        raise Refused(
            "Only root, with no limit on its CPU time, can lend a group and be sure to take it back."
        )
    pidfd = caller.hold(request["pid"])
    signals = catch_signals()
    signal.alarm(math.ceil(request["duration_s"]))  # caught, too
    loan = Loan(caller, request["pid"], pidfd)
    try:
        folders = [folder for _, folder, _ in loan.lent]
        records.write("ready", version=protocol.VERSION, folders=folders)
        loan.wait(signals, request["duration_s"])
    finally:
        loan.end()
