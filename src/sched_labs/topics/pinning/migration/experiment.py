"""What does it cost a thread to be moved to another CPU, and from how far?  (lab L28)

A moved thread pays twice, as with a switch: once for the move itself, in which the kernel takes it off one
CPU and starts it on the other, and once more on arrival, where the caches hold none of its data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import checks, distance, memory
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.run.memory import KIB, MIB
from sched_labs.steer import placement

TOUCH = ("writes", "reads")
MOST_STEPS = 12


def summarise(result: Result) -> pd.DataFrame:
    """One row per touch, distance and working set; medians over trials, of both CPUs alike.

    touch, distance, working_set_bytes
    stay_ns                          a walk over the set after a call that moved nothing
    moved_ns                         the walk just after a move
    warmup_ns, warmup_lo_ns, warmup_hi_ns   moved - stay, paired by trial, 95 % interval
    call_ns, call_lo_ns, call_hi_ns  the move itself: the call that moves - the call that does not
    cost_ns, cost_lo_ns, cost_hi_ns  what one move costs: both together
    floor_ns                         what stays differ by among each other, the walk alone or with its call;
                                     at least one look at the clock; with distance same_cpu nothing moves, so
                                     its cost_ns is such a difference too
    seen                             all of the cost's interval lies beyond the floor
    resume_ratio, resume_lo_ratio, resume_hi_ratio   call and walk together, moved over stayed
    moves_per_step                   moves counted by the victim, per step that should move: 1, same_cpu 0
    kernel_moves_per_step            the same, as the kernel counted them; missing where it does not tell
    wait_ns                          part of a move and the walk after it in which the thread could have run
                                     and had no CPU: somebody else was there, or it had to be woken; missing
                                     where the kernel does not tell
    flagged                          one of the counts of moves is not what was assumed
    trials
    """
    rows = []
    keys = ["touch", "distance", "working_set_bytes"]
    for (touch, far, size), part in result.data.groupby(keys, sort=False):
        # One value per trial and CPU and kind of step, and then the mean of the two CPUs.
        cells = part.groupby(["trial", "cpu", "moving"])[["call_ns", "walk_ns"]].median().unstack("moving")
        cells = cells.dropna().groupby("trial").mean()
        if cells.empty:
            continue
        stay, moved = cells["walk_ns"][False], cells["walk_ns"][True]
        stay_call, move_call = cells["call_ns"][False], cells["call_ns"][True]
        warmup = stats.paired_difference(moved, stay)
        call = stats.paired_difference(move_call, stay_call)
        cost = stats.paired_difference(moved + move_call, stay + stay_call)
        floors = [stats.noise_floor(stay), stats.noise_floor(stay + stay_call)]
        floor = max(*floors, float(result.machine.get("clock_read_ns") or 0))
        blocks = part.drop_duplicates("trial")
        due = blocks["steps_moving"].sum()
        counted, kernel = blocks["moves"].sum() / due, blocks["kernel_moves"].sum(min_count=len(blocks)) / due
        expected = 0.0 if far == "same_cpu" else 1.0
        rows.append(
            {
                "touch": touch,
                "distance": far,
                "working_set_bytes": int(str(size)),
                "stay_ns": float(stay.median()),
                "moved_ns": float(moved.median()),
                **stats.in_columns("warmup", "ns", warmup),
                **stats.in_columns("call", "ns", call),
                **stats.in_columns("cost", "ns", cost),
                "floor_ns": floor,
                "seen": stats.seen(cost, floor),
                **stats.spread("resume", "ratio", (moved + move_call) / (stay + stay_call)),
                "moves_per_step": counted,
                "kernel_moves_per_step": kernel,
                "wait_ns": float(part.loc[part["moving"], "wait_ns"].median()),
                "flagged": bool(counted != expected or (np.isfinite(kernel) and kernel != expected)),
                "trials": len(cells),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The victim's own clock, and moves counted by itself and by the kernel."""
    if len(survey.cpus_allowed) < 2:
        return Instrument("clock, one CPU only", "a second CPU adds moves")
    return Instrument("clock and counted moves")


def default_working_sets(profile: str, survey: machine.Machine) -> list[int]:
    """From 16 KiB by factors of four to four second-level caches; tiny stops at 64 KiB.

    Full goes to twice the last-level cache, by factors of two.  Nothing is larger than an eighth of the
    available memory.
    """
    room = (memory.available(survey) or memory.UNKNOWN_AVAILABLE) // 8
    last = memory.caches(survey)[-1]
    four = min(4 * memory.second_level(survey), 16 * MIB)
    most = min(room, {"tiny": 64 * KIB, "quick": four, "full": 2 * last}[profile])
    sizes, size = [], 16 * KIB
    while size <= most:
        sizes.append(size)
        size *= 2 if profile == "full" else 4
    return sizes or [16 * KIB]


@experiment("migration.cost", summarise=summarise, instrument=instrument, workloads=("migrate",))
def cost(
    run: Run,
    *,
    working_sets_bytes: Sequence[int] | None = None,
    distances: Sequence[str] | None = None,
    touch: Sequence[str] = TOUCH,
    every_ms: float = 1.0,
    trials: int | None = None,
    seed: int = 1,
) -> None:
    """Move a thread to another CPU every few milliseconds, and time its first walk over its memory there.

    working_sets_bytes  what it walks; default: from 16 KiB to four second-level caches, in full to twice the
                        last-level cache
    distances           of same_cpu (nothing moves), smt_sibling, same_cache, other_cache, other_node, and
                        where the machine tells no caches other_cpu; default: all that it has
    touch               of writes (each line is read and written) and reads; same_cpu takes the first only
    every_ms            how long it walks before each step; at least two walks
    trials              how often each case is measured; between the steps that move are as many that do not
    seed                of the random order of the walk

    Data: one row per step: touch, distance, working_set_bytes, trial, cpu (of the walk), moving (whether the
    step should move), call_ns (sched_setaffinity), walk_ns, wait_ns (run delay in both); and, the same for
    all steps of a trial, steps_moving, moves (counted with sched_getcpu), kernel_moves (nr_migrations),
    voluntary_switches, involuntary_switches.  kernel_moves and wait_ns are missing where the kernel does not
    tell them.
    """
    survey = machine.survey()
    home = placement.quiet_cpu()
    there = distance.partners(survey, home)
    if distances is not None and (
        isinstance(distances, str)
        or not distances
        or any(name not in distance.DISTANCES for name in distances)
    ):
        raise ParameterError(
            f"distances does not take {distances!r}.", f"Give a list of: {', '.join(distance.DISTANCES)}."
        )
    chosen = {name: cpu for name, cpu in there.items() if distances is None or name in distances}
    if not chosen:
        raise ParameterError(
            f"This machine has none of these distances: {', '.join(distances or ())}.", "Add same_cpu."
        )
    checks.words("touch", touch, TOUCH)
    if not isinstance(every_ms, int | float) or not 0 <= every_ms <= 1000:
        raise ParameterError(f"every_ms lies between 0 and 1,000 ms, not at {every_ms!r}.")
    trials = run.choose(tiny=3, quick=6, full=25) if trials is None else trials
    if not isinstance(trials, int) or not 1 <= trials <= 10_000:
        raise ParameterError(
            f"{trials!r} trials cannot be made.", "Give a whole number from 3; intervals need them."
        )
    line = max(16, survey.line_bytes)
    sizes = (
        default_working_sets(run.profile, survey) if working_sets_bytes is None else list(working_sets_bytes)
    )
    memory.check("working_sets_bytes", sizes, line)
    memory.check_room(max(sizes), 0, survey)
    run.begin()
    run.parameters |= {
        "working_sets_bytes": sizes,
        "distances": list(chosen),
        "cpus": chosen,
        "cpu": home,
        "trials": trials,
        "line_bytes": line,
        "every_ms": every_ms,
    }
    if distances is None and (text := distance.absent(survey, home)):
        run.note("missing", text)
    block_ns = run.choose(tiny=8e6, quick=12e6, full=60e6)
    cells = [
        (size, far, kind)
        for size in sizes
        for kind in touch
        for far in chosen
        if far != "same_cpu" or kind == touch[0]
    ]
    for size, far, kind in run.each(cells, label=lambda c: f"{c[2]}, {memory.size_text(c[0])}, {c[1]}"):
        # A guess at one walk, so that a trial of small sets lasts about block_ns; large ones take two moves.
        walk_ns = (5 if size < 4 * MIB else 40) * size / line
        step_ns = max(1e6 * every_ms, 2 * walk_ns) + 2 * walk_ns
        steps = 2 * int(np.clip(block_ns / step_ns / 2, 2, MOST_STEPS))
        words = ["--working-set", size, "--line", line, "--every-us", round(1000 * every_ms), "--seed", seed]
        words += ["--steps", steps, "--trials", trials, "--touch", kind, "--cpu", home, "--cpu", chosen[far]]
        with workloads.start("migrate", [str(word) for word in words], deadline_s=120) as victim:
            placement.pin(victim.tids, [home])
            run.add(_rows(victim, {"touch": kind, "distance": far, "working_set_bytes": size}))
    _check_moves(run)


def _rows(victim: workloads.Workload, about: dict[str, str | int]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    block: dict[str, object] = {}
    for record in victim.run():
        if record.kind == "block":
            block = {
                "trial": record["trial"],
                "steps_moving": record["steps"] // 2,
                "moves": record["moved"],
                "kernel_moves": float(record["kernel"]) if "kernel" in record.values else np.nan,
                "voluntary_switches": record["voluntary"],
                "involuntary_switches": record["involuntary"],
            }
        else:
            step = {
                "cpu": record["cpu"],
                "moving": bool(record["move"]),
                "call_ns": record["call"],
                "walk_ns": record["ns"],
                "wait_ns": float(record["wait"]) if "wait" in record.values else np.nan,
            }
            rows.append(about | block | step)
    return rows


def _check_moves(run: Run) -> None:
    """Whether as many moves happened as were asked for, by both counts."""
    blocks = pd.concat(run.rows).drop_duplicates(["touch", "distance", "working_set_bytes", "trial"])
    due = blocks["steps_moving"].where(blocks["distance"] != "same_cpu", 0)
    wrong = int((blocks["moves"] != due).sum())
    kernel = blocks["kernel_moves"]
    other = int((kernel.notna() & (kernel != due)).sum())
    if wrong or other:
        run.note(
            "flag",
            f"In {max(wrong, other)} of {len(blocks)} trials the thread was not moved as often as told.",
        )
    if kernel.isna().all():
        run.note(
            "missing",
            "This kernel does not tell how often it moved a thread (nr_migrations): counted by CPU.",
        )
