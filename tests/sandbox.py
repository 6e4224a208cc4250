"""A copy-on-write view of this machine for tests that install things: nothing they write is there afterwards.

In a mount namespace of its own, /etc, /usr and /var are covered by overlays whose upper halves are in memory.
A test can add users, sudo rules and packages there, and run commands as root or as such a user.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

_COVER = """
set -e
mount -t tmpfs tmpfs "$1"
for folder in $2; do
    mkdir -p "$1/$folder/upper" "$1/$folder/work"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" "$folder"
done
for folder in $3; do chmod o+rx "$folder"; done
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
echo covered
exec cat
"""


class Sandbox:
    """Commands inside the covered machine."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def run(
        self, *command: str | Path, user: int = 0, stdin: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there, with the clean environment of `user`."""
        become = (
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--reset-env"] if user else []
        )
        return subprocess.run(
            ["nsenter", "-t", str(self._pid), "-m", "--", *become, *map(str, command)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
            cwd="/",
        )

    def python(self, code: str, user: int = 0) -> subprocess.CompletedProcess[str]:
        """Run Python with this repository's package and this interpreter's libraries."""
        path = os.pathsep.join([str(REPOSITORY / "src"), *(p for p in sys.path if p)])
        program = f"import sys\nsys.path[:0] = {path!r}.split({os.pathsep!r})\n{code}"
        return self.run(sys.executable, "-c", program, user=user)

    def add_user(self, name: str) -> int:
        """A new system user without a home; its uid."""
        done = self.run("useradd", "--system", "--user-group", "--no-create-home", name)
        assert done.returncode == 0, done.stderr
        return int(self.run("id", "-u", name).stdout)


@contextlib.contextmanager
def sandbox() -> Iterator[Sandbox]:
    """Cover this machine. RuntimeError with the reason where that is not possible."""
    if os.geteuid() != 0:
        raise RuntimeError("only root can cover the machine's folders")
    folders = {"/etc", "/usr", "/var"}
    closed = []  # folders on the way to Python and to us that other users may not enter
    for place in {Path(sys.executable).resolve(), Path(sys.executable), REPOSITORY / "src"}:
        for parent in place.parents:
            if not parent.stat().st_mode & 0o001:
                folders.add(f"/{parent.parts[1]}")
                closed.append(str(parent))
    # Not below a folder that is covered.
    with tempfile.TemporaryDirectory(dir="/run", prefix="sched-labs-tests-") as upper:
        holder = subprocess.Popen(
            [
                *("unshare", "--mount", "--propagation", "private", "sh", "-c", _COVER),
                *("sh", upper, " ".join(sorted(folders)), " ".join(closed)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert holder.stdin and holder.stdout and holder.stderr
        try:
            if holder.stdout.readline() != "covered\n":
                raise RuntimeError(f"the machine cannot be covered: {holder.stderr.read().strip()}")
            machine = Sandbox(holder.pid)
            if machine.run("test", "-d", f"{upper}/etc").returncode:
                raise RuntimeError("in a chroot, commands would run on the machine around it")
            yield machine
        finally:
            holder.stdin.close()
            holder.wait(timeout=30)
            holder.stdout.close()
            holder.stderr.close()
