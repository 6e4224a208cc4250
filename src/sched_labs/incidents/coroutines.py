"""A service of an incident, in Python: one thread with coroutines for all who ask, and a second thread.

It is told what it does as actor.c is, by lines of key=value on standard input and by etc/NAME.conf, counts in
run/NAME.stats, and talks to the same clients.  It needs nothing but Python: `python3 -I -S bin/NAME`.

    the loop    receives; as many coroutines as `workers` serve, each of which asks a storage some times
    the second  has work that is due in every period, in Python or in a C library (`native`)
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

# The first fields are a client's; then a service's, and the work that is due in every period.
RECEIVED, STARTED, FINISHED, REPLIED, WORK_US, LOOP_TID, FIELDS = 5, 6, 7, 8, 10, 12, 14 + 96
MOST_QUEUED = 64
REQUEST = struct.Struct("qII")  # when it was due, its number, whether it was refused
VISIBLE = ("workers", "offload_slow", "await_slow", "native", "switch_us")
NAME = Path(sys.argv[0]).name

told: dict[str, int] = {"switch_us": 5000}  # as Python has it
in_file: dict[str, int] = {}


def get(key: str) -> int:
    return in_file.get(key, told.get(key, 0))


# ---- being told ----


def hear(words: list[str]) -> None:
    """Lines of key=value; what is no number is for others."""
    for word in words:
        key, _, value = word.partition("=")
        with contextlib.suppress(ValueError):
            told[key] = int(value)


def read_file() -> None:
    """Its file's lines win.  What is no setting, or no value for it, is said in the log."""
    found = {}
    for line in Path(f"etc/{NAME}.conf").read_text(encoding="utf-8", errors="replace").splitlines():
        key, equals, value = (word.strip() for word in line.partition("#")[0].partition("="))
        value = {"yes": "1", "no": "0"}.get(value, value)
        if key in VISIBLE and value.isascii() and value.isdigit() and int(value) <= 10_000:
            found[key] = int(value)
        elif equals:
            print(f"{key} = {value}: not taken", file=sys.stderr, flush=True)
    in_file.clear()
    in_file.update(found)


def be_manager(settle: Callable[[], None]) -> None:
    """A thread: listens to whoever started this program, and reads its file when that has changed."""

    def listen() -> None:
        for line in sys.stdin:
            hear(line.split())
        os._exit(0)  # whoever started us has gone

    threading.Thread(target=listen, daemon=True).start()
    last = 0
    while True:
        now = os.stat(f"etc/{NAME}.conf").st_mtime_ns  # noqa: PTH116
        if now != last:
            last = now
            read_file()
        sys.setswitchinterval(max(1, get("switch_us")) / 1e6)
        settle()
        time.sleep(0.5)


# ---- work ----


def steps(count: int) -> None:
    for _ in range(count):
        pass


def per_us(work: Callable[[int], None], amount: int) -> float:
    """How much of some work is done in a microsecond of CPU time, at best."""
    best = float("inf")
    for _ in range(15):
        before = time.thread_time_ns()
        work(amount)
        best = min(best, time.thread_time_ns() - before)
    return 1000 * amount / max(1, best)


PIECE = bytes(1 << 20)


def sum_up(count: int) -> None:
    """The C library lets go of the interpreter's lock while it computes."""
    zlib.adler32(memoryview(PIECE)[:count])


STEPS_PER_US = per_us(steps, 20_000)
BYTES_PER_US = per_us(sum_up, 1 << 18)


def be_busy(us: int) -> None:
    steps(int(us * STEPS_PER_US))


def be_busy_in_c(us: int) -> None:
    left = int(us * BYTES_PER_US)
    while left > 0:
        sum_up(min(left, len(PIECE)))
        left -= len(PIECE)


def be_second(stats: memoryview) -> None:
    """A thread: so much work in every period, a millisecond at a time."""
    while True:
        length = max(1, get("period_ms")) / 1000
        for _ in range(get("work_us") // 1000):
            (be_busy_in_c if get("native") else be_busy)(1000)
            stats[WORK_US] += 1000
        now = time.monotonic()
        time.sleep(length - now % length)


# ---- the service ----


def lot(number: int) -> int:
    """The same fate for the same request in every round: 0 to 999."""
    x = ((number + 1) * 2654435761 + get("seed")) & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 2246822519 & 0xFFFFFFFF
    return (x ^ x >> 13) % 1000


async def serve(message: bytes, stats: memoryview) -> None:
    stats[STARTED] += 1
    number = REQUEST.unpack(message)[1]
    asks = max(1, get("asks"))
    for _ in range(asks):
        be_busy(get("cpu_us") // asks)
        await asyncio.sleep(get("wait_us") / asks / 1e6)  # until the storage has answered
    every = get("slow_every")
    if every and lot(number) % every == 0:
        seconds = get("slow_wait_us") / 1e6
        if get("await_slow"):
            await asyncio.sleep(seconds)
        elif get("offload_slow"):
            await asyncio.to_thread(time.sleep, seconds)
        else:
            time.sleep(seconds)
    stats[FINISHED] += 1


queue: asyncio.Queue[tuple[socket.socket, bytes]]
has_worker: dict[int, asyncio.Task[None]] = {}


async def reply(line: socket.socket, message: bytes, stats: memoryview) -> None:
    with contextlib.suppress(OSError):  # a client that has gone needs no answer
        await asyncio.get_running_loop().sock_sendall(line, message)
    stats[REPLIED] += 1


async def be_worker(me: int, stats: memoryview) -> None:
    while True:
        line, message = await queue.get()
        if me >= get("workers"):  # it is one too many, and this is for another one
            queue.put_nowait((line, message))
            del has_worker[me]
            return
        await serve(message, stats)
        await reply(line, message, stats)


async def take_from(line: socket.socket, stats: memoryview) -> None:
    with contextlib.suppress(OSError), line:
        while message := await asyncio.get_running_loop().sock_recv(line, REQUEST.size):
            stats[RECEIVED] += 1
            if queue.qsize() < MOST_QUEUED:
                queue.put_nowait((line, message))
                continue
            stats[STARTED] += 1
            stats[FINISHED] += 1
            due, number, _ = REQUEST.unpack(message)
            await reply(line, REQUEST.pack(due, number, True), stats)


async def main(stats: memoryview) -> None:
    global queue
    queue, loop = asyncio.Queue(), asyncio.get_running_loop()

    def fill() -> None:
        for me in range(get("workers")):
            if me not in has_worker:
                has_worker[me] = loop.create_task(be_worker(me, stats))

    settle = functools.partial(loop.call_soon_threadsafe, fill)
    threading.Thread(target=be_manager, args=(settle,), daemon=True).start()
    threading.Thread(target=be_second, args=(stats,), daemon=True).start()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.setblocking(False)
    with contextlib.suppress(FileNotFoundError):
        Path(f"run/{NAME}.sock").unlink()
    listener.bind(f"run/{NAME}.sock")
    listener.listen(8)
    lines = set()  # the loop itself does not keep its tasks
    while True:
        line, _ = await loop.sock_accept(listener)
        lines.add(task := loop.create_task(take_from(line, stats)))
        task.add_done_callback(lines.discard)


def counted() -> memoryview:
    """run/NAME.stats in memory; what one before this one had in hand has gone with it."""
    with Path(f"run/{NAME}.stats").open("a+b") as file:
        os.truncate(file.fileno(), 8 * FIELDS)
        stats = memoryview(mmap.mmap(file.fileno(), 8 * FIELDS)).cast("q")
    stats[LOOP_TID] = os.getpid()
    for field in (STARTED, FINISHED, REPLIED):
        stats[field] = stats[RECEIVED]
    return stats


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: with whoever started it
    hear(sys.stdin.readline().split())
    signal.alarm(get("deadline_s"))
    asyncio.run(main(counted()))
