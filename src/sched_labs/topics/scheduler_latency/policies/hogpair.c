/* hogpair.c - two hogs on one CPU: what does one leave to the other, under the policies they were given?
 *
 * Both compute without end and look at the clock all the time.  The policies are not set here: whoever started
 * this program gives them to the threads between two blocks, when all of them sleep.
 *
 * A real-time hog takes its CPU from everybody of a lower priority, so three things end a block: the watchdog, a
 * thread of its own that sleeps until the block's end (give it a higher priority than the hogs, and let it run on
 * every CPU); the limit RLIMIT_RTTIME, at which the kernel kills a real-time thread that does not sleep; and the
 * deadline of every workload.
 *
 *     ready tid=WATCHDOG tid=HOG tid=HOG
 *     hog hog=0 cpu_ns=... longest_gap_ns=... involuntary=...
 *     end block=0 elapsed_ns=... watchdog_late_ns=...
 *
 * Each block starts with a line on standard input and lasts --duration-ms.
 */
#include "lab.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct {
    long duration_ms, blocks;
} plan = {500, 1};

static struct hog {
    _Atomic pid_t tid;
    int64_t longest_gap_ns;
    struct lab_tally tally;
} hogs[2];

static _Atomic pid_t watchdog_tid;
static pthread_barrier_t gate;
static atomic_bool over;
static int64_t start_ns, end_ns, stopped_ns;

static void *be_watchdog(void *unused)
{
    watchdog_tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        lab_sleep_until(end_ns);
        atomic_store(&over, true);
        stopped_ns = lab_now_ns();
        pthread_barrier_wait(&gate);
    }
    return unused;
}

static void burn(struct hog *me)
{
    me->longest_gap_ns = 0;
    int64_t before = start_ns;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        int64_t now = lab_now_ns();
        if (now - before > me->longest_gap_ns)
            me->longest_gap_ns = now - before;
        before = now;
    }
    /* A hog that has waited ever since somebody else took the CPU notices only now. */
    if (end_ns - before > me->longest_gap_ns)
        me->longest_gap_ns = end_ns - before;
}

static void *be_hog(void *argument)
{
    struct hog *me = argument;
    me->tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        lab_sleep_until(start_ns);
        struct lab_tally before = lab_tally_now();
        burn(me);
        me->tally = lab_tally_since(before);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"duration-ms", required_argument, 0, 't'}, {"blocks", required_argument, 0, 'b'},
        {"deadline", required_argument, 0, 'd'},    {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 't': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 10000); break;
        case 'b': plan.blocks = lab_number("--blocks", optarg, 1, 1000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    rlim_t limit_us = (rlim_t)plan.duration_ms * 1000 + 1000000;
    setrlimit(RLIMIT_RTTIME, &(struct rlimit){limit_us, limit_us});
    pthread_barrier_init(&gate, NULL, 4);

    pthread_t threads[3];
    threads[0] = lab_thread(be_watchdog, NULL);
    while (!watchdog_tid)
        sched_yield();
    for (int i = 0; i < 2; i++) {
        threads[1 + i] = lab_thread(be_hog, &hogs[i]);
        while (!hogs[i].tid)
            sched_yield();
    }
    pid_t tids[3] = {watchdog_tid, hogs[0].tid, hogs[1].tid};
    lab_barrier(tids, 3);

    for (long block = 0; block < plan.blocks; block++) {
        if (block > 0)
            lab_wait_for_a_line();
        atomic_store(&over, false);
        start_ns = lab_now_ns() + 10000000;
        end_ns = start_ns + plan.duration_ms * 1000000;
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
        for (int i = 0; i < 2; i++)
            printf("hog hog=%d cpu_ns=%ld longest_gap_ns=%ld involuntary=%ld\n", i, (long)hogs[i].tally.cpu_ns,
                   (long)hogs[i].longest_gap_ns, (long)hogs[i].tally.involuntary);
        printf("end block=%ld elapsed_ns=%ld watchdog_late_ns=%ld\n", block, (long)(stopped_ns - start_ns),
               (long)(stopped_ns - end_ns));
        fflush(stdout);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
