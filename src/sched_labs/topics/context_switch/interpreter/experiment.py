"""What does a Python script measure that wants to show cold caches?  The interpreter control (lab L02).

Courses pass a script on in which two Python threads walk a buffer and call sched_yield through ctypes, and
read its extra time as cache warm-up.  Here our own writing of that script (`interpreter_script.py`, beside
this file) runs as a child process: one thread and two, with and without the calls, with a buffer that fits
the nearest cache and with larger ones.  What one thread pays for the calls is no switch; and what does not
depend on the buffer is no cache.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, WorkloadError
from sched_labs.core.result import Result
from sched_labs.run import memory, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement
from sched_labs.workloads import launch

from . import interpreter_script

SCRIPT = Path(interpreter_script.__file__)
EVERY = 100  # steps between two calls, as in the literature
DEADLINE_S = 120
TURNS = 2  # of the four conditions in one start of the script, there and back


def summarise(result: Result) -> pd.DataFrame:
    """One row per placement and buffer; medians over trials, CPU time per step unless named otherwise.

    placement, buffer_bytes        where the threads may run, and what each step touches
    one_ns                         one thread that never yields: what a step of the loop costs
    one_yields_ns, two_ns, two_yields_ns   one thread that yields, two that do not, two that do
    floor_ns                       what one thread without calls differs by from itself
    calls_ns, calls_lo_ns, calls_hi_ns   one_yields - one: the calls, with nobody to switch to; 95 % interval
    tax_ns, tax_lo_ns, tax_hi_ns   two_yields - one: what the script calls the price of switching
    ratio, ratio_lo, ratio_hi      wall time of two that yield against one that does not; twice the work is 2
    speedup, speedup_lo, speedup_hi   steps per second of two threads without calls against one's
    switches_per_call              of two threads that yield, as the kernel counted them
    voluntary_share                the part of those that the kernel calls voluntary
    trials

    In two_ns and speedup, threads of an interpreter with a lock alternate only where one's steps outlast its
    switch interval, 5 ms; else the second begins when the first has ended.  Unpinned, CPU time may lack up to
    a tick of a thread that ends on another CPU; ratio and speedup are wall time.
    """
    rows = []
    every = result.parameters["every"]
    data = starts.with_turns(result.data).assign(
        cpu=lambda d: d.cpu_ns / d.steps, wall=lambda d: d.elapsed_ns / d.steps
    )
    for (place, size), part in data.groupby(["placement", "buffer_bytes"], sort=False):
        turns = part.pivot(index=["trial", "turn"], columns=["threads", "every"], values=["cpu", "wall"])
        by_trial = turns.groupby("trial").median().dropna()
        cpu, wall = by_trial["cpu"], by_trial["wall"]
        one, calls = (1, 0), (1, every)
        two, both = (2, 0), (2, every)
        if not {one, calls, two, both} <= set(cpu.columns) or cpu.empty:
            continue
        extra = stats.paired_difference(cpu[calls], cpu[one])
        tax = stats.paired_difference(cpu[both], cpu[one])
        yielding = part[(part.threads == 2) & (part.every == every)]
        counted = yielding.voluntary_switches + yielding.involuntary_switches
        rows.append(
            {
                "placement": place,
                "buffer_bytes": int(str(size)),
                "one_ns": float(cpu[one].median()),
                "one_yields_ns": float(cpu[calls].median()),
                "two_ns": float(cpu[two].median()),
                "two_yields_ns": float(cpu[both].median()),
                "floor_ns": starts.noise_floor(turns["cpu"][one]),
                **stats.in_columns("calls", "ns", extra),
                **stats.in_columns("tax", "ns", tax),
                **stats.spread("ratio", "", 2 * wall[both] / wall[one]),
                **stats.spread("speedup", "", wall[one] / wall[two]),
                "switches_per_call": float((counted * every / yielding.steps).median()),
                "voluntary_share": yielding.voluntary_switches.sum() / max(1, counted.sum()),
                "trials": len(cpu),
            }
        )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The process's CPU time, as Python reads it, and the kernel's switch counts."""
    return Instrument(f"CPU time of a script in Python {platform.python_version()}")


def default_buffers(profile: str, survey: machine.Machine) -> list[int]:
    """As in the literature: 16 KiB, 2 MiB and 64 MiB; nothing above an eighth of the available memory."""
    most = (memory.available(survey) or memory.UNKNOWN_AVAILABLE) // 8
    sizes = [16 * memory.KIB, 2 * memory.MIB, 64 * memory.MIB]
    return [size for size in sizes if size <= most][: 2 if profile == "tiny" else 3] or [16 * memory.KIB]


@experiment("interpreter.script", summarise=summarise, instrument=instrument)
def script(
    run: Run,
    *,
    buffers_bytes: Sequence[int] | None = None,
    steps: int | None = None,
    every: int = EVERY,
    trials: int | None = None,
) -> None:
    """Run the script of the literature, for several buffers, on one CPU; and once unpinned.

    buffers_bytes  what each thread walks, one byte every 64; default: 16 KiB, 2 MiB, 64 MiB
    steps          of each thread and round; with fewer than a buffer has strides, a round does not come back
                   to any line, and what it reads has no warmth to lose
    every          steps between two calls of sched_yield in the rounds that yield
    trials         how often the script is started for each buffer; in each start the four conditions take two
                   turns, there and back

    Data: one row per round: placement (pinned, or unpinned with the smallest buffer), buffer_bytes, trial,
    turn, threads (1 or 2), every (0: never yields), steps of all threads, elapsed_ns, cpu_ns of the process,
    and the kernel's counts voluntary_switches and involuntary_switches.  The Python that ran it is in the
    parameters; the fact global_lock is whether it holds one.
    """
    survey = machine.survey()
    given = default_buffers(run.profile, survey) if buffers_bytes is None else buffers_bytes
    sizes = sorted(set(given))
    steps = run.choose(tiny=3000, quick=60_000, full=400_000) if steps is None else steps
    trials = run.choose(tiny=3, quick=5, full=15) if trials is None else trials
    memory.check("buffers_bytes", sizes, interpreter_script.STRIDE)
    memory.check_room(max(sizes), max(sizes), survey)  # each of the two threads has one
    if trials < 1 or every < 1 or steps < every:
        raise ParameterError(
            "trials and every start at 1, and a round has at least one call's steps.",
            "Leave them out to use the profile's.",
        )
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {
        "buffers_bytes": sizes,
        "steps": steps,
        "trials": trials,
        "python": platform.python_version(),
        "cpu": home,
    }
    cases = [("pinned", size) for size in sizes]
    if len(survey.cpus_allowed) > 1:
        cases.append(("unpinned", sizes[0]))
    else:
        run.note("missing", "This process may use one CPU only: the script was not run without its pin.")
    for trial, (place, size) in starts.each(
        run, cases, trials, label=lambda case: f"{memory.size_text(case[1])}, {case[0]}"
    ):
        cpus = [home] if place == "pinned" else survey.cpus_allowed
        records = _run_script([size, steps, every, TURNS], cpus)
        run.facts["global_lock"] = all(record["lock"] for record in records)
        run.add(
            [
                {
                    "placement": place,
                    "buffer_bytes": size,
                    "trial": trial,
                    "turn": record["trial"],
                    "threads": record["threads"],
                    "every": record["every"],
                    "steps": record["steps"],
                    "elapsed_ns": record["elapsed_ns"],
                    "cpu_ns": record["cpu_ns"],
                    "voluntary_switches": record["voluntary"],
                    "involuntary_switches": record["involuntary"],
                }
                for record in records
            ]
        )
    if not run.facts["global_lock"]:
        run.note("info", "This Python has no global lock: its threads run at the same time where they may.")


def _run_script(arguments: Sequence[int], cpus: Sequence[int]) -> list[workloads.Record]:
    """The script's records.  Its process ends with this call, whatever happens.

    Raises WorkloadError when it fails or takes longer than its deadline.
    """
    command = [sys.executable, "-I", str(SCRIPT), *map(str, arguments), str(DEADLINE_S)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            # Not a session of its own: each session is a task group (autogroup), and between two groups
            # nice values and the number of threads count for nothing.
            process_group=0,
            text=True,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), launch.MARKER: launch.owner_mark()},
        )
        try:
            placement.pin([process.pid], cpus)  # before its first thread starts: they all inherit it
            said, _ = process.communicate("go\n", timeout=DEADLINE_S + 5)
        except subprocess.TimeoutExpired:
            raise WorkloadError(
                f"The Python script did not finish within {DEADLINE_S} s.",
                "Give fewer steps, or close what else keeps this machine busy.",
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        errors.seek(0)
        complaint = errors.read(2000).decode(errors="replace").strip()
    lines = said.splitlines()
    if process.returncode or not lines or lines[-1] != "done":
        raise WorkloadError(f"The Python script failed: {complaint or 'it said nothing'}.")
    return [launch.parse(line) for line in lines[1:-1]]
