"""A service with work in the background, in as many processes as Python counts CPUs: the same as runtimes.go.

    python_runtimes.py CPU_STAT TURNS DURATION_MS GAP_US REQUEST_US CPUS

This process answers requests, each a fixed amount of work, due every GAP_US whether or not the last one is
done.  Beside it CPUS processes (0: as many as os.cpu_count() says) work in the background until the end:
processes, because threads of one interpreter take turns.  With TURNS 0 the program only measures how many
turns of the loop are a millisecond's work.  With any other it measures that, too, and goes by it: the speed
of an interpreter differs from one start to the next.  The records are those of runtimes.go, where turns are
a microsecond's: one of Python's takes tenths of that.

It speaks the workloads' protocol and uses nothing of this package, so that it starts quickly.
"""

import multiprocessing
import os
import platform
import sys
import threading
import time
from collections.abc import MutableSequence
from pathlib import Path

UNIT_US = 100  # of work in the background


def end_with_standard_input() -> None:
    """Waits for the line that starts us; ends the program when whoever started it has gone."""
    if not sys.stdin.readline():
        os._exit(1)

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def work(turns: int) -> int:
    """Marsaglia's xorshift: each turn needs the one before."""
    x = 1
    for _ in range(turns):
        x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
    return x


def calibrate() -> int:
    """Turns in a millisecond: the quickest of many tries is one that nobody disturbed."""
    turns, best = 5000, float("inf")
    for _ in range(100):
        start = time.monotonic_ns()
        work(turns)
        best = min(best, time.monotonic_ns() - start)
    return max(1, round(turns * 1_000_000 / best))


def stat(path: str) -> None:
    """The group's cpu.stat as one record."""
    print("stat", *(line.replace(" ", "=") for line in Path(path).read_text().splitlines()))


def wait_for_a_period(path: str) -> None:
    """Returns when a period of the quota begins, so that a whole number of them has as many quotas."""

    def periods() -> str:
        return Path(path).read_text().partition("nr_periods")[2].partition("\n")[0]

    before = periods()
    while periods() == before:
        pass


def work_in_background(
    gate: tuple[int, int], duration: int, turns: int, units: MutableSequence[int], me: int
) -> None:
    """Units of work from the start that comes out of the gate until the end; how many, in units[me]."""
    os.close(gate[1])  # then the gate ends with whoever would open it, and nothing waits there for ever
    start = int.from_bytes(os.read(gate[0], 8), "little")
    while time.monotonic_ns() - start < duration:
        work(UNIT_US * turns // 1000)
        units[me] += 1


def main() -> None:
    """Serve requests beside the work in the background, and say how long each took."""
    turns, duration_ms, gap_us, request_us, given = (int(word) for word in sys.argv[2:])
    end_with_standard_input()
    cpus = given or os.cpu_count() or 1
    print(f"seen cpus={cpus} version={platform.python_version()}")
    measured = calibrate()
    if not turns:
        print(f"work turns={measured}\ndone")
        return
    turns = measured
    duration, gap = 1_000_000 * duration_ms, 1000 * gap_us
    around = multiprocessing.get_context("fork")
    units = around.Array("q", cpus, lock=False)
    gate = os.pipe()
    workers = [
        around.Process(target=work_in_background, args=(gate, duration, turns, units, number), daemon=True)
        for number in range(cpus)
    ]
    for worker in workers:
        worker.start()
    time.sleep(0.05)  # for the last of them to be there
    wait_for_a_period(sys.argv[1])
    stat(sys.argv[1])
    start = time.monotonic_ns()
    os.write(gate[1], start.to_bytes(8, "little") * cpus)  # one call lets all of them begin
    latencies = []
    for due in range(0, duration, gap):
        if (early := due - (time.monotonic_ns() - start)) > 0:
            time.sleep(early / 1e9)
        work(request_us * turns // 1000)
        latencies.append(time.monotonic_ns() - start - due)
    for worker in workers:
        worker.join()
    elapsed = time.monotonic_ns() - start
    stat(sys.argv[1])
    for number, latency in enumerate(latencies):
        print(f"request due_ns={number * gap} latency_ns={latency}")
    print(f"background units={sum(units)} elapsed_ns={elapsed}\ndone")


if __name__ == "__main__":
    main()
