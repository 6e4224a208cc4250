"""What people say about reserved, judged on a run."""

from __future__ import annotations

import pandas as pd

from sched_labs.claims.base import (
    FAILS,
    HOLDS,
    LATENCY_COURSE,
    WEB_COURSE,
    CannotTell,
    Claim,
    Verdict,
)
from sched_labs.claims.helpers import between, holds_or_fails
from sched_labs.core.words import number_text

RESIDENTS = "reserved.residents"


_SAID = ["per_s", "kind", "name"]


def _named(kind: str, name: str) -> str:
    """As the kernel calls it, without the label of its row, and with what kind of thing it is."""
    before = {"device": "of device ", "softirq": "deferred ", "kernel_thread": "switches of "}
    return before[kind] + name if kind in before else name.split(maxsplit=1)[-1]


def _strictest(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    for name in ("partition", "cpuset"):
        if (rows := table[table.condition == name]).size:
            return name, rows
    raise CannotTell("This run could not make a cpuset.")


def _housekeeping_stays(table: pd.DataFrame) -> Verdict:
    """Statistic: ticks, deferred work and kernel threads' switches a second, lowest end above none.  Control:
    the strictest condition that could be made.  Design: a thread that never sleeps.  Opponent: calls and
    devices' interrupts are other programs' doing, and do not count; booted with isolcpus and nohz_full less
    is left.
    """
    name, rows = _strictest(table)
    own = rows.kind.isin(["timer", "softirq", "kernel_thread"])
    kernel = rows[own].sort_values("per_s", ascending=False)
    if kernel.empty:
        raise CannotTell("No tick, deferred work or kernel thread was seen, or none is told here.")
    reason = (
        f"with {'an isolated partition' if name == 'partition' else 'a cpuset'} of its own the CPU still had "
        + ", ".join(
            f"{number_text(per_s)} {_named(*named)}" for per_s, *named in kernel[_SAID].head(3).to_numpy()
        )
        + " in a second."
    )
    if (kernel.per_lo_s > 0).any():
        return Verdict(HOLDS, reason)
    if (kernel.per_hi_s == 0).all():
        return Verdict(FAILS, reason)
    raise CannotTell(f"In some trial each of them was absent: {reason}")


def _no_ticks_no_calls(table: pd.DataFrame) -> Verdict:
    """Statistic: timer interrupts and calls a second, by interval.  Control: booted so, as the kernel
    tells.  Design: one ready thread.  Opponent: other threads of the program cause calls.
    """
    if not table.tick_free.any():
        raise CannotTell("This kernel was not booted to leave this CPU without a tick (nohz_full).")
    rows = table[table.kind.isin(["timer", "call"])]
    rows = rows[rows.condition == table.condition.iloc[-1]]
    if rows.empty:
        raise CannotTell("No timer interrupt and no call from another CPU was seen, or none is told here.")
    reason = (
        ", ".join(
            f"{number_text(row.per_s)} {_named(row.kind, row['name'])} (interval "
            f"{between(row, 'per', 's', number_text)})"
            for _, row in rows.iterrows()
        )
        + " in a second."
    )
    return holds_or_fails(
        (rows.per_hi_s < 0.5).all(),
        (rows.per_lo_s > 0.5).any(),
        reason,
        "An interval spans one in two seconds:",
    )


CLAIMS = [
    Claim("002-101", "A CPU that is reserved by a cpuset keeps the kernel's own housekeeping.",
          LATENCY_COURSE, RESIDENTS, _housekeeping_stays),
    Claim("000-078", "nohz_full and irqaffinity remove timer interrupts and calls from other CPUs.",
          WEB_COURSE, RESIDENTS, _no_ticks_no_calls),
]  # fmt: skip
