"""The BPF programs: planned for a request, compiled by BCC once, kept, and loaded into the kernel.

What BCC makes of a source is only its instructions and the shapes of its maps.  They are kept in KEPT,
under a hash of all that they depend on, and the next probe of the same kind starts without a
compiler.  KEPT holds what root wrote and nobody else may change; where that cannot be told, nothing is read
from it.  The kernel verifies every program each time, kept or not.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import mmap
import os
import platform
import re
import struct
import sys
from typing import Any, NamedTuple

from . import btf
from .btf import UNPRIVILEGED
from .protocol import PIDS, Refused, ended, hierarchies

HERE = os.path.dirname(os.path.realpath(__file__))
KEPT = "/var/cache/sched-labs"
MOST_KEPT = 64

# 2**BIN_BITS bins in each power of two are at most 1/64 = 1.6 % wide. The last takes all over 18 minutes.
BIN_BITS, TOP_BIT = 6, 40
COARSE_FOLD = BIN_BITS - 2  # bins for each length of four to a power of two say what a wait's time is made of
FOLDS = {"fine": 0, "log2": BIN_BITS}
KEYS = {"thread": 1, "process": 2, "cgroup": 3}  # what runqlat.bpf.c calls them
MOST_KEYS = 1024
EDGES = 4096  # for each CPU, of edges.bpf.h
SPANS = 4096  # of time for each CPU, of throttle.bpf.c
WAKES, LEAST_WAKES = 1 << 18, 1 << 10  # kept by wakeups.bpf.c: on all CPUs together, on each at least
TURNS, LEAST_PAGES = 1 << 16, 4  # of timeline.bpf.c: on all CPUs together; pages on each at least
TURNS_ON_PAGE = 128
INTERRUPT_ENDS = ["on_interrupt", "on_interrupt_end"]  # a probe may want to see the first end only
WITH_PRIVILEGE = "Run as root, or let scripts/provision.sh install the helper and its sudo rule."


class Window(NamedTuple):
    """struct window of watched.bpf.h: when, which control group, and for whom."""

    open_ns: int = 0
    close_ns: int = 0
    group: int = 0
    owner: int = 0

    def into(self, page: mmap.mmap) -> None:
        # The time of the opening last: programs look at it first.
        struct.pack_into("<QQQ", page, 8, *self[1:])
        struct.pack_into("<Q", page, 0, self.open_ns)


class Loaded(NamedTuple):
    """A program in the kernel: its arrays, what keeps it there, and what it cannot see."""

    maps: dict[str, mmap.mmap]
    links: list[int]
    interrupts: list[str]
    kept: bool


def possible_cpus() -> int:
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
        return int(file.read().strip().replace(",", "-").rsplit("-", 1)[-1]) + 1


# ---- planned, compiled, kept -------------------------------------------------------------------------------


def shape_of(request: dict[str, Any]) -> dict[str, Any]:
    """All of a request and of this machine that the instructions depend on, besides sources and BTF."""
    names = ("probe", "scope", "by", "bins", "attribution", "edges", "stacks")
    shape = {name: request[name] for name in names if name in request}
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        shape["slots"] = min(1 << (int(file.read()) - 1).bit_length(), 1 << 16)
    shape["cpus"] = possible_cpus()
    if "cgroup" in (shape["scope"], shape.get("by")):
        found = hierarchies(("cpu",))
        if not found:
            raise Refused(
                "This machine has no control groups for CPU time.", "Watch processes, by another key."
            )
        shape["first_version"] = found[0][1]
    return shape


def wakes_of_each(cpus: int) -> int:
    """For how many wake-ups wakeups.bpf.c has room on each CPU: a power of two."""
    return max(LEAST_WAKES, 1 << ((WAKES // cpus).bit_length() - 1))


def pages_of_each(cpus: int) -> int:
    """How many pages of turns timeline.bpf.c has on each CPU: a power of two."""
    return max(LEAST_PAGES, 1 << (TURNS // TURNS_ON_PAGE // cpus).bit_length() >> 1)


def plan(kernel: btf.Btf, shape: dict[str, Any]) -> tuple[str, btf.Defines, dict[str, Any]]:
    """(the source, its defines, what goes where): functions, the tracepoints' BTF ids, and interrupts."""
    defines, points = btf.find_fields(kernel)
    defines.update(SLOTS=shape["slots"], CPUS=shape["cpus"])
    first, functions = [], ["on_switch"]
    interrupts: dict[str, tuple[int, ...]] = {}
    if shape["scope"] in ("processes", "family"):
        first = ["on_exit", "on_exec"] + ["on_fork"] * (shape["scope"] == "family")
    else:
        defines["WATCH_ALL" if shape["scope"] == "machine" else "WATCH_CGROUP"] = 1
    if "first_version" in shape:
        defines.update(btf.find_cgroup(kernel, shape["first_version"]))
    if shape["probe"] == "runqlat":
        defines.update(BIN_BITS=BIN_BITS, TOP_BIT=TOP_BIT)
        functions += ["on_wakeup", "on_wakeup_new"]
        if shape["attribution"]:
            more, points["on_migrate"], interrupts = btf.find_attribution(kernel)
            defines.update(more, ATTRIBUTION=1, COARSE_SHIFT=COARSE_FOLD)
            functions.insert(0, "on_migrate")
        if shape["by"] in KEYS:
            defines.update(KEYED=KEYS[shape["by"]], KEY_FOLD=FOLDS[shape["bins"]], MOST_KEYS=MOST_KEYS)
    elif shape["probe"] == "switches":
        if shape["stacks"]:
            defines["STACKS"] = 1
            points["on_waking"], _ = kernel.tasks("sched_waking", 0)
            functions += ["on_wakeup", "on_waking"]
    elif shape["probe"] == "wakeups":
        defines["WAKES"] = wakes_of_each(shape["cpus"])
        points["on_waking"], _ = kernel.tasks("sched_waking", 0)
        functions += ["on_wakeup", "on_waking"]
        interrupts = btf.find_interrupts(kernel, btf.FROM_OTHER_CPUS, ("entry",))
    elif shape["probe"] == "timeline":
        defines["COMM_OFFSET"] = kernel.must(b"task_struct", b"comm")
        defines["FLAGS_OFFSET"] = kernel.must(b"task_struct", b"flags", (4,))
        defines["PAGES"] = pages_of_each(shape["cpus"])
        points["on_waking"], _ = kernel.tasks("sched_waking", 0)
        functions += ["on_wakeup", "on_wakeup_new", "on_waking"]
    else:
        throttling = btf.find_throttling(kernel)
        if not throttling:
            raise btf.lacking("cfs_rq.throttle_count")
        defines.update(throttling, SPANS=SPANS)
    if shape["probe"] == "switches" or shape.get("edges"):
        defines["COMM_OFFSET"] = kernel.must(b"task_struct", b"comm")
        defines["FLAGS_OFFSET"] = kernel.must(b"task_struct", b"flags", (4,))
        defines["EDGES"] = EDGES
    where: dict[str, Any] = {"first": [(name, points[name]) for name in first], "interrupts": interrupts}
    where["points"] = [(name, points[name]) for name in functions]
    where["seed"] = bool(shape.get("attribution"))
    return f"{shape['probe']}.bpf.c", defines, where


def sources() -> dict[str, bytes]:
    """Every file of this folder that has a part in the instructions, by name."""
    found = {}
    for folder, _, names in os.walk(HERE):
        for name in names:
            if name.endswith((".c", ".h", ".py")):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, HERE)] = file.read()
    return dict(sorted(found.items()))


def instructions(request: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """What `compiled` makes for a request, and whether that was kept from an earlier one."""
    try:
        with open(btf.PLACE, "rb") as file:
            types = file.read()
    except FileNotFoundError:
        raise Refused(
            f"This kernel carries no BTF ({btf.PLACE}): it was built without it.", UNPRIVILEGED
        ) from None
    shape, files = shape_of(request), sources()
    compiler = importlib.util.find_spec("bcc")
    shape["compiler"] = os.stat(compiler.origin).st_mtime_ns if compiler and compiler.origin else 0
    digest = hashlib.sha256(json.dumps([shape, platform.machine()], sort_keys=True).encode())
    for name, content in (*files.items(), ("BTF", types)):
        digest.update(f"\n{name} {len(content)}\n".encode() + content)
    name = digest.hexdigest()
    kept = read_kept(name)
    if kept is not None:
        return kept, True
    source, defines, where = plan(btf.Btf(types), shape)
    head = files["watched.bpf.h"] + (files["edges.bpf.h"] if "EDGES" in defines else b"")
    made = compiled(head + files[source], defines, where)
    keep(name, made)
    return made, False


def compiled(source: bytes, defines: btf.Defines, where: dict[str, Any]) -> dict[str, Any]:
    """Maps by name (type, sizes of key and value, entries, flags), programs by function (code, and where it
    names which map), and `where`.
    """
    bcc = import_bcc()
    # With this BCC neither looks for headers of the running kernel nor needs them.
    os.environ["BCC_KERNEL_SOURCE"] = os.path.join(HERE, "headers")
    os.chdir(HERE)  # BCC searches the current folder for headers: let it be ours
    try:
        bpf = bcc.BPF(text=source, cflags=[f"-D{name}={value}" for name, value in sorted(defines.items())])
    except Exception as error:  # BCC raises this class and no other
        if os.geteuid() != 0:
            raise Refused("This user may not load a BPF program.", WITH_PRIVILEGE) from None
        raise Refused(f"BCC could not compile or place the probe: {error}.", UNPRIVILEGED) from None
    os.chdir("/")
    names, maps = {}, {}
    for name in re.findall(rb"^BPF_F?_?TABLE\(.*?, .*?, .*?, (\w+)", source, re.MULTILINE):
        fd = bcc.lib.bpf_table_fd(bpf.module, name)
        if fd >= 0:  # not every request has all of them
            names[fd] = name.decode()
            with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
                said = dict(line.split(":\t", 1) for line in file.read().splitlines())
            shape = ("map_type", "key_size", "value_size", "max_entries", "map_flags")
            maps[names[fd]] = [int(said[field], 0) for field in shape]
    functions = [name for name, _ in where["first"] + where["points"]]
    if where["interrupts"]:
        functions += INTERRUPT_ENDS[: max(map(len, where["interrupts"].values()))]
    if where["seed"]:
        functions.append("seed")
    programs = {}
    for function in functions:
        code = bytearray(bpf.dump_func(function.encode()))
        refers = []
        for at in range(0, len(code), 8):
            # BPF_LD | BPF_IMM | BPF_DW of BPF_PSEUDO_MAP_FD: the descriptor of a map that BCC has made.
            if code[at] == 0x18 and code[at + 1] >> 4 == 1:
                refers.append([at, names[struct.unpack_from("<i", code, at + 4)[0]]])
        programs[function] = [code.hex(), refers]
    return {"maps": maps, "programs": programs, **where}


def import_bcc() -> Any:
    try:
        import bcc
    except ImportError:
        raise Refused(
            f"BCC is not installed for {sys.executable}.",
            "Install python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora); scripts/provision.sh does it.",
        ) from None
    except OSError as error:  # its shared libraries
        raise Refused(
            f"BCC cannot be loaded: {error}.", "Install python3-bpfcc again; scripts/provision.sh does it."
        ) from None
    if not hasattr(bcc, "BPF"):
        raise Refused(
            f"The module `bcc` of {sys.executable} is another package of that name.",
            "Uninstall it there (pip uninstall bcc) and install python3-bpfcc.",
        )
    return bcc


def kept_folder() -> int | None:
    """A descriptor of KEPT, None where root does not own it or others may write to it."""
    try:
        folder = os.open(KEPT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(folder)
    if os.geteuid() == 0 and status.st_uid == 0 and not status.st_mode & 0o022:
        return folder
    os.close(folder)
    return None


def read_kept(name: str) -> dict[str, Any] | None:
    folder = kept_folder()
    if folder is None:
        return None
    try:
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
            return dict(json.load(file))
    except (OSError, ValueError, TypeError):
        return None
    finally:
        os.close(folder)


def keep(name: str, made: dict[str, Any]) -> None:
    """Keep it whole or not at all, and let the oldest go."""
    folder = kept_folder()
    if folder is None:
        return
    part = f"{name}.{os.getpid()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(part, flags, 0o600, dir_fd=folder), "w", encoding="ascii") as file:
            json.dump(made, file)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        age = {old: os.stat(old, dir_fd=folder).st_mtime_ns for old in os.listdir(folder)}
        for old in sorted(age, key=lambda one: age[one])[:-MOST_KEPT]:
            os.unlink(old, dir_fd=folder)
    except OSError:
        pass  # a full disk: the next probe is compiled again
    finally:
        os.close(folder)


# ---- loaded ------------------------------------------------------------------------------------------------


class Kernel:
    """The bpf system call, as much of it as we need (kernel 5.5)."""

    MAP_CREATE, PROG_LOAD, PROG_TEST_RUN, RAW_TRACEPOINT_OPEN = 0, 5, 10, 17
    PROG_TYPE_RAW_TRACEPOINT, PROG_TYPE_TRACING, TRACE_RAW_TP = 17, 26, 23

    def __init__(self) -> None:
        try:
            self.number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
        except KeyError:
            raise Refused(
                f"The probe is for x86-64 and arm64, not for {platform.machine()}.", UNPRIVILEGED
            ) from None
        self.syscall = ctypes.CDLL(None, use_errno=True).syscall

    def call(self, command: int, attributes: bytes) -> int:
        data = ctypes.create_string_buffer(attributes, len(attributes))
        fd: int = self.syscall(ctypes.c_long(self.number), command, data, len(attributes))
        if fd < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return fd

    def create(self, name: str, shape: list[int]) -> int:
        """A descriptor of a new map: of a type, sizes of key and value, number of entries and flags."""
        inner, numa_node = 0, 0
        return self.call(self.MAP_CREATE, struct.pack("<7I16s", *shape, inner, numa_node, name.encode()[:15]))

    def load(self, name: str, code: bytes, btf_id: int = 0) -> int:
        """A descriptor of the program, loaded for the tracepoint that `btf_id` stands for or for `run_on`."""
        kind = self.PROG_TYPE_TRACING if btf_id else self.PROG_TYPE_RAW_TRACEPOINT
        buffer = ctypes.create_string_buffer(code, len(code))
        licence = ctypes.create_string_buffer(b"Dual MIT/GPL")

        def load(log: ctypes.Array[ctypes.c_char] | None) -> int:
            return self.call(
                self.PROG_LOAD,
                # Type, instructions, licence, verifier's log, kernel version, flags, name, device, attach
                # type, debug information (none), BTF type to attach to, program to attach to (none).
                struct.pack(
                    "<IIQQIIQII16sIIIIQIIQIII",
                    *(kind, len(code) // 8, ctypes.addressof(buffer)),
                    *(ctypes.addressof(licence), 1 if log else 0, len(log) if log else 0),
                    *(ctypes.addressof(log) if log else 0, 0, 0, name.encode()[:15], 0),
                    *(self.TRACE_RAW_TP if btf_id else 0, 0, 0, 0, 0, 0, 0, 0, btf_id, 0),
                ),
            )

        try:
            return load(None)
        except PermissionError as error:
            if error.errno == 1:
                raise
        except OSError:
            pass
        log = ctypes.create_string_buffer(1 << 20)
        try:
            return load(log)
        except OSError as error:
            sys.stderr.write(log.value.decode("utf-8", "replace")[-4000:])
            raise Refused(
                f"This kernel does not accept the probe's BPF program: {error.strerror}.", UNPRIVILEGED
            ) from None

    def attach(self, program: int) -> int:
        """A descriptor: as long as it is open the program runs at its tracepoint."""
        return self.call(self.RAW_TRACEPOINT_OPEN, struct.pack("<QI4x", 0, program))

    def run_on(self, program: int, cpu: int) -> None:
        """Run a program once on a CPU, in an interrupt there (kernel 5.10).  OSError for one that is off."""
        on_cpu = 1
        self.call(self.PROG_TEST_RUN, struct.pack("<IIIIQQIIIIQQIIII", program, *[0] * 11, on_cpu, cpu, 0, 0))


def load(request: dict[str, Any], held: dict[int, int], window: Window) -> Loaded:
    """Watch the processes in `held` ({pidfd: pid}), or what the window says."""
    made, kept = instructions(request)
    kernel = Kernel()
    links: list[int] = []

    def program(function: str, btf_id: int = 0) -> int:
        code, refers = made["programs"][function]
        code = bytearray.fromhex(code)
        for at, name in refers:
            struct.pack_into("<i", code, at + 4, maps[name])
        return kernel.load(function, bytes(code), btf_id)

    try:
        maps = {name: kernel.create(name, shape) for name, shape in made["maps"].items()}
        pages = {}
        for name, (_, _, size, entries, flags) in made["maps"].items():
            if flags & 0x400:  # BPF_F_MMAPABLE
                pages[name] = mmap.mmap(maps[name], -(-size * entries // mmap.PAGESIZE) * mmap.PAGESIZE)
        window.into(pages["windows"])
        # Exits first, so that none goes unseen; then who is watched: the first look at a CPU asks that.
        links += [kernel.attach(program(*point)) for point in made["first"]]
        for pidfd, pid in held.items():
            watch(pages, pid, True)
            if ended(pidfd):
                watch(pages, pid, False)
        seen = []
        for name, ends in made["interrupts"].items():
            both: list[int] = []
            try:
                for function, end in zip(INTERRUPT_ENDS, ends, strict=False):
                    both.append(kernel.attach(program(function, end)))
            except OSError:  # it can be described and not be traced; half of it would never end
                for link in both:
                    os.close(link)
                continue
            links += both
            seen.append(name)
        links += [kernel.attach(program(*point)) for point in made["points"]]
        if made["seed"]:
            seed = program("seed")
            for cpu in range(possible_cpus()):
                with contextlib.suppress(
                    OSError
                ):  # a CPU that is off; others show themselves at their next switch
                    kernel.run_on(seed, cpu)
    except PermissionError:
        container = "A container or lockdown forbids it. " + UNPRIVILEGED
        raise Refused(
            "The kernel refuses to load a BPF program.", container if os.geteuid() == 0 else WITH_PRIVILEGE
        ) from None
    return Loaded(pages, links, seen, kept)


def watch(maps: dict[str, mmap.mmap], pid: int, yes: bool) -> None:
    """Mark a process, or no longer, in watched.bpf.h's array."""
    if 0 < pid < PIDS:
        maps["watched"][pid] = yes
