/* shootdown.c - one thread gives memory back: who else is interrupted for it, and for how long?
 *
 * The caller takes a few pages after the other from a large mapping of its own, writes to them, and makes a call
 * after which no CPU may use its old translations of them:
 *
 *     munmap      the pages are no longer mapped
 *     madvise     MADV_DONTNEED: they stay mapped, but empty
 *     mprotect    they may no longer be written to
 *
 * Meanwhile bystanders, each on a CPU of its own, which whoever started this program gives them, are
 *
 *     none        not there
 *     asleep      threads of the caller's process that sleep
 *     threads     threads of it that run: they look at the clock, and note every gap between two looks that is
 *                 much longer than the shortest
 *     processes   the same, each in a process of its own
 *
 * With --untouched the caller writes to no page before it gives it back.
 *
 *     ready tid=CALLER tid=BYSTANDER ...
 *     looks bystander=... look_ns=...              its shortest time from one look to the next
 *     call ns=... lost_ns=... interrupted=...      one for each call
 *         lost_ns       the gaps that begin during the call, those of all bystanders together
 *         interrupted   how many bystanders have such a gap
 *                       both are -1 where a bystander had seen more gaps than it has room for
 */
#include "lab.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_BYSTANDERS = 64, MOST_CALLS = 10000, MOST_PAGES = 256, MOST_GAPS = 1 << 14, LOOKS = 1000, LONG = 10 };
enum others { NONE, ASLEEP, THREADS, PROCESSES };
static const char *const others_names[] = {"none", "asleep", "threads", "processes"};
enum call { MUNMAP, MADVISE, MPROTECT };
static const char *const call_names[] = {"munmap", "madvise", "mprotect"};

static struct {
    enum call call;
    enum others others;
    long bystanders, calls, pages, apart_us;
    bool untouched;
} plan = {MUNMAP, THREADS, 1, 100, 1, 50, false};

struct span {
    int64_t from_ns, to_ns;
};

/* What bystanders tell the caller, who reads it after the last call; shared, because they may be processes. */
static struct shared {
    pthread_barrier_t start, end;
    atomic_bool over;
    struct bystander {
        _Atomic pid_t tid;
        int64_t look_ns;
        long gaps;
        struct span gap[MOST_GAPS];
    } bystander[MOST_BYSTANDERS];
} *shared;

static struct span calls[MOST_CALLS];

/* ---- the bystanders ---------------------------------------------------------------------------------------- */

/* Looks at which a coarse clock shows no time since the last one do not count. */
static int64_t shortest_look(void)
{
    int64_t shortest = INT64_MAX, last = lab_now_ns();
    for (int i = 0; i < LOOKS || shortest == INT64_MAX; i++) {
        int64_t now = lab_now_ns();
        if (now > last && now - last < shortest)
            shortest = now - last;
        last = now;
    }
    return shortest;
}

static void look_at_the_clock(struct bystander *me)
{
    int64_t last = lab_now_ns();
    while (!atomic_load_explicit(&shared->over, memory_order_relaxed)) {
        int64_t now = lab_now_ns();
        if (now - last > LONG * me->look_ns && me->gaps < MOST_GAPS)
            me->gap[me->gaps++] = (struct span){last, now};
        last = now;
    }
}

static void *be_bystander(void *argument)
{
    struct bystander *me = argument;
    memset(me->gap, 0, sizeof me->gap); /* so that no page of it is missing later */
    me->tid = lab_tid();
    pthread_barrier_wait(&shared->start);
    if (plan.others != ASLEEP) {
        me->look_ns = shortest_look();
        look_at_the_clock(me);
    }
    pthread_barrier_wait(&shared->end);
    return NULL;
}

static void start_bystander(struct bystander *bystander)
{
    if (plan.others != PROCESSES)
        lab_thread(be_bystander, bystander);
    else if (lab_fork() == 0) {
        be_bystander(bystander);
        _exit(0);
    }
    while (!bystander->tid)
        sched_yield();
}

/* ---- the caller -------------------------------------------------------------------------------------------- */

static void spin(int64_t ns)
{
    int64_t until = lab_now_ns() + ns;
    while (lab_now_ns() < until)
        ;
}

static int give_back(char *memory, size_t bytes)
{
    switch (plan.call) {
    case MUNMAP: return munmap(memory, bytes);
    case MADVISE: return madvise(memory, bytes, MADV_DONTNEED);
    case MPROTECT: return mprotect(memory, bytes, PROT_READ);
    }
    return -1;
}

static void call_again_and_again(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)plan.pages * page;
    char *memory = mmap(NULL, (size_t)plan.calls * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %ld pages", plan.calls * plan.pages);
    madvise(memory, (size_t)plan.calls * bytes, MADV_NOHUGEPAGE); /* each page on its own */
    for (long i = 0; i < plan.calls; i++, memory += bytes) {
        for (long p = 0; p < plan.pages && !plan.untouched; p++)
            ((volatile char *)memory)[(size_t)p * page] = 1;
        spin(1000 * plan.apart_us);
        calls[i].from_ns = lab_now_ns();
        int failed = give_back(memory, bytes);
        calls[i].to_ns = lab_now_ns();
        if (failed)
            lab_fail("%s", call_names[plan.call]);
    }
}

/* ---- who was interrupted by which call --------------------------------------------------------------------- */

/* The sum of the gaps that begin during a call.  One that began before it has another cause. */
static int64_t lost_in(const struct bystander *bystander, struct span call, long *next)
{
    int64_t lost = 0;
    while (*next < bystander->gaps && bystander->gap[*next].from_ns < call.from_ns)
        ++*next;
    for (long i = *next; i < bystander->gaps && bystander->gap[i].from_ns < call.to_ns; i++)
        lost += bystander->gap[i].to_ns - bystander->gap[i].from_ns;
    return lost;
}

/* Whether the list of gaps was full before the end of a call: what came after that is not known. */
static bool unknown_in(const struct bystander *bystander, struct span call)
{
    return bystander->gaps == MOST_GAPS && bystander->gap[MOST_GAPS - 1].from_ns < call.to_ns;
}

static void report(void)
{
    long next[MOST_BYSTANDERS] = {0};
    for (long b = 0; b < plan.bystanders; b++)
        printf("looks bystander=%ld look_ns=%ld\n", b, (long)shared->bystander[b].look_ns);
    for (long i = 0; i < plan.calls; i++) {
        int64_t lost = 0;
        int interrupted = 0;
        bool unknown = false;
        for (long b = 0; b < plan.bystanders; b++) {
            int64_t its = lost_in(&shared->bystander[b], calls[i], &next[b]);
            lost += its;
            interrupted += its > 0;
            unknown |= unknown_in(&shared->bystander[b], calls[i]);
        }
        printf("call ns=%ld lost_ns=%ld interrupted=%d\n", (long)(calls[i].to_ns - calls[i].from_ns),
               unknown ? -1 : (long)lost, unknown ? -1 : interrupted);
    }
}

static int named(const char *option, const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return i;
    errno = 0;
    lab_fail("%s does not take '%s'", option, name);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"call", required_argument, 0, 'c'},  {"others", required_argument, 0, 'o'},
        {"calls", required_argument, 0, 'n'}, {"bystanders", required_argument, 0, 'b'},
        {"pages", required_argument, 0, 'p'}, {"apart-us", required_argument, 0, 'a'},
        {"untouched", no_argument, 0, 'u'},   {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'c': plan.call = (enum call)named("--call", optarg, call_names, 3); break;
        case 'o': plan.others = (enum others)named("--others", optarg, others_names, 4); break;
        case 'n': plan.calls = lab_number("--calls", optarg, 1, MOST_CALLS); break;
        case 'b': plan.bystanders = lab_number("--bystanders", optarg, 1, MOST_BYSTANDERS); break;
        case 'p': plan.pages = lab_number("--pages", optarg, 1, MOST_PAGES); break;
        case 'a': plan.apart_us = lab_number("--apart-us", optarg, 0, 100000); break;
        case 'u': plan.untouched = true; break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    if (plan.others == NONE)
        plan.bystanders = 0;
    shared = lab_shared(sizeof *shared);
    pthread_barrierattr_t between_processes;
    pthread_barrierattr_init(&between_processes);
    pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->start, &between_processes, 1 + (unsigned)plan.bystanders);
    pthread_barrier_init(&shared->end, &between_processes, 1 + (unsigned)plan.bystanders);

    pid_t tids[1 + MOST_BYSTANDERS] = {lab_tid()};
    for (long b = 0; b < plan.bystanders; b++) {
        start_bystander(&shared->bystander[b]);
        tids[1 + b] = shared->bystander[b].tid;
    }
    lab_barrier(tids, 1 + (int)plan.bystanders);
    pthread_barrier_wait(&shared->start);
    spin(1000000); /* until the bystanders look at the clock, or sleep again */
    call_again_and_again();
    atomic_store(&shared->over, true);
    pthread_barrier_wait(&shared->end);
    report();
    return lab_done();
}
