/* edges.bpf.h - who takes the CPU after whom: a part of those probes that are asked for it.
 *
 * Every switch from or to a watched thread is an edge: from one thread to another, with what the first one was
 * about to do: go on (it was preempted, or it yielded), sleep, or sleep where no signal wakes it.  A second program
 * at the same tracepoint would cost more than all of this: so it is told from the one that is there.
 *
 * Each CPU has a table of its own with EDGES entries, found by a hash.  It takes COMM_OFFSET and FLAGS_OFFSET in
 * task_struct.  A thread of another user has neither number nor name.
 */

#define TRIES 8
#define SCRAMBLE 0x9e3779b97f4a7c15ULL

struct edge {
    u32 prev, next, state, used;
    u64 switches;
    u64 prev_name[2], next_name[2];
    u64 unused; /* so that it lies in one cache line */
};

struct lost {
    u64 edges, places; /* switches without an edge, departures without a place: the tables are full */
};

BPF_F_TABLE("array", u32, struct edge, edges, CPUS * EDGES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct lost, losts, CPUS, BPF_F_MMAPABLE);

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

static inline void count_edge(u32 cpu, u64 prev_task, u64 next_task, u32 prev, u32 next, u32 state)
{
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
