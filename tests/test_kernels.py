"""Other kernels: everything that can be tried without booting one."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sched_labs import cli, judge
from sched_labs import draw as figures
from sched_labs.claims.base import UNKNOWN
from sched_labs.core import registry
from sched_labs.core.errors import ParameterError, ResultError, SchedLabError
from sched_labs.core.result import Result, recorded
from sched_labs.kernels import (
    catalogue,
    contents,
    cpio,
    experiment,
    initramfs,
    kvm,
    names,
    packages,
    parcel,
    qemu,
    runner,
    stillclock,
    wire,
)
from sched_labs.kernels.errors import (
    GuestError,
    JobError,
    NetworkError,
    PackageError,
    QemuError,
    UnknownKernelError,
)
from sched_labs.kernels.jobs import JOBS
from sched_labs.workloads import build

HERE = Path(__file__).parent / "kernels"
DEBIAN = names.packages(names.stanzas((HERE / "packages-debian.txt").read_text()), "amd64")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of kernels."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sched-labs" / "kernels"


# names and choice


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("6.1", "6.1"), ("6.1-cloud", "6.1"), (" 6.18.12-rt ", "6.18.12-rt"), ("6.1-generic", "6.1-generic")],
)
def test_a_name_has_one_canonical_form(typed: str, expected: str) -> None:
    assert str(names.parse(typed)) == expected


@pytest.mark.parametrize(
    "typed", ["", "six", "6", "6.1-", "6.1-aws", "../6.1", "6.1/../..", "6.1 rt", "6.1-RT"]
)
def test_what_is_no_name_is_refused_with_examples(typed: str) -> None:
    with pytest.raises(UnknownKernelError, match=r"6\.18\.12"):
        names.parse(typed)


@pytest.mark.parametrize(
    ("name", "package", "version"),
    [
        ("5.10", "linux-image-5.10.0-32-cloud-amd64", "5.10.223-1"),
        ("5.10-rt", "linux-image-5.10.0-32-rt-amd64", "5.10.223-1"),
        ("5.10-generic", "linux-image-5.10.0-32-amd64", "5.10.223-1"),
        ("6.1", "linux-image-6.1.0-50-cloud-amd64", "6.1.176-1"),
        ("6.18", "linux-image-6.18.15+deb13-cloud-amd64", "6.18.15-1~bpo13+1"),
        ("6.18.12", "linux-image-6.18.12+deb13-cloud-amd64", "6.18.12-1~bpo13+1"),
        ("6.19", "linux-binary-6.19.14+deb13-cloud-amd64", "6.19.14-1~bpo13+1"),
        ("7.2", "linux-binary-7.2.12+deb13-cloud-amd64", "7.2.12-1~bpo13+1"),
    ],
)
def test_the_newest_package_of_a_series_is_chosen(name: str, package: str, version: str) -> None:
    chosen = names.choose(DEBIAN, names.parse(name))
    assert (chosen.package, chosen.version) == (package, version)
    assert chosen.size_bytes > 1_000_000


def test_a_split_image_brings_its_configuration_where_the_archive_still_has_it() -> None:
    assert names.choose(DEBIAN, names.parse("7.2")).parts == (
        "linux-binary-7.2.12+deb13-cloud-amd64",
        "linux-base-7.2.12+deb13-cloud-amd64",
    )
    assert names.choose(DEBIAN, names.parse("6.19")).parts == ("linux-binary-6.19.14+deb13-cloud-amd64",)


def test_an_image_whose_binary_has_left_the_archive_is_not_offered() -> None:
    # 7.1.13 is announced by its linux-image package, and its linux-binary is not among the recorded stanzas.
    assert "7.1.13" in (HERE / "packages-debian.txt").read_text()
    with pytest.raises(UnknownKernelError, match=r"no kernel 7\.1") as refused:
        names.choose(DEBIAN, names.parse("7.1"))
    assert "5.10, 6.1, 6.12, 6.18, 6.19, 7.2" in refused.value.remedy
    assert "kernels list" in refused.value.remedy


def test_a_series_is_not_the_beginning_of_another() -> None:
    assert names.choose(DEBIAN, names.parse("6.1")).upstream == "6.1.176"  # and not 6.18.15


def test_debug_unsigned_and_meta_packages_are_no_kernels() -> None:
    offered = {kernel.package for kernel in DEBIAN}
    assert not any(word in package for package in offered for word in ("dbg", "unsigned"))
    assert "linux-image-cloud-amd64" not in offered


def test_kernels_of_another_architecture_are_left_out() -> None:
    assert names.packages(names.stanzas((HERE / "packages-debian.txt").read_text()), "arm64") == []


def test_ubuntus_names_are_understood() -> None:
    # Made by hand after Ubuntu's naming: no Ubuntu archive was at hand to record.
    text = """
        Package: linux-image-6.8.0-31-generic
        Version: 6.8.0-31.31
        Architecture: amd64
        Section: kernel
        Size: 14900000

        Package: linux-image-6.8.0-101-generic
        Version: 6.8.0-101.101
        Architecture: amd64
        Section: kernel
        Size: 14900000
        Depends: kmod, linux-base (>= 4.5ubuntu1~16.04.1), linux-modules-6.8.0-101-generic

        Package: linux-modules-6.8.0-101-generic
        Version: 6.8.0-101.101
        Architecture: amd64
        Section: kernel
        Size: 26000000

        Package: linux-image-6.8.0-1008-aws
        Version: 6.8.0-1008.8
        Architecture: amd64
        Section: kernel
        Size: 14900000
    """
    found = names.packages(names.stanzas(textwrap.dedent(text)), "amd64")
    chosen = names.choose(found, names.parse("6.8", "ubuntu"), "ubuntu")
    assert chosen.package == "linux-image-6.8.0-101-generic"
    # The configuration, from which a guest learns its tick, lies in the other package.
    assert chosen.parts == ("linux-image-6.8.0-101-generic", "linux-modules-6.8.0-101-generic")
    assert chosen.size_bytes == 40_900_000
    assert len(found) == 2


def test_an_ubuntu_host_uses_ubuntus_kernels_from_its_own_mirror(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What apt-get indextargets says on an Ubuntu with its sources as they come; no Ubuntu was at hand.
    targets = """http://archive.ubuntu.com/ubuntu/ universe
http://archive.ubuntu.com/ubuntu/ main
http://security.ubuntu.com/ubuntu/ main
"""
    monkeypatch.delenv("SCHED_LABS_DEBIAN_MIRROR", raising=False)
    monkeypatch.setattr(
        packages.platform, "freedesktop_os_release", lambda: {"ID": "ubuntu", "ID_LIKE": "debian"}
    )
    monkeypatch.setattr(packages, "_keyring", lambda kind: Path(f"/usr/share/keyrings/{kind}.gpg"))
    monkeypatch.setattr(
        packages, "_host_apt", lambda *words: targets if words[0] == "apt-get" else 'Acquire::Retries "3";'
    )
    assert packages.distribution() == "ubuntu"
    assert catalogue.gallery() == names.GALLERY["ubuntu"]
    apt = packages._Apt(names.suites(names.parse("6.8", "ubuntu"), "ubuntu"))
    said = (cache / ".apt" / "etc" / "noble.list").read_text()
    assert "signed-by=/usr/share/keyrings/ubuntu.gpg] http://archive.ubuntu.com/ubuntu noble main" in said
    assert apt.suites == ("noble",)
    assert names.suites(names.parse("6.14", "ubuntu"), "ubuntu") == ("noble-updates",)
    with pytest.raises(UnknownKernelError, match="flavours here: generic"):
        names.parse("6.8-rt", "ubuntu")


# the package archive, with an apt that fails as the real one does


@pytest.mark.parametrize(
    ("complaint", "kind", "word"),
    [
        ("E: Failed to fetch http://x/InRelease  Temporary failure resolving 'x'", NetworkError, "reached"),
        ("E: Failed to fetch http://x/y.deb  Could not connect to x:80", NetworkError, "reached"),
        ("E: The repository 'http://x trixie InRelease' is not signed.", PackageError, "trust"),
        ("E: Failed to fetch http://x/y.deb  Hash Sum mismatch", PackageError, "trust"),
        ("E: Failed to fetch http://x/y.deb  404  Not Found", PackageError, "apt failed"),
    ],
)
def test_apts_complaints_become_plain_ones(complaint: str, kind: type[Exception], word: str) -> None:
    error = packages._apt_error(complaint)
    assert type(error) is kind
    assert word in error.what
    assert error.remedy


def _pretend(cache: Path, name: str, image: bytes = b"kernel", **changes: str) -> packages.Kernel:
    """A kernel in the cache."""
    folder = cache / name
    folder.mkdir(parents=True)
    (folder / "vmlinuz").write_bytes(image)
    (folder / "config").write_text("CONFIG_HZ=250\n# CONFIG_PREEMPT_RT is not set\n")
    note = {
        "name": name, "package": "linux-image-6.1.0-50-cloud-amd64",
        "version": "6.1.176-1", "upstream": "6.1.176", "flavour": "cloud", "architecture": "amd64",
        "sha256": hashlib.sha256(image).hexdigest(),
    } | changes  # fmt: skip
    (folder / "kernel.json").write_text(json.dumps(note))
    found = packages.cached(name)
    assert found
    return found


def test_what_is_cached_needs_no_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(cache, "6.1")
    monkeypatch.setattr(packages, "_Apt", None)  # any use fails
    kernel = packages.get("6.1")
    assert kernel.version == "6.1.176-1"
    assert kernel.config("CONFIG_HZ") == "250"
    assert kernel.config("CONFIG_PREEMPT_RT") is None
    assert [k.name for k in packages.all_cached()] == ["6.1"]


def test_a_damaged_cached_kernel_is_named_and_the_remedy_works(cache: Path) -> None:
    _pretend(cache, "6.1")
    (cache / "6.1" / "vmlinuz").write_bytes(b"kernal")
    with pytest.raises(PackageError, match="damaged") as refused:
        packages.get("6.1")
    assert "get --newest 6.1" in refused.value.remedy


def _deb(folder: Path, files: dict[str, bytes]) -> Path:
    """A package as Debian builds them: an ar archive of two tar archives."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg-deb is not installed")
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: linux-image-test\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: test\n"
    )
    for name, data in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    deb = folder / "test.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", str(tree), str(deb)], check=True, capture_output=True
    )
    return deb


class _FakeApt:
    """An archive with one kernel, whose package the test supplies."""

    def __init__(self, deb: Path) -> None:
        self.deb = deb
        self.updates = 0
        self.gone = 0  # how many downloads fail first

    def __call__(self, suites: tuple[str, ...]) -> _FakeApt:
        return self

    def fresh(self) -> bool:
        return True

    def update(self) -> None:
        self.updates += 1

    def packages(self) -> list[names.Package]:
        return DEBIAN

    def download(self, package: names.Package, into: Path, progress: object) -> list[Path]:
        if self.gone:
            self.gone -= 1
            raise PackageError("apt failed: 404  Not Found")
        return [Path(shutil.copy(self.deb, into))]


@pytest.mark.parametrize(
    "place", ["boot/vmlinuz-6.1.0", "usr/lib/modules/6.1.0/vmlinuz", "lib/modules/6.1.0/vmlinuz"]
)
def test_a_package_is_unpacked_wherever_it_keeps_its_image(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    config = place.replace("vmlinuz", "config")
    deb = _deb(tmp_path, {place: b"the image", config: b"CONFIG_HZ=100\n", "usr/share/doc/x": b"y"})
    monkeypatch.setattr(packages, "_Apt", _FakeApt(deb))
    told: list[str] = []
    kernel = packages.get("6.1", progress=lambda text, share: told.append(text))
    assert kernel.image.read_bytes() == b"the image"
    assert kernel.config("CONFIG_HZ") == "100"
    assert sorted(path.name for path in kernel.directory.iterdir()) == ["config", "kernel.json", "vmlinuz"]
    assert told
    assert [path.name for path in cache.iterdir() if path.name not in ("6.1", ".lock")] == []


def test_a_broken_package_leaves_the_old_kernel_and_nothing_else(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(cache, "6.1", version="6.1.1-1")
    deb = _deb(tmp_path, {"boot/vmlinuz-6.1.0": random.Random(1).randbytes(100_000)})
    deb.write_bytes(deb.read_bytes()[:50_000])
    apt = _FakeApt(deb)
    monkeypatch.setattr(packages, "_Apt", apt)
    with pytest.raises(PackageError, match="does not unpack"):
        packages.get("6.1", newest=True)
    assert packages.get("6.1").version == "6.1.1-1"
    assert not list(cache.glob(".part-*"))


def test_a_package_without_a_kernel_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "_Apt", _FakeApt(_deb(tmp_path, {"usr/share/doc/x": b"y"})))
    with pytest.raises(PackageError, match="holds no kernel image"):
        packages.get("6.1")
    assert packages.cached("6.1") is None


def test_a_package_that_left_the_archive_since_the_lists_were_read_is_looked_up_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt = _FakeApt(_deb(tmp_path, {"boot/vmlinuz-6.1.0": b"x"}))
    monkeypatch.setattr(packages, "_Apt", apt)
    apt.gone = 1
    assert packages.get("6.1").upstream == "6.1.176"
    assert apt.updates == 1
    apt.gone = 2
    with pytest.raises(PackageError, match="404"):
        packages.get("5.10")
    assert packages.cached("5.10") is None


def test_what_a_killed_download_left_is_removed_by_the_next(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / ".part-dead").mkdir(parents=True)
    (cache / ".part-dead" / "half.deb").write_bytes(b"x")
    monkeypatch.setattr(packages, "_Apt", _FakeApt(_deb(tmp_path, {"boot/vmlinuz-6.1.0": b"x"})))
    packages.get("6.1")
    assert not (cache / ".part-dead").exists()


def test_the_private_apt_tree_names_no_host_of_its_own_and_touches_nothing_of_the_systems(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHED_LABS_DEBIAN_MIRROR", "http://mirror.invalid/debian/")
    monkeypatch.setattr(
        packages, "_host_apt", lambda *words: 'Acquire::http::Proxy "http://proxy.invalid:3128";\nX "y";'
    )
    monkeypatch.setattr(packages, "_keyring", lambda kind: Path("/usr/share/keyrings/k.gpg"))
    apt = packages._Apt(("trixie",))
    text = apt.config.read_text()
    assert 'Acquire::http::Proxy "http://proxy.invalid:3128";' in text
    assert 'X "y"' not in text
    for setting in ("Dir::Etc ", "Dir::State ", "Dir::State::status ", "Dir::Cache "):
        line = next(line for line in text.splitlines() if line.startswith(setting))
        assert str(cache) in line
    sources = (cache / ".apt" / "etc" / "trixie.list").read_text()
    assert "signed-by=/usr/share/keyrings/k.gpg] http://mirror.invalid/debian trixie main" in sources


def test_an_archive_that_cannot_be_reached_is_said_plainly(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("there is no apt here")
    monkeypatch.setenv("SCHED_LABS_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(packages, "_keyring", lambda kind: Path("/dev/null"))
    with pytest.raises(NetworkError, match="cannot be reached") as refused:
        packages.get("6.1")
    assert "kernels list" in refused.value.remedy
    assert packages.all_cached() == []


def test_the_list_works_before_anything_was_fetched(cache: Path) -> None:
    entries = {entry.name: entry for entry in catalogue.entries()}
    assert set(catalogue.gallery()) <= set(entries)
    assert not any(entry.on_disk for entry in entries.values())
    _pretend(cache, "6.1")
    table = catalogue.available().set_index("kernel")
    assert table.on_disk["6.1"] == "6.1.176-1"


# the initramfs


def _sample() -> bytes:
    archive = cpio.Archive()
    archive.file("/etc/deep/er/hello", b"hello\n", 0o640)
    archive.file("empty", b"")
    archive.link("/usr/bin/link", "../lib/target")
    archive.folder("/tmp", 0o1777)
    archive.character_device("/dev/console", 5, 1)
    return archive.finish()


def test_other_programs_read_our_archives(tmp_path: Path) -> None:
    tools = [["cpio", "-itv"], ["bsdtar", "-tvf", "-"]]
    found = [tool for tool in tools if shutil.which(tool[0])]
    if not found:
        pytest.skip("neither cpio nor bsdtar is installed")
    for tool in found:
        done = subprocess.run(tool, input=_sample(), capture_output=True, check=True)
        listed = done.stdout.decode()
        assert "etc/deep/er/hello" in listed
        assert "-rw-r-----" in listed
        assert "usr/bin/link -> ../lib/target" in listed
        assert "drwxrwxrwt" in listed
        assert "crw-------" in listed
        assert "5," in listed.replace(" ", "")
        assert len(listed.splitlines()) == 11
    if shutil.which("cpio"):
        subprocess.run(
            ["cpio", "-id", "etc/*", "empty"], input=_sample(), cwd=tmp_path, capture_output=True, check=True
        )
        assert (tmp_path / "etc/deep/er/hello").read_bytes() == b"hello\n"
        assert (tmp_path / "empty").read_bytes() == b""


def test_the_same_content_gives_the_same_bytes() -> None:
    assert _sample() == _sample()
    assert len(_sample()) % 4 == 0


def test_a_job_brings_what_it_may_import_and_no_more() -> None:
    yielder = contents.library("sched_labs.kernels.wire", "sched_labs.kernels.jobs.yielding")
    assert {"/lab/sched_labs/workloads/launch.py", "/lab/sched_labs/core/errors.py"} <= set(yielder)
    assert not any("machine" in path or "figures" in path for path in yielder)
    survey = contents.library("sched_labs.kernels.jobs.basic")
    assert "/lab/sched_labs/machine/tunables.py" in survey
    assert yielder["/lab/sched_labs/__init__.py"] == b""


def test_a_reworded_comment_changes_nothing_in_the_guest() -> None:
    one = (
        b'"""Words."""\n\nimport os  # why\n\n\nclass A:\n    """Doc."""\n\n\n'
        b'def f(a: int = 1) -> int:\n    "x"\n    return a\n'
    )
    two = b"import os\nclass A: pass\ndef f(a: int=1) -> int: return (a)\n"
    assert contents.essence(one) == contents.essence(two)
    assert contents.essence(one) != contents.essence(two.replace(b"1", b"2"))
    assert contents.essence(b'"""Only words."""') == b"\n"


def test_bytecode_does_not_depend_on_where_or_when_it_is_made() -> None:
    source = (contents.PACKAGE / "kernels" / "names.py").read_bytes()
    program = (
        "import sys; from sched_labs.kernels import contents;"
        "sys.stdout.buffer.write(contents.bytecode(sys.stdin.buffer.read(), '/lab/x.py'))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", program], input=source, capture_output=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert made == {contents.bytecode(source, "/lab/x.py")}


def _parcel(job: str, **more: Any) -> parcel.Parcel:
    return parcel.Parcel({"call": JOBS[job].call, "parameters": {}, "moment_s": 0}, **more)


def _world(data: bool = False) -> initramfs.World:
    return initramfs.World(data=data, bpf=False, port="/dev/ttyS1", settled_s=0)


@pytest.fixture
def no_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world without what is the system's: making that takes long."""
    monkeypatch.setattr(initramfs.World, "_system", lambda world: [])


@pytest.mark.usefixtures("no_archives")
def test_a_parcel_holds_what_the_world_lacks(tmp_path: Path) -> None:
    program = tmp_path / "sleeper"
    shutil.copy("/bin/true", program)
    one = _parcel("yielding", native={"sleeper": program}, extra={"/etc/x": b"y"})
    files = one.files(_world())
    assert files["/etc/x"] == (0o644, b"y")
    [mode] = [mode for path, (mode, _) in files.items() if path.endswith("/sleeper")]
    assert mode == 0o755
    assert {"/lab/sched_labs/kernels/jobs/yielding.py", "/lab/sched_labs/workloads/src/sleeper.c"} <= set(
        files
    )
    assert "/lab/sched_labs/workloads/launch.py" in one.sources
    assert "/lab/sched_labs/workloads/launch.py" not in files
    assert not one.loads_bpf
    assert _parcel("run_queue").loads_bpf


@pytest.mark.usefixtures("no_archives")
def test_worlds_differ_by_their_content_and_by_nothing_else() -> None:
    assert _world().digest() == _world().digest()
    assert _world().digest() != _world(data=True).digest()
    assert _world().digest() != dataclasses.replace(_world(), config=b"CONFIG_X=y").digest()
    assert _world().sources["/init"].startswith(b"#!/usr/bin/python3 -IS\n")


def test_a_workload_brings_its_headers() -> None:
    held = _parcel("hello", native={"chase": Path("/bin/true")}).sources
    assert [path.name for path in build.headers("chase")] == ["lab.h", "perf.h", "ring.h"]
    assert {f"/lab/sched_labs/workloads/src/{name}" for name in ("lab.h", "perf.h", "chase.c")} <= set(held)


def test_an_experiment_brings_the_workloads_that_it_names_and_no_list_of_others() -> None:
    assert registry.entry("sleeper").workloads == ("sleeper",)
    assert registry.entry("regimes").workloads == ("worker",)
    assert "/lab/sched_labs/topics/switching_less/hops/python_hops.py" in contents.library(
        "sched_labs.topics.switching_less.hops.experiment"
    )
    # Else every new experiment and every new workload would change what a deterministic run depends on.
    held = contents.library("sched_labs.topics.other_kernels.sleeper.experiment")
    assert [path for path in held if "/topics/" in path and path.endswith("experiment.py")] == [
        "/lab/sched_labs/topics/other_kernels/sleeper/experiment.py"
    ]


def test_an_archive_is_made_once(cache: Path) -> None:
    made: list[int] = []

    def make() -> cpio.Archive:
        made.append(1)
        archive = cpio.Archive()
        archive.file("/usr/lib/libx.so.1", b"x")
        return archive

    def kept() -> initramfs.Kept:
        return initramfs._cached("base", [HERE / "packages-debian.txt"], make)

    assert kept() == kept()
    assert len(made) == 1
    assert kept().libraries == {"/usr/lib/libx.so.1"}
    assert hashlib.sha256(kept().path.read_bytes()).hexdigest() == kept().digest
    assert sorted(path.suffix for path in (cache / ".guest").iterdir()) == [".cpio", ".json"]
    kept().path.write_bytes(b"cut off")
    assert kept().path.stat().st_size == kept().size
    assert len(made) == 2


def test_only_experiments_bring_numpy() -> None:
    assert not _parcel("run_queue").needs_data
    one = parcel.Parcel(
        {"call": "sched_labs.kernels.jobs.experiment:measure"},
        modules=("sched_labs.topics.context_switch.context_switch.experiment",),
    )
    assert one.needs_data
    assert not one.loads_bpf


# what host and guest tell each other


def test_what_is_handed_over_is_unpacked_where_it_belongs(tmp_path: Path) -> None:
    job = {"call": "a:b", "parameters": {"x": [1]}}
    files = {f"{tmp_path}/deep/er/one": (0o755, b"#!\n" * 1000), f"{tmp_path}/two": (0o644, b"")}
    window = wire.pack(job, files) + b"whatever lay there before"
    assert wire.unpack(window) == job
    assert (tmp_path / "deep/er/one").read_bytes() == b"#!\n" * 1000
    assert os.access(tmp_path / "deep/er/one", os.X_OK)
    assert (tmp_path / "two").read_bytes() == b""
    assert wire.pack(job, files) == wire.pack(job, files)


@pytest.mark.parametrize("payload", [None, 0, "text", {"a": [1, 2.5, None]}, "µ" * 10, list(range(100_000))])
def test_what_is_sent_arrives(payload: object) -> None:
    line = wire.encode("result", payload)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert wire.decode(line) == ("result", payload)


def test_no_damaged_line_is_taken_for_a_result() -> None:
    line = wire.encode("result", {"late_ns": list(range(50))}).rstrip()
    for cut in range(len(line)):
        assert wire.decode(line[:cut]) is None
    for place in range(len(b"SL result "), len(line)):
        assert wire.decode(line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]) is None


def test_progress_lines_are_told_apart() -> None:
    line = b'{"experiment": "x", "done": 1, "total": 4, "label": "pipe"}'
    assert wire.decode_progress(line) == ("pipe", 0.25)
    assert wire.decode_progress(b"[    2.1] Kernel panic") is None
    assert wire.decode_progress(wire.encode("result", 1)) is None


# QEMU's command line


FILES = qemu.Files(console=3, answers=4, window=5, monitor=6, initramfs=7)


@pytest.fixture
def any_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")


def _guest(timing: str, architecture: str = "amd64", **changes: object) -> qemu.Guest:
    return qemu.Guest(Path("/k/vmlinuz"), architecture, timing, **changes)  # type: ignore[arg-type]


@pytest.mark.usefixtures("any_qemu")
def test_emulated_guests_have_no_cmpxchg16b() -> None:
    for timing in (qemu.VM_EMULATED, qemu.DETERMINISTIC):
        words = qemu.command(_guest(timing), FILES)
        assert words[words.index("-cpu") + 1] == "max,cx16=off"


@pytest.mark.usefixtures("any_qemu")
def test_for_numpy_the_cpu_has_it_and_the_kernel_leaves_it_alone() -> None:
    words = qemu.command(_guest(qemu.VM_EMULATED, numpy=True), FILES)
    assert words[words.index("-cpu") + 1] == "max"
    assert "clearcpuid=141" in words[words.index("-append") + 1].split()
    real = qemu.command(_guest(qemu.VM_KVM, numpy=True), FILES)
    assert not any("clearcpuid" in word for word in real)


@pytest.mark.usefixtures("any_qemu")
def test_a_deterministic_guest_has_one_cpu_and_counts_instructions() -> None:
    words = " ".join(qemu.command(_guest(qemu.DETERMINISTIC, cpus=4), FILES))
    assert "-smp 1 " in words
    assert "-icount shift=0,align=off,sleep=off" in words
    assert "thread=single" in words
    assert "nokaslr norandmaps" in words
    assert "clock=vm" in words
    assert "-seed 1" in words


@pytest.mark.usefixtures("any_qemu")
def test_kvm_is_asked_for_only_by_its_name() -> None:
    assert "kvm" in qemu.command(_guest(qemu.VM_KVM), FILES)
    assert not any("kvm" in word for word in qemu.command(_guest(qemu.VM_EMULATED), FILES))


@pytest.mark.usefixtures("any_qemu")
def test_nothing_is_read_from_the_readers_qemu_configuration_and_no_window_opens() -> None:
    words = " ".join(qemu.command(_guest(qemu.VM_EMULATED, append="preempt=full quiet"), FILES))
    for part in ("-nodefaults", "-no-user-config", "-display none", "-no-reboot", "panic=-1", "preempt=full"):
        assert part in words


@pytest.mark.usefixtures("any_qemu")
def test_a_restored_guest_is_the_machine_that_was_booted() -> None:
    booted = qemu.command(_guest(qemu.DETERMINISTIC), FILES)
    restored = qemu.command(_guest(qemu.DETERMINISTIC), FILES._replace(initramfs=None, incoming=8))
    at = booted.index("-initrd")
    assert booted[at + 1] == "/proc/self/fd/7"
    assert restored == [*booted[:at], "-incoming", "fd:8", *booted[at + 2 :]]


@pytest.mark.usefixtures("any_qemu")
def test_an_arm_guest_shares_one_line() -> None:
    words = qemu.command(_guest(qemu.VM_EMULATED, "arm64"), FILES)
    assert words[0].endswith("qemu-system-aarch64")
    assert words.count("-serial") == 1
    assert any("console=ttyAMA0" in word for word in words)


def test_no_qemu_is_said_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(QemuError, match="not installed") as refused:
        runner.run("6.1", "hello")
    assert "apt install" in refused.value.remedy


def test_too_little_memory_is_refused_before_booting(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QemuError, match="too small"):
        qemu.check_memory(_guest(qemu.VM_EMULATED, memory_mib=64), 20 * 2**20)
    with pytest.raises(QemuError, match="free"):
        qemu.check_memory(_guest(qemu.VM_EMULATED, memory_mib=2**30), 20 * 2**20)
    qemu.check_memory(_guest(qemu.VM_EMULATED, memory_mib=256), 20 * 2**20)


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        ({"timing": "native"}, "timing"),
        ({"timing": "deterministic", "cpus": 2}, "one CPU"),
        ({"cpus": 0}, "CPUs"),
    ],
)
def test_impossible_wishes_are_refused(wish: dict[str, object], word: str) -> None:
    with pytest.raises(ParameterError, match=word):
        runner.run("6.1", "hello", **wish)  # type: ignore[arg-type]


def test_parameters_become_plain_values() -> None:
    numpy = pytest.importorskip("numpy")
    given = {"a": numpy.int64(3), "b": numpy.arange(3), "c": range(2), "d": (1, 2), "e": "x"}
    assert runner._plain(given) == {"a": 3, "b": [0, 1, 2], "c": [0, 1], "d": [1, 2], "e": "x"}
    with pytest.raises(ParameterError, match="builtin_function"):
        runner._plain({"f": len})


def test_an_unknown_job_names_those_there_are() -> None:
    with pytest.raises(ParameterError, match="no job") as refused:
        runner.run("6.1", "dance")
    assert "long_system_call" in refused.value.remedy


# KVM


def test_a_kvm_device_that_runs_no_guest_counts_as_none(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(kvm, "_DEVICE", device)
    monkeypatch.setattr(qemu, "version", lambda architecture: "9.9")
    tried: list[str] = []

    def refuse(guest: qemu.Guest) -> None:
        tried.append(guest.timing)
        raise QemuError("QEMU ended with status -6: failed to set MSR 0x10a\nmore")

    found = kvm.probe(_guest("vm"), refuse)
    assert not found.works
    assert "MSR" in found.why
    assert "\n" not in found.why
    assert kvm.probe(_guest("vm"), refuse) == found
    assert tried == [qemu.VM_KVM]  # the second answer was remembered


def test_a_kvm_that_runs_a_guest_is_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(kvm, "_DEVICE", device)
    monkeypatch.setattr(qemu, "version", lambda architecture: "9.9")
    assert kvm.probe(_guest("vm"), lambda guest: None).works


def test_no_kvm_device_is_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvm, "_DEVICE", Path("/nonexistent"))
    assert "no /dev/kvm" in kvm.probe(_guest("vm"), lambda guest: None).why


# errors of jobs, experiments, the command line


def test_a_jobs_error_is_raised_here_as_it_was_there() -> None:
    raised = runner._as_raised({"kind": "ParameterError", "what": "No.", "remedy": "Yes.", "traceback": "t"})
    assert isinstance(raised, ParameterError)
    assert (raised.what, raised.remedy) == ("No.", "Yes.")
    other = runner._as_raised(
        {"kind": "ValueError", "what": "ValueError: x", "remedy": "", "traceback": "Traceback"}
    )
    assert isinstance(other, JobError)
    assert "Traceback" in str(other)


def test_a_job_that_fails_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, object]] = []

    class Channel:
        def send(self, what: str, payload: object) -> None:
            sent.append((what, payload))

    job = {"call": "math:sqrt", "parameters": {"wrong": 1}, "moment_s": 0}
    wire.work(job, Channel())  # type: ignore[arg-type]
    [(what, payload)] = sent
    assert what == "error"
    assert payload["kind"] == "TypeError"  # type: ignore[index]


def test_an_experiment_that_needs_counters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    experiments = pytest.importorskip("sched_labs.core.registry")

    class Needy:
        name, needs = "cache.misses", ("pmu",)

    monkeypatch.setattr(experiments, "find", lambda name: Needy)
    with pytest.raises(ParameterError, match="hardware counters"):
        experiment.run_experiment("cache.misses", "6.1", {})


def main(*words: str) -> int:
    return cli.main(words)


ANSWER = runner.Answer(
    value={"late_ns": list(range(20))},
    job="j:f",
    parameters={},
    kernel=packages.Kernel("6.1", "linux-image", "6.1.1-1", "6.1.1", "cloud", "amd64", "0", Path("/k")),
    timing="deterministic",
    build="#1",
    cpus=1,
    memory_mib=512,
    boot_s=0.1,
    duration_s=0.2,
    retries=0,
    key={},
    notes=[("info", "virtual")],
)


def test_one_grammar_for_this_machine_and_for_guests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def run_each(kernels: list[str], job: str, given: dict[str, Any], **options: Any) -> list[runner.Answer]:
        asked.append((kernels, job, given, options))
        return [
            dataclasses.replace(ANSWER, kernel=dataclasses.replace(ANSWER.kernel, name=n)) for n in kernels
        ]

    def run_experiment(name: str, kernel: str, given: dict[str, Any], **options: Any) -> Result:
        asked.append(([kernel], name, given, options))
        return _as_if("sleeper.among_hogs", "deterministic")

    monkeypatch.setattr(runner, "run_each", run_each)
    monkeypatch.setattr(experiment, "run_experiment", run_experiment)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    main("run", "throttle", "--kernel", "6.1,6.12", "--set", "seconds=1", "--timing", "deterministic",
         "--append", "a=b", "--json", f"{tmp_path}/answer.json")  # fmt: skip
    assert asked.pop() == (
        ["6.1", "6.12"], "throttle", {"seconds": 1}, {"timing": "deterministic", "append": "a=b"}
    )  # fmt: skip
    for name in ("6.1", "6.12"):
        assert json.loads((tmp_path / f"answer-{name}.json").read_text())["kernel"] == name
    assert "late_ns: 20 values" in capsys.readouterr().out
    main("run", "mine:function", "--kernel", "gallery")
    assert asked.pop() == (list(catalogue.gallery()), "mine:function", {}, {})
    main("run", "sleeper", "--kernel", "6.1", "--profile", "tiny", "--set", "hogs=2", "--cpus", "4",
         "--json", f"{tmp_path}/result.json")  # fmt: skip
    assert asked.pop() == (["6.1"], "sleeper.among_hogs", {"hogs": 2, "profile": "tiny"}, {"cpus": 4})
    assert (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "hello"], "--kernel 6.1"),
        (["run", "sleeper", "--timing", "vm"], "--kernel 6.1"),
        (["run", "sleeper", "--kernel", "6.1", "--timing", "soon"], "deterministic"),
        (["run", "hello", "--kernel", "6.1", "--profile", "tiny"], "no profile"),
        (["run", "sleeper", "--kernel", "6.1", "--set", "timing=vm"], "--timing vm"),
        (["run", "dance", "--kernel", "6.1"], "sleeper.among_hogs"),
    ],
)
def test_what_no_guest_can_do_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        assert main(*words) == 2
    assert said in capsys.readouterr().err


def test_list_and_get(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pretend(cache, "6.1")
    monkeypatch.setattr(packages, "_Apt", None)
    assert main("kernels", "list") == 0
    assert "6.1.176-1" in capsys.readouterr().out
    assert main("kernels", "get", "6.1") == 0
    assert str(cache / "6.1" / "vmlinuz") in capsys.readouterr().out
    assert main("kernels", "get", "latest") == 2
    assert "latest" in capsys.readouterr().err


def test_every_error_says_what_to_do() -> None:
    for error in (UnknownKernelError, PackageError, NetworkError, QemuError, GuestError, JobError):
        assert issubclass(error, SchedLabError)


# what a guest's time may be drawn as


def _as_if(kind: str, timing: str) -> Result:
    held = recorded(kind)
    assert held
    return dataclasses.replace(held, timing=timing)


@pytest.mark.computes
def test_virtual_time_is_drawn_as_virtual_time_and_never_in_a_machines_units() -> None:
    for kind in ("context_switch.matrix", "runqlat.histogram", "warmup.sweep"):
        figure = _as_if(kind, "deterministic").plot()
        words = f"{figure.svg()} {figure.caption} {figure.alt}"
        assert "virtual time, ns" in figure.svg()
        assert "virtual ns" in figure.caption
        assert not re.search(r"\d (µs|ms|s)\b|\d ns\b", words)
        assert "no machine has these times" in figure.provenance


@pytest.mark.computes
def test_a_figure_of_nanoseconds_refuses_an_emulated_machine() -> None:
    for kind in ("context_switch.matrix", "warmup.sweep"):
        with pytest.raises(ResultError, match="under a millisecond") as refused:
            _as_if(kind, "vm-emulated").plot()
        assert "deterministic" in refused.value.remedy
    # Waits of whole slices can be told.
    figure = _as_if("runqlat.histogram", "vm-emulated").plot()
    assert " ms" in figure.caption
    assert not re.search(r"\d (ns|µs)\b", figure.svg())


@pytest.mark.computes
def test_no_figure_tells_a_time_too_short_to_tell() -> None:
    """Every other figure of an emulated machine says "under 1 ms" where it is."""
    refused = []
    for kind in registry.names():
        try:
            figure = _as_if(kind, "vm-emulated").plot()
        except ResultError as error:
            assert "under a millisecond" in error.what
            refused.append(kind)
        else:
            assert not re.search(r"\d (ns|µs)\b", figure.caption), kind
    assert {"context_switch.matrix", "tlb.switches", "threads.creation"} <= set(refused)
    assert not {"quota.hog", "service.latency", "slices.sweep", "policies.admission"} & set(refused)


@pytest.mark.computes
def test_different_clocks_share_no_axis() -> None:
    kind = "context_switch.matrix"
    here, virtual = _as_if(kind, "native"), _as_if(kind, "deterministic")
    with pytest.raises(ParameterError, match="no common axis"):
        virtual.plot(recorded=here)
    with pytest.raises(ParameterError, match="no common axis"):
        figures.compare(here, virtual)
    with pytest.raises(ResultError, match="under a millisecond"):
        figures.compare(*[_as_if(kind, "vm-emulated")] * 2)
    with pytest.raises(ParameterError, match="prediction"):
        virtual.plot(predictions=[{"value": 2, "unit": "µs"}])
    assert "virtual time, ns" in figures.compare(virtual, virtual).svg()
    assert here.plot(recorded=_as_if(kind, "vm-kvm"))


@pytest.mark.computes
def test_what_people_say_about_machines_is_not_judged_in_a_guests_time() -> None:
    for timing in ("vm-emulated", "deterministic"):
        verdicts = [verdict.outcome for _, verdict in judge(_as_if("context_switch.matrix", timing))]
        assert len(verdicts) > 3
        assert set(verdicts) == {UNKNOWN}


def test_the_calendar_stands_still_for_a_deterministic_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = stillclock.library()
    assert path == stillclock.library() and [path] == list(path.parent.iterdir()), "made once, nothing beside"
    seconds = (ctypes.c_long * 2)()
    assert ctypes.CDLL(str(path)).gettimeofday(seconds, None) == 0
    assert list(seconds) == [datetime(2026, 1, 1, tzinfo=UTC).timestamp(), 0]


def test_without_a_compiler_there_is_no_deterministic_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(QemuError, match="no C compiler"):
        stillclock.library()
    monkeypatch.setenv("CC", "false")
    with pytest.raises(QemuError, match="cannot be compiled"):
        stillclock.library()
