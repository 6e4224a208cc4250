"""Programs, repairs and variants that several stories have."""

from __future__ import annotations

from dataclasses import replace

from .story import Change, Program, Repair, Variant


def client(about: str, rate_per_s: int) -> Program:
    """Who asks the service, from the other CPU."""
    return Program("client", "client", about, {"rate_per_s": rate_per_s}, "service", "front")


def batch(about: str, period_ms: int, work_ms: int, threads: int = 1) -> Program:
    """Work that is due in every period, beside the service."""
    told = {"threads": threads, "period_ms": period_ms, "work_us": 1000 * work_ms}
    return Program("batch", "batch", about, told, knobs=("threads",))


def sampler(stop_ms: int) -> Program:
    """A monitor of the service, which may stop it to look at it."""
    told = {"period_ms": 300, "work_us": 300, "stop_ms": stop_ms, "freeze": 0}
    return Program("sampler", "sampler", "keeps an eye on everybody", told, "service", knobs=("freeze",))


def listener(about: str, stop_ms: int, port: int) -> Program:
    """A sampler that may listen to what the service publishes, too."""
    one = sampler(stop_ms)
    told = {**one.told, "listen": 1, "hear_us": 0, "port": port}
    return replace(one, about=about, told=told, knobs=("freeze", "listen"))


def line(text: str, setting: str, value: str, role: str = "service", where: str = "") -> Repair:
    """A line of a program's file, as the repair is told: `text: setting = value`."""
    return Repair(f"{text}: `{setting} = {value}`{where}", Change(role, set={setting: value}))


def limit(quota_ms: int) -> Repair:
    """Another limit for the service's group."""
    return Repair(
        f"give the group {quota_ms} ms in each period of 100 ms", Change("service", quota_us=1000 * quota_ms)
    )


FRONT = Repair(
    "give {service} CPU {front}: taskset -a -cp {front} {service_pid}", Change("service", cpus="front")
)
NO_LIMIT = Repair("take the limit of the group away", Change("service", quota_us=0))
GIVE_WAY = Repair("let {batch} give way: renice all its threads to 19", Change("batch", nice=19))
GIVE_WAY_MORE = Repair(
    "let {batch} give way still more: renice all its threads to 19", Change("batch", nice=19)
)
ONE_THREAD = line("let {batch} work with one thread", "threads", "1", "batch")
OFFLOAD = line("give the long requests a thread of their own", "offload_slow", "yes")
KEEP_MEMORY = line("let it keep its memory", "reuse_memory", "yes")
SLEEP = line("let workers sleep", "spin", "no")

STOPPED = Variant(
    "stopped",
    (Change("sampler", {"freeze": 1}),),
    "service",
    (line("let {sampler} look at others without stopping them", "freeze", "no", "sampler", " in its file"),),
)
OVERHEARD = Variant(
    "interrupts",
    (Change("sampler", {"hear_us": 80}),),
    "service",
    (
        line("let {sampler} not listen", "listen", "no", "sampler", " in its file"),
        line("publish the last steps only", "publish", "20"),
    ),
)
SPINNING = Variant("busy-wait", (Change("service", {"spin": 1}),), "service", (SLEEP,))


def first_in_line(work_ms: int) -> Variant:
    """The neighbour has more to do, and does it under a real-time policy."""
    broken = (Change("batch", {"work_us": 1000 * work_ms}, realtime=10),)
    usual = Repair(
        "give {batch} the usual policy: chrt --all-tasks --other --pid 0 {batch_pid}",
        Change("batch", realtime=0),
    )
    return Variant("realtime", broken, "batch", (usual, FRONT), needs=("priority",))


def polling(interval_ms: int) -> Variant:
    """Requests are looked for so often, and wake nobody."""
    repairs = (line("be woken by requests", "poll_ms", "0"), line("look more often", "poll_ms", "5"))
    return Variant("polling", (Change("service", {"poll_ms": interval_ms}),), "service", repairs)


def snapshots(held_ms: int) -> Variant:
    """The lock is held as long as a snapshot takes."""
    repairs = (
        line("take snapshots of a copy", "copy_snapshot", "yes"),
        line("let the audit, which needs the lock, come after the answer", "audit_async", "yes"),
    )
    return Variant("lock", (Change("service", {"snapshot_ms": held_ms}),), "service", repairs)


def limited(quota_ms: int, enough_ms: int) -> Variant:
    """The service's group has a quota that is too small; so much would be enough."""
    broken = (Change("service", quota_us=1000 * quota_ms),)
    return Variant("quota", broken, "service", (NO_LIMIT, limit(enough_ms)), needs=("group",))
