"""Do two runs agree within their intervals?  `make bench-agreement` runs this, on a machine that is quiet.

Every experiment of the first chapter (or those that are named) is run once, and then all of them again, so
that its two runs lie minutes apart.  Each number with an interval in the two summaries is compared: the
intervals overlap, or they do not.  A measurement and not a test: there is no target to miss.

What to expect: if an interval covers 95 times in 100, and holds everything that differs between two runs,
then two of them overlap in more than 99 of 100 comparisons (for normal errors: they are apart where the
difference is above 2.8 of its own standard deviations).  A share below 97 % on a quiet machine says that
something differs between runs which is not in the intervals; `sched_labs.run.starts` says what is,
and what is not.  The largest ratio of two medians is that of the numbers that are clear of zero in both runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pandas as pd

from sched_labs.book.trust import estimates
from sched_labs.core.errors import SchedLabError
from sched_labs.core.registry import find
from sched_labs.run.base import PROFILES

# What the chapter's two pages run, but for the waits: those are distributions and not numbers.
CHAPTER = (
    "context_switch.matrix", "crowd.switch", "yielding.semantics", "warmup.sweep", "recovery.curve",
    "bursts.spacing", "interpreter.script", "reference.costs", "loops.counted", "ring.sweep", "fpu.state",
    "tlb.switches",
)  # fmt: skip


def compared(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """The numbers that both runs have, with whether they overlap and how far apart their medians are.

    overlap   the two intervals have a value in common
    ratio     of the larger to the smaller median; missing where one of them is not clear of zero
    """
    both = estimates(first).add_suffix("_1").join(estimates(second).add_suffix("_2"), how="inner")
    overlap = (both.low_1 <= both.high_2) & (both.low_2 <= both.high_1)
    clear = (both.low_1 > 0) & (both.low_2 > 0)
    medians = both[["median_1", "median_2"]].where(clear)
    return both.assign(overlap=overlap, ratio=medians.max(axis=1) / medians.min(axis=1))


def show(name: str, table: pd.DataFrame) -> None:
    """One line, and one more for each number whose intervals lie apart."""
    line = f"{name:<24}{int(table.overlap.sum()):>6} of {len(table):>3} overlap"
    if table.ratio.notna().any():
        line += f"   largest ratio {table.ratio.max():.2f} ({table.ratio.idxmax()})"
    print(line)
    for what, row in table[~table.overlap].iterrows():
        print(
            f"    apart: {what}: {row.median_1:,.4g} ({row.low_1:,.4g} to {row.high_1:,.4g}) "
            f"and {row.median_2:,.4g} ({row.low_2:,.4g} to {row.high_2:,.4g})"
        )


def agreement(names: Sequence[str], profile: str) -> None:
    rounds = []
    for number in (1, 2):
        print(f"Round {number} of 2 ...", flush=True)
        rounds.append({name: find(name)(profile=profile, save=False) for name in names})
    tables = {name: compared(rounds[0][name].summary(), rounds[1][name].summary()) for name in names}
    for name, table in tables.items():
        show(name, table)
    every = pd.concat(list(tables.values()))
    print(f"{'all':<24}{int(every.overlap.sum()):>6} of {len(every):>3} overlap, {every.overlap.mean():.1%}")
    for text in sorted({flag for results in rounds for result in results.values() for flag in result.flags}):
        print(f"Doubt: {text}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiments", nargs="*", help="default: all of the first chapter")
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    given = parser.parse_args()
    try:
        agreement([find(name).name for name in given.experiments or CHAPTER], given.profile)
    except SchedLabError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
