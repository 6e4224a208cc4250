/* timeline.bpf.c - who had which CPU when, and since when each watched thread could have had it.
 *
 * Every switch from or to a watched thread, or another one of the caller's, is a turn: from now on this thread has
 * this CPU.  The turn of a watched thread also says when it was being woken (sched_waking), by whom, and since when
 * it could run: since it stood in a queue (sched_wakeup), or since it was preempted.  Whoever had the CPU when an
 * interrupt woke a thread is taken for its waker: that the two differ cannot be seen from here.
 *
 * Each CPU keeps its last turns in a ring of pages.  The longest waits that end on it are kept with the page that
 * they end in and the page before, so that what had the CPU meanwhile is still known when the ring has gone round.
 *
 * It begins with watched.bpf.h, and takes COMM_OFFSET and FLAGS_OFFSET in task_struct and PAGES for each CPU (a
 * power of two) besides.  A thread of another user has neither number nor name, and a switch between two of them is
 * not kept.
 */

#define TURNS 128 /* on a page */
#define WORST 10  /* waits kept for each CPU */


struct turn {
    u64 at_ns, ready_ns, waking_ns; /* 0: not known, or not watched */
    u32 next, prev, state, waker;   /* the state is prev's */
    u64 name[2];                    /* next's */
};

struct page {
    struct turn of[TURNS];
};

/* `now_on`: one more than the thread that this CPU runs, as it may be told of; 0: not seen yet. */
struct spot {
    u64 turns, now_on;
    u64 least_ns; /* the shortest of the waits that are kept */
    u64 waits_ns[WORST];
};

struct worst {
    u64 waited_ns, turns; /* turns: how many this CPU had seen, with the one that ended the wait */
    struct page before, last;
};

/* One watched thread that is being woken, or waits. */
struct slot {
    u64 waking_ns, ready_ns;
    u32 pid, waker;
};

BPF_F_TABLE("array", u32, struct page, pages, CPUS * PAGES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct spot, spots, CPUS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct worst, worsts, CPUS * WORST, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);

static inline struct slot *slot_of(u32 pid)
{
    u32 index = pid & (SLOTS - 1);
    return slots.lookup(&index);
}

static inline struct spot *this_spot(void)
{
    u32 cpu = bpf_get_smp_processor_id();
    return spots.lookup(&cpu);
}

/* The number by which a thread may be told of: its own where it is watched, the caller's or the kernel's. */
static inline u32 told_as(u64 task, u64 pid, bool watched, bool callers)
{
    u64 flags;
    LOAD(flags, 32, task, FLAGS_OFFSET);
    return !pid || watched || callers || flags & 0x00200000 /* PF_KTHREAD */ ? pid : OTHERS;
}

/* The slot of a watched thread that something happens to while the window is open. */
static inline struct slot *watched_slot(u64 task, u64 *pid, u64 now)
{
    u64 tgid;
    LOAD(tgid, 32, task, TGID_OFFSET);
    if (!is_watched(task, tgid) || !is_open(now))
        return 0;
    LOAD(*pid, 32, task, PID_OFFSET);
    return slot_of(*pid);
}

static inline void begin_waking(struct slot *slot, u32 pid, u64 now)
{
    struct spot *spot = this_spot();
    slot->pid = pid;
    slot->waker = spot && spot->now_on ? spot->now_on - 1 : OTHERS;
    slot->ready_ns = 0;
    slot->waking_ns = now;
}

int on_waking(void *context)
{
    u64 task, pid, now = bpf_ktime_get_ns();
    ARGUMENT(task, 0);
    struct slot *slot = watched_slot(task, &pid, now);
    if (slot)
        begin_waking(slot, pid, now);
    return 0;
}

int on_wakeup(void *context)
{
    u64 task, pid, now = bpf_ktime_get_ns();
    ARGUMENT(task, 0);
    struct slot *slot = watched_slot(task, &pid, now);
    if (slot && slot->pid == pid && slot->waking_ns)
        slot->ready_ns = now;
    return 0;
}

/* A new thread: nobody has heard of its waking. */
int on_wakeup_new(void *context)
{
    u64 task, pid, now = bpf_ktime_get_ns();
    ARGUMENT(task, 0);
    struct slot *slot = watched_slot(task, &pid, now);
    if (slot) {
        begin_waking(slot, pid, now);
        slot->ready_ns = now;
    }
    return 0;
}

static inline void leave(u32 pid, u32 state, u64 now)
{
    struct slot *slot = slot_of(pid);
    if (!slot)
        return;
    if (state == RUNNABLE) {
        slot->pid = pid;
        slot->waker = OTHERS;
        slot->waking_ns = 0;
        slot->ready_ns = now;
    } else if (slot->pid == pid && slot->ready_ns) { /* woken while it still ran: it has not waited */
        slot->waking_ns = 0;
        slot->ready_ns = 0;
    }
}

/* A wait that is longer than the shortest one kept here takes its place. */
static inline void keep_worst(struct spot *spot, u64 waited, u64 place)
{
    u32 cpu = bpf_get_smp_processor_id(), which = 0;
#pragma unroll
    for (int i = WORST - 1; i >= 0; i--)
        if (spot->waits_ns[i] == spot->least_ns)
            which = i;
    if (which >= WORST)
        return;
    u32 number = cpu * WORST + which;
    struct worst *worst = worsts.lookup(&number);
    u32 here = cpu * PAGES + ((place / TURNS) & (PAGES - 1));
    u32 earlier = cpu * PAGES + ((place / TURNS - 1) & (PAGES - 1));
    struct page *last = pages.lookup(&here), *before = pages.lookup(&earlier);
    if (!worst || !last || !before)
        return;
    bpf_probe_read_kernel(&worst->last, sizeof worst->last, last);
    bpf_probe_read_kernel(&worst->before, sizeof worst->before, before);
    worst->waited_ns = waited;
    worst->turns = place + 1;
    spot->waits_ns[which] = waited;
    u64 least = waited;
#pragma unroll
    for (int i = 0; i < WORST; i++)
        if (spot->waits_ns[i] < least)
            least = spot->waits_ns[i];
    spot->least_ns = least;
}

int on_switch(void *context)
{
    u64 prev, next, prev_tgid, next_tgid, prev_pid, next_pid, now = bpf_ktime_get_ns();
    if (!is_open(now))
        return 0;
    ARGUMENT(prev, 1);
    ARGUMENT(next, 2);
    LOAD(prev_tgid, 32, prev, TGID_OFFSET);
    LOAD(next_tgid, 32, next, TGID_OFFSET);
    LOAD(prev_pid, 32, prev, PID_OFFSET);
    LOAD(next_pid, 32, next, PID_OFFSET);
    bool leaves = is_watched(prev, prev_tgid), enters = is_watched(next, next_tgid);
    bool from = is_callers(prev), to = is_callers(next);
    struct spot *spot = this_spot();
    if (!spot)
        return 0;
    u32 told = told_as(next, next_pid, enters, to);
    spot->now_on = (u64)told + 1;
    if (!leaves && !enters && !from && !to)
        return 0;
    u32 kind = about_to(context, prev);
    if (leaves)
        leave(prev_pid, kind, now);
    u64 place = spot->turns;
    u32 here = bpf_get_smp_processor_id() * PAGES + ((place / TURNS) & (PAGES - 1));
    struct page *page = pages.lookup(&here);
    if (!page)
        return 0;
    struct turn *turn = &page->of[place & (TURNS - 1)];
    turn->at_ns = now;
    turn->ready_ns = 0;
    turn->waking_ns = 0;
    turn->waker = OTHERS;
    turn->next = told;
    turn->prev = told_as(prev, prev_pid, leaves, from);
    turn->state = kind;
    turn->name[0] = turn->name[1] = 0;
    if (told != OTHERS) {
        u64 part;
        LOAD(part, 64, next, COMM_OFFSET);
        turn->name[0] = part;
        LOAD(part, 64, next, COMM_OFFSET + 8);
        turn->name[1] = part;
    }
    spot->turns = place + 1;
    struct slot *slot = enters ? slot_of(next_pid) : 0;
    if (!slot || slot->pid != (u32)next_pid || !slot->ready_ns)
        return 0;
    u64 waited = now - slot->ready_ns;
    turn->ready_ns = slot->ready_ns;
    turn->waking_ns = slot->waking_ns;
    turn->waker = slot->waker;
    slot->ready_ns = 0;
    slot->waking_ns = 0;
    if ((s64)waited > 0 && waited > spot->least_ns) /* the clocks of two CPUs may disagree by a little */
        keep_worst(spot, waited, place);
    return 0;
}
