/* watched.bpf.h - what every probe begins with: who is watched, when, and of whom it may tell.
 *
 * The programs are attached to tracepoints with their BTF types.  So a field of a task is one load, at an offset
 * that the kernel itself checks when it loads the program.  The helper finds these in the kernel's BTF:
 *   PID_OFFSET, TGID_OFFSET, SIGNAL_OFFSET, CRED_OFFSET         in task_struct
 *   LIVE_OFFSET in signal_struct; UID_OFFSET, EUID_OFFSET, SUID_OFFSET in cred
 *   PREV_STATE_ARGUMENT, or STATE_OFFSET and STATE_BITS         the state of the thread that leaves its CPU
 * and chooses SLOTS (a power of two) and CPUS (the possible ones).
 *
 * Who is watched:  WATCH_ALL (every thread but the idle ones), or WATCH_CGROUP (those in the window's group), or
 * else the processes that are marked in `watched`; with on_fork also what these fork.
 */

#define PIDS (1 << 22)    /* the kernel's own limit on process ids */
#define OTHERS 0xffffffff /* stands for all threads of other users */

struct window {
    u64 open_ns, close_ns;
    u64 group; /* the id of the control group that is watched */
    u64 owner; /* the user who asked; more than 32 bits: may be told of everybody */
};

/* A byte for each process: clearing one touches no other, on whatever CPU that happens. */
struct marks {
    u8 of[64];
};

BPF_F_TABLE("array", u32, struct marks, watched, PIDS / 64, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct window, windows, 1, BPF_F_MMAPABLE);

/* One load from a kernel object or from the arguments of a tracepoint.  It is written as an instruction,
 * because BCC would turn a plain load into a call, which takes several times as long. */
#define LOAD_(to, bits, from, offset) \
    asm volatile("%0 = *(u" #bits " *)(%1 + %2)" : "=r"(to) : "r"(from), "i"(offset))
#define LOAD(to, bits, from, offset) LOAD_(to, bits, from, offset)
#define ARGUMENT(to, number) LOAD(to, 64, context, 8 * (number))

static inline struct window *the_window(void)
{
    u32 first = 0;
    return windows.lookup(&first);
}

static inline bool is_open(u64 now)
{
    struct window *window = the_window();
    return window && now >= window->open_ns && now < window->close_ns;
}

/* The control group whose CPU time the thread uses. */
#ifdef CGROUPS_OFFSET
static inline u64 cgroup_of(u64 task)
{
    u64 set, group, node, id;
    LOAD(set, 64, task, CGROUPS_OFFSET);
    LOAD(group, 64, set, CGROUP_OFFSET);
#ifdef SUBSYSTEM_CGROUP_OFFSET /* a hierarchy of its own (version 1): one step more */
    LOAD(group, 64, group, SUBSYSTEM_CGROUP_OFFSET);
#endif
    LOAD(node, 64, group, NODE_OFFSET);
    LOAD(id, 64, node, NODE_ID_OFFSET);
    return id;
}
#endif

static inline bool is_watched(u64 task, u32 tgid)
{
#if defined(WATCH_ALL)
    return tgid != 0;
#elif defined(WATCH_CGROUP)
    struct window *window = the_window();
    return tgid && window && cgroup_of(task) == window->group;
#else
    u32 row = tgid >> 6;
    struct marks *marks = watched.lookup(&row);
    return marks && marks->of[tgid & 63];
#endif
}

/* Whether a thread is entirely the caller's own; nobody else's may be named to the caller. */
static inline bool is_callers(u64 task)
{
    struct window *window = the_window();
    u64 cred, uid, euid, suid;
    if (!window)
        return false;
    LOAD(cred, 64, task, CRED_OFFSET);
    LOAD(uid, 32, cred, UID_OFFSET);
    LOAD(euid, 32, cred, EUID_OFFSET);
    LOAD(suid, 32, cred, SUID_OFFSET);
    return window->owner >> 32 || (uid == window->owner && euid == window->owner && suid == window->owner);
}

enum { RUNNABLE, INTERRUPTIBLE, UNINTERRUPTIBLE, OTHERWISE };

/* What a thread that leaves its CPU is about to do. */
static inline u32 about_to(void *context, u64 task)
{
    u64 preempted, state;
    ARGUMENT(preempted, 0);
#ifdef PREV_STATE_ARGUMENT
    ARGUMENT(state, PREV_STATE_ARGUMENT);
    state = (u32)state;
#else
    LOAD(state, STATE_BITS, task, STATE_OFFSET);
#endif
    if ((preempted & 1) || !state)
        return RUNNABLE;
    if (state & 1 || state & 0x400 /* TASK_NOLOAD: an idle thread of the kernel */)
        return INTERRUPTIBLE;
    return state & 2 ? UNINTERRUPTIBLE : OTHERWISE;
}

static inline void forget(u64 task)
{
    u64 tgid;
    LOAD(tgid, 32, task, TGID_OFFSET);
    u32 row = tgid >> 6;
    struct marks *marks = watched.lookup(&row);
    if (marks)
        marks->of[tgid & 63] = 0;
}

/* The last thread of a process ends (do_exit has counted it out of `live` by now): its number is soon another's. */
int on_exit(void *context)
{
    u64 task, signal, live;
    ARGUMENT(task, 0);
    LOAD(signal, 64, task, SIGNAL_OFFSET);
    LOAD(live, 32, signal, LIVE_OFFSET);
    if (!live)
        forget(task);
    return 0;
}

/* A watched process forks: its child is watched too, from its birth.  It is whose its parent is. */
int on_fork(void *context)
{
    u64 parent, child, parent_tgid, child_tgid;
    ARGUMENT(parent, 0);
    ARGUMENT(child, 1);
    LOAD(parent_tgid, 32, parent, TGID_OFFSET);
    LOAD(child_tgid, 32, child, TGID_OFFSET);
    u32 row = child_tgid >> 6;
    if (child_tgid == parent_tgid || !is_watched(parent, parent_tgid) || !is_callers(child))
        return 0;
    struct marks *marks = watched.lookup(&row);
    if (marks)
        marks->of[child_tgid & 63] = 1;
    return 0;
}

/* A process becomes another program: one that runs as another user is no longer the caller's to watch. */
int on_exec(void *context)
{
    u64 task;
    ARGUMENT(task, 0);
    if (!is_callers(task))
        forget(task);
    return 0;
}
