#include "scheduler.h"
void BPF_STRUCT_OPS(wrong_place_running, struct task_struct *p)
{
    scx_bpf_dsq_move_to_local(1);
}
SCX_OPS_DEFINE(wrong_place, .running = wrong_place_running);
