"""Claims about where threads run: moves, shared cores, far memory, and CPUs that are reserved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ..figures.axes import number_text
from .base import FAILS, HOLDS, UNKNOWN, WEB_COURSE, CannotTell, Claim, Verdict, ns, size, yes

MOVES, PAIRS, NODES, RESIDENTS = "migration.cost", "smt.sharing", "numa.chase", "reserved.residents"
MATRIX = "context_switch.matrix"
LATENCY_COURSE = "a web course on scheduler latency (002), no reference given"
SWITCH_LIST = "a collection of switch benchmarks (004)"
# Resuming elsewhere over resuming at home, as the course says; for the distances that a machine has.
SAID = {"smt_sibling": 2.0, "same_cache": 8.0, "other_cache": 8.0, "other_node": 30.0}
FEW = {"smt_sibling": "the sibling", "same_cache": "another core", "other_cache": "another cache",
       "other_node": "another node", "other_cpu": "another CPU"}  # fmt: skip


def _each(rows: pd.DataFrame) -> Iterator[Any]:
    """The rows, one after the other, their values as attributes."""
    yield from rows.itertuples(index=False)


def _most(rows: pd.DataFrame, values: pd.Series) -> Any:
    """The row where these values are highest."""
    return rows.iloc[int(np.argmax(values.to_numpy(dtype=float)))]


# ---- moves ----


def _written(table: pd.DataFrame) -> pd.DataFrame:
    """The moves with a set that is written, the smallest set first."""
    rows = table[(table.touch == "writes") & (table.distance != "same_cpu")]
    if rows.empty:
        raise CannotTell("This run moved nothing: no other CPU was there.")
    if rows.flagged.all():
        raise CannotTell("The thread was not moved as often as it was told.")
    return rows.sort_values("working_set_bytes")


def _not_waiting(rows: pd.DataFrame) -> pd.DataFrame:
    """The same, unless the thread mostly waited for a CPU that others had."""
    # To wake an idle CPU takes a part of this, even where a hypervisor has to help.
    waited = rows.wait_ns > 200_000
    if waited.mean() > 0.5:
        raise CannotTell(
            f"On arrival the thread waited {ns(rows.wait_ns.median())} for the CPU: other programs had it."
        )
    return rows[~waited]


def _ratios(table: pd.DataFrame) -> Verdict:
    """Within a factor of two of what is said, for every set and every distance there is."""
    rows = _not_waiting(_written(table))
    rows = rows[rows.distance.isin(list(SAID))]
    if rows.empty:
        raise CannotTell("This machine does not tell how far apart its CPUs are.")
    said = rows.distance.map(SAID)
    parts = []
    for far in dict.fromkeys(rows.distance):
        own = rows[rows.distance == far].iloc[[0, -1]]
        parts.append(
            f"{FEW[far]}, said {SAID[far]:.0f}: "
            + " and ".join(f"{r.resume_ratio:.3g} with {size(r.working_set_bytes)}" for r in _each(own))
        )
    reason = f"to {'; '.join(parts)}."
    inside = (rows.resume_lo_ratio >= said / 2) & (rows.resume_hi_ratio <= 2 * said)
    outside = (rows.resume_hi_ratio < said / 2) | (rows.resume_lo_ratio > 2 * said)
    if outside.any():
        return Verdict(FAILS, reason)
    return Verdict(HOLDS if inside.all() else UNKNOWN, reason)


def _cold(table: pd.DataFrame) -> Verdict:
    rows = _written(table)
    rows = rows[rows.distance != "smt_sibling"]  # a sibling has the same caches
    if rows.empty:
        raise CannotTell("This run moved to the sibling only, which has the same caches.")
    most = _most(rows, rows.warmup_ns / rows.stay_ns)
    reason = (
        f"the first walk over {size(most.working_set_bytes)} takes {ns(most.warmup_ns)} more after a move, "
        f"interval {ns(most.warmup_lo_ns)} to {ns(most.warmup_hi_ns)}, and {ns(most.stay_ns)} without one."
    )
    if most.warmup_lo_ns > most.floor_ns and most.warmup_lo_ns > 0.1 * most.stay_ns:
        return Verdict(HOLDS, reason)
    if (rows.warmup_hi_ns < 0.1 * rows.stay_ns).all():
        return Verdict(FAILS, reason)
    raise CannotTell(f"Neither clearly cold nor clearly warm: {reason}")


def _half_a_millisecond(table: pd.DataFrame) -> Verdict:
    """Within a factor of two, for every working set, to the nearest other core."""
    rows = _not_waiting(_written(table))
    nearest = next(far for far in ("same_cache", *FEW) if (rows.distance == far).any())
    rows = rows[rows.distance == nearest]
    least, most = _most(rows, -rows.cost_ns), _most(rows, rows.cost_ns)
    reason = (
        f"to {FEW[nearest]} from {ns(least.cost_ns)} with {size(least.working_set_bytes)} "
        f"to {ns(most.cost_ns)} with {size(most.working_set_bytes)}."
    )
    if ((rows.cost_hi_ns < 250_000) | (rows.cost_lo_ns > 1_000_000)).any():
        return Verdict(FAILS, reason)
    inside = (rows.cost_lo_ns >= 250_000) & (rows.cost_hi_ns <= 1_000_000)
    return Verdict(HOLDS if inside.all() else UNKNOWN, reason)


# ---- passing a turn ----


def _hand_overs(table: pd.DataFrame, place: str) -> pd.DataFrame:
    rows = table[(table.placement == place) & (table.mechanism != "yield")]
    if rows.empty:
        raise CannotTell(f"This run did not measure the placement {place.replace('_', ' ')}.")
    return rows.set_index(["mechanism", "between"])


def _pinned_stays(table: pd.DataFrame) -> Verdict:
    pinned = table[table.placement != "unpinned"]
    free = table[table.placement == "unpinned"]
    if pinned.empty or free.empty:
        raise CannotTell("This run does not have both: sides that are pinned, and sides that are free.")
    moves = float(pinned.migrations_per_1000.max())
    unpinned = float(free.migrations_per_1000.max())
    reason = (
        f"at most {number_text(moves)} moves in 1,000 round trips when pinned, "
        f"{number_text(unpinned)} when free."
    )
    return yes(moves < 0.1, reason)


def _saves_half(table: pd.DataFrame) -> Verdict:
    """45 to 66 % of a futex round trip, pinned to one CPU instead of free."""
    one, free = _hand_overs(table, "same_cpu"), _hand_overs(table, "unpinned")
    both = one.add_suffix("_one").join(free.add_suffix("_free"), how="inner")
    both = both[both.index.get_level_values("mechanism").isin(["futex", "pipe"])]
    if both.empty:
        raise CannotTell("This run measured neither pipe nor futex in both placements.")
    saved = 1 - both.round_trip_ns_one / both.round_trip_ns_free
    low = 1 - both.round_trip_hi_ns_one / both.round_trip_lo_ns_free
    high = 1 - both.round_trip_lo_ns_one / both.round_trip_hi_ns_free
    reason = "pinned to one CPU a round trip is shorter by " + ", ".join(
        f"{row.saved:.0%} ({row.mechanism}, {row.between})"
        for row in _each(saved.rename("saved").reset_index())
    )
    if ((low > 0.66) | (high < 0.45)).any():
        return Verdict(FAILS, f"{reason}.")
    return Verdict(HOLDS if ((low >= 0.45) & (high <= 0.66)).all() else UNKNOWN, f"{reason}.")


def _by_warm_caches(table: pd.DataFrame) -> Verdict:
    """Pinned to two CPUs, nobody ever moves and both caches stay warm: is that as quick as one CPU?"""
    one, two = _hand_overs(table, "same_cpu"), _hand_overs(table, "other_cpu")
    both = one.add_suffix("_one").join(two.add_suffix("_two"), how="inner")
    if both.empty:
        raise CannotTell("This run has no mechanism in both placements.")
    if (both.migrations_per_1000_two > 0).any():
        raise CannotTell("A side that was pinned moved all the same.")
    times = both.round_trip_ns_two / both.round_trip_ns_one
    reason = (
        "pinned to a CPU each, where no side ever moves, a round trip takes "
        f"{times.min():.3g} to {times.max():.3g} times as long as on one CPU."
    )
    if (both.round_trip_lo_ns_two > 1.5 * both.round_trip_hi_ns_one).all():
        return Verdict(FAILS, reason)
    if (both.round_trip_hi_ns_two < 1.5 * both.round_trip_lo_ns_one).all():
        return Verdict(HOLDS, reason)
    raise CannotTell(f"The intervals span half as long again: {reason}")


# ---- shared cores ----


def _siblings(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[table.placement == "siblings"]
    if rows.empty:
        raise CannotTell("This machine shows no two CPUs that are threads of one core.")
    return rows


def _speeds(rows: pd.DataFrame) -> str:
    said = ", ".join(
        f"{row.speed_share:.0%} ({row.work} in {row.pair.replace('_', ' and ')})" for row in _each(rows)
    )
    return f"of its speed alone a thread keeps {said} beside one on the same core."


def _sibling_is_a_core(table: pd.DataFrame) -> Verdict:
    rows = _siblings(table)
    rows = rows[rows.pair == "alu_alu"]
    if rows.empty:
        raise CannotTell("This run has no pair of two threads that only compute.")
    row = rows.iloc[0]
    if row.speed_lo_share >= 0.95:
        return Verdict(HOLDS, _speeds(rows))
    if row.speed_hi_share < 0.95:
        return Verdict(FAILS, _speeds(rows))
    raise CannotTell(f"The interval spans 95%: {_speeds(rows)}")


def _negligible(table: pd.DataFrame) -> Verdict:
    rows = _siblings(table)
    reason = f"{_speeds(rows)} {number_text(rows.switches_per_s.max())} switches a second at most."
    if (rows.speed_hi_share < 0.9).any():
        return Verdict(FAILS, reason)
    return Verdict(HOLDS if (rows.speed_lo_share >= 0.98).all() else UNKNOWN, reason)


def _half_to_two_thirds(table: pd.DataFrame) -> Verdict:
    rows = _siblings(table)
    if ((rows.speed_hi_share < 0.5) | (rows.speed_lo_share > 0.65)).any():
        return Verdict(FAILS, _speeds(rows))
    inside = (rows.speed_lo_share >= 0.5) & (rows.speed_hi_share <= 0.65)
    return Verdict(HOLDS if inside.all() else UNKNOWN, _speeds(rows))


# ---- far memory ----


def _remote(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[~table.local.astype(bool) & table.slowdown_ratio.notna()]
    if rows.empty:
        raise CannotTell("This machine has one memory node.")
    return rows.sort_values("working_set_bytes")


def _slower(rows: pd.DataFrame) -> str:
    return "a load from another node takes " + ", ".join(
        f"{row.slowdown_ratio:.2f} times as long with {size(row.working_set_bytes)}"
        for row in _each(rows.drop_duplicates("working_set_bytes"))
    )


def _eight_percent(table: pd.DataFrame) -> Verdict:
    """Between 4 and 12 %, for a set that fits into the caches and for one that does not."""
    rows = _remote(table)
    if ((rows.slowdown_hi_ratio < 1.04) | (rows.slowdown_lo_ratio > 1.12)).any():
        return Verdict(FAILS, f"{_slower(rows)}.")
    inside = (rows.slowdown_lo_ratio >= 1.04) & (rows.slowdown_hi_ratio <= 1.12)
    return Verdict(HOLDS if inside.all() else UNKNOWN, f"{_slower(rows)}.")


def _as_the_firmware_says(table: pd.DataFrame) -> Verdict:
    rows = _remote(table)
    rows = rows[(rows.working_set_bytes == rows.working_set_bytes.max()) & rows.firmware_distance.notna()]
    if rows.empty:
        raise CannotTell("The firmware tells no distances.")
    said = rows.firmware_distance / 10
    reason = f"{_slower(rows)}; the firmware says {said.iloc[0]:.2g} times."
    if ((rows.slowdown_hi_ratio < 0.9 * said) | (rows.slowdown_lo_ratio > 1.1 * said)).any():
        return Verdict(FAILS, reason)
    inside = (rows.slowdown_lo_ratio >= 0.9 * said) & (rows.slowdown_hi_ratio <= 1.1 * said)
    return Verdict(HOLDS if inside.all() else UNKNOWN, reason)


# ---- reserved CPUs ----


def _strictest(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    for name in ("partition", "cpuset"):
        if (rows := table[table.condition == name]).size:
            return name, rows
    raise CannotTell("This run could not make a cpuset.")


def _housekeeping_stays(table: pd.DataFrame) -> Verdict:
    name, rows = _strictest(table)
    kernel = rows[rows.kind != "anybody"].sort_values("per_s", ascending=False)
    if kernel.empty:
        raise CannotTell("This machine does not tell what interrupts a CPU.")
    reason = (
        f"with {'an isolated partition' if name == 'partition' else 'a cpuset'} of its own the CPU still had "
        + ", ".join(f"{number_text(row.per_s)} {row.name}" for row in _each(kernel.head(3)))
        + " in a second."
    )
    if (kernel.per_lo_s > 0).any():
        return Verdict(HOLDS, reason)
    return Verdict(FAILS if (kernel.per_hi_s == 0).all() else UNKNOWN, reason)


def _no_ticks_no_calls(table: pd.DataFrame) -> Verdict:
    if not table.tick_free.any():
        raise CannotTell("This kernel was not booted to leave this CPU without a tick (nohz_full).")
    rows = table[table.kind.isin(["timer", "call"])]
    rows = rows[rows.condition == table.condition.iloc[-1]]
    if rows.empty:
        raise CannotTell("No timer interrupt and no call from another CPU was seen, or none is told here.")
    reason = ", ".join(f"{number_text(row.per_s)} {row.name}" for row in _each(rows)) + " in a second."
    if (rows.per_lo_s > 0.5).any():
        return Verdict(FAILS, reason)
    return Verdict(HOLDS if (rows.per_hi_s < 0.5).all() else UNKNOWN, reason)


CLAIMS = [
    Claim("000-116", "Resuming on the SMT sibling costs 2 times, on another core 8 times, on another socket "
          "30 times as much as on the same core.", WEB_COURSE, MOVES, _ratios),
    Claim("000-087-move", "Pinning keeps caches warm, because a thread that is moved finds them cold.",
          WEB_COURSE, MOVES, _cold),
    Claim("migration-cost", "A move costs half a millisecond, whatever the thread's working set.",
          "what Linux assumes by default (sched_migration_cost_ns, kernel/sched/fair.c)", MOVES,
          _half_a_millisecond),
    Claim("000-097-turn", "A pinned thread shows next to no migrations.", WEB_COURSE, MATRIX, _pinned_stays),
    Claim("004-022", "Affinity to one CPU saves 45 to 66% of a switch.", SWITCH_LIST, MATRIX, _saves_half),
    Claim("004-024", "Threads on one CPU pass a turn more quickly because their caches stay warm.",
          SWITCH_LIST, MATRIX, _by_warm_caches),
    Claim("000-001", "Every CPU that a machine shows is worth a core.", WEB_COURSE, PAIRS,
          _sibling_is_a_core),
    Claim("004-004", "What two hyperthreads cost each other is negligible.", SWITCH_LIST, PAIRS, _negligible),
    Claim("smt-share", "Each of two hyperthreads gets 50 to 65% of a whole core's speed.",
          "a common rule of thumb, no reference given", PAIRS, _half_to_two_thirds),
    Claim("000-119", "Remote memory costs a program 8% of its CPU.", WEB_COURSE, NODES, _eight_percent),
    Claim("numa-distance", "The firmware's distances are ratios of memory latency.",
          "how numactl's table of distances is often read", NODES, _as_the_firmware_says),
    Claim("002-101", "A CPU that is reserved by a cpuset keeps the kernel's own housekeeping.",
          LATENCY_COURSE, RESIDENTS, _housekeeping_stays),
    Claim("000-078", "nohz_full and irqaffinity remove timer interrupts and calls from other CPUs.",
          WEB_COURSE, RESIDENTS, _no_ticks_no_calls),
]  # fmt: skip
