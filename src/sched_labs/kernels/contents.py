"""What goes into a guest, in a form that depends on nothing but its content.

The same sources give the same bytes on every machine, wherever things are installed.
A deterministic guest counts the instructions of unpacking and importing them too: every byte is part of
what makes two runs equal.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..core.closure import closure
from ..probes.channel import FILES
from .errors import KernelError

PACKAGE = Path(__file__).resolve().parent.parent
_EMPTY = {"sched_labs", "sched_labs.kernels", "sched_labs.kernels.jobs"}
"""Packages whose own code is for the host (they find things by name); a guest imports modules directly."""
HELPER = "/lab/sched_labs/probes/helper/sched-labs-probe"


def bytecode(source: bytes, guest_path: str) -> bytes:
    """The module compiled, as a .pyc that is never compared with its source.

    marshal's version 2 has no references between objects: later ones depend on what else the process has
    imported.
    """
    code = marshal.dumps(compile(source, guest_path, "exec", dont_inherit=True, optimize=0), 2)
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"\0" * 8 + code


def native(program: Path) -> bytes:
    """A program or shared library without its debugging information, which holds paths of the machine it
    was built on.

    Left as it is where there is no `strip` (it comes with the compiler).
    """
    strip = shutil.which("strip")
    if not strip:
        return program.read_bytes()
    with tempfile.NamedTemporaryFile() as stripped:
        words = [
            strip,
            "--strip-unneeded",
            "--remove-section=.note.gnu.build-id",
            "-o",
            stripped.name,
            str(program),
        ]
        done = subprocess.run(words, capture_output=True)
        return Path(stripped.name).read_bytes() if done.returncode == 0 else program.read_bytes()


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """Guest path -> host file of every shared library that the programs need, by ldd.

    The loader keeps its path; all other libraries go to /usr/lib, where it looks by itself.
    """
    wanted = sorted(str(program) for program in programs)
    if not wanted:
        return {}
    done = subprocess.run(
        ["ldd", *wanted], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": os.defpath}
    )
    found = {}
    for line in done.stdout.splitlines():
        named = re.match(r"\s+(\S+) => (?:(/\S+) \(0x|(not found))", line)
        loader = re.match(r"\s+(/\S+) \(0x", line)
        if named and named[3]:
            raise KernelError(
                f"A program for the guest needs the library {named[1]}, which is not installed."
            )
        if named:
            found[f"/usr/lib/{named[1].rpartition('/')[2]}"] = Path(named[2])
        elif loader:
            found[loader[1]] = Path(loader[1])
    return found


def interpreter() -> Path:
    """This Python itself, not the link in a virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable) or sys.executable).resolve()


class _WithoutDocstrings(ast.NodeTransformer):
    def _strip(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
        if ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            body[:1] = [] if len(body) > 1 or isinstance(node, ast.Module) else [ast.Pass()]
        return node

    visit_Module = visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _strip


def essence(source: bytes) -> bytes:
    """The module's code without comments, docstrings and layout.

    A reworded comment must not change what a guest unpacks, and with it the digits of a deterministic run.
    """
    tree = _WithoutDocstrings().visit(ast.parse(source))
    return (ast.unparse(tree) + "\n").encode()


def library(*modules: str) -> dict[str, bytes]:
    """Guest path -> code of the modules and of every module of the library that they may import, and the
    privileged programs where one of them starts these.
    """
    found = closure(modules, without=_EMPTY)
    files = {
        _guest_path(module, path): b"" if module in _EMPTY else essence(path.read_bytes())
        for module, path in found.items()
    }
    if "sched_labs.probes.channel" in found:
        folder = PACKAGE / "probes" / "helper"
        for path in sorted(path for kind in FILES for path in folder.rglob(kind)):
            files[f"/lab/{path.relative_to(PACKAGE.parent)}"] = path.read_bytes()
    return files


def _guest_path(module: str, path: Path) -> str:
    place = f"/lab/{module.replace('.', '/')}"
    return f"{place}/__init__.py" if path.name == "__init__.py" else f"{place}.py"


def with_bytecode(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files, and beside each module what Python would make of it at its first import."""
    compiled = {}
    for guest, source in files.items():
        if guest.endswith(".py"):
            folder, _, name = guest.rpartition("/")
            cached = f"{folder}/__pycache__/{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
            compiled[cached] = bytecode(source, guest)
    return {**files, **compiled}
