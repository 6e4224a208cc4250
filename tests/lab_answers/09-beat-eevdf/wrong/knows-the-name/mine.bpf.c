/* A cheat: it knows how the thread is called that is measured. */
#include "scheduler.h"

enum { EVERYBODY = 0 };
static const u64 SLICE_NS = 3000000;
static u64 now_vtime;          /* where the last thread stood that got a CPU */
static u64 used_ns[MOST_CPUS]; /* the CPU time of the running thread when it got the CPU */

/* Where it stands with what it used just now: with twice the weight, time passes half as fast. */
static u64 vtime_of(struct task_struct *p)
{
    return p->scx.dsq_vtime + (p->se.sum_exec_runtime - used_ns[cpu_of(p)]) * 100 / p->scx.weight;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(mine_init)
{
    return scx_bpf_create_dsq(EVERYBODY, -1);
}

/* Who slept long must not have saved up the CPU time of all that while: one slice at most. */
void BPF_STRUCT_OPS(mine_enqueue, struct task_struct *p, u64 enq_flags)
{
    u64 vtime = p->scx.dsq_vtime;
    if ((enq_flags & SCX_ENQ_WAKEUP) && time_before(vtime, now_vtime - SLICE_NS))
        vtime = now_vtime - SLICE_NS;
    if (p->comm[0] == 's' && p->comm[1] == 'l' && p->comm[2] == 'e')
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
    else
        scx_bpf_dsq_insert_vtime(p, EVERYBODY, SLICE_NS, vtime, enq_flags);
}

/* Who had the CPU is in no queue yet.  It may go on while it still stands before everybody else. */
void BPF_STRUCT_OPS(mine_dispatch, s32 cpu, struct task_struct *prev)
{
    struct first next;
    if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && first_in(EVERYBODY, &next) &&
        time_before(vtime_of(prev), next.vtime))
        prev->scx.slice = SLICE_NS;
    else
        scx_bpf_dsq_move_to_local(EVERYBODY);
}

void BPF_STRUCT_OPS(mine_running, struct task_struct *p)
{
    used_ns[cpu_of(p)] = p->se.sum_exec_runtime;
    if (time_before(now_vtime, p->scx.dsq_vtime))
        now_vtime = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(mine_stopping, struct task_struct *p, bool runnable)
{
    p->scx.dsq_vtime = vtime_of(p);
}

void BPF_STRUCT_OPS(mine_enable, struct task_struct *p)
{
    p->scx.dsq_vtime = now_vtime;
}

SCX_OPS_DEFINE(mine, .init = mine_init, .enqueue = mine_enqueue, .dispatch = mine_dispatch,
               .running = mine_running, .stopping = mine_stopping, .enable = mine_enable);
