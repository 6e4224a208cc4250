"""Hold a lab to its promise: its solution passes and its starter does not, and its texts are there."""

from __future__ import annotations

from .. import labs
from .contract import ContractError


def check_lab(name: str, *, seed: int = 1) -> None:
    """Check a lab's own solution and starter on this machine.

    Raises ContractError, which names all that is wrong, and SchedLabError where the check itself breaks.
    """
    lab = labs.find(name)
    wrong = []
    solved = labs.check_folder(lab, lab.folder / "solution", seed=seed)
    if not solved.passed:
        wrong.append(f"its solution does not pass:\n{solved}")
    if labs.check_folder(lab, lab.folder / "starter", seed=seed).passed:
        wrong.append("its starter passes")
    if [path.name for path in lab.starter] != [path.name for path in lab.solution]:
        wrong.append("starter and solution are not files of the same names")
    if not (lab.folder / "instructor.md").is_file():
        wrong.append("instructor.md is missing")
    elif not lab.minutes:
        wrong.append("instructor.md does not say how long it takes, in a line such as: Time: 15 minutes")
    if wrong:
        raise ContractError("\n  ".join([f"The lab {lab.name} breaks its contract:", *wrong]))
