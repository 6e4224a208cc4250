/* echo.c - the same echo by several event loops, asked by the same clients.
 *
 *     echo serve ours|libevent|libuv PATH CONNECTIONS
 *         accepts so many connections on a Unix socket and sends back what comes; ends when all have gone.
 *         `ours` is the loop of connections.c itself.  The others are as thin as their libraries allow: one
 *         callback, one read, one write.
 *     echo ask CONNECTIONS REQUESTS BLOCKS NAME=PATH=PID ...
 *         one request under way on every connection, the next as soon as the answer is there (what redis-benchmark
 *         does), with one server after the other; prints the CPU time that each server needed for a block:
 *             block by=ours requests=... cpu_ns=...
 *
 * A request is the line "PING", which Redis answers as well.
 */
#define main connections_main
#include "connections.c"
#undef main

#include <sys/un.h>
#ifdef WITH_LIBEVENT
#include <event2/event.h>
#endif
#ifdef WITH_LIBUV
#include <uv.h>
#endif

enum { MOST_SERVERS = 8, DEADLINE_S = 120 };
static const char line[] = "PING\r\n";

/* ---- servers --------------------------------------------------------------------------------------------- */

static void accept_all(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int door = socket(AF_UNIX, SOCK_STREAM, 0);
    if (door < 0 || bind(door, (struct sockaddr *)&address, sizeof address) || listen(door, (int)plan.connections))
        lab_fail("%s", path);
    for (long i = 0; i < plan.connections; i++)
        if ((server[i] = accept(door, NULL, NULL)) < 0)
            lab_fail("accept");
    close(door);
}

#ifdef WITH_LIBEVENT
static long still_open;
static struct event_base *base;
static struct event *watched[MOST];

static void answer_event(evutil_socket_t fd, short what, void *number)
{
    (void)what;
    char request[8 * 64];
    ssize_t got = read(fd, request, sizeof request);
    if (got > 0 && write(fd, request, (size_t)got) == got)
        return;
    event_del(watched[(intptr_t)number]);
    if (--still_open == 0)
        event_base_loopbreak(base);
}

static void run_libevent(void)
{
    base = event_base_new();
    still_open = plan.connections;
    for (intptr_t i = 0; i < plan.connections; i++) {
        watched[i] = event_new(base, server[i], EV_READ | EV_PERSIST, answer_event, (void *)i);
        event_add(watched[i], NULL);
    }
    event_base_dispatch(base);
}
#endif

#ifdef WITH_LIBUV
static char answer_bytes[8 * 64];
static uv_pipe_t pipes[MOST];

static void lend(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
    (void)handle, (void)wanted;
    *buffer = uv_buf_init(answer_bytes, sizeof answer_bytes);
}

static void answer_stream(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    uv_buf_t answer = uv_buf_init(buffer->base, got > 0 ? (unsigned)got : 0);
    if (got < 0 || (got > 0 && uv_try_write(stream, &answer, 1) != got))
        uv_close((uv_handle_t *)stream, NULL);
}

static void run_libuv(void)
{
    for (long i = 0; i < plan.connections; i++) {
        uv_pipe_init(uv_default_loop(), &pipes[i], 0);
        uv_pipe_open(&pipes[i], server[i]);
        uv_read_start((uv_stream_t *)&pipes[i], lend, answer_stream);
    }
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
#endif

static int be_one(const char *by, const char *path)
{
    if (!strcmp(by, "ours")) {
        accept_all(path);
        run_loop();
        return 0;
    }
#ifdef WITH_LIBEVENT
    if (!strcmp(by, "libevent")) {
        accept_all(path);
        run_libevent();
        return 0;
    }
#endif
#ifdef WITH_LIBUV
    if (!strcmp(by, "libuv")) {
        accept_all(path);
        run_libuv();
        return 0;
    }
#endif
    lab_fail("there is no server '%s' in this build", by);
}

/* ---- the clients ------------------------------------------------------------------------------------------ */

static struct peer {
    const char *name;
    clockid_t clock; /* CPU time of its process */
    int watcher, fds[MOST];
} peers[MOST_SERVERS];

static void reach(struct peer *one, char *spec)
{
    char *path = strchr(spec, '='), *pid = path ? strchr(path + 1, '=') : NULL;
    if (!pid)
        lab_fail("'%s' is not NAME=PATH=PID", spec);
    *path++ = *pid++ = 0;
    one->name = spec;
    if (clock_getcpuclockid((pid_t)atol(pid), &one->clock))
        lab_fail("no clock of process %s", pid);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    one->watcher = epoll_create1(0);
    for (long i = 0; i < plan.connections; i++) {
        struct epoll_event wanted = {.events = EPOLLIN};
        wanted.data.fd = one->fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(one->fds[i], (struct sockaddr *)&address, sizeof address) ||
            epoll_ctl(one->watcher, EPOLL_CTL_ADD, one->fds[i], &wanted))
            lab_fail("%s", path);
    }
}

static void request(int fd)
{
    if (write(fd, line, sizeof line - 1) != sizeof line - 1)
        lab_fail("a server has gone");
}

/* All answers are shorter than this and end with a line's end; a request goes out for each until all are asked. */
static int64_t ask(struct peer *one, long total)
{
    struct epoll_event found[AT_ONCE];
    int64_t before = lab_clock_ns(one->clock);
    long asked = 0, got = 0;
    for (; asked < plan.connections && asked < total; asked++)
        request(one->fds[asked]);
    while (got < total) {
        int count = epoll_wait(one->watcher, found, AT_ONCE, 5000);
        if (count < 1)
            lab_fail("%s does not answer", one->name);
        for (int i = 0; i < count; i++) {
            char answer[64];
            ssize_t length = read(found[i].data.fd, answer, sizeof answer);
            if (length < 1)
                lab_fail("%s has hung up", one->name);
            if (answer[length - 1] != '\n')
                continue;
            got++;
            if (asked++ < total)
                request(found[i].data.fd);
        }
    }
    return lab_clock_ns(one->clock) - before;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(DEADLINE_S);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (!strcmp(argv[1], "serve")) {
        shared = lab_shared(sizeof *shared);
        plan.connections = lab_number("CONNECTIONS", argv[4], 1, MOST);
        return be_one(argv[2], argv[3]);
    }
    plan.connections = lab_number("CONNECTIONS", argv[2], 1, MOST);
    long total = lab_number("REQUESTS", argv[3], plan.connections, 100000000);
    long blocks = lab_number("BLOCKS", argv[4], 1, 10000);
    int count = argc - 5;
    if (count > MOST_SERVERS)
        return 2;
    for (int i = 0; i < count; i++)
        reach(&peers[i], argv[5 + i]);
    for (long block = -1; block < blocks; block++) /* the first one warms up; the order turns round each time */
        for (int i = 0; i < count; i++) {
            struct peer *one = &peers[block % 2 ? i : count - 1 - i];
            int64_t cpu_ns = ask(one, total);
            if (block >= 0)
                printf("block by=%s requests=%ld cpu_ns=%" PRId64 "\n", one->name, total, cpu_ns);
        }
    return 0;
}
