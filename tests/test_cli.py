"""The command line: what it prints and writes, how it refuses, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_type_hints

import pytest

from sched_labs import cli
from sched_labs.core import lock, registry, result
from sched_labs.core.errors import ParameterError
from sched_labs.core.result import load
from sched_labs.core.version import __version__
from sched_labs.reader import cleanup

# The command in a process of its own, with the lock of the test: nobody waits for it.
PROGRAM = """
import sys
from pathlib import Path
from sched_labs import cli
from sched_labs.core import lock
lock._PLACES = (Path(sys.argv[1]),)
sys.exit(cli.main(sys.argv[2:]))
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock, a data folder and a profile of our own."""
    place = tmp_path / "lock"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setattr(lock, "_PLACES", (place,))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SCHED_LABS_PROFILE", raising=False)
    return place


def call(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sched_labs", *arguments], capture_output=True, text=True, timeout=timeout
    )


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What it says when it refuses: a message and its remedy, nothing else."""
    try:
        status = cli.main(arguments)
    except SystemExit as end:  # how argparse refuses
        status = int(str(end.code))
    out, err = capsys.readouterr()
    assert status == 2 and out == "" and "Traceback" not in err and err.strip()
    return err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom sched_labs import cli\n"
        "try:\n    cli.main(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'pandas', 'matplotlib', 'numpy', 'ipywidgets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in ("doctor", "list", "run", "show", "compare", "clean", "kernels"):
        assert command in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"sched-labs {__version__}\n"
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == registry.names()
    assert all(len(line.split()) > 3 for line in lines)  # each says what it is about


def test_doctor_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [entry["experiment"] for entry in data["experiments"]] == registry.names()
    assert cli.main(["doctor"]) == 0
    short = capsys.readouterr().out
    assert cli.main(["doctor", "--long"]) == 0
    assert len(capsys.readouterr().out) > len(short) > 0


@pytest.mark.parametrize("command", [["doctor", "--json"], ["list"]], ids=["long", "short"])
def test_a_reader_who_has_seen_enough_ends_it_quietly(command: list[str]) -> None:
    doctor = subprocess.Popen(
        [sys.executable, "-m", "sched_labs", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert doctor.stdout and doctor.stderr
    doctor.stdout.close()
    said = doctor.stderr.read()
    doctor.stderr.close()
    doctor.wait(timeout=30)
    assert (doctor.returncode, said) == (0, "")


def test_a_run_is_shown_kept_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    picture = tmp_path / "figure.svg"
    tiny = ["run", "warmup", "--profile", "tiny", "--set", "trials=4", "--set", 'access=["random"]']
    assert cli.main([*tiny, "--json", str(first), "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    run = load(first)
    assert (
        run.kind == "warmup.sweep" and run.parameters["profile"] == "tiny" and run.parameters["trials"] == 4
    )
    assert set(run.data.access) == {"random"} and set(run.data.trial) == {0, 1, 2, 3}
    assert f"{len(run.data):,} observations" in printed and run.provenance_line() in printed
    assert "extra_lo" in printed and "extra_ns" not in printed and str(first) in printed
    assert picture.read_text().lstrip().startswith("<?xml") and "</svg>" in picture.read_text()
    kept = list((tmp_path / "data/sched-labs/results/warmup.sweep").glob("*.json"))
    assert len(kept) == 1 and load(kept[0]).data.equals(run.data)

    again = tmp_path / "again.png"
    assert cli.main(["show", str(first), "--plot", str(again)]) == 0
    shown = capsys.readouterr().out
    assert shown == printed and again.read_bytes().startswith(b"\x89PNG")

    assert cli.main([*tiny, "--json", str(second)]) == 0
    both = tmp_path / "both.svg"
    capsys.readouterr()
    assert cli.main(["compare", str(first), str(second), "-o", str(both)]) == 0
    assert capsys.readouterr().out.strip() and "</svg>" in both.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nosuch"], "warmup.sweep"),
        (["run", "warmup", "--profile", "huge"], "tiny"),
        (["run", "warmup", "--profile", "tiny", "--set", "trials"], "name=value"),
        (["run", "warmup", "--profile", "tiny", "--set", "=3"], "name=value"),
        (["run", "warmup", "--profile", "tiny", "--set", "nosuch=3"], "nosuch"),
        (["run", "warmup", "--profile", "tiny", "--set", "trials=0"], "trials"),
        (["run", "warmup", "--profile", "tiny", "--set", "trials=many"], "trials"),
        (["run", "warmup", "--profile", "tiny", "--set", "trials=2.5"], "trials"),
        (["run", "warmup", "--profile", "tiny", "--set", "working_sets_bytes=4096"], "working_sets_bytes"),
        (["run", "warmup", "--profile", "tiny", "--set", 'working_sets_bytes=["x"]'], "working_sets_bytes"),
        (["run", "warmup", "--profile", "tiny", "--set", "access=random"], "access"),
        (["run", "warmup", "--profile", "tiny", "--set", "profile=full"], "--profile"),
        (["run", "warmup", "--profile", "tiny", "--set", "kernel=6.1"], "--kernel"),
        (["run", "context_switch.matrix", "--set", 'mechanisms=["smoke"]'], "smoke"),
        (["show", "/no/such/file.json"], "/no/such/file.json"),
        (["compare", "/no/such/file.json", "-o", "x.svg"], "/no/such/file.json"),
        ([], "COMMAND"),
        (["fly"], "fly"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, *arguments)
    assert not (tmp_path / "data").exists()  # nothing was measured


@pytest.mark.parametrize("name", registry.names())
def test_every_parameter_that_an_experiment_has_can_be_set(name: str) -> None:
    """Its default, written as JSON, is accepted; an object never is."""
    experiment = registry.find(name)
    kinds = get_type_hints(experiment.function)
    for parameter, about in experiment.parameters.items():
        cli._check(cli._parameters([f"{parameter}={json.dumps(about.default)}"]), kinds)
        with pytest.raises(ParameterError, match=parameter):
            cli._check(cli._parameters([f"{parameter}={{}}"]), kinds)


def test_a_refusal_seen_from_a_shell() -> None:
    done = call("run", "nosuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sched-labs: There is no experiment 'nosuch'.\n")


def test_a_profile_that_the_environment_misspells_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCHED_LABS_PROFILE", "tinny")
    assert "tinny" in refused(capsys, "run", "warmup")


def test_clean_says_what_it_did(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def clean(*, everything: bool) -> list[str]:
        asked.append(everything)
        return ["Ended: process 1."] if everything else []

    monkeypatch.setattr(cleanup, "clean", clean)
    assert cli.main(["clean"]) == 0 and cli.main(["clean", "--all"]) == 0
    assert capsys.readouterr().out == "Nothing was left behind.\nEnded: process 1.\n" and asked == [
        False,
        True,
    ]


@pytest.mark.measures
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_keeps_what_was_measured_and_leaves_nothing_running(
    tmp_path: Path, place: Path, how: signal.Signals
) -> None:
    progress, partial = tmp_path / "progress", tmp_path / "partial.json"
    run = subprocess.Popen(
        [
            *(sys.executable, "-c", PROGRAM, str(place), "run", "context_switch", "--json", str(partial)),
            *("--set", "trials=5", "--set", "round_trips=20000", "--set", 'mechanisms=["pipe", "futex"]'),
        ],
        env=os.environ | {"SCHED_LABS_PROGRESS": str(progress)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # After the first of sixty steps, and while a workload of the next ones runs.
        end = time.monotonic() + 60
        while not (
            progress.exists()
            and json.loads((progress.read_text().splitlines() or ["{}"])[-1] or "{}").get("done", 0) >= 1
            and any(owner.startswith(f"{run.pid}:") for _, owner in cleanup._marked())
        ):
            assert run.poll() is None and time.monotonic() < end, "it never came to its second step"
            time.sleep(0.01)
        run.send_signal(how)
        out, err = run.communicate(timeout=30)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 130, err
    assert "Traceback" not in err and "Stopped early" in out
    result = load(partial)
    steps = result.data.groupby(["mechanism", "between", "placement", "trial"])
    assert 1 <= len(steps) < 12 * 5
    assert any("Stopped early" in flag for flag in result.flags)
    assert len(list((tmp_path / "data/sched-labs/results/context_switch.matrix").glob("*.json"))) == 1
    assert [pid for pid, owner in cleanup._marked() if owner.startswith(f"{run.pid}:")] == []


def test_ctrl_c_before_anything_was_measured_says_so(tmp_path: Path, place: Path) -> None:
    progress = tmp_path / "progress"
    with lock.machine("the test", wait_s=0):
        waiting = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(place), "run", "warmup", "--profile", "tiny"],
            env=os.environ | {"SCHED_LABS_PROGRESS": str(progress)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        end = time.monotonic() + 30
        while not progress.exists() or "measuring already" not in progress.read_text():
            assert waiting.poll() is None and time.monotonic() < end, "it does not say that it waits"
            time.sleep(0.01)
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 130 and "the test" in progress.read_text()
    assert out == "" and err == "sched-labs: stopped.\n"


STOPPED_AT = """
import runpy, signal, sys
where, sys.argv[1] = sys.argv[1], "list"
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == where:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Stop())
runpy.run_module("sched_labs", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "status"),
    [("sched_labs.cli", -signal.SIGINT), ("argparse", -signal.SIGINT), ("sched_labs.fleet.cli", 130)],
)
def test_ctrl_c_while_modules_load_is_no_traceback(module: str, status: int) -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED_AT, module], capture_output=True, text=True)
    assert done.returncode == status and "Traceback" not in done.stderr and done.stdout == "", done


def test_ctrl_c_is_ignored_where_the_shell_says_so() -> None:
    command = ["bash", "-c", f"trap '' INT; exec {sys.executable} -c '{STOPPED_AT}' argparse"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "warmup.sweep" in done.stdout, done


@pytest.mark.parametrize("command", ["doctor", "list", "--help"])
def test_what_looks_around_loads_no_pandas(command: str) -> None:
    """Importing it takes longer than all that these commands do."""
    code = (
        "import sys\nfrom sched_labs import cli\n"
        "try:\n    cli.main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(sorted(name for name in sys.modules if name.startswith(('pandas.core', 'matplotlib'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_result_that_lacks_what_its_kind_has_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = result.recorded("warmup.sweep")
    assert found
    head = json.loads(found.to_json())
    head["columns"] = head["columns"][:1]
    file = tmp_path / "changed.json"
    file.write_text(json.dumps(head))
    assert cli.main(["show", str(file)]) == 2
    assert cli.main(["compare", str(file), str(file), "-o", str(tmp_path / "x.svg")]) == 2
    said = capsys.readouterr().err
    assert said.count("This result is not as its kind is") == 2 and not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize(
    ("command", "environment", "status", "said"),
    [
        ("list >/dev/full", {}, 2, "No space left on device"),
        ("list", {"PYTHONIOENCODING": "ascii"}, 0, ""),
        ("list", {"LC_ALL": "tr_TR.ISO-8859-9"}, 0, ""),
        ("show $'\\xff\\xfe'", {}, 2, "Cannot read"),
        (f"run warmup --set 'trials={'[' * 100_000}'", {}, 2, "does not take"),
        ("run warmup --set trials=1e999", {}, 2, "does not take"),
    ],
)
def test_nothing_of_the_inside_is_shown(
    command: str, environment: dict[str, str], status: int, said: str
) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m sched_labs {command}"],
        env={**os.environ, **environment}, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    assert done.returncode == status and said in done.stderr, done
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
