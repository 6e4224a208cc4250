#include "scheduler.h"
void BPF_STRUCT_OPS(says_so_running, struct task_struct *p)
{
    if (p->comm[0] == 'h' && p->comm[1] == 'o')
        scx_bpf_error("a hog has come");
}
SCX_OPS_DEFINE(says_so, .running = says_so_running);
