"""Programs that are slow for a known reason: `watch` names it, with the helper and without."""

from __future__ import annotations

import pytest
import troubles

from sched_labs.probes import runqlat
from sched_labs.watching import report
from sched_labs.watching.program import watch

NO_HELPER = runqlat.Availability(False, "It was switched off for this test.", "")
LACKING = troubles.lacking()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)


@pytest.mark.parametrize("helper", [True, False], ids=["helper", "no helper"])
@pytest.mark.parametrize("case", troubles.SICK, ids=lambda case: case.name)
def test_the_trouble_is_among_the_findings(
    case: troubles.Case, helper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs that use this machine are found too: `benchmarks/watch.py` says how often the true one
    is on top.
    """
    if not helper:
        monkeypatch.setattr(runqlat, "available", lambda: NO_HELPER)
    with case.running(seed=1) as pid:
        result = watch(pid=pid, seconds=2, progress=False, save=False)
    names = {row["name"] for row in result.records("findings")}
    assert names & set(case.names), report.text(result)
