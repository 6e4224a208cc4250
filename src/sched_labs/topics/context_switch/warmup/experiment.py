"""How much slower is a thread's own memory just after a switch?  The warm-up sweep (lab L01).

The direct cost of a switch is what the kernel does; the indirect cost is what the thread then pays to bring
its working set back into the caches.  Both are measured here, in one run, on one axis.
The definition follows Li, Ding and Shen, "Quantifying the cost of context switch", ExpCS 2007; random order
instead of sequential is needed because hardware prefetch hides the sequential case almost fully.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.core.words import size_text as _size
from sched_labs.probes import perf
from sched_labs.run import checks, counted, memory, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.run.memory import KIB, MIB
from sched_labs.run.memory import available as _available
from sched_labs.steer import placement

ACCESS = ("random", "sequential")
BETWEEN = ("processes", "threads")
TURNS = 2  # of the conditions in one start, there and back
SHARING = ("private", "shared")
# A sweep of its own sizes stops before it takes longer, and says so; a slow memory makes large sets slow.
LONGEST_S = {"tiny": 10.0, "quick": 20.0, "full": 600.0}


def summarise(result: Result) -> pd.DataFrame:
    """One row per access order, working set and partner that touches memory; medians over trials, without the
    first pass of each block, where it has more.

    access, working_set_bytes, partner_bytes
    alone_ns, alone_lo_ns, alone_hi_ns   one pass over the working set when nothing switched, 95 % interval
    after_ns                      one pass just after the switch back
    extra_ns, extra_lo_ns, extra_hi_ns   one switch's warm-up: after - alone, paired by trial, 95 % interval
    floor_ns                      what alone against alone differs by (see starts.noise_floor), at least one
                                  look at the clock: smaller differences are not seen
    seen                          all of extra's interval lies beyond the floor
    kernel_extra_ns               the same when the partner touches nothing: what the kernel displaced
    alone_ns_per_line             alone_ns per cache line: which level of the hierarchy holds the set; one
                                  look at the clock is in it, which counts where the lines are few
    past_last_level               the set is larger than the last-level cache; false where that is unknown
    direct_ns, direct_lo_ns, direct_hi_ns   half of (hand over and back - same calls alone), partner idle
    trials
    alone_<event>, after_<event>  for each event that was counted (such as LLC-load-misses): in one pass
    """
    line = int(result.parameters["line_bytes"])
    last = max(int(result.machine.get(f"{level}_bytes") or 0) for level in ("l1d", "l2", "l3"))
    events = [name for name in perf.EVENTS if name in result.data]
    data = starts.with_turns(result.data)
    # One walk, which is not recorded, does not bring back all that the block before displaced.
    most = data.groupby(["access", "working_set_bytes"]).pass_index.transform("max")
    data = data[(data.pass_index > 0) | (most == 0)]
    medians = (
        data.groupby(
            ["access", "working_set_bytes", "condition", "partner_bytes", "trial"], sort=False, observed=True
        )[["pass_ns", "away_ns", *events]]
        .median()
        .reset_index()
    )
    rows = []
    for (access, working_set), part in medians.groupby(["access", "working_set_bytes"], sort=False):
        size = int(str(working_set))
        alone = part[part.condition == "alone"].set_index("trial").sort_index()
        walk = stats.median_interval(alone.pass_ns)
        idle = _of(part, 0)
        # Less than one look at the clock is no difference, however steady the passes.
        turns = data[
            (data.access == access) & (data.working_set_bytes == working_set) & (data.condition == "alone")
        ]
        floor = starts.noise_floor(turns.groupby(["trial", "turn"]).pass_ns.median())
        floor = max(floor, float(result.machine.get("clock_read_ns") or 0))
        direct = _difference(idle.away_ns / 2, alone.away_ns / 2) if not idle.empty else None
        kernel = _difference(idle.pass_ns, alone.pass_ns) if not idle.empty else None
        touching = part[(part.condition == "after_switch") & (part.partner_bytes > 0)]
        for partner_bytes in touching.partner_bytes.unique():
            after = _of(part, partner_bytes)
            extra = _difference(after.pass_ns, alone.pass_ns)
            rows.append(
                {
                    "access": access,
                    "working_set_bytes": size,
                    "partner_bytes": int(partner_bytes),
                    **stats.in_columns("alone", "ns", walk),
                    "after_ns": float(after.pass_ns.median()),
                    **stats.in_columns("extra", "ns", extra),
                    "floor_ns": floor,
                    "seen": stats.seen(extra, floor),
                    "kernel_extra_ns": kernel.median if kernel else np.nan,
                    "alone_ns_per_line": walk.median / (size // line),
                    "past_last_level": size > last > 0,
                    **stats.in_columns("direct", "ns", direct),
                    "trials": len(after),
                    **{f"alone_{name}": float(alone[name].median()) for name in events},
                    **{f"after_{name}": float(after[name].median()) for name in events},
                }
            )
    return pd.DataFrame(rows)


def _of(part: pd.DataFrame, partner_bytes: int) -> pd.DataFrame:
    chosen = part[(part.condition == "after_switch") & (part.partner_bytes == partner_bytes)]
    return chosen.set_index("trial").sort_index()


def _difference(treatment: pd.Series, baseline: pd.Series) -> stats.Interval:
    both = treatment.index.intersection(baseline.index)
    return stats.paired_difference(treatment[both], baseline[both])


def instrument(survey: machine.Machine) -> Instrument:
    """Time per pass, and misses where they can be counted; caches are named where sysfs describes them."""
    counting = survey.fact("pmu.events").value
    if isinstance(counting, list) and set(counting) & set(counted.EVENTS):
        return Instrument("time and counted misses per pass around the switch")
    if not survey.caches(placement.quiet_cpu()):
        return Instrument("time per pass; this machine does not say how large its caches are")
    return Instrument("time per pass around the switch", "a PMU would count the misses themselves")


def default_working_sets(profile: str, survey: machine.Machine) -> list[int]:
    """Sizes from 4 KiB to past the last-level cache; tiny stops far below it.

    Nothing above an eighth of the available memory, and quick stops at 64 MiB.
    """
    second, last = memory.second_level(survey), memory.caches(survey)[-1]
    available = _available(survey) or memory.UNKNOWN_AVAILABLE
    most = min(
        {"tiny": second // 4, "quick": min(2 * last, 64 * MIB), "full": 4 * last}[profile], available // 8
    )
    # In quick the steps are wide where a walk takes long, beyond four second-level caches.
    wide = {"tiny": 0, "quick": 4 * second, "full": 16 * second}[profile]
    sizes, size = [], 4 * KIB
    while size <= most:
        sizes.append(size)
        size *= 4 if size < 16 * KIB or size >= wide else 2
    return sizes


def default_grid(profile: str, survey: machine.Machine) -> list[int]:
    """Further partners: as large as the first-level cache, a quarter of the second, the second, and four."""
    if profile == "tiny":
        return []
    first, second = memory.caches(survey)[0], memory.second_level(survey)
    thorough = memory.thorough_partner(profile, survey)
    sizes = {memory.down_to_power(size) for size in (first, second / 4, second, 4 * second)}
    return sorted(size for size in sizes if size < thorough)


@experiment("warmup.sweep", summarise=summarise, instrument=instrument, workloads=("chase",))
def sweep(
    run: Run,
    *,
    working_sets_bytes: Sequence[int] | None = None,
    partner_bytes: int | None = None,
    grid_partners_bytes: Sequence[int] | None = None,
    access: Sequence[str] = ACCESS,
    between: str = "processes",
    sharing: str = "private",
    trials: int | None = None,
    seed: int = 1,
    events: Sequence[str] | None = None,
) -> None:
    """Walk a working set alone and just after a switch, for a sweep of working sets and partners.

    working_sets_bytes  what the victim walks; default: from 4 KiB to past the last-level cache
    partner_bytes       what the partner touches before it hands back; default: twice the last-level cache,
                        at most 64 MiB in quick, so that nothing of the victim's set is left in any cache
    grid_partners_bytes further partners, all smaller, for the random walk: the grid of victim and partner;
                        quick takes it for sets below four second-level caches; give [] for none
    access              of random, sequential: the order of the victim's walk
    between             processes or threads
    sharing             private: the partner touches memory of its own; shared: it touches the victim's set,
                        again and again, until it has made as many touches
    trials              how often each size is measured, each time with new processes and new memory; within
                        a trial the conditions take turns, there and back; sets beyond four second-level
                        caches, whose walk is long, have one turn only, in which alone is the first; before
                        the first turn the set is walked 32 times or for 150 ms, which is not recorded
    seed                of the random order
    events              counted by the victim while it walks and nowhere else; default: misses, cycles and
                        instructions as far as this machine counts them

    Data: one row per pass: pass_ns (one walk over the set), away_ns (from the end of the pass before to its
    start: hand-over, partner and hand-back, or the same system calls alone), condition alone or after_switch,
    working_set_bytes and partner_bytes (0 with after_switch: the partner handed back at once).  pass_index
    counts the passes of one condition in one turn.  All sets lie in the machine's
    smallest pages (huge_pages in the parameters), so the cost of address translation is part of a pass.
    For each event a column with its count per pass, the mean over the block of passes that it was taken for;
    columns of events that were not counted are absent.
    """
    survey = machine.survey()
    own = working_sets_bytes is None
    sizes = (
        default_working_sets(run.profile, survey) if working_sets_bytes is None else list(working_sets_bytes)
    )
    thorough = memory.thorough_partner(run.profile, survey)
    partner = thorough if partner_bytes is None else partner_bytes
    if grid_partners_bytes is None:
        grid = [size for size in default_grid(run.profile, survey) if own and size < partner]
    else:
        grid = sorted(set(grid_partners_bytes))
    trials = run.choose(tiny=3, quick=4, full=15) if trials is None else trials
    line = survey.line_bytes
    _check(sizes, partner, access, between, trials, line, survey)
    if sharing not in SHARING:
        raise ParameterError(f"sharing does not take {sharing!r}.", f"Give one of: {', '.join(SHARING)}.")
    if grid and not 0 < grid[0] <= grid[-1] < partner:
        raise ParameterError(
            "The grid's partners must be larger than nothing and smaller than partner_bytes.",
            f"Choose sizes below {_size(partner)}.",
        )
    home = placement.quiet_cpu()
    asked = counted.ask_for(run, events)
    run.begin()
    run.parameters |= {
        "working_sets_bytes": sizes,
        "partner_bytes": partner,
        "grid_partners_bytes": grid,
        "trials": trials,
        "line_bytes": line,
        "huge_pages": False,
        "cpu": home,
    }

    disturbed: list[bool] = []
    block_ns = run.choose(tiny=1_000_000, quick=8_000_000, full=25_000_000)
    workloads.path("chase")  # compiled before the clock runs, if it has to be
    start, last_s = time.monotonic(), dict.fromkeys(access, 0.0)
    four = 4 * memory.second_level(survey)
    most_of_grid = four - 1 if own and run.profile == "quick" else max(sizes)
    left_out: list[tuple[str, int]] = []
    points = [(order, size) for size in sizes for order in access]
    for trial, (order, size) in starts.each(
        run, points, trials, label=lambda point: f"{point[0]}, {_size(point[1])}"
    ):
        if trial == 0 and own and size > sizes[0]:
            # The next size takes about as much longer as it is larger, and all trials as long as the first.
            expected_s = trials * (time.monotonic() - start + 4 * last_s[order])
            if expected_s > LONGEST_S[run.profile]:
                left_out.append((order, size))
        if (order, size) in left_out:
            continue
        began = time.monotonic()
        # A guess at ns per line, so that a block lasts about block_ns.  A walk beyond the near caches is long
        # in itself: it needs no repetition to be timed.
        guess = (10 if size < four else 40) * (size // line) + 4 * (partner // line) + 10_000
        turns = TURNS if size <= four else 1
        passes = int(np.clip(block_ns // guess, 2 if size <= four else 1, 24))
        partners = [0, *(grid if order == "random" and size <= most_of_grid else []), partner]
        arguments = ["--working-set", str(size), "--line", str(line), "--access", order, "--seed", str(seed),
                     *(word for touched in partners for word in ("--partner", str(touched))),
                     "--between", between, "--sharing", sharing,
                     "--passes", str(passes), "--trials", str(turns), *asked]  # fmt: skip
        with workloads.start("chase", arguments, deadline_s=120) as chase:
            placement.pin(chase.tids, [home])
            passes_seen, blocks = _passes(run, chase, order, size, trial)
        run.add(passes_seen)
        disturbed += blocks
        last_s[order] = time.monotonic() - began
    if left_out:
        run.note(
            "missing",
            "Walks as large as this took long on this machine; left out: "
            f"{', '.join(f'{_size(size)} {order}' for order, size in left_out)}. "
            "The full profile takes the time.",
        )
    last = memory.caches(survey)[-1]
    if run.profile != "tiny" and own and partner < last:
        run.note(
            "missing",
            f"The partner touched {_size(partner)}, less than the last-level cache ({_size(last)}): what a "
            "set kept there need not be lost.",
        )
    _check_baseline(run)
    if sum(disturbed) > 0.05 * len(disturbed):
        run.note(
            "flag",
            f"In {sum(disturbed)} of {len(disturbed)} blocks the kernel counted another number of switches "
            "than of hand-overs.",
        )


def _passes(
    run: Run, chase: workloads.Workload, access: str, size: int, trial: int
) -> tuple[pd.DataFrame, list[bool]]:
    """The passes of one start as rows; and for each of its blocks, whether the switches are those assumed.

    The kernel counts the victim's switches: one for each hand-over, and a few for ticks and housekeeping.
    """
    rows: list[dict[str, float | str]] = []
    of_block: list[dict[str, float | str]] = []
    disturbed: list[bool] = []
    block = None
    for record in chase.run():
        if record.kind == "block":
            block, of_block = record, []
            assumed = 0 if record["partner"] < 0 else record["passes"]
            switches = record["voluntary"] + record["involuntary"]
            disturbed.append(switches < assumed or switches > assumed + max(3, 0.2 * record["passes"]))
        elif block is None:
            raise WorkloadError(f"The workload chase sent {record.kind!r} before its first block.")
        elif record.kind == "events":
            for row in of_block:
                row |= counted.columns(run, record, block["passes"])
        else:
            partner = block["partner"]
            of_block.append(
                {
                    "access": access,
                    "working_set_bytes": size,
                    "trial": trial,
                    "turn": block["trial"],
                    "condition": "alone" if partner < 0 else "after_switch",
                    "partner_bytes": max(partner, 0),
                    "pass_index": len(of_block),
                    "pass_ns": record["ns"],
                    "away_ns": record["away"],
                }
            )
            rows.append(of_block[-1])
    return pd.DataFrame(rows), disturbed


def _check(
    sizes: Sequence[int], partner: int, access: Sequence[str], between: str, trials: int, line: int,
    survey: machine.Machine,
) -> None:  # fmt: skip
    checks.words("access", access, ACCESS)
    if between not in BETWEEN:
        raise ParameterError(f"between does not take {between!r}.", f"Give one of: {', '.join(BETWEEN)}.")
    if trials < 1:
        raise ParameterError(f"{trials} trials measure nothing.", "Give at least 3; intervals need them.")
    if not sizes or min(sizes) < line:
        raise ParameterError(f"A working set starts at one cache line, {line} bytes.", "Give larger sizes.")
    if partner <= 0:
        raise ParameterError(
            "The partner must touch at least one byte.", "Leave partner_bytes out for the default."
        )
    memory.check_room(max(sizes), partner, survey)


def _check_baseline(run: Run) -> None:
    """A pass over four times the memory takes longer; where it does not, the loop was not what was timed."""
    data = pd.concat(run.rows)
    alone = data[data.condition == "alone"].groupby(["access", "working_set_bytes"]).pass_ns.median()
    for order in alone.index.unique("access"):
        curve = alone[order]
        for size, pass_ns in curve.items():
            if 4 * size in curve.index and curve[4 * size] < 2 * pass_ns:
                run.note(
                    "flag",
                    f"{order}: a pass over {_size(4 * size)} takes less than twice as long as one over "
                    f"{_size(size)}; this baseline cannot be trusted.",
                )
