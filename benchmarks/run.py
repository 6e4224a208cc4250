"""What the measuring itself costs, against its peers and against what we promise.  `make bench` runs this.

Every comparison alternates its two sides in blocks, in one run (A B B A ...), so that a machine that gets
busier or slower moves both.  Exits with status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import fleet
import numpy as np
import switching
from table import Line, NotMeasurable, alternate, conclude, ratio_interval

from sched_labs import workloads
from sched_labs.core import lock
from sched_labs.core.errors import SchedLabError
from sched_labs.probes import peers, runqlat
from sched_labs.run.surroundings import Surroundings
from sched_labs.steer import placement

BLOCKS = 24
ROUND_TRIPS = 20_000
PING_PONG = ("--by", "pipe", "--between", "processes", "--trials", "1", "--round-trips", str(ROUND_TRIPS))
FRESH_STARTS = 9
RATIO_TARGET = 0.03
IMPORT_TARGET_S = 0.150
DOCTOR_TARGET_S = 2.0
PEERS = {"runqlat": "libbpf-tools runqlat", "runqlat-bpfcc": "bcc runqlat"}
PROBE_BLOCKS = 15
FEWEST_SWITCHES_S = 200_000
ATTRIBUTION_TARGET = 0.75
COUNT_TARGET = 0.01
QUANTILES = (0.5, 0.9, 0.99)
THREADS = ("--by", "pipe", "--between", "threads", "--trials", "3", "--round-trips", str(ROUND_TRIPS))
LONG = ("--by", "pipe", "--between", "processes", "--trials", "1", "--round-trips", str(10 * ROUND_TRIPS))
FLOOD = ("--by", "yield", "--between", "threads", "--trials", "1", "--round-trips", "300000")


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
        ours, theirs = alternate(lambda: our_pipe_ns(cpu), lambda: perf_pipe_ns(cpu), blocks=BLOCKS)
    except NotMeasurable as error:
        return [Line(what, "not measurable", target, None, str(error))]
    ratio, low, high = ratio_interval(ours, theirs)
    medians = f"medians {statistics.median(ours):,.0f} and {statistics.median(theirs):,.0f} ns, CPU {cpu}"
    ok = abs(ratio - 1) <= RATIO_TARGET
    if low < 1 - RATIO_TARGET or high > 1 + RATIO_TARGET:
        medians += "; the interval reaches over the target"
    return [Line(what, f"{ratio:.3f} [{low:.3f}, {high:.3f}]", target, ok, medians)]


def against_proc_stat(cpu: int) -> list[Line]:
    """The switches that a ping-pong's threads count of themselves, and the machine's in the same seconds."""
    with workloads.start("pingpong", LONG) as pingpong:
        placement.pin(pingpong.tids, [cpu])
        before = switches_so_far()
        blocks = [block for block in pingpong.run() if block.text("condition") == "exchange"]
        everywhere = switches_so_far() - before
    ours = sum(block["voluntary"] + block["involuntary"] for block in blocks)
    remark = f"{ours:,} switches of ours, {everywhere - ours:,} of others"
    # What the machine counts holds ours: more than all of it cannot be right.
    return [
        Line(
            "switches: own counters / /proc/stat",
            f"{ours / everywhere:.3f}",
            "<= 1",
            ours <= everywhere,
            remark,
        )
    ]


def switches_so_far() -> int:
    """The context switches of the whole machine since it booted."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("ctxt "))


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


def under_our_probe_ns(cpu: int, *, attribution: bool) -> float:
    """Our ping-pong while our probe counts every wait of both sides."""
    with workloads.start("pingpong", PING_PONG) as pingpong:
        placement.pin(pingpong.tids, [cpu])
        with runqlat.watch(pids=pingpong.tids, duration_s=60, attribution=attribution) as probe:
            probe.start()
            exchange = next(block for block in pingpong.run() if block.text("condition") == "exchange")
            probe.stop()
    return exchange["elapsed_ns"] / exchange["round_trips"]


def under_peer_probe_ns(cpu: int, name: str) -> float:
    """Our ping-pong while another tool counts the waits of the whole machine."""
    try:
        with peers.running(name):
            return our_pipe_ns(cpu)
    except peers.PeerError as error:
        raise NotMeasurable(str(error)) from error


def usable_peers(cpu: int) -> tuple[list[str], list[Line]]:
    """The tools that run here, and a line for each that does not."""
    usable, lines = [], []
    for name in PEERS:
        try:
            with peers.running(name):
                usable.append(name)
        except peers.PeerError as error:
            lines.append(Line(f"{PEERS[name]}", "not measurable", "none", None, str(error)))
    return usable, lines


def probe_overhead(cpu: int) -> list[Line]:
    """Ping-pongs under a probe against one without; one switch per hand-over is the worst case."""
    available = runqlat.available()
    if not available.ok:
        return [Line("ping-pong under our probe", "not measurable", "none", None, available.why)]
    usable, lines = usable_peers(cpu)
    names = ["our probe", "our probe with attribution", *(PEERS[name] for name in usable)]
    sides: list[Callable[[], float]] = [
        lambda: our_pipe_ns(cpu),
        lambda: under_our_probe_ns(cpu, attribution=False),
        lambda: under_our_probe_ns(cpu, attribution=True),
        *(functools.partial(under_peer_probe_ns, cpu, name) for name in usable),
    ]
    try:
        free, *probed = alternate(*sides, blocks=PROBE_BLOCKS)
    except (NotMeasurable, SchedLabError) as error:
        return [
            *lines,
            Line("ping-pong under a probe", "not measurable", "none", None, str(error).replace("\n", " ")),
        ]
    bare_ns = statistics.median(free)
    per_trip = f"{bare_ns:,.0f} ns a round trip without a probe, {2e9 / bare_ns:,.0f} switches/s"
    if 2e9 / bare_ns < FEWEST_SWITCHES_S:
        per_trip += f"; the target is meant for {FEWEST_SWITCHES_S:,} and more"
    for name, values in zip(names, probed, strict=True):
        ratio, low, high = ratio_interval(values, free)
        value = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
        lines.append(Line(f"ping-pong under {name} / without", value, "none", None, per_trip))
    for name, theirs in zip(usable, probed[2:], strict=True):
        for ours, values, most, aim in (
            ("our probe", probed[0], 1.0, " (aim 0.5)" if name == "runqlat" else ""),
            ("attribution", probed[1], ATTRIBUTION_TARGET, ""),
        ):
            what, target = f"added by {ours} / added by {PEERS[name]}", f"<= {most:g}{aim}"
            try:
                share, low, high = added_interval(values, theirs, free)
            except NotMeasurable as error:
                lines.append(Line(what, "not measurable", target, None, str(error)))
                continue
            remark = "" if low > most or high <= most else "the interval reaches over the target"
            value = f"{share:.2f} [{low:.2f}, {high:.2f}]"
            lines.append(Line(what, value, target, share <= most, remark))
    return lines


def added_interval(
    ours: Sequence[float], theirs: Sequence[float], free: Sequence[float]
) -> tuple[float, float, float]:
    """What we add over what they add, with its 95 % bootstrap interval; blocks are drawn together.

    NotMeasurable where what they add does not stand clear of the noise: a ratio to nothing says nothing.
    """
    a, b, base = np.asarray(ours), np.asarray(theirs), np.asarray(free)
    picks = np.random.default_rng(0).integers(0, base.size, size=(4000, base.size))
    middle = np.median(base[picks], axis=1)
    theirs_added = np.median(b[picks], axis=1) - middle
    if np.quantile(theirs_added, 0.025) <= 0:
        raise NotMeasurable("what the other one adds does not stand clear of the noise of this run")
    shares = (np.median(a[picks], axis=1) - middle) / theirs_added
    low, high = np.quantile(shares, (0.025, 0.975))
    whole = float((np.median(a) - np.median(base)) / (np.median(b) - np.median(base)))
    return whole, float(low), float(high)


def probe_agreement(cpu: int) -> list[Line]:
    """Our probe and its peers on the same waits: the waits of one ping-pong, all tools at once."""
    lines: list[Line] = []
    for name, words in PEERS.items():
        try:
            with workloads.start("pingpong", THREADS) as pingpong:
                placement.pin(pingpong.tids, [cpu])
                with runqlat.watch([pingpong.pid], 60) as probe, peers.running(name, pingpong.pid) as peer:
                    probe.start()
                    pingpong.run()
                    waits = probe.stop()
        except (peers.PeerError, SchedLabError) as error:
            said = str(error).replace("\n", " ")
            lines.append(Line(f"our probe and {words}", "not measurable", "none", None, said))
            continue
        theirs = peer.histogram()
        ratio = waits.total / max(1, sum(theirs.values()))
        lines.append(
            Line(
                f"waits counted by our probe / by {words}",
                f"{ratio:.4f}",
                f"1 ± {COUNT_TARGET}",
                abs(ratio - 1) <= COUNT_TARGET,
                f"{waits.total:,} waits",
            )
        )
        apart = [
            abs(octave(waits.quantile_ns(q) / 1e3) - octave(peer_quantile_us(theirs, q))) for q in QUANTILES
        ]
        lines.append(
            Line(
                f"p50, p90, p99 of our probe and {words}",
                ", ".join(map(str, apart)) + " buckets apart",
                "at most 1",
                max(apart) <= 1,
            )
        )
    return lines


def octave(us: float) -> int:
    """The number of the power of two that a time falls into; below 2 us it is the first."""
    return int(max(us, 1)).bit_length()


def peer_quantile_us(histogram: dict[int, int], q: float) -> int:
    """The lower edge of the bucket that holds a quantile."""
    rank, before = q * sum(histogram.values()), 0
    for low, waits in sorted(histogram.items()):
        before += waits
        if waits and before >= rank:
            return low
    return 0


def first_histogram(cpu: int) -> list[Line]:
    """From the call to the first histogram, and how many waits a flood of switches loses."""
    if not runqlat.available().ok:
        return []
    lines = []
    for attribution, what, most in (
        (False, "call to first histogram", 1.0),
        (True, "the same with attribution", None),
    ):
        times, loads, ready = [], [], []
        for _ in range(6):
            with workloads.start("pingpong", PING_PONG) as pingpong:
                start = time.perf_counter()
                with runqlat.watch(pingpong.tids, 10, 0.05, attribution=attribution) as probe:
                    if probe.kept:
                        ready.append(time.perf_counter() - start)
                    probe.start()
                    next(iter(probe))
                    times.append(time.perf_counter() - start)
                    loads.append(probe.load_s)
        median = statistics.median(times)
        spent = f"{statistics.median(loads):.2f} s of it compiling and attaching"
        met = None if most is None else median < most
        lines.append(Line(what, f"{median:.2f} s", "none" if most is None else f"< {most:g} s", met, spent))
        if ready:
            median = statistics.median(ready)
            how = "from the call; compiled by an earlier probe"
            lines.append(Line("a kept probe is ready", f"{median:.2f} s", "< 0.15 s", median < 0.15, how))
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        floods = [stack.enter_context(workloads.start("pingpong", FLOOD)) for _ in cpus]
        for flood, on in zip(floods, cpus, strict=True):
            placement.pin(flood.tids, [on])
        probe = stack.enter_context(runqlat.watch([flood.pid for flood in floods], 60))
        probe.start()
        for flood in floods:
            flood.go()
        blocks = [
            block for flood in floods for block in flood.records() if block.text("condition") == "exchange"
        ]
        waits = probe.stop()
    switches = sum(block["voluntary"] + block["involuntary"] for block in blocks)
    rate = sum((b["voluntary"] + b["involuntary"]) / b["elapsed_ns"] * 1e9 for b in blocks)
    share = waits.lost / max(1, waits.total + waits.lost)
    counted = f"{waits.total:,} waits counted of {switches:,} switches"
    if rate < 1e6:
        counted += "; this machine makes no million a second"
    # None is lost silently.  Each side's first and last wait may lie outside what the kernel counted.
    ok = waits.total + waits.lost >= switches - 8 * len(floods)
    what = f"waits reported lost at {rate / 1e6:.2f} million switches/s"
    lines.append(Line(what, f"{share:.4%}", "all told of", ok, counted))
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="what measuring costs, against its peers")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the table there, for the book")
    asked = parser.parse_args(arguments)
    try:
        with lock.machine("benchmarks", waiting=lambda who: print(f"Waiting for {who}.", file=sys.stderr)):
            cpu = placement.quiet_cpu()
            surroundings = Surroundings()
            lines = [
                *against_perf(cpu),
                *against_proc_stat(cpu),
                *probe_overhead(cpu),
                *probe_agreement(cpu),
                *first_histogram(cpu),
            ]
            around = surroundings.since()
            lines += [*import_times(), *doctor_time(), *fleet.lines()]
        lines += switching.lines(cpu)
    except SchedLabError as error:
        print(error, file=sys.stderr)
        return 2
    print("Ratios are of alternating blocks of one run; times are medians of fresh processes.")
    # The peers' own CPU time is not counted as others': they are our children, too.
    return conclude("make bench", lines, Surroundings.doubts(around), asked.keep)


if __name__ == "__main__":
    sys.exit(main())
