"""The survey of the machine: live relations, a recorded machine, constructed and broken ones."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machines import constructed

import sched_labs
from sched_labs import machine
from sched_labs.core.errors import ParameterError
from sched_labs.machine import Machine, cgroup, clock, files, perf, policy, tunables
from sched_labs.machine.inventory import human
from sched_labs.machine.seen import Seen

RECORDED = Path(__file__).parent / "machines" / "guest-6.18"

CONSTRUCTED: list[Callable[[], constructed.Tree]] = [
    constructed.ubuntu_2404,
    constructed.big_little,
    constructed.two_sockets,
    constructed.sysctl_era,
    constructed.wsl,
    constructed.container,
]


def survey_of(tree: Path) -> Machine:
    with files.root(tree):
        return machine.survey(fresh=True)


@pytest.fixture
def made(tmp_path: Path) -> Callable[[constructed.Tree], Machine]:
    return lambda tree: survey_of(constructed.build(tree, tmp_path))


@pytest.fixture(scope="module")
def live() -> Machine:
    return machine.survey(fresh=True)


# --- live ---


def test_every_documented_key_is_answered_and_every_answer_is_documented(live: Machine) -> None:
    assert set(machine.LABELS) <= set(live.facts)
    text = machine.__doc__ or ""
    sections = {part.partition(":")[0]: part.partition(":")[2] for part in text.split("\n- ")[1:]}
    documented = {
        f"{group}.{name.split('(')[0].strip()}"
        for group, names in sections.items()
        if group != "tunable"
        for name in names.split(",")
    }
    assert documented == {key for key in machine.LABELS if not key.startswith("tunable.")}


def test_what_is_not_known_says_why(live: Machine) -> None:
    silent = [f.key for f in live.facts.values() if f.value is None and not f.why]
    assert silent == []


def test_live_cpus_and_caches_hang_together(live: Machine) -> None:
    numbers = {c.number for c in live.cpus}
    assert set(live.cpus_allowed) <= numbers
    assert set(live.cpus_allowed) == os.sched_getaffinity(0)
    assert live.fact("cpu.count").value == len(numbers)
    for cpu in live.cpus:
        assert cpu.number in cpu.siblings
        for cache in live.caches(cpu.number):
            assert cpu.number in cache.shared_cpus
            assert cache.size_bytes >= 1024 and cache.kind in {"data", "instruction", "unified"}
        others = live.smt_siblings(cpu.number) + live.same_cache_cpus(cpu.number)
        assert not set(others) & set(live.other_cache_cpus(cpu.number))
        assert cpu.number not in others
    assert live.line_bytes & (live.line_bytes - 1) == 0


def test_live_tick_agrees_with_what_the_clock_tells(live: Machine) -> None:
    measured = live.fact("kernel.hz").value
    if measured is None:
        pytest.skip(f"the tick could not be watched: {live.fact('kernel.hz').why}")
    assert measured == pytest.approx(live.fact("kernel.hz_told").value, rel=0.02)


def test_a_tick_that_cannot_be_seen_is_not_made_up() -> None:
    fact = clock.measured_hz(None, longest_s=0.0)
    assert fact.value is None and "steps" in fact.why


@pytest.mark.parametrize(
    ("step_ms", "told", "hz"),
    [(4, 250, 250), (20, 250, None), (8, 250, None), (4, None, 250), (10, 250, 100), (1, 250, 1000)],
)
def test_several_ticks_at_once_are_not_taken_for_one(
    monkeypatch: pytest.MonkeyPatch, step_ms: int, told: int | None, hz: int | None
) -> None:
    # Each look at either clock takes half a millisecond; the coarse one moves by the step alone.
    times_ns = iter(range(0, 10**9, 500_000))
    monkeypatch.setattr(clock.time, "monotonic_ns", lambda: next(times_ns))
    step_ns = step_ms * 1_000_000
    monkeypatch.setattr(clock.time, "clock_gettime_ns", lambda which: next(times_ns) // step_ns * step_ns)
    fact = clock.measured_hz(told, longest_s=0.9)
    assert fact.value == hz
    assert ("at once" in fact.why) == (hz is None)


def test_reading_the_fine_clock_never_costs_less_than_nothing(live: Machine) -> None:
    native, seen_by_python = live.fact("clock.read_ns").value, live.fact("clock.read_python_ns").value
    assert isinstance(native, float) and isinstance(seen_by_python, float)
    assert 0 <= native < seen_by_python


def test_events_are_sorted_into_counting_and_not(live: Machine) -> None:
    counting, missing = live.fact("pmu.events").value, live.fact("pmu.missing").value
    assert isinstance(counting, list) and isinstance(missing, list)
    assert sorted(counting + missing) == sorted(perf.EVENTS)
    assert live.fact("pmu.available").value is bool(counting)


def test_a_software_event_counts_where_perf_is_allowed() -> None:
    value, why = perf.count(1, 1)  # PERF_COUNT_SW_TASK_CLOCK
    if value is None:
        pytest.skip(f"perf_event_open: {why}")
    assert value > 0


def test_the_survey_leaves_the_caller_as_it_was() -> None:
    def state() -> tuple[object, ...]:
        return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)

    before, open_files = state(), len(list(Path("/proc/self/fd").iterdir()))
    found = machine.survey(fresh=True)
    assert state() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    for mount in (found.fact("cgroup.cpu_mount").value, found.fact("cgroup.cpuset_mount").value):
        if isinstance(mount, str):
            assert not list(Path(mount).glob(f"**/{cgroup.TRIAL}{os.getpid()}"))


def test_a_group_left_by_a_killed_survey_does_not_stand_in_the_way() -> None:
    found = cgroup.hierarchy(Seen(), "cpu")
    folder, why = cgroup.try_making(found, ("cpu.max", "cpu.cfs_quota_us"))
    if folder is None:
        pytest.skip(f"no group can be made here: {why}")
    left = Path(folder) / f"{cgroup.TRIAL}{os.getpid()}"
    left.mkdir()
    try:
        assert cgroup.try_making(found, ("cpu.max", "cpu.cfs_quota_us"))[0] == folder
        assert not left.exists()
    finally:
        if left.exists():
            left.rmdir()


def test_a_policy_is_tried_for_real(live: Machine) -> None:
    if not live.fact("policy.fifo").value:
        pytest.skip(f"SCHED_FIFO: {live.fact('policy.fifo').why}")
    seen: list[int] = []

    def attempt() -> bool:
        seen.append(policy._set(policy._FIFO, 1) and os.sched_getscheduler(0))
        return True

    policy._on_a_thread(attempt)
    assert seen == [os.SCHED_FIFO]


@pytest.fixture
def group() -> Iterator[Path]:
    """A v1 cpu group of our own, taken away afterwards."""
    found = cgroup.hierarchy(Seen(), "cpu")
    folder, why = cgroup.try_making(found, ("cpu.max", "cpu.cfs_quota_us"))
    if folder is None or found is None or found.version != "v1":
        pytest.skip(f"no v1 cpu group can be made here: {why}")
    made = Path(folder) / f"sched-labs-test-{os.getpid()}"
    made.mkdir()
    try:
        yield made
    finally:
        made.rmdir()


def survey_inside(group: Path) -> dict[str, dict[str, object]]:
    """The facts that a process in `group` finds."""
    procs = str(group / "cgroup.procs")
    asking = (
        f"import json, os, pathlib; pathlib.Path({procs!r}).write_text(str(os.getpid()))\n"
        "from sched_labs import machine\nprint(json.dumps(machine.survey().to_json()['facts']))"
    )
    done = subprocess.run([sys.executable, "-c", asking], capture_output=True, timeout=60, check=True)
    facts: dict[str, dict[str, object]] = json.loads(done.stdout)
    return facts


def test_a_quota_on_this_process_is_seen(group: Path) -> None:
    (group / "cpu.cfs_quota_us").write_text("30000")
    facts = survey_inside(group)
    assert facts["cgroup.cpu_group"]["value"] == str(group)
    assert facts["cgroup.cpu_limit"]["value"] == 0.3


def test_a_group_without_real_time_runtime_is_named_as_the_reason(group: Path) -> None:
    runtime = group / "cpu.rt_runtime_us"
    if not runtime.exists():
        pytest.skip("groups have no real-time runtime here (no RT_GROUP_SCHED)")
    runtime.write_text("0")
    facts = survey_inside(group)
    assert facts["policy.fifo"]["value"] is False
    assert (
        "rt_runtime_us is 0" in str(facts["policy.fifo"]["why"]) or not facts["policy.cap_sys_nice"]["value"]
    )


@pytest.mark.measures
def test_survey_is_quick_and_kept() -> None:
    begin = time.monotonic()
    found = machine.survey(fresh=True)
    assert time.monotonic() - begin < 10  # sanity only; the budget is kept by a benchmark
    assert machine.survey() is found


def test_table_and_json_and_provenance(live: Machine) -> None:
    table = live.table()
    assert list(table.columns) == ["group", "fact", "value", "source", "note"]
    assert len(table) == len(live.facts)
    assert all(isinstance(v, str) and v for v in table["value"])
    assert "<table" in live._repr_html_() and "Machine" in repr(live)
    assert json.loads(json.dumps(live.to_json()))["facts"]["kernel.release"]["value"] == os.uname().release
    flat = live.provenance()
    assert all(v is None or isinstance(v, str | int | float | bool) for v in flat.values())
    text = json.dumps(flat)
    assert len(text) < 2000
    assert flat["kernel"] == os.uname().release and flat["hz"] == live.fact("kernel.hz").value


def test_no_name_of_host_or_user_leaves_in_provenance(live: Machine) -> None:
    words = set(json.dumps(live.provenance()).replace('"', " ").replace(",", " ").split())
    assert os.uname().nodename not in words
    assert not words & {os.environ.get("USER"), os.environ.get("LOGNAME")} - {None}


def test_a_misspelt_key_is_answered_with_the_right_one(live: Machine) -> None:
    with pytest.raises(ParameterError, match=r"kernel\.hz"):
        live.fact("kernel.hzz")


@pytest.mark.measures  # where several processes test, their folders are closed to others
def test_without_any_privilege(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else; this run is unprivileged already")
    package = Path(sched_labs.__file__).parent
    above = [folder for folder in tmp_path.parents if folder.name.startswith(("pytest-", "popen-"))]
    for folder in (tmp_path, *above):  # pytest keeps its folders to itself: two, or three with workers
        folder.chmod(0o755)
    shutil.copytree(package, tmp_path / "sched_labs", ignore=shutil.ignore_patterns("__pycache__"))
    asking = (
        f"import sys, json; sys.path.insert(0, {str(tmp_path)!r}); sys.dont_write_bytecode = True\n"
        "from sched_labs import machine\nprint(json.dumps(machine.survey().to_json()))"
    )
    pythons = [sys.executable, "/usr/bin/python3"]
    python = next((p for p in pythons if _runs_as_nobody(p)), None)
    if python is None:
        pytest.skip("no Python of 3.11 or newer here that another user may run")
    done = subprocess.run(
        [python, "-I", "-c", asking],
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    facts = json.loads(done.stdout)["facts"]
    assert set(machine.LABELS) <= set(facts)
    assert facts["bpf.capable"]["value"] is False
    assert facts["policy.cap_sys_nice"]["value"] is False
    assert facts["policy.fifo"]["value"] is False and "RTPRIO" in facts["policy.fifo"]["why"]
    assert facts["cgroup.can_make"]["value"] is False and facts["cgroup.can_make"]["why"]
    assert (
        facts["policy.nice_negative"]["value"] is False
        and "CAP_SYS_NICE" in facts["policy.nice_negative"]["why"]
    )


def _runs_as_nobody(python: str) -> bool:
    asking = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return not subprocess.run(
            [python, "-I", "-c", asking], user=65534, group=65534, extra_groups=[]
        ).returncode
    except OSError:
        return False


# --- recorded ---


def test_recorded_machine() -> None:
    m = survey_of(RECORDED)
    value = {key: fact.value for key, fact in m.facts.items()}
    assert value["kernel.scheduler"] == "EEVDF"
    assert value["kernel.preemption"] == "none (dynamic)"
    assert value["kernel.lockdown"] == "integrity"
    assert value["kernel.hz"] is None and "recorded" in m.fact("kernel.hz").why
    assert value["kernel.hz_told"] == 250
    assert value["clock.source"] == "tsc"
    assert value["host.hypervisor"] == "KVM"
    assert value["host.pid_namespace"] == "the machine's"
    assert value["cgroup.version"] == "v1" and value["cgroup.cpu_mount"] == "/sys/fs/cgroup/cpu"
    assert value["policy.rt_group_runtime_us"] == 950_000
    assert value["bpf.kprobes"] is False and value["bpf.raw_tracepoints"] is True
    assert value["kernel.slice_ns"] == 1_400_000
    assert value["tunable.base_slice_ns"] is None
    assert m.fact("tunable.base_slice_ns").why == "debugfs is not mounted"
    assert "gone since EEVDF" in m.fact("tunable.latency_ns").why
    assert [c.size_bytes for c in m.caches(0)] == [48 << 10, 32 << 10, 1 << 20, 32 << 20]
    assert m.same_cache_cpus(0) == [1] and m.smt_siblings(0) == [] and m.other_cache_cpus(0) == []
    assert [n.cpus for n in m.nodes] == [(0, 1)]


def test_live_again_after_a_recorded_one() -> None:
    recorded = survey_of(RECORDED)
    assert files.live()
    assert machine.survey() is not recorded
    assert machine.survey().fact("pmu.available").value is not None


@pytest.mark.parametrize("tree", CONSTRUCTED)
def test_constructed_machines_answer_every_key(tree: Callable[[], constructed.Tree], tmp_path: Path) -> None:
    m = survey_of(constructed.build(tree(), tmp_path))
    assert set(machine.LABELS) <= set(m.facts)
    assert [f.key for f in m.facts.values() if f.value is None and not f.why] == []
    assert len(m.table()) == len(m.facts)
    json.dumps([m.to_json(), m.provenance()])


def test_ubuntu_desktop(made: Callable[[constructed.Tree], Machine]) -> None:
    m = made(constructed.ubuntu_2404())
    assert m.fact("host.hypervisor").value == "VirtualBox"
    assert m.fact("kernel.scheduler").value == "EEVDF"
    assert m.fact("kernel.scheduler").source == "kernel release only"
    assert m.fact("kernel.preemption").value == "voluntary (dynamic)"
    assert m.fact("kernel.lockdown").value == "none"
    assert m.fact("kernel.boot_options").value == ["isolcpus=1"]
    assert m.fact("cgroup.version").value == "v2"
    assert m.fact("cgroup.cpu_group").value == (
        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope"
    )
    assert m.fact("cgroup.cpu_limit").value == 1.5
    assert m.fact("cgroup.task_group").value == "its control group"
    assert m.fact("cgroup.memory_limit_bytes").value == 2 << 30
    assert m.fact("bpf.kprobes").value is True
    assert m.fact("bpf.bcc").value == "/usr/lib/python3/dist-packages/bcc"
    assert m.fact("helper.installed").value is True
    assert m.fact("tunable.features").why == "only root may look into debugfs"
    assert m.fact("proc.schedstats").value is False and "switched off" in m.fact("proc.schedstats").why


def test_big_little(made: Callable[[constructed.Tree], Machine]) -> None:
    m = made(constructed.big_little())
    assert m.fact("cpu.model").value == "4 × Cortex-A55 + 4 × Cortex-A76"
    assert "ROCK 5B" in m.fact("cpu.model").why
    assert {c.core_type for c in m.cpus[:4]} == {"Cortex-A55"} and m.cpus[7].core_type == "Cortex-A76"
    assert m.fact("kernel.scheduler").value == "sched_ext (lavd)"
    assert m.fact("kernel.realtime").value is True
    assert m.fact("kernel.preemption").value == "PREEMPT_RT (full)"
    assert m.fact("cpu.governor").value == "schedutil, performance"
    assert m.caches(0) == [] and m.same_cache_cpus(0) == [] and m.other_cache_cpus(0) == []
    assert m.line_bytes == 64 and m.fact("cache.line_bytes").source == "assumed"
    assert m.fact("cache.l2_bytes").value is None
    assert m.fact("tunable.base_slice_ns").value == 2_800_000
    assert m.fact("tunable.fair_server_runtime_ns").value == 50_000_000
    assert m.fact("tunable.numa_balancing.scan_delay_ms").value == 1000
    assert m.provenance()["core_types"] == "Cortex-A55: 0-3, Cortex-A76: 4-7"


def test_two_sockets(made: Callable[[constructed.Tree], Machine]) -> None:
    m = made(constructed.two_sockets())
    assert (m.fact("cpu.sockets").value, m.fact("cpu.cores").value, m.fact("cpu.smt").value) == (2, 4, 2)
    assert m.fact("numa.nodes").value == 2
    assert [n.distances for n in m.nodes] == [(10, 21), (21, 10)]
    assert m.nodes[1].memory_bytes == 98_304_000 * 1024 and m.cpus[1].node == 1
    assert m.cpus_allowed == [0, 1, 2, 3, 5]
    # CPU 4 is a sibling of 0 and 6 is behind its cache, but this process may use neither.
    assert m.smt_siblings(1) == [5] and m.smt_siblings(0) == []
    assert m.same_cache_cpus(0) == [2]
    assert m.other_cache_cpus(0) == [1, 3, 5]
    assert m.fact("host.hypervisor").value == "none"
    assert m.fact("cpu.model").value == "Intel(R) Xeon(R) Gold 5218"
    assert m.fact("cpu.turbo").value is True
    assert m.fact("cpu.idle_states").value == ["POLL (0 µs)", "C6 (133 µs, off)"]
    assert m.fact("cpu.mitigations").value == ["meltdown: PTI"] and m.fact("cpu.vulnerable").value == ["mds"]
    assert m.fact("kernel.scheduler").value == "CFS"
    assert m.fact("kernel.preemption").value == "voluntary (dynamic)"
    assert m.fact("tunable.latency_ns").value == 24_000_000
    assert "CFS has none" in m.fact("tunable.base_slice_ns").why
    assert m.fact("host.steal_percent").value == 10


def test_sysctl_era(made: Callable[[constructed.Tree], Machine]) -> None:
    m = made(constructed.sysctl_era())
    assert m.fact("kernel.scheduler").value == "CFS"
    assert m.fact("kernel.preemption").value == "none or voluntary (static)"
    assert m.fact("tunable.latency_ns").source == "/proc/sys/kernel/sched_latency_ns"
    assert m.fact("tunable.nr_migrate").value == 32
    assert m.fact("tunable.cfs_bw_burst_enabled").value == 1
    assert m.fact("tunable.of_some_vendor_ms").value == 7 and m.fact("tunable.of_some_vendor_ms").unit == "ms"
    assert "tunable.domain" not in m.facts
    assert m.fact("cgroup.version").value == "v1"
    assert m.fact("cgroup.cpu_group").value == "/sys/fs/cgroup/cpu,cpuacct/system.slice/ssh.service"
    assert m.fact("cgroup.cpu_limit").value == 0.2
    assert m.fact("cgroup.task_group").value == "its control group"
    assert m.fact("policy.rt_group_sched").value is True and m.fact("policy.rt_group_runtime_us").value == 0
    with pytest.raises(ParameterError):
        m.fact("tunable.of_no_vendor")


def test_wsl(made: Callable[[constructed.Tree], Machine]) -> None:
    m = made(constructed.wsl())
    assert m.fact("host.wsl").value == "WSL2"
    assert m.fact("host.hypervisor").value == "Hyper-V (WSL2)"
    assert m.fact("host.container").value == "none"
    assert m.fact("host.pid_namespace").value == "its own"
    assert [c.number for c in m.cpus] == [0, 1]
    assert m.fact("cache.line_bytes").source == "/proc/cpuinfo (clflush size)"


def test_container(made: Callable[[constructed.Tree], Machine]) -> None:
    m = made(constructed.container())
    assert m.fact("host.container").value == "docker"
    assert m.fact("host.hypervisor").value == "Amazon EC2"
    assert m.cpus_allowed == [1, 2] and "cpuset" in m.fact("cpu.allowed").why
    assert m.fact("cgroup.cpu_limit").value == 0.5
    assert m.fact("kernel.scheduler").value == "EEVDF" and m.fact("kernel.slice_ns").value == 2_800_000


@pytest.mark.parametrize(
    ("arch", "cpuinfo", "files_", "played"),
    [
        ("x86_64", "flags\t: hypervisor", {"vendor": "QEMU", "clocks": "tsc hpet acpi_pm"}, True),
        ("x86_64", "flags\t: hypervisor", {"vendor": "QEMU", "clocks": "kvm-clock tsc acpi_pm"}, False),
        ("x86_64", "flags\t: hypervisor", {"vendor": "innotek GmbH", "clocks": "tsc"}, False),
        ("x86_64", "flags\t: fpu", {"vendor": "QEMU", "clocks": "tsc"}, False),
        ("aarch64", "CPU implementer\t: 0x00\nCPU part\t: 0x051", {"vendor": "QEMU"}, True),
        ("aarch64", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c", {"vendor": "QEMU"}, None),
        ("aarch64", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c", {}, False),
    ],
)
def test_who_plays_the_processor(
    arch: str,
    cpuinfo: str,
    files_: dict[str, str],
    played: bool | None,
    made: Callable[[constructed.Tree], Machine],
) -> None:
    places = {
        "vendor": "/sys/class/dmi/id/sys_vendor",
        "clocks": "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    }
    tree = {places[name]: text for name, text in files_.items()}
    m = made(tree | {"/proc/cpuinfo": f"processor\t: 0\n{cpuinfo}", "/proc/sys/kernel/arch": arch})
    assert m.fact("host.emulated").value is played


@pytest.mark.computes
@pytest.mark.parametrize("wreck", ["", "garbage here\n", "-1", "\x00\xff: (\n: -", "999999999999999999999"])
def test_no_broken_file_breaks_the_survey(wreck: str, tmp_path: Path) -> None:
    trees = {**constructed.ubuntu_2404(), **constructed.two_sockets()}
    whole = constructed.build(trees, tmp_path)
    for path in list(trees):
        broken = whole / path.lstrip("/")
        if broken.is_symlink() or path.endswith((".py", ".so.0")):
            continue
        before = broken.read_text()
        broken.write_text(wreck)
        m = survey_of(whole)
        assert set(machine.LABELS) <= set(m.facts), path
        m.table()
        broken.write_text(before)


def test_an_empty_tree_is_a_machine_too(tmp_path: Path) -> None:
    m = survey_of(tmp_path)
    assert set(machine.LABELS) <= set(m.facts)
    assert m.cpus_allowed == [0] and m.line_bytes == 64
    assert m.fact("kernel.scheduler").value is None


# --- parts ---


def test_lists_of_cpus() -> None:
    assert files.cpu_list("0-2,8") == [0, 1, 2, 8]
    assert files.cpu_list("") == files.cpu_list(None) == files.cpu_list("(null)") == []
    assert files.cpu_ranges([8, 0, 2, 1]) == "0-2,8"
    with pytest.raises(ValueError):
        files.cpu_list("all")


def test_sizes() -> None:
    assert [files.size_bytes(t) for t in ("32K", "1024 KB", "2M", "65536", "", None)] == [
        32 << 10, 1 << 20, 2 << 20, 65536, None, None,
    ]  # fmt: skip


def test_names_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("cpu10", "cpu2", "cpuidle"):
        (tmp_path / name).mkdir()
    with files.root(tmp_path):
        assert files.names("/") == ["cpu2", "cpu10", "cpuidle"]


def test_reading_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "cut.gz").write_bytes(b"\x1f\x8b\x08")
    with files.root(tmp_path):
        assert files.look("/nothing") == (None, "no such file here")
        assert files.look("/folder") == (None, "it is a folder")
        assert files.look("/cut.gz")[0] is None


@pytest.mark.parametrize(
    ("root", "path", "folder"),
    [
        ("/", "/", "/cg"), ("/", "/a/b", "/cg/a/b"), ("/docker/1", "/docker/1", "/cg"),
        ("/docker/1", "/docker/1/x", "/cg/x"), ("/docker/1", "/docker/12", None),
        ("/", "/../outside", None), ("/", None, None),
    ],
)  # fmt: skip
def test_where_a_group_is(root: str, path: str | None, folder: str | None) -> None:
    assert cgroup.group_folder(root, "/cg", path) == folder


def test_groups_above() -> None:
    found = cgroup.Hierarchy("v2", "/cg", "/cg/a/b")
    assert cgroup.lineage(found) == ["/cg/a/b", "/cg/a", "/cg"]
    assert cgroup.lineage(cgroup.Hierarchy("v2", "/cg", None)) == ["/cg"]


@pytest.mark.parametrize(
    ("build", "config", "cmdline", "mode"),
    [
        ("#1 SMP PREEMPT_DYNAMIC x", "CONFIG_PREEMPT_LAZY=y", "", "lazy (dynamic)"),
        ("#1 SMP PREEMPT_DYNAMIC x", "CONFIG_PREEMPT_LAZY=y", "preempt=full", "full (dynamic)"),
        ("#1 SMP PREEMPT_DYNAMIC x", "", "", "dynamic, mode not known"),
        ("#1 SMP PREEMPT x", "CONFIG_PREEMPT=y", "", "full (static)"),
        ("#1 SMP PREEMPT x", "", "", "full or lazy (static)"),
        ("#1 SMP x", "CONFIG_PREEMPT_NONE=y", "", "none (static)"),
        ("#1 SMP PREEMPT_RT x", "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_RT=y", "", "PREEMPT_RT (lazy)"),
    ],
)
def test_preemption_models(
    build: str, config: str, cmdline: str, mode: str, made: Callable[[constructed.Tree], Machine]
) -> None:
    tree = {
        "/proc/sys/kernel/osrelease": "6.18.1",
        "/proc/sys/kernel/version": build,
        "/proc/cmdline": cmdline,
    }
    tree["/boot/config-6.18.1"] = config
    assert made(tree).fact("kernel.preemption").value == mode


@pytest.mark.parametrize(("name", "scheduler"), [("vlag", "EEVDF"), ("vruntime", "CFS")])
def test_type_information_tells_the_scheduler(name: str, scheduler: str, tmp_path: Path) -> None:
    # A release that would say the opposite: distributions carry patches back.
    release = "6.1.0" if scheduler == "EEVDF" else "6.12.0"
    constructed.build({"/proc/sys/kernel/osrelease": release}, tmp_path)
    strings = b"\0cfs_rq\0" + name.encode() + b"\0"
    (tmp_path / "sys/kernel/btf").mkdir(parents=True)
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 4, 4, len(strings))
    (tmp_path / "sys/kernel/btf/vmlinux").write_bytes(header + b"type" + strings)
    fact = survey_of(tmp_path).fact("kernel.scheduler")
    assert fact.value == scheduler and "btf" in fact.source


def test_names_of_tunables_are_unique() -> None:
    names = [k.name for k in tunables.KNOBS]
    assert len(names) == len(set(names))


def test_values_for_people() -> None:
    assert human(48 << 10, "bytes") == "48 KiB"
    assert human(1_400_000, "ns") == "1.4 ms"
    assert human(950_000, "us") == "950 ms"
    assert human(True, "") == "yes" and human(None, "ns") == "—" and human([], "") == "none"
    assert human(250, "Hz") == "250 Hz" and human(0.5, "CPUs") == "0.5 CPUs"
