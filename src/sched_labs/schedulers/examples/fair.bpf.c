/* Weighted virtual time, a small CFS: who has had least of what it is entitled to runs next. */
#include "scheduler.h"

enum { EVERYBODY = 0 };
static const u64 SLICE_NS = 3000000;
static u64 now_vtime; /* where the last thread stood that got a CPU */

/* dsq_vtime is where a thread stands: with twice the weight, its time passes half as fast. */
static void charge(struct task_struct *p)
{
    p->scx.dsq_vtime += newly_used_ns(p) * 100 / p->scx.weight;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fair_init)
{
    return scx_bpf_create_dsq(EVERYBODY, -1);
}

/* Who slept long must not have saved up the CPU time of all that while: one slice at most. */
void BPF_STRUCT_OPS(fair_enqueue, struct task_struct *p, u64 enq_flags)
{
    u64 vtime = p->scx.dsq_vtime;
    if ((enq_flags & SCX_ENQ_WAKEUP) && time_before(vtime, now_vtime - SLICE_NS))
        vtime = now_vtime - SLICE_NS;
    scx_bpf_dsq_insert_vtime(p, EVERYBODY, SLICE_NS, vtime, enq_flags);
}

/* Who had the CPU is in no queue yet.  It goes on while it still stands before everybody else. */
void BPF_STRUCT_OPS(fair_dispatch, s32 cpu, struct task_struct *prev)
{
    struct first next;
    if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
        charge(prev);
        if (first_in(EVERYBODY, &next) && time_before(prev->scx.dsq_vtime, next.vtime)) {
            prev->scx.slice = SLICE_NS;
            return;
        }
    }
    scx_bpf_dsq_move_to_local(EVERYBODY);
}

void BPF_STRUCT_OPS(fair_running, struct task_struct *p)
{
    if (time_before(now_vtime, p->scx.dsq_vtime))
        now_vtime = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(fair_stopping, struct task_struct *p, bool runnable)
{
    charge(p);
}

void BPF_STRUCT_OPS(fair_enable, struct task_struct *p)
{
    p->scx.dsq_vtime = now_vtime;
}

SCX_OPS_DEFINE(fair, .init = fair_init, .enqueue = fair_enqueue, .dispatch = fair_dispatch,
               .running = fair_running, .stopping = fair_stopping, .enable = fair_enable);
