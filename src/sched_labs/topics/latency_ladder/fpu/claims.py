"""What people say about fpu, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict, ns, yes
from sched_labs.claims.helpers import at_most, one_row, some

KIND = "fpu.state"
SPREAD_NS = 3300  # from 1.2 to 4.5 µs


def _widest(table: pd.DataFrame) -> pd.Series:
    """The registers that hold most; they come last."""
    rows = some(table[table.registers != "integer"], "This run filled no vector registers.")
    return rows.iloc[-1]


def _said(row: pd.Series) -> str:
    return (
        f"judged by the widest alone, {row.registers}: {ns(row.extra_ns)} a switch more (interval "
        f"{ns(row.extra_lo_ns)} to {ns(row.extra_hi_ns)}), noise floor {ns(row.floor_ns)}."
    )


def _832_bytes(table: pd.DataFrame) -> Verdict:
    """Statistic: the bytes of the vector components alone, each by CPUID.  Control: the whole image.
    Design: what the kernel has not switched on is not counted.
    Opponent: the whole image may hold matrix tiles and keys, which are no vector registers.
    """
    if not (table.registers == "avx512").any():
        raise CannotTell("This processor has no AVX-512, or hides it.")
    vectors, image = table.vector_bytes.iloc[0], table.image_bytes.iloc[0]
    if pd.isna(vectors):
        raise CannotTell("What of the state is the vector registers' was not told in this run.")
    reason = (
        "the vector registers, with the legacy area and the header before them, take "
        f"{vectors:.0f} bytes of the {image:.0f} that CPUID says in all."
    )
    return yes(vectors == 832, reason)


def _pay_more(table: pd.DataFrame) -> Verdict:
    """Statistic: what filled registers add to a switch, by interval.  Control: the same run with none
    filled, twice.  Design: the widest that this processor has.  Opponent: below a fiftieth of the
    switch counts as nothing.
    """
    row = _widest(table)
    if row.seen and row.extra_ns > 0:
        return Verdict(HOLDS, _said(row))
    # Absent means: less than a fiftieth of the switch, and this run could have seen that.
    limit = 0.02 * one_row(table, registers="integer").switch_ns
    if row.extra_hi_ns < limit and row.floor_ns < limit:
        return Verdict(FAILS, f"less than a fiftieth of a switch, {ns(limit)}: {_said(row)}")
    raise CannotTell(f"The noise hides what would decide: {_said(row)}")


def _explains_the_spread(table: pd.DataFrame) -> Verdict:
    """Statistic: the same, or the noise, against the spread that is told.  Control: none filled, twice.
    Design: the widest, which is most.  Opponent: a spread between machines has other causes as well.
    """
    row = _widest(table)
    if row.seen and row.extra_lo_ns >= SPREAD_NS:
        return Verdict(HOLDS, _said(row))
    if at_most(row, "extra", "ns") < SPREAD_NS:
        return Verdict(FAILS, _said(row))
    raise CannotTell(f"The interval or the noise spans {ns(SPREAD_NS)}: {_said(row)}")


CLAIMS = [
    Claim("000-013", "The vector state of a processor with AVX-512 takes 832 bytes.", WEB_COURSE, KIND,
          _832_bytes),
    Claim("000-014", "Threads that use vector registers pay more at each switch.", WEB_COURSE, KIND,
          _pay_more),
    Claim("000-018", "The state of vector registers decides whether a switch costs 1.2 or 4.5 µs.",
          WEB_COURSE, KIND, _explains_the_spread),
]  # fmt: skip
