"""What threads cost that do nothing: memory by kind, memory by touch, and time to start."""

from __future__ import annotations

import pandas as pd

from sched_labs.draw import axes, style
from sched_labs.draw.base import Drawable, Figure, Predictions, columns, draws
from sched_labs.draw.panels import SIZE, TIME, Panel, Series, check_predictions, dot_figure, lines

MEMORY, TOUCH, CREATION = "threads.memory", "threads.touch", "threads.creation"
PARTS = {
    "vm": "address space",
    "rss": "resident (RES)",
    "kernel_stack": "kernel stacks",
    "page_table": "page tables",
    "slab": "kernel objects",
    "lost": "the machine lost",
}
THINGS = {"thread": "a thread", "process": "a process"}
_LEAST = 256.0  # bytes; less is nothing


def frame(result: Drawable) -> pd.DataFrame:
    """What the figure of memory shows, one row per stack size and kind of memory.

    - stack_bytes: the size of the stacks
    - threads: how many
    - part: "vm", "rss", "kernel_stack", "page_table", "slab" or "lost"
    - bytes_per_thread, lo_bytes_per_thread, hi_bytes_per_thread: median and 95 % interval; may be below zero,
      where other programs gave memory back

    Raises ResultError when nothing was measured.
    """
    wanted = [f"{part}_{end}" for part in PARTS
              for end in ("bytes_per_thread", "lo_bytes_per_thread", "hi_bytes_per_thread")]  # fmt: skip
    table = columns(result.summary(), ["stack_bytes", "threads", *wanted], "The summary of these threads")
    rows = []
    for _, row in table.iterrows():
        for part in PARTS:
            rows.append(
                {"stack_bytes": int(row.stack_bytes), "threads": int(row.threads), "part": part}
                | {
                    f"{end}bytes_per_thread": row[f"{part}_{end}bytes_per_thread"]
                    for end in ("", "lo_", "hi_")
                }
            )
    return pd.DataFrame(rows)


def _wide(table: pd.DataFrame) -> tuple[pd.DataFrame, list[Panel]]:
    """A row per part, and a panel per stack size."""
    wide, panels = pd.DataFrame({"part": list(PARTS)}), []
    for stack, rows in table.groupby("stack_bytes", sort=False):
        by_part = rows.set_index("part")
        names = [f"{stack}_{end}" for end in ("middle", "low", "high")]
        for name, column in zip(names, ("bytes_per_thread", "lo_bytes_per_thread", "hi_bytes_per_thread"),
                                strict=True):  # fmt: skip
            wide[name] = wide["part"].map(by_part[column])
        title = f"For each thread with a stack of {axes.size_text(float(str(stack)))}"
        panels.append(Panel(title, names[0], SIZE, names[1], names[2], least=_LEAST))
    return wide, panels


@draws(MEMORY)
def draw_memory(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw each kind of memory for each thread; predictions are sizes."""
    table = frame(result)
    wide, panels = _wide(table)
    figure = dot_figure(
        wide,
        panels,
        key="part",
        names=PARTS,
        roles={"vm": style.ALONE, "rss": style.ALONE},
        pale=lambda kept: _wide(frame(kept))[0].reindex(columns=wide.columns),
        recorded=recorded,
        predictions=predictions,
        caption=_memory_caption(table),
        title="Memory of a sleeping thread, by kind",
    )
    figure.data = table
    return figure


def _memory_caption(table: pd.DataFrame) -> str:
    first = table[table["stack_bytes"] == table["stack_bytes"].iloc[0]]
    lost = first[first["part"] == "lost"].iloc[0]
    size = first.set_index("part")["bytes_per_thread"].map(lambda value: axes.size_text(float(value)))
    end = "and what the machine lost is hidden by what other programs took and gave"
    if lost.lo_bytes_per_thread > 0:
        end = f"and the machine lost {size['lost']} for each"
    return (
        f"Each of {first.threads.iloc[0]:,} sleeping threads with a stack of "
        f"{axes.size_text(float(first.stack_bytes.iloc[0]))} takes {size['rss']} of resident memory; the "
        f"kernel keeps {size['kernel_stack']} more as its stack, {end}."
    )


def frame_touch(result: Drawable) -> pd.DataFrame:
    """What the figure of touching shows, one row per step.

    - step: 0 before malloc(), 1 after it, then the steps of touching
    - touched_bytes, vm_bytes, rss_bytes, rss_lo_bytes, rss_hi_bytes: changes from step 0
    - asked_bytes: what malloc() was asked for

    Raises ResultError when nothing was measured.
    """
    wanted = ["step", "touched_bytes", "vm_bytes", "rss_bytes", "rss_lo_bytes", "rss_hi_bytes", "asked_bytes"]
    return columns(result.summary(), wanted, "The summary of these steps")


@draws(TOUCH)
def draw_touch(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw address space and resident memory over what was touched; predictions are sizes."""
    table = frame_touch(result)
    shown = table[table["step"] > 0].assign(value=lambda d: d.vm_bytes)
    resident = shown.assign(value=shown.rss_bytes)
    panel = Panel("Size of the process, beyond what it was", "value", SIZE)
    check_predictions([panel], predictions)
    series = [
        Series(shown, "address space (VmSize)", style.ALONE, "s"),
        Series(resident, "resident memory (RSS)", style.DIRECT),
    ]
    if recorded is not None:
        pale = frame_touch(recorded)
        pale = pale[pale["step"] > 0].assign(value=lambda d: d.rss_bytes)
        series.insert(0, Series(pale, "recorded: resident memory", style.RECORDED))
    drawing = lines(
        series,
        [panel],
        x=Panel("touched", "touched_bytes", SIZE),
        height=270,
        predictions=predictions,
        linear=True,
    )
    asked = axes.size_text(float(table["asked_bytes"].iloc[0]))
    at_once, last = shown.iloc[0], shown.iloc[-1]
    caption = (
        f"malloc() of {asked} adds {axes.size_text(at_once.vm_bytes)} of addresses at once and "
        f"{axes.size_text(at_once.rss_bytes)} of memory; touching all of it adds "
        f"{axes.size_text(last.rss_bytes - at_once.rss_bytes)} of memory and "
        f"{axes.size_text(last.vm_bytes - at_once.vm_bytes)} of addresses."
    )
    return Figure(
        drawing,
        alt="Two lines over the touched bytes, from first to last: "
        f"address space {axes.size_text(at_once.vm_bytes)} and {axes.size_text(last.vm_bytes)}, "
        f"resident memory {axes.size_text(at_once.rss_bytes)} and {axes.size_text(last.rss_bytes)}.",
        caption=caption,
        data=table,
        title="Address space and resident memory, by touch",
    )


def frame_creation(result: Drawable) -> pd.DataFrame:
    """What the figure of creation shows, one row per what was started.

    - what: "thread" or "process"
    - ns_each, ns_lo_each, ns_hi_each: to start one and wait for its end, median and 95 % interval

    Raises ResultError when nothing was measured.
    """
    return columns(
        result.summary(), ["what", "ns_each", "ns_lo_each", "ns_hi_each"], "The summary of creation"
    )


@draws(CREATION, short_times=True)
def draw_creation(result: Drawable, recorded: Drawable | None, predictions: Predictions) -> Figure:
    """Draw the time to start a thread and a process; predictions are times."""
    panels = [Panel("To start one and wait for its end", "ns_each", TIME, "ns_lo_each", "ns_hi_each")]
    table = frame_creation(result)
    times = {str(row.what): axes.time_text(float(row.ns_each)) for _, row in table.iterrows()}
    said = " and ".join(f"{THINGS.get(what, what)} {time}" for what, time in times.items())
    return dot_figure(
        table,
        panels,
        key="what",
        names=THINGS,
        roles={},
        pale=frame_creation,
        recorded=recorded,
        predictions=predictions,
        alt="Dot plot on a logarithmic axis.",
        caption=f"To start one and see it end: {said}.",
        title="Time to start a thread and a process",
    )
