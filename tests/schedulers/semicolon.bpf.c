#include "scheduler.h"
void BPF_STRUCT_OPS(semicolon_enqueue, struct task_struct *p, u64 enq_flags)
{
    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags)
}
SCX_OPS_DEFINE(semicolon, .enqueue = semicolon_enqueue);
