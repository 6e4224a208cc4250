"""What a CPU limit does, computed: an event simulation of CFS bandwidth control.

    from sched_labs import bandwidth
    run = bandwidth.simulate(50_000, 100_000, threads=4, cpus=2, arrivals_per_s=80, work_us=5_000)
    run.throttled_share, run.quantiles(), run.intervals

It follows kernel/sched/fair.c (`__refill_cfs_bandwidth_runtime`, `__assign_cfs_rq_runtime`,
`__return_cfs_rq_runtime`, `distribute_cfs_runtime`, `do_sched_cfs_slack_timer`) and
Documentation/scheduler/sched-bwc.rst.  A global pool is filled up by the quota each period, at most to quota
plus burst.  Run queues take runtime from it in slices, and one that falls idle gives back all but 1 ms.  One
that finds the pool empty is throttled until the next period, or until the slack timer finds that more than a
slice was given back.

A run queue whose runtime is used up runs on until the kernel looks: at the next tick, or when a thread of the
group wakes up or falls asleep on that CPU.  What it overran by comes off the runtime that it takes next
(`replay` with `tick_us`; else it stops on the microsecond).

What it leaves out: other groups' threads use the CPUs too; a request that runs longer than a time slice
shares its CPU.  Here the CPUs are the group's own, and each serves one request after the other, oldest first,
so that threads beyond the CPUs only wait.

Times are in µs throughout, as in the kernel's own files.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..core.errors import ParameterError

# kernel/sched/core.c: min_cfs_quota_period and max_cfs_quota_period.
LEAST_US, LONGEST_PERIOD_US = 1_000, 1_000_000
# kernel/sched/fair.c: min_cfs_rq_runtime, cfs_bandwidth_slack_period and min_bandwidth_expiration.
KEPT_US, SLACK_DELAY_US, TOO_LATE_US = 1_000.0, 5_000.0, 2_000.0
_NS, _NOTHING = 1e-3, 1e-6  # in µs; what rounding leaves of a time is nothing
_NEVER = -1.0

QUANTILES = (0.5, 0.9, 0.99, 0.999)
MOST_THREADS, MOST_REQUESTS, LONGEST_S = 4096, 2_000_000, 3600


@dataclass(frozen=True)
class Simulation:
    """What happened to a group under its limit.  All times in µs, from the start of the simulation.

    parameters     what was asked for
    nr_periods     periods that ended, as cpu.stat counts them: a group that does nothing for a whole period
                   stops the clock until it runs again
    nr_throttled   how many of them ended with a throttled run queue
    nr_bursts      how many of them used more than a quota
    burst_us       by how much, in sum
    throttled_us   time that run queues stood throttled, summed over CPUs (cpu.stat: throttled_usec)
    used_us        CPU time that the threads got
    arrivals, completions, in_flight    requests; arrivals = completions + in_flight
    arrived_us     when, one per completed request, in the order of arrival
    latency_us     from arrival to completion, in the same order
    waited_us      how long each request that was not completed had waited at the end
    """

    parameters: dict[str, Any]
    nr_periods: int
    nr_throttled: int
    nr_bursts: int
    burst_us: float
    used_us: float
    arrivals: int
    arrived_us: NDArray[np.float64]
    latency_us: NDArray[np.float64]
    waited_us: NDArray[np.float64]
    _intervals: list[tuple[int, float, float]] = field(repr=False)
    _used: list[float] = field(repr=False)  # CPU time used up to each period's end

    @property
    def completions(self) -> int:
        return int(self.latency_us.size)

    @property
    def in_flight(self) -> int:
        return self.arrivals - self.completions

    @cached_property
    def throttled_us(self) -> float:
        return sum(end - start for _, start, end in self._intervals)

    @property
    def throttled_share(self) -> float:
        """nr_throttled / nr_periods, from 0 to 1; 0 when no period ended."""
        return self.nr_throttled / self.nr_periods if self.nr_periods else 0.0

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """When run queues stood throttled: cpu, start_us, end_us, length_us; by start."""
        table = pd.DataFrame(self._intervals, columns=["cpu", "start_us", "end_us"])
        table = table.astype({"cpu": int, "start_us": float, "end_us": float})
        table["length_us"] = table["end_us"] - table["start_us"]
        return table.sort_values(["start_us", "cpu"], ignore_index=True)

    @cached_property
    def periods(self) -> pd.DataFrame:
        """One row per period: start_us and used_us, the CPU time that the group got in it."""
        length = float(self.parameters["period_us"])
        used = np.diff(np.array([0.0, *self._used]))
        return pd.DataFrame({"start_us": length * np.arange(used.size), "used_us": used})

    @cached_property
    def held_back(self) -> NDArray[np.bool_]:
        """Which completed requests met a throttled run queue, and took longer than their work."""
        spans = self.intervals
        ends = np.maximum.accumulate(spans["end_us"].to_numpy())  # the last end of those begun so far
        begun = np.searchsorted(spans["start_us"].to_numpy(), self.arrived_us + self.latency_us)
        last = np.concatenate([[-np.inf], ends])[begun]
        return (last > self.arrived_us) & (self.latency_us > (self.parameters["work_us"] or 0) * (1 + 1e-9))

    def quantile_us(self, q: float) -> float:
        """The latency that a share q (0 to 1) of the completed requests did not exceed; NaN without any."""
        return float(np.quantile(self.latency_us, q)) if self.completions else math.nan

    def quantiles(self) -> dict[float, float]:
        """Latency in µs by quantile, for QUANTILES."""
        return {q: self.quantile_us(q) for q in QUANTILES}

    def histogram(self, bars_per_doubling: int = 4) -> pd.DataFrame:
        """Completed requests by latency: low_us, high_us, requests; bars are equally wide in the logarithm.

        Their edges are 2 to the power of whole multiples of 1 / bars_per_doubling: two histograms share them.
        """
        if not self.completions:
            return pd.DataFrame({"low_us": [], "high_us": [], "requests": []}).astype({"requests": int})
        step = 1 / bars_per_doubling
        # A latency on an edge belongs to the bar above it.
        bars = np.floor(np.log2(np.maximum(self.latency_us, 1e-3)) / step + 1e-9).astype(int)
        first = int(bars.min())
        counts = np.bincount(bars - first)
        edges = 2.0 ** (step * np.arange(first, first + counts.size + 1))
        return pd.DataFrame({"low_us": edges[:-1], "high_us": edges[1:], "requests": counts})

    def summary(self) -> pd.DataFrame:
        """One row: nr_periods, nr_throttled, throttled_share, throttled_us, used_cpus, p50_us ... p999_us."""
        names = {q: f"p{100 * q:g}_us".replace(".", "") for q in QUANTILES}
        row: dict[str, Any] = {
            "nr_periods": self.nr_periods,
            "nr_throttled": self.nr_throttled,
            "throttled_share": self.throttled_share,
            "throttled_us": self.throttled_us,
            "used_cpus": self.used_us / (1e6 * self.parameters["duration_s"]),
        }
        return pd.DataFrame([row | {names[q]: value for q, value in self.quantiles().items()}])

    def __repr__(self) -> str:
        p = self.parameters
        return (
            f"<Simulation of {p['quota_us']:g} µs in {p['period_us']:g} µs, {p['threads']} threads on "
            f"{p['cpus']} CPUs: {self.nr_throttled} of {self.nr_periods} periods throttled>"
        )


def stall_us(quota_us: float, period_us: float, *, threads: int, cpus: int) -> float:
    """How long threads that never sleep stand still in each period: period - quota / min(threads, cpus).

    Nothing where the quota lasts for the whole period.  Slices move it: a run queue that got one runs on when
    the others stand (`simulate` shows by how much).
    """
    check(quota_us, period_us, threads=threads, cpus=cpus)
    return max(0.0, period_us - exhaustion_us(quota_us, threads=threads, cpus=cpus))


def exhaustion_us(quota_us: float, *, threads: int, cpus: int) -> float:
    """How long a quota lasts threads that never sleep: quota / min(threads, cpus)."""
    return quota_us / min(threads, cpus)


def check(
    quota_us: float,
    period_us: float,
    *,
    threads: int = 1,
    cpus: int = 1,
    burst_us: float = 0,
    slice_us: float = 5000,
) -> None:
    """Raises ParameterError for what the kernel would refuse, naming its file, and for no threads."""
    for name, value in (("period", period_us), ("quota", quota_us)):
        if not value >= LEAST_US:
            raise ParameterError(
                f"A {name} of {value:g} µs is refused by the kernel (cpu.max, cpu.cfs_{name}_us).",
                f"It is at least {LEAST_US:,} µs.",
            )
    if period_us > LONGEST_PERIOD_US:
        raise ParameterError(
            f"A period of {period_us:g} µs is refused by the kernel (cpu.max, cpu.cfs_period_us).",
            f"It is at most {LONGEST_PERIOD_US:,} µs.",
        )
    if not math.isfinite(quota_us):
        raise ParameterError("Without a limit nothing is throttled.", "Give a finite quota in µs.")
    if not 0 <= burst_us <= quota_us:
        raise ParameterError(
            f"A burst of {burst_us:g} µs is refused by the kernel (cpu.max.burst, cpu.cfs_burst_us).",
            f"It lies between 0 and the quota, {quota_us:g} µs.",
        )
    if not 1 <= slice_us <= 1e9:
        raise ParameterError(
            f"A slice of {slice_us:g} µs is refused by the kernel (sched_cfs_bandwidth_slice_us).",
            "It is at least 1 µs; the default is 5,000.",
        )
    for name, count in (("thread", threads), ("CPU", cpus)):
        if not (isinstance(count, int | np.integer) and 1 <= count <= MOST_THREADS):
            raise ParameterError(
                f"{count!r} {name}s cannot run.", f"Give a whole number, 1 to {MOST_THREADS}."
            )


def simulate(
    quota_us: float,
    period_us: float,
    *,
    threads: int,
    cpus: int,
    burst_us: float = 0,
    slice_us: float = 5000,
    duration_s: float = 10.0,
    arrivals_per_s: float | None = None,
    work_us: float | None = None,
    seed: int = 0,
) -> Simulation:
    """Simulate a group of threads under a CPU limit, alone on its CPUs.

    With `arrivals_per_s` and `work_us` the threads serve requests, each of `work_us` CPU time, that arrive as
    a Poisson process whether or not earlier ones are done (open loop); the seed makes it the same one each
    time.  Without them the threads never sleep.

    Raises ParameterError for what the kernel would refuse and for what makes no sense together.
    """
    check(quota_us, period_us, threads=threads, cpus=cpus, burst_us=burst_us, slice_us=slice_us)
    if not 0 < duration_s <= LONGEST_S:
        raise ParameterError(
            f"{duration_s!r} s cannot be simulated.", f"Give more than 0 and at most {LONGEST_S} s."
        )
    if (arrivals_per_s is None) != (work_us is None):
        raise ParameterError(
            "Requests need both a rate and an amount of work.",
            "Give arrivals_per_s and work_us, or neither for threads that never sleep.",
        )
    times: NDArray[np.float64] | None = None
    if arrivals_per_s is not None:
        if not 0 < arrivals_per_s * duration_s <= MOST_REQUESTS:
            raise ParameterError(
                f"{arrivals_per_s!r} requests per second for {duration_s:g} s cannot be simulated.",
                f"Give a rate above 0 that makes at most {MOST_REQUESTS:,} requests.",
            )
        times = _poisson_us(arrivals_per_s, duration_s * 1e6, seed)
    return replay(
        quota_us,
        period_us,
        times,
        threads=threads,
        cpus=cpus,
        burst_us=burst_us,
        slice_us=slice_us,
        duration_s=duration_s,
        work_us=work_us,
    )


def _poisson_us(rate_per_s: float, end_us: float, seed: int) -> NDArray[np.float64]:
    """Arrivals of a Poisson process: given their number, each is anywhere (Ross, Stochastic Processes)."""
    generator = np.random.default_rng(seed)
    return np.sort(generator.uniform(0, end_us, generator.poisson(rate_per_s * end_us / 1e6)))


def replay(
    quota_us: float,
    period_us: float,
    arrivals_us: ArrayLike | None,
    *,
    threads: int,
    cpus: int,
    duration_s: float,
    burst_us: float = 0,
    slice_us: float = 5000,
    tick_us: float = 0,
    tick_at_us: float = 0,
    work_us: float | None = None,
) -> Simulation:
    """As `simulate`, for requests that arrive at given times (µs from a period's start, ascending).

    For the model of a run whose arrivals were recorded.  None: threads that never sleep.
    tick_us    from one tick of the machine to the next; 0 for a kernel that notices on the microsecond that a
               runtime is used up
    tick_at_us when one of the ticks is
    Raises ParameterError as `simulate` does, and for arrivals out of order or outside the duration.
    """
    check(quota_us, period_us, threads=threads, cpus=cpus, burst_us=burst_us, slice_us=slice_us)
    if not 0 <= tick_us <= 1e6:
        raise ParameterError(f"No kernel has a tick of {tick_us!r} µs.", "Give 0 to 1,000,000.")
    if arrivals_us is None:
        arrivals, work = [], math.inf
    else:
        array = np.asarray(arrivals_us, dtype=float).ravel()
        if not (work_us is not None and 0 < work_us < math.inf):
            raise ParameterError(f"A request of {work_us!r} µs cannot be served.", "Give work_us above 0.")
        if array.size and not (
            array[0] >= 0 and array[-1] <= duration_s * 1e6 and (np.diff(array) >= 0).all()
        ):
            raise ParameterError(
                "Arrivals are out of order, or outside the simulated time.",
                "Give ascending times in µs from 0 to the duration.",
            )
        arrivals, work = array.tolist(), float(work_us)
    times = (float(value) for value in (quota_us, period_us, burst_us, slice_us, tick_us))
    group = _Group(
        *times, tick_at=float(tick_at_us), cpus=min(threads, cpus), threads=threads,
        arrivals=arrivals, work=work,
    )  # fmt: skip
    finished = group.run(duration_s * 1e6)
    at, done = np.array(arrivals, dtype=float), np.array(finished, dtype=float)
    completed = np.isfinite(done)
    parameters = {
        "quota_us": quota_us,
        "period_us": period_us,
        "threads": threads,
        "cpus": cpus,
        "burst_us": burst_us,
        "slice_us": slice_us,
        "tick_us": tick_us,
        "tick_at_us": tick_at_us,
        "duration_s": duration_s,
        "arrivals": None if arrivals_us is None else len(arrivals),
        "work_us": work_us,
    }
    return Simulation(
        parameters,
        group.nr_periods,
        group.nr_throttled,
        group.nr_bursts,
        group.burst_us,
        group.used_us,
        len(arrivals),
        at[completed],
        (done - at)[completed],
        duration_s * 1e6 - at[~completed],
        group.intervals,
        group.used_by,
    )


def grid(
    loads: Sequence[float],
    threads: Sequence[int],
    *,
    quota_us: float,
    period_us: float,
    work_us: float,
    duration_s: float = 20.0,
    burst_us: float = 0,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate every load (a share of the quota, 0.8 for 80 %) with every number of threads, a CPU for each.

    One row each: load, threads, throttled_share, p50_us, p99_us, p999_us.  For pages on which nothing can be
    moved.  Raises ParameterError as `simulate` does.
    """
    rows = []
    for count in threads:
        for load in loads:
            run = simulate(
                quota_us,
                period_us,
                threads=count,
                cpus=count,
                burst_us=burst_us,
                duration_s=duration_s,
                arrivals_per_s=load * quota_us / period_us / work_us * 1e6,
                work_us=work_us,
                seed=seed,
            )
            summary = run.summary()[["throttled_share", "p50_us", "p99_us", "p999_us"]].iloc[0]
            rows.append({"load": load, "threads": count, **summary})
    return pd.DataFrame(rows)


class _Cpu:
    """A CPU, and the group's run queue on it."""

    __slots__ = ("chunk", "ends", "left", "local", "number", "seen", "serves")

    def __init__(self, number: int, work: float) -> None:
        self.number = number
        self.local = 0.0  # runtime that the run queue holds; below 0: by how much it overran
        self.seen = 0.0  # when the kernel will see that it holds none
        self.left = work  # of the request that is served
        self.serves = -1
        self.chunk = 0.0  # how long the chunk is
        self.ends = _NEVER  # and when it ends; _NEVER where the CPU stands

    def done_at(self, now: float) -> float:
        """How much of its chunk is done by now."""
        return self.chunk - (self.ends - now) if self.ends >= now else 0.0


class _Group:
    """A limited group; `run` is the event loop, and leaves what cpu.stat would say in the attributes.

    An event is the end of a chunk: of a request, or of the time until the kernel sees that a run queue's
    runtime is used up.
    """

    def __init__(
        self, quota: float, period: float, burst: float, slice_: float, tick: float, *,
        tick_at: float, cpus: int, threads: int, arrivals: Sequence[float], work: float,
    ) -> None:  # fmt: skip
        self.quota, self.period, self.burst, self.slice, self.tick = quota, period, burst, slice_, tick
        self.tick_at = tick_at
        self.work = work
        # Threads that may wake up on a CPU where another runs; of no account where all is seen at once.
        self.spare = threads - cpus if tick else 0
        self.round = cpus * slice_  # what all run queues together take when each takes a slice
        self.nr_periods = self.nr_throttled = self.nr_bursts = 0
        self.burst_us = self.used_us = 0.0
        self.intervals: list[tuple[int, float, float]] = []
        self.used_by: list[float] = []

        # Each setting of quota, period and burst fills the pool up by a quota (tg_set_cfs_bandwidth), so that
        # a group begins with its whole burst in hand.
        self.pool = self.filled = quota + burst
        self.counting = True  # is the period timer on?
        self.untouched = True  # has nobody taken runtime in this period?
        self.now, self.boundary, self.slack = 0.0, period, math.inf
        self.coming = [*arrivals, math.inf]
        self.finished = [math.inf] * len(arrivals)
        self.arrived = self.woken = 0  # how many requests a CPU has taken, and how many have come
        self.cpus = [_Cpu(number, work) for number in range(cpus)]
        self.idle = deque(self.cpus if work < math.inf else ())
        self.throttled: dict[_Cpu, float] = {}  # since when; in the order in which they are let go
        self.running: list[tuple[float, int]] = []  # heap: when a chunk ends; one cut short stays in it

    def run(self, end: float) -> list[float]:
        """Run until `end`; return when each request was finished (infinite for those that were not)."""
        for cpu in self.cpus if self.work == math.inf else ():
            self._begin(cpu)
        while True:
            self.now = self._serve(min(self.boundary, self.slack, end))
            if self.now == self.boundary:
                self._refill()
            if self.now == end:
                break
            if self.now == self.slack:
                self.slack = math.inf
                if self.boundary - self.now < TOO_LATE_US or self.pool <= self.slice:
                    continue
            self._share_out()
        self.intervals += [(cpu.number, since, end) for cpu, since in self.throttled.items()]
        self.used_us += self._under_way()
        return self.finished

    def _serve(self, limit: float) -> float:
        """All events before `limit`, which comes nearer where a run queue gives runtime back; that limit."""
        running, idle, coming = self.running, self.idle, self.coming
        while True:
            ending = running[0][0] if running else math.inf
            if idle and coming[self.arrived] <= ending:
                if coming[self.arrived] >= limit:
                    return limit
                self.now = coming[self.arrived]
                cpu = idle.popleft()
            elif self.spare and coming[self.woken] < ending:
                if coming[self.woken] >= limit:
                    return limit
                self.now = coming[self.woken]
                self._wake()
                continue
            else:
                if ending >= limit:
                    return limit
                self.now, number = heappop(running)
                cpu = self.cpus[number]
                if cpu.ends != self.now or not self._end(cpu):
                    limit = min(limit, self.slack)
                    continue
            cpu.serves, cpu.left = self.arrived, self.work
            self.arrived += 1
            self.woken = max(self.woken, self.arrived)
            self._begin(cpu)

    def _begin(self, cpu: _Cpu) -> None:
        """A CPU with work takes runtime if it is seen to hold none, and runs or is throttled."""
        now, wanted = self.now, cpu.left
        if cpu.local <= _NOTHING and cpu.seen <= now:
            self.counting = True
            taken = self.slice
            if self.pool > 3 * self.round:
                # The pool outlasts what all take meanwhile, so several slices are taken in one step.
                need = math.ceil(min(wanted, self.boundary - now) / self.slice)
                taken *= min(need, int(self.pool // self.round) - 1)
            taken = min(taken - cpu.local, self.pool)
            if taken > 0:
                self.untouched = False
                self.pool -= taken
                cpu.local += taken
            if cpu.local <= _NOTHING:
                self.throttled[cpu] = now
                return
        if cpu.local > _NOTHING:
            cpu.seen = now + cpu.local
            if self.tick:
                cpu.seen = self.tick * math.ceil((cpu.seen - self.tick_at) / self.tick) + self.tick_at
        cpu.chunk = min(cpu.seen - now, wanted)
        cpu.ends = now + cpu.chunk
        heappush(self.running, (cpu.ends, cpu.number))

    def _end(self, cpu: _Cpu) -> bool:
        """A chunk ends; whether the CPU has finished its request and takes the next one at once."""
        done, cpu.ends = cpu.chunk, _NEVER
        self.used_us += done
        cpu.local -= done
        cpu.left -= done
        if cpu.left > _NOTHING:
            self._begin(cpu)
            return False
        self.finished[cpu.serves] = self.now
        if self.coming[self.arrived] <= self.now:
            if self.woken > self.arrived:  # another thread has it
                cpu.seen = self.now
            return True
        self.idle.append(cpu)
        cpu.seen = self.now
        if cpu.local > KEPT_US:
            self.pool += cpu.local - KEPT_US
            cpu.local = KEPT_US
            soon = self.boundary - self.now < SLACK_DELAY_US + TOO_LATE_US
            if self.throttled and self.pool > self.slice and self.slack == math.inf and not soon:
                self.slack = self.now + SLACK_DELAY_US
        return False

    def _wake(self) -> None:
        """A thread wakes up beside another that runs: the kernel looks at what that one has used."""
        cpu = self.cpus[self.woken % len(self.cpus)]  # anywhere
        if self.woken - self.arrived < self.spare and cpu.ends >= self.now:
            cpu.chunk -= cpu.ends - self.now
            cpu.ends = cpu.seen = self.now
            heappush(self.running, (self.now, cpu.number))
        self.woken += 1

    def _refill(self) -> None:
        """A period ends: it is counted, and the pool is filled up."""
        self.boundary += self.period
        self.used_by.append(self.used_us + self._under_way())
        self.nr_periods += self.counting
        self.nr_throttled += bool(self.throttled)
        if not self.counting:
            return
        # The timer fills the pool up once more before it stops.
        self.pool += self.quota
        if self.filled > self.pool:
            self.nr_bursts += 1
            self.burst_us += self.filled - self.pool
        self.pool = self.filled = min(self.pool, self.quota + self.burst)
        self.counting = bool(self.throttled) or not self.untouched
        self.untouched = not self.throttled

    def _share_out(self) -> None:
        """Hand runtime to the throttled run queues.

        The kernel pays what each has overrun by and hands it a nanosecond.  With that it runs until the
        kernel looks, or, where all is seen at once, takes its slice or is throttled again.
        """
        for cpu, since in list(self.throttled.items()):
            if self.tick or cpu.local < 0:
                paid = min((_NS if self.tick else 0) - cpu.local, self.pool)
                self.pool -= paid
                cpu.local += paid
            if cpu.local < 0 or self.pool <= 0:
                break
            del self.throttled[cpu]
            self.intervals.append((cpu.number, since, self.now))
            self._begin(cpu)

    def _under_way(self) -> float:
        """How much of their chunks the running CPUs have done by now."""
        return sum(cpu.done_at(self.now) for cpu in self.cpus)
