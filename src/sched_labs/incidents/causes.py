"""What may be the cause of an incident, and the piece of evidence that each cause is proved by."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ..core.errors import ParameterError


@dataclass(frozen=True)
class Cause:
    """One cause.

    name       as the player writes it
    about      what it is, in one line; "the service" is the program that the alarm is about
    asks       what the evidence is a number of
    unit       of that number
    tolerance  how far it may be off: a share of it, or `slack` of its unit where that is more
    page       where the book explains it
    """

    name: str
    about: str
    asks: str
    unit: str
    page: str
    tolerance: float = 0.25
    slack: float = 0.0

    def fits(self, given: float, measured: float) -> bool:
        """Whether the player's value is right within the tolerance."""
        return abs(given - measured) <= max(self.tolerance * abs(measured), self.slack)


_CAUSES = (
    Cause(
        "quota",
        "the service's control group uses up its CPU quota and waits for the next period",
        "of all periods, those in which its group was throttled",
        "%",
        "notebooks/04-cgroup-throttling",
        slack=6,
    ),
    Cause(
        "mask",
        "the service may use fewer CPUs than it was meant to have",
        "CPUs that it may use",
        "CPUs",
        "notebooks/05-pinning",
        tolerance=0,
    ),
    Cause(
        "rival",
        "another program with the same weight takes the CPU from the service",
        "CPU time of that program",
        "ms/s",
        "notebooks/03-scheduler-latency",
        slack=40,
    ),
    Cause(
        "nice",
        "the service counts for less than the others beside it: its nice value",
        "the service's nice value",
        "",
        "notebooks/03-scheduler-latency",
        tolerance=0,
    ),
    Cause(
        "group-weight",
        "the service's control group counts for less than the groups beside it",
        "the weight of its group, where 100 is usual",
        "",
        "notebooks/04-cgroup-throttling",
        tolerance=0,
    ),
    Cause(
        "realtime",
        "threads under a real-time policy take the CPU from everybody",
        "CPU time of these threads",
        "ms/s",
        "notebooks/03-scheduler-latency",
    ),
    Cause(
        "own-threads",
        "work that the service does with threads of its own takes the CPU from those that serve requests",
        "time that its threads wait for a CPU, all together",
        "ms/s",
        "notebooks/06-switching-less",
        tolerance=0.4,
    ),
    Cause(
        "overload",
        "more requests arrive than before, more than the service can do",
        "requests that arrive in a second",
        "1/s",
        "notebooks/08-calculators",
    ),
    Cause(
        "few-workers",
        "all workers of the service wait for something slow, and there are too few of them",
        "requests that it has in work at the same time, on average",
        "requests",
        "notebooks/06-switching-less",
        slack=0.6,
    ),
    Cause(
        "lock",
        "the service's threads wait for one lock of the program's own",
        "of its threads, those asleep at a lock, on average",
        "threads",
        "notebooks/06-switching-less",
        slack=0.4,
    ),
    Cause(
        "blocking-call",
        "a call in the service's event loop sleeps, and everybody behind it waits",
        "of the time, how much the loop's thread, whose TID is the PID, sleeps in that call",
        "%",
        "notebooks/06-switching-less",
        slack=8,
    ),
    Cause(
        "long-handler",
        "a handler in the service's event loop computes for long, and everybody behind it waits",
        "CPU time of the loop's thread",
        "ms/s",
        "notebooks/06-switching-less",
        slack=40,
    ),
    Cause(
        "downstream",
        "the service waits for another program to answer it",
        "answers that the other program gives in a second",
        "1/s",
        "notebooks/09-your-own-program",
        tolerance=0.35,
        slack=1,
    ),
    Cause(
        "batching",
        "finished answers are kept until several go out together",
        "answers that are finished and not sent, on average",
        "answers",
        "notebooks/06-switching-less",
        slack=0.6,
    ),
    Cause(
        "polling",
        "the service looks for requests at intervals and is not woken by them",
        "how often its loop's thread, whose TID is the PID, goes to sleep (voluntary switches)",
        "1/s",
        "notebooks/06-switching-less",
        slack=2,
    ),
    Cause(
        "stopped",
        "something stops the service's process for a while, again and again",
        "of the time, how much it stands still",
        "ms/s",
        "notebooks/09-your-own-program",
        slack=60,
    ),
    Cause(
        "gil",
        "a thread of the service computes in Python, and keeps the interpreter's lock from the loop",
        "of the time, how much the loop's thread sleeps at a lock (futex) meanwhile",
        "%",
        "notebooks/06-switching-less",
        slack=8,
    ),
    Cause(
        "imbalance",
        "most connections belong to one of the service's loops, and its other loops have nothing to do",
        "of the service's CPU time, what its busiest thread has",
        "%",
        "notebooks/06-switching-less",
        slack=8,
    ),
    Cause(
        "herd",
        "each request wakes many threads of the service, and one of them has something to do",
        "how often the service's threads go to sleep (voluntary switches), all together",
        "1/s",
        "notebooks/06-switching-less",
        tolerance=0.35,
    ),
    Cause(
        "yield",
        "threads that have nothing to do look for work in turn, and yield the CPU to each other",
        "switches of these threads, voluntary or not",
        "1/s",
        "notebooks/06-switching-less",
    ),
    Cause(
        "busy-wait",
        "threads of the service wait by trying again and again, and give the CPU away only when it is taken",
        "CPU time of the service",
        "ms/s",
        "notebooks/02-latency-ladder",
    ),
    Cause(
        "page-faults",
        "each request takes new memory, which the kernel has to fill",
        "page faults of the service (minor ones)",
        "1/s",
        "notebooks/02-latency-ladder",
    ),
    Cause(
        "interrupts",
        "interrupts, or the work that is done behind them (softirqs), take the CPU",
        "time in interrupts and softirqs on the service's CPU (irq and softirq in /proc/stat)",
        "ms/s",
        "notebooks/03-scheduler-latency",
        slack=40,
    ),
    Cause(
        "timer-slack",
        "the service's timers may wake it much later than it asks for",
        "the timer slack of its threads (/proc/TID/timerslack_ns, for root)",
        "ms",
        "notebooks/03-scheduler-latency",
        tolerance=0.1,
    ),
    Cause(
        "hypervisor",
        "the machine underneath gives its CPUs to others",
        "stolen time",
        "%",
        "notebooks/09-your-own-program",
    ),
)
CAUSES = {cause.name: cause for cause in _CAUSES}


def plain(value: float) -> str:
    """A value to three digits, as a player would write it: 653000 and not 6.53e+05."""
    return f"{float(f'{value:.3g}'):.12g}"


def find(name: str) -> Cause:
    """The cause of that name.  Raises ParameterError, with what is like it, where there is none."""
    if name.lower() in CAUSES:
        return CAUSES[name.lower()]
    like = difflib.get_close_matches(name.lower(), CAUSES, n=1)
    raise ParameterError(
        f"{name[:40]!r} is no cause.",
        f"Did you mean {like[0]}?" if like else "`sched-labs incident causes` lists them all.",
    )
