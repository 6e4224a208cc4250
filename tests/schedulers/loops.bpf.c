#include "scheduler.h"
static volatile u64 turns;
void BPF_STRUCT_OPS(loops_enqueue, struct task_struct *p, u64 enq_flags)
{
    while (turns != 7)
        turns++;
    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(loops, .enqueue = loops_enqueue);
