"""Whatever goes wrong in the middle of a run, nothing is left of it, and it ends in words.

`make faults` plays five hundred such cases; each can be played again by its number.
"""

from __future__ import annotations

import os
import shutil

import pytest
from faults import campaign

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
