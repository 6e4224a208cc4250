"""A library that is loaded when something of it is used, for commands that mostly use nothing of it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any


class _Postponed(ModuleType):
    """Stands for a module until an attribute of it is asked for.

    importlib.util.LazyLoader would load it at the next `import`, which looks at the module's __spec__.
    """

    def __getattr__(self, name: str) -> Any:
        del sys.modules[self.__name__]
        real = importlib.import_module(self.__name__)
        self.__dict__.update(real.__dict__)
        return getattr(real, name)


def postpone(name: str) -> None:
    """Let `import name` cost nothing for now; does nothing where it is loaded already or not installed.

    pandas takes longer to load than the survey of a machine, and whatever measures imports it at its head.
    """
    spec = importlib.util.find_spec(name) if name not in sys.modules else None
    if spec:
        sys.modules[name] = _Postponed(name)
        sys.modules[name].__spec__ = spec
