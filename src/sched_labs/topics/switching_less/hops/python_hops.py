"""Two greenlets, and two tasks of asyncio, hand a turn back and forth.  A program, started by `hops.py`.

    python_hops.py TRIALS HOPS
    hop by=asyncio trial=0 hops=... elapsed_ns=... cpu_ns=... voluntary=... involuntary=...

It speaks the workloads' protocol and uses nothing of this package, so that it starts quickly.
"""

import asyncio
import os
import resource
import sys
import threading
import time
from collections.abc import Callable


def end_with_standard_input() -> None:
    """Waits for the line that starts us; ends the program when whoever started it has gone."""
    if not sys.stdin.readline():
        os._exit(1)

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


Look = tuple[int, resource.struct_rusage]


def look() -> Look:
    """What has passed until now: time, and what this process used."""
    return time.monotonic_ns(), resource.getrusage(resource.RUSAGE_SELF)


def by_asyncio(hops: int) -> tuple[Look, Look]:
    """sleep(0) hands over to the loop, which takes the other task.

    Looks before and after: to make the loop and to close it is no hop.
    """

    async def take_turns() -> None:
        for _ in range(hops // 2):
            await asyncio.sleep(0)

    async def both() -> tuple[Look, Look]:
        before = look()
        await asyncio.gather(take_turns(), take_turns())
        return before, look()

    return asyncio.run(both())


def by_greenlet() -> Callable[[int], tuple[Look, Look]] | None:
    """None where greenlet is not installed."""
    try:
        import greenlet  # type: ignore[import-untyped]
    except ImportError:
        return None
    main = greenlet.getcurrent()

    def turn_back() -> None:
        back = main.switch
        while True:
            back()

    over = greenlet.greenlet(turn_back).switch

    def play(hops: int) -> tuple[Look, Look]:
        before = look()
        for _ in range(hops // 2):
            over()
        return before, look()

    return play


def main() -> None:
    """Play every way there is, in turns."""
    trials, hops = int(sys.argv[1]), int(sys.argv[2])
    ways: dict[str, Callable[[int], tuple[Look, Look]]] = {"asyncio": by_asyncio}
    if play := by_greenlet():
        ways["greenlet"] = play
    end_with_standard_input()
    for trial in range(trials):
        for name, play in ways.items():
            play(hops // 10)
            (start, before), (end, after) = play(hops)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            voluntary, involuntary = after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw
            print(
                f"hop by={name} trial={trial} hops={hops // 2 * 2} elapsed_ns={end - start} "
                f"cpu_ns={int(1e9 * cpu)} voluntary={voluntary} involuntary={involuntary}"
            )
    print("done")


if __name__ == "__main__":
    main()
