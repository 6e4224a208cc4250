"""What the build machine writes into pages: true to the measured chapters, and the same each time."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from claim_cases import constructed
from conftest import ROOT
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sched_labs import claims, pale
from sched_labs.book import command, generated, trust
from sched_labs.book.chapters import Chapter, Checkout, checkout
from sched_labs.book.generated import Material
from sched_labs.core.errors import ParameterError, SchedLabError
from sched_labs.core.registry import entries
from sched_labs.core.result import Result, recorded
from sched_labs.kernels import claims as claims_kernels

FRONT = sorted((ROOT / "book").glob("*.md"))


def stamped(source: str, begin: str, end: str, *, failed: bool = False) -> Any:
    cell = new_code_cell(source)
    cell.metadata["execution"] = {"iopub.execute_input": begin, "shell.execute_reply": end}
    if failed:
        cell.outputs = [new_output("error", ename="ValueError", evalue="no", traceback=[])]
    return cell


@pytest.fixture
def book(tmp_path: Path) -> tuple[Checkout, list[Chapter]]:
    notebook = new_notebook(
        cells=[
            new_markdown_cell("# A cost | of something\n\n" + "word " * 355),
            stamped("a = 1", "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:02.500000Z"),
            stamped("b = 2", "2026-01-01T00:00:03Z", "2026-01-01T00:00:04Z", failed=True),
            new_code_cell(""),
        ],
        metadata={"sched_labs": {"profile": "quick", "measured_at": "2026-01-01T00:00:05+00:00"}},
    )
    target = tmp_path / "_build" / "measured" / "notebooks" / "01-a.ipynb"
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)
    (tmp_path / "book").mkdir()
    return Checkout(tmp_path), [Chapter("notebooks/01-a", tmp_path / "notebooks" / "01-a.md")]


def test_the_execution_table_says_what_the_notebook_says(book: tuple[Checkout, list[Chapter]]) -> None:
    found = generated.ran(book[0], book[1][0])
    assert (found.cells, found.failed, found.seconds) == (2, 1, 3.5)
    assert found.reading_minutes == 2
    table = generated.fill("before\n\n<!-- sched-labs: execution -->\n\nafter", generated.Material(*book))
    assert table.startswith("before\n\n| chapter |") and table.endswith("|\n\nafter")
    line = table.splitlines()[4]
    assert "2, 1 failed" in line and "2026-01-01 00:00:05 UTC" in line and "quick" in line
    assert "A cost \\| of something" in line, "a bar does not end the cell"
    assert len(re.findall(r"(?<!\\)\|", line)) == 6
    assert "(../notebooks/01-a.ipynb)" in line


def test_everything_is_the_same_the_second_time(book: tuple[Checkout, list[Chapter]]) -> None:
    for name in ("chapters", "execution", "machine", "versions"):
        marker = f"<!-- sched-labs: {name} -->"
        assert (
            generated.fill(marker, generated.Material(*book))
            == generated.fill(marker, generated.Material(*book))
            != marker
        )


def test_the_machine_is_described_without_a_name_and_without_a_python_word(
    book: tuple[Checkout, list[Chapter]],
) -> None:
    import platform

    text = generated.fill("<!-- sched-labs: machine -->", generated.Material(*book))
    assert platform.release() in text
    assert not re.search(r"\| (None|True|False) \|", text)
    cpus = re.search(r"\| CPUs \| (.+) \|", text)
    assert cpus and cpus[1].isdigit(), "a number stays a number"


def test_a_marker_that_nobody_writes_is_an_error(book: tuple[Checkout, list[Chapter]]) -> None:
    with pytest.raises(SchedLabError, match="nothing writes"):
        generated.fill("<!-- sched-labs: nonsense -->", generated.Material(*book))


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.stem)
def test_pages_ask_only_for_what_is_written(page: Path) -> None:
    asked = set(re.findall(r"<!-- sched-labs: (\w+) -->", page.read_text(encoding="utf-8")))
    assert asked <= set(generated._WRITERS)


def test_every_page_of_the_front_is_in_the_table_of_contents() -> None:
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    for name in ("pathways", "glossary", "bibliography", "how-built", "claims", "reading-figures"):
        assert f"book/{name}\n" in contents


def test_verdicts_come_from_the_newest_run_the_recorded_one_or_nobody(
    book: tuple[Checkout, list[Chapter]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(word: str) -> Any:
        return lambda table: claims.Verdict(claims.HOLDS, word)

    kinds = ("one.here", "one.recorded", "one.nowhere")
    made = [claims.Claim(kind, f"About {kind}.", "nobody", kind, check("for a reason")) for kind in kinds]
    monkeypatch.setattr(claims, "all_claims", lambda: made)
    monkeypatch.setattr("sched_labs.core.registry.find", _experiment)
    monkeypatch.setattr(
        "sched_labs.core.result.latest", lambda kind: _run(kind) if kind == kinds[0] else None
    )
    monkeypatch.setattr(
        "sched_labs.core.result.recorded", lambda kind, _: _run(kind) if kind == kinds[1] else None
    )
    text = generated.fill("<!-- sched-labs: verdicts -->", generated.Material(*book))
    assert [text.count(line) for line in ("Measured here", "Recorded on another machine")] == [1, 1]
    assert text.index("one.here") < text.index("one.recorded") < text.index("Not judged here")
    assert "| About one.nowhere. | nobody | Nobody has run its experiment. |" in text
    assert text.count("for a reason") == 2
    assert text.count("<summary>Do this &amp; that, and look. <small>1 judged") == 2, "what it does"
    assert "<strong>2 sentences: 2 holds here.</strong>" in text


def test_a_saved_run_with_other_columns_gives_way_to_the_recorded_one(
    book: tuple[Checkout, list[Chapter]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = recorded("bursts.spacing")
    assert held
    old = dataclasses.replace(held, data=held.data.rename(columns={"trial": "run"}))
    own = [claim for claim in claims.all_claims() if claim.kind == held.kind]
    monkeypatch.setattr(claims, "all_claims", lambda: own)
    monkeypatch.setattr("sched_labs.core.result.latest", lambda kind: old)
    text = generated.fill("<!-- sched-labs: verdicts -->", generated.Material(*book))
    assert "Recorded on another machine" in text and "Measured here" not in text
    assert "measure it again" in capsys.readouterr().out


def test_a_check_that_breaks_is_named_and_costs_no_other_verdict(
    book: tuple[Checkout, list[Chapter]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(table: Any) -> claims.Verdict:
        return claims.Verdict(claims.HOLDS, f"{table.nowhere}")

    def sound(table: Any) -> claims.Verdict:
        return claims.Verdict(claims.HOLDS, "for a reason")

    made = [
        claims.Claim("000-901", "This one breaks.", "nobody", "one.here", broken),
        claims.Claim("000-902", "This one holds.", "nobody", "one.here", sound),
    ]
    monkeypatch.setattr(claims, "all_claims", lambda: made)
    monkeypatch.setattr("sched_labs.core.registry.claims_about", lambda kind: made)
    monkeypatch.setattr("sched_labs.core.registry.find", _experiment)
    monkeypatch.setattr("sched_labs.core.result.latest", _run)
    made_from = generated.Material(*book)
    text = generated.fill("<!-- sched-labs: verdicts -->", made_from)
    assert (
        "for a reason" in text and "| This one breaks. | nobody |" in text.partition("Checks that broke")[2]
    )
    assert len(made_from.broken) == 1
    assert "000-901" in made_from.broken[0] and "AttributeError" in made_from.broken[0]
    with pytest.raises(claims.BrokenCheck, match="000-901"):
        claims.judge(_run("one.here"))


def test_a_check_that_breaks_fails_the_build_whose_pages_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(command, "chapters", lambda book: [])
    monkeypatch.setattr(command, "_introduce", lambda terminal: None)
    monkeypatch.setattr(command.Terminal, "say", lambda self, text: said.append(text))
    for broken, status in (([], 0), (["The check of the claim 000-901 broke."], 1)):
        monkeypatch.setattr(command.pages, "build", lambda *given, broken=broken, **options: broken)
        assert command.main(["build", "--root", str(ROOT)]) == status
    assert any("000-901" in text for text in said) and said[-1].startswith("pages: ")


def _experiment(kind: str) -> Any:
    def constructed() -> None:
        """Do this & that,
        and look.

        More of it.
        """

    return constructed


def _run(kind: str) -> Result:
    import pandas as pd

    return constructed(kind, pd.DataFrame())


def test_the_ledger_is_whole_and_leaves_out_what_an_experiment_judges() -> None:
    book = checkout(ROOT)
    entries = generated.ledger(book)
    assert len({entry["topic"] for entry in entries}) >= 5
    text = generated.fill("<!-- sched-labs: ledger -->", generated.Material(book, []))
    judged = {claim.id for claim in claims.all_claims()} | {claim.id for claim in claims_kernels.CLAIMS}
    for entry in entries:
        assert (f">{entry['id']}, " in text) == (entry["id"] not in judged)
        assert all(entry.values())
        assert re.fullmatch(r"00[0-4]-\d{3}", entry["id"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Topic:\n  - {id: a, says: b}\n", "damaged"),
        (
            "Topic:\n" + "  - {id: a, says: b, verdict: c, is: d, source: e}\n" * 2,
            "a twice",
        ),
    ],
)
def test_a_damaged_ledger_is_refused(book: tuple[Checkout, list[Chapter]], text: str, said: str) -> None:
    (book[0].root / "book" / "ledger.yml").write_text(text, encoding="utf-8")
    with pytest.raises(SchedLabError, match=said):
        generated.ledger(book[0])


def test_the_glossary_is_told_in_short() -> None:
    from sched_labs.book import glossary

    text = (
        "**Hog.**\nIt computes, see [the `tick`](x.md).\nIt never sleeps.\nMore.\n\n**A, B** (`c`).\nBoth.\n"
    )
    assert glossary.terms(text) == {
        "Hog": "It computes, see the tick. It never sleeps.",
        "A": "Both.",
        "B": "Both.",
    }
    assert glossary.script(text).startswith("window.schedLabsGlossary = {")


# ---- can the numbers be trusted ----


def test_the_recorded_benchmarks_are_shown_with_their_machine(tmp_path: Path) -> None:
    folder = tmp_path / trust.RECORDED
    folder.mkdir(parents=True)
    line = {
        "what": "ours / theirs",
        "value": "1.02 [0.99, 1.04]",
        "target": "1",
        "ok": False,
        "remark": "n = 9",
    }
    gone = {**line, "what": "a tool", "value": "not measurable", "ok": None, "remark": "it is not installed"}
    table = {
        "command": "make bench",
        "measured_at": "2026-01-02T03:04:05",
        "machine": "a CPU",
        "doubts": ["busy"],
    }
    (folder / "one.json").write_text(json.dumps({**table, "lines": [gone, line]}))
    page = generated.fill("<!-- sched-labs: agreement -->", Material(Checkout(tmp_path), []))
    assert "`make bench` on a CPU, 2026-01-02:" in page and "Doubt: busy" in page
    assert page.index("1 missed") < page.index("not measurable")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"command": 3}', "null", '{"lines": [{}]}', "\xff"])
def test_a_damaged_benchmark_is_named(tmp_path: Path, text: str) -> None:
    folder = tmp_path / trust.RECORDED
    folder.mkdir(parents=True)
    (folder / "bad.json").write_text(text, encoding="latin-1")
    with pytest.raises(SchedLabError, match=r"bad\.json"):
        trust.benchmarks(tmp_path)


def test_the_smallest_effects_are_the_widths_of_intervals() -> None:
    """Every experiment of the book is asked; what has no interval has no row, and none breaks the page."""
    runs = [run for run in (recorded(entry.kind) for entry in entries()) if run is not None]
    table = trust.smallest_effects(iter(runs))
    assert set(table.columns) == {"kind", "profile", "numbers", "median_percent", "p90_percent"}
    assert len(table) >= 40 and table["kind"].is_unique
    assert (table["median_percent"] <= table["p90_percent"]).all()
    one = table.set_index("kind").loc["context_switch.matrix"]
    found = trust.estimates(recorded("context_switch.matrix").summary())
    clear = found[found["low"] > 0]
    assert one["numbers"] == len(clear)
    widths = ((clear["high"] - clear["low"]) / clear["median"] * 100).sort_values()
    assert (widths <= one["median_percent"] + 1e-9).mean() >= 0.5


def test_a_summary_without_fractions_has_no_interval() -> None:
    with pytest.raises(ParameterError):
        trust.estimates(pd.DataFrame({"threads": [1, 2]}))


def test_numbers_of_two_machines_differ_where_their_intervals_lie_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = _run("one.here"), _run("one.here")
    found = {
        id(first): [["a", "x_ns", 10, 9, 11], ["b", "x_ns", 10, 5, 15], ["c", "x_ns", 10, 9, 11],
                    ["d", "x_ns", -1, -2, -1], ["e", "x_ns", 1, None, None]],
        id(second): [["a", "x_ns", 20, 19, 21], ["b", "x_ns", 20, 14, 26], ["c", "x_ns", 2, 1, 3],
                     ["d", "x_ns", 1, 1, 2], ["e", "x_ns", 9, 8, 10]],
    }  # fmt: skip
    monkeypatch.setattr(trust.numbers, "of", lambda run: found[id(run)])
    table = trust.apart([(first, second)])
    assert table["name"].tolist() == ["a", "b", "c", "d"], "the last has no interval on one of them"
    assert table["differs"].tolist() == [True, False, True, True]
    assert trust.farthest(table, 9)[["name", "times"]].to_numpy().tolist() == [["c", 0.2]]
    assert not trust.apart([(first, first)])["differs"].any()


def test_the_page_says_what_differs_between_the_books_machines(
    book: tuple[Checkout, list[Chapter]],
) -> None:
    text = generated.fill("<!-- sched-labs: machines -->", generated.Material(*book))
    for word, line in pale.machines().items():
        assert f"`{word}` is {line}" in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert 0 < len(rows) <= 20 and len({row.split("|")[1] for row in rows}) == len(rows)
    assert all(re.search(r"\| × [\d.,]+ \|$", row) for row in rows)
