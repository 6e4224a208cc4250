"""What the reader keeps: whole files or none, and predictions that survive damage."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox import Sandbox, sandbox

from sched_labs.core import store
from sched_labs.core.errors import ParameterError, ResultError


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_nothing_is_created_before_something_is_written(own_folder: Path) -> None:
    assert store.predictions() == {}
    assert store.data_folder() == own_folder / "data" / "sched-labs"
    assert list(own_folder.iterdir()) == []


def test_without_xdg_the_folders_are_in_the_home(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(own_folder))
    assert store.data_folder() == own_folder / ".local/share/sched-labs"
    assert store.cache_folder() == own_folder / ".cache/sched-labs"


def test_a_write_replaces_the_whole_file_with_an_ordinary_mode(own_folder: Path) -> None:
    file = own_folder / "deep" / "down" / "a.json"
    store.write_text(file, "long " * 1000)
    store.write_text(file, "short")
    assert file.read_text() == "short"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask
    assert list(file.parent.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = own_folder / "a.json"
    store.write_text(file, "old")

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write_text(file, "new")
    assert file.read_text() == "old"
    assert list(own_folder.iterdir()) == [file]


def test_a_folder_that_is_a_file_is_named(own_folder: Path) -> None:
    (own_folder / "file").write_text("")
    with pytest.raises(ResultError, match=r"Cannot write .*file/a\.json.*\n.*XDG_DATA_HOME"):
        store.write_text(own_folder / "file" / "a.json", "text")


def test_a_link_is_followed_and_stays_one(own_folder: Path) -> None:
    file, link = own_folder / "a.json", own_folder / "link.json"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to(file)
    store.write_text(link, "new")
    assert link.is_symlink() and file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "what was private is so no longer"


def test_a_device_stays_what_it_is(own_folder: Path) -> None:
    """`--json /dev/null` as root once left this machine without one."""
    for path in (Path("/dev/null"), Path("/dev/full")):
        before = path.stat()
        with contextlib.suppress(ResultError):
            store.write_text(path, "text")
        assert path.stat().st_rdev == before.st_rdev and path.is_char_device()
    with pytest.raises(ResultError, match="No space left"):
        store.write_text(Path("/dev/full"), "text")
    assert list(Path("/dev").glob(".sched-labs-*")) == []


def test_a_pipe_is_written_to_and_not_waited_for(own_folder: Path) -> None:
    pipe = own_folder / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ResultError, match="Cannot write"):
        store.write_text(pipe, "nobody reads")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    store.write_text(pipe, "text")
    assert os.read(reader, 100) == b"text" and pipe.is_fifo()
    os.close(reader)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "", "circle"])
def test_what_is_no_place_for_a_file_is_told(own_folder: Path, name: str) -> None:
    (own_folder / "circle").symlink_to(own_folder / "circle")
    with pytest.raises(ResultError, match="Cannot write"):
        store.write_text(own_folder / name, "text")
    assert [path.name for path in own_folder.iterdir()] == ["circle"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_a_strangers_link_in_an_open_folder_is_not_followed(own_folder: Path) -> None:
    if Path("/proc/sys/fs/protected_symlinks").read_text().strip() != "1":
        pytest.skip("this kernel follows such links for everybody (fs.protected_symlinks)")
    victim, folder = own_folder / "victim", own_folder / "open"
    victim.write_text("precious")
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "out.json").symlink_to(victim)
    os.lchown(folder / "out.json", 65534, 65534)
    with pytest.raises(ResultError, match="Permission denied"):
        store.write_text(folder / "out.json", "text")
    assert victim.read_text() == "precious"


WRITE = """
import sys
from sched_labs.core import store
from sched_labs.labs import ledger
for number in range(25):
    store.save_prediction(f"{sys.argv[1]}.{number}", number, "ns")
    ledger.note("lab", "hinted")
"""


def test_two_writers_lose_nothing() -> None:
    """Of 50 predictions 28 were kept."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, name]) for name in ("a", "b")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert len(store.predictions()) == 50
    from sched_labs.labs import ledger

    assert ledger.hints_shown("lab") == 50


def test_a_writer_that_does_not_end_is_named(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE_S", 0.1)
    with (
        store.held(store.data_folder()),
        pytest.raises(ResultError, match="Another program has been writing"),
    ):
        store.save_prediction("q", 1, "ns")
    store.save_prediction("q", 1, "ns")


def test_a_killed_writer_leaves_the_old_file_and_what_clean_finds(own_folder: Path) -> None:
    file = store.data_folder() / "a.json"
    store.write_text(file, "old")
    code = "import os, sys\nfrom pathlib import Path\nfrom sched_labs.core import store\n"
    code += "os.fsync = lambda handle: (print('writing', flush=True), sys.stdin.read())\n"
    code += f"store.write_text(Path({str(file)!r}), 'new')\n"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout and writer.stdout.readline() == "writing\n"
        assert list(store.abandoned(store.data_folder(), after_s=-1)) == [], "its writer is at it"
        writer.kill()
    [left] = store.abandoned(store.data_folder(), after_s=-1)
    assert file.read_text() == "old" and left.parent == file.parent


def test_a_user_without_a_home_is_told_so(own_folder: Path) -> None:
    code = "import os, pwd\npwd.getpwuid = lambda uid: {}[uid]\n"
    code += "from sched_labs.core import store\nfrom sched_labs.core.errors import ResultError\n"
    code += "for ask in (store.data_folder, store.cache_folder, store.predictions):\n"
    code += "    try: print(ask())\n    except ResultError as error: print(error.what)\n"
    bare = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_DATA_HOME")}
    bare.pop("XDG_CACHE_HOME", None)
    said = subprocess.run([sys.executable, "-c", code], env=bare, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["This user has no home folder to keep anything in."] * 3


def test_a_folder_that_depends_on_where_one_stands_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert store.data_folder().is_absolute() and "relative" not in store.data_folder().parts


def test_an_ordinary_user_is_told_which_folder_cannot_be_written() -> None:
    code = """
from pathlib import Path
from sched_labs.core import store
from sched_labs.core.errors import ResultError
try:
    store.write_text(Path("/usr/sched-labs-test/a.json"), "text")
except ResultError as error:
    print(error)
"""
    if os.geteuid() == 0:
        try:
            with sandbox() as machine:
                done = _as_user(machine, code)
        except RuntimeError as error:
            pytest.skip(str(error))
    else:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("Cannot write /usr/sched-labs-test/a.json: Permission denied."), done
    assert not Path("/usr/sched-labs-test").exists()


def _as_user(machine: Sandbox, code: str) -> subprocess.CompletedProcess[str]:
    return machine.python(code, user=machine.add_user("sl-store-test"))


def test_a_prediction_is_kept_and_replaced_by_a_later_one() -> None:
    store.save_prediction("ch1.switch", 1000, "ns")
    entry = store.save_prediction("ch1.switch", 2000, "ns")
    store.save_prediction("ch1.warm-up", 0.5, "percent")
    kept = store.predictions()
    assert kept["ch1.switch"] == entry == {"value": 2000.0, "unit": "ns", "made_at": entry["made_at"]}
    assert set(kept) == {"ch1.switch", "ch1.warm-up"}


@pytest.mark.parametrize(
    ("question", "value", "unit"),
    [
        ("../../etc/passwd", 1, "ns"),
        ("", 1, "ns"),
        ("A question", 1, "ns"),
        ("q" * 65, 1, "ns"),
        ("q", float("nan"), "ns"),
        ("q", float("inf"), "ns"),
        ("q", 1e300, "ns"),
        ("q", "many", "ns"),
        ("q", None, "ns"),
        ("q", 1, ""),
        ("q", 1, "n" * 33),
        ("q", 1, "\x1b[2J"),
        ("q", 10**400, "ns"),
    ],
)
def test_what_no_question_asks_is_refused(question: str, value: float, unit: str) -> None:
    with pytest.raises(ParameterError):
        store.save_prediction(question, value, unit)
    assert store.predictions() == {}


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", "7", '{"q": 3}', '{"q": {"value": 1}}', "\udcff", "[" * 100_000]
)
def test_damaged_predictions_are_reported_and_never_overwritten(damaged: str) -> None:
    store.save_prediction("q", 1, "ns")
    file = store.data_folder() / "predictions.json"
    content = damaged.encode("utf-8", "surrogateescape")
    file.write_bytes(content)
    with pytest.raises(ResultError, match=r"Cannot read the predictions in .*\n.*Move the file away"):
        store.predictions()
    with pytest.raises(ResultError):
        store.save_prediction("q", 2, "ns")
    assert file.read_bytes() == content
    file.unlink()
    store.save_prediction("q", 3, "ns")
    assert json.loads(file.read_text())["q"]["value"] == 3
