"""Tables as CSV, in which no spreadsheet finds a formula.

Names of threads and of other people's files stand in them, and whoever chose one may have called it
`=HYPERLINK(…)` (OWASP, CSV Injection).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

_BEGINS = ("=", "+", "-", "@")


def csv(table: pd.DataFrame) -> str:
    """The table without its index; a text that a spreadsheet would calculate has a ' before it."""
    texts = table.select_dtypes(exclude=["number", "bool", "datetime"])
    return table.assign(**{str(name): column.map(_plain) for name, column in texts.items()}).to_csv(
        index=False
    )


def _plain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    value = value.replace("\r", " ")  # which pandas does not quote, and readers take for the end of a row
    return f"'{value}" if value.lstrip().startswith(_BEGINS) else value
