/* connections.c - many connections, few requests at a time: one event loop, or a thread for each?
 *
 * Clients and server are two processes with --connections socket pairs between them.  The clients send requests
 * of eight bytes on a schedule of absolute times, --rate a second over all connections, whether or not earlier
 * ones have been answered (an open loop: a slow server does not slow its clients down).  The server answers each
 * with the same eight bytes, after --work-us of work:
 *
 *     loop      one thread waits for all connections at once (epoll), and serves all that are ready
 *     threads   a thread for each connection waits in recv()
 *
 * The sockets are Unix sockets that keep messages apart (SOCK_SEQPACKET).  On a SOCK_STREAM one, whoever is blocked
 * in recv() is woken also when the other side takes an answer and so makes room to send (sock_wfree, unix_write_space),
 * sees that there is nothing to read, and sleeps again: a second switch for each request, which is neither the
 * thread's nor a TCP connection's.
 *
 *     ready tid=CLIENT tid=SERVER
 *     served by=loop connections=... requests=... elapsed_ns=... cpu_ns=... voluntary=... involuntary=...
 *         rss_bytes=... waits=...         of the server, until all was answered and before anybody hung up;
 *                                         rss_bytes: what it took since it began, its own start
 *                                         included; waits: how often epoll_wait() returned (loop only)
 *     client sent=... answered=... p50_ns=... p99_ns=... max_ns=... late_ns=...
 *         from a request's scheduled time to its answer; late_ns: the 99th percentile of how late it was sent
 */
#include "lab.h"
#include "work.h"

#include <dirent.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

enum { MOST = 20000, AT_ONCE = 256 };

static struct {
    bool loop;
    long connections, rate, duration_ms, work_us;
} plan = {true, 10, 5000, 300, 0};

static int client[MOST], server[MOST];
static long work_steps; /* of one plan.work_us */

static struct {
    _Atomic pid_t server_tid;
    _Atomic int go;
    _Atomic long requests, waits, rss_bytes; /* rss_bytes: of the server, before it takes any connection */
} *shared;

/* What the kernel says of a process and all of its threads.  The clients look at the server from outside: it need not
 * do anything for that, and what it does when everybody hangs up is no request's. */
struct look {
    int64_t at_ns, cpu_ns;
    long voluntary, involuntary;
};

static FILE *of_process(pid_t pid, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    if (!file)
        lab_fail("%s", path);
    return file;
}

static struct look look_at(pid_t pid)
{
    struct look found = {.at_ns = lab_now_ns()};
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock))
        lab_fail("no clock of the server");
    found.cpu_ns = lab_clock_ns(clock);
    char name[64], line[256];
    snprintf(name, sizeof name, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(name);
    if (!tasks)
        lab_fail("%s", name);
    for (struct dirent *one; (one = readdir(tasks));) {
        if (one->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "task/%.20s/status", one->d_name);
        FILE *file = of_process(pid, name);
        while (fgets(line, sizeof line, file)) {
            long count;
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
                found.voluntary += count;
            else if (sscanf(line, "nonvoluntary_ctxt_switches: %ld", &count) == 1)
                found.involuntary += count;
        }
        fclose(file);
    }
    closedir(tasks);
    return found;
}

/* Resident memory, counted page by page.  The sum in statm comes late: up to 6.1 a thread keeps its share to itself for
 * some 64 page faults, from 6.2 a CPU does for 32 pages or more.  A thread that touched three pages and sleeps may not
 * be in it at all. */
static long resident_bytes(pid_t pid)
{
    char line[256];
    long kib = -1;
    FILE *file = of_process(pid, "smaps_rollup");
    while (kib < 0 && fgets(line, sizeof line, file))
        sscanf(line, "Rss: %ld", &kib);
    fclose(file);
    if (kib < 0)
        lab_fail("no Rss in smaps_rollup");
    return kib * 1024;
}

/* ---- the server ------------------------------------------------------------------------------------------ */

/* Serves what there is to serve on a connection; false when the client has gone.  recv() and send() need not find
 * out that this is a socket, as read() and write() must. */
static bool serve(int fd)
{
    char request[8 * 64];
    ssize_t got = recv(fd, request, sizeof request, 0);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0)
        return false;
    long asked = got / 8;
    for (long i = 0; i < asked; i++)
        work(work_steps);
    shared->requests += asked;
    return send(fd, request, (size_t)got, 0) == got;
}

static void run_loop(void)
{
    int watcher = epoll_create1(0);
    if (watcher < 0)
        lab_fail("epoll");
    for (long i = 0; i < plan.connections; i++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = server[i]};
        if (epoll_ctl(watcher, EPOLL_CTL_ADD, server[i], &wanted))
            lab_fail("epoll_ctl");
    }
    struct epoll_event found[AT_ONCE];
    for (long open = plan.connections; open > 0;) {
        int count = epoll_wait(watcher, found, AT_ONCE, -1);
        shared->waits++;
        for (int i = 0; i < count; i++)
            if (!serve(found[i].data.fd)) {
                close(found[i].data.fd);
                open--;
            }
    }
}

static void *serve_one(void *argument)
{
    int fd = (int)(intptr_t)argument;
    while (serve(fd))
        ;
    return NULL;
}

static void be_server(void)
{
    for (long i = 0; i < plan.connections; i++)
        close(client[i]);
    shared->rss_bytes = resident_bytes(getpid());
    pthread_t *threads = calloc((size_t)plan.connections, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    if (!plan.loop)
        for (long i = 0; i < plan.connections; i++)
            if ((errno = pthread_create(&threads[i], &attributes, serve_one, (void *)(intptr_t)server[i])))
                lab_fail("thread %ld", i);
    shared->server_tid = lab_tid();
    while (!shared->go)
        usleep(1000);
    if (plan.loop)
        run_loop();
    else
        for (long i = 0; i < plan.connections; i++)
            pthread_join(threads[i], NULL);
}

/* ---- the clients ----------------------------------------------------------------------------------------- */

static int64_t *delays, *late;
static long answered;
static int clock_fd; /* a timer among the connections: whichever comes first, the next answer or the next request */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A request carries the time at which it was due. */
static void take_answers(int watcher, int timeout_ms)
{
    struct epoll_event found[AT_ONCE];
    int count = epoll_wait(watcher, found, AT_ONCE, timeout_ms);
    for (int i = 0; i < count; i++) {
        if (found[i].data.fd == clock_fd)
            continue; /* time to send; setting the timer anew resets it */
        int64_t due[64];
        ssize_t got = read(found[i].data.fd, due, sizeof due);
        int64_t now = lab_now_ns();
        for (ssize_t j = 0; j < got / 8; j++)
            delays[answered++] = now - due[j];
    }
}

static void be_clients(void)
{
    long total = plan.rate * plan.duration_ms / 1000, sent = 0;
    delays = calloc((size_t)total + 1, sizeof *delays);
    late = calloc((size_t)total + 1, sizeof *late);
    int watcher = epoll_create1(0);
    if (!delays || !late || watcher < 0)
        lab_fail("cannot prepare");
    for (long i = 0; i < plan.connections; i++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = client[i]};
        if (epoll_ctl(watcher, EPOLL_CTL_ADD, client[i], &wanted))
            lab_fail("epoll_ctl");
    }
    clock_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event tick = {.events = EPOLLIN, .data.fd = clock_fd};
    if (clock_fd < 0 || epoll_ctl(watcher, EPOLL_CTL_ADD, clock_fd, &tick))
        lab_fail("timerfd");
    shared->go = 1;
    usleep(20000);
    struct look before = look_at(shared->server_tid);
    long waits_before = shared->waits;
    int64_t start = lab_now_ns() + 1000000, gap = 1000000000 / plan.rate;
    uint32_t which = 1;
    while (sent < total) {
        int64_t now = lab_now_ns();
        for (; sent < total && start + sent * gap <= now; sent++) {
            int64_t due = start + sent * gap;
            which = which * 1664525 + 1013904223;
            int fd = client[(which >> 8) % (uint32_t)plan.connections];
            if (write(fd, &due, sizeof due) != sizeof due)
                lab_fail("write");
            late[sent] = lab_now_ns() - due;
        }
        int64_t next = start + sent * gap;
        struct itimerspec until = {.it_value = {next / 1000000000, next % 1000000000}};
        bool soon = next - lab_now_ns() < 20000; /* sooner than a sleep would end */
        if (!soon && timerfd_settime(clock_fd, TFD_TIMER_ABSTIME, &until, NULL))
            lab_fail("timerfd_settime");
        take_answers(watcher, soon ? 0 : -1);
    }
    int64_t patience = lab_now_ns() + 2000000000;
    epoll_ctl(watcher, EPOLL_CTL_DEL, clock_fd, NULL);
    while (answered < sent && lab_now_ns() < patience)
        take_answers(watcher, 10);
    long requests = shared->requests, waits = shared->waits - waits_before;
    struct look after = look_at(shared->server_tid);
    long rss_bytes = resident_bytes(shared->server_tid) - shared->rss_bytes;
    for (long i = 0; i < plan.connections; i++)
        close(client[i]);
    qsort(delays, (size_t)answered, sizeof *delays, ascending);
    qsort(late, (size_t)sent, sizeof *late, ascending);
    printf("served by=%s connections=%ld requests=%ld elapsed_ns=%" PRId64 " cpu_ns=%" PRId64
           " voluntary=%ld involuntary=%ld rss_bytes=%ld waits=%ld\n",
           plan.loop ? "loop" : "threads", plan.connections, requests, after.at_ns - before.at_ns,
           after.cpu_ns - before.cpu_ns, after.voluntary - before.voluntary, after.involuntary - before.involuntary,
           rss_bytes, waits);
    printf("client sent=%ld answered=%ld p50_ns=%" PRId64 " p99_ns=%" PRId64 " max_ns=%" PRId64 " late_ns=%" PRId64
           "\n",
           sent, answered, answered ? delays[answered / 2] : 0, answered ? delays[answered * 99 / 100] : 0,
           answered ? delays[answered - 1] : 0, late[sent * 99 / 100]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"by", required_argument, 0, 'b'},          {"connections", required_argument, 0, 'c'},
        {"rate", required_argument, 0, 'r'},        {"duration-ms", required_argument, 0, 'm'},
        {"work-us", required_argument, 0, 'w'},     {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'b':
            plan.loop = !strcmp(optarg, "loop");
            if (!plan.loop && strcmp(optarg, "threads"))
                lab_fail("--by takes loop or threads, not '%s'", optarg);
            break;
        case 'c': plan.connections = lab_number("--connections", optarg, 1, MOST); break;
        case 'r': plan.rate = lab_number("--rate", optarg, 10, 10000000); break;
        case 'm': plan.duration_ms = lab_number("--duration-ms", optarg, 10, 600000); break;
        case 'w': plan.work_us = lab_number("--work-us", optarg, 0, 100000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGPIPE, SIG_IGN);
    work_steps = (long)((double)plan.work_us * steps_per_us());
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    shared = lab_shared(sizeof *shared);
    for (long i = 0; i < plan.connections; i++) {
        int both[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both))
            lab_fail("connection %ld", i);
        client[i] = both[0];
        server[i] = both[1];
    }
    if (lab_fork() == 0) {
        be_server();
        _exit(0);
    }
    for (long i = 0; i < plan.connections; i++)
        close(server[i]);
    while (!shared->server_tid)
        usleep(1000);
    lab_barrier((pid_t[]){lab_tid(), shared->server_tid}, 2);
    be_clients();
    return lab_done();
}
