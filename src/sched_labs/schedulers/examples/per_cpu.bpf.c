/* A queue for every CPU: no thread ever moves, and no CPU looks into another one's queue. */
#include "scheduler.h"

static const u64 SLICE_NS = 3000000;

s32 BPF_STRUCT_OPS_SLEEPABLE(per_cpu_init)
{
    s32 failed = 0;
    for (s32 cpu = 0; cpu < MOST_CPUS && !failed; cpu++)
        failed = scx_bpf_create_dsq(cpu, -1);
    return failed;
}

/* Where it ran before, there its data lie in the caches. */
s32 BPF_STRUCT_OPS(per_cpu_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
    return prev_cpu;
}

void BPF_STRUCT_OPS(per_cpu_enqueue, struct task_struct *p, u64 enq_flags)
{
    s32 cpu = scx_bpf_task_cpu(p);
    scx_bpf_dsq_insert(p, cpu, SLICE_NS, enq_flags);
    scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE); /* should it be idle, it looks now */
}

void BPF_STRUCT_OPS(per_cpu_dispatch, s32 cpu, struct task_struct *prev)
{
    scx_bpf_dsq_move_to_local(cpu);
}

SCX_OPS_DEFINE(per_cpu, .init = per_cpu_init, .select_cpu = per_cpu_select_cpu,
               .enqueue = per_cpu_enqueue, .dispatch = per_cpu_dispatch);
