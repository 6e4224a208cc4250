"""CPU limits on booted kernels that mount control groups v2 alone: CFS in virtual time, and a new one.

`python tests/kernels/throttling.py` does both on every kernel of the gallery.
"""

from __future__ import annotations

from typing import Any

import pytest
from kernels import throttling

from sched_labs.core.errors import ParameterError
from sched_labs.kernels.errors import PackageError, QemuError

pytestmark = pytest.mark.usefixtures("own_lock")


def booted(kernel: str, timing: str, *names: str) -> dict[str, Any]:
    try:
        return throttling.run(kernel, timing, list(names))
    except (PackageError, QemuError) as error:
        pytest.skip(f"no other kernel can be booted here: {error.what}")


@pytest.mark.computes
def test_formula_and_model_agree_with_v2_in_virtual_time() -> None:
    found = booted(
        "6.1", "deterministic", throttling.HOG, throttling.THREADS, throttling.NESTED, throttling.LATENCY
    )
    throttling.check_virtual(found)


@pytest.mark.usefixtures("own_lock")
def test_the_probe_and_cpu_stat_agree_and_partitions_are_made_on_a_new_kernel() -> None:
    throttling.check_counts("7.2", booted("7.2", "vm", throttling.TIMELINE))


def test_only_partitions_that_the_kernel_has_are_asked_for() -> None:
    from sched_labs.limits.cgroups import Group

    with pytest.raises(
        ParameterError, match=r"cpuset.cpus.partition does not take 'mine'.*\n.*root, isolated"
    ):
        Group("/nowhere", "v2").partition("mine")
