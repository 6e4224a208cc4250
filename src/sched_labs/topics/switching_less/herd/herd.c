/* herd.c - many threads wait for one event: how many of them wake up?
 *
 * Every thread has an epoll instance of its own.  What they watch differs:
 *
 *     shared      one eventfd for all: whoever reads first has the event, the others find nothing
 *     exclusive   the same with EPOLLEXCLUSIVE, which asks the kernel to wake one
 *     own         an eventfd for each thread; the source takes them in turn
 *
 * The source sends one event, and the next one --period-us later: by then everybody sleeps again.
 *
 *     ready tid=SOURCE tid=THREAD ...
 *     herd by=shared trial=0 threads=... events=... wakes=... empty=... voluntary=... involuntary=... cpu_ns=...
 *         wakes, empty   how often epoll_wait() returned, and how often there was nothing left to read then
 */
#include "lab.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif

enum { MOST_THREADS = 64, WAYS = 3 };
static const char *const ways[WAYS] = {"shared", "exclusive", "own"};

static struct {
    long threads, events, period_us, trials;
} plan = {8, 200, 500, 3};

static int shared, own[MOST_THREADS], finish; /* finish: everybody watches it too, and it tells that it is over */
static _Atomic pid_t tids[MOST_THREADS];
static _Atomic int way;
static pthread_barrier_t gate;
static _Atomic int64_t wakes, empty, taken, voluntary, involuntary, cpu_ns;

static void watch(int number)
{
    int fd = way == 2 ? own[number] : shared, watcher = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN | (way == 1 ? EPOLLEXCLUSIVE : 0u)}, found;
    struct epoll_event last = {.events = EPOLLIN, .data.fd = finish};
    wanted.data.fd = fd;
    if (watcher < 0 || epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &wanted) ||
        epoll_ctl(watcher, EPOLL_CTL_ADD, finish, &last))
        lab_fail("epoll");
    pthread_barrier_wait(&gate);
    struct lab_tally before = lab_tally_now();
    for (;;) {
        if (epoll_wait(watcher, &found, 1, -1) < 1)
            continue; /* a signal */
        if (found.data.fd == finish)
            break;
        uint64_t one;
        wakes++;
        if (read(fd, &one, sizeof one) == sizeof one)
            taken++;
        else
            empty++;
    }
    struct lab_tally did = lab_tally_since(before);
    voluntary += did.voluntary;
    involuntary += did.involuntary;
    cpu_ns += did.cpu_ns;
    close(watcher);
    pthread_barrier_wait(&gate);
}

static void *be_thread(void *argument)
{
    int number = (int)(intptr_t)argument;
    tids[number] = lab_tid();
    for (long round = 0; round < plan.trials * WAYS; round++) {
        pthread_barrier_wait(&gate); /* the source has chosen a way */
        watch(number);
    }
    return NULL;
}

static void play(long trial, int by)
{
    way = by;
    wakes = empty = taken = voluntary = involuntary = cpu_ns = 0;
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    int64_t start = lab_now_ns() + 5000000;
    for (long i = 0; i < plan.events; i++) {
        lab_sleep_until(start + i * plan.period_us * 1000);
        uint64_t one = 1;
        if (write(by == 2 ? own[i % plan.threads] : shared, &one, sizeof one) != sizeof one)
            lab_fail("write");
    }
    usleep(2000); /* whoever was woken in vain sleeps again */
    for (int i = 0; i < 1000 && taken < plan.events; i++)
        usleep(1000); /* somebody has lost its CPU on the way to an event */
    uint64_t end = 1;
    if (write(finish, &end, sizeof end) != sizeof end)
        lab_fail("write");
    pthread_barrier_wait(&gate);
    if (read(finish, &end, sizeof end) != sizeof end)
        lab_fail("read");
    printf("herd by=%s trial=%ld threads=%ld events=%ld wakes=%ld empty=%ld voluntary=%" PRId64
           " involuntary=%" PRId64 " cpu_ns=%" PRId64 "\n",
           ways[by], trial, plan.threads, (long)taken, (long)wakes, (long)empty, voluntary, involuntary, cpu_ns);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"threads", required_argument, 0, 'n'},   {"events", required_argument, 0, 'e'},
        {"period-us", required_argument, 0, 'p'}, {"trials", required_argument, 0, 't'},
        {"deadline", required_argument, 0, 'd'},  {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'n': plan.threads = lab_number("--threads", optarg, 1, MOST_THREADS); break;
        case 'e': plan.events = lab_number("--events", optarg, 1, 1000000); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 1, 1000000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.threads + 1);
    shared = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
    finish = eventfd(0, EFD_NONBLOCK);
    if (shared < 0 || finish < 0)
        lab_fail("eventfd");
    pthread_t threads[MOST_THREADS];
    pid_t named[MOST_THREADS + 1];
    named[0] = lab_tid();
    for (long i = 0; i < plan.threads; i++) {
        own[i] = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
        if (own[i] < 0)
            lab_fail("eventfd");
        threads[i] = lab_thread(be_thread, (void *)(intptr_t)i);
        while (!tids[i])
            sched_yield();
        named[i + 1] = tids[i];
    }
    lab_barrier(named, (int)plan.threads + 1);
    for (long trial = 0; trial < plan.trials; trial++)
        for (int i = 0; i < WAYS; i++)
            play(trial, trial % 2 ? WAYS - 1 - i : i);
    for (long i = 0; i < plan.threads; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
