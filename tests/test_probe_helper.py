"""The privileged helper by itself: what it accepts, what it reads from BTF, and when it ends."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sched_labs.probes import channel

SCRIPT = channel.OURS / channel.SCRIPT
REQUEST: dict[str, Any] = {
    "probe": "runqlat",
    "version": 3,
    "scope": "processes",
    "by": "machine",
    "bins": "fine",
    "attribution": False,
    "pids": [1],
    "duration_s": 1.0,
    "interval_s": 0.1,
}


@pytest.fixture(scope="module")
def helper() -> ModuleType:
    loader = SourceFileLoader("sched_labs_probe", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def converse(data: bytes, *arguments: str) -> dict[str, Any]:
    """The first record of a helper that is given `data` and then the end of its stdin."""
    done = subprocess.run(
        [channel.PYTHON, "-I", str(SCRIPT), *arguments], input=data, capture_output=True, timeout=30
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    return dict(json.loads(line))


# ---- requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"no json\n",
        b"\xff\xfe\n",
        b"[1]\n",
        b"{}\n",
        b"[" * 5000 + b"\n",
        b'{"probe": "runqlat", "probe": "runqlat"}\n',
        b'{"probe": "runqlat"',
        b"",
        b"x" * 20_000 + b"\n",
        b"x" * 20_000,
    ],
    ids=lambda line: repr(line[:12]),
)
def test_refuses_what_is_no_request(line: bytes) -> None:
    assert converse(line)["record"] == "error"


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
def test_refuses_wrong_values(helper: ModuleType, name: str, value: object) -> None:
    assert helper.parse_request(json.dumps(REQUEST).encode()) == REQUEST
    with pytest.raises(helper.Refused):
        helper.parse_request(json.dumps({**REQUEST, name: value}).encode())


SWITCHES: dict[str, Any] = {
    "probe": "switches",
    "version": 3,
    "scope": "processes",
    "pids": [1],
    "stacks": True,
    "duration_s": 1.0,
    "interval_s": 0.1,
}


@pytest.mark.parametrize(
    ("name", "value"), [("stacks", 1), ("scope", "cgroup"), ("by", "thread"), ("attribution", False)]
)
def test_refuses_wrong_values_of_switches(helper: ModuleType, name: str, value: object) -> None:
    assert helper.parse_request(json.dumps(SWITCHES).encode()) == SWITCHES
    with pytest.raises(helper.Refused):
        helper.parse_request(json.dumps({**SWITCHES, name: value}).encode())


def test_refuses_a_missing_value(helper: ModuleType) -> None:
    for name in REQUEST:
        with pytest.raises(helper.Refused, match=r"exactly|must name"):
            helper.parse_request(json.dumps({k: v for k, v in REQUEST.items() if k != name}).encode())


def test_refuses_arguments() -> None:
    assert "no arguments" in converse(json.dumps(REQUEST).encode() + b"\n", "--help")["what"]


def test_refuses_a_request_that_does_not_come(helper: ModuleType) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"probe"')
        with pytest.raises(helper.Refused, match="No request came"):
            helper.read_line(reading, 1000, 0.05)
    finally:
        os.close(reading)
        os.close(writing)


def test_refuses_a_dead_process() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    record = converse(json.dumps({**REQUEST, "pids": [child.pid]}).encode() + b"\n")
    assert str(child.pid) in record["what"] and record["remedy"]


def test_refuses_a_zombie(helper: ModuleType) -> None:
    child = subprocess.Popen(["true"])
    try:
        time.sleep(0.2)
        with pytest.raises(helper.Refused, match="has ended"):
            helper.hold(child.pid, helper.Caller({}))
    finally:
        child.wait()


def test_refuses_a_process_of_another_user(helper: ModuleType) -> None:
    caller = helper.Caller({})
    caller.uid = 54321
    with pytest.raises(helper.Refused, match="belongs to another user"):
        helper.hold(os.getpid(), caller)


def test_the_caller_is_who_called_sudo(helper: ModuleType) -> None:
    if os.getuid() != 0:
        # Then nobody but the user is believed.
        assert helper.Caller({"SUDO_UID": "0", "SUDO_GID": "0"}).uid == os.getuid()
        return
    caller = helper.Caller({"SUDO_UID": "1234", "SUDO_GID": "5678"})
    assert (caller.uid, caller.gid) == (1234, 5678)
    assert helper.Caller({}).uid == 0
    for broken in ({"SUDO_UID": "1234"}, {"SUDO_UID": "x", "SUDO_GID": "1"}):
        with pytest.raises(helper.Refused):
            helper.Caller(broken)


def test_the_helper_is_python_3_9(helper: ModuleType) -> None:
    import ast

    ast.parse(SCRIPT.read_text(), feature_version=(3, 9))


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
    fields = [f for f in (state, ("pid", pid_t, 100), ("tgid", pid_t, 104)) if f[0] != without]
    if nested:
        inner = w.struct("", 200, [(name, kind, at - 8) for name, kind, at in fields])
        fields = [("thread_info", number, 0), ("", inner, 8)]
    task = w.struct("task_struct", 300, fields) if without != "task_struct" else number
    pointer = w.add("", 2, task)
    if without != "sched_wakeup_new":
        w.tracepoint("sched_wakeup_new", pointer)
    w.tracepoint("sched_wakeup", pointer)
    boolean = w.add("bool", 1, 1, 8)
    if without == "next":
        w.tracepoint("sched_switch", boolean, pointer)
    else:
        w.tracepoint("sched_switch", boolean, pointer, pointer, *([] if old else [unsigned]))
    return w.data()


def test_fields_of_a_new_kernel(helper: ModuleType) -> None:
    for nested in (False, True):
        defines, points = helper.find_fields(helper.Btf(kernel_btf(nested=nested)))
        assert defines == {"PID_OFFSET": 100, "TGID_OFFSET": 104, "PREV_STATE_ARGUMENT": 3}
        assert len(set(points.values())) == 3


def test_fields_of_an_old_kernel(helper: ModuleType) -> None:
    for nested in (False, True):
        defines, _ = helper.find_fields(helper.Btf(kernel_btf(old=True, nested=nested)))
        assert defines == {"PID_OFFSET": 100, "TGID_OFFSET": 104, "STATE_OFFSET": 16, "STATE_BITS": 64}


@pytest.mark.parametrize("without", ["task_struct", "pid", "tgid", "state", "sched_wakeup_new", "next"])
def test_says_what_btf_lacks(helper: ModuleType, without: str) -> None:
    with pytest.raises(helper.Refused, match="BTF has no") as refused:
        helper.find_fields(helper.Btf(kernel_btf(old=True, without=without)))
    assert refused.value.remedy


def test_refuses_fields_of_another_size(helper: ModuleType) -> None:
    with pytest.raises(helper.Refused, match=r"task_struct\.pid"):
        helper.find_fields(helper.Btf(kernel_btf(pid_bytes=8)))


def test_refuses_broken_btf(helper: ModuleType) -> None:
    good = kernel_btf()
    for broken in (b"", good[:10], b"\x7fELF" + good[4:], good[:40]):
        with pytest.raises(helper.Refused, match="cannot be read"):
            helper.Btf(broken)


def test_says_that_the_kernel_has_no_btf(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(helper, "BTF", str(tmp_path / "vmlinux"))
    with pytest.raises(helper.Refused, match="no BTF"):
        helper.load_program(REQUEST)


def test_says_that_bcc_is_missing_or_another(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "bcc", raising=False)
    with pytest.raises(helper.Refused, match="not installed"):
        helper.import_bcc()
    (tmp_path / "bcc.py").write_text("lattice = True\n")
    with pytest.raises(helper.Refused, match="another package"):
        helper.import_bcc()
    sys.modules.pop("bcc", None)


@pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel carries no BTF")
def test_reads_this_kernels_btf_quickly(helper: ModuleType) -> None:
    begun = time.process_time()
    defines, _ = helper.find_fields(helper.Btf(Path("/sys/kernel/btf/vmlinux").read_bytes()))
    assert time.process_time() - begun < 1.0
    assert defines["TGID_OFFSET"] != defines["PID_OFFSET"]
