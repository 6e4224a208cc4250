/* burn.c - workers that never sleep share a CPU: how long does each of them have to wait for it?
 *
 * Every worker does a small, fixed piece of work (a chunk), looks at the clock, and does the next one.  While it
 * has the CPU, two looks are about a microsecond apart.  Where they are further apart than a threshold, the worker
 * was not running: that is a gap, and it needs no privilege to see.  Not every gap is a wait for the CPU: an
 * interrupt, or a hypervisor that runs somebody else, makes one too.  So after a gap the worker asks the kernel
 * whether it was switched out meanwhile.
 *
 *     ready tid=WORKER tid=WORKER ...
 *     chunk ns=... threshold_ns=...                 the quickest of some chunks; the threshold is at least ten of them
 *     gap worker=0 at_ns=... ns=... switches=...    one for each gap, in order; at_ns counts from the common start.
 *                                                   ns includes the one chunk that was under way
 *     worker worker=0 chunks=... cpu_ns=... voluntary=... involuntary=... wait_ns=... timeslices=... gaps=... lost=...
 *         wait_ns, timeslices   run delay and times switched in, from /proc/thread-self/schedstat; left out where
 *                               the kernel does not keep them
 *         lost                  gaps that were seen after the memory for gaps was full
 *
 * It lasts --duration-ms.  SIGINT (Ctrl-C, when you run it by hand) ends it earlier, with all its records.
 */
#include "lab.h"
#include "schedstat.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_WORKERS = 64 };

static struct {
    long workers, duration_ms, chunk, threshold_us, most_gaps;
} plan = {4, 1000, 500, 10, 50000};

struct gap {
    int64_t at_ns, ns;
    long switches; /* how often the kernel switched this worker out since its last gap */
};

static struct worker {
    _Atomic pid_t tid;
    struct gap *gaps;
    long seen, kept, chunks;
    struct lab_tally tally;
    struct schedstat scheduled;
} workers[MOST_WORKERS];

static pthread_barrier_t gate;
static atomic_bool over;
static int64_t start_ns, end_ns, chunk_ns, threshold_ns;

static void stop(int signal)
{
    (void)signal;
    atomic_store(&over, true);
}

/* The same work every time: each step needs the result of the one before, and the empty asm keeps the compiler
 * from computing it in advance. */
static void do_chunk(void)
{
    uint32_t x = 1;
    for (long i = 0; i < plan.chunk; i++) {
        x = x * 1664525 + 1013904223;
        __asm__ volatile("" : "+r"(x));
    }
}

/* On a slow machine one chunk may take longer than the threshold that was asked for: every chunk would be a gap. */
static void measure_chunk(void)
{
    chunk_ns = INT64_MAX;
    for (int i = 0; i < 50; i++) {
        int64_t before = lab_now_ns();
        do_chunk();
        int64_t took = lab_now_ns() - before;
        if (took < chunk_ns)
            chunk_ns = took;
    }
    threshold_ns = plan.threshold_us * 1000;
    if (threshold_ns < 10 * chunk_ns)
        threshold_ns = 10 * chunk_ns;
}

static void burn(struct worker *me)
{
    long switched = involuntary_now();
    int64_t before = lab_now_ns();
    while (before < end_ns && !atomic_load_explicit(&over, memory_order_relaxed)) {
        do_chunk();
        me->chunks++;
        int64_t now = lab_now_ns();
        if (now - before > threshold_ns) {
            long switched_now = involuntary_now();
            if (me->kept < plan.most_gaps)
                me->gaps[me->kept++] = (struct gap){before - start_ns, now - before, switched_now - switched};
            me->seen++;
            switched = switched_now;
            now = lab_now_ns(); /* to ask takes time, too, and is no gap */
        }
        before = now;
    }
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    lab_sleep_until(start_ns);
    struct schedstat first = schedstat_now();
    struct lab_tally before = lab_tally_now();
    burn(me);
    me->tally = lab_tally_since(before);
    struct schedstat last = schedstat_now();
    me->scheduled = (struct schedstat){last.run_ns - first.run_ns, last.wait_ns - first.wait_ns,
                                       last.timeslices - first.timeslices};
    return NULL;
}

static void report(int number, const struct worker *me)
{
    for (long i = 0; i < me->kept; i++)
        printf("gap worker=%d at_ns=%" PRId64 " ns=%" PRId64 " switches=%ld\n", number, me->gaps[i].at_ns,
               me->gaps[i].ns, me->gaps[i].switches);
    printf("worker worker=%d chunks=%ld cpu_ns=%" PRId64 " voluntary=%" PRId64 " involuntary=%" PRId64, number,
           me->chunks, me->tally.cpu_ns, me->tally.voluntary, me->tally.involuntary);
    if (me->scheduled.run_ns > 0)
        printf(" wait_ns=%" PRId64 " timeslices=%" PRId64, me->scheduled.wait_ns, me->scheduled.timeslices);
    printf(" gaps=%ld lost=%ld\n", me->seen, me->seen - me->kept);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"workers", required_argument, 0, 'w'},      {"duration-ms", required_argument, 0, 'm'},
        {"chunk", required_argument, 0, 'c'},        {"threshold-us", required_argument, 0, 't'},
        {"most-gaps", required_argument, 0, 'g'},    {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.workers = lab_number("--workers", optarg, 1, MOST_WORKERS); break;
        case 'm': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 3600000); break;
        case 'c': plan.chunk = lab_number("--chunk", optarg, 1, 1000000); break;
        case 't': plan.threshold_us = lab_number("--threshold-us", optarg, 1, 1000000); break;
        case 'g': plan.most_gaps = lab_number("--most-gaps", optarg, 1, 10000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    /* SA_RESTART: reads that are under way go on, only the workers end. */
    sigaction(SIGINT, &(struct sigaction){.sa_handler = stop, .sa_flags = SA_RESTART}, NULL);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.workers + 1);
    measure_chunk();

    pthread_t threads[MOST_WORKERS];
    pid_t tids[MOST_WORKERS];
    for (long i = 0; i < plan.workers; i++) {
        size_t bytes = (size_t)plan.most_gaps * sizeof(struct gap);
        workers[i].gaps = lab_shared(bytes);
        memset(workers[i].gaps, 0, bytes); /* no page fault later */
        threads[i] = lab_thread(be_worker, &workers[i]);
        while (!workers[i].tid)
            sched_yield();
        tids[i] = workers[i].tid;
    }
    lab_barrier(tids, (int)plan.workers);

    /* Time for every worker to leave the gate and fall asleep, so that they all start together. */
    start_ns = lab_now_ns() + 20000000;
    end_ns = start_ns + plan.duration_ms * 1000000;
    pthread_barrier_wait(&gate);
    for (long i = 0; i < plan.workers; i++)
        pthread_join(threads[i], NULL);
    printf("chunk ns=%" PRId64 " threshold_ns=%" PRId64 "\n", chunk_ns, threshold_ns);
    for (long i = 0; i < plan.workers; i++)
        report((int)i, &workers[i]);
    return lab_done();
}
