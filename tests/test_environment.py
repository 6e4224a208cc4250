"""environment.yml and pyproject.toml name the same Python dependencies."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
CONDA_NAMES = {"matplotlib-base": "matplotlib"}  # the same library without a window system


def _requirement(text: str) -> tuple[str, SpecifierSet]:
    requirement = Requirement(text)
    return CONDA_NAMES.get(requirement.name, requirement.name), requirement.specifier


def test_conda_gets_the_same_dependencies_as_pip() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    plain = [entry for entry in environment if isinstance(entry, str)]
    (by_pip,) = (entry["pip"] for entry in environment if isinstance(entry, dict))
    names = {"python", "pip"}
    conda = dict(
        _requirement(entry)
        for entry in [*plain, *by_pip]
        if entry != "-e ." and entry.split()[0] not in names
    )
    assert conda == dict(_requirement(entry) for entry in project["dependencies"])
    assert "-e ." in by_pip

    (python,) = (entry.split(maxsplit=1)[1] for entry in plain if entry.startswith("python "))
    allowed = SpecifierSet(python) & SpecifierSet(project["requires-python"])
    assert [minor for minor in range(9, 16) if allowed.contains(f"3.{minor}")] == [11, 12, 13]


def test_bcc_comes_from_the_system_only() -> None:
    for name in ("pyproject.toml", "environment.yml"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.strip(' -"').startswith("bcc")], name
