"""What does a packet cost, how many come with one softirq, and who pays?  UDP over loopback (lab L45).

The kernel receives packets in a softirq, NET_RX.  It is no thread: it borrows the CPU of whoever runs there,
and over the loopback device that is the sender, in the middle of its own system call.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import ParameterError, ResultError
from sched_labs.core.result import Result
from sched_labs.core.stats import spread
from sched_labs.machine import files
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

WAYS = ("paced", "single", "mmsg", "segments")
AT_ONCE = ("single", "mmsg", "segments")  # as fast as it goes: the sender never sleeps
SIZES = (64, 1400)
PIECES = (1, 2, 4, 8, 32)
MOST_BYTES = 60_000
ONE_SOFTIRQ = 1.1  # for each piece, at most: a piece that takes more is no pass through the network alone


def summarise(result: Result) -> pd.DataFrame:
    """One row per way of sending and size; medians over trials and 95 % intervals.

    way                    paced, single, mmsg or segments
    size_bytes             of what each packet carries
    packets_per_s          sent, for each second that passed
    received_share         how many of them the receiver got; the rest found its buffer full
    sender_ns_per_packet, sender_lo_ns_per_packet, sender_hi_ns_per_packet   CPU time of the sending thread
    receiver_ns_per_packet CPU time of the receiving thread, for each packet that it got
    packets_per_softirq, packets_lo_per_softirq, packets_hi_per_softirq   packets sent for each NET_RX of the
                           whole machine; missing where /proc/softirqs does not tell
    ns_per_softirq, ns_lo_per_softirq, ns_hi_per_softirq   CPU time of the sending thread for each NET_RX:
                           what comes out where somebody divides the time by the count
    softirq_share          how much of the busy time of the sender's CPU /proc/stat calls softirq, all trials
                           together (in ticks of 10 ms: some noise); missing where it does not tell
    receiver_softirq_share the same of the receiver's CPU; missing where both have the same one
    charged_share          how much of the time in which the sender had its CPU is its own CPU time, softirqs
                           on it included: 1 where it is charged with them; missing where paced
    ksoftirqd_per_softirq  how often ksoftirqd was switched in for each NET_RX; missing where it is not seen
    batch                  packets for each call
    trials
    """
    rows: list[dict[str, Any]] = []
    data = _with_batch(result)
    data = data[(data["way"] != "segments") | (data["batch"] == result.parameters["batch"])]
    for size in sorted(data["size_bytes"].unique()):
        for way in WAYS:
            part = data[(data["way"] == way) & (data["size_bytes"] == size)]
            if part.empty:
                continue
            row: dict[str, Any] = {"way": way, "size_bytes": int(size)}
            row["packets_per_s"] = float((part["sent"] / part["elapsed_ns"]).median() * 1e9)
            row["received_share"] = float(part["received"].sum() / part["sent"].sum())
            row |= spread("sender", "ns_per_packet", part["cpu_ns"] / part["sent"])
            row["receiver_ns_per_packet"] = float(
                (part["receiver_cpu_ns"] / part["received"].clip(lower=1)).median()
            )
            row |= _known("packets", "per_softirq", part["sent"] / part["net_rx"])
            row |= _known("ns", "per_softirq", part["cpu_ns"] / part["net_rx"])
            row["softirq_share"] = _share(part, "sender")
            row["receiver_softirq_share"] = _share(part, "receiver")
            had = part["elapsed_ns"] - part["wait_ns"]
            row["charged_share"] = float((part["cpu_ns"] / had).median()) if way in AT_ONCE else np.nan
            row["ksoftirqd_per_softirq"] = float((part["ksoftirqd_switches"] / part["net_rx"]).median())
            row["batch"] = int(part["batch"].iloc[0])
            rows.append(row | {"trials": len(part)})
    return pd.DataFrame(rows)


def pieces(result: Result) -> pd.DataFrame:
    """What a large piece costs its sender by the packets in it: one row per size, of the smallest packets.

    batch                  packets in the piece
    softirqs_per_piece     NET_RX of the whole machine, median over trials; missing where they are not counted
    ns_per_piece, ns_lo_per_piece, ns_hi_per_piece   CPU time of the sending thread
    sender_ns_per_packet, sender_lo_ns_per_packet, sender_hi_ns_per_packet   the same for each packet
    trials
    on_line                whether `parts` draws its line through it: a piece that takes one softirq
    Empty where this kernel sends no large pieces.
    """
    rows: list[dict[str, Any]] = []
    for batch, part in _pieces(result).groupby("batch"):
        softirqs = float((part["net_rx"] / part["calls"]).median())
        row: dict[str, Any] = {"batch": batch, "softirqs_per_piece": softirqs}
        row |= spread("ns", "per_piece", part["cpu_ns"] / part["calls"])
        row |= spread("sender", "ns_per_packet", part["cpu_ns"] / part["sent"])
        row["trials"] = len(part)
        rows.append(row | {"on_line": not softirqs > ONE_SOFTIRQ})  # where they are not counted, all are
    return pd.DataFrame(rows)


def parts(result: Result) -> dict[str, stats.Interval]:
    """A line through each trial's large pieces: `fixed` for each piece, and `packet` for each packet in it.

    In ns of the sender's CPU time, softirq included; medians over trials and 95 % intervals.  Sizes that take
    more than one softirq are left out: theirs is another path.  Raises ResultError where fewer than two sizes
    of pieces are left.
    """
    table = pieces(result)
    sizes = table.loc[table["on_line"], "batch"] if len(table) else []
    if len(sizes) < 2:
        raise ResultError(
            "A line needs pieces of two sizes that take one softirq each.",
            "Leave pieces out for the default.",
        )
    data = _pieces(result)
    data = data[data["batch"].isin(sizes)]
    lines = [
        np.polyfit(trial["batch"], trial["cpu_ns"] / trial["calls"], 1)
        for _, trial in data.groupby("trial")
        if trial["batch"].nunique() > 1
    ]
    each, fixed = np.array(lines).T
    return {"fixed": stats.median_interval(fixed), "packet": stats.median_interval(each)}


def payer(result: Result) -> str | None:
    """Whose CPU time it is to receive the smallest packets, sent one at a call, up to the receiver's socket.

    "the sender", "a kernel thread", "nobody", or None where the accounts do not tell.  A kernel that keeps
    interrupts from the account of the thread they interrupt leaves out what /proc/stat calls softirq.  Where
    packets are steered to another CPU, whose queue a thread polls (PREEMPT_RT from 6.10 on), next to no
    softirqs are counted.
    """
    table = result.summary()
    rows = table[table["way"] == "single"].sort_values("size_bytes")
    if rows.empty or pd.isna(rows["charged_share"].iloc[0]):
        return None
    row = rows.iloc[0]
    if row["ksoftirqd_per_softirq"] > 0.5 or row["packets_per_softirq"] > 100:
        return "a kernel thread"
    if not row["packets_per_softirq"] < 2:  # they are not counted, or did not receive all of the packets
        return None
    if row["charged_share"] < 1 - row["softirq_share"] / 2:
        return "nobody"
    return "the sender" if row["charged_share"] > 0.95 else None


def _with_batch(result: Result) -> pd.DataFrame:
    """The data with how many packets a call sent: one number for all where they have no such column."""
    if "batch" in result.data:
        return result.data
    many = result.data["way"].isin(["mmsg", "segments"])
    return result.data.assign(batch=np.where(many, result.parameters["batch"], 1))


def _pieces(result: Result) -> pd.DataFrame:
    data = _with_batch(result)
    return data[(data["way"] == "segments") & (data["size_bytes"] == data["size_bytes"].min())]


def _known(stem: str, unit: str, values: pd.Series) -> dict[str, float]:
    values = values.replace([np.inf, -np.inf], np.nan)
    if values.isna().any():
        return dict.fromkeys((f"{stem}_{unit}", f"{stem}_lo_{unit}", f"{stem}_hi_{unit}"), np.nan)
    return spread(stem, unit, values)


def _share(part: pd.DataFrame, role: str) -> float:
    busy = part[f"{role}_busy_ns"].sum(skipna=False)
    return float(part[f"{role}_softirq_ns"].sum() / busy) if busy > 0 else np.nan


def instrument(survey: machine.Machine) -> Instrument:
    """Thread clocks, and the kernel's counts in /proc/softirqs and /proc/stat; no privilege."""
    if _look([], {}).net_rx is None:
        return Instrument("thread clocks", "this machine does not show /proc/softirqs")
    return Instrument("thread clocks, and softirqs counted by the kernel")


@experiment(
    "packets.udp", summarise=summarise, instrument=instrument, workloads=("packets",), needs=("network",)
)
def udp(
    run: Run,
    *,
    sizes_bytes: Sequence[int] = SIZES,
    batch: int = 16,
    pieces: Sequence[int] = PIECES,
    period_us: int = 100,
    block_ms: int | None = None,
    trials: int | None = None,
) -> None:
    """Send UDP packets over loopback, one by one and many at a call, and count softirqs and CPU time.

    sizes_bytes  what a packet carries, 2 to 4,096 bytes
    batch        packets for each call of sendmmsg, and in each large piece that is cut at the receiver
    pieces       packets in a large piece: further sizes, measured with the smallest packets, each in a start
                 of its own; a piece of `batch` is measured among the other ways
    period_us    from one packet to the next where they are paced
    block_ms     one block of one way and size
    trials       of each, each with a new start of both; their order turns round from trial to trial

    Sender and receiver have a CPU each where there are two.
    Data: one row per block: way, size_bytes, batch (packets for each call), trial; of the sender calls, sent,
    elapsed_ns, cpu_ns, user_ns, system_ns, switches, wait_ns (it could run and had no CPU; missing where the
    kernel does not tell); received, receives (calls), receiver_cpu_ns, receiver_switches; and of the whole
    machine around the block net_rx (from /proc/softirqs), ksoftirqd_switches, and of both CPUs
    sender_softirq_ns, sender_busy_ns, receiver_softirq_ns and receiver_busy_ns (from /proc/stat).  What the
    machine does not tell is missing.
    """
    block_ms = run.choose(tiny=10, quick=30, full=200) if block_ms is None else block_ms
    trials = run.choose(tiny=2, quick=5, full=15) if trials is None else trials
    sizes = list(sizes_bytes) if not isinstance(sizes_bytes, int) else []
    if isinstance(pieces, int | str):
        raise ParameterError(f"pieces does not take {pieces!r}.", "Give a list such as [1, 4, 16].")
    others = [count for count in dict.fromkeys(pieces) if count != batch]
    for count in (batch, *others):
        _check(sizes if count == batch else [min(sizes)], count, period_us, block_ms, trials)
    home = placement.quiet_cpu()
    alone = len(machine.survey().cpus_allowed) < 2
    cpus = {"sender": home} if alone else {"sender": home, "receiver": placement.other_cpu(home)}
    if alone:
        run.note("missing", "There is one CPU only: sender and receiver share it.")
    run.begin()
    run.parameters |= {"sizes_bytes": sizes, "block_ms": block_ms, "trials": trials, "cpus": cpus}
    common = ["--period-us", period_us, "--block-ms", block_ms, "--trials", 1]

    def start(trial: int, count: int) -> tuple[list[Any], int]:
        """The arguments for a start of the workload, and how many blocks it has."""
        turn = -1 if trial % 2 else 1
        ways, chosen = (WAYS, sizes) if count == batch else (WAYS[-1:], [min(sizes)])
        words = [*common, "--batch", count, "--bytes", ",".join(map(str, chosen[::turn]))]
        for way in ways[::turn]:
            words += ["--way", way]
        return words, len(ways) * len(chosen)

    cells = [batch, *others]
    steps = [(trial, count) for trial in range(trials) for count in (cells[::-1] if trial % 2 else cells)]
    for trial, count in run.each(steps, label=lambda step: f"{step[1]} packets in a large piece"):
        words, blocks = start(trial, count)
        with contextlib.closing(_blocks(run, words, cpus, blocks)) as rows:
            for row in filter(None, rows):
                one = 1 if row["way"] in ("paced", "single") else count
                run.add([row | {"trial": trial, "batch": one}])
    _check_packets(run)


def _check(sizes: list[int], batch: int, period_us: int, block_ms: int, trials: int) -> None:
    if not sizes or len(sizes) > 8 or any(not isinstance(s, int) or not 2 <= s <= 4096 for s in sizes):
        raise ParameterError(f"sizes_bytes does not take {sizes!r}.", "Give up to 8 sizes from 2 to 4,096.")
    if not isinstance(batch, int) or not 1 <= batch <= 64 or batch * max(sizes) > MOST_BYTES:
        raise ParameterError(
            f"{batch!r} packets of {max(sizes)} bytes do not fit into one piece of {MOST_BYTES:,} bytes.",
            "Choose a smaller batch, at most 64.",
        )
    for name, value, least, most in (
        ("period_us", period_us, 1, 10_000),
        ("block_ms", block_ms, 1, 60_000),
        ("trials", trials, 1, 1000),
    ):
        if not isinstance(value, int) or not least <= value <= most:
            raise ParameterError(f"{name} must be a number from {least} to {most:,}, not {value!r}.")


def _blocks(
    run: Run, words: list[Any], cpus: dict[str, int], blocks: int
) -> Generator[dict[str, Any], None, None]:
    """The blocks of the workload, with what the kernel counted around each; {} where one was not possible."""
    kernel_threads = _ksoftirqd()
    if not kernel_threads:
        run.note("missing", "ksoftirqd is not seen from here: whether it ran cannot be told.")
    with workloads.start("packets", list(map(str, words)), deadline_s=60 + blocks) as one:
        sender, receiver = one.tids
        placement.pin([sender], [cpus["sender"]])
        placement.pin([receiver], [cpus.get("receiver", cpus["sender"])])
        records = one.records()
        for _ in range(blocks):
            before = _look(kernel_threads, cpus)
            one.go()
            record = next(records)
            if record.kind == "missing":
                why = os.strerror(record["errno"])
                run.note("missing", f"This kernel cannot send in {record.text('way')}: {why}.")
                yield {}
            else:
                yield _row(record) | _between(before, _look(kernel_threads, cpus), cpus)


def _row(record: workloads.Record) -> dict[str, Any]:
    names = ["calls", "sent", "received", "elapsed_ns", "cpu_ns", "user_ns", "system_ns", "switches"]
    names += ["receives", "receiver_cpu_ns", "receiver_switches"]
    return {
        "way": record.text("way"),
        "size_bytes": record["bytes"],
        **{name: record[name] for name in names},
        "wait_ns": float(record["wait_ns"]) if "wait_ns" in record.values else np.nan,
    }


class Look(NamedTuple):
    """What the kernel had counted: NET_RX of all CPUs, {role: (softirq, busy) ns}, switches of ksoftirqd."""

    net_rx: int | None
    cpu_ns: dict[str, tuple[float, float]]
    ksoftirqd: int | None


def _look(kernel_threads: Sequence[int], cpus: dict[str, int]) -> Look:
    net_rx = None
    for line in (files.read("/proc/softirqs") or "").splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "NET_RX":
            net_rx = sum(map(int, counts.split()))
    tick_ns = 1e9 / os.sysconf("SC_CLK_TCK")
    times = {}
    for line in (files.read("/proc/stat") or "").splitlines():
        name, *numbers = line.split()
        for role, cpu in cpus.items():
            if name == f"cpu{cpu}" and len(numbers) >= 7:
                user, nice, system, _idle, _iowait, irq, softirq = map(int, numbers[:7])
                times[role] = (softirq * tick_ns, (user + nice + system + irq + softirq) * tick_ns)
    switches = [_switches(pid) for pid in kernel_threads]
    known = [count for count in switches if count is not None]
    return Look(net_rx, times, sum(known) if known else None)


def _ksoftirqd() -> list[int]:
    """The kernel's softirq threads, as far as they can be seen from here."""
    names = [name for name in files.names("/proc") if name.isdigit()]
    return [int(pid) for pid in names if (files.read(f"/proc/{pid}/comm") or "").startswith("ksoftirqd/")]


def _switches(pid: int) -> int | None:
    """How often a thread was switched out so far."""
    lines = (files.read(f"/proc/{pid}/status") or "").splitlines()
    counts = [int(line.split()[1]) for line in lines if "ctxt_switches:" in line]
    return sum(counts) if counts else None


def _between(before: Look, after: Look, cpus: dict[str, int]) -> dict[str, float]:
    def since(then: float | None, now: float | None) -> float:
        return np.nan if then is None or now is None else float(now - then)

    found = {
        "net_rx": since(before.net_rx, after.net_rx),
        "ksoftirqd_switches": since(before.ksoftirqd, after.ksoftirqd),
    }
    for role in ("sender", "receiver"):
        known = role in before.cpu_ns and role in after.cpu_ns
        for at, name in enumerate(("softirq", "busy")):
            found[f"{role}_{name}_ns"] = after.cpu_ns[role][at] - before.cpu_ns[role][at] if known else np.nan
    return found


def _check_packets(run: Run) -> None:
    """Whether packets arrived as sent, and whether others used the network meanwhile."""
    if not run.rows:
        return
    data = pd.concat(run.rows)
    if (data["received"] > data["sent"]).any():
        run.note("flag", "More packets arrived than were sent.")
    if data["net_rx"].isna().any():
        run.note("missing", "This machine does not tell how many softirqs it ran (/proc/softirqs).")
        return
    single = data[data["way"] == "single"]
    if not single.empty and stats.median_interval(single["net_rx"] / single["sent"]).median > 1.5:
        run.note("flag", "More softirqs ran than packets were sent one by one: others use the network too.")
