"""Who wakes whom: the sleeps of a watch with stacks, by the place where each ended."""

from __future__ import annotations

from typing import Any

from ..core.result import Result
from ..draw import axes

MOST_ROWS = 12
# On every stack of its kind: they say nothing of what was waited for.
_SCHEDULER = (
    *("schedule", "__schedule", "preempt_schedule", "io_schedule"),
    *("try_to_wake_up", "default_wake_function", "wake_up_q", "wake_up_process", "autoremove_wake_function"),
    *("__wake_up", "wake_up_state", "ttwu_", "swake_up"),
)


def place(stack: str) -> str:
    """The innermost function that is not the scheduler's own; "" where no stack is known."""
    functions = [one for one in stack.split(";") if one and not one.startswith(_SCHEDULER)]
    return functions[-1] if functions else ""


def table(result: Result) -> list[dict[str, Any]]:
    """sleeper, at, waker, woke, times, slept: who ended the longest sleeps, in words; [] without stacks."""
    if "wakers" not in result.tables:
        return []
    rows = result.tables["wakers"]
    told = rows.assign(
        at=rows["stack"].map(place),
        waker=rows["waker_name"].where(rows["by"] != "interrupt", "an interrupt"),
        woke=rows["waker_stack"].map(place),
    )
    sums = told.groupby(["name", "at", "waker", "woke"], as_index=False)[["times", "slept_ns"]].sum()
    return [
        {
            "sleeper": row["name"],
            "at": row["at"],
            "waker": row["waker"],
            "woke": row["woke"],
            "times": f"{row['times']:,}",
            "slept": axes.time_text(row["slept_ns"]),
        }
        for row in sums.nlargest(MOST_ROWS, "slept_ns").to_dict("records")
    ]
