/* recorder.h - writes down what happens while the workload runs: who wakes, into which queue, who gets the CPU.
 *
 * Every scheduler is compiled with it, and so is the empty file that the kernel's own scheduler is recorded with:
 * both pay the same for being watched.  When the record is full the rest is only counted.
 */
enum what { WOKE = 1, QUEUED = 2, SWITCHED = 3 };
enum { RECORDS = 16384 };

struct record {
    u64 time_ns;
    u64 queue;     /* QUEUED: the DSQ; SWITCHED: whether the thread before is still runnable */
    u64 slice_ns;  /* QUEUED: for how long */
    u64 vtime;     /* QUEUED: in which order, 0 for that of arrival */
    u32 what;
    s32 cpu;
    s32 pid;
    s32 before;    /* SWITCHED: who had the CPU */
    char comm[16]; /* of pid */
};

struct {
    u64 on;
    u64 count; /* of 64 bits: clang 14 forgets what an atomic addition of 32 bits returns */
    struct record records[RECORDS];
} recorder SEC(".bss.recorder");

static u32 (*const _cpu)(void) = (void *)8;

_INLINE struct record *_write_down(u32 what, struct task_struct *p)
{
    if (!recorder.on)
        return 0;
    u64 place = __sync_fetch_and_add(&recorder.count, 1);
    if (place >= RECORDS)
        return 0;
    struct record *one = &recorder.records[place];
    one->time_ns = bpf_ktime_get_ns();
    one->what = what;
    one->cpu = _cpu();
    one->pid = p->pid;
    for (int i = 0; i < 16; i++)
        one->comm[i] = p->comm[i];
    return one;
}

_INLINE void _queued(struct task_struct *p, u64 queue, u64 slice_ns, u64 vtime)
{
    struct record *one = _write_down(QUEUED, p);
    if (one) {
        one->queue = queue;
        one->slice_ns = slice_ns;
        one->vtime = vtime;
    }
}

_INLINE void _insert(struct task_struct *p, u64 queue, u64 slice_ns, u64 flags)
{
    _queued(p, queue, slice_ns, 0);
    scx_bpf_dsq_insert(p, queue, slice_ns, flags);
}

_INLINE void _insert_vtime(struct task_struct *p, u64 queue, u64 slice_ns, u64 vtime, u64 flags)
{
    _queued(p, queue, slice_ns, vtime);
    scx_bpf_dsq_insert_vtime(p, queue, slice_ns, vtime, flags);
}

#define scx_bpf_dsq_insert _insert
#define scx_bpf_dsq_insert_vtime _insert_vtime

SEC("tp_btf/sched_wakeup") int _woke(u64 *ctx)
{
    _write_down(WOKE, (void *)ctx[0]);
    return 0;
}

SEC("tp_btf/sched_wakeup_new") int _woke_new(u64 *ctx)
{
    _write_down(WOKE, (void *)ctx[0]);
    return 0;
}

/* preempt, before, next, the state of the one before: 0 while it is runnable */
SEC("tp_btf/sched_switch") int _switched(u64 *ctx)
{
    struct record *one = _write_down(SWITCHED, (void *)ctx[2]);
    if (one) {
        struct task_struct *before = (void *)ctx[1];
        one->before = before->pid;
        one->queue = (u32)ctx[3] == 0;
    }
    return 0;
}
