"""Do vector registers make a switch dearer?  Ping-pong with clean and with filled registers (lab L39)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

TOLERANCE = (
    0.02  # a block whose counted switches differ by more from two in a round trip is not what was meant
)
BASELINE, AGAIN = "integer", "integer_again"
TURNS = 4  # of every set of registers in one start, there and back


def summarise(result: Result) -> pd.DataFrame:
    """One row per set of registers that was filled before each hand-over.

    registers              integer (none), sse, avx, avx512 or neon
    in_use_bytes           state that was not in its initial value, as the processor says; else missing
    image_bytes            what holds all the state that this kernel has switched on; else missing
    vector_bytes           what of it the vector registers take: the legacy area and header, AVX, AVX-512, or
                           NEON; without matrix tiles, keys and the rest; missing where nobody said
    switch_ns, switch_lo_ns, switch_hi_ns   (round trip - calls alone) / switches: median, 95 % interval
    extra_ns, extra_lo_ns, extra_hi_ns      what the registers add to it, paired by trial; missing for integer
    floor_ns               the end of integer against integer's interval that is further from zero: smaller
                           differences are not seen
    seen                   all of the interval of extra stands clear of the floor
    switches_per_round_trip   as the kernel counted them, both sides
    trials

    The table `components` has every part of the state that this kernel has switched on: component, bytes.
    """
    data = starts.with_turns(result.data)
    per_switch = pd.DataFrame(
        {kind: _per_switch(part) for kind, part in data.groupby("registers", sort=False)}
    )
    again = stats.paired_difference(per_switch[AGAIN], per_switch[BASELINE])
    floor = max(abs(again.low), abs(again.high))
    rows = []
    for kind in (kind for kind in per_switch.columns if kind != AGAIN):
        exchange = data[(data.registers == kind) & (data.condition == "exchange")]
        extra = stats.paired_difference(per_switch[kind], per_switch[BASELINE]) if kind != BASELINE else None
        counted = (exchange.voluntary_switches + exchange.involuntary_switches) / exchange.round_trips
        image = result.facts["image_bytes"]
        rows.append(
            {
                "registers": kind,
                "in_use_bytes": float(exchange.in_use_bytes.median()),
                "image_bytes": np.nan if image is None else float(image),
                "vector_bytes": _vector_bytes(result.records("components")),
                **stats.spread("switch", "ns", per_switch[kind]),
                **stats.in_columns("extra", "ns", extra),
                "floor_ns": floor,
                "seen": extra is not None and stats.seen(extra, floor),
                "switches_per_round_trip": float(counted.median()),
                "trials": exchange.trial.nunique(),
            }
        )
    return pd.DataFrame(rows)


_LEGACY_AND_HEADER = 512 + 64  # x87 and SSE with what surrounds them, and the header (Intel SDM 1, 13.4)


def _vector_bytes(components: list[dict[str, Any]]) -> float:
    sizes = {row["component"]: row["bytes"] for row in components}
    if not sizes:
        return np.nan
    vectors = sum(size for name, size in sizes.items() if name.startswith(("avx", "neon")))
    return float(vectors + (_LEGACY_AND_HEADER if "sse" in sizes else 0))


def _per_switch(part: pd.DataFrame) -> pd.Series:
    """One value for each trial, median over its turns: what a counted switch took beyond its calls, in ns."""
    turns = part.pivot(index=["trial", "turn"], columns="condition")
    counted = turns["voluntary_switches"]["exchange"] + turns["involuntary_switches"]["exchange"]
    per_switch = (turns["elapsed_ns"]["exchange"] - turns["elapsed_ns"]["alone"]) / counted
    return per_switch.groupby("trial").median()


def instrument(survey: machine.Machine) -> Instrument:
    """Wall clock and counted switches; x86 processors also say which state is in use."""
    if survey.fact("cpu.arch").value == "x86_64":
        return Instrument(
            "clock, counted switches, and the processor's own account of its state (CPUID, XGETBV)"
        )
    return Instrument("clock and counted switches; this processor does not say which state is in use")


@experiment("fpu.state", summarise=summarise, instrument=instrument, workloads=("fpu",))
def state(run: Run, *, trials: int | None = None, round_trips: int | None = None) -> None:
    """Pass a byte between two threads on one CPU, with vector registers filled before each hand-over.

    trials       how often each set of registers is measured, each time in a new process, in which the sets
                 take four turns, there and back
    round_trips  in one turn

    Data: one row per trial, turn and condition, alone (the same calls and fills in one thread) or exchange:
    registers (integer_again is integer once more, for the noise), round_trips, elapsed_ns,
    voluntary_switches and involuntary_switches of both sides, in_use_bytes.  The fact
    image_bytes is the size of the whole state, and the table components has the bytes of each component.
    """
    trials = run.choose(tiny=3, quick=9, full=51) if trials is None else trials
    round_trips = run.choose(tiny=100, quick=1000, full=3000) if round_trips is None else round_trips
    if trials < 1 or round_trips < 1:
        raise ParameterError("trials and round_trips start at 1.", "Leave them out to use the profile's.")
    home = placement.quiet_cpu()
    run.begin()
    run.parameters |= {"trials": trials, "round_trips": round_trips, "cpu": home}
    run.facts |= {"image_bytes": None}

    for trial, _ in starts.each(run, ["all registers"], trials, label=str):
        arguments = ["--trials", str(TURNS), "--round-trips", str(round_trips)]
        with workloads.start("fpu", arguments, deadline_s=120) as fpu:
            placement.pin(fpu.tids, [home])
            image, *rest = fpu.run()
        blocks = [record for record in rest if record.kind == "block"]
        run.facts["image_bytes"] = image["bytes"] if image["bytes"] > 0 else None
        run.tables["components"] = [
            {"component": record.text("name"), "bytes": record["bytes"]}
            for record in rest
            if record.kind == "component"
        ]
        run.add(
            [
                {
                    "registers": block.text("registers"),
                    "trial": trial,
                    "turn": block["trial"],
                    "condition": block.text("condition"),
                    "round_trips": block["round_trips"],
                    "elapsed_ns": block["elapsed_ns"],
                    "voluntary_switches": block["voluntary"],
                    "involuntary_switches": block["involuntary"],
                    "in_use_bytes": block["in_use_bytes"] if block["in_use_bytes"] >= 0 else np.nan,
                }
                for block in blocks
            ]
        )
    _say_what_is_missing(run, pd.concat(run.rows))


def _say_what_is_missing(run: Run, data: pd.DataFrame) -> None:
    kinds = set(data.registers)
    if kinds <= {BASELINE, AGAIN}:
        run.note("missing", "This experiment knows no vector registers of this processor.")
    if "neon" in kinds:
        run.note(
            "missing", "SVE was left out: the kernel may drop the upper part of its registers at a call."
        )
    if data.in_use_bytes.isna().all():
        run.note("missing", "This processor does not say which part of its state is in use.")
    exchange = data[data.condition == "exchange"]
    counted = (exchange.voluntary_switches + exchange.involuntary_switches) / exchange.round_trips
    off = int((abs(counted / 2 - 1) > TOLERANCE).sum())
    if off > 0.05 * len(counted):
        run.note(
            "flag", f"In {off} of {len(counted)} blocks the kernel did not count two switches a round trip."
        )
