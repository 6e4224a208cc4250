"""Does `watch` name what was done to a real server?  Some as Debian has them, under load.

    apt-get install redis-server redis-tools nginx wrk postgresql postgresql-contrib haproxy memcached \
                    libmemcached-tools lighttpd unbound dnsperf
    python benchmarks/watch_servers.py --seeds 5 [--seconds 3] [--servers redis nginx] [--load-cpus 1]
    python benchmarks/watch_servers.py --seeds 5 --kept servers.jsonl --minutes 5   # again and again

With `--root FOLDER` they are unpacked there (`dpkg-deb -x`), all but PostgreSQL.

Each server runs with nothing wrong about it, and with an injected quota, mask, neighbour or real-time thread.
The load generator is a neighbour as well, so it gets a quarter of a CPU unless `--load-cpus` says otherwise.
It gets that in bursts, in which it and the server fill two CPUs: a load generator that is named as a rival
where nothing was injected is a false alarm.  A run is not judged where programs that are none of ours had a
CPU for as long as a rival is said to have cost.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import troubles
from kept import Kept
from watch import NOT_JUDGED, Said, judged

from sched_labs.limits import cgroups
from sched_labs.limits.cgroups import Group
from sched_labs.machine import survey
from sched_labs.steer import placement
from sched_labs.watching import looks
from sched_labs.watching.target import descendants

PORT = 16_379
NGINX = """
worker_processes 2;
daemon off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} }}
}}
"""
HAPROXY = """
global
  nbthread 2
defaults
  mode http
  timeout connect 1s
  timeout client 10s
  timeout server 10s
frontend here
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string hello
"""
LIGHTTPD = """
server.bind = "127.0.0.1"
server.port = {port}
server.document-root = "{folder}"
index-file.names = ( "hello.html" )
"""
UNBOUND = """
server:
  num-threads: 2
  interface: 127.0.0.1@{port}
  local-zone: "here." static
  local-data: "a.here. A 127.0.0.1"
  do-daemonize: no
  use-syslog: no
  chroot: ""
  username: ""
  directory: "{folder}"
  pidfile: ""
  module-config: "iterator"
"""
SERVERS = ("redis", "nginx", "postgresql", "haproxy", "memcached", "lighttpd", "unbound")
INJECTED = {"nothing": "nothing", "quota": "quota", "mask": "mask", "rival": "rival", "realtime": "realtime"}


# Debian keeps a folder for each version beside the path, and the server serves nobody as root.
POSTGRESQL = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
AS_POSTGRES = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]


class Programs:
    """Where the servers and their load generators are."""

    def __init__(self, root: Path | None) -> None:
        folders = [f"{root}/usr/{name}" for name in ("bin", "sbin")] if root else []
        self.path = os.pathsep.join([*folders, *map(str, POSTGRESQL), os.environ["PATH"], "/usr/sbin"])
        self.environment = {"PATH": self.path}
        if root:
            libraries = sorted({str(file.parent) for file in root.rglob("*.so*")})
            self.environment["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)

    def find(self, name: str) -> str:
        if found := shutil.which(name, path=self.path):
            return found
        sys.exit(f"{name} is not here: the head of this file says which packages have it, or --root.")

    def run(self, words: list[str], folder: str) -> None:
        """A program that prepares something, and ends."""
        subprocess.run(
            [self.find(words[0]), *words[1:]],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )

    @contextlib.contextmanager
    def running(self, words: list[str], group: Group, folder: str) -> Iterator[int]:
        process = subprocess.Popen(
            [self.find(words[0]), *words[1:]],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: group.add(os.getpid()),
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def serving(programs: Programs, server: str, group: Group, load: Group) -> Iterator[int]:
    """The server under load; its first process."""
    with tempfile.TemporaryDirectory() as folder:
        if server == "redis":
            words = ["redis-server", "--port", str(PORT), "--save", "", "--daemonize", "no"]
            asking = ["redis-benchmark", "-p", str(PORT), "-t", "get", "-c", "8", "-n", "100000000", "-q"]
        elif server == "postgresql":
            shutil.chown(folder, "postgres", "postgres")
            programs.run([*AS_POSTGRES, "initdb", "-D", f"{folder}/data", "-A", "trust", "-N"], folder)
            words = [*AS_POSTGRES, "postgres", "-D", f"{folder}/data", "-k", folder, "-h", "", "-F"]
            asking = [
                "pgbench",
                "-h",
                folder,
                "-U",
                "postgres",
                "-n",
                "-S",
                "-c",
                "2",
                "-T",
                "600",
                "postgres",
            ]
        elif server == "haproxy":
            Path(folder, "haproxy.cfg").write_text(HAPROXY.format(port=PORT))
            words = ["haproxy", "-db", "-q", "-f", "haproxy.cfg"]
            asking = ["wrk", "-t1", "-c8", "-d600", f"http://127.0.0.1:{PORT}/"]
        elif server == "memcached":
            words = ["memcached", "-l", "127.0.0.1", "-p", str(PORT), "-U", "0", "-u", "root", "-t", "2"]
            asking = ["memcaslap", "-s", f"127.0.0.1:{PORT}", "-T", "1", "-c", "8", "-t", "600s"]
        elif server == "lighttpd":
            Path(folder, "hello.html").write_text("hello")
            Path(folder, "lighttpd.conf").write_text(LIGHTTPD.format(port=PORT, folder=folder))
            words = ["lighttpd", "-D", "-f", "lighttpd.conf"]
            asking = ["wrk", "-t1", "-c8", "-d600", f"http://127.0.0.1:{PORT}/"]
        elif server == "unbound":
            Path(folder, "asked").write_text("a.here A\n")
            Path(folder, "unbound.conf").write_text(UNBOUND.format(port=PORT, folder=folder))
            words = ["unbound", "-d", "-c", "unbound.conf"]
            asking = ["dnsperf", "-s", "127.0.0.1", "-p", str(PORT), "-d", "asked", "-l", "600", "-c", "8"]
        else:
            Path(folder, "nginx.conf").write_text(NGINX.format(port=PORT))
            words = ["nginx", "-p", folder, "-c", "nginx.conf"]
            asking = ["wrk", "-t1", "-c8", "-d600", f"http://127.0.0.1:{PORT}/"]
        with programs.running(words, group, folder) as pid:
            time.sleep(0.5)
            if server == "postgresql":
                programs.run(["pgbench", "-h", folder, "-U", "postgres", "-i", "-q", "postgres"], folder)
            with programs.running(asking, load, folder):
                time.sleep(0.3)
                yield pid


@contextlib.contextmanager
def injected(trouble: str, draw: random.Random, group: Group, pid: int) -> Iterator[None]:
    """Something is done to the server that runs."""
    with contextlib.ExitStack() as stack:
        cpus = survey().cpus_allowed
        if trouble == "quota":
            group.limit(draw.randint(30, 60) * 100, 100_000)
        elif trouble == "mask":
            # One CPU for all of it, and a neighbour that may use only this one too: one busy process alone
            # would not be crowded.
            cpu = draw.choice(cpus)
            other = stack.enter_context(troubles.orders(group, "--workers", 2, "--work-us", 5000))
            threads = [tid for _, tid in looks.threads([pid, *descendants([pid])])]
            placement.pin([*threads, *other.tids], [cpu])
            other.go()
        elif trouble == "rival":
            other = stack.enter_context(troubles.orders(group, "--workers", 3 * len(cpus), "--work-us", 5000))
            other.go()
        elif trouble == "realtime":
            stack.enter_context(troubles.realtime_threads(draw.randint(3, 8) * 1000))
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--servers", nargs="+", default=SERVERS, choices=SERVERS, metavar="SERVER")
    parser.add_argument("--root", type=Path, help="where the packages are unpacked (dpkg-deb -x)")
    parser.add_argument("--load-cpus", type=float, default=0.25, help="what the load generator may use")
    parser.add_argument("--only", nargs="+", default=[], metavar="TROUBLE")
    parser.add_argument(
        "--kept", type=Path, metavar="FILE", help="keep what was said there, and go on from it"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further run after these")
    options = parser.parse_args()
    if why := troubles.lacking():
        sys.exit(f"Nothing can be injected here: {why}.")
    programs = Programs(options.root.resolve() if options.root else None)
    pairs = [
        (server, trouble)
        for server in options.servers
        for trouble in INJECTED
        if not options.only or trouble in options.only
    ]
    said = Kept(options.kept, f"{options.seconds:g} s, load {options.load_cpus:g}")
    end_s = time.monotonic() + 60 * options.minutes
    for seed in range(options.seeds):  # so that all have as many where the time does not suffice
        for server, trouble in pairs:
            case = f"{server} {trouble}"
            if not said.has(case, seed) and time.monotonic() < end_s:
                found = one(programs, server, trouble, seed, options.seconds, options.load_cpus)
                said.add(case, seed, asdict(found))
    for server, trouble in pairs:
        name = INJECTED[trouble]
        rows = said.of(f"{server} {trouble}", range(options.seeds))
        seen = Counter(str(row["name"]) for row in rows)
        tried = seen.total() - seen[NOT_JUDGED]
        others = ", ".join(f"{other} {times}" for other, times in seen.most_common() if other != name)
        print(f"{server:<11}{trouble:<12}{seen[name]:>4} of {tried}  {others}", flush=True)
    return 0


def one(programs: Programs, server: str, trouble: str, seed: int, seconds: float, load_cpus: float) -> Said:
    """What `watch` said on top of one server with one trouble."""
    with (
        troubles.apart() as group,
        cgroups.group("load", quota_us=round(1e5 * load_cpus), weight=troubles.WEIGHT) as load,
        serving(programs, server, group, load) as pid,
        injected(trouble, random.Random(seed), group, pid),
    ):
        sick = trouble != "nothing"
        return judged(pid, seconds, sick=sick, names=(INJECTED[trouble],))


if __name__ == "__main__":
    sys.exit(main())
