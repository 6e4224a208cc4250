"""Formulas that check the arithmetic of what is said about the scheduler, with its own numbers filled in.

    from sched_labs import calculators
    calculators.calculator("refill")            # sliders in JupyterLab, a table on a page
    calculators.refill.table(working_set_kib=256, cycles_per_line=12)
    calculators.refill.cases()                  # what the literature puts in, says, and should have got

A case is a statement of the literature that gives both the inputs of a formula and its outcome.  Nothing is
measured here: a statement that adds up may still be wrong about a machine; one that does not says too little,
or is wrong about every machine.
"""

from __future__ import annotations

import pandas as pd

from ...core.errors import ParameterError
from .base import ADDS_UP, IMPOSSIBLE, OFF, Calculator, Case, Input, Quantity, number
from .formulas import (
    CALCULATORS,
    exhaustion,
    implied_cost,
    per_cpu,
    per_work,
    refill,
    switch_share,
    tax,
    time_of,
    turn,
    utilisation,
)
from .statements import Statements

__all__ = [
    "ADDS_UP", "CALCULATORS", "IMPOSSIBLE", "OFF", "Calculator", "Case", "Input", "Quantity", "Statements",
    "calculator", "exhaustion", "implied_cost", "number", "per_cpu", "per_work", "refill", "statements",
    "switch_share", "tax", "time_of", "turn", "utilisation",
]  # fmt: skip


def calculator(name: str) -> Calculator:
    """A calculator by its name.  Raises ParameterError for one that there is not."""
    if name not in CALCULATORS:
        raise ParameterError(f"There is no calculator {name!r}.", f"There are {', '.join(CALCULATORS)}.")
    return CALCULATORS[name]


def statements(*names: str) -> Statements:
    """The statements for these calculators, or for all.  Raises ParameterError for a calculator not known."""
    chosen = names or tuple(CALCULATORS)
    parts = [calculator(name).cases().assign(calculator=name) for name in chosen]
    return Statements(pd.concat(parts, ignore_index=True))
