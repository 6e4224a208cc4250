"""Does each lab's check take the right answers, and never a wrong one?  A round takes a quarter of an hour.

    python benchmarks/labs.py                       # every answer of every lab, ROUNDS times
    python benchmarks/labs.py convoy --rounds 5     # one lab
    python benchmarks/labs.py --load 2              # beside two programs that never sleep
    python benchmarks/labs.py --kept benchmarks/recorded/labs.jsonl --minutes 30   # until all are there

Right are a lab's solution and what lies in tests/lab_answers/LAB/right; wrong are its starter and what lies
in tests/lab_answers/LAB/wrong.  On a quiet machine a right answer passes each time; beside a load it passes,
or the check says that it cannot judge; a wrong one never passes.  Anything else makes the
status 1, as does a check that is left.
Kept checks count as long as the code of the lab, of its answers and of the room of labs is as it was.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kept import Kept

from sched_labs import labs
from sched_labs.core.errors import SchedLabError
from sched_labs.run import kept

ANSWERS = Path(__file__).resolve().parents[1] / "tests" / "lab_answers"
ROUNDS = 20
HOG = ("sh", "-c", "while :; do :; done")


@dataclass
class Answer:
    """One answer to a lab, and how its checks ended: passed, not yet, not judged, broke."""

    lab: labs.Lab
    folder: Path
    right: bool
    checks: list[dict[str, str]] = field(default_factory=list)  # `outcome`; the report where it is a surprise

    @property
    def name(self) -> str:
        return f"{self.lab.name}/{'right' if self.right else 'wrong'}/{self.folder.name}"

    @property
    def ended(self) -> Counter[str]:
        return Counter(check["outcome"] for check in self.checks)

    def check(self, seed: int) -> dict[str, str]:
        """Check it once more."""
        try:
            report = labs.check_folder(self.lab, self.folder, seed=seed)
            outcome = {True: "passed", False: "not yet", None: "not judged"}[report.passed]
            said = str(report)
        except SchedLabError as error:
            outcome, said = "broke", str(error)
        return {"outcome": outcome} if outcome == self.deserves else {"outcome": outcome, "said": said}

    @property
    def deserves(self) -> str:
        return "passed" if self.right else "not yet"

    def as_it_should(self, loaded: bool) -> bool:
        """Whether every check ended as its answer deserves."""
        return set(self.ended) <= {self.deserves} | ({"not judged"} if loaded else set())


def fingerprint(lab: labs.Lab, load: int) -> str:
    """What a check of this lab comes from: checks of an older state say nothing of this one."""
    places = (lab.folder, ANSWERS / lab.name, Path(labs.__file__).parent)
    code = {".py", ".c", ".h", ".json"}
    files = [path for place in places for path in sorted(place.rglob("*.*")) if path.suffix in code]
    return kept.digest([f"{load} hogs"], files)[:16]


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
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keep the checks there, and go on from it")
    parser.add_argument("--minutes", type=float, default=600, help="start no further check after these")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each round has the next one")
    options = parser.parse_args()
    chosen = [labs.find(name) for name in options.lab] or labs.all_labs()
    tried = [answer for lab in chosen for answer in answers(lab)]
    said = {lab.name: Kept(options.kept, fingerprint(lab, options.load)) for lab in chosen}
    seeds = range(options.seed, options.seed + options.rounds)
    end = time.monotonic() + 60 * options.minutes
    with contextlib.ExitStack() as stack:
        for _ in range(options.load):
            hog = subprocess.Popen(HOG)
            stack.callback(hog.wait)
            stack.callback(hog.kill)
        for seed in seeds:
            for answer in tried:
                known = said[answer.lab.name]
                if not known.has(answer.name, seed) and time.monotonic() < end:
                    begin = time.monotonic()
                    known.add(answer.name, seed, found := answer.check(seed))
                    print(f"{answer.name}: {found['outcome']} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"\nbeside {options.load} hogs:")
    for answer in tried:
        answer.checks = said[answer.lab.name].of(answer.name, seeds)
        good = answer.as_it_should(options.load > 0)
        print(f"  {'      ' if good else 'WRONG '} {answer.name:<50} {dict(answer.ended)}")
        if not good:
            surprises = {check["outcome"]: check["said"] for check in answer.checks if "said" in check}
            for outcome, text in surprises.items():
                print(f"           {outcome}:\n{text}")
    left = sum(len(seeds) - len(answer.checks) for answer in tried)
    if left:
        print(f"{left} checks are left.")
    return 0 if not left and all(answer.as_it_should(options.load > 0) for answer in tried) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill`, too, takes the hogs along
    sys.exit(main())
