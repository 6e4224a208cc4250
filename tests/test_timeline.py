"""Who had which CPU when: the probe, what is made of its turns, and what other programs read of them."""

from __future__ import annotations

import base64
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from sched_labs.core.errors import ParameterError, ProbeError, ResultError
from sched_labs.core.result import Result, load
from sched_labs.probes import timeline
from sched_labs.probes.helper import programs
from sched_labs.probes.timeline import Timeline
from sched_labs.watching import lanes, page, wait
from sched_labs.watching import timeline as watching_timeline

HERE = timeline.available()
live = pytest.mark.skipif(not HERE.ok, reason=f"the probe cannot watch here: {HERE.why}")

# ---- the probe ---------------------------------------------------------------------------------------------


def turn(at_ns: int, tid: int, prev: int, ready_ns: int = 0, waker: int = -1, name: str = "") -> bytes:
    told = (tid & 0xFFFFFFFF, prev & 0xFFFFFFFF, 0, waker & 0xFFFFFFFF)
    return struct.pack("<QQQIIII16s", at_ns, ready_ns, ready_ns and ready_ns - 1, *told, name.encode())


def packed(*turns: bytes) -> str:
    return base64.b64encode(zlib.compress(b"".join(turns))).decode()


@live
def test_turns_follow_each_other_and_waits_lie_before_them() -> None:
    script = "import time\ninput()\nfor _ in range(200): sum(range(20000)); time.sleep(0.001)"
    with (
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child,
        timeline.watch([child.pid], 20, scope="family") as probe,
    ):
        probe.start()
        child.communicate(b"\n")
        seen = probe.stop()
        assert probe.stop() == seen
    turns = seen.turns
    own = turns[turns["tid"] == child.pid]
    assert len(own) >= 100 and own["name"].iloc[-1].startswith("python")
    for _, rows in turns.groupby("cpu"):
        assert rows["at_ns"].is_monotonic_increasing and rows["at_ns"].is_unique
        assert (rows["prev_tid"] == rows["tid"].shift())[rows["follows"]].all()
    waits = own[own["ready_ns"].notna()]
    assert len(waits) > 0.9 * len(own)
    assert (waits["ready_ns"] <= waits["at_ns"]).all()
    woken = waits[waits["waking_ns"].notna()]
    assert (woken["waking_ns"] <= woken["ready_ns"]).all() and len(woken)
    worst = seen.worst
    assert worst["waited_ns"].is_monotonic_decreasing and 0 < len(worst) <= timeline.MOST_WORST
    longest = (waits["at_ns"] - waits["ready_ns"]).max()
    assert worst["waited_ns"].iloc[0] == longest


@live
def test_the_longest_waits_are_kept_when_the_ring_has_gone_round() -> None:
    """Two processes that hand a byte to each other switch more often than there is room for."""
    script = (
        "import os\na, b = os.pipe(); c, d = os.pipe()\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "print(flush=True); input()\n"
        "if os.fork():\n for _ in range(60000): os.write(b, b'x'); os.read(c, 1)\n"
        "else:\n for _ in range(60000): os.read(a, 1); os.write(d, b'x')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as pair:
        assert pair.stdin and pair.stdout
        pair.stdout.readline()
        with timeline.watch([pair.pid], 60, scope="family") as probe:
            probe.start()
            pair.stdin.write(b"\n")
            pair.stdin.flush()
            pair.wait()
            seen = probe.stop()
    assert seen.lost > 0
    assert len(seen.turns) <= programs.TURNS + 2 * programs.TURNS_ON_PAGE * 10 * len(seen.rows)
    for cpu, (_, _, *waits) in enumerate(seen.rows):
        mine = seen.turns[seen.turns["cpu"] == cpu]
        lasted = set((mine["at_ns"] - mine["ready_ns"]).dropna())
        assert {ns for ns, _ in waits} <= lasted


def test_pieces_are_put_together_once_and_gaps_are_marked() -> None:
    first = [turn(1010, 7, 0, 1005, name="seven"), turn(1020, 0, 7)]
    last = [turn(1500, 8, 9), turn(1510, 7, 8, 1400, waker=8, name="seven"), turn(1520, -1, 7)]
    seen = Timeline(
        [[9, packed(*last), [5, packed(*first)], [110, packed(*last[:2])]]], 1000, 2000, "stopped"
    )
    turns = seen.turns
    assert turns["at_ns"].tolist() == [10, 20, 500, 510, 520]
    assert turns["follows"].tolist() == [False, True, False, True, True]
    assert turns["name"].tolist()[-1] == "another user's" and turns["name"].tolist()[1] == "idle"
    assert seen.worst["waited_ns"].tolist() == [110, 5]
    assert seen.lost == 4


@pytest.mark.parametrize(
    "wrong", ["", "?", "AAAA", None, 7, base64.b64encode(zlib.compress(b"x" * 55)).decode()]
)
def test_what_the_helper_does_not_write_is_refused(wrong: Any) -> None:
    with pytest.raises(ProbeError, match="cannot be read"):
        _ = Timeline([[1, wrong]], 0, 1, "stopped").turns


def test_there_is_room_on_every_cpu() -> None:
    for cpus in (1, 2, 3, 64, 8192):
        pages = programs.pages_of_each(cpus)
        assert pages & (pages - 1) == 0 and pages >= programs.LEAST_PAGES
    assert programs.pages_of_each(2) * 2 * programs.TURNS_ON_PAGE == programs.TURNS


def test_a_scope_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError):
        timeline.watch([1], 1, scope="machine")


# ---- what is made of it ------------------------------------------------------------------------------------


def watched(seen: Timeline, *threads: tuple[int, str]) -> Result:
    """A watch with this timeline, made up."""
    names = [
        *("running_ms_per_s", "waiting_ms_per_s", "asleep_ms_per_s"),
        *("voluntary_per_s", "involuntary_per_s"),
    ]
    data = pd.DataFrame([{"pid": tid, "tid": tid, "name": name, "asleep_for": ""} for tid, name in threads])
    found = dict.fromkeys(("title", "evidence", "instead", "attempt", "page"), "")
    return Result(
        "own_program.watch",
        data.assign(**dict.fromkeys(names, 1.0)),
        {},
        {"program": "server"},
        tables={
            "turns": seen.turns,
            "longest": seen.worst,
            "findings": pd.DataFrame([found | {"size_ms_per_s": 1.0, "share": 0.1}]),
        },
        facts={"window_s": 1e-3, "running_ms_per_s": 1.0, "waiting_ms_per_s": 1.0},
    )


@pytest.fixture
def result() -> Result:
    """Thread 7 waits for CPU 0 from 100 to 900 µs: 9 has it for 600, then something for 100, then idle."""
    turns = [
        turn(1_010_000, 7, 0, 1_002_000, waker=9, name="<server>"),
        turn(1_050_000, 9, 7, name="</script>"),
        turn(1_700_000, -1, 9),
        turn(1_800_000, 0, 3),
        turn(1_900_000, 7, 0, 1_100_000, waker=9, name="<server>"),
        turn(1_950_000, 0, 7),
    ]
    return watched(Timeline([[6, packed(*turns)]], 1_000_000, 2_000_000, "stopped"), (7, "<server>"))


def test_what_had_the_cpu_meanwhile_adds_up_to_the_wait(result: Result) -> None:
    wait = lanes.longest(result)
    assert lanes.meanwhile(result, wait) == {"</script>": 600_000, lanes.NOT_KEPT: 100_000, "idle": 100_000}
    assert lanes.waker(result, wait) == "</script>"
    said = lanes.told(result, wait)
    assert "<server> (7), woken while </script> ran, waited 800 µs" in said and "</script> 600 µs" in said
    with pytest.raises(ParameterError, match="There are 2"):
        lanes.longest(result, 3)
    del result.tables["turns"]
    with pytest.raises(ResultError, match="no timeline"):
        lanes.longest(result)


def test_who_had_the_cpu_is_summed_over_all_waits(result: Result) -> None:
    sums = lanes.rivals(lanes.turns(result))
    one = lanes.meanwhile(result, lanes.longest(result))
    # What came before the first turn is not known.
    assert sums == {9: one["</script>"], 0: one["idle"]}


def test_what_came_before_the_kept_turns_is_not_known(result: Result) -> None:
    wait = lanes.longest(result, 2)
    assert lanes.meanwhile(result, wait) == {lanes.NOT_KEPT: wait["waited_ns"]}


def test_one_wait_is_a_figure(result: Result, tmp_path: Path) -> None:
    drawn = wait.figure(result)
    assert drawn.caption == lanes.told(result, lanes.longest(result))
    assert set(drawn.data["whose"]) == {"own", "other", "idle", lanes.NOT_KEPT}
    ElementTree.fromstring(drawn.svg())
    assert drawn.save(tmp_path / "wait.png").stat().st_size


def test_a_saved_watch_has_the_same_timeline(result: Result, tmp_path: Path) -> None:
    again = load(result.save(tmp_path / "kept.json"))
    assert watching_timeline.data(again) == watching_timeline.data(result)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 1100), ("light", 390)])
def test_the_page_shows_the_longest_wait_and_is_used_with_keys(
    result: Result, tmp_path: Path, browser: Any, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page.write(result, tmp_path / "page.html")
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True)
    opened, troubles = context.new_page(), []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.goto((tmp_path / "page.html").as_uri())
    said = opened.locator("#timeline [role=status]")
    assert said.inner_text() == f"Wait 1. {lanes.told(result, lanes.longest(result))}"
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    canvas = opened.locator("#timeline canvas")
    painted = "one => new Set(new Uint32Array(one.getContext('2d').getImageData(0, 0, one.width, one.height)\
.data.buffer)).size"
    assert canvas.evaluate(painted) > 4
    canvas.focus()
    views = []
    for key in ("+", "+", "ArrowRight", "-", "Home"):
        opened.keyboard.press(key)
        views.append(said.inner_text())
    assert views[-1].startswith("1 ms in view, from 0.000000 s")
    assert len(set(views)) == len(views)
    opened.locator("summary", has_text="as a table").click()
    opened.wait_for_function("document.querySelectorAll('#timeline tbody tr').length === 5")
    told = opened.locator("#timeline tbody").inner_text()
    assert "</script> (9)" in told and "another user's, then not kept" in told
    opened.locator("#timeline ol button").nth(1).click()
    assert said.inner_text().startswith("Wait 2.")
    assert troubles == []
    assert [one["id"] for one in axe.Axe().run(opened).response["violations"]] == []
    context.close()
