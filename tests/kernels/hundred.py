"""Many boots in a row: is a result ever lost?

    python tests/kernels/hundred.py [BOOTS] [KERNEL ...]        # default: 100, of 6.1 and 6.12 in turn

Each boot runs the smallest job in an emulated guest, whether or not KVM works here, because it is emulation
that breaks guests now and then.
Prints every guest that had to be started again, and at the end how many boots answered and how long they
took; its status is 1 when a result was lost.
"""

from __future__ import annotations

import statistics
import sys

from sched_labs import kernels
from sched_labs.kernels.errors import GuestError


def main() -> int:
    boots, *given = sys.argv[1:] or ["100"]
    wanted = given or ["6.1", "6.12"]
    times_s, again, lost = [], 0, 0
    for number in range(int(boots)):
        name = wanted[number % len(wanted)]
        try:
            answer = kernels.run(name, "hello", timing="vm-emulated")
        except GuestError as error:
            lost += 1
            print(f"{number + 1}: {name} gave no answer: {error}", flush=True)
            continue
        assert answer.value["release"].startswith(f"{name.partition('-')[0]}.")
        times_s.append(answer.duration_s)
        again += answer.retries
        if answer.retries:
            print(f"{number + 1}: {name} broke and was started again", flush=True)
    middle, worst = (statistics.median(times_s), max(times_s)) if times_s else (0.0, 0.0)
    print(
        f"{len(times_s)} of {boots} boots answered, {again} after a second start, {lost} not at all; "
        f"{middle:.1f} s in the median, {worst:.1f} s at most."
    )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
