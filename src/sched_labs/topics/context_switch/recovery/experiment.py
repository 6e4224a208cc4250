"""How long after a switch is a thread slow?  The recovery curve (lab L01, seen from the inside).

The warm-up sweep says what a whole pass costs more.  Here the victim looks at its clock after every few
accesses instead, so that one sees the time per access fall back to what it was.  The accesses are drawn at
random from the set, with repetition: a program comes back to some of its data at once and to some much later,
and the last part of a set takes the longest to be met again.

An access is the drawing of a line and the read of it.  The draw depends on the read before it, so its time,
two multiplications and a little more, is part of every access, alone and after the switch: differences of the
two are the reads' own, ratios are smaller than those of the reads without their draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import memory, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

NEAR = 0.05  # "recovered" means that an access takes at most so much longer than alone, its draw in both
ROUNDS = 12  # how many accesses per line of the set are followed, or more in a small one
BLOCKS = 64  # in how many blocks
FEWEST_READS = 256  # a block of fewer would measure the clock
TURNS = 2  # of both conditions in one start, there and back
SMOOTH = 5  # so many blocks are looked at together when recovery is judged


def summarise(result: Result) -> pd.DataFrame:
    """One row per working set; medians over trials.

    working_set_bytes            what the victim walks
    lines                        the same in cache lines
    partner_bytes                what the partner touched
    alone_ns_per_access          an access when nothing switched: a draw and a read
    first_ratio                  the first block after the switch against alone, the draws in both
    extra_ns                     what the switch cost the victim over all blocks
    seen                         all of the first block's interval lies above the noise floor: it is slower
    floor_ratio                  by how much alone differs from alone, as a share of alone
    recovered_ns, recovered_lo_ns, recovered_hi_ns   from the resume until an access takes at most 5 % longer
                                 than alone, for a run of blocks; missing where 5 % is less than the floor
    recovered_accesses           the same, counted
    recovered                    false: it had not happened when the last block ended
    left_at_10k_ratio, left_at_10k_lo_ratio, left_at_10k_hi_ratio   what an access costs more around the
                                 10,000th, as a share of what it costs more in the first block; missing where
                                 so many were not made, or a block has more than 3,333.  The first block is
                                 a mean: its last accesses find some lines again, so the share is a little
                                 larger than that of the very first access would be
    trials
    """
    line = int(result.parameters["line_bytes"])
    rows = []
    for working_set, part in starts.with_turns(result.data).groupby("working_set_bytes", sort=False):
        alone, after = _by_trial(part, "alone"), _by_trial(part, "after_switch")
        both = alone.index.intersection(after.index)
        if both.empty:
            continue
        alone, after = alone.loc[both], after.loc[both]
        reads = int(part.accesses.iloc[0])
        baseline = alone.median(axis=1)  # per trial
        middle = float(baseline.median())
        first = stats.paired_difference(after.iloc[:, 0], baseline)
        floor = max(_floor(part), float(result.machine.get("clock_read_ns") or 0))
        ratios = after.div(baseline, axis=0)
        ends = [_recovered(ratios.loc[trial].to_numpy(float)) for trial in both]
        since = after.cumsum(axis=1)
        last = after.shape[1] - 1
        times = [since.loc[trial].iloc[min(end, last)] for trial, end in zip(both, ends, strict=True)]
        known = floor / middle <= NEAR
        when = stats.median_interval(times) if known else None
        left = _left_at(10_000 // reads, after, baseline)
        rows.append(
            {
                "working_set_bytes": int(str(working_set)),
                "lines": int(str(working_set)) // line,
                "partner_bytes": int(part.partner_bytes.max()),
                "alone_ns_per_access": middle / reads,
                "first_ratio": float((after.iloc[:, 0] / baseline).median()),
                "extra_ns": float(after.sub(baseline, axis=0).sum(axis=1).median()),
                "seen": first.low > floor,
                "floor_ratio": floor / middle,
                **stats.in_columns("recovered", "ns", when),
                "recovered_accesses": float(reads * (min(np.median(ends), last) + 1)) if known else np.nan,
                "recovered": bool(known and np.median(ends) <= last),
                **stats.in_columns("left_at_10k", "ratio", left),
                "trials": len(both),
            }
        )
    return pd.DataFrame(rows)


def blocks(data: pd.DataFrame) -> pd.DataFrame:
    """A result's data as one row per working set and block; medians over trials.

    working_set_bytes, block_index
    since_ns                       when the block ended, counted from the resume
    ratio, ratio_lo, ratio_hi      the block's time against alone's, with the 95 % interval
    floor_ratio                    the noise floor of one block, alone against alone, as a share of alone
    """
    rows = []
    for working_set, part in starts.with_turns(data).groupby("working_set_bytes", sort=False):
        alone, after = _by_trial(part, "alone"), _by_trial(part, "after_switch")
        both = alone.index.intersection(after.index)
        if both.empty:
            continue
        baseline = alone.loc[both].median(axis=1)
        ratios = after.loc[both].div(baseline, axis=0)
        since = after.loc[both].cumsum(axis=1).median()
        floor = _floor(part) / float(baseline.median())
        for block in ratios.columns:
            rows.append(
                {
                    "working_set_bytes": int(str(working_set)),
                    "block_index": int(block),
                    "since_ns": float(since[block]),
                    **stats.spread("ratio", "", ratios[block]),
                    "floor_ratio": floor,
                }
            )
    names = ["working_set_bytes", "block_index", "since_ns", "ratio", "ratio_lo", "ratio_hi", "floor_ratio"]
    return pd.DataFrame(rows, columns=names)


def _by_turn(part: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Trials and their turns down, blocks across, ns."""
    rows = part[part.condition == condition]
    return rows.pivot(index=["trial", "turn"], columns="block_index", values="block_ns")


def _by_trial(part: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Trials down, blocks across, ns: medians over a trial's turns."""
    return _by_turn(part, condition).groupby("trial").median()


def _floor(part: pd.DataFrame) -> float:
    """The noise floor of a block, alone against alone, ns."""
    return starts.noise_floor(_by_turn(part, "alone").median(axis=1))


def _recovered(ratios: np.ndarray) -> int:
    """The first block that is at most NEAR above alone, and so is the median of the SMOOTH blocks from it on.

    The number of blocks where there is none.  One fast block in a slow stretch is no recovery, and one slow
    block after it, an interrupt perhaps, no relapse.
    """
    windows = np.lib.stride_tricks.sliding_window_view(ratios, min(SMOOTH, len(ratios)))
    near = (np.median(windows, axis=1) <= 1 + NEAR) & (ratios[: len(windows)] <= 1 + NEAR)
    return int(np.argmax(near)) if near.any() else len(ratios)


def _left_at(block: int, after: pd.DataFrame, baseline: pd.Series) -> stats.Interval | None:
    """What of the first block's extra is left in the blocks around this one."""
    if block <= SMOOTH // 2 or block + SMOOTH > after.shape[1]:
        return None
    first = after.iloc[:, 0] - baseline
    there = after.iloc[:, block - SMOOTH // 2 : block + SMOOTH // 2 + 1].median(axis=1) - baseline
    share = (there / first).where(first > 0).dropna()
    return stats.median_interval(share) if len(share) else None


def instrument(survey: machine.Machine) -> Instrument:
    """The victim's own clock, read after every block."""
    return Instrument("time per block of accesses since the resume")


def default_working_sets(profile: str, survey: machine.Machine) -> list[int]:
    """Half of the first-level cache, the 256 KiB that the chapter asks about, and the second-level one."""
    first, second = memory.caches(survey)[0], memory.second_level(survey)
    sizes = [memory.down_to_power(size) for size in (first / 2, 256 * memory.KIB, second)]
    most = (memory.available(survey) or memory.UNKNOWN_AVAILABLE) // 8
    chosen = sorted({size for size in sizes if size <= most})
    return chosen[:2] if profile == "tiny" else chosen


@experiment("recovery.curve", summarise=summarise, instrument=instrument, workloads=("chase",))
def curve(
    run: Run,
    *,
    working_sets_bytes: Sequence[int] | None = None,
    partner_bytes: int | None = None,
    between: str = "processes",
    trials: int | None = None,
    resumes: int | None = None,
) -> None:
    """Follow a victim's time per access after a switch, block by block, against the same without a switch.

    working_sets_bytes  what the victim reads, line by line, drawn at random; default: one set for each level
    partner_bytes       what the partner touches before it hands back; default: enough to displace all
                        levels, where 64 MiB and an eighth of the available memory allow that
    between             processes or threads
    trials              how often each set is measured, each time with new processes and new memory; alone
                        and after the switch take two turns, there and back
    resumes             how many hand-overs a turn has; the median of their blocks is kept

    Data: one row per working_set_bytes, trial, turn, condition (alone or after_switch) and block_index:
    block_ns, the median over the resumes of the turn, for `accesses` reads.  A set is followed for twelve
    reads per line or more.
    """
    survey = machine.survey()
    line = survey.line_bytes
    given = default_working_sets(run.profile, survey) if working_sets_bytes is None else working_sets_bytes
    sizes = list(given)
    partner = memory.thorough_partner(run.profile, survey) if partner_bytes is None else partner_bytes
    trials = run.choose(tiny=3, quick=6, full=25) if trials is None else trials
    resumes = run.choose(tiny=2, quick=8, full=16) if resumes is None else resumes
    memory.check("working_sets_bytes", sizes, line)
    memory.check("partner_bytes", [partner], line)
    memory.check_room(max(sizes), partner, survey)
    if between not in ("processes", "threads"):
        raise ParameterError(f"between does not take {between!r}.", "Give one of: processes, threads.")
    if trials < 1 or resumes < 1:
        raise ParameterError("trials and resumes start at 1.", "Leave them out to use the profile's.")
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {
        "working_sets_bytes": sizes,
        "partner_bytes": partner,
        "trials": trials,
        "resumes": resumes,
        "line_bytes": line,
        "cpu": home,
    }
    disturbed = 0
    for trial, size in starts.each(run, sizes, trials, label=memory.size_text):
        lines = size // line
        reads = max(FEWEST_READS, ROUNDS * lines // BLOCKS)
        arguments = ["--working-set", str(size), "--line", str(line), "--partner", str(partner),
                     "--between", between, "--passes", str(resumes), "--trials", str(TURNS),
                     "--blocks", str(BLOCKS), "--block", str(reads)]  # fmt: skip
        with workloads.start("chase", arguments, deadline_s=120) as chase:
            placement.pin(chase.tids, [home])
            records = chase.run()
        for header, resumed in blocks_of(records):
            expected = 0 if header["partner"] < 0 else header["passes"]
            counted = header["voluntary"] + header["involuntary"]
            # The partner that woke the victim has yet to go to sleep.  The victim takes its CPU before that,
            # and gives it back once, if its walk is longer than a slice: a switch more for each hand-over.
            most = 2 * expected + max(3, 0.2 * header["passes"])
            disturbed += counted < expected or counted > most
            run.add(
                pd.DataFrame(
                    {
                        "working_set_bytes": size,
                        "trial": trial,
                        "turn": header["trial"],
                        "condition": "alone" if header["partner"] < 0 else "after_switch",
                        "partner_bytes": max(header["partner"], 0),
                        "block_index": range(BLOCKS),
                        "accesses": reads,
                        "block_ns": np.median([_times(record) for record in resumed], axis=0),
                    }
                )
            )
    measured = 2 * TURNS * trials * len(sizes)
    if disturbed > 0.05 * measured:
        run.note(
            "flag",
            f"In {disturbed} of {measured} turns the kernel counted fewer switches than hand-overs, or "
            "many beside them.",
        )


def blocks_of(records: Sequence[workloads.Record]) -> list[tuple[workloads.Record, list[workloads.Record]]]:
    """What chase.c wrote, as (block, its passes)."""
    found: list[tuple[workloads.Record, list[workloads.Record]]] = []
    for record in records:
        if record.kind == "block":
            found.append((record, []))
        else:
            found[-1][1].append(record)
    return found


def _times(record: workloads.Record) -> list[int]:
    return [int(text) for text in record.text("blocks").split(",")]
