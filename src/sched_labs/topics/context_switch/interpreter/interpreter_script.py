"""A Python script that means to measure what a switch does to the cache; run by `experiments.interpreter`.

It is our own writing of a script that courses pass on: threads walk a buffer, one byte every 64, and call
sched_yield through ctypes after every so many steps.  It stands alone, needs nothing but Python, and talks
like the native workloads: `ready`, then a line on standard input, then records, then `done`.

    $ python interpreter_script.py 65536 20000 100 3
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time

STRIDE = 64
NEVER = 0
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None)  # a CDLL lets the interpreter's lock go around every call


def walk(buffer: bytearray, start: int, steps: int, every: int, yields: bool) -> int:
    """The hot loop; returns where it stands.

    Without yields it divides as often, and leaves out the call alone: with a divisor that is never
    reached, each remainder would be a new object, while small ones lie ready.
    """
    sched_yield = libc.sched_yield
    size, at, total = len(buffer), start, 0
    for step in range(1, steps + 1):
        total += buffer[at]
        at += STRIDE
        if at >= size:
            at = 0
        if step % every == 0 and yields:
            sched_yield()
    return at


def measure(
    buffers: list[bytearray], places: list[int], steps: int, every: int, yields: bool
) -> dict[str, int]:
    """One thread for each buffer, all at once."""

    def run(number: int) -> None:
        gate.wait()
        places[number] = walk(buffers[number], places[number], steps, every, yields)

    gate = threading.Barrier(len(buffers) + 1)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(buffers))]
    for thread in threads:
        thread.start()
    before = resource.getrusage(resource.RUSAGE_SELF)
    cpu_ns, start_ns = time.process_time_ns(), time.perf_counter_ns()
    gate.wait()
    for thread in threads:
        thread.join()
    elapsed_ns, cpu_ns = time.perf_counter_ns() - start_ns, time.process_time_ns() - cpu_ns
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "steps": steps * len(buffers),
        "elapsed_ns": elapsed_ns,
        "cpu_ns": cpu_ns,
        "voluntary": after.ru_nvcsw - before.ru_nvcsw,
        "involuntary": after.ru_nivcsw - before.ru_nivcsw,
    }


def main(arguments: list[str]) -> int:
    size, steps, every, trials, deadline_s = (int(word) for word in [*arguments, "60"][:5])
    signal.alarm(deadline_s)
    parent = os.getppid()
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 1
    buffers = [bytearray(b"\1" * size) for _ in range(2)]
    places = [0, 0]
    conditions = [(threads, yields) for threads in (1, 2) for yields in (False, True)]
    print("ready", f"tid={os.getpid()}", flush=True)
    if not sys.stdin.readline():
        return 1
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    measure(buffers, places, steps, every, False)  # not recorded: the first round warms everything up
    for trial in range(trials):
        for threads, yields in conditions if trial % 2 == 0 else conditions[::-1]:
            found = measure(buffers[:threads], places, steps, every, yields)
            words = " ".join(f"{key}={value}" for key, value in found.items())
            calls = every if yields else NEVER
            print(f"round trial={trial} threads={threads} every={calls} lock={int(lock)} {words}")
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
