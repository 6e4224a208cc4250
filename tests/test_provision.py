"""scripts/provision.sh on a covered machine: what it installs, leaves alone, and takes away again."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox import REPOSITORY, Sandbox, sandbox

SCRIPT = REPOSITORY / "scripts/provision.sh"
HELPER = "/usr/local/lib/sched-labs"
RULE = "/etc/sudoers.d/sched-labs"
STATE = "/var/lib/sched-labs"
KEPT = "/var/cache/sched-labs"

pytestmark = pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("dpkg-query")), reason="this is no Debian or Ubuntu"
)


@pytest.fixture
def machine() -> Iterator[Sandbox]:
    try:
        with sandbox() as covered:
            if covered.run("sh", "-c", "command -v sudo && command -v visudo").returncode:
                pytest.skip("sudo is not installed (scripts/provision.sh --tests installs it)")
            covered.run("rm", "-rf", HELPER, RULE, STATE, KEPT)
            yield covered
    except RuntimeError as error:
        pytest.skip(str(error))


def state(machine: Sandbox) -> str:
    """What the script may change: names, modes, owners and contents."""
    found = machine.run(
        "sh",
        "-c",
        f"find /etc/sudoers.d {HELPER} {STATE} /usr/local/lib -maxdepth 1 -printf '%p %m %u %g %s %T@\\n';"
        f" find {HELPER} -type f -exec sha256sum {{}} +; dpkg-query -W -f '${{Status}} ${{Package}}\\n'",
    )
    return found.stdout


def cpu_s() -> float:
    """What the programs that we ran have used so far: a busy machine makes them wait, not work."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_shellcheck() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed (scripts/provision.sh --tests installs it)")
    done = subprocess.run(["shellcheck", *SCRIPT.parent.glob("*.sh")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("wrong", [["--nonsense"], ["--user"], ["--user", "no such user"], ["extra"]])
def test_refuses_other_command_lines(wrong: list[str]) -> None:
    done = subprocess.run([str(SCRIPT), *wrong], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr


def test_check_changes_nothing(machine: Sandbox) -> None:
    uid = machine.add_user("slcheck")
    before = state(machine)
    done = machine.run(SCRIPT, "--check", "--user", "slcheck")
    assert done.returncode == 3
    assert "privileged helper is not installed" in done.stdout and "no sudo rule for slcheck" in done.stdout
    assert machine.run(SCRIPT, "--check", user=uid).returncode == 3
    assert state(machine) == before


def test_installs_the_helper_and_the_rule_and_takes_them_away(machine: Sandbox) -> None:
    machine.add_user("slprov")
    before = state(machine)
    first = machine.run(SCRIPT, "--user", "slprov")
    assert first.returncode == 0, first.stdout + first.stderr
    assert HELPER in first.stdout and "Allowing slprov" in first.stdout
    owners = set(machine.run("find", HELPER, "-printf", "%u:%g %m\n").stdout.split("\n")) - {""}
    assert owners == {"root:root 755", "root:root 644"}
    for path in (REPOSITORY / "src/sched_labs/probes/helper").rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            copy = Path(HELPER) / path.relative_to(REPOSITORY / "src/sched_labs/probes/helper")
            assert machine.run("cmp", path, copy).returncode == 0
    assert machine.run("stat", "-c", "%U %a", RULE).stdout == "root 440\n"
    assert machine.run("visudo", "-cq").returncode == 0

    installed = state(machine)
    begun = cpu_s()
    second = machine.run(SCRIPT, "--user", "slprov")
    assert cpu_s() - begun < 1.0
    assert second.returncode == 0 and second.stdout == "Everything is in place.\n"
    assert machine.run(SCRIPT, "--check", "--user", "slprov").returncode == 0
    assert state(machine) == installed

    # The rule of a version that had one program.
    old = f"#4711 ALL=(root) NOPASSWD:NOSETENV: /usr/bin/python3 -I {HELPER}/sched-labs-probe"
    machine.run("sh", "-c", f"echo '{old}' >>{RULE}")
    machine.add_user("slalso")  # a second user keeps the first one's rule
    assert machine.run(SCRIPT, "--user", "slalso").returncode == 0
    rules = machine.run("cat", RULE).stdout
    assert rules.count("NOPASSWD") == rules.count("sched-labs-lend") == rules.count("sched-labs-probe") == 3
    assert machine.run(SCRIPT, "--check", "--user", "slprov").returncode == 0

    assert machine.run(SCRIPT, "--remove").returncode == 0
    after = state(machine)
    assert HELPER not in after and RULE not in after and STATE not in after
    assert machine.run("test", "-e", KEPT).returncode == 1
    assert [line for line in after.splitlines() if line.startswith("install ok")] == [
        line for line in before.splitlines() if line.startswith("install ok")
    ]


def test_root_gets_no_rule(machine: Sandbox) -> None:
    done = machine.run(SCRIPT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.run("test", "-e", RULE).returncode == 1
    assert machine.run("test", "-x", f"{HELPER}/sched-labs-probe").returncode == 0


def test_replaces_a_helper_that_was_changed(machine: Sandbox) -> None:
    machine.run(SCRIPT)
    for change in (
        f"echo '# more' >>{HELPER}/sched-labs-probe",
        f"rm {HELPER}/runqlat.bpf.c",
        f"rm {HELPER}/sched-labs-lend",
        f"echo '# more' >>{HELPER}/protocol.py",
        f"touch {HELPER}/json.py",
        f"chmod o+w {HELPER}/headers",
        f"chown daemon {HELPER}/runqlat.bpf.c",
        f"touch {HELPER}/headers/more.h",
    ):
        machine.run("sh", "-c", change)
        assert machine.run(SCRIPT, "--check").returncode == 3, change
        assert machine.run(SCRIPT).returncode == 0, change
        assert machine.run(SCRIPT, "--check").returncode == 0, change


def test_says_what_it_costs_when_it_may_not_install(machine: Sandbox) -> None:
    uid = machine.add_user("slplain")
    before = state(machine)
    done = machine.run(SCRIPT, user=uid)
    assert done.returncode == 3
    assert "sums from /proc" in done.stdout and "The book works" in done.stderr
    assert state(machine) == before


def test_goes_on_without_a_network(machine: Sandbox) -> None:
    if machine.run("dpkg", "--purge", "--force-depends", "libbpf-tools").returncode:
        pytest.skip("libbpf-tools is not installed (scripts/provision.sh --tests installs it)")
    nowhere = 'Acquire { http::Proxy "http://127.0.0.1:9"; https::Proxy "http://127.0.0.1:9"; Retries "0"; };'
    machine.run("sh", "-c", f"echo '{nowhere}' >/etc/apt/apt.conf.d/zz-nowhere; apt-get clean")
    done = machine.run(SCRIPT, "--tests")
    assert done.returncode == 3
    assert "libbpf-tools" in done.stdout and "The book works" in done.stderr
    # The helper needs no network.
    assert machine.run("test", "-x", f"{HELPER}/sched-labs-probe").returncode == 0


def test_takes_away_only_the_packages_that_it_brought(machine: Sandbox) -> None:
    before = state(machine)
    machine.run("dpkg", "--purge", "--force-depends", "libbpf-tools")
    done = machine.run(SCRIPT, "--tests", timeout=250)
    if machine.run("dpkg-query", "-W", "-f", "${db:Status-Status}", "libbpf-tools").stdout != "installed":
        pytest.skip(f"packages cannot be had now: {done.stderr.strip()[-300:]}")
    assert "libbpf-tools" in done.stdout
    assert "libbpf-tools" in machine.run("cat", f"{STATE}/packages").stdout.split()
    assert "gcc" not in machine.run("cat", f"{STATE}/packages").stdout.split()
    assert machine.run(SCRIPT, "--remove").returncode == 0
    after = state(machine)
    assert "install ok installed libbpf-tools" not in after
    missing = {line for line in before.splitlines() if line.startswith("install ok")} - set(
        after.splitlines()
    )
    assert missing <= {"install ok installed libbpf-tools"}
