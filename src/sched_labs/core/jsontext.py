"""JSON that comes from elsewhere: a file that somebody may have changed, a line from another program."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(text: str | bytes) -> Any:
    """What the text holds.  Raises ValueError for anything that is no JSON.

    Python's parser takes more than JSON has: infinities, NaN, halves of characters that no file can hold.
    What is nested too deeply for it is refused in the same way.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        found = json.loads(text, parse_float=_finite, parse_constant=_refuse)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _refuse(word: str) -> float:
    raise ValueError(f"{word[:20]} is no number of JSON")
