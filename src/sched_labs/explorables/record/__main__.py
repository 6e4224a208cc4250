"""Record anew what the explorables replay: all of it, or what is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from ...core import store
from ...core.result import recorded
from .. import RECORDED, mine
from . import hardware, instructions, scheduler

_VIRTUAL = (
    "one emulated CPU in virtual time: ticks come as on a real one, but every instruction takes 1 ns. {date}."
)
_TRACED = f"Recorded: the sched_switch trace of {{kernel}}, HZ 250, {_VIRTUAL}"


def _omission() -> tuple[Any, str]:
    shipped = recorded("omission.compared")
    assert shipped is not None
    return mine.of_clients(shipped)


_ALL: dict[str, tuple[Callable[[], tuple[Any, str]], str]] = {
    "roundrobin": (scheduler.round_robin, _TRACED),
    "picking": (scheduler.picking, f"Recorded: trace and scheduler state of {{kernel}}, HZ 250, {_VIRTUAL}"),
    "condvar": (scheduler.condvar, _TRACED),
    "switch": (
        instructions.switch,
        "Recorded: every instruction of {kernel} on an emulated CPU. It counts work, not time: a CPU may "
        "wait hundreds of cycles for one of them. {date}.",
    ),
    "wakeup": (hardware.wake_ups, "Recorded: {kernel}. The wake-up of the median length is shown. {date}."),
    "omission": (_omission, "The model is exact; the run was recorded on {kernel}."),
}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def main() -> None:
    for name in sys.argv[1:] or _ALL:
        make, about = _ALL[name]
        data, kernel = make()
        whole = {"about": about.format(kernel=kernel, date=store.now()[:10]), "data": _rounded(data)}
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
        (RECORDED / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name}: {kernel}, {len(text)} bytes")


if __name__ == "__main__":
    main()
