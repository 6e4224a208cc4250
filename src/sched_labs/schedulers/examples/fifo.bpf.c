/* First come, first served: one queue, in the order of arrival, and 20 ms for everybody. */
#include "scheduler.h"

enum { EVERYBODY = 0 }; /* the number of our queue */

s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init)
{
    return scx_bpf_create_dsq(EVERYBODY, -1);
}

/* A thread is ready: to the end of the queue with it. */
void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
    scx_bpf_dsq_insert(p, EVERYBODY, SCX_SLICE_DFL, enq_flags);
}

/* A CPU has nothing to do: it gets who stands at the head. */
void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
    scx_bpf_dsq_move_to_local(EVERYBODY);
}

SCX_OPS_DEFINE(fifo, .init = fifo_init, .enqueue = fifo_enqueue, .dispatch = fifo_dispatch);
