"""How much longer does a load take when the memory belongs to another node?  (lab L36)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import Result
from sched_labs.run import memory
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.run.memory import MIB
from sched_labs.steer import placement

MOST_NODES = 8  # more are measured from the quiet CPU's node only


def summarise(result: Result) -> pd.DataFrame:
    """One row per working set, node of the CPU and node of the memory; -1 where the machine tells no nodes.

    working_set_bytes, cpu_node, memory_node
    firmware_distance           what the firmware says of the two: 10 is the same node; missing if unknown
    load_ns, load_lo_ns, load_hi_ns   one load that waits for the one before: median, 95 % interval
    local                       the memory is of the CPU's own node
    slowdown_ratio, slowdown_lo_ratio, slowdown_hi_ratio   over local memory, paired by trial; missing there
    pages_there_share           the part of the pages that the kernel says are on that node; missing if untold
    largest_cache_bytes         of this machine; missing if unknown
    trials
    """
    distances = {
        (int(a), int(b)): value
        for a, row in result.facts["firmware_distances"].items()
        for b, value in row.items()
    }
    known = [result.machine.get(key) for key in ("l1d_bytes", "l2_bytes", "l3_bytes")]
    cache = max((float(size) for size in known if isinstance(size, int | float)), default=np.nan)
    rows = []
    for (size, cpu_node), part in result.data.groupby(["working_set_bytes", "cpu_node"], sort=False):
        each = part.assign(load=part["elapsed_ns"] / part["loads"]).pivot(
            index="trial", columns="memory_node", values="load"
        )
        for node in part["memory_node"].unique():
            local = bool(node == cpu_node)
            ratio = None
            if not local and cpu_node in each:
                pair = each[[node, cpu_node]].dropna()
                ratio = stats.median_interval(pair[node] / pair[cpu_node]) if len(pair) else None
            of = part[part["memory_node"] == node]
            rows.append(
                {
                    "working_set_bytes": int(str(size)),
                    "cpu_node": int(str(cpu_node)),
                    "memory_node": int(node),
                    "firmware_distance": float(distances.get((int(str(cpu_node)), int(node)), np.nan)),
                    **stats.spread("load", "ns", each[node].dropna()),
                    "local": local,
                    **stats.in_columns("slowdown", "ratio", ratio),
                    "pages_there_share": float((of["pages_there"] / of["pages"]).iloc[0]),
                    "largest_cache_bytes": cache,
                    "trials": len(each[node].dropna()),
                }
            )
    return pd.DataFrame(rows)


def instrument(survey: machine.Machine) -> Instrument:
    """The victim's clock; where its memory is, as the kernel tells."""
    if len(survey.nodes) < 2:
        return Instrument("time per load, one memory node", "a machine with two nodes adds remote memory")
    return Instrument("time per load, and where the pages are")


@experiment("numa.chase", summarise=summarise, instrument=instrument, workloads=("nodes",))
def chase(
    run: Run,
    *,
    working_sets_bytes: Sequence[int] | None = None,
    trials: int | None = None,
    loads: int | None = None,
    seed: int = 1,
) -> None:
    """Walk memory of each node from a CPU of each node, in random order.

    working_sets_bytes  default: a set that fits into the second-level cache, where nodes make no difference,
                        and one of four last-level caches, at most 64 MiB, in full 1 GiB, or two such caches
                        where that is more; never more than an eighth of the available memory for all nodes
    trials              how often; within a trial the nodes take turns, and their order turns round
    loads               how many loads are timed at once
    seed                of the random order

    Data: one row per trial: working_set_bytes, cpu, cpu_node, memory_node (-1 where the machine tells no
    nodes), trial, loads, elapsed_ns, pages, pages_there (on that node; missing if the kernel does not tell).
    Memory is bound to its node with mbind(2), in the smallest pages.  The fact firmware_distances is what the
    firmware says of the nodes, node by node.
    """
    survey = machine.survey()
    home = placement.quiet_cpu()
    last, second = memory.caches(survey)[-1], memory.second_level(survey)
    most = (memory.available(survey) or memory.UNKNOWN_AVAILABLE) // 8
    with_memory = [node.number for node in survey.nodes if node.memory_bytes is None or node.memory_bytes > 0]
    if working_sets_bytes is None:
        far = {  # where four last-level caches are too much, two of them
            "tiny": 2 * second,
            "quick": min(4 * last, max(2 * last, 64 * MIB)),
            "full": min(4 * last, max(2 * last, 1024 * MIB)),
        }
        room = most // max(1, len(with_memory))
        sizes = sorted({max(4096, min(second // 2, room)), max(4096, min(far[run.profile], room))})
    else:
        sizes = list(working_sets_bytes)
    memory.check("working_sets_bytes", sizes, 4096)
    memory.check_room(max(sizes) * max(1, len(with_memory)), 0, survey)
    trials = run.choose(tiny=3, quick=9, full=25) if trials is None else trials
    loads = run.choose(tiny=2_000, quick=50_000, full=500_000) if loads is None else loads
    if trials < 1 or not 1 <= loads <= 1_000_000_000:
        raise ParameterError("trials start at 1, and loads lie between 1 and 1,000,000,000.")
    cpu_of = {
        node.number: [cpu for cpu in survey.cpus_allowed if cpu in node.cpus][-1]
        for node in survey.nodes
        if set(node.cpus) & set(survey.cpus_allowed)
    }
    own = next((node.number for node in survey.nodes if home in node.cpus), -1)
    cpu_of = {own: home} if own < 0 or len(cpu_of) > MOST_NODES else cpu_of | {own: home}
    if len(with_memory) < 2:
        run.note("missing", "This machine has one memory node: there is no remote memory to measure.")
    run.begin()
    run.parameters |= {
        "working_sets_bytes": sizes,
        "trials": trials,
        "loads": loads,
        "cpus": {str(node): cpu for node, cpu in cpu_of.items()},
    }
    run.facts |= {"firmware_distances": _distances(survey)}
    cells = [(size, node) for size in sizes for node in cpu_of]
    for size, node in run.each(cells, label=lambda c: f"{memory.size_text(c[0])}, from node {c[1]}"):
        words = ["--working-set", size, "--line", survey.line_bytes, "--loads", loads, "--trials", trials]
        words += ["--seed", seed, *(word for number in with_memory for word in ("--node", number))]
        with workloads.start("nodes", [str(word) for word in words], deadline_s=120) as victim:
            placement.pin(victim.tids, [cpu_of[node]])
            records = victim.run()
        pages = {r["node"]: r for r in records if r.kind == "ring"}
        run.add(
            [
                {
                    "working_set_bytes": size,
                    "cpu": cpu_of[node],
                    "cpu_node": node,
                    "memory_node": record["node"],
                    "trial": record["trial"],
                    "loads": record["loads"],
                    "elapsed_ns": record["ns"],
                    "pages": pages[record["node"]]["pages"],
                    "pages_there": float(pages[record["node"]].values.get("there", np.nan)),
                }
                for record in records
                if record.kind == "block"
            ]
        )
    _check_places(run)


def _distances(survey: machine.Machine) -> dict[str, dict[str, int]]:
    """The firmware's distances, as JSON holds them: node -> node -> distance."""
    numbers = [str(node.number) for node in survey.nodes]
    return {str(node.number): dict(zip(numbers, node.distances, strict=False)) for node in survey.nodes}


def _check_places(run: Run) -> None:
    data = pd.concat(run.rows)
    told = data[data["pages_there"].notna()]
    if (told["pages_there"] < told["pages"]).any():
        run.note("flag", "Not all pages are on the node that they were bound to.")
