"""The reader's own Jupyter server, serving the book beside JupyterLab.

`extension` is the Jupyter server extension (pages under `/book/`; predictions and progress under
`/sched-labs/`), `desk` lays out the chapters that JupyterLab opens, `serve` starts it all.
Nothing is installed into the reader's Jupyter: the extension is named when the server starts.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "sched_labs.server"}]


def _load_jupyter_server_extension(server: Any) -> None:
    from . import extension

    extension.load(server)
