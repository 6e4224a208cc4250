#include "scheduler.h"
void BPF_STRUCT_OPS(drops_enqueue, struct task_struct *p, u64 enq_flags)
{
}
SCX_OPS_DEFINE(drops, .enqueue = drops_enqueue);
