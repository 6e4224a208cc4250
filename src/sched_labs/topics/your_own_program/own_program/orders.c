/* orders.c - a small shop: workers take orders, and something about the shop may be wrong.
 *
 * Every worker repeats one round: it works on an order for --work-us, and then sleeps for --pause-us, or goes on at
 * once where that is 0.  The troubles are those that real programs have:
 *
 *     --lock        all workers work under one lock, so that one of them works and the others wait
 *     --yield       after each order a worker offers its CPU to whoever wants it
 *     --touch-kib   each order needs so much new memory, and gives it back
 *
 * Whoever starts it can add more: a quota, a mask, a neighbour.
 *
 *     ready tid=WORKER tid=WORKER ...
 *     worker worker=0 orders=... cpu_ns=... voluntary=... involuntary=...
 *
 * It lasts --duration-ms.
 */
#include "lab.h"
#include "work.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>

enum { MOST_WORKERS = 256, PAGE = 4096 };

static struct {
    long workers, work_us, pause_us, touch_kib, duration_ms;
    bool lock, yield;
} plan = {2, 1000, 0, 0, 1000, false, false};

static struct worker {
    _Atomic pid_t tid;
    long orders;
    struct lab_tally tally;
} workers[MOST_WORKERS];

static pthread_barrier_t gate;
static pthread_mutex_t till = PTHREAD_MUTEX_INITIALIZER;
static int64_t end_ns;
static long order_steps;

static void touch_new_memory(void)
{
    size_t bytes = (size_t)plan.touch_kib << 10;
    volatile char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %zu bytes", bytes);
    for (size_t at = 0; at < bytes; at += PAGE)
        memory[at] = 1;
    munmap((void *)memory, bytes);
}

static void one_order(void)
{
    if (plan.lock)
        pthread_mutex_lock(&till);
    work(order_steps);
    if (plan.touch_kib)
        touch_new_memory();
    if (plan.lock)
        pthread_mutex_unlock(&till);
    if (plan.yield)
        sched_yield();
    if (plan.pause_us)
        lab_sleep_until(lab_now_ns() + plan.pause_us * 1000);
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    struct lab_tally before = lab_tally_now();
    while (lab_now_ns() < end_ns) {
        one_order();
        me->orders++;
    }
    me->tally = lab_tally_since(before);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"workers", required_argument, 0, 'w'},     {"work-us", required_argument, 0, 'u'},
        {"pause-us", required_argument, 0, 'p'},    {"touch-kib", required_argument, 0, 'k'},
        {"duration-ms", required_argument, 0, 't'}, {"lock", no_argument, 0, 'l'},
        {"yield", no_argument, 0, 'y'},             {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.workers = lab_number("--workers", optarg, 1, MOST_WORKERS); break;
        case 'u': plan.work_us = lab_number("--work-us", optarg, 1, 1000000); break;
        case 'p': plan.pause_us = lab_number("--pause-us", optarg, 0, 1000000); break;
        case 'k': plan.touch_kib = lab_number("--touch-kib", optarg, 0, 1 << 20); break;
        case 't': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 3600000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'l': plan.lock = true; break;
        case 'y': plan.yield = true; break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    order_steps = (long)(steps_per_us() * (double)plan.work_us) + 1;
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

    end_ns = lab_now_ns() + plan.duration_ms * 1000000;
    pthread_barrier_wait(&gate);
    for (long i = 0; i < plan.workers; i++)
        pthread_join(threads[i], NULL);
    for (long i = 0; i < plan.workers; i++) {
        struct worker *w = &workers[i];
        printf("worker worker=%ld orders=%ld cpu_ns=%" PRId64 " voluntary=%" PRId64 " involuntary=%" PRId64 "\n", i,
               w->orders, w->tally.cpu_ns, w->tally.voluntary, w->tally.involuntary);
    }
    return lab_done();
}
