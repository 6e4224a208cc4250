#include "scheduler.h"
static u64 counted[8];
void BPF_STRUCT_OPS(index_running, struct task_struct *p)
{
    counted[p->pid]++;
}
SCX_OPS_DEFINE(index_, .running = index_running);
