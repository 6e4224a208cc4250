/* loops.c - the loops of a well-known collection of switch benchmarks, written anew and made to count.
 *
 * The collection (timesyscall, timectxsw, timetctxsw and timetctxsw2 of tsuna/contextswitch) divides the time of a
 * loop by a number of switches that it assumes: four in each iteration.  Here the same things happen in the same
 * order, and beside the time stands what the kernel counted for both sides while the loop ran.
 *
 * Two things differ.  The loops run under the normal policy, where timetctxsw2 asks for SCHED_FIFO: a real-time loop
 * of yields on every CPU would lock a machine up.  And both sides start together, so that a side that is late to
 * start does not change the count.
 */
#include "lab.h"

#include <getopt.h>
#include <linux/futex.h>

enum { FIRST = 0xA, SECOND = 0xB };

static struct {
    volatile int word; /* the futex: whose turn it is */
    pthread_barrier_t gate;
    struct lab_tally tally[2];
    pid_t other_tid;
} *shared;

static long iterations = 1000, trials = 5;

/* ---- the loops -------------------------------------------------------------------------------------------- */

/* timesyscall: one system call after the other, in one thread.  The other side sits it out. */
static void system_call(int side)
{
    for (long i = 0; side == 0 && i < iterations; i++)
        syscall(SYS_gettid);
}

static long wait_while(int value) { return syscall(SYS_futex, &shared->word, FUTEX_WAIT, value, NULL, NULL, 0); }
static long wake_one(void) { return syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0); }

static void pass(int value)
{
    shared->word = value;
    while (!wake_one()) /* nobody was asleep yet: give the CPU up and try again */
        sched_yield();
}

static void await(int value)
{
    sched_yield();
    while (wait_while(value))
        sched_yield();
}

/* timectxsw, between processes, and timetctxsw, between threads: a futex to and fro.  Note the yields. */
static void futex(int side)
{
    for (long i = 0; i < iterations; i++) {
        if (side == 0) {
            pass(FIRST);
            await(SECOND);
        } else {
            await(FIRST);
            pass(SECOND);
        }
    }
}

/* timetctxsw2: two threads that do nothing but yield. */
static void yield(int side)
{
    (void)side;
    for (long i = 0; i < iterations; i++)
        sched_yield();
}

static const struct loop {
    const char *name;
    void (*run)(int side);
    int processes;
    int assumed; /* operations in one iteration, as the collection divides */
} loops[] = {
    {"system_call", system_call, 0, 1},
    {"process_futex", futex, 1, 4},
    {"thread_futex", futex, 0, 4},
    {"thread_yield", yield, 0, 4},
};

static const struct loop *loop = &loops[0];

/* ---- one block -------------------------------------------------------------------------------------------- */

static int64_t play(int side)
{
    pthread_barrier_wait(&shared->gate);
    struct lab_tally before = lab_tally_now();
    int64_t start = lab_now_ns();
    loop->run(side);
    int64_t elapsed = lab_now_ns() - start;
    shared->tally[side] = lab_tally_since(before);
    pthread_barrier_wait(&shared->gate);
    return elapsed;
}

static void *other_side(void *unused)
{
    shared->other_tid = lab_tid();
    for (long trial = 0; trial < trials; trial++)
        play(1);
    return unused;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"loop", required_argument, 0, 'l'},     {"iterations", required_argument, 0, 'i'},
        {"trials", required_argument, 0, 't'},   {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'l':
            loop = NULL;
            for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
                if (!strcmp(optarg, loops[i].name))
                    loop = &loops[i];
            if (!loop)
                lab_fail("--loop takes system_call, process_futex, thread_futex or thread_yield, not '%s'", optarg);
            break;
        case 'i': iterations = lab_number("--iterations", optarg, 1, 100000000); break;
        case 't': trials = lab_number("--trials", optarg, 1, 100000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    shared = lab_shared(sizeof *shared);
    shared->word = SECOND;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->gate, &attributes, 2);

    if (loop->processes) {
        if (lab_fork() == 0) {
            other_side(NULL);
            _exit(0);
        }
    } else {
        lab_thread(other_side, NULL);
    }
    while (!__atomic_load_n(&shared->other_tid, __ATOMIC_ACQUIRE))
        sched_yield();
    lab_barrier((pid_t[]){lab_tid(), shared->other_tid}, 2);

    for (long trial = 0; trial < trials; trial++) {
        shared->word = SECOND;
        int64_t elapsed = play(0);
        const struct lab_tally *side = shared->tally;
        printf("block trial=%ld iterations=%ld assumed=%ld elapsed_ns=%ld voluntary=%ld involuntary=%ld\n", trial,
               iterations, loop->assumed * iterations, (long)elapsed, (long)(side[0].voluntary + side[1].voluntary),
               (long)(side[0].involuntary + side[1].involuntary));
    }
    return lab_done();
}
