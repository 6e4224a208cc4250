"""How far an experiment has come, told wherever the reader is looking.

In a terminal: one line that is rewritten.  In a notebook: a progress bar (a plain line where widgets are not
shown).  While the book is built: lines in the file that `SCHED_LABS_PROGRESS` names, which the build shows.
"""

from __future__ import annotations

import json
import os
import sys
from types import TracebackType
from typing import Any


def in_notebook() -> bool:
    """Whether the code runs in a Jupyter kernel."""
    shell = sys.modules.get("IPython")
    instance = shell.get_ipython() if shell else None
    return instance is not None and instance.__class__.__name__ == "ZMQInteractiveShell"


def on_page() -> bool:
    """Whether a page of the book runs the cells, and not JupyterLab: `sched-labs-live.js` says so."""
    return bool(os.environ.get("SCHED_LABS_PAGE"))


class Progress:
    """`with Progress("warmup.sweep", 18) as progress:`, `progress.step("random, 64 KiB")` each time."""

    def __init__(self, experiment: str, total: int, *, show: bool = True) -> None:
        self.experiment, self.total, self.done = experiment, total, 0
        self._file = os.environ.get("SCHED_LABS_PROGRESS", "")
        self._terminal = show and not self._file and sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None
        notebook = show and not self._file and in_notebook()
        # A page of the book runs cells too and knows no widgets: it gets the same as plain HTML.
        self._show_page = notebook and on_page()
        self._show_bar = notebook and not self._show_page
        self._shown: Any = None

    def __enter__(self) -> Progress:
        if self._show_bar:
            import ipywidgets
            from IPython.display import display

            self._bar = ipywidgets.IntProgress(
                value=0, max=self.total, description="", layout=ipywidgets.Layout(width="60%")
            )
            self._label = ipywidgets.Label(value=f"{self.experiment}: starting")
            self._box = ipywidgets.HBox([self._bar, self._label])
            display(self._box)
        if self._show_page:
            from IPython.display import display

            self._shown = display(self._page("starting"), display_id=True)
        self.say("starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._box.close()
        if self._shown is not None:
            from IPython.display import HTML

            self._shown.update(HTML(""))
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self, label: str) -> None:
        """One more step is finished."""
        self.done += 1
        self.say(label)

    def say(self, label: str) -> None:
        """Show a label without counting a step."""
        if self._file:
            line = {"experiment": self.experiment, "done": self.done, "total": self.total, "label": label}
            with open(self._file, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(json.dumps(line) + "\n")
        if self._bar is not None:
            self._bar.value = self.done
            self._label.value = f"{self.done}/{self.total}  {label}"
        if self._shown is not None:
            self._shown.update(self._page(label))
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{self.experiment}  {self.done}/{self.total}  {label}")
            sys.stderr.flush()

    def _page(self, label: str) -> Any:
        from html import escape

        from IPython.display import HTML

        return HTML(
            f'<p class="sl-progress"><progress max="{self.total}" value="{self.done}" '
            f'aria-label="{escape(self.experiment)}"></progress> '
            f"{self.done}/{self.total}  {escape(label)}</p>"
        )
