/* service.c - a small server: requests arrive at their own times, threads serve them, and each one's wait counts.
 *
 * A request is a fixed amount of *work*: --loops turns of a small loop, the same number whatever else goes on, so a
 * request that takes longer was kept waiting.  Latency counts from the moment the request was due, not from the
 * moment a thread got round to it: while every thread is busy, or held back by a CPU limit, requests go on arriving.
 *
 *     --arrivals poisson    open loop: independent users; --rate-per-s over the whole run, --batch at a time
 *     --arrivals even       open loop: the same at equal distances
 *     --arrivals closed     closed loop, for contrast: each thread is a client that waits for its answer, thinks for
 *                           --think-us, and asks again.  When the server is slow, it asks less often
 *     --calibrate-us N      serve nothing; say how many turns of the loop take N microseconds here when undisturbed
 *
 *     ready tid=THREAD tid=THREAD ...
 *     request number=0 thread=1 arrival_ns=... start_ns=... end_ns=...   times count from the common start;
 *                                                    start_ns=-1 end_ns=-1 thread=-1: arrived, and nobody took it
 *     worker thread=0 served=... cpu_ns=... voluntary=... involuntary=... wait_ns=... timeslices=...
 *                                                    wait_ns, timeslices: run delay and times switched in since the
 *                                                    start, from /proc/thread-self/schedstat; 0 where the kernel does
 *                                                    not keep them
 *     service arrived=... completed=... waiting=... elapsed_ns=... began_ns=...   arrived is what was due until the
 *                                                    end; completed is what the threads counted, each for itself;
 *                                                    began_ns is the common start on the monotonic clock
 *     work loops=... ns=...                          with --calibrate-us only
 *
 * At the end of --duration-ms no thread begins another request; what has begun is finished.
 */
#include "lab.h"
#include "schedstat.h"
#include "work.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_THREADS = 256, MOST_REQUESTS = 1000000 };
enum arrivals { POISSON, EVEN, CLOSED };

static struct {
    long threads, duration_ms, rate_per_s, batch, think_us, loops, seed, calibrate_us;
    enum arrivals arrivals;
} plan = {2, 1000, 100, 1, 1000, 100000, 1, 0, POISSON};

static struct request {
    int64_t arrival_ns, start_ns, end_ns;
    int thread;
} *requests;

static struct worker {
    _Atomic pid_t tid;
    long served;
    struct lab_tally tally;
    struct schedstat scheduled;
} workers[MOST_THREADS];

static pthread_barrier_t gate;
static long arrived;          /* open loop: how many requests are due until the end */
static atomic_long next_one;  /* the next request that nobody has taken */
static int64_t start_ns, end_ns;

/* A random number with mean 1 and the density exp(-x), by comparisons alone (von Neumann, 1951): descending runs of
 * uniform numbers that start at u have an odd length with probability exp(-u). */
static double exponential(unsigned short state[3])
{
    for (int whole = 0;; whole++) {
        double first = erand48(state), last = first, next;
        long length = 1;
        while ((next = erand48(state)) < last) {
            last = next;
            length++;
        }
        if (length % 2)
            return whole + first;
    }
}

/* Open loop: when each request is due, from the seed alone, so that two runs can be given the same requests.  There
 * are as many as the rate says, so that chance moves their places and not how much work a short run brings.  Poisson
 * arrivals of which one knows the number lie where sums of exponential gaps do, all of them scaled to the duration. */
static void schedule(void)
{
    unsigned short first[3] = {0x330e, (unsigned short)plan.seed, (unsigned short)(plan.seed >> 16)}, again[3];
    double duration_ns = 1e6 * (double)plan.duration_ms, sum = 0, gaps = 0;
    long batches = (long)(duration_ns / 1e9 * (double)plan.rate_per_s / (double)plan.batch + 0.5);
    if (batches * plan.batch > MOST_REQUESTS)
        lab_fail("more than %d requests", MOST_REQUESTS);
    memcpy(again, first, sizeof again);
    for (long i = 0; i <= batches; i++) /* the last gap lies between the last arrival and the end */
        gaps += exponential(first);
    for (long i = 0; i < batches; i++) {
        sum += exponential(again);
        double part = plan.arrivals == EVEN ? ((double)i + 0.5) / (double)batches : sum / gaps;
        for (long j = 0; j < plan.batch; j++)
            requests[arrived++] = (struct request){(int64_t)(duration_ns * part + 0.5), -1, -1, -1};
    }
}

static void serve(struct request *r, int thread)
{
    r->start_ns = lab_now_ns() - start_ns;
    r->thread = thread;
    work(plan.loops);
    r->end_ns = lab_now_ns() - start_ns;
    workers[thread].served++;
}

/* Threads take the requests in their order.  One that takes a request that is not due yet sleeps until it is. */
static void open_loop(int thread)
{
    for (;;) {
        if (lab_now_ns() >= end_ns)
            return;
        long number = atomic_fetch_add(&next_one, 1);
        if (number >= arrived)
            return;
        if (start_ns + requests[number].arrival_ns > lab_now_ns())
            lab_sleep_until(start_ns + requests[number].arrival_ns);
        serve(&requests[number], thread);
    }
}

static void closed_loop(int thread)
{
    unsigned short state[3] = {0x330e, (unsigned short)plan.seed, (unsigned short)(thread + 1)};
    for (;;) {
        int64_t due_ns = lab_now_ns() + (int64_t)(1e3 * (double)plan.think_us * exponential(state));
        if (due_ns >= end_ns)
            return;
        lab_sleep_until(due_ns);
        long number = atomic_fetch_add(&next_one, 1);
        if (number >= MOST_REQUESTS)
            lab_fail("more than %d requests", MOST_REQUESTS);
        requests[number] = (struct request){due_ns - start_ns, -1, -1, -1};
        serve(&requests[number], thread);
    }
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    int thread = (int)(me - workers);
    prctl(PR_SET_TIMERSLACK, 1);
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    lab_sleep_until(start_ns);
    struct schedstat first = schedstat_now(); /* the waits before the start are no request's */
    struct lab_tally before = lab_tally_now();
    if (plan.arrivals == CLOSED)
        closed_loop(thread);
    else
        open_loop(thread);
    me->tally = lab_tally_since(before);
    struct schedstat last = schedstat_now();
    me->scheduled.wait_ns = last.wait_ns - first.wait_ns;
    me->scheduled.timeslices = last.timeslices - first.timeslices;
    return NULL;
}

/* The fewest nanoseconds of many tries are those that nobody disturbed. */
static int calibrate(void)
{
    const long loops = 20000;
    pid_t tid = lab_tid();
    lab_barrier(&tid, 1);
    int64_t best = INT64_MAX;
    for (int i = 0; i < 400; i++) {
        int64_t before = lab_now_ns();
        work(loops);
        int64_t took = lab_now_ns() - before;
        if (took < best)
            best = took;
    }
    printf("work loops=%" PRId64 " ns=%" PRId64 "\n", loops * plan.calibrate_us * 1000 / best, plan.calibrate_us * 1000);
    return lab_done();
}

static void report(int64_t elapsed_ns)
{
    long completed = 0, waiting = 0;
    for (long i = 0; i < arrived; i++) {
        const struct request *r = &requests[i];
        printf("request number=%ld thread=%d arrival_ns=%" PRId64 " start_ns=%" PRId64 " end_ns=%" PRId64 "\n", i,
               r->thread, r->arrival_ns, r->start_ns, r->end_ns);
        waiting += r->end_ns < 0;
    }
    for (long i = 0; i < plan.threads; i++) {
        const struct worker *w = &workers[i];
        printf("worker thread=%ld served=%ld cpu_ns=%" PRId64 " voluntary=%" PRId64 " involuntary=%" PRId64
               " wait_ns=%" PRId64 " timeslices=%" PRId64 "\n",
               i, w->served, w->tally.cpu_ns, w->tally.voluntary, w->tally.involuntary, w->scheduled.wait_ns,
               w->scheduled.timeslices);
        completed += w->served;
    }
    printf("service arrived=%ld completed=%ld waiting=%ld elapsed_ns=%" PRId64 " began_ns=%" PRId64 "\n", arrived,
           completed, waiting, elapsed_ns, start_ns);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"threads", required_argument, 0, 't'},  {"duration-ms", required_argument, 0, 'm'},
        {"arrivals", required_argument, 0, 'a'}, {"rate-per-s", required_argument, 0, 'r'},
        {"batch", required_argument, 0, 'b'},    {"think-us", required_argument, 0, 'k'},
        {"loops", required_argument, 0, 'l'},    {"seed", required_argument, 0, 's'},
        {"deadline", required_argument, 0, 'd'}, {"calibrate-us", required_argument, 0, 'c'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 't': plan.threads = lab_number("--threads", optarg, 1, MOST_THREADS); break;
        case 'm': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 3600000); break;
        case 'r': plan.rate_per_s = lab_number("--rate-per-s", optarg, 1, 1000000); break;
        case 'b': plan.batch = lab_number("--batch", optarg, 1, 10000); break;
        case 'k': plan.think_us = lab_number("--think-us", optarg, 0, 10000000); break;
        case 'l': plan.loops = lab_number("--loops", optarg, 1, 1000000000); break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, 1000000000); break;
        case 'c': plan.calibrate_us = lab_number("--calibrate-us", optarg, 1, 1000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'a':
            if (!strcmp(optarg, "poisson"))
                plan.arrivals = POISSON;
            else if (!strcmp(optarg, "even"))
                plan.arrivals = EVEN;
            else if (!strcmp(optarg, "closed"))
                plan.arrivals = CLOSED;
            else
                lab_fail("--arrivals takes poisson, even or closed, not '%s'", optarg);
            break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    if (plan.calibrate_us)
        return calibrate();

    requests = lab_shared(MOST_REQUESTS * sizeof *requests);
    if (plan.arrivals != CLOSED)
        schedule(); /* writes each request, so that none is a page fault later */
    pthread_barrier_init(&gate, NULL, (unsigned)plan.threads + 1);
    pthread_t threads[MOST_THREADS];
    pid_t tids[MOST_THREADS];
    for (long i = 0; i < plan.threads; i++) {
        threads[i] = lab_thread(be_worker, &workers[i]);
        while (!workers[i].tid)
            sched_yield();
        tids[i] = workers[i].tid;
    }
    lab_barrier(tids, (int)plan.threads);

    /* Time for every thread to leave the gate and fall asleep, so that they all start together. */
    start_ns = lab_now_ns() + 20000000;
    end_ns = start_ns + plan.duration_ms * 1000000;
    pthread_barrier_wait(&gate);
    for (long i = 0; i < plan.threads; i++)
        pthread_join(threads[i], NULL);
    if (plan.arrivals == CLOSED)
        arrived = atomic_load(&next_one);
    report(lab_now_ns() - start_ns);
    return lab_done();
}
