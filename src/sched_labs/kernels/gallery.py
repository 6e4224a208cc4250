"""What was recorded on the book's other kernels, as it ships with the book, and how to record it again.

    from sched_labs import gallery
    gallery.sleepers()        # one Result of sleeper.among_hogs for each kernel, oldest first
    gallery.tunables()        # what each kernel calls its knobs, and their values
    gallery.throttling()      # a CPU quota on each kernel; gallery.limited() has its sleepers
    gallery.yields()          # two threads that yield to each other, on each kernel
    gallery.pieces()          # waking in the middle of a turn, with features of EEVDF off one at a time
    gallery.long_calls()      # a real-time thread against long system calls, by preemption model

Every recording is deterministic: virtual time, one CPU, no machine's microseconds.
Its file holds what it depends on (kernel package, QEMU, command line of the guest, hashes of the guest and of
the sources) and the command that makes it.  `python -m sched_labs.kernels.gallery` records what is missing,
which takes some minutes; with equal keys it gives the same digits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..core.errors import ResultError
from ..core.progress import Progress
from ..core.result import Note, Result, from_json
from ..core.store import write_text
from ..topics.other_kernels.sleeper.experiment import WAITED_NS

if TYPE_CHECKING:
    from .runner import Answer

EXPERIMENT = "sleeper.among_hogs"
PROFILE = "quick"
# A kernel, and what is added to its command line.
GALLERY = ("5.10", "6.1", "6.12", "6.18", "7.2")
REAL_TIME = ("6.12-rt", "6.18-rt", "7.2-rt")
PREEMPTION = (
    ("5.10", ""), ("6.1", "preempt=none"), ("6.1", "preempt=full"), ("6.12", "preempt=none"),
    ("6.12", "preempt=full"), ("6.12-rt", ""), ("6.18", "preempt=none"), ("6.18", "preempt=voluntary"),
    ("6.18", "preempt=lazy"), ("6.18", "preempt=full"), ("6.18-rt", ""), ("7.2", "preempt=lazy"),
    ("7.2", "preempt=full"), ("7.2-rt", ""),
)  # fmt: skip
JOBS = [
    *(("survey", name, "") for name in (*GALLERY, *REAL_TIME)),
    *(("throttle", name, "") for name in GALLERY),
    *(("long_system_call", name, append) for name, append in PREEMPTION),
    *(("yielding", name, "") for name in GALLERY),
]


# Kernels, and the feature of their scheduler that is turned on and off.
SWITCHED = tuple((kernel, prefix + "HRTICK") for kernel in ("6.12", "6.18", "7.2") for prefix in ("", "NO_"))
SWITCHED_JOB = "sched_labs.kernels.jobs.features:switched"
# Kernels with EEVDF, and the features of theirs that are turned off one at a time.
PIECES_KERNELS = ("6.12", "6.18", "7.2")
PIECES = ("HRTICK", "RUN_TO_PARITY", "PREEMPT_SHORT", "DELAY_DEQUEUE", "DELAY_ZERO", "PLACE_LAG")
PIECES_JOB = "sched_labs.kernels.jobs.pieces:pieces"
PIECES_GIVEN = {"turn_us": 6000, "short_us": 1500, "phases": 12, "trials": 5}


def _folder() -> Path:
    return Path(__file__).with_name("recorded")


def _name(job: str, kernel: str, append: str) -> str:
    return "-".join(part for part in (job, kernel, append.replace("=", "-")) if part) + ".json"


# Of a machine and not of a kernel, or of no interest to a scheduler's reader.
_LEFT_OUT = ("tunable.numa", "tunable.latency_warn", "tunable.verbose", "tunable.features")
_FACTS = ("kernel.scheduler", "kernel.hz", "kernel.preemption", "kernel.sched_ext", "kernel.slice_ns")


def sleepers(*, emulated: bool = False) -> list[Result]:
    """The recorded runs of the experiment, oldest kernel first: in virtual time, or in an emulated machine's.

    The emulated ones were made by `live()`; their times say something from a millisecond on.
    """
    ending = "-emulated" if emulated else ""
    files = (_folder() / f"{EXPERIMENT}-{kernel}{ending}.json" for kernel in GALLERY)
    return [from_json(path.read_text(encoding="utf-8"), path.name) for path in files if path.is_file()]


def live(*names: str, profile: str = PROFILE, progress: bool = True) -> list[Result]:
    """Run the sleeper among hogs now, in a guest of each kernel named (default: the gallery's), one by one.

    The guests' time is a machine's: real with KVM, else an emulator's; each Result says which.
    The first time, a guest of each kernel is booted, which takes about half a minute.
    Raises what `kernels.run` raises.
    """
    from . import run_experiment

    results = []
    with Progress("the sleeper on other kernels", len(names or GALLERY), show=progress) as total:
        for name in names or GALLERY:

            def say(text: str, name: str = name) -> None:
                total.say(f"Linux {name}: {text}")

            results.append(run_experiment(EXPERIMENT, name, {"profile": profile}, say=say))
            total.step(f"Linux {name}")
    return results


def answers(job: str) -> list[dict[str, Any]]:
    """The recorded answers of a job, as they are in their files: kernel, append, key, command, value."""
    paths = [_folder() / _name(*named) for named in JOBS if named[0] == job]
    try:
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    except (OSError, ValueError) as error:
        raise ResultError(
            f"A recorded {job} cannot be read: {error}.", "Install sched-labs again."
        ) from error


def tunables(changed: bool) -> pd.DataFrame:
    """What each kernel of the gallery told of its scheduler: a row per fact or knob, a column per kernel.

    fact, unit, then the kernels; a dash where that kernel, as it was built, has none, and "empty" where its
    knob is there and says nothing.
    changed: only those that are not the same everywhere, or only those that are.
    The guests have one CPU, so slices are those that this kernel does not scale up.
    """
    surveys = {a["kernel"]: a["value"]["facts"] for a in answers("survey") if a["kernel"] in GALLERY}
    rows = []
    for key in dict.fromkeys(key for facts in surveys.values() for key in facts):
        if key not in _FACTS and (not key.startswith("tunable.") or key.startswith(_LEFT_OUT)):
            continue
        facts = [known.get(key) or {} for known in surveys.values()]
        values = [fact.get("value") for fact in facts]
        if all(value is None for value in values) or changed != (len(set(values)) > 1):
            continue
        unit = next(fact["unit"] for fact in facts if fact.get("value") is not None)
        shown = [_shown(value) for value in values]
        name = key.removeprefix("tunable.").removeprefix("kernel.")
        rows.append({"fact": name, "unit": unit} | dict(zip(surveys, shown, strict=True)))
    rows.sort(key=lambda row: (f"kernel.{row['fact']}" not in _FACTS, row["fact"]))
    return pd.DataFrame(rows, columns=["fact", "unit", *surveys])


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if type(value) is int else str(value) or "empty"


def places(knob: str) -> pd.DataFrame:
    """Where each kernel of the gallery keeps a knob: kernel, place; why instead where it has none."""
    rows = []
    for answer in answers("survey"):
        if answer["kernel"] in GALLERY:
            fact = answer["value"]["facts"].get(f"tunable.{knob}", {})
            has = fact.get("value") is not None
            rows.append({"kernel": answer["kernel"], "place": fact.get("source" if has else "why", "")})
    return pd.DataFrame(rows, columns=["kernel", "place"])


def features() -> pd.DataFrame:
    """The scheduler's feature switches: a row per switch that differs, a column per kernel (on, off, –)."""
    switches = {}
    for answer in answers("survey"):
        words = str(answer["value"]["facts"]["tunable.features"]["value"] or "").split()
        if answer["kernel"] in GALLERY and words:
            switches[answer["kernel"]] = {w.removeprefix("NO_"): not w.startswith("NO_") for w in words}
    names = sorted(set().union(*switches.values()))
    text = {True: "on", False: "off", None: "–"}
    table = {kernel: [text[has.get(name)] for name in names] for kernel, has in switches.items()}
    whole = pd.DataFrame(table, index=pd.Index(names, name="feature"))
    return whole[whole.nunique(axis=1) > 1].reset_index()


def throttling() -> pd.DataFrame:
    """A hog and a sleeper under a quota of cgroup v2, a row per kernel.

    kernel, quota (cpu.max), periods, throttled (periods), throttled_percent, burst_counted (cpu.stat has it),
    late_p50_virtual_ns, late_max_virtual_ns of the sleeper.
    """
    rows = []
    for answer in answers("throttle"):
        value = answer["value"]
        counted, late = value["cpu_stat"], pd.Series(value["late_ns"])
        rows.append(
            {
                "kernel": answer["kernel"],
                "quota": value["quota"],
                "periods": counted["nr_periods"],
                "throttled": counted["nr_throttled"],
                "throttled_percent": 100 * counted["nr_throttled"] / counted["nr_periods"],
                "burst_counted": "nr_bursts" in counted,
                "late_p50_virtual_ns": int(late.quantile(0.5, interpolation="higher")),
                "late_max_virtual_ns": int(late.max()),
            }
        )
    return pd.DataFrame(rows)


def limited() -> list[Result]:
    """The runs of `throttling()` as Results of the sleeper, oldest kernel first, for its figure.

    data: wake_index, late_ns (virtual).  The sleeper and a single hog share a group with a quota of cgroup
    v2, which is in the parameters.
    """
    told = {answer["kernel"]: answer["value"]["facts"] for answer in answers("survey")}
    results = []
    for answer in answers("throttle"):
        value, facts = answer["value"], told[answer["kernel"]]
        late = value["late_ns"]
        results.append(
            Result(
                kind=EXPERIMENT,
                data=pd.DataFrame({"wake_index": range(len(late)), "late_ns": late}),
                machine={
                    "kernel": facts["kernel.release"]["value"],
                    "scheduler": facts["kernel.scheduler"]["value"],
                    "kernel_package": answer["key"]["kernel"],
                    "emulator": f"QEMU {answer['key']['qemu']}",
                },
                parameters={
                    "kernel": answer["kernel"],
                    "hogs": len(value["hog_cpu_ns"]),
                    "quota": value["quota"],
                    "wakes": len(late),
                    "sleeper_cpu_ns": value["sleeper_cpu_ns"],
                    "sleeper_involuntary_switches": value["sleeper_involuntary_switches"],
                    "hog_cpu_ns": value["hog_cpu_ns"],
                },
                timing="deterministic",
            )
        )
    return results


def switched() -> pd.DataFrame:
    """The sleeper with one feature of the scheduler on, and off: two rows per kernel.

    kernel, hrtick (on, off), as_built, late_percent (later than 100,000 virtual ns), p50_virtual_ns,
    p99_virtual_ns, max_virtual_ns
    """
    built = features().set_index("feature").loc["HRTICK"]
    rows: list[dict[str, Any]] = []
    for kernel, feature in SWITCHED:
        path = _folder() / _name("switched", kernel, feature)
        if not path.exists():
            continue
        late = pd.Series(json.loads(path.read_text(encoding="utf-8"))["value"]["late_ns"])
        state = "off" if feature.startswith("NO_") else "on"
        row: dict[str, Any] = {"kernel": kernel, "hrtick": state, "as_built": bool(built[kernel] == state)}
        row["late_percent"] = 100 * float((late > WAITED_NS).mean())
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            row[f"{name}_virtual_ns"] = int(late.quantile(share, interpolation="higher"))
        rows.append(row)
    return pd.DataFrame(rows)


def pieces() -> list[Result]:
    """Waking in the middle of somebody's turn: a Result of eevdf.phases for each kernel with EEVDF.

    data: as the experiment's; off is the feature that was turned off, and HRTICK is on in all other rows.
    A feature that a kernel does not have is in a note of level "missing".
    """
    told = {answer["kernel"]: answer["value"]["facts"] for answer in answers("survey")}
    results = []
    for kernel in PIECES_KERNELS:
        path = _folder() / _name("pieces", kernel, "")
        if not path.exists():
            continue
        answer = json.loads(path.read_text(encoding="utf-8"))
        facts, without = told[kernel], answer["value"]["without"]
        results.append(
            Result(
                kind="eevdf.phases",
                data=pd.DataFrame(answer["value"]["wakes"]),
                machine={
                    "kernel": facts["kernel.release"]["value"],
                    "scheduler": facts["kernel.scheduler"]["value"],
                    "kernel_package": answer["key"]["kernel"],
                    "emulator": f"QEMU {answer['key']['qemu']}",
                },
                parameters={"kernel": kernel, **PIECES_GIVEN},
                notes=[Note("missing", f"Linux {kernel} has no {name}.") for name in without],
                timing="deterministic",
            )
        )
    return results


def yields() -> pd.DataFrame:
    """Two threads on one CPU that do nothing but yield, a row per kernel.

    kernel, yields (calls in all), switches_per_yield, voluntary_share (of the switches, as the kernel calls
    them), yield_virtual_ns (one call of one thread, with what the other does meanwhile)
    """
    rows = []
    for answer in answers("yielding"):
        value = answer["value"]
        voluntary, involuntary = sum(value["voluntary"]), sum(value["involuntary"])
        calls = value["yields"] * len(value["elapsed_ns"])
        rows.append(
            {
                "kernel": answer["kernel"],
                "yields": calls,
                "switches_per_yield": (voluntary + involuntary) / calls,
                "voluntary_share": voluntary / (voluntary + involuntary),
                "yield_virtual_ns": sum(value["elapsed_ns"]) / calls,
            }
        )
    return pd.DataFrame(rows)


def long_calls() -> pd.DataFrame:
    """How late a real-time thread ran while another was in long system calls, a row per preemption model.

    kernel, preemption, late_p50_virtual_ns, late_p99_virtual_ns, late_max_virtual_ns
    """
    surveys = {answer["kernel"]: answer["value"]["facts"] for answer in answers("survey")}
    rows = []
    for answer in answers("long_system_call"):
        late = pd.Series(answer["value"]["late_ns"])
        model = answer["append"].removeprefix("preempt=")
        if not model:  # as the kernel was built
            told = surveys[answer["kernel"]]["kernel.preemption"]["value"]
            model = str(told).partition(" ")[0]
        row: dict[str, Any] = {"kernel": answer["kernel"], "preemption": model}
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            row[f"late_{name}_virtual_ns"] = int(late.quantile(share, interpolation="higher"))
        rows.append(row)
    return pd.DataFrame(rows)


WHAT = ("jobs", "sleepers", "emulated")


def record(what: Collection[str] = WHAT, *, again: bool = False) -> None:
    """Record what is missing, or everything again: some of `WHAT`.

    Jobs and sleepers are deterministic and may be recorded on a busy machine.  The emulated sleepers ran in a
    machine's time: they need a machine that does nothing else.
    Needs QEMU, and the package archive for kernels that are not on this disk.
    """
    made: list[tuple[str, Path, Callable[[Path], None]]] = []
    for job, kernel, append in JOBS:
        path = _folder() / _name(job, kernel, append)
        made.append(("jobs", path, partial(record_job, job=job, kernel=kernel, append=append)))
    for kernel, feature in SWITCHED:
        path = _folder() / _name("switched", kernel, feature)
        made.append(("jobs", path, partial(record_switched, kernel=kernel, feature=feature)))
    for kernel in PIECES_KERNELS:
        made.append(("jobs", _folder() / _name("pieces", kernel, ""), partial(record_pieces, kernel=kernel)))
    for kernel in GALLERY:
        path = _folder() / f"{EXPERIMENT}-{kernel}.json"
        made.append(("sleepers", path, partial(record_sleeper, kernel=kernel)))
    for kernel in GALLERY:
        path = _folder() / f"{EXPERIMENT}-{kernel}-emulated.json"
        made.append(("emulated", path, partial(record_emulated, kernel=kernel)))
    for kind, path, make in made:
        if kind in what and (again or not path.exists()):
            make(path)


def record_job(path: Path, job: str, kernel: str, append: str) -> None:
    """One job's answer with its key and its command."""
    from .. import kernels

    answer = kernels.run(kernel, job, timing="deterministic", append=append)
    option = f" --append {append}" if append else ""
    command = f"sched-labs run {job} --kernel {kernel} --timing deterministic{option} --json FILE"
    _keep(path, answer, {"job": job, "append": append, "command": command})


def record_switched(path: Path, kernel: str, feature: str) -> None:
    """The sleeper's answer with one feature turned."""
    from .. import kernels

    given = {"feature": feature}
    answer = kernels.run(kernel, SWITCHED_JOB, given, timing="deterministic", native=["sleeper"])
    command = (
        f"kernels.run({kernel!r}, {SWITCHED_JOB!r}, {given!r}, timing='deterministic', native=['sleeper'])"
    )
    _keep(path, answer, {"job": "switched", "feature": feature, "command": command})


def record_pieces(path: Path, kernel: str) -> None:
    """The job's answer with one feature after the other turned off."""
    from .. import kernels

    given = {"off": list(PIECES), **PIECES_GIVEN}
    options: dict[str, Any] = {"timing": "deterministic", "native": ["phase"], "deadline_s": 900}
    answer = kernels.run(kernel, PIECES_JOB, given, **options)
    options_text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    command = f"kernels.run({kernel!r}, {PIECES_JOB!r}, {given!r}, {options_text})"
    _keep(path, answer, {"job": "pieces", "command": command})


def _keep(path: Path, answer: Answer, about: dict[str, str]) -> None:
    held = about | {
        "kernel": answer.kernel.name,
        "build": answer.build,
        "key": answer.key,
        "value": answer.value,
    }
    write_text(path, json.dumps(held, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{path.name}: {answer.duration_s:.0f} s", flush=True)


def record_sleeper(path: Path, kernel: str) -> None:
    """The experiment's Result."""
    from ..core.registry import find

    result = find(EXPERIMENT)(kernel=kernel, timing="deterministic", profile=PROFILE, save=False)
    result.save(path)
    print(f"{path.name}: {result.duration_s:.0f} s", flush=True)


def record_emulated(path: Path, kernel: str) -> None:
    """The same experiment in an emulated machine's time."""
    from . import run_experiment

    result = run_experiment(EXPERIMENT, kernel, {"profile": PROFILE}, "vm-emulated", progress=False)
    result.save(path)
    print(f"{path.name}: {result.duration_s:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m sched_labs.kernels.gallery", description="Record the gallery."
    )
    parser.add_argument("--again", action="store_true", help="record anew what is there")
    parser.add_argument("--only", action="append", choices=WHAT, help="record only these; may be repeated")
    given = parser.parse_args()
    record(given.only or WHAT, again=given.again)


if __name__ == "__main__":
    main()
