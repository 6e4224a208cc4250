/* tlb.c - are address translations lost at a switch?
 *
 * The victim loads one word from each of N pages, so that every load needs another translation.  Between two such
 * walks it hands a token to others on the same CPU and waits until it comes back:
 *
 *     nothing       it passes the token to itself: the same system calls, and no switch
 *     thread        to one thread of its own process: other registers, same address space
 *     process       to one other process: another address space
 *     threads_8     round seven threads: as many switches as in the next, and one address space
 *     processes_8   round seven processes: eight address spaces, more than an x86 CPU keeps apart
 *
 * The others touch nothing.  With --event the walk alone is counted, by the processor's counters.
 */
#include "lab.h"
#include "perf.h"

#include <getopt.h>

enum { PARTNERS = 7, LINE = 64 };

static const struct condition {
    const char *name;
    int processes; /* or threads */
    int partners;
} conditions[] = {
    {"nothing", 0, 0}, {"thread", 0, 1}, {"process", 1, 1}, {"threads_8", 0, PARTNERS}, {"processes_8", 1, PARTNERS},
};
enum { CONDITIONS = sizeof conditions / sizeof *conditions };

static struct {
    pid_t tid[1 + 2 * PARTNERS]; /* the victim, the threads, the processes */
    volatile int partners;       /* after so many the token goes home */
} *shared;

static int home_pipe[2];
static int pipes[2][PARTNERS][2]; /* pipes[processes][i]: partner i reads from it */
static long pages = 64, passes = 10, trials = 5;
static struct lab_events events;

static void put(const int *to)
{
    if (write(to[1], "x", 1) != 1)
        lab_fail("write");
}

static void get(const int *from)
{
    char byte;
    if (read(from[0], &byte, 1) != 1)
        lab_fail("read");
}

/* ---- the partners ------------------------------------------------------------------------------------------ */

static void partner(int processes, long me)
{
    __atomic_store_n(&shared->tid[1 + processes * PARTNERS + me], lab_tid(), __ATOMIC_RELEASE);
    for (;;) {
        get(pipes[processes][me]);
        put(me + 1 < shared->partners ? pipes[processes][me + 1] : home_pipe);
    }
}

static void *partner_thread(void *me)
{
    partner(0, (long)me);
    return NULL;
}

/* ---- the victim -------------------------------------------------------------------------------------------- */

static void **chain; /* one word on each page: the address of the next page's word */

/* Random order, so that nothing fetches translations ahead; and another line on every page, because the first lines
 * of all pages would compete for one place in the cache. */
static void make_chain(unsigned seed)
{
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, (size_t)(pages * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %ld pages", pages);
    madvise(memory, (size_t)(pages * page), MADV_NOHUGEPAGE); /* one translation for each page, not for many */
    long *order = malloc((size_t)pages * sizeof *order);
    if (!order)
        lab_fail("no memory");
    for (long i = 0; i < pages; i++)
        order[i] = i;
    for (long i = pages - 1; i > 0; i--) {
        long j = rand_r(&seed) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
#define WORD(i) (void **)(memory + order[(i) % pages] * page + order[(i) % pages] % (page / LINE) * LINE)
    for (long i = 0; i < pages; i++)
        *WORD(i) = WORD(i + 1);
    chain = WORD(0);
    free(order);
}

static volatile long sink;

static void walk(void)
{
    void **at = chain;
    for (long i = 0; i < pages; i++)
        at = *at;
    sink = (long)at;
}

static void block(long trial, const struct condition *condition)
{
    static int64_t ns[10000];
    shared->partners = condition->partners;
    walk();
    struct lab_tally before = lab_tally_now();
    for (long pass = 0; pass < passes; pass++) {
        put(condition->partners ? pipes[condition->processes][0] : home_pipe);
        get(home_pipe);
        lab_events_on(&events);
        int64_t start = lab_now_ns();
        walk();
        ns[pass] = lab_now_ns() - start;
        lab_events_off(&events);
    }
    struct lab_tally tally = lab_tally_since(before);
    printf("block trial=%ld condition=%s passes=%ld voluntary=%ld involuntary=%ld\n", trial, condition->name, passes,
           (long)tally.voluntary, (long)tally.involuntary);
    lab_events_report(&events);
    for (long pass = 0; pass < passes; pass++)
        printf("walk ns=%ld\n", (long)ns[pass]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"pages", required_argument, 0, 'n'}, {"passes", required_argument, 0, 'p'},
        {"trials", required_argument, 0, 't'}, {"event", required_argument, 0, 'e'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'n': pages = lab_number("--pages", optarg, 1, 1 << 20); break;
        case 'p': passes = lab_number("--passes", optarg, 1, 10000); break;
        case 't': trials = lab_number("--trials", optarg, 1, 100000); break;
        case 'e': lab_events_add(&events, optarg); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    shared = lab_shared(sizeof *shared);
    if (pipe(home_pipe) < 0)
        lab_fail("pipe");
    for (int processes = 0; processes < 2; processes++)
        for (int i = 0; i < PARTNERS; i++)
            if (pipe(pipes[processes][i]) < 0)
                lab_fail("pipe");
    for (long i = 0; i < PARTNERS; i++) /* before there are threads, because a fork copies only the one that forks */
        if (lab_fork() == 0)
            partner(1, i);
    for (long i = 0; i < PARTNERS; i++) {
        lab_thread(partner_thread, (void *)i);
    }
    make_chain(1);
    lab_events_open(&events);
    shared->tid[0] = lab_tid();
    for (int i = 0; i < 1 + 2 * PARTNERS; i++)
        while (!__atomic_load_n(&shared->tid[i], __ATOMIC_ACQUIRE))
            sched_yield();
    lab_barrier(shared->tid, 1 + 2 * PARTNERS);

    for (long trial = 0; trial < trials; trial++)
        for (int turn = 0; turn < CONDITIONS; turn++)
            block(trial, &conditions[trial % 2 ? CONDITIONS - 1 - turn : turn]); /* there and back: drift cancels */
    signal(SIGCHLD, SIG_DFL); /* the partners would go on for ever */
    for (int i = 0; i < PARTNERS; i++)
        kill(shared->tid[1 + PARTNERS + i], SIGTERM);
    return lab_done();
}
