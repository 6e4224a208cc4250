/* switches.bpf.c - who takes the CPU after whom, and where in the kernel threads leave it.
 *
 * Every switch from or to a watched thread is an edge: from one thread to another, with what the first one was
 * about to do: go on (it was preempted, or it yielded), sleep, or sleep where no signal wakes it.  With STACKS,
 * every time that a watched thread leaves its CPU also counts under the kernel functions that it left in, and so
 * does the time until it has a CPU again.
 *
 * Each CPU has tables of its own, found by a hash; so no two CPUs write the same place, except for the time off
 * the CPU, which is added atomically where the thread went away.  The defines are those of runqlat.bpf.c, and
 * COMM_OFFSET.
 */

#define PIDS (1 << 22)
#define EDGES 4096 /* for each CPU */
#define PLACES 512
#define FRAMES 24
#define TRIES 8
#define SCRAMBLE 0x9e3779b97f4a7c15ULL

enum { RUNNABLE, INTERRUPTIBLE, UNINTERRUPTIBLE, OTHER };

struct window {
    u64 open_ns, close_ns;
};

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
    u64 name[2];
    u64 frames[FRAMES];
};

/* One thread that is off its CPU, found at its id modulo SLOTS. */
struct slot {
    u64 left_ns;
    u32 pid, place;
};

BPF_F_TABLE("array", u32, u64, watched, PIDS / 64, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct window, windows, 1, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct edge, edges, CPUS * EDGES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct lost, losts, CPUS, BPF_F_MMAPABLE);
#ifdef STACKS
BPF_F_TABLE("array", u32, struct place, places, CPUS * PLACES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);
/* One more entry for each CPU, because a stack of this size has no room on the program's own. */
BPF_TABLE("array", u32, struct place, drafts, CPUS);
#endif

#define LOAD_(to, bits, from, offset) \
    asm volatile("%0 = *(u" #bits " *)(%1 + %2)" : "=r"(to) : "r"(from), "i"(offset))
#define LOAD(to, bits, from, offset) LOAD_(to, bits, from, offset)
#define ARGUMENT(to, number) LOAD(to, 64, context, 8 * (number))

static inline bool is_watched(u32 tgid)
{
#ifdef WATCH_ALL
    return tgid != 0;
#else
    u32 word = tgid >> 6;
    u64 *bits = watched.lookup(&word);
    return bits && (*bits >> (tgid & 63) & 1);
#endif
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
            u64 part;
            edge->prev = prev;
            edge->next = next;
            edge->state = state;
            LOAD(part, 64, prev_task, COMM_OFFSET);
            edge->prev_name[0] = part;
            LOAD(part, 64, prev_task, COMM_OFFSET + 8);
            edge->prev_name[1] = part;
            LOAD(part, 64, next_task, COMM_OFFSET);
            edge->next_name[0] = part;
            LOAD(part, 64, next_task, COMM_OFFSET + 8);
            edge->next_name[1] = part;
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
            u64 part;
            place->pid = pid;
            place->state = state;
            LOAD(part, 64, task, COMM_OFFSET);
            place->name[0] = part;
            LOAD(part, 64, task, COMM_OFFSET + 8);
            place->name[1] = part;
            __builtin_memcpy(place->frames, draft->frames, sizeof place->frames);
            place->hash = hash;
        }
        if (place->hash == hash) {
            place->times++;
            slot->pid = pid;
            slot->place = number;
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
    u64 off = now - slot->left_ns;
    u32 number = slot->place;
    slot->left_ns = 0;
    struct place *place = places.lookup(&number);
    if (place && (s64)off > 0)
        __sync_fetch_and_add(&place->off_ns, off);
}
#endif

int on_switch(void *context)
{
    u64 prev, next, prev_tgid, next_tgid, prev_pid, next_pid, preempted, state;
    ARGUMENT(prev, 1);
    ARGUMENT(next, 2);
    LOAD(prev_tgid, 32, prev, TGID_OFFSET);
    LOAD(next_tgid, 32, next, TGID_OFFSET);
    bool leaves = is_watched(prev_tgid), enters = is_watched(next_tgid);
    if (!leaves && !enters)
        return 0;
    u64 now = bpf_ktime_get_ns();
    u32 first = 0;
    struct window *window = windows.lookup(&first);
    if (!window || now < window->open_ns || now >= window->close_ns)
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
    count_edge(prev, next, prev_pid, next_pid, kind);
#ifdef STACKS
    if (enters)
        come_back(next_pid, now);
    if (leaves)
        leave(context, prev, prev_pid, kind, now);
#endif
    return 0;
}
