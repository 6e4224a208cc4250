/* pool.c - a pool of workers on a few CPUs: is it better to pin each worker to a CPU of its own?
 *
 * To serve a request is to walk once over --hot bytes, one line after the other in random order, each read and written.
 * Whose bytes they are is what the pool is about:
 *
 *     --owner thread    each worker has one set and requests of its own, one in every --period-us at a random moment:
 *                       it sleeps until the next is due, and nobody else can serve it, as where threads own a part of
 *                       the data each
 *     --owner request   each of --sessions has a set, the requests are theirs in turn, and there is one queue for all.
 *                       A dispatcher puts one into it every --period-us and wakes a worker, and whichever is awake
 *                       takes the next
 *
 * Both schedules are of absolute times: a pool that is late does not slow its clients down.
 *
 * An intruder, a process of its own, keeps its CPU busy for --stall-us out of every --every-us; with 0 there is none.
 *
 *     ready tid=DISPATCHER tid=INTRUDER tid=WORKER tid=WORKER ...
 *     request number=... worker=... cpu=... due=... start=... done=... moved=... sent=... wait=...
 *         ns from the begin of the schedule; start is when a worker had it in hand
 *         sent     when the dispatcher put it into the queue; left out where there is none
 *         wait     ns since the worker's request before in which it could have run and had no CPU; left out where the
 *                  kernel does not tell (/proc/thread-self/schedstat)
 *         moved    whether the worker ends it on another CPU than the one before
 *     worker number=... requests=... cpu_ns=... voluntary=... involuntary=... kernel_moves=...
 *         kernel_moves   nr_migrations of /proc/thread-self/sched; left out where the kernel does not tell
 *     intruder stalls=... cpu_ns=...
 */
#include "lab.h"
#include "ring.h"

#include <fcntl.h>
#include <getopt.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_WORKERS = 16 };

static struct {
    long workers, sessions, period_us, duration_ms, stall_us, every_us;
    size_t hot, line;
    bool by_thread;
} plan = {.workers = 2, .sessions = 64, .period_us = 200, .duration_ms = 200, .stall_us = 0, .every_us = 100000,
          .hot = 128 << 10, .line = 64, .by_thread = true};

/* What the intruder shares with us. */
static struct {
    sem_t go;
    int64_t start_ns, end_ns, cpu_ns;
    long stalls;
    _Atomic pid_t tid;
} *shared;

static struct request {
    int64_t due, sent, start, done;
    long wait_ns;
    int worker, cpu;
    bool moved;
} *requests;
static long total;

static struct worker {
    pthread_t thread;
    _Atomic pid_t tid;
    void **ring;
    long number, served, kernel_moves;
    struct lab_tally tally;
} workers[MOST_WORKERS];

static sem_t queue; /* of requests that are nobody's yet */
static atomic_long next_request;
static void ***sessions;
static pthread_barrier_t gate;

/* ---- the data ----------------------------------------------------------------------------------------------- */

/* A ring of lines in random order; each holds the address of the next, and a word that is counted up. */
static void **make_ring(void)
{
    static uint64_t state = RING_SEED;
    return link_ring(small_pages(plan.hot), plan.hot / plan.line, plan.line, true, &state);
}

/* The work of one request. */
static void walk(void **line)
{
    for (size_t i = plan.hot / plan.line; i > 0; i--) {
        ((volatile uintptr_t *)line)[1]++;
        line = *line;
    }
    __asm__ volatile("" : : "r"(line) : "memory");
}

/* ---- the workers -------------------------------------------------------------------------------------------- */

/* How long this thread has waited for a CPU so far; -1 where the kernel does not tell. */
static long waited_ns(int file)
{
    char text[128];
    long ns;
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    return sscanf(text, "%*d %ld", &ns) == 1 ? ns : -1;
}

/* How often the kernel moved this thread so far; -1 where it does not tell. */
static long kernel_moves(void)
{
    FILE *file = fopen("/proc/thread-self/sched", "re");
    long count = -1;
    char text[256];
    while (file && fgets(text, sizeof text, file))
        if (sscanf(text, "se.nr_migrations : %ld", &count) == 1)
            break;
    if (file)
        fclose(file);
    return count;
}

/* Sleeps until there is a request for this worker; its number, or one that no request has at the end. */
static long take(struct worker *me)
{
    if (plan.by_thread) {
        long number = me->number + plan.workers * me->served;
        if (number < total)
            lab_sleep_until(requests[number].due);
        return number;
    }
    while (sem_wait(&queue) && errno == EINTR)
        ;
    return atomic_fetch_add(&next_request, 1);
}

static void allow(const cpu_set_t *cpus)
{
    if (sched_setaffinity(0, sizeof *cpus, cpus))
        lab_fail("cannot place a worker: %s", strerror(errno));
}

/* Holds this worker on the CPU that is its own in turn, of those that it may use; returns all of these.
 * A free worker begins where a pinned one would: two that the kernel happened to start on one CPU can stay there, each
 * asleep while the other works, and would show what the start drew and not what moving costs. */
static cpu_set_t hold_apart(long number)
{
    cpu_set_t mine, own;
    if (sched_getaffinity(0, sizeof mine, &mine))
        lab_fail("cannot see where a worker may run: %s", strerror(errno));
    int cpu = -1;
    for (long left = number % CPU_COUNT(&mine); left >= 0; left--)
        while (!CPU_ISSET(++cpu, &mine))
            ;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    allow(&own);
    return mine;
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    me->tid = lab_tid();
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    pthread_barrier_wait(&gate);
    cpu_set_t mine = hold_apart(me->number);
    if (plan.by_thread)
        walk(me->ring); /* its data are there when the schedule begins */
    pthread_barrier_wait(&gate); /* the schedule is written */
    allow(&mine);
    long moves = kernel_moves(), waited = waited_ns(file);
    int cpu = sched_getcpu();
    struct lab_tally before = lab_tally_now();
    for (;;) {
        long number = take(me);
        if (number >= total)
            break;
        struct request *one = &requests[number];
        one->start = lab_now_ns();
        walk(plan.by_thread ? me->ring : sessions[number % plan.sessions]);
        one->done = lab_now_ns();
        long now = waited_ns(file);
        one->wait_ns = now < 0 ? -1 : now - waited;
        waited = now;
        one->worker = (int)me->number;
        one->cpu = sched_getcpu();
        one->moved = one->cpu != cpu;
        cpu = one->cpu;
        me->served++;
    }
    me->tally = lab_tally_since(before);
    me->kernel_moves = moves < 0 ? -1 : kernel_moves() - moves;
    return NULL;
}

/* The intruder wakes up at fixed times and is busy for as long as it was told, by the clock on the wall. */
static void intrude(void)
{
    shared->tid = lab_tid();
    prctl(PR_SET_TIMERSLACK, 1);
    while (sem_wait(&shared->go) && errno == EINTR)
        ;
    struct lab_tally before = lab_tally_now();
    int64_t every = plan.every_us * 1000, stall = plan.stall_us * 1000;
    for (int64_t at = shared->start_ns + every / 4; stall && at + stall < shared->end_ns; at += every) {
        lab_sleep_until(at);
        int64_t until = lab_now_ns() + stall;
        while (lab_now_ns() < until)
            ;
        shared->stalls++;
    }
    shared->cpu_ns = lab_tally_since(before).cpu_ns;
    _exit(0);
}

/* When each request is due.  A worker's own come at a random moment of each of its periods, so that two workers of a
 * CPU meet now and then, the same in every run. */
static void write_schedule(void)
{
    uint64_t state = 88172645463325252u;
    long period = plan.period_us * 1000;
    for (long i = 0; i < total; i++) {
        requests[i].due = shared->start_ns + (plan.by_thread ? i / plan.workers : i) * period;
        if (plan.by_thread)
            requests[i].due += (int64_t)(next_random(&state) % (uint64_t)period);
    }
}

static void dispatch(void)
{
    for (long i = 0; i < total; i++) {
        lab_sleep_until(requests[i].due);
        requests[i].sent = lab_now_ns();
        sem_post(&queue);
    }
    for (long i = 0; i < plan.workers; i++)
        sem_post(&queue); /* one more than there are requests: whoever finds none ends */
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"owner", required_argument, 0, 'o'},       {"workers", required_argument, 0, 'w'},
        {"sessions", required_argument, 0, 's'},    {"hot", required_argument, 0, 'h'},
        {"line", required_argument, 0, 'l'},        {"period-us", required_argument, 0, 'p'},
        {"duration-ms", required_argument, 0, 't'}, {"stall-us", required_argument, 0, 'b'},
        {"every-us", required_argument, 0, 'e'},    {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.workers = lab_number("--workers", optarg, 1, MOST_WORKERS); break;
        case 's': plan.sessions = lab_number("--sessions", optarg, 1, 100000); break;
        case 'h': plan.hot = (size_t)lab_number("--hot", optarg, 4096, 1L << 30); break;
        case 'l': plan.line = (size_t)lab_number("--line", optarg, 2 * sizeof(void *), 4096); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 10, 1000000); break;
        case 't': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 600000); break;
        case 'b': plan.stall_us = lab_number("--stall-us", optarg, 0, 100000); break;
        case 'e': plan.every_us = lab_number("--every-us", optarg, 1000, 10000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'o':
            plan.by_thread = !strcmp(optarg, "thread");
            if (!plan.by_thread && strcmp(optarg, "request"))
                lab_fail("--owner takes thread or request, not '%s'", optarg);
            break;
        default: return 2;
        }
    }
    if (2 * plan.stall_us > plan.every_us)
        lab_fail("--stall-us must leave at least half of --every-us to others");
    lab_begin(deadline_s);
    shared = lab_shared(sizeof *shared);
    sem_init(&shared->go, 1, 0);
    if (lab_fork() == 0)
        intrude();
    prctl(PR_SET_TIMERSLACK, 1);

    total = plan.duration_ms * 1000 / plan.period_us * (plan.by_thread ? plan.workers : 1);
    requests = calloc((size_t)total + 1, sizeof *requests);
    sessions = calloc((size_t)plan.sessions, sizeof *sessions);
    if (!requests || !sessions)
        lab_fail("no memory for %ld requests", total);
    memset(requests, 0, ((size_t)total + 1) * sizeof *requests); /* no page fault later */
    for (long i = 0; !plan.by_thread && i < plan.sessions; i++)
        sessions[i] = make_ring();
    sem_init(&queue, 0, 0);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.workers + 1);
    pid_t tids[MOST_WORKERS + 2] = {lab_tid()};
    for (long i = 0; i < plan.workers; i++) {
        workers[i].number = i;
        if (plan.by_thread)
            workers[i].ring = make_ring();
        workers[i].thread = lab_thread(be_worker, &workers[i]);
        while (!workers[i].tid)
            sched_yield();
        tids[i + 2] = workers[i].tid;
    }
    while (!shared->tid)
        sched_yield();
    tids[1] = shared->tid;
    lab_barrier(tids, (int)plan.workers + 2);

    pthread_barrier_wait(&gate);
    shared->start_ns = lab_now_ns() + 10000000; /* time for the workers to fall asleep */
    shared->end_ns = shared->start_ns + plan.duration_ms * 1000000;
    write_schedule();
    pthread_barrier_wait(&gate);
    sem_post(&shared->go);
    if (!plan.by_thread)
        dispatch();
    for (long i = 0; i < plan.workers; i++)
        pthread_join(workers[i].thread, NULL);
    while (waitpid(shared->tid, NULL, 0) < 0 && errno == EINTR)
        ;

    for (long i = 0; i < total; i++) {
        struct request *one = &requests[i];
        int64_t from = shared->start_ns;
        printf("request number=%ld worker=%d cpu=%d due=%ld start=%ld done=%ld moved=%d", i, one->worker, one->cpu,
               (long)(one->due - from), (long)(one->start - from), (long)(one->done - from), one->moved);
        if (!plan.by_thread)
            printf(" sent=%ld", (long)(one->sent - from));
        if (one->wait_ns >= 0)
            printf(" wait=%ld", one->wait_ns);
        putchar('\n');
    }
    for (long i = 0; i < plan.workers; i++) {
        printf("worker number=%ld requests=%ld cpu_ns=%ld voluntary=%ld involuntary=%ld", i, workers[i].served,
               (long)workers[i].tally.cpu_ns, (long)workers[i].tally.voluntary, (long)workers[i].tally.involuntary);
        if (workers[i].kernel_moves >= 0)
            printf(" kernel_moves=%ld", workers[i].kernel_moves);
        putchar('\n');
    }
    printf("intruder stalls=%ld cpu_ns=%ld\n", shared->stalls, (long)shared->cpu_ns);
    return lab_done();
}
