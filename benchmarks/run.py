"""What the measuring itself costs, against its peers and against what we promise.  `make bench` runs this.

Every comparison alternates its two sides in blocks, in one run (A B B A ...), so that a machine that gets
busier or slower moves both.  Exits with status 1 when a target is missed.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sched_labs import lock, placement, workloads
from sched_labs.errors import SchedLabError
from sched_labs.experiments.surroundings import Surroundings
from sched_labs.probes import runqlat

BLOCKS = 24
ROUND_TRIPS = 20_000
PING_PONG = ("--by", "pipe", "--between", "processes", "--trials", "1", "--round-trips", str(ROUND_TRIPS))
FRESH_STARTS = 9
RATIO_TARGET = 0.03
IMPORT_TARGET_S = 0.150
DOCTOR_TARGET_S = 2.0
PEER_PROBE = "/usr/sbin/runqlat"  # of libbpf-tools


@dataclass(frozen=True)
class Line:
    """One line of the table; `ok` is None where there is no target or nothing could be measured."""

    what: str
    value: str
    target: str
    ok: bool | None
    remark: str = ""


class NotMeasurable(Exception):
    """Why something cannot be measured on this machine."""


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, float, float]:
    """Ratio of medians with its 95 % bootstrap interval; blocks are drawn in pairs."""
    above, below = np.asarray(numerator), np.asarray(denominator)
    picks = np.random.default_rng(0).integers(0, above.size, size=(4000, above.size))
    ratios = np.median(above[picks], axis=1) / np.median(below[picks], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(above) / np.median(below)), float(low), float(high)


def alternate(*sides: Callable[[], float], blocks: int = BLOCKS) -> list[list[float]]:
    """The values of each side; the order of the sides turns round each block.  One block warms up."""
    values: list[list[float]] = [[] for _ in sides]
    for block in range(-1, blocks):
        order = range(len(sides)) if block % 2 else reversed(range(len(sides)))
        for side in order:
            value = sides[side]()
            if block >= 0:
                values[side].append(value)
    return values


def our_pipe_ns(cpu: int) -> float:
    """One block of our own ping-pong over pipes, between processes, on one CPU: ns per round trip."""
    with workloads.start("pingpong", PING_PONG) as pingpong:
        placement.pin(pingpong.tids, [cpu])
        exchange = next(block for block in pingpong.run() if block.text("condition") == "exchange")
    return exchange["elapsed_ns"] / exchange["round_trips"]


def perf_pipe_ns(cpu: int) -> float:
    """One block of `perf bench sched pipe`, two processes and two pipes as well: ns per operation."""
    command = ["taskset", "-c", str(cpu), "perf", "bench", "sched", "pipe"]
    for tool in ("perf", "taskset"):
        if not shutil.which(tool):
            raise NotMeasurable(f"{tool} is not installed")
    done = subprocess.run([*command, "-l", str(ROUND_TRIPS)], capture_output=True, text=True, timeout=60)
    try:
        # "5.532000 usecs/op": the total above it is rounded to milliseconds.
        words = done.stdout.split()
        return float(words[words.index("usecs/op") - 1]) * 1e3
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotMeasurable(f"perf does not run here: {said[0] if said else done.returncode}") from None


def against_perf(cpu: int) -> list[Line]:
    what = "pipe ping-pong / perf bench sched pipe"
    target = f"1 ± {RATIO_TARGET}"
    try:
        ours, theirs = alternate(lambda: our_pipe_ns(cpu), lambda: perf_pipe_ns(cpu))
    except NotMeasurable as error:
        return [Line(what, "not measurable", target, None, str(error))]
    ratio, low, high = ratio_interval(ours, theirs)
    medians = f"medians {statistics.median(ours):,.0f} and {statistics.median(theirs):,.0f} ns, CPU {cpu}"
    ok = abs(ratio - 1) <= RATIO_TARGET
    if low < 1 - RATIO_TARGET or high > 1 + RATIO_TARGET:
        medians += "; the interval reaches over the target"
    return [Line(what, f"{ratio:.3f} [{low:.3f}, {high:.3f}]", target, ok, medians)]


def import_times() -> list[Line]:
    lines = []
    for code, target in (("import sched_labs", IMPORT_TARGET_S), ("from sched_labs import warmup", None)):
        timed = f"import time; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
        times = []
        for _ in range(FRESH_STARTS + 1):  # the first one fills the page cache
            done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
            times.append(float(done.stdout))
        median = statistics.median(times[1:])
        lines.append(
            Line(
                code,
                f"{median * 1e3:.0f} ms",
                f"< {target * 1e3:.0f} ms" if target else "none",
                median < target if target else None,
                "" if target else "loads pandas",
            )
        )
    return lines


def doctor_time() -> list[Line]:
    what, target = "sched-labs doctor --json", f"< {DOCTOR_TARGET_S:.0f} s"
    command = [str(Path(sys.executable).with_name("sched-labs")), "doctor", "--json"]
    times = []
    for _ in range(4):
        start = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except OSError as error:
            return [Line(what, "does not start", target, False, str(error.strerror))]
        times.append(time.perf_counter() - start)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            return [Line(what, f"status {done.returncode}", target, False, said[-1] if said else "")]
    median = statistics.median(times[1:])
    return [Line(what, f"{median:.2f} s", target, median < DOCTOR_TARGET_S)]


def under_our_probe_ns(cpu: int) -> float:
    """Our ping-pong while our probe counts every wait of both sides."""
    with workloads.start("pingpong", PING_PONG) as pingpong:
        placement.pin(pingpong.tids, [cpu])
        with runqlat.watch(pids=pingpong.tids, duration_s=60) as probe:
            probe.start()
            exchange = next(block for block in pingpong.run() if block.text("condition") == "exchange")
            probe.stop()
    return exchange["elapsed_ns"] / exchange["round_trips"]


def under_peer_probe_ns(cpu: int) -> float:
    """Our ping-pong while libbpf-tools' runqlat counts the waits of the whole machine."""
    peer = subprocess.Popen(
        [PEER_PROBE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with peer:
        try:
            time.sleep(1)  # it says when it is ready, but into a pipe only at its end
            if peer.poll() is not None:
                raise NotMeasurable(f"{PEER_PROBE} does not run here (status {peer.returncode})")
            return our_pipe_ns(cpu)
        finally:
            peer.send_signal(signal.SIGINT)
            try:
                peer.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                peer.kill()


def probe_overhead(cpu: int) -> list[Line]:
    """Two ping-pongs under a probe against one without; one switch per hand-over is the worst case."""
    lines: list[Line] = []
    available = runqlat.available()
    if not available.ok:
        return [Line("ping-pong under our probe", "not measurable", "none", None, available.why)]
    sides: list[Callable[[], float]] = [lambda: our_pipe_ns(cpu), lambda: under_our_probe_ns(cpu)]
    peer_why = "" if os.access(PEER_PROBE, os.X_OK) else f"{PEER_PROBE} is not installed"
    if not peer_why and os.geteuid() != 0:
        peer_why = f"{PEER_PROBE} needs root"
    if not peer_why:
        sides.append(lambda: under_peer_probe_ns(cpu))
    try:
        free, *probed = alternate(*sides, blocks=9)
    except (NotMeasurable, SchedLabError) as error:
        return [
            Line("ping-pong under a probe", "not measurable", "none", None, str(error).replace("\n", " "))
        ]
    per_trip = f"{statistics.median(free):,.0f} ns without a probe"
    for name, values in zip(("our probe", "libbpf-tools runqlat"), probed, strict=False):
        ratio, low, high = ratio_interval(values, free)
        value = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
        lines.append(Line(f"ping-pong under {name} / without", value, "none", None, per_trip))
    if len(probed) == 2:
        ratio, low, high = ratio_interval(probed[0], probed[1])
        value = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
        lines.append(Line("ping-pong under our probe / under runqlat", value, "none", None))
    else:
        lines.append(Line("libbpf-tools runqlat", "not measurable", "none", None, peer_why))
    return lines


def show(lines: Sequence[Line]) -> None:
    verdict = {True: "met", False: "MISSED", None: ""}
    rows = [("what", "value [95 % interval]", "target", "", "")]
    rows += [(line.what, line.value, line.target, verdict[line.ok], line.remark) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[4]]).rstrip())


def main() -> int:
    try:
        with lock.machine("benchmarks", waiting=lambda who: print(f"Waiting for {who}.", file=sys.stderr)):
            cpu = placement.quiet_cpu()
            surroundings = Surroundings()
            lines = [*against_perf(cpu), *probe_overhead(cpu)]
            around = surroundings.since()
            lines += [*import_times(), *doctor_time()]
    except SchedLabError as error:
        print(error, file=sys.stderr)
        return 2
    show(lines)
    print("Ratios are of medians over alternating blocks of one run; times are medians of fresh processes.")
    for doubt in Surroundings.doubts(around):
        # The peers' own CPU time is not counted as others': they are our children, too.
        print(f"Doubt: {doubt}")
    return 1 if any(line.ok is False for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
