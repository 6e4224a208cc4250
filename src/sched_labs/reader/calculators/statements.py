"""The literature's statements with what the formulas make of them, as one table."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from ...claims.base import html_table
from .base import ADDS_UP, IMPOSSIBLE, OFF, number

_CLASS = {ADDS_UP: "holds", OFF: "fails", IMPOSSIBLE: "fails"}


class Statements:
    """The literature's statements with what the formulas make of them.  Shows itself as a table."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._rows = rows

    def table(self) -> pd.DataFrame:
        """One row per statement; the columns of `Calculator.cases`, and calculator."""
        return self._rows.copy()

    def counts(self) -> dict[str, int]:
        """How many statements there are of each verdict."""
        return {verdict: int((self._rows["verdict"] == verdict).sum()) for verdict in _CLASS}

    def _each(self) -> list[dict[str, Any]]:
        return [{str(name): value for name, value in row.items()} for row in self._rows.to_dict("records")]

    def __repr__(self) -> str:
        return "\n".join(
            f"{row['verdict']:>15}  {row['statement']}  Said {number(row['said'])}, computed "
            f"{number(row['computed'])} {row['unit']}."
            for row in self._each()
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td>{escape(row["statement"])}<span class="source">{row["claim"]}, {escape(row["source"])}'
            f"</span></td><td>{escape(row['quantity'])}: said {number(row['said'])}, computed "
            f"{number(row['computed'])} {escape(row['unit'])}</td>"
            f'<td><span class="verdict {_CLASS[row["verdict"]]}">{row["verdict"]}</span></td></tr>'
            for row in self._each()
        )
        return html_table(("People say", "The formula", "Verdict"), rows)
