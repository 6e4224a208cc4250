/* worker.c - workers that do a fixed piece of work and then yield, or sleep: how long do they wait to go on?
 *
 * Every worker repeats one round: a burst of work, always the same number of steps, and then either sched_yield()
 * or a short sleep.  The work is counted in steps and not in time, because a burst that ends at a point in time
 * burns nothing when its worker comes late, and the more crowded the CPU the less it would do.
 *
 * A yielding worker never sleeps: nobody has to wake it, it is runnable all the time.  A sleeping worker is woken
 * by its timer, and we know to the nanosecond when it was due.  Their waits are different things:
 *
 *     preempted   the worker could go on and somebody else had the CPU: sched_yield() came back after a switch,
 *                 or a burst was interrupted by one.  Only where the kernel counted an involuntary switch.
 *     wakeup      from the end of the sleep, as it was asked for, until the worker ran
 *
 * The program runs --blocks blocks.  Each starts with a line on standard input, as the first does, and ends with a
 * record `end`; in between everybody sleeps.
 *
 *     ready tid=WORKER tid=WORKER ...
 *     burst ns=... steps=...                        the quickest burst that was seen before the first block
 *     bin cause=... number=... waits=...            sixteen bins of equal width in each power of two
 *     worker worker=0 rounds=... switched=... cpu_ns=... voluntary=... involuntary=... wait_ns=... timeslices=...
 *         switched              rounds whose sched_yield() led to a switch
 *         wait_ns, timeslices   from /proc/thread-self/schedstat; left out where the kernel does not keep them
 *     end block=0 elapsed_ns=...
 */
#include "lab.h"
#include "schedstat.h"
#include "work.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>

enum { MOST_WORKERS = 512, BIN_BITS = 4, BINS = 64 << BIN_BITS };

static struct {
    long workers, burst_us, pause_us, duration_ms, blocks;
    bool sleeps;
} plan = {4, 50, 50, 200, 1, false};

static struct worker {
    _Atomic pid_t tid;
    long wakeup[BINS], preempted[BINS];
    long rounds, switched;
    struct lab_tally tally;
    struct schedstat scheduled;
} *workers;

static pthread_barrier_t gate;
static int64_t start_ns, end_ns, burst_ns;
static long burst_steps;

static void count(long *bins, int64_t ns)
{
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    int shift = 0;
    while (value >> shift >= 2 << BIN_BITS)
        shift++;
    bins[((uint64_t)shift << BIN_BITS) + (value >> shift)]++;
}

static void one_round(struct worker *me, long *switches)
{
    int64_t before = lab_now_ns();
    work(burst_steps);
    int64_t worked = lab_now_ns();
    if (worked - before > burst_ns + burst_ns / 2) {
        long now = involuntary_now();
        if (now != *switches)
            count(me->preempted, worked - before - burst_ns);
        *switches = now;
        worked = lab_now_ns();
    }
    if (plan.sleeps) {
        int64_t due = worked + plan.pause_us * 1000;
        lab_sleep_until(due);
        count(me->wakeup, lab_now_ns() - due);
    } else {
        sched_yield();
        int64_t back = lab_now_ns();
        long now = involuntary_now();
        if (now != *switches) {
            count(me->preempted, back - worked);
            me->switched++;
        }
        *switches = now;
    }
    me->rounds++;
}

static void play(struct worker *me)
{
    struct schedstat first = schedstat_now();
    struct lab_tally before = lab_tally_now();
    long switches = involuntary_now();
    while (lab_now_ns() < end_ns)
        one_round(me, &switches);
    me->tally = lab_tally_since(before);
    struct schedstat last = schedstat_now();
    me->scheduled = (struct schedstat){last.run_ns - first.run_ns, last.wait_ns - first.wait_ns,
                                       last.timeslices - first.timeslices};
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    prctl(PR_SET_TIMERSLACK, 1UL); /* by default the kernel may deliver a wake-up 50 µs late to save power */
    me->tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        lab_sleep_until(start_ns);
        play(me);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static void report(long block, int64_t elapsed)
{
    if (block == 0)
        printf("burst ns=%" PRId64 " steps=%ld\n", burst_ns, burst_steps);
    for (int bin = 0; bin < BINS; bin++) {
        long wakeup = 0, preempted = 0;
        for (long i = 0; i < plan.workers; i++) {
            wakeup += workers[i].wakeup[bin];
            preempted += workers[i].preempted[bin];
        }
        if (wakeup)
            printf("bin cause=wakeup number=%d waits=%ld\n", bin, wakeup);
        if (preempted)
            printf("bin cause=preempted number=%d waits=%ld\n", bin, preempted);
    }
    for (long i = 0; i < plan.workers; i++) {
        struct worker *w = &workers[i];
        printf("worker worker=%ld rounds=%ld switched=%ld cpu_ns=%" PRId64 " voluntary=%" PRId64
               " involuntary=%" PRId64, i, w->rounds, w->switched, w->tally.cpu_ns, w->tally.voluntary,
               w->tally.involuntary);
        if (w->scheduled.run_ns > 0)
            printf(" wait_ns=%" PRId64 " timeslices=%" PRId64, w->scheduled.wait_ns, w->scheduled.timeslices);
        putchar('\n');
        w->rounds = w->switched = 0;
        memset(w->wakeup, 0, sizeof w->wakeup);
        memset(w->preempted, 0, sizeof w->preempted);
    }
    printf("end block=%ld elapsed_ns=%" PRId64 "\n", block, elapsed);
    fflush(stdout);
}

/* A line on standard input starts the next block. */
int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"workers", required_argument, 0, 'w'},  {"mode", required_argument, 0, 'm'},
        {"burst-us", required_argument, 0, 'u'}, {"pause-us", required_argument, 0, 'p'},
        {"duration-ms", required_argument, 0, 't'}, {"blocks", required_argument, 0, 'b'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.workers = lab_number("--workers", optarg, 1, MOST_WORKERS); break;
        case 'u': plan.burst_us = lab_number("--burst-us", optarg, 1, 100000); break;
        case 'p': plan.pause_us = lab_number("--pause-us", optarg, 1, 1000000); break;
        case 't': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 3600000); break;
        case 'b': plan.blocks = lab_number("--blocks", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'm':
            plan.sleeps = !strcmp(optarg, "sleep");
            if (!plan.sleeps && strcmp(optarg, "yield"))
                lab_fail("--mode takes yield or sleep, not '%s'", optarg);
            break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    burst_steps = 10000 * plan.burst_us * 1000 / (quickest(10000) + 1) + 1;
    burst_ns = quickest(burst_steps);
    workers = lab_shared((size_t)plan.workers * sizeof *workers);
    memset(workers, 0, (size_t)plan.workers * sizeof *workers); /* no page fault later */
    pthread_barrier_init(&gate, NULL, (unsigned)plan.workers + 1);

    static pthread_t threads[MOST_WORKERS];
    static pid_t tids[MOST_WORKERS];
    for (long i = 0; i < plan.workers; i++) {
        threads[i] = lab_thread(be_worker, &workers[i]);
        while (!workers[i].tid)
            sched_yield();
        tids[i] = workers[i].tid;
    }
    lab_barrier(tids, (int)plan.workers);

    for (long block = 0; block < plan.blocks; block++) {
        if (block > 0)
            lab_wait_for_a_line();
        start_ns = lab_now_ns() + 10000000; /* time for every worker to fall asleep, so that they start together */
        end_ns = start_ns + plan.duration_ms * 1000000;
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
        report(block, lab_now_ns() - start_ns);
    }
    for (long i = 0; i < plan.workers; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
