"""Hold an experiment to what the book promises of every one, as scikit-learn's `check_estimator` does.

    from sched_labs.testing import check_experiment
    check_experiment("naps.overshoot")

The contract is a list of clauses (`CLAUSES`), each of which names what is wrong in sentences.  A test that
wants one outcome for each clause takes them one by one:

    @pytest.mark.parametrize("clause", CLAUSES)
    def test_the_contract(clause): assert CLAUSES[clause](subject("naps.overshoot")) == []

The cases of an experiment's claims stand beside it in `cases.py`: `CASES`, a list of `Case`.
"""

from .cases import Case, constructed
from .contract import CLAUSES, ContractError, Subject, check_experiment, subject
from .labs import check_lab
from .watch import Watched, watched

__all__ = [
    "CLAUSES", "Case", "ContractError", "Subject", "Watched", "check_experiment", "check_lab",
    "constructed", "subject", "watched",
]  # fmt: skip
