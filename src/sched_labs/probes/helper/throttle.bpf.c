/* throttle.bpf.c - when the CPU quota of a control group held back its run queues, CPU by CPU.
 *
 * A group has a run queue on each CPU, and `cfs_rq.throttle_count` there is above zero while the group's own limit,
 * or that of a group around it, holds it back.  At every switch on a CPU the program looks at the queue of the
 * watched thread that ran there last.  It sees a throttling begin when that thread is taken off the CPU, or with the
 * next switch there where the group had no thread on it; it sees it end when the group's first thread comes back.
 *
 * Every table is an array, and each CPU writes its own part only.  It begins with watched.bpf.h,
 * and takes GROUP_QUEUE_OFFSET, THROTTLE_COUNT_OFFSET, and SPANS for each CPU besides.
 */

struct spot {
    u64 queue;    /* of the watched thread that ran here last; 0: none has */
    u64 since_ns; /* throttled since then; 0: it is not */
    u64 kept, lost; /* spans, and those for which there was no room */
};

struct span {
    u64 begin_ns, end_ns;
};

BPF_F_TABLE("array", u32, struct spot, spots, CPUS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct span, spans, CPUS * SPANS, BPF_F_MMAPABLE);

static inline void keep(struct spot *spot, u32 cpu, u64 begin, u64 end)
{
    u32 place = cpu * SPANS + (spot->kept & (SPANS - 1));
    struct span *span = spot->kept < SPANS ? spans.lookup(&place) : 0;
    if (!span) {
        spot->lost++;
        return;
    }
    span->begin_ns = begin;
    span->end_ns = end;
    spot->kept++;
}

int on_switch(void *context)
{
    u64 prev, next, prev_tgid, next_tgid, queue;
    u32 cpu = bpf_get_smp_processor_id(), count = 0;
    u64 now = bpf_ktime_get_ns();
    struct spot *spot = spots.lookup(&cpu);
    if (!spot || !is_open(now))
        return 0;
    ARGUMENT(prev, 1);
    ARGUMENT(next, 2);
    LOAD(prev_tgid, 32, prev, TGID_OFFSET);
    LOAD(next_tgid, 32, next, TGID_OFFSET);
    if (is_watched(next, next_tgid)) {
        LOAD(queue, 64, next, GROUP_QUEUE_OFFSET);
        spot->queue = queue;
    } else if (is_watched(prev, prev_tgid)) {
        LOAD(queue, 64, prev, GROUP_QUEUE_OFFSET);
        spot->queue = queue;
    }
    /* The group may have gone meanwhile: such a read fails, or finds a number, and never does harm. */
    if (!spot->queue || bpf_probe_read_kernel(&count, sizeof count, (void *)(spot->queue + THROTTLE_COUNT_OFFSET)))
        return 0;
    if (count) {
        if (!spot->since_ns)
            spot->since_ns = now;
    } else if (spot->since_ns) {
        keep(spot, cpu, spot->since_ns, now);
        spot->since_ns = 0;
    }
    return 0;
}
