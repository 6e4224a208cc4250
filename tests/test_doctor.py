"""The doctor: every experiment with its instrument, as text, page and JSON, for anybody, on any machine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from machines import constructed
from sandbox import sandbox

from sched_labs import machine, workloads
from sched_labs.core import registry
from sched_labs.core.errors import SchedLabError
from sched_labs.machine import files, host
from sched_labs.machine.seen import Seen
from sched_labs.probes import runqlat
from sched_labs.reader.doctor import FIRST, Doctor, doctor

RECORDED = Path(__file__).parent / "machines" / "guest-6.18"


def doctor_of(tree: Path) -> Doctor:
    with files.root(tree):
        return Doctor(machine.survey(fresh=True))


def check(found: Doctor) -> None:
    """Everything that must be true of what the doctor says about any machine."""
    short, long = found.text(), found.text(long=True)
    html = found._repr_html_()
    data = json.loads(json.dumps(found.to_json()))  # plain data: nothing needs to be made text first
    assert repr(found) == short
    assert [entry["experiment"] for entry in data["experiments"]] == registry.names()
    for entry in data["experiments"]:
        assert entry["instrument"]
        line = next(line for line in short.splitlines() if line.startswith(f"{entry['experiment']} "))
        assert entry["instrument"] in line and entry["improve"] in line and line in long
        shown = "".join(f"<td>{escape(entry[key])}</td>" for key in ("experiment", "instrument", "improve"))
        assert f"<tr>{shown}</tr>" in html
    assert set(data["machine"]["facts"]) >= set(machine.LABELS)
    assert len(found.table(long=False)) == len(FIRST)
    assert len(found.table()) == len(found.machine.facts) > len(FIRST)
    for name in found.table(long=False).fact:
        assert name in short and f"<td>{escape(name)}</td>" in html
    for name in found.table().fact:
        assert name in long
    assert html.count("<tr>") == 3 + len(registry.names()) + len(FIRST) + len(found.machine.facts)
    assert html.index(registry.names()[-1]) < html.rindex("<details>")  # the instruments come first


def test_this_machine() -> None:
    found = doctor()
    check(found)
    assert found.machine is machine.survey()  # looked at once
    assert str(machine.survey().fact("kernel.release").value) in found.text()


def test_a_recorded_machine() -> None:
    found = doctor_of(RECORDED)
    with files.root(RECORDED):
        check(found)
    assert files.live() and "EEVDF" in found.text() and "not looked at" in found.text()
    release = (RECORDED / "proc/sys/kernel/osrelease").read_text().strip()
    assert (
        found.to_json()["machine"]["facts"]["kernel.release"]["value"] == release and release in found.text()
    )


@pytest.mark.parametrize("tree", [constructed.ubuntu_2404, constructed.big_little, constructed.container])
def test_constructed_machines(tree: Callable[[], constructed.Tree], tmp_path: Path) -> None:
    found = doctor_of(constructed.build(tree(), tmp_path))
    with files.root(tmp_path):
        check(found)


def test_a_machine_that_shows_nothing(tmp_path: Path) -> None:
    found = doctor_of(tmp_path)
    with files.root(tmp_path):
        check(found)
        improve = found.instruments().set_index("experiment").improve
    assert improve["runqlat.histogram"], "no BPF in sight, and no word on what would help"


def test_what_a_machine_says_is_shown_as_text(tmp_path: Path) -> None:
    tree = constructed.ubuntu_2404()
    tree["/proc/cpuinfo"] = tree["/proc/cpuinfo"].replace("12th Gen", "<script>12th & Gen")
    html = doctor_of(constructed.build(tree, tmp_path))._repr_html_()
    assert "&lt;script&gt;12th &amp; Gen" in html and not re.search(r"<script", html)


def test_without_any_privilege_and_without_a_home() -> None:
    code = """
import json, os
from pathlib import Path
from sched_labs.reader.doctor import doctor
found = doctor()
print(json.dumps([os.getuid(), os.getgid(), found.to_json(), found.text(), len(found._repr_html_())]))
"""
    try:
        with sandbox() as covered:
            done = covered.python(code, user=65534)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert done.returncode == 0, done.stderr
    uid, gid, said, text, _ = json.loads(done.stdout)
    assert (uid, gid) == (65534, 65534)
    assert [entry["experiment"] for entry in said["experiments"]] == registry.names()
    assert all(entry["instrument"] for entry in said["experiments"])
    assert said["machine"]["facts"]["cgroup.can_make"]["value"] is False
    assert all(name in text for name in registry.names())


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch) -> machine.Machine:
    """This machine, as if it had two CPUs, a compiler, BPF, groups, priorities and a quiet host."""
    monkeypatch.setattr(workloads, "build_all", dict)
    monkeypatch.setattr(runqlat, "available", lambda: runqlat.Availability(True))
    survey = machine.survey()
    facts = dict(survey.facts)
    for key, value in {"cgroup.can_make": True, "host.steal_percent": 0.0, "policy.fifo": True}.items():
        facts[key] = replace(facts[key], value=value)
    return replace(survey, facts=facts, cpus_allowed=[0, 1])


def test_a_workshop_needs_the_workloads_and_two_cpus(
    fit: machine.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = f"Linux {fit.fact('kernel.release').value}"
    assert Doctor(fit).line() == f"ready      {about}, 2 CPUs"
    alone = Doctor(replace(fit, cpus_allowed=[1]))
    assert alone.line() == f"NOT READY  {about}, 1 CPU; missing: a second CPU"

    def refuse() -> None:
        raise SchedLabError("There is no C compiler.")

    monkeypatch.setattr(workloads, "build_all", refuse)
    missing = "missing: a second CPU; the workloads (There is no C compiler.)"
    assert alone.line() == f"NOT READY  {about}, 1 CPU; {missing}"


def test_a_workshop_can_do_without_the_rest(fit: machine.Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    poor = dict(fit.facts)
    for key, value in {"cgroup.can_make": False, "host.steal_percent": 12.4, "policy.fifo": False}.items():
        poor[key] = replace(poor[key], value=value)
    monkeypatch.setattr(runqlat, "available", lambda: runqlat.Availability(False, "no BCC"))
    lacking = "without: BPF (no BCC); a group with a CPU quota; real-time priority; a quiet host (12 % steal)"
    line = Doctor(replace(fit, facts=poor)).line()
    assert line.startswith("ready") and line.endswith(f", 2 CPUs; {lacking}")
    assert (
        Doctor(replace(fit, facts=poor, cpus_allowed=[1]))
        .line()
        .endswith(f"; missing: a second CPU; {lacking}")
    )


def test_a_machine_that_others_use_too_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    line = next(line for line in doctor(fresh=True).text().splitlines() if "shared with others" in line)
    assert "by a JupyterHub, by Slurm" in line and "ada" not in line and "no sign" not in line


def test_other_users_are_counted_and_services_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in host._SHARED_BY:
        monkeypatch.delenv(word, raising=False)
    owners = {
        "1": 0,
        "20": 33,
        "30": 1000,
        "31": 1001,
        "32": 1001,
        "33": os.getuid(),
        "34": 65534,
        "35": None,
    }
    monkeypatch.setattr(files, "names", lambda _: [*owners, "self"])
    monkeypatch.setattr(files, "owner", lambda path: owners[path.rpartition("/")[2]])
    (fact,) = host.look_shared(Seen())
    others = 2 - (os.getuid() in (1000, 1001))
    assert fact.value == [f"with {others} other user{'s' * (others > 1)} whose processes are here"]
    monkeypatch.setattr(files, "names", lambda _: ["1", "20"])
    (fact,) = host.look_shared(Seen())
    assert fact.value == [] and fact.why == "no sign of it"


def test_of_an_emulated_machine_the_first_sentence_says_so() -> None:
    survey = machine.survey()
    for played in (True, False):
        facts = survey.facts | {"host.emulated": replace(survey.fact("host.emulated"), value=played)}
        assert ("an emulated machine" in Doctor(replace(survey, facts=facts)).sentence()) == played
