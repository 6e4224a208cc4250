#include "scheduler.h"
s32 BPF_STRUCT_OPS(not_sleepable_init) { return scx_bpf_create_dsq(1, -1); }
SCX_OPS_DEFINE(not_sleepable, .init = not_sleepable_init);
