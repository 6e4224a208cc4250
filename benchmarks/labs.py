"""Does each lab's check take the right answers, and never a wrong one?  A round takes a quarter of an hour.

    python benchmarks/labs.py                       # every answer of every lab, ROUNDS times
    python benchmarks/labs.py convoy --rounds 5     # one lab
    python benchmarks/labs.py --load 2              # beside two programs that never sleep
    python benchmarks/labs.py --minutes 30          # stops after that time, with what it has

Right are a lab's solution and what lies in tests/lab_answers/LAB/right; wrong are its starter and what lies
in tests/lab_answers/LAB/wrong.  On a quiet machine a right answer passes each time; beside a load it passes,
or the check says that it cannot judge; a wrong one never passes.  Anything else makes the status 1.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sched_labs import labs
from sched_labs.core.errors import SchedLabError

ANSWERS = Path(__file__).resolve().parents[1] / "tests" / "lab_answers"
ROUNDS = 20
HOG = ("sh", "-c", "while :; do :; done")


@dataclass
class Answer:
    """One answer to a lab, and how its checks ended: passed, not yet, not judged, broke."""

    lab: labs.Lab
    folder: Path
    right: bool
    ended: Counter[str] = field(default_factory=Counter)
    said: dict[str, str] = field(default_factory=dict)  # the last report of each outcome

    @property
    def name(self) -> str:
        return f"{self.lab.name}/{'right' if self.right else 'wrong'}/{self.folder.name}"

    def check(self, seed: int) -> None:
        """Check it once more."""
        try:
            report = labs.check_folder(self.lab, self.folder, seed=seed)
            outcome = {True: "passed", False: "not yet", None: "not judged"}[report.passed]
            said = str(report)
        except SchedLabError as error:
            outcome, said = "broke", str(error)
        self.ended[outcome] += 1
        self.said[outcome] = said

    def as_it_should(self, loaded: bool) -> bool:
        """Whether every check ended as its answer deserves."""
        allowed = {"passed"} if self.right else {"not yet"}
        return set(self.ended) <= allowed | ({"not judged"} if loaded else set())


def answers(lab: labs.Lab) -> Iterator[Answer]:
    """All that there are to a lab: right ones first."""
    own = ANSWERS / lab.name
    yield Answer(lab, lab.folder / "solution", True)
    yield from (Answer(lab, folder, True) for folder in sorted(own.glob("right/*")))
    yield Answer(lab, lab.folder / "starter", False)
    yield from (Answer(lab, folder, False) for folder in sorted(own.glob("wrong/*")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("lab", nargs="*", help="numbers or parts of names (default: all)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"checks of each answer ({ROUNDS})")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="N hogs beside it")
    parser.add_argument("--minutes", type=float, default=600, help="stop after that time")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each round has the next one")
    options = parser.parse_args()
    chosen = [labs.find(name) for name in options.lab] or labs.all_labs()
    tried = [answer for lab in chosen for answer in answers(lab)]
    end = time.monotonic() + 60 * options.minutes
    with contextlib.ExitStack() as stack:
        for _ in range(options.load):
            hog = subprocess.Popen(HOG)
            stack.callback(hog.wait)
            stack.callback(hog.kill)
        for number in range(options.rounds):
            for answer in tried:
                if time.monotonic() < end:
                    begin = time.monotonic()
                    answer.check(options.seed + number)
                    print(
                        f"{answer.name}: {dict(answer.ended)} ({time.monotonic() - begin:.0f} s)", flush=True
                    )
    print(f"\nbeside {options.load} hogs:")
    for answer in tried:
        good = answer.as_it_should(options.load > 0)
        print(f"  {'      ' if good else 'WRONG '} {answer.name:<50} {dict(answer.ended)}")
        if not good:
            for outcome, said in answer.said.items():
                print(f"           {outcome}:\n{said}")
    return 0 if all(answer.as_it_should(options.load > 0) for answer in tried) else 1


if __name__ == "__main__":
    sys.exit(main())
