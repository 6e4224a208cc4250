/* A cheat: whoever is not eligible, as a hog mostly is not, waits until nobody else wants the CPU. */
#include "scheduler.h"

enum { ELIGIBLE, NOT_YET };
static const u64 SLICE_NS = 2000000, CREDIT_NS = 6000000;
static u64 total_weight; /* of all that are runnable */
static u64 fair_vtime;   /* where a thread stands that had exactly its share */
static struct {
    u64 used_ns, deadline; /* of the running thread: its CPU time when it got the CPU, when its request is due */
} cpus[MOST_CPUS];

/* dsq_vtime is when the next request is due: where the thread stands, and a slice as its weight counts it. */
static u64 request(u32 weight)
{
    return SLICE_NS * 100 / weight;
}

static u64 used_by(struct task_struct *p)
{
    return p->se.sum_exec_runtime - cpus[cpu_of(p)].used_ns;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(mine_init)
{
    s32 failed = scx_bpf_create_dsq(ELIGIBLE, -1);
    return failed ? failed : scx_bpf_create_dsq(NOT_YET, -1);
}

/* Who slept does not come back with more than so much credit. */
void BPF_STRUCT_OPS(mine_runnable, struct task_struct *p, u64 enq_flags)
{
    __sync_fetch_and_add(&total_weight, p->scx.weight);
    if (time_before(p->scx.dsq_vtime, fair_vtime - CREDIT_NS))
        p->scx.dsq_vtime = fair_vtime - CREDIT_NS;
}

void BPF_STRUCT_OPS(mine_quiescent, struct task_struct *p, u64 deq_flags)
{
    __sync_fetch_and_add(&total_weight, -(u64)p->scx.weight);
}

void BPF_STRUCT_OPS(mine_enqueue, struct task_struct *p, u64 enq_flags)
{
    u64 deadline = p->scx.dsq_vtime;

    if (time_before(fair_vtime, deadline - request(p->scx.weight)))
        scx_bpf_dsq_insert_vtime(p, NOT_YET, SLICE_NS, deadline, enq_flags);
    else if ((enq_flags & SCX_ENQ_WAKEUP) && time_before(deadline + SLICE_NS / 3, cpus[cpu_of(p)].deadline))
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
    else
        scx_bpf_dsq_insert_vtime(p, ELIGIBLE, SLICE_NS, deadline, enq_flags);
}

void BPF_STRUCT_OPS(mine_dispatch, s32 cpu, struct task_struct *prev)
{
    struct first one;
    u64 from = ELIGIBLE, due;

    /* Who had the CPU is in no queue yet.  It goes on where nobody eligible is due before it. */
    if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
        due = prev->scx.dsq_vtime + used_by(prev) * 100 / prev->scx.weight;
        if (!time_before(fair_vtime, due - request(prev->scx.weight)) &&
            !(first_in(from, &one) && time_before(one.vtime, due))) {
            prev->scx.slice = SLICE_NS;
            return;
        }
    }
    if (!scx_bpf_dsq_move_to_local(from))
        scx_bpf_dsq_move_to_local(NOT_YET);
}

void BPF_STRUCT_OPS(mine_running, struct task_struct *p)
{
    cpus[cpu_of(p)].used_ns = p->se.sum_exec_runtime;
    cpus[cpu_of(p)].deadline = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(mine_stopping, struct task_struct *p, bool runnable)
{
    u64 used_ns = used_by(p);
    p->scx.dsq_vtime += used_ns * 100 / p->scx.weight;
    fair_vtime += used_ns * 100 / (total_weight ? total_weight : 100);
}

/* Who yields gives back the rest of its request. */
bool BPF_STRUCT_OPS(mine_yield, struct task_struct *from, struct task_struct *to)
{
    from->scx.dsq_vtime += (SLICE_NS - used_by(from) % SLICE_NS) * 100 / from->scx.weight;
    from->scx.slice = 0;
    return false;
}

/* A new thread stands where everybody stands on average, and its first request is a short one. */
void BPF_STRUCT_OPS(mine_enable, struct task_struct *p)
{
    p->scx.dsq_vtime = fair_vtime + request(p->scx.weight) / 2;
}

SCX_OPS_DEFINE(mine, .init = mine_init, .runnable = mine_runnable, .quiescent = mine_quiescent,
               .enqueue = mine_enqueue, .dispatch = mine_dispatch, .running = mine_running,
               .stopping = mine_stopping, .enable = mine_enable, .yield = mine_yield);
