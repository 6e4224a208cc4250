"""What the BPF programs have counted, as the values of a record: read from arrays, without a system call."""

from __future__ import annotations

import base64
import bisect
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from .programs import (
    BIN_BITS,
    COARSE_FOLD,
    EDGES,
    FOLDS,
    KEYS,
    SPANS,
    TOP_BIT,
    TURNS_ON_PAGE,
    pages_of_each,
    possible_cpus,
    wakes_of_each,
)

BINS = (TOP_BIT - BIN_BITS + 1) << BIN_BITS
CAUSES = ("wakeup", "preempted")
LOSSES = ("collided", "missed", "unseen", "backward", "unkeyed")
COUNTS = len(CAUSES) * BINS + len(LOSSES)  # the 64-bit numbers of `struct counts`

# What a wait's time is made of, in the order of runqlat.bpf.c.
PARTS = (
    *("idle", "same_program", "other_task", "kernel_thread", "realtime", "interrupt"),
    *("throttled", "migrated", "unattributed"),
)
COARSE = BINS >> COARSE_FOLD
SHARES = len(CAUSES) * (COARSE * (len(PARTS) + 2) + 5)  # the 64-bit numbers of `struct parts`
SLOT_WORDS = {True: 12, False: 2}  # of `struct slot`, with attribution and without

EDGE_WORDS = 8  # of edges.bpf.h, 64 bits each
# switches.bpf.c: so many entries for each CPU, and the 64-bit words of each.
PLACES, PLACE_WORDS, FRAMES = 512, 31, 24
WAKER_WORDS = 30
SPOT_WORDS = 4  # of what throttle.bpf.c knows of a CPU
WAKE_BYTES = 40  # of what wakeups.bpf.c keeps of a wake-up
# timeline.bpf.c: a turn, the words of a spot, and the longest waits of each CPU.
TURN_BYTES, TURN_SPOT_WORDS, WORST = 56, 13, 10
PAGE_BYTES = TURNS_ON_PAGE * TURN_BYTES
STATES = ("runnable", "interruptible", "uninterruptible", "other")
# The program's own way in is no part of where a thread left its CPU.
OWN_FRAMES = ("bpf_", "__bpf_", "__traceiter_", "trace_call_bpf")
OTHERS = 0xFFFFFFFF  # all threads of other users, of which the caller is told no more than that


class Counts:
    """The arrays of a loaded program."""

    symbols: int | None = None

    def __init__(self, request: dict[str, Any], maps: dict[str, mmap.mmap]) -> None:
        self.request, self.maps, self.cpus = request, maps, possible_cpus()

    def read(self, last: bool) -> dict[str, Any]:
        raise NotImplementedError

    def waiting(self) -> int:
        """How much of what is counted had not ended when the window closed."""
        return 0

    def edges(self) -> dict[str, Any]:
        """What edges.bpf.h counts: [cpu, from, to, state, switches, both names] of each, and switches without
        one.
        """
        words = memoryview(self.maps["edges"]).cast("Q")
        edges = []
        for at in range(0, self.cpus * EDGES * EDGE_WORDS, EDGE_WORDS):
            if words[at + 2]:
                row = words[at : at + EDGE_WORDS].tobytes()
                *tids, state, _, switches = struct.unpack_from("<IIIIQ", row)
                names = [name_of(tid, row[24 + 16 * n : 40 + 16 * n]) for n, tid in enumerate(tids)]
                told = [-1 if tid == OTHERS else tid for tid in tids]
                edges.append([at // (EDGES * EDGE_WORDS), *told, STATES[state & 3], switches, *names])
        return {"edges": edges, "lost_edges": self.lost(0)}

    def lost(self, which: int) -> int:
        """Switches without an edge (0), departures without a place (1)."""
        return sum(struct.unpack_from(f"<{2 * self.cpus}Q", self.maps["losts"])[which::2])


def pairs(row: Iterable[int]) -> list[int]:
    """Bin, count, bin, count, ... of the bins that are not empty."""
    return [value for pair in enumerate(row) if pair[1] for value in pair]


class Waits(Counts):
    """What runqlat.bpf.c counts."""

    def __init__(self, request: dict[str, Any], maps: dict[str, mmap.mmap]) -> None:
        super().__init__(request, maps)
        self.by, self.fold, self.attribution = request["by"], FOLDS[request["bins"]], request["attribution"]

    def sums(self, name: str, count: int) -> Sequence[int]:
        """The sums over all CPUs of an array with so many 64-bit numbers for each CPU."""
        # Rows of counters are added as one long number each: no counter ever overflows into its neighbour.
        size, data = 8 * count, self.maps[name]
        total = sum(int.from_bytes(data[cpu * size : (cpu + 1) * size], "little") for cpu in range(self.cpus))
        return struct.unpack(f"<{count}Q", total.to_bytes(size, "little"))

    def folded(self, rows: Sequence[int]) -> dict[str, list[int]]:
        """The waits of each cause in the width asked for."""
        found = {}
        for number, cause in enumerate(CAUSES):
            row = rows[number * BINS : (number + 1) * BINS]
            found[cause] = pairs(map(sum, zip(*(row[n :: 1 << self.fold] for n in range(1 << self.fold)))))
        return found

    def read(self, last: bool) -> dict[str, Any]:
        counts = self.sums("cpus", COUNTS)
        read = {"waits": self.folded(counts), "losses": dict(zip(LOSSES, counts[len(CAUSES) * BINS :]))}
        if self.by == "cpu":
            rows = [
                struct.unpack_from(f"<{COUNTS}Q", self.maps["cpus"], 8 * COUNTS * n) for n in range(self.cpus)
            ]
            read["keys"] = [[cpu, self.folded(row)] for cpu, row in enumerate(rows)]
        elif self.by in KEYS:
            read["keys"] = self.keys()
        if self.attribution:
            read["attribution"] = self.shares()
        if last and self.request["edges"]:
            read.update(self.edges())
        return read

    def keys(self) -> list[list[Any]]:
        """[key, waits by cause] of every key; -1 stands for OTHERS."""
        bins = BINS >> self.fold
        size, found = 8 + 4 * len(CAUSES) * bins, []
        for at in range(0, len(self.maps["keyed"]) - size + 1, size):
            (key,) = struct.unpack_from("<Q", self.maps["keyed"], at)
            if key:
                row = struct.unpack_from(f"<{len(CAUSES) * bins}I", self.maps["keyed"], at + 8)
                waits = {cause: pairs(row[n * bins : (n + 1) * bins]) for n, cause in enumerate(CAUSES)}
                found.append([-1 if key == OTHERS else key, waits])
        return found

    def shares(self) -> dict[str, dict[str, Any]]:
        """What the waits were made of; bins hold 2**COARSE_FOLD of the histogram's."""
        values = self.sums("parts", SHARES)
        each, causes = COARSE * len(PARTS), len(CAUSES)
        after = causes * each
        totals = values[after + 2 * causes * COARSE :]
        shares = {}
        for n, cause in enumerate(CAUSES):
            parts = values[n * each : (n + 1) * each]
            could, later = after + n * COARSE, after + (causes + n) * COARSE
            shares[cause] = {
                "parts_ns": [v for at, ns in enumerate(parts) if ns for v in (*divmod(at, len(PARTS)), ns)],
                "could": pairs(values[could : could + COARSE]),
                "later": pairs(values[later : later + COARSE]),
                "sum_ns": totals[n],
                "could_ns": totals[causes + n],
                "later_ns": totals[2 * causes + n],
                "moved": totals[3 * causes + n],
                "held": totals[4 * causes + n],
            }
        return shares

    def waiting(self) -> int:
        return sum(map(bool, memoryview(self.maps["slots"]).cast("Q")[:: SLOT_WORDS[self.attribution]]))


class Switches(Counts):
    """What switches.bpf.c counts."""

    def __init__(self, request: dict[str, Any], maps: dict[str, mmap.mmap]) -> None:
        super().__init__(request, maps)
        # Who may see addresses is asked when the file is opened: it is read when no privilege is left.
        self.symbols = os.open("/proc/kallsyms", os.O_RDONLY) if request["stacks"] else None
        self.known: tuple[list[str], list[int]] = ([], [])

    def read(self, last: bool) -> dict[str, Any]:
        """The edges so far, and with the last record the stacks; thread -1 stands for OTHERS."""
        read = self.edges()
        if last and self.request["stacks"]:
            self.known = self.functions()
            read.update(stacks=self.stacks(), wakers=self.wakers(), lost_stacks=self.lost(1))
        return read

    def stacks(self) -> list[list[Any]]:
        """[pid, name, state, times, ns off the CPU, ns of them waiting for one, functions from the outermost
        in].
        """
        found = []
        for at in range(0, self.cpus * PLACES * PLACE_WORDS * 8, PLACE_WORDS * 8):
            used, pid, state, times, off_ns, waited_ns = struct.unpack_from(
                "<QIIQQQ", self.maps["places"], at
            )
            if not used:
                continue
            name = name_of(pid, self.maps["places"][at + 40 : at + 56])
            frames = self.frames("places", at + 56)
            found.append([pid, name, STATES[state & 3], times, off_ns, waited_ns, frames])
        return found

    def wakers(self) -> list[list[Any]]:
        """[pid, name, its functions, the waker's pid, name and functions, times, ns that it slept]."""
        found = []
        for at in range(0, self.cpus * PLACES * WAKER_WORDS * 8, WAKER_WORDS * 8):
            used, waker, place, times, slept_ns = struct.unpack_from("<QIIQQ", self.maps["wakers"], at)
            if not used:
                continue
            by = name_of(waker, self.maps["wakers"][at + 32 : at + 48])
            slept = PLACE_WORDS * 8 * place
            (pid,) = struct.unpack_from("<I", self.maps["places"], slept + 8)
            name = name_of(pid, self.maps["places"][slept + 40 : slept + 56])
            told = [-1 if waker == OTHERS else waker, by, self.frames("wakers", at + 48)]
            found.append([pid, name, self.frames("places", slept + 56), *told, times, slept_ns])
        return found

    def frames(self, table: str, at: int) -> list[str]:
        """The functions of the addresses that stand there, from the outermost in."""
        names, addresses = self.known
        frames: list[str] = []
        for address in struct.unpack_from(f"<{FRAMES}Q", self.maps[table], at):
            number = bisect.bisect_right(addresses, address) - 1
            if address and number >= 0:
                function = names[number]
                if frames or not function.startswith(OWN_FRAMES):
                    frames.append(function)
        return frames[::-1]

    def functions(self) -> tuple[list[str], list[int]]:
        """Names and addresses of the kernel's functions, sorted; one for all where they are hidden."""
        assert self.symbols is not None
        with open(self.symbols, "rb") as file:
            lines = (line.split() for line in file)
            known = sorted({(int(words[0], 16), words[2].decode()) for words in lines if words[1] in b"tTwW"})
        known = [pair for pair in known if pair[0]] or [(1, "kernel")]
        return [name for _, name in known], [address for address, _ in known]


class Throttled(Counts):
    """What throttle.bpf.c keeps: when each CPU's run queue of the watched group was held back."""

    def spots(self) -> list[Sequence[int]]:
        """(queue, since_ns, kept, lost) of each CPU."""
        flat = struct.unpack_from(f"<{SPOT_WORDS * self.cpus}Q", self.maps["spots"])
        return [flat[at : at + SPOT_WORDS] for at in range(0, len(flat), SPOT_WORDS)]

    def read(self, last: bool) -> dict[str, Any]:
        """The spans so far as cpu, begin_ns, end_ns, cpu, ...; one that goes on ends with the record."""
        found: list[int] = []
        (closes,) = struct.unpack_from("<Q", self.maps["windows"], 8)
        until = min(closes, time.monotonic_ns())
        spots = self.spots()
        for cpu, (_, since, kept, _) in enumerate(spots):
            rows = struct.unpack_from(f"<{2 * kept}Q", self.maps["spans"], 16 * SPANS * cpu)
            for begin, end in zip(rows[::2], rows[1::2]):
                found += [cpu, begin, end]
            if 0 < since < until:
                found += [cpu, since, until]
        return {"spans": found, "lost_spans": sum(lost for *_, lost in spots)}

    def waiting(self) -> int:
        """On how many CPUs the group was held back when the window closed."""
        return sum(1 for _, since, _, _ in self.spots() if since)


class Wakeups(Counts):
    """What wakeups.bpf.c keeps: when each wake-up of the watched threads passed each of its stations."""

    def read(self, last: bool) -> dict[str, Any]:
        """With the last record [tid, waker's CPU, its own, ns of waking, of the interrupt (0: none), of
        wakeup, of the switch] of each.
        """
        counts = struct.unpack_from(f"<{2 * self.cpus}Q", self.maps["kept"])
        found: list[list[int]] = []
        room = wakes_of_each(self.cpus)
        for cpu, kept in enumerate(counts[::2] if last else ()):
            for at in range(WAKE_BYTES * room * cpu, WAKE_BYTES * (room * cpu + kept), WAKE_BYTES):
                *stations, tid, waker_cpu = struct.unpack_from("<QQQQII", self.maps["wakes"], at)
                found.append([tid, waker_cpu, cpu, *stations])
        return {"wakes": found, "lost_wakes": sum(counts[1::2])}


class Timeline(Counts):
    """What timeline.bpf.c keeps: the last turns of each CPU, and those before its longest waits."""

    def read(self, last: bool) -> dict[str, Any]:
        """With the last record, for each CPU [turns seen, its last ones, [a wait's ns, the turns until it
        ended], ...], turns as packed `struct turn` of TURN_BYTES in their order, compressed, in base64.
        """
        opens, closes = struct.unpack_from("<QQ", self.maps["windows"])
        return {"open_ns": opens, "close_ns": closes, "cpus": [self.cpu(n) for n in range(self.cpus) if last]}

    def cpu(self, cpu: int) -> list[Any]:
        (seen,) = struct.unpack_from("<Q", self.maps["spots"], 8 * TURN_SPOT_WORDS * cpu)
        room = pages_of_each(self.cpus) * TURNS_ON_PAGE
        whole = self.maps["pages"][cpu * room * TURN_BYTES : (cpu + 1) * room * TURN_BYTES]
        waits, size = [], 16 + 2 * PAGE_BYTES
        for at in range(size * WORST * cpu, size * WORST * (cpu + 1), size):
            waited_ns, until = struct.unpack_from("<QQ", self.maps["worsts"], at)
            if waited_ns:
                # Two pages: the one before, and the one that the wait ended on, as far as it was written.
                begins = TURNS_ON_PAGE if until <= TURNS_ON_PAGE else 0
                ends = TURNS_ON_PAGE + (until - 1) % TURNS_ON_PAGE + 1
                kept = self.maps["worsts"][at + 16 + begins * TURN_BYTES : at + 16 + ends * TURN_BYTES]
                waits.append([waited_ns, packed(kept)])
        begins = seen % room * TURN_BYTES if seen > room else 0
        ordered = whole[begins:] + whole[:begins] if begins else whole[: min(seen, room) * TURN_BYTES]
        return [seen, packed(ordered), *waits]


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode("ascii")


def name_of(tid: int, data: bytes) -> str:
    return "another user's" if tid == OTHERS else data.split(b"\0")[0].decode("utf-8", "replace")
