"""The map of a machine: its CPUs, what each shares with which others, and how large the caches are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from .. import machine
from ..machine.files import cpu_ranges
from . import axes, style
from .base import Figure, canvas, listed, machine_name

# In units of the figure's width of 560.
_PAD, _GAP, _LINE, _LEAST = 9.0, 7.0, 17.0, 30.0
_MOST_WORDY = 16  # with more CPUs than this their boxes hold numbers only, and the caption says the rest


@dataclass
class _Box:
    """CPUs that share something: what it is called, and the boxes inside."""

    cpus: tuple[int, ...]
    names: list[str]
    inside: list[_Box] = field(default_factory=list)


def frame(survey: machine.Machine) -> pd.DataFrame:
    """What the map shows, one row per CPU that is online.

    - cpu: its number; allowed: whether this process may use it
    - core, socket, node: their numbers, missing where the machine does not tell
    - core_type: which kind of core, "" where all are alike
    - smt_siblings: the other CPUs of its core, as a list of ranges, "" for none
    - l1d_bytes, l2_bytes, l3_bytes: sizes of its data caches, missing where there is none or nobody tells
    - l1d_cpus, l2_cpus, l3_cpus: the CPUs that share each, itself among them, as a list of ranges
    """
    online = {cpu.number for cpu in survey.cpus}
    rows = []
    for cpu in survey.cpus:
        row: dict[str, Any] = {
            "cpu": cpu.number,
            "allowed": cpu.number in survey.cpus_allowed,
            "core": cpu.core,
            "socket": cpu.socket,
            "node": cpu.node,
            "core_type": cpu.core_type or "",
            "smt_siblings": cpu_ranges([c for c in cpu.siblings if c != cpu.number and c in online]),
        }
        caches = {c.level: c for c in survey.caches(cpu.number) if c.kind != "instruction"}
        for level, name in ((1, "l1d"), (2, "l2"), (3, "l3")):
            cache = caches.get(level)
            row[f"{name}_bytes"] = cache.size_bytes if cache else None
            row[f"{name}_cpus"] = cpu_ranges(sorted(online & set(cache.shared_cpus))) if cache else ""
        rows.append(row)
    table = pd.DataFrame(rows)
    numbers = ["core", "socket", "node", "l1d_bytes", "l2_bytes", "l3_bytes"]
    return table.astype(dict.fromkeys(numbers, "Int64"))


def draw(survey: machine.Machine, *, home: int | None = None) -> Figure:
    """Draw the map of a surveyed machine; `home` is a CPU to point out."""
    table = frame(survey)
    roots = _boxes(survey)
    wordy = len(table) <= _MOST_WORDY
    with style.drawing():
        height = _flow(roots, style.WIDTH - 2, wordy)[1] + 4
        drawing = canvas(height)
        drawing.set_layout_engine("none")  # one unit is one unit
        ax = drawing.add_axes((0, 0, 1, 1))
        ax.set_xlim(0, style.WIDTH)
        ax.set_ylim(height, 0)
        ax.set_axis_off()
        _put(ax, roots, 1, 2, style.WIDTH - 2, wordy, set(survey.cpus_allowed), home)
    hypervisor = survey.fact("host.hypervisor").value
    about = machine_name(survey.provenance())
    return Figure(
        drawing,
        "topology",
        alt=_alt(roots),
        caption=_caption(table, home, survey),
        provenance=f"{about}, as it describes itself in sysfs."
        + (f" A guest ({hypervisor}): this is what the hypervisor shows it." if hypervisor else ""),
        data=table,
        title="CPUs and what they share",
    )


# ---- who shares what ----


def _boxes(survey: machine.Machine) -> list[_Box]:
    """Sets of CPUs that share something, the smaller inside the larger; the innermost are single CPUs."""
    online = {cpu.number for cpu in survey.cpus}
    names: dict[tuple[int, ...], list[str]] = {}

    def call(cpus: Any, name: str) -> None:
        key = tuple(sorted(online & set(cpus)))
        if key and name not in names.setdefault(key, []):
            names[key].append(name)

    sockets = sorted({cpu.socket for cpu in survey.cpus if cpu.socket is not None})
    for socket in sockets if len(sockets) > 1 else []:
        call([cpu.number for cpu in survey.cpus if cpu.socket == socket], f"socket {socket}")
    for node in survey.nodes:
        held = node.memory_bytes if len(survey.nodes) > 1 else survey.fact("memory.total_bytes").value
        size = f", {axes.size_text(held, 2)}" if isinstance(held, int | float) and held else ""
        call(node.cpus, f"memory node {node.number}{size}")
    for level in (4, 3, 2, 1):
        for cpu in survey.cpus:
            for cache in survey.caches(cpu.number):
                if cache.level == level and cache.kind != "instruction":
                    letter = "d" if cache.kind == "data" else ""
                    call(cache.shared_cpus, f"L{level}{letter} {axes.size_text(cache.size_bytes)}")
    for cpu in survey.cpus:
        if len(online & set(cpu.siblings)) > 1:
            names.setdefault(tuple(sorted(online & set(cpu.siblings))), []).insert(0, "one core")
        names.setdefault((cpu.number,), []).insert(0, f"CPU {cpu.number}")
    for key, said in names.items():
        names[key] = list(dict.fromkeys(said))
    roots: list[_Box] = []
    for cpus in sorted(names, key=lambda key: (-len(key), key)):
        place = roots
        while outer := next((box for box in place if set(cpus) <= set(box.cpus)), None):
            place = outer.inside
        place.append(_Box(cpus, names[cpus]))
    return roots


# ---- where each box goes ----


def _header(box: _Box, room: float) -> list[str]:
    """The names of a frame: each on a line of its own for a core, which stays narrow, else as many as fit."""
    if len(box.cpus) <= 4 and not any(inner.inside for inner in box.inside) and box.names[0] == "one core":
        return box.names
    lines = [""]
    for name in box.names:
        longer = f"{lines[-1]}  ·  {name}" if lines[-1] else name
        if lines[-1] and _width(longer) > room:
            lines.append(name)
        else:
            lines[-1] = longer
    return lines


def _width(text: str) -> float:
    return 0.62 * style.SMALL * len(text)


def _size(box: _Box, room: float, wordy: bool) -> tuple[float, float]:
    if not box.inside:
        said = box.names if wordy else [str(box.cpus[0])]
        return max([_LEAST, *(_width(name) + 12 for name in said)]), _LINE * len(said) + 10
    width, height = _flow(box.inside, room - 2 * _PAD, wordy)
    names = _header(box, room - 2 * _PAD) if _named(box, wordy) else []
    widest = max([width, *(_width(name) for name in names)])
    return min(room, widest + 2 * _PAD), height + _LINE * len(names) + 2 * _PAD


def _named(box: _Box, wordy: bool) -> bool:
    """Whether there is room for the names: always where many CPUs are inside."""
    return wordy or len(box.cpus) > 4


def _flow(boxes: list[_Box], room: float, wordy: bool) -> tuple[float, float]:
    """How wide and high these boxes are, one beside the other, in as many rows as they need."""
    places = _places(boxes, room, wordy)
    return max(x + w for x, _, w, _ in places), max(y + h for _, y, _, h in places)


def _places(boxes: list[_Box], room: float, wordy: bool) -> list[tuple[float, float, float, float]]:
    places = []
    x = y = row = 0.0
    for box in boxes:
        width, height = _size(box, room, wordy)
        if x and x + width > room:
            x, y, row = 0.0, y + row + _GAP, 0.0
        places.append((x, y, width, height))
        x, row = x + width + _GAP, max(row, height)
    return places


def _put(
    ax: Axes, boxes: list[_Box], left: float, top: float, room: float, wordy: bool,
    allowed: set[int], home: int | None,
) -> None:  # fmt: skip
    for box, (x, y, width, height) in zip(boxes, _places(boxes, room, wordy), strict=True):
        cpu = None if box.inside else box.cpus[0]
        ink = style.colour(style.INK if cpu is None or cpu in allowed else style.RECORDED)
        ax.add_patch(
            Rectangle(
                (left + x, top + y), width, height,
                facecolor=style.colour(style.FLOOR if box.inside else style.PAPER), alpha=0.75,
                edgecolor=style.colour(style.DIRECT if cpu is not None and cpu == home else style.NEUTRAL),
                linewidth=3 if cpu is not None and cpu == home else 1,
            )
        )  # fmt: skip
        if cpu is None:
            names = _header(box, room - 2 * _PAD) if _named(box, wordy) else []
            under = top + y + _PAD + _LINE * len(names)
            for number, name in enumerate(names):
                ax.text(
                    left + x + _PAD,
                    top + y + _PAD + _LINE * number,
                    name,
                    va="top",
                    size=style.SMALL,
                    color=ink,
                )
            _put(ax, box.inside, left + x + _PAD, under, room - 2 * _PAD, wordy, allowed, home)
            continue
        for number, name in enumerate(box.names if wordy else [str(cpu)]):
            ax.text(
                left + x + width / 2, top + y + 5 + _LINE * (number + 0.5), name, ha="center", va="center",
                size=style.SMALL, color=ink, weight="bold" if number == 0 else "normal",
            )  # fmt: skip


# ---- in words ----


def _count(number: int, one: str, many: str) -> str:
    return f"one {one}" if number == 1 else f"{number} {many}"


def _caption(table: pd.DataFrame, home: int | None, survey: machine.Machine) -> str:
    cores = {tuple(cpu.siblings) for cpu in survey.cpus}
    paired = int((table["smt_siblings"] != "").sum())
    parts = [_count(len(table), "CPU", "CPUs")]
    if paired == len(table) and len({len(siblings) for siblings in cores}) == 1:
        parts.append(f"on {_count(len(cores), 'core', 'cores')}, {len(next(iter(cores)))} on each")
    elif paired:
        parts.append(f"on {_count(len(cores), 'core', 'cores')}: {paired} of them share a core with another")
    elif len(table) > 1:
        parts.append("and no two of them share a core, as far as the machine tells")
    last = next((name for name in ("l3", "l2", "l1d") if table[f"{name}_bytes"].notna().any()), None)
    if last:
        groups = table.loc[table[f"{last}_bytes"].notna(), [f"{last}_cpus", f"{last}_bytes"]]
        groups = groups.drop_duplicates()
        sizes = sorted({axes.size_text(int(size)) for size in groups[f"{last}_bytes"]})
        many = _count(len(groups), "last-level cache", "last-level caches")
        parts.append(f"{many} ({last.upper().replace('D', 'd')}) of {listed(sizes)}")
    else:
        parts.append("the machine does not tell its caches")
    nodes = table["node"].dropna().nunique()
    if nodes:
        parts.append(_count(nodes, "memory node", "memory nodes"))
    after = " " if len(table) > 1 else "; "  # of one CPU there is nothing to say of cores
    sentence = f"{parts[0][0].upper()}{parts[0][1:]}{after}" + "; ".join(parts[1:]) + "."
    if len(table) > _MOST_WORDY:
        near = [
            f"{name.upper().replace('D', 'd')} {listed(sorted({axes.size_text(int(s)) for s in known}))}"
            for name in ("l1d", "l2")
            if len(known := table[f"{name}_bytes"].dropna())
        ]
        sentence += f" Each has {listed(near)}." if near else ""
    if home is not None:
        sentence += f" CPU {home}, with the strong edge, is the one that the experiments on one CPU use."
    if not table["allowed"].all():
        sentence += " CPUs in grey may not be used by this process."
    return sentence


def _alt(roots: list[_Box]) -> str:
    def said(box: _Box) -> str:
        if not box.inside:
            return ", ".join(box.names)
        inside = "; ".join(said(inner) for inner in box.inside)
        return f"{', '.join(box.names)} with CPUs {cpu_ranges(list(box.cpus))}: ({inside})"

    return "Map of CPUs as boxes inside what they share. " + ". ".join(said(box) for box in roots) + "."
