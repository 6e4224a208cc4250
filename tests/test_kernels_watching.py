"""`watch` on booted kernels that mount control groups v2 alone: waits counted, an ancestor's quota named."""

from __future__ import annotations

from pathlib import Path

import pytest

from sched_labs import kernels
from sched_labs.kernels.errors import PackageError, QemuError
from sched_labs.machine.bpf import bcc_module

JOB = Path(__file__).with_name("kernels") / "watching_in_a_guest.py"

pytestmark = pytest.mark.usefixtures("own_lock")


# With stacks the edges are counted by another program than without.
@pytest.mark.parametrize(("kernel", "stacks"), [("6.12", True), ("7.2", False)])
def test_a_watch_counts_every_wait_and_names_the_ancestor_whose_quota_it_was(
    kernel: str, stacks: bool
) -> None:
    if bcc_module() is None:
        pytest.skip("the guest takes BCC from this machine, which has none")
    try:
        said = kernels.run(
            kernel,
            "watching_in_a_guest:limited",
            {"seconds": 2.0, "stacks": stacks},
            deadline_s=900,  # on a busy machine
            native=["burn"],
            modules=["sched_labs.watching.program", "sched_labs.run.base"],
            extra={f"/lab/{JOB.name}": JOB.read_bytes()},
        ).value
    except (PackageError, QemuError) as error:
        pytest.skip(f"no other kernel can be booted here: {error.what}")
    text, facts = said["text"], said["facts"]
    assert said["version"] == "v2" and said["missing"] == [] and facts["counted"], text
    assert {"waits", "edges", "turns", "longest"} <= set(said["tables"])
    assert ("stacks" in said["tables"]) is stacks
    first = said["findings"][0]
    assert first["name"] == "quota", text
    assert "around its own" in first["title"] and said["limited"] in first["title"]
    # Two threads that never sleep share a fifth of a CPU.
    assert facts["running_ms_per_s"] < 500 < facts["throttled_ms_per_s"] < 2000
