"""Two tools that people take to work, beside ours.  `make bench-peers` runs this, on a quiet machine.

lat_ctx (lmbench): one hop of a token round a ring of processes, less what one process needs for the same
calls and the same memory.  Our ring has that definition, so that the ratio should be 1.
lat_ctx sums its memory a word at a time, and so does ours in sequential order.

schbench: from the moment at which a messenger posts a futex to that at which its worker has read the clock.
Our probe watches the same threads at the same time, from the kernel's wake-up to the switch, and so begins
later and ends earlier: its median should not be the longer one.  schbench tells whole microseconds.

Neither tool is in Debian's main archive; both are used where they are found in PATH.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from table import Line, NotMeasurable, alternate, conclude, ratio_interval

from sched_labs import workloads
from sched_labs.core import lock
from sched_labs.core.errors import SchedLabError
from sched_labs.probes import runqlat
from sched_labs.run.surroundings import Surroundings
from sched_labs.steer import placement

REPETITIONS = 9
RINGS = ((2, 0), (8, 16))  # processes, and KiB that each of them touches
LAPS = 20_000
SECONDS = 2
# What lat_ctx else finds out for half a minute at each start: how long a block has to be, in µs, and what a
# loop and a look at the clock cost it, in µs.
_CALIBRATED = {"ENOUGH": "50000", "TIMING_O": "0.05", "LOOP_O": "0.0005"}


def _tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise NotMeasurable(f"{name} is not in PATH: it has to be built from its sources")
    return found


def our_hop_ns(cpu: int, processes: int, kib: int) -> float:
    """One hop of our ring, less the same by one process."""
    words = ["--processes", str(processes), "--rings", "1", "--bytes", str(kib * 1024)]
    words += ["--access", "sequential", "--trials", "1", "--alone", str(LAPS)]
    with workloads.start("ring", [*words, "--laps", str(LAPS // processes)]) as ring:
        placement.pin(ring.tids, [cpu])
        per = {block.text("condition"): block["elapsed_ns"] / block["hops"] for block in ring.run()}
    return per["ring"] - per["alone"]


def lat_ctx_ns(cpu: int, processes: int, kib: int) -> float:
    """What lat_ctx says of the same ring: it prints µs with two digits after the point."""
    words = ["taskset", "-c", str(cpu), _tool("lat_ctx"), "-N", "3", "-s", str(kib), str(processes)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=os.environ | _CALIBRATED)
    said = re.search(rf"^{processes} ([0-9.]+)$", done.stderr, re.MULTILINE)
    if not said:
        raise NotMeasurable(f"lat_ctx prints no result here: {done.stderr.strip()[-80:]!r}")
    return float(said[1]) * 1e3


def against_lat_ctx(cpu: int) -> list[Line]:
    lines = []
    for processes, kib in RINGS:
        what = f"ring of {processes}, {kib} KiB each: ours / lat_ctx"
        try:
            ours, theirs = alternate(
                lambda size=(processes, kib): our_hop_ns(cpu, *size),  # type: ignore[misc]
                lambda size=(processes, kib): lat_ctx_ns(cpu, *size),  # type: ignore[misc]
                blocks=REPETITIONS,
            )
        except (NotMeasurable, SchedLabError, subprocess.TimeoutExpired) as error:
            lines.append(
                Line(what, "not measurable", "1 within its interval", None, str(error).replace("\n", " "))
            )
            continue
        ratio, low, high = ratio_interval(ours, theirs)
        remark = f"medians {statistics.median(ours):,.0f} and {statistics.median(theirs):,.0f} ns a hop"
        value = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
        lines.append(Line(what, value, "1 within its interval", low <= 1 <= high, remark))
    return lines


def waits_of_schbench_us(cpu: int) -> tuple[float, float]:
    """The median wake-up of one worker of schbench: by our probe, and by itself; both at once."""
    words = ["taskset", "-c", str(cpu), _tool("schbench"), "-L", "-m", "1", "-t", "1", "-n", "0", "-s", "0"]
    with subprocess.Popen(
        [*words, "-r", str(SECONDS + 1)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as schbench:
        try:
            time.sleep(0.5)  # its threads are there
            with runqlat.watch([schbench.pid], 60) as probe:
                probe.start()
                time.sleep(SECONDS)
                waits = probe.stop()
            said, _ = schbench.communicate(timeout=60)
        finally:
            schbench.kill()
    theirs = re.search(r"Wakeup Latencies.*?50\.0th: +(\d+)", said, re.DOTALL)
    if not theirs or not waits.total:
        raise NotMeasurable(f"schbench does not run here: {said.strip()[-80:]!r}")
    return waits.quantile_ns(0.5) / 1e3, float(theirs[1])


def against_schbench(cpu: int) -> list[Line]:
    what = "wake-ups of schbench's threads, p50: our probe / schbench"
    try:
        pairs = [waits_of_schbench_us(cpu) for _ in range(REPETITIONS)]
    except (NotMeasurable, SchedLabError, subprocess.TimeoutExpired) as error:
        return [Line(what, "not measurable", "<= 1", None, str(error).replace("\n", " "))]
    ours, theirs = zip(*pairs, strict=True)
    ratio, low, high = ratio_interval(ours, theirs)
    remark = (
        f"medians {statistics.median(ours):.1f} and {statistics.median(theirs):.0f} µs; schbench's begins "
    )
    remark += "with the post of the futex and ends in the worker, ours is from wake-up to switch"
    return [Line(what, f"{ratio:.3f} [{low:.3f}, {high:.3f}]", "<= 1", low <= 1, remark)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="our ring and our probe against lat_ctx and schbench")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the table there, for the book")
    asked = parser.parse_args(arguments)
    try:
        with lock.machine("benchmarks", waiting=lambda who: print(f"Waiting for {who}.", file=sys.stderr)):
            cpu = placement.quiet_cpu()
            surroundings = Surroundings()
            lines = [*against_lat_ctx(cpu), *against_schbench(cpu)]
            doubts = Surroundings.doubts(surroundings.since())
    except SchedLabError as error:
        print(error, file=sys.stderr)
        return 2
    return conclude("make bench-peers", lines, doubts, asked.keep)


if __name__ == "__main__":
    sys.exit(main())
