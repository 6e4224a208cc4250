"""A program does less for each second of CPU time: three causes, and how to tell (lab L25).

Switches, a busy SMT sibling, and a neighbour that uses up the memory's bandwidth all leave the victim's CPU
as busy as before and its work less.  Where there are hardware counters, all three show as fewer instructions
per cycle.  Two controls convict nobody: as many switches for the same work, to a partner who touches no
memory, and a neighbour who keeps a CPU as busy and touches none either.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.machine import files
from sched_labs.probes import perf
from sched_labs.run import counted, memory
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.run.memory import MIB
from sched_labs.steer import placement

CONDITIONS = ("alone", "switches", "bare", "sibling", "streamer", "busy")
ON_ITS_CPU = ("alone", "switches", "bare")  # no condition of these needs another CPU
EVENTS = ("cycles", "instructions", "LLC-load-misses")
FIRST_STINT_NS = 50_000
SHORTEST_STINT_NS, LONGEST_STINT_NS = 10_000, 5_000_000
MOST_SET_BYTES = 32 * MIB
USUAL_LOSS = 0.1  # what switches are made to cost where the streamer costs nothing to speak of
APART_SHARE = 0.2  # of the work: trials that leave such a gap between them may be two groups
UNSTEADY = 1.5  # alone, the victim's best block does so many times the work of its worst: no baseline


def summarise(result: Result) -> pd.DataFrame:
    """One row per condition; medians over trials and 95 % intervals.

    condition           alone, switches, bare, sibling, streamer, busy, as far as this machine has them
    lines_per_cpu_s     lines that the victim walked for each second of its CPU time
    loss_share, loss_lo_share, loss_hi_share   how much less that is than alone, paired by trial; alone 0
    floor_share         what two trials alone differ by: no difference seen inside it
    switches_per_s, switches_lo_per_s, switches_hi_per_s   of the victim, for each second that passed
    machine_switches_per_s, machine_switches_lo_per_s, machine_switches_hi_per_s   of the whole machine
                        (vmstat's cs); missing where /proc/stat does not tell
    wait_share          of the time that passed, in which the victim could run and had no CPU; may be missing
    sibling_busy_share  how busy the SMT sibling's CPU was, all trials together; missing where there is none
    neighbour_busy_share  how busy the neighbour's CPU was; missing where there is none
    ipc                 instructions per cycle of the victim; missing where there are no such counters
    misses_per_line     last-level cache misses for each line; missing likewise
    trials
    """
    data = result.data
    data = data.assign(rate=data["lines"] / data["cpu_ns"] * 1e9)
    rates = data.pivot_table(index="trial", columns="condition", values="rate", sort=False)
    alone = rates["alone"].dropna()
    floor = stats.noise_floor(alone) / float(alone.median())
    rows: list[dict[str, Any]] = []
    for condition in [name for name in CONDITIONS if name in rates]:
        part = data[data["condition"] == condition]
        seconds = part["elapsed_ns"] / 1e9
        both = rates[["alone", condition]].dropna() if condition != "alone" else None
        loss = (
            {"loss_share": 0.0, "loss_lo_share": 0.0, "loss_hi_share": 0.0}
            if both is None
            else spread("loss", "share", 1 - both[condition] / both["alone"])
        )
        row: dict[str, Any] = {"condition": condition, "lines_per_cpu_s": float(part["rate"].median())}
        row |= loss | {"floor_share": floor}
        row |= spread(
            "switches", "per_s", (part["voluntary_switches"] + part["involuntary_switches"]) / seconds
        )
        row |= _known("machine_switches", "per_s", part["machine_switches"] / part["window_ns"] * 1e9)
        row["wait_share"] = float((part["wait_ns"] / part["elapsed_ns"]).median())
        for role in ("sibling", "neighbour"):
            busy_ns = (part[f"{role}_busy_share"] * part["window_ns"]).sum(skipna=False)
            # Ticks are coarse: their sum may come out a little above the time that passed.
            row[f"{role}_busy_share"] = float(np.minimum(busy_ns / part["window_ns"].sum(), 1.0))
        row["ipc"] = _ratio(part, "instructions", "cycles")
        row["misses_per_line"] = _ratio(part, "LLC-load-misses", None)
        rows.append(row | {"trials": len(part)})
    return pd.DataFrame(rows)


def _known(stem: str, unit: str, values: pd.Series) -> dict[str, float]:
    if values.isna().any():
        return dict.fromkeys((f"{stem}_{unit}", f"{stem}_lo_{unit}", f"{stem}_hi_{unit}"), np.nan)
    return spread(stem, unit, values)


def _ratio(part: pd.DataFrame, above: str, below: str | None) -> float:
    if above not in part or (below and below not in part):
        return np.nan
    return float((part[above] / (part[below] if below else 1.0)).median())


def instrument(survey: machine.Machine) -> Instrument:
    """Work per CPU-second everywhere; instructions per cycle where there are counters."""
    counting = survey.fact("pmu.events").value
    if isinstance(counting, list) and {"cycles", "instructions"} <= set(counting):
        return Instrument("work for each second of CPU time, and instructions per cycle")
    return Instrument("work for each second of CPU time", "a PMU would count instructions and cycles")


@experiment("ipc.causes", summarise=summarise, instrument=instrument, workloads=("ipc",))
def causes(
    run: Run,
    *,
    set_bytes: int | None = None,
    stream_bytes: int | None = None,
    switch_every_us: float | None = None,
    block_ms: int | None = None,
    trials: int | None = None,
    events: Sequence[str] | None = None,
) -> None:
    """Let a program do fixed work alone, with switches, beside a busy sibling, and beside a memory streamer.

    Two controls stand beside them: `bare` switches as often for the same work, to a partner who touches
    nothing, and `busy` keeps the streamer's CPU as busy without touching memory.

    set_bytes        what the victim walks, line by line in random order, and so does the sibling; the partner
                     touches as much.  Default: a quarter of the last-level cache, at most 32 MiB, or twice a
                     second-level cache where that is more
    stream_bytes     what the streamer reads and writes in order; default: four last-level caches, at most an
                     eighth of the available memory and, except in full, 64 MiB
    switch_every_us  of the victim's own time from one hand-over to the next; default: so that switches cost
                     about as much as the streamer or the sibling, whichever costs more, but no more than
                     60 %; or a tenth
    block_ms         one block of one condition
    trials           of each condition; their order turns round from trial to trial
    events           counted in the victim while it walks, and nowhere else; default: cycles, instructions and
                     last-level misses as far as the processor offers them

    Data: one row per block: condition, trial, lines, elapsed_ns, cpu_ns, voluntary_switches,
    involuntary_switches, wait_ns (missing where the kernel does not tell), all of the victim;
    sibling_busy_share, neighbour_busy_share and machine_switches from /proc/stat (in ticks of 10 ms), in
    window_ns around the block; and for each event that is counted a column with its count for each line.
    The fact switch_every_ns is the rate that the neighbours switch at.
    """
    survey = machine.survey()
    block_ms = run.choose(tiny=20, quick=80, full=300) if block_ms is None else block_ms
    trials = run.choose(tiny=2, quick=6, full=15) if trials is None else trials
    size = _set(run, survey) if set_bytes is None else set_bytes
    stream = _stream(run, survey) if stream_bytes is None else stream_bytes
    _check(survey, size, stream, switch_every_us, block_ms, trials)
    cpus = _cpus(run, survey)
    conditions = [name for name in CONDITIONS if name in ON_ITS_CPU or _where(name) in cpus]
    asked = counted.ask_for(run, perf.offered(EVENTS) if events is None else events)
    run.begin()
    run.parameters |= {"set_bytes": size, "stream_bytes": stream, "block_ms": block_ms, "trials": trials,
                       "conditions": conditions, "cpus": cpus}  # fmt: skip
    words: list[Any] = ["--set", size, "--partner", size, "--line", max(16, survey.line_bytes)]
    words += ["--stream", stream, "--block-ms", block_ms]
    looks = [name for name in ("alone", "sibling", "streamer") if name in conditions]
    first = [part for name in looks for part in ("--condition", name)]
    rows = list(_blocks(run, [*words, *first, "--trials", 2, "--stint", 1000], [], cpus, 2 * len(looks)))
    ns_per_line = 1 / _rates(rows)["alone"]
    if switch_every_us is None:
        every_ns = float(FIRST_STINT_NS)
        for _ in range(2):  # the second time from near where it ends
            stint = max(1, round(every_ns / ns_per_line))
            probe = [
                *words,
                "--condition",
                "alone",
                "--condition",
                "switches",
                "--trials",
                2,
                "--stint",
                stint,
            ]
            every_ns = _stint_ns(every_ns, rows, list(_blocks(run, probe, [], cpus, 4)))
    else:
        every_ns = 1000 * switch_every_us
    run.facts["switch_every_ns"] = every_ns
    every: list[Any] = [part for name in conditions for part in ("--condition", name)]
    stint = max(1, round(every_ns / ns_per_line))
    every += ["--trials", trials, "--stint", stint]
    steps = range(trials * len(conditions))
    with contextlib.closing(_blocks(run, [*words, *every], asked, cpus, len(steps))) as blocks:
        for _ in run.each(steps, label=lambda n: f"block {n + 1}"):
            run.add([next(blocks)])
    _check_causes(run, stint)


def _set(run: Run, survey: machine.Machine) -> int:
    """So much that a round takes longer than a streamer needs to replace what a shared cache holds of it.

    A smaller set is in it or out of it for a whole block, and the blocks fall into two groups: tiny does not
    mind.
    """
    near = 2 * memory.second_level(survey)
    return near if run.profile == "tiny" else max(near, min(memory.caches(survey)[-1] // 4, MOST_SET_BYTES))


def _stream(run: Run, survey: machine.Machine) -> int:
    wanted = 4 * memory.caches(survey)[-1]
    most = (memory.available(survey) or memory.UNKNOWN_AVAILABLE) // 8
    return max(1 << 16, min(wanted, most) if run.profile == "full" else min(wanted, most, 64 * MIB))


def _check(
    survey: machine.Machine, size: int, stream: int, every_us: float | None, block_ms: int, trials: int
) -> None:
    memory.check("set_bytes", [size], 4096)
    memory.check("stream_bytes", [stream], 1 << 16)
    memory.check_room(3 * size, stream, survey)
    if every_us is not None and not 1 <= every_us <= 1e6:
        raise ParameterError(f"switch_every_us lies between 1 and 1,000,000 µs, not at {every_us!r}.")
    if not isinstance(block_ms, int) or not 5 <= block_ms <= 60_000:
        raise ParameterError(f"block_ms must be a number from 5 to 60,000, not {block_ms!r}.")
    if not isinstance(trials, int) or not 1 <= trials <= 1000:
        raise ParameterError(f"{trials!r} trials cannot be made.", "Give a whole number from 3.")


def _cpus(run: Run, survey: machine.Machine) -> dict[str, int]:
    """The victim's CPU, and the sibling's and the neighbour's, as far as this machine has them."""
    home = placement.quiet_cpu()
    cpus = {"victim": home}
    siblings = [cpu for cpu in survey.smt_siblings(home) if cpu in survey.cpus_allowed]
    others = [cpu for cpu in survey.cpus_allowed if cpu != home and cpu not in siblings]
    if siblings:
        cpus["sibling"] = siblings[-1]
    else:
        run.note("missing", f"CPU {home} has no SMT sibling that this process may use.")
    if others:
        cpus["neighbour"] = others[-1]
    else:
        run.note("missing", "There is no CPU on another core for a neighbour.")
    return cpus


def _where(condition: str) -> str:
    return "sibling" if condition == "sibling" else "neighbour"


def _blocks(
    run: Run, words: list[Any], events: list[str], cpus: dict[str, int], blocks: int
) -> Generator[dict[str, Any], None, None]:
    """The blocks of one workload, with what /proc/stat said around each."""
    arguments = [*map(str, words), *events]
    with workloads.start("ipc", arguments, deadline_s=60 + blocks) as one:
        victim, partner, sibling, neighbour = one.tids
        placement.pin([victim, partner], [cpus["victim"]])
        placement.pin([sibling], [cpus.get("sibling", cpus["victim"])])
        placement.pin([neighbour], [cpus.get("neighbour", cpus["victim"])])
        records = one.records()
        for _ in range(blocks):
            before = _look()
            one.go()
            record = next(records)
            row = _row(record)
            if events:
                row |= counted.columns(run, next(records), row["lines"])
            yield row | _between(before, _look(), cpus)


def _row(record: workloads.Record) -> dict[str, Any]:
    return {
        "condition": record.text("condition"),
        "trial": record["trial"],
        "lines": record["lines"],
        "elapsed_ns": record["elapsed_ns"],
        "cpu_ns": record["cpu_ns"],
        "voluntary_switches": record["voluntary"],
        "involuntary_switches": record["involuntary"],
        "wait_ns": float(record["wait_ns"]) if "wait_ns" in record.values else np.nan,
    }


def _look() -> tuple[int, dict[str, int], int | None]:
    """Now, the busy ticks of every CPU, and the machine's switches so far."""
    busy: dict[str, int] = {}
    switches = None
    for line in (files.read("/proc/stat") or "").splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and len(numbers) >= 7:
            user, nice, system, _idle, _iowait, irq, softirq = map(int, numbers[:7])
            busy[name] = user + nice + system + irq + softirq
        elif name == "ctxt":
            switches = int(numbers[0])
    return time.monotonic_ns(), busy, switches


def _between(
    before: tuple[int, dict[str, int], int | None],
    after: tuple[int, dict[str, int], int | None],
    cpus: dict[str, int],
) -> dict[str, float]:
    window = after[0] - before[0]
    ticks = window * os.sysconf("SC_CLK_TCK") / 1e9
    found: dict[str, float] = {"window_ns": window}
    for role in ("sibling", "neighbour"):
        name = f"cpu{cpus[role]}" if role in cpus else ""
        known = name in before[1] and name in after[1]
        found[f"{role}_busy_share"] = (after[1][name] - before[1][name]) / ticks if known else np.nan
    told = before[2] is not None and after[2] is not None
    found["machine_switches"] = float((after[2] or 0) - (before[2] or 0)) if told else np.nan
    return found


def _rates(rows: list[dict[str, Any]]) -> dict[str, float]:
    """{condition: lines in a ns of CPU time}, all blocks of it together."""
    sums = pd.DataFrame(rows).groupby("condition")[["lines", "cpu_ns"]].sum()
    return {str(name): float(rate) for name, rate in (sums["lines"] / sums["cpu_ns"]).items()}


def _stint_ns(stint_ns: float, rows: list[dict[str, Any]], probed: list[dict[str, Any]]) -> float:
    """How long a stint has to be for switches to cost what the dearest neighbour costs.

    rows are of the neighbours, and probed are of switches after stints of stint_ns.
    """
    rate, tried = _rates(rows), _rates(probed)
    others = [1 - rate[name] / rate["alone"] for name in ("sibling", "streamer") if name in rate]
    wanted = max(others, default=0.0)
    wanted = min(wanted, 0.6) if wanted > 0.03 else USUAL_LOSS
    share = min(max(1 - tried["switches"] / tried["alone"], 0.001), 0.95)
    extra_ns = stint_ns * share / (1 - share)  # what one hand-over adds to a stint
    return float(np.clip(extra_ns * (1 - wanted) / wanted, SHORTEST_STINT_NS, LONGEST_STINT_NS))


def _check_causes(run: Run, stint: int) -> None:
    """Whether the victim switched where it was told to, after so many lines, and nowhere else.

    Lines, and not time: what a hand-over costs makes them take longer, and is what the run is there to show.
    """
    data = pd.concat(run.rows)
    switches = data["voluntary_switches"] + data["involuntary_switches"]
    due = data["lines"] / stint
    told = data["condition"].isin(["switches", "bare"])
    if (switches[told] < 0.9 * due[told]).any():
        run.note("flag", "The victim was switched less often than it was told to hand over.")
    quiet = switches[~told] / data.loc[~told, "elapsed_ns"] * 1e9
    if float(quiet.median()) > 200:
        run.note("flag", "Other programs took the victim's CPU again and again.")
    rates = data.assign(rate=data["lines"] / data["cpu_ns"]).pivot(
        index="trial", columns="condition", values="rate"
    )
    best = float(rates["alone"].max() / rates["alone"].min())
    if best > UNSTEADY:
        run.note(
            "flag",
            f"Alone, the victim did {best:.1f} times as much work in its best block as in its worst: its "
            "clock rate changed, or somebody else uses its cache, perhaps outside of this machine.",
        )
        return  # what the others lost by it falls into groups for that reason alone
    for name in [name for name in run.parameters["conditions"] if name != "alone"]:
        if (pair := two_groups(1 - rates[name] / rates["alone"])) is not None:
            run.note(
                "flag",
                f"{name}: the trials form two groups, around {pair[0]:.0%} and {pair[1]:.0%} less work; "
                "their median describes neither.",
            )


def two_groups(shares: pd.Series) -> tuple[float, float] | None:
    """The medians of the two groups into which trials fall, or None where they are one.

    Groups have two trials or more, and the gap between them is wide, also against what each group spreads.
    """
    ordered = np.sort(shares.dropna().to_numpy())
    if len(ordered) < 4:
        return None
    cut = 2 + int(np.argmax(np.diff(ordered)[1:-1]))
    low, high = ordered[:cut], ordered[cut:]
    gap = high[0] - low[-1]
    if gap < APART_SHARE or gap < 2 * max(np.ptp(low), np.ptp(high)):
        return None
    return float(np.median(low)), float(np.median(high))
