/* runqlat.bpf.c - how long runnable threads of some processes wait for a CPU, and what kept that CPU.
 *
 * A wait begins when a thread becomes runnable without a CPU: it is woken (sched_wakeup, sched_wakeup_new), or
 * it is taken off its CPU while it could go on (sched_switch away from a thread that was preempted or yielded:
 * R and R+ in a trace).  It ends when the thread is switched in.  A wait counts when it begins and ends inside
 * the window, and when the *waiting* thread is watched; who woke it does not matter.
 *
 * Every table on the way of a switch is an array, because looking a thread up in a hash map is most of what such
 * a probe costs.  The helper maps the arrays into its memory: it opens the window and reads the counts without a
 * system call.
 *
 * It begins with watched.bpf.h.  BIN_BITS and TOP_BIT lay out the bins.
 *
 * EDGES also counts who takes the CPU after whom (edges.bpf.h).
 *
 * KEYED counts every wait a second time, under a key: 1 the thread, 2 the process, 3 the control group; each
 * bin then holds 2^KEY_FOLD of the others.
 *
 * ATTRIBUTION says what the CPU did meanwhile.  Every CPU keeps a running account of what occupied it, class by
 * class.  A waiting thread notes its CPU's account when its wait begins; what the account has grown by when the
 * wait ends is the wait's parts, and they add up to the wait to the nanosecond.  Both looks happen under the lock
 * of that CPU's run queue, which sched_wakeup and sched_switch hold; interrupts do not take it, so that a look
 * may be torn: then the sum is wrong, and the wait is called unattributed.
 *
 * It also says whether there was room elsewhere: a CPU that the thread may use was idle while it stood in the
 * queue of another that was not.  The bits of the CPUs that are idle now tell it when the wait begins, and the
 * times at which each CPU last stopped being idle tell it, when the wait ends, of the time in between.
 */

#define BINS ((TOP_BIT - BIN_BITS + 1) << BIN_BITS)

enum { WOKEN, PREEMPTED, CAUSES };

/* What occupies a CPU.  A real-time thread is one whoever owns it; OWN are the other watched threads. */
enum { IDLE, OWN, OTHER, KERNEL, REALTIME, INTERRUPT, OCCUPANTS };
/* A wait has parts for these, and three more. */
enum { THROTTLED = OCCUPANTS, MIGRATED, UNATTRIBUTED, PARTS };
#define ROOM 8 /* of an array that is indexed by occupant: a power of two, so that a mask keeps it inside */

/* One thread, found at its id modulo SLOTS; `pid` tells whose the slot is. */
struct slot {
    u64 begin_ns; /* 0: it is not waiting */
    u32 pid;
    u32 cause;
#ifdef ATTRIBUTION
    u32 cpu; /* where it waits */
    u32 marks;
    u64 throttled_by; /* the run queue of a group that had used up its quota when the wait began */
    u64 spent[ROOM];  /* the account of its CPU when the wait began */
#endif
};

/* Marks of a wait: it began while an allowed CPU was idle; it changed CPU; it began with a used-up quota; an
 * allowed CPU was idle later, before it ended. */
enum { IDLE_CPU = 1, MOVED = 2, HELD = 4, IDLE_LATER = 8 };
#define NO_CPU 0xffffffff /* the account of its CPU had not begun */

/* Each CPU adds to counts of its own; tracepoints of the scheduler run with interrupts off. */
struct counts {
    u64 waits[CAUSES][BINS];
    u64 collided; /* starts lost because another thread needed the slot */
    u64 missed;   /* a thread that we know was switched in, and nothing had told us that it waits */
    u64 unseen;   /* a thread was switched in for the first time: its wait began before the window */
    u64 backward; /* the wait ended before it began: the clocks of two CPUs disagree */
    u64 unkeyed;  /* waits that are in the histogram, and under no key because there are too many keys */
};

BPF_F_TABLE("array", u32, struct slot, slots, SLOTS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct counts, cpus, CPUS, BPF_F_MMAPABLE);

static inline struct slot *slot_of(u32 pid)
{
    u32 index = pid & (SLOTS - 1);
    return slots.lookup(&index);
}

static inline struct counts *counts_of(u32 cpu)
{
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

struct account; /* of one CPU; nobody has one without ATTRIBUTION */

#ifdef ATTRIBUTION
/* The account of one CPU; only this CPU writes it. */
struct account {
    u64 since_ns;    /* how far the account goes; 0: nothing is known yet */
    u64 spent[ROOM]; /* time with each occupant until then */
    u32 occupant;    /* who has had the CPU since then */
    u32 beneath;     /* whom the interrupt interrupted */
    u32 depth;       /* of interrupts and softirqs inside each other */
    u32 is_idle;     /* its bit in `idle` is set */
    u64 left_ns;     /* when it last stopped being idle */
    /* The last throttled group that a thread waited with here, and the account when its throttling ended. */
    u64 group, released_ns, released[ROOM];
};

#define WORDS ((CPUS + 63) / 64)
#define LATER_BITS (CPUS < 64 ? CPUS : 64)
#define LATER_WORDS (WORDS < 4 ? WORDS : 4) /* the CPUs whose past is looked at: a loop has to end */
#define COARSE (BINS >> COARSE_SHIFT)

struct idle {
    u64 words[WORDS];              /* one bit for each CPU that is idle */
    u64 left_ns[64 * LATER_WORDS]; /* when each CPU last stopped being idle; 0: not yet */
    u64 last_ns;                   /* when any of them did */
};

struct parts {
    u64 ns[CAUSES][COARSE][PARTS];
    u64 could[CAUSES][COARSE]; /* waits that began while an allowed CPU was idle */
    u64 later[CAUSES][COARSE]; /* the others during which one was */
    u64 sum_ns[CAUSES];        /* of all waits, exact */
    u64 could_ns[CAUSES];
    u64 later_ns[CAUSES];
    u64 moved[CAUSES];
    u64 held[CAUSES];
};

BPF_F_TABLE("array", u32, struct account, accounts, CPUS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct parts, parts, CPUS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct idle, idles, 1, BPF_F_MMAPABLE);

static inline void settle(struct account *account, u64 now)
{
    account->spent[account->occupant & (ROOM - 1)] += now - account->since_ns;
    account->since_ns = now;
}

static inline u32 class_of(u64 task, u32 pid, s32 prio, u32 flags, bool own)
{
    if (!pid)
        return IDLE;
    if (prio < 100)
        return REALTIME;
    if (own)
        return OWN;
    return flags & 0x00200000 /* PF_KTHREAD */ ? KERNEL : OTHER;
}

static inline void occupy(struct account *account, u32 cpu, u32 occupant, u64 now)
{
    account->occupant = occupant;
    account->depth = 0;
    u32 is_idle = occupant == IDLE;
    if (is_idle == account->is_idle)
        return;
    account->is_idle = is_idle;
    u32 first = 0;
    struct idle *idle = idles.lookup(&first);
    u64 bit = 1ULL << (cpu & 63);
    u32 word = cpu >> 6;
    if (!is_idle)
        account->left_ns = now;
    if (!idle || word >= WORDS)
        return;
    if (!is_idle && cpu < 64 * LATER_WORDS) { /* before the bit goes: whoever looks finds the one or the other */
        idle->left_ns[cpu] = now;
        idle->last_ns = now;
    }
    /* Its own bit only: adding and taking away sets and clears it, atomically. */
    __sync_fetch_and_add(&idle->words[word], is_idle ? bit : -bit);
}

/* Has the group that a thread waits with been given its quota again? */
static inline void look_for_release(struct account *account, u64 now)
{
#ifdef THROTTLE_COUNT_OFFSET
    if (!account->group || account->released_ns)
        return;
    u32 count = 1;
    if (bpf_probe_read_kernel(&count, sizeof count, (void *)(account->group + THROTTLE_COUNT_OFFSET)) || count)
        return;
    settle(account, now);
    account->released_ns = now;
#pragma unroll
    for (int i = 0; i < OCCUPANTS; i++)
        account->released[i] = account->spent[i];
#endif
}

/* Whether the thread waits because its group has used up its quota; tells the group's run queue on this CPU. */
static inline u64 throttled_by(u64 task)
{
    u64 group = 0;
#ifdef THROTTLE_COUNT_OFFSET
    u64 held;
#ifdef THROTTLED_OFFSET /* since the kernel throttles thread by thread */
    LOAD(held, 8, task, THROTTLED_OFFSET);
    if (!held)
        return 0;
    LOAD(group, 64, task, GROUP_QUEUE_OFFSET);
#else
    LOAD(group, 64, task, GROUP_QUEUE_OFFSET);
    if (!group)
        return 0;
    LOAD(held, 32, group, THROTTLE_COUNT_OFFSET);
    if (!held)
        return 0;
#endif
#endif
    return group;
}

static inline bool other_cpu_is_idle(u64 task)
{
    u32 first = 0;
    u64 allowed, found = 0;
    struct idle *idle = idles.lookup(&first);
    if (!idle)
        return false;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        LOAD(allowed, 64, task, ALLOWED_OFFSET + 8 * i);
        found |= idle->words[i] & allowed;
    }
    return found != 0;
}

/* Whether a CPU that the thread may use, other than its own, has been idle since a time. */
static inline bool other_cpu_was_idle(u64 task, u32 cpu, u64 since)
{
    u32 first = 0;
    u64 allowed, others = 0, found = 0;
    struct idle *idle = idles.lookup(&first);
    if (!idle)
        return false;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        LOAD(allowed, 64, task, ALLOWED_OFFSET + 8 * i);
        if (cpu >> 6 == i)
            allowed &= ~(1ULL << (cpu & 63));
        others |= allowed;
        found |= idle->words[i] & allowed;
    }
    if (found)
        return true;
    if (!others || idle->last_ns < since)
        return false;
#pragma unroll
    for (int i = 0; i < LATER_WORDS; i++) {
        LOAD(allowed, 64, task, ALLOWED_OFFSET + 8 * i);
        if (cpu >> 6 == i)
            allowed &= ~(1ULL << (cpu & 63));
        /* No branch inside, so that the verifier has one way through; the number is hidden, so that the
         * compiler counts it up and not an address, of which the verifier would not know where it ends. */
#pragma clang loop unroll(disable)
        for (u64 bit = 0; bit < LATER_BITS; bit++) {
            OPAQUE(bit);
            found |= allowed & (~(idle->left_ns[64 * i + bit] - since) >> 63);
            allowed >>= 1;
        }
    }
    return found & 1;
}

static inline void note_account(struct slot *slot, u64 task, u32 cpu, struct account *account, u64 now)
{
    slot->marks = 0;
    slot->cpu = NO_CPU;
    if (!account || !account->since_ns)
        return;
    slot->cpu = cpu;
#pragma unroll
    for (int i = 0; i < OCCUPANTS; i++)
        slot->spent[i] = account->spent[i];
    u32 occupant = account->occupant & (ROOM - 1);
    slot->spent[occupant] += now - account->since_ns;
    u64 group = throttled_by(task);
    if (group) { /* no other CPU would have helped */
        slot->marks = HELD;
        slot->throttled_by = group;
        account->group = group;
        account->released_ns = 0;
    } else if (!account->is_idle && other_cpu_is_idle(task)) {
        slot->marks = IDLE_CPU;
    }
}

/* Whether there was room elsewhere during a wait that ends.  The answer goes into memory and is read back, so
 * that older verifiers need not follow what comes after it once for each answer. */
static inline void note_room(struct slot *slot, u64 task, u32 cpu, struct account *account, u64 begin, u64 now)
{
    u32 marks = slot->marks;
    if (marks & (IDLE_CPU | HELD))
        return;
    /* While its own CPU was idle, the thread was on its way; a thread that moved had room where it went. */
    u64 since = marks & MOVED || account->left_ns < begin ? begin : account->left_ns;
    if (since < now && other_cpu_was_idle(task, marks & MOVED ? NO_CPU : cpu, since))
        slot->marks = marks | IDLE_LATER;
}

static inline void add_parts(
    struct slot *slot, u32 cpu, struct account *account, u64 begin, u64 now, u32 cause, u64 bin)
{
    struct parts *all = parts.lookup(&cpu);
    if (!all)
        return;
    u64 total = now - begin, sum = 0, wrong = 0;
    u64 coarse = bin >> COARSE_SHIFT;
    OPAQUE(coarse);
    if (coarse >= COARSE)
        coarse = COARSE - 1;
    u64 *to = all->ns[cause][coarse];
    u32 marks = slot->marks;
    all->sum_ns[cause] += total;
    if (marks & IDLE_CPU) {
        all->could[cause][coarse]++;
        all->could_ns[cause] += total;
    }
    if (marks & IDLE_LATER) {
        all->later[cause][coarse]++;
        all->later_ns[cause] += total;
    }
    if (marks & MOVED)
        all->moved[cause]++;
    if (slot->cpu != cpu) {
        to[slot->cpu == NO_CPU ? UNATTRIBUTED : MIGRATED] += total;
        return;
    }
    u64 *from = slot->spent;
    if (marks & HELD) {
        all->held[cause]++;
        u64 released = account->released_ns;
        if (account->group != slot->throttled_by || released < begin || released > now) {
            to[THROTTLED] += total; /* its end was not seen */
            return;
        }
        to[THROTTLED] += released - begin;
        total = now - released;
        from = account->released;
    }
#pragma unroll
    for (int i = 0; i < OCCUPANTS; i++) {
        u64 part = account->spent[i] - from[i];
        sum += part;
        wrong |= part > total;
    }
    if (wrong || sum != total) {
        to[UNATTRIBUTED] += total;
        return;
    }
#pragma unroll
    for (int i = 0; i < OCCUPANTS; i++)
        to[i] += account->spent[i] - from[i];
}
#endif

#ifdef KEYED
#define KEY_ROOM 2048 /* twice as many as there may be keys, so that a free place is near */
#define KEY_TRIES 16
#define KEY_BINS (BINS >> KEY_FOLD)

struct keyed {
    u64 key; /* 0: free */
    u32 waits[CAUSES][KEY_BINS];
};

BPF_F_TABLE("array", u32, struct keyed, keyed, KEY_ROOM, BPF_F_MMAPABLE);
/* Who owns which place.  Two CPUs may want one at once, and only one can insert it. */
BPF_TABLE("hash", u32, u64, owners, MOST_KEYS);

static inline bool count_under(u64 key, u32 cause, u64 bin)
{
    u32 home = (key * 0x9e3779b97f4a7c15ULL) >> 40;
#pragma unroll
    for (int i = 0; i < KEY_TRIES; i++) {
        u32 place = (home + i) & (KEY_ROOM - 1);
        struct keyed *row = keyed.lookup(&place);
        if (!row)
            return false;
        if (row->key != key) {
            if (row->key)
                continue;
            if (owners.insert(&place, &key)) { /* taken meanwhile, or there are too many keys */
                u64 *owner = owners.lookup(&place);
                if (!owner)
                    return false;
                if (*owner != key)
                    continue;
            }
            row->key = key;
        }
        u64 number = bin >> KEY_FOLD;
        OPAQUE(number);
        if (number >= KEY_BINS)
            number = KEY_BINS - 1;
        OPAQUE(number);
        __sync_fetch_and_add(&row->waits[cause][number], 1);
        return true;
    }
    return false;
}
#endif

/* `cpu` is where the thread waits, and `account` that CPU's. */
static inline void begin_wait(u64 task, u32 pid, u32 cause, u32 cpu, struct account *account, u64 now)
{
    struct slot *slot = slot_of(pid);
    if (!slot)
        return;
    if (slot->pid != pid) {
        if (slot->begin_ns) {
            struct counts *counts = counts_of(bpf_get_smp_processor_id());
            if (counts)
                counts->collided++;
        }
    } else if (cause == WOKEN && slot->begin_ns) {
        return; /* it waits already: to wake a runnable thread changes nothing */
    }
#ifdef ATTRIBUTION
    note_account(slot, task, cpu, account, now);
#endif
    slot->begin_ns = now;
    slot->cause = cause;
    slot->pid = pid;
}

static inline void end_wait(u64 task, u32 pid, u32 cpu, struct account *account, u64 now)
{
    struct slot *slot = slot_of(pid);
    struct counts *counts = counts_of(cpu);
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
        u32 cause = slot->cause & 1;
#ifdef ATTRIBUTION
        note_room(slot, task, cpu, account, begin, now);
#endif
        u64 bin = bin_of(now - begin);
#ifdef ATTRIBUTION
        /* By way of memory, too: bin_of has 64 ways to end, and the verifier need not follow each further. */
        volatile u64 *aside = &slot->spent[ROOM - 1];
        *aside = bin;
        bin = *aside;
        OPAQUE(bin);
        if (bin >= BINS)
            bin = BINS - 1;
        OPAQUE(bin);
#endif
        counts->waits[cause][bin]++;
#ifdef ATTRIBUTION
        add_parts(slot, cpu, account, begin, now, cause, bin);
#endif
#ifdef KEYED
        u64 key = pid;
#if KEYED == 2
        LOAD(key, 32, task, TGID_OFFSET);
#elif KEYED == 3
        key = cgroup_of(task);
#endif
#if defined(WATCH_CGROUP) && KEYED < 3 /* whoever is in the group */
        if (!is_callers(task))
            key = OTHERS;
#endif
        if (!count_under(key, cause, bin))
            counts->unkeyed++;
#endif
    }
}

/* The thread leaves its CPU to sleep.  Somebody may have woken it while it still ran; that was no wait. */
static inline void forget_wait(u32 pid)
{
    struct slot *slot = slot_of(pid);
    if (slot && slot->pid == pid && slot->begin_ns)
        slot->begin_ns = 0;
}

static inline int woken(void *context)
{
    u64 task, tgid, pid;
    ARGUMENT(task, 0);
    LOAD(tgid, 32, task, TGID_OFFSET);
    if (!is_watched(task, tgid))
        return 0;
    u64 now = bpf_ktime_get_ns();
    if (!is_open(now))
        return 0;
    LOAD(pid, 32, task, PID_OFFSET);
    struct account *account = 0;
    u32 cpu = 0;
#ifdef ATTRIBUTION
    LOAD(cpu, 32, task, CPU_OFFSET);
    account = accounts.lookup(&cpu);
#endif
    begin_wait(task, pid, WOKEN, cpu, account, now);
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
    u64 prev, next, prev_tgid, next_tgid, prev_pid, next_pid;
    u32 cpu = bpf_get_smp_processor_id();
    struct account *account = 0;
    ARGUMENT(prev, 1);
    ARGUMENT(next, 2);
    LOAD(prev_tgid, 32, prev, TGID_OFFSET);
    LOAD(next_tgid, 32, next, TGID_OFFSET);
    bool enters = is_watched(next, next_tgid);
#ifdef WATCH_CGROUP
    bool leaves = is_watched(prev, prev_tgid);
#else
    bool leaves = prev_tgid == next_tgid ? enters : is_watched(prev, prev_tgid);
#endif
    LOAD(prev_pid, 32, prev, PID_OFFSET);
    LOAD(next_pid, 32, next, PID_OFFSET);
#ifdef ATTRIBUTION
    u64 now = bpf_ktime_get_ns(), prio, flags;
    account = accounts.lookup(&cpu);
    if (!account)
        return 0;
    if (account->since_ns)
        settle(account, now);
    else
        account->since_ns = now;
    LOAD(prio, 32, next, PRIO_OFFSET);
    LOAD(flags, 32, next, FLAGS_OFFSET);
    occupy(account, cpu, class_of(next, next_pid, (s32)prio, flags, enters), now);
    look_for_release(account, now);
    if (!enters && !leaves)
        return 0;
#else
    if (!enters && !leaves)
        return 0;
    u64 now = bpf_ktime_get_ns();
#endif
    if (!is_open(now))
        return 0;
    u32 kind = about_to(context, prev);
    u64 goes_on = kind == RUNNABLE;
    OPAQUE(goes_on); /* two ways through what follows for the verifier, and not four */
#ifdef EDGES
    count_edge(cpu, prev, next, told_as(prev, prev_pid, leaves), told_as(next, next_pid, enters), kind);
#endif
    if (enters)
        end_wait(next, next_pid, cpu, account, now);
    if (leaves && goes_on)
        begin_wait(prev, prev_pid, PREEMPTED, cpu, account, now);
    else if (leaves)
        forget_wait(prev_pid);
    return 0;
}

#ifdef ATTRIBUTION
/* A waiting thread goes to another CPU: from now on it waits for that one.  Its note becomes what that CPU's
 * account would have been if the wait so far had happened there. */
int on_migrate(void *context)
{
    u64 task, to, tgid, pid;
    ARGUMENT(task, 0);
    ARGUMENT(to, 1);
    LOAD(tgid, 32, task, TGID_OFFSET);
    if (!is_watched(task, tgid))
        return 0;
    LOAD(pid, 32, task, PID_OFFSET);
    struct slot *slot = slot_of(pid);
    if (!slot || slot->pid != pid || !slot->begin_ns || slot->cpu == NO_CPU)
        return 0;
    u32 left = slot->cpu, reached = (u32)to;
    struct account *before = accounts.lookup(&left), *after = accounts.lookup(&reached);
    slot->cpu = NO_CPU;
    if (!before || !after || !after->since_ns)
        return 0;
    u64 now = bpf_ktime_get_ns();
#pragma unroll
    for (int i = 0; i < OCCUPANTS; i++)
        slot->spent[i] += after->spent[i] - before->spent[i];
    u32 occupant = before->occupant & (ROOM - 1);
    slot->spent[occupant] -= now - before->since_ns;
    occupant = after->occupant & (ROOM - 1);
    slot->spent[occupant] += now - after->since_ns;
    slot->cpu = reached;
    slot->marks |= MOVED;
    return 0;
}

int on_interrupt(void *context)
{
    u32 cpu = bpf_get_smp_processor_id();
    struct account *account = accounts.lookup(&cpu);
    if (!account || !account->since_ns)
        return 0;
    if (!account->depth) {
        settle(account, bpf_ktime_get_ns());
        account->beneath = account->occupant;
        account->occupant = INTERRUPT;
    }
    account->depth++;
    return 0;
}

int on_interrupt_end(void *context)
{
    u32 cpu = bpf_get_smp_processor_id();
    struct account *account = accounts.lookup(&cpu);
    if (!account || !account->depth)
        return 0;
    account->depth--;
    if (!account->depth) {
        u64 now = bpf_ktime_get_ns();
        settle(account, now);
        account->occupant = account->beneath;
        look_for_release(account, now);
    }
    return 0;
}

/* Run once on every CPU by the helper, so that the account knows who has the CPU before the next switch. */
int seed(void *context)
{
    u32 cpu = bpf_get_smp_processor_id(), pid = 0, tgid = 0, flags = 0;
    s32 prio = 0;
    struct account *account = accounts.lookup(&cpu);
    u64 task = bpf_get_current_task();
    if (!account || account->since_ns)
        return 0;
    bpf_probe_read_kernel(&pid, sizeof pid, (void *)(task + PID_OFFSET));
    bpf_probe_read_kernel(&tgid, sizeof tgid, (void *)(task + TGID_OFFSET));
    bpf_probe_read_kernel(&flags, sizeof flags, (void *)(task + FLAGS_OFFSET));
    bpf_probe_read_kernel(&prio, sizeof prio, (void *)(task + PRIO_OFFSET));
#ifdef WATCH_CGROUP
    bool own = false; /* until the next switch */
#else
    bool own = is_watched(task, tgid);
#endif
    u64 now = bpf_ktime_get_ns();
    account->since_ns = now;
    occupy(account, cpu, class_of(task, pid, prio, flags, own), now);
    return 0;
}
#endif
