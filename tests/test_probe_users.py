"""The probe as an ordinary user: with the sudo rule, without it, with another helper than ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox import REPOSITORY, Sandbox, sandbox

from sched_labs.probes import channel, runqlat

PROVISION = REPOSITORY / "scripts/provision.sh"
PACKAGES = "/var/lib/sched-labs/packages"  # which ones provisioning brought
HERE = runqlat.available()

# Watches itself while it sleeps now and then, and says what came of it.
CLIENT = """
import json, os, time
from sched_labs.core.errors import SchedLabError
from sched_labs.machine import files
from sched_labs.probes import runqlat
available = runqlat.available()
said = {"available": available.ok, "why": available.why, "remedy": available.remedy}
try:
    with runqlat.watch([PID or os.getpid()], 20, 0.05) as probe:
        probe.start()
        for _ in range(50):
            time.sleep(0.005)
        children = [int(p) for p in files.names("/proc") if p.isdigit()]
        said["owners"] = [
            (files.read(f"/proc/{p}/status") or "").partition("Uid:")[2].split()[:4]
            for p in children
            if "sched-labs-probe" in (files.read(f"/proc/{p}/cmdline") or "")
            and "sudo" not in (files.read(f"/proc/{p}/comm") or "")
        ]
        final = probe.stop()
    said.update(total=final.total, lost=final.lost, ended_by=final.ended_by)
except SchedLabError as error:
    said.update(error=type(error).__name__, what=error.what, fix=error.remedy)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Sandbox]:
    if not HERE.ok:
        pytest.skip(f"the probe cannot watch here: {HERE.why}")
    try:
        with sandbox() as covered:
            if covered.run("sh", "-c", "command -v sudo && command -v visudo").returncode:
                pytest.skip("sudo is not installed (scripts/provision.sh --tests installs it)")
            # Not by --remove, which may take BCC along.
            covered.run("rm", "-rf", channel.INSTALLED, "/etc/sudoers.d/sched-labs", "/var/cache/sched-labs")
            yield covered
    except RuntimeError as error:
        pytest.skip(str(error))


def client(machine: Sandbox, user: int, pid: int = 0) -> dict[str, Any]:
    done = machine.python(f"PID = {pid}\n{CLIENT}", user=user)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_without_anything_installed(machine: Sandbox) -> None:
    said = client(machine, machine.add_user("slnone"))
    assert not said["available"]
    assert said["error"] == "ProbeError" and said["what"] == said["why"]
    assert "helper is not installed" in said["what"] and "provision.sh" in said["fix"]


@pytest.mark.skipif(not shutil.which("dpkg"), reason="this is no Debian or Ubuntu")
def test_where_bcc_went_with_the_helper() -> None:
    """Provisioning takes away the packages that it brought, BCC among them."""
    with sandbox() as covered:
        covered.run("dpkg", "--purge", "--force-depends", "bpfcc-tools")  # would keep it
        covered.run("sh", "-c", f"mkdir -p $(dirname {PACKAGES}) && echo python3-bpfcc >{PACKAGES}")
        done = covered.run(PROVISION, "--remove")
        assert "python3-bpfcc" in done.stdout and done.returncode == 0, done.stdout + done.stderr
        # Asked beforehand, BCC is named; asked to watch, an ordinary user comes to the helper first.
        ordinary = covered.add_user("slbare")
        for user, first in ((ordinary, "helper is not installed"), (0, "BCC is not installed")):
            said = client(covered, user)
            assert not said["available"] and said["error"] == "ProbeError"
            assert "BCC is not installed" in said["why"] and "provision.sh" in said["remedy"]
            assert first in said["what"] and "provision.sh" in said["fix"]


def test_with_the_rule_and_without(machine: Sandbox) -> None:
    allowed, stranger = machine.add_user("slwith"), machine.add_user("slwithout")
    done = machine.run(PROVISION, "--user", "slwith")
    assert channel.fingerprint(channel.OURS) is not None

    said = client(machine, allowed)
    assert said["available"], (said, done.stdout, done.stderr)
    assert said["total"] >= 25 and said["lost"] <= 2 and said["ended_by"] == "stopped"
    # While it measures, the helper has become the user.
    assert [str(allowed)] * 4 in said["owners"]

    said = client(machine, allowed, pid=1)
    assert said["error"] == "ProbeError" and "another user" in said["what"]

    said = client(machine, stranger)
    assert not said["available"] and "without a password" in said["why"]
    assert said["error"] == "ProbeError" and "without a password" in said["what"]
    assert "provision.sh" in said["fix"]

    said = client(machine, 0)  # root needs no rule, and starts the installed copy because it is ours
    assert said["available"] and said["total"] >= 25


def test_the_rule_allows_two_commands(machine: Sandbox) -> None:
    user = machine.add_user("slrule")
    machine.run(PROVISION, "--user", "slrule")
    for program in (channel.LEND, channel.PROBE):
        helper = str(channel.INSTALLED / program)
        command = ["sudo", "-n", "/usr/bin/python3", "-I", helper]
        answer = machine.run(*command, user=user, stdin="\n")
        assert json.loads(answer.stdout)["record"] == "error"  # it ran, and refused the empty request
    for other in (
        [*command, "--more"],
        ["sudo", "-n", "/usr/bin/python3", helper],
        ["sudo", "-n", "/usr/bin/python3", "-I", "-c", "print(1)"],
        ["sudo", "-n", "/usr/bin/python3"],
        ["sudo", "-n", helper],
        ["sudo", "-n", "id"],
        ["sudo", "-n", "PYTHONPATH=/tmp", *command[2:]],
        ["sudo", "-n", "-u", "daemon", *command[2:]],
    ):
        refused = machine.run(*other, user=user, stdin="\n")
        assert refused.returncode != 0 and refused.stdout == "", other


def test_a_helper_of_another_version(machine: Sandbox) -> None:
    user = machine.add_user("slother")
    machine.run(PROVISION, "--user", "slother")
    machine.run("sh", "-c", f"echo '# changed' >>{channel.INSTALLED}/runqlat.bpf.c")
    said = client(machine, user)
    assert not said["available"]
    assert "another version" in said["what"] and "provision.sh" in said["fix"]
    assert client(machine, 0)["total"] >= 25  # root falls back on the one of the package
    machine.run(PROVISION, "--user", "slother")
    assert client(machine, user)["available"]


def test_a_process_that_cannot_gain_privileges(machine: Sandbox) -> None:
    user = machine.add_user("slnnp")
    machine.run(PROVISION, "--user", "slnnp")
    code = "import ctypes\nctypes.CDLL(None).prctl(38, 1, 0, 0, 0)\nPID = 0\n" + CLIENT
    said = json.loads(machine.python(code, user=user).stdout)
    assert not said["available"] and "no_new_privs" in said["why"]
    assert said["error"] == "ProbeError"


# Whether the program was compiled by an earlier probe.
KEPT = """
import os, time
from sched_labs.probes import runqlat
with runqlat.watch([os.getpid()], 5) as probe:
    print(probe._channel.ready["kept"])
"""


def test_a_probe_that_was_compiled_once_is_kept_where_only_root_writes(machine: Sandbox) -> None:
    user, folder = machine.add_user("slkept"), "/var/cache/sched-labs"

    def kept() -> bool:
        done = machine.python(KEPT, user=user)
        assert done.returncode == 0, done.stderr
        return done.stdout == "True\n"

    machine.run("rm", "-rf", channel.INSTALLED, folder)
    machine.run(PROVISION, "--user", "slkept")
    assert machine.run("stat", "-c", "%U %a", folder).stdout == "root 700\n"
    assert not kept() and kept()
    owners = machine.run("find", folder, "-type", "f", "-printf", "%u %m\n").stdout
    assert set(owners.split("\n")) == {"root 600", ""}
    # What is no whole program is compiled again, and so is everything that somebody else could have written.
    machine.run("sh", "-c", f"for kept in {folder}/*; do echo '{{' >$kept; done")
    assert not kept() and kept()
    for change in (
        f"chmod o+w {folder}",
        f"chown {user} {folder}",
        f"mv {folder} {folder}.1; ln -s {folder}.1 {folder}",
    ):
        machine.run("sh", "-c", change)
        assert not kept(), change
        machine.run("sh", "-c", f"chown root {folder}; chmod 700 {folder}")
