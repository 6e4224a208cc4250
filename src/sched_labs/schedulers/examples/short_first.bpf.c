/* It knows its workload: some threads have little to do at a time and are waited for, the others compute all day.
 *
 * dsq_vtime is ours to use: here it holds how long the thread usually computes before it sleeps.
 */
#include "scheduler.h"

enum { LONG = 0 };
static const u64 SHORT_NS = 1000000, SLICE_NS = 10000000;

s32 BPF_STRUCT_OPS_SLEEPABLE(short_first_init)
{
    return scx_bpf_create_dsq(LONG, -1);
}

void BPF_STRUCT_OPS(short_first_enqueue, struct task_struct *p, u64 enq_flags)
{
    if ((enq_flags & SCX_ENQ_WAKEUP) && p->scx.dsq_vtime < SHORT_NS)
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SHORT_NS, enq_flags | SCX_ENQ_PREEMPT);
    else
        scx_bpf_dsq_insert(p, LONG, SLICE_NS, enq_flags);
}

void BPF_STRUCT_OPS(short_first_dispatch, s32 cpu, struct task_struct *prev)
{
    scx_bpf_dsq_move_to_local(LONG);
}

/* A quarter of what it did now, three quarters of what it used to do. */
void BPF_STRUCT_OPS(short_first_stopping, struct task_struct *p, bool runnable)
{
    p->scx.dsq_vtime = (3 * p->scx.dsq_vtime + newly_used_ns(p)) / 4;
}

SCX_OPS_DEFINE(short_first, .init = short_first_init, .enqueue = short_first_enqueue,
               .dispatch = short_first_dispatch, .stopping = short_first_stopping);
