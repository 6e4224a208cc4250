"""Control groups: parsed as each version writes them, made and taken away for real where this user may."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sched_labs import kernels
from sched_labs.core.errors import ParameterError, PlacementError
from sched_labs.kernels.errors import PackageError, QemuError
from sched_labs.limits import cgroups
from sched_labs.limits.cgroups import Counted, Group, Limit
from sched_labs.limits.cgroups.leftovers import Guard
from sched_labs.machine import files

V1_STAT = "nr_periods 31\nnr_throttled 29\nthrottled_time 2034567890\nnr_bursts 2\nburst_time 5000000"
V2_STAT = (
    "usage_usec 501\nuser_usec 400\nsystem_usec 101\nnice_usec 0\ncore_sched.force_idle_usec 0\n"
    "nr_periods 12\nnr_throttled 11\nthrottled_usec 311457\nnr_bursts 1\nburst_usec 250"
)


def test_cpu_stat_of_both_versions_in_ns() -> None:
    assert cgroups.parse_counted(V1_STAT) == Counted(31, 29, 2_034_567_890, 2, 5_000_000)
    assert cgroups.parse_counted(V2_STAT) == Counted(12, 11, 311_457_000, 1, 250_000)
    before_5_14 = "nr_periods 3\nnr_throttled 2\nthrottled_time 7"
    assert cgroups.parse_counted(before_5_14) == Counted(3, 2, 7, None, None)


def test_a_group_without_the_controller_says_so() -> None:
    with pytest.raises(PlacementError, match=r"x/cpu.stat has no nr_periods.*\n.*not switched on"):
        cgroups.parse_counted("usage_usec 501\nuser_usec 400\nsystem_usec 101", "x/cpu.stat")


def test_what_was_counted_since() -> None:
    assert Counted(9, 8, 70, 6, 5).since(Counted(1, 2, 3, 4, 5)) == Counted(8, 6, 67, 2, 0)
    assert Counted(9, 8, 70, None, None).since(Counted(1, 2, 3, None, None)).bursts is None


def test_a_pressure_file() -> None:
    text = "some avg10=0.00 avg60=1.50 avg300=0.20 total=326695\nfull avg10=0 avg60=0 avg300=0 total=318476"
    assert cgroups.parse_pressure(text) == {"some": 326695, "full": 318476}


def write(folder: Path, **values: str) -> None:
    for name, text in values.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A CONSTRUCTED folder with the files of a group: it takes everything, as no kernel would."""
    (tmp_path / "g").mkdir()
    with files.root(tmp_path):
        yield tmp_path / "g"


def test_limits_are_written_and_read_as_v2_has_them(tree: Path) -> None:
    write(tree, cpu__max="max 100000", cpu__max__burst="0", cpu__weight="100")
    group = Group("/g", "v2")
    assert group.read_limit() == Limit(None, 100_000, 0)
    group.limit(20_000, 50_000, 10_000)
    group.weigh(300)
    assert (tree / "cpu.max").read_text() == "20000 50000"
    assert (tree / "cpu.max.burst").read_text() == "10000"
    assert (tree / "cpu.weight").read_text() == "300"
    assert group.pressure_us() is None


def test_limits_are_written_and_read_as_v1_has_them(tree: Path) -> None:
    write(tree, cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000", cpu__shares="1024")
    group = Group("/g", "v1")
    assert (group.read_limit(), group.read_weight()) == (Limit(None, 100_000, 0), 100)
    group.limit(250_000, 200_000)
    group.weigh(25)
    assert group.read_limit() == Limit(250_000, 200_000, 0)
    assert ((tree / "cpu.shares").read_text(), group.read_weight()) == ("256", 25)


def test_a_kernel_without_burst_is_named(tree: Path) -> None:
    write(tree, cpu__max="max 100000")
    with pytest.raises(PlacementError, match=r"/g/cpu.max.burst does not take.*no such file.*\n.*5\.14"):
        Group("/g", "v2").limit(20_000, 50_000, 10_000)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ((999, 100_000, 0), "cpu.max takes a quota of 1,000 µs or more, not 999"),
        ((0, 100_000, 0), "not 0"),
        ((20_000, 999, 0), "cpu.max takes a period from 1,000 to 1,000,000 µs, not 999"),
        ((20_000, 1_000_001, 0), "not 1,000,001"),
        ((20_000, 100_000, 20_001), r"cpu.max.burst takes 0 µs up to the quota \(20,000 µs\), not 20,001"),
        ((None, 100_000, 1), "none is set"),
        ((20_000, 100_000, -1), "not -1"),
    ],
)
def test_a_limit_that_no_kernel_takes_is_refused_before_anything_is_made(
    limit: tuple[int | None, int, int], said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        cgroups.check_limit(*limit, "v2")
    quota, period, burst = limit
    with (
        pytest.raises(ParameterError, match=r"cpu\.(max|cfs_\w+_us)"),  # of the version that is mounted here
        cgroups.group("x", quota_us=quota, period_us=period, burst_us=burst),
    ):
        pass


def test_v1_files_are_named_on_v1(tree: Path) -> None:
    with pytest.raises(ParameterError, match=r"cpu\.cfs_quota_us takes a quota of 1,000 µs"):
        Group("/g", "v1").limit(500)
    with pytest.raises(ParameterError, match=r"cpu\.shares takes a weight from 1 to 10,000, not 0"):
        Group("/g", "v1").weigh(0)


def test_a_name_is_no_path() -> None:
    with pytest.raises(ParameterError, match="cannot be called"), cgroups.group("../x"):
        pass


def test_a_machine_without_the_controller_names_what_is_mounted(tmp_path: Path) -> None:
    proc = tmp_path / "proc/self"
    proc.mkdir(parents=True)
    (proc / "mountinfo").write_text("31 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    (proc / "cgroup").write_text("4:memory:/\n")
    with (
        files.root(tmp_path),
        pytest.raises(PlacementError, match=r"has the cpu controller; mounted: /sys/fs/cgroup/memory"),
        cgroups.group("x"),
    ):
        pass


# --- for real ---


@pytest.fixture(scope="module")
def allowed() -> None:
    able, why = cgroups.possible()
    if not able:
        pytest.skip(why)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def own_groups() -> list[str]:
    return [folder for folder, _ in cgroups.left_behind() if f"/{os.getpid()}." in folder]


def group_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


@pytest.mark.usefixtures("allowed")
def test_a_group_is_as_asked_and_gone_at_the_end(sleeper: subprocess.Popen[bytes]) -> None:
    before = group_of(sleeper.pid)
    cpu = max(os.sched_getaffinity(0))
    with cgroups.group("t", quota_us=30_000, period_us=60_000, weight=200) as group:
        assert group.read_limit() == Limit(30_000, 60_000, 0)
        assert group.read_weight() == 200
        group.add(sleeper.pid)
        assert group.pids() == [sleeper.pid] and group_of(sleeper.pid) != before
        assert group.counted().throttled_periods == 0
        group.limit(None)
        assert group.read_limit() == Limit(None, 100_000, 0)
        assert group.path in own_groups()
        with cgroups.group("t2", cpus=[cpu]) as confined:
            confined.add(sleeper.pid)
            assert os.sched_getaffinity(sleeper.pid) == {cpu}
    # The process was never in a group that went away: it is where it came from.
    assert group_of(sleeper.pid) == before
    assert os.sched_getaffinity(sleeper.pid) == os.sched_getaffinity(0)
    assert own_groups() == [] and sleeper.poll() is None


@pytest.mark.usefixtures("allowed")
def test_a_group_in_a_group() -> None:
    with (
        cgroups.group("outer", quota_us=50_000) as outer,
        cgroups.group("inner", quota_us=20_000, inside=outer) as inner,
    ):
        assert inner.path.startswith(f"{outer.path}/")
        assert inner.read_limit().quota_us == 20_000
    assert own_groups() == []


@pytest.mark.usefixtures("allowed")
def test_a_group_that_exists_is_named() -> None:
    with (
        cgroups.group("twice") as first,
        pytest.raises(PlacementError, match="exists already") as refused,
        cgroups.group("twice"),
    ):
        pass
    assert first.path in str(refused.value)
    assert own_groups() == []


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_error_or_ctrl_c_leaves_nothing(
    kind: type[BaseException], sleeper: subprocess.Popen[bytes]
) -> None:
    before = group_of(sleeper.pid)
    with pytest.raises(kind), cgroups.group("t", quota_us=50_000) as group:
        group.add(sleeper.pid)
        raise kind
    assert own_groups() == [] and group_of(sleeper.pid) == before


KILLED = (
    "import os, sys, subprocess\nfrom sched_labs import cgroups\n"
    "child = subprocess.Popen(['sleep', '300'])\n"
    "with cgroups.group('killed', quota_us=50_000) as group:\n"
    "    group.add(child.pid)\n    print(group.path, child.pid, flush=True)\n    sys.stdin.read()\n"
)


def killed(before: str = "") -> tuple[subprocess.Popen[str], str, int]:
    """A program that has a group with a child in it: the program, the group, the child."""
    program = subprocess.Popen(
        [sys.executable, "-c", before + KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout
    path, child = program.stdout.readline().split()
    return program, path, int(child)


def gone(path: str, within_s: float = 20) -> bool:
    end = time.monotonic() + within_s
    while Path(path).exists() and time.monotonic() < end:
        time.sleep(0.02)
    return not Path(path).exists()


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_a_killed_program_leaves_no_group(reaped: bool) -> None:
    """The whole process group is killed, as a notebook's server does it; nobody runs anything afterwards."""
    program, path, child = killed("import os; os.setsid()\n")
    try:
        assert any(said.startswith(f"Left alone: the control group {path}") for said in cgroups.clear())
        program.send_signal(signal.SIGKILL)
        if reaped:
            program.wait()
        assert gone(path)
        os.kill(child, 0)  # it was moved out, not ended
        assert path.rpartition("/")[2] not in group_of(child)
    finally:
        program.kill()
        program.wait()
        os.kill(child, signal.SIGKILL)


@pytest.mark.usefixtures("allowed")
def test_what_a_guard_did_not_take_away_the_next_program_does() -> None:
    """The guard is killed too."""
    program, path, child = killed(
        "from sched_labs.limits.cgroups.leftovers import Guard; Guard.watch = lambda: None\n"
    )
    try:
        program.send_signal(signal.SIGKILL)
        program.wait()
        assert Path(path).exists()
        with cgroups.group("next"):
            assert not Path(path).exists()
        os.kill(child, 0)
        assert path.rpartition("/")[2] not in group_of(child)
    finally:
        program.kill()
        program.wait()
        os.kill(child, signal.SIGKILL)


def test_a_python_that_may_not_be_run_guards_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may run a Python whose folder is closed to whom sudo makes of this user."""
    (tmp_path / "python").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(Guard, "_of", None)
    with pytest.raises(PlacementError, match=r"python \(Permission denied\)\.\n.*may run"):
        Guard.watch()


@pytest.mark.usefixtures("allowed")
def test_the_guard_ends_with_its_program() -> None:
    code = (
        "from pathlib import Path\nimport os\nfrom sched_labs import cgroups\n"
        "for name in ('one', 'two'):\n    with cgroups.group(name): pass\n"
        "print(Path(f'/proc/self/task/{os.getpid()}/children').read_text())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (guard,) = done.stdout.split()  # one for both groups
    assert not Path(f"/proc/{guard}").exists()


@pytest.mark.usefixtures("allowed")
def test_a_process_that_has_ended_is_named() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with cgroups.group("t") as group, pytest.raises(PlacementError, match="that process has ended"):
        group.add(process.pid)


@pytest.mark.usefixtures("allowed")
def test_a_nested_group_larger_than_the_one_around_it_is_refused_on_v1_only() -> None:
    with cgroups.group("outer", quota_us=20_000) as outer:
        if outer.version == "v1":
            refused = pytest.raises(PlacementError, match=r"quota_us does not take '50000'.*\n.*larger share")
            with refused, cgroups.group("inner", quota_us=50_000, inside=outer):
                pass
        else:
            with cgroups.group("inner", quota_us=50_000, inside=outer) as inner:
                assert inner.read_limit().quota_us == 50_000


def in_mount_namespace(before: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python after shell commands that change mounts, which nobody else sees."""
    if os.getuid() != 0 or not shutil.which("unshare"):
        pytest.skip("mounts can be changed by root with unshare only")
    return subprocess.run(
        ["unshare", "-m", "sh", "-ec", f'{before}\nexec "$0" -c "$1"', sys.executable, code],
        capture_output=True,
        text=True,
        timeout=60,
    )


SHOW = "from sched_labs import cgroups\nwith cgroups.group('m', quota_us=20_000) as g: print(g.path)"


def cpu_mount() -> str:
    from sched_labs import machine

    mount = machine.survey().fact("cgroup.cpu_mount").value
    assert isinstance(mount, str)
    return mount


@pytest.mark.usefixtures("allowed")
def test_a_read_only_mount_is_named() -> None:
    mount = cpu_mount()
    done = in_mount_namespace(f"mount --bind {mount} {mount}\nmount -o remount,bind,ro {mount}", SHOW)
    assert done.returncode != 0
    assert mount in done.stderr and "read-only" in done.stderr


@pytest.mark.usefixtures("allowed")
def test_a_controller_that_is_mounted_elsewhere_is_found(tmp_path: Path) -> None:
    mount = cpu_mount()
    done = in_mount_namespace(f"mount --move {mount} {tmp_path}", SHOW)
    if "mount:" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/")


@pytest.mark.guests
@pytest.mark.computes  # in virtual time
@pytest.mark.usefixtures("own_lock")
@pytest.mark.parametrize("name", ["6.1"])
def test_v2_on_a_kernel_that_mounts_nothing_else(name: str) -> None:
    """In virtual time, where nobody disturbs it, stalls agree with the formula; and nothing is left."""
    try:
        kernels.get(name)
        answer = kernels.run(
            name, "sched_labs.kernels.jobs.groups:limited", timing="deterministic", native=("burn",)
        )
    except (PackageError, QemuError) as error:
        pytest.skip(f"no other kernel can be booted here: {error.what}")
    said = answer.value
    assert (said["version"], said["was_in"], said["weight"]) == ("v2", True, 50)
    assert said["limit"] == [20_000, 50_000, 0] and said["cpus"] == "0"
    counted, slice_ns = said["counted"], said["slice_us"] * 1000
    assert counted["periods"] >= 10 and counted["throttled_periods"] >= counted["periods"] - 2
    # Both instruments: the worker's clock, and cpu.stat.
    stalls = [ns for ns in said["gaps_ns"] if ns > 15_000_000]
    assert len(stalls) >= counted["throttled_periods"] - 1
    assert abs(sorted(stalls)[len(stalls) // 2] - 30_000_000) <= slice_ns
    assert abs(counted["throttled_ns"] / counted["throttled_periods"] - 30_000_000) <= slice_ns
    assert said["cpu_ns"] <= (counted["periods"] + 1) * 20_000_000 + slice_ns
    assert counted["bursts"] == 0
    assert said["pressure_us"]["some"] * 1000 > 0.5 * counted["throttled_ns"]
    assert said["inside"] == [[1000, 50_000, 0], [2000, 50_000, 0]]
    assert said["left"] == [] and said["switched_on"] == [[], []]
    assert len(said["cleared"]) == 1 and said["cleared"][0].startswith("Removed: the control group")
    read, *left = said["as_user"]
    assert read.startswith("/sys/fs/cgroup/delegated/sched-labs+cpu/") and " 5000 True " in read
    assert read.endswith("0::/delegated/scope") and left == ["scope"]
    lent = said["lent"]
    assert "error" not in lent, lent
    # Beside the user's session and below its slice, whose limit holds for it too.
    assert lent["folder"].startswith("/sys/fs/cgroup/user.slice/sched-labs-loan-1000-")
    assert lent["lent_to"] == [1000, 0]  # the group is the user's, its limits are root's
    assert lent["path"].startswith(f"{lent['folder']}/sched-labs/")
    assert lent["limit"] == [5_000, 100_000, 0] and lent["inside"] and lent["cpus"] == "0"
    assert lent["left"] == [] and lent["switched_on"][0] == lent["switched_on"][1]
    # Nothing is made higher up where it cannot stand below every limit.
    for case, why in (("limit", "cpu.max"), ("weight", "cpu.weight"), ("process", "busy")):
        (refusal,) = [said for name, said in said["refused"].items() if case in name]
        assert why in refusal[0] and refusal[1:] == ["0::/user.slice/session"], refusal
    # Everybody goes back to where the borrower was, and never higher up.
    assert said["given_back"] == {
        "a chain of forks": ["0::/user.slice/session"],
        "its session has gone": ["gone"],
    }


def test_the_wait_for_a_killed_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that stays busy is an error that says so, and no endless loop."""

    def busy(self: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(cgroups.folders, "_REMOVED_WITHIN_S", 0.05)
    monkeypatch.setattr(Path, "rmdir", busy)
    start = time.monotonic()
    with pytest.raises(PlacementError, match=r"cannot be removed: it is in use.*\n.*sched-labs clean"):
        cgroups.folders.remove("/nowhere/sched-labs/1.1-x", {})
    assert time.monotonic() - start < 5
