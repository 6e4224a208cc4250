"""What this machine is, what each experiment will measure with here, and what would improve it (lab L38)."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

import pandas as pd

from .. import machine, workloads
from ..core import registry
from ..core.errors import SchedLabError
from ..probes import runqlat

# The facts that decide how numbers are to be read; the whole survey is in `.machine.table()`.
FIRST = (
    "kernel.release", "kernel.scheduler", "kernel.preemption", "kernel.hz", "kernel.lockdown", "clock.source",
    "cpu.model", "cpu.allowed", "cpu.smt", "cpu.governor", "cpu.turbo", "cache.l1d_bytes", "cache.l2_bytes",
    "cache.l3_bytes", "numa.nodes", "memory.available_bytes", "host.hypervisor", "host.container",
    "host.shared", "host.load", "host.steal_percent", "pmu.available", "bpf.btf", "bpf.bcc",
    "helper.installed", "cgroup.version", "cgroup.can_make", "cgroup.task_group", "policy.fifo",
)  # fmt: skip


class Doctor:
    """The survey of this machine beside the experiments' instruments.  Shows itself in a notebook."""

    def __init__(self, survey: machine.Machine, topic: str = "") -> None:
        self.machine, self.topic = survey, topic

    def instruments(self) -> pd.DataFrame:
        """experiment, instrument (what it will measure with here), improve (what would make it better)."""
        return pd.DataFrame(self._instruments())

    def _instruments(self) -> list[dict[str, str]]:
        rows = []
        for name in registry.names():
            if self.topic and f".{self.topic}." not in registry.entry(name).package:
                continue
            instrument = registry.find(name).instrument(self.machine)
            rows.append({"experiment": name, "instrument": instrument.name, "improve": instrument.improve})
        return rows

    def table(self, *, long: bool = True) -> pd.DataFrame:
        """group, fact, value, source, note: the survey, or only what decides how numbers are read."""
        columns = ["group", "fact", "value", "source", "note"]
        return pd.DataFrame(self.machine.rows(None if long else FIRST), columns=columns)

    def text(self, *, long: bool = False) -> str:
        """The same for a terminal."""
        lines = []
        for group, fact, value, _, why in self.machine.rows(None if long else FIRST):
            lines.append(f"{group:>10}  {fact:<26} {value}" + (f"   ({why})" if why else ""))
        lines.append("")
        for row in self._instruments():
            improve = f"   better with: {row['improve']}" if row["improve"] else ""
            lines.append(f"{row['experiment']:<24} {row['instrument']}{improve}")
        return "\n".join(lines)

    def line(self) -> str:
        """One line for an instructor who looks at many machines: ready or not, and what is missing.

        NOT READY where a workshop cannot do without it: hand-overs between CPUs and two of the labs need a
        second CPU.  The book has something to offer instead of the rest.
        """
        facts = {key: self.machine.fact(key).value for key in FIRST}
        needed, without = [], []
        cpus = len(self.machine.cpus_allowed)
        if cpus < 2:
            needed.append("a second CPU")
        try:
            workloads.build_all()
        except SchedLabError as error:
            needed.append(f"the workloads ({error.what})")
        able = runqlat.available()
        if not able.ok:
            without.append(f"BPF ({able.why})")
        if not facts["cgroup.can_make"]:
            without.append("a group with a CPU quota")
        if not facts["policy.fifo"]:
            without.append("real-time priority")
        steal = facts["host.steal_percent"]
        if isinstance(steal, float) and steal > 5:
            without.append(f"a quiet host ({steal:.0f} % steal)")
        said = f"Linux {facts['kernel.release']}, {cpus} CPU{'' if cpus == 1 else 's'}"
        said = f"NOT READY  {said}; missing: {'; '.join(needed)}" if needed else f"ready      {said}"
        return said + (f"; without: {'; '.join(without)}" if without else "")

    def sentence(self) -> str:
        """What this machine is, and what would measure more here: for the head of a chapter."""
        facts = self.machine.provenance()
        cpus = len(self.machine.cpus_allowed)
        guest = "" if facts["hypervisor"] in (None, "none") else ", a virtual machine"
        if self.machine.fact("host.emulated").value:
            guest = ", an emulated machine: its times are no processor's"
        said = (
            f"This machine: {facts['cpu_model'] or facts['arch']}, {cpus} CPU{'' if cpus == 1 else 's'}, "
            f"Linux {str(facts['kernel']).partition('-')[0]} with {facts['scheduler']}{guest}."
        )
        rows = self._instruments()
        missing = Counter(row["improve"].rstrip(".") for row in rows if row["improve"])
        # A chapter may also run another chapter's experiments, which stand there.
        where = "of this chapter's own" if self.topic else "in this book"
        if not missing:
            return f"{said} Every experiment {where} has its best instrument here."
        listed = "; ".join(f"{what} ({n})" if n > 1 else what for what, n in missing.most_common(3))
        count = sum(missing.values())
        return f"{said} {count} of {len(rows)} experiments {where} could see more: {listed}."

    def to_json(self) -> dict[str, Any]:
        """The whole survey and the instruments, for other programs."""
        return {"machine": self.machine.to_json(), "experiments": self._instruments()}

    def _repr_html_(self) -> str:
        def rows(frame: pd.DataFrame) -> str:
            head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in frame.columns)
            body = "".join(
                "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
                for row in frame.itertuples(index=False)
            )
            return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

        def shown(*, long: bool) -> pd.DataFrame:
            return self.table(long=long)[["group", "fact", "value", "note"]]

        return (
            f'<div class="sl-doctor"><p>{escape(self.sentence())}</p>'
            "<details><summary>With which instrument each experiment will measure here</summary>"
            f"{rows(self.instruments())}</details>"
            "<details><summary>What this machine is, as far as it decides how numbers are read</summary>"
            f"{rows(shown(long=False))}</details>"
            f"<details><summary>Everything the survey found</summary>{rows(shown(long=True))}</details></div>"
        )

    def __repr__(self) -> str:
        return self.text()


def doctor(topic: str = "", *, fresh: bool = False) -> Doctor:
    """Look at this machine: no root, nothing changed, under two seconds.

    topic   the folder of a chapter's experiments, such as "context_switch": then it tells of these only
    """
    return Doctor(machine.survey(fresh=fresh), topic)
