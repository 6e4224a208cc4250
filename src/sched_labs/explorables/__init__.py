"""Pictures that move: an exact model under sliders, or a recorded run of a real kernel, step by step.

    from sched_labs import explorables
    explorables.show("quota")

Each is one ES module beside this file (`frame.js` says what it has to have), drawn by the same code on a
page of the book, in JupyterLab and, as a still picture, on paper.  What was recorded is in `recorded/`,
with the machine and the kernel that it comes from; `python -m sched_labs.explorables` draws the still
pictures anew and `python -m sched_labs.explorables.record` records anew.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from ..core.errors import ParameterError, SchedLabError
from ..core.progress import on_page
from . import modules

TITLES = {
    "quota": "a quota drains over the CPUs",
    "roundrobin": "the round robin, one wait bracketed",
    "omission": "who waits for answers does not ask while they are slow",
    "picking": "CFS and EEVDF choosing",
    "wakeup": "the way of a wake-up, near and far",
    "switch": "one switch, zoomed",
    "cache": "cache lines evicted and refilled",
    "condvar": "a condition variable's four switches",
}
PICTURES, RECORDED = modules.FOLDER / "pictures", modules.FOLDER / "recorded"


class Explorable:
    """One of TITLES.  `data` is what it is fed (its module says in which form), `about` its source."""

    def __init__(self, name: str, data: Any = None, about: str = "") -> None:
        if name not in TITLES:
            raise ParameterError(f"There is no explorable {name!r}.", f"There are: {', '.join(TITLES)}.")
        self.name = name
        self._own = data is not None
        if data is None:
            data, about = recorded(name)
        self.data, self.about = data, about

    def html(self) -> str:
        """For a page: the still picture, and what the page's own script brings to life in its place."""
        still, sentence = ("", "") if self._own else picture(self.name)
        data = json.dumps(self.data, separators=(",", ":")).replace("<", "\\u003c")
        return (
            f'<figure class="sl-figure sl-explorable" data-explorable="{self.name}">'
            f"<style>{stylesheet()}</style>"
            f'<div class="sl-x-host">{still}<p class="sl-x-say">{escape(sentence)}</p></div>'
            f'<script type="application/json">{data}</script>'
            f'<figcaption class="sl-caption"><small>{escape(self.about)}</small></figcaption></figure>'
        )

    def widget(self) -> Any:
        """For JupyterLab: the same, and a button where it can be measured on this machine."""
        import ipywidgets

        from . import mine

        shown, below = _view(self), ipywidgets.HTML(f"<small>{escape(self.about)}</small>")
        if self.name not in mine.MEASURED:
            return ipywidgets.VBox([shown, below])
        button = ipywidgets.Button(description="Now mine", tooltip="Measure it on this machine")

        def measure(_: Any) -> None:
            button.disabled = True
            try:
                own = now_mine(self.name)
                shown.data, below.value = own.data, f"<small>{escape(own.about)}</small>"
            except SchedLabError as error:  # a callback's traceback would go where no reader looks
                below.value = f"<p>{escape(str(error))}</p>"
            finally:
                button.disabled = False

        button.on_click(measure)
        return ipywidgets.VBox([shown, ipywidgets.HBox([button, below])])

    def _form(self) -> str:
        """The same button on a page whose cells run."""
        from ..reader.widgets import form
        from . import mine

        if self._own or self.name not in mine.MEASURED:
            return ""
        return form(lambda: now_mine(self.name), "", "Now mine")

    def __repr__(self) -> str:
        return f"<Explorable {self.name}: {TITLES[self.name]}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from ..reader.widgets import bundle

        html = self.html() + (self._form() if on_page() else "")
        return bundle(self.widget, html, repr(self))


def show(name: str) -> Explorable:
    """One of TITLES, with the run that ships with the book.  Raises ParameterError for any other name."""
    return Explorable(name)


def now_mine(name: str) -> Explorable:
    """The same, measured on this machine, now.

    Raises ParameterError for one that is a model only, and what measuring raises (BusyError, WorkloadError,
    ProbeError, ...).
    """
    from . import mine

    if name not in mine.MEASURED:
        why = mine.NOT_HERE.get(name, "There is no such explorable.")
        raise ParameterError(
            f"{name!r} cannot be measured here. {why}", f"These can: {', '.join(mine.MEASURED)}."
        )
    return Explorable(name, *mine.MEASURED[name]())


def recorded(name: str) -> tuple[Any, str]:
    """What ships with the book: the data (None for a model that needs none), and where they come from."""
    path = RECORDED / f"{name}.json"
    if not path.is_file():
        return None, "Computed by an exact model; nothing here was measured."
    whole = json.loads(path.read_text(encoding="utf-8"))
    return whole["data"], whole["about"]


def picture(name: str) -> tuple[str, str]:
    """The still picture as one `<svg>`, and its sentence."""
    drawn: str = (PICTURES / f"{name}.svg").read_text(encoding="utf-8").strip()
    described = drawn.partition("</desc>")[0].rpartition(">")[2]
    return drawn, described


def stylesheet() -> str:
    """The colours of figures, and what explorables add."""
    from ..draw import svg

    return svg.stylesheet() + modules.stylesheet()


_made: dict[str, Any] = {}


def _view(explorable: Explorable) -> Any:
    """The anywidget of an explorable; its class is made when it is first needed."""
    import anywidget
    import traitlets

    if explorable.name not in _made:
        _made[explorable.name] = type(
            f"Explorable_{explorable.name}",
            (anywidget.AnyWidget,),
            {
                "_esm": modules.for_widget("frame", explorable.name),
                "_css": stylesheet(),
                "data": traitlets.Any().tag(sync=True),
            },
        )
    return _made[explorable.name](data=explorable.data)


def write_page_script(folder: Path) -> None:
    """Write the script that every page of the book loads into a folder of static files."""
    (folder / modules.PAGE_SCRIPT).write_text(modules.for_pages(), encoding="utf-8")
