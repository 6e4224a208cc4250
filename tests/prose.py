"""Chapters run on machines that are not here: every experiment answers with a run that was recorded or
constructed.

The outputs of the cells are what a reader of that machine would see.  Which side each condition took is on
record.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jupytext
import numpy as np
import pandas as pd
import pytest

from sched_labs import machine
from sched_labs.book.chapters import Chapter
from sched_labs.claims.base import Judgement
from sched_labs.core.result import Result, recorded
from sched_labs.limits import cgroups
from sched_labs.reader.exercises import Exercise
from sched_labs.run.base import Experiment

Answer = Callable[[str, dict[str, Any]], Result]
_SUMMARY = Result.summary


@dataclass
class Run:
    """What a chapter printed, cell by cell, and which sides of its conditions it took."""

    outputs: dict[int, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)  # in sentences: what was printed, and what figures say
    reached: set[tuple[int, int, bool]] = field(default_factory=set)  # cell, line in it, which side

    @property
    def text(self) -> str:
        return "\n".join(self.said)


class Sides(ast.NodeTransformer):
    """Notes on each condition of a cell which side was taken: for `if` and for `a if b else c`."""

    def __init__(self, cell: int) -> None:
        self.cell, self.all = cell, set[tuple[int, int, bool]]()

    def _note(self, node: ast.stmt | ast.expr, side: bool) -> ast.Call:
        key = (self.cell, node.lineno * 1000 + node.col_offset, side)
        self.all.add(key)
        return ast.Call(ast.Name("_reached", ast.Load()), [ast.Constant(key)], [])

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        self.generic_visit(node)
        for side, name in ((True, "body"), (False, "orelse")):
            part = getattr(node, name)
            both = ast.Tuple([self._note(node, side), part], ast.Load())
            setattr(node, name, ast.Subscript(both, ast.Constant(1), ast.Load()))
        return node

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(self._note(node, True)))
        node.orelse.insert(0, ast.Expr(self._note(node, False)))
        return node


@functools.cache
def cells(chapter: Chapter) -> list[str]:
    notebook = jupytext.read(chapter.source)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def conditions(chapter: Chapter) -> set[tuple[int, int, bool]]:
    """Both sides of every condition in a chapter's cells."""
    found = set[tuple[int, int, bool]]()
    for number, source in enumerate(cells(chapter)):
        sides = Sides(number)
        sides.visit(ast.parse(source))
        found |= sides.all
    return found


def line(chapter: Chapter, cell: int, place: int) -> str:
    """The line of a condition, as `conditions` places it."""
    return cells(chapter)[cell].splitlines()[place // 1000 - 1].strip()


def run(chapter: Chapter, answer: Answer, told: dict[str, Any] | None = None) -> Run:
    """Run a chapter's cells, with `answer(kind, parameters)` in place of measuring.

    `told` is what the survey says otherwise than here; where it says anything, no group can be made.
    """
    with pytest.MonkeyPatch.context() as patch:
        here = machine.survey()
        facts = {key: replace(here.fact(key), value=value) for key, value in (told or {}).items()}
        elsewhere = replace(here, facts=here.facts | facts)
        patch.setattr(machine, "survey", lambda fresh=False: elsewhere)
        patch.setattr(cgroups, "possible", lambda: (not told, "The groups are not yours." if told else ""))
        patch.setattr(Experiment, "__call__", _answered_once(answer))
        patch.setattr(Result, "summary", _summed_up_once())
        return _run(chapter)


def _run(chapter: Chapter) -> Run:
    done = Run()
    names: dict[str, Any] = {"__name__": "chapter", "_reached": done.reached.add}
    for number, source in enumerate(cells(chapter)):
        names["display"] = show = _Show()
        tree = ast.fix_missing_locations(Sides(number).visit(ast.parse(source)))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(show):
            exec(compile(tree, f"{chapter.name}, cell {number}", "exec"), names)
            if last is not None:
                code = compile(ast.Expression(last.value), f"{chapter.name}, cell {number}", "eval")
                show(eval(code, names))
        done.outputs[number] = show.getvalue() + "\n".join(show.tables)
        done.said.append(show.getvalue())
    return done


def _answered_once(answer: Answer) -> Callable[..., Result]:
    """In place of measuring: the same run wherever a chapter asks for one of a kind again."""
    kept: dict[tuple[str, object], Result] = {}

    def run(self: Experiment, **given: Any) -> Result:
        key = (self.name, given.get("trouble"))  # all that answers look at
        if key not in kept:
            kept[key] = answer(self.name, given)
        return kept[key]

    return run


def _summed_up_once() -> Callable[[Result], pd.DataFrame]:
    """In place of `Result.summary`: sentences ask for it again and again, and no cell changes a run."""
    kept: dict[int, tuple[Result, pd.DataFrame]] = {}

    def summary(self: Result) -> pd.DataFrame:
        if id(self) not in kept:
            kept[id(self)] = (self, _SUMMARY(self))
        return kept[id(self)][1].copy()

    return summary


class _Show(io.StringIO):
    """What a cell prints, and what it shows: sentences, and besides them tables and other things."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = list[str]()

    def __call__(self, *shown: Any) -> None:
        for one in shown:
            if hasattr(one, "caption"):  # a figure: its sentence and its alternative text
                self.write(f"{one.caption}\n{one.alt}\n")
            elif isinstance(one, Judgement):
                self.write(f"{one!r}\n")
            elif isinstance(one, Exercise):
                self.write(f"{one.question}\n{one.why}\n")
            elif one is not None:
                self.tables.append(str(one))


_TIMES = re.compile(r"(\d[\d,]*(?:\.\d+)?) times (?:as \w+|\w+er|more|less)")


_NEGATIVE = re.compile(
    r"(?<![\w.)])[-−]\d[\d,.]* ?(%|[nµm]?s|points|times)? (less|more|fewer|later|longer|shorter)\b"
)


def contradictions(text: str) -> Iterator[str]:
    """Sentences that no run can make true: numbers that are none, and factors that point the other way."""
    for line in text.splitlines():
        if _NEGATIVE.search(line):
            yield f"less than nothing, said to be a way: {line.strip()}"
        if re.search(r"(?<![\w.)])[-−]0(\.0+)?(?![\w.])", line):
            yield f"less than nothing by nothing: {line.strip()}"
        if re.search(r"(?<![\w.])(nan|inf|NaN|<NA>|None)(?![\w-])", line):
            yield f"a number that is none: {line.strip()}"
        for match in _TIMES.finditer(line):
            factor = float(match[1].replace(",", ""))
            if factor < 1 and " times as " not in match[0]:
                yield f"a factor below one: {line.strip()}"


# Which way a comparison went.  Not the words of a quantile ("1 ms or more") and of what is counted ("longer
# than a tick"), which are true whatever the number beside them.
_DIRECTION = re.compile(
    r"\b(?<!or )(more|fewer|less|faster|slower|quicker|longer|shorter|cheaper|dearer|earlier|later|higher"
    r"|lower|better|worse|twice)\b(?! (\w+ )?than\b)"
)
_ASKED = ("predict",)  # a question names no outcome
_HOW = ("measured", "instead")  # what was subtracted from what


def directions(chapter: Chapter) -> Iterator[str]:
    """Words that say which way a comparison went, printed whichever way it did: in no branch of a cell."""
    for number, source in enumerate(cells(chapter)):
        for text in _unconditional(ast.parse(source)):
            if " " in text.strip() and _DIRECTION.search(text):
                yield f"cell {number}: {text.strip()}"


def _unconditional(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If | ast.IfExp):
        yield from _unconditional(node.test)
    elif isinstance(node, ast.Constant):
        yield from [node.value] if isinstance(node.value, str) else []
    elif not (
        (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ASKED)
        or (isinstance(node, ast.keyword) and node.arg in _HOW)
    ):
        for child in ast.iter_child_nodes(node):
            yield from _unconditional(child)


# ---- machines ----------------------------------------------------------------------------------------------
#
# Two were recorded.  The others are CONSTRUCTED of their runs: no machine measured them, and what they are
# for is that a sentence meets numbers that it was not written beside.

# What a run compares, in this order: the first of these columns that its data have.
COMPARED = (
    *("condition", "limit", "placement", "policy", "neighbour", "by", "lock", "client", "access", "regime"),
    *("registers", "distance", "observer", "pair", "what", "way", "rung", "loop"),
)
# Where that would make a run that cannot be: these names change places instead.
SWAPPED = {
    "context_switch.matrix": ("placement", ["same_cpu", "other_cpu"]),
    "warmup.sweep": ("access", []),
    "interpreter.script": ("threads", [1, 2]),
    "fpu.state": ("registers", ["integer", "avx"]),
    "policies.sweep": ("policy", ["OTHER", "FIFO"]),
    "convoy.locks": ("lock", ["mutex", "fifo"]),
    "connections.sweep": ("by", []),
    "pool.pinned": ("placement", ["pinned", "free"]),
    "ipc.causes": ("condition", ["streamer", "busy"]),
    "wakeplace.sweep": ("condition", ["idle CPUs", "bound to the waker"]),
    "wakepath.parts": ("situation", ["near", "idle"]),
    "dispatch.ways": ("way", ["exclusive", "reuseport"]),
    "weights.pairs": ("arrangement", ["one session", "two sessions"]),
    "inversion.waits": ("lock", ["mutex", "inherit"]),
    "napi.threaded": ("way", ["interrupt", "thread"]),
    "holder.waits": ("situation", ["mutex, quota", "file, quota"]),
    "shootdown.calls": ("condition", ["process", "threads"]),
    "runtimes.quota": ("setting", ["host", "quota"]),
    "colocation.batch": ("neighbour", ["beside", "cpu.idle"]),
    "balance.spread": ("situation", ["short", "long"]),
}


def recorded_machine(kind: str, _: dict[str, Any]) -> Result:
    """The one that the book's runs were recorded on: AMD, two CPUs, BPF, no counters, cgroup v1."""
    return _recorded(kind, "")


def intel_machine(kind: str, _: dict[str, Any]) -> Result:
    """The other one: Intel, and else as the first."""
    return _recorded(kind, "intel")


def _recorded(kind: str, machine: str) -> Result:
    found = recorded(kind, machine)
    assert found
    return found


def contrary_machine(kind: str, given: dict[str, Any]) -> Result:
    """That one, were every comparison to come out the other way round: the conditions change their names."""
    run = _elsewhere(intel_machine(kind, given))
    chosen = next((column for column in COMPARED if column in run.data), "")
    if kind == "warmup.sweep":  # nothing stands clear of the noise, and larger sets were not walked
        run.data = run.data[run.data["working_set_bytes"] <= 128 << 10].reset_index(drop=True)
        run.data["pass_ns"] = run.data["pass_ns"] * (1 + run.data["trial"] % 3)
        run.parameters = run.parameters | {"grid_partners_bytes": []}
    if kind == "offcpu.stacks":
        asleep = run.data[run.data["role"] == "sleeper"].assign(state="woken")
        run.data = pd.concat([run.data, asleep], ignore_index=True)
    column, names = SWAPPED.get(kind, (chosen, None))
    if not column:
        _contrary_besides(kind, run)
        return run
    names = list(dict.fromkeys(run.data[column])) if names is None else names
    _rename(run, column, names, list(reversed(names)))
    _contrary_besides(kind, run)
    return run


def _rename(run: Result, column: str, names: list[Any], others: list[Any], every: int = 1) -> None:
    """Let names change places in every so manieth trial of a run."""
    other = dict(zip(names, others, strict=True))
    for table in (run.data, *run.tables.values()):
        if column in table:
            turned = (table["trial"] % every == 0) if "trial" in table else True
            table[column] = table[column].where(
                ~pd.Series(turned, table.index), table[column].map(lambda name: other.get(name, name))
            )


def _times(run: Result, query: str, **factors: float) -> None:
    """Multiply columns of the rows that a query chooses."""
    rows = run.data.query(query).index
    for column, factor in factors.items():
        run.data[column] = run.data[column].astype(float)
        run.data.loc[rows, column] *= factor


def _as_others(run: Result, **others: str) -> None:
    """Let what was measured under some conditions be what was measured under others."""
    kept = run.data[~run.data["condition"].isin(list(others))]
    alike = [kept[kept["condition"] == other].assign(condition=name) for name, other in others.items()]
    run.data = pd.concat([kept, *alike], ignore_index=True)


def _contrary_besides(kind: str, run: Result) -> None:
    """What more than names comes out otherwise there."""
    if kind == "interpreter.script":  # the small buffer pays a tax, the large one none
        _times(run, "threads == 2 and every > 0 and buffer_bytes == buffer_bytes.min()", cpu_ns=3)
    elif kind == "policies.sweep":  # the fair scheduler keeps from the worker what it asks for
        blocks = run.tables["blocks"]
        kept = (blocks["policy"] == "OTHER") & (blocks["load"] == "heavy")
        blocks["worker_cpu_ns"] = blocks["worker_cpu_ns"].where(~kept, blocks["worker_cpu_ns"] // 3)
        run.data.loc[run.data["policy"] == "DEADLINE", "cpu"] = 99  # and a deadline thread goes elsewhere
    elif kind == "slices.sweep":  # other programs have half of the CPU
        run.tables["used"] = run.tables["used"].assign(cpu_ns=run.tables["used"]["cpu_ns"] / 2)
    elif kind == "wakepath.parts":  # and the sleeper's
        run.tables["cpus"] = run.tables["cpus"].assign(halted_percent=10.0)
    elif kind == "ticks.gaps":  # a hypervisor takes the CPU in a rhythm of its own
        run.facts["timer_interrupts"] //= 4
    elif kind == "quota.hog":  # the shortest stalls are as the formula has them
        shortest = "period_ns == period_ns.min() and share_percent == share_percent.min()"
        rows = run.data.query(shortest)
        formula_ns = rows["period_ns"].iloc[0] * (1 - rows["share_percent"].iloc[0] / 100)
        _times(run, shortest, gap_ns=formula_ns / rows["gap_ns"].median())
    elif kind == "batching.sweep":  # its last batch is half full
        run.parameters = run.parameters | {"events": 1500}
    elif kind == "ipc.causes":  # a busy neighbour costs as much as a streaming one
        _times(run, "condition in ('streamer', 'busy')", lines=0.5)
    elif kind == "migration.cost":
        _rename(run, "working_set_bytes", [16384, 4 << 20], [4 << 20, 16384])
    elif kind == "pool.pinned":
        _times(run, "placement == 'pinned'", p50_ns=0.5)
        _times(run, "placement == 'pinned' and intruder == 'none'", p99_ns=20)
        run.data["moves"] = run.data["moves"] * 0
    elif kind == "dispatch.ways":  # nobody stands behind a slow request
        _times(run, "way == 'reuseport'", late_ns=0.01)
    elif kind == "weights.pairs":  # no autogroup: what counts in one session counts between two
        run.facts["task_group"] = "the whole machine"
        data, shares = run.data, ["first_cpu_ns", "second_cpu_ns"]
        for name, like in (
            ("one session", "two sessions"),
            ("two sessions, autogroup", "alike"),
            ("two sessions, spread", "alike"),
        ):
            rows = data.loc[data["arrangement"] == like, shares]
            data.loc[data["arrangement"] == name, shares] = rows.to_numpy()
        data.loc[~data["arrangement"].str.startswith("two groups"), "task_groups"] = 1
    elif kind == "balance.spread":  # who naps stays where it is, who was held long leaves late
        trials = run.tables["trials"]
        trials.loc[trials["situation"] == "long", "first_ns"] *= 20
        trials.loc[trials["situation"] == "naps", ["first_ns", "spread_ns"]] = np.nan
    elif kind == "context_switch.matrix":
        run.data = _with_poll(run.data, 50)


def _with_poll(data: pd.DataFrame, quicker: int) -> pd.DataFrame:
    """The matrix with a hand-over by polling, from the futex between CPUs."""
    far = data[(data["placement"] == "other_cpu") & (data["mechanism"] == "futex")]
    polled = far.assign(mechanism="poll", elapsed_ns=far["elapsed_ns"] / quicker)
    polled[["voluntary_switches", "involuntary_switches"]] = 0
    return pd.concat([data, polled], ignore_index=True)


def even_machine(kind: str, given: dict[str, Any]) -> Result:
    """Two CPUs without BPF; what is compared is alike: in every other trial the conditions change names."""
    run = _elsewhere(recorded_machine(kind, given), cpu_model="an even processor")
    chosen = next((column for column in COMPARED if column in run.data), "")
    column, names = SWAPPED.get(kind, (chosen, None))
    if kind == "warmup.sweep":
        column = ""
    if kind.startswith(NEED_BPF):
        run.stands_in = "This machine has no BPF."
    elif column:
        names = list(dict.fromkeys(run.data[column])) if names is None else names
        _rename(run, column, names, list(reversed(names)), every=2)
    run.tables.pop("waits", None)
    if kind in ("slices.sweep", "ticks.gaps"):  # neither /boot nor /proc has the kernel's configuration
        run.machine["hz"] = None
    if kind == "ticks.gaps":  # the timer interrupts for more than what recurs
        run.facts["timer_interrupts"] *= 4
    if kind == "numa.chase":  # too little memory for a set that no cache holds
        run.data["working_set_bytes"] //= 256
    if kind == "own_program.watch" and given.get("trouble"):  # found, but second
        found = run.tables["findings"]
        run.tables["findings"] = pd.concat(
            [found.assign(name="nothing"), found.assign(name=given["trouble"])], ignore_index=True
        )
    if kind == "warmup.sweep":  # noise, and nothing else
        least = run.data.groupby(["access", "working_set_bytes"])["pass_ns"].transform("min")
        run.data["pass_ns"] = least * (1 + run.data.index % 3)
    if kind == "ipc.causes":  # neither what the partner touches makes a difference nor a neighbour
        _as_others(run, bare="switches", streamer="alone", busy="alone")
    if kind == "context_switch.matrix":  # another program has a turn in some round trips by pipe
        _times(run, "mechanism == 'pipe' and between == 'threads'", voluntary_switches=1.5)
    if (
        kind == "interpreter.script"
    ):  # a tax in every other trial, and calls that cost something in every other
        _times(run, "every > 0 and trial % 2", cpu_ns=0.5)
    if kind == "packets.udp":  # it counts no softirqs
        run.data["net_rx"] = np.nan
    if kind == "migration.cost":  # a kernel that counts no waits
        run.data["wait_ns"] = np.nan
    if kind == "wakeplace.sweep":
        run.data[["to_waking_ns", "to_wakeup_ns", "to_switch_ns", "to_running_ns"]] = np.nan
    if kind == "wakepath.parts":
        run.data[["waking_ns", "interrupt_ns", "wakeup_ns", "switch_ns"]] = np.nan
    return run


def large_machine(kind: str, given: dict[str, Any]) -> Result:
    """Bare metal with 64 CPUs, cgroup v2, HZ 1000 and hardware counters, four times as quick."""
    run = _elsewhere(
        recorded_machine(kind, given),
        cpus=64,
        cores=64,
        hz=1000,
        cpu_model="a processor with counters",
        virt="none",
    )
    for table in (run.data, *run.tables.values()):
        for column in table:
            told = pd.api.types.is_numeric_dtype(table[column])
            if told and column.endswith("_ns") and column not in ("tick_ns", "period_ns", "stall_ns"):
                table[column] = (table[column] / 4).astype(table[column].dtype)
    if kind == "warmup.sweep":
        later = run.data["condition"] == "after_switch"
        run.facts["events"] = ["LLC-load-misses"]
        run.data["LLC-load-misses"] = 10.0 + 90.0 * later
    if kind == "wakeplace.sweep":
        rows = run.data[run.data["condition"] == "idle CPUs"]
        both = [rows.assign(condition=name) for name in ("previous CPU busy", "low migration cost")]
        run.data = pd.concat([run.data, *both], ignore_index=True)
        parts = ("to_waking_ns", "to_wakeup_ns", "to_switch_ns", "to_running_ns")
        run.data = run.data.assign(**dict.fromkeys(parts, run.data["wait_ns"] / 4))
        idle = run.tables["idle"]
        more = [
            idle[idle["condition"] == "idle CPUs"].assign(condition=name)
            for name in ("previous CPU busy", "low migration cost")
        ]
        run.tables["idle"] = pd.concat([idle, *more], ignore_index=True)
    if kind == "context_switch.matrix":
        run.data = _with_poll(run.data, 50)
    if kind == "interpreter.script":  # the large buffer pays more
        _times(run, "threads == 2 and every > 0 and buffer_bytes == buffer_bytes.max()", cpu_ns=3)
    if kind == "fpu.state":  # a wide state, and no noise
        _times(run, "registers == 'avx512' and condition == 'exchange'", elapsed_ns=2)
    if kind == "weights.pairs":  # a group weighs as much on each CPU, as on Linux 7.3
        _times(run, "arrangement == 'two sessions, spread'", second_cpu_ns=2)
    if kind == "balance.spread":  # who was held long leaves sooner
        trials = run.tables["trials"]
        trials.loc[trials["situation"] == "long", "first_ns"] //= 100
    if kind == "dispatch.ways":  # everybody does
        _times(run, "way == 'reuseport'", late_ns=50)
    if kind == "tlb.switches":
        run.facts["events"] = ["dTLB-load-misses"]
        run.data["dTLB-load-misses"] = run.data["pages"].astype(float)
    if kind == "ipc.causes":
        run.data["cycles"], run.data["instructions"] = 400.0, 100.0
        _times(run, "condition == 'streamer'", lines=0.5)
    if kind == "service.latency":  # ten times as many requests
        run.data = pd.concat([run.data] * 10, ignore_index=True)
    if kind == "service.contention":  # no hogs' p99 is like the quota's
        _times(run, "neighbour == 'hogs'", latency_ns=5)
    if kind == "pool.pinned":  # free workers move much, and a pin wins
        _times(run, "placement == 'pinned'", p50_ns=0.25)
        free = run.data["placement"] == "free"
        run.data.loc[free, ["moves", "kernel_moves"]] = 100
        run.data.loc[free, "moved_work_p50_ns"] = run.data.loc[free, "stayed_work_p50_ns"] + 5_000
    if kind == "packets.udp":  # larger pieces are cut into several softirqs
        _times(run, "way == 'segments' and batch > 1", net_rx=3)
    if kind == "napi.threaded":  # work is no dearer without packets
        _times(run, "way == 'none'", hog_cpu_ns=0.8)
    if kind == "numa.chase":  # too little memory for a set that no cache holds
        run.data["working_set_bytes"] //= 256
    if kind == "own_program.watch" and given.get("trouble"):
        run.tables["findings"]["name"] = given["trouble"]
    return run


NEED_TWO = (
    "pool",
    "napi",
    "balance",
    "shootdown",
    "policies.hog",
    "smt",
    "numa",
    "reserved",
    "isolation",
)
NEED_BPF = ("attribution", "offcpu", "switchgraph", "observer")


def small_machine(kind: str, given: dict[str, Any]) -> Result:
    """One CPU, no BPF, no rights, and a kernel that tells little: the recorded run stands in for what needs
    more.
    """
    run = _elsewhere(recorded_machine(kind, given), cpus=1, cores=1, cpus_allowed="0", slice_ns=None)
    if kind.startswith(NEED_TWO + NEED_BPF):
        run.stands_in = "This machine has one CPU and no BPF."
        return run
    data = run.data
    if "placement" in data:
        data = data[~data["placement"].isin(["other_cpu", "unpinned"])]
    if "instrument" in data and (data["instrument"] != "bpf").any():
        data = data[data["instrument"] != "bpf"]
    for column, names in LACKING.items():
        if column in data and kind.startswith(names[0]):
            data = data[~data[column].isin(names[1:])]
    run.data = data.reset_index(drop=True)
    if kind == "quota.hog":  # no limit could be set
        blocks = run.tables["blocks"]
        run.tables["blocks"] = blocks[blocks.share_percent == 100]
    if kind == "weights.pairs":
        run.stands_in = "This machine is too small."
    if kind == "ticks.gaps":  # other programs have so much of the CPU that the gaps share no period
        run.tables["found"] = run.tables["found"].assign(period_ns=np.nan, strength=0.4)
        run.facts["timer_interrupts"] = None
    run.tables.pop("waits", None)
    if kind == "fpu.state":  # a wide state, and a processor that does not say what of it is in use
        run.data = run.data.replace({"registers": {"avx512": "neon"}}).assign(in_use_bytes=np.nan)
        _times(run, "registers == 'neon' and condition == 'exchange'", elapsed_ns=2)
    if kind == "tlb.switches":  # other address spaces cost nothing
        _as_others(run, processes_8="threads_8")
    if kind == "regimes.sweep":
        run.tables["blocks"] = run.tables["blocks"].assign(
            run_delay_ns=np.nan, timeslices=np.nan, counted=np.nan
        )
    if kind == "own_program.watch":
        run.facts["counted"] = False
        run.stands_in = "No control group can be made here." if given.get("trouble") == "quota" else ""
    if kind == "throttle.timeline":
        run.facts["watched"] = []
        run.tables.pop("spans", None)
    return run


# What the small machine's runs leave out: of a kind, in a column.
LACKING = {
    "distance": ("migration.", "same_cache"),
    "mechanism": ("context_switch.matrix", "yield"),
    "rung": ("reference.costs", "stack_switch", "hand_over"),
    "limit": ("service.", "quota", "quota + burst", "weight"),
    "policy": ("policies.sweep", "FIFO", "RR", "DEADLINE", "nice -10"),
    "lock": ("convoy.locks", "java_fair", "java_unfair", "java_fair_try", "java_unfair_try"),
    "share_percent": ("quota.hog", 10, 20, 50, 80),
    "condition": (
        ("wakeplace.", "ipc."),
        *("idle CPUs", "every CPU busy", "bound to an idle CPU", "sibling", "streamer", "busy"),
    ),
    "way": ("packets.", "segments"),
    "arrangement": ("weights.", "two sessions, spread", "two groups", "two groups, weight"),
    "situation": (
        ("inversion.", "wakepath.", "holder."),
        *("no hog", "hog", "nice", "idle", "haltpoll", "poll", "spinner"),
        *("mutex, quota", "mutex, quota + burst", "inherit, quota", "file, quota"),
    ),
    "runtime": ("runtimes.", "Go", "Java"),
    "neighbour": ("colocation.", "cpu.idle", "apart", "apart, quota"),
}


def _elsewhere(run: Result, **facts: Any) -> Result:
    tables = {name: table.copy() for name, table in run.tables.items()}
    return replace(
        run, machine=run.machine | facts, data=run.data.copy(), tables=tables, facts=dict(run.facts)
    )


MACHINES: dict[str, Answer] = {
    "recorded": recorded_machine,
    "intel": intel_machine,
    "contrary": contrary_machine,
    "large": large_machine,
    "even": even_machine,
    "small": small_machine,
}
TOLD = {"small": {"cpu.arch": "aarch64", "kernel.scheduler": None}}
