/* reference.c - what else costs that long?  The rungs of a ladder, from a function call to a new process.
 *
 * Every rung does one thing over and over, in batches that last a millisecond or so: the size of a batch is found
 * at run time, because nobody knows beforehand how long the thing takes on this machine.  The rungs take turns in
 * every trial, with an empty loop among them, whose time is part of every other rung's.
 *
 * A number here is the time per operation when it is done again and again.  That is what you want for "can I
 * afford this in a loop?"; it is not the time until one single result is there, which overlaps with what follows.
 */
#include "lab.h"
#include "stackswitch.h"

#include <getopt.h>

#define COPY (64 * 1024)

static char *pool;         /* far more memory than the last-level cache holds: what is used next is cold */
static long blocks;        /* of COPY bytes in it */
static long next_block;
static char *warm_from, *warm_to;

/* ---- user-level stack switch ----------------------------------------------------------------------------- */

static char other_side_stack[64 * 1024];
static void *main_stack, *other_stack;

/* What runs on the other stack: it hands straight back, for ever. */
static void other_side(void)
{
    for (;;)
        stack_switch(&other_stack, main_stack);
}

static void switch_stacks(long n)
{
    for (long i = 0; i < n; i += 2) /* there and back: two switches */
        stack_switch(&main_stack, other_stack);
}

/* ---- the other rungs ------------------------------------------------------------------------------------- */

static void empty(long n)
{
    for (long i = 0; i < n; i++)
        __asm__ volatile("");
}

__attribute__((noinline)) static void callee(void)
{
    __asm__ volatile(""); /* so that the compiler neither inlines nor drops the call */
}

static void call(long n)
{
    for (long i = 0; i < n; i++)
        callee();
}

static void atomic_add(long n)
{
    static long counter;
    for (long i = 0; i < n; i++)
        __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
}

static void clock_read(long n)
{
    struct timespec t;
    for (long i = 0; i < n; i++)
        clock_gettime(CLOCK_MONOTONIC, &t);
}

static void system_call(long n)
{
    for (long i = 0; i < n; i++)
        syscall(SYS_getppid); /* the kernel looks up one number; the C library remembers nothing */
}

static void copy(char *to, const char *from)
{
    memcpy(to, from, COPY);
    __asm__ volatile("" : : "r"(to) : "memory");
}

static void memcpy_warm(long n)
{
    for (long i = 0; i < n; i++)
        copy(warm_to, warm_from);
}

/* From one half of the pool to the other, in an order that neither prefetcher nor cache can follow: each block is
 * used again only after all the others. */
static void memcpy_cold(long n)
{
    long half = blocks / 2;
    for (long i = 0; i < n; i++) {
        next_block = (next_block + 7919) % half; /* a prime, so that every block has its turn */
        copy(pool + (half + next_block) * COPY, pool + next_block * COPY);
    }
}

static void *nothing(void *unused) { return unused; }

static void thread(long n)
{
    for (long i = 0; i < n; i++) {
        pthread_t one;
        one = lab_thread(nothing, NULL);
        pthread_join(one, NULL);
    }
}

static void process(long n)
{
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child < 0)
            lab_fail("cannot fork");
        if (child == 0)
            _exit(0);
        if (waitpid(child, NULL, 0) != child)
            lab_fail("waitpid");
    }
}

/* Choose those that may share a process: `process` copies the page tables of a pool as well, and the first thread
 * that a process starts makes the C library and the kernel treat it as multi-threaded from then on. */
static const struct rung {
    const char *name;
    void (*run)(long n);
} rungs[] = {
    {"empty", empty},
    {"call", call},
    {"atomic", atomic_add},
    {"clock", clock_read},
    {"stack_switch", switch_stacks},
    {"system_call", system_call},
    {"memcpy_warm", memcpy_warm},
    {"memcpy_cold", memcpy_cold},
    {"process", process},
    {"thread", thread},
};
#define RUNGS (int)(sizeof rungs / sizeof *rungs)

static void batch(const struct rung *rung, long trial, long n)
{
    struct lab_tally before = lab_tally_now();
    int64_t start = lab_now_ns();
    rung->run(n);
    int64_t elapsed = lab_now_ns() - start;
    struct lab_tally tally = lab_tally_since(before);
    printf("batch rung=%s trial=%ld operations=%ld elapsed_ns=%ld voluntary=%ld involuntary=%ld\n", rung->name,
           trial, n, (long)elapsed, (long)tally.voluntary, (long)tally.involuntary);
}

/* How many operations last about as long as a batch should: doubled until they do. */
static long batch_size(const struct rung *rung, int64_t batch_ns)
{
    for (long n = 2;; n *= 2) {
        int64_t start = lab_now_ns();
        rung->run(n);
        if (lab_now_ns() - start >= batch_ns || n > 1L << 40)
            return n;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"rung", required_argument, 0, 'r'},     {"trials", required_argument, 0, 't'},
        {"batch-us", required_argument, 0, 'b'}, {"pool", required_argument, 0, 'p'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    long trials = 5, batch_us = 200, pool_bytes = 8 << 20;
    unsigned deadline_s = 60;
    const struct rung *chosen[1 + RUNGS] = {&rungs[0]}; /* the empty loop always */
    int count = 1;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        int known = 0;
        switch (option) {
        case 'r':
            for (int i = 1; i < RUNGS && count <= RUNGS; i++)
                if (!strcmp(optarg, rungs[i].name))
                    chosen[count++] = &rungs[i], known = 1;
            if (!known)
                lab_fail("--rung: nothing here is called '%s'", optarg);
            break;
        case 't': trials = lab_number("--trials", optarg, 1, 100000); break;
        case 'b': batch_us = lab_number("--batch-us", optarg, 1, 1000000); break;
        case 'p': pool_bytes = lab_number("--pool", optarg, 4 * COPY, 1L << 36); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    for (int i = 0; i < count; i++)
        if (chosen[i]->run == memcpy_cold) {
            blocks = pool_bytes / COPY;
            pool = lab_shared((size_t)blocks * COPY);
            memset(pool, 1, (size_t)blocks * COPY); /* every page is there before anything is timed */
        }
    warm_from = lab_shared(COPY);
    warm_to = lab_shared(COPY);
    memset(warm_from, 1, COPY);
    other_stack = stack_prepare(other_side_stack + sizeof other_side_stack, other_side);
    lab_barrier((pid_t[]){lab_tid()}, 1);
    memcpy_cold(blocks / 2); /* not timed: what was written last above is still in the cache */

    long size[1 + RUNGS];
    for (int i = 0; i < count; i++)
        size[i] = batch_size(chosen[i], 1000 * batch_us);
    for (long trial = 0; trial < trials; trial++)
        for (int turn = 0; turn < count; turn++) {
            int i = trial % 2 ? count - 1 - turn : turn; /* there and back, so that drift cancels */
            batch(chosen[i], trial, size[i]);
        }
    return lab_done();
}
