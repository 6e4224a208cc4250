"""Ctrl-C reaches the programs that tests start, however the suite itself was started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path


def test_a_started_program_does_not_ignore_it() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
    assert not int(ignored.split()[1], 16) >> (signal.SIGINT - 1) & 1


def test_also_in_the_background_of_a_script() -> None:
    """A shell without job control has what it starts with `&` ignore SIGINT (POSIX, Shell, 2.11)."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    chosen = f"{Path(__file__)}::{test_a_started_program_does_not_ignore_it.__name__}"
    script = ["sh", "-c", '"$@" & wait "$!"', "sh", *words, chosen]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
