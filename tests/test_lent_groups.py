"""The privileged helper lends an ordinary user a control group, and takes everything away again.

On v2 the same is tested in a guest, beside the library's own groups (test_cgroups.py).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sandbox import REPOSITORY, Sandbox, sandbox

from sched_labs import cgroups
from sched_labs.probes import channel

PROVISION = REPOSITORY / "scripts/provision.sh"
REQUEST = {
    "probe": "groups", "version": 3, "scope": "processes", "pids": [1], "duration_s": 1, "interval_s": 60,
}  # fmt: skip

CLIENT = """
import json, os, subprocess
from pathlib import Path
from sched_labs import cgroups
from sched_labs.errors import SchedLabError
own = Path("/proc/self/cgroup")
said = {"before": own.read_text()}
try:
    child = subprocess.Popen(["sleep", "60"])
    with cgroups.group("mine", quota_us=5_000, cpus=[max(os.sched_getaffinity(0))]) as group:
        group.add(child.pid)
        said["path"], said["limit"] = group.path, list(group.read_limit())
        said["inside"] = child.pid in group.pids()
        said["counted"] = list(group.counted())
        with cgroups.group("inner", quota_us=2_000, inside=group if group.version == "v1" else None) as inner:
            said["inner"] = inner.path
    said["left"] = [str(folder) for folder, _ in cgroups.left_behind()]
    above = group.path.partition("sched-labs-loan")[0]
    said["refused"] = []
    loan = Path(above) / Path(group.path[len(above):]).parts[0]
    for file in ("cpu.max", "cpu.cfs_quota_us", "cpu.weight", "cpu.shares"):
        if (loan / file).exists():
            try:
                (loan / file).write_text("100")
            except PermissionError:
                said["refused"].append(file)
            else:
                said["refused"].append(file + " TAKEN")
    cgroups.loan.Loan._channel.close()
    said["after"] = own.read_text()
    if END:
        os.kill(os.getpid(), 9)
    child.kill()
except SchedLabError as error:
    said["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def helper() -> ModuleType:
    path = Path(channel.__file__).parent / "helper" / channel.SCRIPT
    loader = importlib.machinery.SourceFileLoader("lending_helper", str(path))
    spec = importlib.util.spec_from_loader("lending_helper", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "value"), [("scope", "machine"), ("by", "cpu"), ("folder", "/sys")])
def test_the_helper_takes_this_request_and_no_other(helper: ModuleType, name: str, value: object) -> None:
    assert helper.parse_request(json.dumps(REQUEST).encode()) == REQUEST
    with pytest.raises(helper.Refused):
        helper.parse_request(json.dumps({**REQUEST, name: value}).encode())


@pytest.mark.parametrize(("pids", "said"), [([1, 2], "to one process"), ([1], "Root needs no group")])
def test_what_is_not_lent(helper: ModuleType, pids: list[int], said: str) -> None:
    caller = helper.Caller({})
    caller.uid = 0
    with pytest.raises(helper.Refused, match=said):
        helper.lend({**REQUEST, "pids": pids}, caller, [], None)


@pytest.fixture(scope="module")
def machine() -> Iterator[Sandbox]:
    able, why = cgroups.possible()
    if not able or os.getuid() != 0:
        pytest.skip(why or "only root can add users")
    try:
        with sandbox() as covered:
            if covered.run("sh", "-c", "command -v sudo && command -v visudo").returncode:
                pytest.skip("sudo is not installed (scripts/provision.sh --tests installs it)")
            yield covered
    except RuntimeError as error:
        pytest.skip(str(error))


def client(machine: Sandbox, user: int, end: bool = False) -> dict[str, Any]:
    done = machine.python(f"END = {end}\n{CLIENT}", user=user)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def loans(user: int) -> list[str]:
    return [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/sched-labs-loan-{user}-*")]


def gone(user: int) -> bool:
    end = time.monotonic() + 15
    while loans(user) and time.monotonic() < end:
        time.sleep(0.05)
    return not loans(user)


def test_with_the_rule_and_without(machine: Sandbox) -> None:
    allowed, stranger = machine.add_user("slgroups"), machine.add_user("slnogroups")
    machine.run(PROVISION, "--user", "slgroups")
    said = client(machine, allowed)
    assert "error" not in said, said
    assert f"/sched-labs-loan-{allowed}-" in said["path"] and said["limit"] == [5_000, 100_000, 0]
    assert said["inside"] and said["left"] == [] and said["path"] != said["inner"]
    # What it was lent it cannot widen: the limits of the loan itself are root's.
    assert said["refused"] and not [name for name in said["refused"] if "TAKEN" in name]
    assert said["before"] == said["after"]
    assert gone(allowed)

    said = client(machine, stranger)
    assert said["error"].startswith("PlacementError: No control group can be made")
    assert "provision.sh" in said["error"] and not loans(stranger)


def test_a_killed_program_leaves_no_loan(machine: Sandbox) -> None:
    user = machine.add_user("slkilled")
    machine.run(PROVISION, "--user", "slkilled")
    code = (
        "import os, subprocess\nfrom sched_labs import cgroups\n"
        "entered = cgroups.group('k', quota_us=5_000)\ngroup = entered.__enter__()\n"
        "child = subprocess.Popen(['sleep', '2'])\ngroup.add(child.pid)\n"
        "print(group.path, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = machine.python(code, user=user)
    assert "sched-labs-loan" in done.stdout, done.stderr
    assert gone(user)
