"""Does `watch` count what other people's tools count?  One program, watched by all in the same seconds.

    sudo python benchmarks/watch_agreement.py [--seconds 12] [--turns 3]

A shop with more workers than CPUs waits at its barrier until every tool looks, and ends before any of them
stops: each sees all of its waits.  A few more that others see are those of its start.

    runqlat -p (libbpf-tools)   from sched_wakeup, or from the switch away from a thread that could go on,
                                until the switch to it: as `watch` does
    perf sched timehist         "sch delay" is from sched_wakeup only; what a preempted thread waits is in
                                "wait time", with sleep.  It is compared with the waits after a wake-up
    offcputime -p (libbpf-tools)  from the switch away from a thread until the switch to it, whatever it did:
                                waits and sleep in one sum, compared with the sum of both.  The watch looks
                                at threads some ten times a second and does not see the last moments of one
                                that ends, so that a run of few seconds differs by more

`perf sched latency` is left out: perf 6.1 loses most waits on newer kernels ("context switch bugs").
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.result import Result
from sched_labs.probes import peers
from sched_labs.probes.waits import quantile_ns
from sched_labs.watching.program import observe
from sched_labs.watching.target import Processes

QUANTILES = (0.5, 0.9, 0.99)
READY_S = 1.5  # perf record does not say when it has begun
_DELAY = re.compile(r"\[(\d+)(?:/\d+)?\]\s+[\d.]+\s+([\d.]+)\s+[\d.]+")


class Shop(Processes):
    """A workload at its barrier, which begins when the watch does."""

    def __init__(self, shop: workloads.Workload) -> None:
        super().__init__([shop.pid])
        self.begin = shop.go  # type: ignore[method-assign]


@contextlib.contextmanager
def recording(data: Path) -> Iterator[None]:
    """perf while it records every switch and wake-up of the machine."""
    perf = subprocess.Popen(
        [
            *("/usr/bin/env", "--default-signal=INT", "perf", "sched", "record"),
            *("-m", "8M", "-q", "-o", str(data)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(READY_S)
        yield
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()


@contextlib.contextmanager
def off_cpu(pid: int) -> Iterator[list[float]]:
    """offcputime while it watches this process; the list has its times in seconds at the end.

    One a thread and stack: of stacks cut short there are few, and so its tables, of 10,240 rows, lose none.
    """
    found: list[float] = []
    words = ["offcputime", "-p", str(pid), "--perf-max-stack-depth", "1"]
    tool = subprocess.Popen(
        ["/usr/bin/env", "--default-signal=INT", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        time.sleep(READY_S)
        yield found
    finally:
        tool.send_signal(signal.SIGINT)
        found += [int(us) / 1e6 for us in re.findall(r"^\s+(\d+)$", tool.communicate()[0], re.MULTILINE)]


def delays_us(data: Path, tids: set[int]) -> list[float]:
    """The scheduling delays of these threads after wake-ups, as timehist has them; without ones of 0."""
    words = ["perf", "sched", "timehist", "-i", str(data), "--tid", ",".join(map(str, sorted(tids)))]
    said = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=120).stdout
    found = [1e3 * float(ms) for tid, ms in _DELAY.findall(said) if int(tid) in tids]
    return [us for us in found if us > 0]


def one_turn(seconds: float) -> tuple[int, Result, list[float], peers.Peer, list[float]]:
    """The shop, the watch, perf's delays in µs, runqlat, and offcputime's times in seconds."""
    workers = str(3 * len(machine.survey().cpus_allowed))
    words = ["--workers", workers, "--work-us", "700", "--pause-us", "300"]
    words += ["--duration-ms", str(round(1e3 * seconds))]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        with workloads.start("orders", words, deadline_s=seconds + 60) as shop:
            tids = {shop.pid, *shop.tids}
            with recording(data), off_cpu(shop.pid) as off, peers.running("runqlat", shop.pid) as runqlat:
                result = observe(Shop(shop), seconds + 5, progress=False)
        return shop.pid, result, delays_us(data, tids), runqlat, off


def apart(ours_us: float, theirs_us: float) -> int:
    """How many powers of two lie between two waits."""
    return math.floor(math.log2(max(1.0, ours_us))) - math.floor(math.log2(max(1.0, theirs_us)))


def compared(pid: int, result: Result, delays: list[float], runqlat: peers.Peer, off: list[float]) -> None:
    waits: pd.DataFrame = result.tables["waits"]
    number = int(waits["waits"].sum())
    woken = int(waits[waits["cause"] == "wakeup"]["waits"].sum())
    print(f"watch                {number:>9,} waits, {woken:,} of them after a wake-up")
    histogram = runqlat.histogram()
    every = sum(histogram.values())
    lows = np.repeat(list(histogram), list(histogram.values()))
    bins = [
        f"{q:.0%} {apart(quantile_ns(waits, q) / 1e3, float(np.quantile(lows, q, method='inverted_cdf'))):+d}"
        for q in QUANTILES
    ]
    print(f"runqlat -p           {every:>9,} waits: watch {number / every - 1:+.2%}; bins {', '.join(bins)}")
    bins = [
        f"{q:.0%} {apart(quantile_ns(waits, q, 'wakeup') / 1e3, float(np.quantile(delays, q))):+d}"
        for q in QUANTILES
    ]
    print(
        f"perf sched timehist  {len(delays):>9,} after a wake-up: watch {woken / len(delays) - 1:+.2%}; "
        f"bins {', '.join(bins)}"
    )
    own = result.data[result.data["pid"] == pid]  # and not its children, which -p leaves out
    off_ms_per_s = own[["asleep_ms_per_s", "waiting_ms_per_s"]].sum().sum()
    ours_s = off_ms_per_s / 1e3 * result.facts["window_s"]
    theirs_s = sum(off)
    print(f"offcputime -p        {theirs_s:>9.3f} s off the CPU: watch {ours_s / theirs_s - 1:+.2%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("The other tools need root.")
    try:
        peers.command("perf"), peers.command("runqlat")
        if not shutil.which("offcputime"):
            sys.exit("Nothing to compare with: offcputime is not installed.")
        for _ in range(options.turns):
            compared(*one_turn(options.seconds))
    except peers.PeerError as error:
        sys.exit(f"Nothing to compare with: {error}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
