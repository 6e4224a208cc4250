/* actor.c - a program of an incident: a service, its clients, a batch job, or one who looks at others.
 *
 * All programs of an incident are this one, under names of their own, so that neither a name nor an argument says
 * what is wrong.  It is told what it does in lines of key=value on standard input, at the start and again later:
 *
 *     kind=service workers=4 cpu_us=300 wait_us=20000
 *
 * and by its file etc/NAME.conf, whose lines win, and which is read again when it changes.  What it has done it
 * counts in run/NAME.stats.  It ends when standard input does, at its deadline, and with whoever started it.
 *
 *     client    sends requests at fixed moments, whether or not answers come, and takes the time of the answers
 *     service   a loop that receives, and workers (0: the loop does the work itself); may ask another service
 *     batch     threads that have a fixed amount of work in every period; a service may have some, too
 *     sampler   looks at another process again and again, may stop it meanwhile, and may listen to what is published
 */
#include "lab.h"
#include "work.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { MOST_THREADS = 256, MOST_PEERS = 96, MOST_QUEUED = 64, MOST_DUE = 4096, MOST_EARS = 256, BINS = 96 };
enum { CLIENT, SERVICE, BATCH, SAMPLER };

/* What it may be told.  Those before the mark may stand in the file, too. */
#define KEYS(X)                                                                                                        \
    X(workers) X(threads) X(offload_slow) X(audit_async) X(copy_snapshot) X(linger_ms) X(poll_ms) X(freeze)            \
    X(spin) X(wake_all) X(reuse_memory) X(yield) X(loops) X(balance) X(slack_ms) X(publish) X(listen)                  \
    X(visible_end)                                                                                                     \
    X(kind) X(deadline_s) X(seed) X(rate_per_s) X(cycle_ms) X(target_us) X(cpu_us) X(wait_us) X(slow_every)            \
    X(slow_cpu_us) X(slow_wait_us) X(ask_every) X(lock_us) X(snapshot_ms) X(snapshot_every_ms) X(period_ms) X(work_us) \
    X(stop_ms) X(target) X(check_us) X(fresh_us) X(connections) X(port) X(hear_us)
#define AS_ENUM(name) K_##name,
#define AS_TEXT(name) #name,
enum { KEYS(AS_ENUM) KEY_COUNT };
static const char *const key_names[] = {KEYS(AS_TEXT)};

static _Atomic long told[KEY_COUNT], in_file[KEY_COUNT]; /* in_file: -1 where it says nothing */
static char own_name[64], peer[64];
static double steps_each_us;

static long get(int key)
{
    long own = key < K_visible_end ? in_file[key] : -1;
    return own >= 0 ? own : told[key];
}
#define GET(name) get(K_##name)

static struct stats {
    _Atomic int64_t due, flying, answered, in_time, refused;         /* of a client's requests; flying: now */
    _Atomic int64_t received, started, finished, replied, flushes;   /* of a service's */
    _Atomic int64_t work_us, samples;                                /* of what is due in every period */
    _Atomic int64_t loop_tid, flusher_tid;
    _Atomic int64_t bins[BINS];                                      /* times to answer: four bins to a doubling */
} *stats;

struct request {
    int64_t due_ns;
    uint32_t number, refused;
};

struct item {
    struct request request;
    int to;
};

/* ---- being told ---- */

static void set(_Atomic long *where, int count, const char *word, const char *text, bool file)
{
    long value = !strcmp(text, "yes") ? 1 : !strcmp(text, "no") ? 0 : -1;
    char *end = NULL;
    if (value < 0) {
        value = strtol(text, &end, 10);
        if (!*text || *end || value < 0)
            value = -1;
    }
    for (int key = 0; key < count; key++) {
        if (strcmp(key_names[key], word))
            continue;
        bool is_time = key == K_linger_ms || key == K_poll_ms || key == K_slack_ms;
        if (value < 0 || (file && value > (is_time ? 1000 : MOST_THREADS))) {
            fprintf(stderr, "%s = %s: not taken\n", word, text);
            return;
        }
        where[key] = value;
        return;
    }
    if (file)
        fprintf(stderr, "%s: no such setting\n", word);
}

static void hear(char *line)
{
    char *rest = NULL;
    for (char *word = strtok_r(line, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = 0;
        if (!strcmp(word, "peer"))
            snprintf(peer, sizeof peer, "%s", equals + 1);
        else
            set(told, KEY_COUNT, word, equals + 1, false);
    }
}

static char *strip(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);)
        *--end = 0;
    return text;
}

static void read_file(void)
{
    static struct timespec last;
    char path[96], line[256];
    snprintf(path, sizeof path, "etc/%s.conf", own_name);
    struct stat now;
    if (stat(path, &now) || (now.st_mtim.tv_sec == last.tv_sec && now.st_mtim.tv_nsec == last.tv_nsec))
        return;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    bool again = last.tv_sec != 0;
    last = now.st_mtim;
    _Atomic long fresh[K_visible_end];
    for (int key = 0; key < K_visible_end; key++)
        fresh[key] = -1;
    while (fgets(line, sizeof line, file)) {
        char *hash = strchr(line, '#');
        if (hash)
            *hash = 0;
        char *equals = strchr(line, '=');
        if (equals) {
            *equals = 0;
            set(fresh, K_visible_end, strip(line), strip(equals + 1), true);
        }
    }
    fclose(file);
    for (int key = 0; key < K_visible_end; key++)
        in_file[key] = fresh[key];
    if (again)
        fprintf(stderr, "%s: read again\n", path);
}

/* ---- what every one does ---- */

static void busy(long us)
{
    work((long)(steps_each_us * (double)us));
}

/* Takes new memory, piece by piece, until that has cost so much CPU time: how many pages they are, the machine says. */
static void take_memory(long us)
{
    enum { PIECE = 256 << 10, STEP = 4096 };
    int64_t end = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000;
    while (us && lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
        volatile char *piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED)
            return;
        madvise((void *)piece, PIECE, MADV_NOHUGEPAGE);
        for (int i = 0; i < PIECE; i += STEP)
            piece[i] = 1;
        munmap((void *)piece, PIECE);
    }
}

static void rest_us(long us)
{
    static __thread long slack_ms; /* so much later than asked for may the kernel end a sleep, to end several at once */
    if (slack_ms != GET(slack_ms)) {
        slack_ms = GET(slack_ms);
        prctl(PR_SET_TIMERSLACK, slack_ms * 1000000); /* 0: the usual 50 us */
    }
    if (us > 0)
        lab_sleep_until(lab_now_ns() + us * 1000);
}

/* Datagrams for whoever listens on this machine.  On loopback the receiving half of each, with the filters of all who
 * listen, is softirq work that is done at once, in the time of the thread that sends. */
static void publish(long count)
{
    static __thread int to = -1;
    struct sockaddr_in all = {.sin_family = AF_INET, .sin_port = htons((uint16_t)GET(port))};
    all.sin_addr.s_addr = htonl(0x7fffffff); /* 127.255.255.255 */
    if (count && to < 0) {
        to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        setsockopt(to, SOL_SOCKET, SO_BROADCAST, &(int){1}, sizeof(int));
    }
    while (count-- > 0) {
        ssize_t said = sendto(to, "step", 4, MSG_DONTWAIT, (struct sockaddr *)&all, sizeof all);
        (void)said; /* nobody has to listen */
    }
}

/* The same fate for the same request in every round: 0 to 999. */
static uint32_t lot(uint32_t number)
{
    uint32_t x = (number + 1) * 2654435761u + (uint32_t)GET(seed);
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return x % 1000;
}

static void address_of(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "run/%.64s.sock", name);
}

static int connected(const char *name)
{
    struct sockaddr_un address;
    address_of(&address, name);
    int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (to >= 0 && connect(to, (struct sockaddr *)&address, sizeof address)) {
        close(to);
        to = -1;
    }
    return to;
}

/* ---- a client ---- */

static _Atomic int lines_to[MOST_PEERS]; /* its connections; 0: none */

static int connections(void)
{
    long count = GET(connections);
    return count < 1 ? 1 : count > MOST_PEERS - 1 ? MOST_PEERS - 1 : (int)count;
}

/* All of them anew: who was at their ends has gone, with the requests that it had. */
static void connect_again(void)
{
    int old[MOST_PEERS];
    for (int i = 0; i < connections(); i++) {
        old[i] = atomic_exchange(&lines_to[i], 0);
        if (old[i])
            shutdown(old[i], SHUT_RDWR);
    }
    rest_us(20000);
    for (int i = 0; i < connections(); i++)
        if (old[i])
            close(old[i]);
    stats->flying = 0;
    for (int i = 0; i < connections(); i++) {
        int to = connected(peer), room = 1; /* the kernel makes the least of it: a few requests */
        if (to >= 0 && connections() > 1)
            setsockopt(to, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        lines_to[i] = to < 0 ? 0 : to;
    }
}

/* Four bins to each doubling of the time: bin 4 * e + q begins at (1 + q / 4) * 2^e µs. */
static int bin_of(int64_t us)
{
    if (us < 4)
        return 0;
    int e = 63 - __builtin_clzll((unsigned long long)us), bin = 4 * e + (int)(us >> (e - 2) & 3);
    return bin < BINS ? bin : BINS - 1;
}

static void take_answer(struct request answer)
{
    int64_t took = lab_now_ns() - answer.due_ns;
    stats->flying--;
    if (answer.refused) {
        stats->refused++;
        return;
    }
    stats->bins[bin_of(took / 1000)]++;
    stats->answered++;
    if (took <= GET(target_us) * 1000)
        stats->in_time++;
}

static void *be_receiver(void *unused)
{
    (void)unused;
    for (;;) {
        struct pollfd from[MOST_PEERS];
        struct request answer;
        bool whole = true;
        for (int i = 0; i < connections(); i++) {
            from[i] = (struct pollfd){.fd = lines_to[i] ? lines_to[i] : -1, .events = POLLIN};
            whole &= from[i].fd >= 0;
        }
        if (whole)
            poll(from, (nfds_t)connections(), -1);
        for (int i = 0; whole && i < connections(); i++) {
            if (!from[i].revents)
                continue;
            if (recv(from[i].fd, &answer, sizeof answer, 0) == sizeof answer)
                take_answer(answer);
            else
                whole = false;
        }
        if (!whole)
            connect_again();
    }
    return NULL;
}

/* Every cycle is the same: as many requests, at the same moments in it. */
static void be_client(void)
{
    static int64_t due[MOST_DUE];
    lab_thread(be_receiver, NULL);
    int64_t begin = lab_now_ns();
    for (uint32_t cycle = 0;; cycle++) {
        int count = 0;
        int64_t length = GET(cycle_ms) * 1000000;
        uint64_t state = (uint64_t)GET(seed) * 6364136223846793005u + 1442695040888963407u;
        double at = 0;
        for (; count < MOST_DUE; count++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            double gap = 0.2 + 1.6 * (double)(state >> 11) / 9007199254740992.0; /* of the mean gap */
            at += gap * 1e9 / (double)GET(rate_per_s);
            if (at >= (double)length)
                break;
            due[count] = (int64_t)at;
        }
        for (int i = 0; i < count; i++) {
            struct request one = {begin + due[i], (uint32_t)i, 0};
            lab_sleep_until(one.due_ns);
            stats->due++;
            int to = lines_to[i % connections()];
            stats->flying++;
            if (!to || send(to, &one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof one) {
                stats->flying--;
                stats->refused++; /* the line is full, or there is nobody at its end */
            }
        }
        begin += length;
        lab_sleep_until(begin);
    }
}

/* ---- a service ---- */

static struct queue {
    pthread_mutex_t lock;
    int wake; /* of the helper, who waits for the slow ones */
    unsigned first;
    _Atomic unsigned count;
    struct item items[MOST_QUEUED];
} work_queue = {.lock = PTHREAD_MUTEX_INITIALIZER}, slow_queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER; /* what audits and snapshots hold */
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static struct item out[1024];
static int out_count;
static _Atomic long audits_open;
static int audit_wake;

static void wake(int handle)
{
    uint64_t one = 1;
    ssize_t said = write(handle, &one, sizeof one);
    (void)said;
}

static void wait_for(int handle)
{
    uint64_t one;
    ssize_t got = read(handle, &one, sizeof one);
    (void)got;
}

/* Eventfds: who waits for work does not look like one who waits for a lock; one for each, so that it wakes no other. */
static int bells[MOST_THREADS];
static _Atomic bool idle[MOST_THREADS];

static void wake_workers(void)
{
    bool all = GET(wake_all);
    for (long i = 0, count = GET(workers); i < count && i < MOST_THREADS; i++)
        if (atomic_exchange(&idle[i], false) || all) {
            wake(bells[i]);
            if (!all)
                return;
        }
}

static bool put(struct queue *queue, struct item one)
{
    pthread_mutex_lock(&queue->lock);
    bool room = queue->count < MOST_QUEUED;
    if (room)
        queue->items[(queue->first + queue->count++) % MOST_QUEUED] = one;
    pthread_mutex_unlock(&queue->lock);
    if (room && queue == &work_queue)
        wake_workers();
    else if (room)
        wake(queue->wake);
    return room;
}

static bool take(struct queue *queue, struct item *one)
{
    pthread_mutex_lock(&queue->lock);
    bool some = queue->count > 0;
    if (some) {
        *one = queue->items[queue->first];
        queue->first = (queue->first + 1) % MOST_QUEUED;
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    return some;
}

static void reply(struct item one)
{
    ssize_t said = send(one.to, &one.request, sizeof one.request, MSG_NOSIGNAL);
    (void)said; /* a client that has gone needs no answer */
    stats->replied++;
}

static void answer(struct item one)
{
    stats->finished++;
    if (!GET(linger_ms)) {
        reply(one);
        return;
    }
    pthread_mutex_lock(&out_lock);
    bool room = out_count < (int)(sizeof out / sizeof *out);
    if (room)
        out[out_count++] = one;
    pthread_mutex_unlock(&out_lock);
    if (!room)
        reply(one);
}

static void *be_flusher(void *unused)
{
    (void)unused;
    stats->flusher_tid = lab_tid();
    static struct item now[sizeof out / sizeof *out];
    for (int64_t next = lab_now_ns();;) {
        long pause = GET(linger_ms);
        next += (pause ? pause : 200) * 1000000;
        if (next < lab_now_ns())
            next = lab_now_ns();
        lab_sleep_until(next);
        pthread_mutex_lock(&out_lock);
        int count = out_count;
        memcpy(now, out, (size_t)count * sizeof *now);
        out_count = 0;
        pthread_mutex_unlock(&out_lock);
        for (int i = 0; i < count; i++)
            reply(now[i]);
        stats->flushes += count > 0;
    }
    return NULL;
}

static void ask_peer(struct request request)
{
    static __thread int to = -1;
    struct request found;
    for (int tries = 0; tries < 2; tries++) {
        if (to < 0)
            to = connected(peer);
        if (to >= 0 && send(to, &request, sizeof request, MSG_NOSIGNAL) == sizeof request &&
            recv(to, &found, sizeof found, 0) == sizeof found)
            return;
        if (to >= 0)
            close(to);
        to = -1;
    }
}

static void slow_part(struct request request)
{
    rest_us(GET(slow_wait_us));
    busy(GET(slow_cpu_us));
    if (!GET(reuse_memory))
        take_memory(GET(fresh_us));
    if (GET(ask_every))
        ask_peer(request);
}

static bool is_slow(struct request request)
{
    long every = GET(slow_every) ? GET(slow_every) : GET(ask_every);
    return every && lot(request.number) % (uint32_t)every == 0;
}

static void serve(struct item one)
{
    stats->started++;
    busy(GET(cpu_us) * (500 + (long)lot(one.request.number)) / 1000);
    publish(GET(publish));
    rest_us(GET(wait_us));
    if (GET(lock_us) || GET(snapshot_ms)) {
        if (GET(audit_async)) {
            audits_open++;
            wake(audit_wake);
        } else {
            pthread_mutex_lock(&books);
            rest_us(GET(lock_us));
            pthread_mutex_unlock(&books);
        }
    }
    if (is_slow(one.request)) {
        if (GET(offload_slow) && put(&slow_queue, one))
            return;
        slow_part(one.request);
    }
    answer(one);
}

static void *be_slow_helper(void *unused)
{
    (void)unused;
    for (struct item one;;) {
        wait_for(slow_queue.wake);
        if (take(&slow_queue, &one)) {
            slow_part(one.request);
            answer(one);
        }
    }
    return NULL;
}

/* All audits that are open cost one entry in the books. */
static void *be_auditor(void *unused)
{
    (void)unused;
    for (;;) {
        wait_for(audit_wake);
        long count = atomic_exchange(&audits_open, 0);
        if (count)
            rest_us(GET(lock_us));
    }
    return NULL;
}

static void *be_snapshot(void *unused)
{
    (void)unused;
    for (int64_t next = lab_now_ns();;) {
        long every = GET(snapshot_every_ms), length = GET(snapshot_ms);
        next += (every ? every : 200) * 1000000;
        if (next < lab_now_ns())
            next = lab_now_ns();
        lab_sleep_until(next);
        if (!every || !length)
            continue;
        bool hold = !GET(copy_snapshot);
        if (hold)
            pthread_mutex_lock(&books);
        rest_us(length * 1000);
        if (hold)
            pthread_mutex_unlock(&books);
        stats->samples++;
    }
    return NULL;
}

static _Atomic bool has_worker[MOST_THREADS], has_job[MOST_THREADS];

static void *be_worker(void *argument)
{
    long me = (long)argument;
    for (struct item one;;) {
        if (me >= GET(workers)) {
            wake_workers(); /* what woke this one may have been meant for work */
            has_worker[me] = false;
            return NULL;
        }
        if (work_queue.count && take(&work_queue, &one)) {
            serve(one);
            continue;
        }
        if (GET(yield)) { /* looks through all that it keeps, finds nothing, and lets another one look */
            busy(GET(check_us));
            sched_yield();
            continue;
        }
        if (GET(spin))
            continue;
        idle[me] = true;
        if (!work_queue.count)
            wait_for(bells[me]);
        idle[me] = false;
        if (GET(wake_all) && !work_queue.count) /* for nothing, and it looks through all that it keeps to find out */
            busy(GET(check_us));
    }
}

static void take_in(struct request request, int from)
{
    struct item one = {request, from};
    stats->received++;
    if (GET(workers) == 0) {
        serve(one);
    } else if (!put(&work_queue, one)) {
        one.request.refused = 1;
        stats->started++;
        stats->finished++;
        reply(one);
    }
}

/* The lines of those who ask, each of which belongs to one of the loops; 0: none. */
static _Atomic int lines[MOST_PEERS];
static _Atomic bool has_loop[MOST_THREADS];
static int listener;

static int loops(void)
{
    long count = GET(loops);
    return count < 1 ? 1 : (int)count;
}

static int owner(int line)
{
    return GET(balance) ? line % loops() : 0;
}

static void take_from(int number)
{
    struct request request;
    for (int line = lines[number];;) {
        ssize_t got = recv(line, &request, sizeof request, MSG_DONTWAIT);
        if (got == sizeof request) {
            take_in(request, line);
        } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            lines[number] = 0;
            close(line);
            return;
        }
    }
}

static void take_a_line(void)
{
    for (int i = 0; i < MOST_PEERS; i++)
        if (!lines[i]) {
            int fresh = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            lines[i] = fresh < 0 ? 0 : fresh;
            return;
        }
}

/* The first one also takes in who wants to be connected. */
static void *be_loop(void *argument)
{
    long me = (long)argument;
    while (me < loops()) {
        struct pollfd ready[MOST_PEERS + 1];
        int number[MOST_PEERS], count = 0;
        if (GET(poll_ms))
            rest_us(GET(poll_ms) * 1000);
        for (int i = 0; i < MOST_PEERS; i++)
            if (lines[i] && owner(i) == me) {
                number[count] = i;
                ready[count++] = (struct pollfd){.fd = lines[i], .events = POLLIN};
            }
        ready[count] = (struct pollfd){.fd = me ? -1 : listener, .events = POLLIN};
        if (poll(ready, (nfds_t)count + 1, GET(poll_ms) ? 0 : 500) < 0 && errno != EINTR)
            lab_fail("cannot wait for requests");
        for (int i = 0; i < count; i++)
            if (ready[i].revents && lines[number[i]] == ready[i].fd)
                take_from(number[i]);
        if (ready[count].revents)
            take_a_line();
    }
    has_loop[me] = false;
    return NULL;
}

static void be_service(void)
{
    struct sockaddr_un address;
    address_of(&address, own_name);
    unlink(address.sun_path);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, MOST_PEERS))
        lab_fail("cannot listen");
    stats->loop_tid = lab_tid();
    /* What one before this one had in hand has gone with it. */
    int64_t received = stats->received;
    stats->started = received;
    stats->finished = received;
    stats->replied = received;
    lab_thread(be_slow_helper, NULL);
    lab_thread(be_auditor, NULL);
    lab_thread(be_snapshot, NULL);
    lab_thread(be_flusher, NULL);
    be_loop((void *)0);
}

/* ---- work that is due in every period ---- */

static void *be_job(void *argument)
{
    long me = (long)argument;
    for (;;) {
        long threads = GET(threads), period = GET(period_ms), amount = GET(work_us);
        if (me >= threads) {
            has_job[me] = false;
            return NULL;
        }
        int64_t length = (period ? period : 200) * 1000000, begin = lab_now_ns() / length * length;
        if (period && amount) {
            for (long left = amount / threads; left > 0; left -= 1000) {
                busy(left < 1000 ? left : 1000);
                stats->work_us += left < 1000 ? left : 1000;
            }
        }
        /* A period that has passed over the work is lost. */
        int64_t next = begin + length;
        lab_sleep_until(next > lab_now_ns() ? next : (lab_now_ns() / length + 1) * length);
    }
}

/* One more who listens to what is published, and whose filter computes for a while and keeps nothing. */
static int new_ear(void)
{
    enum { STEPS = 1000 };
    struct sock_filter steps[STEPS + 1] = {BPF_STMT(BPF_LD | BPF_IMM, 1)};
    for (int i = 1; i < STEPS; i++)
        steps[i] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 3);
    steps[STEPS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog filter = {STEPS + 1, steps};
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)GET(port))};
    here.sin_addr.s_addr = htonl(0x7fffffff);
    int ear = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    setsockopt(ear, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (setsockopt(ear, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) ||
        bind(ear, (struct sockaddr *)&here, sizeof here))
        fprintf(stderr, "cannot listen: %s\n", strerror(errno));
    return ear;
}

/* As many ears as make a datagram take hear_us; none where nobody is to listen. */
static void prick_up_ears(void)
{
    static int ears[MOST_EARS], count;
    static bool listens;
    bool wanted = GET(listen) && GET(hear_us);
    while (!wanted && count > 0)
        close(ears[--count]);
    for (int64_t least = 0; wanted && !listens && count < MOST_EARS && least < GET(hear_us) * 1000;) {
        ears[count++] = new_ear();
        least = INT64_MAX;
        for (int i = 0; i < 20; i++) {
            int64_t before = lab_now_ns();
            publish(1);
            int64_t took = lab_now_ns() - before;
            if (took < least)
                least = took;
        }
    }
    listens = wanted;
}

static void be_sampler(void)
{
    for (int64_t next = lab_now_ns();;) {
        long period = GET(period_ms), pid = GET(target);
        next += (period ? period : 200) * 1000000;
        if (next < lab_now_ns())
            next = lab_now_ns();
        lab_sleep_until(next);
        prick_up_ears();
        if (!pid || !period)
            continue;
        bool stop = GET(freeze) && GET(stop_ms);
        if (stop)
            kill((pid_t)pid, SIGSTOP);
        char path[64], text[512];
        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        bool got = file >= 0 && read(file, text, sizeof text) > 0;
        if (file >= 0)
            close(file);
        busy(GET(work_us));
        if (stop) {
            rest_us(GET(stop_ms) * 1000);
            kill((pid_t)pid, SIGCONT);
        }
        stats->samples += got;
    }
}

/* ---- beginning and end ---- */

/* As many threads as it is to have; those that are too many end by themselves. */
static void fill(_Atomic bool *has, long wanted, void *(*function)(void *))
{
    for (long i = 0; i < wanted && i < MOST_THREADS; i++)
        if (!has[i]) {
            has[i] = true;
            pthread_detach(lab_thread(function, (void *)i));
        }
}

static void settle(void)
{
    read_file();
    if (GET(kind) == SERVICE) {
        fill(has_worker, GET(workers), be_worker);
        for (long i = GET(workers); i < MOST_THREADS; i++)
            if (has_worker[i])
                wake(bells[i]);
        fill(has_loop, loops(), be_loop);
    }
    if (GET(kind) == SERVICE || GET(kind) == BATCH)
        fill(has_job, GET(threads), be_job);
}

static void *be_manager(void *unused)
{
    (void)unused;
    static char line[4096];
    size_t have = 0;
    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&input, 1, 500) > 0) {
            ssize_t got = read(STDIN_FILENO, line + have, sizeof line - 1 - have);
            if (got <= 0)
                _exit(0); /* whoever started us has gone */
            have += (size_t)got;
            line[have] = 0;
            char *end = strrchr(line, '\n');
            if (end) {
                *end = 0;
                hear(line);
                have = 0;
            }
        }
        settle();
    }
    return NULL;
}

static void hear_the_first_line(void)
{
    char line[4096];
    size_t have = 0;
    while (have < sizeof line - 1 && read(STDIN_FILENO, line + have, 1) == 1 && line[have] != '\n')
        have++;
    line[have] = 0;
    hear(line);
}

int main(int argc, char **argv)
{
    (void)argc;
    const char *slash = strrchr(argv[0], '/');
    snprintf(own_name, sizeof own_name, "%s", slash ? slash + 1 : argv[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setvbuf(stderr, NULL, _IOLBF, 0);
    for (int key = 0; key < KEY_COUNT; key++)
        in_file[key] = -1;
    hear_the_first_line();
    alarm((unsigned)GET(deadline_s));
    char path[96];
    snprintf(path, sizeof path, "run/%s.stats", own_name);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *stats))
        lab_fail("cannot write %s", path);
    stats = mmap(NULL, sizeof *stats, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (stats == MAP_FAILED)
        lab_fail("cannot map %s", path);
    close(file);
    steps_each_us = steps_per_us();
    for (int i = 0; i < MOST_THREADS && GET(kind) == SERVICE; i++)
        bells[i] = eventfd(0, EFD_CLOEXEC);
    has_loop[0] = true; /* the main thread itself */
    slow_queue.wake = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    audit_wake = eventfd(0, EFD_CLOEXEC);
    settle();
    lab_thread(be_manager, NULL);
    switch (GET(kind)) {
    case CLIENT: be_client(); break;
    case SERVICE: be_service(); break;
    case SAMPLER: be_sampler(); break;
    default:
        for (;;)
            pause();
    }
    return 0;
}
