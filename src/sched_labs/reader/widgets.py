"""What a reader may touch: ipywidgets in JupyterLab, and plain forms on a page whose cells run."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

from ..core.progress import on_page

# What the forms on a live page call, by the number that each form carries.
_FORMS: dict[int, Callable[..., Any]] = {}


def form(call: Callable[..., Any], fields: str, press: str) -> str:
    """A form as HTML.

    fields   its inputs as HTML; each has a name
    press    what its button says

    `book/_static/sched-labs-live.js` has the kernel call `call(**{name: text})` and shows what it returns.
    """
    number = len(_FORMS) + 1
    _FORMS[number] = call
    return (
        f'<form class="sl-form" data-form="{number}">{fields}'
        f'<button type="submit" class="sl-run">{escape(press)}</button></form><div class="sl-answer"></div>'
    )


def answer(number: int, given: str) -> Any:
    """What form `number` answers to its fields, a JSON object of texts.  Only pages call this."""
    return _FORMS[number](**json.loads(given))


def bundle(widget: Callable[[], Any], html: str, text: str) -> dict[str, Any]:
    """What a notebook's output is made of: JupyterLab takes the widget, a page takes the HTML.

    Each shows the richest of these that it knows.  A page whose cells run has no widgets.
    """
    data: dict[str, Any] = {}
    if not on_page():
        made = widget()._repr_mimebundle_()
        data = dict(made[0] if isinstance(made, tuple) else made or {})
    return data | {"text/html": html, "text/plain": text}
