"""A Result of `watch` as one HTML file that needs no network, and its numbers for other programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ..core.errors import ResultError, SchedLabError
from ..core.render import render
from ..core.result import Result
from ..core.store import write_text
from . import report, timeline, wakers

TEMPLATE = Path(__file__).with_name("page.html.j2")
MOST_THREADS = 40
LEAST_MS = 0.05  # of every second: a thread that ran and waited for less would have a row of zeros
MOST_NAMES = 8  # in a graph


def html(result: Result) -> str:
    """The page: findings, threads, and the figures that this watch has the numbers for."""
    rows, threads = result.records("findings"), list(_threads(result))
    return render(
        TEMPLATE,
        program=result.parameters.get("program", "A program"),
        answer=report.answer(result),
        findings=[row | {"size": report.size_text(row)} for row in rows],
        threads=threads,
        more=len(result.data) - len(threads),
        price=result.facts.get("price", ""),
        timeline=timeline.values(result),
        figures=list(_figures(result)),
        wakers=wakers.table(result),
        notes=result.notes,
        provenance=result.provenance_line(),
    )


def write(result: Result, path: Path) -> None:
    """The page.  Raises ResultError for a place that cannot be written."""
    write_text(path, html(result))


def _threads(result: Result) -> Iterator[dict[str, Any]]:
    wanted = result.data["running_ms_per_s"] + result.data["waiting_ms_per_s"]
    shown = max(1, min(MOST_THREADS, int((wanted >= LEAST_MS).sum())))  # the busiest come first
    for row in result.data.head(shown).to_dict("records"):
        parts = {
            kind: float(row[f"{name}_ms_per_s"])
            for kind, name in (("run", "running"), ("wait", "waiting"), ("sleep", "asleep"))
        }
        whole = sum(parts.values()) or 1.0
        yield {
            "name": row["name"],
            "tid": row["tid"],
            "running": f"{parts['run']:,.1f}",
            "waiting": f"{parts['wait']:,.1f}",
            "asleep": f"{parts['sleep']:,.1f}",
            "asleep_for": row["asleep_for"] or "",
            "switches": f"{row['voluntary_per_s'] + row['involuntary_per_s']:,.0f}",
            "parts": [(kind, f"{100 * part / whole:.2f}") for kind, part in parts.items()],
        }


def _figures(result: Result) -> Iterator[tuple[str, str]]:
    """(title, figure) of each that there are numbers for; the figures are those of the chapters."""
    drawn = [
        ("What the waits went to", result),
        ("How long single waits were", histogram(result)),
        ("Who had the CPU after whom", graph(result)),
        ("Where in the kernel its threads were off the CPU", flame(result)),
    ]
    for title, one in drawn:
        if one is not None:
            with contextlib.suppress(SchedLabError):  # nothing waited, or nothing was switched
                yield title, one.plot()._repr_html_()


def histogram(result: Result) -> Result | None:
    """The waits as a result of runqlat.histogram; None where they were not counted."""
    if "waits" not in result.tables:
        return None
    return Result("runqlat.histogram", result.tables["waits"].assign(instrument="bpf"), result.machine, {})


def graph(result: Result) -> Result | None:
    """The switches by thread names as a result of switchgraph.window; None where they were not counted."""
    if "edges" not in result.tables:
        return None
    edges = result.tables["edges"]
    named = pd.DataFrame(
        {side: edges[f"{side}_name"].where(edges[f"{side}_tid"] != 0, "idle") for side in ("prev", "next")}
    ).assign(state=edges["state"], switches=edges["switches"])
    often = pd.concat([named.groupby(side)["switches"].sum() for side in ("prev", "next")])
    kept = set(often.groupby(level=0).sum().nlargest(MOST_NAMES).index)
    for side in ("prev", "next"):
        named[side] = named[side].where(named[side].isin(kept), "others")
    whole = named.groupby(["prev", "next", "state"])[["switches"]].sum().reset_index()
    return Result("switchgraph.window", whole, result.machine, {})


def flame(result: Result) -> Result | None:
    """The kernel's stacks as a result of offcpu.stacks; None where they were not noted."""
    if "stacks" not in result.tables:
        return None
    rows = result.tables["stacks"]
    longest = rows.groupby("name")["off_cpu_ns"].sum().nlargest(MOST_NAMES).index
    rows = rows[rows["name"].isin(longest)].rename(columns={"name": "role"})
    whole = rows.groupby(["role", "state", "stack"])[["times", "off_cpu_ns"]].sum().reset_index()
    return Result("offcpu.stacks", whole, result.machine, {})


def folded(result: Result) -> str:
    """Where threads were off the CPU, as folded stacks: `name;state;function;... µs`, one to a line.

    flamegraph.pl and speedscope read it.  Raises ResultError where the stacks were not noted.
    """
    if "stacks" not in result.tables:
        raise ResultError(
            "This watch noted no stacks.", "Watch with --stacks; it takes the privileged helper."
        )
    rows = result.tables["stacks"]
    whole = rows.groupby(["name", "state", "stack"])[["off_cpu_ns"]].sum().reset_index()
    lines = [
        f"{_frame(row['name'])};{row['state']};{row['stack']} {row['off_cpu_ns'] // 1000}\n"
        for row in whole.to_dict("records")
        if row["off_cpu_ns"] >= 1000
    ]
    return "".join(lines)


def _frame(name: str) -> str:
    """A thread's name as one frame of one line."""
    return "".join(one if one.isprintable() and one != ";" else "?" for one in name)
