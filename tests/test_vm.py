"""The reader's virtual machine, as far as that goes without booting one (`make vm-test` does that)."""

from __future__ import annotations

import json
import os
import platform
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox import REPOSITORY, Sandbox, sandbox

PROVISION = REPOSITORY / "scripts/provision.sh"
VM_TEST = REPOSITORY / "scripts/vm-test.sh"
UNIT = "/etc/systemd/system/sched-labs.service"
ISSUE = "/etc/issue.d/sched-labs.issue"
OWN = "/home/reader/.local/share/sched-labs"  # JupyterLab's topmost folder

# Evaluates a Vagrantfile as Vagrant would, with every provider's plugin there, and writes down what was set.
RECORDER = r"""
require "json"; require "rbconfig"
RbConfig::CONFIG["host_cpu"], RbConfig::CONFIG["host_os"] = ARGV[1], ARGV[2]
class Settings
  attr_reader :said
  def initialize; @said = {}; end
  def method_missing(name, *given, &block)
    key = name.to_s
    return @said[key.chomp("=")] = given[0] if key.end_with?("=")
    return @said[key] ||= Settings.new if given.empty? && !block
    (@said[key] ||= []) << given if given.any?
    if block && key == "provider"
      own = (@said["providers"] ||= {})[given[0]] = { "v" => Settings.new, "override" => Settings.new }
      block.call(own["v"], own["override"])
    end
  end
  def respond_to_missing?(*) = true
  def [](key) = @said[key]
  def []=(key, value); @said[key] = value; end
  def to_json(*given) = @said.to_json(*given)
end
module Vagrant
  VERSION = "2.4.9"
  def self.configure(_); $config = Settings.new; yield $config; end
end
load ARGV[0]
puts $config.to_json
"""


def evaluated(cpu: str = "x86_64", system: str = "linux-gnu", **environment: str) -> dict[str, Any]:
    if not shutil.which("ruby"):
        pytest.skip("ruby is not installed (it comes with vagrant)")
    done = subprocess.run(
        ["ruby", "-e", RECORDER, str(REPOSITORY / "Vagrantfile"), cpu, system],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["vm"]
    assert isinstance(found, dict)
    return found


def test_every_provider_has_two_cpus_and_four_gigabytes() -> None:
    providers = evaluated()["providers"]
    assert set(providers) == {"virtualbox", "libvirt", "vmware_desktop", "parallels", "qemu"}
    for name, said in providers.items():
        v = said["v"]
        assert (
            (v["smp"], v["memory"]) == ("2", "4096M")
            if name == "qemu"
            else (v["cpus"], v["memory"]) == (2, 4096)
        )


def test_size_and_port_can_be_set() -> None:
    found = evaluated(SCHED_LABS_CPUS="3", SCHED_LABS_MEMORY_MB="6000", SCHED_LABS_PORT="9000")
    for name, said in found["providers"].items():
        assert said["v"]["smp" if name == "qemu" else "cpus"] == ("3" if name == "qemu" else 3)
        assert str(said["v"]["memory"]).rstrip("M") == "6000"
    assert found["network"][0][1]["host"] == 9000
    assert found["provision"][0][1]["inline"].endswith("provision.sh --vm 9000")


def test_only_this_computer_reaches_the_forwarded_port() -> None:
    found = evaluated()
    assert [given[0] for given in found["network"]] == ["forwarded_port"]
    assert found["network"][0][1] == {"guest": 8888, "host": 8888, "host_ip": "127.0.0.1"}


def test_the_folder_is_only_copied_from() -> None:
    (here, there, options), *others = evaluated()["synced_folder"]
    assert (here, there, options["type"]) == (".", "/vagrant", "rsync") and not others
    assert {".git/", ".venv/", "_build/"} <= set(options["rsync__exclude"])


@pytest.mark.parametrize(
    "cpu, system, arch",
    [
        ("x86_64", "linux-gnu", "x86_64"),
        ("aarch64", "linux-gnu", "aarch64"),
        ("x86_64", "darwin23", "x86_64"),
        ("arm64", "darwin23", None),  # the plugin's default
    ],
)
def test_qemu_emulates_the_hosts_own_processor(cpu: str, system: str, arch: str | None) -> None:
    found = evaluated(cpu, system)
    v = found["providers"]["qemu"]["v"]
    assert v.get("arch") == arch
    if arch:
        assert v["machine"].endswith("accel=kvm:tcg" if system == "linux-gnu" else "accel=hvf:tcg")
    assert found["box_architecture"] == "auto"  # every box of the host's architecture


@pytest.mark.parametrize("provider", ["virtualbox", "libvirt"])
def test_vagrant_accepts_the_provider_and_would_refuse_a_wrong_setting(provider: str, tmp_path: Path) -> None:
    if not shutil.which("vagrant"):
        pytest.skip("vagrant is not installed")
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "VAGRANT_DEFAULT_PROVIDER": provider}
    if provider == "virtualbox" and not shutil.which("VBoxManage"):
        # Enough of it for Vagrant to look at the block.
        stub = tmp_path / "VBoxManage"
        stub.write_text("#!/bin/sh\ncase $* in *--version*) echo 7.0.10r158379 ;; esac\n")
        stub.chmod(0o755)
        environment["PATH"] = f"{tmp_path}:{environment['PATH']}"

    def validate(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "Vagrantfile").write_text(text)
        return subprocess.run(
            ["vagrant", "validate"], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60
        )

    text = (REPOSITORY / "Vagrantfile").read_text()
    done = validate(text)
    if "could not be found" in done.stderr or "not a usable" in done.stderr:
        pytest.skip(f"vagrant has no provider {provider} here")
    assert done.returncode == 0, done.stderr
    block = f'config.vm.provider "{provider}" do |v'
    head, _, tail = text.partition(block)
    wrong = head + block + tail.replace("v.cpus = cpus", "v.no_such_setting = cpus", 1)
    assert validate(wrong).returncode != 0


def test_a_checkout_on_windows_brings_scripts_that_a_shell_can_run(tmp_path: Path) -> None:
    """Git for Windows suggests core.autocrlf=true, and the folder is copied into the machine as it is."""
    if not shutil.which("git"):
        pytest.skip("git is not installed, and without it there is no checkout to look at")
    names = ["scripts/provision.sh", "scripts/vm.sh", "src/sched_labs/probes/helper/sched-labs-probe"]
    source, checkout = tmp_path / "source", tmp_path / "checkout"
    for name in (".gitattributes", *names):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, source / name)
    alone = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }

    def git(*words: str | Path) -> None:
        subprocess.run(["git", *map(str, words)], check=True, capture_output=True, env=alone)

    git("init", source)
    git("-C", source, "add", ".")
    git("-C", source, "commit", "-m", "all")
    git("clone", "-c", "core.autocrlf=true", source, checkout)
    for name in names:
        assert b"\r" not in (checkout / name).read_bytes(), name


@pytest.mark.parametrize("wrong", [["--vm"], ["--vm", "no"], ["--vm", "8"], ["--vm", "8888", "--nonsense"]])
def test_provisioning_refuses_other_command_lines(wrong: list[str]) -> None:
    done = subprocess.run([PROVISION, *wrong], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr


def test_only_root_makes_a_machine_the_readers() -> None:
    other = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*other, "bash", "-s", "--", "--vm", "8888"],
        input=PROVISION.read_text(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "needs root" in done.stderr


@pytest.mark.parametrize("wrong", [["one", "two"], ["../etc"], ["--help"]])
def test_the_test_refuses_other_command_lines(wrong: list[str]) -> None:
    done = subprocess.run(["bash", VM_TEST, *wrong], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


def test_what_would_be_checked_is_listed() -> None:
    done = subprocess.run(["bash", VM_TEST, "--list"], capture_output=True, text=True, check=True)
    listed = done.stdout.splitlines()
    assert len(listed) == len(set(listed))
    for boot in ("first boot", "second boot"):
        assert f"{boot}: without the key it leads to the login" in listed  # from outside
        assert f"{boot}: the doctor" in listed and f"{boot}: nothing is left behind" in listed  # inside
    assert "first boot: quota.hog, in the server's kernel" in listed


@pytest.mark.skipif(os.geteuid() != 0 or platform.machine() != "x86_64", reason="it needs root, and x86-64")
def test_a_test_that_ends_early_says_what_it_did_not_come_to(tmp_path: Path) -> None:
    """Here it ends at once: no Debian can be made."""
    for tool in ("qemu-system-x86_64", "mkfs.ext4", "curl", "git", "debootstrap"):
        (tmp_path / tool).write_text("#!/bin/sh\necho no mirror\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "made").mkdir()
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "made"), "MIRROR": "http://nowhere",
    }  # fmt: skip
    done = subprocess.run(["bash", VM_TEST], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "no mirror" in done.stdout, done.stderr
    not_tried = done.stdout.partition("NOT TRIED")[2].splitlines()[1:]
    listed = subprocess.run(["bash", VM_TEST, "--list"], capture_output=True, text=True, check=True).stdout
    assert [line.strip() for line in not_tried] == listed.splitlines()
    assert list((tmp_path / "made").iterdir()) == []


# ---- what vm.sh leaves on a machine, whose `make` only pretends to build the book ----

FAKE_MAKE = """#!/bin/sh
set -e
cd "$2"
mkdir -p .venv/bin _build/html
echo page >_build/html/index.html
printf '#!/bin/sh\\nexec env PYTHONPATH=%s %s -m sched_labs "$@"\\n' "$PWD/src" PYTHON >.venv/bin/sched-labs
chmod 755 .venv/bin/sched-labs
echo "$@" >>_build/called
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Sandbox]:
    """A covered machine after `vm.sh 8888`."""
    import sys

    try:
        pwd.getpwnam("reader")
        pytest.skip("there is a user `reader` on this machine")
    except KeyError:
        pass
    try:
        with sandbox() as covered:
            # No service manager to talk to, no home of anybody, no /opt of anybody.
            for folder in ("/run", "/home", "/opt"):
                covered.run("mount", "-t", "tmpfs", "tmpfs", folder)
            covered.run("useradd", "--create-home", "--shell", "/bin/bash", "reader")
            fake = FAKE_MAKE.replace("PYTHON", sys.executable)
            covered.run("sh", "-c", "cat >/usr/local/bin/make; chmod 755 /usr/local/bin/make", stdin=fake)
            done = vm(covered)
            assert done.returncode == 0, done.stdout + done.stderr
            yield covered
    except RuntimeError as error:
        pytest.skip(str(error))


def vm(machine: Sandbox, port: int = 8888) -> subprocess.CompletedProcess[str]:
    return machine.run("bash", REPOSITORY / "scripts/vm.sh", str(port))


def token(machine: Sandbox) -> str:
    return machine.run("cat", f"{OWN}/.jupyter/address").stdout.partition("=")[2]


def test_the_book_belongs_to_an_ordinary_user(machine: Sandbox) -> None:
    assert machine.run("stat", "-c", "%U", "/opt/sched-labs").stdout == "reader\n"
    assert machine.run("test", "-e", "/opt/sched-labs/.git").returncode == 1
    groups = machine.run("id", "-nG", "reader").stdout.split()
    assert groups == ["reader"]


def test_the_unit_serves_as_that_user_after_every_boot(machine: Sandbox) -> None:
    unit = machine.run("cat", UNIT).stdout
    assert "User=reader" in unit and "--forwarded 8888" in unit and "Delegate=cpu cpuset" in unit
    assert "token" not in unit
    wanted = "/etc/systemd/system/multi-user.target.wants/sched-labs.service"
    assert machine.run("readlink", "-f", wanted).stdout == f"{UNIT}\n"
    if machine.run("sh", "-c", "command -v systemd-analyze").returncode == 0:
        machine.run("sh", "-c", "cd /opt/sched-labs/.venv/bin && ln -sf sched-labs python")
        done = machine.run("systemd-analyze", "verify", "--man=no", UNIT)
        # An older systemd does not know DelegateSubgroup and goes on without.
        said = [
            line
            for line in done.stderr.splitlines()
            if "sched-labs" in line and "DelegateSubgroup" not in line
        ]
        assert not said, said


def test_the_scripts_that_it_writes_are_scripts(machine: Sandbox) -> None:
    for written in ("/usr/local/bin/sched-labs", "/usr/local/libexec/sched-labs-aside"):
        assert machine.run("sh", "-n", written).returncode == 0
        assert machine.run("stat", "-c", "%U %a", written).stdout == "root 755\n"
    # What is started from a terminal is given the same as what a page starts.
    unit, command = machine.run("cat", UNIT).stdout, machine.run("cat", "/usr/local/bin/sched-labs").stdout
    for property in ("Delegate=cpu cpuset memory pids", "LimitRTPRIO=50", "LimitNICE=-10"):
        assert property in unit and f'--property="{property}"' in command
    # The covered machine has no service manager that would act by these.
    assert f"--working-directory={OWN} " in command and f"WorkingDirectory=-{OWN}\n" in unit


def test_a_file_under_a_plain_name_is_where_jupyterlab_shows_it(machine: Sandbox) -> None:
    assert machine.run("sched-labs", "progress", "--export", "mine.csv").returncode == 0
    assert machine.run("stat", "-c", "%U", f"{OWN}/mine.csv").stdout == "reader\n"
    # The reader's own shell stays where it is.
    uid = int(machine.run("id", "-u", "reader").stdout)
    here = "cd /home/reader && sched-labs progress --export here.csv"
    done = machine.run("sh", "-c", here, user=uid)
    assert done.returncode == 0, done.stderr
    assert machine.run("stat", "-c", "%U", "/home/reader/here.csv").stdout == "reader\n"


def test_the_key_is_only_for_the_reader_and_the_console(machine: Sandbox) -> None:
    key = token(machine).strip()
    assert len(key) == 48
    assert f"http://localhost:8888/book/?token={key}" in machine.run("cat", ISSUE).stdout
    for file in (ISSUE, f"{OWN}/.jupyter/address"):
        assert machine.run("stat", "-c", "%a", file).stdout == "600\n"
    # `vagrant ssh -c 'sched-labs url'`, from any folder
    assert machine.run("sched-labs", "url").stdout == f"http://localhost:8888/book/?token={key}\n"


def test_a_second_run_keeps_the_key_and_the_readers_files(machine: Sandbox) -> None:
    before = token(machine)
    machine.run("sh", "-c", f"echo mine >{OWN}/01.md; touch /opt/sched-labs/stray")
    assert vm(machine).returncode == 0
    assert token(machine) == before
    assert machine.run("cat", f"{OWN}/01.md").stdout == "mine\n"
    assert machine.run("test", "-e", "/opt/sched-labs/stray").returncode == 1
    assert machine.run("sh", "-c", "wc -l </opt/sched-labs/_build/called").stdout.strip() == "2"


def test_another_port_changes_the_address_and_not_the_key(machine: Sandbox) -> None:
    before = token(machine)
    assert vm(machine, 9000).returncode == 0
    assert token(machine) == before
    assert "localhost:9000/book/" in machine.run("cat", ISSUE).stdout
    assert "--forwarded 9000" in machine.run("cat", UNIT).stdout
    vm(machine)


def test_a_chapter_that_broke_off_does_not_keep_the_book_away(machine: Sandbox) -> None:
    machine.run(
        "sh", "-c", "cp /usr/local/bin/make /usr/local/bin/make.good; echo exit 2 >>/usr/local/bin/make"
    )
    done = vm(machine)
    assert done.returncode == 0 and "not complete" in done.stdout
    machine.run(
        "sh", "-c", "printf '#!/bin/sh\\nexit 2\\n' >/usr/local/bin/make; rm -r /opt/sched-labs/_build"
    )
    assert vm(machine).returncode == 1
    machine.run("mv", "/usr/local/bin/make.good", "/usr/local/bin/make")
