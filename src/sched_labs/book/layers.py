"""What of a chapter a page shows at once, and what it folds.

First come question, guess, figure and what the run says in sentences.  How it is measured, the code, and
tables of numbers fold.  Notebooks stay plain: JupyterLab shows them as they are written.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

_METHOD = re.compile(r"\A(?P<heading>#+ Measure)[^\n]*\n+(?P<prose>.*\S)\s*\Z", re.DOTALL)
_STORY = re.compile(r"\A#+ Story\s*\n")  # the page's title is heading enough
_TABLE = re.compile(r'<table border="1" class="dataframe".*?</table>', re.DOTALL)
_ALIGNED = re.compile(r"\S {2,}\S|^ ", re.MULTILINE)
_SENTENCE_END = (".", ":", "?", "!")


def folded(summary: str, inside: str, *, blank: bool = True) -> str:
    """`inside` under a line that opens it; `blank` where it is Markdown, which needs lines of its own."""
    gap = "\n\n" if blank else ""
    return f'<details class="sl-fold"><summary>{summary}</summary>{gap}{inside}{gap}</details>'


def fold(cell: Any) -> None:
    """Fold one cell, in place: `cut.split` has given each heading a cell of its own."""
    if cell.cell_type == "markdown":
        if method := _METHOD.match(cell.source):
            cell.source = f"{method['heading']}\n\n{folded('How it is measured', method['prose'])}"
        cell.source = _STORY.sub("", cell.source)
        return
    if cell.cell_type != "code":
        return
    tags = cell.metadata.setdefault("tags", [])
    if "hide-input" not in tags:
        tags.append("hide-input")
    cell.outputs = [_shown(output) for output in cell.outputs]
    if all(_speaks(output) for output in cell.outputs):
        tags.append("sl-quiet")  # it reads as prose: the style sheet keeps its code out of the way


def _speaks(output: Any) -> bool:
    """Whether an output is sentences, a question or its answer in words, and no figure or table."""
    html = "".join(output.get("data", {}).get("text/html", ""))
    said = any(f'class="{name}"' in html for name in ("sl-told", "sl-question", "sl-reveal", "sl-exercise"))
    return said and not any(f"<{tag}" in html for tag in ("figure", "table"))


def _shown(output: Any) -> Any:
    """A printed sentence is a sentence, and a table is a click away."""
    import nbformat

    if output.output_type == "stream" and output.get("name") == "stdout":
        text = "".join(output.text)
        if prose := told(text):
            return nbformat.v4.new_output("display_data", {"text/html": prose, "text/plain": text})
    elif "text/html" in output.get("data", {}):
        html = "".join(output["data"]["text/html"])
        output["data"]["text/html"] = _TABLE.sub(
            lambda found: folded("The table", found[0], blank=False), html
        )
    return output


def told(text: str) -> str:
    """What a cell printed as paragraphs; empty where its lines stand in columns.

    `sched-labs-live.js` does the same with what a cell prints on the page.
    """
    if not text.strip() or _ALIGNED.search(text.strip("\n")):
        return ""
    paragraphs: list[str] = []
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = ""
        for line in part.splitlines():
            joint = "<br>" if lines.endswith(_SENTENCE_END) else " "
            lines += (joint if lines else "") + escape(line.strip(), quote=False)
        paragraphs.append(f"<p>{lines}</p>")
    return f'<div class="sl-told">{"".join(paragraphs)}</div>'
