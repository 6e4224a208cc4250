/* neighbour.c - a program whose work is mostly the kernel's: who does that work, and on whose time?
 *
 * At fixed points in time it does one of two things:
 *
 *     packets   sends datagrams to itself over the loopback device, and receives them.  The kernel delivers them in a
 *               softirq on the CPU of the sender, as the driver of a network card does on the CPU of its interrupt
 *     files     overwrites a part of a file and waits until it is on the disk.  What is left to do, threads of the
 *               kernel do (kworkers)
 *
 *     ready tid=THREAD
 *     neighbour bursts=... units=... cpu_ns=... in_memory=...
 *         units       datagrams that were received, or KiB that were written
 *         in_memory   1: the folder is in memory (tmpfs), so no disk was involved
 *
 * The file has no name, so that nothing is left of it however this program ends, and is never larger than 1 MiB.
 * It lasts --duration-ms.
 */
#include "lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/vfs.h>

enum { DATAGRAM_BYTES = 1000, AT_ONCE = 32, PIECE_KIB = 64, PIECES = 16, TMPFS = 0x01021994 };

static struct {
    long every_us, burst, duration_ms;
    bool files;
    const char *folder;
} plan = {2000, 200, 1000, false, "."};

static int out, in, file = -1;
static char bytes[PIECE_KIB * 1024];

static void open_sockets(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (in < 0 || out < 0 || bind(in, (struct sockaddr *)&here, sizeof here) ||
        getsockname(in, (struct sockaddr *)&here, &size) || connect(out, (struct sockaddr *)&here, size))
        lab_fail("cannot send datagrams over the loopback device");
}

/* A few at a time, because a socket holds only so many that nobody has received. */
static long send_packets(void)
{
    long received = 0;
    for (long sent = 0; sent < plan.burst;) {
        for (int i = 0; i < AT_ONCE && sent < plan.burst; i++, sent++)
            if (send(out, bytes, DATAGRAM_BYTES, MSG_DONTWAIT) < 0 && errno != EAGAIN && errno != ENOBUFS)
                lab_fail("cannot send a datagram");
        while (recv(in, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            received++;
    }
    return received;
}

/* O_TMPFILE makes a file without a name; where the file system has none, the name is taken away at once. */
static void open_file(void)
{
    char name[4096];
    file = open(plan.folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        snprintf(name, sizeof name, "%s/sched-labs-XXXXXX", plan.folder);
        file = mkostemp(name, O_CLOEXEC);
        if (file < 0 || unlink(name))
            lab_fail("cannot write a file in %s", plan.folder);
    }
}

static long write_piece(long burst)
{
    if (pwrite(file, bytes, sizeof bytes, burst % PIECES * (long)sizeof bytes) != (ssize_t)sizeof bytes ||
        fdatasync(file))
        lab_fail("cannot write to a file in %s", plan.folder);
    return PIECE_KIB;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"kind", required_argument, 0, 'k'},        {"folder", required_argument, 0, 'f'},
        {"every-us", required_argument, 0, 'e'},    {"burst", required_argument, 0, 'b'},
        {"duration-ms", required_argument, 0, 'm'}, {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'k':
            plan.files = strcmp(optarg, "files") == 0;
            if (!plan.files && strcmp(optarg, "packets"))
                lab_fail("--kind takes packets or files, not '%s'", optarg);
            break;
        case 'f': plan.folder = optarg; break;
        case 'e': plan.every_us = lab_number("--every-us", optarg, 100, 1000000); break;
        case 'b': plan.burst = lab_number("--burst", optarg, 1, 10000); break;
        case 'm': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 600000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    struct statfs about = {0};
    if (plan.files) {
        open_file();
        if (fstatfs(file, &about))
            lab_fail("cannot look at %s", plan.folder);
    } else {
        open_sockets();
    }
    pid_t tid = lab_tid();
    lab_barrier(&tid, 1);

    struct lab_tally before = lab_tally_now();
    int64_t due_ns = lab_now_ns(), end_ns = due_ns + plan.duration_ms * 1000000;
    long bursts = 0, units = 0;
    for (; due_ns < end_ns; bursts++) {
        units += plan.files ? write_piece(bursts) : send_packets();
        due_ns += plan.every_us * 1000;
        if (due_ns < lab_now_ns()) /* what is late begins at once, and does not come in a crowd */
            due_ns = lab_now_ns();
        lab_sleep_until(due_ns);
    }
    struct lab_tally used = lab_tally_since(before);
    printf("neighbour bursts=%ld units=%ld cpu_ns=%ld in_memory=%d\n", bursts, units, (long)used.cpu_ns,
           about.f_type == TMPFS);
    return lab_done();
}
