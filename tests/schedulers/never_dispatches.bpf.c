#include "scheduler.h"
s32 BPF_STRUCT_OPS_SLEEPABLE(never_init) { return scx_bpf_create_dsq(1, -1); }
void BPF_STRUCT_OPS(never_enqueue, struct task_struct *p, u64 enq_flags)
{
    scx_bpf_dsq_insert(p, 1, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(never, .init = never_init, .enqueue = never_enqueue);
