"""Where this kernel keeps what the BPF programs read: tested on its BTF and never on a version."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar

from .protocol import Refused

PLACE = "/sys/kernel/btf/vmlinux"
UNPRIVILEGED = "The schedstat probe needs no BPF and measures queueing waits here."

# Where interrupts begin and end: device interrupts everywhere, and what each architecture adds.
INTERRUPTS = (
    *("irq_handler", "softirq", "local_timer", "reschedule", "call_function", "call_function_single"),
    *("irq_work", "x86_platform_ipi", "ipi"),
)
# Those by which one CPU tells another that a thread waits for it: on x86, and on Arm.
FROM_OTHER_CPUS = ("reschedule", "call_function_single", "ipi")


DEEPEST = 64  # typedefs of typedefs; no kernel comes near


def unreadable() -> Refused:
    return Refused("This kernel's BTF cannot be read.", UNPRIVILEGED)


def lacking(what: str) -> Refused:
    return Refused(f"This kernel's BTF has no {what} that the probe knows.", UNPRIVILEGED)


class Btf:
    """The kernel's description of its own types (Documentation/bpf/btf.rst), as much of it as we need."""

    INT, PTR, STRUCT, UNION, ENUM, TYPEDEF, FUNC_PROTO = 1, 2, 4, 5, 6, 8, 13
    SEE_THROUGH = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag

    def __init__(self, data: bytes) -> None:
        try:
            magic, _, _, head, types, types_size, strings, strings_size = struct.unpack_from(
                "<HBBIIIII", data
            )
            if magic != 0xEB9F or len(data) < head + strings + strings_size:
                raise ValueError
            self.words = memoryview(data)[head + types : head + types + types_size].cast("I")
            self.strings = bytes(data[head + strings : head + strings + strings_size])
            # Words after the first three: a fixed number for each kind, so many for each of its `vlen` parts.
            fixed = [{1: 1, 3: 3, 14: 1, 17: 1}.get(kind, 0) for kind in range(32)]
            each = [{4: 3, 5: 3, 6: 2, 13: 2, 15: 3, 19: 3}.get(kind, 0) for kind in range(32)]
            words, at, starts = self.words, 0, [0]
            while at < len(words):
                starts.append(at)
                info = words[at + 1]
                kind = info >> 24 & 31
                at += 3 + fixed[kind] + each[kind] * (info & 0xFFFF)
            self.starts = starts
        except (struct.error, ValueError, IndexError, TypeError):  # TypeError: half a word
            raise unreadable() from None

    def kind(self, type_id: int) -> int:
        return self.words[self.starts[type_id] + 1] >> 24 & 31

    def find(self, kind: int, name: bytes) -> int | None:
        """The id of the type of that kind and name, None when there is none."""
        wanted = self.strings.find(b"\0" + name + b"\0") + 1
        for type_id in range(1, len(self.starts)) if wanted else ():
            at = self.starts[type_id]
            if self.words[at] == wanted and self.words[at + 1] >> 24 & 31 == kind:
                return type_id
        return None

    def is_named(self, at: int, name: bytes) -> bool:
        return self.strings[at : at + len(name) + 1] == name + b"\0"

    def seen_through(self, type_id: int) -> int:
        """The type behind typedefs and qualifiers."""
        for _ in range(DEEPEST):
            if not type_id or self.kind(type_id) not in self.SEE_THROUGH:
                return type_id
            type_id = self.words[self.starts[type_id] + 2]
        raise IndexError("its types go round in a circle")

    def field(self, struct_id: int | None, name: bytes) -> tuple[int, int] | None:
        """(offset, size) in bytes of a number in a struct, None without it.  Looks into unnamed parts."""
        if struct_id is None:
            return None
        start = self.starts[struct_id]
        info = self.words[start + 1]
        for member in range(info & 0xFFFF):
            at = start + 3 + 3 * member
            name_at, type_id, bits = self.words[at], self.seen_through(self.words[at + 1]), self.words[at + 2]
            if info >> 31:  # the struct has bit fields somewhere: the upper byte is a width
                bits &= 0xFFFFFF
            if self.is_named(name_at, name):
                return bits // 8, self.words[self.starts[type_id] + 2]
            if not self.strings[name_at] and self.kind(type_id) in (self.STRUCT, self.UNION):
                inner = self.field(type_id, name)
                if inner:
                    return bits // 8 + inner[0], inner[1]
        return None

    def place(self, kind: bytes, name: bytes, sizes: Container[int] | None = None) -> int | None:
        """The offset in bytes of a field of a struct, None without it or where its size is none of these."""
        found = self.field(self.find(self.STRUCT, kind), name)
        return found[0] if found and (sizes is None or found[1] in sizes) else None

    def must(self, kind: bytes, name: bytes, sizes: Container[int] | None = None) -> int:
        found = self.place(kind, name, sizes)
        if found is None:
            raise lacking(f"{kind.decode()}.{name.decode()}")
        return found

    def enumerator(self, enum: bytes, name: bytes) -> int:
        """The value of a name of an enumeration."""
        type_id = self.find(self.ENUM, enum)
        if type_id is not None:
            start = self.starts[type_id]
            for at in range(start + 3, start + 3 + 2 * (self.words[start + 1] & 0xFFFF), 2):
                if self.is_named(self.words[at], name):
                    return self.words[at + 1]
        raise lacking(name.decode())

    def tracepoint(self, name: str) -> tuple[int, list[int]] | None:
        """(id for attaching, ids of the types of its arguments) of a raw tracepoint, None without it."""
        typedef = self.find(self.TYPEDEF, b"btf_trace_" + name.encode())
        if typedef is None:
            return None
        proto = self.seen_through(self.words[self.starts[self.seen_through(typedef)] + 2])
        start = self.starts[proto]
        count = self.words[start + 1] & 0xFFFF
        return typedef, [self.words[start + 4 + 2 * n] for n in range(1, count)]  # 0 is the tracer's own data

    def tasks(self, name: str, *wanted: int) -> tuple[int, int]:
        """(id for attaching, number of arguments) of a tracepoint, whose tasks have to be these arguments."""
        found, task = self.tracepoint(name), self.find(self.STRUCT, b"task_struct")
        if found is None:
            raise lacking(f"tracepoint {name}")
        seen = [
            number
            for number, type_id in enumerate(map(self.seen_through, found[1]))
            if self.kind(type_id) == self.PTR
            and self.seen_through(self.words[self.starts[type_id] + 2]) == task
        ]
        if task is None or tuple(seen) != wanted:
            raise lacking(f"tracepoint {name} with the arguments")
        return found[0], len(found[1])


Defines = dict[str, Any]
Look = TypeVar("Look", bound=Callable[..., Any])


def refusing(look: Look) -> Look:
    """Have a look refuse BTF whose types point nowhere, or to each other in a circle."""

    @functools.wraps(look)
    def looked(*arguments: Any) -> Any:
        try:
            return look(*arguments)
        except (IndexError, RecursionError):
            raise unreadable() from None

    return looked  # type: ignore[return-value]


@refusing
def find_fields(btf: Btf) -> tuple[Defines, dict[str, int]]:
    """(the defines for watched.bpf.h, {function: BTF id of its tracepoint})."""
    task, cred = b"task_struct", b"cred"
    defines: Defines = {
        "PID_OFFSET": btf.must(task, b"pid", (4,)),
        "TGID_OFFSET": btf.must(task, b"tgid", (4,)),
        "SIGNAL_OFFSET": btf.must(task, b"signal"),
        "LIVE_OFFSET": btf.must(b"signal_struct", b"live", (4,)),
        "CRED_OFFSET": btf.must(task, cred),
        **{f"{name.upper()}_OFFSET": btf.must(cred, name.encode(), (4,)) for name in ("uid", "euid", "suid")},
    }
    names = ("wakeup", "wakeup_new", "process_exit", "process_exec")
    points = {name.replace("process_", ""): btf.tasks(f"sched_{name}", 0)[0] for name in names}
    points["fork"] = btf.tasks("sched_process_fork", 0, 1)[0]
    points["switch"], arguments = btf.tasks("sched_switch", 1, 2)
    # It hands over the state that it acts on (since 5.18, and where backported).
    if arguments > 3:
        defines["PREV_STATE_ARGUMENT"] = 3
    else:
        place = btf.field(btf.find(btf.STRUCT, task), b"__state")  # renamed in 5.14
        place = place or btf.field(btf.find(btf.STRUCT, task), b"state")
        if place is None or place[1] not in (4, 8):
            raise lacking("task_struct.__state")
        defines["STATE_OFFSET"], defines["STATE_BITS"] = place[0], 8 * place[1]
    return defines, {f"on_{name}": number for name, number in points.items()}


@refusing
def find_throttling(btf: Btf) -> Defines:
    """Where a thread's group keeps on each CPU whether it is throttled; nothing on kernels without quotas."""
    entity = btf.place(b"task_struct", b"se", range(1, 4096))
    queue = btf.place(b"sched_entity", b"cfs_rq")
    count = btf.place(b"cfs_rq", b"throttle_count", (4,))
    if entity is None or queue is None or count is None:
        return {}
    return {"GROUP_QUEUE_OFFSET": entity + queue, "THROTTLE_COUNT_OFFSET": count}


@refusing
def find_attribution(btf: Btf) -> tuple[Defines, int, dict[str, tuple[int, ...]]]:
    """What runqlat.bpf.c needs for ATTRIBUTION: (defines, BTF id of sched_migrate_task, interrupts).

    `interrupts` are the BTF ids of (beginning, end) of what this kernel can show.
    """
    task = b"task_struct"
    defines: Defines = {
        "PRIO_OFFSET": btf.must(task, b"prio", (4,)),
        "FLAGS_OFFSET": btf.must(task, b"flags", (4,)),
        "ALLOWED_OFFSET": btf.must(task, b"cpus_mask", range(8, 1 << 14)),
    }
    cpu = btf.place(task, b"cpu", (4,))
    if cpu is None:  # it moved into thread_info, which is the beginning of task_struct where that has it
        cpu = btf.must(task, b"thread_info", range(1, 4096)) + btf.must(b"thread_info", b"cpu", (4,))
    defines["CPU_OFFSET"] = cpu
    # Kernels without quotas have no throttling; since 6.18 a thread is throttled by itself.
    throttling = find_throttling(btf)
    defines.update(throttling)
    throttled = btf.place(task, b"throttled", (1,))
    if throttling and throttled is not None:
        defines["THROTTLED_OFFSET"] = throttled
    return defines, btf.tasks("sched_migrate_task", 0)[0], find_interrupts(btf, INTERRUPTS, ("entry", "exit"))


@refusing
def find_interrupts(btf: Btf, names: Sequence[str], ends: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The BTF ids of these ends of those interrupts that this kernel can show with all of them."""
    interrupts = {}
    for name in names:
        found = [btf.tracepoint(f"{name}_{which}") for which in ends]
        if all(found):
            interrupts[name] = tuple(point[0] for point in found if point)
    return interrupts


@refusing
def find_cgroup(btf: Btf, first_version: bool) -> Defines:
    """The defines with which a thread's control group is found."""
    defines: Defines = {
        "CGROUPS_OFFSET": btf.must(b"task_struct", b"cgroups"),
        "NODE_OFFSET": btf.must(b"cgroup", b"kn"),
        "NODE_ID_OFFSET": btf.must(b"kernfs_node", b"id", (8,)),
    }
    if first_version:
        number = btf.enumerator(b"cgroup_subsys_id", b"cpu_cgrp_id")
        defines["CGROUP_OFFSET"] = btf.must(b"css_set", b"subsys") + 8 * number
        defines["SUBSYSTEM_CGROUP_OFFSET"] = btf.must(b"cgroup_subsys_state", b"cgroup")
    else:
        defines["CGROUP_OFFSET"] = btf.must(b"css_set", b"dfl_cgrp")
    return defines
