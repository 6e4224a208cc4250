"""From a fresh clone to the finished book: how long `make book` takes.  `make bench-book` runs this.

The clone, its virtual environment, its caches (pip's among them) and the reader's data are new; the system
packages are those that are there, so a bare machine takes as much longer as apt needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET_S = 360.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sched-labs-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        fresh = {"XDG_DATA_HOME": f"{folder}/data", "XDG_CACHE_HOME": f"{folder}/cache"}
        start = time.monotonic()
        made = subprocess.run(["make", "-C", str(clone), "book"], env=os.environ | fresh, check=False)
        took_s = time.monotonic() - start
    if made.returncode:
        print("make book failed")
        return made.returncode
    print(f"make book from a fresh clone: {took_s:.0f} s, target < {TARGET_S:.0f} s")
    return int(took_s >= TARGET_S)


if __name__ == "__main__":
    sys.exit(main())
