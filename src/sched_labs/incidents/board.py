"""The dashboard, and what is shown at the end."""

from __future__ import annotations

import textwrap
from typing import Any

from ..core.errors import SchedLabError
from . import causes, ledger
from .desk import Running
from .story import Plan

_WIDTH = 100  # of what is told
_PLACES = {
    "outside": "outside the service",
    "waiting": "waiting inside it",
    "in_work": "in work",
    "not_sent": "finished, not sent",
}


def facts(running: Running) -> dict[str, Any]:
    """What the dashboard shows, for other programs; see `meter.reading`.  Neither seed nor cause is in it."""
    return {
        "story": running.plan.name,
        "target_ms": running.plan.story.target_ms,
        "minutes": round(running.state["since_s"] / 60, 1),
        "folder": str(running.folder),
        "group": running.group.path if running.group else None,
        "programs": {
            role: {"name": name, "about": running.plan.story.program(role).about}
            for role, name in running.names.items()
        },
        "healthy": running.state["healthy"],
        "now": running.state["now"],
        "log": running.state["log"],
    }


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def text(running: Running) -> str:
    """The dashboard in a terminal."""
    now, well = running.state["now"], running.state["healthy"]
    names, target = running.names, running.plan.story.target_ms
    left = max(0.0, running.state["ends_s"] - running.state["alarm_s"] - running.state["since_s"])
    lines = [
        f"{running.plan.name}: {running.plan.story.title}",
        f"alarm {running.state['since_s'] / 60:.1f} min ago; ends by itself in {left / 60:.0f} min; "
        f"the last {now['seconds']:.0f} s beside a time when all was well",
        "",
        f"{'':<26}{'now':>10}{'well':>10}",
    ]
    rows = (
        ("requests, 1/s", "requests_per_s", "{:,.1f}"),
        (f"in time ({target} ms), %", "level", "{:.1%}"),
        ("p50, ms", "p50_ms", ""),
        ("p99, ms", "p99_ms", ""),
        ("refused, 1/s", "refused_per_s", "{:,.1f}"),
    )
    for title, key, form in rows:
        values = [form.format(one[key]) if form else _ms(one[key]) for one in (now, well)]
        lines.append(f"{title:<26}{values[0]:>10}{values[1]:>10}")
    lines += ["", "requests on their way, on average"]
    lines += [
        f"  {title:<24}{now['places'][key]:>10.2f}{well['places'][key]:>10.2f}"
        for key, title in _PLACES.items()
    ]
    head = (
        f"{'program':<11}{'pid':>8}{'CPU ms/s':>10}{'well':>7}{'switches/s':>12}{'well':>8}"
        f"{'MiB':>7}{'work/s':>9}{'well':>8}{'answers/s':>11}  "
    )
    lines += ["", head + "what it is"]
    for role, name in sorted(names.items(), key=lambda one: one[1]):
        a, b = now["programs"].get(role), well["programs"].get(role)
        if not a or not b:
            continue
        lines.append(
            f"{name:<11}{a['pid']:>8}{a['cpu_ms_per_s']:>10.0f}{b['cpu_ms_per_s']:>7.0f}"
            f"{a['switches_per_s']:>12.0f}{b['switches_per_s']:>8.0f}{a['rss_mib']:>7.1f}"
            f"{a['work_per_s']:>9.1f}{b['work_per_s']:>8.1f}{a['answers_per_s']:>11.1f}  "
            f"{running.plan.story.program(role).about}"
        )
    lines += ["", f"their files: {running.folder}/etc   their logs: {running.folder}/log"]
    lines.append("told once more: sched-labs incident story")
    if running.group:
        lines.append(f"the control group of all but the clients: {running.group.path}")
    lines += [f"  {line}" for line in running.state["log"][-5:]]
    return "\n".join(lines)


def _pages(names: set[str]) -> list[str]:
    return sorted({causes.CAUSES[name].page for name in names})


def opening(plan: Plan) -> str:
    """What is told at the beginning, and nothing of the cause."""
    told = [f"An invented incident. {plan.story.title}. Seed {plan.seed}.", *plan.text.split("\n\n")]
    return "\n\n".join(textwrap.fill(part, _WIDTH, break_on_hyphens=False) for part in told)


def revealed(running: Running) -> str:
    """The way from the symptom to the proof, what the player measured, and what else it might have been."""
    plan, entry = running.plan, ledger.of(running)
    cause, now, well = causes.CAUSES[plan.variant.cause], running.state["now"], running.state["healthy"]
    pids = {f"{role}_pid": pid for role, pid in running.pids.items()}
    parts = [
        f"The cause: {cause.name} - {cause.about}.",
        f"The symptom: in time were {well['level']:.1%} of the requests while all was well, "
        f"{running.state['sick']:.1%} when the alarm went off, and {now['level']:.1%} in the last seconds.",
        f"The way: {plan.proof(cause.name)}",
        f"The proof: {cause.asks}" + (f", in {cause.unit}." if cause.unit else "."),
    ]
    if "given" in entry:
        judged = causes.plain(entry["measured"])
        parts.append(f"You measured {entry['given']:.12g}; the judge, at that time, {judged}.")
    parts.append("What mends it, and there may be more:")
    parts += [f"  - {one.text.format(**plan.names, **pids, **_cpus())}" for one in plan.variant.repairs]
    parts.append("What looks the same from the dashboard, and is not the same:")
    parts += [
        f"  - {one.cause}: {plan.proof(one.cause)}" for one in plan.story.variants if one is not plan.variant
    ]
    if plan.story.suspect != cause.name:
        parts.append(f"The story led towards {plan.story.suspect}: a suspicion is not a measurement.")
    parts.append("In the book: " + ", ".join(_pages({one.cause for one in plan.story.variants})))
    return "\n".join(
        textwrap.fill(part, _WIDTH, subsequent_indent="    ", break_on_hyphens=False) for part in parts
    )


def _cpus() -> dict[str, int]:
    from .cast import cpus

    try:
        found = cpus()
    except SchedLabError:  # somebody has taken a CPU away meanwhile
        return {"rack": 0, "front": 0}
    return {"rack": found["rack"][0], "front": found["front"][0]}
