"""What does the kernel's work for a neighbour take from a program: softirqs, or kernel threads?  (lab L27)

A thread that never sleeps shares its CPU with a neighbour that sends network packets, or writes files to a
disk.  Little of what the neighbour does is its own: the kernel delivers packets in softirqs, and its threads
finish what was written.  The victim is measured with an ordinary and with a better nice value.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core.result import Result
from sched_labs.core.stats import in_columns, median_interval
from sched_labs.core.store import data_folder
from sched_labs.machine import files
from sched_labs.probes import runqlat
from sched_labs.probes.waits import OCCUPANTS
from sched_labs.run import checks, optional
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement, policies

NEIGHBOURS = ("nobody", "packets", "files")
BETTER_NICE = -10
INTERVAL_S = 0.05  # between two snapshots of the probe
LEAD_S = 0.02  # by twice this the neighbour works longer than the victim: before it, and after it
LONGEST_S = 60.0
PARTS = (*OCCUPANTS, "over_it")


def summarise(result: Result) -> pd.DataFrame:
    """One row per neighbour, nice value of the victim, and part of its lost time.

    neighbour                      nobody, packets, files
    nice                           the victim's nice value
    part                           while it waited for its CPU, what had it (probes.waits.OCCUPANTS); or
                                   over_it: interruptions while it had the CPU itself
    ms_per_s, ms_per_s_lo, ms_per_s_hi   lost in each second: median over the trials, 95 % interval; without
                                   BPF missing but for unattributed and over_it
    softirqs_per_s, softirqs_lo_per_s, softirqs_hi_per_s   network softirqs that began on the CPU, likewise;
                                   missing where it is not told
    units_per_s                    datagrams that the neighbour received, or KiB that it wrote, by the time
                                   for which it worked, a little longer than the victim; median
    attributed                     whether the waits are attributed at all (that needs the BPF probe)
    """
    trials = result.tables["trials_counted"]
    attributed = result.facts["instrument"] == "bpf"
    rows = []
    for neighbour, nice in trials[["neighbour", "nice"]].drop_duplicates().itertuples(index=False):
        counted = trials[(trials["neighbour"] == neighbour) & (trials["nice"] == nice)]
        data = result.data[(result.data["neighbour"] == neighbour) & (result.data["nice"] == nice)]
        # Runs of earlier versions do not say for how long they counted softirqs.
        window_ns = counted.get("softirqs_window_ns", counted["window_ns"])
        worked_ns = counted["window_ns"] + 2e9 * LEAD_S  # for how long the neighbour did
        told = counted["softirqs"].notna().all()
        began = median_interval(1e9 * counted["softirqs"] / window_ns) if told else None
        for part in PARTS:
            of_part = data[data["part"] == part].set_index("trial")["part_ns"]
            known = attributed or part in ("unattributed", "over_it")
            lost = of_part.reindex(counted["trial"], fill_value=0).to_numpy(float)
            per_s = median_interval(1e3 * lost / counted["window_ns"].to_numpy(float)) if known else None
            rows.append(
                {
                    "neighbour": neighbour,
                    "nice": int(nice),
                    "part": part,
                    **in_columns("ms_per_s", "", per_s),
                    **in_columns("softirqs", "per_s", began),
                    "units_per_s": float((1e9 * counted["units"] / worked_ns).median()),
                    "attributed": attributed,
                }
            )
    order = {name: at for at, name in enumerate(NEIGHBOURS)}
    return pd.DataFrame(rows).sort_values(
        ["neighbour", "nice"],
        key=lambda column: column.map(order) if column.name == "neighbour" else -column,
        kind="stable",
        ignore_index=True,
    )


def instrument(survey: machine.Machine) -> Instrument:
    """The BPF probe and the victim's own clock; without it run delay in sum."""
    able = runqlat.available()
    if able.ok:
        return Instrument(
            "BPF probe that accounts for every nanosecond of a wait, and the victim's own clock"
        )
    return Instrument(
        "the victim's own clock, run delay and counts of softirqs", f"{able.why} {able.remedy}".strip()
    )


@experiment(
    "interference.neighbours",
    summarise=summarise,
    instrument=instrument,
    workloads=("burn", "neighbour"),
    needs=("network",),
)
def neighbours(
    run: Run,
    *,
    neighbours: Sequence[str] = NEIGHBOURS,
    cpu: int | None = None,
    trials: int | None = None,
    duration_s: float | None = None,
) -> None:
    """Let a thread share its CPU with a neighbour for whom the kernel works, and see what it loses to whom.

    neighbours  of nobody, packets (datagrams over the loopback device) and files (written to the disk of the
                reader's data folder; at most 1 MiB is on it at any time, and nothing is left)
    cpu         the CPU that both share; default: a quiet one
    trials      how often each is measured; the neighbours take turns
    duration_s  of each trial

    Data: one row per trial, neighbour, nice value and part that is not zero: trial, neighbour, nice, part
    (see summarise), part_ns.  Where the kernel keeps a card's interrupts away from the CPU, real packets do
    not come here at all; these do, because loopback packets are delivered on their sender's CPU.  Without BPF
    all waits are "unattributed".  The fact instrument is bpf or schedstat; the table trials_counted has
    window_ns, units and softirqs of each trial, the last of them in softirqs_window_ns.
    """
    trials = run.choose(tiny=1, quick=3, full=9) if trials is None else trials
    duration_s = run.choose(tiny=0.1, quick=0.15, full=2.0) if duration_s is None else duration_s
    cpu = placement.quiet_cpu() if cpu is None else cpu
    _check(neighbours, cpu, trials, duration_s)
    run.begin()
    run.parameters |= {"cpu": cpu, "trials": trials, "duration_s": duration_s}
    nices = [0]
    tried = policies.tries([policies.nice(BETTER_NICE)]).iloc[0]
    if tried["granted"]:
        nices.append(BETTER_NICE)
    else:
        run.note("missing", f"A better nice value was not measured: {tried['because']}.")
    cells = [(neighbour, nice) for neighbour in neighbours for nice in nices]
    order = [
        (trial, *cell) for trial in range(trials) for cell in (cells if trial % 2 == 0 else reversed(cells))
    ]
    with contextlib.ExitStack() as stack:
        deadline_s = 60 + 4 * len(order) * (duration_s + 0.5)
        arguments = ["--workers", "1", "--duration-ms", str(math.ceil(1000 * duration_s))]
        victims = []
        for _, _, nice in order:  # each has one of its own: an ordinary user may not take a nice value back
            victim = stack.enter_context(workloads.start("burn", arguments, deadline_s=deadline_s))
            placement.pin(victim.tids, [cpu])
            if nice:
                policies.apply(victim.tids[0], policies.nice(nice))
            victims.append(victim)
        accounts = _Accounts(run, stack, [victim.pid for victim in victims], deadline_s)
        for (trial, neighbour, nice), victim in run.each(
            list(zip(order, victims, strict=True)), label=lambda step: step[0][1]
        ):
            _measure(run, (trial, neighbour, nice), victim, cpu, duration_s, accounts)


def _check(neighbours: Sequence[str], cpu: int, trials: int, duration_s: float) -> None:
    checks.words("neighbours", neighbours, NEIGHBOURS)
    checks.whole("trials", trials, 1, 50)
    checks.seconds("duration_s", duration_s, 0.05, LONGEST_S)
    checks.cpu(cpu)


class _Accounts:
    """What had the CPU from one victim's end to the next one's; one probe watches all victims in turn."""

    def __init__(self, run: Run, stack: contextlib.ExitStack, pids: Sequence[int], duration_s: float) -> None:
        self._before = dict.fromkeys(OCCUPANTS, 0)
        self.watch = optional.probe(
            run,
            stack,
            runqlat.available(),
            lambda: runqlat.watch(pids, min(duration_s, 3600), INTERVAL_S, attribution=True),
            "What had the CPU during the waits is missing",
            "Only their sum is known.",
        )
        if self.watch:
            self.watch.start()
            self._opened = time.monotonic_ns()
        run.facts["instrument"] = "bpf" if self.watch else "schedstat"

    def since(self) -> dict[str, int]:
        """{occupant: ns} since the last call."""
        assert self.watch
        now = time.monotonic_ns() - self._opened
        seen = None
        for seen in self.watch:  # it ends early when the last victim has ended: that count is complete
            if seen.window_ns >= now:
                break
        if seen is None or seen.attribution is None:
            return dict.fromkeys(OCCUPANTS, 0)
        total = seen.attribution.total_ns()
        grown = {name: ns - self._before[name] for name, ns in total.items()}
        self._before = total
        return grown


def _measure(
    run: Run,
    step: tuple[int, str, int],
    victim: workloads.Workload,
    cpu: int,
    duration_s: float,
    accounts: _Accounts,
) -> None:
    trial, name, nice = step
    with contextlib.ExitStack() as stack:
        neighbour = None
        if name != "nobody":
            neighbour = stack.enter_context(_started(name, duration_s))
            placement.pin(neighbour.tids, [cpu])
            neighbour.go()
            time.sleep(LEAD_S / 2)  # the victim begins 20 ms after it is let go (burn.c)
        began, before = time.monotonic_ns(), softirqs(cpu)
        victim.go()
        records = list(victim.records())
        after, ended = softirqs(cpu), time.monotonic_ns()
        units = 0
        if neighbour:
            own = next(record for record in neighbour.records() if record.kind == "neighbour")
            units = own["units"]
            if own["in_memory"]:
                run.note(
                    "info", "The data folder is in memory here: no disk was involved in writing the files."
                )
    worker = next(record for record in records if record.kind == "worker")
    delay_ns = worker["wait_ns"] if "wait_ns" in worker.values else 0
    parts = accounts.since() if accounts.watch else {"unattributed": delay_ns}
    gaps = [record for record in records if record.kind == "gap"]
    parts = {**parts, "over_it": sum(record["ns"] for record in gaps if record["switches"] == 0)}
    same = {"trial": trial, "neighbour": name, "nice": nice}
    run.add([{**same, "part": part, "part_ns": ns} for part, ns in parts.items() if ns > 0])
    run.tables["trials_counted"].append(
        same
        | {
            "window_ns": round(1e9 * duration_s),
            "units": units,
            "softirqs": None if before is None or after is None else after - before,
            "softirqs_window_ns": ended - began,  # longer: the victim's start and end are in it
        }
    )


def _started(name: str, duration_s: float) -> workloads.Workload:
    words = ["--kind", name, "--duration-ms", str(math.ceil(1000 * (duration_s + 2 * LEAD_S)))]
    if name == "files":
        folder = data_folder()
        folder.mkdir(parents=True, exist_ok=True)
        words += ["--folder", str(folder), "--every-us", "5000"]
    return workloads.start("neighbour", words, deadline_s=30 + 4 * duration_s)


def softirqs(cpu: int) -> int | None:
    """How many network softirqs have begun on a CPU since boot; None where the kernel does not tell."""
    lines = (files.read("/proc/softirqs") or "").splitlines()
    names = lines[0].split() if lines else []
    if f"CPU{cpu}" not in names:
        return None
    column = names.index(f"CPU{cpu}")
    found: list[Any] = [line.split()[1:] for line in lines[1:] if line.split()[0] in ("NET_RX:", "NET_TX:")]
    return sum(int(words[column]) for words in found if len(words) > column) if found else None
