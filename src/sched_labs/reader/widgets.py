"""Plain forms on a page of the book whose cells run: what ipywidgets are in JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

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
