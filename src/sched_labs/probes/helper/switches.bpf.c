/* switches.bpf.c - who takes the CPU after whom, and where in the kernel threads leave it.
 *
 * Every switch from or to a watched thread is an edge: from one thread to another, with what the first one was
 * about to do: go on (it was preempted, or it yielded), sleep, or sleep where no signal wakes it.  With STACKS,
 * every time that a watched thread leaves its CPU also counts under the kernel functions that it left in, and so
 * does the time until it has a CPU again.  For a thread that slept that time has two parts: until it was woken
 * (sched_wakeup) it was asleep, and from then on it waited for a CPU.  A sleep also counts under the thread that
 * ended it (sched_waking), with the functions that this one was in: an interrupt shows there.  Of another user's
 * thread neither number nor functions are kept.
 *
 * Each CPU has tables of its own, found by a hash; so no two CPUs write the same place, except for the time off
 * the CPU, which is added atomically where the thread went away.  It begins with watched.bpf.h, and takes
 * COMM_OFFSET and FLAGS_OFFSET in task_struct besides.  A thread of another user has neither number nor name.
 */

#define EDGES 4096 /* for each CPU */
#define PLACES 512
#define FRAMES 24
#define TRIES 8
#define SCRAMBLE 0x9e3779b97f4a7c15ULL

enum { RUNNABLE, INTERRUPTIBLE, UNINTERRUPTIBLE, OTHER };

struct edge {
    u32 prev, next, state, used;
    u64 switches;
    u64 prev_name[2], next_name[2];
};

struct lost {
    u64 edges, places; /* switches without an edge, departures without a place: the tables are full */
};

/* Kernel functions that a thread left its CPU in. */
struct place {
    u64 hash; /* 0: free */
    u32 pid, state;
    u64 times, off_ns;
    u64 waited_ns; /* of off_ns: it could run, and had no CPU */
    u64 name[2];
    u64 frames[FRAMES];
};

/* Who ended sleeps at a place, and in which functions. */
struct waker {
    u64 hash; /* 0: free */
    u32 pid, place;
    u64 times, slept_ns;
    u64 name[2];
    u64 frames[FRAMES];
};

/* One thread that is off its CPU, found at its id modulo SLOTS. */
struct slot {
    u64 left_ns, woken_ns; /* 0: it has not */
    u32 pid, place;
};

BPF_F_TABLE("array", u32, struct edge, edges, CPUS * EDGES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct lost, losts, CPUS, BPF_F_MMAPABLE);
#ifdef STACKS
BPF_F_TABLE("array", u32, struct place, places, CPUS * PLACES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);
/* One more entry for each CPU, because a stack of this size has no room on the program's own. */
BPF_TABLE("array", u32, struct place, drafts, CPUS);
BPF_F_TABLE("array", u32, struct waker, wakers, CPUS * PLACES, BPF_F_MMAPABLE);
BPF_TABLE("array", u32, struct waker, notes, CPUS);
#endif

/* The number by which a thread may be told of: its own where it is watched, the caller's or the kernel's. */
static inline u32 told_as(u64 task, u64 pid, bool watched)
{
    u64 flags;
    LOAD(flags, 32, task, FLAGS_OFFSET);
    return !pid || watched || flags & 0x00200000 /* PF_KTHREAD */ || is_callers(task) ? pid : OTHERS;
}

static inline void name(u64 to[2], u64 task, u32 told)
{
    u64 part;
    if (told == OTHERS)
        return;
    LOAD(part, 64, task, COMM_OFFSET);
    to[0] = part;
    LOAD(part, 64, task, COMM_OFFSET + 8);
    to[1] = part;
}

static inline void count_edge(u64 prev_task, u64 next_task, u32 prev, u32 next, u32 state)
{
    u32 cpu = bpf_get_smp_processor_id();
    u32 home = ((((u64)prev << 32 | next) * 4 + state) * SCRAMBLE) >> 40;
#pragma unroll
    for (int i = 0; i < TRIES; i++) {
        u32 place = cpu * EDGES + ((home + i) & (EDGES - 1));
        struct edge *edge = edges.lookup(&place);
        if (!edge)
            return;
        if (!edge->used) {
            edge->prev = prev;
            edge->next = next;
            edge->state = state;
            name(edge->prev_name, prev_task, prev);
            name(edge->next_name, next_task, next);
            edge->used = 1;
        }
        if (edge->prev == prev && edge->next == next && edge->state == state) {
            edge->switches++;
            return;
        }
    }
    struct lost *lost = losts.lookup(&cpu);
    if (lost)
        lost->edges++;
}

#ifdef STACKS
static inline void leave(void *context, u64 task, u32 pid, u32 state, u64 now)
{
    u32 cpu = bpf_get_smp_processor_id();
    struct place *draft = drafts.lookup(&cpu);
    u32 index = pid & (SLOTS - 1);
    struct slot *slot = slots.lookup(&index);
    if (!draft || !slot)
        return;
    slot->left_ns = 0;
    int bytes = bpf_get_stack(context, draft->frames, sizeof draft->frames, 0);
    u64 hash = (u64)pid * 4 + state + 1;
#pragma unroll
    for (int i = 0; i < FRAMES; i++) {
        if (8 * i >= bytes)
            draft->frames[i] = 0;
        hash = (hash ^ draft->frames[i]) * SCRAMBLE;
    }
    hash |= 1;
    u32 home = hash >> 40;
#pragma unroll
    for (int i = 0; i < TRIES; i++) {
        u32 number = cpu * PLACES + ((home + i) & (PLACES - 1));
        struct place *place = places.lookup(&number);
        if (!place)
            return;
        if (!place->hash) {
            place->pid = pid;
            place->state = state;
            name(place->name, task, pid);
            __builtin_memcpy(place->frames, draft->frames, sizeof place->frames);
            place->hash = hash;
        }
        if (place->hash == hash) {
            place->times++;
            slot->pid = pid;
            slot->place = number;
            slot->woken_ns = state == RUNNABLE ? now : 0;
            slot->left_ns = now;
            return;
        }
    }
    struct lost *lost = losts.lookup(&cpu);
    if (lost)
        lost->places++;
}

static inline void come_back(u32 pid, u64 now)
{
    u32 index = pid & (SLOTS - 1);
    struct slot *slot = slots.lookup(&index);
    if (!slot || slot->pid != pid || !slot->left_ns)
        return;
    u64 off = now - slot->left_ns, waited = slot->woken_ns ? now - slot->woken_ns : 0;
    u32 number = slot->place;
    slot->left_ns = 0;
    struct place *place = places.lookup(&number);
    if (!place || (s64)off <= 0)
        return;
    __sync_fetch_and_add(&place->off_ns, off);
    if ((s64)waited > 0) /* the clocks of two CPUs may disagree by a little */
        __sync_fetch_and_add(&place->waited_ns, waited < off ? waited : off);
}

static inline u32 read_field(u64 from, u32 offset)
{
    u32 value = 0;
    bpf_probe_read_kernel(&value, sizeof value, (void *)(from + offset));
    return value;
}

/* The number by which the running thread may be told of; of an idle one 0. */
static inline u32 current_as(void)
{
    u64 task = bpf_get_current_task(), cred = 0, both = bpf_get_current_pid_tgid();
    struct window *window = the_window();
    u32 tgid = both >> 32, row = tgid >> 6;
    struct marks *marks = watched.lookup(&row);
    if (!window)
        return OTHERS;
    if (!(u32)both || window->owner >> 32 || (marks && marks->of[tgid & 63]) ||
        read_field(task, FLAGS_OFFSET) & 0x00200000 /* PF_KTHREAD */)
        return both;
    bpf_probe_read_kernel(&cred, sizeof cred, (void *)(task + CRED_OFFSET));
    bool callers = read_field(cred, UID_OFFSET) == window->owner && read_field(cred, EUID_OFFSET) == window->owner &&
                   read_field(cred, SUID_OFFSET) == window->owner;
    return callers ? (u32)both : OTHERS;
}

static inline void note_waker(void *context, struct slot *slot, u64 slept)
{
    u32 cpu = bpf_get_smp_processor_id(), pid = current_as();
    struct waker *note = notes.lookup(&cpu);
    if (!note)
        return;
    int bytes = pid == OTHERS ? 0 : bpf_get_stack(context, note->frames, sizeof note->frames, 0);
    u64 hash = (u64)pid << 32 | (slot->place + 1);
#pragma unroll
    for (int i = 0; i < FRAMES; i++) {
        if (8 * i >= bytes)
            note->frames[i] = 0;
        hash = (hash ^ note->frames[i]) * SCRAMBLE;
    }
    hash |= 1;
    u32 home = hash >> 40;
#pragma unroll
    for (int i = 0; i < TRIES; i++) {
        u32 number = cpu * PLACES + ((home + i) & (PLACES - 1));
        struct waker *waker = wakers.lookup(&number);
        if (!waker)
            return;
        if (!waker->hash) {
            waker->pid = pid;
            waker->place = slot->place;
            if (pid != OTHERS)
                bpf_get_current_comm(waker->name, sizeof waker->name);
            __builtin_memcpy(waker->frames, note->frames, sizeof waker->frames);
            waker->hash = hash;
        }
        if (waker->hash == hash) {
            waker->times++;
            waker->slept_ns += slept;
            return;
        }
    }
    struct lost *lost = losts.lookup(&cpu);
    if (lost)
        lost->places++;
}

int on_waking(void *context)
{
    u64 task, tgid, pid, now = bpf_ktime_get_ns();
    ARGUMENT(task, 0);
    LOAD(tgid, 32, task, TGID_OFFSET);
    if (!is_watched(task, tgid) || !is_open(now))
        return 0;
    LOAD(pid, 32, task, PID_OFFSET);
    u32 index = pid & (SLOTS - 1);
    struct slot *slot = slots.lookup(&index);
    if (slot && slot->pid == pid && slot->left_ns && !slot->woken_ns && now > slot->left_ns)
        note_waker(context, slot, now - slot->left_ns);
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
    u32 index = pid & (SLOTS - 1);
    struct slot *slot = slots.lookup(&index);
    if (slot && slot->pid == pid && slot->left_ns && !slot->woken_ns)
        slot->woken_ns = now;
    return 0;
}
#endif

int on_switch(void *context)
{
    u64 prev, next, prev_tgid, next_tgid, prev_pid, next_pid, preempted, state;
    ARGUMENT(prev, 1);
    ARGUMENT(next, 2);
    LOAD(prev_tgid, 32, prev, TGID_OFFSET);
    LOAD(next_tgid, 32, next, TGID_OFFSET);
    bool leaves = is_watched(prev, prev_tgid), enters = is_watched(next, next_tgid);
    if (!leaves && !enters)
        return 0;
    u64 now = bpf_ktime_get_ns();
    if (!is_open(now))
        return 0;
    LOAD(prev_pid, 32, prev, PID_OFFSET);
    LOAD(next_pid, 32, next, PID_OFFSET);
    ARGUMENT(preempted, 0);
#ifdef PREV_STATE_ARGUMENT
    ARGUMENT(state, PREV_STATE_ARGUMENT);
    state = (u32)state;
#else
    LOAD(state, STATE_BITS, prev, STATE_OFFSET);
#endif
    u32 kind = OTHER;
    if ((preempted & 1) || !state)
        kind = RUNNABLE;
    else if (state & 1 || state & 0x400 /* TASK_NOLOAD: an idle thread of the kernel */)
        kind = INTERRUPTIBLE;
    else if (state & 2)
        kind = UNINTERRUPTIBLE;
    count_edge(prev, next, told_as(prev, prev_pid, leaves), told_as(next, next_pid, enters), kind);
#ifdef STACKS
    if (enters)
        come_back(next_pid, now);
    if (leaves)
        leave(context, prev, prev_pid, kind, now);
#endif
    return 0;
}
