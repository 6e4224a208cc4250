"""How much slower is a thread's own memory just after a switch?  The warm-up sweep (lab L01).

The direct cost of a switch is what the kernel does; the indirect cost is what the thread then pays to bring
its working set back into the caches.  Both are measured here, in one run, on one axis.
The definition follows Li, Ding and Shen, "Quantifying the cost of context switch", ExpCS 2007; random order
instead of sequential is needed because hardware prefetch hides the sequential case almost fully.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .. import machine, placement, stats, workloads
from ..errors import ParameterError, WorkloadError
from ..result import Result
from .base import Instrument, Run, experiment

KIB, MIB = 1 << 10, 1 << 20
ACCESS = ("random", "sequential")
BETWEEN = ("processes", "threads")


def summarise(result: Result) -> pd.DataFrame:
    """One row per access order, working set and partner that touches memory; medians over trials.

    alone_ns                      one pass over the working set when nothing switched
    after_ns                      one pass just after the switch back
    extra_ns, extra_lo_ns, extra_hi_ns   one switch's warm-up: after - alone, paired by trial, 95 % interval
    floor_ns                      what alone against alone differs by, at least one look at the clock: smaller
                                  differences are not seen
    seen                          extra stands clear of the floor, and its interval clear of zero
    kernel_extra_ns               the same when the partner touches nothing: what the kernel displaced
    alone_ns_per_line             alone_ns per cache line: which level of the hierarchy holds the set
    direct_ns, direct_lo_ns, direct_hi_ns   half of (hand over and back - same calls alone), partner idle
    trials
    """
    line = int(result.parameters["line_bytes"])
    medians = (
        result.data.groupby(
            ["access", "working_set_bytes", "condition", "partner_bytes", "trial"], sort=False, observed=True
        )[["pass_ns", "away_ns"]]
        .median()
        .reset_index()
    )
    rows = []
    for (access, working_set), part in medians.groupby(["access", "working_set_bytes"], sort=False):
        size = int(str(working_set))
        alone = part[part.condition == "alone"].set_index("trial").sort_index()
        idle = _of(part, 0)
        # Less than one look at the clock is no difference, however steady the passes.
        floor = max(stats.noise_floor(alone.pass_ns), float(result.machine.get("clock_read_ns") or 0))
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
                    "alone_ns": float(alone.pass_ns.median()),
                    "after_ns": float(after.pass_ns.median()),
                    "extra_ns": extra.median,
                    "extra_lo_ns": extra.low,
                    "extra_hi_ns": extra.high,
                    "floor_ns": floor,
                    "seen": stats.seen(extra, floor),
                    "kernel_extra_ns": kernel.median if kernel else np.nan,
                    "alone_ns_per_line": float(alone.pass_ns.median()) / (size // line),
                    "direct_ns": direct.median if direct else np.nan,
                    "direct_lo_ns": direct.low if direct else np.nan,
                    "direct_hi_ns": direct.high if direct else np.nan,
                    "trials": len(after),
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
    """Time per pass; caches are named where sysfs describes them."""
    if not survey.caches(placement.quiet_cpu()):
        return Instrument("time per pass; this machine does not say how large its caches are")
    return Instrument("time per pass around the switch")


def default_working_sets(profile: str, survey: machine.Machine) -> list[int]:
    """Sizes from 4 KiB to past the second-level cache (full: past the last level).

    Nothing above an eighth of the available memory, and quick stops at 64 MiB.
    """
    caches = [
        cache.size_bytes for cache in survey.caches(placement.quiet_cpu()) if cache.kind != "instruction"
    ]
    levels = sorted(caches) or [32 * KIB, MIB, 32 * MIB]
    second = levels[1] if len(levels) > 1 else 8 * levels[0]
    last = levels[-1]
    available = _available(survey) or 512 * MIB
    most = min(
        {"tiny": second // 4, "quick": min(8 * second, 64 * MIB), "full": 4 * last}[profile], available // 8
    )
    sizes, size = [], 4 * KIB
    while size <= most:
        sizes.append(size)
        size *= 4 if profile == "tiny" or size < 16 * KIB else 2
    return sizes


def _available(survey: machine.Machine) -> int | None:
    """Bytes this process may still use: what the machine has free, and no more than its cgroup allows."""
    known = [survey.fact(key).value for key in ("memory.available_bytes", "cgroup.memory_limit_bytes")]
    return min((value for value in known if isinstance(value, int)), default=None)


def default_partner(survey: machine.Machine) -> int:
    """Four times the second-level cache: enough to displace everything a core keeps to itself."""
    second = [cache.size_bytes for cache in survey.caches(placement.quiet_cpu()) if cache.level == 2]
    return 4 * second[0] if second else 4 * MIB


@experiment("warmup.sweep", summarise=summarise, instrument=instrument)
def sweep(
    run: Run,
    *,
    working_sets_bytes: Sequence[int] | None = None,
    partner_bytes: int | None = None,
    access: Sequence[str] = ACCESS,
    between: str = "processes",
    trials: int | None = None,
    seed: int = 1,
) -> None:
    """Walk a working set alone and just after a switch, for a sweep of working sets.

    working_sets_bytes  what the victim walks; default: from 4 KiB to past the second-level cache
    partner_bytes       what the partner touches before it hands back; default: four second-level caches
    access              of random, sequential: the order of the victim's walk
    between             processes or threads
    trials              how often each size is measured; within a trial the conditions take turns, and their
                        order turns round from trial to trial
    seed                of the random order

    Data: one row per pass: pass_ns (one walk over the set), away_ns (from the end of the pass before to its
    start: hand-over, partner and hand-back, or the same system calls alone), condition alone or after_switch,
    and partner_bytes (0 with after_switch: the partner handed back at once).
    """
    survey = machine.survey()
    sizes = list(working_sets_bytes or default_working_sets(run.profile, survey))
    partner = default_partner(survey) if partner_bytes is None else int(partner_bytes)
    trials = run.choose(tiny=3, quick=9, full=25) if trials is None else trials
    line = survey.line_bytes
    _check(sizes, partner, access, between, trials, line, survey)
    home = placement.quiet_cpu()
    run.parameters |= {
        "working_sets_bytes": sizes,
        "partner_bytes": partner,
        "trials": trials,
        "line_bytes": line,
        "cpu": home,
    }

    disturbed: list[bool] = []
    block_ns = run.choose(tiny=2_000_000, quick=12_000_000, full=30_000_000)
    for order, size in run.each(
        [(order, size) for order in access for size in sizes], label=lambda p: f"{p[0]}, {_size(p[1])}"
    ):
        # About 10 ns a line as a first guess; a block then lasts about block_ns, with at least three passes.
        passes = int(np.clip(block_ns // (10 * size // line + partner // line + 10_000), 3, 24))
        arguments = ["--working-set", str(size), "--line", str(line), "--access", order, "--seed", str(seed),
                     "--partner", "0", "--partner", str(partner), "--between", between,
                     "--passes", str(passes), "--trials", str(trials)]  # fmt: skip
        with workloads.start("chase", arguments, deadline_s=120) as chase:
            placement.pin(chase.tids, [home])
            passes_seen, blocks = _passes(chase, order, size)
        run.add(passes_seen)
        disturbed += blocks
    _check_baseline(run)
    if sum(disturbed) > 0.05 * len(disturbed):
        run.note(
            "flag",
            f"In {sum(disturbed)} of {len(disturbed)} blocks the kernel counted more switches than "
            "hand-overs: another program ran on its CPU.",
        )


def _passes(chase: workloads.Workload, access: str, size: int) -> tuple[pd.DataFrame, list[bool]]:
    """The passes of one workload as rows; and for each of its blocks, whether another program ran in it.

    The kernel counts the victim's switches: one for each hand-over, and a few for ticks and housekeeping.
    """
    rows: list[tuple[int, str, int, int, int, int]] = []
    disturbed: list[bool] = []
    block = None
    index = 0
    for record in chase.run():
        if record.kind == "block":
            block, index = record, 0
            assumed = 0 if record["partner"] < 0 else record["passes"]
            counted = record["voluntary"] + record["involuntary"]
            disturbed.append(counted < assumed or counted > assumed + max(3, 0.2 * record["passes"]))
        elif block is None:
            raise WorkloadError(f"The workload chase sent {record.kind!r} before its first block.")
        else:
            partner = block["partner"]
            condition = "alone" if partner < 0 else "after_switch"
            rows.append((block["trial"], condition, max(partner, 0), index, record["ns"], record["away"]))
            index += 1
    frame = pd.DataFrame(
        rows, columns=["trial", "condition", "partner_bytes", "pass_index", "pass_ns", "away_ns"]
    )
    frame.insert(0, "access", access)
    frame.insert(1, "working_set_bytes", size)
    return frame, disturbed


def _check(
    sizes: list[int], partner: int, access: Sequence[str], between: str, trials: int, line: int,
    survey: machine.Machine,
) -> None:  # fmt: skip
    if isinstance(access, str) or not access or any(order not in ACCESS for order in access):
        raise ParameterError(f"access does not take {access!r}.", f"Give a list of: {', '.join(ACCESS)}.")
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
    available = _available(survey)
    if available and max(sizes) + partner > available // 2:
        raise ParameterError(
            f"A working set of {_size(max(sizes))} and a partner of {_size(partner)} need more than half "
            f"of the memory that is available ({_size(available)}).",
            "Choose smaller ones: a machine that swaps measures its disk.",
        )


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


def _size(size: float) -> str:
    """4096 -> "4 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if size == int(size) else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")
