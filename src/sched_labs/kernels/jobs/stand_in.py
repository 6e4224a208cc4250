"""What a guest has in the place of NumPy and pandas.

They would triple its size, and NumPy's binaries refuse the CPU that QEMU emulates safely (they want
cmpxchg16b, see qemu.py).
Experiments import them for what they do on the host with the rows that were measured.
In the guest these imports succeed, and any use says where the mistake is.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Absent:
    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(
            f"{self._name} was used while measuring; a guest has neither NumPy nor pandas. "
            "Give the rows to run.add() as dicts, and compute with them in summarise()."
        )

    __call__ = __getattr__ = __getitem__ = _refuse


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")


def install() -> None:
    """Lets `import numpy` and `import pandas` succeed in this process."""
    for name in ("numpy", "numpy.typing", "pandas"):
        sys.modules[name] = _Module(name)
