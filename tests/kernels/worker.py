"""A guest that is a worker of a Dask cluster, until it is killed: `worker.py KERNEL SCHEDULER_PORT PORT`.

Guests of this project have no network: none of their jobs needs one, and the drivers are modules, which are
not kept.  Here the modules of the same package are fetched as well, and the guest gets a network card of
QEMU's, behind which there is nothing but this machine: the scheduler as 10.0.2.2, and PORT on this machine's
loopback leads to the guest's.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import lzma
import marshal
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sched_labs.core import registry, store
from sched_labs.kernels import contents, emulator, initramfs, names, packages, qemu, runner, wire
from sched_labs.kernels.errors import PackageError
from sched_labs.kernels.parcel import Parcel
from sched_labs.workloads import build

KIND = "sleeper.among_hogs"  # nothing of it needs more than a guest of an experiment has
DRIVERS = (
    "virtio", "virtio_ring", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "failover",
    "net_failover", "virtio_net",
)  # fmt: skip
JOB = Path(__file__).with_name("worker_in_a_guest.py")
LIVES_S = 600.0
_UNUSED = {"tests", "array", "dataframe", "bag", "dashboard", "implementations"}
# Not those that a guest has: one that is written anew while it is in use ends whoever calls it.
_EXTENSIONS = re.compile(r"_(ssl|hashlib|typing)\.[^/]*so")


def drivers(kernel: packages.Kernel) -> dict[str, bytes]:
    """The network card's drivers by name, those that are not built in.

    Fetched once, with the version of the kernel's image.  PackageError where that cannot be had any more.
    """
    kept = packages.cache_dir() / ".drivers" / f"{kernel.package}_{kernel.version}"
    if not (kept / "all").exists():
        apt = packages._Apt(names.suites(names.parse(kernel.name)))
        part = kernel.package.replace("linux-binary-", "linux-modules-")
        # Its size is for a bar alone.
        whole = names.Package(
            part, (part,), kernel.version, kernel.upstream, kernel.flavour, kernel.architecture, size_bytes=1
        )
        with tempfile.TemporaryDirectory() as scratch:
            try:
                debs = apt.download(whole, Path(scratch), lambda share: None)
            except PackageError:  # the lists are old, or not there
                apt.update()
                debs = apt.download(whole, Path(scratch), lambda share: None)
            for deb in debs:
                for name, content in _modules(deb):
                    store.write_bytes(kept / name, content)
        store.write_text(kept / "all", "")
    return {name: (kept / name).read_bytes() for name in DRIVERS if (kept / name).exists()}


def _modules(deb: Path) -> Iterator[tuple[str, bytes]]:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as dpkg:
        assert dpkg.stdout
        with tarfile.open(fileobj=dpkg.stdout, mode="r|") as archive:
            for member in archive:
                name, _, packed = Path(member.name).name.partition(".ko")
                if name in DRIVERS and (file := archive.extractfile(member)):
                    yield name, lzma.decompress(file.read()) if packed else file.read()


def dask() -> dict[str, Path | bytes]:
    """Dask's worker and what it needs, by path in the guest; compiled, which an emulated CPU does slowly."""
    files: dict[str, Path | bytes] = {
        f"{initramfs._PYTHON}/lib-dynload/{path.name}": path
        for path in Path(sysconfig.get_paths()["stdlib"], "lib-dynload").glob("*.so")
        if _EXTENSIONS.fullmatch(path.name)
    }
    for distribution in _distributions():
        for file in distribution.files or ():
            guest, host = f"{initramfs.GUEST_PACKAGES}/{file}", Path(str(file.locate()))
            if {"..", *_UNUSED} & set(file.parts):
                continue
            if file.suffix == ".py":
                code = importlib.machinery.SourceFileLoader(host.stem, str(host)).get_code(host.stem)
                files[f"{guest}c"] = contents.bytecode(b"", guest)[:16] + marshal.dumps(code)
            elif file.suffix in (".so", ".yaml"):
                files[guest] = host
    return files


def _distributions() -> Iterator[importlib.metadata.Distribution]:
    """`distributed`, and all that it needs."""
    todo, seen = ["distributed"], set[str]()
    while todo:
        name = todo.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python
        yield found
        wanted = [line for line in found.requires or () if "extra ==" not in line]
        todo += [match[0] for line in wanted if (match := re.match(r"[\w.-]+", line))]


def main(name: str, scheduler_port: int, port: int) -> None:
    kernel = packages.get(name)
    experiment = registry.entry(KIND)
    extra = dask() | {f"/lab/{JOB.name}": JOB.read_bytes()}
    # As it is: the register reads its docstrings.
    declared = experiment.folder / "experiment.py"
    extra[f"/lab/{declared.relative_to(contents.PACKAGE.parent)}"] = declared
    for place, (driver, content) in enumerate(drivers(kernel).items()):
        extra[f"/lab/network/{place}-{driver}.ko"] = content
    call = {
        "call": "worker_in_a_guest:work",
        "parameters": {"scheduler_port": scheduler_port, "port": port},
        "moment_s": 0,
        "noise": "",
    }
    native = {name: build.path(name) for name in experiment.workloads}
    parts = ("sched_labs.fleet.onsite", f"{experiment.package}.experiment")
    parcel = Parcel(call, native, extra, parts)
    world = replace(runner._world(kernel, parcel, qemu.VM_EMULATED), bpf=False)
    packed = wire.pack(call, parcel.files(world))
    guest = qemu.Guest(
        image=kernel.image,
        architecture=kernel.architecture,
        timing=qemu.VM_EMULATED,
        cpus=1,
        memory_mib=runner._memory_mib(world.size) + 256,
        numpy=True,
        window_mib=1 << (len(packed) >> 20).bit_length(),
    )
    emulator.command = _with_a_network(port)
    with emulator.Emulator(
        guest, time.monotonic() + LIVES_S, lambda text, share: print(text, flush=True)
    ) as one:
        one.boot(world.archives())
        print(one.work(packed), flush=True)


def _with_a_network(port: int) -> Callable[[qemu.Guest, qemu.Files], list[str]]:
    card = f"user,id=network,hostfwd=tcp:127.0.0.1:{port}-:{port}"
    words = ["-netdev", card, "-device", "virtio-net-pci,netdev=network,romfile=,addr=0x12"]
    return lambda guest, files: [*qemu.command(guest, files), *words]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
