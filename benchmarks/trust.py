"""Can the numbers be trusted?  `make bench-trust` asks two things that need a quiet machine and some minutes.

Wake-ups against cyclictest: our sleeper and cyclictest sleep until the same points of an absolute schedule
(clock_nanosleep, TIMER_ABSTIME, every millisecond) and read the clock when they run again, on the same CPU,
under FIFO 80.  cyclictest by itself also asks the CPU to stay out of deep idle states (/dev/cpu_dma_latency);
it is told not to (--default-system), because the book measures the machine as it is.

A against A: how often does a comparison of a thing with itself say that the two differ?  Each try compares
blocks of one and the same ping-pong, taken in turns, by the ratio and the 95 % interval of `make bench`
(`table.ratio_interval`); a try whose interval leaves out 1 is a false difference.  Of eight blocks a side ten
patterns of 256 do, so that 3.9 % are expected, and how many more a run may have by chance is said beside.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from table import Line, NotMeasurable, alternate, conclude, ratio_interval

from sched_labs import workloads
from sched_labs.core import lock
from sched_labs.core.errors import SchedLabError
from sched_labs.run.surroundings import Surroundings
from sched_labs.steer import placement, policies

PERIOD_US, WAKES, PRIORITY = 1000, 500, 80
REPETITIONS = 9
TRIES, BLOCKS = 200, 8
MOST_FALSE = 0.05
SHORT = ("--by", "pipe", "--between", "threads", "--trials", "1", "--round-trips", "2000")


def our_wake_up_ns(cpu: int) -> float:
    """The median lateness of our sleeper, alone on its CPU under FIFO."""
    words = ["--hogs", "0", "--period-us", str(PERIOD_US), "--wakes", str(WAKES)]
    with workloads.start("sleeper", words) as sleeper:
        placement.pin(sleeper.tids, [cpu])
        for tid in sleeper.tids:
            policies.apply(tid, replace(policies.FIFO, priority=PRIORITY))
        return statistics.median(record["late_ns"] for record in sleeper.run() if record.kind == "wake")


def cyclictest_ns(cpu: int) -> float:
    """The median of what cyclictest prints for each of its wake-ups, in the same place and policy."""
    if not shutil.which("cyclictest"):
        raise NotMeasurable("cyclictest is not installed (Debian's rt-tests)")
    words = [
        "cyclictest",
        "--default-system",
        "--verbose",
        "--nsecs",
        "--mlockall",
        "-t",
        "1",
        "-a",
        str(cpu),
    ]
    words += ["-p", str(PRIORITY), "-i", str(PERIOD_US), "-l", str(WAKES)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    found = [int(one) for one in re.findall(r"^\s*0:\s+\d+:\s+(\d+)", done.stdout, re.MULTILINE)]
    if len(found) < WAKES // 2:
        raise NotMeasurable(f"cyclictest does not run here: {(done.stderr or done.stdout)[-100:]!r}")
    return statistics.median(found)


def against_cyclictest(cpu: int) -> list[Line]:
    what = "wake-ups, p50: our sleeper / cyclictest"
    try:
        ours, theirs = alternate(lambda: our_wake_up_ns(cpu), lambda: cyclictest_ns(cpu), blocks=REPETITIONS)
    except (NotMeasurable, SchedLabError) as error:
        return [Line(what, "not measurable", "1 within its interval", None, str(error).replace("\n", " "))]
    ratio, low, high = ratio_interval(ours, theirs)
    remark = f"medians {statistics.median(ours) / 1e3:,.1f} and {statistics.median(theirs) / 1e3:,.1f} µs"
    remark += f", {REPETITIONS} repetitions of {WAKES} wake-ups"
    value = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
    return [Line(what, value, "1 within its interval", low <= 1 <= high, remark)]


def short_ns(cpu: int) -> float:
    """A short block of our ping-pong: ns per round trip."""
    with workloads.start("pingpong", SHORT) as pingpong:
        placement.pin(pingpong.tids, [cpu])
        exchange = next(block for block in pingpong.run() if block.text("condition") == "exchange")
    return exchange["elapsed_ns"] / exchange["round_trips"]


def same_against_same(cpu: int, tries: int) -> list[Line]:
    found = []
    for _ in range(tries):
        one, other = alternate(lambda: short_ns(cpu), lambda: short_ns(cpu), blocks=BLOCKS)
        found.append(ratio_interval(one, other))
    wrong = sum(not low <= 1 <= high for _, low, high in found)
    width = statistics.median(high - low for _, low, high in found) / 2
    remark = f"{tries} tries of {BLOCKS} blocks a side; half an interval is {width:.1%} at the median"
    # Of so many tries, what chance alone adds to one in twenty in one run of forty.
    most = MOST_FALSE + 1.96 * (MOST_FALSE * (1 - MOST_FALSE) / tries) ** 0.5
    what, target = "false differences of a thing with itself", f"<= {MOST_FALSE:.0%} (chance: {most:.1%})"
    return [Line(what, f"{wrong / tries:.1%}", target, wrong / tries <= most, remark)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="whether the book's numbers can be trusted here")
    parser.add_argument("--tries", type=int, default=TRIES, help=f"A against A so often ({TRIES})")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the table there, for the book")
    asked = parser.parse_args(arguments)
    try:
        with lock.machine("benchmarks", waiting=lambda who: print(f"Waiting for {who}.", file=sys.stderr)):
            cpu = placement.quiet_cpu()
            surroundings = Surroundings()
            lines = [*against_cyclictest(cpu), *same_against_same(cpu, asked.tries)]
            around = surroundings.since()
    except SchedLabError as error:
        print(error, file=sys.stderr)
        return 2
    doubts = Surroundings.doubts(around)
    return conclude("make bench-trust", lines, doubts, asked.keep)


if __name__ == "__main__":
    sys.exit(main())
