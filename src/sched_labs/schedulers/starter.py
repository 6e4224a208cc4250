"""A new scheduler's file: the simplest of the examples under a name of the reader's."""

from __future__ import annotations

import re
from pathlib import Path

from ..core.errors import ParameterError
from ..core.store import write_text
from .compile import EXAMPLES


def new(name: str, folder: str | Path = ".") -> Path:
    """Lays out NAME.bpf.c, a working FIFO to be changed, and returns where.

    Raises ParameterError for a name that C cannot use, and for a file that is there already.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name):
        raise ParameterError(
            f"{name!r} cannot be a scheduler's name.",
            "Use small letters, digits and _, beginning with a letter.",
        )
    path = Path(folder) / f"{name}.bpf.c"
    if path.exists():
        raise ParameterError(f"{path} is there already.", "Choose another name, or remove it.")
    write_text(path, (EXAMPLES / "fifo.bpf.c").read_text().replace("fifo", name))
    return path
