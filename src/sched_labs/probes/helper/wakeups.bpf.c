/* wakeups.bpf.c - the parts of a wake-up: from the decision to wake a thread until it has a CPU.
 *
 *   sched_waking   on the CPU of whoever wakes: it has been decided that the thread shall run
 *   sched_wakeup   the thread stands in a queue.  Where it goes to an idle CPU, or to one of another cache, that CPU
 *                  puts it there itself, when the message about it has arrived (ttwu_queue_cond() in core.c)
 *   sched_switch   it has the CPU
 *
 * Between them the thread's CPU may have been interrupted to tell it.  Where the waker only sends a message, that is
 * before sched_wakeup; where it puts the thread into the queue of a CPU that does something, that is after it; and a
 * CPU that polls, or sleeps until a word in memory changes (MWAIT), needs no interrupt.
 *
 * Each CPU keeps the wake-ups that end on it.  It begins with watched.bpf.h, and takes WAKES for each CPU besides.
 */

/* One thread that is being woken, found at its id modulo SLOTS. */
struct slot {
    u64 waking_ns, wakeup_ns; /* 0: not yet */
    u32 pid, waker_cpu;
};

struct wake {
    u64 waking_ns, interrupt_ns, wakeup_ns, switch_ns; /* interrupt_ns 0: none was seen */
    u32 pid, waker_cpu;
};

struct kept {
    u64 wakes, lost; /* lost: there was no room left */
};

BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, u64, interrupted, CPUS, BPF_F_MMAPABLE); /* when another CPU last interrupted this one */
BPF_F_TABLE("array", u32, struct kept, kept, CPUS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct wake, wakes, CPUS * WAKES, BPF_F_MMAPABLE);

static inline struct slot *slot_of(u32 pid)
{
    u32 index = pid & (SLOTS - 1);
    return slots.lookup(&index);
}

int on_interrupt(void *context)
{
    u32 cpu = bpf_get_smp_processor_id();
    u64 *last = interrupted.lookup(&cpu);
    if (last)
        *last = bpf_ktime_get_ns();
    return 0;
}

int on_waking(void *context)
{
    u64 task, tgid, pid, now = bpf_ktime_get_ns();
    ARGUMENT(task, 0);
    LOAD(tgid, 32, task, TGID_OFFSET);
    if (!is_watched(task, tgid) || !is_open(now))
        return 0;
    LOAD(pid, 32, task, PID_OFFSET);
    struct slot *slot = slot_of(pid);
    if (!slot)
        return 0;
    slot->pid = pid;
    slot->waker_cpu = bpf_get_smp_processor_id();
    slot->wakeup_ns = 0;
    slot->waking_ns = now;
    return 0;
}

int on_wakeup(void *context)
{
    u64 task, tgid, pid, now = bpf_ktime_get_ns();
    ARGUMENT(task, 0);
    LOAD(tgid, 32, task, TGID_OFFSET);
    if (!is_watched(task, tgid) || !is_open(now))
        return 0;
    LOAD(pid, 32, task, PID_OFFSET);
    struct slot *slot = slot_of(pid);
    if (slot && slot->pid == pid && slot->waking_ns)
        slot->wakeup_ns = now;
    return 0;
}

static inline void keep(struct slot *slot, u64 now)
{
    u32 cpu = bpf_get_smp_processor_id();
    struct kept *count = kept.lookup(&cpu);
    if (!count)
        return;
    u32 place = cpu * WAKES + (count->wakes & (WAKES - 1));
    struct wake *wake = count->wakes < WAKES ? wakes.lookup(&place) : 0;
    if (!wake) {
        count->lost++;
        return;
    }
    u64 *last = interrupted.lookup(&cpu);
    wake->waking_ns = slot->waking_ns;
    wake->interrupt_ns = last && *last > slot->waking_ns ? *last : 0;
    wake->wakeup_ns = slot->wakeup_ns;
    wake->switch_ns = now;
    wake->pid = slot->pid;
    wake->waker_cpu = slot->waker_cpu;
    count->wakes++;
}

int on_switch(void *context)
{
    u64 prev, next, prev_tgid, next_tgid, pid, now = bpf_ktime_get_ns();
    ARGUMENT(prev, 1);
    ARGUMENT(next, 2);
    LOAD(prev_tgid, 32, prev, TGID_OFFSET);
    LOAD(next_tgid, 32, next, TGID_OFFSET);
    if (!is_open(now))
        return 0;
    if (is_watched(prev, prev_tgid)) { /* who was woken while it still ran has not waited */
        LOAD(pid, 32, prev, PID_OFFSET);
        struct slot *slot = slot_of(pid);
        if (slot && slot->pid == pid && slot->wakeup_ns)
            slot->waking_ns = 0;
    }
    if (is_watched(next, next_tgid)) {
        LOAD(pid, 32, next, PID_OFFSET);
        struct slot *slot = slot_of(pid);
        if (slot && slot->pid == pid && slot->waking_ns && slot->wakeup_ns)
            keep(slot, now);
        if (slot && slot->pid == pid)
            slot->waking_ns = 0;
    }
    return 0;
}
