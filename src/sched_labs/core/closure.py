"""What a module of the library rests on: the modules that it may import, found by reading them.

Guests carry the modules of their job and no others; the numbers of a chapter are out of date when one of the
modules that made them has changed.  Both ask here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from . import registry

_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def _homes() -> dict[str, Path]:
    """The folder that each package is in: the library's, and those of courses."""
    homes = {"sched_labs": _PACKAGE.parent}
    for package, folder in registry.roots().items():
        depth = len(package.split("."))
        homes.setdefault(package.partition(".")[0], folder.resolve().parents[depth - 1])
    return homes


def file_of(module: str) -> Path | None:
    """Where a module of the library or of a course is; None for anybody else's."""
    home = _homes().get(module.partition(".")[0])
    if not home:
        return None
    base = home.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def named(tree: ast.AST, package: str) -> set[str]:
    """Every module that code of this package names, anywhere in it, whether there is one or not.

    In an import, or by the name of its file beside it (a script that it starts).
    """
    found: set[str] = set()
    for node in _code(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            origin = ".".join(part for part in (above, node.module or "") if part)
            found.add(origin)
            found.update(f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"\w+\.py", str(node.value)):
            found.add(f"{package}.{str(node.value).removesuffix('.py')}")
    return found


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below `if TYPE_CHECKING:`, which never run."""
    if isinstance(tree, ast.If) and isinstance(tree.test, ast.Name) and tree.test.id == "TYPE_CHECKING":
        return
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _code(child)


@cache
def _imports(module: str) -> frozenset[str]:
    path = file_of(module)
    assert path
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return frozenset(name for name in named(ast.parse(path.read_bytes()), package) if file_of(name))


def _with_parents(module: str) -> Iterator[str]:
    while module:
        yield module
        module = module.rpartition(".")[0]


def closure(modules: Iterable[str], *, without: Iterable[str] = ()) -> dict[str, Path]:
    """Name -> file of these modules and of every one that they may import.

    without: modules that are there, but whose own imports do not count.
    """
    todo, found, closed = list(modules), dict[str, Path](), set(without)
    while todo:
        for module in _with_parents(todo.pop()):
            path = file_of(module)
            if module in found or not path:
                continue
            found[module] = path
            if module not in closed:
                todo += _imports(module)
    return found
