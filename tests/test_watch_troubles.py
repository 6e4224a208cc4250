"""Programs that are slow for a known reason: `watch` names it, with the helper and without."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import troubles

from sched_labs.core.result import Result
from sched_labs.probes import runqlat
from sched_labs.watching import report
from sched_labs.watching.program import watch

NO_HELPER = runqlat.Availability(False, "It was switched off for this test.", "")
LACKING = troubles.lacking()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING)


@pytest.mark.parametrize("case", troubles.SICK, ids=lambda case: case.name)
def test_the_trouble_is_among_the_findings(case: troubles.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the helper and, at the same time, without it.

    Other programs that use this machine are found too: `benchmarks/watch.py` says how often the true one is
    on top.
    """
    able, without = runqlat.available(), threading.local()
    monkeypatch.setattr(runqlat, "available", lambda: getattr(without, "why", able))

    def findings(pid: int, helper: bool) -> Result:
        if not helper:
            without.why = NO_HELPER
        return watch(pid=pid, seconds=2, progress=False, save=False)

    with case.running(seed=1) as pid, ThreadPoolExecutor() as both:
        results = list(both.map(findings, [pid, pid], [True, False]))
    for result in results:
        names = {row["name"] for row in result.records("findings")}
        assert names & set(case.names), report.text(result)
    assert [result.facts["counted"] for result in results] == [able.ok, False]
