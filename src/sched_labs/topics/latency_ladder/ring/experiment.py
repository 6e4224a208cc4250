"""A ring of processes that each touch their own memory: lmbench's lat_ctx, counted and completed (lab L08).

The definition is that of lat_ctx(8) (McVoy and Staelin, lmbench): the time of one hop, less the time that one
process needs for the same sum, hot in its cache, and the same system calls.  The random walk beside it does
not let a prefetcher hide the refill, and the second ring on the same CPU is what `lat_ctx -P 2` starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import counted, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

KIB, MIB = 1 << 10, 1 << 20
ACCESS = ("sequential", "random")
RINGS = (1, 2)
MOST_PROCESSES = 64
TURNS = 3  # of the process alone and of the ring, in one start; the median leaves a cold first one out


def summarise(result: Result) -> pd.DataFrame:
    """One row per number of rings, access, number of processes and size.

    rings                      on this CPU; the first one is measured
    access                     sequential (a sum, as lat_ctx has it) or random (one load waits for the other)
    processes                  in one ring
    size_bytes                 what each of them touches
    footprint_bytes            what all rings touch together
    hop_ns                     from one process to the next: median over trials, each a start of the ring
    alone_ns                   the same calls and touches by one process, hot
    net_ns, net_lo_ns, net_hi_ns   hop - alone, which lat_ctx calls a switch, with its 95 % interval
    floor_ns                   what alone against alone differs by: smaller differences are not seen
    seen                       all of the interval of net stands clear of the floor
    switches_per_hop           as the kernel counted them for the whole ring; lat_ctx assumes one
    trials
    """
    data = starts.with_turns(result.data).assign(
        per=lambda d: d.elapsed_ns / d.hops,
        switches=lambda d: (d.voluntary_switches + d.involuntary_switches) / d.hops,
    )
    rows = []
    for (rings, access, processes, size), cell in data.groupby(
        ["rings", "access", "processes", "size_bytes"], sort=False
    ):
        by_trial = starts.by_trial(cell, "per")
        if by_trial.empty:
            continue
        net = stats.paired_difference(by_trial["ring"], by_trial["alone"])
        floor = starts.noise_floor(cell[cell.condition == "alone"].set_index(["trial", "turn"]).per)
        rows.append(
            {
                "rings": int(str(rings)),
                "access": access,
                "processes": int(str(processes)),
                "size_bytes": int(str(size)),
                "footprint_bytes": int(str(rings)) * int(str(processes)) * int(str(size)),
                "hop_ns": float(by_trial["ring"].median()),
                "alone_ns": float(by_trial["alone"].median()),
                **stats.in_columns("net", "ns", net),
                "floor_ns": floor,
                "seen": stats.seen(net, floor),
                "switches_per_hop": float(cell[cell.condition == "ring"].switches.median()),
                "trials": len(by_trial),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """Wall clock and the kernel's own switch counts."""
    return Instrument("clock and counted switches (getrusage)")


@experiment("ring.sweep", summarise=summarise, instrument=instrument, workloads=("ring",))
def sweep(
    run: Run,
    *,
    processes: Sequence[int] | None = None,
    sizes_bytes: Sequence[int] | None = None,
    access: Sequence[str] = ACCESS,
    rings: Sequence[int] = RINGS,
    trials: int | None = None,
    events: Sequence[str] | None = None,
) -> None:
    """Pass a token round a ring of processes on one CPU, for a sweep of ring and memory sizes.

    processes    in the ring, from 2 to 64 each
    sizes_bytes  what each process touches when the token comes by; 0 for nothing
    access       of sequential, random
    rings        of 1, 2; two rings are measured with the smallest number of processes and sequential access
    trials       how often each point is measured, each time with new processes; the process alone and the
                 ring take three turns
    events       counted by each process while it goes round; default: misses, cycles and instructions as far
                 as the processor offers them

    Data: one row per size_bytes, trial, turn and condition, alone or ring: hops, elapsed_ns, and the kernel's
    counts voluntary_switches and involuntary_switches, of all processes of the measured ring; and for each
    event a column with its count per hop.  Columns of events that were not counted are absent.
    """
    processes = list(processes or run.choose(tiny=[2, 4], quick=[2, 4, 8, 16], full=[2, 4, 8, 16, 32]))
    default = run.choose(tiny=[0, 16], quick=[0, 16, 64, 256], full=[0, 16, 64, 256, 1024])
    sizes = [KIB * size for size in default] if sizes_bytes is None else list(sizes_bytes)
    trials = run.choose(tiny=3, quick=5, full=15) if trials is None else trials
    _check(processes, sizes, access, rings, trials, machine.survey())
    asked = counted.ask_for(run, events)
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"processes": processes, "sizes_bytes": sizes, "trials": trials, "cpu": home}

    # Without memory there is no order to touch it in.
    cells = [
        (1, order, count, size)
        for order in access
        for count in processes
        for size in sizes
        if 1 in rings and (size or order == access[0])
    ]
    if 2 in rings:
        cells += [(2, "sequential", min(processes), size) for size in sizes]
    block_ns = run.choose(tiny=500_000, quick=5_000_000, full=20_000_000)
    for trial, (many, order, count, size) in starts.each(
        run, cells, trials, label=lambda c: f"{c[0]} × {c[2]} processes, {c[3] // KIB} KiB, {c[1]}"
    ):
        # A first guess: two microseconds a switch, and what a touch costs when it is cold.
        touch_ns = size / 4 * 0.4 if order == "sequential" else size / 64 * 10
        passes = int(np.clip(block_ns / (3000 + touch_ns), 20, 20_000))
        laps = max(4, passes // count)
        arguments = ["--processes", str(count), "--rings", str(many), "--bytes", str(size),
                     "--access", order, "--laps", str(laps), "--alone", str(passes),
                     "--trials", str(TURNS), *asked]  # fmt: skip
        with workloads.start("ring", arguments, deadline_s=120) as ring:
            placement.pin(ring.tids, [home])
            records = ring.run()
        cell = {"rings": many, "access": order, "processes": count, "size_bytes": size, "trial": trial}
        run.add([cell | row for row in _blocks(run, records)])


def _blocks(run: Run, records: Sequence[workloads.Record]) -> list[dict[str, object]]:
    """One row per block; what was counted in it comes in the record after it."""
    rows: list[dict[str, object]] = []
    hops = 1
    for record in records:
        if record.kind == "events":
            rows[-1] |= counted.columns(run, record, hops)
            continue
        hops = record["hops"]
        rows.append(
            {
                "turn": record["trial"],
                "condition": record.text("condition"),
                "hops": hops,
                "elapsed_ns": record["elapsed_ns"],
                "voluntary_switches": record["voluntary"],
                "involuntary_switches": record["involuntary"],
            }
        )
    return rows


def _check(
    processes: Sequence[int],
    sizes: Sequence[int],
    access: Sequence[str],
    rings: Sequence[int],
    trials: int,
    survey: machine.Machine,
) -> None:
    for what, chosen, known in (("access", access, ACCESS), ("rings", rings, RINGS)):
        if isinstance(chosen, (str, int)) or not chosen or any(word not in known for word in chosen):
            raise ParameterError(
                f"{what} does not take {chosen!r}.", f"Give a list of: {', '.join(map(str, known))}."
            )
    if not processes or not all(2 <= count <= MOST_PROCESSES for count in processes):
        raise ParameterError(f"A ring of {processes!r} is none.", f"Give numbers from 2 to {MOST_PROCESSES}.")
    if not sizes or min(sizes) < 0 or any(size % 64 for size in sizes):
        raise ParameterError(f"sizes_bytes does not take {sizes!r}.", "Give 0 or multiples of 64.")
    if trials < 1:
        raise ParameterError(f"{trials} trials measure nothing.", "Give at least 3; intervals need them.")
    limits = [survey.fact(key).value for key in ("memory.available_bytes", "cgroup.memory_limit_bytes")]
    available = min((value for value in limits if isinstance(value, int)), default=512 * MIB)
    most = max(max(processes), 2 * min(processes)) * max(sizes)
    if most > available // 8:
        raise ParameterError(
            f"{max(processes)} processes with {max(sizes)} bytes each need more than an eighth of the memory "
            f"that is available ({available} bytes).",
            "Choose smaller ones: a machine that swaps measures its disk.",
        )
