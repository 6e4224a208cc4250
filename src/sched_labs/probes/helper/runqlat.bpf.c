/* runqlat.bpf.c - how long runnable threads of some processes wait for a CPU.
 *
 * A wait begins when a thread becomes runnable without a CPU: it is woken (sched_wakeup, sched_wakeup_new), or
 * it is taken off its CPU while it could go on (sched_switch away from a thread that was preempted or yielded:
 * R and R+ in a trace).  It ends when the thread is switched in.  A wait counts when it begins and ends inside
 * the window, and when the *waiting* thread belongs to a watched process; who woke it does not matter.
 *
 * Every table is an array, because looking a thread up in a hash map is most of what such a probe costs.  The
 * helper maps the arrays into its memory: it opens the window and reads the counts without a system call.
 *
 * The programs are attached to the tracepoints with their BTF types.  So a field of a task is one load, at an
 * offset that the kernel itself checks when it loads the program.  The helper finds these in the kernel's BTF:
 *   PID_OFFSET, TGID_OFFSET         in task_struct
 *   PREV_STATE_ARGUMENT, or STATE_OFFSET and STATE_BITS         the state of the thread that leaves its CPU
 * and chooses SLOTS (a power of two) and CPUS (the possible ones).  BIN_BITS and TOP_BIT lay out the bins.
 */

#define BINS ((TOP_BIT - BIN_BITS + 1) << BIN_BITS)
#define PIDS (1 << 22) /* the kernel's own limit on process ids */

enum { WOKEN, PREEMPTED, CAUSES };

/* One thread, found at its id modulo SLOTS; `pid` tells whose the slot is. */
struct slot {
    u64 begin_ns; /* 0: it is not waiting */
    u32 pid;
    u32 cause;
};

struct window {
    u64 open_ns, close_ns;
};

/* Each CPU adds to counts of its own; tracepoints of the scheduler run with interrupts off. */
struct counts {
    u64 waits[CAUSES][BINS];
    u64 collided; /* starts lost because another thread needed the slot */
    u64 missed;   /* a thread that we know was switched in, and nothing had told us that it waits */
    u64 unseen;   /* a thread was switched in for the first time: its wait began before the window */
    u64 backward; /* the wait ended before it began: the clocks of two CPUs disagree */
};

BPF_F_TABLE("array", u32, u64, watched, PIDS / 64, BPF_F_MMAPABLE); /* one bit for each process */
BPF_F_TABLE("array", u32, struct window, windows, 1, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct counts, cpus, CPUS, BPF_F_MMAPABLE);

/* One load from a kernel object or from the arguments of a tracepoint.  It is written as an instruction,
 * because BCC would turn a plain load into a call, which takes several times as long. */
#define LOAD_(to, bits, from, offset) \
    asm volatile("%0 = *(u" #bits " *)(%1 + %2)" : "=r"(to) : "r"(from), "i"(offset))
#define LOAD(to, bits, from, offset) LOAD_(to, bits, from, offset)
#define ARGUMENT(to, number) LOAD(to, 64, context, 8 * (number))

static inline bool is_watched(u32 tgid)
{
    u32 word = tgid >> 6;
    u64 *bits = watched.lookup(&word);
    return bits && (*bits >> (tgid & 63) & 1);
}

static inline struct slot *slot_of(u32 pid)
{
    u32 index = pid & (SLOTS - 1);
    return slots.lookup(&index);
}

static inline struct counts *our_counts(void)
{
    u32 cpu = bpf_get_smp_processor_id();
    return cpus.lookup(&cpu);
}

/* The compiler may not look through it: older verifiers know the bounds of a number only when the very
 * register that was compared is used afterwards, all 64 bits of it. */
#define OPAQUE(number) asm volatile("" : "+r"(number))

/* 2^BIN_BITS bins of equal width in each power of two, one nanosecond wide at the bottom. */
static inline u64 bin_of(u64 ns)
{
    u64 top = 0, rest = ns >> BIN_BITS;
#define HALVE(bits)         \
    if (rest >> bits) {     \
        top += bits;        \
        rest >>= bits;      \
    }
    HALVE(32) HALVE(16) HALVE(8) HALVE(4) HALVE(2) HALVE(1)
    top += rest; /* how many of its bits are above the lowest BIN_BITS */
    u64 bin = (top << BIN_BITS) + ((top ? ns >> (top - 1) : ns) & ((1 << BIN_BITS) - 1));
    OPAQUE(bin);
    if (bin >= BINS)
        bin = BINS - 1;
    OPAQUE(bin);
    return bin;
}

static inline void begin_wait(u32 pid, u32 cause, u64 now)
{
    struct slot *slot = slot_of(pid);
    if (!slot)
        return;
    if (slot->pid != pid) {
        if (slot->begin_ns) {
            struct counts *counts = our_counts();
            if (counts)
                counts->collided++;
        }
    } else if (cause == WOKEN && slot->begin_ns) {
        return; /* it waits already: to wake a runnable thread changes nothing */
    }
    slot->begin_ns = now;
    slot->cause = cause;
    slot->pid = pid;
}

static inline void end_wait(u32 pid, u64 now)
{
    struct slot *slot = slot_of(pid);
    struct counts *counts = our_counts();
    if (!slot || !counts)
        return;
    if (slot->pid != pid) {
        counts->unseen++;
        if (!slot->begin_ns)
            slot->pid = pid;
        return;
    }
    u64 begin = slot->begin_ns;
    slot->begin_ns = 0;
    if (!begin) {
        counts->missed++;
    } else if (now < begin) {
        counts->backward++;
    } else {
        counts->waits[slot->cause & 1][bin_of(now - begin)]++;
    }
}

/* The thread leaves its CPU to sleep.  Somebody may have woken it while it still ran; that was no wait. */
static inline void forget_wait(u32 pid)
{
    struct slot *slot = slot_of(pid);
    if (slot && slot->pid == pid && slot->begin_ns)
        slot->begin_ns = 0;
}

static inline bool is_open(u64 now)
{
    u32 first = 0;
    struct window *window = windows.lookup(&first);
    return window && now >= window->open_ns && now < window->close_ns;
}

static inline int woken(void *context)
{
    u64 task, tgid, pid;
    ARGUMENT(task, 0);
    LOAD(tgid, 32, task, TGID_OFFSET);
    if (!is_watched(tgid))
        return 0;
    u64 now = bpf_ktime_get_ns();
    if (!is_open(now))
        return 0;
    LOAD(pid, 32, task, PID_OFFSET);
    begin_wait(pid, WOKEN, now);
    return 0;
}

int on_wakeup(void *context)
{
    return woken(context);
}

int on_wakeup_new(void *context)
{
    return woken(context);
}

int on_switch(void *context)
{
    u64 prev, next, prev_tgid, next_tgid, pid;
    ARGUMENT(prev, 1);
    ARGUMENT(next, 2);
    LOAD(prev_tgid, 32, prev, TGID_OFFSET);
    LOAD(next_tgid, 32, next, TGID_OFFSET);
    bool enters = is_watched(next_tgid);
    bool leaves = prev_tgid == next_tgid ? enters : is_watched(prev_tgid);
    if (!enters && !leaves)
        return 0;
    u64 now = bpf_ktime_get_ns();
    if (!is_open(now))
        return 0;
    if (enters) {
        LOAD(pid, 32, next, PID_OFFSET);
        end_wait(pid, now);
    }
    if (leaves) {
        u64 preempted, state;
        ARGUMENT(preempted, 0);
#ifdef PREV_STATE_ARGUMENT
        ARGUMENT(state, PREV_STATE_ARGUMENT);
        state = (u32)state;
#else
        LOAD(state, STATE_BITS, prev, STATE_OFFSET);
#endif
        LOAD(pid, 32, prev, PID_OFFSET);
        if ((preempted & 1) || !state)
            begin_wait(pid, PREEMPTED, now);
        else
            forget_wait(pid);
    }
    return 0;
}
