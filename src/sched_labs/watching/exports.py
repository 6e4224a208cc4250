"""A watch for other programs: a trace for Perfetto, folded stacks, Parquet and CSV.

The suffix says which: .perfetto or .pftrace, .folded, .parquet, .csv.  Names are those that programs gave
their threads: a spreadsheet calculates none of them, and none begins a frame or a line of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..core.errors import ParameterError, ResultError
from ..core.result import Result
from ..core.spreadsheet import csv
from ..core.store import at_home, write_bytes
from ..probes.switches import STATES
from . import lanes, page

THREADS = "threads"  # what the rows of the Result itself are called
# As the kernel writes them (TASK_RUNNING, TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE, EXIT_DEAD).
_STATES = dict(zip(STATES, (0, 1, 2, 16), strict=True))
_SEQUENCE = 1


def check(path: str | Path) -> None:
    """Refuse what cannot be written before a program is watched for it.

    Raises ParameterError for another suffix, and ResultError for a package that is not installed.
    """
    suffix = Path(path).suffix
    if suffix not in WRITERS:
        raise ParameterError(
            f"{Path(path).name!r} does not say what to write.", f"End it in {', '.join(WRITERS)}."
        )
    if suffix in _NEEDS:
        _import(_NEEDS[suffix])


def write(result: Result, path: str | Path, table: str = "turns") -> Path:
    """Write it where `path` says, as its suffix says; returns the path.

    `table` is what .parquet and .csv hold: one of the Result's tables, or "threads".  Raises ParameterError
    for another suffix or table, and ResultError for a package or a table that is not there, and for a place
    that cannot be written.
    """
    check(path)
    target = at_home(path)
    write_bytes(target, WRITERS[target.suffix](result, table))
    return target


def _table(result: Result, name: str) -> pd.DataFrame:
    if name == THREADS:
        return result.data
    if name == "turns":
        return lanes.turns(result)
    if name not in result.tables:
        raise ParameterError(
            f"This watch has no table {name!r}.", f"It has {', '.join([THREADS, *result.tables])}."
        )
    return result.tables[name]


def _csv(result: Result, table: str) -> bytes:
    return csv(_table(result, table)).encode(errors="backslashreplace")


def _parquet(result: Result, table: str) -> bytes:
    return bytes(_table(result, table).to_parquet(engine="pyarrow", index=False))


def _folded(result: Result, table: str) -> bytes:
    return page.folded(result).encode()


def _perfetto(result: Result, table: str) -> bytes:
    """The turns as the kernel's own events (sched_switch, sched_waking), one bundle for each CPU.

    Where turns are missing the thread that leaves is not the one that came: Perfetto counts such switches as
    mismatched.
    """
    protos = _import("perfetto").perfetto_trace_pb2
    rows = lanes.turns(result)
    names = {**rows.drop_duplicates("tid", keep="last").set_index("tid")["name"].to_dict(), 0: "swapper"}
    trace = protos.Trace()
    tree = trace.packet.add(trusted_packet_sequence_id=_SEQUENCE).process_tree
    for pid, threads in result.data.groupby("pid"):
        tree.processes.add(pid=int(str(pid))).cmdline.append(str(result.parameters.get("program", "")))
        for tid, name in zip(threads["tid"], threads["name"], strict=True):
            tree.threads.add(tid=int(tid), tgid=int(str(pid)), name=str(name))
    events: dict[int, list[Any]] = {int(cpu): [] for cpu in rows["cpu"].unique()}
    where = Places(rows)
    for row in rows.to_dict("records"):
        switch = protos.FtraceEvent(timestamp=row["at_ns"], pid=max(0, row["prev_tid"]))
        switch.sched_switch.prev_comm = str(names.get(row["prev_tid"], ""))
        switch.sched_switch.prev_pid = row["prev_tid"]
        switch.sched_switch.prev_state = _STATES[row["prev_state"]]
        switch.sched_switch.next_comm = str(names[row["tid"]])
        switch.sched_switch.next_pid = row["tid"]
        switch.sched_switch.prev_prio = switch.sched_switch.next_prio = 120
        events[row["cpu"]].append(switch)
        if not pd.isna(row["waking_ns"]):
            at = int(row["waking_ns"])
            waking = protos.FtraceEvent(timestamp=at, pid=max(0, row["waker_tid"]))
            waking.sched_waking.comm = str(row["name"])
            waking.sched_waking.pid = row["tid"]
            waking.sched_waking.prio, waking.sched_waking.success = 120, 1
            waking.sched_waking.target_cpu = row["cpu"]
            events[where.cpu_of(row["waker_tid"], at, row["cpu"])].append(waking)
    for cpu, found in events.items():
        bundle = trace.packet.add(trusted_packet_sequence_id=_SEQUENCE).ftrace_events
        bundle.cpu = cpu
        bundle.event.extend(sorted(found, key=lambda event: event.timestamp))
    return bytes(trace.SerializeToString())


class Places:
    """On which CPU a thread had its last turn before a moment."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.of = {
            tid: (part["at_ns"].to_numpy(), part["cpu"].to_numpy())
            for tid, part in rows.sort_values("at_ns").groupby("tid")
        }

    def cpu_of(self, tid: int, at_ns: int, otherwise: int) -> int:
        times, cpus = self.of.get(tid, ((), ()))
        number = int(np.searchsorted(times, at_ns, side="right")) - 1
        return int(cpus[number]) if number >= 0 and tid > 0 else otherwise


def _import(package: str) -> Any:
    module = {"perfetto": "perfetto.protos.perfetto.trace"}.get(package, package)
    try:
        if package == "perfetto":
            importlib.import_module(f"{module}.perfetto_trace_pb2")
        return importlib.import_module(module)
    except ImportError:
        raise ResultError(
            f"The package {package} is not installed, which writes such a file.",
            "pip install 'sched-labs[export]', or another format: .csv needs nothing.",
        ) from None


WRITERS: dict[str, Callable[[Result, str], bytes]] = {
    ".perfetto": _perfetto,
    ".pftrace": _perfetto,
    ".folded": _folded,
    ".parquet": _parquet,
    ".csv": _csv,
}
_NEEDS = {".perfetto": "perfetto", ".pftrace": "perfetto", ".parquet": "pyarrow"}
