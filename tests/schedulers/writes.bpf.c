#include "scheduler.h"
void BPF_STRUCT_OPS(writes_running, struct task_struct *p)
{
    p->scx.weight = 10000;
}
SCX_OPS_DEFINE(writes, .running = writes_running);
