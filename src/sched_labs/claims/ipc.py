"""Claims about what a falling IPC, or less work for each second of CPU time, is due to."""

from __future__ import annotations

import pandas as pd

from .base import FAILS, HOLDS, WEB_COURSE, CannotTell, Claim, Verdict

KIND = "ipc.causes"
FELT = 0.05  # of the work: less is nobody's alarm
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
    found = table[table["condition"] == condition]
    if found.empty:
        raise CannotTell(f"This run did not measure {condition!r}.")
    return found.iloc[0]


def _lost(row: pd.Series) -> str:
    return (
        f"{row['loss_share']:.0%} ({row['loss_lo_share']:.0%} to {row['loss_hi_share']:.0%}) with "
        f"{NAMES[str(row['condition'])]} at {row['switches_per_s']:,.0f} switches/s"
    )


def _without_switches(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of neighbours who take work without a switch.  CannotTell where there is no neighbour."""
    found = table[table["condition"].isin(["sibling", "streamer"])]
    if found.empty:
        raise CannotTell("This run had no neighbour: there is one CPU only.")
    return found


def _clear(row: pd.Series) -> bool:
    return bool(row["loss_lo_share"] > max(FELT, row["floor_share"]))


def _surely_switches(table: pd.DataFrame) -> Verdict:
    others, switched = _without_switches(table), _row(table, "switches")
    reason = f"Less work for each CPU-second: {'; '.join(map(_lost, [switched, *_rows(others)]))}."
    if any(_clear(row) for row in _rows(others)):
        return Verdict(FAILS, reason)
    if _clear(switched) and (others["loss_hi_share"] < FELT).all():
        return Verdict(HOLDS, reason)
    raise CannotTell(f"No neighbour's effect is clear in this run. {reason}")


def _rows(table: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in table.iterrows()]


def _threshold(table: pd.DataFrame) -> Verdict:
    """A rate can name the cause of a loss only if it tells what the switches cost.

    The run chose the rate for a loss, so that the two come together proves nothing; what does is whether
    as many switches cost as much where the partner touches no memory.
    """
    switched = _row(table, "switches")
    if switched["switches_hi_per_s"] < MANY and _clear(switched):
        return Verdict(FAILS, f"The loss is there below 5,000 a second: {_lost(switched)}.")
    bare = _row(table, "bare")
    reason = f"{_lost(switched)}; {_lost(bare)}."
    if min(switched["switches_lo_per_s"], bare["switches_lo_per_s"]) <= MANY:
        raise CannotTell(f"This run did not switch more than 5,000 times a second: {reason}")
    if bare["loss_hi_share"] < ALIKE * switched["loss_lo_share"]:
        return Verdict(FAILS, f"Above 5,000 a second a rate tells no price: {reason}")
    if _clear(bare) and bare["loss_lo_share"] > ALIKE * switched["loss_hi_share"]:
        return Verdict(HOLDS, f"They cost about as much, whatever is touched: {reason}")
    raise CannotTell(f"Whether both cost as much is not clear: {reason}")


def _counting_tells(table: pd.DataFrame) -> Verdict:
    switched = _row(table, "switches")
    others = table[~table["condition"].isin(["switches", "bare"])]
    if table["machine_switches_per_s"].isna().any():
        raise CannotTell("This kernel does not tell the machine's switches.")
    most = others["machine_switches_hi_per_s"].max()
    reason = (
        f"The whole machine switched {switched['machine_switches_per_s']:,.0f} times a second with them, and "
        f"up to {others['machine_switches_per_s'].max():,.0f} without."
    )
    if switched["machine_switches_lo_per_s"] > 2 * most:
        return Verdict(HOLDS, f"{reason} Of the other causes it says nothing.")
    if switched["machine_switches_hi_per_s"] < 2 * others["machine_switches_lo_per_s"].max():
        return Verdict(FAILS, f"They drown in the switches of others. {reason}")
    raise CannotTell(f"The intervals are too wide. {reason}")


CLAIMS = (
    Claim(
        "000-134",
        "A program that does 30 % less for each cycle at peak is almost certainly paying for switches.",
        WEB_COURSE,
        KIND,
        _surely_switches,
    ),
    Claim(
        "000-081",
        "Over 5,000 switches a second, with less work done: that is when switches are the cause.",
        WEB_COURSE,
        KIND,
        _threshold,
    ),
    Claim(
        "000-139",
        "Count the whole machine's switches (vmstat's cs) to see quickly whether they are the cause.",
        WEB_COURSE,
        KIND,
        _counting_tells,
    ),
)
