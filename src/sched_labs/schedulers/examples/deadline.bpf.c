/* Eligible and deadline, a small EEVDF: of those who have had no more than their share, whose request is due first?
 * A request is a slice of CPU time; dsq_vtime is when it is due: where the thread stands, and a slice further. */
#include "scheduler.h"

enum { EVERYBODY = 0 };
static const u64 SLICE_NS = 3000000, LONG_NS = 1000000000;
static u64 fair_vtime; /* where a thread stands that has had exactly its share: the average, by weight */

s32 BPF_STRUCT_OPS_SLEEPABLE(deadline_init)
{
    return scx_bpf_create_dsq(EVERYBODY, -1);
}

void BPF_STRUCT_OPS(deadline_stopping, struct task_struct *p, bool runnable)
{
    p->scx.dsq_vtime += newly_used_ns(p) * 100 / p->scx.weight;
}

/* Nobody saves up more than one request.  Who wakes with half of one saved takes the CPU at once. */
void BPF_STRUCT_OPS(deadline_enqueue, struct task_struct *p, u64 enq_flags)
{
    if (time_before(p->scx.dsq_vtime, fair_vtime))
        p->scx.dsq_vtime = fair_vtime;
    if ((enq_flags & SCX_ENQ_WAKEUP) && time_before(p->scx.dsq_vtime, fair_vtime + SLICE_NS / 2))
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
    else
        scx_bpf_dsq_insert_vtime(p, EVERYBODY, SLICE_NS, p->scx.dsq_vtime, enq_flags);
}

/* The first in the order of deadlines who is eligible; without one, the thread that had the CPU goes on. */
void BPF_STRUCT_OPS(deadline_dispatch, s32 cpu, struct task_struct *prev)
{
    bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
    u64 weight = 0, sum = 0, long_ago = fair_vtime - LONG_NS;
    if (goes_on) {
        _deadline_stopping(prev, true);
        weight = prev->scx.weight;
        sum = weight * (prev->scx.dsq_vtime - long_ago) - SLICE_NS * 100;
    }
    for_each_queued(p, EVERYBODY) {
        weight += p->scx.weight;
        sum += p->scx.weight * (p->scx.dsq_vtime - long_ago) - SLICE_NS * 100;
    }
    if (weight)
        fair_vtime = long_ago + sum / weight + 1; /* rounded up: somebody always is eligible */
    for_each_queued(p, EVERYBODY)
        if (!time_before(fair_vtime, p->scx.dsq_vtime - SLICE_NS * 100 / p->scx.weight) && move_to_local(p))
            return;
    if (goes_on)
        prev->scx.slice = SLICE_NS;
}

SCX_OPS_DEFINE(deadline, .init = deadline_init, .enqueue = deadline_enqueue, .dispatch = deadline_dispatch,
               .stopping = deadline_stopping);
