/* timers.c - many things to do every few milliseconds: how often must somebody wake up for them?
 *
 *     own         every thread has its own times, spread over the period; precise timers (slack 1 ns)
 *     slack       the same times, but each may be --slack-us late: the kernel puts timers together
 *     together    every thread has the same times
 *     one         one thread does what is due for all of them, all at the same times
 *
 *     ready tid=THREAD ...
 *     timers by=own trial=0 events=... bursts=... voluntary=... involuntary=... cpu_ns=... p50_ns=... p99_ns=...
 *         bursts          wake-ups with at least 100 µs of quiet before them: those that can wake a CPU
 *         p50_ns, p99_ns  how long after its time an event was served
 */
#include "lab.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>

enum { MOST_THREADS = 64, WAYS = 4, QUIET_NS = 100000 };
static const char *const ways[WAYS] = {"own", "slack", "together", "one"};

static struct {
    long threads, period_us, periods, slack_us, trials;
} plan = {16, 10000, 20, 5000, 3};

static pthread_barrier_t gate;
static _Atomic pid_t tids[MOST_THREADS];
static _Atomic int way;
static int64_t start_ns, *served, *late; /* per event, in whatever order */
static _Atomic long events;
static _Atomic int64_t voluntary, involuntary, cpu_ns;

static void serve(int64_t due)
{
    int64_t now = lab_now_ns();
    long mine = atomic_fetch_add(&events, 1);
    served[mine] = now;
    late[mine] = now - due;
}

static void tick(int number)
{
    int by = way;
    if (by == 3 && number)
        return; /* to look at the clocks of those that do nothing takes CPU time, too */
    prctl(PR_SET_TIMERSLACK, by == 1 ? plan.slack_us * 1000 : 1);
    struct lab_tally before = lab_tally_now();
    int64_t phase = by < 2 ? number * plan.period_us * 1000 / plan.threads : 0;
    for (long i = 0; i < plan.periods; i++) {
        int64_t due = start_ns + i * plan.period_us * 1000 + phase;
        lab_sleep_until(due);
        for (long all = by == 3 ? plan.threads : 1; all > 0; all--)
            serve(due);
    }
    struct lab_tally did = lab_tally_since(before);
    voluntary += did.voluntary;
    involuntary += did.involuntary;
    cpu_ns += did.cpu_ns;
}

static void *be_thread(void *argument)
{
    int number = (int)(intptr_t)argument;
    tids[number] = lab_tid();
    for (long round = 0; round < plan.trials * WAYS; round++) {
        pthread_barrier_wait(&gate);
        tick(number);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void play(long trial, int by)
{
    way = by;
    events = voluntary = involuntary = cpu_ns = 0;
    start_ns = lab_now_ns() + 20000000;
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    qsort(served, (size_t)events, sizeof *served, ascending);
    qsort(late, (size_t)events, sizeof *late, ascending);
    long bursts = 0;
    for (long i = 0; i < events; i++)
        bursts += i == 0 || served[i] - served[i - 1] > QUIET_NS;
    printf("timers by=%s trial=%ld events=%ld bursts=%ld voluntary=%" PRId64 " involuntary=%" PRId64
           " cpu_ns=%" PRId64 " p50_ns=%" PRId64 " p99_ns=%" PRId64 "\n",
           ways[by], trial, events, bursts, voluntary, involuntary, cpu_ns, late[events / 2], late[events * 99 / 100]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"threads", required_argument, 0, 'n'},   {"period-us", required_argument, 0, 'p'},
        {"periods", required_argument, 0, 'c'},   {"slack-us", required_argument, 0, 's'},
        {"trials", required_argument, 0, 't'},    {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'n': plan.threads = lab_number("--threads", optarg, 1, MOST_THREADS); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 100, 10000000); break;
        case 'c': plan.periods = lab_number("--periods", optarg, 1, 1000000); break;
        case 's': plan.slack_us = lab_number("--slack-us", optarg, 1, 10000000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.threads + 1);
    served = calloc((size_t)(plan.threads * plan.periods), sizeof *served);
    late = calloc((size_t)(plan.threads * plan.periods), sizeof *late);
    if (!served || !late)
        lab_fail("no memory");
    pthread_t threads[MOST_THREADS];
    pid_t named[MOST_THREADS];
    for (long i = 0; i < plan.threads; i++) {
        threads[i] = lab_thread(be_thread, (void *)(intptr_t)i);
        while (!tids[i])
            sched_yield();
        named[i] = tids[i];
    }
    lab_barrier(named, (int)plan.threads);
    for (long trial = 0; trial < plan.trials; trial++)
        for (int i = 0; i < WAYS; i++)
            play(trial, trial % 2 ? WAYS - 1 - i : i);
    for (long i = 0; i < plan.threads; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
