"""What does watching cost?  A ping-pong that does nothing but switch, with and without each observer.

The observer sees every switch of the ping-pong, and the program does next to nothing besides: no program
suffers more.  The observers take turns, so that a machine that gets slower moves all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.errors import ParameterError, ProbeError
from sched_labs.core.result import Result
from sched_labs.core.stats import RESAMPLES, Interval, in_columns, spread
from sched_labs.probes import peers, runqlat
from sched_labs.run import checks
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

OBSERVERS = {
    "none": "nobody",
    "ours": "our probe",
    "ours_attributed": "our probe, with attribution",
    "runqlat": "runqlat of libbpf-tools",
    "runqlat-bpfcc": "runqlat of bcc",
    "perf": "perf sched record",
}
COUNT_TOLERANCE = 0.02
BURSTS_US = (
    2,
    20,
    200,
)  # between two switches: some hundred thousand, some ten thousand, some thousand a second
MOST_BURST_US = 10_000
SWITCHED = 0.9  # of the rounds must lead to a switch, or the two workers were not alone


def summarise(result: Result) -> pd.DataFrame:
    """One row per observer.

    observer                            none, ours, ours_attributed, runqlat, runqlat-bpfcc, perf
    ns_per_switch, ns_lo_per_switch, ns_hi_per_switch   elapsed time by switches as the kernel counted them,
                                        median of a start's turns; over the starts median and 95 % interval
    added_ns, added_lo_ns, added_hi_ns  what the observer adds to a switch, median and 95 % interval
    ratio, ratio_lo, ratio_hi           ns_per_switch by that without an observer, medians and 95 % interval
    share_at_10k_percent                the added time as a part of one CPU at 10,000 switches/s, computed
    trials                              how many starts
    """
    starts = result.data.groupby(["observer", "block"])["ns_per_switch"].median()
    free = starts["none"].to_numpy(float)
    rows = []
    for observer in [name for name in OBSERVERS if name in starts]:
        values = starts[observer].to_numpy(float)
        added, ratio = _against(values, free)
        if observer == "none":
            added, ratio = Interval(0.0, 0.0, 0.0), Interval(1.0, 1.0, 1.0)
        rows.append(
            {
                "observer": observer,
                **spread("ns", "per_switch", values),
                **in_columns("added", "ns", added),
                **in_columns("ratio", "", ratio),
                "share_at_10k_percent": added.median * 1e4 / 1e9 * 100,
                "trials": int(values.size),
            }
        )
    return pd.DataFrame(rows)


def _against(values: Any, free: Any) -> tuple[Interval, Interval]:
    """Difference and ratio of the medians with their bootstrap intervals."""
    generator = np.random.default_rng(0)
    above = np.median(values[generator.integers(0, values.size, size=(RESAMPLES, values.size))], axis=1)
    below = np.median(free[generator.integers(0, free.size, size=(RESAMPLES, free.size))], axis=1)
    middle, base = float(np.median(values)), float(np.median(free))

    def interval(whole: float, drawn: Any) -> Interval:
        low, high = np.quantile(drawn, (0.025, 0.975))
        return Interval(whole, float(low), float(high))

    return interval(middle - base, above - below), interval(middle / base, above / below)


def instrument(survey: machine.Machine) -> Instrument:
    """The ping-pong's own clock; the observers are what is measured."""
    return Instrument("the ping-pong's own clock and the kernel's count of its switches")


@experiment("observer.cost", summarise=summarise, instrument=instrument, workloads=("pingpong",))
def cost(run: Run, *, observers: list[str] | None = None, cpu: int | None = None) -> None:
    """Time a switch without an observer and under each one that this machine has.

    observers  some of "ours", "ours_attributed", "runqlat", "runqlat-bpfcc", "perf"; default: all
    cpu        where both sides of the ping-pong run; default: a quiet CPU

    Data: one row per turn: observer, block (a trial: how often the observer was started before), trial (the
    turn), switches (as the kernel counted them), elapsed_ns, ns_per_switch.  Facts: data_bytes, what
    perf wrote in each block.  The run is flagged where the kernel did not count two switches a round trip.
    """
    wanted = [name for name in OBSERVERS if name != "none"] if observers is None else list(observers)
    for name in wanted:
        if name not in OBSERVERS or name == "none":
            raise ParameterError(
                f"There is no observer {name!r}.", f"There are: {', '.join(list(OBSERVERS)[1:])}."
            )
    cpu = placement.quiet_cpu() if cpu is None else cpu
    checks.cpu(cpu)
    round_trips = run.choose(tiny=1000, quick=10_000, full=20_000)  # perf keeps 300 bytes of each switch
    blocks, turns = run.choose(tiny=1, quick=2, full=9), run.choose(tiny=2, quick=3, full=5)
    run.begin()
    run.parameters |= {"cpu": cpu, "round_trips": round_trips, "trials": blocks}
    run.facts |= {"data_bytes": []}
    lacking: set[str] = set()
    order = ["none", *wanted]
    steps = [(block, name) for block in range(blocks) for name in (order if block % 2 == 0 else order[::-1])]
    for block, name in run.each(steps, label=lambda step: OBSERVERS[step[1]]):
        if name in lacking:
            continue
        try:
            rows = _block(run, name, cpu, round_trips, turns)
        except (peers.PeerError, ProbeError) as error:
            lacking.add(name)
            why = str(error).replace("\n", " ").rstrip(".")
            run.note("missing", f"{OBSERVERS[name].capitalize()} is missing: {why}.")
            continue
        run.add([{"observer": name, "block": block, **row} for row in rows])
    _not_alone(wanted, lacking)
    run.facts["observers"] = [name for name in order if name not in lacking]


def _block(run: Run, name: str, cpu: int, round_trips: int, turns: int) -> list[dict[str, Any]]:
    arguments = ["--by", "pipe", "--between", "threads", "--trials", str(turns)]
    arguments += ["--round-trips", str(round_trips)]
    with contextlib.ExitStack() as stack:
        pingpong = stack.enter_context(workloads.start("pingpong", arguments))
        placement.pin(pingpong.tids, [cpu])
        peer = None
        if name.startswith("ours"):
            watch = runqlat.watch([pingpong.pid], 60, 30, attribution=name == "ours_attributed")
            stack.enter_context(watch).start()
        elif name != "none":
            peer = stack.enter_context(peers.running(name))
        records = [record for record in pingpong.run() if record.text("condition") == "exchange"]
        stack.close()
    if peer and name == "perf":
        run.facts["data_bytes"].append(peer.bytes)
    rows = []
    for record in records:
        switches = record["voluntary"] + record["involuntary"]
        if abs(switches / (2 * round_trips) - 1) > COUNT_TOLERANCE:
            run.note(
                "flag",
                f"With {OBSERVERS[name]} watching the kernel counted {switches} switches "
                f"in {round_trips} round trips.",
            )
        rows.append(
            {
                "trial": record["trial"],
                "switches": switches,
                "elapsed_ns": record["elapsed_ns"],
                "ns_per_switch": record["elapsed_ns"] / switches,
            }
        )
    return rows


# ---- at given rates ---------------------------------------------------------------------------------------


def summarise_rates(result: Result) -> pd.DataFrame:
    """One row per observer and length of a burst of work.

    observer                      none, ours, ours_attributed, runqlat, runqlat-bpfcc, perf
    burst_us                      what a thread computes between two switches
    switches_per_s                how often the two threads took turns without an observer, median
    ns_per_round                  CPU time of a burst and a switch, median; the program's own looks at its
                                  clock and its switches are in it, so slower_percent is too low, by a
                                  part that grows as bursts get shorter
    added_ns, added_lo_ns, added_hi_ns   what the observer adds to it, median and 95 % interval
    slower_percent, slower_lo_percent, slower_hi_percent   the same as a part of the time without an observer
    trials                        how many
    """
    data = result.data
    rows = []
    for burst_us, of_burst in data.groupby("burst_us"):
        alone = of_burst[of_burst["observer"] == "none"]
        free = alone["ns_per_round"].to_numpy(float)
        for observer in [name for name in OBSERVERS if (of_burst["observer"] == name).any()]:
            values = of_burst.loc[of_burst["observer"] == observer, "ns_per_round"].to_numpy(float)
            added, ratio = _against(values, free)
            if observer == "none":
                added, ratio = Interval(0.0, 0.0, 0.0), Interval(1.0, 1.0, 1.0)
            rows.append(
                {
                    "observer": observer,
                    "burst_us": burst_us,
                    "switches_per_s": float(alone["switches_per_s"].median()),
                    "ns_per_round": float(np.median(values)),
                    "added_ns": added.median,
                    "added_lo_ns": added.low,
                    "added_hi_ns": added.high,
                    "slower_percent": 100 * (ratio.median - 1),
                    "slower_lo_percent": 100 * (ratio.low - 1),
                    "slower_hi_percent": 100 * (ratio.high - 1),
                    "trials": int(values.size),
                }
            )
    return pd.DataFrame(rows)


def instrument_rates(survey: machine.Machine) -> Instrument:
    """The kernel's count of the workers' CPU time; the observers are what is measured."""
    return Instrument("the workers' CPU time and the kernel's count of their switches")


@experiment("observer.rates", summarise=summarise_rates, instrument=instrument_rates, workloads=("worker",))
def rates(
    run: Run,
    *,
    observers: Sequence[str] = ("ours_attributed", "runqlat"),
    bursts_us: Sequence[int] = BURSTS_US,
    cpu: int | None = None,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Let two threads take turns on a CPU, so and so often, and see what each observer costs them.

    observers   some of "ours", "ours_attributed", "runqlat", "runqlat-bpfcc", "perf"
    bursts_us   how long each thread computes before it calls sched_yield: the work is fixed
    cpu         where both run; default: a quiet CPU
    trials      how often; the observers take turns
    duration_s  of one block

    Data: one row per trial, observer and burst_us: rounds (a burst and a sched_yield), switches (rounds that
    led to one), switches_per_s, ns_per_round (CPU time of both threads by rounds: what other programs take is
    not in it).  A run is flagged where less than 90 % of the rounds led to a switch.
    """
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.03, quick=0.07, full=0.5) if duration_s is None else duration_s
    cpu = placement.quiet_cpu() if cpu is None else cpu
    _check_rates(observers, bursts_us, cpu, trials, duration_s)
    bursts = sorted(set(bursts_us))
    order = ["none", *dict.fromkeys(observers)]
    run.begin()
    run.parameters |= {"cpu": cpu, "trials": trials, "duration_s": duration_s, "bursts_us": bursts}
    steps = [(trial, name) for trial in range(trials) for name in (order if trial % 2 == 0 else order[::-1])]
    deadline_s = 60 + len(steps) * (30 + 2 * duration_s * len(bursts))
    lacking: set[str] = set()
    with contextlib.ExitStack() as stack:
        started = {}  # one program for each rate, for all observers: each fixes its work when it starts
        for burst_us in bursts:
            words = ["--workers", 2, "--mode", "yield", "--burst-us", burst_us, "--blocks", len(steps)]
            words += ["--duration-ms", max(1, round(1000 * duration_s))]
            given = [str(word) for word in words]
            started[burst_us] = stack.enter_context(workloads.start("worker", given, deadline_s=deadline_s))
            placement.pin(started[burst_us].tids, [cpu])
        for trial, name in run.each(steps, label=lambda step: OBSERVERS[step[1]]):
            if name in lacking:
                continue
            try:
                with _watching(name, [workload.pid for workload in started.values()]):
                    for burst_us, workload in started.items():
                        workload.go()
                        run.add([_turns(run, trial, name, burst_us, workload, duration_s)])
            except (peers.PeerError, ProbeError) as error:
                lacking.add(name)
                why = str(error).replace("\n", " ").rstrip(".")
                run.note("missing", f"{OBSERVERS[name].capitalize()} is missing: {why}.")
        _not_alone(observers, lacking)


def _not_alone(wanted: Sequence[str], lacking: set[str]) -> None:
    """Raises ProbeError where no observer could be had: there is nothing to compare."""
    if lacking and lacking.issuperset(wanted):
        raise ProbeError(
            "This machine has none of the observers.",
            "scripts/provision.sh installs the probe of the book; `sched-labs doctor` says what is missing.",
            lacking=True,
        )


def _check_rates(
    observers: Sequence[str], bursts_us: Sequence[int], cpu: int, trials: int, duration_s: float
) -> None:
    if isinstance(observers, str) or not set(observers) <= set(OBSERVERS) - {"none"}:
        raise ParameterError(
            f"observers does not take {observers!r}.", f"Give a list of: {', '.join(list(OBSERVERS)[1:])}."
        )
    if (
        isinstance(bursts_us, int)
        or not bursts_us
        or not all(isinstance(us, int) and 1 <= us <= MOST_BURST_US for us in bursts_us)
    ):
        raise ParameterError(f"bursts_us must be numbers from 1 to {MOST_BURST_US:,}, not {bursts_us!r}.")
    checks.whole("trials", trials, 1, 100)
    checks.seconds("duration_s", duration_s, 0.005, 10)
    checks.cpu(cpu)


@contextlib.contextmanager
def _watching(name: str, pids: Sequence[int]) -> Iterator[None]:
    """An observer at work.  Raises PeerError or ProbeError where it cannot be had here."""
    if name == "none":
        yield
    elif name.startswith("ours"):
        with runqlat.watch(pids, 600, 30, attribution=name == "ours_attributed") as watch:
            watch.start()
            yield
    else:
        with peers.running(name):
            yield


def _turns(
    run: Run, trial: int, name: str, burst_us: int, workload: workloads.Workload, duration_s: float
) -> dict[str, Any]:
    rounds = switches = cpu_ns = 0
    for record in workload.records():
        if record.kind == "worker":
            rounds += record["rounds"]
            switches += record["switched"]
            cpu_ns += record["cpu_ns"]
        if record.kind == "end":
            break
    if switches < SWITCHED * rounds:
        run.note(
            "flag",
            f"Of {rounds} rounds with a burst of {burst_us} µs {switches} led to a switch: "
            "another program was between the two threads.",
        )
    return {
        "trial": trial,
        "observer": name,
        "burst_us": burst_us,
        "rounds": rounds,
        "switches": switches,
        "switches_per_s": switches / duration_s,
        "ns_per_round": cpu_ns / max(1, rounds),
    }
