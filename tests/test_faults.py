"""Whatever goes wrong in the middle of a run, nothing is left of it, and it ends in words.

`make faults` plays five hundred such cases; each can be played again by its number.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from faults import campaign

from sched_labs import kernels
from sched_labs.core import lock
from sched_labs.kernels.errors import PackageError, QemuError

MACHINE = Path(__file__).parent / "faults" / "machine.py"

CASES = 60


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has groups, a helper and the last pid to play with")
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_a_fault_in_the_middle_of_a_run_leaves_nothing(own_lock: None) -> None:
    bad = [one for one in campaign.campaign(CASES) if one.wrong]
    assert not bad, "\n".join(f"{one.case}: {one.outcome}: {one.wrong}" for one in bad)


def test_a_case_can_be_had_again() -> None:
    assert [campaign.case(7, number) for number in range(50)] == [
        campaign.case(7, number) for number in range(50)
    ]
    assert len({campaign.case(1, number).what for number in range(500)}) > 40


@pytest.fixture(scope="module")
def befallen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What `faults/machine.py` says of a guest."""
    place = tmp_path_factory.mktemp("lock")
    place.chmod(0o1777)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_PLACES", (place,))
        try:
            found = kernels.run(
                "6.12",
                "machine:play",
                native=["burn", "pingpong"],
                modules=[
                    "sched_labs.topics.cgroup_throttling.quota.experiment",
                    "sched_labs.topics.context_switch.context_switch.experiment",
                ],
                extra={"/lab/machine.py": MACHINE.read_bytes()},
            )
        except (PackageError, QemuError) as error:
            pytest.skip(f"no other kernel can be booted here: {error.what}")
    return dict(found.value)


@pytest.mark.guests
def test_a_fault_of_the_machine_leaves_nothing_either(befallen: dict[str, dict[str, Any]]) -> None:
    assert len(befallen) == 7
    for case, told in befallen.items():
        assert told["ended"][0] in ("result", "error"), (case, told["ended"])
        if case.endswith(": nothing"):
            assert told["ended"][0] == "result", (case, told["ended"])
        else:
            assert told["left"] == [] and told["groups"][0] == told["groups"][1], (case, told)


@pytest.mark.guests
def test_a_machine_that_changed_meanwhile_makes_no_whole_result(befallen: dict[str, dict[str, Any]]) -> None:
    for case in ("quota.hog: a CPU goes", "context_switch: a CPU goes", "quota.hog: its group is removed"):
        ended = befallen[case]["ended"]
        assert ended[0] == "error" or ended[1:], (case, ended)
