/* packets.c - what does a packet cost, and who pays?  UDP over the loopback device, sent in four ways (--way).
 *
 *     paced     one packet for each call, one call every --period-us
 *     single    one packet for each call, call after call
 *     mmsg      --batch packets for each call (sendmmsg)
 *     segments  --batch packets for each call, handed to the network as one large piece (UDP_SEGMENT), and cut at
 *               the receiver's socket
 *
 * The loopback device has no interrupt: it raises the softirq that receives packets (NET_RX) itself, and the kernel
 * runs it before the sender's system call returns.  The receiver is woken by it and fetches up to 64 at a call.
 *
 *     ready tid=SENDER tid=RECEIVER
 *     block trial=0 way=single bytes=64 calls=... sent=... received=... elapsed_ns=... cpu_ns=... user_ns=...
 *         system_ns=... switches=... wait_ns=... receiver_cpu_ns=... receiver_switches=... receives=...
 *         of the sender, where it does not say otherwise; wait_ns: it could run and had no CPU, left out where the
 *         kernel does not tell.  Packets that find the receiver's buffer full are thrown away there.
 *     missing way=segments errno=...   this kernel cannot send in that way
 *
 * Each block but the first waits for a line on standard input, so that whoever watches can look before and after.
 */
#include "lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum way { PACED, SINGLE, MMSG, SEGMENTS, WAYS };
static const char *const names[WAYS] = {"paced", "single", "mmsg", "segments"};
enum { MOST_SIZES = 8, MOST_BATCH = 64, FETCH = 64, MOST_BYTES = 60000 };

static struct {
    long bytes[MOST_SIZES], sizes, batch, period_us, block_ms, trials, ways;
    enum way way[WAYS];
} plan = {.bytes = {64, 1400}, .sizes = 2, .batch = 16, .period_us = 100, .block_ms = 60, .trials = 3};

static int out, in;
static char payload[MOST_BATCH * 4096 > MOST_BYTES ? MOST_BATCH * 4096 : MOST_BYTES];
static struct iovec pieces[MOST_BATCH];
static struct mmsghdr messages[MOST_BATCH];

/* ---- the receiver ------------------------------------------------------------------------------------------- */

static struct {
    _Atomic pid_t tid;
    sem_t go, gone;
    long received, receives;
    struct lab_tally tally;
} receiver;

/* Counts packets until one of a single byte says that the block is over. */
static void *be_receiver(void *unused)
{
    static char space[FETCH][MOST_BYTES];
    static struct iovec parts[FETCH];
    static struct mmsghdr fetched[FETCH];
    for (int i = 0; i < FETCH; i++) {
        parts[i] = (struct iovec){space[i], sizeof space[i]};
        fetched[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    receiver.tid = lab_tid();
    for (;;) {
        while (sem_wait(&receiver.go) && errno == EINTR)
            ;
        receiver.received = receiver.receives = 0;
        struct lab_tally before = lab_tally_now();
        for (bool over = false; !over; receiver.receives++) {
            int count = recvmmsg(in, fetched, FETCH, MSG_WAITFORONE, NULL);
            if (count < 0 && errno != EINTR)
                lab_fail("recvmmsg");
            for (int i = 0; i < count; i++)
                if (fetched[i].msg_len == 1)
                    over = true;
                else
                    receiver.received++;
        }
        receiver.tally = lab_tally_since(before);
        sem_post(&receiver.gone);
    }
    return unused;
}

/* The byte may be thrown away, if it comes while the buffer is full: say it again until it is heard. */
static void end_receiver(void)
{
    for (;;) {
        if (send(out, payload, 1, 0) < 0)
            lab_fail("send");
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!sem_timedwait(&receiver.gone, &until))
            return;
    }
}

/* A second word of the end, said to a receiver that had heard the first, must not end the next block. */
static void forget_the_rest(void)
{
    char byte[16];
    while (recv(in, byte, sizeof byte, MSG_DONTWAIT) >= 0)
        ;
}

/* ---- the sender --------------------------------------------------------------------------------------------- */

/* One call; returns how many packets it sent. */
static long send_once(enum way way, long bytes)
{
    if (way == PACED || way == SINGLE) {
        if (send(out, payload, (size_t)bytes, 0) < 0)
            lab_fail("send");
        return 1;
    }
    if (way == MMSG) {
        int sent = sendmmsg(out, messages, (unsigned)plan.batch, 0);
        if (sent < 1)
            lab_fail("sendmmsg");
        return sent;
    }
    if (send(out, payload, (size_t)(bytes * plan.batch), 0) < 0)
        lab_fail("send in segments");
    return plan.batch;
}

static long waited_ns(void)
{
    char text[128];
    long ns;
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(file, text, sizeof text - 1);
    text[size > 0 ? size : 0] = 0;
    close(file);
    return sscanf(text, "%*d %ld", &ns) == 1 ? ns : -1;
}

static int64_t span_ns(struct timeval from, struct timeval to)
{
    return (to.tv_sec - from.tv_sec) * 1000000000LL + (to.tv_usec - from.tv_usec) * 1000;
}

static void measure(long trial, enum way way, long bytes)
{
    int segment = way == SEGMENTS ? (int)bytes : 0;
    if (setsockopt(out, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) && segment) {
        printf("missing way=%s errno=%d\n", names[way], errno);
        fflush(stdout);
        return;
    }
    for (long i = 0; i < plan.batch; i++)
        pieces[i].iov_len = (size_t)bytes;
    forget_the_rest();
    sem_post(&receiver.go);
    usleep(1000); /* it waits for packets */
    struct rusage before, after;
    long waited = waited_ns(), calls = 0, sent = 0;
    getrusage(RUSAGE_THREAD, &before);
    struct lab_tally tally = lab_tally_now();
    int64_t start = lab_now_ns(), until = start + plan.block_ms * 1000000, end;
    do {
        if (way == PACED)
            lab_sleep_until(start + calls * plan.period_us * 1000);
        sent += send_once(way, bytes);
        calls++;
    } while ((end = lab_now_ns()) < until);
    tally = lab_tally_since(tally);
    getrusage(RUSAGE_THREAD, &after);
    waited = waited < 0 ? -1 : waited_ns() - waited;
    segment = 0;
    setsockopt(out, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
    end_receiver();
    printf("block trial=%ld way=%s bytes=%ld calls=%ld sent=%ld received=%ld elapsed_ns=%ld cpu_ns=%ld user_ns=%ld "
           "system_ns=%ld switches=%ld receiver_cpu_ns=%ld receiver_switches=%ld receives=%ld",
           trial, names[way], bytes, calls, sent, receiver.received, (long)(end - start), (long)tally.cpu_ns,
           (long)span_ns(before.ru_utime, after.ru_utime), (long)span_ns(before.ru_stime, after.ru_stime),
           (long)(tally.voluntary + tally.involuntary), (long)receiver.tally.cpu_ns,
           (long)(receiver.tally.voluntary + receiver.tally.involuntary), receiver.receives);
    if (waited >= 0)
        printf(" wait_ns=%ld", waited);
    putchar('\n');
    fflush(stdout);
}

static enum way way_named(const char *name)
{
    for (int i = 0; i < WAYS; i++)
        if (!strcmp(name, names[i]))
            return (enum way)i;
    lab_fail("--way takes paced, single, mmsg or segments, not '%s'", name);
}

static void open_sockets(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int room = 4 << 20; /* as much of it as this machine allows */
    in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (in < 0 || out < 0 || bind(in, (struct sockaddr *)&here, sizeof here) ||
        getsockname(in, (struct sockaddr *)&here, &length) || connect(out, (struct sockaddr *)&here, sizeof here))
        lab_fail("no UDP over the loopback device");
    setsockopt(in, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"way", required_argument, 0, 'w'},
        {"bytes", required_argument, 0, 'y'},     {"batch", required_argument, 0, 'n'},
        {"period-us", required_argument, 0, 'p'}, {"block-ms", required_argument, 0, 'b'},
        {"trials", required_argument, 0, 't'},    {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w':
            if (plan.ways == WAYS)
                lab_fail("--way can be given %d times", WAYS);
            plan.way[plan.ways++] = way_named(optarg);
            break;
        case 'y':
            plan.sizes = 0;
            for (char *word = strtok(optarg, ","); word && plan.sizes < MOST_SIZES; word = strtok(NULL, ","))
                plan.bytes[plan.sizes++] = lab_number("--bytes", word, 2, 4096);
            break;
        case 'n': plan.batch = lab_number("--batch", optarg, 1, MOST_BATCH); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 1, 1000000); break;
        case 'b': plan.block_ms = lab_number("--block-ms", optarg, 1, 60000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    if (!plan.ways)
        while (plan.ways < WAYS) {
            plan.way[plan.ways] = (enum way)plan.ways;
            plan.ways++;
        }
    for (long i = 0; i < plan.sizes; i++)
        if (plan.bytes[i] * plan.batch > MOST_BYTES)
            lab_fail("--batch packets of --bytes are more than one piece can hold, %d bytes", MOST_BYTES);
    lab_begin(deadline_s);
    prctl(PR_SET_TIMERSLACK, 1);
    open_sockets();
    for (long i = 0; i < plan.batch; i++) {
        pieces[i] = (struct iovec){payload + i * 4096, 0};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    sem_init(&receiver.go, 0, 0);
    sem_init(&receiver.gone, 0, 0);
    lab_thread(be_receiver, NULL);
    while (!receiver.tid)
        usleep(100);
    lab_barrier((pid_t[]){lab_tid(), receiver.tid}, 2);
    /* The order turns round from trial to trial, so that slow drift cancels. */
    long cases = plan.ways * plan.sizes;
    for (long trial = 0; trial < plan.trials; trial++)
        for (long i = 0; i < cases; i++) {
            long at = trial % 2 ? cases - 1 - i : i;
            if (trial + i > 0)
                lab_wait_for_a_line();
            measure(trial, plan.way[at % plan.ways], plan.bytes[at / plan.ways]);
        }
    return lab_done(); /* the receiver ends with us */
}
