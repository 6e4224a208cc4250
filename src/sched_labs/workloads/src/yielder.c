/* yielder.c - what does sched_yield() do?  One thread yields by itself, and then all threads at once.
 *
 *     alone     thread 0 yields while the others sleep: there is nobody to yield to
 *     together  all yield, as often each: on one CPU every call may hand it to another
 *
 * There are two threads, or as many as --threads says: a crowd that is always ready to run.
 *
 * Each thread's switches are counted twice: by getrusage(RUSAGE_THREAD), and by the two lines of its status
 * file that tools such as pidstat read.  That file is read before the first thread starts and after the last
 * one has ended, so that no thread reads in the time of another.  Waiting for each other is a switch, so the
 * second count may be a little higher.
 *
 * The work is bounded: so many calls, then the end, also under a real-time policy.
 */
#include "lab.h"

#include <getopt.h>
#include <stdbool.h>

enum { MOST_YIELDERS = 1024 };

static struct {
    int policy;
    long threads, yields, trials;
} plan = {SCHED_OTHER, 2, 1000, 5};

static struct yielder {
    pid_t tid;
    int64_t elapsed_ns, migrations, status_voluntary, status_involuntary;
    struct lab_tally counted;
} yielders[MOST_YIELDERS];

static pthread_barrier_t placed, gate;

/* The switches of the calling thread as /proc tells them. */
static void read_status(int64_t *voluntary, int64_t *involuntary)
{
    FILE *file = fopen("/proc/thread-self/status", "r");
    if (!file)
        lab_fail("/proc/thread-self/status");
    char line[256];
    int found = 0;
    long count;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1) {
            *voluntary = count;
            found++;
        } else if (sscanf(line, "nonvoluntary_ctxt_switches: %ld", &count) == 1) {
            *involuntary = count;
            found++;
        }
    }
    fclose(file);
    if (found != 2)
        lab_fail("/proc/thread-self/status has no counts of switches");
}

static void yield_often(struct yielder *me, bool together)
{
    int64_t voluntary, involuntary;
    read_status(&voluntary, &involuntary);
    if (together)
        pthread_barrier_wait(&gate);
    int cpu = sched_getcpu();
    me->migrations = 0;
    struct lab_tally before = lab_tally_now();
    int64_t start = lab_now_ns();
    for (long i = 0; i < plan.yields; i++) {
        sched_yield();
        int now = sched_getcpu();
        me->migrations += now != cpu;
        cpu = now;
    }
    me->elapsed_ns = lab_now_ns() - start;
    me->counted = lab_tally_since(before);
    if (together)
        pthread_barrier_wait(&gate);
    read_status(&me->status_voluntary, &me->status_involuntary);
    me->status_voluntary -= voluntary;
    me->status_involuntary -= involuntary;
}

static void report(long trial, const char *condition, int thread)
{
    const struct yielder *it = &yielders[thread];
    printf("thread trial=%ld condition=%s thread=%d yields=%ld elapsed_ns=%ld voluntary=%ld involuntary=%ld "
           "status_voluntary=%ld status_involuntary=%ld migrations=%ld\n",
           trial, condition, thread, plan.yields, (long)it->elapsed_ns, (long)it->counted.voluntary,
           (long)it->counted.involuntary, (long)it->status_voluntary, (long)it->status_involuntary,
           (long)it->migrations);
}

static void *be_yielder(void *argument)
{
    struct yielder *me = argument;
    me->tid = lab_tid();
    if (plan.policy != SCHED_OTHER) {
        struct sched_param priority = {.sched_priority = plan.policy == SCHED_FIFO ? 1 : 0};
        if (sched_setscheduler(0, plan.policy, &priority))
            lab_fail("this policy may not be set");
    }
    pthread_barrier_wait(&placed);
    for (long trial = 0; trial < plan.trials; trial++) {
        if (me == yielders)
            yield_often(me, false);
        pthread_barrier_wait(&gate); /* alone has ended, and the first thread writes it down */
        if (me == yielders)
            report(trial, "alone", 0);
        pthread_barrier_wait(&gate);
        yield_often(me, true);
        pthread_barrier_wait(&gate);
        if (me == yielders)
            for (int i = 0; i < plan.threads; i++)
                report(trial, "together", i);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"policy", required_argument, 0, 'p'}, {"threads", required_argument, 0, 'n'},
        {"yields", required_argument, 0, 'y'}, {"trials", required_argument, 0, 't'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'p':
            if (!strcmp(optarg, "other"))
                plan.policy = SCHED_OTHER;
            else if (!strcmp(optarg, "batch"))
                plan.policy = SCHED_BATCH;
            else if (!strcmp(optarg, "fifo"))
                plan.policy = SCHED_FIFO;
            else
                lab_fail("--policy takes other, batch or fifo, not '%s'", optarg);
            break;
        case 'n': plan.threads = lab_number("--threads", optarg, 2, MOST_YIELDERS); break;
        /* The most that a real-time run may do: some seconds at the very worst. */
        case 'y': plan.yields = lab_number("--yields", optarg, 1, 1000000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 1000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    pthread_barrier_init(&placed, NULL, (unsigned)plan.threads + 1);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.threads);
    static pthread_t threads[MOST_YIELDERS];
    static pid_t tids[MOST_YIELDERS];
    for (int i = 0; i < plan.threads; i++) {
        threads[i] = lab_thread(be_yielder, &yielders[i]);
        while (!*(volatile pid_t *)&yielders[i].tid)
            sched_yield();
        tids[i] = yielders[i].tid;
    }
    lab_barrier(tids, (int)plan.threads);
    pthread_barrier_wait(&placed);
    for (int i = 0; i < plan.threads; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
