#include "scheduler.h"
void BPF_STRUCT_OPS(no_queue_enqueue, struct task_struct *p, u64 enq_flags)
{
    scx_bpf_dsq_insert(p, 77, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(no_queue, .enqueue = no_queue_enqueue);
