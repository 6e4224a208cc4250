/* dispatch.c - several workers wait for connections at one address: which of them gets the next one?
 *
 * Connections come over the loopback, each with one request.  Most requests are quick: --work-us of computing.
 * One of ten is slow: its worker sleeps for --slow-us in the middle of it, as in a call to a database.  What
 * differs is where the workers wait:
 *
 *     each        every worker has an epoll instance of its own, and all of them watch one listening socket
 *     exclusive   the same with EPOLLEXCLUSIVE
 *     shared      one epoll instance, in which all workers wait
 *     reuseport   every worker has a listening socket of its own (SO_REUSEPORT): the kernel chooses one for each
 *                 connection, by its addresses and ports, before anybody looks who is busy
 *
 * The source connects at points in time that are laid down before: the same ones in every way.
 *
 *     ready tid=SOURCE tid=WORKER ...
 *     request way=each trial=0 worker=... slow=... late_ns=...
 *         late_ns    from when the request was due until its worker had done it
 *     worker way=each trial=0 worker=... requests=... empty=... voluntary=... involuntary=...
 *         empty      how often epoll_wait() returned and no connection was left
 *     end way=each trial=0 unserved=...
 */
#include "lab.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif

enum { MOST_WORKERS = 16, MOST_REQUESTS = 20000, WAYS = 4, ONE_IS_SLOW_OF = 10, BACKLOG = 1024 };
enum way { EACH, EXCLUSIVE, SHARED, REUSEPORT };
static const char *const ways[WAYS] = {"each", "exclusive", "shared", "reuseport"};

static struct {
    long workers, requests, period_us, work_us, slow_us, trials;
} plan = {4, 500, 1000, 50, 5000, 6};

static struct request {
    int64_t due_ns, late_ns;
    int slow, worker;
} requests[MOST_REQUESTS];

static struct worker {
    _Atomic pid_t tid;
    int listener, watcher;
    long requests, empty;
    struct lab_tally tally;
} workers[MOST_WORKERS];

static int finish; /* everybody watches it too: it says that a block is over */
static _Atomic long served;
static pthread_barrier_t gate;

static int listen_at(struct sockaddr_in *address, int alone)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    socklen_t length = sizeof *address;
    if (fd < 0 || (!alone && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes)) ||
        bind(fd, (struct sockaddr *)address, length) || listen(fd, BACKLOG) ||
        getsockname(fd, (struct sockaddr *)address, &length))
        lab_fail("cannot listen on the loopback");
    return fd;
}

static void watch(int watcher, int fd, uint32_t flags)
{
    struct epoll_event wanted = {.events = EPOLLIN | flags, .data.fd = fd};
    if (epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &wanted))
        lab_fail("epoll_ctl");
}

/* Where each worker waits, and the address to connect to. */
static struct sockaddr_in lay_out(enum way way)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (long i = 0; i < plan.workers; i++) {
        struct worker *one = &workers[i];
        int first = i == 0;
        one->listener = first || way == REUSEPORT ? listen_at(&address, way != REUSEPORT) : workers[0].listener;
        one->watcher = first || way != SHARED ? epoll_create1(EPOLL_CLOEXEC) : workers[0].watcher;
        if (one->watcher < 0)
            lab_fail("epoll_create1");
        if (first || way != SHARED) {
            watch(one->watcher, one->listener, way == EXCLUSIVE ? EPOLLEXCLUSIVE : 0);
            watch(one->watcher, finish, 0);
        }
    }
    return address;
}

static void clear_away(enum way way)
{
    for (long i = 0; i < plan.workers; i++) {
        if (i == 0 || way != SHARED)
            close(workers[i].watcher);
        if (i == 0 || way == REUSEPORT)
            close(workers[i].listener);
    }
}

static void serve(struct worker *me, int connection)
{
    uint32_t number;
    if (recv(connection, &number, sizeof number, MSG_WAITALL) == sizeof number && number < (uint32_t)plan.requests) {
        struct request *one = &requests[number];
        if (one->slow)
            usleep((useconds_t)plan.slow_us);
        int64_t until = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) + plan.work_us * 1000;
        while (lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
            ;
        one->worker = (int)(me - workers);
        one->late_ns = lab_now_ns() - one->due_ns;
        me->requests++;
        served++;
    }
    /* Reset, so that the port is free again at once. */
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(connection);
}

static void work(struct worker *me)
{
    me->requests = me->empty = 0;
    struct lab_tally before = lab_tally_now();
    for (;;) {
        struct epoll_event found;
        if (epoll_wait(me->watcher, &found, 1, -1) < 1)
            continue; /* a signal */
        if (found.data.fd == finish)
            break;
        int connection = accept4(me->listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0)
            serve(me, connection);
        else
            me->empty++;
    }
    me->tally = lab_tally_since(before);
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    me->tid = lab_tid();
    for (long block = 0; block < plan.trials * WAYS; block++) {
        pthread_barrier_wait(&gate); /* it is laid out */
        work(me);
        pthread_barrier_wait(&gate); /* everybody has seen that it is over */
    }
    return NULL;
}

/* Between two requests: one period on average, evenly from none to two; the same in every way of a trial. */
static void schedule(long trial, int64_t start_ns)
{
    uint32_t random = (uint32_t)trial * 2654435761u + 1;
    int64_t due_ns = start_ns;
    for (long i = 0; i < plan.requests; i++) {
        random = random * 1664525 + 1013904223;
        due_ns += (int64_t)(random >> 8) * 2 * plan.period_us * 1000 >> 24;
        random = random * 1664525 + 1013904223;
        requests[i] = (struct request){due_ns, -1, (random >> 8) % ONE_IS_SLOW_OF == 0, -1};
    }
}

static void play(long trial, enum way way)
{
    struct sockaddr_in address = lay_out(way);
    served = 0;
    pthread_barrier_wait(&gate);
    schedule(trial, lab_now_ns() + 20000000);
    for (uint32_t i = 0; i < (uint32_t)plan.requests; i++) {
        lab_sleep_until(requests[i].due_ns);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) ||
            send(fd, &i, sizeof i, MSG_NOSIGNAL) != sizeof i)
            lab_fail("cannot send a request");
        close(fd);
    }
    for (int i = 0; i < 2000 && served < plan.requests; i++)
        usleep(1000);
    uint64_t one = 1;
    if (write(finish, &one, sizeof one) != sizeof one)
        lab_fail("write");
    pthread_barrier_wait(&gate);
    if (read(finish, &one, sizeof one) != sizeof one)
        lab_fail("read");
    clear_away(way);
    for (long i = 0; i < plan.requests; i++)
        if (requests[i].late_ns >= 0)
            printf("request way=%s trial=%ld worker=%d slow=%d late_ns=%ld\n", ways[way], trial, requests[i].worker,
                   requests[i].slow, (long)requests[i].late_ns);
    for (long i = 0; i < plan.workers; i++)
        printf("worker way=%s trial=%ld worker=%ld requests=%ld empty=%ld voluntary=%ld involuntary=%ld\n", ways[way],
               trial, i, workers[i].requests, workers[i].empty, (long)workers[i].tally.voluntary,
               (long)workers[i].tally.involuntary);
    printf("end way=%s trial=%ld unserved=%ld\n", ways[way], trial, plan.requests - served);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"workers", required_argument, 0, 'w'}, {"requests", required_argument, 0, 'r'},
        {"period-us", required_argument, 0, 'p'}, {"work-us", required_argument, 0, 'c'},
        {"slow-us", required_argument, 0, 's'}, {"trials", required_argument, 0, 't'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.workers = lab_number("--workers", optarg, 1, MOST_WORKERS); break;
        case 'r': plan.requests = lab_number("--requests", optarg, 1, MOST_REQUESTS); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 10, 1000000); break;
        case 'c': plan.work_us = lab_number("--work-us", optarg, 0, 100000); break;
        case 's': plan.slow_us = lab_number("--slow-us", optarg, 0, 900000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    prctl(PR_SET_TIMERSLACK, 1); /* the source connects when it is due, and not up to 50 us later */
    pthread_barrier_init(&gate, NULL, (unsigned)plan.workers + 1);
    finish = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (finish < 0)
        lab_fail("eventfd");
    pthread_t threads[MOST_WORKERS];
    pid_t tids[MOST_WORKERS + 1];
    tids[0] = lab_tid();
    for (long i = 0; i < plan.workers; i++) {
        threads[i] = lab_thread(be_worker, &workers[i]);
        while (!workers[i].tid)
            sched_yield();
        tids[i + 1] = workers[i].tid;
    }
    lab_barrier(tids, (int)plan.workers + 1);
    for (long trial = 0; trial < plan.trials; trial++)
        for (int i = 0; i < WAYS; i++)
            play(trial, (enum way)((i + trial) % WAYS));
    for (long i = 0; i < plan.workers; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
