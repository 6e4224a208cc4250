"""What people say about policies, judged on a run."""

from __future__ import annotations

import math

import pandas as pd

from sched_labs.claims.base import FAILS, HOLDS, CannotTell, Claim, Verdict, ns, yes
from sched_labs.claims.base import LATENCY_COURSE as COURSE
from sched_labs.claims.helpers import (
    between,
    had_the_cpus,
    holds_or_fails,
    one_row,
    some,
    tail_ratio,
    within,
)
from sched_labs.core.words import number_text

from .experiment import FEWEST_FOR_TAIL, LOADS, away


def _worker(table: pd.DataFrame, policy: str, load: str) -> pd.Series:
    cell = one_row(table, f"a {load} worker under {policy}", policy=policy, load=load)
    had_the_cpus(cell)
    return cell


def _fifo_at_once(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 under FIFO, by interval.  Control: the light worker, beside hogs, and for the timer the
    same under OTHER.  Design: its timer goes off on its own CPU.  Opponent: at once is taken as within a
    millisecond.
    """
    cell = _worker(table, "FIFO", "light")
    reason = (
        f"under FIFO half of a light worker's wake-ups ran within {ns(cell.p50_ns)}, 99 % within "
        f"{ns(cell.p99_ns)} (interval {between(cell, 'p99', 'ns')}). A millisecond is taken "
        "for at once."
    )
    if cell.p99_hi_ns < 1e6:
        return Verdict(HOLDS, reason)
    if cell.p50_lo_ns > 1e6 and _worker(table, "OTHER", "light").p50_hi_ns < 1e6:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The timer, interrupts, a hypervisor or other real-time threads may be why: {reason}")


def _fifo_below_10_us(table: pd.DataFrame) -> Verdict:
    """Statistic: the latest of all wake-ups, for the sentence says every one.  Control: none is needed.
    Design: a light worker beside hogs; its timer fires on its own CPU.
    Opponent: one late wake-up may be a hypervisor's, so the sentence fails only by one in a hundred.
    """
    cell = _worker(table, "FIFO", "light")
    reason = (
        f"under FIFO 99 % of a light worker's wake-ups ran within {ns(cell.p99_ns)} (interval "
        f"{between(cell, 'p99', 'ns')}), all {int(cell.wakes)} within {ns(cell.max_ns)}."
    )
    if cell.max_ns < 1e4:
        return Verdict(HOLDS, reason)
    if cell.p99_lo_ns > 1e4:
        return Verdict(FAILS, reason)
    raise CannotTell(f"So few were later that it may be interrupts or a hypervisor: {reason}")


def _slack_matters_not(table: pd.DataFrame) -> Verdict:
    """Statistic: median lateness, with and without slack, by interval.  Control: a slack of 1 ns.  Design:
    one policy, so that nothing else differs.  Opponent: 20 µs is less than half of the default slack.
    """
    plain, slacked = _worker(table, "OTHER", "light"), _worker(table, "OTHER, slack 50 µs", "light")
    reason = (
        f"under OTHER half of a light worker's wake-ups ran within {ns(plain.p50_ns)} with a slack of 1 ns "
        f"(interval {between(plain, 'p50', 'ns')}), within {ns(slacked.p50_ns)} with the default of 50 µs "
        f"({between(slacked, 'p50', 'ns')})."
    )
    if slacked.p50_lo_ns > plain.p50_hi_ns + 20_000:
        return Verdict(FAILS, reason)
    if slacked.p50_hi_ns < plain.p50_lo_ns + 20_000:
        return Verdict(HOLDS, reason)
    most = ns(slacked.p50_hi_ns - plain.p50_lo_ns)
    raise CannotTell(f"The interval of the difference spans 20 µs, up to {most}: {reason}")


def _enough_wakes(cell: pd.Series) -> None:
    """CannotTell where a trial had fewer than a hundred wake-ups."""
    if cell.wakes_per_trial < FEWEST_FOR_TAIL:
        raise CannotTell(f"{cell.wakes_per_trial} wake-ups in a trial have no one in a hundred.")


def _three_times_at_most(table: pd.DataFrame) -> Verdict:
    """Statistic: ratio of p99 under the best real-time policy, by interval.  Control: OTHER in turns with it.
    Design: the heavy worker, whose share is used up.  Opponent: a light one gains little: the sentence says
    at most.
    """
    plain = _worker(table, "OTHER", "heavy")
    _enough_wakes(plain)
    others = table[(table["load"] == "heavy") & table["policy"].isin(["FIFO", "RR", "DEADLINE"])]
    others = some(others[~away(others)], "This run has no heavy worker under a real-time policy.")
    best = others.sort_values("p99_ns").iloc[0]
    had_the_cpus(best)
    least, most = tail_ratio(plain, best)
    reason = (
        f"one in a hundred of a heavy worker's wake-ups is {ns(plain.p99_ns)} late or more under OTHER, "
        f"{ns(best.p99_ns)} under {best.policy}: "
        f"{number_text(plain.p99_ns / best.p99_ns, 2)} times (interval {number_text(least, 2)} to "
        f"{number_text(most, 2)})."
    )
    return within(least, most, 0, 3, reason)


def _no_fair_setting_helps(table: pd.DataFrame) -> Verdict:
    """Statistic: p99 of the best setting against the default.  Control: OTHER without a setting.  Design:
    the settings that this user may ask for.  Opponent: there are others, so that no run shows it of all; 30 %
    is what much is taken to mean.
    """
    plain = _worker(table, "OTHER", "heavy")
    _enough_wakes(plain)
    others = table[(table["load"] == "heavy") & table["policy"].isin(["nice -10", "slice 0.1 ms"])]
    if others.empty:
        raise CannotTell("This run could set neither a better nice value nor a slice of its own.")
    best = others.sort_values("p99_ns").iloc[0]
    least, most = tail_ratio(best, plain)
    reason = (
        f"one in a hundred of a heavy worker's wake-ups is {ns(plain.p99_ns)} late or more under OTHER, "
        f"{ns(best.p99_ns)} with {best.policy}: {number_text(best.p99_ns / plain.p99_ns, 2)} times (interval "
        f"{number_text(least, 2)} to {number_text(most, 2)}). Less than 0.7 times is taken for much shorter."
    )
    if most < 0.7:
        return Verdict(FAILS, reason)
    raise CannotTell(f"Not every setting was tried, so a run can only refute it: {reason}")


def _heavy_loses_cpu(table: pd.DataFrame) -> Verdict:
    """Statistic: CPU time that it used over what it asked for.  Control: FIFO, where it waits for no
    normal thread.  Design: it asks for less than an equal share, of which nothing has to be taken, so that
    the sentence can only hold.  Opponent: the hogs use more, and nothing compares them.
    """
    cell = _worker(table, "OTHER", "heavy")
    asked = 100 * LOADS["heavy"]
    reason = (
        f"under OTHER a heavy worker asked for {asked:.0f} % of the CPU beside hogs and got "
        f"{cell.worker_cpu_percent:.1f} % of what it and they had"
    )
    # The work may take longer here than when it was timed: better is what it takes where nobody delays it.
    fifo = table[(table["policy"] == "FIFO") & (table["load"] == "heavy")]
    if len(fifo):
        asked = float(fifo["worker_cpu_percent"].iloc[0])
        reason += f"; under FIFO, where it waits for no normal thread, it used {asked:.1f} %"
    if cell.worker_cpu_percent < 0.7 * asked:
        return Verdict(HOLDS, f"{reason}.")
    raise CannotTell(f"Of less than an equal share nothing has to be taken: {reason}.")


def _sleeper_fails_the_test(table: pd.DataFrame) -> Verdict:
    """Statistic: median lateness of the light worker.  Control: FIFO, which waits for no hog: a timer may be
    late, too.  Design: it uses 2 % of the CPU.  Opponent: under EEVDF there is no such test; what is judged
    is the wait.
    """
    cell = _worker(table, "OTHER", "light")
    reason = (
        f"under OTHER half of a light worker's wake-ups ran within {ns(cell.p50_ns)} beside hogs "
        f"(interval {between(cell, 'p50', 'ns')})."
    )
    fifo = table[(table["policy"] == "FIFO") & (table["load"] == "light")]
    if cell.p50_lo_ns > 1e6 and (fifo["p50_hi_ns"] > 1e5).any():
        late = ns(fifo["p50_ns"].iloc[0])
        raise CannotTell(f"Under FIFO, which waits for no hog, half ran within {late}: {reason}")
    return holds_or_fails(cell.p50_lo_ns > 1e6, cell.p50_hi_ns < 1e5, reason, "Between at once and a slice:")


def _same_throughput(table: pd.DataFrame) -> Verdict:
    """Statistic: the worker's share of the CPU time that worker and hogs had.  Control: both had the CPU.
    Design: nobody counts the hogs' work, so that equal shares prove nothing about how much gets done.
    Opponent: a share that moves is work that moves from one program to another, and that refutes it.
    """
    plain, fifo = _worker(table, "OTHER", "heavy"), _worker(table, "FIFO", "heavy")
    reason = (
        f"of what it and the hogs had, a heavy worker used {plain.worker_cpu_percent:.1f} % under OTHER, "
        f"{fifo.worker_cpu_percent:.1f} % under FIFO."
    )
    if abs(plain.worker_cpu_percent - fifo.worker_cpu_percent) >= 8:
        return Verdict(FAILS, reason)
    raise CannotTell(f"What the hogs got done was not counted, so a run can only refute it: {reason}")


def _pair(table: pd.DataFrame, pair: str) -> tuple[pd.Series, str]:
    cell = one_row(table, f"a hog {pair}", pair=pair)
    had_the_cpus(cell)
    reason = (
        f"{pair}: the second hog got {cell.second_percent:.2f} % (interval {cell.second_lo_percent:.2f} to "
        f"{cell.second_hi_percent:.2f}) of what the two had"
    )
    return cell, reason


def _beside_fifo(table: pd.DataFrame) -> tuple[pd.Series, str]:
    """The pair with a real-time hog, of blocks no shorter than the period of the kernel's protection."""
    cell, reason = _pair(table, "FIFO beside OTHER")
    if cell.block_ns < 1e9:
        raise CannotTell(
            f"The kernel's protection works in periods of a second, and a block took {ns(cell.block_ns)}."
        )
    return cell, reason


def _nice_5_is_25(table: pd.DataFrame) -> Verdict:
    """Statistic: share of the second hog, by interval.  Control: two hogs of nice 0 in turns.  Design:
    both in one task group, where a weight counts.  Opponent: between groups it would be half.
    """
    cell, reason = _pair(table, "OTHER beside nice +5")
    return within(cell.second_lo_percent, cell.second_hi_percent, 22, 28, f"{reason}.")


def _fifo_until_it_blocks(table: pd.DataFrame) -> Verdict:
    """Statistic: share of the normal hog, by interval.  Control: OTHER beside OTHER.  Design: throttling
    or a fair server is left on.  Opponent: the manual says it of the policy, not of the machine; and a fair
    server stands above FIFO, so that with one a higher priority does arrive.
    """
    cell, reason = _beside_fifo(table)
    if cell.second_lo_percent > 0.5:
        reason += (
            "; whether by the throttling of real-time threads, or by the fair server of 6.12 and later, "
            "which itself stands above FIFO, a run does not tell"
        )
    return within(cell.second_lo_percent, cell.second_hi_percent, 0, 0.5, f"{reason}.")


def _fifo_hangs(table: pd.DataFrame) -> Verdict:
    """Statistic: share of the normal hog, and how late the watchdog was.  Control: a watchdog of a higher
    priority.  Design: one CPU of several, so that no machine can hang.  Opponent: without the kernel's
    protection the one CPU is the hog's, and what a machine with no other would do was not tried.
    """
    cell, reason = _pair(table, "FIFO beside OTHER")
    reason += (
        f" of one CPU (a machine with no other was not tried), and a watchdog ended each block at most "
        f"{ns(cell.watchdog_late_ns)} after its time."
    )
    if cell.second_lo_percent > 0.5 and cell.watchdog_late_ns < 1e9:
        return Verdict(FAILS, reason)
    raise CannotTell(f"The hog never has a machine's only CPU, so a run can only refute it: {reason}")


def _five_percent_left(table: pd.DataFrame) -> Verdict:
    """Statistic: share of the normal hog, by interval.  Control: OTHER beside OTHER.  Design: the kernel's
    own settings.  Opponent: it comes in one piece a second.
    """
    cell, reason = _beside_fifo(table)
    return within(cell.second_lo_percent, cell.second_hi_percent, 3, 7, f"{reason}.")


def _edge(table: pd.DataFrame) -> tuple[pd.Series, str]:
    row = table.iloc[0]
    if row.refused_by is None or pd.isna(row.refused_by):
        raise CannotTell(f"The kernel granted {row.granted_percent:.1f} % per CPU and had not refused yet.")
    return row, (
        f"{row.granted_percent:.1f} % of each CPU was granted, {row.step_percent:.1f} % more refused with "
        f"{row.refused_by}."
    )


def _no_oversubscription(table: pd.DataFrame) -> Verdict:
    """Statistic: the reservation at which the kernel said no.  Control: how it said it: EBUSY.  Design:
    sleeping threads reserve, none runs.  Opponent: admission bounds lateness and excludes no miss on
    several CPUs.
    """
    granted = table["granted_percent"].iloc[0]
    if granted > 100:  # as all reservations are where the limit is switched off
        return Verdict(FAILS, f"{granted:.1f} % of each CPU was granted.")
    row, reason = _edge(table)
    return yes(row.refused_by == "EBUSY", reason)


def _edge_at_95(table: pd.DataFrame) -> Verdict:
    """Statistic: the last granted and the first refused reservation.  Control: the limit as it is set.
    Design: steps of a few per cent.  Opponent: another program may have reserved before, or
    some CPUs count for less: where the kernel reserves no part itself, less than the limit refutes nothing.
    """
    row, reason = _edge(table)
    if math.isnan(row.limit_percent):
        raise CannotTell("This kernel does not tell its limit.")
    reason += f" The limit is set to {row.limit_percent:.0f} %."
    if row.granted_percent + row.step_percent <= row.limit_percent and not row.fair_server:
        raise CannotTell(f"The rest may be reserved, or some CPUs may count for less: {reason}")
    return yes(row.granted_percent <= row.limit_percent < row.granted_percent + row.step_percent, reason)


CLAIMS = [
    Claim("002-043", "A SCHED_FIFO thread runs at once when it wakes among normal threads that compute.",
          COURSE, "policies.sweep", _fifo_at_once),
    Claim("002-114", "SCHED_FIFO brings every wake-up below 10 µs.", COURSE, "policies.sweep",
          _fifo_below_10_us),
    Claim("002-044", "FIFO and OTHER can be compared without a look at the timer slack.",
          "done in a web course on scheduler latency", "policies.sweep", _slack_matters_not),
    Claim("002-050", "Another policy improves p99 by a factor of two or three at most.", COURSE,
          "policies.sweep", _three_times_at_most),
    Claim("002-053", "No setting of the fair scheduler shortens the tail much.", COURSE, "policies.sweep",
          _no_fair_setting_helps),
    Claim("002-059", "The fair scheduler takes CPU time away from threads that use much of it.", COURSE,
          "policies.sweep", _heavy_loses_cpu),
    Claim("002-082", "A thread that wakes beside hogs fails the preemption test, and so it waits.", COURSE,
          "policies.sweep", _sleeper_fails_the_test),
    Claim("002-124", "FIFO changes who runs when, not how much gets done.", COURSE, "policies.sweep",
          _same_throughput),
    Claim("002-040", "Five nice levels leave a quarter of the CPU: a factor of 1.25 for each.", "sched(7)",
          "policies.hog", _nice_5_is_25),
    Claim("002-042", "A SCHED_FIFO thread runs until it blocks or a higher priority arrives.", COURSE,
          "policies.hog", _fifo_until_it_blocks),
    Claim("002-045", "A SCHED_FIFO thread in an endless loop hangs the machine.", COURSE, "policies.hog",
          _fifo_hangs),
    Claim("L31", "Beside a real-time hog the kernel keeps about 5 % of the CPU for normal threads.",
          "sched(7): 950 ms of every second", "policies.hog", _five_percent_left),
    Claim("002-049", "SCHED_DEADLINE cannot be oversubscribed.", COURSE, "policies.admission",
          _no_oversubscription),
    Claim("L41", "Deadline threads may reserve what rt_runtime_us leaves them, and no less.",
          "sched(7) and the SCHED_DEADLINE documentation", "policies.admission", _edge_at_95),
]  # fmt: skip
