"""Sphinx reads on several CPUs only where every extension says that it may.

The one that numbers sections does not say so.  It does that when all are read, and this book numbers none.
"""

from __future__ import annotations

from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    if numbering := app.extensions.get("sphinx_multitoc_numbering"):
        numbering.parallel_read_safe = True
    return {"parallel_read_safe": True, "parallel_write_safe": True}
