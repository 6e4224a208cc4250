"""What does it cost to hand the CPU to another thread?  Ping-pong, by mechanism and placement (lab L05)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

MECHANISMS = ("pipe", "eventfd", "futex", "condvar", "yield")
POLL = "poll"  # no system call and no switch: two CPUs only
BETWEEN = ("threads", "processes")
# How far apart two CPUs can be: two threads of one core, two cores behind one last-level cache, two caches.
DISTANCES = ("smt_sibling", "same_cache", "other_cache")
PLACEMENTS = ("same_cpu", *DISTANCES, "other_cpu", "unpinned")
EXPECTED_SWITCHES = 2.0  # per round trip: there and back; none where both sides poll
TURNS = 3  # of alone and exchange in one start; the first finds it cold, and the median leaves that out
TOLERANCE = 0.02  # a run whose counted switches differ by more from what it assumed is flagged


def summarise(result: Result) -> pd.DataFrame:
    """One row per mechanism, between and placement.

    round_trip_ns, _lo_, _hi_    wall time of one round trip: median over trials of the median over a trial's
                                 turns, 95 % interval; what that covers is said in `starts`
    alone_ns                     the same system calls made by one thread, per round trip
    switches_per_round_trip      as the kernel counted them, both sides, voluntary and involuntary
    voluntary_share              the part of them that the kernel calls voluntary
    expected_switches_per_round_trip   two; none where both sides poll
    net_per_switch_ns, net_lo_ns, net_hi_ns   (round trip - alone) / counted switches; missing without any:
                                 on one CPU the cost of a switch, across CPUs the delay of a hand-over
    migrations_per_1000          how often a side found itself on another CPU, per 1,000 round trips
    flagged                      counted switches differ from the expected by more than 2 %
    trials
    """
    data = result.data.assign(
        per_trip=lambda d: d.elapsed_ns / d.round_trips,
        switches=lambda d: (d.voluntary_switches + d.involuntary_switches) / d.round_trips,
    )
    rows = []
    for (mechanism, between, place), cell in data.groupby(["mechanism", "between", "placement"], sort=False):
        by_trial = starts.by_trial(cell, "per_trip")
        if by_trial.empty or not {"exchange", "alone"} <= set(by_trial.columns):
            continue
        together, alone = by_trial["exchange"], by_trial["alone"]
        exchange = cell[cell.condition == "exchange"]
        switches = float(exchange.switches.median())
        # Fewer than one switch in ten round trips: nothing was switched, so nothing can be divided by it.
        net = stats.paired_difference(together, alone) if switches >= 0.1 else None
        expected = 0.0 if mechanism == POLL else EXPECTED_SWITCHES
        counted = exchange.voluntary_switches.sum() + exchange.involuntary_switches.sum()
        rows.append(
            {
                "mechanism": mechanism,
                "between": between,
                "placement": place,
                **stats.spread("round_trip", "ns", together),
                "alone_ns": float(alone.median()),
                "switches_per_round_trip": switches,
                "voluntary_share": exchange.voluntary_switches.sum() / counted if counted else np.nan,
                "expected_switches_per_round_trip": expected,
                "net_per_switch_ns": net.median / switches if net else np.nan,
                "net_lo_ns": net.low / switches if net else np.nan,
                "net_hi_ns": net.high / switches if net else np.nan,
                "migrations_per_1000": 1000 * exchange.migrations.sum() / exchange.round_trips.sum(),
                "flagged": abs(switches - expected) > TOLERANCE * EXPECTED_SWITCHES,
                "trials": len(together),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """Wall clock and the kernel's own switch counts: nothing else is needed."""
    if len(survey.cpus_allowed) < 2:
        return Instrument(
            "clock and counted switches, one CPU only", "a second CPU adds hand-overs between CPUs"
        )
    return Instrument("clock and counted switches (getrusage)")


@experiment("context_switch.matrix", summarise=summarise, instrument=instrument, workloads=("pingpong",))
def matrix(
    run: Run,
    *,
    mechanisms: Sequence[str] = MECHANISMS,
    between: Sequence[str] = BETWEEN,
    placements: Sequence[str] | None = None,
    trials: int | None = None,
    round_trips: int | None = None,
) -> None:
    """Pass a turn back and forth, by every mechanism, between threads and processes, in every placement.

    mechanisms   of pipe, eventfd, futex, condvar, yield; and poll, which is measured between two pinned CPUs
                 only, because both sides watch a word in memory and never sleep
    between      of threads, processes
    placements   of same_cpu, smt_sibling, same_cache, other_cache, other_cpu (another core, if there is one),
                 unpinned; what the machine does not have is left out, with a note; default: same_cpu,
                 other_cpu, unpinned, and each of the others that is another CPU than other_cpu's
    trials       how often each cell is measured, each time with a new start of its threads or processes; all
                 cells have had theirs before any has the next
    round_trips  in one of the three turns of a trial; each turn makes the same system calls alone first

    Data: one row per trial, turn and `condition`, alone or exchange: elapsed_ns, cpu_ns (both sides), the
    kernel's counts voluntary_switches and involuntary_switches, and migrations (sched_getcpu after every
    hand-over).
    By futex, alone asks to wait at every hand-over; a waker that its partner preempts finds the turn back
    and does not ask.  Where voluntary switches are fewer than hand-overs, net is too small by those calls.
    Method: lmbench's and perf's ping-pong, with the baseline subtracted and the switches counted.
    """
    home = placement.quiet_cpu()
    survey = machine.survey()
    if placements is None:
        placements = default_placements(survey, home)
    for what, chosen, known in (
        ("mechanisms", mechanisms, (*MECHANISMS, POLL)),
        ("between", between, BETWEEN),
        ("placements", placements, PLACEMENTS),
    ):
        checks.words(what, chosen, known)
    trials = run.choose(tiny=3, quick=6, full=31) if trials is None else trials
    round_trips = run.choose(tiny=100, quick=300, full=1500) if round_trips is None else round_trips
    if trials < 1 or round_trips < 1:
        raise ParameterError("trials and round_trips start at 1.", "Leave them out to use the profile's.")

    cpus = survey.cpus_allowed
    partners = _partners(run, placements, survey, home)
    placements = list(partners)
    run.begin()
    run.parameters |= {
        "placements": placements,
        "trials": trials,
        "round_trips": round_trips,
        "cpu": home,
        "partner_cpus": {place: cpu for place, cpu in partners.items() if cpu is not None},
    }

    cells = [
        cell
        for cell in product(mechanisms, between, placements)
        if cell[0] != POLL or cell[2] not in ("same_cpu", "unpinned")
    ]
    if not cells:
        raise ParameterError("To poll takes two CPUs.", "Add another mechanism, or the placement other_cpu.")
    for trial, (mechanism, kind, place) in starts.each(
        run, cells, trials, label=lambda cell: " ".join(cell).replace("_", " ")
    ):
        arguments = ["--by", mechanism, "--between", kind,
                     "--trials", str(TURNS), "--round-trips", str(round_trips)]  # fmt: skip
        with workloads.start("pingpong", arguments) as pingpong:
            side_0, side_1 = pingpong.tids
            if place == "unpinned":
                placement.pin(pingpong.tids, cpus)
            else:
                partner = partners[place]
                assert partner is not None
                placement.pin([side_0], [home])
                placement.pin([side_1], [partner])
            blocks = pingpong.run()
        run.add(
            [
                {
                    "mechanism": mechanism,
                    "between": kind,
                    "placement": place,
                    "trial": trial,
                    "turn": block["trial"],
                    "condition": block.text("condition"),
                    "round_trips": block["round_trips"],
                    "elapsed_ns": block["elapsed_ns"],
                    "cpu_ns": block["cpu_ns"],
                    "voluntary_switches": block["voluntary"],
                    "involuntary_switches": block["involuntary"],
                    "migrations": block["migrations"],
                }
                for block in blocks
            ]
        )


def _at_distance(distance: str, survey: machine.Machine, home: int) -> list[int]:
    """The CPUs that this process may use and that are so far from `home`."""
    if distance == "smt_sibling":
        return survey.smt_siblings(home)
    if distance == "same_cache":
        return survey.same_cache_cpus(home)
    return survey.other_cache_cpus(home)


def default_placements(survey: machine.Machine, home: int) -> list[str]:
    """What the matrix measures where nobody says: each CPU that is another case, once."""
    if len(survey.cpus_allowed) < 2:
        return ["same_cpu", "other_cpu", "unpinned"]  # the run says what it leaves out
    other = placement.other_cpu(home)
    apart = [_at_distance(distance, survey, home)[-1:] for distance in DISTANCES]
    distances = [d for d, cpu in zip(DISTANCES, apart, strict=True) if cpu and cpu != [other]]
    return ["same_cpu", *distances, "other_cpu", "unpinned"]


def _partners(
    run: Run, placements: Sequence[str], survey: machine.Machine, home: int
) -> dict[str, int | None]:
    """The CPU of the second side in each placement (None: unpinned), without what this machine lacks.

    Raises PlacementError or ParameterError when nothing is left.
    """
    partners: dict[str, int | None] = {}
    one_cpu = len(survey.cpus_allowed) < 2
    for place in placements:
        if place == "same_cpu":
            partners[place] = home
        elif one_cpu:
            run.note(
                "missing", "This process may use one CPU only: hand-overs to another CPU were not measured."
            )
        elif place == "unpinned":
            partners[place] = None
        elif place == "other_cpu":
            partners[place] = placement.other_cpu(home)
        elif found := _at_distance(place, survey, home):
            partners[place] = found[-1]
        else:
            run.note(
                "missing", f"No CPU here is at this distance from CPU {home}: {place.replace('_', ' ')}."
            )
    if not partners and one_cpu:
        placement.other_cpu(home)  # raises, and says what to do
    if not partners:
        raise ParameterError(
            f"This machine has none of these placements: {', '.join(placements)}.", "Add same_cpu."
        )
    return partners
