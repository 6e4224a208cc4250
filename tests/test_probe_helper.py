"""The privileged programs by themselves: what they accept, what they let go of, what they read from BTF."""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from adversary import helper

from sched_labs.probes import channel
from sched_labs.probes.helper import programs, protocol, watching
from sched_labs.probes.helper.btf import PLACE, Btf, find_fields
from sched_labs.probes.helper.protocol import VERSION, Caller, Refused

REQUEST: dict[str, Any] = {
    "probe": "runqlat",
    "version": VERSION,
    "scope": "processes",
    "by": "machine",
    "bins": "fine",
    "attribution": False,
    "edges": False,
    "pids": [1],
    "duration_s": 1.0,
    "interval_s": 0.1,
}


def converse(data: bytes, *arguments: str, program: str = channel.PROBE) -> dict[str, Any]:
    """The first record of a helper that is given `data` and then the end of its stdin."""
    done = subprocess.run(
        [channel.PYTHON, "-I", str(channel.OURS / program), *arguments],
        input=data,
        capture_output=True,
        timeout=30,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    return dict(json.loads(line))


# ---- requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"no json\n", b"\xff\xfe\n", b"[1]\n", b"{}\n", b"[" * 5000 + b"\n",
        b'{"probe": "runqlat", "probe": "runqlat"}\n', b'{"probe": "runqlat"', b"", b"x" * 20_000 + b"\n",
        b"x" * 20_000,
    ],
    ids=lambda line: repr(line[:12]),
)  # fmt: skip
def test_refuses_what_is_no_request(line: bytes) -> None:
    assert converse(line)["record"] == "error"
    assert converse(line, program=channel.LEND)["record"] == "error"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("probe", "offcpu"),
        ("probe", "/etc/passwd"),
        ("probe", 1),
        ("version", 1),
        ("scope", "everything"),
        ("scope", None),
        ("scope", "machine"),
        ("by", "colour"),
        ("by", 1),
        ("bins", "coarse"),
        ("attribution", 1),
        ("edges", 0),
        ("attribution", "yes"),
        ("version", True),
        ("version", "1"),
        ("pids", []),
        ("pids", 1),
        ("pids", ["1"]),
        ("pids", [True]),
        ("pids", [1.0]),
        ("pids", [0]),
        ("pids", [-1]),
        ("pids", [1 << 22]),
        ("pids", [1, 1]),
        ("pids", list(range(1, 1026))),
        ("duration_s", 0),
        ("duration_s", -1),
        ("duration_s", 1e9),
        ("duration_s", float("nan")),
        ("duration_s", float("inf")),
        ("duration_s", "1"),
        ("duration_s", True),
        ("interval_s", 0),
        ("interval_s", None),
        ("program", "int main() {}"),
    ],
)
def test_refuses_wrong_values(name: str, value: object) -> None:
    watching.check(REQUEST)
    with pytest.raises(Refused):
        watching.check({**REQUEST, name: value})


SWITCHES: dict[str, Any] = {
    "probe": "switches",
    "version": VERSION,
    "scope": "processes",
    "pids": [1],
    "stacks": True,
    "duration_s": 1.0,
    "interval_s": 0.1,
}


@pytest.mark.parametrize(
    ("name", "value"), [("stacks", 1), ("scope", "cgroup"), ("by", "thread"), ("attribution", False)]
)
def test_refuses_wrong_values_of_switches(name: str, value: object) -> None:
    watching.check(SWITCHES)
    with pytest.raises(Refused):
        watching.check({**SWITCHES, name: value})


def test_refuses_a_missing_value() -> None:
    for name in REQUEST:
        with pytest.raises(Refused, match=r"exactly|must name"):
            watching.check({k: v for k, v in REQUEST.items() if k != name})


def test_refuses_arguments() -> None:
    assert "no arguments" in converse(json.dumps(REQUEST).encode() + b"\n", "--help")["what"]


def test_refuses_a_request_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    before = os.dup(0)
    try:
        os.dup2(reading, 0)
        os.set_blocking(0, False)
        os.write(writing, b'{"probe"')
        monkeypatch.setattr(protocol, "REQUEST_S", 0.05)
        with pytest.raises(Refused, match="No request came"):
            protocol.read_request()
    finally:
        os.dup2(before, 0)
        for fd in (reading, writing, before):
            os.close(fd)


def test_refuses_a_dead_process() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    record = converse(json.dumps({**REQUEST, "pids": [child.pid]}).encode() + b"\n")
    # A container's processes are refused before anybody looks at one.
    contained = str(Path("/proc/self/ns/pid").readlink()) != watching.FIRST_PID_NAMESPACE
    assert ("container" if contained else str(child.pid)) in record["what"] and record["remedy"]


def test_refuses_a_zombie() -> None:
    child = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(Refused, match="has ended"):
            Caller({}).hold(child.pid)
    finally:
        child.wait()


def test_refuses_a_process_of_another_user() -> None:
    caller = Caller({})
    caller.uid = 54321
    with pytest.raises(Refused, match="belongs to another user"):
        caller.hold(os.getpid())


def test_the_caller_is_who_called_sudo() -> None:
    if os.getuid() != 0:
        # Then nobody but the user is believed.
        assert Caller({"SUDO_UID": "0", "SUDO_GID": "0"}).uid == os.getuid()
        return
    caller = Caller({"SUDO_UID": "1234", "SUDO_GID": "5678"})
    assert (caller.uid, caller.gid) == (1234, 5678)
    assert Caller({}).uid == 0
    for broken in ({"SUDO_UID": "1234"}, {"SUDO_UID": "x", "SUDO_GID": "1"}):
        with pytest.raises(Refused):
            Caller(broken)


def test_the_helper_is_python_3_9() -> None:
    files = [*channel.OURS.glob("*.py"), channel.OURS / channel.PROBE, channel.OURS / channel.LEND]
    assert len(files) >= 7
    for path in files:
        ast.parse(path.read_text(), feature_version=(3, 9))


# ---- what the caller hands down ---------------------------------------------------------------------------


CAP_SYS_RESOURCE = 24


def spoil() -> None:
    """What a caller can leave to the program that it starts, short of what only root can undo."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for number in (signal.SIGALRM, signal.SIGTERM):
        os.kill(os.getpid(), number)  # it waits until it is let through
    resource.setrlimit(resource.RLIMIT_CPU, (500, 1000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    os.umask(0)


@pytest.mark.parametrize("program", [channel.PROBE, channel.LEND])
def test_nothing_that_the_caller_hands_down_is_kept(program: str) -> None:
    with helper(program=program, preexec_fn=spoil) as running:
        running.until(lambda: "\nUmask:\t0077" in running.status, "has begun")
        said = dict(line.split(":\t", 1) for line in running.status.splitlines())
        assert int(said["SigBlk"], 16) == 0
        ignored = {number + 1 for number in range(64) if int(said["SigIgn"], 16) >> number & 1}
        # Python leaves SIGPIPE ignored: a write says it.
        # Signals 32 and 33 are the C library's own: no program sets them, a caller may leave one ignored.
        assert ignored & signal.valid_signals() == {signal.SIGPIPE}
        limits = Path(f"/proc/{running.process.pid}/limits").read_text()
        (soft, hard) = next(line.split()[3:5] for line in limits.splitlines() if "cpu time" in line)
        assert soft == hard == ("unlimited" if int(said["CapEff"], 16) >> CAP_SYS_RESOURCE & 1 else "1000")
        time.sleep(0.6)  # the timer that was handed down would have ended it
        assert running.process.poll() is None


@pytest.mark.parametrize("program", [channel.PROBE, channel.LEND])
@pytest.mark.parametrize("access", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
def test_nothing_but_a_pipe_is_written_to(program: str, access: int, tmp_path: Path) -> None:
    """What the caller may only read can be given as stdout; opened anew by root it could be written to."""
    file = tmp_path / "precious"
    file.write_text("precious")
    pipes = os.pipe()
    for stdout in (os.open(file, access), pipes[0]):  # the wrong end of a pipe, too
        with helper(program=program, stdout=stdout, stderr=subprocess.DEVNULL) as running:
            running.send("no request")
            assert running.process.wait(20) == 1
        os.close(stdout)
    os.close(pipes[1])
    assert file.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only a privileged program has places to give away")
def test_a_user_has_few_at_once() -> None:
    from contextlib import ExitStack

    with ExitStack() as stack:
        running = [stack.enter_context(helper(uid=54321)) for _ in range(protocol.SLOTS + 1)]
        other = stack.enter_context(helper(uid=54322))
        # Whoever comes too late is told so at once; the others wait for a request.
        refused = running[0].first_of(running)
        assert "run for you already" in refused.read()["what"] and refused.process.wait(10) == 1
        assert sum(one.process.poll() is None for one in running) == protocol.SLOTS
        next(one for one in running if one.process.poll() is None).close()
        for one in (other, stack.enter_context(helper(uid=54321))):
            one.send("{}")
            assert "must name" in one.read()["what"]


# ---- BTF --------------------------------------------------------------------------------------------------


class BtfWriter:
    """Writes BTF as pahole does, a few types of it."""

    def __init__(self) -> None:
        self.types: list[int] = []
        self.strings = b"\0"
        self.count = 0

    def name(self, text: str) -> int:
        if not text:
            return 0
        at = self.strings.find(b"\0" + text.encode() + b"\0")
        if at < 0:
            at = len(self.strings) - 1
            self.strings += text.encode() + b"\0"
        return at + 1

    def add(self, name: str, kind: int, size_or_type: int, *words: int, parts: int = 0, flag: int = 0) -> int:
        self.types += [self.name(name), flag << 31 | kind << 24 | parts, size_or_type, *words]
        self.count += 1
        return self.count

    def struct(self, name: str, size: int, members: list[tuple[str, int, int]]) -> int:
        words = [w for member, kind, offset in members for w in (self.name(member), kind, offset * 8)]
        return self.add(name, 4, size, *words, parts=len(members))

    def tracepoint(self, name: str, *arguments: int) -> None:
        void_pointer = self.add("", 2, 0)
        words = [w for argument in (void_pointer, *arguments) for w in (0, argument)]
        function = self.add("", 13, 0, *words, parts=1 + len(arguments))
        self.add(f"btf_trace_{name}", 8, self.add("", 2, function))

    def data(self) -> bytes:
        types = struct.pack(f"<{len(self.types)}I", *self.types)
        return (
            struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(self.strings))
            + types
            + self.strings
        )


def kernel_btf(*, old: bool = False, nested: bool = False, without: str = "", pid_bytes: int = 4) -> bytes:
    """The BTF of a kernel before 5.14 (`old`) or after; `nested`: the fields are in an unnamed struct."""
    w = BtfWriter()
    number = w.add("int", 1, 4, 32)
    unsigned = w.add("unsigned int", 1, 4, 32)
    long = w.add("long int", 1, 8, 64)
    pid_t = w.add("__kernel_pid_t", 8, number if pid_bytes == 4 else long)
    w.add("color", 6, 4, w.name("RED"), 0, w.name("BLUE"), 1, parts=2)  # an enum, to be stepped over
    w.add("", 3, 0, number, number, 4)  # an array
    state = ("state", w.add("", 9, long), 16) if old else ("__state", unsigned, 24)
    uid = w.struct("kuid_t", 4, [("val", unsigned, 0)])
    cred = w.struct("cred", 40, [("uid", uid, 8), ("suid", uid, 16), ("euid", uid, 24)])
    signals = w.struct("signal_struct", 20, [("live", w.struct("atomic_t", 4, [("counter", number, 0)]), 4)])
    ids = [("pid", pid_t, 100), ("tgid", pid_t, 104)]
    pointers = [("signal", w.add("", 2, signals), 112), ("cred", w.add("", 2, cred), 120)]
    fields = [f for f in (state, *ids, *pointers) if f[0] != without]
    if nested:
        inner = w.struct("", 200, [(name, kind, at - 8) for name, kind, at in fields])
        fields = [("thread_info", number, 0), ("", inner, 8)]
    task = w.struct("task_struct", 300, fields) if without != "task_struct" else number
    pointer = w.add("", 2, task)
    if without != "sched_wakeup_new":
        w.tracepoint("sched_wakeup_new", pointer)
    w.tracepoint("sched_wakeup", pointer)
    w.tracepoint("sched_process_exit", pointer)
    w.tracepoint("sched_process_exec", pointer, number, w.add("", 2, number))
    w.tracepoint("sched_process_fork", pointer, pointer)
    boolean = w.add("bool", 1, 1, 8)
    if without == "next":
        w.tracepoint("sched_switch", boolean, pointer)
    else:
        w.tracepoint("sched_switch", boolean, pointer, pointer, *([] if old else [unsigned]))
    return w.data()


ALWAYS = {
    "PID_OFFSET": 100, "TGID_OFFSET": 104, "SIGNAL_OFFSET": 112, "CRED_OFFSET": 120, "LIVE_OFFSET": 4,
    "UID_OFFSET": 8, "SUID_OFFSET": 16, "EUID_OFFSET": 24,
}  # fmt: skip


@pytest.mark.parametrize("nested", [False, True])
def test_fields_of_a_new_kernel(nested: bool) -> None:
    defines, points = find_fields(Btf(kernel_btf(nested=nested)))
    assert defines == {**ALWAYS, "PREV_STATE_ARGUMENT": 3}
    assert len(set(points.values())) == 6


@pytest.mark.parametrize("nested", [False, True])
def test_fields_of_an_old_kernel(nested: bool) -> None:
    defines, _ = find_fields(Btf(kernel_btf(old=True, nested=nested)))
    assert defines == {**ALWAYS, "STATE_OFFSET": 16, "STATE_BITS": 64}


@pytest.mark.parametrize(
    "without", ["task_struct", "pid", "tgid", "state", "signal", "cred", "sched_wakeup_new", "next"]
)
def test_says_what_btf_lacks(without: str) -> None:
    with pytest.raises(Refused, match="BTF has no") as refused:
        find_fields(Btf(kernel_btf(old=True, without=without)))
    assert refused.value.remedy


def test_refuses_fields_of_another_size() -> None:
    with pytest.raises(Refused, match=r"task_struct\.pid"):
        find_fields(Btf(kernel_btf(pid_bytes=8)))


def test_refuses_broken_btf() -> None:
    good = kernel_btf()
    for broken in (b"", good[:10], b"\x7fELF" + good[4:], good[:40]):
        with pytest.raises(Refused, match="cannot be read"):
            Btf(broken)


def test_says_that_the_kernel_has_no_btf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs.btf, "PLACE", str(tmp_path / "vmlinux"))
    with pytest.raises(Refused, match="no BTF"):
        programs.instructions(REQUEST)


def test_says_that_bcc_is_missing_or_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "bcc", raising=False)
    with pytest.raises(Refused, match="not installed"):
        programs.import_bcc()
    (tmp_path / "bcc.py").write_text("lattice = True\n")
    with pytest.raises(Refused, match="another package"):
        programs.import_bcc()
    sys.modules.pop("bcc", None)


@pytest.mark.measures
@pytest.mark.skipif(not Path(PLACE).exists(), reason="this kernel carries no BTF")
def test_reads_this_kernels_btf_quickly() -> None:
    begun = time.process_time()
    defines, _ = find_fields(Btf(Path(PLACE).read_bytes()))
    assert time.process_time() - begun < 1.0
    assert defines["TGID_OFFSET"] != defines["PID_OFFSET"]
