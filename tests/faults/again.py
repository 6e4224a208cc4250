"""`python again.py`: the command line, once for each line of stdin, each time in a process of its own.

A line is JSON: the words, the folder to be in, the environment, the lock's folder and the file for what it
says.  The answer is a line with the status.  What takes a second, to start Python and to import, is over.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from sched_labs import cli
from sched_labs.core import lock, registry


def main() -> None:
    for kind in sys.argv[1:]:
        registry.find(kind)  # and with it what it imports
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _play(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _play(asked: dict[str, Any]) -> None:
    status = 70
    try:
        said = os.open(asked["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for number in (1, 2):
            os.dup2(said, number)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        lock._PLACES = (Path(asked["lock"]),)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = cli.main(asked["words"])
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
