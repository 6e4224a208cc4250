"""Which cells of a chapter have to run before others can: a page asks when a reader runs a part of it."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
from collections.abc import Sequence
from types import CodeType

_GIVEN = {*dir(builtins), "__annotations__", "display", "get_ipython"}  # by Python, and by a notebook


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


@functools.lru_cache(1000)  # a page's cells, looked at for each that is asked for
def _look(code: str) -> tuple[set[str], set[str]]:
    """The names that a cell uses before it gives them a value, and those that it gives one."""
    try:
        compiled = compile(code, "a cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):  # the kernel will say so
        return set(), set()
    assert isinstance(compiled, CodeType)
    uses, binds = _names(compiled)
    return uses - _GIVEN, binds


def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """The same of compiled code, as Python would look names up.

    What a function or a class inside uses counts as used where it is made.
    """
    uses: set[str] = set()
    binds: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
            uses |= {step.argval} - binds
        elif step.opname == "STORE_NAME":
            binds.add(step.argval)
        elif isinstance(step.argval, CodeType):
            uses |= _names(step.argval)[0] - binds
    return uses, binds
