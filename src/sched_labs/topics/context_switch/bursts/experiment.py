"""Do switches that come in bursts cost as much as evenly spaced ones?  (lab L03)

Every pattern has the same number of hand-overs, to the same partner.  In one half of the patterns the victim
also makes the same number of steps, and only their order differs: one stint after each hand-over, or ten
hand-overs at once and then ten stints.  In the other half the hand-overs are evenly spaced, and the victim's
stint between two of them grows from a small part of its set to many times round.
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
from sched_labs.topics.context_switch.recovery.experiment import blocks_of

BURSTS = (1, 10, 100)
ROUNDS = (1 / 64, 1 / 16, 1 / 4, 1, 4, 16)  # stints, in rounds of the victim's set


def summarise(result: Result) -> pd.DataFrame:
    """One row per pattern; medians over trials, everything per hand-over.

    burst                            how many hand-overs follow each other at once; 1 is evenly spaced
    stint_lines                      how many lines the victim then walks for each of them
    rounds                           the same in rounds of its set
    spacing_ns                       how long that takes it alone: its own work between evenly spaced
                                     hand-overs, to which the partner's comes
    extra_ns, extra_lo_ns, extra_hi_ns   what the victim's walks take longer than alone, 95 % interval
    floor_ns                         what alone differs by from the next start's alone, at least a look at the
                                     clock
    seen                             all of the extra's interval lies beyond the floor
    trials
    """
    lines = result.parameters["working_set_bytes"] // result.parameters["line_bytes"]
    rows = []
    for (burst, stint), part in result.data.groupby(["burst", "stint_lines"], sort=False):
        times = part.pivot(index="trial", columns="condition", values="walk_ns")
        if not {"alone", "after_switch"} <= set(times.columns):
            continue
        times = times.dropna()
        extra = stats.paired_difference(times.after_switch, times.alone)
        # The walks of a burst are timed together, so the clock's part of each is smaller.
        clock = float(result.machine.get("clock_read_ns") or 0) / int(str(burst))
        floor = max(stats.noise_floor(times.alone), clock)
        rows.append(
            {
                "burst": int(str(burst)),
                "stint_lines": int(str(stint)),
                "rounds": int(str(stint)) / lines,
                "spacing_ns": float(times.alone.median()),
                **stats.in_columns("extra", "ns", extra),
                "floor_ns": floor,
                "seen": stats.seen(extra, floor),
                "trials": len(times),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The victim's own clock, around its walks."""
    return Instrument("time of the victim's walks, hand-overs left out")


@experiment("bursts.spacing", summarise=summarise, instrument=instrument, workloads=("chase",))
def spacing(
    run: Run,
    *,
    bursts: Sequence[int] = BURSTS,
    rounds: Sequence[float] = ROUNDS,
    working_set_bytes: int | None = None,
    partner_bytes: int | None = None,
    hand_overs: int | None = None,
    trials: int | None = None,
) -> None:
    """Hand the CPU over as often in every pattern, in bursts or evenly, and time what is left of the victim.

    bursts             how many hand-overs follow each other at once; the victim walks its set once for each
    rounds             evenly spaced: how many rounds of its set the victim walks after each hand-over
    working_set_bytes  the victim's set, in random order; default: a quarter of the second-level cache
    partner_bytes      what the partner touches each time; default: the last-level cache's size, or 32 MiB
    hand_overs         of a block of bursts; default: by profile, and a multiple of the longest burst; a block
                       of evenly spaced ones has a quarter of them
    trials             how often each pattern is measured alone and then with the partner, each time with new
                       processes and new memory; before alone the set is walked 32 times or for 150 ms, which
                       is not recorded

    Data: one row per block: burst, stint_lines, trial, condition (alone or after_switch), hand_overs; and
    per hand-over walk_ns (what the victim walks) and away_ns (the hand-over, or the same system calls alone).
    Both are those of the block's median burst: one of many that another program interrupted does not count.
    A block of the longest bursts may have only one or two, in which an interruption stays: there the median
    over the trials has to leave it out.
    """
    survey = machine.survey()
    line = survey.line_bytes
    default_set = memory.down_to_power(memory.second_level(survey) / 4)
    size = default_set if working_set_bytes is None else working_set_bytes
    partner = _default_partner(run.profile, survey) if partner_bytes is None else partner_bytes
    trials = run.choose(tiny=3, quick=5, full=25) if trials is None else trials
    if isinstance(bursts, (int, str)) or not bursts or any(not isinstance(b, int) or b < 1 for b in bursts):
        raise ParameterError(f"bursts does not take {bursts!r}.", "Give a list such as [1, 10, 100].")
    if isinstance(rounds, (int, float, str)) or any(not 0 < part <= 1000 for part in rounds):
        raise ParameterError(f"rounds does not take {rounds!r}.", "Give a list such as [0.25, 1, 4].")
    longest = max(bursts)
    chosen = run.choose(tiny=1, quick=100, full=200)
    hand_overs = max(longest, chosen // longest * longest) if hand_overs is None else hand_overs
    memory.check("working_set_bytes", [size], line)
    memory.check("partner_bytes", [partner], line)
    memory.check_room(size, partner, survey)
    if trials < 1:
        raise ParameterError(f"{trials} trials measure nothing.", "Give at least 3; intervals need them.")
    if any(hand_overs < 1 or hand_overs % burst for burst in bursts):
        raise ParameterError(
            f"{hand_overs} hand-overs are no whole number of bursts of {', '.join(map(str, bursts))}.",
            f"Give a multiple of all of them, such as {int(np.lcm.reduce(list(bursts)))}.",
        )
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {
        "bursts": list(bursts),
        "rounds": list(rounds),
        "working_set_bytes": size,
        "partner_bytes": partner,
        "hand_overs": hand_overs,
        "trials": trials,
        "line_bytes": line,
        "cpu": home,
    }
    lines = size // line
    patterns = [(burst, lines) for burst in bursts]
    patterns += [
        (1, stint) for part in rounds if (stint := max(1, round(part * lines))) != lines or 1 not in bursts
    ]
    patterns = list(dict.fromkeys(patterns))
    disturbed = 0
    for trial, (burst, stint) in starts.each(
        run, patterns, trials, label=lambda p: f"bursts of {p[0]}, {p[1]} lines"
    ):
        count = hand_overs if stint == lines else max(1, hand_overs // 4)
        arguments = ["--working-set", str(size), "--line", str(line), "--partner", str(partner),
                     "--burst", str(burst), "--stint", str(stint),
                     "--passes", str(count // burst), "--trials", "1"]  # fmt: skip
        with workloads.start("chase", arguments, deadline_s=120) as chase:
            placement.pin(chase.tids, [home])
            found = blocks_of(chase.run())
        for header, _ in found:
            expected = 0 if header["partner"] < 0 else count
            counted = header["voluntary"] + header["involuntary"]
            disturbed += counted < expected or counted > expected + max(3, 0.2 * count)
        run.add(
            [
                {
                    "burst": burst,
                    "stint_lines": stint,
                    "trial": trial,
                    "condition": "alone" if header["partner"] < 0 else "after_switch",
                    "hand_overs": count,
                    "walk_ns": float(np.median([record["ns"] for record in passes])) / burst,
                    "away_ns": float(np.median([record["away"] for record in passes])) / burst,
                }
                for header, passes in found
            ]
        )
    if disturbed > 0.05 * 2 * trials * len(patterns):
        run.note(
            "flag",
            f"In {disturbed} of {2 * trials * len(patterns)} blocks the kernel counted another number of "
            "switches than of hand-overs.",
        )


def _default_partner(profile: str, survey: machine.Machine) -> int:
    """As much as the last-level cache holds, or 32 MiB: one touch displaces nearly all that ten would."""
    if profile == "tiny":
        return memory.second_level(survey)
    most = (memory.available(survey) or memory.UNKNOWN_AVAILABLE) // 8
    return min(max(memory.caches(survey)[-1], 4 * memory.second_level(survey)), 32 * memory.MIB, most)
