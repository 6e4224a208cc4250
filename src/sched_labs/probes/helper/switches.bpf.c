/* switches.bpf.c - who takes the CPU after whom, and where in the kernel threads leave it.
 *
 * Every switch from or to a watched thread is an edge (edges.bpf.h).  With STACKS, every time that a watched
 * thread leaves its CPU also counts under the kernel functions that it left in, and so does the time until it has a
 * CPU again.  For a thread that slept that time has two parts: until it was woken (sched_wakeup) it was asleep, and
 * from then on it waited for a CPU.  A sleep also counts under the thread that ended it (sched_waking), with the
 * functions that this one was in: an interrupt shows there.  Of another user's thread neither number nor functions
 * are kept.
 *
 * Each CPU has tables of its own, found by a hash; so no two CPUs write the same place, except for the time off
 * the CPU, which is added atomically where the thread went away.  It begins with watched.bpf.h and edges.bpf.h.
 */

#define PLACES 512
#define FRAMES 24

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

#ifdef STACKS
BPF_F_TABLE("array", u32, struct place, places, CPUS * PLACES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);
/* One more entry for each CPU, because a stack of this size has no room on the program's own. */
BPF_TABLE("array", u32, struct place, drafts, CPUS);
BPF_F_TABLE("array", u32, struct waker, wakers, CPUS * PLACES, BPF_F_MMAPABLE);
BPF_TABLE("array", u32, struct waker, notes, CPUS);

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
    u64 prev, next, prev_tgid, next_tgid, prev_pid, next_pid;
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
    u32 kind = about_to(context, prev), cpu = bpf_get_smp_processor_id();
    count_edge(cpu, prev, next, told_as(prev, prev_pid, leaves), told_as(next, next_pid, enters), kind);
#ifdef STACKS
    if (enters)
        come_back(next_pid, now);
    if (leaves)
        leave(context, prev, prev_pid, kind, now);
#endif
    return 0;
}
