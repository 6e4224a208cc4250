"""What an explorable shows, measured on this machine: the same data, from the reader's own run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from .. import machine, workloads
from ..core import lock, store
from ..steer import placement
from ..topics.scheduler_latency.omission import experiment as clients

_MS = 1e6


def round_robin() -> tuple[Any, str]:
    """2, 4 and 8 threads that never sleep on one CPU, as they see their own turns (burn.c), unprivileged."""
    cpu = placement.quiet_cpu()
    found = {}
    with lock.machine("the round robin"):
        for count in (2, 4, 8):
            words = ["--workers", str(count), "--duration-ms", "150"]
            with workloads.start("burn", words, deadline_s=20) as burn:
                placement.pin(burn.tids, [cpu])
                records = burn.run()
            gaps = [r for r in records if r.kind == "gap" and r["switches"] > 0]
            found[str(count)] = turns(
                [(r["worker"], r["at_ns"], r["ns"]) for r in gaps], begin_ms=40, length_ms=84
            )
    return {"threads": found}, _provenance()


def turns(gaps: list[tuple[int, int, int]], begin_ms: float, length_ms: float) -> list[list[float]]:
    """From each thread's gaps (thread, at, length in ns) to what ran: [[thread, from, to], ...] in ms."""
    table = pd.DataFrame(gaps, columns=["who", "at", "ns"]).sort_values(["who", "at"])
    table["from"] = (table["at"] + table["ns"]) / _MS - begin_ms
    table["to"] = table.groupby("who")["at"].shift(-1) / _MS - begin_ms
    ran = table.dropna().query("`to` > 0 and `from` < @length_ms").sort_values("from")
    ran = ran.assign(**{"from": ran["from"].clip(lower=0), "to": ran["to"].clip(upper=length_ms)})
    place = {who: n for n, who in enumerate(ran["who"].drop_duplicates())}
    return [
        [place[who], begin, end] for who, begin, end in ran[["who", "from", "to"]].itertuples(index=False)
    ]


def omission() -> tuple[Any, str]:
    """Two clients of a server that stalls once, measured (`omission.compared`)."""
    data, about = of_clients(clients.compared(trials=1, progress=False))
    return data | {"values": {"show": "run"}}, about


def of_clients(result: Any, before_ms: float = 40, length_ms: float = 150) -> tuple[Any, str]:
    """A run of `omission.compared` for the explorable: {"run": {client: [[sent_ms, took_ms], ...], ...}}."""
    first = result.data[result.data["trial"] == result.data["trial"].min()]
    stall = result.parameters["blocks"][0]["stall_ns"] / _MS
    run: dict[str, Any] = {"stall": stall, "period": result.parameters["period_us"] / 1e3}
    for name, rows in first.groupby("client"):
        slowest = rows.loc[rows["took_ns"].idxmax()]
        sent = rows["sent_ns"] / _MS - slowest["sent_ns"] / _MS + before_ms
        near = (sent >= 0) & (sent < length_ms)
        run[str(name)] = [[s, t] for s, t in zip(sent[near], rows["took_ns"][near] / _MS, strict=True)]
    return {"run": run}, result.provenance_line()


def wakeup() -> tuple[Any, str]:
    """The way of a wake-up on this machine.  Needs root and BCC: raises ProbeError without."""
    from .record import hardware

    with lock.machine("the way of a wake-up"):
        found, _ = hardware.wake_ups()
    return found, _provenance()


def _provenance() -> str:
    facts = machine.survey().provenance()
    when = store.now().replace("T", " ")[:16]
    return f"Measured here: {facts['cpu_model']}, Linux {facts['kernel']}, {when} UTC."


MEASURED: dict[str, Callable[[], tuple[Any, str]]] = {
    "roundrobin": round_robin,
    "omission": omission,
    "wakeup": wakeup,
}
