#include "scheduler.h"
void BPF_STRUCT_OPS(divides_running, struct task_struct *p)
{
    p->scx.slice = p->pid / 3;
}
SCX_OPS_DEFINE(divides, .running = divides_running);
