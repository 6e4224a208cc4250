/* batching.c - events come at a steady rate; a worker is woken for every one of them, or for every so many.
 *
 * The source makes an event every --period-us, on a schedule of absolute times.  It tells the worker (eventfd) when
 * --batch events have come together.  The worker does --work-us of work for each and notes how long after its time
 * the event was done.  Only the worker is counted: the source stands for a device.
 *
 *     ready tid=SOURCE tid=WORKER
 *     batch size=10 trial=0 events=... elapsed_ns=... cpu_ns=... voluntary=... involuntary=... wakes=...
 *         p50_ns=... p99_ns=... max_ns=...            from an event's scheduled time until it was done
 */
#include "lab.h"
#include "work.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

enum { MOST_BATCHES = 16 };

static struct {
    long batches[MOST_BATCHES], count, trials, events, period_us, work_us;
} plan = {{1, 10, 100}, 3, 3, 2000, 100, 10};

static int event;
static pthread_barrier_t gate;
static _Atomic pid_t worker_tid;
static int64_t start_ns, *delays;
static long work_steps; /* of one plan.work_us */
static struct {
    struct lab_tally tally;
    long wakes;
} worker;

static int64_t due(long number)
{
    return start_ns + number * plan.period_us * 1000;
}

static void *be_worker(void *unused)
{
    worker_tid = lab_tid();
    for (long round = 0; round < plan.trials * plan.count; round++) {
        pthread_barrier_wait(&gate);
        worker.wakes = 0;
        struct lab_tally before = lab_tally_now();
        for (long done = 0; done < plan.events; worker.wakes++) {
            uint64_t ready;
            if (read(event, &ready, sizeof ready) != sizeof ready)
                lab_fail("read");
            for (; ready; ready--, done++) {
                work(work_steps);
                delays[done] = lab_now_ns() - due(done);
            }
        }
        worker.tally = lab_tally_since(before);
        pthread_barrier_wait(&gate);
    }
    return unused;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void play(long trial, long batch)
{
    start_ns = lab_now_ns() + 2000000;
    pthread_barrier_wait(&gate);
    uint64_t together = 0;
    for (long i = 0; i < plan.events; i++) {
        lab_sleep_until(due(i));
        if (++together == (uint64_t)batch || i + 1 == plan.events) {
            if (write(event, &together, sizeof together) != sizeof together)
                lab_fail("write");
            together = 0;
        }
    }
    pthread_barrier_wait(&gate);
    int64_t elapsed = lab_now_ns() - start_ns;
    qsort(delays, (size_t)plan.events, sizeof *delays, ascending);
    printf("batch size=%ld trial=%ld events=%ld elapsed_ns=%" PRId64 " cpu_ns=%" PRId64 " voluntary=%" PRId64
           " involuntary=%" PRId64 " wakes=%ld p50_ns=%" PRId64 " p99_ns=%" PRId64 " max_ns=%" PRId64 "\n",
           batch, trial, plan.events, elapsed, worker.tally.cpu_ns, worker.tally.voluntary, worker.tally.involuntary,
           worker.wakes, delays[plan.events / 2], delays[plan.events * 99 / 100], delays[plan.events - 1]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"batches", required_argument, 0, 'b'},   {"trials", required_argument, 0, 't'},
        {"events", required_argument, 0, 'e'},    {"period-us", required_argument, 0, 'p'},
        {"work-us", required_argument, 0, 'w'},   {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'b':
            plan.count = 0;
            for (char *word = strtok(optarg, ","); word && plan.count < MOST_BATCHES; word = strtok(NULL, ","))
                plan.batches[plan.count++] = lab_number("--batches", word, 1, 1000000);
            break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 10000); break;
        case 'e': plan.events = lab_number("--events", optarg, 1, 10000000); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 1, 1000000); break;
        case 'w': plan.work_us = lab_number("--work-us", optarg, 0, 1000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    prctl(PR_SET_TIMERSLACK, 1); /* what is left is two wake-ups, the source's and the worker's, and the work */
    work_steps = (long)((double)plan.work_us * steps_per_us());
    event = eventfd(0, 0);
    delays = calloc((size_t)plan.events, sizeof *delays);
    if (event < 0 || !delays)
        lab_fail("cannot prepare");
    pthread_barrier_init(&gate, NULL, 2);
    pthread_t thread;
    thread = lab_thread(be_worker, NULL);
    while (!worker_tid)
        sched_yield();
    lab_barrier((pid_t[]){lab_tid(), worker_tid}, 2);
    for (long trial = 0; trial < plan.trials; trial++)
        for (long i = 0; i < plan.count; i++)
            play(trial, plan.batches[trial % 2 ? plan.count - 1 - i : i]);
    pthread_join(thread, NULL);
    return lab_done();
}
