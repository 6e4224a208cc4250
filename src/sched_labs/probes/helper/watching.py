"""sched-labs-probe: load one BPF program, let go of every privilege, and report what the program counts.

    stdin    {"version": 6, "probe": "runqlat", "scope": "processes", "pids": [4711], "by": "machine",
             "bins": "fine", "attribution": false, "edges": false, "duration_s": 2, "interval_s": 0.25}
             then the lines `start` and, if the caller wants to end early, `stop`
    stdout   ready; started; counts (several times a second, cumulative); end

The caller names no program and no file, and may watch only processes that are entirely its own ("family":
and what these fork from then on, until it runs as somebody else), or a control group that one of them is in
and that it owns; only root may watch the whole machine.  Threads of other users that take part appear as
"another user's".  All ends when stdin ends, when the measurement ends,
or at a deadline that the kernel keeps (SIGALRM); the window closes by the clock, in the BPF program itself.

A second probe, "switches", takes "stacks" (true or false) instead of "by", "bins", "attribution" and
"edges"; three more, "throttle", "wakeups" and "timeline", take nothing instead of them; the scope of the
first two is "processes".
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import signal
import struct
import time
from typing import Any

from . import protocol
from .btf import UNPRIVILEGED
from .counts import Counts, Switches, Throttled, Timeline, Waits, Wakeups
from .programs import BIN_BITS, COARSE_FOLD, FOLDS, KEYS, Loaded, Window, load, watch
from .protocol import Caller, Gone, Records, Refused

FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, the same on every kernel
LOAD_S = 180  # compiling takes a second natively, and a minute on an emulated machine beside other load
START_S = 120  # how long the caller may take to say `start`
MOST_PIDS = 1024
EVERYBODY = 1 << 32  # no user's number: whose threads root may be told of

# What each probe may be asked, whom it may watch, and how its counts are read.
PROBES: dict[str, tuple[set[str], tuple[str, ...], type[Counts]]] = {
    "runqlat": ({"by", "bins", "attribution", "edges"}, ("processes", "family", "cgroup", "machine"), Waits),
    "switches": ({"stacks"}, ("processes", "family", "machine"), Switches),
    "throttle": (set(), ("processes",), Throttled),
    "wakeups": (set(), ("processes",), Wakeups),
    "timeline": (set(), ("processes", "family"), Timeline),
}


def check(request: dict[str, Any]) -> None:
    """Refused unless every value of the request is one that may be asked for."""
    if type(request.get("probe")) is not str or request["probe"] not in PROBES:
        raise Refused("The request must name one of the probes: {}.".format(", ".join(PROBES)))
    names, scopes, _ = PROBES[request["probe"]]
    protocol.check_names(request, {"probe", "version", "scope", "pids", "duration_s", "interval_s"} | names)
    for name, choices in (("scope", scopes), ("by", ("machine", "cpu", *KEYS)), ("bins", tuple(FOLDS))):
        if name in request and (type(request[name]) is not str or request[name] not in choices):
            raise Refused("{} must be one of {}.".format(name, ", ".join(choices)))
    for name in ("attribution", "edges", "stacks"):
        if name in request and type(request[name]) is not bool:
            raise Refused(f"{name} must be true or false.")
    if request.get("attribution") and request["scope"] == "machine":
        raise Refused(
            "On the whole machine no program is the waiting thread's own, so waits cannot be attributed.",
            "Watch processes or a control group.",
        )
    if request.get("edges") and request["scope"] == "cgroup":
        raise Refused("Who follows whom is not told of a control group.", "Watch processes.")
    bounds = {"processes": (1, MOST_PIDS), "family": (1, MOST_PIDS), "cgroup": (1, 1), "machine": (0, 0)}
    protocol.check_pids(request["pids"], *bounds[request["scope"]])
    protocol.check_number(request, "duration_s", 0.001, protocol.MOST_S)
    protocol.check_number(request, "interval_s", 0.01, 60)


def group_of(pid: int, caller: Caller) -> int:
    """The id of the control group that a process is in.  Refused where it belongs to another user."""
    found = protocol.hierarchies(("cpu",))
    if not found:
        raise Refused("This machine has no control groups for CPU time.", "Watch processes instead.")
    place, first_version, _ = found[0]
    path = protocol.group_path(pid, "cpu" if first_version else "")
    if path is None:
        raise Refused(f"Process {pid} is in no control group for CPU time.")
    try:
        status = os.stat(place + path)
    except OSError as error:
        raise Refused(f"The control group of process {pid} cannot be read: {error.strerror}.") from None
    if caller.uid not in (0, status.st_uid):
        raise Refused(
            f"The control group of process {pid} belongs to another user.",
            "Watch your processes one by one, or a group that was delegated to you.",
        )
    return status.st_ino  # since 5.5 it is the number that the kernel knows the group by


def drop_privileges(caller: Caller, keep: set[int | None]) -> None:
    """Close every descriptor but `keep`, become the caller, and give up all capabilities for good."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd not in keep:
            with contextlib.suppress(OSError):  # the one that listed the folder
                os.close(fd)
    libc = ctypes.CDLL(None, use_errno=True)
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(caller.gid, caller.gid, caller.gid)
        os.setresuid(caller.uid, caller.uid, caller.uid)
    header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0), 8)
    nothing = ctypes.create_string_buffer(24)
    set_no_new_privs, set_dumpable = 38, 4
    if (
        libc.capset(header, nothing)
        or libc.prctl(set_no_new_privs, 1, 0, 0, 0)
        or libc.prctl(set_dumpable, 0, 0, 0, 0)
    ):
        raise Refused("The helper could not drop its privileges.")


def stolen_ns() -> int:
    """Time that the hypervisor took from all CPUs together, as far as it tells; in steps of 10 ms."""
    words = protocol.read_file("/proc/stat").partition("\n")[0].split()
    return int(words[8]) * 10**9 // os.sysconf("SC_CLK_TCK") if len(words) > 8 else 0


class Commands:
    """The lines `start` and `stop` on stdin."""

    def __init__(self, rest: bytes) -> None:
        self.data = rest

    def read(self) -> None:
        more = protocol.read_input()
        if more == b"":
            raise Gone
        self.data += more or b""

    def take(self) -> str | None:
        """The next whole line, None when there is none yet."""
        line, newline, rest = self.data.partition(b"\n")
        if newline and line in (b"start", b"stop"):
            self.data = rest
            return line.decode()
        if newline or len(line) > 16:
            raise Refused("The only commands are start and stop.")
        return None


class Measurement:
    """Wait for `start`, report while the window is open, and say how it ended."""

    def __init__(
        self, request: dict[str, Any], loaded: Loaded, counts: Counts, window: Window, held: dict[int, int]
    ) -> None:
        self.request, self.counts, self.window, self.held = request, counts, window, held
        self.maps = loaded.maps
        self.stolen = 0

    def close(self, now: int) -> None:
        self.window = self.window._replace(close_ns=min(now, self.window.close_ns))
        self.window.into(self.maps["windows"])

    def start(self, now: int, records: Records) -> None:
        if self.window.open_ns:
            raise Refused("The measurement has been started already.")
        duration_s = self.request["duration_s"]
        signal.alarm(math.ceil(duration_s) + 2 * protocol.LAST_WORDS_S)
        self.stolen = stolen_ns()
        self.window = self.window._replace(open_ns=now, close_ns=now + round(duration_s * 1e9))
        self.window.into(self.maps["windows"])
        records.write("started", at_ns=now)

    def report(self, records: Records, record: str, now: int, **values: Any) -> None:
        if self.request.get("attribution"):
            values["stolen_ns"] = stolen_ns() - self.stolen
        values["window_ns"] = min(now, self.window.close_ns) - self.window.open_ns
        values["dropped"] = records.dropped
        last = record == "end"
        records.write(record, may_drop=not last, **self.counts.read(last), **values)

    def run(self, commands: Commands, records: Records) -> None:
        poller = select.poll()
        for fd in (0, *self.held):
            poller.register(fd, select.POLLIN)
        deadline = time.monotonic_ns() + START_S * 10**9
        interval, next_report, why = round(self.request["interval_s"] * 1e9), 0, ""
        while not why:
            command, now, opened = commands.take(), time.monotonic_ns(), self.window.open_ns
            if command == "start":
                self.start(now, records)
                next_report = now + interval
            elif command == "stop":
                if not opened:
                    raise Refused("The measurement has not been started.")
                self.close(now)
                why = "stopped"
            elif not self.held and self.request["scope"] != "machine" and not self.left_children(opened):
                if not opened:
                    raise Refused("All watched processes ended before the measurement.", "Start them first.")
                self.close(now)
                why = "processes ended"
            elif opened and now >= self.window.close_ns:
                why = "duration over"
            elif opened and now >= next_report:
                self.report(records, "counts", now)
                next_report += interval * (1 + (now - next_report) // interval)  # never a burst of late ones
            elif not opened and now >= deadline:
                raise Refused(f"The measurement was not started within {START_S} s.")
            else:
                until = min(self.window.close_ns, next_report) if opened else deadline
                self.wait(poller, until - now, commands, records)
        time.sleep(0.002)  # whatever looked at the clock just before the window closed has written by then
        self.report(records, "end", self.window.close_ns, why=why, unfinished=self.counts.waiting())

    def left_children(self, opened: int) -> bool:
        """Whether those that were named may have left processes that are watched as well."""
        return self.request["scope"] == "family" and bool(opened)

    def wait(self, poller: select.poll, ns: int, commands: Commands, records: Records) -> None:
        """Until then, or until something has happened: a command, an exit, or a reader of what is unread."""
        poller.register(records.fd, select.POLLOUT if records.unread else 0)
        for fd, events in poller.poll(max(0, -(-ns // 10**6))):
            if fd == 0:
                commands.read()
            elif fd == records.fd:
                if events & ~select.POLLOUT:
                    raise Gone
                records.flush()
            else:  # its number may soon mean another process
                watch(self.maps, self.held.pop(fd), False)
                poller.unregister(fd)
                os.close(fd)


def serve(records: Records, environment: dict[str, str]) -> None:
    begun = time.monotonic()
    caller = Caller(environment)
    slot = caller.take_slot("sched-labs-probe")
    request, rest = protocol.read_request()
    check(request)
    signal.alarm(LOAD_S)
    if os.readlink("/proc/self/ns/pid") != FIRST_PID_NAMESPACE:
        raise Refused(
            "This is a container with process ids of its own; the kernel's events carry other numbers.",
            UNPRIVILEGED,
        )
    if request["scope"] == "machine" and caller.uid != 0:
        raise Refused("Only root may watch the whole machine.", "Watch processes that you started.")
    held = {caller.hold(pid): pid for pid in request["pids"]}
    group = 0
    if request["scope"] == "cgroup":
        group = group_of(request["pids"][0], caller)
        if protocol.ended(next(iter(held))):  # that was perhaps another process's group
            raise Refused("The process has ended.", "Start the probe while the processes run.")
    asked = time.monotonic()
    window = Window(group=group, owner=caller.uid or EVERYBODY)
    loaded = load(request, held if request["scope"] in ("processes", "family") else {}, window)
    counts = PROBES[request["probe"]][2](request, loaded.maps)
    drop_privileges(caller, {0, 1, 2, records.fd, slot, counts.symbols, *loaded.links, *held})
    signal.alarm(START_S + protocol.LAST_WORDS_S)
    records.write(
        "ready",
        probe=request["probe"],
        version=protocol.VERSION,
        bin_bits=BIN_BITS,
        fold=FOLDS[request.get("bins", "fine")],
        coarse_fold=COARSE_FOLD,
        interrupts=loaded.interrupts,
        clock="monotonic",
        kept=loaded.kept,
        load_s=round(time.monotonic() - asked, 6),
        ready_s=round(time.monotonic() - begun, 6),
    )
    Measurement(request, loaded, counts, window, held).run(Commands(rest), records)
