"""The claims of the chapter on the latency ladder: each judged on CONSTRUCTED summaries for every outcome."""

from __future__ import annotations

from typing import Any

from claim_cases import Case
from ladder_lab import KIB

from sched_labs.claims import FAILS, HOLDS, UNKNOWN

NAN, INFINITE = float("nan"), float("inf")


def rung(name: str, cost: float, half: float = 0.0, calls: float = float("nan")) -> dict[str, Any]:
    return {
        "rung": name,
        "cost_ns": cost,
        "cost_lo_ns": cost - half,
        "cost_hi_ns": cost + half,
        "calls_ns": calls,
    }


def copies(warm: float, cold: float, half: float = 100) -> list[dict[str, Any]]:
    return [rung("memcpy_warm", warm, half), rung("memcpy_cold", cold, half)]


REFERENCE: list[Case] = [
    ("004-026", HOLDS, [rung("system_call", 60, 5)], "little: 60 ns, interval 55 ns to 65 ns"),
    ("004-026", FAILS, [rung("system_call", 260, 5)], "260 ns"),
    ("004-026", UNKNOWN, [rung("system_call", 100, 5)], "spans 100 ns"),
    ("004-026", UNKNOWN, [rung("call", 1)], "did not measure a system call"),
    ("004-027", HOLDS, [rung("call", 1.4, 0.1)], "1.4 ns, interval 1.3 ns to 1.5 ns"),
    ("004-027", FAILS, [rung("call", 9, 1)], "9 ns"),
    ("004-027", UNKNOWN, [rung("call", 5, 1)], "spans 5 ns"),
    ("003-011", HOLDS, copies(3050, 3400), "warm: 3.05 µs, interval 2.95 µs to 3.15 µs; cold: 3.4 µs"),
    ("003-011", FAILS, copies(700, 900), "warm: 700 ns"),
    ("003-011", FAILS, copies(7000, 9000), "cold: 9 µs"),
    ("003-011", UNKNOWN, copies(700, 9000), "3.2 µs lies in between: warm: 700 ns"),
    ("003-011", UNKNOWN, copies(555, 3400), "It depends on how warm the memory is: warm: 555 ns"),
    ("003-011", UNKNOWN, copies(2400, 3400), "spans 2.4 µs or 4 µs, a quarter"),
    ("003-011", UNKNOWN, copies(700, 4000), "spans 2.4 µs or 4 µs, a quarter"),
    ("003-011", UNKNOWN, copies(3050, 3400)[:1], "did not measure a cold copy"),
    ("003-012", HOLDS, [rung("switch", 1000, 10, 200), *copies(3000, 9000)], "1.2 µs with its"),
    ("003-012", FAILS, [rung("switch", 2000, 10, 700), *copies(690, 2000)], "690 ns, a cold one 2 µs"),
    ("003-012", UNKNOWN, [rung("switch", 2000, 10, 700), *copies(690, 3400)], "depends on how warm"),
    (
        "003-012",
        UNKNOWN,
        [rung("switch", 2000, 90, 700), *copies(2700, 3400)],
        "overlap, a switch 2.61 µs to 2.79 µs, warm 2.6 µs to 2.8 µs, cold 3.3 µs to 3.5 µs: a switch 2.7 µs",
    ),
    ("003-012", UNKNOWN, [rung("switch", 2000, 90, 700), *copies(690, 2700)], "overlap"),
    ("003-012", UNKNOWN, copies(690, 2700), "did not measure a switch"),
    ("003-012", UNKNOWN, [rung("switch", 2000, 10, 700), *copies(690, 2700)[:1]], "measure a cold copy"),
    ("clock", HOLDS, [rung("clock", 400, 10), rung("system_call", 150, 10)], "the clock 400 ns, getppid 150"),
    ("clock", FAILS, [rung("clock", 24, 1), rung("system_call", 150, 10)], "the clock 24 ns"),
    (
        "clock",
        UNKNOWN,
        [rung("clock", 145, 10), rung("system_call", 150, 10)],
        "overlap, 135 ns to 155 ns and 140 ns to 160 ns: the clock",
    ),
]


def loop(
    counted: float,
    *,
    name: str = "thread_yield",
    affinity: str = "none",
    cpus: str = "0-3",
    last: int = 3,
    published: tuple[float, float, float] = (100, 90, 110),
) -> dict[str, Any]:
    return {
        "loop": name,
        "affinity": affinity,
        "cpus": cpus,
        "last_cpu": last,
        "assumed_per_iteration": 4.0,
        "counted_per_iteration": counted,
        # time for each counted switch: the same time by another divisor
        **{
            f"counted{end}_ns": value * 4 / counted
            for end, value in zip(("", "_lo", "_hi"), published, strict=True)
        },
        "published_ns": published[0],
        "published_lo_ns": published[1],
        "published_hi_ns": published[2],
    }


def futexes(counted: float, cpus: str, *published: float) -> dict[str, Any]:
    times = (published[0], published[1], published[2]) if published else (100.0, 90.0, 110.0)
    return loop(counted, name="process_futex", cpus=cpus, published=times)


LOOPS: list[Case] = [
    ("004-014", HOLDS, [futexes(4.01, "0")], "4.01 switches counted an iteration, 4 assumed, on CPU 0"),
    ("004-014", FAILS, [futexes(2.0, "0-3"), futexes(10.0, "0")], "10.00 switches counted"),
    ("004-014", UNKNOWN, [futexes(2.0, "0-3")], "In no setting of this run"),
    ("004-016", HOLDS, [loop(4.0, cpus="2")], "on CPU 2"),
    ("004-016", FAILS, [loop(2.0, cpus="2")], "2.00 switches counted"),
    ("004-016", UNKNOWN, [loop(2.0)], "bound to one CPU"),
    ("004-015-none", HOLDS, [loop(4.0)], "4.00 switches"),
    ("004-015-none", FAILS, [loop(0.01)], "0.01 switches"),
    ("004-015-none", UNKNOWN, [loop(2.0, cpus="0")], "one CPU only"),
    ("004-015-none", UNKNOWN, [loop(2.0, affinity="cpu_0")], "did not measure thread yield"),
    ("004-017", HOLDS, [loop(2.0, affinity="cpu_0", cpus="0")], "mask is CPU 0"),
    ("004-017", FAILS, [loop(2.0, affinity="cpu_0", cpus="0-3")], "mask is CPUs 0-3"),
    ("004-017", UNKNOWN, [loop(2.0, affinity="cpu_0", cpus="0", last=0)], "one CPU"),
    ("004-017", UNKNOWN, [loop(2.0, cpus="0"), loop(2.0, affinity="cpu_0", cpus="0")], "may use CPU 0 only"),
    ("004-018", HOLDS, [loop(2.0, affinity="affinity", cpus="3")], "the last CPU is 3"),
    ("004-018", FAILS, [loop(2.0, affinity="affinity", cpus="0")], "mask is CPU 0, the last CPU is 3"),
    ("004-018", UNKNOWN, [loop(2.0, affinity="affinity", cpus="0", last=0)], "one CPU"),
    ("004-021", HOLDS, [futexes(4.0, "1", 3500, 3400, 3600)], "3.5 µs for each switch that was counted"),
    ("004-021", FAILS, [futexes(10.0, "1", 3500, 3400, 3600)], "1.4 µs for each switch that was counted"),
    ("004-021", UNKNOWN, [futexes(4.0, "1", 4300, 4200, 4400)], "spans a limit"),
    ("004-021", UNKNOWN, [futexes(4.0, "0-3", 3500, 3400, 3600)], "In no setting of this run"),
]


def hop(
    net: float,
    half: float = 50,
    *,
    rings: int = 1,
    access: str = "sequential",
    processes: int = 2,
    size: int = 64 * KIB,
    hops: float = 1.0,
    floor: float = 20,
    seen: bool = True,
) -> dict[str, Any]:
    return {
        "rings": rings,
        "access": access,
        "processes": processes,
        "size_bytes": size,
        "net_ns": net,
        "net_lo_ns": net - half,
        "net_hi_ns": net + half,
        "switches_per_hop": hops,
        "floor_ns": floor,
        "seen": seen,
    }


def walk(net: float, half: float = 50, **more: Any) -> dict[str, Any]:
    return hop(net, half, access="random", **more)


BARE = hop(1500, size=0)
RING: list[Case] = [
    ("004-032", HOLDS, [hop(1500), hop(1550, rings=2)], "1.5 µs with one ring, 1.55 µs with two: 1.0 times"),
    (
        "004-032",
        FAILS,
        [hop(1500), hop(7700, rings=2)],
        "64 KiB: 1.5 µs with one ring, 7.7 µs with two: 5.1 times",
    ),
    ("004-032", UNKNOWN, [hop(1500), hop(1800, rings=2)], "1.45 µs to 1.55 µs and 1.75 µs to 1.85 µs, span"),
    ("004-032", UNKNOWN, [hop(1500, floor=7000, seen=False), hop(7700, rings=2)], "1.45 µs to 7 µs and 7.65"),
    ("004-032", UNKNOWN, [hop(1500), hop(1550, rings=2, floor=7000, seen=False)], "1.5 µs to 7 µs, span"),
    ("004-032", UNKNOWN, [hop(1500), hop(7700, rings=2, size=16 * KIB)], "no second ring at 64 KiB"),
    ("004-032", UNKNOWN, [hop(40), hop(7700, rings=2)], "starts at −10 ns"),
    ("lat_ctx-hop", HOLDS, [hop(1500), hop(1500, processes=8, hops=1.01)], "between 1.00 and 1.01 switches"),
    ("lat_ctx-hop", HOLDS, [hop(1500), hop(1500, processes=8)], "in order: 1.00 switches at every size"),
    ("lat_ctx-hop", FAILS, [hop(1500), hop(1500, processes=8, hops=1.97)], "between 1.00 and 1.97 switches"),
    ("lat_ctx-hop", UNKNOWN, [hop(1500, size=0, hops=1.9)], "no ring whose processes sum"),
    ("lat_ctx-sum", HOLDS, [BARE, hop(4000), walk(5000)], "64 KiB: 3.5 µs more than without memory"),
    ("lat_ctx-sum", FAILS, [BARE, hop(4000), walk(401_500)], "400 µs more than without memory in random"),
    ("lat_ctx-sum", UNKNOWN, [BARE, hop(3250), walk(5000)], "3.4 µs to 3.6 µs and 1.65 µs to 1.85 µs, or"),
    ("lat_ctx-sum", UNKNOWN, [BARE, hop(1600, floor=3000, seen=False), walk(5000)], "and 0 to 3 µs,"),
    ("lat_ctx-sum", UNKNOWN, [BARE, hop(4000, floor=3000), walk(5000)], "or the noise span one half"),
    ("lat_ctx-sum", UNKNOWN, [BARE, hop(1550), walk(1600)], "clearly more than a hop without memory"),
    ("lat_ctx-sum", UNKNOWN, [hop(2500), walk(5000)], "clearly more than a hop without memory"),
]


def filled(
    registers: str,
    extra: float,
    half: float = 10,
    *,
    floor: float = 10,
    seen: bool = True,
    image: float = 2432,
) -> list[dict[str, Any]]:
    """A run with these registers and with none."""
    both = {"vector_bytes": image, "image_bytes": 11_008.0, "switch_ns": 2000.0, "floor_ns": floor}
    times = ("extra_ns", "extra_lo_ns", "extra_hi_ns")
    return [
        both
        | {"registers": "integer", "seen": False, "switch_ns": 1900.0}
        | dict.fromkeys(times, float("nan")),
        both
        | {"registers": registers, "seen": seen}
        | dict(zip(times, (extra, extra - half, extra + half), strict=True)),
    ]


FPU: list[Case] = [
    ("000-013", HOLDS, filled("avx512", 40, image=832), "take 832 bytes of the 11008"),
    ("000-013", FAILS, filled("avx512", 40), "take 2432 bytes of the 11008"),
    ("000-013", UNKNOWN, filled("avx", 40, image=832), "no AVX-512"),
    ("000-013", UNKNOWN, filled("avx512", 40, image=float("nan")), "was not told in this run"),
    ("000-014", HOLDS, filled("avx512", 60), "alone, avx512: 60 ns a switch more (interval 50 ns to 70 ns)"),
    ("000-014", FAILS, filled("avx", 2, seen=False), "switch, 38 ns: judged by the widest alone, avx: 2 ns"),
    ("000-014", UNKNOWN, filled("avx", 20, 40, seen=False), "noise hides"),
    ("000-014", UNKNOWN, filled("avx", 2, floor=100, seen=False), "noise floor 100 ns"),
    ("000-014", UNKNOWN, filled("avx", 2)[:1], "no vector registers"),
    ("000-018", HOLDS, filled("avx512", 3500), "3.5 µs a switch more"),
    ("000-018", FAILS, filled("avx512", 60), "60 ns a switch more"),
    ("000-018", UNKNOWN, filled("avx512", 3300), "spans 3.3 µs"),
    ("000-018", UNKNOWN, filled("avx512", 800, 1700, floor=4000, seen=False), "or the noise spans 3.3 µs"),
    ("000-018", UNKNOWN, filled("avx512", 3500, floor=4000, seen=False), "noise floor 4 µs"),
]


def after(
    condition: str,
    extra: float,
    space: float = float("nan"),
    half: float = 50,
    *,
    floor: float = 20,
    seen: bool = True,
    pages: int = 1024,
) -> dict[str, Any]:
    return {
        "pages": pages,
        "condition": condition,
        "extra_ns": extra,
        "extra_lo_ns": extra - half,
        "extra_hi_ns": extra + half,
        "space_ns": space,
        "space_lo_ns": space - half,
        "space_hi_ns": space + half,
        "floor_ns": floor,
        "space_seen": seen,
    }


EIGHT = after("processes_8", 17_000, 16_500)
TLB: list[Case] = [
    ("000-006", HOLDS, [EIGHT, after("thread", 15_000)], "1024 pages: a switch to a thread adds 15 µs to"),
    (
        "000-006",
        FAILS,
        [EIGHT, after("thread", 100)],
        "a thread adds 100 ns to the walk, a ring of eight processes 17 µs",
    ),
    ("000-006", FAILS, [EIGHT, after("thread", 100, floor=400)], "a thread adds nothing that can be seen"),
    ("000-006", UNKNOWN, [EIGHT, after("thread", 100, floor=9_000)], "50 ns to 9 µs and 1"),
    ("000-006", UNKNOWN, [EIGHT, after("thread", 8_500)], "span one half"),
    ("000-006", UNKNOWN, [EIGHT, after("thread", 15_000, floor=16_000)], "or the noise span one half"),
    ("000-006", UNKNOWN, [after("processes_8", 900, 20, seen=False)], "no loss either"),
    ("000-006", UNKNOWN, [EIGHT, after("thread", 100, pages=64)], "did not walk 1024 pages"),
    ("000-031", HOLDS, [EIGHT, after("process", 15_000, 14_900)], "one other process costs 14.9 µs"),
    ("000-031", FAILS, [EIGHT, after("process", 200, 100)], "costs 100 ns, those of seven 16.5 µs"),
    (
        "000-031",
        FAILS,
        [EIGHT, after("process", 200, 100, floor=400)],
        "costs nothing that can be seen, those",
    ),
    ("000-031", UNKNOWN, [EIGHT, after("process", 200, 100, half=9_000)], "−8.9 µs to 9.1 µs and"),
    ("000-031", UNKNOWN, [after("process", 200, 100)], "no loss either"),
    ("000-022", HOLDS, [EIGHT, after("process", 20_000, 19_900)], "19.9 µs (at 1024 pages"),
    (
        "000-022",
        FAILS,
        [
            after("processes_8", 6_000, 5_900),
            after("process", 5_900, 5_800),
            after("process", 20, 10, pages=64),
        ],
        "5.8 µs (at 1024 pages",
    ),
    ("000-022", UNKNOWN, [EIGHT, after("process", 200, 100)], "did not flush the data TLB"),
    (
        "000-022",
        HOLDS,
        [
            EIGHT,
            after("process", 9_800, 9_700),
            after("process", 11_000, 10_900, half=4_700, pages=2048),
        ],
        "9.7 µs (at 1024 pages, interval 9.65 µs to 9.75 µs), noise floor 20 ns.",
    ),
    ("000-022", UNKNOWN, [EIGHT, after("process", 9_400, 9_380)], "spans 9.38 µs"),
    (
        "000-022",
        UNKNOWN,
        [
            EIGHT,
            after("process", 9_100, 9_000, half=200),
            after("process", 9_000, 8_900, half=1_000, pages=2048),
        ],
        "spans 9.38 µs: 8.9 µs (at 2048 pages, interval 7.9 µs to 9.9 µs)",
    ),
    (
        "000-022",
        UNKNOWN,
        [EIGHT, after("process", 9_100, 9_000), after("process", 20, 10, floor=9_500, seen=False, pages=64)],
        "−40 ns to 60 ns), noise floor 9.5 µs",
    ),
    (
        "000-022",
        UNKNOWN,
        [EIGHT, after("process", 20_000, 19_900, floor=20_000, seen=False)],
        "or the noise span one half",
    ),
    ("000-022", UNKNOWN, [EIGHT, after("process", 200, 100, floor=9_000)], "span one half"),
    ("000-022", UNKNOWN, [EIGHT, after("process", 5_000, 5_000, half=4_000)], "span one half"),
    ("000-022", UNKNOWN, [EIGHT], "no switch to another process"),
    ("000-022", UNKNOWN, [after("process", 200, 100)], "no loss either"),
]


def given_back(
    condition: str,
    call: float = 3_000,
    *,
    extra: float = 0,
    half: float = 50,
    interrupts: float = 0.005,
    stopped: float = NAN,
    around: float = 0.01,
    floor: float = 100.0,
) -> dict[str, Any]:
    """One row of `shootdown.calls`: medians, give or take a half of their intervals."""
    row: dict[str, Any] = {"condition": condition, "floor_ns": floor, "lost_ns": 8_000.0}
    for stem, unit, value, by in (
        ("call", "ns", call, half),
        ("extra", "ns", NAN if condition == "alone" else extra, half),
        ("interrupts", "per_call", interrupts, around),
        ("stopped", "share", stopped, around),
    ):
        row |= {f"{stem}_{unit}": value, f"{stem}_lo_{unit}": value - by, f"{stem}_hi_{unit}": value + by}
    return row | {"seen": abs(extra) - half > floor}


GIVER = given_back("alone")
RUNNING = given_back("threads", 15_000, extra=12_000, interrupts=1, stopped=0.99)
OTHER = given_back("process", stopped=0.01)
UNSEEN = given_back("threads", extra=20, interrupts=0.005, stopped=0.01)  # 64-bit Arm would be so
FEW = given_back("threads", 3_450, extra=450, interrupts=0.005, floor=390)  # it adds little more than noise
UNCOUNTED = RUNNING | {"interrupts_per_call": NAN}
ONE_TRIAL = {"interrupts_lo_per_call": -INFINITE, "interrupts_hi_per_call": INFINITE}
SHOOTDOWN: list[Case] = [
    ("give-back-same", HOLDS, [GIVER, UNSEEN], "3 µs while threads of the process run"),
    ("give-back-same", FAILS, [GIVER, RUNNING], "15 µs while threads of the process run"),
    ("give-back-same", FAILS, [GIVER, given_back("threads", 2_000, extra=-1_000)], "2 µs while threads of"),
    ("give-back-same", UNKNOWN, [GIVER, given_back("threads", extra=120)], "70 ns to 170 ns, meets"),
    ("give-back-same", UNKNOWN, [GIVER, given_back("threads", half=INFINITE)], "Too few trials"),
    ("give-back-same", UNKNOWN, [GIVER], "did not measure the condition threads"),
    ("give-back-notice", HOLDS, [UNSEEN, OTHER], "the process was stopped during 1.0% of the calls"),
    ("give-back-notice", FAILS, [RUNNING, OTHER], "during 99.0% of the calls, one of another during 1.0%."),
    ("give-back-notice", FAILS, [given_back("threads", stopped=0.27), OTHER], "during 27.0% of the calls"),
    ("give-back-notice", UNKNOWN, [RUNNING | {"stopped_lo_share": 0.0}, OTHER], "0.0% to 100.0% and 0.0% to"),
    (
        "give-back-notice",
        UNKNOWN,
        [given_back("threads", stopped=0.27), given_back("process", stopped=0.26)],
        "Something else may have",
    ),
    ("give-back-notice", UNKNOWN, [RUNNING, given_back("process", stopped=0.9)], "89.0% to 91.0% of"),
    ("give-back-notice", UNKNOWN, [given_back("threads"), OTHER], "No thread of the process ran"),
    ("shootdown-all", HOLDS, [RUNNING, given_back("process", interrupts=1)], "1 interrupts a call for a CPU"),
    ("shootdown-all", FAILS, [RUNNING, OTHER], "0.005 interrupts a call for a CPU with another process, 1"),
    ("shootdown-all", UNKNOWN, [RUNNING, given_back("process", interrupts=0.5)], "possible, 0.49 to 0.51:"),
    ("shootdown-all", UNKNOWN, [UNSEEN, OTHER], "no shootdown by interrupt"),
    ("shootdown-all", UNKNOWN, [UNCOUNTED, OTHER], "counts no shootdowns"),
    ("shootdown-all", UNKNOWN, [RUNNING | ONE_TRIAL, OTHER], "One trial"),
    ("shootdown-asleep", HOLDS, [RUNNING, given_back("asleep", 14_000, extra=11_000)], "14 µs with threads"),
    ("shootdown-asleep", FAILS, [RUNNING, given_back("asleep", 3_100, extra=100)], "3.1 µs with threads"),
    ("shootdown-asleep", UNKNOWN, [RUNNING, given_back("asleep", 9_000, extra=6_000)], "6.05 µs and"),
    ("shootdown-asleep", UNKNOWN, [FEW, given_back("asleep", extra=100, floor=390)], "with noise of 390 ns,"),
    ("shootdown-asleep", UNKNOWN, [FEW, given_back("asleep", extra=350, floor=390)], "300 ns to 400 ns and"),
    ("shootdown-asleep", UNKNOWN, [UNSEEN, given_back("asleep")], "dearer is not seen here."),
    ("shootdown-asleep", UNKNOWN, [RUNNING, given_back("asleep", half=INFINITE)], "Too few trials"),
    (
        "shootdown-each",
        HOLDS,
        [RUNNING, given_back("untouched", interrupts=1)],
        "1 interrupts a call for pages",
    ),
    ("shootdown-each", FAILS, [RUNNING, given_back("untouched")], "0.005 interrupts a call for pages"),
    ("shootdown-each", UNKNOWN, [RUNNING, given_back("untouched", interrupts=0.5)], "One half is possible"),
    ("shootdown-each", UNKNOWN, [UNSEEN, given_back("untouched")], "no shootdown by interrupt"),
]

CASES = [*REFERENCE, *LOOPS, *RING, *FPU, *TLB, *SHOOTDOWN]
