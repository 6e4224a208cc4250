#include "scheduler.h"
/* Puts threads into a queue that dispatch never looks into. */
s32 BPF_STRUCT_OPS_SLEEPABLE(forgets_init) { return scx_bpf_create_dsq(1, -1); }
void BPF_STRUCT_OPS(forgets_enqueue, struct task_struct *p, u64 enq_flags)
{
    if (p->comm[0] == 'h' && p->comm[1] == 'o' && p->comm[4] == '2')
        scx_bpf_dsq_insert(p, 1, SCX_SLICE_DFL, enq_flags);
    else
        scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(forgets, .init = forgets_init, .enqueue = forgets_enqueue);
