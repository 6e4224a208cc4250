"""What the modules of cases share, in which claims are judged on CONSTRUCTED summaries."""

from __future__ import annotations

from typing import Any

from sched_labs.testing import constructed

__all__ = ["Case", "constructed"]

# claim's id, outcome, rows of the constructed summary, what the reason must say
Case = tuple[str, str, list[dict[str, Any]], str]
