#include "scheduler.h"
extern void scx_bpf_be_fair(struct task_struct *p) KFUNC;
void BPF_STRUCT_OPS(no_function_running, struct task_struct *p)
{
    scx_bpf_be_fair(p);
}
SCX_OPS_DEFINE(no_function, .running = no_function_running);
