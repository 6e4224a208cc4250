"""What vm-test.sh tries inside the booted machine: one line for each thing, to standard output.

    vm-inside.py first,PORT    the doctor, an experiment of each chapter, the server's own kernel
    vm-inside.py second,PORT   after the upgrade of the kernel: the waits are still counted in the kernel
    vm-inside.py --list first  only name what would be tried

PORT is the port of the host that is forwarded to this machine.
It runs as root, as whoever logs in may be; every command of the book runs as `reader` all the same.  Each
line begins with `passed:`, `FAILED:` or `note:`; the last one is `over`.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

HOME = Path("/home/reader")
HOST = "10.0.2.2"  # as QEMU's network calls it
LIMIT_S = 1200  # for one experiment that hangs; the processor is emulated, perhaps on a busy machine

# One experiment of each chapter that measures; and, run as from a page, all of the chapter on throttling:
# those need control groups.
IN_A_TERMINAL = ("context_switch.matrix", "ring.sweep", "runqlat.histogram", "convoy.locks")
IN_A_PAGE = (
    "quota.hog",
    "quota.threads",
    "service.latency",
    "service.contention",
    "throttle.timeline",
    "nested.groups",
    "isolation.cpuset",
)
# An emulated processor loads a BPF program so slowly that the measured processes have to live longer.
LONGER = {"runqlat.histogram": ("--set", "duration_s=40")}


def checks(boot: str, port: str) -> dict[str, Callable[[], str]]:
    """What is tried, in this order; each says what it found, or raises."""
    kernel = cache(Kernel)  # started by the first one that uses it
    begin = {
        "the kernel is not the one that was provisioned": other_kernel,
        "there is no network": partial(no_network, port),
        "control groups are of version 2": unified_groups,
        "the doctor": doctor,
        "who logs in finds the address": address,
    }
    first = {
        **{name: partial(in_a_terminal, name) for name in IN_A_TERMINAL},
        **{f"{name}, in the server's kernel": partial(in_a_page, kernel, name) for name in IN_A_PAGE},
        "JupyterLab shows a file that a command wrote": partial(shown, kernel),
        "quota.hog, from a terminal": partial(in_a_terminal, "quota.hog"),
        "quota.hog, under systemd-run --user --scope": in_a_scope,
        "quota.hog, in a group that the helper lends": in_a_lent_group,
    }
    second = {
        "runqlat.histogram": partial(in_a_terminal, "runqlat.histogram"),
        "the reader's earlier results are there": kept,
    }
    return {**begin, **(first if boot == "first" else second), "nothing is left behind": clean}


def attempt(what: str, try_it: Callable[[], str]) -> None:
    try:
        say(f"passed: {what}: {try_it()}")
    except Exception as error:  # whatever it is, the next one is tried
        say(f"FAILED: {what}: {type(error).__name__}: {error}")


def say(line: str) -> None:
    print(line.replace("\n", "\n      "), flush=True)


def expect(holds: bool, otherwise: object) -> None:
    if not holds:
        raise AssertionError(otherwise)


# ---- the machine ----


def other_kernel() -> str:
    built = (HOME / "provisioned-with").read_text().strip()
    expect(platform.release() != built, f"it is {built}")
    return f"{platform.release()}, provisioned with {built}"


def no_network(port: str) -> str:
    """Nobody is reached, not even the host, where somebody does listen on `port`."""
    try:
        socket.create_connection((HOST, int(port)), timeout=10).close()
    except OSError as error:
        return f"{HOST}:{port}: {error}"
    raise AssertionError(f"{HOST} answers")


def unified_groups() -> str:
    there = Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
    expect({"cpu", "cpuset"} <= set(there), there)
    return " ".join(there)


# ---- the reader's commands ----


def command(*words: str, limit_s: float = LIMIT_S) -> str:
    done = subprocess.run(
        ["sched-labs", *words], capture_output=True, text=True, timeout=limit_s, cwd="/", check=False
    )
    expect(done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def doctor() -> str:
    facts = json.loads(command("doctor", "--json"))
    text = json.dumps(facts)
    expect(platform.release() in text, text)
    return f"{len(text):,} characters"


def address() -> str:
    found = command("url").strip()
    expect(found.startswith("http://localhost:8888/book/?token="), found)
    return "http://localhost:8888/book/?token=…"


def in_a_terminal(name: str) -> str:
    path = HOME / f"{name}.json"
    command("run", name, "--profile", "tiny", "--json", str(path), *LONGER.get(name, ()))
    return measured(name)


def in_a_scope() -> str:
    """As on a reader's own computer: a group inside the one that systemd hands to everybody who logs in."""
    uid = pwd.getpwnam("reader").pw_uid
    subprocess.run(["systemctl", "start", f"user@{uid}.service"], check=True, capture_output=True, text=True)
    there = as_reader("systemd-run", "--user", "--scope", "--quiet", runtime=f"/run/user/{uid}")
    expect(f"/user@{uid}.service/" in there, there)
    return f"{measured('quota.hog')}, in {there}"


def in_a_lent_group() -> str:
    """As where nothing is handed out, such as in a container: the privileged helper makes one."""
    there = as_reader()
    expect("/sched-labs-loan-" in there, there)
    return f"{measured('quota.hog')}, in {there}"


def as_reader(*under: str, runtime: str = "") -> str:
    """Run quota.hog as the reader, from this service's group; where its groups were."""
    code = (
        "from sched_labs import cgroups, quota\n"
        "with cgroups.group('there') as group: print(group.path)\n"
        f"quota.hog(profile='tiny', progress=False).save({str(HOME / 'quota.hog.json')!r})\n"
    )
    done = subprocess.run(
        ["runuser", "-u", "reader", "--", "env", f"HOME={HOME}", f"XDG_RUNTIME_DIR={runtime}", *under,
         "/opt/sched-labs/.venv/bin/python", "-c", code],
        capture_output=True, text=True, timeout=LIMIT_S, cwd="/", check=False,
    )  # fmt: skip
    expect(done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout.splitlines()[0]


def measured(name: str) -> str:
    """Judge a result by its file: who made it, what is in it, and what it says is missing."""
    path = HOME / f"{name}.json"
    result = json.loads(path.read_text())
    expect(path.owner() == "reader", f"it belongs to {path.owner()}")
    expect(result["kind"] == name and result["timing"] == "native", result["kind"])
    expect(result["machine"]["kernel"] == platform.release(), result["machine"]["kernel"])
    expect(result["rows"] > 0 and bool(result["columns"]), f"{result['rows']} rows")
    missing = [note["text"] for note in result["notes"] if note["level"] == "missing"]
    if name == "runqlat.histogram":
        counted = instruments(result)
        expect("bpf" in counted, f"counted by {', '.join(counted)}; {missing}")
    if name in IN_A_PAGE:
        expect(result["machine"]["cgroup"] == "v2", result["machine"]["cgroup"])
    for text in missing:
        say(f"note: {name} misses: {text}")
    return f"{result['rows']} rows in {result['duration_s']:.0f} s"


def instruments(result: dict[str, Any]) -> list[str]:
    """Which instruments really have rows."""
    column = next(column for column in result["columns"] if column["name"] == "instrument")
    return [column["words"][code] for code in sorted(set(column["codes"]))]


def kept() -> str:
    found = sorted(path.name for path in HOME.glob("*.json"))
    expect(len(found) == len(IN_A_TERMINAL) + len(IN_A_PAGE), found)
    return ", ".join(found)


def clean() -> str:
    say_so = command("clean").strip()
    left = subprocess.run(
        ["pgrep", "-af", "workloads|sched-labs-(probe|lend)"], capture_output=True, text=True
    )
    expect(left.returncode == 1, left.stdout)
    return say_so


# ---- the server's kernel, as a page's Run button has it ----


class Kernel:
    """A notebook kernel that the service started, in the service's control group and under its limits; and
    what else the server has."""

    def __init__(self) -> None:
        self.key = command("url").strip().rpartition("=")[2]
        # The address that the forwarded port arrives at; on 127.0.0.1 nobody listens.
        addresses = subprocess.run(
            ["ip", "-4", "-o", "addr", "show", "scope", "global"], capture_output=True, text=True
        )
        self.where = addresses.stdout.split()[3].partition("/")[0] + ":8888"
        self.headers = {"Host": "localhost:8888", "Authorization": f"token {self.key}"}
        self.id = self.ask("/api/kernels", b"{}")["id"]

    def ask(self, path: str, body: bytes | None = None) -> Any:
        """What the server answers, with a `body` to a POST."""
        headers = {**self.headers, "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.where}{path}", body, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def channel(self, path: str) -> Any:
        import websocket

        address = f"ws://{self.where}{path}?token={urllib.parse.quote(self.key)}"
        return websocket.create_connection(address, host="localhost:8888", timeout=LIMIT_S)

    def type(self, line: str) -> None:
        """Run a line in a new terminal of JupyterLab, to its end."""
        channel = self.channel(f"/terminals/websocket/{self.ask('/api/terminals', b'{}')['name']}")
        try:
            channel.send(json.dumps(["stdin", f"{line}; exit\r"]))
            while json.loads(channel.recv())[0] != "disconnect":
                pass
        finally:
            channel.close()

    def run(self, code: str) -> str:
        """What `code` prints.  Raises AssertionError with its error."""
        channel = self.channel(f"/api/kernels/{self.id}/channels")
        asked = uuid.uuid4().hex
        content = {
            "code": code,
            "silent": False,
            "store_history": False,
            "allow_stdin": False,
            "stop_on_error": True,
        }
        header = {
            "msg_id": asked,
            "msg_type": "execute_request",
            "session": "vm",
            "username": "",
            "version": "5.3",
        }
        message = {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
        }
        printed = ""
        try:
            channel.send(json.dumps(message))
            while True:
                answer = json.loads(channel.recv())
                if answer["parent_header"].get("msg_id") != asked:
                    continue
                if answer["msg_type"] == "stream":
                    printed += answer["content"]["text"]
                elif answer["msg_type"] == "error":
                    raise AssertionError("\n".join(answer["content"]["traceback"][-3:]))
                elif answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
                    return printed
        finally:
            channel.close()


def shown(started: Callable[[], Kernel]) -> str:
    """It can be downloaded there, whether somebody who logs in wrote it or JupyterLab's own terminal."""
    command("progress", "--export", "from-ssh.csv")
    kernel = started()
    kernel.type("sched-labs progress --export from-terminal.csv")
    for name in ("from-ssh.csv", "from-terminal.csv"):
        found = kernel.ask(f"/api/contents/{name}")["content"]
        expect(found.startswith("lab,title,"), found)
    return "both"


def in_a_page(started: Callable[[], Kernel], name: str) -> str:
    module, _, experiment = name.partition(".")
    where = started().run(
        f"from sched_labs import {module}\n"
        f"result = {module}.{experiment}(profile='tiny')\n"
        f"result.save({str(HOME / name)!r} + '.json')\n"
        "print(open('/proc/self/cgroup').read().strip())"
    )
    return f"{measured(name)}, in {where.strip().splitlines()[-1]}"


def main(words: list[str]) -> None:
    if words[0] == "--list":
        print(*checks(words[1], ""), sep="\n")
        return
    os.chdir("/")
    for what, try_it in checks(*words[0].split(",")).items():
        attempt(what, try_it)
    os.sync()
    say("over")


if __name__ == "__main__":
    main(sys.argv[1:])
