"""What people say about ticks, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.base import CannotTell, Claim, Verdict, ns, yes
from sched_labs.claims.helpers import between, within

from .experiment import STRONG


def _tick(table: pd.DataFrame) -> pd.Series:
    row = table.iloc[0]
    if row.lost_percent > 10:
        raise CannotTell(f"Something else had the CPU for {row.lost_percent:.0f} % of the time.")
    if math.isnan(row.period_ns):
        luck = ", as chance alone fills it" if row.strength >= STRONG else ""
        raise CannotTell(f"The gaps show no period: the best comb is {row.strength:.0%} full{luck}.")
    return row


# Timer interrupts for each period of the gaps where these are this kernel's ticks: with fewer some gaps are
# another's, of more one could not say which of them the gaps are.
OWN_LEAST, OWN_MOST = 0.8, 1.5


def _kernels_tick(table: pd.DataFrame) -> pd.Series:
    """The row, where its gaps are this kernel's own: the CPU's timer interrupted it as often."""
    row = _tick(table)
    if math.isnan(row.interrupts_per_period):
        raise CannotTell("Whether the gaps are this kernel's is not known: it does not tell its interrupts.")
    if row.interrupts_per_period < OWN_LEAST:
        raise CannotTell(
            f"The regular gaps come every {ns(row.period_ns)}, with {row.interrupts_per_period:.2f} timer "
            "interrupts of this kernel for each: what takes the CPU so regularly is something else than its "
            "tick, such as a hypervisor."
        )
    if row.interrupts_per_period > OWN_MOST:
        raise CannotTell(
            f"The regular gaps come every {ns(row.period_ns)}, and this CPU's timer interrupts "
            f"{row.interrupts_per_period:.1f} times as often: which of its interrupts they are is not known."
        )
    return row


def _every(row: pd.Series) -> str:
    """How often the regular gaps come, with its interval, which a single trial has none of."""
    every = f"the regular gaps come every {ns(row.period_ns)}"
    if math.isinf(row.period_hi_ns):
        raise CannotTell(f"One trial shows a period and says nothing about how trials vary: {every}.")
    return f"{every} (interval {between(row, 'period', 'ns')})"


def _tick_at_1000_hz(table: pd.DataFrame) -> Verdict:
    """Statistic: the period that the gaps share.  Control: the kernel's count of its timer interrupts.
    Design: a thread alone on its CPU; a tickless CPU would have none.  Opponent: HZ is a choice of the build.
    """
    row = _kernels_tick(table)
    reason = f"{_every(row)}: {1e9 / row.period_ns:.0f} times a second."
    return within(row.period_lo_ns, row.period_hi_ns, 0.95e6, 1.05e6, reason)


def _tick_is_one_over_hz(table: pd.DataFrame) -> Verdict:
    """Statistic: the period found from gaps, by interval.  Control: the kernel's HZ.  Design: points in
    time alone, asked before the kernel.  Opponent: a hypervisor may have the same rhythm.
    """
    row = _tick(table)
    if math.isnan(row.tick_ns):
        raise CannotTell("This machine does not tell its tick.")
    reason = f"{_every(row)}, and 1/HZ is {ns(row.tick_ns)}."
    return within(row.period_lo_ns, row.period_hi_ns, 0.98 * row.tick_ns, 1.02 * row.tick_ns, reason)


def _tick_takes_80_us(table: pd.DataFrame) -> Verdict:
    """Statistic: the median of the regular gaps.  Control: the kernel's count of its timer interrupts.
    Design: the gap holds the whole interruption, a hypervisor's exit included.
    Opponent: what runs in a tick (accounting, balancing, timers) depends on the load, and here there is none.
    """
    row = _kernels_tick(table)
    reason = f"half of the regular gaps take {ns(row.in_phase_p50_ns)} or less."
    if 40e3 <= row.in_phase_p50_ns < 60e3:
        raise CannotTell(f"40 to 60 µs is taken for neither: {reason}")
    return yes(60e3 <= row.in_phase_p50_ns <= 120e3, reason)


# Whether irq_handler_entry sees the CPU's own timer, by architecture.
_SEES_TIMER = {"x86_64": False, "i686": False, "aarch64": True, "riscv64": True}


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:,.0f} times"


def _irq_entry_sees_ticks(table: pd.DataFrame) -> Verdict:
    """Statistic: the kernel's counts of timer and device interrupts.  Control: both rows of
    /proc/interrupts.  Design: where the CPU's own timer passes the tracepoint is read in the kernel's source:
    x86 has a vector for it, which does not; to arm64 and RISC-V it is an interrupt of the CPU, which does
    (handle_percpu_devid_irq).  Opponent: a machine that ticks by a device's timer, as a guest of Xen may; a
    device that interrupts often is none, however many of its interrupts the tracepoint shows.
    """
    row = table.iloc[0]
    if math.isnan(row.timer_interrupts):
        raise CannotTell("The kernel does not tell this CPU's interrupts here.")
    if row.arch not in _SEES_TIMER:
        raise CannotTell("Whether the timer passes that tracepoint here is not known to this book.")
    if row.hypervisor == "Xen":  # handle_percpu_irq passes it, the processor's own vector does not
        raise CannotTell(
            "In a guest of Xen the timer may be Xen's, which passes that tracepoint, or the CPU's."
        )
    timer, device = row.timer_interrupts, row.device_interrupts
    reason = (
        f"in all trials together the CPU's own timer interrupted it {_times(timer)}, devices "
        f"{_times(device)}, and irq_handler_entry sees {'both' if _SEES_TIMER[row.arch] else 'the latter'}."
    )
    if timer < 20:
        raise CannotTell(f"Too few interrupts: {reason}")
    return yes(_SEES_TIMER[row.arch], reason)


CLAIMS = [
    Claim("002-065", "The tick comes a thousand times a second.", COURSE, "ticks.gaps", _tick_at_1000_hz),
    Claim("L26", "What interrupts a lonely thread regularly comes every 1/HZ.",
          "the kernel's configuration, CONFIG_HZ", "ticks.gaps", _tick_is_one_over_hz),
    Claim("002-067", "A tick takes about 80 µs.", COURSE, "ticks.gaps", _tick_takes_80_us),
    Claim("002-069", "The tracepoint irq_handler_entry shows the tick.", COURSE, "ticks.gaps",
          _irq_entry_sees_ticks),
]  # fmt: skip
