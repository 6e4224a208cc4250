"""What people say about ipc, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import FAILS, WEB_COURSE, CannotTell, Claim, Verdict
from sched_labs.claims.helpers import some

KIND = "ipc.causes"
FELT = 0.05  # of the work: less is nobody's alarm
ALARM = 0.3  # of the work: what the sentence looks for a cause of
ALIKE = 0.75  # of a loss: one that is smaller is another price
MANY = 5000.0  # switches a second, the threshold that is told
NAMES = {
    "switches": "switches",
    "bare": "switches to a partner who touches nothing",
    "sibling": "a busy SMT sibling",
    "streamer": "a memory streamer",
}


def _row(table: pd.DataFrame, condition: str) -> pd.Series:
    """The row of a condition.  CannotTell where this run did not measure it."""
    found = some(table[table["condition"] == condition], f"This run did not measure {condition!r}.")
    return found.iloc[0]


def _lost(row: pd.Series) -> str:
    return (
        f"{row['loss_share']:z.1%} ({row['loss_lo_share']:z.1%} to {row['loss_hi_share']:z.1%}) with "
        f"{NAMES[str(row['condition'])]} at {row['switches_per_s']:,.0f} switches/s"
    )


def _counted(row: pd.Series) -> str:
    return (
        f"{row['machine_switches_per_s']:,.0f} a second of the whole machine, and {row['loss_share']:z.1%} "
        f"({row['loss_lo_share']:z.1%} to {row['loss_hi_share']:z.1%}) lost, with "
        f"{NAMES[str(row['condition'])]}"
    )


def _without_switches(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of neighbours who take work without a switch.  CannotTell where there is no neighbour."""
    found = table[table["condition"].isin(["sibling", "streamer"])]
    if found.empty:
        raise CannotTell("This run had no neighbour on another CPU.")
    return found


def _clear(row: pd.Series, least: float = FELT) -> bool:
    return bool(row["loss_lo_share"] > max(least, row["floor_share"]))


def _not_felt(row: pd.Series) -> str:
    noise = f"{row['floor_share']:.1%} of noise"
    return f"The loss is not for sure larger than both {noise} and {FELT:.0%}: {_lost(row)}."


def _surely_switches(table: pd.DataFrame) -> Verdict:
    """Statistic: work a CPU-second lost to each cause, by interval.  Control: noise, and a busy CPU that
    touches no memory.  Design: causes one at a time; the run chose its switches for their loss, so that they
    prove nothing, and the sentence can only fail: where a neighbour takes as much as it speaks of.
    Opponent: causes may come together at peak.
    """
    others, switched = _without_switches(table), _row(table, "switches")
    reason = f"Less work for each CPU-second: {'; '.join(map(_lost, [switched, *_rows(others)]))}."
    if any(_clear(row, ALARM) for row in _rows(others)):
        return Verdict(FAILS, reason)
    raise CannotTell(
        f"No neighbour surely takes {ALARM:.0%} of the work in this run, which chose its switches for a "
        f"loss. {reason}"
    )


def _rows(table: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in table.iterrows()]


def _threshold(table: pd.DataFrame) -> Verdict:
    """Statistic: the loss and the rate of the victim, each with its interval.
    Control: as many switches for the same work, to a partner who touches nothing.  Design: the run chose the
    rate so that there is a loss, so that rate and loss come together here proves nothing, and the sentence
    can only fail.
    Opponent: on another machine 5,000 a second may cost much; a price by rate alone is refuted all the same.
    """
    switched = _row(table, "switches")
    if not _clear(switched):
        raise CannotTell(_not_felt(switched))
    if switched["switches_hi_per_s"] < MANY:
        return Verdict(FAILS, f"The loss is there below 5,000 a second: {_lost(switched)}.")
    bare = _row(table, "bare")
    reason = f"{_lost(switched)}; {_lost(bare)}."
    least = min(switched["switches_lo_per_s"], bare["switches_lo_per_s"])
    if least <= MANY:
        raise CannotTell(
            f"This run did not surely switch more than 5,000 times a second in both, but {least:,.0f} or "
            f"more: {reason}"
        )
    if bare["loss_hi_share"] < ALIKE * switched["loss_lo_share"]:
        return Verdict(FAILS, f"Above 5,000 a second a rate tells no price: {reason}")
    raise CannotTell(f"The run chose this rate for its loss, and the control does not refute it: {reason}")


def _counting_tells(table: pd.DataFrame) -> Verdict:
    """Statistic: the machine's switches a second, and the victim's loss.  Control: as many switches for the
    same work.
    Design: nothing else runs here, so that a count stands out as it would on no busy server: that proves
    nothing, and the sentence can only fail.
    Opponent: a high count may belong to switches that cost nothing, as the control's does.
    """
    switched, bare = _row(table, "switches"), _row(table, "bare")
    others = table[~table["condition"].isin(["switches", "bare"])]
    if table["machine_switches_per_s"].isna().any():
        raise CannotTell("This kernel does not tell the machine's switches.")
    most = others["machine_switches_hi_per_s"].max()
    reason = (
        f"In the median the whole machine switched {switched['machine_switches_per_s']:,.0f} times a second "
        f"with a partner who touches memory, and up to {others['machine_switches_per_s'].max():,.0f} without "
        "a partner, counted from before each block, over a time without hand-overs, too."
    )
    as_many = bare["machine_switches_lo_per_s"] > 0.5 * switched["machine_switches_hi_per_s"]
    if as_many and _clear(switched) and bare["loss_hi_share"] < ALIKE * switched["loss_lo_share"]:
        counted = f"{_counted(switched)}; {_counted(bare)}"
        return Verdict(
            FAILS,
            f"Such a count comes with another loss as well: {counted}. The machine's are counted from before "
            "each block, over a time without hand-overs, too.",
        )
    if switched["machine_switches_lo_per_s"] > 2 * most:
        raise CannotTell(f"The count stands out here, where nothing else runs. {reason}")
    if switched["machine_switches_hi_per_s"] < 2 * others["machine_switches_lo_per_s"].max():
        if not _clear(switched):  # where switches cost nothing, a count that shows nothing is right
            raise CannotTell(f"{_not_felt(switched)} {reason}")
        return Verdict(FAILS, f"They drown in the switches of others. {reason}")
    low, high = switched["machine_switches_lo_per_s"], switched["machine_switches_hi_per_s"]
    raise CannotTell(
        f"The intervals do not tell whether it is twice as many ({low:,.0f} to {high:,.0f}, and up to "
        f"{most:,.0f} without). {reason}"
    )


CLAIMS = [
    Claim("000-134",
          "A program that does 30 % less for each cycle at peak is almost certainly paying for switches.",
          WEB_COURSE, KIND, _surely_switches),
    Claim("000-081",
          "Over 5,000 switches a second, with less work done: that is when switches are the cause.",
          WEB_COURSE, KIND, _threshold),
    Claim("000-139",
          "Count the whole machine's switches (vmstat's cs) to see quickly whether they are the cause.",
          WEB_COURSE, KIND, _counting_tells),
]  # fmt: skip
