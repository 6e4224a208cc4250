"""What the chapter on switching less promises, against its peers: a hop, an event loop, the classifier.

Called by run.py.  The peers are programs in peers/, compiled here where their libraries are installed
(`scripts/provision.sh --tests` does that); what is not there is said.  Go and Redis are measured where they
are: that script installs neither, because the one is large, and the other's package starts a server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from table import Line, NotMeasurable, ratio_interval, remark_on, show

from sched_labs import workloads
from sched_labs.core import lock
from sched_labs.core.errors import SchedLabError
from sched_labs.steer import placement
from sched_labs.topics.switching_less import connections
from sched_labs.topics.switching_less.classify import experiment as classify
from sched_labs.topics.switching_less.hops import experiment as hops

SOURCES = Path(__file__).with_name("peers")
# echo.c takes its loop from the experiment.
INCLUDES = (Path(workloads.__file__).parent / "src", *connections.__path__)
HOP_TARGET = 1.2
HOP_BLOCKS, HOPS = 40, 500_000
INTERPRETED_BLOCKS = 5
LOOP_TARGET = 1.0
LOOP_BLOCKS, REQUESTS, CONNECTIONS = 40, 5_000, 50
SETS, INTERVAL_S, RIGHT_TARGET = 50, 0.4, 0.95
LIBRARIES = {  # header, library, package
    "libevent": ("event2/event.h", "event_core", "libevent-dev"),
    "libuv": ("uv.h", "uv", "libuv1-dev"),
}
PEERS = (("greenlet", "greenlet (Python)", "greenlet"), ("go_1", "a Go channel", "golang-go"))


def lines(cpu: int) -> list[Line]:
    """The three promises, measured on this CPU (the echo's clients on another one)."""
    with (
        tempfile.TemporaryDirectory(prefix="sched-labs-bench-") as place,
        lock.machine("benchmarks of switching"),
    ):
        native = [*against_boost(Path(place), cpu), *event_loops(Path(place), cpu)]
    return [*native, *against_languages(cpu), *labels()]  # experiments, which take the lock themselves


# ---- hops ----


def against_boost(folder: Path, cpu: int) -> list[Line]:
    """Our stack switch and Boost.Context's, in blocks that take turns in one process."""
    what, target = "stack switch / Boost.Context", f"<= {HOP_TARGET:g}"
    if not _has("boost/version.hpp"):
        return [Line(what, "not measurable", target, None, "install libboost-context-dev")]
    try:
        program = _compiled(folder, "stack", libraries=("boost_context",))
        said = _output([str(program), str(HOP_BLOCKS), str(HOPS), str(cpu)])
    except NotMeasurable as error:
        return [Line(what, "not measurable", target, None, str(error))]
    version = said[0].split()[1].replace("_", ".")
    blocks = [_values(line) for line in said if line.startswith("block")]
    ours = [float(block["ours_ns"]) for block in blocks]
    return [_hop_line(f"{what} {version}", ours, [float(block["boost_ns"]) for block in blocks])]


def against_languages(cpu: int) -> list[Line]:
    """Our stack switch, greenlet's and a hop through Go's channels, in programs that take turns."""
    run: dict[str, list[float]] = {}
    found = []
    for _ in range(INTERPRETED_BLOCKS):
        try:
            result = hops.compared(profile="quick", trials=1, save=False, progress=False)
        except SchedLabError as error:
            return [Line("stack switch / greenlet, Go", "not measurable", "none", None, str(error))]
        for _, row in result.summary().iterrows():
            run.setdefault(str(row["by"]), []).append(float(row["ns_per_hop"]))
    for by, words, package in PEERS:
        what = f"stack switch / {words}"
        if by in run:
            found.append(_hop_line(what, run["stack"], run[by]))
        else:
            found.append(Line(what, "not measurable", f"<= {HOP_TARGET:g}", None, f"install {package}"))
    return found


def _hop_line(what: str, ours: list[float], theirs: list[float]) -> Line:
    ratio, low, high = ratio_interval(ours, theirs)
    medians = f"medians {np.median(ours):.2f} and {np.median(theirs):.2f} ns a hop"
    return Line(
        what,
        f"{ratio:.3f} [{low:.3f}, {high:.3f}]",
        f"<= {HOP_TARGET:g}",
        ratio <= HOP_TARGET,
        medians + remark_on(low <= HOP_TARGET < high),
    )


# ---- event loops ----


def event_loops(folder: Path, cpu: int) -> list[Line]:
    """Requests for each second of CPU time: the loop of connections.c, and the same echo by its peers."""
    target = f">= {LOOP_TARGET:g}"
    present = [name for name, (header, *_) in LIBRARIES.items() if _has(header)]
    found = [
        Line(f"requests per CPU-second, ours / {name}", "not measurable", target, None, f"install {package}")
        for name, (*_, package) in LIBRARIES.items()
        if name not in present
    ]
    try:
        program = _compiled(
            folder,
            "echo",
            libraries=[LIBRARIES[name][1] for name in present],
            flags=["-pthread", *(f"-DWITH_{name.upper()}" for name in present)],
        )
        cpu_ns, words = _ask(folder, program, present, cpu)
    except NotMeasurable as error:
        return [*found, Line("event loop / its peers", "not measurable", target, None, str(error))]
    if "redis" not in cpu_ns:
        found.append(
            Line("requests per CPU-second, ours / Redis", "not measurable", target, None, words["redis"])
        )
    for name in [name for name in cpu_ns if name != "ours"]:
        # CPU time stands below the line, so that theirs over ours is the ratio of requests.
        ratio, low, high = ratio_interval(cpu_ns[name], cpu_ns["ours"])
        medians = f"{np.median(cpu_ns['ours']):,.0f} and {np.median(cpu_ns[name]):,.0f} ns of CPU a request"
        found.append(
            Line(
                f"requests per CPU-second, ours / {words[name]}",
                f"{ratio:.3f} [{low:.3f}, {high:.3f}]",
                target,
                ratio >= LOOP_TARGET,
                medians + remark_on(low < LOOP_TARGET <= high),
            )
        )
    return found


def _ask(
    folder: Path, program: Path, present: list[str], cpu: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """CPU time for each request by server and block, and each server's name and version."""
    words = {name: f"{name} {_package_version(name)}".strip() for name in present}
    with contextlib.ExitStack() as stack:
        specs = []
        for name in ["ours", *present]:
            socket = folder / f"{name}.socket"
            command = [str(program), "serve", name, str(socket), str(CONNECTIONS)]
            specs.append(f"{name}={socket}={stack.enter_context(_server(command, socket, cpu))}")
        if redis := shutil.which("redis-server"):
            socket = folder / "redis.socket"
            # Ends with us, and keeps nothing.
            command = ["setpriv", "--pdeathsig", "KILL", redis, "--port", "0", "--unixsocket", str(socket)]
            command += ["--save", "", "--appendonly", "no", "--dir", str(folder)]
            specs.append(f"redis={socket}={stack.enter_context(_server(command, socket, cpu))}")
            version = _values(_output([redis, "--version"])[0].replace(" v=", " version="))["version"]
            words["redis"] = f"Redis {version} (which parses PING)"
        else:
            words["redis"] = "redis-server is not installed"
        other = placement.other_cpu(cpu) if len(os.sched_getaffinity(0)) > 1 else cpu
        ask = [str(program), "ask", str(CONNECTIONS), str(REQUESTS), str(LOOP_BLOCKS), *specs]
        said = _output(ask, cpu=other)
    cpu_ns: dict[str, list[float]] = {}
    for block in map(_values, said):
        cpu_ns.setdefault(block["by"], []).append(float(block["cpu_ns"]) / float(block["requests"]))
    return cpu_ns, words


@contextlib.contextmanager
def _server(command: list[str], socket: Path, cpu: int) -> Iterator[int]:
    """Start a server on a CPU, and wait for its socket; its process id."""
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                os.sched_setaffinity(server.pid, [cpu])
                end = time.monotonic() + 10
                while not socket.exists():
                    if server.poll() is not None or time.monotonic() > end:
                        raise NotMeasurable(f"{Path(command[0]).name} does not listen")
                    time.sleep(0.01)
                yield server.pid
            finally:
                server.kill()
    except OSError as error:
        raise NotMeasurable(f"{command[0]}: {error.strerror}") from error


# ---- the classifier ----


def labels() -> list[Line]:
    """How many processes of fresh sets the classifier labels with what they do."""
    what, target = f"right labels in {SETS} fresh sets of processes", f">= {RIGHT_TARGET:.0%}"
    try:
        run = classify.processes(sets=SETS, interval_s=INTERVAL_S, save=False, progress=False)
    except SchedLabError as error:
        return [Line(what, "not measurable", target, None, str(error).replace("\n", " "))]
    table = run.summary()
    share = float(table["right"].mean())
    wrong = [f"{row.truth} called {row.label}" for _, row in table[~table["right"]].iterrows()]
    remark = f"{int(table['right'].sum())} of {len(table)}, seed {run.parameters['seed']}"
    return [Line(what, f"{share:.1%}", target, share >= RIGHT_TARGET, "; ".join([remark, *wrong[:3]]))]


# ---- programs ----


def _compiler() -> str:
    return os.environ.get("CC") or "cc"


def _has(header: str) -> bool:
    command = [_compiler(), "-E", "-include", header, "-x", "c", "-o", os.devnull, os.devnull]
    return subprocess.run(command, capture_output=True).returncode == 0


def _compiled(
    folder: Path,
    name: str,
    *,
    libraries: tuple[str, ...] | list[str] = (),
    flags: tuple[str, ...] | list[str] = (),
) -> Path:
    program = folder / name
    command = [_compiler(), "-O2", "-std=gnu11", *(f"-I{where}" for where in INCLUDES), *flags]
    command += [str(SOURCES / f"{name}.c")]
    command += ["-o", str(program), *(f"-l{library}" for library in libraries)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [""]
        first = next((line for line in said if "error:" in line), said[-1])
        raise NotMeasurable(f"{name}.c does not compile: {first}")
    return program


def _package_version(name: str) -> str:
    """What pkg-config says, or nothing."""
    if not shutil.which("pkg-config"):
        return ""
    done = subprocess.run(["pkg-config", "--modversion", name], capture_output=True, text=True)
    return done.stdout.strip()


def _output(command: list[str], *, cpu: int | None = None) -> list[str]:
    placed = [] if cpu is None else ["taskset", "-c", str(cpu)]
    try:
        done = subprocess.run([*placed, *command], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasurable(f"{Path(command[0]).name} does not run: {error}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NotMeasurable(f"{Path(command[0]).name}: {said[-1] if said else done.returncode}")
    return done.stdout.splitlines()


def _values(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


if __name__ == "__main__":
    show(lines(placement.quiet_cpu()))
    sys.exit(0)
