"""Packets received by a thread of the kernel that the scheduler places: who pays, and who waits for whom?

A network device is polled for its packets (NAPI), as a rule in a softirq on top of whoever has the CPU.
From Linux 5.12 on `/sys/class/net/DEVICE/threaded` hands the polling to a thread, napi/DEVICE-N.  The
loopback device has nothing to poll; veth, which joins containers, has where packets may be merged (GRO).
"""

from __future__ import annotations

import errno
import os

import numpy as np
import pandas as pd

from sched_labs import machine, workloads
from sched_labs.core import stats
from sched_labs.core.errors import PlacementError
from sched_labs.core.result import Result
from sched_labs.run import checks, starts
from sched_labs.run.base import Instrument, Run, experiment
from sched_labs.steer import placement

WAYS = ("call", "interrupt", "thread", "fifo")
MOST_BURST = 200  # packets; a veth device keeps 256 that wait
_LACKS = {
    "namespace": "a network namespace of its own",
    "sysfs": "a view of that namespace's settings",
    "veth": "a pair of virtual Ethernet devices (veth)",
    "napi": "a veth device that can be polled (NAPI)",
    "device": "an address for a device of its own",
    "SCHED_FIFO": "a real-time receiver",
}


def summarise(result: Result) -> pd.DataFrame:
    """One row per way of receiving and neighbour; medians over trials and 95 % intervals.

    way     call (a softirq in the sender's call), interrupt (a softirq that interrupts the receiver's CPU),
            thread (the kernel's thread on the receiver's CPU), fifo (the same as SCHED_FIFO)
    hog     whether a hog shares the receiver's CPU
    p50_ns, p50_lo_ns, p50_hi_ns, p99_ns, p99_lo_ns, p99_hi_ns   of all packets of a trial, from the call that
            sends one until the receiver has it; missing where so many were lost
    sender_ns_per_packet, sender_lo_ns_per_packet, sender_hi_ns_per_packet   CPU time of the sending thread,
            less what it uses in a block in which it only sleeps from burst to burst
    receiver_ns_per_packet, receiver_lo_ns_per_packet, receiver_hi_ns_per_packet   of the receiving thread
    thread_ns_per_packet, thread_lo_ns_per_packet, thread_hi_ns_per_packet   of the kernel's thread
    hog_ns_per_packet, hog_lo_ns_per_packet, hog_hi_ns_per_packet   CPU time that the hog was charged for
            packets: with which it did none of its work; missing without it, as the next two.  Where a charge
            of the way `call` is surely below zero, the blocks without packets are no baseline but a dearer
            one: all charges are larger than they show then, and `lo` alone is given
    nobody_ns_per_packet, nobody_lo_ns_per_packet, nobody_hi_ns_per_packet   time in which the hog neither
            waited for a CPU nor was charged for one: interrupts, on a kernel that keeps them apart
    hog_wait_percent   of the time, the hog could run and had no CPU; missing, as nobody's time, where the
            kernel does not tell how long threads wait
    thread_wait_ns_per_packet   the kernel's thread could run and had no CPU
    received_share     packets that arrived; the rest found a buffer full
    packets_per_s      sent
    trials
    """
    # The hog has waited for the receiver, at the least: where it never did the kernel keeps no such account.
    told = (result.data.hog_wait_ns > 0).any()
    data = result.data.assign(hog_wait_ns=result.data.hog_wait_ns if told else np.nan)
    quiet = data[data.way == "none"].set_index("trial")
    # Of this start, with no packet about; not known where other programs kept its CPU from the hog.
    speed = (quiet.hog_cpu_ns / quiet.hog_steps).where(quiet.hog_steps > 0).rename("step_ns")
    if result.parameters.get("sender_shares_core"):
        speed[:] = np.nan  # only a sender that sends takes speed from the hog: that is no charge
    slept = quiet.sender_cpu_ns.rename("slept_ns")
    idle = ((quiet.elapsed_ns - quiet.hog_cpu_ns - quiet.hog_wait_ns) / quiet.elapsed_ns).rename("lost_share")
    data = data[data.way != "none"].join(pd.concat([speed, idle, slept], axis=1), on="trial")
    unworked = (data.hog_cpu_ns - data.hog_steps * data.step_ns) / data.sent
    uncharged = data.elapsed_ns * (1 - data.lost_share) - data.hog_cpu_ns - data.hog_wait_ns
    data["hog_ns_per_packet"] = unworked.where(data.hog)
    data["nobody_ns_per_packet"] = (uncharged / data.sent).where(data.hog)
    data["sender_ns_per_packet"] = (data.sender_cpu_ns - data.slept_ns) / data.sent
    for who in ("receiver", "thread"):
        data[f"{who}_ns_per_packet"] = data[f"{who}_cpu_ns"] / data.sent
    rows = []
    for key, part in data.groupby(["hog", "way"], sort=False):
        rows.append(
            {
                "way": key[1],
                "hog": bool(key[0]),
                **_known("p50", "ns", part.p50_ns),
                **_known("p99", "ns", part.p99_ns),
                **{
                    name: value
                    for who in ("sender", "receiver", "thread", "hog", "nobody")
                    for name, value in _known(who, "ns_per_packet", part[f"{who}_ns_per_packet"]).items()
                },
                "hog_wait_percent": 100 * (part.hog_wait_ns / part.elapsed_ns).where(part.hog).median(),
                "thread_wait_ns_per_packet": (part.thread_wait_ns / part.sent).median(),
                "received_share": part.received.sum() / part.sent.sum(),
                "packets_per_s": (part.sent / part.elapsed_ns).median() * 1e9,
                "trials": len(part),
            }
        )
    table = pd.DataFrame(rows)
    # In the sender's call no packet is received on the hog's CPU: it cannot be charged less than nothing.
    if (table.hog_hi_ns_per_packet[table.way == "call"] < 0).any():
        table[["hog_ns_per_packet", "hog_hi_ns_per_packet"]] = np.nan
    order = {way: at for at, way in enumerate(WAYS)}
    return table.sort_values(["hog", "way"], key=lambda one: one.map(order) if one.name == "way" else one,
                             ignore_index=True)  # fmt: skip


def _known(stem: str, unit: str, values: pd.Series[float]) -> dict[str, float]:
    """Its columns; missing where a trial lacks the value: of the others none would be the median."""
    return stats.in_columns(stem, unit, None if values.isna().any() else stats.median_interval(values))


def payer(result: Result) -> str | None:
    """Whose CPU time it is to receive a packet by interrupt, on a CPU where somebody else computes.

    "the program that was interrupted", "nobody" (a kernel that keeps interrupts apart), or None where the
    accounts do not tell.
    """
    table = result.summary()
    row = table[(table.way == "interrupt") & table.hog]
    if row.empty:
        return None
    charged, most, nobody = (
        row[f"{column}_ns_per_packet"].iloc[0] for column in ("hog_lo", "hog_hi", "nobody_lo")
    )
    if not np.isfinite(charged) or not (charged >= TOLD_NS or nobody >= TOLD_NS):
        return None
    if nobody > charged and np.isnan(most):
        return None
    return "nobody" if nobody > charged else "the program that was interrupted"


TOLD_NS = 200  # for each packet: less is told of no softirq that passes one up to a socket


def instrument(survey: machine.Machine) -> Instrument:
    """Thread clocks and the kernel's counts of what waited, where devices may be made."""
    if len(survey.cpus_allowed) < 2:
        return Instrument("nothing: there is no other CPU", "a second CPU could be interrupted")
    if os.geteuid():
        return Instrument("nothing: devices of one's own need root", "start Python with sudo")
    return Instrument("clocks of threads, and how long they waited by the kernel's count")


@experiment(
    "napi.threaded",
    summarise=summarise,
    instrument=instrument,
    workloads=("napi",),
    needs=("second CPU", "priority"),
)
def threaded(
    run: Run,
    *,
    burst: int = 20,
    period_us: int = 1000,
    block_ms: int | None = None,
    trials: int | None = None,
) -> None:
    """Send UDP packets from one network namespace to another, and have them received in four ways.

    burst      packets that are sent one after the other
    period_us  from one burst to the next
    block_ms   one block of one way, with or without a hog
    trials     how often each is measured, each time in a new start with new devices; their order turns round

    The sender has a CPU of its own; the receiver is SCHED_FIFO on another one, where the hog and the kernel's
    thread run, too.  Devices and namespaces end with the program.

    Data: one row per block: way (none: no packets), hog, trial, sent, received, elapsed_ns, p50_ns and p99_ns
    (of all packets sent, from sending to receiving; missing where so many were lost), and of the threads
    sender_cpu_ns, receiver_cpu_ns, thread_cpu_ns, thread_wait_ns, hog_cpu_ns, hog_wait_ns (it could run and
    had no CPU), hog_steps (of its work).
    Raises PlacementError where no such devices can be made.
    Method: Documentation/networking/napi.rst (threaded) and scaling.rst (receive packet steering).
    """
    block_ms = run.choose(tiny=20, quick=100, full=200) if block_ms is None else block_ms
    trials = run.choose(tiny=2, quick=6, full=15) if trials is None else trials
    checks.whole("burst", burst, 1, MOST_BURST)
    checks.whole("period_us", period_us, 1000, 100_000)
    checks.whole("block_ms", block_ms, 1, 5000)
    checks.whole("trials", trials, 1, 1000)
    cpu = placement.quiet_cpu()
    senders = placement.other_cpu(cpu)
    if os.geteuid():
        raise PlacementError(
            "Network devices of its own, and a real-time receiver, are root's to have.",
            "Start Python, or Jupyter, as root.",
            lacking=True,
        )
    run.begin()
    run.parameters |= {"block_ms": block_ms, "trials": trials, "cpu": cpu, "sender_cpu": senders}
    run.parameters |= {"sender_shares_core": senders in machine.survey().smt_siblings(cpu)}
    if run.parameters["sender_shares_core"]:
        run.note("missing", "Sender and hog share a core: what packets cost the hog cannot be told.")
    blocks = ["none+hog", *WAYS, *(f"{way}+hog" for way in WAYS)]
    words = ["--cpu", cpu, "--burst", burst, "--period-us", period_us, "--block-ms", block_ms]
    for trial, _ in starts.each(run, [None], trials, label=lambda _: "four ways, with a hog and without"):
        ways = [word for block in blocks[:: -1 if trial % 2 else 1] for word in ("--way", block)]
        deadline_s = 30 + len(blocks) * block_ms / 100
        with workloads.start("napi", [str(word) for word in words + ways], deadline_s=deadline_s) as program:
            sender, *others = program.tids
            placement.pin([sender], [senders])
            placement.pin(others, [cpu])
            records = program.run()
        for record in records:
            if record.kind == "missing":
                _lacks(run, record)
        run.add([_row(record) | {"trial": trial} for record in records if record.kind == "block"])


def _lacks(run: Run, record: workloads.Record) -> None:
    why = os.strerror(record["errno"]).lower()
    if "what" in record.values:
        what = _LACKS[record.text("what")]
        raise PlacementError(f"This machine, or container, does not give root {what}: {why}.", lacking=True)
    unseen = record["errno"] == errno.ESRCH
    why = "the kernel's threads are not seen from here" if unseen else why
    run.note("missing", f"Packets could not be received in the way {record.text('way')!r}: {why}.")


def _row(record: workloads.Record) -> dict[str, object]:
    quantiles = {name: record.values.get(name, np.nan) for name in ("p50_ns", "p99_ns")}
    cpu_ns = {f"{who}_cpu_ns": record[f"{who}_ns"] for who in ("sender", "receiver", "thread", "hog")}
    names = ("sent", "received", "elapsed_ns", "thread_wait_ns", "hog_wait_ns", "hog_steps")
    return {
        "way": record.text("way"),
        "hog": bool(record["hog"]),
        **{name: record[name] for name in names},
        **cpu_ns,
        **quantiles,
    }
