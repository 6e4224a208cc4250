/* Eligible and deadline, a small EEVDF: among those who have not had their share, whose request is due first?
 *
 * The kernel looks at all waiting threads at every decision.  Here eligibility is looked at when a thread is queued,
 * and of those who were not eligible then, only the first is looked at again.
 */
#include "scheduler.h"

enum { ELIGIBLE, NOT_YET, MOST_CPUS = 64 };
static const u64 SLICE_NS = 3000000;
static u64 total_weight; /* of all that are runnable */
static u64 fair_vtime;   /* where a thread stands that had exactly its share */
static struct {
    u64 used_ns, deadline; /* of the running thread: its CPU time when it got the CPU, when its request is due */
} cpus[MOST_CPUS];

static bool before(u64 a, u64 b)
{
    return (s64)(a - b) < 0;
}

static u32 cpu_of(struct task_struct *p)
{
    return (u32)scx_bpf_task_cpu(p) % MOST_CPUS;
}

/* dsq_vtime is when the next request is due: where the thread stands, and a slice as its weight counts it. */
static u64 request(u32 weight)
{
    return SLICE_NS * 100 / weight;
}

static u64 used_by(struct task_struct *p)
{
    return p->se.sum_exec_runtime - cpus[cpu_of(p)].used_ns;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(deadline_init)
{
    s32 failed = scx_bpf_create_dsq(ELIGIBLE, -1);
    return failed ? failed : scx_bpf_create_dsq(NOT_YET, -1);
}

/* Who slept does not come back with more than one request's worth of credit. */
void BPF_STRUCT_OPS(deadline_runnable, struct task_struct *p, u64 enq_flags)
{
    __sync_fetch_and_add(&total_weight, p->scx.weight);
    if (before(p->scx.dsq_vtime, fair_vtime))
        p->scx.dsq_vtime = fair_vtime;
}

void BPF_STRUCT_OPS(deadline_quiescent, struct task_struct *p, u64 deq_flags)
{
    __sync_fetch_and_add(&total_weight, -(u64)p->scx.weight);
}

void BPF_STRUCT_OPS(deadline_enqueue, struct task_struct *p, u64 enq_flags)
{
    u64 deadline = p->scx.dsq_vtime;

    if (before(fair_vtime, deadline - request(p->scx.weight)))
        scx_bpf_dsq_insert_vtime(p, NOT_YET, SLICE_NS, deadline, enq_flags);
    else if ((enq_flags & SCX_ENQ_WAKEUP) && before(deadline, cpus[cpu_of(p)].deadline))
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
    else
        scx_bpf_dsq_insert_vtime(p, ELIGIBLE, SLICE_NS, deadline, enq_flags);
}

void BPF_STRUCT_OPS(deadline_dispatch, s32 cpu, struct task_struct *prev)
{
    struct first one, other;
    u64 from = ELIGIBLE, due;

    /* Has the time come of who was not eligible, and is its request due before all others? */
    if (first_in(NOT_YET, &one) && !before(fair_vtime, one.vtime - request(one.weight)) &&
        !(first_in(ELIGIBLE, &other) && before(other.vtime, one.vtime)))
        from = NOT_YET;
    /* Who had the CPU is in no queue yet.  It goes on where nobody eligible is due before it. */
    if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
        due = prev->scx.dsq_vtime + used_by(prev) * 100 / prev->scx.weight;
        if (!before(fair_vtime, due - request(prev->scx.weight)) &&
            !(first_in(from, &one) && before(one.vtime, due))) {
            prev->scx.slice = SLICE_NS;
            return;
        }
    }
    if (!scx_bpf_dsq_move_to_local(from))
        scx_bpf_dsq_move_to_local(NOT_YET);
}

void BPF_STRUCT_OPS(deadline_running, struct task_struct *p)
{
    cpus[cpu_of(p)].used_ns = p->se.sum_exec_runtime;
    cpus[cpu_of(p)].deadline = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(deadline_stopping, struct task_struct *p, bool runnable)
{
    u64 used_ns = used_by(p);
    p->scx.dsq_vtime += used_ns * 100 / p->scx.weight;
    fair_vtime += used_ns * 100 / (total_weight ? total_weight : 100);
}

/* Who yields gives back the rest of its request. */
bool BPF_STRUCT_OPS(deadline_yield, struct task_struct *from, struct task_struct *to)
{
    from->scx.dsq_vtime += (SLICE_NS - used_by(from) % SLICE_NS) * 100 / from->scx.weight;
    from->scx.slice = 0;
    return false;
}

/* A new thread stands where everybody stands on average, and its first request is a short one. */
void BPF_STRUCT_OPS(deadline_enable, struct task_struct *p)
{
    p->scx.dsq_vtime = fair_vtime + request(p->scx.weight) / 2;
}

SCX_OPS_DEFINE(deadline, .init = deadline_init, .runnable = deadline_runnable, .quiescent = deadline_quiescent,
               .enqueue = deadline_enqueue, .dispatch = deadline_dispatch, .running = deadline_running,
               .stopping = deadline_stopping, .enable = deadline_enable, .yield = deadline_yield);
