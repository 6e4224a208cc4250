"""The formulas, each with the statements of the literature that give both its inputs and its outcome."""

from __future__ import annotations

from .base import Calculator, Case, Input, Quantity

# A statement is two lines: who says what; what goes into the formula, and what is said to come out.
# fmt: off

refill = Calculator(
    "refill",
    "Filling a cache again",
    "lines = working set / line; time = lines × cycles per line / clock",
    (
        Input("working_set_kib", "working set", "KiB", 256, 1, 65_536),
        Input("line_bytes", "cache line", "bytes", 64, 16, 256),
        Input("cycles_per_line", "cycles to fetch a line", "cycles", 12, 1, 1_000),
        Input("clock_ghz", "clock", "GHz", 3.2, 0.5, 6),
    ),
    (
        Quantity("lines", "lines to fetch", "lines"),
        Quantity("cycles", "cycles, one line after the other", "cycles"),
        Quantity("time_us", "time", "µs"),
    ),
    lambda working_set_kib, line_bytes, cycles_per_line, clock_ghz: (
        (lines := working_set_kib * 1024 / line_bytes),
        lines * cycles_per_line,
        lines * cycles_per_line / clock_ghz / 1e3,
    ),
    (
        Case("000-036", "A working set of 256 KB means 64,000 misses in L1.",
             {"working_set_kib": 256}, "lines", 64_000),
        Case("000-037", "At 12 cycles each that is 768,000 cycles: 240 µs at 3.2 GHz.",
             {"working_set_kib": 256, "cycles_per_line": 12, "clock_ghz": 3.2}, "time_us", 240),
        Case("000-026", "400 misses of the last-level cache at 200 cycles are 80,000 cycles.",
             {"working_set_kib": 400 * 64 / 1024, "cycles_per_line": 200}, "cycles", 80_000),
    ),
)

time_of = Calculator(
    "time_of",
    "From cycles to time",
    "time = cycles / clock",
    (
        Input("cycles", "cycles", "cycles", 160_000, 10, 10_000_000),
        Input("clock_ghz", "clock", "GHz", 3.2, 0.5, 6),
    ),
    (Quantity("time_us", "time", "µs"),),
    lambda cycles, clock_ghz: (cycles / clock_ghz / 1e3,),
    (
        Case("000-021", "Six steps of a switch take 1,340 cycles in all: 0.4 µs.",
             {"cycles": 1_340}, "time_us", 0.4),
        Case("000-018", "The text beside the same figure of 1,340 cycles says 4 µs.",
             {"cycles": 1_340}, "time_us", 4),
        Case("000-022", "Refilling takes 160,000 cycles: 50 µs.",
             {"cycles": 160_000}, "time_us", 50),
        Case("000-022", "The text beside the same figure of 160,000 cycles says 80 µs.",
             {"cycles": 160_000}, "time_us", 80),
    ),
)

switch_share = Calculator(
    "switch_share",
    "What a rate of events costs",
    "CPU time per second = rate × cost; share = that / CPUs",
    (
        Input("rate_per_s", "events per second, all CPUs", "1/s", 312_000, 1, 10_000_000),
        Input("cost_us", "cost of one", "µs", 240, 0.1, 10_000),
        Input("cpus", "CPUs", "CPUs", 32, 1, 512),
    ),
    (
        Quantity("cpu_ms_per_s", "CPU time per second", "ms/s"),
        Quantity("share_percent", "share of all CPUs", "%", 100),
        Quantity("every_us", "one event per CPU every", "µs"),
    ),
    lambda rate_per_s, cost_us, cpus: (
        rate_per_s * cost_us / 1e3,
        rate_per_s * cost_us / 1e6 / cpus * 100,
        cpus / rate_per_s * 1e6,
    ),
    (
        Case("000-038", "312,000 switches a second at 240 µs are 75 CPU-seconds a second.",
             {"rate_per_s": 312_000, "cost_us": 240, "cpus": 32}, "cpu_ms_per_s", 75_000),
        Case("000-038", "They are 23 % of 32 cores.",
             {"rate_per_s": 312_000, "cost_us": 240, "cpus": 32}, "share_percent", 23),
        Case("000-065", "A time slice of 80 µs means 12,500 switches a second on a core.",
             {"rate_per_s": 12_500, "cost_us": 1, "cpus": 1}, "every_us", 80),
        Case("000-076", "Ten interrupts a second of 62 µs on each of 16 cores are 9.9 ms a second.",
             {"rate_per_s": 160, "cost_us": 62, "cpus": 16}, "cpu_ms_per_s", 9.9),
        Case("000-076", "The same machine isolates CPUs 2 to 15, which are 14.",
             {"rate_per_s": 140, "cost_us": 62, "cpus": 14}, "cpu_ms_per_s", 9.9),
        Case("002-026", "16 CPUs switching every 50 µs leave 25,809 events in 10 s.",
             {"rate_per_s": 25_809 / 10, "cost_us": 50, "cpus": 16}, "every_us", 50),
    ),
)

implied_cost = Calculator(
    "implied_cost",
    "What one event would have to cost",
    "loss = 1 - after / before; cost = loss / rate on one CPU",
    (
        Input("before", "instructions per cycle before", "", 2.4, 0.1, 8),
        Input("after", "instructions per cycle after", "", 1.1, 0.1, 8),
        Input("rate_per_cpu_s", "switches per second and CPU", "1/s", 12_500, 1, 1_000_000),
    ),
    (
        Quantity("loss_percent", "cycles lost", "%", 100),
        Quantity("cost_us", "cost of one switch, if switches cause it all", "µs"),
    ),
    lambda before, after, rate_per_cpu_s: (
        (loss := 1 - after / before) * 100,
        loss / rate_per_cpu_s * 1e6,
    ),
    (
        Case("000-135", "IPC from 2.0 to 1.4 means that 30 % of the cycles are lost.",
             {"before": 2.0, "after": 1.4}, "loss_percent", 30),
    ),
)

tax = Calculator(
    "tax",
    "What switching adds to two runs",
    "tax = both together - 2 × one alone",
    (
        Input("alone_gcycles", "one alone", "G cycles", 5.82, 0.01, 1_000),
        Input("together_gcycles", "both, switching", "G cycles", 17.26, 0.01, 1_000),
        Input("switches", "switches", "", 80_402, 1, 10_000_000),
        Input("clock_ghz", "clock", "GHz", 3.2, 0.5, 6),
    ),
    (
        Quantity("tax_gcycles", "tax", "G cycles"),
        Quantity("share_percent", "share of the run", "%", 100),
        Quantity("per_switch_us", "per switch, everything that it brings included", "µs"),
    ),
    lambda alone_gcycles, together_gcycles, switches, clock_ghz: (
        (extra := together_gcycles - 2 * alone_gcycles),
        extra / together_gcycles * 100,
        extra * 1e6 / switches / clock_ghz,
    ),
    (
        Case("000-051", "The gap of 11.4 G cycles between the runs is all warm-up.",
             {}, "tax_gcycles", 11.4),
        Case("000-052", "Warm-up takes 71 % of the budget.",
             {}, "share_percent", 71),
    ),
)

per_work = Calculator(
    "per_work",
    "Per unit of work",
    "factor per unit of work = ratio of the counts / ratio of the work",
    (
        Input("ratio", "one run counted so many times the other", "times", 34, 0.1, 1_000),
        Input("work_ratio", "and did so many times its work", "times", 2, 0.1, 100),
    ),
    (Quantity("factor", "factor per unit of work", "times"),),
    lambda ratio, work_ratio: (ratio / work_ratio,),
    (
        Case("000-050", "Switching multiplies the L1 misses by 34.",
             {"ratio": 34}, "factor", 34),
        Case("000-050", "It multiplies the misses of the last-level cache by 81.",
             {"ratio": 81}, "factor", 81),
        Case("000-132", "Expect up to 80 times as many misses.",
             {"ratio": 80}, "factor", 80),
        Case("004-036", "Coroutines gain half: 1.5 times the "
             "throughput. (The CPUs went from 80 to 98 % busy.)",
             {"ratio": 1.5, "work_ratio": 98 / 80}, "factor", 1.5),
    ),
)

utilisation = Calculator(
    "utilisation",
    "Utilisation after a change of load",
    "utilisation = rate × cycles per request / capacity; cycles per request grow as IPC falls",
    (
        Input("before_percent", "utilisation before", "%", 18, 0.1, 100),
        Input("load_ratio", "load, times as much", "times", 22, 0.1, 1_000),
        Input("ipc_before", "instructions per cycle before", "", 2.3, 0.1, 8),
        Input("ipc_after", "instructions per cycle after", "", 0.9, 0.1, 8),
    ),
    (
        Quantity("after_percent", "utilisation after", "%", 100),
        Quantity("machines", "machines for that", ""),
    ),
    lambda before_percent, load_ratio, ipc_before, ipc_after: (
        (after := before_percent * load_ratio * ipc_before / ipc_after),
        after / 100,
    ),
    (
        Case("000-002", "Load rose 22 times and IPC fell from 2.3 to 0.9; "
             "CPU utilisation rose from 18 to 64 %.",
             {}, "after_percent", 64),
        Case("002-001", "Orders went from 200 to 38,000 a second while the CPUs stayed 35 % busy.",
             {"before_percent": 35, "load_ratio": 190, "ipc_before": 1, "ipc_after": 1}, "after_percent", 35),
    ),
)

per_cpu = Calculator(
    "per_cpu",
    "A rate on each CPU",
    "rate on a CPU = sources / interval / CPUs",
    (
        Input("sources", "sources", "", 1_800_000, 1, 100_000_000),
        Input("interval_s", "each reports every", "s", 5, 0.001, 3_600),
        Input("cpus", "CPUs", "CPUs", 64, 1, 512),
    ),
    (Quantity("rate_per_s", "events per second and CPU", "1/s"),),
    lambda sources, interval_s, cpus: (sources / interval_s / cpus,),
    (
        Case("000-083", "1.8 million partners who report every 5 s "
             "make 5,600 wake-ups a second on each of 64 cores.",
             {}, "rate_per_s", 5_600),
    ),
)

exhaustion = Calculator(
    "exhaustion",
    "How long a quota lasts",
    "time = quota / min(threads, CPUs)",
    (
        Input("quota_ms", "quota", "ms", 100, 1, 10_000),
        Input("period_ms", "period", "ms", 100, 1, 1_000),
        Input("threads", "threads that never sleep", "", 16, 1, 512),
        Input("cpus", "CPUs", "CPUs", 4, 1, 512),
    ),
    (
        Quantity("lasts_ms", "the quota lasts", "ms"),
        Quantity("stands_ms", "then all stand for", "ms"),
    ),
    lambda quota_ms, period_ms, threads, cpus: (
        (lasts := quota_ms / min(threads, cpus)),
        max(0.0, period_ms - lasts),
    ),
    (
        Case("002-095", "16 threads on 4 cores use up 100 ms in 6.25 ms.",
             {}, "lasts_ms", 6.25),
        Case("002-092", "With a quota of half a CPU a thread may stand for up to 50 ms.",
             {"quota_ms": 50, "threads": 1}, "stands_ms", 50),
    ),
)

turn = Calculator(
    "turn",
    "Waiting for one's turn",
    "wait = (threads on the CPU - 1) × slice",
    (
        Input("threads", "threads that never sleep", "", 200, 1, 10_000),
        Input("cpus", "CPUs", "CPUs", 32, 1, 512),
        Input("slice_ms", "slice", "ms", 4, 0.1, 100),
    ),
    (
        Quantity("threads_per_cpu", "threads on each CPU", ""),
        Quantity("wait_ms", "wait for the next turn", "ms"),
        Quantity("round_ms", "a round", "ms"),
    ),
    lambda threads, cpus, slice_ms: (
        (share := threads / cpus),
        max(0.0, share - 1) * slice_ms,
        share * slice_ms,
    ),
    (
        Case("002-057", "200 encoder threads on 32 CPUs wait 800 ms for their turn.",
             {}, "wait_ms", 800),
        Case("000-111", "100 threads with slices of 3 ms make a round of 300 ms.",
             {"threads": 100, "cpus": 1, "slice_ms": 3}, "round_ms", 300),
        Case("002-030", "Four threads a CPU with slices of 1.5 ms wait 4.5 ms.",
             {"threads": 64, "cpus": 16, "slice_ms": 1.5}, "wait_ms", 4.5),
    ),
)

_ALL = (refill, time_of, switch_share, implied_cost, tax, per_work, utilisation, per_cpu, exhaustion, turn)
CALCULATORS = {each.name: each for each in _ALL}
