"""A CPU limit that held the program back, its own or one further up."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..causes import Causes
from ..seen import Seen
from .base import PAGES, Finding, how, share_of


def quota(seen: Seen, causes: Causes) -> Iterator[Finding]:
    lost = causes.long.get("throttled", 0.0)
    limited = seen.groups[seen.groups["throttled_periods"] > 0]
    if limited.empty:
        return
    row = limited.sort_values("throttled_ms_per_s").iloc[-1]
    own = seen.groups["path"].iloc[0] == row["path"] if len(seen.groups) else True
    whose = "its own control group" if own else "a control group around its own"
    cpus = f"{row['limit_cpus']:g} CPUs" if row["limit_cpus"] == row["limit_cpus"] else "a limit further up"
    fewer = "; or run no more busy threads than the limit has CPUs" if row["limit_cpus"] >= 1 else ""
    yield Finding(
        "quota",
        f"A CPU limit held it back: {whose}, {container(str(row['path']))}, may use {cpus}.",
        lost,
        share_of(lost, seen, causes),
        f"{row['throttled_periods']:.0f} of {row['periods']:.0f} periods of {row['period_us'] / 1000:g} ms "
        f"ran out of quota; throttled {row['throttled_ms_per_s']:,.0f} ms of every second, summed over CPUs "
        f"(cpu.stat). The part of the waits is {how(causes)}.",
        "A CPU that is full looks the same from inside; there nr_throttled stands still.",
        f"Raise the limit step by step: {seen.wanted / 1000:.1f} CPUs is the most that its threads can use, "
        f"because whoever is held back asks all the time{fewer}.",
        PAGES["quota"],
    )


def container(path: str) -> str:
    """A group's path with the names that systemd, Docker, containerd or Kubernetes have put into it."""
    words = []
    if pod := re.search(r"pod([0-9a-f]{8}[-_][0-9a-f_-]{27})", path):
        words.append(f"Kubernetes pod {pod[1].replace('_', '-')}")
    runtimes = "docker|cri-containerd|crio|libpod|containerd"
    box = re.search(rf"(?:{runtimes})[-/]([0-9a-f]{{12}})[0-9a-f]{{52}}", path)
    box = box or (re.search(r"/([0-9a-f]{12})[0-9a-f]{52}$", path) if "kubepods" in path else None)
    if box:
        words.append(f"container {box[1]}")
    if not words and (unit := re.findall(r"([^/]+\.(?:service|scope))", path)):
        words.append(f"systemd unit {unit[-1]}")
    return f"{', '.join(words)} ({path})" if words else path
