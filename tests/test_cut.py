"""The pages of a chapter, and what they fold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sched_labs.book import cut, layers
from sched_labs.book.chapters import Chapter

CHAPTER = Chapter("notebooks/01-a", Path("01-a.md"))


def figure(source: str = "draw()") -> Any:
    return new_code_cell(source, outputs=[new_output("display_data", {"text/html": "<figure>f</figure>"})])


def chapter() -> Any:
    return new_notebook(
        cells=[
            new_markdown_cell("# A cost\n\nOpening.\n\n## What it is\n\n```text\n## no heading\n```"),
            new_code_cell("import a"),
            new_markdown_cell("## It costs: `much`\n\n### Story\n\n*Once.*\n\n### Measure\n\n[x](../l.md)."),
            figure(),
            new_markdown_cell("### Explain\n\nWhy.\n\n## Two, more\n\nMore."),
            figure("draw(2)"),
            new_markdown_cell("## In the end\n\nSo.\n\n## Now you\n\nGo."),
        ]
    )


def test_an_experiment_has_a_page_and_what_is_none_shares_one() -> None:
    made = cut.pages(CHAPTER, chapter())
    assert [(page.name, page.title) for page in made] == [
        ("notebooks/01-a", "A cost"),
        ("notebooks/01-a/what-it-is", "What it is"),
        ("notebooks/01-a/it-costs-much", "It costs: `much`"),
        ("notebooks/01-a/two-more", "Two, more"),
        ("notebooks/01-a/in-the-end", "In the end"),
    ]
    assert [page.indices for page in made] == [[], [0], [1], [2], []]
    text = "\n".join(cell.source for cell in made[2].cells)
    assert text.startswith("# It costs") and "\n## Measure" in text and "\n## Explain" in text
    assert "## no heading" in made[1].cells[0].source
    assert made[4].cells[1].source.startswith("## Now you")


def test_a_chapter_without_a_figure_stays_whole() -> None:
    notebook = new_notebook(cells=[new_markdown_cell("# A\n\n## B\n\nb\n\n## C"), new_code_cell("1")])
    (page,) = cut.pages(CHAPTER, notebook)
    assert page.name == CHAPTER.name and page.indices == [0]


def test_every_page_knows_the_code_of_the_whole_chapter() -> None:
    notebook = chapter()
    notebook.cells[1].source = "'</script>'"
    made = cut.pages(CHAPTER, notebook)
    script = cut.chapter_code(notebook, made[3])
    assert script.count("</script>") == 1
    told = json.loads(script.partition(">")[2].rpartition("<")[0])
    cells = ["'</script>'", "draw()", "draw(2)"]
    assert told == {"cells": cells, "here": [2], "seconds": [None] * 3, "made": None}


def test_a_page_knows_how_long_its_cells_took() -> None:
    cell = new_code_cell("draw()")
    assert cut.took_s(cell) is None
    cell.metadata["execution"] = {
        "iopub.status.busy": "2026-11-22T13:00:00.250000Z",
        "iopub.status.idle": "2026-11-22T13:00:12.750000Z",
    }
    assert cut.took_s(cell) == 12.5
    cell.metadata["execution"].pop("iopub.status.idle")
    assert cut.took_s(cell) is None


def test_the_opening_leads_to_the_pages_and_links_follow_them() -> None:
    made = cut.pages(CHAPTER, chapter())
    assert "- [Two, more](01-a/two-more.ipynb), 1 min" in cut.contents(made)
    assert cut.deeper("[x](../l.md) [y](02-b.md) [z](#here) [w](https://w.w/)") == (
        "[x](../../l.md) [y](../02-b.md) [z](#here) [w](https://w.w/)"
    )
    said = cut.lead("[x](../notebooks/01-a.ipynb#explain) [y](01-a.ipynb#now-you) [z](01-a.ipynb)", made)
    there = "[x](../notebooks/01-a/it-costs-much.ipynb#explain) [y](01-a/in-the-end.ipynb#now-you)"
    assert said == f"{there} [z](01-a.ipynb)"


def test_the_method_folds_and_a_story_needs_no_heading() -> None:
    made = cut.pages(CHAPTER, chapter())
    for cell in made[2].cells:
        layers.fold(cell)
    title, story, method, code, _ = made[2].cells
    assert title.source == "# It costs: `much`" and story.source == "*Once.*"
    assert method.source.startswith("## Measure\n\n<details") and "\n\n[x](../l.md).\n\n" in method.source
    assert code.metadata["tags"] == ["hide-input"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("One.\n", "<p>One.</p>"),
        ("It takes\n5 ns.\nTwo <b>:\n", "<p>It takes 5 ns.<br>Two &lt;b&gt;:</p>"),
        ("One.\n\nTwo.\n", "<p>One.</p><p>Two.</p>"),
        ("a    1\nbb   2\n", ""),
        ("a:\n  inside\n", ""),
        ("\n", ""),
    ],
)
def test_what_is_printed_in_sentences_is_prose(text: str, html: str) -> None:
    assert layers.told(text) == (f'<div class="sl-told">{html}</div>' if html else "")


def test_a_table_is_a_click_away_and_errors_stay_as_they_are() -> None:
    table = '<table border="1" class="dataframe"><tr><td>1</td></tr></table>'
    cell = new_code_cell(
        "t",
        outputs=[
            new_output("execute_result", {"text/html": f"<div>{table}</div>"}),
            new_output("stream", name="stderr", text="careful"),
            new_output("stream", text="Said."),
        ],
    )
    layers.fold(cell)
    first, second, third = cell.outputs
    assert "<summary>The table</summary><table" in first.data["text/html"]
    assert second.output_type == "stream" and third.data["text/html"].startswith('<div class="sl-told">')
