"""Which cells of a chapter have to run before others can: a page asks when a reader runs a part of it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

_GIVEN = {*dir(builtins), "display", "get_ipython"}  # by Python, and by a notebook


def needed(cells: Sequence[str], chosen: Sequence[int], ran: Sequence[int]) -> list[int]:
    """The cells to run, in their order, so that the `chosen` ones find every name that they use.

    cells    the code of each code cell of a page
    chosen   indices of the cells that the reader wants to run
    ran      indices of the cells that this kernel has run, in the order in which it ran them

    A name comes from the last cell before its use that gives it a value.  That cell is not run again where it
    was the last one to do so in this kernel too.
    """
    looks = [_look(code) for code in cells]
    writer = {name: index for index in ran for name in looks[index][1]}
    run: set[int] = set()
    wanted: set[str] = set()
    for index in range(max(chosen, default=-1), -1, -1):
        uses, binds = looks[index]
        # A cell that was written over by a later one is as one that never ran.
        stale = {name for name in binds & wanted if writer.get(name) != index}
        if index in chosen or stale:
            run.add(index)
            wanted = (wanted - binds) | uses
        else:
            wanted -= binds
    return sorted(run)


def _look(code: str) -> tuple[set[str], set[str]]:
    """The names that a cell uses before it gives them a value, and those that it gives one."""
    reader = _Names()
    try:
        reader.visit(ast.parse(code))
    except SyntaxError:  # the kernel will say so
        return set(), set()
    return reader.uses - _GIVEN, reader.binds


class _Names(ast.NodeVisitor):
    """Walks a cell as Python runs it.  What a function uses counts as used where the function is made."""

    def __init__(self) -> None:
        self.uses: set[str] = set()
        self.binds: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.uses |= {node.id} - self.binds
        else:
            self.binds.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        for part in (node.value, *node.targets):  # the value comes first
            self.visit(part)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.uses |= {node.target.id} - self.binds
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        for part in (node.iter, node.target, *node.body, *node.orelse):
            self.visit(part)

    def visit_alias(self, node: ast.alias) -> None:
        self.binds.add(node.asname or node.name.partition(".")[0])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.decorator_list, *node.args.defaults):
            self.visit(part)
        self.binds.add(node.name)
        self._inner(node.args, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inner(node.args, [node.body])

    def _inner(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> None:
        inside = _Names()
        inside.binds = {given.arg for given in ast.walk(arguments) if isinstance(given, ast.arg)}
        for part in body:
            inside.visit(part)
        self.uses |= inside.uses - self.binds

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        inside = _Names()
        for part in node.generators:
            for piece in (part.iter, part.target, *part.ifs):
                inside.visit(piece)
        for piece in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            inside.visit(piece)
        self.uses |= inside.uses - self.binds

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension
